# SPDX-License-Identifier: BSD-3-Clause
"""P3: ping-pong of 8 bytes: half a round trip, median and 99.9 %."""
import contextlib
import os
import subprocess
import sys

from bench_rows import limits, stock
from bench_rows.figure import Bench, Figure, by_turns

OCTETS = "8"
BUSY = 4  # processes that compute during the measurement
TOOLS = ("ib_send_lat", "ib_write_lat")


@contextlib.contextmanager
def busy(count: int):
    """Runs @count processes that compute without a pause."""
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin, stdin=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def over_memif(bench: Bench, tool: str, others: int) -> list[float]:
    trips = bench.count(20_000 if others else 200_000)
    with busy(others):
        row = stock.latency(bench, [tool, "-s", OCTETS, "-n", str(trips)])
    return [row.typical, row.p999]


def over_ring(bench: Bench, what: str, kind: str) -> list[float]:
    said = limits.fields(bench, "ring_rate", what, kind, OCTETS, str(bench.count(500_000)))
    return [said["median_us"], said["p999_us"]]


def pair(name: str, beside: "list[Figure] | None" = None, aim: float | None = None) -> list[Figure]:
    return [Figure(f"{name}, {which}", "us", less=True, aim=aim if n == 0 else None,
                   beside=beside[n] if beside and n < len(beside) else None)
            for n, which in enumerate(("median", "99.9 %"))]


def rows(bench: Bench) -> list[Figure]:
    bare = pair("the ring without engines")
    alone = Figure("memif without engines, mean", "us")
    turns = [(bare, lambda: over_ring(bench, "bare-trips", "rc")),
             (alone, lambda: limits.port(bench, "round_trip_us", 64, "pingpong") / 2)]
    for what, kind in (("SEND", "rc"), ("WRITE", "write")):
        turns.append((pair(f"ring, {what}", bare, 0.5),
                      lambda kind=kind: over_ring(bench, "trips", kind)))
    for tool in TOOLS:
        turns.append((pair(f"memif, {tool}", [alone], 1.2),
                      lambda tool=tool: over_memif(bench, tool, 0)))
    for tool in TOOLS:
        name = f"memif, {tool}, {BUSY} busy processes on {os.cpu_count()} cores"
        turns.append((pair(name, [alone]), lambda tool=tool: over_memif(bench, tool, BUSY)))
    by_turns(bench.runs, *turns)
    return [row for figures, _ in turns[2:] for row in figures]
