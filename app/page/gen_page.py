#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes a C file with the page of `uroce dump --html`: page.html including its style sheet and scripts.

    gen_page.py OUT.c page.html page.css SCRIPT.js...

page.html has @STYLE@ and @SCRIPT@ where the other files go, and @DATA@ where the program writes the capture.
"""
import pathlib
import sys


def array(name: str, text: str) -> str:
    octets = text.encode()
    rows = [", ".join(map(str, octets[at:at + 24])) for at in range(0, len(octets), 24)]
    return (f"const unsigned char {name}[] = {{\n    " + ",\n    ".join(rows) + "\n};\n"
            f"const unsigned {name}_length = {len(octets)};\n")


def main() -> int:
    out, page, style, *scripts = map(pathlib.Path, sys.argv[1:])
    html = page.read_text().replace("@STYLE@", style.read_text())
    html = html.replace("@SCRIPT@", "\n".join(script.read_text() for script in scripts))
    before, after = html.split("@DATA@")
    out.write_text('#include "page.h"\n\n' + array("uro_page_before", before) + array("uro_page_after", after))
    return 0


if __name__ == "__main__":
    sys.exit(main())
