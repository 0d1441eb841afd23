"""The source tree as the rules see it: files, their text, C++ without comments and strings."""

import functools
import os
import re
import subprocess

SKIPPED_FOLDERS = re.compile(r"^(build.*|runs|\.git|\.cache|__pycache__)$")
CPP = (".cc", ".h", ".cu", ".cuh")
TEXT = CPP + (".py", ".sh", ".md", ".txt", ".cmake", ".in", ".json", ".map", ".html", ".js", ".css", "")


class Violation:
    def __init__(self, path, line, message):
        self.path, self.line, self.message = path, line, message

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


class Tree:
    """Paths are relative to the root, with forward slashes, sorted."""

    def __init__(self, root, build=None):
        self.root = os.path.abspath(root)
        self.build = build
        self.files = sorted(self._walk())
        self.file_set = set(self.files)

    def _walk(self):
        """What git would commit; every file outside build folders where there is no repository."""
        listing = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard", "-z"],
                                 capture_output=True, text=True)
        if listing.returncode == 0 and os.path.exists(os.path.join(self.root, ".git")):
            return {f for f in listing.stdout.split("\0") if f and os.path.isfile(os.path.join(self.root, f))}
        return set(self._walk_folders())

    def _walk_folders(self):
        for folder, subfolders, names in os.walk(self.root):
            subfolders[:] = [s for s in subfolders if not SKIPPED_FOLDERS.match(s)]
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.root).replace(os.sep, "/")
                if not name.endswith((".pyc", ".swp", "~")) and name != "compile_commands.json":
                    yield path

    def select(self, *suffixes):
        return [f for f in self.files if os.path.splitext(f)[1] in suffixes]

    def cpp(self):
        return self.select(*CPP)

    def text_files(self):
        return [f for f in self.files if os.path.splitext(f)[1] in TEXT]

    @functools.lru_cache(maxsize=None)
    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    @functools.lru_cache(maxsize=None)
    def code(self, path):
        """The text with comments and the insides of strings blanked; line numbers stay."""
        return strip_cpp(self.read(path))

    @functools.lru_cache(maxsize=None)
    def includes(self, path):
        """[(line, delimiter, target)] of the #include lines that are not commented out."""
        found = []
        code = self.code(path).split("\n")
        for number, line in enumerate(self.read(path).split("\n"), 1):
            match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if match and "include" in code[number - 1]:
                found.append((number, match.group(1), match.group(2)))
        return found


TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'', re.S)


def strip_cpp(text):
    def blank(match):
        token = match.group(0)
        newlines = "\n" * token.count("\n")
        if token.startswith("//"):
            return ""
        if token.startswith("/*"):
            return " " + newlines
        return token[0].replace("R", '"') + newlines + token[-1]

    return TOKEN.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def read_list(tree, path):
    """Entries of a list file of tests/tidy: one a line, '#' begins a comment."""
    if path not in tree.file_set:
        return []
    lines = (line.split("#")[0].strip() for line in tree.read(path).split("\n"))
    return [line for line in lines if line]
