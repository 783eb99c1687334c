# SPDX-License-Identifier: BSD-3-Clause
"""Reads the rows of programs.txt, and decides whether a row passes."""
import functools
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "lib" / "common"))
import figures  # noqa: E402

TABLES = pathlib.Path(__file__).with_name("programs.txt")
HEADING = re.compile(r"\[(.+)\]")
TWO, SET, ALONE = "two processes", "two processes with a device setting", "one process"
ALL_SIZES = 23  # perftest -a: 2 bytes to 8 MiB


def file_of(words: list[str]) -> str:
    """Returns the program of a command that may begin with `env NAME=VALUE`."""
    return next(word for word in words if word != "env" and "=" not in word)


@dataclass
class Row:
    name: str
    program: list[str]
    must_say: list[str]  # texts in the output of a program that runs alone
    settings: str = ""   # text added to the description of both devices, for example ";vendor_part_id=4119"

    @property
    def file(self) -> str:
        return file_of(self.program)

    @property
    def alone(self) -> bool:
        return bool(self.must_say)


def section(title: str) -> list[list[str]]:
    """Returns the cells of each row below the heading [title] of programs.txt."""
    found, inside = [], False
    for line in TABLES.read_text().splitlines():
        heading = HEADING.fullmatch(line)
        if heading:
            inside = heading[1] == title
        elif inside and line.strip() and not line.startswith("#"):
            found.append([cell.strip() for cell in line.split(" | ")])
    return found


@functools.cache
def help_of(program: str) -> str:
    try:
        run = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return run.stdout + run.stderr


def words_of(command: str) -> list[str]:
    """Returns the words of a command. A file below tests/ is looked up in the source tree. An [--option] or [-o value] is left out
    if the program does not have the option."""
    parts = re.findall(r"\[([^]]*)\]|(\S+)", command)
    words = [str(ROOT / word) if word.startswith("tests/") else word for _, word in parts if word]
    known = help_of(file_of(words)).split() if len(words) < len(parts) else []
    left, found = iter(words), []
    for option, word in parts:
        if word:
            found.append(next(left))
        elif option.split()[0] in known:
            found += option.split()
    return found


def needles(cell: str) -> list[str]:
    return [needle.strip() for needle in cell.split(",")]


def rows() -> list[Row]:
    return ([Row(name, words_of(command), []) for name, command in section(TWO)]
            + [Row(name, words_of(command), [], settings) for name, command, settings in section(SET)]
            + [Row(name, words_of(command), needles(said)) for name, command, said in section(ALONE)])


def lines_wanted(row: Row) -> int:
    return ALL_SIZES if "-a" in row.program else 1


def sane(row: Row, text: str) -> str:
    """Returns an error if the client's output lacks a line of results, or has a zero where a figure must be positive, else ""."""
    if row.file == "ibv_xsrq_pingpong":
        return "" if "success" in text else "no success"
    if row.file == "ucx_perftest":
        found = figures.ucx(text)
        return "" if found and found[0] > 0 and found[1] > 0 else "no line of results"
    if "pingpong" in row.file:
        each = figures.pingpong(text)
        return "" if each and each > 0 else "no line of results"
    found = figures.bandwidths(text) if row.file.endswith("_bw") else figures.latencies(text)
    if len(found) != lines_wanted(row):
        return f"{len(found)} lines of results, not {lines_wanted(row)}"
    if any(line.average <= 0 and line.size > 64 for line in found):
        return "a figure of zero"
    return "" if all(line.iterations > 0 for line in found) else "a line without iterations"
