# SPDX-License-Identifier: BSD-3-Clause
"""Runs the distribution's perftest between two processes over memif."""
import figures
import pairs
from bench_rows.figure import Bench, NotRun

SECONDS = 120
JUMBO = ";mtu=4200"  # enough for an IB MTU of 4096
COMMON = ("-F", "-x", "1")


def output(bench: Bench, program: list[str]) -> str:
    """Returns the output of the client."""
    with pairs.Pair(bench.uroce, settings=JUMBO) as pair:
        run = pair.run([program[0], *COMMON, *program[1:]], SECONDS)
        if run.problem():
            raise NotRun(run.problem())
        return run.client.text


def bandwidth(bench: Bench, program: list[str]) -> figures.Bandwidth:
    return figures.bandwidths(output(bench, program))[0]


def latency(bench: Bench, program: list[str]) -> figures.Latency:
    return figures.latencies(output(bench, program))[0]
