# SPDX-License-Identifier: BSD-3-Clause
"""Measures limits of this machine with programs of tests/bench."""
import json
import os
import pathlib
import re
import subprocess
import tempfile

from bench_rows.figure import Bench, Figure, NotRun, by_turns

SECONDS = 120
# Argument of udp_trips: bytes after the UDP header of an 8-byte SEND and of an ACK. Both packets are sent together.
SEND_AND_ACK = "24+20"
MEMIF = "net_memif{n},role={role},socket={where}/link.sock"
HEADERS = 58  # bytes of the headers and the ICRC of a frame
# Connects two interfaces in a new network namespace, and then runs its arguments as a command. unshare makes the namespace.
BETWEEN_INTERFACES = """
set -e
ip link add link0 type veth peer name link1
for n in 0 1; do
    echo 1 >/proc/sys/net/ipv6/conf/link$n/disable_ipv6
    ip link set link$n mtu {mtu} up
done
exec "$0" "$@"
"""


def said(build: pathlib.Path, program: str, *arguments: str, prefix: tuple[str, ...] = (),
         **environment: str) -> str:
    """Returns the output of a program of tests/bench. @prefix is a command that starts the program."""
    path = build / "tests" / "bench" / program
    if not path.exists():
        raise NotRun(f"tests/bench/{program} is not built")
    settings = {"UROCE_DPDK_PLUGIN": str(build / "lib" / "io" / "dpdk" / "liburoce-dpdk.so"),
                "UROCE_MEMIF_PLUGIN": str(build / "lib" / "io" / "memif" / "liburoce-memif.so"),
                "UROCE_PACKET_PLUGIN": str(build / "lib" / "io" / "packet" / "liburoce-packet.so"),
                **environment}
    try:
        run = subprocess.run([*prefix, str(path), *arguments], capture_output=True, text=True,
                             check=False, timeout=SECONDS, env={**os.environ, **settings})
    except subprocess.TimeoutExpired as error:
        raise NotRun(f"{program} did not end within {SECONDS} s") from error
    if run.returncode:
        raise NotRun((run.stderr or run.stdout or "no word why").strip().splitlines()[-1])
    return run.stdout


def fields(bench: Bench, program: str, *arguments: str, prefix: tuple[str, ...] = ()) -> dict:
    """Returns the fields of the line of JSON that the program prints."""
    return json.loads(said(bench.build, program, *arguments, prefix=prefix).splitlines()[-1])


def memcpy(bench: Bench, which: str) -> float:
    return float(re.search(rf"^{which} ([\d.]+)$", said(bench.build, "bench_memcpy"), re.M)[1])


def crc(bench: Bench, kind: str) -> float:
    """Returns the rate of the fastest method for the longest input: the last number of its line."""
    lines = re.findall(rf"^\w+ +{kind} (.*)$", said(bench.build, "bench_crc32"), re.M)
    return max(float(line.split()[-1]) for line in lines)


def port(bench: Bench, key: str, length: int, *kind: str) -> float:
    with tempfile.TemporaryDirectory(prefix="uroce-bench-") as where:
        links = [MEMIF.format(n=n, role=role, where=where)
                 for n, role in enumerate(("server", "client"))]
        return fields(bench, "port_rate", *links, str(length), "1", *kind)[key]


def interfaces(bench: Bench, driver: str, mtu: int, payload: int) -> float:
    """Returns the GB/s of payload between two interfaces, in frames with @payload bytes."""
    octets = payload + HEADERS
    found = fields(bench, "port_rate", *(f"net_{driver}{n},iface=link{n}" for n in range(2)), str(octets), "1", "icrc",
                   prefix=("unshare", "--net", "sh", "-c", BETWEEN_INTERFACES.format(mtu=mtu)))
    return found["gbit_per_s"] / 8 * payload / octets


def rows(bench: Bench) -> list[Figure]:
    made = [(Figure(name, unit), measure) for name, unit, measure in (
        ("memcpy, 4096 bytes, in cache", "GB/s", lambda: memcpy(bench, "cache")),
        ("memcpy, 4096 bytes, through memory", "GB/s", lambda: memcpy(bench, "memory")),
        ("CRC, 4096 bytes, in cache", "GB/s", lambda: crc(bench, "sum")),
        ("copy and CRC, 4096 bytes, in cache", "GB/s", lambda: crc(bench, "copy")),
        ("memif alone, 4096-octet frames with ICRC", "GB/s",
         lambda: port(bench, "gbit_per_s", 4096, "icrc") / 8))]
    by_turns(bench.runs, *made)
    return [row for row, _ in made]
