#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that each rule of docs/PROTOCOL.md has code that implements it, and a test.

The id of a rule links code and test:

    lib/    URO_MARK("RSP.DUP.SEND") is on the line that implements the rule. If no single line implements it, the comment
            /* rule RNR.TABLE */ stands in the code; the words `rule RNR.TABLE` may also follow a sentence of a comment
    tests/  uro_mark_hit("RSP.DUP.SEND"), expect_mark(..., "RSP.DUP.SEND"), the id as a string in a table of cases, or
            the comment /* rule RNR.TABLE */
A script of tests/peer names its rules, and tests/peer/test_engine.c asserts that their marks were hit.
Use a comment only for a table, a type, or an event that must never happen. Use a mark for a line that runs.
A rule holds "by a mark" if a test asserts that its line ran. It holds "by name" if only comments link code and test.

If a rule has no code or no test, PROTOCOL.md gives the reason before the source of the rule: (open: reason).
rxe_facts.py reads from tests/interop whether Linux rxe keeps a rule. --rules prints code and tests of each rule.
--write DIR writes DIR/CONFORMANCE.md and DIR/DEVIATIONS.md.

PROTOCOL.md also lists bugs of other stacks: - **B01**: what went wrong. Each bug has a test below the comment /* bug B01 */, or
a script with the line # bug B01.
"""
import argparse
import pathlib
import re
import sys
from dataclasses import dataclass, field

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("check", "common", "mutants")]

import conformance_page
import rxe_facts
import sources

PAGE = "docs/PROTOCOL.md"
ID = r"[A-Z][A-Z0-9]*(?:\.[A-Z0-9_]+)+"
ROW = re.compile(rf"^- \*\*({ID})\*\*(.*)$", re.M)
RULE = re.compile(r": (.+?)(?: \(open: (.+)\))? \[([^\]]+)\]")
IN_CODE = re.compile(rf'URO_MARK\(\s*"([^"]+)"\s*\)|(?:/\*|[.;])\s+rule\s+({ID}(?:\s*,\s*{ID})*)')
IN_TESTS = re.compile(
    rf'\w*(?:mark_hit|expect_mark)\s*\([^;"]*"([^"]+)"\s*\)|(?:/\*|#|")\s*rule\s+'
    rf"({ID}(?:\s*,\s*{ID})*)")
SCRIPT_RULES = re.compile(r"^rule[ \t]+(.+)$", re.M)
UNMARKED = re.compile(r"unmarked\[\] = \{(.*?)\}", re.S)  # list in tests/peer/test_engine.c
IN_TEST_TABLES = re.compile(rf'"({ID})"()')  # a mark in a table of cases
ASKS = re.compile(r"mark_hit|expect_mark")    # files that have such a table
BUG = re.compile(r"^- \*\*(B\d\d)\*\*: ", re.M)
BUG_TEST = re.compile(r"/\* bug (B\d\d(?:, B\d\d)*)(?:: [^*]+)? \*/\n(?:static )?void \w+\(void \*\*state\)|^# bug (B\d\d(?:, B\d\d)*)$", re.M)
BUG_NAMED = re.compile(r"(?:/\*|^#) bug (B\d\d(?:, B\d\d)*)", re.M)


@dataclass
class Rule:
    line: int
    text: str
    reason: str           # why the rule has no code or no test; else empty
    code: list[str] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    marked: bool = False  # true if a test asserts that the line of the rule ran

    @property
    def done(self) -> bool:
        return not self.reason

    @property
    def state(self) -> str:
        return "open" if self.reason else "by a mark" if self.marked else "by name"


def read_rules(root: pathlib.Path, report: sources.Report) -> dict[str, Rule]:
    text = (root / PAGE).read_text()
    rules: dict[str, Rule] = {}
    for match in ROW.finditer(text):
        name, line = match.group(1), sources.line_of(text, match.start())
        row = RULE.fullmatch(match.group(2))
        if row is None or row[1].endswith("(open)"):
            report.add(PAGE, line, f"{name}: a rule is - **ID**: sentence [source]; before the source (open: why), if "
                       "code or test is missing")
        elif name in rules:
            report.add(PAGE, line, f"{name}: the table has this rule twice")
        elif not conformance_page.family_of(name):
            report.add(PAGE, line, f"{name}: its first word is in no family of conformance_page.py")
        else:
            rules[name] = Rule(line, row[1], row[2] or "")
    return rules


def find_marks(root: pathlib.Path, paths: list[pathlib.Path],
               pattern: re.Pattern) -> tuple[dict[str, list[str]], set[str]]:
    """Returns a map from each id to its places, and the set of ids that have a mark, not only a comment."""
    named: dict[str, list[str]] = {}
    marks: set[str] = set()
    for path in paths:
        text = path.read_text()
        for match in pattern.finditer(text):
            names = re.split(r"\s*,\s*", match.group(1) or match.group(2))
            marks.update(names if match.group(1) else ())
            place = f"{path.relative_to(root).as_posix()}:{sources.line_of(text, match.start())}"
            for name in names:
                named.setdefault(name, []).append(place)
    return named, marks


def find_scripts(root: pathlib.Path) -> dict[str, list[str]]:
    """Returns a map from each id to the scripts of tests/peer that name it. Leaves out ids whose mark
    tests/peer/test_engine.c does not assert."""
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


def check_done(report: sources.Report, name: str, rule: Rule) -> None:
    if not rule.code:
        report.add(PAGE, rule.line, f'{name}: no URO_MARK("{name}") is in lib/')
    if not rule.tests:
        report.add(PAGE, rule.line, f"{name}: no test asserts that its line ran")


def check_bugs(root: pathlib.Path, report: sources.Report) -> None:
    text = (root / PAGE).read_text()
    bugs = {match.group(1): sources.line_of(text, match.start()) for match in BUG.finditer(text)}
    tested: set[str] = set()
    for path in sources.files(root, "tests/*.c", "tests/*.peer"):
        there = path.read_text()
        for match in BUG_TEST.finditer(there):
            tested.update((match.group(1) or match.group(2)).split(", "))
        for match in BUG_NAMED.finditer(there):
            for name in set(match.group(1).split(", ")) - set(bugs):
                report.add(path.relative_to(root), sources.line_of(there, match.start()), f"{name} has no row in {PAGE}")
    for name in sorted(set(bugs) - tested):
        report.add(PAGE, bugs[name], f"{name}: no test is below a comment /* bug {name} */")


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
        rule.code, rule.tests = code.get(name, []), list(dict.fromkeys(tests.get(name, [])))
        if rule.done:
            check_done(report, name, rule)
        elif rule.code and rule.tests:
            print(f"{PAGE}:{rule.line}: {name} has code and a test: remove (open: ...)")
    for where, named in (("lib", code), ("tests", tests)):
        for name, places in named.items():
            if name not in rules:
                report.add(places[0], None, f"{name} ({where}) has no row in {PAGE}")
    for name, places in tests.items():
        if name in rules and name not in code:
            report.add(places[0], None, f"{name}: a test asserts its mark, but no line of lib/ has this mark")


def print_rules(rules: dict[str, Rule]) -> None:
    for name, rule in rules.items():
        print(f"{name} | {rule.state} | {', '.join(rule.code)} | {', '.join(rule.tests)}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/conformance", description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[3])
    parser.add_argument("--rules", action="store_true", help="print each rule with its state, code and tests")
    parser.add_argument("--write", type=pathlib.Path, metavar="DIR", help="write CONFORMANCE.md and DEVIATIONS.md to DIR")
    options = parser.parse_args()
    root, report = options.root, sources.Report()
    rules = read_rules(root, report)
    check_marks(root, rules, report)
    check_bugs(root, report)
    rxe = rxe_facts.read(root, list(rules), report)
    if options.rules:
        print_rules(rules)
    if options.write:
        conformance_page.write(options.write, root, rules, rxe)
    done = sum(rule.done for rule in rules.values())
    marked = sum(rule.done and rule.marked for rule in rules.values())
    return report.finish(f"conformance: {done} of {len(rules)} rules hold, {marked} of them by a mark that a test "
                         f"asserts; {rxe_facts.summary(rxe)}")


if __name__ == "__main__":
    sys.exit(main())
