#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the manual pages. The pages of the commands are made from their help. Most pages also have sections of the files in docs/.

    gen_manual.py ROOT VERSION LOWDOWN DEPFILE OUT... -- UROCE

OUT are the files to write, for example uroce-run.1. lowdown translates Markdown to a manual page. The script writes to DEPFILE that
the first OUT depends on the Markdown files that the pages use, in the syntax of make.
"""
import datetime
import os
import pathlib
import re
import subprocess
import sys

import help_text
from help_text import Command

# The sections of docs/ in each page: (file, heading). An empty heading is the text before the first section. "*" is all sections.
FROM_DOCS = {
    "uroce.1": [("INSTALL.md", "Needed at run time"), ("TROUBLESHOOTING.md", "How to look")],
    "uroce-run.1": [("CONFIGURATION.md", ""), ("CONFIGURATION.md", "Files and libraries"), ("TROUBLESHOOTING.md", "Starting")],
    "uroce-devices.1": [("LINKS.md", "*"), ("CARDS.md", "*")],
    "uroce-info.1": [("INSTALL.md", "Does it work here"), ("INSTALL.md", "Needed at run time")],
    "uroce-stat.1": [("MONITORING.md", "uroce stat and uroce top"), ("MONITORING.md", "The files in /sys")],
    "uroce-top.1": [("MONITORING.md", "uroce stat and uroce top")],
    "uroce-impair.1": [("IMPAIR.md", "Plans"), ("IMPAIR.md", "What is repeatable")],
    "uroce-shrink.1": [("IMPAIR.md", "Traces")],
    "uroce-dump.1": [("CAPTURES.md", "Making one"), ("CAPTURES.md", "The page")],
    "uroce-judge.1": [("CAPTURES.md", "Making one"), ("CAPTURES.md", "Broken rules")],
    "uroce-why.1": [("MONITORING.md", "Why"), ("TROUBLESHOOTING.md", "A completion fails")],
    "uroce-peer.1": [("PEER.md", "*")],
    "uroce.conf.5": [("CONFIGURATION.md", "*")],
    "uroce.7": [("../README.md", ""), ("../README.md", "A run"), ("../README.md", "State"), ("LINKS.md", "*"),
                ("FROM-SOFT-ROCE.md", "*"), ("PROGRAMS.md", "*"), ("SECURITY.md", "")],
}
SUMMARIES = {"uroce.conf.5": "configuration of the devices of uroce",
             "uroce.7": "a software RoCEv2 stack in user space: an overview"}
PAGES = {"CONFIGURATION": "uroce.conf(5)", "PEER": "uroce-peer(1)", "LINKS": "uroce-devices(1)", "MONITORING": "uroce-stat(1)",
         "CAPTURES": "uroce-dump(1)", "PROGRAMS": "uroce(7)", "IMPAIR": "uroce-impair(1)", "FROM-SOFT-ROCE": "uroce(7)",
         "CARDS": "uroce-devices(1)"}
SECTIONS = {"1": "User Commands", "5": "File Formats", "7": "Overview"}
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]*)\)")
HEADING = re.compile(r"(#+) (.*)")
CONSTANT_WIDTH = re.compile(r"\\f(\(C[RWB]|\[C[RWB]?\]|C)")


# ---- the docs ---------------------------------------------------------------------------------------------------------------

def link_text(match: re.Match) -> str:
    """Returns the text of a link. Adds the manual page or the file to which the link points, if the text does not name it."""
    text, target = match.groups()
    name = pathlib.PurePath(target.partition("#")[0]).name
    page = PAGES.get(name.removesuffix(".md"))
    if target.startswith("#") or (page is None and not name.endswith(".md")):
        return text
    return f"**{page or name}**" if text == name.removesuffix(".md") else f"{text} (**{page or name}**)"


def sections(text: str) -> list[tuple[str, list[str]]]:
    """Returns heading and lines of each section of the second level; the first has no heading."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.split("\n"):
        heading = HEADING.fullmatch(line) if not line.startswith("    ") else None
        if heading and len(heading[1]) == 2:
            found.append((heading[2], []))
        elif not heading or len(heading[1]) > 2:
            found[-1][1].append(line[1:] if heading else line)
    return found


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def narrow(lines: list[str]) -> list[str]:
    """Replaces tables of more than three columns, which do not fit on a terminal, by lists."""
    found: list[str] = []
    header: list[str] = []
    for at, line in enumerate(lines):
        if line.startswith("|") and len(cells(line)) > 3:
            header = header if at and lines[at - 1].startswith("|") else cells(line)
            if cells(line) != header and not line.startswith("|---"):
                term, *values = cells(line)
                text = ". ".join(f"{name}: {value}" for name, value in zip(header[1:], values) if value)
                found += [term, f": {text}", ""]
        else:
            found.append(line)
    return found


