#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that tools/coverage refuses a reason that is missing, empty, or for a line that is reached."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "coverage"))
import covering  # noqa: E402

LINE = covering.Line("lib/core/a.c", "uro_a", "return NULL;")
BLOCK = "# head\n\nlib/core/a.c uro_a\n> return NULL;\nNobody asks.\n"


def judge(text: str, found: list[covering.Line]) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as where:
        reasons = pathlib.Path(where) / "tests" / "coverage.txt"
        reasons.parent.mkdir()
        reasons.write_text(text)
        with mock.patch.multiple(covering, ROOT=pathlib.Path(where), REASONS=reasons):
            return covering.judge([(line, 7) for line in found])


class Covering(unittest.TestCase):
    def test_explained_line_is_fine(self) -> None:
        self.assertEqual(judge(BLOCK, [LINE]), [])

    def test_line_without_explanation_is_named_with_its_place(self) -> None:
        self.assertIn("lib/core/a.c:7: uro_a", judge("# head\n", [LINE])[0])

    def test_each_of_two_equal_lines_needs_an_explanation(self) -> None:
        self.assertEqual(len(judge(BLOCK, [LINE, LINE])), 1)

    def test_explanation_of_a_reached_line_fails(self) -> None:
        self.assertIn("is reached, or gone", judge(BLOCK, [])[0])

    def test_explanation_without_a_reason_fails(self) -> None:
        self.assertIn("no reason", judge(BLOCK.replace("Nobody asks.", covering.OPEN), [LINE])[0])
        self.assertIn("no reason", judge(BLOCK.replace("Nobody asks.\n", ""), [LINE])[0])

    def test_line_that_ran_in_one_object_is_reached(self) -> None:
        counts = {"tools/lib/coverage/covering.py": {1: 1, 2: 0}}
        functions = {("tools/lib/coverage/covering.py", 1): "f", ("tools/lib/coverage/covering.py", 2): "f"}
        self.assertEqual([number for _, number in covering.unreached(counts, functions)], [2])


if __name__ == "__main__":
    unittest.main()
