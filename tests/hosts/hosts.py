"""Hosts made of network namespaces, for tests and benchmarks that need several.

Each host is a network and UTS namespace with eth0 on a bridge in one more namespace (the hub), so the machine's own
network is untouched. A sleeping process holds each; it dies with us, and the namespace with it: nothing has a name.
Links can be cut, slowed and made lossy in the hub, or replaced by a relay with delay (relay.cc)."""

import ctypes
import os
import shutil
import signal
import subprocess

CLONE_NEWNET = 0x40000000
CLONE_NEWUTS = 0x04000000
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def why_not(programs=("ip", "nsenter")):
    """Why hosts cannot be had here; "" when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in programs:
        if shutil.which(program) is None:
            return f"the program '{program}' is not installed"
    try:
        with Hosts(1):
            return ""
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces cannot be made here: {error}"


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Namespace:
    """One network namespace and the process that holds it."""

    def __init__(self, name):
        self.name = name

        def enter():
            die_with_parent()
            if LIBC.unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0:
                raise OSError(ctypes.get_errno(), "unshare")

        self.holder = subprocess.Popen(["sleep", "infinity"], preexec_fn=enter, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL)
        self.pid = self.holder.pid
        self.run("hostname", name)

    def command(self, *command):
        return ["nsenter", "-t", str(self.pid), "-n", "-u", "--", *command]

    def run(self, *command, **options):
        return subprocess.run(self.command(*command), check=True, capture_output=True, text=True, **options)

    def start(self, *command, **options):
        """A process there that dies with us."""
        return subprocess.Popen(self.command(*command), preexec_fn=die_with_parent, **options)

    def ip(self, *lines):
        self.run("ip", "-batch", "-", input="\n".join(lines) + "\n")

    def close(self):
        self.holder.kill()
        self.holder.wait()


class Hosts:
    """`count` hosts h0, h1, ... with 10.77.0.(i+1) on eth0, and fd77::(i+1) with ipv6. With direct (two hosts only)
    one veth pair without a bridge. Without addresses eth0 has none."""

    def __init__(self, count, ipv4=True, ipv6=False, link_local=False, direct=False):
        self.namespaces = []
        self.hub = self.add("hub")
        self.hub.ip("link set lo up", "link add br0 type bridge", "link set br0 addrgenmode none up")
        self.hosts = [self.add(f"h{i}") for i in range(count)]
        try:
            for i, host in enumerate(self.hosts):
                if direct and i == 1:
                    self.hosts[0].ip(f"link add eth0 type veth peer name eth0 netns {host.pid}")
                elif not direct:
                    self.plug(i, f"v{i}", "eth0")
            for i, host in enumerate(self.hosts):
                host.ip("link set lo up", "link set eth0 addrgenmode none up")
                if ipv4:
                    host.ip(f"addr add 10.77.0.{i + 1}/24 dev eth0")
                if ipv6:
                    host.ip(f"addr add fd77::{i + 1}/64 dev eth0 nodad")
                if link_local:
                    host.ip(f"addr add fe80::{i + 1}/64 dev eth0 nodad")
        except BaseException:
            self.close()
            raise

    def add(self, name):
        self.namespaces.append(Namespace(name))
        return self.namespaces[-1]

    def plug(self, index, port, interface):
        """A cable from the hub's bridge to a host."""
        self.hub.ip(f"link add {port} type veth peer name {interface} netns {self.hosts[index].pid}",
                    f"link set {port} addrgenmode none master br0 up")

    def __len__(self):
        return len(self.hosts)

    def __getitem__(self, index):
        return self.hosts[index]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for namespace in self.namespaces:
            namespace.close()

    # ---- what can go wrong with a network ----

    def link(self, index, state):
        """Cuts ("down") or mends ("up") the cable of a host."""
        self.hub.ip(f"link set v{index} {state}")

    def lose(self, percent, index=None):
        """Drops that share of the frames between hosts; of those to and from one host with index."""
        self.filter(f"numgen random mod 100 < {percent} drop", index)

    def black_hole(self, index):
        """Swallows all frames to and from a host, which notices nothing on its link."""
        self.filter("drop", index)

    def filter(self, verdict, index):
        """Between hosts, and between a host and what runs in the hub."""
        text = ""
        for hook in ("forward", "input", "output"):
            sides = [""] if index is None else [f'iifname "v{index}" ', f'oifname "v{index}" ']
            rules = "".join(f"  {side}{verdict}\n" for side in sides
                            if not (hook == "input" and side.startswith("oif"))
                            and not (hook == "output" and side.startswith("iif")))
            text += f" chain {hook} {{\n  type filter hook {hook} priority 0;\n{rules} }}\n"
        self.hub.run("nft", "-f", "-", input=f"table bridge faults {{\n{text}}}\n")

    def limit(self, index, rate):
        """Limits what a host sends to a rate in tc's words ("1gbit")."""
        self.hosts[index].run("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "256k",
                              "latency", "50ms")

    def relay(self, program, delay_ms, interface="eth1", prefix="10.78.0", loss_percent=0):
        """Joins all hosts once more, through a user-space relay with delay: `interface` with prefix.(i+1)."""
        process = subprocess.Popen(
            [program, str(delay_ms), str(loss_percent), interface, *[str(host.pid) for host in self.hosts]],
            stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        if process.stdout.readline().strip() != "ready":
            raise OSError("the relay did not start; it needs /dev/net/tun")
        for i, host in enumerate(self.hosts):
            host.ip(f"addr add {prefix}.{i + 1}/24 dev {interface}", f"link set {interface} up")
        return process
