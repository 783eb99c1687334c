#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails unless the table of docs/SECURITY.md has a row for each attack of tests/attack, and no other."""
import ast
import pathlib
import re
import sys

import sources

PAGE = "docs/SECURITY.md"
TABLE = re.compile(r"^\| attack \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.M)


def attacks(path: pathlib.Path) -> list[str]:
    """Their names: the first argument of each call in the list ATTACKS."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ATTACKS" \
                and isinstance(node.value, ast.List):
            return [call.args[0].value for call in node.value.elts]
    return []


def rows(text: str) -> list[str]:
    table = TABLE.search(text)
    return [line.split("|")[1].strip() for line in table.group(1).splitlines()] if table else []


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    page = root / PAGE
    written = rows(page.read_text()) if page.exists() else []
    made = [name for path in sources.files(root, "tests/attack/*.py") for name in attacks(path)]
    for name in made:
        if name not in written:
            report.add(PAGE, None, f"no row for the attack: {name}")
    for name in written:
        if name not in made:
            report.add(PAGE, None, f"a row, but no such attack: {name}")
    return report.finish("attacks")


if __name__ == "__main__":
    sys.exit(main())
