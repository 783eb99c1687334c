# SPDX-License-Identifier: BSD-3-Clause
"""P11: programs that sleep until a completion event, over memif, over UDP on loopback, and over TCP for comparison. The
programs are ib_send_lat -e, and an epoll server with one thread (tests/bench/event_server.c)."""
import contextlib
import functools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass

import figures
import pairs
from bench_rows.figure import Bench, Figure, NotRun, by_turns

SECONDS = 60
STARTS = 20
TRIPS = 20_000
LENGTH = "64"
# Each run of tools/bench has its own loopback subnet, because other programs may use loopback addresses, too.
SUBNET = f"127.{1 + os.getpid() % 250}.{os.getpid() // 250 % 250}"
ADDRESSES = {"server": f"{SUBNET}.2", "client": f"{SUBNET}.3"}
MEASURED = (("requests", "1/s", False), ("median", "us", True), ("99 %", "us", True),
            ("context switches of both sides for a request", "", True),
            ("processor time of both sides for a request", "us", True))


class Loopback(pairs.Pair):
    """Two addresses of the loopback interface, over UDP."""

    def configuration(self, role: str) -> str:
        return f"{self.device}:udp,ip={ADDRESSES[role]},hub=no{self.settings}"


@dataclass
class Link:
    name: str
    make: Callable[..., contextlib.AbstractContextManager[pairs.Pair]]
    address: str  # address of the server
    transport: str = "rdma"
    half_trip: float | None = None  # aim: half of a round trip, divided by that of blocking TCP
    many: float | None = None       # aim: requests per second of 50 clients, divided by those of TCP


TCP = Link("TCP", functools.partial(pairs.Pair, bare=True), "127.0.0.1", "tcp")
LINKS = (Link("memif", pairs.Pair, pairs.ADDRESSES["server"].partition("/")[0], half_trip=1.1, many=2),
         Link("UDP on loopback", Loopback, ADDRESSES["server"], half_trip=1.5, many=1.2))


def last_line(output: pairs.Output) -> str:
    return (output.text.strip().splitlines() or [f"event_server {pairs.ending(output.status)}"])[-1]


def event_server(bench: Bench, link: Link, clients: int, length: str, *mode: str) -> dict[str, dict]:
    """Returns the fields that server and client print."""
    program = bench.build / "tests" / "bench" / "event_server"
    if not program.exists():
        raise NotRun("tests/bench/event_server is not built: libibverbs or librdmacm is missing")
    port = str(pairs.free_port())
    ends = [str(program), "server", link.address, port, link.transport, *mode]
    asks = [str(program), "client", link.address, port, link.transport, str(clients), length,
            "0.5" if bench.quick else "2", *mode]
    with link.make(bench.uroce) as pair:
        served, serving = pair.start("server", ends)
        pairs.wait_for(lambda: "ready" in pair.said("server") or served.poll() is not None, STARTS)
        asked, asking = pair.start("client", asks)
        pair.finish("client", asked, asking, SECONDS)
        pair.finish("server", served, serving, 5)
    for output in (serving, asking):
        if output.status not in (0, None):
            raise NotRun(last_line(output))
    for output in (asking, serving):
        if output.status is None:
            raise NotRun(f"event_server was not done in time: {last_line(output)}")
    return {"server": json.loads(last_line(serving)), "client": json.loads(last_line(asking))}


def requests(bench: Bench, link: Link, clients: int) -> list[float]:
    said = event_server(bench, link, clients, LENGTH)
    client = said["client"]
    return [client["per_s"], client["median_us"], client["p99_us"],
            *(client[key] + said["server"][key] for key in ("switches", "cpu_us"))]


def blocking_tcp(bench: Bench) -> float:
    """Returns half of the round trip of 8 bytes between two programs that block in recv()."""
    return event_server(bench, TCP, 1, "8", "wait")["client"]["median_us"] / 2


def half_trip(bench: Bench, link: Link) -> float:
    with link.make(bench.uroce) as pair:
        run = pair.run(["ib_send_lat", "-e", "-F", "-x", "1", "-s", "8", "-n", str(bench.count(TRIPS))], SECONDS)
        if run.problem():
            raise NotRun(run.problem())
        return figures.latencies(run.client.text)[0].typical


def server_figures(link: Link, clients: int, beside: list[Figure] | None) -> list[Figure]:
    aims = [link.many, 1, 1, None, None] if clients > 1 else [None] * len(MEASURED)
    name = f"{link.name}, epoll server, {clients} client{'s' if clients > 1 else ''}"
    return [Figure(f"{name}, {what}", unit, less=less, aim_ratio=aim if beside else None,
                   beside=beside[n] if beside else None)
            for n, ((what, unit, less), aim) in enumerate(zip(MEASURED, aims))]


def rows(bench: Bench) -> list[Figure]:
    tcp = Figure("blocking TCP, event_server", "us", less=True)
    turns: list[tuple] = [(tcp, lambda: blocking_tcp(bench))]
    for link in LINKS:
        turns.append(([Figure(f"{link.name}, ib_send_lat -e, 8 bytes, median", "us", less=True, beside=tcp,
                              aim_ratio=link.half_trip)], lambda link=link: half_trip(bench, link)))
    for clients in (1, 50):
        same = server_figures(TCP, clients, None)
        turns.append((same, lambda clients=clients: requests(bench, TCP, clients)))
        turns += [(server_figures(link, clients, same), lambda link=link, clients=clients: requests(bench, link, clients))
                  for link in LINKS]
    by_turns(bench.runs, *turns)
    return [row for shown, _ in turns if isinstance(shown, list) for row in shown if row.beside is not None]
