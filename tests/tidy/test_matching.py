#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests which cases --match chooses."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "common"))
import matching  # noqa: E402

NAMES = ["rc_send", "rc_read", "ud_send"]


class Matching(unittest.TestCase):
    def test_no_pattern_chooses_all(self) -> None:
        self.assertEqual(matching.chosen([], NAMES), set(NAMES))

    def test_each_pattern_chooses_cases(self) -> None:
        self.assertEqual(matching.chosen(["^ud", "read$"], NAMES), {"ud_send", "rc_read"})

    def test_pattern_that_fits_nothing_is_an_error(self) -> None:
        with self.assertRaisesRegex(SystemExit, r"'\^uc'"):
            matching.chosen(["send", "^uc"], NAMES)


if __name__ == "__main__":
    unittest.main()
