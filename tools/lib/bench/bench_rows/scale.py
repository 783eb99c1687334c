# SPDX-License-Identifier: BSD-3-Clause
"""P7: the same number of messages over 1, 100 and 10 000 queue pairs. In the worst case, each queue pair in turn sends one
message. Programs are nearer to the other case: each queue pair sends a whole window."""
from bench_rows import stock
from bench_rows.figure import Bench, Figure, by_turns
from bench_rows.messages import engine_ns

SHARE = 0.8  # aim: rate of 10 000 queue pairs, as a fraction of the rate of 100
WINDOW = 128
# A number of queue pairs that fit into the cache. As with 10 000 queue pairs, each message has its own ACK.
CACHED = 256
MANY = 10_000
MESSAGES = 4_000_000  # messages of a run with windows


def rate(bench: Bench, kind: str, active: int, idle: int = 0) -> float:
    return 1000 / engine_ns(bench, kind, "64", str(active), str(idle))


def rate_of_windows(bench: Bench, kind: str, active: int) -> float:
    return 1000 / engine_ns(bench, kind, "64", str(active), "0", each=WINDOW, messages=MESSAGES)


def rate_of_perftest(bench: Bench, active: int) -> float:
    """Returns the rate of perftest. With -N, perftest does not compute a peak rate, which would take long for millions of
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
