# SPDX-License-Identifier: BSD-3-Clause
"""What one core of this machine can do at all: the programs of tests/bench, as rows of a table."""
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
from dataclasses import dataclass, field

SECONDS = 120
FUSED = "copy and CRC, 4096 octets, in cache"
MEMIF = "net_memif{n},role={role},socket={where}/link.sock"


@dataclass
class Figure:
    """One row; values of all runs, or why there are none."""
    name: str
    unit: str
    values: list[float] = field(default_factory=list)
    why: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values) if self.values else 0.0


class NotRun(Exception):
    """Why a row has no figure."""


def said(build: pathlib.Path, program: str, *arguments: str) -> str:
    path = build / "tests" / "bench" / program
    if not path.exists():
        raise NotRun(f"tests/bench/{program} is not built")
    plugin = build / "lib" / "io" / "dpdk" / "liburoce-dpdk.so"
    try:
        run = subprocess.run([str(path), *arguments], capture_output=True, text=True, check=False,
                             timeout=SECONDS, env={**os.environ, "UROCE_DPDK_PLUGIN": str(plugin)})
    except subprocess.TimeoutExpired as error:
        raise NotRun(f"{program} was not done after {SECONDS} s") from error
    if run.returncode:
        raise NotRun((run.stderr or run.stdout or "no word why").strip().splitlines()[-1])
    return run.stdout


def memcpy(build: pathlib.Path, which: str) -> float:
    return float(re.search(rf"^{which} ([\d.]+)$", said(build, "bench_memcpy"), re.M)[1])


def crc(build: pathlib.Path, kind: str) -> float:
    """The fastest method's figure for the longest length: the last of its line."""
    lines = re.findall(rf"^\w+ +{kind} (.*)$", said(build, "bench_crc32"), re.M)
    return max(float(line.split()[-1]) for line in lines)


def port(build: pathlib.Path, key: str, length: int, *kind: str) -> float:
    with tempfile.TemporaryDirectory(prefix="uroce-bench-") as where:
        links = [MEMIF.format(n=n, role=role, where=where)
                 for n, role in enumerate(("server", "client"))]
        return json.loads(said(build, "port_rate", *links, str(length), "1", *kind))[key]


def figures(build: pathlib.Path, runs: int) -> list[Figure]:
    rows = []
    for name, unit, measure in (
            ("memcpy, 4096 octets, in cache", "GB/s", lambda: memcpy(build, "cache")),
            ("memcpy, 4096 octets, through memory", "GB/s", lambda: memcpy(build, "memory")),
            ("CRC, 4096 octets, in cache", "GB/s", lambda: crc(build, "sum")),
            (FUSED, "GB/s", lambda: crc(build, "copy")),
            ("memif alone, 64-octet frames", "M/s",
             lambda: port(build, "frames_per_s", 64) / 1e6),
            ("memif alone, 4096-octet frames with ICRC", "GB/s",
             lambda: port(build, "gbit_per_s", 4096, "icrc") / 8),
            ("memif alone, 64 octets, half a round trip", "us",
             lambda: port(build, "round_trip_us", 64, "pingpong") / 2)):
        row = Figure(name, unit)
        try:
            row.values = [measure() for _ in range(runs)]
        except (NotRun, ValueError, KeyError, TypeError) as error:
            row.why = str(error)
        rows.append(row)
    return rows
