# SPDX-License-Identifier: BSD-3-Clause
"""P5: uroce compared with the kernel's TCP, which iperf3 and UCX use. First, the programs run on a pair of interfaces between two
namespaces. Then, without namespaces, memif is compared with TCP over loopback."""
import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import figures
import pairs
import veths
from bench_rows import limits
from bench_rows.figure import Bench, Figure, NotRun, by_turns

MIB = 1048576
SECONDS = 120
MTU, XDP_MTU = 4500, 2200  # the largest MTU of af_xdp is 3400, so the IB MTU there is 2048
ALONE = {"af_packet": (MTU, 4096), "af_xdp": (XDP_MTU, 2048)}  # links measured without engines: MTU and payload of a frame


@dataclass
class Place:
    """The place where the two programs run."""
    name: str
    make: Callable[..., contextlib.AbstractContextManager[pairs.Pair]]
    interface: str  # name of the network interface that UCX uses
    links: tuple[tuple[str, dict], ...]  # links of uroce: name of the link, and arguments of make()


PLACES = (
    Place("interfaces", veths.Veths, "link0",
          (("af_packet", {"device_text": veths.OWN_AF_PACKET, "mtu": MTU}),
           ("af_xdp", {"device_text": veths.OWN_AF_XDP, "mtu": XDP_MTU, "aside": True}),
           ("UDP", {"device_text": veths.UDP, "mtu": MTU}))),
    Place("this machine", pairs.Pair, "lo", (("memif", {"settings": ";mtu=4200"}),)),
)


def iperf_gb(text: str) -> float:
    """Returns the rate in GB/s."""
    said = json.loads(text)
    if "error" in said:
        raise NotRun(said["error"])
    return said["end"]["sum_received"]["bits_per_second"] / 8e9


def both(pair: pairs.Pair, server: list[str], client: list[str]) -> str:
    """Runs both programs and returns the output of the client. Adds the server's port to @client."""
    for program in (server, client):
        if shutil.which(program[0]) is None:
            raise NotRun(f"{program[0]} is not installed")
    port = pairs.free_port()
    served, serving = pair.serve(server, port)
    process, output = pair.start("client", [*client, "-p", str(port)])
    pair.finish("client", process, output, SECONDS)
    pair.finish("server", served, serving, 2)
    if output.status != 0:
        raise NotRun(f"{client[0]} {pairs.ending(output.status)}: "
                     f"{(output.text.strip().splitlines() or ['no output'])[-1]}")
    return output.text


def iperf(bench: Bench, place: Place) -> float:
    with place.make(bench.uroce, bare=True, **bare_mtu(place)) as pair:
        return iperf_gb(both(pair, ["iperf3", "-s", "-1"],
                             ["iperf3", "-c", pair.meeting, "-J", "-l", "64K", "-t",
                              "1" if bench.quick else "3"]))


def bare_mtu(place: Place) -> dict:
    return {"mtu": MTU} if place.make is veths.Veths else {}


def ucx(bench: Bench, place: Place, kind: str, size: int, count: int) -> list[float]:
    """Returns the columns of the last line of ucx_perftest."""
    program = ["env", "UCX_TLS=tcp", f"UCX_NET_DEVICES={place.interface}", "ucx_perftest", "-f"]
    if shutil.which("ucx_perftest") is None:
        raise NotRun("ucx_perftest (ucx-utils) is not installed")
    with place.make(bench.uroce, bare=True, **bare_mtu(place)) as pair:
        return figures.ucx_columns(both(pair, program, [
            *program, pair.meeting, "-t", kind, "-s", str(size), "-n", str(bench.count(count))]))


def perftest(bench: Bench, place: Place, settings: dict, *program: str) -> str:
    with place.make(bench.uroce, **settings) as pair:
        run = pair.run([program[0], "-F", "-x", "1", *program[1:]], SECONDS)
        if run.problem():
            raise NotRun(run.problem())
        return run.client.text


def gigabytes(bench: Bench, place: Place, settings: dict) -> float:
    text = perftest(bench, place, settings, "ib_write_bw", "-s", "65536", "-n",
                    str(bench.count(10_000)))
    return figures.bandwidths(text)[0].average * MIB / 1e9


def messages(bench: Bench, place: Place, settings: dict) -> float:
    text = perftest(bench, place, settings, "ib_send_bw", "-s", "64", "-n",
                    str(bench.count(100_000)))
    return figures.bandwidths(text)[0].rate


