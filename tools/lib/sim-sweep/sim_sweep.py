#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the simulator with many seeds on all cores. Stops at the first failing seed, and reduces its plan.

  tools/sim-sweep --count 100000            runs 100000 seeds, beginning with a number from the clock
  tools/sim-sweep --first 1 --seconds 600   runs as many seeds as possible in ten minutes
  tools/sim-sweep --count 1000000 --record  also adds a line to tests/sim/sweeps.txt

The tool reduces a failing plan by leaving out kinds of faults, kinds of work, or half of the work, while the run still fails.
Exit status: 0 if all seeds passed, 1 if a seed failed, 2 if an argument is wrong.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common",)]

import revision

ROOT = pathlib.Path(__file__).resolve().parents[3]
CHUNK = 25          # seeds of one process
HANG_S = 300        # time limit of a process, seconds
LESS_MAX = 6
FAILED = re.compile(r"^seed (\d+): (FAILED.*)$", re.MULTILINE)
SWEEPS = ROOT / "tests/sim/sweeps.txt"
PASSED = re.compile(r"^seed (\d+): passed", re.MULTILINE)


class Runner:
    def __init__(self, binary: pathlib.Path) -> None:
        self.binary = binary

    def command(self, seed: int, without: list[str], less: int) -> list[str]:
        command = [str(self.binary), "sim", "--seed", str(seed)]
        if without:
            command += ["--without", ",".join(without)]
        return command + (["--less", str(less)] if less else [])

    def run(self, command: list[str], hang_s: float) -> tuple[int | None, str]:
        """Runs a command. Returns its exit status (None: timeout) and output."""
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  timeout=hang_s, check=False)
        except subprocess.TimeoutExpired as hung:
            return None, (hung.stdout or b"").decode(errors="replace")
        return done.returncode, done.stdout.decode(errors="replace")

    def chunk(self, first: int, count: int) -> tuple[int, str] | None:
        """Returns the first seed that fails and its failure, or None."""
        status, output = self.run(self.command(first, [], 0) + ["--count", str(count)], HANG_S)
        if status == 0:
            return None
        if found := FAILED.search(output):
            return int(found[1]), found[2]
        passed = [int(seed) for seed in PASSED.findall(output)]
        how = "does not end" if status is None else f"ends with status {status}"
        return (passed[-1] + 1 if passed else first), how

    def fails(self, seed: int, without: list[str], less: int) -> bool:
        return self.run(self.command(seed, without, less), HANG_S)[0] != 0

    def parts(self) -> list[str]:
        return self.run([str(self.binary), "sim", "--parts"], HANG_S)[1].split()


def shrink(runner: Runner, seed: int) -> tuple[list[str], int]:
    """Returns the parts that can be left out while the run still fails, and how often the work can be halved. Leaves out
    parts first, because the runs without them are faster."""
    parts = list(reversed(runner.parts()))
    without: list[str] = []
    less = 0
    again = True
    while again:
        again = False
        for part in parts:
            if part not in without and runner.fails(seed, [*without, part], less):
                without.append(part)
                again = True
        while less < LESS_MAX and runner.fails(seed, without, less + 1):
            less += 1
            again = True
    return without, less


def record(path: pathlib.Path, first: int, done: int, took: float, failed: int | None) -> None:
    """Appends one line to the table @path."""
    date, commit = revision.today(ROOT)
    cells = (date, commit, done, first, first + done - 1, round(done / took),
             "none" if failed is None else f"seed {failed}")
    with path.open("a") as table:
        table.write(" | ".join(str(cell) for cell in cells) + "\n")
    print(f"{path} has a new line")


def sweep(runner: Runner, settings: argparse.Namespace) -> tuple[int, str] | None:
    begun = time.monotonic()
    printed_at = begun
    done = 0
    last = settings.first + settings.count
    at = settings.first
    found = None
    with concurrent.futures.ThreadPoolExecutor(settings.jobs) as pool:
        waiting: dict[concurrent.futures.Future, int] = {}
        while waiting or (at < last and found is None):
            while at < last and found is None and len(waiting) < settings.jobs:
                if settings.seconds and time.monotonic() - begun > settings.seconds:
                    last = at
                    break
                count = min(CHUNK, last - at)
                waiting[pool.submit(runner.chunk, at, count)] = count
                at += count
            if not waiting:
                break
            ready, _ = concurrent.futures.wait(
                waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                done += waiting.pop(future)
                found = found or future.result()
            if time.monotonic() - printed_at > 30:
                printed_at = time.monotonic()
                print(f"{done} seeds, {done / (printed_at - begun):.1f} a second", flush=True)
    took = time.monotonic() - begun
    print(f"{done} seeds from {settings.first} in {took:.1f} s, {done / took:.1f} a second, "
          f"{settings.jobs} at once: {'one failed' if found else 'all passed'}", flush=True)
    if settings.record:
        record(settings.record, settings.first, done, took, found[0] if found else None)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/sim-sweep", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000000)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, help="start no seeds after this time")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--uroce", type=pathlib.Path, default=ROOT / "build/app/uroce")
    parser.add_argument("--record", type=pathlib.Path, nargs="?", const=SWEEPS,
                        help="add a line to the table of sweeps")
    settings = parser.parse_args()
    if not settings.uroce.exists():
        print(f"{settings.uroce}: no such file; build uroce first, or name the program with --uroce", file=sys.stderr)
        return 2
    if settings.seconds and settings.count == parser.get_default("count"):
        settings.count = 1 << 40
    runner = Runner(settings.uroce)
    found = sweep(runner, settings)
    if found is None:
        return 0
    seed, how = found
    print(f"seed {seed}: {how}\nreducing the plan ...", flush=True)
    if not runner.fails(seed, [], 0):
        print("the seed passes when it runs alone, so a seed does not determine the whole run")
        return 1
    without, less = shrink(runner, seed)
    print("smallest plan that fails:\n  " + " ".join(runner.command(seed, without, less))
          + " --trace --pcap sim.pcap")
    return 1


if __name__ == "__main__":
    sys.exit(main())
