# SPDX-License-Identifier: BSD-3-Clause
"""Reads and writes tests/mutants/oracle.results, which says which check detected each mutant."""
import pathlib
import re
from dataclasses import dataclass

import revision

TABLES = "tests/mutants"
RESULTS = f"{TABLES}/oracle.results"
# Checks that can detect a mutant, the strongest check first. Key: word in the tables. Value: name in a sentence
CATCHERS = {"sim": "the simulator", "storm": "the storm of connections",
            "fuzz": "the fuzzer of verbs", "tests": "a test only",
            "nobody": "nobody"}
HEAD = ("# The check that detected each mutant. Written by tools/mutants --record; do not edit.\n"
        "# date | commit | check | mutant | failure message\n")


@dataclass
class Result:
    date: str
    commit: str
    who: str
    mutant: str
    complaint: str

    def by_oracle(self) -> bool:
        return self.who in ("sim", "storm")

    def line(self) -> str:
        return " | ".join((self.date, self.commit, self.who, self.mutant, self.complaint)) + "\n"


def names(root: pathlib.Path) -> list[str]:
    """Returns the names of all mutants."""
    return [name.strip() for path in sorted((root / TABLES).glob("*.txt"))
            for name in re.findall(r"^mutant +(.*)$", path.read_text(), re.M)]


def read_rules(root: pathlib.Path) -> dict[str, str]:
    """Returns a map from patterns of failure messages to the rules of the simulator's checks."""
    path = root / TABLES / "oracle.rules"
    lines = path.read_text().splitlines() if path.is_file() else []
    return {words: rule.strip() for line in lines if line and not line.startswith("#")
            for words, rule in [line.split("  ", 1)]}


def read(root: pathlib.Path) -> dict[str, Result]:
    path = root / RESULTS
    lines = path.read_text().splitlines() if path.is_file() else []
    results = [Result(*[cell.strip() for cell in line.split("|", 4)])
               for line in lines if line and not line.startswith("#")]
    return {result.mutant: result for result in results}


def record(root: pathlib.Path, noticed: dict[str, tuple[str, str]]) -> None:
    """Writes for each mutant in @noticed which check detected it, and the message of the check. Keeps the earlier results of
    other mutants, and drops mutants that no longer exist."""
    date, commit = revision.today(root)
    results = read(root)
    for mutant, (who, said) in noticed.items():
        results[mutant] = Result(date, commit, who, mutant, said.replace("|", "/").strip())
    kept = [results[name] for name in names(root) if name in results]
    (root / RESULTS).write_text(HEAD + "".join(result.line() for result in kept))