def half_trip(bench: Bench, place: Place, settings: dict) -> float:
    text = perftest(bench, place, settings, "ib_send_lat", "-s", "8", "-n",
                    str(bench.count(20_000)))
    return figures.latencies(text)[0].typical


def alone(bench: Bench, place: Place, link: str, mtu: int, payload: int,
          rivals: list[Figure]) -> tuple[Figure, Callable[[], float]]:
    """Returns a figure for the link without engines, and its measurement. Each frame has one packet, so TCP may be faster
    than this figure on a kernel with segmentation offload."""
    return (Figure(f"{place.name}, {link} alone, frames of {payload + limits.HEADERS} bytes", "GB/s", rivals=rivals),
            lambda: limits.interfaces(bench, link, mtu, payload))


def against(bench: Bench, place: Place) -> list[Figure]:
    found = []
    columns = {"median": 0, "MB/s": 4, "messages/s": 6}
    for what, unit, ours, peers in (
            ("64 KiB, ib_write_bw", "GB/s", gigabytes,
             (("TCP, iperf3", lambda: iperf(bench, place)),
              ("UCX tcp, tag_bw", lambda: ucx(bench, place, "tag_bw", 65536, 20_000)
               [columns["MB/s"]] * MIB / 1e9))),
            ("64 bytes, ib_send_bw", "M/s", messages,
             (("UCX tcp, tag_bw", lambda: ucx(bench, place, "tag_bw", 64, 100_000)
               [columns["messages/s"]] / 1e6),)),
            ("8 bytes, ib_send_lat, median", "us", half_trip,
             (("UCX tcp, tag_lat, median", lambda: ucx(bench, place, "tag_lat", 8, 20_000)
               [columns["median"]]),))):
        less = unit == "us"
        beside = [(Figure(name, unit, less=less), measure) for name, measure in peers]
        peers_of = {"rivals": [row for row, _ in beside]}
        rows = [(Figure(f"{place.name}, {link}, {what}", unit, less=less, aim_ratio=1, **peers_of),
                 lambda ours=ours, settings=settings: ours(bench, place, settings))
                for link, settings in place.links]
        if unit == "GB/s":
            rows += [alone(bench, place, link, *ALONE[link], **peers_of) for link, _ in place.links if link in ALONE]
        by_turns(bench.runs, *beside, *rows)
        ran = [row for row, _ in beside if row.values] or [row for row, _ in beside]
        best = (min if less else max)(ran, key=lambda row: row.median)
        for row, _ in rows:
            row.beside = best
        found += [row for row, _ in rows]
    return found


def bare_udp(bench: Bench, length: str) -> float:
    program = [str(bench.build / "tests" / "bench" / "udp_trips"), length, "5555"]
    with veths.Veths(bench.uroce, bare=True, mtu=MTU) as pair:
        served, serving = pair.start("server", program)
        if not pairs.wait_for(lambda: "ready" in pair.said("server"), 10):
            raise NotRun("the server does not start")
        process, output = pair.start("client", [*program, pair.meeting, str(bench.count(20_000))])
        pair.finish("client", process, output, SECONDS)
        pair.finish("server", served, serving, 5)
        return json.loads(output.text)["median_us"]


def beside_udp(bench: Bench, place: Place) -> list[Figure]:
    """Compares the UDP link with plain UDP datagrams of the same lengths. A SEND of 8 bytes has 24 bytes after the UDP header.
    ib_send_lat also waits for the ACK of its SEND. The ACK has 20 bytes. The kernel's time for both packets is the lower
    limit, because plain UDP programs do almost no work of their own."""
    settings = dict(place.links)["UDP"]
    what = f"{place.name}, UDP, 8 bytes, ib_send_lat, median"
    alone = Figure("UDP alone, 24 bytes, median", "us", less=True)
    same = Figure("UDP alone, the same packets, median", "us", less=True)
    row = Figure(what, "us", less=True, beside=alone, rivals=[same], aim_ratio=1.3)
    by_turns(bench.runs, (alone, lambda: bare_udp(bench, "24")), (same, lambda: bare_udp(bench, limits.SEND_AND_ACK)),
             (row, lambda: half_trip(bench, place, settings)))
    return [row, Figure(what, "us", less=True, beside=same, values=row.values, pairs=row.pairs, why=row.why)]


def rows(bench: Bench) -> list[Figure]:
    found = []
    for place in PLACES:
        if place.make is veths.Veths and veths.why_not():
            found.append(Figure(place.name, "", why=veths.why_not()))
            continue
        found += against(bench, place)
        if place.make is veths.Veths:
            found += beside_udp(bench, place)
    return found
