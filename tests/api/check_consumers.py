#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the usual installed users of libibverbs.so.1 find all their symbols in uroce's library."""
import glob
import os
import pathlib
import subprocess
import sys

SKIPPED = 77
LIBRARIES = ("librdmacm.so.1", "libmlx5.so.1", "libmlx4.so.1", "libefa.so.1", "libmana.so.1",
             "libfabric.so.1")
PROGRAMS = ("ibv_*", "ib_*_bw", "ib_*_lat", "raw_ethernet_*", "rping", "ucmatose", "udaddy",
            "mckey", "rdma_*", "rstream", "riostream", "udpong", "cmtime", "qperf", "fi_info",
            "ucx_info")


def consumers():
    for pattern in PROGRAMS:
        yield from sorted(glob.glob(f"/usr/bin/{pattern}"))
    for directory in glob.glob("/usr/lib/*-linux-gnu"):
        yield from (path for name in LIBRARIES if os.path.exists(path := f"{directory}/{name}"))


def problem_of(path: str, ours: str, env: dict[str, str]) -> str | None:
    """Returns the reason why @path cannot start with uroce's library, or None. Returns "" if @path does not use libibverbs."""
    run = subprocess.run(["ldd", "-r", path], capture_output=True, text=True, env=env, check=False)
    line = next((text for text in run.stdout.splitlines() if "libibverbs.so.1 =>" in text), None)
    if line is None:
        return ""
    complaints = [text.strip() for text in (run.stdout + run.stderr).splitlines()
                  if "undefined symbol" in text or "not found" in text or "no version" in text]
    if os.path.realpath(line.split("=>")[1].split(" (")[0].strip()) != ours:
        complaints.append(f"loads another library: {line.strip()}")
    return "; ".join(complaints[:3]) or None


def start_problem(env: dict[str, str]) -> str | None:
    """Checks that a program starts with every symbol bound, lists no device, and succeeds."""
    program = "/usr/bin/ibv_devices"
    if not os.path.exists(program):
        return None
    bare = {name: value for name, value in env.items() if not name.startswith("UROCE_")}
    run = subprocess.run([program], capture_output=True, text=True, check=False,
                         env={**bare, "LD_BIND_NOW": "1"})
    if run.returncode or run.stderr or len(run.stdout.splitlines()) != 2:
        return f"{program}: {run.returncode} {run.stdout} {run.stderr}"
    return None


def main() -> int:
    ours = os.path.realpath(sys.argv[1])
    env = {**os.environ, "LD_LIBRARY_PATH": str(pathlib.Path(ours).parent)}
    checked, problems = 0, []
    for path in consumers():
        problem = problem_of(path, ours, env)
        if problem == "":
            continue
        checked += 1
        if problem:
            problems.append(f"{path}: {problem}")
    if checked == 0:
        print("NOT CHECKED: no program that uses verbs is installed (ibverbs-utils, perftest)")
        return SKIPPED
    if started := start_problem(env):
        problems.append(started)
    print(*problems, sep="\n")
    print(f"{checked} programs and libraries resolve every symbol" if not problems else "failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
