#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs what tools/bench shows: figures of programs over uroce beside figures of the machine."""
import argparse
import os
import pathlib
import re
import subprocess
import sys

import cm_rate
import figures
import limits
import pairs
from limits import Figure

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 120
JUMBO = ";mtu=4200"  # room for an IB MTU of 4096
MIB = 1048576


def machine() -> str:
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                            capture_output=True, text=True, check=False).stdout.strip()
    return (f"{model.group(1) if model else 'unknown CPU'}, {os.cpu_count()} CPUs, "
            f"load {os.getloadavg()[0]:.1f}, Linux {os.uname().release}, commit {commit or '?'}")


def once(uroce: pathlib.Path, program: list[str]) -> tuple[str, str]:
    """(the client's output, why it failed)"""
    with pairs.Pair(uroce, settings=JUMBO) as pair:
        run = pair.run(program, SECONDS)
        return run.client.text, run.problem()


def latency(uroce: pathlib.Path, tool: str, runs: int) -> list[Figure]:
    median = Figure(f"{tool} 8 octets, half a round trip, median", "us")
    tail = Figure(f"{tool} 8 octets, half a round trip, 99 %", "us")
    for _ in range(runs):
        text, problem = once(uroce, [tool, "-F", "-x", "1", "-s", "8", "-n", "20000"])
        rows = figures.latencies(text)
        if problem or not rows:
            median.why = tail.why = (problem or "no table").splitlines()[0]
            break
        median.values.append(rows[0].typical)
        tail.values.append(rows[0].p99)
    return [median, tail]


def bandwidth(uroce: pathlib.Path, tool: str, runs: int) -> Figure:
    row = Figure(f"{tool} 64 KiB, IB MTU 4096", "GB/s")
    for _ in range(runs):
        text, problem = once(uroce, [tool, "-F", "-x", "1", "-m", "4096", "-s", "65536", "-n",
                                     "20000"])
        rows = figures.bandwidths(text)
        if problem or not rows:
            row.why = (problem or "no table").splitlines()[0]
            break
        row.values.append(rows[0].average * MIB / 1e9)
    return row


def message_rate(uroce: pathlib.Path, runs: int) -> Figure:
    row = Figure("ib_write_bw 8 octets, messages", "M/s")
    for _ in range(runs):
        text, problem = once(uroce, ["ib_write_bw", "-F", "-x", "1", "-s", "8", "-n", "100000"])
        rows = figures.bandwidths(text)
        if problem or not rows:
            row.why = (problem or "no table").splitlines()[0]
            break
        row.values.append(rows[0].rate)
    return row


# what, arguments of engine_rate: service, octets, active queue pairs, idle ones
ENGINE = (
    ("RC SEND 64 octets", ("rc", "64", "1", "0")),
    ("RC SEND 64 octets, 10 000 idle queue pairs beside it", ("rc", "64", "1", "10000")),
    ("RC SEND 64 octets, over 100 queue pairs in turn", ("rc", "64", "100", "0")),
    ("RC SEND 64 octets, over 10 000 queue pairs in turn", ("rc", "64", "10000", "0")),
    ("UC SEND 64 octets", ("uc", "64", "1", "0")),
    ("UD SEND 64 octets", ("ud", "64", "1", "0")),
    ("XRC SEND 64 octets", ("xrc", "64", "1", "0")),
)


def engine(build: pathlib.Path, runs: int) -> list[Figure]:
    """The rows take turns, so that a busy spell of the machine meets all of them."""
    rows = [Figure(name, "ns") for name, _ in ENGINE]
    for _ in range(runs):
        for row, (_, arguments) in zip(rows, ENGINE):
            try:
                if not row.why:
                    row.values.append(float(limits.said(build, "engine_rate", *arguments).split()[0]))
            except limits.NotRun as error:
                row.why = str(error)
    return rows


def show(title: str, rows: list[Figure]) -> None:
    print(f"\n{title}")
    for row in rows:
        if row.why:
            print(f"  {row.name:52} not run: {row.why}")
        else:
            print(f"  {row.name:52} {row.median:9.3f} {row.unit:6} "
                  f"({min(row.values):.3f} to {max(row.values):.3f}, {len(row.values)} runs)")
    sys.stdout.flush()


def show_ratios(machine_rows: list[Figure], ours: list[Figure]) -> None:
    """Every octet must at least be copied and summed once on each side."""
    limit = next((row for row in machine_rows if row.name == limits.FUSED and row.values), None)
    if limit is None:
        return
    print(f"\nShare of '{limit.name}', {limit.median:.2f} GB/s")
    for row in ours:
        if row.unit == "GB/s" and row.values:
            print(f"  {row.name:52} {row.median / limit.median:9.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=5, help="of each row; the median is shown")
    options = parser.parse_args()
    build = options.build.resolve()
    uroce = build / "app" / "uroce"
    print(machine())
    possible = limits.figures(build, options.runs)
    show("This machine: one core, and two processes on one link", possible)
    ours = []
    if not uroce.exists():
        ours.append(Figure("programs over uroce", "", why=f"{uroce} is not built"))
    else:
        for tool in ("ib_send_lat", "ib_write_lat"):
            ours += latency(uroce, tool, options.runs)
        ours += [bandwidth(uroce, tool, options.runs)
                 for tool in ("ib_write_bw", "ib_send_bw", "ib_read_bw")]
        ours.append(message_rate(uroce, options.runs))
    show("Programs over uroce, two processes, memif", ours)
    show_ratios(possible, ours)
    show(f"Connections, {cm_rate.COUNT} at once, by cmtime", cm_rate.figures(build, options.runs))
    show("Both engines together, one message, no port", engine(build, options.runs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
