# SPDX-License-Identifier: BSD-3-Clause
"""The rows of docs/PROGRAMS.md and what makes a row hold."""
import pathlib
import re
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "lib" / "common"))
import figures  # noqa: E402

ROW = re.compile(r"^\| (\w+) \| `([^`]+)` \|(?: `(;[^`]+)` \|)?(?: ([^|`]+) \|)?$", re.M)
ALL_SIZES = 23  # perftest -a: 2 octets to 8 MiB; for atomics there is one size


def file_of(words: list[str]) -> str:
    """What is run, behind `env NAME=VALUE`."""
    return next(word for word in words if word != "env" and "=" not in word)


@dataclass
class Row:
    name: str
    program: list[str]
    must_say: list[str]  # of programs that run alone
    settings: str = ""   # more of both devices, such as ";vendor_part_id=4119"

    @property
    def file(self) -> str:
        return file_of(self.program)

    @property
    def alone(self) -> bool:
        return bool(self.must_say)


def rows() -> list[Row]:
    page = (ROOT / "docs" / "PROGRAMS.md").read_text()
    return [Row(m[1], [str(ROOT / word) if word.startswith("tests/") else word
                       for word in m[2].split()], [w.strip() for w in (m[4] or "").split(",") if w.strip()], m[3] or "")
            for m in ROW.finditer(page)]


def lines_wanted(row: Row) -> int:
    return ALL_SIZES if "-a" in row.program else 1


def sane(row: Row, text: str) -> str:
    """Empty when the client's table has the right lines, each with figures above zero."""
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
