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
    quick: bool = False  # short runs: a look whether it works

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
    aim: float | None = None        # of the value
    aim_ratio: float | None = None  # of the value to the one beside it
    less: bool = False              # less is better
    beside: Figure | None = None    # the limit or the peer, measured in the same run
    values: list[float] = field(default_factory=list)
    why: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values) if self.values else 0.0

    @property
    def ratio(self) -> float | None:
        if self.beside is None or not self.values or not self.beside.median:
            return None
        return self.median / self.beside.median

    def reached(self) -> bool | None:
        """Returns whether all aims are reached; None when there is no aim or no run."""
        pairs = [(self.median if self.values else None, self.aim), (self.ratio, self.aim_ratio)]
        known = [(is_, aim) for is_, aim in pairs if aim is not None]
        if not known or any(is_ is None for is_, _ in known):
            return None
        return all(is_ <= aim if self.less else is_ >= aim for is_, aim in known)


Measure = Callable[[], "float | list[float]"]


def by_turns(runs: int, *measures: tuple[Figure | list[Figure], Measure]) -> None:
    """Runs the measures in turn, so that a busy time of the machine affects all of them. Each
    measure returns one value, or a value for each of several figures."""
    for _ in range(runs):
        for figures, measure in measures:
            rows = figures if isinstance(figures, list) else [figures]
            if any(row.why for row in rows):
                continue
            try:
                values = measure()
            except (NotRun, OSError, ValueError, KeyError, IndexError, TypeError) as error:
                for row in rows:
                    row.why = (str(error).strip() or type(error).__name__).splitlines()[0]
                continue
            for row, value in zip(rows, values if isinstance(values, list) else [values]):
                row.values.append(value)
