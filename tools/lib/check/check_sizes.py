#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if a .c file has more than 800 lines, a header or script more than 500, or a C function more than 60. Also lists the files
with more than 350 lines."""
import pathlib
import re
import sys

import sources

WALL = {".c": 800}
WALL_OTHERS = 500
NEAR = 350
FUNCTION_WALL = 60
DIRS = ("lib", "app", "tests", "tools", "include")
OPENING = re.compile(r"^\{$", re.M)
CLOSING = re.compile(r"^\}", re.M)
NAME = re.compile(r"(\w+)\s*\([^{}]*$")


def is_script(path: pathlib.Path) -> bool:
    return path.suffix in (".c", ".h", ".py", ".sh") or (
        path.suffix == "" and path.read_bytes()[:2] == b"#!")


def check_functions(report: sources.Report, rel: pathlib.PurePath, text: str) -> None:
    """Checks the length of each function. Functions are found by their braces: clang-format puts only these braces at the left
    margin."""
    code = sources.code_only(text)
    for opening in OPENING.finditer(code):
        closing = CLOSING.search(code, opening.end())
        if closing is None:
            continue
        lines = code.count("\n", opening.end(), closing.start()) - 1
        if lines > FUNCTION_WALL:
            name = NAME.search(code, 0, opening.start())
            report.add(rel, sources.line_of(code, opening.start()),
                       f"{name.group(1) if name else 'function'} has {lines} lines, "
                       f"at most {FUNCTION_WALL}: split it by its tasks")


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    near = []
    for path in sources.files(root, "*"):
        rel = path.relative_to(root)
        if rel.parts[0] not in DIRS or not is_script(path):
            continue
        text = path.read_text()
        lines = text.count("\n")
        wall = WALL.get(path.suffix, WALL_OTHERS)
        if lines > wall:
            report.add(rel, None, f"{lines} lines, at most {wall}: cut it by role")
        elif lines > NEAR:
            near.append((lines, rel))
        if path.suffix in (".c", ".h"):
            check_functions(report, rel, text)
    for lines, rel in sorted(near, reverse=True):
        print(f"near the wall: {rel}: {lines} lines")
    return report.finish("sizes of files and functions")


if __name__ == "__main__":
    sys.exit(main())
