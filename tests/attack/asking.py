# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on the setup and the end of connections, on ARP, and on listening servers. The attacked programs are victim.c."""
import dataclasses
import pathlib
import threading

import forge
import pairs
import quiet
import segment
from quiet import PORT, Connection, Stage, Unexpected, expect, quiet as row

REQUESTS = 1200
ROUNDS = 2            # rounds of each kind of REQ
BACKLOG = 8
GROWTH = 256 << 10    # maximum growth of the memory after the first round, bytes
WHILE_MOST = 6000     # the flood ends after this number of REQs
WHILE_PAUSE = 0.02
TRIES = 20
MESSAGES = 1200
CLAIMS = 600          # forged ARP replies to each of the two hosts
VOID = 400
NOBODY = Connection(0, 0, 0, 0, 0)


# ---- messages of a connection ----------------------------------------------------------------------

KINDS = {"REJ": {10: b"\0\x1c"}, "DREQ": {}, "DREP": {}, "RTU": {}, "MRA": {9: b"\xf8"}}


def messages(stage: Stage, rng) -> tuple[int, str]:
    """Sends messages to the server with the correct ID of the server and a wrong ID of the client."""
    on = stage.connect()
    server, client = stage.ids()
    known = stage.known(on, "server")
    frames = []
    for i in range(MESSAGES):
        kind = list(KINDS)[i % len(KINDS)]
        guess = rng.randbytes(4)
        if guess != client:
            fields = {0: guess, 4: server, **KINDS[kind]}
            if kind == "DREQ":
                fields[8] = on.server_qpn.to_bytes(3, "big")
            frames.append(forge.cm_message(known, kind, fields))
    thrown = stage.place.throw(frames)
    stage.settle(on)
    return thrown, stage.goes_on(on)


def right_dreq(stage: Stage, rng) -> tuple[int, str]:
    """Sends a DREQ with both correct IDs, which ends the connection."""
    del rng
    on = stage.connect()
    server, client = stage.ids()
    thrown = stage.place.throw([forge.cm_message(
        stage.known(on, "server"), "DREQ",
        {0: client, 4: server, 8: on.server_qpn.to_bytes(3, "big")})])
    stage.settle(on)
    expect("the server", stage.server.ask(f"left {on.server}"), "RDMA_CM_EVENT_DISCONNECTED")
    stage.untouched()
    return thrown, "ends, as the peer can"


def stale(stage: Stage, rng) -> tuple[int, str]:
    """Sends REQs from the client's queue pair, as if the client had lost the connection."""
    on = stage.connect()
    guid = forge.guid_of(stage.place.mac("client"))
    frames = [forge.cm_request(stage.known(on, "server"), rng.getrandbits(32), port, guid,
                               on.client_qpn) for port in (PORT, PORT + 1) for _ in range(4)]
    thrown = stage.place.throw(frames)
    stage.settle(on)
    expect("the server", stage.server.ask(f"left {on.server}"), "stays")
    return thrown, stage.goes_on(on)


def false_arp(stage: Stage, rng) -> tuple[int, str]:
    """Sends ARP replies to both hosts, with the attacker's MAC address for the other host."""
    del rng
    on = stage.connect()
    frames = [forge.arp_reply(stage.known(on, role)) for role in stage.voices]
    thrown = stage.place.throw(frames * CLAIMS)
    stage.settle(on)
    return thrown, stage.goes_on(on)


# ---- a server that waits ---------------------------------------------------------------------------

def asked(stage: Stage, source: str, first: int) -> list[bytes]:
    """Returns REQs for the server's service, each from another client."""
    known = stage.known(NOBODY, "server")
    return [forge.cm_request(dataclasses.replace(known, source=source.format(100 + i % 100)),
                             first + i, PORT) for i in range(REQUESTS)]


SOURCES = {"of the client": "10.0.0.2", "of the attacker": segment.STRANGER,
           "of absent hosts": "10.0.0.{}"}


def resident(stage: Stage) -> int:
    """Returns the resident memory of the server in bytes."""
    pid = stage.processes["server"][0].pid
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("Rss:")[1].split()[0]) << 10


