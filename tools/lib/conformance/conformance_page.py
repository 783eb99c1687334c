# SPDX-License-Identifier: BSD-3-Clause
"""Writes CONFORMANCE.md and DEVIATIONS.md, which `tools/conformance --write DIR` puts into a directory.

CONFORMANCE.md says how many rules hold, what Linux rxe does, which mutants the simulator detected, and which seeds it ran.
DEVIATIONS.md says what Linux rxe does in each script.
"""
import pathlib
import re

import mutants_results
import rxe_facts

SWEEPS = "tests/sim/sweeps.txt"
# Families of rules, by the first word of their id, in the order of the page
FAMILIES = (
    ("the wire", ("WIRE", "IP", "ICRC")),
    ("what is sent", ("TX", "NEIGH", "LOOP")),
    ("congestion", ("CNP",)),
    ("before a packet reaches a queue pair", ("RX",)),
    ("queue pairs and posting", ("QP", "POST", "SGE")),
    ("RC requester", ("PSN", "REQ", "RNR")),
    ("RC responder", ("RSP",)),
    ("UC", ("UC",)),
    ("UD", ("UD",)),
    ("groups", ("MCAST",)),
    ("shared receive queues", ("SRQ",)),
    ("XRC", ("XRC",)),
    ("keys and windows", ("KEY", "MW")),
    ("completions, bounds", ("CQ", "LIVE")),
    ("ports", ("PORT",)),
    ("connections", ("CM",)),
)

HEAD = """\
# Conformance

The rules are those of docs/PROTOCOL.md. A rule *holds* if its line of code and a test for it exist: *by a mark*
if the test asserts that this line ran, *by name* if only comments link code and test. *On the wire*: a script of tests/peer
can test it on any endpoint. What Linux rxe does is read from tests/interop/rxe-rules.txt and, where scripts measured it, from
rxe-scripts.txt. *n/a*: rxe has no such feature, or the rule is about how the code of uroce is made.
"""
DEVIATIONS_HEAD = """\
# Where Linux rxe differs from the scripts of tests/peer

`uroce peer` played each script against Linux rxe of Debian's kernels (tests/interop/deviations.py). uroce passes all of them.
A row is marked *open* if the IBTA specification leaves the behavior to the endpoint. In such a row, a difference is not an error.

"""


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def family_of(rule: str) -> str:
    """Returns the family of a rule, or an empty string if no family has the first word of its id."""
    return next((name for name, words in FAMILIES if rule.split(".")[0] in words), "")


def said(answers: list[rxe_facts.Answer]) -> list[str]:
    kinds = [answer.kind for answer in answers]
    return [str(kinds.count(kind) or "") for kind in rxe_facts.KINDS]


def count_row(name: str, names: list[str], rules: dict, rxe: rxe_facts.Rxe) -> list[str]:
    held = sum(rules[rule].done for rule in names)
    marked = sum(rules[rule].done and rules[rule].marked for rule in names)
    wire = sum(rule in rxe.scripts for rule in names)
    row = [name, *[str(number or "") for number in
                   (len(names), held, marked, held - marked, len(names) - held, wire)]]
    for at in range(len(rxe.kernels)):
        row += said([rxe.answers[rule][at] for rule in names])
    return row


def certainty(rxe: rxe_facts.Rxe) -> str:
    words = []
    for at, kernel in enumerate(rxe.kernels):
        certain = [answers[at].certain for answers in rxe.answers.values()]
        around = f", {certain.count('around')} in an older and a newer one that agree" if \
            "around" in certain else ""
        words.append(f"of {kernel} {certain.count('measured')} measured{around}, "
                     f"{certain.count('source')} read in the source")
    return f"The sources of the answers *same* and *differs*: {'; '.join(words)}.\n"


def shown(rules: dict, rxe: rxe_facts.Rxe) -> str:
    """Returns a sentence: how many of the rules that hold are verified by a mark, and how many only by name."""
    named = [name for name, rule in rules.items() if rule.done and not rule.marked]
    held = sum(rule.done for rule in rules.values())
    played = sum(name in rxe.scripts for name in named)
    return (f"{held} rules hold: {held - len(named)} by a mark that a test asserts, and "
            f"{len(named)} by name only. Scripts also test {played} of these\nrules.\n")


def counts(rules: dict, rxe: rxe_facts.Rxe) -> str:
    head = ["rules of", "are", "hold", "by a mark", "by name", "open", "on the wire"]
    for kernel in rxe.kernels:
        head += [f"{kernel}: same", "differs", "not known", "n/a"]
    rows = [count_row(name, [r for r in rules if family_of(r) == name], rules, rxe)
            for name, _ in FAMILIES]
    rows.append(count_row("**all**", list(rules), rules, rxe))
    return "## How many hold\n\n" + table(head, rows) + "\n" + shown(rules, rxe) + certainty(rxe)


