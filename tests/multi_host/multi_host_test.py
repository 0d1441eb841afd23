#!/usr/bin/env python3
"""Ranks in network namespaces, started by hand: they find each other, take the right network, and say why."""

import argparse
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "hosts"))
import hosts as network  # noqa: E402

OPTIONS = None
PORT = 4000


class MultiHost(unittest.TestCase):
    def run_ranks(self, places, store, environment=(), streams=0):
        """Starts one rank per place (a host each), rank 0 hosting the store; returns what they print."""
        variables = dict(os.environ, TRIREME_WORLD_SIZE=str(len(places)), TRIREME_STORE=store, TRIREME_SERVE_STORE="1",
                         TRIREME_SECRET="by hand", TRIREME_JOB_ID="multi_host", TRIREME_JOIN_TIMEOUT_MS="30000",
                         TRIREME_TCP_STREAMS=str(streams), **dict(environment))
        ranks = [host.start(OPTIONS.rank, "paths", env=dict(variables, TRIREME_RANK=str(rank)),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                 for rank, host in enumerate(places)]
        outputs = []
        for rank, process in enumerate(ranks):
            try:
                outputs.append(process.communicate(timeout=60)[0])
            except subprocess.TimeoutExpired:
                for other in ranks:
                    other.kill()
                self.fail(f"rank {rank} does not end; it printed:\n{process.communicate()[0]}")
        for rank, process in enumerate(ranks):
            self.assertEqual(process.returncode, 0, f"rank {rank}:\n{outputs[rank]}")
            self.assertTrue(outputs[rank].endswith("ok\n"), outputs[rank])
        return outputs

    def created_ms(self, output):
        return int(re.search(r"^created (\d+)$", output, re.M).group(1))

    def test_ipv4(self):
        with network.Hosts(3) as hosts:
            outputs = self.run_ranks(list(hosts), f"10.77.0.1:{PORT}")
        self.assertIn("to rank 1 (h1, pid", outputs[0])
        self.assertRegex(outputs[0], r"measured: 10\.77\.0\.2:\d+ \(eth0.*\) from 10\.77\.0\.1, answered in .* ms")
        self.assertIn("shm: not possible; hosts differ", outputs[0])
        self.assertRegex(outputs[1], r"it connected to us, 10\.77\.0\.2 to .*10\.77\.0\.1")

    def test_ipv6(self):
        with network.Hosts(2, ipv4=False, ipv6=True) as hosts:
            outputs = self.run_ranks(list(hosts), f"[fd77::1]:{PORT}")
        self.assertRegex(outputs[0], r"measured: \[fd77::2\]:\d+ \(eth0")

    def test_link_local(self):
        with network.Hosts(2, ipv4=False, link_local=True) as hosts:
            outputs = self.run_ranks(list(hosts), f"[fe80::1%eth0]:{PORT}")
        self.assertRegex(outputs[0], r"measured: \[fe80::2%eth0\]:\d+ \(eth0")

    def test_black_hole_first(self):
        """An interface that swallows everything comes first in every order but that of reachability."""
        with network.Hosts(2) as hosts:
            for i, host in enumerate(hosts):
                # As fast as eth0 claims to be, by name and number before it; its other end leads nowhere.
                host.ip("link add a0 type veth peer name nowhere", "link set a0 addrgenmode none up",
                        "link set nowhere addrgenmode none up", f"addr add 10.1.0.{i + 1}/24 dev a0",
                        # Answers of the neighbour are pretended, so that packets leave and vanish.
                        f"neigh add 10.1.0.{2 - i} lladdr 02:00:00:00:00:01 dev a0 nud permanent")
            store = f"10.1.0.1:{PORT},10.77.0.1:{PORT}"
            outputs = self.run_ranks(list(hosts), store)
        self.assertRegex(outputs[0], r"measured: 10\.77\.0\.2:\d+ .*best that answered; 10\.1\.0\.2:\d+ \(a0\): no answer")
        for output in outputs:
            self.assertLess(self.created_ms(output), 3000, output)

    def test_interface_filter(self):
        with network.Hosts(2) as hosts:
            for i, host in enumerate(hosts):
                hosts.plug(i, f"w{i}", "eth1")
                host.ip("link set eth1 addrgenmode none up", f"addr add 10.88.0.{i + 1}/24 dev eth1")
            for chosen, wanted in (("eth1", "10.88.0.2"), ("10.77.0.0/16", "10.77.0.2"), ("!eth0,!lo", "10.88.0.2")):
                outputs = self.run_ranks(list(hosts), f"10.77.0.1:{PORT}", {"TRIREME_INTERFACE": chosen})
                self.assertIn(f"measured: {wanted}:", outputs[0], chosen)
                self.assertNotIn("127.0.0.1", outputs[0])

    def test_few_ports(self):
        """Sixty-four ports for eight ranks, every pair connected: one listening port a process."""
        with network.Hosts(1) as hosts:
            hosts[0].run("sh", "-c", "echo 40000 40063 >/proc/sys/net/ipv4/ip_local_port_range")
            outputs = self.run_ranks([hosts[0]] * 8, f"127.0.0.1:{PORT}", {"TRIREME_TRANSPORT": "tcp"})
        for output in outputs:
            self.assertEqual(output.count("measured: "), 7, output)

    def test_striped(self):
        with network.Hosts(2, ipv6=True) as hosts:
            outputs = self.run_ranks(list(hosts), f"10.77.0.1:{PORT}", streams=4)
        self.assertIn("4 streams", outputs[0])

    def test_by_name(self):
        """The store behind a name that the resolver must look up, after an address that nobody has."""
        with network.Hosts(2) as hosts:
            outputs = self.run_ranks(list(hosts), f"10.77.0.99:{PORT},localhost:{PORT},10.77.0.1:{PORT}")
        self.assertIn("measured: 10.77.0.2:", outputs[0])


def main():
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", required=True)
    OPTIONS, rest = parser.parse_known_args()
    reason = network.why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
