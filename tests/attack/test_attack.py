#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on a connection between two uroce processes, from a third station of their segment: what
each does to the connection, and which counter tells of it. Writes TAP, or with --table the table of
docs/SECURITY.md. Needs root and scapy.

    test_attack.py build [--match REGEX] [--table]
"""
import argparse
import pathlib
import random
import re
import sys
from dataclasses import dataclass, field

import segment
import pairs

try:
    import forge
except ImportError:
    forge = None

COUNTER = re.compile(r"^uroce: uroce0: (\w+) +(\d+) ", re.M)
FRAMES = 1200         # more than what makes a warning
HEARD_SHARE = 0.9     # of the frames, at least; a ring may overflow
SECONDS = 60
STRANGER = "10.0.0.66"
FAR = 1 << 20         # PSNs from any that is due, for as long as the test lasts


@dataclass
class Attack:
    name: str
    knows: str                # what a stranger must have found out
    make: object              # (what is known, random numbers) -> frames
    counted: list[str] = field(default_factory=list)
    warns: bool = False


def psns(known, rng):
    """Such as are not due while the test runs."""
    for _ in range(FRAMES):
        yield known.psn + FAR + rng.randrange((1 << 24) - 2 * FAR)


def requests(known, psn, rng, **changes):
    """One of each kind that would do harm, in turn."""
    rkey = rng.getrandbits(32)
    kinds = [(forge.SEND_ONLY, b"forged!!"),
             (forge.WRITE_ONLY, forge.reth(rng.getrandbits(47), rkey, 8) + b"forged!!"),
             (forge.READ_REQUEST, forge.reth(rng.getrandbits(47), rkey, 4096)),
             (forge.FETCH_ADD, forge.reth(rng.getrandbits(47) & ~7, rkey, 0)[:12] + bytes(16))]
    opcode, body = kinds[rng.randrange(len(kinds))]
    return forge.frame(known, opcode, body, psn=psn, **changes)


def from_another_address(known, rng):
    for i in range(FRAMES):
        yield requests(known, known.psn + i % 64, rng, source=STRANGER)


def other_numbers(known, rng):
    for _ in range(FRAMES):
        yield requests(known, known.psn, rng, qpn=rng.randrange(2, 1 << 24))


def other_request_psns(known, rng):
    for psn in psns(known, rng):
        yield requests(known, psn, rng)


def other_ack_psns(known, rng):
    for psn in psns(known, rng):
        yield forge.frame(known, forge.ACK, forge.aeth(0x1f, rng.getrandbits(24)), psn=psn)


def other_nak_psns(known, rng):
    for psn in psns(known, rng):
        yield forge.frame(known, forge.ACK, forge.aeth(0x60 + rng.randrange(5)), psn=psn)


def other_data_psns(known, rng):
    for psn in psns(known, rng):
        yield forge.frame(known, forge.READ_ONLY_RESPONSE, forge.aeth(0x1f) + b"forged!!", psn=psn)


def other_partition(known, rng):
    for _ in range(FRAMES):
        yield requests(known, known.psn, rng, pkey=rng.randrange(1, 0x7fff))


def other_service(known, rng):
    for _ in range(FRAMES):
        yield forge.frame(known, forge.UC_SEND_ONLY, b"forged!!", psn=rng.getrandbits(24))


def congestion(known, rng):
    del rng
    for _ in range(FRAMES):
        yield forge.frame(known, forge.CNP, bytes(16), psn=0)


def wrong_sums(known, rng):
    for _ in range(FRAMES):
        good = requests(known, known.psn, rng)
        yield good[:-1] + bytes([good[-1] ^ 1])


def any_octets(known, rng):
    for _ in range(4 * FRAMES):
        yield forge.junk(known, rng.randbytes(rng.randrange(1, 200)))


def cm_ids(known, rng):
    kinds = {"REJ": {10: b"\0\x1c"}, "DREQ": {8: known.qpn.to_bytes(3, "big")}, "DREP": {},
             "RTU": {}, "MRA": {9: b"\xf8"}}
    for i in range(FRAMES):
        kind = list(kinds)[i % len(kinds)]
        yield forge.cm_message(known, kind, {0: rng.randbytes(4), 4: rng.randbytes(4),
                                             **kinds[kind]})


def cm_requests(known, rng):
    for i in range(FRAMES):
        yield forge.cm_request(known, 0x10000 + i, rng.randrange(1024, 65536))


DATA = [
    Attack("requests from another address", "queue pair, PSN", from_another_address,
           ["drop_address"], True),
    Attack("queue pair numbers tried", "addresses", other_numbers, ["drop_qpn"], True),
    Attack("PSNs of SEND, WRITE, READ, atomics tried", "addresses, queue pair", other_request_psns,
           ["far_request"], True),
    Attack("PSNs of ACKs tried", "addresses, queue pair", other_ack_psns,
           ["drop_ghost_ack", "drop_stale_response"]),
    Attack("PSNs of NAKs tried", "addresses, queue pair", other_nak_psns,
           ["drop_ghost_ack", "drop_stale_response"]),
    Attack("PSNs of READ answers tried", "addresses, queue pair", other_data_psns,
           ["drop_ghost_ack", "drop_stale_response"]),
    Attack("partition keys tried", "addresses, queue pair, PSN", other_partition, ["drop_pkey"],
           True),
    Attack("packets of another service", "addresses, queue pair", other_service, ["drop_service"]),
    Attack("congestion notifications", "addresses, queue pair", congestion),
    Attack("right in all but the sum", "addresses, queue pair, PSN", wrong_sums, ["drop_icrc"]),
    Attack("any octets to the RoCE port", "addresses", any_octets,
           ["drop_icrc", "drop_opcode", "drop_length", "drop_version", "drop_udp_length"]),
]


CONNECTIONS = [
    Attack("connection messages with IDs tried", "addresses, queue pair", cm_ids,
           ["cm_drop_unexpected"], True),
    Attack("connection requests that nobody waits for", "addresses", cm_requests, ["cm_refused"],
           True),
]


@dataclass
class Outcome:
    attack: Attack
    thrown: int
    connection: str  # empty: it went on and all octets are right
    counters: dict[str, int]
    said: str

    def counted(self) -> int:
        return sum(self.counters.get(name, 0) for name in self.attack.counted)

    def problem(self) -> str:
        if self.connection:
            return self.connection
        if self.attack.counted and self.counted() < HEARD_SHARE * self.thrown:
            return f"{self.thrown} frames were thrown, counted are {self.counters}"
        if self.attack.warns and "WARNING" not in self.said:
            return f"no warning on stderr\n{self.said}"
        return ""

    def row(self) -> str:
        counted = ", ".join(f"`{name}` {self.counters[name]}" for name in self.attack.counted
                            if self.counters.get(name))
        effect = "ends" if self.connection else "goes on, every octet right"
        warned = "; warns" if "WARNING" in self.said else ""
        return (f"| {self.attack.name} | {self.attack.knows} | {self.thrown} | {effect} | "
                f"{counted or '-'}{warned} |")


def outcome(attack: Attack, thrown: int, victim: pairs.Output, problem: str) -> Outcome:
    counters = {name: int(count) for name, count in COUNTER.findall(victim.text)}
    return Outcome(attack, thrown, problem, counters, victim.text)


def attacked(place: segment.Segment, attack: Attack, client, problem: str) -> tuple[int, bool]:
    """How many frames were thrown, and whether the victim lived to hear the last of them."""
    frame = place.overhear(lambda roce: roce[0] == forge.ACK)
    if frame is None:
        raise RuntimeError(f"nothing was overheard: {problem}")
    frames = list(attack.make(forge.Known.overheard(frame), random.Random(1)))
    thrown = place.throw(frames)
    return thrown, client.poll() is None


def on_data(build: pathlib.Path, attack: Attack, size: int) -> Outcome | None:
    """The victim is the client of a program that checks every octet."""
    verify = str(build / "tests" / "interop" / "verify")
    with segment.Segment(build / "app" / "uroce") as place:
        port = pairs.free_port()
        server, served = place.start("server", [verify, "-p", str(port)])
        pairs.wait_for(place.accepts(port), 20)
        client, asked = place.start("client", [verify, "-p", str(port), "-r", str(8 * size),
                                               "-l", "2048", "10.0.0.1"])
        thrown, alive = attacked(place, attack, client, place.said("client"))
        place.finish("client", client, asked, SECONDS)
        place.finish("server", server, served, 10)
    problem = pairs.Run(served, asked).problem()
    return outcome(attack, thrown, asked, problem) if alive or problem else None


def on_connection(build: pathlib.Path, attack: Attack, size: int) -> Outcome | None:
    """The victim is a client of rdma_cm; it checks its octets, too."""
    ping = ["rping", "-c", "-a", "10.0.0.1", "-V", "-C", str(20000 * size)]
    with segment.Segment(build / "app" / "uroce") as place:
        server, served = place.start("server", ["rping", "-s", "-a", "10.0.0.1", "-V"])
        pairs.wait_for(lambda: place.listens() or server.poll() is not None, 5)
        client, asked = place.start("client", ping)
        thrown, alive = attacked(place, attack, client, place.said("client"))
        place.finish("client", client, asked, SECONDS)
        place.finish("server", server, served, 10)
    problem = "" if asked.status == 0 else f"{pairs.ending(asked.status)}\n{asked.tail()}"
    return outcome(attack, thrown, asked, problem) if alive or problem else None


def run_attack(build: pathlib.Path, attack: Attack) -> Outcome:
    """Again with a victim that lives longer when it was over before the attack was."""
    on = on_connection if attack in CONNECTIONS else on_data
    for size in (1, 4, 16):
        result = on(build, attack, size)
        if result is not None:
            return result
    raise RuntimeError("the victim is always faster")


def why_not() -> str:
    if forge is None:
        return "scapy is not installed (python3-scapy)"
    return segment.why_not()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--match", default="")
    parser.add_argument("--table", action="store_true", help="as in docs/SECURITY.md")
    options = parser.parse_args()
    why = why_not()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    chosen = [attack for attack in DATA + CONNECTIONS if re.search(options.match, attack.name)]
    if not options.table:
        print(f"1..{len(chosen)}", flush=True)
    failed = 0
    for number, attack in enumerate(chosen, 1):
        result = run_attack(options.build.resolve(), attack)
        problem = result.problem()
        failed += bool(problem)
        print(result.row() if options.table else
              f"{'not ok' if problem else 'ok'} {number} - {attack.name}", flush=True)
        for line in problem.splitlines():
            print("#", line, flush=True)
        if not options.table:
            print("#", result.row(), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
