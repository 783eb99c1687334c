# SPDX-License-Identifier: BSD-3-Clause
"""The expected and the actual outcome of an attack: a row of the table of test_attack.py --table."""
import re
from dataclasses import dataclass, field

COUNTER = re.compile(r"^uroce: uroce0: (\w+) +(\d+) ", re.M)
HEARD_SHARE = 0.9  # least fraction of the frames that must be counted; a ring may overflow and lose frames
GOES_ON = "continues, every byte correct"
COLUMNS = ("attack", "the attacker knows", "frames", "the connection", "counted by")


@dataclass
class Attack:
    name: str
    knows: str              # what the attacker must know for this attack
    run: object             # (build directory, attack) -> outcome
    make: object            # makes the forged frames, or is the whole attack; `run` calls it
    counted: list[str] = field(default_factory=list)  # counters that together must have nearly all frames
    exactly: dict[str, int] = field(default_factory=dict)
    effect: str = GOES_ON   # expected effect on the connection
    warns: bool = False


@dataclass
class Outcome:
    attack: Attack
    thrown: int
    effect: str
    said: str     # output of the attacked processes
    detail: str = ""  # difference from the expected effect

    def counters(self) -> dict[str, int]:
        found = {}
        for name, count in COUNTER.findall(self.said):
            found[name] = found.get(name, 0) + int(count)
        return found

    def problem(self) -> str:
        attack, counters = self.attack, self.counters()
        if self.effect != attack.effect or self.detail:
            return f"{self.effect}\n{self.detail}"
        counted = sum(counters.get(name, 0) for name in attack.counted)
        if attack.counted and counted < HEARD_SHARE * self.thrown:
            return f"{self.thrown} frames were thrown, counted are {counters}"
        for name, count in attack.exactly.items():
            if counters.get(name, 0) != count:
                return f"{name} is {counters.get(name, 0)}, not {count}, of {counters}"
        if attack.warns and "WARNING" not in self.said:
            return f"no warning on stderr\n{self.said}"
        return ""

    def row(self) -> str:
        counters = self.counters()
        counted = ", ".join(f"`{name}` {counters[name]}"
                            for name in [*self.attack.counted, *self.attack.exactly]
                            if counters.get(name))
        warned = "; warns" if "WARNING" in self.said else ""
        return (f"| {self.attack.name} | {self.attack.knows} | {self.thrown} | {self.effect} | "
                f"{counted or '-'}{warned} |")


def heading() -> str:
    return f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"
