#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/CONFORMANCE.md says what its tables say, and who does not write it again is told."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib"
sys.path[:0] = [str(TOOLS / name) for name in ("common", "conformance", "mutants", "check")]
import mutants_results  # noqa: E402 (its folder is known only now)

TREE = {
    "docs/PROTOCOL.md": "| id | rule | source | code | test | state |\n|---|---|---|---|---|---|\n"
                        "| RSP.A | a rule | here | core/a.c | test_a.c | done |\n"
                        "| RSP.B | another | here | - | - | open: nobody needs it |\n"
                        "| RSP.C | a table | here | core/a.c | test_a.c | done |\n"
                        "| RSP.D | nobody asks | here | core/a.c | test_a.c | done |\n",
    "lib/core/a.c": 'void f(void)\n{\n    URO_MARK("RSP.A");\n    URO_MARK("RSP.D"); /* rule RSP.C */\n}\n',
    "tests/test_a.c": 'void f(void)\n{\n    assert_true(uro_mark_hit("RSP.A")); /* rule RSP.C, RSP.D */\n}\n',
    "tests/peer/a.peer": "title a script\nrule RSP.A\n",
    "docs/DEVIATIONS.md": "| script | what | rule | rxe 6.1 | rxe 6.12 | uroce |\n"
                          "| `a` | a script | RSP.A | nothing comes | holds | holds |\n",
    "docs/rxe.txt": "RSP.A | differs: deaf [measured] | same [measured]\nRSP.B | not known | same [around]\n"
                    "RSP.C | same [source] | same [source]\nRSP.D | same [source] | same [source]\n",
    "tests/sim/sweeps.txt": "# head\n2026-01-01 | abc | 1000 | 1 | 1000 | 7 | none\n",
    "tests/mutants/core.txt": "mutant  one is two\n\nmutant  two is one\n\nmutant  three\n",
    "tests/mutants/oracle.rules": "# head\nnot one  one is one\nnever  zero is zero\n",
    "tests/mutants/oracle.results": "# head\n2026-01-02 | abc | sim | one is two | it is not one\n"
                                    "2026-01-03 | abc | tests | two is one | test_a\n",
}
WRITTEN = (
    "| RC responder | 4 | 3 | 1 | 2 | 1 | 1 | 2 | 1 | 1 |  | 4 |  |  |  |",
    "Of the 3 that hold 1 are shown by a mark that a test asserts and 2 by naming only, 0 of",
    "of rxe 6.1 1 measured, 2 read in the source; of rxe 6.12 1 measured, 1 in an older",
    "| RSP.B | another | nobody needs it |",
    "| RSP.A | a rule | deaf | same |",
    "Of 3 2 were run, 2026-01-02 to 2026-01-03: noticed 1 by the simulator",
    "| one is one | 1 | one is two |",
    "| zero is zero |  |  |",
    "| 2026-01-01 | abc | 1000 | 1 | 1000 | 7 | none |",
    "| RSP.A | by a mark | `a` | differs, measured | same, measured |",
    "| RSP.C | by name |  | same, source | same, source |",
    "| RSP.D | by name |  | same, source | same, source |",
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

    def test_the_page_says_what_the_tables_say(self) -> None:
        self.assertEqual(check(self.top, "--write")[0], 0)
        page = (self.top / "docs/CONFORMANCE.md").read_text()
        for line in WRITTEN:
            self.assertIn(line, page)
        self.assertEqual(check(self.top)[0], 0)

    def test_a_table_that_changed_makes_the_page_old(self) -> None:
        check(self.top, "--write")
        for name in ("docs/rxe.txt", "tests/sim/sweeps.txt", "tests/mutants/oracle.results"):
            (self.top / name).write_text(TREE[name].replace("around", "source").replace("abc", "abd")
                                         .replace("-01-03", "-01-04"))
            status, said = check(self.top)
            self.assertEqual((status, "is out of date" in said), (1, True), name)
            (self.top / name).write_text(TREE[name])

    def test_what_mutants_broke_is_kept_until_it_is_run_again_or_gone(self) -> None:
        (self.top / "tests/mutants/core.txt").write_text("mutant  one is two\nmutant  three\n")
        mutants_results.record(self.top, {"three": ("storm", "never | ever")})
        results = mutants_results.read(self.top)
        self.assertEqual(list(results), ["one is two", "three"])
        self.assertEqual(results["one is two"].complaint, "it is not one")
        self.assertEqual(results["three"].complaint, "never / ever")


if __name__ == "__main__":
    unittest.main()
