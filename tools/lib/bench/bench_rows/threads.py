# SPDX-License-Identifier: BSD-3-Clause
"""P12: threads that share a device, each with its own queue pairs and CQ, and processes that share nothing."""
from bench_rows import limits
from bench_rows.figure import Bench, Figure, by_turns
from bench_rows.events import SUBNET

DEVICE = "uroce0:udp,ip={subnet}.{n},hub=no"
TWICE = 1.9  # aim: rate of two threads on two cores, as a ratio to one thread


def rate(bench: Bench, threads: int, processes: int) -> float:
    """Returns the WRITEs of all threads in millions per second."""
    devices = [DEVICE.format(subnet=SUBNET, n=10 + n) for n in range(processes)]
    return limits.fields(bench, "threads_rate", str(threads), "0.5" if bench.quick else "2", *devices)["per_s"] / 1e6


def rows(bench: Bench) -> list[Figure]:
    name = "WRITE 64, loopback, {}"
    processes = Figure("two processes of one thread", "M/s")
    one = Figure(name.format("1 thread"), "M/s", beside=processes)
    two = Figure(name.format("2 threads"), "M/s", beside=processes, rivals=[one])
    four = Figure(name.format("4 threads"), "M/s", beside=processes)
    by_turns(bench.runs, (processes, lambda: rate(bench, 1, 2)), (one, lambda: rate(bench, 1, 1)),
             (two, lambda: rate(bench, 2, 1)), (four, lambda: rate(bench, 4, 1)))
    of_one = Figure(two.name, "M/s", beside=one, aim_ratio=TWICE, values=two.values, pairs=two.pairs, why=two.why)
    return [one, two, of_one, four]
