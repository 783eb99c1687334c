#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the exported symbols of our libibverbs.so.1 with another one's, node by node: the
system's, or a list."""
import pathlib
import re
import subprocess
import sys

SKIPPED = 77
EXPECTED = ("libc.", "ld-", "libinih.")  # DPDK above all is loaded when a device starts
ROW = re.compile(r"^[0-9a-f]+ (.{7}) (\S+)\s+[0-9a-f]+\s+\(?(IBVERBS_\S+?)\)?\s+(\S+)$")


def exported(library: str) -> dict[tuple[str, str], str]:
    """Returns (node, name) -> F for a function or O for an object, without the compatibility
    aliases of version 1.0 (hidden and superseded)."""
    out = subprocess.run(["objdump", "-T", library], capture_output=True, text=True,
                         check=True).stdout
    symbols = {}
    for line in out.splitlines():
        match = ROW.match(line)
        if not match or match.group(2) in ("*UND*", "*ABS*") or match.group(3) == match.group(4):
            continue
        hidden = "(" in line and "PRIVATE" not in line
        if not hidden:
            symbols[match.group(3), match.group(4)] = match.group(1).strip()[-1]
    return symbols


def listed(path: pathlib.Path) -> dict[tuple[str, str], str]:
    """Returns the same from a list of symbols such as rdma-core-65.txt."""
    rows = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    return {(node, name): kind for node, name, kind in rows}


def dynamic(library: str, tag: str) -> list[str]:
    out = subprocess.run(["readelf", "-d", library], capture_output=True, text=True,
                         check=True).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", out)


def minor(node: str) -> int:
    return int(node.rsplit(".", 1)[1])


def differences(ours: dict, theirs: dict):
    newest = max(minor(node) for node, _ in theirs if "PRIVATE" not in node)
    for symbol, kind in theirs.items():
        if symbol not in ours:
            yield f"missing: {symbol[1]}@{symbol[0]}"
        elif ours[symbol] != kind:
            yield f"{symbol[1]}@{symbol[0]} is {ours[symbol]}, theirs is {kind}"
    for node, name in ours:
        if (node, name) not in theirs and "PRIVATE" not in node and minor(node) <= newest:
            yield f"not in theirs: {name}@{node}"


def main() -> int:
    library, system = sys.argv[1:]
    if not pathlib.Path(system).exists():
        print(f"NOT CHECKED: {system} is not installed (libibverbs1)")
        return SKIPPED
    ours = exported(library)
    theirs = listed(pathlib.Path(system)) if system.endswith(".txt") else exported(system)
    problems = list(differences(ours, theirs))
    if dynamic(library, "SONAME") != ["liburoce.so.0" if "liburoce" in library else "libibverbs.so.1"]:
        problems.append(f"SONAME is {dynamic(library, 'SONAME')}")
    strangers = [lib for lib in dynamic(library, "NEEDED") if not lib.startswith(EXPECTED)]
    if strangers:
        problems.append(f"needs {strangers}: programs that only list devices would load them")
    print(*problems, sep="\n")
    print(f"{len(ours)} symbols here, {len(theirs)} in {system}")
    return 1 if problems or len(theirs) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
