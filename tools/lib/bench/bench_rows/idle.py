# SPDX-License-Identifier: BSD-3-Clause
"""P10: two connected processes without work, and how soon one wakes when a message arrives."""
import tempfile

from bench_rows import limits
from bench_rows.figure import Bench, Figure, by_turns

UDP = "uroce0:udp,ip=127.0.0.{n},hub=no"
MEMIF = "uroce0:net_memif0,role={role},socket={where}/link.sock;ip=10.0.0.{n}/24"


def measure(bench: Bench, link: str) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="uroce-bench-") as where:
        devices = [link.format(role=role, where=where, n=n)
                   for n, role in ((1, "server"), (2, "client"))]
        said = limits.fields(bench, "idle_wake", *devices, *(("1", "20") if bench.quick else
                                                              ("5", "200")))
    return [said["waiting"] * 100, said["sleeping"] * 100, said["pipe_us"], said["wake_us"],
            said["wake_p99_us"]]


def rows(bench: Bench) -> list[Figure]:
    turns, found = [], []
    for name, link in (("memif", MEMIF), ("UDP on loopback", UDP)):
        pipe = Figure("through a pipe", "us")
        shown = [Figure(f"{name}, waiting for an event", "% of a core", aim=1, less=True),
                 Figure(f"{name}, sleeping, no event asked for", "% of a core", aim=1, less=True),
                 Figure(f"{name}, from post to the completion of who waited, median", "us", aim=100,
                        less=True, beside=pipe),
                 Figure(f"{name}, from post to the completion of who waited, 99 %", "us", less=True)]
        turns.append(([*shown[:2], pipe, *shown[2:]], lambda link=link: measure(bench, link)))
        found += shown
    by_turns(bench.runs, *turns)
    return found
