# SPDX-License-Identifier: BSD-3-Clause
"""Reads from rxe-rules.txt whether Linux rxe keeps each rule, and compares it with the results in rxe-scripts.txt.

A rule needs no line in rxe-rules.txt if scripts of tests/peer name it and Linux rxe passed all of them.
"""
import pathlib
import re
from dataclasses import dataclass, field

import sources

FACTS = "tests/interop/rxe-rules.txt"
MEASURED = "tests/interop/rxe-scripts.txt"
SCRIPTS = "tests/peer"
SAME, DIFFERS, UNKNOWN, ABSENT = "same", "differs", "not known", "not applicable"
KINDS = (SAME, DIFFERS, UNKNOWN, ABSENT)
CERTAIN = ("measured", "around", "source")
ANSWER = re.compile(rf"^({'|'.join(KINDS)})(?:: (.+?))?(?: \[({'|'.join(CERTAIN)})\])?$")
COLUMNS = re.compile(r"^# script \|.*$", re.M)
ROW = re.compile(r"^(\w+) \|(.*)$", re.M)
HOLDS = "holds"


@dataclass
class Answer:
    kind: str
    words: str = ""
    certain: str = ""

    def text(self) -> str:
        return self.kind + (f": {self.words}" if self.words else "")


@dataclass
class Rxe:
    kernels: list[str] = field(default_factory=list)
    answers: dict[str, list[Answer]] = field(default_factory=dict)  # key: rule; value: an answer for each kernel
    lines: dict[str, int] = field(default_factory=dict)             # key: rule; value: number of its line in rxe-rules.txt
    scripts: dict[str, list[str]] = field(default_factory=dict)     # key: rule; value: scripts that name the rule
    measured: dict[str, list[str]] = field(default_factory=dict)    # key: script; value: result of each kernel


def read_answer(text: str) -> Answer | None:
    match = ANSWER.match(text.strip())
    if match is None:
        return None
    kind, words, certain = match[1], match[2] or "", match[3] or ""
    needs_words, needs_certain = kind == DIFFERS, kind in (SAME, DIFFERS)
    good = (words or not needs_words) and bool(certain) == needs_certain
    return Answer(kind, words, certain) if good else None


def read_lines(root: pathlib.Path, rxe: Rxe, report: sources.Report) -> None:
    path = root / FACTS
    for number, line in enumerate(path.read_text().splitlines() if path.is_file() else [], 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, *cells = [cell.strip() for cell in line.split("|")]
        answers = [read_answer(cell) for cell in cells]
        if len(answers) != len(rxe.kernels) or None in answers:
            report.add(FACTS, number, f"{name}: a line is rule|{'|'.join(rxe.kernels)}, each same, differs: "
                       "how, with [measured], [around] or [source], or not known, or not applicable")
        elif name in rxe.answers:
            report.add(FACTS, number, f"{name}: has two lines")
        else:
            rxe.answers[name], rxe.lines[name] = answers, number


def read_scripts(root: pathlib.Path) -> dict[str, list[str]]:
    """Returns a map from each script to the rules that it names."""
    rules = {}
    for path in sorted((root / SCRIPTS).glob("*.peer")):
        said = re.search(r"^rule (.*)$", path.read_text(), re.M)
        rules[path.stem] = re.split(r",\s*", said[1]) if said else []
    return rules


def read_measured(root: pathlib.Path) -> tuple[list[str], dict[str, list[str]]]:
    """Returns the list of kernels, and a map from each script to the result of each kernel."""
    path = root / MEASURED
    text = path.read_text() if path.is_file() else ""
    head = COLUMNS.search(text)
    kernels = re.findall(r"rxe [\d.]+", head[0]) if head else []
    return kernels, {m[1]: [cell.strip() for cell in m[2].split(" | ")] for m in ROW.finditer(text)}


def summary(rxe: Rxe) -> str:
    """Returns one sentence about what Linux rxe does."""
    parts = []
    for at, kernel in enumerate(rxe.kernels):
        rules = sum(answers[at].kind == DIFFERS for answers in rxe.answers.values())
        held = sum(row[at] == HOLDS for row in rxe.measured.values())
        parts.append(f"{kernel} differs in {rules} rules and passes {held} of {len(rxe.measured)} scripts")
    return ", ".join(parts) or "nothing is known of rxe"


def check_scripts(rxe: Rxe, scripts: dict[str, list[str]], measured: dict[str, list[str]],
                  report: sources.Report) -> None:
    """Checks the lines against the results of the scripts. If rxe fails a script, a line must say how rxe differs. A line must
    not say "not known" about a rule of a script that has a result. A line must not repeat that rxe keeps a rule if the results
    already show it."""
    for name, rules in scripts.items():
        if name not in measured:
            continue  # the script has no result yet
        for at, kernel in enumerate(rxe.kernels):
            blamed = [rule for rule in rules
                      if rule in rxe.answers and rxe.answers[rule][at].kind in (DIFFERS, ABSENT)]
            if measured[name][at] != HOLDS and not blamed:
                report.add(FACTS, None, f"{', '.join(rules)}: {kernel} differs in the script {name}; say how in a line of one of these rules")
    for rule, answers in rxe.answers.items():
        played = [name for name in rxe.scripts.get(rule, []) if name in measured]
        same = all(measured[name][at] == HOLDS for name in played
                   for at in range(len(rxe.kernels)))
        line = rxe.lines[rule]
        if played and any(answer.kind == UNKNOWN for answer in answers):
            report.add(FACTS, line, f"{rule}: rxe played the script {', '.join(played)}, so do not write \"not known\"")
        if played and same and all(answer.kind == SAME for answer in answers):
            report.add(FACTS, line, f"{rule}: remove this line, because {MEASURED} already shows that rxe keeps the rule")


def read(root: pathlib.Path, rules: list[str], report: sources.Report) -> Rxe:
    """Returns for each rule whether rxe keeps it, from both files."""
    rxe = Rxe()
    rxe.kernels, measured = read_measured(root)
    rxe.measured = measured
    read_lines(root, rxe, report)
    scripts = read_scripts(root)
    for name, named in scripts.items():
        for rule in named:
            rxe.scripts.setdefault(rule, []).append(name)
            if rule not in rules:
                report.add(f"{SCRIPTS}/{name}.peer", None, f"{rule} is not a rule of docs/PROTOCOL.md")
    check_scripts(rxe, scripts, measured, report)
    for rule, line in rxe.lines.items():
        if rule not in rules:
            report.add(FACTS, line, f"{rule} is not a rule of docs/PROTOCOL.md")
    for rule in rules:
        if rule in rxe.answers:
            continue
        if any(name in measured for name in rxe.scripts.get(rule, [])):
            rxe.answers[rule] = [Answer(SAME, "", "measured") for _ in rxe.kernels]
        else:
            report.add(FACTS, None, f"{rule}: add a line about rxe, because rxe has played no script of this rule")
            rxe.answers[rule] = [Answer(UNKNOWN) for _ in rxe.kernels]
    return rxe
