#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Holds the rules of docs/PROTOCOL.md against the marks in lib/ and the tests that ask for them.

A rule is `done` when three places agree: its row, the line of code that keeps it, its test.
    lib/    URO_MARK("RSP.DUP.SEND")    or the comment /* rule RNR.TABLE */ where no single line
    tests/  uro_mark_hit("RSP.DUP.SEND"), expect_mark(..., "RSP.DUP.SEND"), the id as a string of a
            table of cases, or the same comment
A script of tests/peer asks for the marks of the rules it names: tests/peer/test_engine.c.
The comment is for tables, types and things that must never happen; a line that runs has a mark.
A rule is shown by a mark when a test asserts that its line ran; else by name: code and test name it,
and only a reader knows that the one tests the other. docs/CONFORMANCE.md counts both.

A rule that is not done says why, `open: reason`. How Linux rxe does it stands in docs/rxe.txt or was
measured by scripts (rxe_facts.py). docs/CONFORMANCE.md says how many hold; --write makes it.

A bug that others paid for, `| B01 | what went wrong | file | tests |`, names tests that exist.
"""
import pathlib
import re
import sys
from dataclasses import dataclass

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("check", "common", "mutants")]

import conformance_page
import rxe_facts
import sources

PAGE = "docs/PROTOCOL.md"
ID = r"[A-Z][A-Z0-9]*(?:\.[A-Z0-9_]+)+"
ROW = re.compile(rf"^\|\s*({ID})\s*\|(.*)\|\s*$", re.M)
IN_CODE = re.compile(rf'URO_MARK\(\s*"([^"]+)"\s*\)|/\*\s*rule\s+({ID}(?:\s*,\s*{ID})*)')
IN_TESTS = re.compile(
    rf'\w*(?:mark_hit|expect_mark)\s*\([^;"]*"([^"]+)"\s*\)|(?:/\*|#|")\s*rule\s+'
    rf"({ID}(?:\s*,\s*{ID})*)")
SCRIPT_RULES = re.compile(r"^rule[ \t]+(.+)$", re.M)
UNMARKED = re.compile(r"unmarked\[\] = \{(.*?)\}", re.S)  # of tests/peer/test_engine.c
IN_TEST_TABLES = re.compile(rf'"({ID})"()')  # a mark that a table of cases asks for
ASKS = re.compile(r"mark_hit|expect_mark")    # who has such a table
BUG = re.compile(r"^\|\s*(B\d\d)\s*\|(.*)\|\s*$", re.M)
STATE = re.compile(r"done|open: .+")
COLUMNS = 5  # after the id: rule, source, code, test, state


@dataclass
class Rule:
    line: int
    text: str
    code: str
    test: str
    state: str
    marked: bool = False  # a test asserts that its line ran

    @property
    def done(self) -> bool:
        return self.state == "done"

    @property
    def reason(self) -> str:
        return self.state.removeprefix("open: ")


def read_rules(root: pathlib.Path, report: sources.Report) -> dict[str, Rule]:
    text = (root / PAGE).read_text()
    rules: dict[str, Rule] = {}
    for match in ROW.finditer(text):
        name, line = match.group(1), sources.line_of(text, match.start())
        cells = [cell.strip() for cell in match.group(2).split("|")]
        if len(cells) != COLUMNS or not STATE.fullmatch(cells[-1]):
            report.add(PAGE, line, f"{name}: a row is id|rule|source|code|test|state, "
                       "state is done or open: why")
        elif name in rules:
            report.add(PAGE, line, f"{name}: stands in the table twice")
        elif not conformance_page.family_of(name):
            report.add(PAGE, line, f"{name}: its first word is in no family of conformance_page.py")
        else:
            rules[name] = Rule(line, cells[0], *cells[2:])
    return rules


def find_marks(root: pathlib.Path, paths: list[pathlib.Path],
               pattern: re.Pattern) -> tuple[dict[str, list[str]], set[str]]:
    """id -> the files that name it; those that are marks, not comments only."""
    named: dict[str, list[str]] = {}
    marks: set[str] = set()
    for path in paths:
        for match in pattern.finditer(path.read_text()):
            names = re.split(r"\s*,\s*", match.group(1) or match.group(2))
            marks.update(names if match.group(1) else ())
            for name in names:
                named.setdefault(name, []).append(path.relative_to(root).as_posix())
    return named, marks


def find_scripts(root: pathlib.Path) -> dict[str, list[str]]:
    """id -> the scripts of tests/peer that name it, when tests/peer/test_engine.c asserts its mark."""
    engine = root / "tests" / "peer" / "test_engine.c"
    listed = UNMARKED.search(engine.read_text()) if engine.is_file() else None
    named: dict[str, list[str]] = {}
    if listed is None:
        return named
    unmarked = set(re.findall(r'"([^"]+)"', listed.group(1)))
    for path in sources.files(root, "tests/peer/*.peer"):
        for match in SCRIPT_RULES.finditer(path.read_text()):
            for name in set(re.split(r"[ ,]+", match.group(1).strip())) - unmarked:
                named.setdefault(name, []).append(path.relative_to(root).as_posix())
    return named


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
            if path.is_dir() and (path / f"{name}.peer").is_file():
                continue
            if not re.search(rf"\b{re.escape(name)}\(void \*\*state\)", there):
                report.add(PAGE, line, f"{match.group(1)}: no test {name} in tests/{cells[1]}")


def check_marks(root: pathlib.Path, rules: dict[str, Rule], report: sources.Report) -> None:
    code, marks = find_marks(root, [p for p in sources.c_files(root, "lib")
                                    if p.name != "mark.h"], IN_CODE)
    test_files = [p for p in sources.files(root, "tests/*.c", "tests/*.h", "tests/*.py")
                  if p.name not in ("test_checks.py", "test_conformance.py", "test_mark.c")]
    tests, asked = find_marks(root, test_files, IN_TESTS)
    tables, _ = find_marks(root, [p for p in test_files if ASKS.search(p.read_text())],
                           IN_TEST_TABLES)
    for name, places in find_scripts(root).items():
        tables.setdefault(name, []).extend(places)
    for name, places in tables.items():
        if name in rules:
            tests.setdefault(name, []).extend(places)
    for name, rule in rules.items():
        rule.marked = name in marks and (name in asked or name in tables)
        if rule.done:
            check_done(report, name, rule, code.get(name, []), tests.get(name, []))
        elif name in code and name in tests:
            print(f"{PAGE}:{rule.line}: {name} has code and a test: its state may say done")
    for where, named in (("lib", code), ("tests", tests)):
        for name, places in named.items():
            if name not in rules:
                report.add(places[0], None, f"{name} ({where}) has no row in {PAGE}")
    for name, places in tests.items():
        if name in rules and name not in code:
            report.add(places[0], None, f"{name}: a test asks for it, but no line of lib/ has it")


def check_page(root: pathlib.Path, text: str, report: sources.Report) -> None:
    path = root / conformance_page.PAGE
    if "--write" in sys.argv[1:]:
        path.write_text(text)
    elif path.is_file() and path.read_text() != text:
        report.add(conformance_page.PAGE, None, "is out of date: tools/conformance --write")


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    rules = read_rules(root, report)
    check_marks(root, rules, report)
    check_bugs(root, report)
    rxe = rxe_facts.read(root, list(rules), report)
    check_page(root, conformance_page.make(root, rules, rxe), report)
    done = sum(rule.done for rule in rules.values())
    marked = sum(rule.done and rule.marked for rule in rules.values())
    return report.finish(f"conformance: {done} rules done, {marked} of them by a mark that a test "
                         f"asserts, {len(rules) - done} open")


if __name__ == "__main__":
    sys.exit(main())
