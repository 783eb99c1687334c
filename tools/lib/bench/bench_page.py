# SPDX-License-Identifier: BSD-3-Clause
"""Writes the rows of tools/bench as text, as BENCHMARKS.md and as bench.svg."""
import pathlib
from html import escape

from bench_rows.figure import Figure

REACHED = {True: "reached", False: "not yet", None: ""}
HEAD = """# Benchmarks

Written by `tools/bench --write`. Each value is the median of several runs on this machine. Directly before each of these runs,
the limit of the machine or the peer in the column *beside it* was measured. The ratio is the median of the ratios of these pairs,
with their range in brackets. Compare ratios rather than figures. A cell is empty if the row has no aim, or nothing to compare with.

{machine}

![Share of the aim that each row reaches](bench.svg)
"""
TABLE = """
## {key}: {title}

| what | value | from .. to | aim | | beside it | ratio |
|---|---|---|---|---|---|---|
"""
WIDTH, BAR, LEFT, LINE, TOP = 960, 380, 480, 18, 48


def number(value: float) -> str:
    if value and abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:.0f}"


def aim(row: Figure) -> str:
    sign = "<=" if row.less else ">="
    aims = []
    if row.aim is not None:
        aims.append(f"{sign} {row.aim:g} {row.unit}".strip())
    if row.aim_ratio is not None:
        aims.append(f"ratio {sign} {row.aim_ratio:g}")
    return ", ".join(aims)


def ratio(row: Figure) -> str:
    """Returns the median of the ratios, and their range when there are several."""
    if row.ratio is None:
        return ""
    spread = f" ({min(row.ratios):.2f} .. {max(row.ratios):.2f})" if len(row.ratios) > 1 else ""
    return f"{row.ratio:.2f}{spread}"


def cells(row: Figure) -> list[str]:
    """Returns the columns: value, range, aim, whether the aim is reached, the limit or peer, ratio."""
    if row.why:
        return [f"not run: {row.why}", "", aim(row), "", "", ""]
    beside = ""
    if row.beside is not None:
        beside = row.beside.name + (f" {number(row.median_beside)}" if row.paired else
                                    f": not run: {row.beside.why}")
    return [f"{number(row.median)} {row.unit}".strip(),
            f"{number(min(row.values))} .. {number(max(row.values))}", aim(row),
            REACHED[row.reached()], beside, ratio(row)]


def as_text(key: str, title: str, rows: list[Figure]) -> str:
    lines = [f"{key}  {title}"]
    for row in rows:
        value, spread, aims, reached, beside, share_of = cells(row)
        line = f"    {row.name:58} {value:>14}"
        if not row.why:
            line += f"  ({spread})"
        for note in (f"aim {aims}" if aims else "", reached,
                     f"{share_of} of {beside}" if share_of else beside):
            line += f"  {note}" if note else ""
        lines.append(line)
    return "\n".join(lines)


def as_markdown(machine: str, found: dict[str, tuple[str, list[Figure]]]) -> str:
    text = HEAD.format(machine=machine)
    for key, (title, rows) in found.items():
        text += TABLE.format(key=key, title=title)
        for row in rows:
            text += f"| {row.name} | " + " | ".join(cells(row)) + " |\n"
    return text


def share(row: Figure) -> float | None:
    """Returns how much of the aim is reached: 1 is all of it. If a row has two aims, returns the smaller fraction."""
    pairs = [(row.median, row.aim), (row.ratio, row.aim_ratio)]
    shares = [(wanted / is_ if row.less else is_ / wanted)
              for is_, wanted in pairs if wanted and is_]
    return min(shares) if row.values and shares else None


def as_svg(machine: str, found: dict[str, tuple[str, list[Figure]]]) -> str:
    """Draws a bar for each row that has an aim and a value. The full width is twice the aim."""
    bars = [(f"{key} {row.name}", share(row)) for key, (_, rows) in found.items() for row in rows
            if share(row) is not None]
    height = TOP + LINE * len(bars) + 12
    middle = LEFT + BAR / 2
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
             f'<text x="8" y="16">{escape(machine)}</text>',
             f'<text x="{middle}" y="{TOP - 8}" text-anchor="middle">its aim</text>']
    for n, (name, value) in enumerate(bars):
        y = TOP + LINE * n
        fill = "#2a7f4f" if value >= 1 else "#c9822b"
        lines.append(f'<text x="{LEFT - 6}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        lines.append(f'<rect x="{LEFT}" y="{y + 2}" width="{min(value, 2) * BAR / 2:.1f}" '
                     f'height="{LINE - 5}" fill="{fill}"/>')
        lines.append(f'<text x="{LEFT + BAR + 8}" y="{y + 12}">{value:.2f}</text>')
    lines.append(f'<line x1="{middle}" y1="{TOP - 4}" x2="{middle}" y2="{height - 8}" '
                 'stroke="black"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def write(docs: pathlib.Path, machine: str, found: dict[str, tuple[str, list[Figure]]]) -> None:
    docs.mkdir(parents=True, exist_ok=True)
    (docs / "BENCHMARKS.md").write_text(as_markdown(machine, found))
    (docs / "bench.svg").write_text(as_svg(machine, found))
