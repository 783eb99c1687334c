# SPDX-License-Identifier: BSD-3-Clause
"""A stage of tools/check in a root directory of another Debian release: the compiler, the libraries and the programs of that
release. in_release makes the root directory."""
import json
import os
import pathlib
import subprocess

import patience
import tally

SUITES = ("unit", "scenario")


def stage(root: pathlib.Path, codename: str) -> list[tally.Row]:
    print(f"=== {codename}: root directory, build, {' '.join(SUITES)}, programs", flush=True)
    where = root / f"build-{codename}"
    run = subprocess.run([root / "tools/lib/check/in_release", codename, where], text=True, check=False, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, env={**os.environ, patience.VARIABLE: str(patience.factor())})
    last = (run.stdout.strip().splitlines() or ["no output"])[-1]
    if run.returncode == 77:
        print(f"SKIPPED: nothing was built or run on {codename}: {last}", flush=True)
        return [tally.Row(codename, "build", skipped=[f"all: {last}"])]
    print(run.stdout, end="", flush=True)
    if run.returncode:
        return [tally.Row(codename, "build", failed=[last])]
    listed = json.loads((where / "build/meson-info/intro-tests.json").read_text())
    rows = tally.read(codename, SUITES, listed, where / "build/meson-logs/testlog.json")
    programs = tally.Row(codename, "programs")
    text = (where / "programs.tap").read_text()
    tally.count(programs, "programs", {"stdout": text, "result": "FAIL" if "\nnot ok" in text or not text else "OK"})
    return [*rows, programs]
