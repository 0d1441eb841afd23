#!/usr/bin/env python3
"""Proves that every rule of tidy fires: a small clean tree, one sin at a time."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import rules_layers
import rules_text
import tidy
from tree import Tree, strip_cpp

CLEAN = {
    "CMakeLists.txt": "add_subdirectory(lib)\nadd_subdirectory(tests)\n",
    "cmake/layers.txt": "lib/base:\nlib/net: lib/base\n",
    "lib/CMakeLists.txt": "add_subdirectory(base)\nadd_subdirectory(net)\n",
    "lib/base/CMakeLists.txt": "trireme_add_library(lib/base SOURCES a.cc)\n",
    "lib/base/a.cc": "#include \"lib/base/p.h\"\n#include <trireme/base/a.h>\nint a() { return p(); }\n",
    "lib/base/p.h": "#pragma once\ninline int p() { return 1; }\n",
    "lib/base/include/trireme/base/a.h": "#pragma once\n#include <string>\nint a();\n",
    "lib/net/CMakeLists.txt": "trireme_add_library(lib/net SOURCES n.cc)\n",
    "lib/net/n.cc": "#include <trireme/base/a.h>\n#include \"lib/net/api/n.h\"\nint n() { return a(); }\n",
    "lib/net/api/n.h": "#pragma once\n#include <trireme/base/a.h>\nint n();\n",
    "tests/CMakeLists.txt": "trireme_add_test(lib SOURCES n_test.cc)\n",
    "tests/n_test.cc": "#include <string>\n#include \"lib/net/api/n.h\"\nTEST(N, Works) { EXPECT_EQ(n(), 1); }\n",
    "include/trireme/trireme.h": "// All.\n#pragma once\n\n#include <trireme/base/a.h>\n",
    "README.md": "# Title here\n[sources](lib/base/a.cc) [above](#title-here) `lib/net/api/n.h` layers.txt\n",
}


class TidyTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="tidy-self-test-")
        for path, text in CLEAN.items():
            self.write(path, text)

    def tearDown(self):
        shutil.rmtree(self.root)

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def append(self, path, text):
        with open(os.path.join(self.root, path), "a", encoding="utf-8") as file:
            file.write(text)

    def found(self, rule):
        return [str(v) for v in tidy.check(Tree(self.root), rule)]

    def expect(self, rule, *words):
        found = self.found(rule)
        self.assertTrue(any(all(w in line for w in words) for line in found), f"{rule}: {words} not in {found}")

    def test_the_clean_tree_is_clean(self):
        for rule in tidy.RULES:
            self.assertEqual(self.found(rule), [], rule)

    def test_layers(self):
        sins = [("lib/base/a.cc", '#include "lib/net/api/n.h"\n', "layer law"),
                ("lib/net/n.cc", '#include "lib/base/p.h"\n', "private to lib/base"),
                ("lib/net/n.cc", '#include "n.h"\n', "not a path from the top"),
                ("lib/net/n.cc", "#include <trireme/base/none.h>\n", "no installed header"),
                ("lib/net/n.cc", "#include <trireme/trireme.h>\n", "umbrella"),
                ("lib/net/n.cc", '#include "lib/base/include/trireme/base/a.h"\n', "write <trireme/base/a.h>"),
                ("lib/net/api/n.h", "#include <nlohmann/json.hpp>\n", "too heavy"),
                ("lib/base/include/trireme/base/a.h", "#include <fmt/core.h>\n", "standard library"),
                ("lib/base/include/trireme/base/a.h", '#include "lib/base/p.h"\n', "may not include"),
                ("lib/net/n.cc", '#include "bench/b.h"\n', "belongs to bench")]
        self.write("bench/b.h", "#pragma once\n")
        for path, line, words in sins:
            self.append(path, line)
            self.expect("layers", path, words)
            self.write(path, CLEAN[path])
        self.write("lib/base/include/trireme/net/a.h", "#pragma once\n")
        self.expect("layers", "belongs in lib/base/include/trireme/base/")

    def test_a_commented_include_is_none(self):
        self.append("lib/base/a.cc", '// #include "lib/net/api/n.h"\n/*\n#include "lib/net/api/n.h"\n*/\n')
        self.assertEqual(self.found("layers"), [])

    def test_umbrella_and_its_repair(self):
        self.write("lib/net/include/trireme/net/m.h", "#pragma once\n")
        self.expect("umbrella", "does not include <trireme/net/m.h>")
        rules_layers.fix_umbrella(Tree(self.root))
        self.assertEqual(self.found("umbrella"), [])
        self.append("include/trireme/trireme.h", "#include <trireme/net/gone.h>\n")
        self.expect("umbrella", "which no folder installs")

    def test_listed(self):
        self.write("lib/net/lost.cc", "")
        self.expect("listed", "lib/net/lost.cc", "in no target")
        self.write("tests/lost_test.cc", "")
        self.expect("listed", "tests/lost_test.cc", "in no target")
        self.write("lib/island/CMakeLists.txt", "")
        self.expect("listed", "lib/island/CMakeLists.txt", "never reached")
        self.write("tests/CMakeLists.txt", "trireme_add_test(lib SOURCES n_test.cc other.cc)\n")
        self.write("tests/other.cc", "TEST(A, B) {}\n")
        self.expect("listed", "tests/other.cc", "name it *_test.cc")

    def test_sources_listed_by_a_loop_are_listed(self):
        self.write("lib/net/CMakeLists.txt", "foreach(part n m)\n  add_program(${part} SOURCES ${part}.cc)\nendforeach()\n")
        self.write("lib/net/m.cc", "")
        self.assertEqual(self.found("listed"), [])
        self.write("lib/net/o.cc", "")
        self.expect("listed", "lib/net/o.cc", "in no target")

    def test_dead_files(self):
        self.write("lib/net/unused.h", "#pragma once\n")
        self.expect("dead_files", "lib/net/unused.h", "no file includes")
        self.write("docs/orphan.md", "# Orphan\n")
        self.expect("dead_files", "docs/orphan.md", "no file names")

    def test_headers(self):
        self.append("lib/net/api/n.h", "std::vector<int> v();\n")
        self.expect("headers", "lib/net/api/n.h", "does not compile on its own")
        self.write("lib/base/p.h", "inline int p() { return 1; }\n")
        self.expect("headers", "lib/base/p.h", "#pragma once")

    def test_a_header_is_compiled_again_when_what_it_includes_changes(self):
        build = os.path.join(self.root, "build")
        self.assertEqual(tidy.check(Tree(self.root, build), "headers"), [])
        self.assertGreater(len(os.listdir(os.path.join(build, "tidy-cache"))), 0)
        self.append("lib/base/include/trireme/base/a.h", "int broken(\n")
        broken = {v.path for v in tidy.check(Tree(self.root, build), "headers")}
        self.assertEqual(broken, {"lib/net/api/n.h", "include/trireme/trireme.h"})

    def test_headers_that_a_source_includes_first_are_proven_by_the_build(self):
        self.append("lib/base/p.h", "int broken(\n")
        self.assertEqual(self.found("headers"), [])

    def test_banned(self):
        sins = {"getenv": 'std::getenv("X");', "clock": "auto t = std::chrono::steady_clock::now();", "sleep": "usleep(1);",
                "random": "std::mt19937 r;", "socket": "::socket(AF_INET, SOCK_STREAM, 0);", "assert": "assert(x);",
                "open": "int f = open(path,\n  O_RDONLY);", "fork": "if (fork() == 0) {}", "unsafe C": "atoi(x);",
                "OpenMP": "#pragma omp parallel for"}
        self.assertEqual(set(sins), {name for name, _, _ in rules_text.BANNED}, "every banned call has its example")
        for name, line in sins.items():
            self.write("lib/net/n.cc", "void f() {\n" + line + "\n}\n")
            self.expect("banned", "lib/net/n.cc:2", f"banned ({name})", "use ")
        self.write("lib/net/n.cc", 'file.open(path); static_assert(x); // getenv("X")\nlog("fork() failed"); randomize(1); my::clock();\n')
        self.assertEqual(self.found("banned"), [])
        self.write("tests/n_test.cc", "std::mt19937 random(1);\n")
        self.assertEqual(self.found("banned"), [])

    def test_leftovers(self):
        for text in ("TO" "DO: later", "FIX" "ME", "see /ho" "me/me/file", "/wo" "rk/x"):
            self.write("lib/net/n.cc", "// " + text + "\n")
            self.expect("leftovers", "lib/net/n.cc:1")

    def test_sizes_and_their_ratchet(self):
        body = "int long_one() {\n" + "  f();\n" * 80 + "}\n"
        self.write("lib/net/n.cc", "namespace x {\nstruct S {\n" + body + "};\n}\n")
        self.expect("sizes", "lib/net/n.cc:3", "long_one has 82 lines")
        self.write(rules_text.SIZES, "lib/net/n.cc:long_one 82\n")
        self.assertEqual(self.found("sizes"), [])
        self.write(rules_text.SIZES, "lib/net/n.cc:long_one 81\n")
        self.expect("sizes", "grew from 81 to 82")
        self.write(rules_text.SIZES, "lib/net/n.cc:long_one 90\n")
        self.expect("sizes", "lower its entry from 90")
        self.write("lib/net/n.cc", CLEAN["lib/net/n.cc"])
        self.expect("sizes", "remove its entry")
        self.write("lib/net/n.cc", "int x;\n" * 401)
        self.expect("sizes", "lib/net/n.cc has 401 lines")

    def test_functions_are_told_from_other_braces(self):
        code = ("namespace a {\nclass C : public D {\n  C() : x_{1},\n   y_{f(2)} {\n    g();\n  }\n  int m() const override { return 1; }\n"
                "};\nconstexpr T kTable[] = {\n {\"x\", f(1)},\n {\"y\", f(2)}};\nTEST(Suite, Name) {\n  if (x) {\n  }\n}\n}\n")
        names = [(name, lines) for _, name, lines in rules_text.cpp_functions(strip_cpp(code))]
        self.assertEqual(names, [("C", 4), ("m", 1), ("Suite.Name", 4)])

    def test_disabled_tests(self):
        self.append("tests/n_test.cc", "TEST(N, DISABLED_Later) {}\nTEST(N, S) { GTEST_SKIP(); }\n"
                    "TEST(N, NoLonger) {}\nTEST(N, SoakLong) {}\nTEST(N, LongSoak) {}\n")
        self.expect("disabled_tests", "NoLonger would only run with --long")
        self.expect("disabled_tests", "DISABLED_Later is not in")
        self.expect("disabled_tests", "says what it needs")
        self.write(rules_text.DISABLED, "DISABLED_Later  # reason\nDISABLED_Gone  # reason\n")
        self.expect("disabled_tests", "DISABLED_Gone", "no longer switched off")

    def test_links(self):
        for text in ("[x](lib/none.cc)", "[x](README.md#nowhere)", "`lib/net/none.h`"):
            self.write("README.md", "# T\n" + text + "\n")
            self.expect("links", "README.md:2")

    def test_allowed_exceptions_must_be_needed(self):
        self.write("lib/net/n.cc", "// getenv\nvoid f() { assert(1); }\n")
        self.write(tidy.ALLOWED, "banned lib/net/n.cc  # reason\n")
        self.assertEqual(self.found("banned"), [])
        self.write("lib/net/n.cc", CLEAN["lib/net/n.cc"])
        self.expect("banned", "permits nothing any more")

    def test_strings_and_comments_are_blanked_but_lines_stay(self):
        text = 'a("x; \\" // y"); // z\n/* b\n c */ R"(d\n"e)" 1\'000 \'"\' f\n'
        stripped = strip_cpp(text)
        self.assertEqual(stripped.count("\n"), text.count("\n"))
        self.assertNotRegex(stripped, "[bcdexyz]")
        self.assertRegex(stripped, r"1'000 '' f")


class LayerLawInCMake(unittest.TestCase):
    """trireme_add_library refuses an edge that layers.txt does not have, and a folder it does not know."""

    def configure(self, library):
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        with tempfile.TemporaryDirectory(prefix="tidy-layer-law-") as root:
            shutil.copy(os.path.join(top, "cmake", "TriremeLayers.cmake"), root)
            files = {"layers.txt": "low:\nhigh: low\n", "x.cc": "int x;\n",
                     "CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(law CXX)\ninclude(TriremeLayers.cmake)\n"
                                       f"trireme_add_library(low SOURCES x.cc)\n{library}\n"}
            for name, text in files.items():
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            result = subprocess.run(["cmake", "-S", root, "-B", os.path.join(root, "build")], capture_output=True, text=True)
            return result.returncode, " ".join(result.stderr.split())

    def test_permitted(self):
        code, errors = self.configure("trireme_add_library(high SOURCES x.cc USES low)")
        self.assertEqual((code, errors), (0, ""))

    def test_refused(self):
        code, errors = self.configure("trireme_add_library(high SOURCES x.cc USES low other)")
        self.assertNotEqual(code, 0)
        self.assertIn("high may not use other", errors)

    def test_unknown_folder(self):
        code, errors = self.configure("trireme_add_library(nowhere SOURCES x.cc)")
        self.assertNotEqual(code, 0)
        self.assertIn("nowhere has no line in cmake/layers.txt", errors)


if __name__ == "__main__":
    sys.exit(unittest.main())
