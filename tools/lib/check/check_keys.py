#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if docs/CONFIGURATION.md lacks a key or link option of the code, if docs/CARDS.md lacks a key of a card, or if
docs/TROUBLESHOOTING.md lacks a vendor_err."""
import pathlib
import re
import sys

import sources

KEYS = "docs/CONFIGURATION.md"
CARDS, CARD = "docs/CARDS.md", "lib/config/card.h"
REASONS = "docs/TROUBLESHOOTING.md"
KEY = re.compile(r'\{\s*"([a-z][a-z0-9_]*)",\s*set_\w+')
QUOTA = re.compile(r'^\s*X\(\w+, "(max_\w+)"', re.M)
OF_CARD = re.compile(r'^\s*X\(\w+, "(\w+)"[,)]', re.M)
OPTION = re.compile(r'\{\s*"([a-z][a-z0-9_-]*)",\s*["{]')
NOT_OPTIONS = re.compile(r"net_|uio_")  # names of drivers, which look like options
REASON = re.compile(r'^\s*X\([A-Z_]+, "([^"]+)"\)', re.M)
CODE_SPAN = re.compile(r"`([^`]+)`")


def texts(root: pathlib.Path, *patterns: str) -> dict[str, str]:
    return {p.relative_to(root).as_posix(): p.read_text() for p in sources.files(root, *patterns)}


def keys(root: pathlib.Path) -> dict[str, str]:
    """Returns each key and option, and the file that reads it."""
    found = {}
    for name, text in texts(root, "lib/config/*.[ch]").items():
        if name == CARD:
            continue
        found |= {key: name for key in KEY.findall(text) + QUOTA.findall(text)}
    for name, text in texts(root, "lib/io/*.c").items():
        found |= {key: name for key in OPTION.findall(text) if not NOT_OPTIONS.match(key)}
    return found


def reasons(root: pathlib.Path) -> list[str]:
    """Returns the failure reasons in the order of their numbers, from the header in lib/core that mentions vendor_err."""
    for text in texts(root, "lib/core/*.h").values():
        if "vendor_err" in text[:400]:
            return REASON.findall(text)
    return []


def check_page(report: sources.Report, root: pathlib.Path, path: str, wanted: dict[str, str]) -> None:
    page = (root / path).read_text() if (root / path).exists() else ""
    named = set(re.findall(r"[a-z][a-z0-9_-]*", " ".join(CODE_SPAN.findall(page))))
    for key, name in sorted(wanted.items()):
        if key not in named:
            report.add(path, None, f"does not name the key or option {key} of {name}")


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    check_page(report, root, KEYS, keys(root))
    if (root / CARD).exists():
        check_page(report, root, CARDS, {key: CARD for key in OF_CARD.findall((root / CARD).read_text())})
    page = (root / REASONS).read_text() if (root / REASONS).exists() else ""
    for number, reason in enumerate(reasons(root)):
        if number > 0 and f"{number} {reason}" not in page:
            report.add(REASONS, None, f'does not have vendor_err "{number} {reason}"')
    return report.finish("keys, options and reasons of failures")


if __name__ == "__main__":
    sys.exit(main())
