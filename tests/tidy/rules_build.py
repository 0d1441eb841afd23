"""Rules on what the build knows: every source listed, no dead file, headers that stand alone."""

import collections
import concurrent.futures
import functools
import hashlib
import os
import re
import subprocess

from rules_layers import public_headers
from tree import Violation

# Files that tools and people look for by their place.
WELL_KNOWN = {"README.md", "LICENSE", "CONTRIBUTING.md", "CMakeLists.txt", "CMakePresets.json", ".gitignore",
              ".gitattributes", ".clang-format", ".clang-tidy", ".ci/run"}
OPTIONAL_HEADERS = re.compile(r"fatal error: (cuda|cublas|cudnn|nccl|nvml|infiniband/|rdma/|mpi\.h|pmix)")


def cmake_folders(tree, path):
    """The CMakeLists.txt files at or above `path`, nearest first."""
    folder = os.path.dirname(path)
    while True:
        candidate = f"{folder}/CMakeLists.txt" if folder else "CMakeLists.txt"
        if candidate in tree.file_set:
            yield folder, candidate
        if not folder:
            return
        folder = os.path.dirname(folder)


@functools.lru_cache(maxsize=None)
def expanded(text):
    """A CMakeLists.txt without comments, followed by itself for every item of its foreach loops."""
    text = re.sub(r"#[^\n]*", "", text)
    loops = re.findall(r"\bforeach\s*\(\s*(\w+)\s+((?!IN\b)[^)]*)\)", text)
    return text + "".join(text.replace("${%s}" % variable, item) for variable, items in loops for item in items.split())


def mentions(text, name):
    return re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w/-])", expanded(text)) is not None


def names_from(path, folder):
    """How a CMakeLists.txt in `folder` names `path`: relative, or from further up when it is include()d."""
    shortest = path[len(folder) + 1 if folder else 0:]
    parts = path.split("/")
    return ["/".join(parts[i:]) for i in range(len(parts)) if len("/".join(parts[i:])) >= len(shortest)]


def shared_names(tree):
    """Files that lists in other folders name: ../program.cc."""
    found = set()
    for path in tree.files:
        if path.endswith("/CMakeLists.txt"):
            for name in re.findall(r"(?:\.\./)+[\w./-]+", expanded(tree.read(path))):
                found.add(os.path.normpath(os.path.join(os.path.dirname(path), name)))
    return found


def listed(tree):
    found = []
    shared = shared_names(tree)
    for path in tree.select(".cc", ".cu"):
        if path in shared:
            continue
        lists = list(cmake_folders(tree, path))
        if not any(mentions(tree.read(cmake), name) for folder, cmake in lists for name in names_from(path, folder)):
            found.append(Violation(path, 1, f"is in no target: list it in {lists[0][1]}"))
    for path in tree.files:
        if not path.endswith("/CMakeLists.txt") or re.search(r"^\s*project\s*\(", tree.read(path), re.M):
            continue
        folder = os.path.dirname(path)
        parents = list(cmake_folders(tree, folder))
        if not any(mentions(tree.read(c), name + suffix) for f, c in parents for name in names_from(folder, f)
                   for suffix in ("", "/CMakeLists.txt")):
            found.append(Violation(path, 1, f"is never reached: add_subdirectory({os.path.basename(folder)}) in {parents[0][1]}"))
    for path in tree.select(".cc"):
        if path.startswith("tests/") and not path.endswith("_test.cc") and re.search(r"^TEST(_[FP])?\(", tree.code(path), re.M):
            found.append(Violation(path, 1, "holds tests: name it *_test.cc"))
    return found


def words(text):
    return collections.Counter(re.findall(r"[\w.\-]*\w", text)) + collections.Counter(re.findall(r"\w+", text))


def dead_files(tree):
    """A header that nobody includes; any other file that no other file names."""
    included = {target for path in tree.cpp() for _, _, target in tree.includes(path)}
    public = {path: name for name, path in public_headers(tree).items()}
    found, counts = [], {path: words(tree.read(path)) for path in tree.text_files()}
    total = sum(counts.values(), collections.Counter())
    for path in tree.files:
        name = os.path.basename(path)
        if path.endswith((".h", ".cuh")):
            if public.get(path, path) not in included and path != "include/trireme/trireme.h":
                found.append(Violation(path, 1, "no file includes this header: use it or remove it"))
        elif path not in WELL_KNOWN and not path.endswith((".cc", ".cu", "CMakeLists.txt")):
            stem = re.sub(r"\.(py|cmake)$", "", name)
            if all(total[word] <= counts.get(path, {}).get(word, 0) for word in {name, stem}):
                found.append(Violation(path, 1, "no file names this one: use it or remove it"))
    return found


class HeaderCompiler:
    """Compiles a header alone; what passed is remembered by the hash of all it includes."""

    def __init__(self, tree, compiler, include_folders):
        self.tree, self.compiler = tree, compiler
        self.public = public_headers(tree)
        ours = sorted({f.split("/include/")[0] + "/include" for f in self.public.values()})
        self.flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-psabi",
                      "-I" + tree.root]
        self.flags += [f"-I{tree.root}/{folder}" for folder in ours + ["include"]]
        if tree.build:
            self.flags.append(f"-I{tree.build}/generated")
        self.flags += [f"-isystem{folder}" for folder in include_folders]
        self.cache = os.path.join(tree.build or "/nonexistent", "tidy-cache")

    def closure(self, path, seen):
        if path not in seen and path in self.tree.file_set:
            seen.add(path)
            for _, _, target in self.tree.includes(path):
                self.closure(self.public.get(target, target), seen)
        return seen

    def key(self, path):
        digest = hashlib.sha256(" ".join([self.compiler, path] + self.flags).encode())
        for name in sorted(self.closure(path, set())):
            digest.update(self.tree.read(name).encode())
        return os.path.join(self.cache, digest.hexdigest())

    def check(self, path):
        key = self.key(path)
        if os.path.exists(key):
            return None
        target = path.split("/include/")[-1] if "/include/trireme/" in path else path
        result = subprocess.run([self.compiler, *self.flags, "-x", "c++", "-"], input=f'#include "{target}"\n',
                                capture_output=True, text=True, cwd=self.tree.root)
        if result.returncode != 0 or result.stderr:
            missing = OPTIONAL_HEADERS.search(result.stderr)
            if missing:
                print(f"not compiled here: {path} ({missing.group(0)})")
                return None
            first = next((l for l in result.stderr.split("\n") if "error" in l or "warning" in l), result.stderr[:200])
            return Violation(path, 1, f"does not compile on its own; include or declare what it uses: {first.strip()}")
        if self.tree.build:
            os.makedirs(self.cache, exist_ok=True)
            open(key, "w").close()
        return None


def first_includes(tree):
    """Headers that some source includes before anything else: its compilation shows that they stand alone."""
    public = public_headers(tree)
    firsts = [tree.includes(path)[:1] for path in tree.select(".cc")]
    return {public.get(first[0][2], first[0][2]) for first in firsts if first}


def headers(tree, compiler="g++", include_folders=()):
    checker = HeaderCompiler(tree, compiler, include_folders)
    paths = tree.select(".h")
    proven = first_includes(tree)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        found = [v for v in pool.map(checker.check, [p for p in paths if p not in proven]) if v]
    for path in paths:
        if "#pragma once" not in tree.code(path):
            found.append(Violation(path, 1, "has no #pragma once"))
    return found
