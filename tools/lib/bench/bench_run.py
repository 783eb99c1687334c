#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the rows of tools/bench. Compares most rows with a limit of the machine or with another program."""
import argparse
import datetime
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common",)]

from bench_rows import (beside_rxe, beside_tcp, connections, dpdk_drivers, events, idle, limits, loss, memory, messages,
                        path_cost, pingpong, scale, stream, threads)
from bench_rows.figure import Bench, Figure, NotRun
import bench_page
import pairs

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROWS = {
    "P1": ("Messages of 64 bytes, one RC queue pair, 128 outstanding, a core for each side",
           messages.rows),
    "P2": ("Long WRITEs over memif, between two processes", stream.rows),
    "P3": ("Messages of 8 bytes, half a round trip", pingpong.rows),
    "P4": ("Compared with Linux rxe, in one virtual machine, without KVM", beside_rxe.rows),
    "P5": ("Compared with the kernel's TCP: iperf3, and UCX over tcp", beside_tcp.rows),
    "P6": ("The cost of a message in both engines, on one core", path_cost.rows),
    "P7": ("Many queue pairs: both engines on one core, and ib_write_bw over memif", scale.rows),
    "P8": ("64 KiB WRITEs over a link that loses or reorders", loss.rows),
    "P9": ("Memory that a process needs for each queue pair and each memory region", memory.rows),
    "P10": ("Idle processes, with the default progress policy", idle.rows),
    "P11": ("Programs that sleep until an event, compared with the same over TCP", events.rows),
    "P12": ("Threads with their own queue pairs and CQ on one device, compared with two processes", threads.rows),
    "P13": ("WRITEs over virtual devices of DPDK, compared with testpmd on the same devices", dpdk_drivers.rows),
    "CM": (f"Connections, {connections.COUNT} at once, by cmtime", connections.rows),
    "M": ("This machine: one core, and a link without engines", limits.rows),
}
OTHERS = 0.1  # with --write: largest number of cores that other programs may use in the seconds before the measurement


def busy_seconds() -> float:
    """Returns the processor time of all programs on this machine."""
    words = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _idle, _wait, irq, softirq, steal = (int(word) for word in words[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def others(seconds: float) -> float:
    """Returns how many cores all programs of the machine use on average during @seconds."""
    before, start = busy_seconds(), time.monotonic()
    time.sleep(seconds)
    return (busy_seconds() - before) / (time.monotonic() - start)


def machine(used: float) -> str:
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
                            capture_output=True, text=True, check=False).stdout.strip()
    return (f"{datetime.date.today()}, {model.group(1) if model else 'unknown CPU'}, "
            f"{os.cpu_count()} CPUs of which other programs used {used:.2f}, "
            f"Linux {os.uname().release}, commit {commit or '?'}")


def measured(bench: Bench, key: str) -> list[Figure]:
    title, rows = ROWS[key]
    try:
        found = rows(bench)
    except (NotRun, OSError) as error:
        found = [Figure(title, "", why=str(error).splitlines()[0])]
    print("\n" + bench_page.as_text(key, title, found), flush=True)
    return found


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/bench", description=__doc__,
        epilog="rows: " + "; ".join(f"{key} {title}" for key, (title, _) in ROWS.items()))
    parser.add_argument("build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # only read the options
    parser.add_argument("rows", nargs="*", metavar="ROW", help="P1, P2, ...; default: all rows")
    parser.add_argument("--runs", type=int, help="runs of each row; the median is shown. Default: 5, or 1 with --quick")
    parser.add_argument("--quick", action="store_true", help="short runs, only to see whether the rows work")
    parser.add_argument("--write", action="store_true",
                        help="write BENCHMARKS.md and bench.svg to build-bench/docs, if no other program uses the processors")
    options = parser.parse_intermixed_args()
    options.runs = options.runs or (1 if options.quick else 5)
    options.rows = [row.upper() for row in options.rows] or list(ROWS)
    for row in options.rows:
        if row not in ROWS:
            parser.error(f"there is no row {row}; the rows are {', '.join(ROWS)}")
    if options.write and (options.quick or set(options.rows) != set(ROWS)):
        parser.error("--write needs all rows, without --quick")
    return options


def main() -> int:
    options = parsed()
    if options.check:
        return 0
    signal.signal(signal.SIGTERM, pairs.end_politely)
    used = others(2)
    print(machine(used))
    if options.write and used > OTHERS:
        print(f"other programs use {used:.2f} cores, so --write measures nothing; end them and try again",
              file=sys.stderr)
        return 1
    bench = Bench(options.build.resolve(), options.runs, options.quick)
    found = {key: (ROWS[key][0], measured(bench, key)) for key in ROWS if key in options.rows}
    if options.write:
        bench_page.write(options.build / "docs", machine(used), found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
