# SPDX-License-Identifier: BSD-3-Clause
"""One row of tools/bench: its values, its aim, and the limit or peer that it is compared with."""
from __future__ import annotations

import pathlib
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field


class NotRun(Exception):
    """The reason why a row has no figure."""


@dataclass
class Bench:
    """Parameters of all rows."""
    build: pathlib.Path
    runs: int
    quick: bool = False  # short runs, only to see whether the rows work

    @property
    def uroce(self) -> pathlib.Path:
        path = self.build / "app" / "uroce"
        if not path.exists():
            raise NotRun(f"{path} is not built")
        return path

    def count(self, usual: int) -> int:
        return max(usual // 10, 1000) if self.quick else usual


@dataclass
class Figure:
    """Values of all runs, or the reason why there are none."""
    name: str
    unit: str
    aim: float | None = None        # aim of the value
    aim_ratio: float | None = None  # aim of the ratio: the value divided by that of the limit or peer
    less: bool = False              # true if a smaller value is better
    beside: Figure | None = None    # the limit or the peer, measured in turn with this row
        # more limits or peers, measured in turn with this row
    rivals: list[Figure] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    pairs: dict[int, list[tuple[float, float]]] = field(default_factory=dict)  # key: id() of the other figure
    why: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values) if self.values else 0.0

    @property
    def others(self) -> list[Figure]:
        """Returns the figures that are measured directly before this figure."""
        return [*([self.beside] if self.beside is not None else []), *self.rivals]

    @property
    def paired(self) -> list[tuple[float, float]]:
        """Returns the pairs (own value, value of `beside`) that were measured one after the other."""
        return [] if self.beside is None else self.pairs.get(id(self.beside), [])

    @property
    def ratios(self) -> list[float]:
        return [own / other for own, other in self.paired if other]

    @property
    def median_beside(self) -> float:
        """Returns the median of the values of `beside` in the pairs of this figure. `beside` may have more values, from the
        pairs of other rows."""
        return statistics.median(other for _, other in self.paired) if self.paired else 0.0

    @property
    def ratio(self) -> float | None:
        """Returns the median of the ratios of the pairs, not the ratio of the medians. A slow phase of the machine affects both
        values of a pair, so the ratio of the pair stays almost the same."""
        return statistics.median(self.ratios) if self.ratios else None

    def pair_with(self, other: Figure) -> None:
        """Makes a pair of the latest values of this figure and of @other."""
        if not self.why and not other.why and self.values and other.values:
            self.pairs.setdefault(id(other), []).append((self.values[-1], other.values[-1]))

    def reached(self) -> bool | None:
        """Returns whether all aims are reached, or None if there is no aim or the value of an aim is missing."""
        pairs = [(self.median if self.values else None, self.aim), (self.ratio, self.aim_ratio)]
        known = [(is_, aim) for is_, aim in pairs if aim is not None]
        if not known or any(is_ is None for is_, _ in known):
            return None
        return all(is_ <= aim if self.less else is_ >= aim for is_, aim in known)


Measure = Callable[[], "float | list[float]"]


def once(rows: list[Figure], measure: Measure) -> None:
    """Measures the figures once. Does nothing if an earlier measurement of these figures failed."""
    if any(row.why for row in rows):
        return
    try:
        values = measure()
    except (NotRun, OSError, ValueError, KeyError, IndexError, TypeError) as error:
        for row in rows:
            row.why = (str(error).strip() or type(error).__name__).splitlines()[0]
        return
    for row, value in zip(rows, values if isinstance(values, list) else [values]):
        row.values.append(value)


def by_turns(runs: int, *measures: tuple[Figure | list[Figure], Measure]) -> None:
    """Calls the measures in turn. A measure returns the value of its figure, or a list with a value for each of its
    figures. A limit or peer A is measured again directly before each figure that is compared with it (A B A C
    A B A C ...), so that a busy phase of the machine affects both values of a pair."""
    turns = [(figures if isinstance(figures, list) else [figures], measure) for figures, measure in measures]
    turn_of = {id(row): n for n, (rows, _) in enumerate(turns) for row in rows}
    needs = [sorted({turn_of[id(other)] for row in rows for other in row.others if id(other) in turn_of} - {n})
             for n, (rows, _) in enumerate(turns)]
    compared = {id(other) for rows, _ in turns for row in rows for other in row.others}
    # True for a turn that has only limits and peers: such a turn runs only before the rows that are compared with it.
    only_limits = [all(id(row) in compared and not row.others for row in rows) for rows, _ in turns]
    for _ in range(runs):
        fresh: set[int] = set()  # turns whose values are recent enough for the next row
        for n, (rows, measure) in enumerate(turns):
            if only_limits[n] or any(row.why for row in rows):
                continue
            for limit in needs[n]:
                if limit not in fresh:
                    once(*turns[limit])
            once(rows, measure)
            fresh = {n}
            for row in rows:
                for other in row.others:
                    row.pair_with(other)
