#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the factor of time limits, and that every time limit of a test is multiplied by it."""
import os
import pathlib
import re
import sys
import unittest
from unittest import mock

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "common"
sys.path.insert(0, str(TOOLS))
import patience  # noqa: E402

ROOT = TOOLS.parents[2]
LIMIT = {
    "*.py": re.compile(r"\.wait\((?:timeout=)?[\d.]+\)|\btimeout=(?:[\d.]+|[A-Z_]+)\b|settimeout\([\d.]+\)|"
                       r"monotonic\(\) \+ (?:[\d.]+|[A-Z_]+)\b"),
    "*.c": re.compile(r"\balarm\((?:\d+|[A-Z_]+)\)|\bpoll\([^;]*, (?:[1-9]\d{2,}|[A-Z_]+)\)"),
}
# Limits that are not multiplied, because they expire in a normal run of the test
MEANT = re.compile(r"STUCK_SECONDS|SETTLE|settimeout\(0\.2\)|ANSWER_MS|AGAIN_MS")
OTHERS = ("bench", "fuzz")


def factor(load: float, processors: int, **environment: str) -> float:
    with mock.patch("os.getloadavg", return_value=(load, 0.0, 0.0)), \
            mock.patch("os.cpu_count", return_value=processors), \
            mock.patch.dict(os.environ, environment):
        if patience.VARIABLE not in environment:
            os.environ.pop(patience.VARIABLE, None)
        return patience.factor()


class Patience(unittest.TestCase):
    def test_idle_machine_has_the_floor(self) -> None:
        self.assertEqual(factor(0.1, 2), patience.FLOOR)

    def test_load_stretches_the_limit(self) -> None:
        self.assertEqual(factor(10.0, 2), 10.0)

    def test_environment_variable_sets_the_factor(self) -> None:
        self.assertEqual(factor(10.0, 2, UROCE_TEST_PATIENCE="50"), 50.0)
        self.assertEqual(factor(10.0, 2, UROCE_TEST_PATIENCE="0"), 1.0)
        self.assertEqual(factor(0.0, 2, UROCE_TEST_PATIENCE="much"), patience.FLOOR)

    def test_limit_is_multiplied_by_the_factor(self) -> None:
        with mock.patch.dict(os.environ, {patience.VARIABLE: "3"}):
            self.assertEqual(patience.seconds(20), 60)

    def test_every_limit_of_a_test_is_stretched(self) -> None:
        found = [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
                 for pattern, limit in LIMIT.items()
                 for path in sorted((ROOT / "tests").rglob(pattern))
                 if path.relative_to(ROOT).parts[1] not in OTHERS and path.name != pathlib.Path(__file__).name
                 for number, line in enumerate(path.read_text().splitlines(), 1)
                 if limit.search(line) and not MEANT.search(line)]
        self.assertEqual(found, [], "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
