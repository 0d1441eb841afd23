"""Rules on the text of files: banned calls, leftovers, sizes, links, switched-off tests."""

import ast
import os
import re

from tree import Violation, line_of, read_list

SIZES = "tests/tidy/oversize.txt"
DISABLED = "tests/tidy/disabled_tests.txt"
FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70

# (name, pattern on code without comments and strings, what to use instead)
BANNED = [
    ("getenv", r"\b(secure_)?getenv\s*\(", "environment() of <trireme/platform/environment.h>, whose list names every variable"),
    ("clock", r"\b(gettimeofday|clock_gettime)\s*\(|\bstd::chrono::\w+_clock\b|(?<![\w.>])(?:std::)?time\s*\(\s*(NULL|nullptr|0)\s*\)",
     "system_clock() and Deadline of <trireme/platform/clock.h>"),
    ("sleep", r"(?<![\w.>])(?:::)?(usleep|nanosleep|sleep)\s*\(|\bsleep_(for|until)\s*\(", "wait for the condition, or system_clock().sleep_ns()"),
    ("random", r"(?<![\w.>])(?:std::|::)?s?rand\s*\(|\bdrand48\b|\bstd::(random_device|mt19937\w*|minstd_\w+|default_random_engine)\b",
     "<trireme/base/philox.h>: counter-based, the same on every rank"),
    ("socket", r"(?<![\w.>])(?:::)?socket(pair)?\s*\(\s*[AP]F_", "runtime/platform/api/sockets.h"),
    ("open", r"(?<![\w.>])(?:::)?open(at)?\s*\([^;]*?\bO_(RDONLY|WRONLY|RDWR|CREAT|DIRECTORY)\b|\bfopen\s*\(", "runtime/platform/api/files.h"),
    ("fork", r"(?<![\w.>])(?:::)?v?fork\s*\(\s*\)|\bposix_spawnp?\s*\(|(?<![\w.>])(?:::)?(popen|exec[lv]p?e?)\s*\(|\bstd::system\s*\(",
     "runtime/platform/api/process.h"),
    ("assert", r"(?<!\w)assert\s*\(", "TRIREME_CHECK (our mistakes) or Status (the world's): assert vanishes in release builds"),
    ("unsafe C", r"(?<![\w.>])(?:std::|::)?(sprintf|vsprintf|strcpy|strcat|atoi|atol|atof|strtok)\s*\(", "std::string, snprintf, std::from_chars"),
    ("OpenMP", r"#\s*pragma\s+omp\b|\bomp_get_\w+", "ThreadPool of <trireme/device/thread_pool.h>"),
]
# Folders the table does not bind, and why.
EXEMPT = {
    "runtime/platform/": "is the seam itself",
    "runtime/transport/": "the transports' data path makes its own system calls",
    "tests/": "tests provoke the world",
}


def banned(tree):
    found = []
    for path in tree.cpp():
        if path.startswith(tuple(EXEMPT)):
            continue
        code = tree.code(path)
        for name, pattern, instead in BANNED:
            for match in re.finditer(pattern, code):
                found.append(Violation(path, line_of(code, match.start()), f"{match.group(0).strip()}: banned ({name}); use {instead}"))
    return found


LEFTOVERS = [(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|TB" r"D)\b", "unfinished work has no place in the tree: finish it or write it down as an issue"),
             (r"(?<![\w.])/(wo" r"rk|ho" r"me|Use" r"rs)/\w|(?<![\w.])/ro" r"ot/\w", "a path of one machine: make it relative or an option")]


def leftovers(tree):
    found = []
    for path in tree.text_files():
        if path == "LICENSE":
            continue
        for number, line in enumerate(tree.read(path).split("\n"), 1):
            for pattern, why in LEFTOVERS:
                match = re.search(pattern, line)
                if match:
                    found.append(Violation(path, number, f"'{match.group(0)}': {why}"))
    return found


def scope_kind(head, parents):
    """What a brace opens, from the text before it and what it lies in."""
    if any(kind in ("function", "block") for kind in parents):
        return "block"
    if re.search(r"\bnamespace\b|\bextern\s*\"\"\s*$", head):
        return "scope"
    if ")" in head and not re.search(r"=\s*$", head):
        return "function"
    return "scope" if re.search(r"\b(class|struct|union|enum)\b", head) else "block"


def function_name(head):
    test = re.search(r"\bTEST(?:_[FP])?\s*\(\s*(\w+)\s*,\s*(\w+)", head)
    if test:
        return f"{test.group(1)}.{test.group(2)}"
    names = [n for n in re.findall(r"([\w:~]+)\s*\(", head) if n not in ("alignas", "decltype", "requires", "noexcept", "__attribute__")]
    return names[0] if names else "?"