def void_requests(stage: Stage, rng) -> tuple[int, str]:
    """Sends REQs, and withdraws each by a REJ, while the server takes no events."""
    del rng
    known = stage.known(NOBODY, "server")
    thrown = 0
    for first in range(0x1000000, 0x1000000 + VOID, BACKLOG):
        for make in (lambda number: forge.cm_request(known, number, PORT),
                     lambda number: forge.cm_take_back(known, number)):
            thrown += stage.place.throw([make(first + i) for i in range(BACKLOG)])
            stage.expect_receive("server", NOBODY)
    serves_at_last(stage)
    return thrown, "a client gets in after it"


def slow_listener(stage: Stage, rng) -> tuple[int, str]:
    """Sends a flood of REQs while the server takes no events."""
    del rng
    thrown, sizes = 0, []
    for number in range(ROUNDS):
        for place, source in enumerate(SOURCES.values()):
            first = 0x10000 * (1 + number * len(SOURCES) + place)
            thrown += stage.place.throw(asked(stage, source, first))
            stage.expect_receive("server", NOBODY)
        sizes.append(resident(stage))
    if sizes[-1] - sizes[0] > GROWTH:
        raise Unexpected(f"the server has grown: {sizes}")
    serves_at_last(stage)
    return thrown, "memory is bounded; a client gets in after it"


def serves_at_last(stage: Stage) -> None:
    """Makes the server take events again. Checks that a client can connect, and that at most the backlog of requests waited."""
    stage.server.ask("serve")
    get_in(stage)
    came = stopped(stage)
    if came > BACKLOG + TRIES:
        raise Unexpected(f"{came} requests were waiting, the backlog is {BACKLOG}")


def get_in(stage: Stage) -> int:
    """Connects a client that repeats rejected attempts, and checks that its message arrives."""
    for tries in range(1, TRIES + 1):
        words = stage.client.ask("connect").split()
        if len(words) == 4:
            stage.client.ask(f"request {words[0]} send 0 0 8")
            expect("the client", stage.client.ask(f"completion {words[0]} 20000"), "request 0 -")
            return tries
    raise Unexpected(f"the client was refused {TRIES} times: {words}")


def stopped(stage: Stage) -> int:
    """Ends the server's command "serve", and checks its memory. Returns the number of requests that arrived."""
    stage.server.write("memory")
    came, _ = stage.server.read().split()
    expect("memory of the server", stage.server.read(), "same")
    return int(came)


def busy_listener(stage: Stage, rng) -> tuple[int, str]:
    """Sends a flood of REQs to a server that accepts all of them, and keeps only the latest 64 half-open connections."""
    frames = [frame for place, source in enumerate(SOURCES.values())
              for frame in asked(stage, source, 0x10000 * (place + 1))]
    rng.shuffle(frames)
    thrown, done = [], threading.Event()

    def flood() -> None:
        while not done.is_set() and sum(thrown) < WHILE_MOST:
            start = sum(thrown) % len(frames)
            thrown.append(stage.place.throw(frames[start:start + segment.SENDS_PER_PAUSE],
                                            WHILE_PAUSE))

    stage.server.ask("serve")
    attacker = threading.Thread(target=flood)
    attacker.start()
    try:
        pairs.wait_for(lambda: sum(thrown) >= REQUESTS or not attacker.is_alive(), 20)
        get_in(stage)
    finally:
        done.set()
        attacker.join()
    stopped(stage)
    return sum(thrown), "a client gets in during it"


QPN = quiet.QPN

ATTACKS = [
    row("REJ, DREQ, DREP, RTU, MRA with the peer's ID tried", QPN + ", own ID", messages,
        quiet.GOES_ON, ["cm_drop_unexpected"]),
    row("a DREQ with the right IDs", QPN + ", both IDs", right_dreq, "ends, as the peer can"),
    row("REQs from the peer's queue pair", "addresses, both queue pairs", stale, quiet.GOES_ON),
    row("ARP replies without a request", "addresses", false_arp, quiet.GOES_ON,
        ["arp_doubted"]),
    row("connection requests to a program that does not accept them", "addresses, service", slow_listener,
        "memory is bounded; a client gets in after it", ["cm_drop_busy", "cm_refused"]),
    row("connection requests, and then their end, to a program that does not accept them", "addresses, service",
        void_requests, "a client gets in after it"),
    row("connection requests to a program that accepts all", "addresses, service", busy_listener,
        "a client gets in during it"),
]
