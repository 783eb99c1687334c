# SPDX-License-Identifier: BSD-3-Clause
"""P10: the processor time of two connected processes without work, and the time until an arriving message wakes one of them."""
import tempfile

from bench_rows import limits
from bench_rows.figure import Bench, Figure, by_turns

UDP = "uroce0:udp,ip=127.0.0.{n},hub=no"
TAIL = 3  # aim: the 99th percentile as a multiple of the median
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
    for name, link, aim in (("memif", MEMIF, 60), ("UDP on loopback", UDP, 90)):
        pipe = Figure("through a pipe", "us")
        median = Figure(f"{name}, from the post to the completion at the waiting process, median", "us", aim=aim, less=True, beside=pipe)
        shown = [Figure(f"{name}, waiting for an event", "% of a core", aim=1, less=True),
                 Figure(f"{name}, sleeping without a requested event", "% of a core", aim=1, less=True),
                 median,
                 Figure(f"{name}, from the post to the completion at the waiting process, 99 %", "us", aim_ratio=TAIL, less=True,
                        beside=median)]
        turns.append(([*shown[:2], pipe, *shown[2:]], lambda link=link: measure(bench, link)))
        found += shown
    by_turns(bench.runs, *turns)
    return found
