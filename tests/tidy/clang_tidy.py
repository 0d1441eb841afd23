#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over every library and program source of a configured build folder."""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77  # The exit code by which ctest knows a skipped test.


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    arguments = parser.parse_args()
    if shutil.which("clang-tidy") is None:
        print("skipped: needs clang-tidy (apt-get install clang-tidy)")
        return SKIPPED
    with open(os.path.join(arguments.build, "compile_commands.json"), encoding="utf-8") as file:
        files = {os.path.relpath(entry["file"], arguments.source) for entry in json.load(file)}
    chosen = sorted(f for f in files if f.endswith(".cc") and not f.startswith(("tests/", "..")))

    def check(path):
        result = subprocess.run(["clang-tidy", "-p", arguments.build, "--quiet", os.path.join(arguments.source, path)],
                                capture_output=True, text=True)
        return "" if result.returncode == 0 else result.stdout + re.sub(r"^\d+ warnings.*\n", "", result.stderr, flags=re.M)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        complaints = [text for text in pool.map(check, chosen) if text]
    print("\n".join(complaints))
    print(f"clang-tidy: {len(chosen)} files, {len(complaints)} with complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
