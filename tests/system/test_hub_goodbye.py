#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the broker of a shared UDP address ends the connections of a process that was killed. Writes TAP.

    test_hub_goodbye.py BUILD [--match REGEX]
"""
import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys

import test_hub
from test_udp import PORT, SHARED_ADDRESS, SUBNET, Shared
import pairs  # from tools/lib/common, which a module of test_udp puts on the path
import hub_member
import patience
from uroce_case import Case, equal, has, main, named_cases

ADDRESS, PEER = f"{SUBNET}.8", f"{SUBNET}.11"
REQ, REJ, REP, RTU, DREQ, DREP = 0x10, 0x12, 0x13, 0x14, 0x15, 0x16
HEAD = bytes.fromhex("64 40 ffff 00000001 00000000 80010000 00000001")  # BTH and DETH of a datagram to queue pair 1
MAD = struct.Struct(">BBBBHHQHHI")
QPN_AT = {REQ: 32, REP: 12, DREQ: 8}  # offset of the QPN in the body; it is the sender's QPN, but in DREQ the receiver's
QPN = 0x123456


class Peer:
    """A peer without the library, which sends the messages of a connection manager itself."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((PEER, PORT))
        self.sock.settimeout(patience.seconds(10))

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def say(self, kind: int, own: int, other: int) -> None:
        body = bytearray(232)
        struct.pack_into(">II", body, 0, own, 0 if kind == REQ else other)
        if kind in QPN_AT:
            body[QPN_AT[kind]:QPN_AT[kind] + 3] = QPN.to_bytes(3, "big")
        self.sock.sendto(HEAD + MAD.pack(1, 7, 2, 3, 0, 0, 1, kind, 0, 0) + bytes(body) + bytes(4), (ADDRESS, PORT))

    def receive(self) -> tuple[int, int]:
        """Returns the communication IDs of the next DREQ: (ID of the sender, ID of the receiver)."""
        octets, source = self.sock.recvfrom(2000)
        equal((source, len(octets), octets[:2]), ((ADDRESS, PORT), 280, HEAD[:2]))
        *_, kind, _, _ = MAD.unpack_from(octets, len(HEAD))
        body = octets[len(HEAD) + MAD.size:]
        equal((kind, int.from_bytes(body[8:11], "big")), (DREQ, QPN))
        return struct.unpack_from(">II", body)


@contextlib.contextmanager
def scene(case: Case):
    """Starts the broker of ADDRESS. Yields a peer, and a function that makes processes registered at the broker."""
    made = test_hub.Broker(case.uroce, [], ADDRESS)
    with contextlib.ExitStack() as stack:
        stack.callback(made.end)
        yield stack.enter_context(Peer()), lambda: stack.enter_context(hub_member.Member(ADDRESS))


def id_of(member: hub_member.Member, number: int) -> int:
    return member.share << 26 | number


def passed_on(member: hub_member.Member, count: int) -> None:
    """Checks that the broker passes @count datagrams of the peer to the member."""
    for _ in range(count):
        equal(member.receive()[0], hub_member.DATAGRAM)


def broker__passive_peer_of_a_closed_process__gets_dreqs_until_drep(case: Case) -> None:
    with scene(case) as (peer, member):
        first, second = member(), member()
        ids = {name: id_of(of, 0x77) for name, of in (("first", first), ("second", second))}
        peer.say(REP, 1001, ids["first"])
        passed_on(first, 1)
        peer.say(REP, 1002, ids["second"])
        passed_on(second, 1)
        first.link.close()
        equal(peer.receive(), (ids["first"], 1001))
        equal(peer.receive(), (ids["first"], 1001))
        peer.say(DREP, 1001, ids["first"])
        passed_on(second, 1)  # the broker must pass a DREP for a dead process to another process
        second.link.close()
        equal([peer.receive() for _ in range(3)], [(ids["second"], 1002)] * 3)


def broker__active_peer_of_a_closed_process__gets_a_dreq(case: Case) -> None:
    with scene(case) as (peer, member):
        one = member()
        own = id_of(one, 0x99)
        peer.say(REQ, 2001, 0)
        peer.say(RTU, 2001, own)
        passed_on(one, 2)
        one.link.close()
        equal(peer.receive(), (own, 2001))


def broker__connection_ended_before_the_close__gets_no_dreq(case: Case) -> None:
    with scene(case) as (peer, member):
        one = member()
        for number, end in enumerate((DREQ, DREP, REJ, None), 1):
            peer.say(REP, 3000 + number, id_of(one, number))
            if end is not None:
                peer.say(end, 3000 + number, id_of(one, number))
        passed_on(one, 7)
        one.link.close()
        equal([peer.receive() for _ in range(3)], [(id_of(one, 4), 3004)] * 3)


def connected(pair: Shared, words: list[str]) -> subprocess.Popen:
    """Returns a client that the server has accepted. A client that connects before the server
    listens is rejected, and tries again."""
    clients = [pair.start("client", words)[0]]

    def is_answered() -> bool:
        if clients[-1].poll() is not None:
            clients.append(pair.start("client", words)[0])
        return "ping data" in pair.said("server")

    assert pairs.wait_for(is_answered, 30), pair.said("client")
    return clients[-1]


def rping__client_killed__server_ends_at_once(case: Case) -> None:
    with Shared(case.uroce) as pair, test_hub.broker(pair):
        server, _ = pair.start("server", ["stdbuf", "-o0", "rping", "-s", "-v", "-a", SHARED_ADDRESS, "-p", "7480"])
        assert pairs.wait_for(lambda: test_hub.is_used(SHARED_ADDRESS) or server.poll() is not None, 20)
        client = connected(pair, ["rping", "-c", "-a", SHARED_ADDRESS, "-p", "7480"])
        os.killpg(client.pid, signal.SIGKILL)
        server.wait(patience.seconds(60))
        has(pair.said("server"), "server DISCONNECT EVENT")


CASES = named_cases(globals())

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
