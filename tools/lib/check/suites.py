#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds and runs every suite and prints a table of cases that passed, failed and were skipped.

tools/check calls this script. It counts single test cases, from meson's testlog.json and the TAP output
of each test. The exit status of a test program does not show a case that was skipped or did not run.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common", "coverage", "fuzz")]

import covering
import fuzzing
import patience
import release
import tally

ROOT = pathlib.Path(__file__).resolve().parents[3]
SUITES = ("tidy", "unit", "scenario", "sim", "replay", "api", "system", "interop")
SLOW = "interop"  # uses only half of the machine
SANITIZE = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dhot_asserts=true", "-Doptimization=2"]
SANITIZER_ENV = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
                 "ASAN_OPTIONS": "detect_stack_use_after_return=1"}

# Key: a stage. Value: compiler, meson options, suites, environment of the tests
STAGES = {
    "gcc": ("gcc", [], SUITES, {"UROCE_SIM_COUNT": "1000", "UROCE_HUB_LIVES": "1000"}),
    "clang": ("clang", ["-Dhot_asserts=true"], ("unit", "scenario", "sim", "replay", "api"), {}),
    "asan": ("gcc", SANITIZE, ("unit", "scenario", "sim", "replay", "api", "sanitized"), SANITIZER_ENV),
}
# Tests in which several threads run: threads of the library or of the test
THREADED = ("api/engines", "api/engines_link-memif", "api/engines_link-af_packet", "api/engines_start", "api/threads", "api/rdma_cm_threads", "api/impair", "host/test_contend", "host/test_coalesce", "host/test_lifetime", "host/test_progress", "host/test_round",
            "host/test_silence", "host/test_unmapped", "host/test_waiter", "io/test_memif_threads", "verbs/test_events", "base/test_doorbell", "base/test_mark", "scenario/test_rc_read")
TSAN = ["-Db_sanitize=thread", "-Db_lundef=false", "-Ddpdk=disabled", "-Dwerror=false"]
MEMCHECK = ["valgrind", "--quiet", "--error-exitcode=1", "--leak-check=full",
            "--errors-for-leak-kinds=definite", "--trace-children=no"]
SLOWER = 10  # the time limits are multiplied by this factor under valgrind and the thread sanitizer
UNDER_VALGRIND = ("api/exit", "fuzz/verbs", "fuzz/ucma", "fuzz/engine_input", "scenario/test_cm",
                  "scenario/test_xrc")
QUICK = ("gcc", ("tidy", "unit", "scenario", "sim"), {"UROCE_SIM_COUNT": "5"})


def build(stage: str, compiler: str, options: list[str]) -> pathlib.Path | None:
    """Builds a stage and returns the build directory. Prints the error and returns None if the build fails."""
    where = ROOT / f"build-{stage}"
    log = where / "build.log"
    env = {**os.environ, "CC": compiler}
    commands = [["ninja", "-C", str(where)]]
    if not (where / "build.ninja").exists():
        commands.insert(0, ["meson", "setup", str(where), str(ROOT), *options])
    where.mkdir(exist_ok=True)
    with log.open("w") as out:
        for command in commands:
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, env=env,
                              check=False).returncode:
                print(f"--- {stage} does not build; the end of {log.relative_to(ROOT)}:")
                print("\n".join(log.read_text().splitlines()[-60:]))
                return None
    return where


def run_until(command: list[str], end: threading.Event, env: dict[str, str]) -> None:
    """Runs a command, and terminates it when @end is set."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env) as process:
        while process.poll() is None:
            if end.wait(0.5):
                process.terminate()
                return


def build_ahead(stages: list[str], end: threading.Event) -> None:
    """Builds the next stages at low priority while the slow suite runs, until @end is set. Then build() does the rest, because on a
    busy machine the low priority would delay the next stage. Ignores errors, because build() prints them."""
    for stage in stages:
        where = ROOT / f"build-{stage}"
        compiler, options, _, _ = STAGES[stage]
        env = {**os.environ, "CC": compiler}
        if end.is_set():
            return
        if not (where / "build.ninja").exists():
            subprocess.run(["meson", "setup", str(where), str(ROOT), *options], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env=env, check=False)
        run_until(["nice", "-n", "19", "ninja", "-C", str(where)], end, env)


def run_tests(where: pathlib.Path, suites: tuple[str, ...], extra: dict[str, str]) -> None:
    """Runs the tests. Ignores meson's exit status, because tally reads the result of each test."""
    log = where / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    command = ["meson", "test", "-C", str(where), "--no-rebuild", "--print-errorlogs", "-t", str(patience.factor())]
    for suite in suites:
        command += ["--suite", suite]
    subprocess.run(command, env={**os.environ, **extra}, check=False)


