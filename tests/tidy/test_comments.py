#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that check_comments.py finds hard sentences, and no other sentences."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "check"
sys.path.insert(0, str(FOLDER))
import check_comments  # noqa: E402


def kinds(text: str) -> list[str]:
    return [kind for _, kind, _ in check_comments.findings(text)]


class Sentences(unittest.TestCase):
    def test_clause_as_subject_is_found(self) -> None:
        for text in ("/* Who posts is not kept waiting. */", "/* What came stays. */", "/* Sends. Whoever reads it waits. */",
                     "// Who asks\n", "/* who posts is served before who polls is */", "/*\n * Sends.\n *\n * What is left waits.\n */"):
            self.assertEqual(kinds(text), ["who"], text)

    def test_question_and_noun_clause_are_no_subject(self) -> None:
        for text in ("/* Who posts? */", "/* what the peer sent */", "/* Says who posts. */", "/* The caller who posts waits. */",
                     'const char *text = "Who posts is not kept waiting.";'):
            self.assertEqual(kinds(text), [], text)

    def test_sentence_that_begins_with_of_is_found(self) -> None:
        self.assertEqual(kinds("/* Of two the newer is taken. */"), ["of"])
        self.assertEqual(kinds("/* The newer of two is taken. Offers it. */"), [])

    def test_likewise_is_found(self) -> None:
        self.assertEqual(kinds("/* Likewise, for IPv6. */"), ["likewise"])
        self.assertEqual(kinds("/* IPv6 is refused likewise. */"), ["likewise"])

    def test_one_without_its_noun_is_found(self) -> None:
        self.assertEqual(kinds("/* Returns the next one. */"), ["one"])
        self.assertEqual(kinds("/* the last one */"), ["one"])
        self.assertEqual(kinds("/* Returns one packet. More than one. No one. */"), [])

    def test_sentence_over_lines_is_one_and_is_at_its_first_line(self) -> None:
        found = check_comments.findings("int a;\n/* f.c - sends.\n *\n * Who\n * posts waits for the next\n * one.\n */\n")
        self.assertEqual([(line, kind) for line, kind, _ in found], [(4, "who"), (4, "one")])

    def test_only_long_lines_of_comments_are_found(self) -> None:
        self.assertEqual(kinds("/* " + "a" * 95 + " */"), ["long"])
        self.assertEqual(kinds("int " + "a" * 100 + "; /* b */"), ["long"])
        self.assertEqual(kinds("int " + "a" * 120 + ";"), [])
        self.assertEqual(kinds("/* " + "a" * 94 + " */"), [])


class Limits(unittest.TestCase):
    def run_on(self, text: str, limits: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as name:
            top = pathlib.Path(name)
            (top / "lib/core").mkdir(parents=True)
            (top / "lib/core/a.c").write_text(text)
            (top / "tests/tidy").mkdir(parents=True)
            (top / "tests/tidy/comments.txt").write_text(limits)
            run = subprocess.run([sys.executable, "-B", str(FOLDER / "check_comments.py"), "--list", "core", "--", str(top)],
                                 capture_output=True, text=True, check=False)
            return run.returncode, run.stdout

    def test_more_findings_than_allowed_fail(self) -> None:
        status, said = self.run_on("/* Who posts waits. */\n", "# head\nlib/core one=1\n")
        self.assertEqual(status, 1)
        self.assertIn("lib/core: 1 comments of the kind 'who', at most 0", said)
        self.assertIn("lib/core/a.c:1: who: Who posts waits.", said)

    def test_allowed_number_of_findings_passes(self) -> None:
        status, said = self.run_on("/* Who posts waits. */\n", "lib/core who=1\n")
        self.assertEqual(status, 0, said)
        self.assertIn("who 1, of 0", said)


if __name__ == "__main__":
    unittest.main()
