# SPDX-License-Identifier: BSD-3-Clause
"""Compares the failure messages of the simulator with the rules of tests/mutants/oracle.rules.

A failure message is an argument of sim_world_fail(), or of a wrapper around sim_world_fail(). The name of a wrapper ends in fail
or fail_memory. A wrapper puts the place of the failure before the message. Some functions return the message instead. Each
message must match a rule. A mutant that causes a message is counted for the rule of that message.
"""
import pathlib
import re
from collections.abc import Iterator

import mutants_results

SIMULATOR = "lib/sim"
PROBLEMS = {"lib/sim/work/cm_events.c": "CM ", "lib/sim/work/rc_judge.c": "pair 7 A sent X psn 7: ",
            "lib/core/qp.c": "a queue pair of A: "}
LITERAL = r'"(?:[^"\\\n]|\\.)*"'
LITERALS = re.compile(rf"{LITERAL}(?:\s*(?:PRI\w+\s*)?{LITERAL})*")
FUNNEL = re.compile(r"(?:\w+_)?fail(?:_memory)?")
CALL = re.compile(rf"\b({FUNNEL.pattern})\(")
DEFINED = re.compile(r"^(?:static )?\w[\w ]*?\**(\w+)\([^;{]*\)\n\{", re.M)
RETURNED = re.compile(rf"return ({LITERAL});")
OUTER = "sim_world_fail"
OPEN = " %s"  # end of a wrapper's format; the message of its caller replaces %s


def arguments(text: str, start: int) -> str:
    """Returns the arguments of a call: the text from @start, after the opening parenthesis, to the closing parenthesis."""
    depth, at = 1, start
    while depth > 0:
        quoted = re.compile(LITERAL).match(text, at)
        at = quoted.end() if quoted else at + 1
        if not quoted:
            depth += {"(": 1, ")": -1}.get(text[at - 1], 0)
    return text[start:at - 1]


def said(literals: str) -> str:
    """Returns the text that is printed, with the number 7 in place of each number of the format."""
    text = re.sub(r'"\s*(PRI\w+)?\s*"', "", literals)[1:-1]
    return re.sub(r"%[0-9]*(?:zu|[uxd]|(?![cs%]))", "7", text).replace("%c", "A")


def calls(text: str) -> Iterator[tuple[int, str, str, list[str]]]:
    """Yields for each call of a wrapper: its position, the calling function, the wrapper, and the texts among the arguments."""
    bounds = [(m.start(), m.group(1)) for m in DEFINED.finditer(text)]
    for call in CALL.finditer(text):
        inside = [name for start, name in bounds if start < call.start()]
        texts = [said(m.group()) for m in LITERALS.finditer(arguments(text, call.end()))]
        yield call.start(), inside[-1] if inside else "", call.group(1), texts


def whose(file: str, function: str) -> tuple[str, str]:
    """Returns (file, function). The file is empty for global functions; names of static functions may repeat in other files."""
    return ("" if function.startswith(("uro_", "sim_")) else file), function


def complaints(root: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yields the position and text of each failure message."""
    files = {str(path.relative_to(root)): path.read_text()
             for path in [*sorted((root / SIMULATOR).rglob("*.c")), *map(root.joinpath, PROBLEMS)]
             if path.is_file()}
    prefixes: dict[tuple[str, str], str] = {}  # key: a wrapper; value: the text that it puts before the message
    for name, text in files.items():
        for _, inside, called, texts in calls(text):
            if FUNNEL.fullmatch(inside) and called == OUTER and texts:
                prefixes[whose(name, inside)] = texts[0].removesuffix(OPEN)
    for name, text in files.items():
        for at, inside, called, texts in calls(text):
            before = prefixes.get(whose(name, called), "")
            if FUNNEL.fullmatch(inside) and inside != called:
                prefixes.setdefault(whose(name, inside), before)
            if FUNNEL.fullmatch(inside):
                continue
            where = f"{name}:{text.count(chr(10), 0, at) + 1}"
            yield from ((where, f"{before} {one}".strip()) for one in texts
                        if " " in one and not one.endswith(OPEN))
        for found in RETURNED.finditer(text if name in PROBLEMS else ""):
            yield f"{name}:{text.count(chr(10), 0, found.start()) + 1}", \
                PROBLEMS[name] + said(found.group(1))


def problems(root: pathlib.Path) -> list[str]:
    """Returns the failure messages that match no rule."""
    rules = mutants_results.read_rules(root)
    return [f"{where}: \"{what}\" belongs to no rule of tests/mutants/oracle.rules"
            for where, what in complaints(root)
            if not any(re.search(words, what) for words in rules)]


def broken(root: pathlib.Path, said_by_oracles: list[str]) -> dict[str, int]:
    """Returns for each rule how many of the messages @said_by_oracles match it."""
    return {rule: sum(bool(re.search(words, one)) for one in said_by_oracles)
            for words, rule in mutants_results.read_rules(root).items()}
