# SPDX-License-Identifier: BSD-3-Clause
"""P1: the rate of messages of 64 bytes over one queue pair with 128 outstanding messages. Except where a row says so, each side has
its own processor."""
import re

from bench_rows import limits, stock
from bench_rows.figure import Bench, Figure, by_turns

OCTETS = "64"
RING = "ring, {what}"
ONE_CORE = "both engines on one core, {what}"
MEMIF = "memif, {tool} -s 64{more}"
LIST = ("-l", "32")
IMPAIR = "loss:0.01%,delay:2us,seed:7"  # faults of the sender's link, in both directions


def engine_ns(bench: Bench, *arguments: str, messages: int = 1_000_000, each: int = 0) -> float:
    """Returns the processor time of both engines together for one message. Each queue pair has @each outstanding messages. If
    @each is 0, the queue pairs send in turn and have 128 outstanding messages in total."""
    words = [*arguments, *("1", "0")[len(arguments) - 2:], str(bench.count(messages)), str(each)]
    return float(re.match(r"([\d.]+) ns", limits.said(bench.build, "engine_rate", *words))[1])


def ring_rate(bench: Bench, what: str, kind: str, *plan: str) -> float:
    messages = str(bench.count(10_000_000))
    return limits.fields(bench, "ring_rate", what, kind, OCTETS, messages, *plan)["per_s"] / 1e6


def rows(bench: Bench) -> list[Figure]:
    bare = Figure("the ring without engines", "M/s")
    alone = Figure("memif without engines, 64-octet frames", "M/s")
    turns = [(bare, lambda: ring_rate(bench, "bare-rate", "rc")),
             (alone, lambda: limits.port(bench, "frames_per_s", 64) / 1e6)]
    for what, kind in (("WRITE", "write"), ("SEND", "rc")):
        turns += [
            (Figure(RING.format(what=what), "M/s", aim=10, beside=bare),
             lambda kind=kind: ring_rate(bench, "rate", kind)),
            (Figure(ONE_CORE.format(what=what), "M/s"),
             lambda kind=kind: 1000 / engine_ns(bench, kind, OCTETS))]
        if kind == "write":
            turns.append((Figure(RING.format(what=f"WRITE, impair={IMPAIR}"), "M/s", aim=3, beside=turns[-2][0]),
                          lambda: ring_rate(bench, "rate", "write", IMPAIR)))
    for tool, more in (("ib_write_bw", ()), ("ib_write_bw", LIST), ("ib_send_bw", ())):
        name = MEMIF.format(tool=tool, more="".join(f" {word}" for word in more))
        turns.append((Figure(name, "M/s", aim=5, beside=alone),
                      lambda tool=tool, more=more: stock.bandwidth(
                          bench, [tool, "-s", OCTETS, "-n", str(bench.count(1_000_000)),
                                  *more]).rate))
    by_turns(bench.runs, *turns)
    return [row for row, _ in turns if row not in (bare, alone)]
