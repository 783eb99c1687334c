# SPDX-License-Identifier: BSD-3-Clause
"""Reads the symbols that a shared library exports and imports, from the output of objdump."""
import re
import subprocess

ROW = re.compile(r"^[0-9a-f]+ (.{7}) (\S+)\s+[0-9a-f]+\s+(\(?)(\S+?)\)?\s+(\S+)$")


def rows(library: str):
    """Yields (flags, section, whether the version is in parentheses, version, name)."""
    out = subprocess.run(["objdump", "-T", library], capture_output=True, text=True,
                         check=True).stdout
    for line in out.splitlines():
        if match := ROW.match(line):
            flags, section, hidden, version, name = match.groups()
            yield flags, section, bool(hidden), version, name


def exported(library: str) -> dict[tuple[str, str], str]:
    """Returns a map from (version node, name) to F for a function or O for an object, for the version nodes of libibverbs.
    Leaves out old versions of a symbol that exist only for compatibility."""
    return {(version, name): flags.strip()[-1] for flags, section, hidden, version, name in rows(library)
            if section not in ("*UND*", "*ABS*") and version.startswith("IBVERBS_") and version != name and
            (not hidden or "PRIVATE" in version)}


def imported(library: str) -> set[str]:
    return {name for _, section, _, _, name in rows(library) if section == "*UND*"}
