# SPDX-License-Identifier: BSD-3-Clause
"""Which check detected which mutant, kept from run to run in tests/mutants/oracle.results."""
import pathlib
import re
from dataclasses import dataclass

import revision

TABLES = "tests/mutants"
RESULTS = f"{TABLES}/oracle.results"
# Tests that can notice a mutant, the strongest first: their word in the tables -> their name in a sentence.
CATCHERS = {"sim": "the simulator", "storm": "the storm of connections",
            "fuzz": "the fuzzer of verbs", "tests": "a test only",
            "nobody": "nobody"}
HEAD = ("# Who noticed each mutant; written by tools/mutants --record, do not edit.\n"
        "# date | commit | who | mutant | what it said\n")


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
    """Returns the rules of the oracle, by the pattern of their failure messages."""
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
    """Records mutant -> the check that detected it, and its message. Keeps other mutants, and drops
    those that no longer exist."""
    date, commit = revision.today(root)
    results = read(root)
    for mutant, (who, said) in noticed.items():
        results[mutant] = Result(date, commit, who, mutant, said.replace("|", "/").strip())
    kept = [results[name] for name in names(root) if name in results]
    (root / RESULTS).write_text(HEAD + "".join(result.line() for result in kept))
