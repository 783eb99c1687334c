# SPDX-License-Identifier: BSD-3-Clause
"""Builds the fuzz targets for libFuzzer or AFL++, and runs them. tools/fuzz runs them for long, tools/check for a few seconds."""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common",)]

import patience
from tally import Row

ROOT = pathlib.Path(__file__).resolve().parents[3]
MARK = "fuzz_"  # prefix of the names of targets
COMPILERS = {"libfuzzer": "clang", "afl": "afl-clang-fast"}
ENV = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
AFL_ENV = {"AFL_SKIP_CPUFREQ": "1", "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1",
           "AFL_NO_AFFINITY": "1", "AFL_NO_UI": "1",
           # afl-fuzz requires these options of ASan. AFL++ does not check for leaks; libFuzzer does.
           "ASAN_OPTIONS": "abort_on_error=1:symbolize=0:detect_leaks=0"}
AFL_SMOKE = "wire_frame"  # the only target that tools/check builds for AFL++
STACK_LINES = 24  # lines of a sanitizer report in which report_of() looks for functions, enough for its first stack trace
INPUT_MAX = 4096  # bytes; longer inputs take more time and find no more errors


def missing(engine: str) -> str:
    """Returns the reason why this machine cannot use the fuzzing engine, or "" if it can."""
    if engine == "afl":
        if shutil.which("afl-clang-fast") and shutil.which("afl-fuzz"):
            return ""
        return "AFL++ is not installed (Debian: afl++)"
    with tempfile.TemporaryDirectory(prefix="uroce-fuzz-") as where:
        source = pathlib.Path(where) / "probe.c"
        source.write_text("int LLVMFuzzerTestOneInput(const char *d, unsigned long n);\n"
                          "int LLVMFuzzerTestOneInput(const char *d, unsigned long n)\n"
                          "{ return (void)d, (void)n, 0; }\n")
        try:
            probe = subprocess.run(["clang", "-fsanitize=fuzzer,address", str(source), "-o",
                                    f"{where}/probe"], capture_output=True, check=False)
        except OSError:
            return "clang is not installed"
    return "clang has no fuzzer runtime here (libclang-rt-dev)" if probe.returncode else ""


def ran(command: list[str], **env: str) -> str:
    """Runs a command. Returns the end of its output if it failed, else ""."""
    run = subprocess.run(command, capture_output=True, text=True, check=False,
                         env={**os.environ, **env})
    return "\n".join((run.stdout + run.stderr).splitlines()[-20:]) if run.returncode else ""


def listed_targets(where: pathlib.Path) -> dict[str, pathlib.Path]:
    listed = json.loads(subprocess.run(["meson", "introspect", "--targets", str(where)],
                                       capture_output=True, text=True, check=True).stdout)
    return {t["name"].removeprefix(MARK): pathlib.Path(t["filename"][0]) for t in listed
            if t["type"] == "executable" and t["name"].startswith(MARK)}


def build(where: pathlib.Path, engine: str, wanted: str = "") -> dict[str, pathlib.Path] | str:
    """Builds all targets, or only the target @wanted. Returns a map from names to programs, or the end of the log if the build
    fails."""
    compiler = {"CC": COMPILERS[engine]}
    if not (where / "build.ninja").exists():
        problem = ran(["meson", "setup", str(where), str(ROOT), f"-Dfuzz={engine}",
                       "-Ddpdk=disabled"], **compiler)
        if problem:
            return problem
    problem = ran(["ninja", "-C", str(where), "build.ninja"], **compiler)  # meson updates its list of targets
    if problem:
        return problem
    targets = {name: path for name, path in listed_targets(where).items()
               if wanted in ("", name)}
    names = [str(path.relative_to(where)) for path in targets.values()]
    return (ran(["ninja", "-C", str(where), *names], **compiler) if names else "") or targets


def corpus_of(name: str) -> pathlib.Path:
    return ROOT / "tests" / "fuzz" / "corpus" / name


def run_libfuzzer(name: str, program: pathlib.Path, seconds: int, learnt: pathlib.Path,
                  found: pathlib.Path) -> str:
    """Runs libFuzzer. Returns the report of a failure, or "". New inputs go to @learnt, not into the source tree."""
    command = [str(program), f"-max_total_time={seconds}", f"-timeout={patience.seconds(10):.0f}", "-rss_limit_mb=1024",
               f"-max_len={INPUT_MAX}", f"-artifact_prefix={found}/", str(learnt)]
    run = subprocess.run([*command, str(corpus_of(name))], capture_output=True, text=True,
                         check=False, env={**os.environ, **ENV}, errors="replace")
    if run.returncode == 0:
        return ""
    return report_of(run.stderr) or f"exit {run.returncode}"