def cpp_functions(code):
    """[(first line, name, lines)] of function bodies at namespace or class scope.

    A brace opens a function when a parenthesis was closed since the last statement and
    we are not inside a function already. Member initialisers with braces come before the
    body: a closing brace followed by ',' or '{' was such an initialiser.
    """
    functions, stack, head_start, pending = [], [], 0, None
    for match in re.finditer(r"[{};]|^[ \t]*#(?:[^\n\\]|\\.)*$", code, re.M | re.S):
        token = match.group(0)
        if token.lstrip().startswith("#"):
            if not code[head_start:match.start()].strip():
                head_start = match.end()
            continue
        if token == "{":
            head = code[head_start:match.start()]
            kind = "function" if pending else scope_kind(head, [k for k, _, _ in stack])
            stack.append((kind, *(pending or (match.start(), head))))
            pending = None
        elif token == "}" and stack:
            kind, start, head = stack.pop()
            if kind == "function" and re.match(r"\s*[,{]", code[match.end():match.end() + 200]):
                pending = (start, head)
            elif kind == "function":
                first = line_of(code, start)
                functions.append((first, function_name(head), line_of(code, match.start()) - first + 1))
        head_start = match.end()
    return functions


def python_functions(text):
    return [(n.lineno, n.name, n.end_lineno - n.lineno + 1) for n in ast.walk(ast.parse(text))
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))]


def measure(tree):
    """{key: (path, line, lines)} of what is over its limit."""
    over = {}
    for path in tree.select(".cc", ".h", ".cu", ".cuh", ".py", ".cmake", ".sh"):
        text = tree.read(path)
        lines = text.count("\n")
        if lines > FILE_LINES_MAX:
            over[path] = (path, 1, lines, FILE_LINES_MAX)
        functions = []
        if path.endswith(".py"):
            functions = python_functions(text)
        elif path.endswith((".cc", ".h", ".cu", ".cuh")):
            functions = cpp_functions(tree.code(path))
        for line, name, size in functions:
            if size > FUNCTION_LINES_MAX:
                over[f"{path}:{name}"] = (path, line, size, FUNCTION_LINES_MAX)
    return over


def sizes(tree):
    recorded = {}
    for entry in read_list(tree, SIZES):
        key, size = entry.rsplit(None, 1)
        recorded[key] = int(size)
    over, found = measure(tree), []
    for key, (path, line, size, limit) in over.items():
        if key not in recorded:
            found.append(Violation(path, line, f"{key} has {size} lines, the limit is {limit}: split it by idea"))
        elif size > recorded[key]:
            found.append(Violation(path, line, f"{key} grew from {recorded[key]} to {size} lines: {SIZES} only shrinks"))
        elif size < recorded[key]:
            found.append(Violation(SIZES, 1, f"{key} shrank to {size} lines: lower its entry from {recorded[key]}"))
    for key in recorded:
        if key not in over:
            found.append(Violation(SIZES, 1, f"{key} is within the limits now: remove its entry"))
    return found


def disabled_tests(tree):
    listed = read_list(tree, DISABLED)
    for entry in listed:
        print(f"switched off: {entry}")
    found, seen = [], set()
    for path in tree.select(".cc", ".cu"):
        if not path.startswith("tests/"):
            continue
        code = tree.code(path)
        for match in re.finditer(r"\bDISABLED_\w+", code):
            seen.add(match.group(0))
            if not any(e.split()[0] == match.group(0) for e in listed):
                found.append(Violation(path, line_of(code, match.start()), f"{match.group(0)} is not in {DISABLED}: enable it, or list it with the reason"))
        for match in re.finditer(r"\bGTEST_SKIP\s*\(\s*\)\s*;", code):
            found.append(Violation(path, line_of(code, match.start()), "a skipped test says what it needs: GTEST_SKIP() << \"needs ...\""))
        for match in re.finditer(r"\bTEST(?:_F|_P)?\s*\(\s*\w+,\s*(\w+)", code):
            if "Long" in re.sub(r"^Long|Long$", "", match.group(1)):
                found.append(Violation(path, line_of(code, match.start(1)), f"{match.group(1)} would only run with --long: "
                                       "names with Long in their middle need other words"))
    found += [Violation(DISABLED, 1, f"{e} is no longer switched off: remove its line") for e in listed if e.split()[0] not in seen]
    return found


def heading_anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace("`", "")).replace(" ", "-")


def links(tree):
    found = []
    tops = {f.split("/")[0] for f in tree.files if "/" in f}
    folders = {"/".join(f.split("/")[:n]) for f in tree.files for n in range(1, f.count("/") + 1)}
    for path in tree.select(".md"):
        text = tree.read(path)
        prose = re.sub(r"```.*?```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
        for match in re.finditer(r"\]\(([^)\s]+)\)", prose):
            target, _, anchor = match.group(1).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            full = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if full not in tree.file_set and full not in folders:
                found.append(Violation(path, line_of(prose, match.start()), f"link to {match.group(1)}: no such file"))
            elif anchor and anchor not in [heading_anchor(h) for h in re.findall(r"^#+ (.*)$", tree.read(full), re.M)]:
                found.append(Violation(path, line_of(prose, match.start()), f"link to {match.group(1)}: no such heading"))
        for match in re.finditer(r"`(?:\./)?([\w.\-]+(?:/[\w.\-]+)+/?)`", prose):
            name = match.group(1).rstrip("/")
            if name.split("/")[0] in tops and name not in tree.file_set and name not in folders:
                found.append(Violation(path, line_of(prose, match.start()), f"`{match.group(1)}` is named here, but does not exist"))
    return found
