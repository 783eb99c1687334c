#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that tools/conformance --write writes the contents of its tables."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib"
sys.path[:0] = [str(TOOLS / name) for name in ("common", "conformance", "mutants", "check")]
import mutants_results  # noqa: E402 (its folder is known only now)

TREE = {
    "docs/PROTOCOL.md": "- **RSP.A**: a rule [here]\n- **RSP.B**: another (open: nobody needs it) [here]\n"
                        "- **RSP.C**: a table [here]\n- **RSP.D**: nobody asks [here]\n- **B01**: a bug\n",
    "lib/core/a.c": 'void f(void)\n{\n    URO_MARK("RSP.A");\n    URO_MARK("RSP.D"); /* A table. rule RSP.C */\n}\n',
    "tests/test_a.c": 'void f(void)\n{\n    assert_true(uro_mark_hit("RSP.A")); /* rule RSP.C, RSP.D */\n}\n'
                      '/* bug B01: two are one */\nstatic void b01(void **state)\n{\n}\n',
    "tests/peer/a.peer": "title a script\nrule RSP.A\n",
    "tests/interop/rxe-scripts.txt": "# script | rxe 6.1 | rxe 6.12\na | nothing comes | holds\n",
    "tests/interop/rxe-rules.txt": "RSP.A | differs: deaf [measured] | same [measured]\nRSP.B | not known | same [around]\n"
                    "RSP.C | same [source] | same [source]\nRSP.D | same [source] | same [source]\n",
    "tests/sim/sweeps.txt": "# head\n2026-01-01 | abc | 1000 | 1 | 1000 | 7 | none\n",
    "tests/mutants/core.txt": "mutant  one is two\n\nmutant  two is one\n\nmutant  three\n",
    "tests/mutants/oracle.rules": "# head\nnot one  one is one\nnever  zero is zero\n",
    "tests/mutants/oracle.results": "# head\n2026-01-02 | abc | sim | one is two | it is not one\n"
                                    "2026-01-03 | abc | tests | two is one | test_a\n",
}
WRITTEN = (
    "| RC responder | 4 | 3 | 1 | 2 | 1 | 1 | 2 | 1 | 1 |  | 4 |  |  |  |",
    "3 rules hold: 1 by a mark that a test asserts, and 2 by name only. Scripts also test 0 of these",
    "of rxe 6.1 1 measured, 2 read in the source; of rxe 6.12 1 measured, 1 in an older",
    "| RSP.B | another | nobody needs it |",
    "| RSP.A | a rule | deaf | same |",
    "There are 3; 2 were run, 2026-01-02 to 2026-01-03: detected 1 by the simulator",
    "| one is one | 1 | one is two |",
    "| zero is zero |  |  |",
    "| 2026-01-01 | abc | 1000 | 1 | 1000 | 7 | none |",
    "| RSP.A | by a mark | lib/core/a.c:3 | tests/test_a.c:3 | `a` | differs, measured | same, measured |",
    "| RSP.C | by name | lib/core/a.c:4 | tests/test_a.c:3 |  | same, source | same, source |",
    "| RSP.D | by name | lib/core/a.c:4 | tests/test_a.c:3 |  | same, source | same, source |",
)


def check(top: pathlib.Path, *options: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-B", str(TOOLS / "conformance" / "check_conformance.py"), *options, str(top)],
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Conformance(unittest.TestCase):
    def setUp(self) -> None:
        self.where = tempfile.TemporaryDirectory(prefix="uroce-tidy-")
        self.addCleanup(self.where.cleanup)
        self.top = pathlib.Path(self.where.name)
        for name, text in TREE.items():
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (self.top / name).write_text(text)

    def test_the_page_has_the_contents_of_the_tables(self) -> None:
        status, said = check(self.top, "--write", str(self.top / "build" / "docs"))
        self.assertEqual(status, 0, said)
        page = (self.top / "build/docs/CONFORMANCE.md").read_text()
        for line in WRITTEN:
            self.assertIn(line, page)
        self.assertIn("| `a` | a script | RSP.A | nothing comes | holds |", (self.top / "build/docs/DEVIATIONS.md").read_text())
        self.assertIn("3 of 4 rules hold, 1 of them by a mark", said)
        self.assertIn("rxe 6.1 differs in 1 rules and passes 0 of 1 scripts", said)

    def test_rules_prints_the_places_of_each_rule(self) -> None:
        said = check(self.top, "--rules")[1]
        self.assertIn("RSP.A | by a mark | lib/core/a.c:3 | tests/test_a.c:3\n", said)
        self.assertIn("RSP.B | open |  | \n", said)

    def test_result_is_kept_until_the_mutant_runs_again_or_is_removed(self) -> None:
        (self.top / "tests/mutants/core.txt").write_text("mutant  one is two\nmutant  three\n")
        mutants_results.record(self.top, {"three": ("storm", "never | ever")})
        results = mutants_results.read(self.top)
        self.assertEqual(list(results), ["one is two", "three"])
        self.assertEqual(results["one is two"].complaint, "it is not one")
        self.assertEqual(results["three"].complaint, "never / ever")


if __name__ == "__main__":
    unittest.main()
