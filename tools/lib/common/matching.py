# SPDX-License-Identifier: BSD-3-Clause
"""The option --match of test runners, which chooses cases by their names."""
import argparse
import re


def add_option(parser: argparse.ArgumentParser, text: str) -> None:
    """Adds --match, which may be given several times. A case is chosen if its name has any of the patterns."""
    parser.add_argument("--match", action="append", default=[], metavar="REGEX",
                        help=f"only {text} whose name has this pattern; may be repeated")


def chosen(patterns: list[str], names: list[str]) -> set[str]:
    """Returns the names that have any of the patterns, or all names if there is no pattern. Ends the program with an error if no
    name has a pattern: otherwise a test with a misspelt pattern would test nothing, and pass."""
    found = set()
    for pattern in patterns:
        fitting = {name for name in names if re.search(pattern, name)}
        if not fitting:
            raise SystemExit(f"--match '{pattern}': no name has this pattern")
        found |= fitting
    return found if patterns else set(names)
