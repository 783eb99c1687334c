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

# Sends RoCE packets to argv[1]: without a tag, with a priority tag, in VLAN 10.
SENDS_TAGGED = """
import socket, struct, sys
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(("link0", 0))
for name, tag in (b"no tag", b""), (b"VLAN 0", b"\\x81\\0\\xe0\\0"), (b"VLAN 10", b"\\x81\\0\\xe0\\x0a"):
    body = b"to see: " + name + bytes(40)
    udp = struct.pack("!4H", 4791, 4791, 8 + len(body), 0) + body
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, socket.inet_aton("10.0.0.2"), socket.inet_aton(sys.argv[1]))
    link.send(bytes((255,) * 6 + (2, 0, 0, 0, 0, 9)) + tag + b"\\x08\\0" + ip + udp)
"""

# Prints the first of these packets that the kernel receives.
SEES_ONE = """
import socket
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(("link0", 3))
print("bound", flush=True)
while True:
    before, found, after = link.recv(2000).partition(b"to see: ")
    if found:
        print(after.strip(b"\\0").decode())
        break
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


def kernel_takes(pair: Pair, address: str) -> None:
    """Sends a datagram to port 4791 of the server's address. A socket of the server must receive it."""
    with subprocess.Popen(["ip", "netns", "exec", pair.name("server"), sys.executable, "-c", TAKES_ONE, address],
                          stdout=subprocess.PIPE, text=True) as taker:
        try:
            equal(taker.stdout.readline(), "bound\n")
            equal(pair.python("client", SENDS, address), "")
            equal(taker.communicate(timeout=patience.seconds(30))[0], "for the kernel\n")
        finally:
            taker.kill()


def own_address__roce_to_the_kernels_address__goes_to_the_kernel(case: Case) -> None:
    with Pair(case, own=True) as pair:
        pair.hold()
        kernel_takes(pair, "10.0.0.1")


def own_address__roce_in_a_vlan__goes_to_the_kernel(case: Case) -> None:
    """The device is on no VLAN. It takes the frame without a tag and the frame with a priority tag. The kernel receives the third."""
    with Pair(case, own=True) as pair:
        pair.hold()
        with subprocess.Popen(["ip", "netns", "exec", pair.name("server"), sys.executable, "-c", SEES_ONE],
                              stdout=subprocess.PIPE, text=True) as seer:
            try:
                equal(seer.stdout.readline(), "bound\n")
                equal(pair.python("client", SENDS_TAGGED, "10.0.0.11"), "")
                equal(seer.communicate(timeout=patience.seconds(30))[0], "VLAN 10\n")
            finally:
                seer.kill()


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
