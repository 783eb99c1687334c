# SPDX-License-Identifier: BSD-3-Clause
"""Reads the tables that verbs programs print."""
import re
from dataclasses import dataclass

# perftest: size, iterations, then the columns of the test
BANDWIDTH = re.compile(r"^[ \t]*(\d+)[ \t]+(\d+)[ \t]+([\d.]+|inf)[ \t]+([\d.]+)[ \t]+([\d.]+)[ \t]*$",
                       re.M)
LATENCY = re.compile(r"^[ \t]*(\d+)[ \t]+(\d+)((?:[ \t]+[\d.]+){7})[ \t]*$", re.M)
# with -D: size, iterations, t_avg, tps
LATENCY_TIMED = re.compile(r"^[ \t]*(\d+)[ \t]+(\d+)[ \t]+([\d.]+)[ \t]+([\d.]+)[ \t]*$", re.M)
PINGPONG = re.compile(r"^(\d+) iters in ([\d.]+) seconds = ([\d.]+) usec/iter", re.M)


# ucx_perftest: iterations; percentile, average and overall time; average and overall bandwidth; average and overall rate. With
# several threads, ucx_perftest prints only the overall figures.
UCX = re.compile(r"^(?:Final:)?[ \t]+(\d+)((?:[ \t]+[\d.]+){7}|(?:[ \t]+[\d.]+){3})[ \t]*$", re.M)


@dataclass
class Bandwidth:
    size: int
    iterations: int
    average: float  # MiB/s
    rate: float     # million messages a second


@dataclass
class Latency:
    size: int
    iterations: int
    typical: float  # half of the round trip: the median, or the average of a run with -D, us
    average: float
    p99: float
    p999: float


def bandwidths(text: str) -> list[Bandwidth]:
    return [Bandwidth(int(m[1]), int(m[2]), float(m[4]), float(m[5]))
            for m in BANDWIDTH.finditer(text)]


def latencies(text: str) -> list[Latency]:
    rows = []
    for m in LATENCY.finditer(text):
        _, _, typical, average, _, p99, p999 = (float(v) for v in m[3].split())
        rows.append(Latency(int(m[1]), int(m[2]), typical, average, p99, p999))
    rows += [Latency(int(m[1]), int(m[2]), float(m[3]), float(m[3]), 0.0, 0.0)
             for m in LATENCY_TIMED.finditer(text)]
    return rows


def ucx_columns(text: str) -> list[float]:
    """Returns the columns of the last line: median, average and overall us; average and overall MB/s; average and overall
    messages/s. With several threads, returns only the overall us, MB/s and messages/s."""
    lines = UCX.findall(text)
    return [float(value) for value in lines[-1][1].split()] if lines else []


def ucx(text: str) -> tuple[int, float] | None:
    """Returns (iterations, microseconds for an iteration) of the last line, or None."""
    values = ucx_columns(text)
    if not values:
        return None
    return int(UCX.findall(text)[-1][0]), values[2 if len(values) == 7 else 0]


def pingpong(text: str) -> float | None:
    """Returns the microseconds for an iteration, or None."""
    m = PINGPONG.search(text)
    return float(m[3]) if m else None
