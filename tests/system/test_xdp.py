#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that an af_xdp link shares its interface with the kernel. The link takes only RoCE packets to its own addresses. Needs
root for two network namespaces with an interface each. Writes TAP.

    test_xdp.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import subprocess
import sys

import apart
import pairs  # from tools/lib/common, which the module programs puts on the path
import patience
from uroce_case import Case, Skip, equal, has, main, named_cases

OWN = {"server": "10.0.0.11/24", "client": "10.0.0.12/24"}  # the kernel does not have these addresses
NOISE = ("libxdp", "libbpf", "bpffs", "WARNING")

# Sends an ICMP echo request to argv[1] and waits for the reply.
PING = """
import socket, struct, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
protocol, kind, answer = (58, 128, 129) if ":" in sys.argv[1] else (1, 8, 0)
ping = socket.socket(family, socket.SOCK_RAW, protocol)
body = struct.pack("!BBHHH", kind, 0, 0, 77, 1)
if family == socket.AF_INET:
    total = sum(struct.unpack("!4H", body))
    total = (total & 0xffff) + (total >> 16)
    body = struct.pack("!BBHHH", kind, 0, ~total & 0xffff, 77, 1)
ping.sendto(body, (sys.argv[1], 0))
while True:
    packet, where = ping.recvfrom(200)
    packet = packet if ":" in sys.argv[1] else packet[20:]
    if packet[0] == answer and packet[4:8] == body[4:8]:
        print("answered by", where[0])
        break
"""

# Receives one datagram at argv[1], port 4791.
TAKES_ONE = """
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind((sys.argv[1], 4791))
print("bound", flush=True)
print(udp.recv(100).decode())
"""

SENDS = """
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"for the kernel", (sys.argv[1], 4791))
"""


class Pair(apart.Pair):
    """A pair of devices over af_xdp. If @own is false, they have the addresses of the kernel."""

    def __init__(self, case: Case, own: bool = False):
        why = apart.why_not()
        if why:
            raise Skip(why)
        if not (case.build / "lib" / "io" / "dpdk" / "liburoce-dpdk.so").exists():
            raise Skip("liburoce-dpdk.so is not built: DPDK is missing")
        super().__init__(case.uroce, meeting="10.0.0.1")
        self.own = own

    def configuration(self, role: str) -> str:
        own = f";ip={OWN[role]}" if self.own else ""
        return f"uroce0:net_af_xdp0,iface=link0{own}"

    def inside(self, role: str, *words: object) -> subprocess.CompletedProcess:
        return subprocess.run(["ip", "netns", "exec", self.name(role), *map(str, words)], capture_output=True, text=True,
                              timeout=patience.seconds(60), check=False)

    def python(self, role: str, code: str, *words: str) -> str:
        run = self.inside(role, sys.executable, "-c", code, *words)
        return run.stdout + run.stderr

    def listening(self, port: int) -> bool:
        return f":{port:04X} 0" in self.inside("server", "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout

    def has_program(self, role: str) -> bool:
        return "xdp" in self.inside(role, "ip", "-d", "link", "show", "link0").stdout

    def hold(self) -> subprocess.Popen:
        """Starts a server that has opened its device and waits for its client on a TCP port."""
        server, _ = self.serve(["ibv_rc_pingpong", "-g", "1"], pairs.free_port())
        if server.poll() is not None:
            said = self.said("server")
            if "not supported" in said or "Failed to create xsk" in said:
                raise Skip(f"no XDP sockets here: {said.strip().splitlines()[0]}")
            raise AssertionError(said)
        return server


def talks(pair: Pair, *words: str) -> str:
    run = pair.run([*words], 100)
    assert not run.problem(), run.problem()
    for side in (run.server, run.client):
        assert not any(word in side.text for word in NOISE), side.text
    return run.client.text


def shared_address__tcp_and_roce__both_run(case: Case) -> None:
    with Pair(case) as pair:
        pair.end(pair.hold())
        for words in (("ibv_rc_pingpong", "-g", "1", "-n", "200"), ("ibv_rc_pingpong", "-g", "2", "-n", "200"),
                      ("ib_send_bw", "-x", "1", "-n", "500")):
            talks(pair, *words)


def shared_address__device_runs__kernel_keeps_its_interface(case: Case) -> None:
    with Pair(case) as pair:
        pair.hold()
        assert pair.has_program("server")
        equal(pair.python("client", PING, "10.0.0.1"), "answered by 10.0.0.1\n")
        equal(pair.python("client", PING, "fd00::1"), "answered by fd00::1\n")


def own_address__kernel_and_device__both_answer_ping(case: Case) -> None:
    with Pair(case, own=True) as pair:
        pair.hold()
        for address in ("10.0.0.11", "10.0.0.1"):
            equal(pair.python("client", PING, address), f"answered by {address}\n")
    with Pair(case, own=True) as pair:
        has(talks(pair, "ibv_rc_pingpong", "-g", "1", "-n", "200"), "GID ::ffff:10.0.0.11")


def own_address__roce_to_the_kernels_address__goes_to_the_kernel(case: Case) -> None:
    with Pair(case, own=True) as pair:
        pair.hold()
        with subprocess.Popen(["ip", "netns", "exec", pair.name("server"), sys.executable, "-c", TAKES_ONE, "10.0.0.1"],
                              stdout=subprocess.PIPE, text=True) as taker:
            equal(taker.stdout.readline(), "bound\n")
            equal(pair.python("client", SENDS, "10.0.0.1"), "")
            equal(taker.communicate(timeout=patience.seconds(30))[0], "for the kernel\n")


def process__killed__xdp_program_is_removed(case: Case) -> None:
    with Pair(case) as pair:
        server = pair.hold()
        assert pair.has_program("server")
        pair.end(server)  # kills the server with SIGKILL
        assert pairs.wait_for(lambda: not pair.has_program("server"), 60)
        pair.end(pair.hold())


def interface__with_an_xdp_program__warning(case: Case) -> None:
    with Pair(case) as pair:
        pair.hold()
        environment = {**os.environ, "UROCE_DEVICES": "other:net_af_xdp0,iface=link0"}
        run = subprocess.run(["ip", "netns", "exec", pair.name("server"), case.uroce, "devices", "--probe"],
                             capture_output=True, text=True, env=environment, timeout=patience.seconds(60), check=False)
        has(run.stderr, "uroce: other: WARNING: while this device is open the kernel gets none of the packets of link0",
            "it has an XDP program already")
        assert "libxdp" not in run.stderr, run.stderr


CASES = named_cases(globals())


if __name__ == "__main__":
    assert pathlib.Path(sys.argv[1]).is_dir()
    sys.exit(main(__doc__, CASES))
