# SPDX-License-Identifier: BSD-3-Clause
"""Fuzz smoke: every target reads its corpus and then makes inputs of its own for a while."""
import json
import os
import pathlib
import subprocess
import tempfile

from tally import Row

MARK = "fuzz_"  # what a target's name starts with


def has_runtime() -> bool:
    with tempfile.TemporaryDirectory(prefix="uroce-fuzz-") as where:
        source = pathlib.Path(where) / "probe.c"
        source.write_text("int LLVMFuzzerTestOneInput(const char *d, unsigned long n);\n"
                          "int LLVMFuzzerTestOneInput(const char *d, unsigned long n)\n"
                          "{ return (void)d, (void)n, 0; }\n")
        try:
            return subprocess.run(["clang", "-fsanitize=fuzzer,address", str(source), "-o",
                                   f"{where}/probe"], capture_output=True,
                                  check=False).returncode == 0
        except OSError:
            return False


def listed_targets(where: pathlib.Path) -> dict[str, pathlib.Path]:
    listed = json.loads(subprocess.run(["meson", "introspect", "--targets", str(where)],
                                       capture_output=True, text=True, check=True).stdout)
    return {t["name"]: pathlib.Path(t["filename"][0]) for t in listed
            if t["type"] == "executable" and t["name"].startswith(MARK)}


def ran(command: list[str]) -> str:
    """Empty, or the end of what the command said when it failed."""
    run = subprocess.run(command, capture_output=True, text=True, check=False,
                         env={**os.environ, "CC": "clang"})
    return "\n".join((run.stdout + run.stderr).splitlines()[-20:]) if run.returncode else ""


def build(root: pathlib.Path) -> dict[str, pathlib.Path] | str:
    """The targets by name, or the end of the log when they do not build. Only they are built:
    each brings the sources it tests, instrumented."""
    where = root / "build-fuzz"
    if not (where / "build.ninja").exists():
        problem = ran(["meson", "setup", str(where), str(root), "-Dfuzz=true", "-Ddpdk=disabled"])
        if problem:
            return problem
    targets = listed_targets(where)
    names = [str(path.relative_to(where)) for path in targets.values()]
    return (ran(["ninja", "-C", str(where), *names]) if names else "") or targets


def run_target(root: pathlib.Path, name: str, program: pathlib.Path, seconds: int) -> str:
    """Empty when nothing was found, else the last words; new inputs do not enter the tree."""
    corpus = root / "tests" / "fuzz" / "corpus" / name.removeprefix(MARK)
    with tempfile.TemporaryDirectory(prefix="uroce-fuzz-") as scratch:
        command = [str(program), f"-max_total_time={seconds}", "-timeout=10", "-print_final_stats=1",
                   f"-artifact_prefix={root}/build-fuzz/{name}-", scratch]
        run = subprocess.run(command + ([str(corpus)] if corpus.is_dir() else []),
                             capture_output=True, text=True, check=False,
                             env={**os.environ, "UBSAN_OPTIONS": "halt_on_error=1"})
    if run.returncode == 0:
        return ""
    return "; ".join(line for line in run.stderr.splitlines()
                     if "ERROR" in line or "Test unit written" in line) or f"exit {run.returncode}"


def smoke(root: pathlib.Path, seconds: int) -> Row:
    row = Row("fuzz", "fuzz")
    if not has_runtime():
        row.skipped.append("clang has no fuzzer runtime here (libclang-rt-14-dev)")
        return row
    print("=== fuzz: build", flush=True)
    targets = build(root)
    if isinstance(targets, str):
        print(targets)
        row.failed.append("does not build")
        return row
    if not targets:
        row.skipped.append("the suite is empty")
        return row
    each = max(1, seconds // len(targets))
    for name, program in sorted(targets.items()):
        print(f"=== fuzz: {name}, {each} s", flush=True)
        problem = run_target(root, name, program, each)
        if problem:
            row.failed.append(f"{name}: {problem}")
        else:
            row.passed += 1
    return row
