#!/usr/bin/env python3
"""The fault matrix: three ranks on three hosts run checked collectives; something goes wrong at a random moment.

Every survivor must return an error that names the culprit within its deadline and a second, or, where the fault only
slows the network, go on with right results. Nothing may be left: no process, file, socket or shared memory."""

import argparse
import os
import random
import re
import signal
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "hosts"))
import hosts as network  # noqa: E402

RANKS = 3
DEADLINE_MS = 1500
END_WITHIN_S = 15
STORE = "10.77.0.254:4000"
FOLDER = tempfile.mkdtemp(prefix="trireme-faults-")  # The ranks' TMPDIR.
# The faults, in turn.
KINDS = ["kill", "stop", "loss", "kill", "limit", "link", "kill", "delay", "kill", "stop", "kill", "hole", "kill", "loss",
         "limit"]


class Failed(Exception):
    pass


class Run:
    """One job and one fault."""

    def __init__(self, hosts, options, kind, seed):
        self.hosts, self.options, self.kind = hosts, options, kind
        self.random = random.Random(seed)
        self.victim = self.random.randrange(RANKS)
        self.delayed = kind == "delay"
        self.environment = dict(os.environ, TMPDIR=FOLDER, TRIREME_WORLD_SIZE=str(RANKS), TRIREME_STORE=STORE, TRIREME_SECRET="s",
                                TRIREME_JOB_ID=f"faults-{seed}", TRIREME_JOIN_TIMEOUT_MS="20000",
                                TRIREME_INTERFACE="eth1" if self.delayed else "eth0")
        self.processes = []

    def start(self, place, *arguments, rank=None):
        environment = self.environment if rank is None else dict(self.environment, TRIREME_RANK=str(rank))
        process = place.start(self.options.rank, *arguments, env=environment, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        return process

    def expect_ready(self, process, who):
        line = process.stdout.readline().strip()
        if line != "ready":
            raise Failed(f"{who} printed '{line}' instead of 'ready'")

    def go(self):
        try:
            store = self.start(self.hosts.hub, "store", STORE, str(RANKS))
            self.expect_ready(store, "the store")
            # A call through a delayed network takes round trips; it has more time.
            deadline_ms = int(DEADLINE_MS * max(1, self.options.slack / 2))  # Slow builds connect slowly.
            deadline_ms *= 5 if self.delayed or self.kind in ("loss", "limit") else 1
            ranks = [self.start(self.hosts[r], "loop", str(deadline_ms), rank=r) for r in range(RANKS)]
            for r, process in enumerate(ranks):
                self.expect_ready(process, f"rank {r}")
            time.sleep(self.random.random() * 0.3)
            self.inject(ranks)
            if self.kind in ("kill", "stop", "link", "hole"):
                self.check_errors(ranks, deadline_ms)
            else:
                time.sleep(0.5 + self.random.random())
                self.check_results(ranks)
        finally:
            self.mend()

    def inject(self, ranks):
        if self.kind == "kill":
            ranks[self.victim].kill()
        elif self.kind == "stop":
            os.kill(ranks[self.victim].pid, signal.SIGSTOP)
        elif self.kind == "link":
            self.hosts.link(self.victim, "down")
        elif self.kind == "hole":
            self.hosts.black_hole(self.victim)
        elif self.kind == "loss":
            self.hosts.lose(5)
        elif self.kind == "limit":
            self.hosts.limit(self.victim, "200mbit")

    def mend(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.communicate()
        if self.kind == "link":
            self.hosts.link(self.victim, "up")
        elif self.kind in ("hole", "loss"):
            self.hosts.hub.run("nft", "delete", "table", "bridge", "faults")
        elif self.kind == "limit":
            self.hosts[self.victim].run("tc", "qdisc", "del", "dev", "eth0", "root")

    def result(self, process):
        """The last line of a rank, whose input stays open. The milliseconds in it are held to the deadline; this only bounds the end."""
        open_input, process.stdin = process.stdin, None
        try:
            output, _ = process.communicate(timeout=END_WITHIN_S * self.options.slack)
        except subprocess.TimeoutExpired:
            raise Failed(f"a rank does not end within {END_WITHIN_S} s") from None
        finally:
            if open_input:
                open_input.close()
        return output.strip().split("\n")[-1]

    def check_errors(self, ranks, deadline_ms):
        # A call begins before the fault or meets it at once: from there its deadline counts.
        for r, process in enumerate(ranks):
            if r == self.victim and self.kind in ("kill", "stop"):
                continue
            line = self.result(process)
            error = re.fullmatch(r"error (\S+) (\d+) (.*)", line)
            if not error:
                raise Failed(f"rank {r} printed '{line}' where an error was expected")
            code, took_ms, message = error.group(1), int(error.group(2)), error.group(3)
            if took_ms > (deadline_ms + 1000) * self.options.slack:
                raise Failed(f"rank {r} returned after {took_ms} ms: {line}")
            if r != self.victim and not re.search(rf"rank {self.victim}\b", message):
                raise Failed(f"rank {r} does not name rank {self.victim}: {line}")
            if self.kind == "kill" and code != "peer_dead":
                raise Failed(f"rank {r} calls a death {code}: {line}")

    def check_results(self, ranks):
        for process in ranks:
            process.stdin.close()
            process.stdin = None
        for r, process in enumerate(ranks):
            line = self.result(process)
            if not line.startswith("done "):
                raise Failed(f"rank {r} printed '{line}' on a network that is only slow")


def traces(hosts):
    """What must not grow: files of ours, and sockets in the hosts that are not on their way out."""
    files = sorted(os.listdir(FOLDER)) + sorted(name for name in os.listdir("/dev/shm") if name.startswith("trireme"))
    sockets = []
    for host in [*hosts, hosts.hub]:
        sockets += [line for line in host.run("ss", "-Hxtan").stdout.splitlines()
                    if "trireme" in line or (":4000" in line and "TIME-WAIT" not in line)]
    # Ends whose peer is unreachable send their last segments for a while, on nobody's behalf.
    return files, [line for line in sockets if not re.search(r"FIN-WAIT|LAST-ACK|CLOSING", line)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", required=True, help="the program test_multi_host_rank")
    parser.add_argument("--relay", required=True, help="the program test_hosts_relay")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS), help="in turn")
    parser.add_argument("--slack", type=float, default=1.0, help="factor on deadlines, for slow builds")
    options = parser.parse_args()
    reason = network.why_not(("ip", "nsenter", "nft", "tc", "ss"))
    if reason:
        print(f"skipped: {reason}")
        return 77
    kinds = options.kinds.split(",")
    failures = 0
    with network.Hosts(RANKS) as hosts:
        hosts.hub.ip("addr add 10.77.0.254/24 dev br0")
        relay = hosts.relay(options.relay, 200) if "delay" in kinds else None
        before = traces(hosts)
        for index in range(options.runs):
            kind, seed = kinds[index % len(kinds)], options.seed * 1000 + index
            began = time.monotonic()
            run = Run(hosts, options, kind, seed)
            try:
                run.go()
                after = traces(hosts)
                if after != before:
                    raise Failed(f"left behind: {after} where there was {before}")
                outcome = "ok"
            except Failed as failure:
                failures += 1
                outcome = f"FAILED: {failure}"
            print(f"{index:4} {kind:6} rank {run.victim} seed {seed}: {time.monotonic() - began:.2f} s, {outcome}",
                  flush=True)
        if relay:
            relay.kill()
            relay.wait()
    print(f"{options.runs} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
