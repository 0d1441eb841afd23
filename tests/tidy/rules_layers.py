"""Who includes whom: cmake/layers.txt and the header rules of docs/style.md."""

import re

from tree import Violation

STANDARD_HEADERS = set("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
clocale cmath compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio
cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem format forward_list fstream functional
future initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource
mutex new numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
source_location span sstream stack stdexcept stop_token streambuf string string_view strstream syncstream
system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector
version
""".split())

HEAVY = re.compile(r"^(nlohmann/json\.hpp|CLI/|spdlog/|toml\+\+/|httplib\.h)")


def read_layers(tree):
    layers = {}
    for line in tree.read("cmake/layers.txt").split("\n"):
        match = re.match(r"([^#:]+):(.*)$", line)
        if match:
            layers[match.group(1).strip()] = match.group(2).split()
    return layers


def owner_of(path, layers):
    """The library a file belongs to: the longest folder of layers.txt that holds it."""
    parts = path.split("/")[:-1]
    for size in range(len(parts), 0, -1):
        folder = "/".join(parts[:size])
        if folder in layers:
            return folder
    return None


def kind_of(path, owner):
    inside = path[len(owner) + 1:]
    if inside.startswith("include/"):
        return "public"
    return "api" if inside.startswith("api/") else "private"


def public_headers(tree):
    """{"trireme/base/status.h": "runtime/base/include/trireme/base/status.h"}"""
    return {f.split("/include/")[1]: f for f in tree.files if "/include/trireme/" in f and f.endswith(".h")}


class LayerScan:
    def __init__(self, tree):
        self.tree = tree
        self.layers = read_layers(tree)
        self.public = public_headers(tree)
        self.found = []

    def say(self, path, line, message):
        self.found.append(Violation(path, line, message))

    def run(self):
        for path in self.tree.cpp():
            if not path.startswith(("include/", "examples/bring_your_own/")):
                for include in self.tree.includes(path):
                    self.check(path, *include)
        self.check_places()
        return self.found

    def check_places(self):
        """<folder>/include/trireme/<last component of folder>/x.h, and nowhere else."""
        for header, path in self.public.items():
            owner = owner_of(path, self.layers)
            expected = f"{owner}/include/trireme/{(owner or '').split('/')[-1]}/"
            if not owner or not path.startswith(expected):
                self.say(path, 1, f"an installed header of {owner} belongs in {expected}")

    def check(self, path, line, delimiter, target):
        owner = owner_of(path, self.layers)
        installed = owner is not None and kind_of(path, owner) == "public"
        if path.endswith((".h", ".cuh")) and HEAVY.match(target):
            self.say(path, line, f"<{target}> is too heavy for a header: include it in the .cc file, behind a value type")
        if target == "trireme/trireme.h":
            self.say(path, line, "the umbrella header is for users: include the headers you use")
        elif delimiter == "<" and target.startswith("trireme/"):
            if target not in self.public:
                self.say(path, line, f"no installed header <{target}> exists in any <folder>/include")
            else:
                self.check_edge(path, line, self.public[target])
        elif delimiter == '"':
            self.check_quoted(path, line, target, installed)
        elif installed and target not in STANDARD_HEADERS:
            self.say(path, line, f"an installed header includes the standard library and other installed headers only, "
                                 f"not <{target}>: forward-declare, or hide it behind a pimpl")

    def check_quoted(self, path, line, target, installed):
        if installed:
            self.say(path, line, f'an installed header may not include "{target}": installed headers come as <trireme/...>')
        elif target not in self.tree.file_set:
            if not self.tree.build or not self.generated(target):
                self.say(path, line, f'"{target}" is not a path from the top of the tree '
                                     '(private and api headers are included as "folder/.../x.h")')
        elif "/include/trireme/" in target:
            self.say(path, line, f"write <{target.split('/include/')[1]}> for an installed header")
        else:
            self.check_edge(path, line, target)

    def generated(self, target):
        import os
        return os.path.exists(os.path.join(self.tree.build, "generated", target))

    def check_edge(self, path, line, target):
        owner, used = owner_of(path, self.layers), owner_of(target, self.layers)
        if path.startswith("tests/"):
            return
        if used is None:  # A header of tests, bench or examples: for their own kind only.
            if path.split("/")[0] != target.split("/")[0]:
                self.say(path, line, f'"{target}" belongs to {target.split("/")[0]}: move what is shared into a library')
            return
        if owner == used:
            return
        if owner is not None and used not in self.layers[owner]:
            self.say(path, line, f"layer law: {owner} may not use {used}; cmake/layers.txt permits: "
                                 f"{' '.join(self.layers[owner]) or 'nothing'}")
        if kind_of(target, used) == "private":
            self.say(path, line, f'"{target}" is private to {used}: move what you need to {used}/api or use its public headers')


def layers(tree):
    return LayerScan(tree).run()


def umbrella_text(tree):
    """What include/trireme/trireme.h must contain after its comment."""
    order = list(read_layers(tree))
    position = {header: order.index(owner_of(path, read_layers(tree))) if owner_of(path, read_layers(tree)) else 999
                for header, path in public_headers(tree).items()}
    headers = [h for h, path in public_headers(tree).items() if not path.startswith("launcher/")]
    return "\n".join(f"#include <{h}>" for h in sorted(headers, key=lambda h: (position[h], h))) + "\n"


def umbrella(tree):
    path = "include/trireme/trireme.h"
    listed = [target for _, _, target in tree.includes(path)]
    wanted = re.findall(r"<(.*)>", umbrella_text(tree))
    found = [Violation(path, 1, f"does not include <{h}>: run tests/tidy/tidy.py --fix-umbrella")
             for h in wanted if h not in listed]
    found += [Violation(path, 1, f"includes <{h}>, which no folder installs: run tests/tidy/tidy.py --fix-umbrella")
              for h in listed if h not in wanted]
    if not found and listed != wanted:
        found.append(Violation(path, 1, "is not in the order of cmake/layers.txt: run tests/tidy/tidy.py --fix-umbrella"))
    return found


def fix_umbrella(tree):
    import os
    path = os.path.join(tree.root, "include/trireme/trireme.h")
    head = tree.read("include/trireme/trireme.h").split("#pragma once")[0]
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + "#pragma once\n\n" + umbrella_text(tree))