def open_rules(rules: dict) -> str:
    rows = [[name, rule.text, rule.reason] for name, rule in rules.items() if not rule.done]
    return "## Open\n\n" + (table(["id", "rule", "why"], rows) if rows else "None.\n")


def cell_of(answer: rxe_facts.Answer) -> str:
    return answer.words if answer.kind == rxe_facts.DIFFERS else answer.kind


def differing(rules: dict, rxe: rxe_facts.Rxe) -> str:
    rows = [[name, rule.text, *[cell_of(answer) for answer in rxe.answers[name]]]
            for name, rule in rules.items()
            if any(answer.kind == rxe_facts.DIFFERS for answer in rxe.answers[name])]
    return "## Where rxe differs\n\n" + table(["id", "rule", *rxe.kernels], rows)


def every(rules: dict, rxe: rxe_facts.Rxe) -> str:
    rows = []
    for name, rule in rules.items():
        cells = [answer.kind + (f", {answer.certain}" if answer.certain else "")
                 for answer in rxe.answers[name]]
        scripts = ", ".join(f"`{script}`" for script in rxe.scripts.get(name, []))
        rows.append([name, rule.state, ", ".join(rule.code), ", ".join(rule.tests), scripts, *cells])
    return ("## Every rule\n\n*around*: measured in rxe 6.1 and 7.2, which agree.\n\n" +
            table(["id", "uroce", "code", "tests", "scripts", *rxe.kernels], rows))


def oracle(root: pathlib.Path) -> str:
    """Returns a table: which mutants violated each rule of the simulator's checks."""
    rules, results = mutants_results.read_rules(root), mutants_results.read(root)
    known = mutants_results.names(root)
    noticed = [r for r in results.values() if r.mutant in known]
    rows = []
    for words, rule in rules.items():
        caught = [r.mutant for r in noticed if r.by_oracle() and re.search(words, r.complaint)]
        rows.append([rule, str(len(caught) or ""), "; ".join(caught)])
    kinds = ", ".join(f"{sum(r.who == who for r in noticed)} by {by}"
                      for who, by in mutants_results.CATCHERS.items())
    dates = sorted({r.date for r in noticed})
    run = (f"{len(noticed)} were run, {dates[0]} to {dates[-1]}: detected {kinds}" if noticed
           else "none has been run and recorded")
    return ("## The oracle\n\nA mutant is one line of the library made wrong on purpose. There are "
            f"{len(known)}; {run}.\n`tools/mutants --record` runs all mutants and writes the rules that they broke to "
            f"`{mutants_results.RESULTS}`.\n\n" +
            table(["rules of the simulator", "mutants", "mutants that broke it"], rows))


def sweeps(root: pathlib.Path) -> str:
    path = root / SWEEPS
    lines = path.read_text().splitlines() if path.is_file() else []
    rows = [[cell.strip() for cell in line.split("|")] for line in lines
            if line.strip() and not line.startswith("#")]
    head = ["date", "commit", "seeds", "from", "to", "a second", "failures"]
    seeds = f"{sum(int(row[2]) for row in rows):,}".replace(",", " ")
    return (f"## Sweeps\n\nRuns of the simulator, added by `tools/sim-sweep --record`: {seeds} seeds "
            "in all. A seed that fails is added to\n`tests/sim/seeds.txt`, and the sweep continues after the repair.\n\n" +
            (table(head, rows) if rows else "None is recorded.\n"))


def make(root: pathlib.Path, rules: dict, rxe: rxe_facts.Rxe) -> str:
    parts = [HEAD, counts(rules, rxe), open_rules(rules), differing(rules, rxe), oracle(root),
             sweeps(root), every(rules, rxe)]
    return "\n".join(parts)


def deviations(root: pathlib.Path, rxe: rxe_facts.Rxe) -> str:
    rows = []
    for name, cells in rxe.measured.items():
        path = root / rxe_facts.SCRIPTS / f"{name}.peer"
        text = path.read_text() if path.is_file() else ""
        title = re.search(r"^title (.*)$", text, re.M)
        is_open = " (*open*)" if re.search(r"^open$", text, re.M) else ""
        rule = ", ".join(rule for rule, scripts in rxe.scripts.items() if name in scripts)
        rows.append([f"`{name}`", (title[1] if title else "gone") + is_open, rule, *cells])
    return DEVIATIONS_HEAD + table(["script", "what it shows", "rule", *rxe.kernels], rows)


def write(folder: pathlib.Path, root: pathlib.Path, rules: dict, rxe: rxe_facts.Rxe) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CONFORMANCE.md").write_text(make(root, rules, rxe))
    (folder / "DEVIATIONS.md").write_text(deviations(root, rxe))
