#!/usr/bin/env python3
"""Installs Trireme, moves the installation, and builds and runs a user's program against it."""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

OPTIONS = None
EXAMPLE = "examples/bring_your_own"


def run(*command, **options):
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\nended with {result.returncode}:\n{result.stdout}\n{result.stderr}")
    return result.stdout


class InstalledPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="trireme-installed-")
        first = os.path.join(cls.folder, "first")
        run("cmake", "--install", OPTIONS.build, "--prefix", first)
        cls.prefix = os.path.join(cls.folder, "moved", "here")
        os.makedirs(os.path.dirname(cls.prefix))
        os.rename(first, cls.prefix)
        cls.sanitizer = [f"-fsanitize={OPTIONS.sanitize}"] if OPTIONS.sanitize else []
        cls.by_cmake = cls.build_by_cmake()

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def build_by_cmake(cls):
        build = os.path.join(cls.folder, "build")
        run("cmake", "-S", os.path.join(OPTIONS.source, EXAMPLE), "-B", build, f"-DCMAKE_PREFIX_PATH={cls.prefix}",
            f"-DCMAKE_CXX_COMPILER={OPTIONS.compiler}", f"-DCMAKE_CXX_FLAGS={' '.join(cls.sanitizer)}")
        run("cmake", "--build", build)
        return os.path.join(build, "bring_your_own")

    def losses(self, program, ranks, **options):
        trireme = os.path.join(self.prefix, "bin", "trireme")
        output = run(trireme, "run", "-n", str(ranks), "--oversubscribe", "--no-tag", "--", program, **options)
        return [float(loss) for loss in re.findall(r"^step \d+ loss (\S+)$", output, re.M)]

    def test_the_loss_falls_and_does_not_depend_on_the_number_of_ranks(self):
        alone = self.losses(self.by_cmake, 1)
        self.assertEqual(len(alone), 5)
        self.assertLess(alone[-1], 0.6 * alone[0])
        for ranks in (2, 3, 4):
            for one, many in zip(alone, self.losses(self.by_cmake, ranks), strict=True):
                self.assertAlmostEqual(one, many, delta=1e-6)

    def test_a_program_alone_is_a_world_of_one(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIREME_")}
        self.assertIn("step 400 loss", run(self.by_cmake, env=environment))

    def test_pkg_config_gives_the_flags(self):
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(self.prefix, "lib", "pkgconfig"))
        flags = run("pkg-config", "--cflags", "--libs", "trireme", env=environment).split()
        self.assertIn(OPTIONS.version, run("pkg-config", "--modversion", "trireme", env=environment))
        program = os.path.join(self.folder, "by_pkg_config")
        run(OPTIONS.compiler, "-std=c++20", *self.sanitizer, os.path.join(OPTIONS.source, EXAMPLE, "bring_your_own.cc"),
            "-o", program, *flags)
        library_path = dict(os.environ, LD_LIBRARY_PATH=os.path.join(self.prefix, "lib"))
        self.assertEqual(len(self.losses(program, 3, env=library_path)), 5)

    def test_the_umbrella_header_compiles_with_the_installed_headers_alone(self):
        run(OPTIONS.compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-I",
            os.path.join(self.prefix, "include"), "-", input="#include <trireme/trireme.h>\nint main() {}\n")

    def test_the_library_has_a_versioned_name_and_exports_only_ours(self):
        library = os.path.join(self.prefix, "lib", "libtrireme.so")
        self.assertRegex(run("readelf", "-d", library), r"SONAME.*libtrireme\.so\.\d+\.\d+\]")
        symbols = run("nm", "-D", "--defined-only", "-C", library)
        self.assertIn("trireme::Communicator::create", symbols)
        foreign = [s for s in re.findall(r"^\S+ [A-Z] (.*)$", symbols, re.M) if "trireme" not in s]
        self.assertEqual(foreign, [])

    def test_another_version_is_refused(self):
        project = os.path.join(self.folder, "wants_another")
        os.makedirs(project)
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(x NONE)\nfind_package(Trireme 99 CONFIG REQUIRED)\n")
        result = subprocess.run(["cmake", "-S", project, "-B", os.path.join(project, "build"),
                                 f"-DCMAKE_PREFIX_PATH={self.prefix}"], capture_output=True, text=True)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(OPTIONS.version, result.stderr)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("source", "build", "compiler", "version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--sanitize", default="")
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
