# SPDX-License-Identifier: BSD-3-Clause
"""A stage of tools/check that builds and tests with the compiler, the libraries and the programs of another Debian release.
The script in_release makes a root directory of that release. A failure on unstable is a warning."""
import json
import os
import pathlib
import subprocess

import patience
import tally

SUITES = ("tidy", "unit", "scenario", "sim")
RELEASES = ("trixie",)  # releases of Debian that have a stage, besides the release of this machine
UNSTABLE = "sid"


def stage(root: pathlib.Path, codename: str) -> list[tally.Row]:
    rows = run(root, codename)
    if codename == UNSTABLE:
        for row in rows:
            row.warned, row.failed = row.failed, []
        print(f"{codename}: {sum(len(row.warned) for row in rows)} failures, which are warnings", flush=True)
    return rows


def run(root: pathlib.Path, codename: str) -> list[tally.Row]:
    print(f"=== {codename}: root directory, build, {' '.join(SUITES)}, programs", flush=True)
    where = root / f"build-{codename}"
    done = subprocess.run([root / "tools/lib/check/in_release", codename, where], text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, patience.VARIABLE: str(patience.factor())})
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    if done.returncode == 77:
        print(f"SKIPPED: nothing was built or run on {codename}: {last}", flush=True)
        return [tally.Row(codename, "build", skipped=[f"all: {last}"])]
    print(done.stdout, end="", flush=True)
    if done.returncode:
        return [tally.Row(codename, "build", failed=[last])]
    listed = json.loads((where / "build/meson-info/intro-tests.json").read_text())
    rows = tally.read(codename, SUITES, listed, where / "build/meson-logs/testlog.json")
    programs = tally.Row(codename, "programs")
    text = (where / "programs.tap").read_text()
    tally.count(programs, "programs", {"stdout": text, "result": "FAIL" if "\nnot ok" in text or not text else "OK"})
    return [*rows, programs]
