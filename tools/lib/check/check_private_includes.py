#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Fails when a scenario, a fuzzer or the simulator includes a private header that is not listed.

These folders use the engine through include/uroce, as any program does. tests/tidy/private-includes.txt lists the private headers
that they still include. A line has a folder or a file, then the headers that it may include. This list may only shrink. The check
also fails if a listed header is not included any more.
"""
import re
import sys

import sources

LIST = "tests/tidy/private-includes.txt"
FOLDERS = ("tests/scenario", "tests/fuzz", "lib/sim")
OWN = ("support/", "sim/")  # not private here: helpers of all tests, and the simulator itself
GATES = ("inside.h", "managers.h", "sim/inside.h")  # these headers include private headers, so a file that includes them is listed
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)


def read_list(root) -> dict[str, set[str]]:
    path = root / LIST
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split()[0]: set(line.split()[1:]) for line in lines if line and not line.startswith("#")}


def main() -> int:
    root = sources.root_argument()
    report = sources.Report()
    listed = read_list(root)
    seen: dict[str, set[str]] = {key: set() for key in listed}
    for path in sources.files(root, *(f"{folder}/*.[ch]" for folder in FOLDERS)):
        file = path.relative_to(root).as_posix()
        folder = next(folder for folder in FOLDERS if file.startswith(folder + "/"))
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            header = match.group(1)
            if header not in GATES and ("/" not in header or header.startswith(OWN)):
                continue
            key = next((key for key in (file, folder) if header in listed.get(key, ())), None)
            if key is None:
                report.add(file, sources.line_of(text, match.start()),
                           f"{header} is private: use include/uroce. If the test needs a function that include/uroce lacks, "
                           f"test that function in tests/unit. {LIST} may only shrink")
            else:
                seen[key].add(header)
    for key, headers in listed.items():
        for header in sorted(headers - seen[key]):
            report.add(LIST, None, f"{key} does not include {header} any more: remove it")
    return report.finish("private includes of scenarios, fuzzers and the simulator")


if __name__ == "__main__":
    sys.exit(main())
