# SPDX-License-Identifier: BSD-3-Clause
"""A process that shares an address, without the library: it sends and receives the messages of the broker (lib/io/udp/hub.h)
itself."""
import contextlib
import ctypes
import errno
import ipaddress
import os
import pathlib
import socket
import struct

import pairs  # like patience, from tools/lib/common, which the calling test puts on the path
import patience

HEADER = struct.Struct("=4I28s")  # struct uro_hub_header
REPORT_BODY = struct.Struct("=3I276s")  # struct uro_hub_report
VERSION = 2
HELLO, WELCOME, FULL, NO_DESCRIPTOR, SERVICES, DATAGRAM, REPORT = range(7)
PORT = 4791
BTH = 12        # length, bytes
AT_QPN = 5      # offset in the BTH; the upper six bits of the QPN are the QPN prefix of the process
RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def within(space: str):
    """Makes a `with` block whose sockets are created in the network namespace @space."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as own, open(f"/run/netns/{space}") as other:
        if libc.setns(other.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"setns {space}")
        try:
            yield
        finally:
            libc.setns(own.fileno(), CLONE_NEWNET)


def places() -> list[pathlib.Path]:
    """Returns the possible directories of the hub's socket (lib/io/udp/hub.h), for this user and for a plain user."""
    runtime = [os.environ["XDG_RUNTIME_DIR"]] if "XDG_RUNTIME_DIR" in os.environ else []
    users = {os.geteuid(), pairs.NOBODY}
    names = [f"{place}/uroce" for place in (*runtime, *(f"/run/user/{user}" for user in users))]
    names += [f"{place}/uroce-{user}" for place in ("/tmp", "/var/tmp") for user in users]
    return [pathlib.Path(name) for name in dict.fromkeys(names)]


def sockaddr(address: str) -> bytes:
    where = ipaddress.ip_address(address)
    if where.version == 4:
        return struct.pack("=H", socket.AF_INET) + struct.pack(">H", PORT) + where.packed
    return struct.pack("=H", socket.AF_INET6) + struct.pack(">HI", PORT, 0) + where.packed


def address_of(name: bytes) -> str:
    v6 = struct.unpack_from("=H", name)[0] == socket.AF_INET6
    return str(ipaddress.ip_address(name[8:24] if v6 else name[4:8]))


def bth(share: int) -> bytes:
    """Returns the BTH of a packet for the process with the QPN prefix @share."""
    octets = bytearray(BTH)
    octets[AT_QPN] = share << 2
    return bytes(octets)


class Member:
    """A process that is registered at the broker of an address."""

    def __init__(self, address: str):
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.settimeout(patience.seconds(10))
        self.connect(f"hub-{os.stat('/proc/thread-self/ns/net').st_ino}-{address}")
        self.say(HELLO, address, b"")
        record, descriptors, _, _ = socket.recv_fds(self.link, 4096, 1)
        _, kind, self.share, _, _ = HEADER.unpack(record)
        assert kind == WELCOME and len(descriptors) == 1, f"answered by {kind}"
        self.sock = socket.socket(fileno=descriptors[0])

    def connect(self, name: str) -> None:
        """Connects to the broker's socket, in the first directory that has the socket."""
        for place in places():
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError, PermissionError):
                self.link.connect(str(place / name))
                return
        raise FileNotFoundError(f"no {name} in {places()}")

    def __enter__(self) -> "Member":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()
        self.link.close()

    def say(self, kind: int, address: str, body: bytes) -> None:
        self.link.send(HEADER.pack(VERSION, kind, 0, 0, sockaddr(address)) + body)

    def report(self, address: str, error: int) -> None:
        self.say(REPORT, address, REPORT_BODY.pack(error, 0, 0, b""))

    def pass_to(self, share: int) -> None:
        """Sends the broker a datagram that belongs to the process with the QPN prefix @share."""
        self.say(DATAGRAM, "192.0.2.1", bth(share))

    def receive(self) -> tuple[int, str, int]:
        """Returns kind, address and error of the next record from the broker."""
        record = self.link.recv(66000)
        _, kind, _, _, name = HEADER.unpack_from(record)
        body = record[HEADER.size:]
        return kind, address_of(name), REPORT_BODY.unpack(body)[0] if kind == REPORT else 0

    def passed_on(self) -> set[str]:
        """Returns the unreachable addresses that the broker has reported since the last call."""
        found = set()
        self.link.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                kind, address, error = self.receive()
                assert (kind, error) == (REPORT, errno.ECONNREFUSED), f"kind {kind}, errno {error}"
                found.add(address)
        self.link.settimeout(patience.seconds(10))
        return found

    def taken(self) -> set[str]:
        """Returns the unreachable addresses that this process's own socket has reported since the last call."""
        found = set()
        with contextlib.suppress(BlockingIOError):
            while True:
                _, notes, _, where = self.sock.recvmsg(0, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
                assert any(note[:2] == RECVERR[self.sock.family] for note in notes)
                found.add(where[0])
        return found

    def send(self, address: str) -> None:
        """Sends a datagram. If the first sendto() returns the ICMP error of an earlier packet, sends again."""
        try:
            self.sock.sendto(bth(0), (address, PORT))
        except ConnectionRefusedError:
            self.sock.sendto(bth(0), (address, PORT))
