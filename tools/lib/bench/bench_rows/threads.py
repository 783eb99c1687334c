# SPDX-License-Identifier: BSD-3-Clause
"""P12: the rate of several threads on one device, compared with one thread and with separate processes."""
import subprocess

from bench_rows import limits
from bench_rows.figure import Bench, Figure, by_turns
from bench_rows.events import SUBNET

DEVICE = "uroce0:udp,ip={subnet}.{n},hub=no"
ENGINES = "uroce0:udp,ip={address};engines={engines}"
ONE_PORT = "uroce0:net_null0;ip=10.1.0.1/24;engines={engines}"  # all engines have one port
TWICE = 1.9  # aim: rate of two threads on two cores, divided by the rate of one thread
SHARED = 0.9  # aim: rate of four threads that share a queue pair and its CQ, divided by the rate of one thread


def rate(bench: Bench, threads: int, processes: int, queues: str = "own", key: str = "per_s", engines: int = 1,
         link: str = "udp") -> float:
    """Returns the total rate of WRITEs of all threads, in millions per second, or per second of processor time."""
    devices = [DEVICE.format(subnet=SUBNET, n=10 + n) for n in range(processes)]
    if link != "udp":
        devices = [link.format(engines=engines)] * processes
    elif engines > 1:
        address = f"{SUBNET}.20"
        subprocess.run([bench.uroce, "hub", "--address", address, "--idle", "2", "--background"], check=True, timeout=30)
        devices = [ENGINES.format(address=address, engines=engines)] * processes
    return limits.fields(bench, "threads_rate", queues, str(threads), "0.5" if bench.quick else "2", *devices)[key] / 1e6


def engine_rows(bench: Bench) -> list[Figure]:
    """Rows for threads with their own queue pairs on different engines of a device."""
    processes = Figure("two processes of one thread, 2 engines", "M/s")
    one = Figure("WRITE 64, loopback, 1 thread, 2 engines", "M/s")
    two = Figure("WRITE 64, loopback, 2 threads, 2 engines", "M/s", beside=processes, rivals=[one])
    by_turns(bench.runs, (processes, lambda: rate(bench, 1, 2, engines=2)), (one, lambda: rate(bench, 1, 1, engines=2)),
             (two, lambda: rate(bench, 2, 1, engines=2)))
    of_one = Figure(two.name, "M/s", beside=one, aim_ratio=TWICE, values=two.values, pairs=two.pairs, why=two.why)
    return [two, of_one, one_port_row(bench)]


def one_port_row(bench: Bench) -> Figure:
    """Row for engines that share one port, on a link that carries no frames."""
    one = Figure("WRITE 64, loopback, 1 thread, 2 engines with one port", "M/s")
    two = Figure("WRITE 64, loopback, 2 threads, 2 engines with one port", "M/s", beside=one, aim_ratio=TWICE)
    by_turns(bench.runs, (one, lambda: rate(bench, 1, 1, engines=2, link=ONE_PORT)), (two, lambda: rate(bench, 2, 1, engines=2, link=ONE_PORT)))
    return two


def shared_rows(bench: Bench) -> list[Figure]:
    """Rows for threads that share a queue pair and its CQ. The first row is the rate per second. The second row is the rate per
    second of processor time, which other programs on the machine hardly affect."""
    figures = []
    for key, unit in (("per_s", "M/s"), ("per_processor_s", "M/processor s")):
        one = Figure(f"WRITE 64, loopback, 1 thread, {unit}", unit)
        four = Figure("WRITE 64, loopback, 4 threads share a queue pair and its CQ", unit, beside=one, aim_ratio=SHARED)
        by_turns(bench.runs, (one, lambda key=key: rate(bench, 1, 1, "shared", key)),
                 (four, lambda key=key: rate(bench, 4, 1, "shared", key)))
        figures.append(four)
    return figures


def rows(bench: Bench) -> list[Figure]:
    name = "WRITE 64, loopback, {}"
    processes = Figure("two processes of one thread", "M/s")
    one = Figure(name.format("1 thread"), "M/s", beside=processes)
    two = Figure(name.format("2 threads"), "M/s", beside=processes, rivals=[one])
    four = Figure(name.format("4 threads"), "M/s", beside=processes)
    by_turns(bench.runs, (processes, lambda: rate(bench, 1, 2)), (one, lambda: rate(bench, 1, 1)),
             (two, lambda: rate(bench, 2, 1)), (four, lambda: rate(bench, 4, 1)))
    of_one = Figure(two.name, "M/s", beside=one, aim_ratio=TWICE, values=two.values, pairs=two.pairs, why=two.why)
    return [one, two, of_one, four, *engine_rows(bench), *shared_rows(bench)]
