#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that `uroce dump` of each capture in pcap-fixtures/ prints the text in its .expect file; writes TAP.

    test_dump.py build/app/uroce pcap-fixtures [--bless]

--bless writes the .expect files instead of comparing. Look at the difference before you commit it.
"""
import difflib
import pathlib
import subprocess
import sys


def describe(uroce: str, capture: pathlib.Path) -> tuple[str, int]:
    run = subprocess.run([uroce, "dump", str(capture)], capture_output=True, text=True, check=False)
    return run.stdout + run.stderr, run.returncode


def damaged(uroce: str, capture: pathlib.Path) -> str:
    """Checks that `uroce dump` prints the error of a damaged frame, and ends with an error status."""
    octets = bytearray(capture.read_bytes())
    octets[-1] ^= 1  # a byte of the ICRC of the last frame
    run = subprocess.run([uroce, "dump", "-"], input=bytes(octets), capture_output=True, check=False)
    if run.returncode != 1 or b"!ICRC is" not in run.stdout:
        return f"status {run.returncode}\n{run.stdout.decode()}{run.stderr.decode()}"
    return ""


def report(number: int, name: str, problem: str) -> bool:
    print(f"{'not ok' if problem else 'ok'} {number} - {name}")
    for line in problem.splitlines():
        print(f"# {line}")
    return not problem


def main() -> int:
    uroce, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    captures = sorted(folder.glob("*.pcap"))
    good = bool(captures)
    print(f"1..{len(captures) + 1}")
    for number, capture in enumerate(captures, 1):
        said, status = describe(uroce, capture)
        expected = capture.with_suffix(".expect")
        if sys.argv[3:] == ["--bless"]:
            expected.write_text(said)
        wanted = expected.read_text() if expected.exists() else ""
        lines = difflib.unified_diff(wanted.splitlines(), said.splitlines(), expected.name,
                                     "uroce dump", lineterm="", n=0)
        problem = "\n".join(lines) or ("" if status == 0 else f"exit status {status}")
        good &= report(number, f"dump of {capture.stem}", problem)
    good &= report(len(captures) + 1, "a wrong ICRC is named and is the exit status",
                   damaged(uroce, captures[0]))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
