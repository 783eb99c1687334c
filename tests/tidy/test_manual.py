#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that mandoc and man have no warnings about the manual pages, and that the help of each command has all its options.

    test_manual.py BUILD_DIRECTORY
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else ROOT / "build")
PAGES = sorted((BUILD / "app" / "manual").glob("*.[157]"))
OPTION = re.compile(r'\{ "([\w-]+)", (?:no|required|optional)_argument')
# Accepted warning. Lines are as long as in docs/, and man breaks them.
NOT_WRONG = "input text line longer than 80 bytes"


def output_of(*command: object, **environment: str) -> str:
    run = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False,
                         env={**os.environ, "LC_ALL": "C.UTF-8", **environment})
    return run.stdout + run.stderr


def needs(program: str) -> None:
    if not PAGES:
        raise unittest.SkipTest("the manual pages are not built: lowdown is missing")
    if shutil.which(program) is None:
        raise unittest.SkipTest(f"{program} is not installed")


class Manual(unittest.TestCase):
    def test_mandoc_has_no_warning(self) -> None:
        needs("mandoc")
        for page in PAGES:
            lines = output_of("mandoc", "-T", "lint", page).splitlines()
            self.assertEqual([line for line in lines if NOT_WRONG not in line], [])

    def test_man_has_no_warning(self) -> None:
        needs("man")
        for page in PAGES:
            for width in ("80", "120"):
                run = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, check=False,
                                     env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": width})
                self.assertEqual((run.returncode, run.stderr), (0, ""), page.name)

    def test_names_are_found_by_apropos(self) -> None:
        needs("lexgrog")
        for page in PAGES:
            self.assertIn(f'"{page.name.rsplit(".", 1)[0]} - ', output_of("lexgrog", page))

    def test_no_page_has_markdown(self) -> None:
        needs("mandoc")
        for page in PAGES:
            text = output_of("mandoc", "-T", "utf8", page)
            self.assertNotRegex(text, r"\]\(|\*\*\w|\.md#|^ *\|---", page.name)

    def test_help_has_every_option(self) -> None:
        for source in sorted((ROOT / "app").glob("*.c")):
            text = source.read_text()
            program = BUILD / "app" / "uroce"
            known = {option for option in OPTION.findall(text)}
            if not known:
                continue
            text = output_of(program, source.stem, "--help")
            if "Usage:" in text:
                self.assertEqual({option for option in known if f"--{option}" not in text}, set(), source.name)


if __name__ == "__main__":
    program = unittest.main(exit=False)
    good = program.result.wasSuccessful()
    sys.exit(1 if not good else 77 if program.result.skipped else 0)
