# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on a connection that transfers data all the time. The programs check every byte."""
import pathlib
import random

import forge
import pairs
import segment
from outcome import GOES_ON, Attack, Outcome

FRAMES = 1200  # more frames than cause a warning
SECONDS = 60


def requests(known, psn, rng, **changes):
    """Returns a harmful request of a random kind."""
    kind = rng.choice(list(forge.REQUESTS))
    return forge.request(known, kind, rng.getrandbits(47), rng.getrandbits(32), psn=psn, **changes)


def from_another_address(known, rng):
    for i in range(FRAMES):
        yield requests(known, known.psn + i % 64, rng, source=segment.STRANGER)


def other_numbers(known, rng):
    for _ in range(FRAMES):
        yield requests(known, known.psn, rng, qpn=rng.randrange(2, 1 << 24))


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


def any_bytes(known, rng):
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


def outcome(attack: Attack, thrown: int, victim: pairs.Output, problem: str) -> Outcome:
    return Outcome(attack, thrown, "ends" if problem else GOES_ON, victim.text, problem)


def attacked(place: segment.Segment, attack: Attack, client, problem: str) -> tuple[int, bool]:
    """Returns the number of sent frames, and whether the attacked process still ran at the last frame."""
    frame = place.overhear(lambda roce: roce[0] == forge.ACK)
    if frame is None:
        raise RuntimeError(f"nothing was overheard: {problem}")
    frames = list(attack.make(forge.Known.overheard(frame), random.Random(1)))
    thrown = place.throw(frames)
    return thrown, client.poll() is None


def data_once(build: pathlib.Path, attack: Attack, size: int) -> Outcome | None:
    """Attacks the client of a program that checks every byte."""
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


def connection_once(build: pathlib.Path, attack: Attack, size: int) -> Outcome | None:
    """Attacks a client of rdma_cm, which also checks its bytes."""
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


def long_enough(once):
    """Returns a function that attacks. If the attacked process ends before the attack does, it repeats the attack on a process
    that runs longer."""
    def run(build: pathlib.Path, attack: Attack) -> Outcome:
        for size in (1, 4, 16):
            result = once(build, attack, size)
            if result is not None:
                return result
        raise RuntimeError("the victim always ends before the attack")
    return run


ON_DATA, ON_CONNECTION = long_enough(data_once), long_enough(connection_once)
QPN, PSN = "addresses, queue pair", "addresses, queue pair, PSN"

ATTACKS = [
    Attack("requests from another address", "queue pair, PSN", ON_DATA, from_another_address,
           ["drop_address"], warns=True),
    Attack("packets with guessed queue pair numbers", "addresses", ON_DATA, other_numbers, ["drop_qpn"],
           warns=True),
    Attack("packets with guessed partition keys", PSN, ON_DATA, other_partition, ["drop_pkey"], warns=True),
    Attack("packets of another service", QPN, ON_DATA, other_service, ["drop_service"]),
    Attack("congestion notifications", QPN, ON_DATA, congestion, ["rp_cnp_handled"]),
    Attack("packets with a wrong ICRC only", PSN, ON_DATA, wrong_sums, ["drop_icrc"]),
    Attack("random octets to the RoCE port", "addresses", ON_DATA, any_bytes,
           ["drop_icrc", "drop_opcode", "drop_length", "drop_version", "drop_udp_length"]),
    Attack("REJ, DREQ, DREP, RTU, MRA with guessed IDs", QPN, ON_CONNECTION, cm_ids,
           ["cm_drop_unexpected"], warns=True),
    Attack("connection requests to services without a listener", "addresses", ON_CONNECTION, cm_requests,
           ["cm_refused"], warns=True),
]