def from_docs(root: pathlib.Path, name: str, wanted: str) -> str:
    """Returns sections of a file in docs/ as sections of the first level of a manual page."""
    text = (root / "docs" / name).read_text()
    title = text.split("\n", 1)[0].removeprefix("# ")
    parts = [(heading or title, lines) for heading, lines in sections(text) if wanted in ("*", heading)]
    if not parts:
        sys.exit(f"docs/{name} has no section '{wanted}', which a manual page needs")
    return LINK.sub(link_text, "\n\n".join("\n".join([f"# {heading}", "", *narrow(lines)]) for heading, lines in parts))


# ---- the help ---------------------------------------------------------------------------------------------------------------

def escaped(text: str) -> str:
    """Returns plain text as Markdown, with code between `` ` `` as it is."""
    parts = text.split("`")
    return "`".join(part if i % 2 else re.sub(r"([\\*_\[\]<>|#])", r"\\\1", part) for i, part in enumerate(parts))


def from_help(command: Command) -> str:
    lines = ["# SYNOPSIS", "", *("    " + usage for usage in command.usage or [f"uroce {command.name}"]), ""]
    if command.description:
        lines += ["# DESCRIPTION", ""]
        for paragraph in command.description:
            lines += [escaped(paragraph), ""]
    if command.options:
        lines += ["# OPTIONS", ""]
        for option in command.options:
            lines += [f"**{escaped(option.term)}**", f": {escaped(option.text)}", ""]
    if command.examples:
        lines += ["# EXAMPLES", "", *("    " + example for example in command.examples), ""]
    if command.exit_status:
        lines += ["# EXIT STATUS", "", escaped(command.exit_status), ""]
    return "\n".join(lines)


def list_of_commands(commands: list[Command]) -> str:
    lines = ["# COMMANDS", ""]
    for command in commands:
        page = f"**uroce-{command.name}**(1)" if command.usage else f"**uroce {command.name}**"
        lines += [page, f": {escaped(command.summary)}", ""]
    return "\n".join(lines)


# ---- pages ------------------------------------------------------------------------------------------------------------------

def page_of(out: str, root: pathlib.Path, program: Command, commands: dict[str, Command], names: list[str]) -> str:
    name, section = out.rsplit(".", 1)
    command = commands.get(name.removeprefix("uroce-")) if section == "1" else None
    summary = SUMMARIES.get(out) or (command or program).summary
    parts = [f"# NAME\n\n{name} - {escaped(summary)}\n"]
    if command:
        parts.append(from_help(command))
    elif section == "1":
        parts += [from_help(program), list_of_commands(list(commands.values()))]
    pages = [from_docs(root, *wanted) for wanted in FROM_DOCS.get(out, [])]
    if section != "1":
        pages[0] = re.sub(r"^# .*", "# DESCRIPTION", pages[0])
    parts += pages
    others = ", ".join(f"**{other.rsplit('.', 1)[0]}**({other[-1]})" for other in names if other != out)
    parts.append(f"# SEE ALSO\n\n{others}\n")
    return "\n\n".join(parts)


def date() -> str:
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if seconds:
        return datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).date().isoformat()
    return datetime.date.today().isoformat()


def translate(lowdown: str, text: str, out: str, version: str) -> str:
    """Calls lowdown. Removes the causes of warnings of mandoc and man: paragraph macros after a heading, and the font C. Does not
    adjust tables to both margins."""
    name, section = out.rsplit(".", 1)
    values = {"title": name.upper(), "section": section, "source": f"uroce {version}", "volume": SECTIONS[section], "date": date()}
    metadata = [word for key, value in values.items() for word in ("-M", f"{key}={value}")]
    run = subprocess.run([lowdown, "-s", "-Tman", "--parse-no-metadata", "--parse-no-intraemph",
                          "--out-no-smarty", *metadata], input=text,
                         capture_output=True, text=True, check=True)
    roff = CONSTANT_WIDTH.sub(r"\\fB", run.stdout)
    roff = re.sub(r"^\.(S[HS])\n(.*)\n", r".\1 \2\n", roff, flags=re.M)
    roff = re.sub(r"^(\.S[HS] .*\n)\.[LP]P\n", r"\1", roff, flags=re.M)
    # lowdown 3 takes back the space of a paragraph before a list.
    roff = re.sub(r"^(\.S[HS] .*\n)\.if n \\\n\.sp -1\n\.if t \\\n\.sp -0\.25v\n", r"\1", roff, flags=re.M)
    return roff.replace("\n.TS\n", "\n.na\n.TS\n").replace("\n.TE\n", "\n.TE\n.ad\n")


def main() -> int:
    (root, version, lowdown, depfile, *outs), uroce = help_text.split(sys.argv[1:])
    program, found = help_text.read(uroce)
    commands = {command.name: command for command in found}
    names = [pathlib.PurePath(out).name for out in outs]
    sources = {str((pathlib.Path(root) / "docs" / name).resolve()) for wanted in FROM_DOCS.values() for name, _ in wanted}
    pathlib.Path(depfile).write_text(f"{outs[0]}: {' '.join(sorted(sources))}\n")
    for out in map(pathlib.Path, outs):
        text = page_of(out.name, pathlib.Path(root), program, commands, names)
        out.write_text(translate(lowdown, text, out.name, version))
    return 0


if __name__ == "__main__":
    sys.exit(main())
