#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs over memif, with ten different impair= settings of the client's device. Prints a table of the results. No test
suite runs this script, because it takes minutes.

    plans.py build [--program REGEX]
"""
import argparse
import pathlib
import re
import sys
import time

import connections
import programs
import test_mpi
import test_programs
import uroce_case
import pairs  # from tools/lib/common, which uroce_case puts on the path

PLANS = ["loss:1%", "burst:0.3%:25%", "every:50", "duplicate:2%", "reorder:2%", "corrupt:0.5%", "delay:200us+-100us",
         "rate:1Gbit,queue:64kB", "rate:1Gbit,mark:20kB", "only:acks,loss:5%"]
SEED = ",seed:7"
ALONE = ["rc_pingpong", "write_bw", "read_bw", "ucx_rc_tag_bw", "ucx_ud_tag_bw"]  # names of rows of programs.txt
CONNECTED = ["rping", "fi_rdm", "fi_msg"]
FIO = ["fio", "--name=x", "--ioengine=rdma", "--port={port}", "--bs=64k", "--size=16m"]
# The server must report this error if the client ended without an error and the network lost its last ACK.
LAST_ACK_LOST = re.compile(r"client ended with status 0.*transport retry counter exceeded", re.S)
FIO_ROW = connections.Connection("fio", [*FIO, "--rw=read"], False, [*FIO, "--hostname=10.0.0.1", "--verb=write", "--rw=write"],
                                 False, ["WRITE: bw="])


def of_pair(plan: str) -> type:
    class Impaired(connections.Pair):
        """A pair whose client's link has faults."""

        def configuration(self, role: str) -> str:
            return super().configuration(role) + (f";impair={plan}{SEED}" if role == "client" else "")

    return Impaired


def mpi(case: uroce_case.Case, plan: str) -> str:
    class Job(of_pair(plan), test_mpi.Job):
        pass

    with Job(case.uroce, test_mpi.SETTINGS) as job:
        sides = [job.command(role, []) for role in ("server", "client")]
        output = job.run(case, "rc_v", [["-np", "1", *side] for side in sides])
    test_mpi.holds(output, 2)
    return ""


def result(run, *arguments: object) -> str:
    try:
        problem = run(*arguments)
    except (AssertionError, uroce_case.Skip) as why:
        problem = str(why)
    if LAST_ACK_LOST.match(problem):
        return "right; the last ACK was lost, and the server reports retry exceeded"
    return problem or "right"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--program", default="", help="only programs whose name has this pattern")
    options = parser.parse_args()
    case = uroce_case.Case(options.build.resolve(), pathlib.Path("/nonexistent"))
    work = [(row.name, lambda plan, row=row: test_programs.run_row(case.uroce, row, of_pair(plan)))
            for row in programs.rows() if row.name in ALONE]
    work += [(row.name, lambda plan, row=row: connections.run(case.uroce, row, of_pair(plan)))
             for row in [*connections.rows(case.uroce), FIO_ROW] if row.name in [*CONNECTED, "fio"]]
    work.append(("Open MPI", lambda plan: mpi(case, plan)))
    failed = 0
    for name, run in work:
        if not re.search(options.program, name):
            continue
        for plan in PLANS:
            began = time.monotonic()
            said = result(run, plan)
            failed += not said.startswith("right")
            print(f"{name:14} {plan:22} {time.monotonic() - began:5.1f} s  {said}", flush=True)
    print(f"{failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
