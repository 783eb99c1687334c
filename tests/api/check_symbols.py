#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the symbols that libibverbs.so.1 exports, node by node.

    check_symbols.py table TABLE LIST...   the table, lib/abi/symbols.txt, is exact for the release of each list, such as
                                           rdma-core-44.txt; the last list is of the newest release of the table
    check_symbols.py built TABLE LIBRARY   our library exports what the table says, and needs few libraries
    check_symbols.py other LIBRARY OTHER   our library exports what another one does: the system's, or liburoce's
    check_symbols.py calls LIST...         librdmacm of each list imports the calls that lib/ucma redirects
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "lib" / "abi"), str(ROOT / "tools" / "lib" / "common")]

import elf_symbols
import gen_symbols

SKIPPED = 77
EXPECTED = ("libc.", "ld-", "libinih.")  # the library needs no others; it loads plug-ins, for example with DPDK, only when a device starts
Symbols = dict[tuple[str, str], str]


def listed(path: pathlib.Path) -> Symbols:
    """Returns (node or library, name) -> kind from a list such as rdma-core-44.txt."""
    rows = [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]
    return {(node, name): kind for node, name, kind in rows}


def exports(path: pathlib.Path) -> Symbols:
    return {symbol: kind for symbol, kind in listed(path).items() if kind != "U"}


def release(path: pathlib.Path) -> int:
    return int(path.stem.rpartition("-")[2])


def dynamic(library: str, tag: str) -> list[str]:
    out = subprocess.run(["readelf", "-d", library], capture_output=True, text=True,
                         check=True).stdout
    return re.findall(rf"\({tag}\).*\[(.*)\]", out)


def missing(ours: Symbols, theirs: Symbols, where: str):
    for symbol, kind in theirs.items():
        if symbol not in ours:
            yield f"missing in {where}: {symbol[1]}@{symbol[0]}"
        elif ours[symbol] != kind:
            yield f"{where}: {symbol[1]}@{symbol[0]} is {ours[symbol]} instead of {kind}"


def surplus(ours: Symbols, theirs: Symbols, where: str):
    return (f"too much in {where}: {name}@{node}" for node, name in ours if (node, name) not in theirs)


def check_table(table: str, *lists: str):
    rows = gen_symbols.read(table)
    for path in map(pathlib.Path, lists):
        ours, theirs = gen_symbols.of_release(rows, release(path)), exports(path)
        where = f"the table for rdma-core {release(path)}"
        yield from missing(ours, theirs, where)
        yield from surplus(ours, theirs, where)
        if len(theirs) < 100:
            yield f"{path} has only {len(theirs)} symbols"
        print(f"rdma-core {release(path)}: {len(theirs)} symbols")
    if release(pathlib.Path(lists[-1])) != gen_symbols.newest(rows):
        yield f"the table ends with rdma-core {gen_symbols.newest(rows)}, which has no list"


def check_built(table: str, library: str):
    rows = gen_symbols.read(table)
    theirs = {(node, row.name): "O" if row.kind == "flag" else "F" for row in rows for node in row.nodes}
    ours = elf_symbols.exported(library)
    yield from missing(ours, theirs, library)
    yield from surplus(ours, theirs, library)
    yield from check_dynamic(library)
    print(f"{len(ours)} symbols in {library}")


def check_dynamic(library: str):
    if dynamic(library, "SONAME") != ["liburoce.so.0" if "liburoce" in library else "libibverbs.so.1"]:
        yield f"SONAME is {dynamic(library, 'SONAME')}"
    strangers = [lib for lib in dynamic(library, "NEEDED") if not lib.startswith(EXPECTED)]
    if strangers:
        yield f"needs {strangers}: programs that only list devices would load them"


def check_other(library: str, other: str):
    """Compares with another library. It may be of an older release, so version nodes that it lacks are ignored."""
    ours, theirs = elf_symbols.exported(library), elf_symbols.exported(other)
    nodes = {node for node, _ in theirs if "PRIVATE" not in node}
    yield from missing(ours, theirs, library)
    yield from surplus({symbol: kind for symbol, kind in ours.items() if symbol[0] in nodes}, theirs, library)
    yield from check_dynamic(library)
    if len(theirs) < 100:
        yield f"{other} has only {len(theirs)} symbols"
    print(f"{len(ours)} symbols in {library}, {len(theirs)} in {other}")


def check_calls(*lists: str):
    """Checks that librdmacm imports each redirected call. A call has several names, for different C libraries, and one of them
    must be imported."""
    hooks = re.findall(r"\{ \{ (\"\w+\".*?) \}, \(function \*\)hook_(\w+) \}", (ROOT / "lib/ucma/attach.c").read_text())
    calls: dict[str, set[str]] = {}
    for names, hook in hooks:
        calls.setdefault("fstat" if hook == "fxstat" else hook, set()).update(re.findall(r"\w+", names))
    if len(calls) != 7:
        yield f"lib/ucma/attach.c redirects {sorted(calls)} instead of 7 calls: is this check out of date?"
    for path in map(pathlib.Path, lists):
        imported = {name for (library, name), kind in listed(path).items() if kind == "U" and library == "librdmacm.so.1"}
        yield from (f"librdmacm of rdma-core {release(path)} imports none of {sorted(names)}"
                    for names in calls.values() if not names & imported)
        print(f"librdmacm of rdma-core {release(path)} imports {len(imported)} symbols")


CHECKS = {"table": check_table, "built": check_built, "other": check_other, "calls": check_calls}


def main() -> int:
    check, *arguments = sys.argv[1:]
    if check == "other" and not pathlib.Path(arguments[1]).exists():
        print(f"NOT CHECKED: {arguments[1]} is not installed (libibverbs1)")
        return SKIPPED
    problems = list(CHECKS[check](*arguments))
    print(*problems, sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
