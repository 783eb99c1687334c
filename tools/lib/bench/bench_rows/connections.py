# SPDX-License-Identifier: BSD-3-Clause
"""Connections per second, measured with cmtime: uroce on this machine, then uroce and Linux rxe in turn in the same two
virtual machines."""
import contextlib
import os
import pathlib
import re
import sys
import tempfile

import pairs
from bench_rows.figure import Bench, Figure, NotRun

ROOT = pathlib.Path(__file__).resolve().parents[4]
sys.path.insert(0, str(ROOT / "tests" / "interop"))
import sides  # noqa: E402 pylint: disable=wrong-import-position

COUNT = 200
KERNEL = "6.1"
SECONDS = 60
LISTENS = 10
THERE = "/tmp/uroce"  # directory of uroce in a guest
STEP = re.compile(r"^(connect|disconnect) *: +([\d.]+) ", re.M)
SERVE, ASK = "cmtime -b {own}", f"cmtime -c {COUNT} -s {{peer}}"
UNTIL = "n=0; until {listens}; do n=$((n + 1)); [ $n -lt 200 ] || exit 1; usleep 20000; done"
# eth0 keeps its addresses with rxe and with uroce. rxe holds the UDP port until its module is removed.
TO_RXE = "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0"
TO_UROCE = "rdma link delete rxe0 && rmmod rdma_rxe"
RXE_LISTENS = "rdma resource show cm_id | grep -q LISTEN"
# gso=no, because the interface of the guest has no checksum offload. The kernel reports this only when the first burst with
# segmentation offload is lost.
WITH_UROCE = (f"export LD_LIBRARY_PATH={THERE} LD_PRELOAD={THERE}/libibverbs.so.1 "
              "UROCE_DEVICES='uroce0:udp,gso=no,ip={own}'; ")
UROCE_LISTENS = "grep -q :12B7 /proc/net/udp"


def rates(text: str) -> tuple[float, float]:
    """Returns (connections established per second, connections closed per second)."""
    spent = {step: float(ms) / 1000 for step, ms in STEP.findall(text)}
    if len(spent) != 2:
        raise NotRun((text.strip().splitlines() or ["cmtime said nothing"])[-1])
    return COUNT / spent["connect"], COUNT / spent["disconnect"]


def both(where: str) -> list[Figure]:
    return [Figure(f"{where}, connecting", "1/s"), Figure(f"{where}, disconnecting", "1/s")]


def add(figures: list[Figure], text: str) -> None:
    for figure, rate in zip(figures, rates(text)):
        figure.values.append(rate)


def here(uroce: pathlib.Path, runs: int) -> list[Figure]:
    figures = both("uroce, two processes, memif")
    try:
        for _ in range(runs):
            with pairs.Pair(uroce) as pair:
                server, _ = pair.start("server", SERVE.format(own="10.0.0.1").split())
                link = f"{pair.where}/link.sock"
                pairs.wait_for(lambda: server.poll() is not None or
                               link in pathlib.Path("/proc/net/unix").read_text(), LISTENS)
                client, asked = pair.start("client", ASK.format(peer="10.0.0.1").split())
                pair.finish("client", client, asked, SECONDS)
                add(figures, asked.text)
    except NotRun as error:
        for figure in figures:
            figure.why = str(error)
    return figures


def libraries(build: pathlib.Path) -> list[pathlib.Path]:
    """Returns the libraries of uroce, and the libraries that uroce needs and a guest does not have."""
    library = build / "lib" / "abi" / "libibverbs.so.1"
    needed = re.findall(r"=> (/\S+)", sides.must("ldd", library))
    return [library, build / "lib" / "io" / "udp" / "liburoce-udp.so",
            *(pathlib.Path(path) for path in needed if "/libc.so" not in path)]


@contextlib.contextmanager
def guests(build: pathlib.Path):
    """Starts the guests (server, client) with rxe and with the libraries of uroce."""
    if os.geteuid() != 0:
        raise sides.Unavailable("not root: cannot make a network namespace")
    sides.must(sides.RXE_PEER.parent / "build-image", "-k", KERNEL)
    namespace = sides.Namespace(f"uroce-bench-{os.getpid()}")
    made = []
    with tempfile.TemporaryDirectory(prefix="uroce-bench-") as scratch:
        os.environ["UROCE_RXE_DIR"] = scratch
        try:
            for number in (3, 2):
                made.append(sides.Rxe(f"g{number}", namespace, KERNEL, None, number, ("-b", "br0")))
                made[-1].run(f"mkdir {THERE}")
                for path in libraries(build):
                    sides.must(sides.RXE_PEER, "put", "-n", made[-1].name, path.resolve(),
                               f"{THERE}/{path.name}")
            yield made
        finally:
            for number in (3, 2):
                sides.must(sides.RXE_PEER, "stop", "-n", f"g{number}")
            namespace.remove()


def once(server: sides.Rxe, client: sides.Rxe, prepare: str, listens: str) -> str:
    """Returns the output of the client's cmtime. On each side, the shell commands @prepare run first."""
    own, peer = (f"10.77.0.{side.number}" for side in (client, server))
    served = prepare.format(own=peer) + SERVE.format(own=peer)
    server.run(f"({served}) >/dev/null 2>&1 & {UNTIL.format(listens=listens)}")
    try:
        return client.run(prepare.format(own=own) + ASK.format(peer=peer) + " 2>&1")
    finally:
        server.run("killall cmtime; while pidof cmtime >/dev/null; do usleep 20000; done")


def in_guests(build: pathlib.Path, runs: int) -> list[Figure]:
    rxe = both(f"Linux rxe {KERNEL}, in virtual machines")
    uroce = both("uroce over udp, in the same")
    try:
        with guests(build) as (server, client):
            for _ in range(runs):
                add(rxe, once(server, client, "", RXE_LISTENS))
                for side in (server, client):
                    side.run(TO_UROCE)
                add(uroce, once(server, client, WITH_UROCE, UROCE_LISTENS))
                for row, peer in zip(uroce, rxe):
                    row.pair_with(peer)
                for side in (server, client):
                    side.run(TO_RXE)
    except (sides.Unavailable, NotRun) as error:
        for figure in rxe + uroce:
            figure.why = str(error).splitlines()[-1]
    return rxe + uroce


def rows(bench: Bench) -> list[Figure]:
    rxe, ours = (found := in_guests(bench.build, bench.runs))[:2], found[2:]
    for row, peer in zip(ours, rxe):
        row.beside = peer
    return here(bench.uroce, bench.runs) + rxe + ours
