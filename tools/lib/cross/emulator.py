# SPDX-License-Identifier: BSD-3-Clause
"""Tests that fail because of the emulator: tests/cross/emulator.txt lists each with the probe that shows the cause.

A failed test is excused only if its probe works on this machine and not on the emulator.
"""
import fnmatch
import pathlib
import subprocess
from dataclasses import dataclass

import roots
import tally

TESTS = roots.ROOT / "tests" / "cross"
LIST = TESTS / "emulator.txt"
PROBES = TESTS / "emulator_probes.c"
PROBE_SECONDS = 60


@dataclass(frozen=True)
class Excuse:
    case: str   # pattern of TEST:CASE
    probe: str


def excuses(text: str) -> list[Excuse]:
    """Returns the lines of the list."""
    found = []
    for line in text.splitlines():
        words = line.split()
        if words and not line.startswith("#"):
            if len(words) != 2 or ":" not in words[0]:
                raise ValueError(f"{LIST.name}: a line is TEST:CASE PROBE, not: {line}")
            found.append(Excuse(*words))
    return found


def answers(compiler: list[str], program: pathlib.Path, emulator: list[str]) -> dict[str, bool]:
    """Compiles the probes and runs them. Returns which of them work."""
    subprocess.run([*compiler, "-o", str(program), str(PROBES)], check=True)
    run = subprocess.run([*emulator, str(program)], capture_output=True, text=True, check=False, timeout=PROBE_SECONDS)
    return {name: answer == "works" for name, answer in (line.split() for line in run.stdout.splitlines())}


def lacking(processor: roots.Processor, sysroot: pathlib.Path, build: pathlib.Path) -> set[str]:
    """Returns the probes that work on this machine and not on the emulator."""
    here = answers(["gcc"], build / "probes-here", [])
    there = answers([f"{processor.triplet}-gcc", f"--sysroot={sysroot}"], build / "probes-there",
                    [processor.emulator, "-L", str(sysroot)])
    return {name for name, works in here.items() if works and not there.get(name, True)}


def case_of(failure: str) -> str:
    """Returns TEST:CASE of a failure as tally writes it."""
    test, _, rest = failure.split("\n")[0].partition(": ")
    return f"{test}:{rest.split(' ')[0]}"


def excuse(row: tally.Row, lacks: set[str]) -> tally.Row:
    """Moves each failed case that the list explains to the skipped cases, and adds the name of its probe."""
    known = [entry for entry in excuses(LIST.read_text()) if entry.probe in lacks]
    failed, row.failed = row.failed, []
    for text in failed:
        probe = next((entry.probe for entry in known if fnmatch.fnmatch(case_of(text), entry.case)), None)
        if probe is None:
            row.failed.append(text)
        else:
            row.skipped.append(f"{case_of(text)} (the emulator lacks {probe})")
    return row
