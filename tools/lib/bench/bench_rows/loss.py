# SPDX-License-Identifier: BSD-3-Clause
"""P8: the goodput of a stream of WRITEs on a link that loses or reorders packets. The simulator measures it in virtual time,
with 25 Gb/s and a round trip of 50 us. perftest measures it on interfaces of this machine."""
import itertools

import figures
import veths
from bench_rows import limits
from bench_rows.figure import Bench, Figure, NotRun, by_turns

MIB = 1048576
SECONDS = 120
MTU = 4500
# Name, lost and reordered packets per mille, and the aim as a fraction of the rate without loss
TROUBLES = (("0.01 % lost", 0.1, 0, 0.95), ("0.1 % lost", 1, 0, 0.85), ("1 % lost", 10, 0, 0.5),
            ("1 % overtaken", 0, 10, 0.97))
# Name, and the queue length in bytes above which the switch sets the CE codepoint. The queue has 128 KiB, the link 10 Gb/s.
QUEUE = 131072
SWITCHES = (("a switch that marks nothing", 0), ("a switch that marks above 32 KiB", 32768))
PROGRAM = ["ib_write_bw", "-F", "-x", "1", "-m", "4096", "-s", "65536"]


def simulated(bench: Bench, lose: float, late: float, seed: int) -> float:
    shares = [str(round(per_mille * 65.536)) for per_mille in (lose, late)]
    return limits.fields(bench, "lossy_goodput", *shares, "65536", str(bench.count(20_000)),
                         str(seed))["gbit_per_s"]


def through_a_switch(bench: Bench, mark: int, seed: int) -> float:
    return limits.fields(bench, "lossy_goodput", "0", "0", "65536", str(bench.count(20_000)), str(seed), str(QUEUE),
                         str(mark))["gbit_per_s"]


def carried(bench: Bench, lose: float, late: float) -> float:
    if veths.why_not():
        raise NotRun(veths.why_not())
    with veths.Veths(bench.uroce, device_text=veths.OWN_AF_PACKET, mtu=MTU, carried=True, lose=lose,
                     late=late) as pair:
        run = pair.run([*PROGRAM, "-n", str(bench.count(30_000))], SECONDS)
        if run.problem():
            raise NotRun(run.problem())
        return figures.bandwidths(run.client.text)[0].average * MIB * 8 / 1e9


def rows(bench: Bench) -> list[Figure]:
    turns = []
    seeds = itertools.count(1)
    for where, measure in (
            ("simulated", lambda lose, late: simulated(bench, lose, late, next(seeds))),
            ("af_packet, carried by a process", lambda lose, late: carried(bench, lose, late))):
        whole = Figure(f"{where}, nothing lost", "Gb/s")
        turns.append((whole, lambda measure=measure: measure(0, 0)))
        for what, lose, late, aim in TROUBLES:
            turns.append((Figure(f"{where}, {what}", "Gb/s", beside=whole, aim_ratio=aim),
                          lambda measure=measure, lose=lose, late=late: measure(lose, late)))
    for what, mark in SWITCHES:
        turns.append((Figure(f"simulated, into 10 Gb/s and a queue of 128 KiB, {what}", "Gb/s"),
                      lambda mark=mark: through_a_switch(bench, mark, next(seeds))))
    by_turns(bench.runs, *turns)
    return [row for row, _ in turns]
