# SPDX-License-Identifier: BSD-3-Clause
"""Counts the results of tests, case by case, from meson's testlog.json and the TAP inside it."""
import json
import pathlib
import re
from dataclasses import dataclass, field

PLAN = re.compile(r"^1\.\.(\d+)", re.M)
CASE = re.compile(r"^(not )?ok\b[ \t]*(\d*)[ \t-]*([^#\n]*)(?:#[ \t]*(\w+)[ \t]*(.*))?$", re.M)
NOTE = re.compile(r"^# NOTE: (.*)$", re.M)
PASSED = ("OK", "EXPECTEDFAIL")
REASON_LINES = 24


@dataclass
class Row:
    """One line of the table. `failed`, `skipped` and `warned` (a failure that is allowed) have a sentence for each case, `noted` has
    the remarks of tests."""
    stage: str
    suite: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)


def last_words(entry: dict) -> str:
    said = (entry.get("stdout", "") + "\n" + entry.get("stderr", "")).strip().splitlines()
    return said[-1].strip() if said else "it gives no reason"


def reason(said: str) -> str:
    """Returns the comment lines that directly follow the result of a case."""
    lines = []
    for line in said.lstrip("\n").splitlines():
        if not line.startswith("#") or len(lines) == REASON_LINES:
            break
        lines.append(f"\n      {line[1:].rstrip()}")
    return "".join(lines)


def count_tap(row: Row, name: str, entry: dict) -> None:
    cases = list(CASE.finditer(entry["stdout"]))
    planned = sum(int(n) for n in PLAN.findall(entry["stdout"]))
    failed_before = len(row.failed)
    skipped_as_bad = False  # cmocka prints "not ok N # SKIP" for a skipped case, and meson counts it as failed
    for case in cases:
        bad, _, title, directive, why = case.groups()
        title = f"{name}: {(title or why or '').strip()}"
        if (directive or "").upper() == "SKIP":
            row.skipped.append(f"{title} ({(why or '').strip() or 'no reason given'})")
            skipped_as_bad = skipped_as_bad or bool(bad)
        elif bad:
            row.failed.append(title + reason(entry["stdout"][case.end():]))
        else:
            row.passed += 1
    if len(cases) < planned:
        row.failed.append(f"{name}: {planned - len(cases)} of {planned} cases never ran ({entry['result']})")
    if entry["result"] == "FAIL" and skipped_as_bad and entry.get("returncode", 1) == 0:
        return
    if entry["result"] not in (*PASSED, "SKIP") and len(row.failed) == failed_before:
        row.failed.append(f"{name}: {entry['result']}: {last_words(entry)}")


def count(row: Row, name: str, entry: dict) -> None:
    """Adds the results of one test program to its row."""
    row.noted += [f"{name}: {text}" for text in NOTE.findall(entry.get("stdout", ""))]
    if PLAN.search(entry.get("stdout", "")) and CASE.search(entry["stdout"]):
        count_tap(row, name, entry)
    elif entry["result"] in PASSED:
        row.passed += 1
    elif entry["result"] == "SKIP":
        skip_all = re.search(r"^1\.\.0[ \t]*#[ \t]*SKIP[ \t]*(.*)$", entry.get("stdout", ""), re.M)
        row.skipped.append(f"{name}: {skip_all.group(1) if skip_all else last_words(entry)}")
    else:
        row.failed.append(f"{name}: {entry['result']}: {last_words(entry)}")


def suite_of(test: dict) -> str:
    return test["suite"][0].split(":")[-1]


def split_name(name: str) -> tuple[str, str]:
    """Returns the suite and the name of a test in the log: "uroce:SUITE / NAME", and in meson 1.12 "SUITE - uroce:NAME"."""
    suites, _, test = name.rpartition(" / ")
    if not suites:
        suites, _, test = name.partition(" - ")
        test = test.partition(":")[2] or name
    return suites.split(":")[-1].split("+")[0], test


def read(stage: str, suites: tuple[str, ...], listed: list[dict], log: pathlib.Path) -> list[Row]:
    """Returns a row for each suite. A listed test without a result has failed."""
    rows = {suite: Row(stage, suite) for suite in suites}
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    results = {}
    for entry in entries:
        results[split_name(entry["name"])] = entry
    for test in listed:
        suite, name = suite_of(test), test["name"]
        if suite not in rows:
            continue
        if (suite, name) in results:
            count(rows[suite], name, results[suite, name])
        else:
            rows[suite].failed.append(f"{name}: left no result")
    for row in rows.values():
        if not (row.passed or row.failed or row.skipped):
            row.skipped.append("the suite is empty")
    return list(rows.values())


def table(rows: list[Row]) -> str:
    lines = ["", f"{'stage':8} {'suite':10} {'passed':>7} {'failed':>7} {'SKIPPED':>8}"]
    for row in rows:
        lines.append(f"{row.stage:8} {row.suite:10} {row.passed:7} {len(row.failed):7} "
                     f"{len(row.skipped):8}")
    lines.append(f"{'all':19} {sum(r.passed for r in rows):7} {sum(len(r.failed) for r in rows):7} "
                 f"{sum(len(r.skipped) for r in rows):8}")
    for title, pick in (("NOTED", "noted"), ("WARNED, failed where a failure is allowed", "warned"),
                        ("SKIPPED, so not shown to work here", "skipped"), ("FAILED", "failed")):
        found = [f"  {row.stage} {row.suite}: {text}" for row in rows for text in getattr(row, pick)]
        if found:
            lines += ["", f"{title}:", *found]
    return "\n".join(lines)
