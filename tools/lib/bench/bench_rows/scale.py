# SPDX-License-Identifier: BSD-3-Clause
"""P7: the same messages over 1, 100 and 10 000 queue pairs: one message in turn, which is the worst
case, or a window for each queue pair, as in programs."""
from bench_rows import stock
from bench_rows.figure import Bench, Figure, by_turns
from bench_rows.messages import engine_ns

SHARE = 0.8  # of the rate of 100
WINDOW = 128
# So many queue pairs fit into the cache. Each message has an ACK of its own, as with 10 000 queue pairs.
CACHED = 256
MANY = 10_000
MESSAGES = 4_000_000  # of windows


def rate(bench: Bench, kind: str, active: int, idle: int = 0) -> float:
    return 1000 / engine_ns(bench, kind, "64", str(active), str(idle))


def rate_of_windows(bench: Bench, kind: str, active: int) -> float:
    return 1000 / engine_ns(bench, kind, "64", str(active), "0", each=WINDOW, messages=MESSAGES)


def rate_of_perftest(bench: Bench, active: int) -> float:
    """Returns the rate of perftest. -N: it does not search for the fastest of millions of
    messages."""
    each = max(bench.count(MESSAGES) // active, 2 * WINDOW)
    return stock.bandwidth(bench, ["ib_write_bw", "-s", "64", "-N", "-q", str(active), "-t", str(WINDOW),
                                   "-n", str(each)]).rate


def of_many(name: str, hundred: Figure) -> Figure:
    return Figure(name.format(f"{MANY:,}".replace(",", " ")), "M/s", aim_ratio=SHARE, beside=hundred)


def in_turn(bench: Bench, what: str, kind: str) -> list[tuple]:
    name = "{} active, one message of each in turn, 128 in all, " + what + " 64"
    one, hundred = (Figure(name.format(n), "M/s") for n in (1, 100))
    idle = Figure(f"1 active, 10 000 idle, {what} 64", "M/s", beside=one)
    hundred.beside = one
    cached = Figure(name.format(CACHED) + ", all in the cache", "M/s", beside=hundred)
    return [(row, lambda active=active, idle=idle: rate(bench, kind, active, idle))
            for row, active, idle in ((one, 1, 0), (idle, 1, MANY), (hundred, 100, 0), (cached, CACHED, 0),
                                      (of_many(name, hundred), MANY, 0))]


def windows(bench: Bench, what: str, kind: str) -> list[tuple]:
    name = "{} active, " + f"{WINDOW} outstanding of each, {what} 64"
    hundred = Figure(name.format(100), "M/s")
    return [(row, lambda active=active: rate_of_windows(bench, kind, active))
            for row, active in ((hundred, 100), (of_many(name, hundred), MANY))]


def perftest(bench: Bench) -> list[tuple]:
    name = f"memif, ib_write_bw -s 64 -t {WINDOW} -q {{}}"
    hundred = Figure(name.format(100), "M/s")
    return [(row, lambda active=active: rate_of_perftest(bench, active))
            for row, active in ((hundred, 100), (of_many(name, hundred), MANY))]


def rows(bench: Bench) -> list[Figure]:
    turns = []
    for what, kind in (("WRITE", "write"), ("SEND", "rc")):
        turns += in_turn(bench, what, kind) + windows(bench, what, kind)
    turns += perftest(bench)
    by_turns(bench.runs, *turns)
    return [row for row, _ in turns]
