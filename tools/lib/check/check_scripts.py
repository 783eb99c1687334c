#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails if a script does not parse, is not executable, or ignores errors of its commands."""
import ast
import os
import pathlib
import re
import subprocess
import sys

import sources


def check_python(report: sources.Report, rel: pathlib.PurePath, text: str) -> None:
    try:
        ast.parse(text, str(rel))
    except SyntaxError as error:
        report.add(rel, error.lineno, f"Python: {error.msg}")


def check_shell(report: sources.Report, rel: pathlib.PurePath, path: pathlib.Path) -> None:
    shell = "bash" if "bash" in path.read_text().split("\n", 1)[0] else "sh"
    run = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
    if run.returncode:
        report.add(rel, None, f"{shell}: {run.stderr.strip()}")
    if not re.search(r"^set -\w*[eu]", path.read_text(), re.M) and path.name != "init":
        report.add(rel, 1, "a shell script starts with set -eu (only guest/init must continue after an error)")
    before, installs, _ = path.read_text().partition("\ntools/setup-packages ")
    if installs and re.search(r"^/usr/bin/python3", before, re.M):
        report.add(rel, None, "runs python3 before tools/setup-packages, which installs it: first check that /usr/bin/python3 exists")


def check_commands(report: sources.Report, root: pathlib.Path) -> None:
    """Checks that each file directly in tools/ is a command and has a row in the README."""
    readme = root / "tools" / "README.md"
    if not readme.exists():
        return
    rows = set(re.findall(r"^\| `([^`]+)` \|", readme.read_text(), re.M))
    found = {path.name for path in sources.files(root, "tools/*") if path.parent == readme.parent} - {readme.name}
    for name in sorted(found - rows):
        report.add("tools/README.md", None, f"{name} has no row; add one, or move the file to tools/lib/")
    for name in sorted(rows - found):
        report.add("tools/README.md", None, f"{name}: no such command")


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    for path in sources.files(root, "*"):
        rel = path.relative_to(root)
        if path.suffix in (".c", ".h", ".md", ".pcap", ".build"):
            continue
        first = path.open("rb").readline()
        if path.suffix == ".py" or (first.startswith(b"#!") and b"python" in first):
            check_python(report, rel, path.read_text())
        elif first.startswith(b"#!") and re.search(rb"\b(ba)?sh\b", first):
            check_shell(report, rel, path)
        if first.startswith(b"#!") and not os.access(path, os.X_OK):
            report.add(rel, 1, "starts with #! but is not executable: chmod +x")
    check_commands(report, root)
    return report.finish("scripts")


if __name__ == "__main__":
    sys.exit(main())
