#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the repetition of interop cases. If the kernel of the peer crashes, the case runs again. It fails only if the kernel crashes
twice."""
import contextlib
import io
import pathlib
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "interop"))
import run  # noqa: E402
import sides  # noqa: E402


class Guest(sides.Side):
    """A guest that ends when the case says so, and is then started again."""

    def __init__(self) -> None:
        self.alive, self.starts = True, 0

    def dead(self) -> bool:
        return not self.alive

    def start(self) -> None:
        self.alive = True
        self.starts += 1


class Uroce(Guest):
    taken = ended = 0

    def take(self) -> None:
        self.taken += 1

    def end_all(self) -> None:
        self.ended += 1


def outcome(*cases: list[str], link: str = "af_packet", pcap: str | None = None, ours: type = Uroce):
    """Runs @cases. A case is a list with the result of each attempt. Returns failures, output, and the sides."""
    left = {str(number): list(attempts) for number, attempts in enumerate(cases, 1)}
    options = types.SimpleNamespace(record=False, pcap=pcap and pathlib.Path(pcap), failures=10, link=link)
    pair = object.__new__(run.Pair)
    pair.options, pair.sides, pair.tap, pair.deaths, pair.scratch = options, (ours(), Guest()), "tap", 0, "/nowhere"
    pair.set_up = "something"

    def one_case(pair, case):
        now = left[case.name].pop(0)
        if "dies" in now:
            pair.sides[1].alive = False
        if "says" in now:
            raise sides.Unavailable("the guest ended")
        return None if now == "well" else now

    kept, run.run_case, run.capture = (run.run_case, run.capture), one_case, lambda pair, path: None
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            failures = run.run_all(pair, [types.SimpleNamespace(name=name) for name in left], options)
    finally:
        run.run_case, run.capture = kept
    return failures, said.getvalue(), pair


class Run(unittest.TestCase):
    def test_case_in_which_the_guest_dies_is_run_again_with_another(self) -> None:
        for way in ("dies", "dies, says so"):
            failures, said, pair = outcome([way, "well"], ["well"])
            self.assertEqual(failures, 0)
            self.assertIn("# NOTE: the guest ended in '1'", said)
            self.assertLess(said.index("ok 1"), said.index("NOTE"))
            self.assertIn("ok 1 - 1", said)
            self.assertIn("ok 2 - 2", said)
            self.assertEqual((pair.sides[1].starts, pair.sides[0].starts, pair.sides[0].taken), (1, 0, 1))
            self.assertIsNone(pair.set_up)
            self.assertEqual(pair.sides[0].ended, "says" in way)

    def test_case_that_fails_with_another_guest_too_has_failed(self) -> None:
        failures, said, _ = outcome(["dies", "wrong"], ["well"])
        self.assertEqual(failures, 1)
        self.assertIn("not ok 1 - 1", said)

    def test_case_that_kills_two_has_failed_and_the_next_has_a_guest(self) -> None:
        failures, said, pair = outcome(["dies", "dies"], ["well"])
        self.assertEqual(failures, 1)
        self.assertIn("# the guest ended again", said)
        self.assertIn("ok 2 - 2", said)
        self.assertEqual(pair.sides[1].starts, 2)

    def test_guest_that_dies_while_a_failure_is_recorded_is_replaced_too(self) -> None:
        with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as where:
            failures, said, pair = outcome(["wrong", "dies, says so"], ["well"], pcap=where)
        self.assertEqual(failures, 1)
        self.assertIn("# once more: the guest ended", said)
        self.assertIn("ok 2 - 2", said)
        self.assertEqual(pair.sides[1].starts, 1)

    def test_case_passes_on_two_guests(self) -> None:
        failures, said, _ = outcome(["dies", "well"], ours=Guest)
        self.assertEqual(failures, 0)
        self.assertIn("ok 1 - 1", said)

    def test_run_stops_after_many_dead_guests(self) -> None:
        with self.assertRaisesRegex(sides.Unavailable, "guests that died: 4"):
            outcome(["dies", "dies"], ["dies", "dies"])

    def test_failed_case_is_not_run_again(self) -> None:
        failures, said, _ = outcome(["wrong"], ["well"])
        self.assertEqual(failures, 1)
        self.assertNotIn("NOTE", said)

    def test_case_that_cannot_run_with_all_guests_alive_ends_the_run(self) -> None:
        with self.assertRaisesRegex(sides.Unavailable, "the guest ended"):
            outcome(["says so"])

    def test_guest_that_only_its_socket_starts_is_not_started_again(self) -> None:
        with self.assertRaises(sides.Unavailable):
            outcome(["dies", "well"], link="vhost")


if __name__ == "__main__":
    unittest.main()