def run_stage(stage: str, suites: tuple[str, ...], env: dict[str, str],
              rows: list[tally.Row], later: list[str]) -> None:
    compiler, options, _, _ = STAGES[stage]
    print(f"=== {stage}: build", flush=True)
    where = build(stage, compiler, options)
    if where is None:
        rows.append(tally.Row(stage, "build", failed=["does not build"]))
        return
    listed = json.loads(subprocess.run(["meson", "introspect", "--tests", str(where)],
                                       capture_output=True, text=True, check=True).stdout)
    log = where / "meson-logs" / "testlog.json"
    for part in (tuple(suite for suite in suites if suite != SLOW), (SLOW,)):
        if part == (SLOW,) and SLOW not in suites:
            break
        print(f"=== {stage}: {' '.join(part)}", flush=True)
        end = threading.Event()
        ahead = threading.Thread(target=build_ahead, args=(later if part == (SLOW,) else [], end))
        ahead.start()
        run_tests(where, part, env)
        end.set()
        ahead.join()
        rows.extend(tally.read(stage, part, listed, log))


def some(stage: str, where: pathlib.Path, tests: tuple[str, ...], extra: list[str],
         env: dict[str, str]) -> tally.Row:
    """Runs a few tests by name. meson builds only the targets that they need."""
    row = tally.Row(stage, "some")
    print(f"=== {stage}: {' '.join(tests)}", flush=True)
    limit = str(SLOWER * patience.factor())
    for old in where.glob("meson-logs/testlog*.json"):
        old.unlink()
    run = subprocess.run(["meson", "test", "-C", str(where), "--print-errorlogs", "-t", limit, *extra,
                          *tests], env={**os.environ, patience.VARIABLE: limit, **env}, capture_output=True, text=True,
                         check=False)
    logs = list(where.glob("meson-logs/testlog*.json"))
    entries = [json.loads(line) for line in logs[0].read_text().splitlines()] if logs else []
    for entry in entries:
        tally.count(row, tally.split_name(entry["name"])[0] or entry["name"], entry)
    if len(entries) != len(tests):
        row.failed.append(f"{len(entries)} of {len(tests)} tests ran")
    if row.failed:
        print("\n".join(run.stdout.splitlines()[-60:]))
    return row


def threads() -> tally.Row:
    """Runs tests under the thread sanitizer. The compiler is gcc, because a plug-in can be linked with gcc's sanitizer library."""
    where = ROOT / "build-tsan"
    if not (where / "build.ninja").exists():
        subprocess.run(["meson", "setup", str(where), str(ROOT), *TSAN], check=False,
                       env={**os.environ, "CC": "gcc"}, capture_output=True)
    return some("tsan", where, THREADED, [], {"TSAN_OPTIONS": "halt_on_error=0"})


def memory() -> tally.Row:
    """Runs tests under valgrind, with the build of the first stage."""
    if shutil.which("valgrind") is None:
        return tally.Row("valgrind", "some", skipped=["valgrind is not installed"])
    where = build("gcc", "gcc", [])
    if where is None:
        return tally.Row("valgrind", "some", failed=["does not build"])
    return some("valgrind", where, UNDER_VALGRIND, ["--wrapper", " ".join(MEMCHECK)], {})


def lint() -> tally.Row:
    print("=== lint", flush=True)
    run = subprocess.run([ROOT / "tools" / "lib" / "check" / "lint"], capture_output=True, text=True, check=False)
    print(run.stdout, end="")
    last = (run.stdout.strip().splitlines() or [run.stderr.strip()])[-1]
    row = tally.Row("clang", "lint")
    if run.returncode == 77:
        row.skipped.append(last)
    elif run.returncode:
        row.failed.append(f"tools/check --lint: {last}")
    else:
        row.passed += 1
    return row


OTHERS = {"tsan": threads, "valgrind": memory, "coverage": covering.stage, "lint": lint,
          "fuzz": None}  # --fuzz-seconds gives the time


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="tools/check", description=__doc__.splitlines()[0],
        epilog="tools/check --lint [WORD...]: only cppcheck and clang-tidy, on files whose path contains a WORD. "
               "tools/check --messages: prints all texts for users.")
    parser.add_argument("--quick", action="store_true", help="only the fast suites, built with gcc")
    parser.add_argument("--stage", action="append", choices=[*STAGES, *OTHERS, *release.RELEASES, release.UNSTABLE],
                        help="run only this stage (may be repeated)")
    parser.add_argument("--fuzz-seconds", type=int, default=60, help="time for all fuzz targets together")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # only read the options
    options = parser.parse_args()
    if options.check:
        return 0
    os.chdir(ROOT)
    start = time.monotonic()
    rows: list[tally.Row] = []
    if options.quick:
        stage, suites, env = QUICK
        run_stage(stage, suites, env, rows, [])
    else:
        stages = options.stage or [*STAGES, *OTHERS, *release.RELEASES]
        for at, stage in enumerate(stages):
            began = time.monotonic()
            if stage == "fuzz":
                rows.append(fuzzing.smoke(ROOT, options.fuzz_seconds))
            elif stage in (*release.RELEASES, release.UNSTABLE):
                rows.extend(release.stage(ROOT, stage))
            elif stage in OTHERS:
                rows.append(OTHERS[stage]())
            else:
                later = [name for name in stages[at + 1:] if name in STAGES]
                run_stage(stage, STAGES[stage][2], {**STAGES[stage][3]}, rows, later)
            print(f"=== {stage}: took {time.monotonic() - began:.0f} s", flush=True)
    print(tally.table(rows))
    subprocess.run([ROOT / "tools" / "conformance"], check=False)  # prints how many rules hold
    print(f"took {time.monotonic() - start:.0f} s")
    return 1 if any(row.failed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
