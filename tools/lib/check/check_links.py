#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if a link of a markdown page, or a path in `code marks`, has no target."""
import pathlib
import re
import sys

import sources

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:lib|app|include|tests|tools|docs|pcap-fixtures|\.ci)/[^`\s]*)`")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
HEADING = re.compile(r"^#+[ \t]+(.+?)[ \t]*$", re.M)
PATTERN = re.compile(r"[*<>{}$]|\.\.\.|NAME|NNNN")


def anchor(heading: str) -> str:
    """Returns the anchor that GitHub makes from a heading: lower case, no punctuation, hyphens for spaces."""
    plain = re.sub(r"[`*]", "", heading).lower()
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", plain))


def without_fences(text: str) -> str:
    return FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def anchors_of(page: pathlib.Path) -> set[str]:
    return {anchor(h) for h in HEADING.findall(without_fences(page.read_text()))}


def check_link(root: pathlib.Path, page: pathlib.Path, target: str) -> str | None:
    if re.match(r"[a-z]+:", target):
        return None
    name, _, fragment = target.partition("#")
    aim = (page.parent / name).resolve() if name else page
    if not aim.exists():
        return f"{target}: no such file"
    if not aim.is_relative_to(root.resolve()):
        return f"{target}: outside the project"
    if fragment and aim.suffix == ".md" and fragment not in anchors_of(aim):
        return f"{target}: no such heading in {name or 'this page'}"
    return None


def main() -> int:
    root = sources.root_argument().resolve()
    report = sources.Report()
    for page in sources.files(root, "*.md"):
        rel = page.relative_to(root)
        text = without_fences(page.read_text())
        for match in LINK.finditer(text):
            problem = check_link(root, page, match.group(1))
            if problem:
                report.add(rel, sources.line_of(text, match.start()), problem)
        for match in PATH.finditer(text):
            path = match.group(1).rstrip("/")
            if not PATTERN.search(path) and not (root / path).exists():
                report.add(rel, sources.line_of(text, match.start()), f"{path}: no such file")
    return report.finish("links and paths of the pages")


if __name__ == "__main__":
    sys.exit(main())