def report_of(stderr: str) -> str:
    """Returns one line: the error, the functions of uroce on the stack, and the input in base64. To repeat the failure on another
    machine, decode the input with base64 -d into a file, and run the target with that file."""
    lines = stderr.splitlines()
    said = [line for line in lines if "ERROR" in line or "runtime error" in line]
    stack = lines[lines.index(said[0]):] if said else []
    calls = re.findall(r"#\d+ \S+ in (\w+) \S*/((?:lib|app|tests)/\S+?:\d+)", "\n".join(stack[:STACK_LINES]))
    said += ["in " + " < ".join(" ".join(call) for call in calls)] if calls else []
    said += [line for line in lines if "Test unit written" in line or line.startswith("Base64: ")]
    return "; ".join(said)


def run_afl(name: str, program: pathlib.Path, seconds: int, learnt: pathlib.Path,
            found: pathlib.Path) -> str:
    """Runs afl-fuzz, which continues an earlier run if there is one. Returns the report of a failure, or ""."""
    start = "-" if (learnt / "default" / "queue").is_dir() else str(corpus_of(name))
    command = ["afl-fuzz", "-i", start, "-o", str(learnt), "-V", str(seconds), "-t", "10000",
               "-m", "none", "-G", str(INPUT_MAX), "--", str(program)]
    run = subprocess.run(command, capture_output=True, text=True, check=False,
                         env={**os.environ, **ENV, **AFL_ENV}, errors="replace")
    new = [path for kind in ("crashes", "hangs") for path in (learnt / "default" / kind).glob("id*")]
    for number, path in enumerate(sorted(new)):
        shutil.copy(path, found / f"{path.parent.name}-{number}")
    if new:
        return f"{len(new)} inputs in {found}"
    return "" if run.returncode == 0 else f"afl-fuzz: {run.stdout.strip().splitlines()[-3:]}"


def run_target(engine: str, where: pathlib.Path, name: str, program: pathlib.Path,
               seconds: int) -> str:
    found, learnt = where / "found" / name, where / "learnt" / name
    for path in (found, learnt):
        path.mkdir(parents=True, exist_ok=True)
    run = run_afl if engine == "afl" else run_libfuzzer
    return run(name, program, seconds, learnt, found)


def smoke_afl(root: pathlib.Path, row: Row) -> None:
    """Builds one target for AFL++ and does not run it. This checks that the build works."""
    problem = missing("afl")
    if problem:
        row.skipped.append(problem)
        return
    print(f"=== fuzz: {AFL_SMOKE} builds with AFL++", flush=True)
    built = build(root / "build-afl", "afl", AFL_SMOKE)
    if isinstance(built, str) or not built:
        print(built or f"no target {AFL_SMOKE}")
        row.failed.append("does not build with AFL++")
    else:
        row.passed += 1


def smoke(root: pathlib.Path, seconds: int) -> Row:
    """Runs all targets for @seconds in total."""
    row, where = Row("fuzz", "fuzz"), root / "build-libfuzzer"
    problem = missing("libfuzzer")
    if problem:
        row.skipped.append(problem)
        return row
    print("=== fuzz: build", flush=True)
    targets = build(where, "libfuzzer")
    if isinstance(targets, str):
        print(targets)
        row.failed.append("does not build")
        return row
    each = max(1, seconds // len(targets))
    for name, program in sorted(targets.items()):
        print(f"=== fuzz: {name}, {each} s", flush=True)
        problem = run_target("libfuzzer", where, name, program, each)
        if problem:
            row.failed.append(f"{name}: {problem}")
        else:
            row.passed += 1
    smoke_afl(root, row)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/fuzz")
    parser.add_argument("--engine", choices=COMPILERS, default="libfuzzer")
    parser.add_argument("--seconds", type=int, default=600, help="time for each target (default 600)")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("target", nargs="*")
    options = parser.parse_intermixed_args()
    where = ROOT / f"build-{options.engine}"
    problem = missing(options.engine)
    if problem:
        print(problem)
        return 77
    targets = build(where, options.engine)
    if isinstance(targets, str):
        print(targets)
        return 1
    if options.list:
        print("\n".join(sorted(targets)))
        return 0
    unknown = [name for name in options.target if name not in targets]
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(sorted(targets))}")
    broken = 0
    for name in options.target or sorted(targets):
        print(f"{name}: {options.seconds} s of {options.engine}", flush=True)
        problem = run_target(options.engine, where, name, targets[name], options.seconds)
        print(f"{name}: {problem or 'nothing found'}", flush=True)
        broken += problem != ""
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
