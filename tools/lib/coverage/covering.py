# SPDX-License-Identifier: BSD-3-Clause
"""Finds with gcov the lines that no test reaches, and compares them with tests/coverage.txt.

tests/coverage.txt has a block for each function with such lines: file and function, the lines, and one reason for all of them:

    lib/core/key.c uro_key_find
    > return NULL;
    The reason why no test can reach these lines.

A line is identified by its function and its text, so it may move within the function. The check fails if tests/coverage.txt
lacks a line that no test reaches. It also fails if tests/coverage.txt has a line that was reached or does not exist any more.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common",)]

import tally  # noqa: E402
from tally import Row  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
WHERE = ROOT / "build-coverage"
REASONS = ROOT / "tests" / "coverage.txt"
FOLDERS = ("lib/wire/", "lib/core/", "lib/cm/")
SUITES = ("unit", "scenario", "sim", "replay")
SIM = {"UROCE_SIM_SEED": "1000"}  # fixed, so that each run of the check simulates the same seeds
OPTIONS = ["-Db_coverage=true", "-Dbuildtype=debug", "-Dwerror=false", "-Ddpdk=disabled"]
MARK = "> "
NO_CODE = "URO_MARK("  # a macro that is empty in a release build
OPEN = "not explained"


def ran(command: list[str], log: pathlib.Path, **env: str) -> bool:
    with log.open("a") as out:
        return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, "CC": "gcc", **env}).returncode == 0


def run_tests() -> str:
    """Runs the tests. Returns the error, or "" without an error."""
    WHERE.mkdir(exist_ok=True)
    log = WHERE / "log.txt"
    log.write_text("")
    if not (WHERE / "build.ninja").exists() and \
            not ran(["meson", "setup", str(WHERE), str(ROOT), *OPTIONS], log):
        return f"meson setup fails: {log}"
    if not ran(["ninja", "-C", str(WHERE)], log):
        return f"does not build: {log}"
    for old in WHERE.rglob("*.gcda"):
        old.unlink()
    command = ["meson", "test", "-C", str(WHERE), "--no-rebuild", "-q"]
    for suite in SUITES:
        command += ["--suite", suite]
    results = WHERE / "meson-logs" / "testlog.json"
    results.unlink(missing_ok=True)
    ran(command, log, **SIM)  # its exit status is ignored, because meson counts a skipped case of cmocka as failed
    row = Row("gcc", "coverage")
    for line in results.read_text().splitlines() if results.exists() else []:
        entry = json.loads(line)
        tally.count(row, entry["name"], entry)
    if row.failed or row.passed == 0:
        return f"tests fail: {(row.failed or ['no test ran'])[0]}; see {log}"
    return ""


Line = collections.namedtuple("Line", "file function text")


def measure() -> tuple[dict[str, dict[int, int]], dict[tuple[str, int], str]]:
    """Returns how often each line ran, in all objects of its file together, and the function of each line."""
    counts: dict[str, dict[int, int]] = collections.defaultdict(lambda: collections.defaultdict(int))
    functions: dict[tuple[str, int], str] = {}
    notes = sorted(str(path) for path in WHERE.rglob("*.gcno"))
    for start in range(0, len(notes), 40):
        run = subprocess.run(["gcov", "--json-format", "--stdout", *notes[start:start + 40]],
                             cwd=WHERE, capture_output=True, text=True, check=True)
        for text in run.stdout.splitlines():
            for file in json.loads(text)["files"] if text.startswith("{") else []:
                path = (WHERE / file["file"]).resolve()
                if not path.is_relative_to(ROOT) or not path.exists():  # an object whose source does not exist any more
                    continue
                name = str(path.relative_to(ROOT))
                if not name.startswith(FOLDERS):
                    continue
                for line in file["lines"]:
                    counts[name][line["line_number"]] += line["count"]
                    functions[name, line["line_number"]] = line.get("function_name", "")
    return counts, functions


def unreached(counts: dict[str, dict[int, int]],
              functions: dict[tuple[str, int], str]) -> list[tuple[Line, int]]:
    found = []
    for name, lines in sorted(counts.items()):
        source = (ROOT / name).read_text().splitlines()
        for number, count in sorted(lines.items()):
            text = source[number - 1].strip()
            if count == 0 and not text.startswith(NO_CODE):
                found.append((Line(name, functions[name, number], text), number))
    return found


def read_reasons() -> tuple[collections.Counter, list[str]]:
    """Returns the lines of tests/coverage.txt, and the errors in that file."""
    explained: collections.Counter = collections.Counter()
    problems = []
    if not REASONS.exists():
        return explained, problems
    for block in REASONS.read_text().split("\n\n"):
        rows = [row for row in block.splitlines() if row and not row.startswith("#")]
        if not rows:
            continue
        file, _, function = rows[0].partition(" ")
        lines = [row[len(MARK):] for row in rows[1:] if row.startswith(MARK)]
        reason = " ".join(row for row in rows[1:] if not row.startswith(MARK))
        if not lines or not reason or reason.startswith(OPEN):
            problems.append(f"{REASONS.name}: {rows[0]}: has no {'reason' if lines else 'lines'}")
        explained.update(Line(file, function, text) for text in lines)
    return explained, problems


def table(counts: dict[str, dict[int, int]]) -> str:
    rows = []
    for name, lines in [*sorted(counts.items())]:
        reached = sum(count > 0 for count in lines.values())
        rows.append((name, reached, len(lines)))
    for folder in FOLDERS:
        part = [row for row in rows if row[0].startswith(folder)]
        rows.append((folder, sum(row[1] for row in part), sum(row[2] for row in part)))
    return "\n".join(f"{name:32} {reached:5} of {total:5} lines {100 * reached / total:6.1f} %"
                     for name, reached, total in rows if total)


def judge(found: list[tuple[Line, int]]) -> list[str]:
    explained, problems = read_reasons()
    for line, number in found:
        if explained[line] > 0:
            explained[line] -= 1
        else:
            problems.append(f"{line.file}:{number}: {line.function}: \"{line.text}\" is reached by no "
                            f"test and not explained in {REASONS.relative_to(ROOT)}")
    problems += [f"{REASONS.name}: {line.file} {line.function}: \"{line.text}\" is reached, or gone"
                 for line, count in explained.items() if count > 0]
    return problems


def write(found: list[tuple[Line, int]]) -> None:
    explained, _ = read_reasons()
    blocks: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for line, _ in found:
        if explained[line] > 0:
            explained[line] -= 1
        else:
            blocks[line.file, line.function].append(line.text)
    with REASONS.open("a") as out:
        for (file, function), lines in blocks.items():
            body = "\n".join(MARK + text for text in lines)
            out.write(f"\n{file} {function}\n{body}\n{OPEN}\n")


def stage() -> Row:
    """Runs the check as a stage of tools/check."""
    row = Row("gcc", "coverage")
    print("=== coverage", flush=True)
    problem = run_tests()
    if problem:
        row.failed.append(problem)
        return row
    counts, functions = measure()
    print(table(counts))
    row.failed = judge(unreached(counts, functions))
    row.passed = not row.failed
    return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/coverage")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    problem = run_tests()
    if problem:
        print(problem)
        return 1
    counts, functions = measure()
    print(table(counts))
    found = unreached(counts, functions)
    if options.write:
        write(found)
    problems = judge(found)
    print("\n".join(problems) or f"fine: {len(found)} lines are not reached, each for a reason")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
