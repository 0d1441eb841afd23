#!/usr/bin/env python3
"""Runs clang-format (a dry run) or clang-tidy over the sources of a configured build folder.

    clang_tools.py --source DIR --build DIR clang-format | clang-tidy

Whitespace depends on clang-format's version: only the one that CONTRIBUTING.md names counts.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys

from tree import Tree

SKIPPED = 77  # The exit code by which ctest knows a skipped test.
FORMAT_VERSION = "14"


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def commands(arguments):
    """{path: command} for the chosen tool."""
    if shutil.which(arguments.tool) is None:
        skip(f"needs {arguments.tool} (apt-get install {arguments.tool})")
    if arguments.tool == "clang-format":
        version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
        if f"version {FORMAT_VERSION}." not in version:
            skip(f"needs clang-format {FORMAT_VERSION}; here is {version.strip()}")
        return {f: ["clang-format", "--dry-run", "-Werror", f] for f in Tree(arguments.source).cpp()}
    with open(os.path.join(arguments.build, "compile_commands.json"), encoding="utf-8") as file:
        files = {os.path.relpath(entry["file"], arguments.source) for entry in json.load(file)}
    return {f: ["clang-tidy", "-p", arguments.build, "--quiet", f]
            for f in sorted(files) if f.endswith(".cc") and not f.startswith(("tests/", ".."))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("tool", choices=["clang-format", "clang-tidy"])
    arguments = parser.parse_args()
    work = commands(arguments)

    def check(path):
        result = subprocess.run(work[path], capture_output=True, text=True, cwd=arguments.source)
        if result.returncode == 0:
            return ""
        if arguments.tool == "clang-format":
            return f"{path}: not formatted; run clang-format -i {path}"
        return result.stdout + re.sub(r"^\d+ warnings.*\n", "", result.stderr, flags=re.M)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        complaints = [text for text in pool.map(check, work) if text]
    print("\n".join(complaints))
    print(f"{arguments.tool}: {len(work)} files, {len(complaints)} with complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
