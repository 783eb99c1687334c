#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts comments in C files that are hard to read, by kind. Fails if a folder has more of them than tests/tidy/comments.txt allows.

    who     a sentence whose subject is a clause: "Who posts is not kept waiting." Name the subject: "A caller that posts ..."
    of      a sentence that begins with "Of"
    likewise  the word: say what is the same
    one     a sentence that ends with "one": repeat the noun
    long    a comment line over 100 columns

tests/tidy/comments.txt has the most findings that a folder may have. When a folder improves, lower its numbers there. Never raise
them for new code.
    check_comments.py [ROOT] [--list WORD...]    prints each finding in files whose path contains a word
"""
import argparse
import pathlib
import re
import sys
from collections import Counter

import sources

LIMITS = "tests/tidy/comments.txt"
DIRS = ("lib", "app", "include", "tests")
COLUMNS = 100
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DECORATION = re.compile(r"^\s*(?:/\*+|\*+(?=\s|$)|//)|\*/", re.M)
SENTENCE = re.compile(r"[^\s.?!](?:[^.?!\n]|[.?!](?=\S)|\n(?!\s*\n))*[.?!]?", re.S)
PREDICATE = r"\b(?:is|are|was|were|has|have|had|may|must|can|cannot|does|do|will)\b"
PATTERNS = {
    "who": re.compile(rf"(?:Who|Whoever|What|Whatever) (?!is\b.*\?)|(?:who|what)(?:ever)? .*{PREDICATE}.*{PREDICATE}", re.S),
    "of": re.compile(r"Of \w"),
    "likewise": re.compile(r".*\blikewise\b", re.S | re.I),
    "one": re.compile(r".*\b(?<!than )(?<!no )(?<!No )(?<!to )(?<!is )one[.;]?\Z", re.S),
}


def comments(text: str):
    """Yields (position, comment)."""
    for match in COMMENT.finditer(text):
        if match.group(0)[0] == "/":
            yield match.start(), match.group(0)


def sentences(comment: str):
    """Yields (offset, sentence) for each sentence of a comment. Blanks replace comment marks and ends of lines."""
    plain = DECORATION.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), comment)
    for match in SENTENCE.finditer(plain):
        yield match.start(), re.sub(r"\s+", " ", match.group(0)).strip()


def findings(text: str) -> list[tuple[int, str, str]]:
    """Returns (line, kind, sentence) of a C text."""
    found = []
    for start, comment in comments(text):
        for offset, sentence in sentences(comment):
            if not sentence.endswith("?"):
                found += [(sources.line_of(text, start + offset), kind, sentence)
                          for kind, pattern in PATTERNS.items() if pattern.match(sentence)]
        first = sources.line_of(text, start)
        column = start - text.rfind("\n", 0, start) - 1
        for number, line in enumerate(comment.split("\n")):
            if len(line) + (column if number == 0 else 0) > COLUMNS:
                found.append((first + number, "long", line.strip()))
    return found


def folder_of(rel: pathlib.PurePath) -> str:
    """Returns the folder whose limits apply: lib/core, lib/io, tests/unit, ..., app."""
    return "/".join(rel.parts[:2]) if len(rel.parts) > 2 else rel.parts[0]


def read_limits(root: pathlib.Path) -> dict[str, Counter]:
    path = root / LIMITS
    limits: dict[str, Counter] = {}
    for line in path.read_text().splitlines() if path.is_file() else []:
        if line.strip() and not line.startswith("#"):
            folder, *numbers = line.split()
            limits[folder] = Counter({kind: int(number) for kind, _, number in (word.partition("=") for word in numbers)})
    return limits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[3])
    parser.add_argument("--list", nargs="*", metavar="WORD", help="print each finding in files whose path contains a word")
    parser.add_argument("--count", action="store_true", help="print the counts in the form of the limits")
    options = parser.parse_args()
    counts: dict[str, Counter] = {}
    for path in sources.c_files(options.root, *DIRS):
        rel = path.relative_to(options.root)
        for line, kind, sentence in findings(path.read_text()):
            counts.setdefault(folder_of(rel), Counter())[kind] += 1
            if options.list is not None and (not options.list or any(word in str(rel) for word in options.list)):
                print(f"{rel}:{line}: {kind}: {sentence[:110]}")
    kinds = [*PATTERNS, "long"]
    if options.count:
        for folder in sorted(counts):
            print(folder, *(f"{kind}={counts[folder][kind]}" for kind in kinds if counts[folder][kind]))
    report, limits = sources.Report(), read_limits(options.root)
    for folder in sorted(counts):
        for kind in kinds:
            limit = limits.get(folder, Counter())[kind]
            if counts[folder][kind] > limit:
                report.add(folder, None, f"{counts[folder][kind]} comments of the kind '{kind}', at most {limit}; see "
                           f"tools/lib/check/check_comments.py --list {folder}")
    total = Counter()
    for found in counts.values():
        total += found
    return report.finish("comments: " + ", ".join(f"{kind} {total[kind]}" for kind in kinds))


if __name__ == "__main__":
    sys.exit(main())
