#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the programs of tools/demo, each between two processes, and prints the output of both
sides."""
import argparse
import os
import pathlib
import re
import sys

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common",)]

import pairs

PROGRAMS = (
    ["ibv_rc_pingpong", "-g", "1", "-c"],
    ["ib_send_bw", "-F", "-x", "1"],
    ["ib_write_lat", "-F", "-x", "1"],
)
WIDTH = 92
SECONDS = 60


WORTH_SHOWING = re.compile(r"\s*(local address|#bytes|\d+ +\d|\d+ (bytes|iters) in)")


def worth_showing(line: str) -> bool:
    """Returns whether the line has an address or a result. The settings that perftest prints are not shown."""
    return WORTH_SHOWING.match(line) is not None


class OverUdp(pairs.Pair):
    """A pair of processes that share one address, like two commands `uroce run` without --device."""

    def configuration(self, role: str) -> str:
        return f"{self.device}:udp,ip=127.0.0.1"


KINDS = {"udp": OverUdp, "memif": pairs.Pair}


def side_by_side(left: str, right: str) -> str:
    ours, theirs = ([line[:WIDTH].rstrip() for line in text.expandtabs().splitlines()
                     if worth_showing(line)] for text in (left, right))
    width = max([len(line) for line in ours] + [20])
    height = max(len(ours), len(theirs))
    ours += [""] * (height - len(ours))
    theirs += [""] * (height - len(theirs))
    return "\n".join(f"  {a:{width}} | {b}" for a, b in zip(ours, theirs))


def show(pair: pairs.Pair, run: pairs.Run) -> None:
    who = "nobody" if pair.drop else f"uid {os.getuid()}"
    print(f"\n=== {' '.join(run.client.command[5:])}"
          f"   ({run.seconds:.1f} s, as {who})")
    for name, output in (("server", run.server), ("client", run.client)):
        command = output.command
        print(f'  {name}: {command[0]} run --device "{command[3]}" -- {" ".join(command[5:])}')
    print(side_by_side("server\n" + run.server.text, "client\n" + run.client.text))


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument("uroce", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--link", choices=KINDS, default="memif" if os.geteuid() == 0 else "udp",
                        help="memif: shared memory, the default for root; udp: the kernel's network, the default for others")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # only read the options
    options = parser.parse_args()
    if options.check:
        return 0
    uroce = options.uroce.resolve()
    for program in PROGRAMS:
        with KINDS[options.link](uroce) as pair:
            run = pair.run(program, SECONDS)
            problem = run.problem()
            if problem:
                print(f"\ndemo: {program[0]} failed\n{problem}", file=sys.stderr)
                return 1
            show(pair, run)
    print("\ndemo: unmodified programs, two processes, no RDMA hardware and no kernel module")
    return 0


if __name__ == "__main__":
    sys.exit(main())
