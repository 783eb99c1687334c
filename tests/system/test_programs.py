#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the distribution's verbs programs over uroce: each row of programs.txt is a case. Writes TAP.

    test_programs.py build/app/uroce [--match REGEX] [--list]
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import sys

import apart
import connections
import programs
import matching  # from tools/lib/common, which the module programs puts on the path
import pairs

SKIPPED = 77  # exit status of a program that cannot run here
SECONDS = 90  # time limit of a row, seconds; the slowest rows take a tenth of it
DEAD_PEER_SECONDS = 60  # time for eight ACK timeouts of pairs.STREAM, and to start and stop the programs


class Skip(Exception):
    """The reason why a row cannot run here."""


def run_row(uroce: pathlib.Path, row: programs.Row, kind=pairs.Pair) -> str:
    """Runs a row. Returns "" when the row passes, else the reason."""
    with kind(uroce, row.settings) as pair:
        if row.alone:
            output = pair.alone(row.program)
            said = " ".join(output.text.split())
            if output.status == SKIPPED:
                raise Skip(said)
            missing = [word for word in row.must_say if word not in said]
            if output.status != 0:
                return f"{pairs.ending(output.status)}\n{output.tail()}"
            return f"does not say {', '.join(missing)}\n{output.text}" if missing else ""
        run = pair.run(row.program, SECONDS)
        problem = run.problem() or programs.sane(row, run.client.text)
        return problem and f"{problem}\n{run.client.tail()}"


def run_connection(uroce: pathlib.Path, row: connections.Connection) -> str:
    # With the option -S, cmtime also opens a TCP connection to the server's address.
    if row.client[0] == "cmtime" and "[-S]" in programs.help_of("cmtime"):
        raise Skip("this cmtime needs the address in the kernel, which memif does not have; test_udp.py runs it")
    return connections.run(uroce, row)


def run_apart(uroce: pathlib.Path, row: connections.Connection, kind: type) -> str:
    why = apart.why_not()
    if why:
        raise Skip(why)
    return connections.run(uroce, row, kind)


def peer_killed(uroce: pathlib.Path) -> str:
    program = list(pairs.STREAM)
    with pairs.Pair(uroce) as pair:
        port = pairs.free_port()
        server, _ = pair.serve(program, port)
        client, output = pair.start("client", [*program, "-p", str(port), "localhost"])
        flows = pairs.wait_for(lambda: programs.figures.bandwidths(pair.said("client"))
                               or client.poll() is not None, 30)
        if not flows or client.poll() is not None:
            return f"no traffic before the server is killed\n{pair.said('client')}"
        os.killpg(server.pid, signal.SIGKILL)
        pair.finish("client", client, output, DEAD_PEER_SECONDS)
        if output.status is None:
            return f"the client goes on without its peer\n{output.tail()}"
        if not re.search(r"[Ss]tatus (?:is )?12\b", output.text):
            return f"the client does not report status 12\n{output.tail()}"
    return ""


def no_configuration(uroce: pathlib.Path) -> str:
    with pairs.Pair(uroce) as pair:
        pair.command = lambda role, program: [str(uroce), "run", "--", *program]
        output = pair.alone(["ibv_devices"])
    said = "no device is configured, so uroce0 is" in output.text
    if output.status != 0 or "uroce0" not in output.text or not said:
        return f"{pairs.ending(output.status)}\n{output.tail()}"
    return ""


def cases(uroce: pathlib.Path) -> list[tuple[str, list[str], object]]:
    """Returns the cases: (name, programs it needs, function that runs it)."""
    found = [(row.name, [row.file], lambda row=row: run_row(uroce, row))
             for row in programs.rows()]
    found += [(row.name, [programs.file_of(row.server)], lambda row=row: run_connection(uroce, row))
              for row in connections.rows(uroce)]
    found += apart.cases(uroce, connections.rows, run_apart)
    return found + [("peer_killed", ["ib_write_bw"], lambda: peer_killed(uroce)),
                    ("no_configuration", ["ibv_devices"], lambda: no_configuration(uroce))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("uroce", type=pathlib.Path)
    matching.add_option(parser, "rows")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    uroce = options.uroce.resolve()
    rows = cases(uroce)
    names = matching.chosen(options.match, [name for name, _, _ in rows])
    chosen = [case for case in rows if case[0] in names]
    if options.list:
        print("\n".join(name for name, _, _ in chosen))
        return 0
    if not uroce.exists():
        print(f"1..0 # SKIP {uroce} is not built: DPDK or libibverbs headers are missing")
        return 0
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    for number, (name, needs, run) in enumerate(chosen, 1):
        absent = [program for program in needs if shutil.which(program) is None]
        why, problem = f"{absent[0]} is not installed" if absent else "", ""
        try:
            problem = "" if absent else run()
        except Skip as skip:
            why = str(skip)
        failed += bool(problem)
        skipped = f" # SKIP {why}" if why else ""
        print(f"{'not ok' if problem else 'ok'} {number} - {name}{skipped}", flush=True)
        for line in problem.splitlines():
            print("#", line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
