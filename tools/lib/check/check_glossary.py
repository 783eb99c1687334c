#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if the name of a file of lib/ has a word that neither docs/GLOSSARY.md nor tests/tidy/standard-terms.txt has.

The standard terms are words of IBTA, rdma-core, DPDK, Linux or of programming in general. Any other word needs a row in the
glossary. Better: rename the file.
"""
import pathlib
import re
import sys

import sources

GLOSSARY = "docs/GLOSSARY.md"
TERMS = "tests/tidy/standard-terms.txt"
ROW = re.compile(r"^- \*\*([^*]+)\*\*:", re.M)


def defined(root: pathlib.Path) -> set[str]:
    """Returns the words that the rows of the glossary define. A row may define several words, separated by commas."""
    page = root / GLOSSARY
    cells = ROW.findall(page.read_text()) if page.is_file() else []
    return {word.strip().lower() for cell in cells for word in cell.split(",")}


def standard(root: pathlib.Path) -> set[str]:
    path = root / TERMS
    lines = path.read_text().splitlines() if path.is_file() else []
    return {word for line in lines if not line.startswith("#") for word in line.split()}


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    terms, glossary = standard(root), defined(root)
    used: set[str] = set()
    for path in sources.c_files(root, "lib"):
        for word in path.stem.split("_"):
            if word not in used | terms | glossary:
                report.add(path.relative_to(root), None,
                           f'"{word}" is in neither {GLOSSARY} nor {TERMS}: choose a standard word, or define it')
            used.add(word)
    for word in sorted(terms & glossary):
        report.add(TERMS, None, f"{word}: {GLOSSARY} defines it, too")
    return report.finish("file names of lib/ are words of the field or of the glossary")


if __name__ == "__main__":
    sys.exit(main())
