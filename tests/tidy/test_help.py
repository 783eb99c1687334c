#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that each command in tools/ prints its help, and does nothing else."""
import os
import pathlib
import subprocess
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
COMMANDS = sorted(path for path in TOOLS.iterdir() if path.is_file() and os.access(path, os.X_OK))


class Help(unittest.TestCase):
    def test_each_command_prints_its_name_and_use(self) -> None:
        self.assertGreater(len(COMMANDS), 10)
        for command in COMMANDS:
            for option in ("--help", "-h"):
                run = subprocess.run([command, option], stdin=subprocess.DEVNULL, capture_output=True, text=True)
                with self.subTest(command=command.name, option=option):
                    self.assertEqual((run.returncode, run.stderr), (0, ""))
                    self.assertIn(command.name, run.stdout.splitlines()[0])
                    self.assertGreater(len(run.stdout.splitlines()), 2)
                    self.assertNotIn("building", run.stdout)

    def test_help_of_a_script_installs_no_packages(self) -> None:
        """bash reads SHELLOPTS and prints each command before it runs it."""
        for command in COMMANDS:
            with self.subTest(command=command.name), command.open() as text:
                if command.name == "setup-packages" or "bash" not in text.readline():
                    continue
                run = subprocess.run([command, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                     env={**os.environ, "SHELLOPTS": "xtrace"})
                self.assertIn("+ ", run.stderr)
                self.assertNotIn("setup-packages", run.stderr)

    def test_wrong_word_is_reported_once_before_any_work(self) -> None:
        for command in ("bench", "check", "demo", "setup-packages"):
            run = subprocess.run([TOOLS / command, "--no-such-option"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            with self.subTest(command=command):
                self.assertEqual((run.returncode, run.stdout), (2, ""))
                self.assertEqual(run.stderr.count("--no-such-option"), 1, run.stderr)


if __name__ == "__main__":
    unittest.main()
