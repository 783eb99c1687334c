#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that a plug-in exports one symbol and needs no shared library of RDMA or DPDK: check_plugin.py PLUGIN SYMBOL."""
import re
import subprocess
import sys

FORBIDDEN = re.compile(r"lib(ibverbs|mlx[45]|rdmacm|rte_)")


def lines(*command: str) -> list[str]:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def main() -> int:
    plugin, symbol = sys.argv[1:]
    shown = sorted(line.split()[-1] for line in lines("nm", "-D", "--defined-only", plugin))
    needed = [match[1] for line in lines("readelf", "-d", plugin)
              if (match := re.search(r"\(NEEDED\).*\[(.+)\]", line))]
    wrong = [name for name in needed if FORBIDDEN.match(name)]

    print("1..2")
    print(f"{'ok' if shown == [symbol] else 'not ok'} 1 - exports {symbol} only")
    print(f"{'not ok' if wrong else 'ok'} 2 - needs no RDMA library and no shared DPDK")
    for name in shown[:20] if shown != [symbol] else []:
        print(f"# exports {name}")
    for name in wrong:
        print(f"# needs {name}")
    return 0 if shown == [symbol] and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
