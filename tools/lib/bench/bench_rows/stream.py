# SPDX-License-Identifier: BSD-3-Clause
"""P2: long WRITEs over memif, compared with two cores that only copy and compute the CRC."""
from bench_rows import limits, stock
from bench_rows.figure import Bench, Figure, by_turns

MIB = 1048576
AIM = 75 / 8  # GB/s
SHARE = 0.8
SIZES = ((65536, "64 KiB", 100_000), (MIB, "1 MiB", 10_000))


def gigabytes(bench: Bench, tool: str, size: int, count: int) -> float:
    count = max(count // 10, 1000) if bench.quick else count
    return stock.bandwidth(bench, [tool, "-m", "4096", "-s", str(size), "-n",
                                   str(count)]).average * MIB / 1e9


def limit(bench: Bench, size: int) -> float:
    return limits.fields(bench, "copy_limit", str(size), "1")["gb_per_s"]


def rows(bench: Bench) -> list[Figure]:
    turns = []
    found = []
    for size, words, count in SIZES:
        beside = Figure("copy+CRC on one core, CRC and copy on the other", "GB/s")
        turns.append((beside, lambda size=size: limit(bench, size)))
        tools = ("ib_write_bw", "ib_send_bw", "ib_read_bw") if size == 65536 else ("ib_write_bw",)
        for tool in tools:
            aims = {"aim": AIM, "aim_ratio": SHARE} if tool == "ib_write_bw" else {}
            row = Figure(f"{tool} {words}, IB MTU 4096", "GB/s", beside=beside, **aims)
            turns.append((row, lambda tool=tool, size=size, count=count:
                          gigabytes(bench, tool, size, count)))
            found.append(row)
    by_turns(bench.runs, *turns)
    return found
