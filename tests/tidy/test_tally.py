#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that the table of tools/check does not count skipped, lost or interrupted tests as passed."""
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "common"))
import tally  # noqa: E402


def read(entries: dict[str, dict], listed: list[str] | None = None, form: str = "uroce:unit / {}") -> tally.Row:
    """Returns the row of a suite `unit` whose tests have these entries in the log. @form: the form in which meson writes a name."""
    with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as where:
        log = pathlib.Path(where) / "testlog.json"
        log.write_text("".join(
            json.dumps({"name": form.format(name), "stdout": "", "stderr": "", **entry}) + "\n"
            for name, entry in entries.items()))
        tests = [{"name": n, "suite": ["uroce:unit"]} for n in listed or entries]
        return tally.read("gcc", ("unit",), tests, log)[0]


def counts(row: tally.Row) -> tuple[int, int, int]:
    return row.passed, len(row.failed), len(row.skipped)


class Tally(unittest.TestCase):
    def test_tap_cases_are_counted_one_by_one(self) -> None:
        row = read({"a": {"result": "FAIL", "stdout": "1..3\nok 1 - x\nnot ok 2 - y\nok 3 - z\n"}})
        self.assertEqual(counts(row), (2, 1, 0))
        self.assertIn("a: y", row.failed[0])

    def test_each_form_of_a_name_is_understood(self) -> None:
        for form in ("uroce:unit / {}", "uroce:unit+slow / {}", "unit - uroce:{}", "unit+slow - uroce:{}"):
            self.assertEqual(counts(read({"io/a - b": {"result": "OK"}}, form=form)), (1, 0, 0), form)

    def test_the_output_of_a_failed_case_follows_it(self) -> None:
        said = "1..3\nok 1 - x\n# fine\nnot ok 2 - y\n# it was\n#   this\nok 3 - z\n# other\n"
        row = read({"a": {"result": "FAIL", "stdout": said}})
        self.assertEqual(row.failed, ["a: y\n       it was\n         this"])

    def test_note_of_a_passed_test_is_shown(self) -> None:
        row = read({"a": {"result": "OK", "stdout": "1..1\n# NOTE: a peer died\nok 1 - x\n"}})
        self.assertEqual(counts(row), (1, 0, 0))
        self.assertIn("NOTED:\n  gcc unit: a: a peer died", tally.table([row]))

    def test_skipped_case_inside_a_passing_program_is_not_passed(self) -> None:
        row = read({"a": {"result": "OK", "stdout": "1..2\nok 1 - x\nok 2 - y # SKIP no root\n"}})
        self.assertEqual(counts(row), (1, 0, 1))
        self.assertIn("no root", row.skipped[0])

    def test_cmocka_writes_a_skip_as_not_ok(self) -> None:
        row = read({"a": {"result": "FAIL", "returncode": 0, "stdout": "1..1\nnot ok 1 # SKIP x\n"}})
        self.assertEqual(counts(row), (0, 0, 1))

    def test_failed_program_with_a_skipped_case_has_failed(self) -> None:
        row = read({"a": {"result": "FAIL", "returncode": 1, "stdout": "1..1\nnot ok 1 # SKIP x\n"}})
        self.assertEqual(counts(row), (0, 1, 1))

    def test_program_that_stops_in_the_middle_has_failed(self) -> None:
        row = read({"a": {"result": "OK", "stdout": "1..3\nok 1 - x\n"}})
        self.assertEqual(counts(row), (1, 1, 0))

    def test_crash_after_the_last_case_is_a_failure(self) -> None:
        row = read({"a": {"result": "ERROR", "stdout": "1..1\nok 1 - x\n", "stderr": "leak\n"}})
        self.assertEqual(counts(row), (1, 1, 0))

    def test_exit_77_is_a_skip_with_the_last_line_as_reason(self) -> None:
        row = read({"a": {"result": "SKIP", "stdout": "no qemu here\n"}})
        self.assertEqual(counts(row), (0, 0, 1))
        self.assertIn("no qemu here", row.skipped[0])

    def test_whole_tap_program_skipped_gives_its_reason(self) -> None:
        row = read({"a": {"result": "SKIP", "stdout": "1..0 # SKIP no DPDK\n"}})
        self.assertEqual(row.skipped, ["a: no DPDK"])

    def test_listed_test_without_result_has_failed(self) -> None:
        row = read({"a": {"result": "OK"}}, ["a", "b"])
        self.assertEqual(counts(row), (1, 1, 0))

    def test_timeout_has_failed(self) -> None:
        self.assertEqual(counts(read({"a": {"result": "TIMEOUT"}})), (0, 1, 0))

    def test_empty_suite_is_reported_as_empty(self) -> None:
        self.assertEqual(counts(read({})), (0, 0, 1))

    def test_table_lists_every_skip_and_failure(self) -> None:
        text = tally.table([tally.Row("gcc", "unit", 5, ["a: bad"], ["b: no root"])])
        self.assertRegex(text, r"gcc +unit +5 +1 +1")
        self.assertIn("gcc unit: a: bad", text)
        self.assertIn("gcc unit: b: no root", text)


if __name__ == "__main__":
    unittest.main()
