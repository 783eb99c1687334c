# SPDX-License-Identifier: BSD-3-Clause
"""An Ethernet segment with three hosts: a server and a client under uroce, and an attacker. The attacker can send any frame.
The tests also read the frames of the other hosts. Needs root."""
import contextlib
import ctypes
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
import apart  # noqa: E402
import pairs  # noqa: E402
import patience  # noqa: E402

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
ROCE_PORT = 4791
STRANGER = "10.0.0.66"  # the attacker's own address; its kernel answers ARP requests for it
SENDS_PER_PAUSE = 64  # frames between two pauses, in which the receivers empty their rings


def why_not() -> str:
    """Returns the reason why this process cannot create a segment, or "" if it can."""
    why = apart.why_not()
    if why:
        return why
    able = subprocess.run(["unshare", "--net", "ip", "link", "add", "bridge0", "type", "bridge"],
                          capture_output=True, check=False)
    return "" if able.returncode == 0 else "the kernel has no bridges"


def enter(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def raw_socket(namespace: str, interface: str) -> socket.socket:
    """Returns a raw socket in another network namespace."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    try:
        enter(there)
        made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        made.bind((interface, 0))
    finally:
        enter(home)
        os.close(home)
        os.close(there)
    return made


class Segment(apart.Pair):
    """An apart.Pair with a bridge between the two hosts. The attacker is at a third port of the bridge."""

    def __enter__(self) -> "Segment":
        pairs.Pair.__enter__(self)
        self.drop = []
        self.made, self.taps, self.attacker = [], {}, None
        try:
            self.build()
        except Exception:
            self.__exit__()
            raise
        return self

    def build(self) -> None:
        middle = self.name("middle")
        for role in ("middle", *apart.ADDRESSES):
            apart.ip("netns", "add", self.name(role))
            self.made.append(self.name(role))
        subprocess.run(["ip", "netns", "exec", middle, "sysctl", "-qw",
                        "net.ipv6.conf.default.disable_ipv6=1"], check=False)
        apart.ip("-n", middle, "link", "add", "bridge0", "type", "bridge", "mcast_snooping", "0")
        for role, addresses in apart.ADDRESSES.items():
            apart.ip("link", "add", role, "netns", middle, "type", "veth",
                     "peer", "name", "link0", "netns", self.name(role))
            for address in addresses:
                apart.add_address(self.name(role), "link0", address)
            for link in ("lo", "link0"):
                apart.ip("-n", self.name(role), "link", "set", link, "up")
        apart.ip("-n", middle, "link", "add", "attacker", "type", "veth", "peer", "name", "port")
        for link in ("server", "client", "port"):
            apart.ip("-n", middle, "link", "set", link, "master", "bridge0")
        for link in ("server", "client", "port", "attacker", "bridge0"):
            apart.ip("-n", middle, "link", "set", link, "up")
        apart.ip("-n", middle, "address", "add", STRANGER + "/24", "dev", "attacker")
        self.attacker = raw_socket(middle, "attacker")
        self.taps = {role: raw_socket(middle, role) for role in apart.ADDRESSES}  # for reading the frames of each host

    def __exit__(self, *why: object) -> None:
        pairs.Pair.__exit__(self, *why)
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        for opened in [self.attacker, *self.taps.values()]:
            if opened is not None:
                opened.close()

    def configuration(self, role: str) -> str:
        return super().configuration(role) + ";verbose=yes" + self.settings

    def overhear(self, fits, seconds: float = 20, role: str = "server") -> bytes | None:
        """Returns the first frame from host @role to the RoCE port for which fits() is true, or None after
        @seconds."""
        until = time.monotonic() + patience.seconds(seconds)
        self.taps[role].settimeout(0.2)
        while time.monotonic() < until:
            try:
                frame = self.taps[role].recv(65536)
            except TimeoutError:
                continue
            if frame[12:14] == b"\x08\x00" and frame[23] == 17 \
                    and int.from_bytes(frame[36:38], "big") == ROCE_PORT and fits(frame[42:]):
                return frame
        return None

    def throw(self, frames, pause: float = 0.002) -> int:
        """Sends the frames. Makes pauses, so that the receivers' rings do not overflow."""
        count = 0
        for frame in frames:
            self.attacker.send(frame)
            count += 1
            if count % SENDS_PER_PAUSE == 0:
                time.sleep(pause)
        return count

    def mac(self, role: str) -> str:
        shown = subprocess.run(["ip", "-n", self.name(role), "-json", "link", "show", "link0"],
                               check=True, capture_output=True, text=True).stdout
        return json.loads(shown)[0]["address"]

    @contextlib.contextmanager
    def without(self, role: str):
        """Disconnects host @role from the segment. Its link stays up."""
        apart.ip("-n", self.name("middle"), "link", "set", role, "nomaster")
        yield
        apart.ip("-n", self.name("middle"), "link", "set", role, "master", "bridge0")

    def accepts(self, port: int):
        """Returns a function: whether the server's kernel has a listener on the port."""
        def there() -> bool:
            table = subprocess.run(["ip", "netns", "exec", self.name("server"), "cat",
                                    "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True,
                                   text=True, check=False).stdout
            return any(f":{port:04X} " in line and " 0A " in line for line in table.splitlines())
        return there
