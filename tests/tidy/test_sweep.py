#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that tools/sim-sweep finds the failing seed, and the parts that the failure needs."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SWEEP = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "sim-sweep" / "sim_sweep.py"

# A script in place of uroce. One seed fails, unless the part "lose" or the part "cm" is left out.
FAKE = """#!/bin/sh
case "$*" in *--parts*) printf 'lose\\nlate\\nuc\\ncm\\n'; exit 0;; esac
seed=$3; count=1; without=
while [ $# -gt 0 ]; do
    case "$1" in --count) count=$2;; --without) without=$2;; esac; shift
done
case "$without" in *lose*|*cm*) exit 0;; esac
[ "$seed" -le BAD ] && [ $((seed + count)) -gt BAD ] || exit 0
echo "seed BAD: FAILED: as it should"
exit 1
"""


def sweep(bad: int, *more: str) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as where:
        fake = pathlib.Path(where) / "uroce"
        fake.write_text(FAKE.replace("BAD", str(bad)))
        fake.chmod(0o755)
        return subprocess.run([sys.executable, str(SWEEP), "--uroce", str(fake), "--first", "1",
                               "--count", "90", *more], capture_output=True, text=True, check=False)


class Sweep(unittest.TestCase):
    def test_seeds_that_pass_are_counted(self) -> None:
        done = sweep(1000)
        self.assertEqual(done.returncode, 0)
        self.assertIn("90 seeds from 1", done.stdout)

    def test_failing_seed_is_reduced_to_the_needed_parts(self) -> None:
        done = sweep(61)
        self.assertEqual(done.returncode, 1)
        self.assertIn("seed 61: FAILED: as it should", done.stdout)
        self.assertIn("sim --seed 61 --without uc,late --less 6 --trace", done.stdout)

    def test_a_recorded_sweep_is_a_line_of_the_table(self) -> None:
        with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as where:
            table = pathlib.Path(where) / "sweeps.txt"
            table.write_text("# head\n")
            sweep(1000, "--record", str(table))
            sweep(61, "--record", str(table), "--jobs", "1")
            lines = table.read_text().splitlines()
        self.assertEqual(lines[0], "# head")
        self.assertRegex(lines[1], r"^\d{4}-\d\d-\d\d \| [\w-]+ \| 90 \| 1 \| 90 \| \d+ \| none$")
        self.assertRegex(lines[2], r" \| 75 \| 1 \| 75 \| \d+ \| seed 61$")


if __name__ == "__main__":
    unittest.main()
