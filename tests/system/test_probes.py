#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that docs/MONITORING.md lists all static probes with the right number of arguments, and that telemetry=yes
opens DPDK's telemetry socket. Writes TAP.

    test_probes.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

from uroce_case import LIBRARY, Case, Skip, equal, main, named_cases, patience

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "MONITORING.md"


def documented() -> dict[str, int]:
    """Returns the number of arguments of each probe that the page lists."""
    table = PAGE.read_text().split("## Probes", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, re.M)
    return {name: len(re.split(r", (?![^(]*\))", re.sub(r"0: callers, 1", "0 or 1", text))) for name, text in rows}


def built(library: pathlib.Path) -> dict[str, int]:
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"Provider: uroce\s+Name: (\w+)\s+Location:[^\n]*\n\s+Arguments: ([^\n]*)", notes)
    return {name: len(arguments.split()) for name, arguments in found}


def probes__of_the_build__match_the_documentation(case: Case) -> None:
    library = case.build / "lib" / "abi" / LIBRARY
    if not library.exists():
        raise Skip(f"{LIBRARY} is not built: the headers of libibverbs are missing")
    if shutil.which("readelf") is None:
        raise Skip("readelf is missing: install binutils")
    if not pathlib.Path("/usr/include/sys/sdt.h").exists() and \
            not list(pathlib.Path("/usr/include").glob("*/sys/sdt.h")):
        raise Skip("built without probes: install systemtap-sdt-dev")
    equal(built(library), documented())


def dpdk__telemetry_yes__opens_the_telemetry_socket(case: Case) -> None:
    case.plugin()
    environment = case.environment(UROCE_DEVICES="t0:net_ring0;ip=10.9.0.1/24;telemetry=yes")
    if shutil.which("ibv_rc_pingpong") is None:
        raise Skip("ibv_rc_pingpong is missing: install ibverbs-utils")
    program = subprocess.Popen(["ibv_rc_pingpong", "-g", "1"], env=environment, stdout=subprocess.DEVNULL)
    where = pathlib.Path("/run/dpdk" if os.geteuid() == 0 else case.scratch / "dpdk")
    path = where / f"uroce-{program.pid}" / "dpdk_telemetry.v2"
    try:
        until = time.monotonic() + patience.seconds(30)
        while not path.exists() and program.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.connect(str(path))
            assert b"version" in client.recv(1000)
    finally:
        program.kill()
        program.wait()
        shutil.rmtree(path.parent, ignore_errors=True)


CASES = named_cases(globals())


if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
