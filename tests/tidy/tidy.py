#!/usr/bin/env python3
"""Keeps the house clean: checks the tree against docs/style.md.

    tests/tidy/tidy.py                     all rules
    tests/tidy/tidy.py layers sizes        some rules
    tests/tidy/tidy.py --list              their names
    tests/tidy/tidy.py --fix-umbrella      rewrites the list of include/trireme/trireme.h

Exit code: 0 clean, 1 violations (one a line: path:line: what is wrong and what to do), 2 usage.
"""

import argparse
import os
import sys

import rules_build
import rules_layers
import rules_text
from tree import Tree, Violation, read_list

RULES = {
    "layers": rules_layers.layers,
    "umbrella": rules_layers.umbrella,
    "listed": rules_build.listed,
    "dead_files": rules_build.dead_files,
    "headers": rules_build.headers,
    "banned": rules_text.banned,
    "leftovers": rules_text.leftovers,
    "sizes": rules_text.sizes,
    "disabled_tests": rules_text.disabled_tests,
    "links": rules_text.links,
}
ALLOWED = "tests/tidy/allowed.txt"


def apply_allowed(tree, rule, found):
    """Drops what allowed.txt permits (`rule path`, reason in a comment); a line that permits nothing is itself wrong."""
    allowed = [entry.split() for entry in read_list(tree, ALLOWED)]
    mine = {path for name, path in (e[:2] for e in allowed) if name == rule}
    unused = mine - {v.path for v in found}
    kept = [v for v in found if v.path not in mine]
    return kept + [Violation(ALLOWED, 1, f"'{rule} {path}' permits nothing any more: remove it") for path in sorted(unused)]


def check(tree, rule, **options):
    function = RULES[rule]
    return apply_allowed(tree, rule, function(tree, **options) if rule == "headers" else function(tree))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", metavar="RULE")
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--source", default=os.path.join(here, "..", ".."))
    parser.add_argument("--build", help="build folder, for the cache of compiled headers and generated files")
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", action="append", default=[], help="a folder of system headers (CUDA, ...)")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--fix-umbrella", action="store_true")
    arguments = parser.parse_args()
    tree = Tree(arguments.source, arguments.build)
    if arguments.list:
        print("\n".join(RULES))
        return 0
    if arguments.fix_umbrella:
        rules_layers.fix_umbrella(tree)
        return 0
    unknown = [r for r in arguments.rules if r not in RULES]
    if unknown:
        print(f"unknown rule {unknown[0]}; there are: {' '.join(RULES)}", file=sys.stderr)
        return 2
    total = 0
    for rule in arguments.rules or RULES:
        found = check(tree, rule, compiler=arguments.compiler, include_folders=arguments.include)
        total += len(found)
        for violation in found:
            print(f"{violation} [{rule}]")
    print(f"tidy: {len(tree.files)} files, {total} violations")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
