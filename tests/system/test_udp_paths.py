#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the link over UDP with properties of the network: traffic class and hop limit of packets, routes with a smaller MTU, and
missing peers. Needs root for two network namespaces. Writes TAP.

    test_udp_paths.py BUILD [--match REGEX]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import apart
import connections
import test_udp
import pairs  # from tools/lib/common, which a module of test_udp puts on the path
import patience
from uroce_case import Case, Skip, equal, has, main, named_cases

MARKED = ["--tclass", "43"]  # DSCP 10 and the ECN codepoint CE
SAY_NARROW = pathlib.Path(__file__).resolve().parent / "say_narrow.py"
PINGPONG = ["ibv_rc_pingpong", "-g", "1", "-c", "-s", "3000", "-n", "20"]  # sends packets with hop limit 1


def spaces_or_skip(*more: str) -> test_udp.Namespaces:
    missing = [tool for tool in ("ip", "ethtool", *more) if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        raise Skip(f"needs root and {', '.join(['ip', 'ethtool', *more])}")
    return test_udp.Namespaces()


class Run:
    """A program of perftest or of the verbs examples that runs in both namespaces. Each side has its own link options."""

    def __init__(self, case: Case, spaces: test_udp.Namespaces, program: list[str], words=("", ""), options=(), links=("udp", "udp")):
        server = spaces.start("a", case.uroce, "run", "--device", f"uroce0:{links[0]}{words[0]}", "--", *program)
        assert pairs.wait_for(lambda: listens(spaces) or server.poll() is not None, 20)
        client = spaces.start("b", case.uroce, "run", "--device", f"uroce0:{links[1]}{words[1]}", "--", *program, *options,
                              "10.9.0.1", stderr=subprocess.PIPE)
        self.server, self.client = server, client

    def ends(self) -> tuple[int, str]:
        """Waits for the end. Returns the client's status and its stderr."""
        said = self.client.communicate(timeout=patience.seconds(60))[1].decode()
        return self.client.returncode, said

    def both_end_well(self) -> None:
        status, said = self.ends()
        equal((status, self.server.wait(patience.seconds(30))), (0, 0), said)


def listens(spaces: test_udp.Namespaces) -> bool:
    """Returns whether a process in namespace a listens at the TCP port of perftest and the examples. Ignores closed
    connections."""
    return any(line.split()[1].endswith(":4853") and line.split()[3] == "0A" for line in spaces.sockets("a").splitlines())


def route(spaces: test_udp.Namespaces, side: str, *words: str) -> None:
    test_udp.call("ip", "-n", spaces.names[side], "route", "replace", *words)


def inside(spaces: test_udp.Namespaces, side: str, *command: str) -> str:
    return subprocess.run(["ip", "netns", "exec", spaces.names[side], *command], check=True, capture_output=True,
                          text=True).stdout


def marks(case: Case, program: list[str], addresses: str, source: str, *wanted: str) -> None:
    """Checks that the server's engine receives packets with the traffic class and hop limit that the client sets."""
    pcap = case.scratch / "captured.pcap"
    with spaces_or_skip("tcpdump") as spaces:
        Run(case, spaces, program, (f";ip={addresses % 1};pcap={pcap}", f";ip={addresses % 2}")).both_end_well()
    captured = subprocess.run(["tcpdump", "-nvr", pcap, "src", source], capture_output=True, text=True, check=True).stdout
    equal(captured.count(wanted[0]) >= 5, True, captured[:600])
    has(captured, *wanted)


SEND = ["ib_send_bw", "-F", "-x", "1", "-n", "5", "-s", "8", *MARKED]


def udp__traffic_class_and_hop_limit__are_those_of_the_program(case: Case) -> None:
    marks(case, SEND, "10.9.0.%d", "10.9.0.2", "tos 0x2b,CE, ttl 255")


def udp_over_ipv6__traffic_class__is_that_of_the_program(case: Case) -> None:
    marks(case, SEND, "fd09::%d", "fd09::2", "class 0x2b")


def udp_over_ipv6__hop_limit__is_that_of_the_program(case: Case) -> None:
    marks(case, PINGPONG, "fd09::%d", "fd09::2", "hlim 1,")


def udp_over_ipv6__link_local_addresses__reach_each_other(case: Case) -> None:
    """The kernel needs the interface of a link-local address, because every interface has such addresses."""
    with spaces_or_skip() as spaces:
        for side in "ab":
            test_udp.call("ip", "-n", spaces.names[side], "address", "add", f"fe80::{side}/64", "dev", "eth0", "nodad")
        Run(case, spaces, PINGPONG, (";ip=fe80::a", ";ip=fe80::b")).both_end_well()


def route_mtu__below_the_path_mtu__warning_and_a_smaller_mtu_works(case: Case) -> None:
    with spaces_or_skip() as spaces:
        for side in "ab":
            route(spaces, side, "10.9.0.0/24", "dev", "eth0", "mtu", "700")
        run = Run(case, spaces, PINGPONG, options=["-m", "1024"])
        has(run.client.stderr.readline().decode(), "the path to 10.9.0.1 carries IP packets of at most 700 bytes; set mtu=700")
        for side in (run.client, run.server):
            side.kill()
            side.wait()
        run.client.stderr.close()
        Run(case, spaces, [*PINGPONG, "-m", "512"], (";mtu=700", ";mtu=700")).both_end_well()


def route_mtu__of_the_default_route_low__limits_the_device(case: Case) -> None:
    with spaces_or_skip() as spaces:
        for side in "ab":
            route(spaces, side, "default", "dev", "eth0", "mtu", "700")
        listed = subprocess.run(["ip", "netns", "exec", spaces.names["a"], case.uroce, "devices"], check=False,
                                capture_output=True, text=True, env={**os.environ, "UROCE_DEVICES": "uroce0:udp"})
        has(listed.stdout, "mtu   700, IB MTU 512")


def say_narrow(spaces: test_udp.Namespaces, writer: str, host: str, peer: str, protocol: str) -> None:
    """Sends an ICMP error about a packet from @host to @peer; the kernel of @host accepts it."""
    inside(spaces, writer, "/usr/bin/python3", str(SAY_NARROW), host, peer, "600", protocol)
    has(inside(spaces, "ab"[writer == "a"], "ip", "route", "get", peer), "mtu 600")


def route_mtu__forged_for_the_default_route__device_mtu_is_unchanged(case: Case) -> None:
    with spaces_or_skip() as spaces:
        say_narrow(spaces, "b", "10.9.0.1", "192.0.2.1", "icmp")
        listed = subprocess.run(["ip", "netns", "exec", spaces.names["a"], case.uroce, "devices"], check=False,
                                capture_output=True, text=True, env={**os.environ, "UROCE_DEVICES": "uroce0:udp"})
        has(listed.stdout, "mtu   1500, IB MTU 1024")


def path_mtu__forged_low__connections_continue_and_start(case: Case) -> None:
    with spaces_or_skip() as spaces:
        stream = ["ib_write_bw", "-F", "-x", "1", "-m", "1024", "-n", "40000", "-s", "65536"]
        run = Run(case, spaces, stream, (",hub=no", ",hub=no"))
        assert pairs.wait_for(lambda: sent(spaces, "b") > 2000 or run.client.poll() is not None, 20)
        say_narrow(spaces, "a", "10.9.0.2", "10.9.0.1", "udp")
        run.both_end_well()
        Run(case, spaces, [*PINGPONG, "-m", "1024"]).both_end_well()


def interface_mtu__lowered_for_a_while__port_mtu_follows(case: Case) -> None:
    """The port's MTU is the smallest MTU of the interfaces with its addresses. It never exceeds the MTU at the time of the open,
    because frame buffers have that size."""
    with spaces_or_skip() as spaces:
        program = subprocess.Popen(
            ["ip", "netns", "exec", spaces.names["a"], case.uroce, "run", "--device", "uroce0:udp;ip=10.9.0.1,127.0.0.1/8", "--", "/usr/bin/python3",
             pathlib.Path(__file__).resolve().parent / "port_mtu.py"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        spaces.running.append(program)

        def now() -> str:
            try:
                print(file=program.stdin, flush=True)
            except BrokenPipeError:
                pass
            return program.stdout.readline().strip()

        if (first := now()).startswith("pyverbs"):
            raise Skip(first)
        equal(first, "1024")
        for mtu, payload in ((1000, "512"), (9000, "1024"), (590, "256"), (1500, "1024")):
            test_udp.call("ip", "-n", spaces.names["a"], "link", "set", "eth0", "mtu", str(mtu))
            assert pairs.wait_for(lambda: now() == payload, 20), f"{mtu} octets: {now()}, not {payload}"
        program.stdin.close()
        equal(program.wait(patience.seconds(20)), 0)
        program.stdout.close()


def tagged(pcap: pathlib.Path) -> list[bool]:
    """Returns for each frame between the devices whether it has the tag. The kernel's own frames in the capture are ignored."""
    seen = subprocess.run(["tcpdump", "-r", pcap, "-nne"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [" vlan 10," in line for line in seen if "10.9.10." in line]


def vlan__frames_of_its_devices__have_the_tag(case: Case) -> None:
    with spaces_or_skip("tcpdump") as spaces:
        pcap = case.scratch / "tagged.pcap"
        Run(case, spaces, ["ibv_rc_pingpong", "-g", "1", "-c", "-n", "20"],
            (f";vlan=10;ip=10.9.10.1/24;pcap={pcap}", ";vlan=10;ip=10.9.10.2/24"),
            links=("net_af_packet0,iface=eth0",) * 2).both_end_well()
        equal(set(tagged(pcap)), {True})


def vlan__kernel_interface_at_the_peer__frames_have_the_tag(case: Case) -> None:
    """The device of one side adds the tags itself. The other side has a UDP socket on a VLAN interface of the kernel."""
    with spaces_or_skip("tcpdump") as spaces:
        ip = ["ip", "-n", spaces.names["b"]]
        made = subprocess.run([*ip, "link", "add", "link", "eth0", "name", "eth0.10", "type", "vlan", "id", "10"],
                              capture_output=True, text=True, check=False)
        if "Unknown device type" in made.stderr:
            raise Skip("this kernel has no VLANs (8021q)")
        equal(made.returncode, 0, made.stderr)
        test_udp.call(*ip, "address", "add", "10.9.10.2/24", "dev", "eth0.10")
        test_udp.call(*ip, "link", "set", "eth0.10", "up")
        pcap = case.scratch / "kernel.pcap"
        Run(case, spaces, ["ibv_rc_pingpong", "-g", "1", "-c", "-n", "20"],
            (f";vlan=10;ip=10.9.10.1/24;pcap={pcap}", ",ip=10.9.10.2"),
            links=("net_af_packet0,iface=eth0", "udp")).both_end_well()
        equal(set(tagged(pcap)), {True})


def af_packet__gso_frames__are_received_and_sent(case: Case) -> None:
    """Within one machine, the kernel delivers a GSO frame without segmenting it, unless the interface does not support that."""
    short = "net_af_packet0,iface=eth0,framesz=4096"  # truncates frames of several packets
    for links in (("net_af_packet0,iface=eth0", "udp"), ("net_af_packet0,iface=eth0",) * 2, ("net_af_packet0,iface=eth0", short)):
        ends = (";ip=10.9.0.11/24", ",ip=10.9.0.2" if links[1] == "udp" else ";ip=10.9.0.12/24")
        with spaces_or_skip("ibv_rc_pingpong") as spaces:
            for offload in ("off", "on"):
                for side in "ab":
                    test_udp.call("ip", "netns", "exec", spaces.names[side], "ethtool", "-K", "eth0", "tx", offload, "gso", offload,
                                  "tx-udp-segmentation", offload)
                before = sent(spaces, "b")
                for words in (["-s", "300000", "-n", "200"], ["-s", "64", "-r", "200", "-n", "2000"]):
                    Run(case, spaces, ["ibv_rc_pingpong", "-g", "1", "-c", "-m", "1024", *words], ends, links=links).both_end_well()
                if offload == "on" and short not in links:  # more than 58 000 packets were sent
                    assert sent(spaces, "b") - before < 20000, f"{sent(spaces, 'b') - before} frames: each was sent by itself"


def sent(spaces: test_udp.Namespaces, side: str) -> int:
    """Returns the number of packets that the side's interface has sent."""
    table = subprocess.run(["ip", "netns", "exec", spaces.names[side], "cat", "/proc/net/dev"], capture_output=True,
                           text=True, check=True).stdout
    return int(table.split("eth0:")[1].split()[9])


def udp__peer_gone__is_reported_and_other_peers_are_served(case: Case) -> None:
    with spaces_or_skip() as spaces:
        stream = list(pairs.FAILING_STREAM)
        run = Run(case, spaces, stream, (",hub=no", ",hub=no;verbose=yes"))
        assert pairs.wait_for(lambda: sent(spaces, "b") > 2000 or run.client.poll() is not None, 20)
        run.server.kill()
        run.server.wait()
        status, said = run.ends()
        equal(pairs.fails_by_itself(status), True, f"ended with {status}\n{said}")
        has(said, "uroce: 10.9.0.1: Connection refused")
        Run(case, spaces, PINGPONG).both_end_well()


class Narrow(test_udp.Apart):
    """A pair whose interfaces and devices carry packets of 4096 bytes and more. The route from the client to the server has a
    smaller MTU."""
    carries = 1400
    local = {"server": "fe80::a/64", "client": "fe80::b/64"}

    def __enter__(self) -> "Narrow":
        super().__enter__()
        for role in apart.ADDRESSES:
            apart.ip("-n", self.name(role), "address", "add", self.local[role], "dev", "link0", "nodad")
            apart.ip("-n", self.name(role), "link", "set", "link0", "mtu", "9000")
        for address in (*apart.ADDRESSES["server"], self.local["server"]):
            apart.ip("-n", self.name("client"), "route", "add", address.split("/")[0], "dev", "link0", "mtu", str(self.carries))
        return self

    def configuration(self, role: str) -> str:
        return f"{super().configuration(role)};ip={self.local[role]};pcap={self.where}/{role}.pcap"


class Wide(Narrow):
    carries = 9000

    def configuration(self, role: str) -> str:
        return f"{super().configuration(role)};mtu=1500"


def payload(case: Case, to: str, kind: type[Narrow] = Narrow) -> int:
    """Runs rping with messages of 4000 bytes in both directions. Returns the longest payload of an RC packet in bytes."""
    class Kept(kind):
        def __exit__(self, *why: object) -> None:
            if (self.where / "client.pcap").exists():
                shutil.copy(self.where / "client.pcap", case.scratch)
            super().__exit__(*why)

    words = ["-a", to, "-v", "-V", "-C", "3", "-S", "4000"]
    problem = connections.run(case.uroce, connections.Connection(
        "rping", ["rping", "-s", *words], False, ["rping", "-c", *words], False, ["server ping data: rdma-ping-2:"]), Kept)
    assert not problem, problem
    dump = case.call("dump", case.scratch / "client.pcap").stdout
    return max(int(octets) for octets in re.findall(r" RC_.* pay (\d+)", dump))


# rule CM.MTU.ROUTE
def route_mtu__low_to_a_peer__rdma_cm_connection_uses_it(case: Case) -> None:
    equal(payload(case, "10.0.0.1"), 1024)


# rule CM.MTU.ROUTE
def route_mtu__low_ipv6_mtu_to_a_peer__rdma_cm_connection_uses_it(case: Case) -> None:
    equal(payload(case, "fd00::1"), 1024)


# rule CM.MTU.ROUTE
def route_mtu__low_link_mtu_to_a_peer__rdma_cm_connection_uses_it(case: Case) -> None:
    equal(payload(case, "fe80::a%link0"), 1024)


# rule CM.MTU.ROUTE
def route_mtu__above_the_device__rdma_cm_connection_uses_the_device_mtu(case: Case) -> None:
    equal(payload(case, "10.0.0.1", Wide), 1024)


def connect_to_nobody(case: Case, address: str, words: str) -> None:
    """Connects to a host without an RDMA program. The host replies with an ICMP error. Without this error, the client would
    send sixteen requests, which takes 82 s."""
    with spaces_or_skip("rping") as spaces:
        client = spaces.start("b", case.uroce, "run", "--device", f"uroce0:udp{words}", "--", "stdbuf", "-o0", "rping", "-c", "-a",
                              address, "-v", "-C", "1", stderr=subprocess.PIPE)
        said = client.communicate(timeout=patience.seconds(60))[1].decode()
        has(said, "RDMA_CM_EVENT_UNREACHABLE, error -110")


def udp_port__unused__connection_fails_soon(case: Case) -> None:
    connect_to_nobody(case, "10.9.0.1", ",hub=no")


def udp_port__unused_from_a_shared_address__connection_fails_soon(case: Case) -> None:
    """The kernel may deliver the ICMP error to any of the hub's sockets."""
    connect_to_nobody(case, "10.9.0.1", "")


def udp_port__unused_over_ipv6__connection_fails_soon(case: Case) -> None:
    connect_to_nobody(case, "fd09::1", ",ip=fd09::2")


CASES = named_cases(globals())

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
