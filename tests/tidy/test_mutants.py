#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that tools/mutants reports a failure message of the simulator without a rule, together with its prefix."""
import pathlib
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib"
sys.path[:0] = [str(TOOLS / name) for name in ("common", "mutants")]
import mutants_rules  # noqa: E402 (its folder is known only now)

SOURCE = r'''
static void fail(const struct queue *queue, const char *what)
{
    sim_world_fail(queue->world, "queue %u of %c: %s", queue->index, queue->name, what);
}

static void judge(struct queue *queue)
{
    sim_world_fail(queue->world, "add %u found %" PRIu64
                   ", sum is %" PRIu64, 1, found, sum);
    fail(queue, queue->full ? "has no room (again)" : "is empty");
}
'''
SAID = ["add 7 found 7, sum is 7", "queue 7 of A: has no room (again)", "queue 7 of A: is empty"]


class Rules(unittest.TestCase):
    def setUp(self) -> None:
        self.where = tempfile.TemporaryDirectory(prefix="uroce-tidy-")
        self.addCleanup(self.where.cleanup)
        self.top = pathlib.Path(self.where.name)
        for name, text in (("lib/sim/work/rc.c", SOURCE), ("tests/mutants/oracle.rules", "")):
            (self.top / name).parent.mkdir(parents=True, exist_ok=True)
            (self.top / name).write_text(text)

    def test_each_complaint_is_read_as_it_is_printed(self) -> None:
        self.assertEqual([what for _, what in mutants_rules.complaints(self.top)], SAID)

    def test_complaints_without_a_rule_are_reported(self) -> None:
        (self.top / "tests/mutants/oracle.rules").write_text(
            "^add \\d+ found  sums are right\nqueue .*room  there is room\n")
        problems = mutants_rules.problems(self.top)
        self.assertEqual(len(problems), 1)
        self.assertIn('lib/sim/work/rc.c:11: "queue 7 of A: is empty" belongs to no rule', problems[0])

    def test_rule_that_no_mutant_breaks_counts_zero(self) -> None:
        (self.top / "tests/mutants/oracle.rules").write_text("room  there is room\nempty  none is\n")
        self.assertEqual(mutants_rules.broken(self.top, ["no room", "room"]),
                         {"there is room": 2, "none is": 0})


if __name__ == "__main__":
    unittest.main()
