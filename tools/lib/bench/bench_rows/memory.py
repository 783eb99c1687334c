# SPDX-License-Identifier: BSD-3-Clause
"""P9: the memory that a process needs for each queue pair and each memory region."""
import json

from bench_rows import limits
from bench_rows.figure import Bench, Figure, by_turns

DEVICE = "uroce0:net_null0,no-rx=1;ip=10.0.0.1/24"
# Name, arguments of object_memory, aim in bytes
OBJECTS = (("connected RC queue pair that sends nothing, queues and READs 1 deep", ("qp", "1", "2000"), 2048),
           ("connected RC queue pair, queues 128 deep, READs 1 deep", ("qp", "128", "1000"), 32768),
           ("memory region", ("mr", "0", "10000"), 128))


def octets(bench: Bench, arguments: tuple[str, ...]) -> list[float]:
    said = json.loads(limits.said(bench.build, "object_memory", *arguments, UROCE_DEVICES=DEVICE))
    return [said["given"], said["resident"]]


def rows(bench: Bench) -> list[Figure]:
    found = []
    for name, arguments, aim in OBJECTS:
        each = [Figure(f"{name}, allocated", "bytes", less=True, aim=aim),
                Figure(f"{name}, resident", "bytes", less=True)]
        by_turns(1, (each, lambda arguments=arguments: octets(bench, arguments)))
        found += each
    return found
