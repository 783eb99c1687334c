#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds the rules of docs/PROTOCOL.md against the marks in lib/ and the tests that ask for them.

A rule is `done` when three places agree: its row, the line of code that keeps it, its test.
    lib/    URO_MARK("RSP.DUP.SEND")    or the comment /* rule RNR.TABLE */ where no single line
    tests/  uro_mark_hit("RSP.DUP.SEND"), expect_mark(..., "RSP.DUP.SEND"), the id as a string of a
            table of cases, or the same comment
The comment is for tables, types and things that must never happen; a line that runs has a mark.

A bug that others paid for, `| B01 | what went wrong | file | tests |`, names tests that exist.
"""
import pathlib
import re
import sys
from dataclasses import dataclass

import sources

PAGE = "docs/PROTOCOL.md"
ID = r"[A-Z][A-Z0-9]*(?:\.[A-Z0-9_]+)+"
ROW = re.compile(rf"^\|\s*({ID})\s*\|(.*)\|\s*$", re.M)
IN_CODE = re.compile(rf'URO_MARK\(\s*"([^"]+)"\s*\)|/\*\s*rule\s+({ID}(?:\s*,\s*{ID})*)')
IN_TESTS = re.compile(
    rf'\w*(?:mark_hit|expect_mark)\s*\([^;"]*"([^"]+)"\s*\)|(?:/\*|#|")\s*rule\s+'
    rf"({ID}(?:\s*,\s*{ID})*)")
IN_TEST_TABLES = re.compile(rf'"({ID})"()')  # a mark that a table of cases asks for
BUG = re.compile(r"^\|\s*(B\d\d)\s*\|(.*)\|\s*$", re.M)
STATES = ("done", "open")
COLUMNS = 5  # after the id: rule, source, code, test, state


@dataclass
class Rule:
    line: int
    code: str
    test: str
    state: str


def read_rules(root: pathlib.Path, report: sources.Report) -> dict[str, Rule]:
    text = (root / PAGE).read_text()
    rules: dict[str, Rule] = {}
    for match in ROW.finditer(text):
        name, line = match.group(1), sources.line_of(text, match.start())
        cells = [cell.strip() for cell in match.group(2).split("|")]
        if len(cells) != COLUMNS or cells[-1] not in STATES:
            report.add(PAGE, line, f"{name}: a row is id|rule|source|code|test|state, "
                       f"state one of {', '.join(STATES)}")
        elif name in rules:
            report.add(PAGE, line, f"{name}: stands in the table twice")
        else:
            rules[name] = Rule(line, cells[2], cells[3], cells[4])
    return rules


def find_marks(root: pathlib.Path, paths: list[pathlib.Path],
               pattern: re.Pattern) -> dict[str, list[str]]:
    """id -> the files that name it."""
    marks: dict[str, list[str]] = {}
    for path in paths:
        for match in pattern.finditer(path.read_text()):
            for name in re.split(r"\s*,\s*", match.group(1) or match.group(2)):
                marks.setdefault(name, []).append(path.relative_to(root).as_posix())
    return marks


def names_one_of(cell: str, files: list[str]) -> bool:
    return any(pathlib.PurePath(f).name in cell or f in cell for f in files)


def check_done(report: sources.Report, name: str, rule: Rule, code: list[str],
               tests: list[str]) -> None:
    if not code:
        report.add(PAGE, rule.line, f'{name} is done, but no URO_MARK("{name}") stands in lib/')
    elif not names_one_of(rule.code, code):
        report.add(PAGE, rule.line, f"{name}: the code column must name {' or '.join(code)}")
    if not tests:
        report.add(PAGE, rule.line, f"{name} is done, but no test asks for its mark")
    elif not names_one_of(rule.test, tests):
        report.add(PAGE, rule.line, f"{name}: the test column must name {' or '.join(tests)}")


def check_bugs(root: pathlib.Path, report: sources.Report) -> None:
    text = (root / PAGE).read_text()
    for match in BUG.finditer(text):
        line = sources.line_of(text, match.start())
        cells = [cell.strip() for cell in match.group(2).split("|")]
        if len(cells) != 3:
            report.add(PAGE, line, f"{match.group(1)}: a bug is id|what went wrong|file|tests")
            continue
        path = root / "tests" / cells[1]
        there = path.read_text() if path.is_file() else ""
        for name in re.split(r",\s*", cells[2]):
            if not re.search(rf"\b{re.escape(name)}\(void \*\*state\)", there):
                report.add(PAGE, line, f"{match.group(1)}: no test {name} in tests/{cells[1]}")


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    rules = read_rules(root, report)
    code = find_marks(root, [p for p in sources.c_files(root, "lib")
                             if p.name != "mark.h"], IN_CODE)
    test_files = [p for p in sources.files(root, "tests/*.c", "tests/*.h", "tests/*.py")
                  if p.name not in ("test_checks.py", "test_mark.c")]
    tests = find_marks(root, test_files, IN_TESTS)
    for name, places in find_marks(root, test_files, IN_TEST_TABLES).items():
        if name in rules:
            tests.setdefault(name, []).extend(places)
    for name, rule in rules.items():
        if rule.state == "done":
            check_done(report, name, rule, code.get(name, []), tests.get(name, []))
        elif name in code and name in tests:
            print(f"{PAGE}:{rule.line}: {name} has code and a test: its state may say done")
    for where, marks in (("lib", code), ("tests", tests)):
        for name, places in marks.items():
            if name not in rules:
                report.add(places[0], None, f"{name} ({where}) has no row in {PAGE}")
    for name, places in tests.items():
        if name in rules and name not in code:
            report.add(places[0], None, f"{name}: a test asks for it, but no line of lib/ has it")
    check_bugs(root, report)
    done = sum(rule.state == "done" for rule in rules.values())
    return report.finish(f"conformance: {done} rules done, {len(rules) - done} open")


if __name__ == "__main__":
    sys.exit(main())
