#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Attacks connections between two uroce processes from a third host of their segment. Checks the effect of each attack on the
connection, and the counter that counts the attack. Writes TAP, or with --table a table of the outcomes. Needs root and scapy.

    test_attack.py build [--match REGEX] [--table]
"""
import argparse
import pathlib
import sys

import segment
import matching  # from tools/lib/common, which segment puts on the path
import outcome

try:
    import asking
    import moving
    import quiet
    ATTACKS = quiet.ATTACKS + asking.ATTACKS + moving.ATTACKS
except ImportError:  # scapy is not installed
    ATTACKS = []


def why_not(build: pathlib.Path) -> str:
    if not ATTACKS:
        return "scapy is not installed (python3-scapy)"
    if not (build / "tests" / "attack" / "victim").exists():
        return "the program \"victim\" was not built (it needs libibverbs-dev, librdmacm-dev)"
    return segment.why_not()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    matching.add_option(parser, "attacks")
    parser.add_argument("--table", action="store_true", help="print a table of the outcomes")
    options = parser.parse_args()
    why = why_not(options.build)
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    names = matching.chosen(options.match, [attack.name for attack in ATTACKS])
    chosen = [attack for attack in ATTACKS if attack.name in names]
    print(outcome.heading() if options.table else f"1..{len(chosen)}", flush=True)
    failed = 0
    for number, attack in enumerate(chosen, 1):
        result = attack.run(options.build.resolve(), attack)
        problem = result.problem()
        failed += bool(problem)
        print(result.row() if options.table else
              f"{'not ok' if problem else 'ok'} {number} - {attack.name}", flush=True)
        for line in problem.splitlines():
            print("#", line, flush=True)
        if not options.table:
            print("#", result.row(), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
