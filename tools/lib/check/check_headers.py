#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if a header of lib/, include/ or tests/support/ does not compile alone as C11, or those of lib/io/dpdk as GNU C11.
With --cxx, only checks that the headers of include/ compile as C++."""
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

import sources

FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_GNU_SOURCE"]
SKIPPED = 77


def dpdk_flags() -> list[str] | None:
    """Returns the compiler flags for the headers of DPDK, or None if they are not installed."""
    try:
        out = subprocess.run(["pkg-config", "--cflags", "libdpdk"], capture_output=True, text=True,
                             check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return out.replace("-I", "-isystem").split()


def compile_alone(compiler: list[str], root: pathlib.Path, include: str, extra: list[str]) -> str:
    """Compiles a file that only includes the header. Returns the error of the compiler, or an empty string."""
    command = [*compiler, *FLAGS, f"-I{root / 'lib'}", f"-I{root / 'include'}",
               f"-I{root / 'tests'}", *extra, "-"]
    run = subprocess.run(command, input=f'#include "{include}"\n', capture_output=True, text=True,
                         check=False)
    return run.stderr if run.returncode else ""


def check_c(root: pathlib.Path, report: sources.Report) -> None:
    compiler = [*os.environ.get("CC", "cc").split(), "-std=c11", "-xc"]
    dpdk = dpdk_flags()
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in sources.files(root, "lib/*.h", "include/*.h", "tests/support/*.h"):
            rel = path.relative_to(root)
            extra = ["-std=gnu11", *(dpdk or [])] if rel.parts[:3] == ("lib", "io", "dpdk") else []
            if extra and dpdk is None:
                print(f"NOT CHECKED: {rel}: DPDK is not installed (libdpdk-dev)")
                continue
            include = "/".join(rel.parts[1:])
            jobs.append((rel, pool.submit(compile_alone, compiler, root, include, extra)))
        for rel, job in jobs:
            if job.result():
                report.add(rel, None, "does not compile alone:\n" + job.result())


def check_cxx(root: pathlib.Path, report: sources.Report, compiler: str) -> None:
    for path in sources.files(root, "include/*.h"):
        rel = path.relative_to(root)
        complaint = compile_alone([compiler, "-std=c++11", "-xc++"], root,
                                  "/".join(rel.parts[1:]), [])
        if complaint:
            report.add(rel, None, "does not compile alone as C++:\n" + complaint)


def main() -> int:
    root = sources.root_argument().resolve()
    report = sources.Report()
    if "--cxx" not in sys.argv:
        check_c(root, report)
        return report.finish("every header compiles alone")
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        print("no C++ compiler (g++ or clang++): public headers not checked as C++")
        return SKIPPED
    check_cxx(root, report, compiler)
    return report.finish("every public header compiles as C++")


if __name__ == "__main__":
    sys.exit(main())
