# SPDX-License-Identifier: BSD-3-Clause
"""docs/CONFORMANCE.md: how many rules hold, what Linux rxe does, what the oracle caught, what was swept."""
import pathlib
import re

import mutants_results
import rxe_facts

PAGE = "docs/CONFORMANCE.md"
SWEEPS = "tests/sim/sweeps.txt"
# Rules by the first word of their id, in the page's order.
FAMILIES = (
    ("the wire", ("WIRE", "IP", "ICRC")),
    ("what is sent", ("TX", "NEIGH", "LOOP")),
    ("congestion", ("CNP",)),
    ("before a queue pair looks", ("RX",)),
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

Made by `tools/conformance --write`; do not edit. Rules are those of [PROTOCOL](PROTOCOL.md); one *holds* when its
line of code and a test that asks for it are there: *by a mark* when the test asserts that this line ran, *by name* when
both only name the rule, and what ties them is a reader. *On the wire*: a script of `tests/peer` plays it against any
endpoint ([PEER](PEER.md)). What Linux rxe does is from [rxe.txt](rxe.txt), and from [DEVIATIONS](DEVIATIONS.md) where scripts
measured it; *n/a*: it has no such thing, or the rule is about how our code is made.
"""


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def family_of(rule: str) -> str:
    """Empty when nobody has said."""
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
    return f"Of the answers *same* and *differs* are {'; '.join(words)}.\n"


def shown(rules: dict, rxe: rxe_facts.Rxe) -> str:
    """How sure one may be of those that hold."""
    named = [name for name, rule in rules.items() if rule.done and not rule.marked]
    held = sum(rule.done for rule in rules.values())
    played = sum(name in rxe.scripts for name in named)
    return (f"Of the {held} that hold {held - len(named)} are shown by a mark that a test asserts and "
            f"{len(named)} by naming only, {played} of these\nby a script too.\n")


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


def told(answer: rxe_facts.Answer) -> str:
    return answer.words if answer.kind == rxe_facts.DIFFERS else answer.kind


def differing(rules: dict, rxe: rxe_facts.Rxe) -> str:
    rows = [[name, rule.text, *[told(answer) for answer in rxe.answers[name]]]
            for name, rule in rules.items()
            if any(answer.kind == rxe_facts.DIFFERS for answer in rxe.answers[name])]
    return "## Where rxe differs\n\n" + table(["id", "rule", *rxe.kernels], rows)


def every(rules: dict, rxe: rxe_facts.Rxe) -> str:
    """What certainty each answer has, for those who want to know more than the numbers."""
    rows = []
    for name, rule in rules.items():
        cells = [answer.kind + (f", {answer.certain}" if answer.certain else "")
                 for answer in rxe.answers[name]]
        scripts = ", ".join(f"`{script}`" for script in rxe.scripts.get(name, []))
        held = "open" if not rule.done else "by a mark" if rule.marked else "by name"
        rows.append([name, held, scripts, *cells])
    return ("## Every rule\n\n*around*: measured in rxe 6.1 and 7.2, which agree.\n\n" +
            table(["id", "uroce", "scripts", *rxe.kernels], rows))


def oracle(root: pathlib.Path) -> str:
    """Which mutants broke what the simulator demands."""
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
    run = (f"{len(noticed)} were run, {dates[0]} to {dates[-1]}: noticed {kinds}" if noticed
           else "none has been run and recorded")
    return ("## The oracle\n\nA mutant is one line of the library made wrong on purpose. Of "
            f"{len(known)} {run}.\n`tools/mutants --record` runs all and writes what they broke to "
            f"`{mutants_results.RESULTS}`.\n\n" +
            table(["what the simulator demands", "mutants", "which broke it"], rows))


def sweeps(root: pathlib.Path) -> str:
    path = root / SWEEPS
    lines = path.read_text().splitlines() if path.is_file() else []
    rows = [[cell.strip() for cell in line.split("|")] for line in lines
            if line.strip() and not line.startswith("#")]
    head = ["date", "commit", "seeds", "from", "to", "a second", "failures"]
    seeds = f"{sum(int(row[2]) for row in rows):,}".replace(",", " ")
    return ("## Sweeps\n\nRuns of the simulator ([TESTING](TESTING.md#when-a-test-fails)), added by "
            f"`tools/sim-sweep --record`: {seeds} seeds in all. A seed\nthat fails becomes a line of "
            "`tests/sim/seeds.txt`, is mended, and the sweep goes on behind it.\n\n" +
            (table(head, rows) if rows else "None is recorded.\n"))


def make(root: pathlib.Path, rules: dict, rxe: rxe_facts.Rxe) -> str:
    parts = [HEAD, counts(rules, rxe), open_rules(rules), differing(rules, rxe), oracle(root),
             sweeps(root), every(rules, rxe)]
    return "\n".join(parts)
