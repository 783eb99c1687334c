#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs what tools/bench shows: figures of programs over uroce beside figures of the machine."""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass, field

import figures
import pairs

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 120
JUMBO = ";mtu=4200"  # room for an IB MTU of 4096
MIB = 1048576


@dataclass
class Figure:
    """One row; values of all runs, or why there are none."""
    name: str
    unit: str
    values: list[float] = field(default_factory=list)
    why: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values) if self.values else 0.0


def machine() -> str:
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                            capture_output=True, text=True, check=False).stdout.strip()
    return (f"{model.group(1) if model else 'unknown CPU'}, {os.cpu_count()} CPUs, "
            f"load {os.getloadavg()[0]:.1f}, Linux {os.uname().release}, commit {commit or '?'}")


def micro(build: pathlib.Path, program: str, runs: int) -> list[Figure]:
    """A program of tests/bench prints lines `NAME: VALUE UNIT`; here they become rows."""
    path = build / "tests" / "bench" / program
    if not path.exists():
        return [Figure(program, "", why=f"{path.relative_to(build)} is not built")]
    found: dict[str, Figure] = {}
    for _ in range(runs):
        run = subprocess.run([str(path)], capture_output=True, text=True, check=False,
                             timeout=SECONDS)
        if run.returncode:
            words = (run.stdout + run.stderr).strip().splitlines() or ["no word why"]
            return [Figure(program, "", why=words[-1])]
        for m in re.finditer(r"^([^:\n]+):[ \t]*([\d.]+)[ \t]+(\S+)[ \t]*$", run.stdout, re.M):
            found.setdefault(m[1], Figure(m[1], m[3])).values.append(float(m[2]))
    return list(found.values()) or [Figure(program, "", why="it printed no figures")]


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


def show(title: str, rows: list[Figure]) -> None:
    print(f"\n{title}")
    for row in rows:
        if row.why:
            print(f"  {row.name:52} not run: {row.why}")
        else:
            print(f"  {row.name:52} {row.median:9.3f} {row.unit:6} "
                  f"({min(row.values):.3f} to {max(row.values):.3f}, {len(row.values)} runs)")
    sys.stdout.flush()


def show_ratios(limits: list[Figure], ours: list[Figure]) -> None:
    copies = [row for row in limits if "copy" in row.name and row.unit == "GB/s" and row.values]
    if not copies:
        return
    limit = max(copies, key=lambda row: row.median)
    print(f"\nShare of '{limit.name}' ({limit.median:.2f} GB/s)")
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
    limits = micro(build, "crc32", options.runs) + micro(build, "port_rate", options.runs)
    show("This machine, one core", limits)
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
    show_ratios(limits, ours)
    return 0


if __name__ == "__main__":
    sys.exit(main())
