#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if a text that a user can see has a word that is hard to understand.

    check_messages.py [--list] [ROOT]     --list: prints FILE:LINE: TEXT of every text, and never fails

A message says what happened, why, and what to do. The check knows only some words. The author of a
message must still read it as a stranger would.
"""
import re
import sys

import sources

# Folders whose texts reach users: stderr, --help, configuration errors, counters, failure reasons.
SEEN = re.compile(r"app/|lib/(abi|embed|host|io|paths|script|ucma|verbs)/"
                  r"|lib/base/counters\.h|lib/core/(why|fail_reason)\.h|lib/wire/(frame|text)\.c")
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
PART = re.compile(r'"((?:\\.|[^"\\\n])*)"')
GAP = re.compile(r"[\s\\]*(?:(?:PRI\w+|[A-Z]\w*)[\s\\]*)?")
STATEMENT = re.compile(r"[^;{}]*$")
NOT_SEEN = re.compile(r"\b(_Static_assert|static_assert|f?s?scanf|strstr|str[c]?spn|strpbrk|URO_MARK)\s*\(")
SENTENCE = re.compile(r"[A-Za-z]{2}.*\s.*[A-Za-z]|[A-Za-z].*\s.*[A-Za-z]{2}", re.S)
WORDS = [
    (re.compile(r"\bsomebody\b|\bnobody\b"), "say which program, user, host or peer"),
    (re.compile(r"\bis told\b|\bare told\b|\bis heard\b|\bbelieve"), "sends, receives, reports, assumes"),
    (re.compile(r"\bwas to come\b|\bwas to\b"), "expected ..."),
    (re.compile(r"\bis not right\b|\bcrooked\b|\bmend\b"), "say what is wrong and what would be right"),
    (re.compile(r"\bsuch a one\b|\banother one\b|\bthat one\b|\bled to\b"), "name the thing"),
]


def without_comments(text: str) -> str:
    def blank(match: re.Match) -> str:
        found = match.group(0)
        return re.sub(r"[^\n]", " ", found) if found[0] == "/" else found
    return COMMENT.sub(blank, text)


def messages(text: str) -> list[tuple[int, str]]:
    """Returns (line, text) of each message. Joins adjacent literals, and replaces a macro between them by "..."."""
    code = without_comments(text)
    found: list[tuple[int, int, str]] = []
    for part in PART.finditer(code):
        line_start = code.rfind("\n", 0, part.start()) + 1
        if code[line_start:part.start()].lstrip().startswith("#include"):
            continue
        if found and GAP.fullmatch(code, found[-1][1], part.start()):
            start, end, before = found.pop()
            macro = code[end:part.start()].strip(" \\\n\t")
            found.append((start, part.end(), before + ("..." if macro else "") + part.group(1)))
        else:
            found.append((part.start(), part.end(), part.group(1)))
    result = []
    for start, _, message in found:
        statement = STATEMENT.search(code, max(0, start - 400), start)
        if SENTENCE.search(message) and not NOT_SEEN.search(statement.group(0)):
            result.append((sources.line_of(code, start), message))
    return result


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    for path in sources.files(root, "*.c", "*.h"):
        rel = path.relative_to(root).as_posix()
        if not SEEN.match(rel):
            continue
        for line, message in messages(path.read_text()):
            if "--list" in sys.argv:
                print(f"{rel}:{line}: {message}")
                continue
            for words, instead in WORDS:
                bad = words.search(message)
                if bad:
                    report.add(rel, line, f'"{bad.group(0)}" in a message; write instead: {instead}')
    return 0 if "--list" in sys.argv else report.finish("messages to users")


if __name__ == "__main__":
    sys.exit(main())
