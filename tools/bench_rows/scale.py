# SPDX-License-Identifier: BSD-3-Clause
"""P7: the same messages over 1, 100 and 10 000 queue pairs in turn."""
from bench_rows.figure import Bench, Figure, by_turns
from bench_rows.messages import engine_ns

SHARE = 0.8  # of the rate of 100


def rate(bench: Bench, kind: str, active: int, idle: int = 0) -> float:
    return 1000 / engine_ns(bench, kind, "64", str(active), str(idle))


def rows(bench: Bench) -> list[Figure]:
    turns = []
    for what, kind in (("WRITE", "write"), ("SEND", "rc")):
        one, hundred = (Figure(f"{n} active, {what} 64", "M/s") for n in (1, 100))
        beside = Figure(f"1 active, 10 000 idle, {what} 64", "M/s", beside=one)
        many = Figure(f"10 000 active, {what} 64", "M/s", aim_ratio=SHARE, beside=hundred)
        hundred.beside = one
        for row, active, idle in ((one, 1, 0), (beside, 1, 10_000), (hundred, 100, 0),
                                  (many, 10_000, 0)):
            turns.append((row, lambda kind=kind, active=active, idle=idle:
                          rate(bench, kind, active, idle)))
    by_turns(bench.runs, *turns)
    return [row for row, _ in turns]
