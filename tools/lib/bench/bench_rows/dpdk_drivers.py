# SPDX-License-Identifier: BSD-3-Clause
"""P13: uroce over virtual devices of DPDK, compared with testpmd on the same devices. One testpmd process sends frames, and
another receives them. The frames are as long as those of uroce."""
import os
import re
import shutil
import statistics
import subprocess

import figures
import pairs
from bench_rows import limits
from bench_rows.figure import Bench, Figure, NotRun, by_turns

SECONDS = 120
MTU = 4200
RETH = 16   # bytes of the header of a WRITE
SAMPLES = 3  # rates to use at least; testpmd prints the rate of each second
AIM_RATIO = 0.8
# Name, device of the server, device of the client. There is no row for DPDK's memif: its client does not connect again if both
# sides start at the same moment, as those of perftest do.
DEVICES = (
    ("net_vhost and net_virtio_user", "net_vhost0,iface={where}/link.sock,client=1", "net_virtio_user0,path={where}/link.sock,server=1"),
)
RECEIVED = re.compile(r"^\s*Rx-pps:\s*(\d+)", re.M)


class Testpmd(pairs.Pair):
    """testpmd on both sides: the server receives, and the client sends frames of @octets bytes."""

    def __init__(self, bench: Bench, octets: int, devices: tuple[str, str]):
        super().__init__(bench.uroce, bare=True)
        self.octets, self.devices = octets, dict(zip(("server", "client"), devices))

    def launch(self, role: str, *options: str) -> subprocess.Popen:
        device = self.devices[role].format(where=self.where)
        processors = sorted(os.sched_getaffinity(0))
        worker = processors[0 if role == "server" else -1]  # each side has a processor of its own, if there are two
        process, _ = self.start(role, ["stdbuf", "-oL", "dpdk-testpmd", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry",
                                       "--lcores", f"0@{processors[0]},1@{worker}", f"--vdev={device}", "--", "--total-num-mbufs=8192", "--mbuf-size=9216",
                                       "--auto-start", "--stats-period=1", *options])
        return process

    def rate(self) -> float:
        """Returns the frames per second: the median of some seconds."""
        receiver = self.launch("server", "--forward-mode=rxonly")
        if not pairs.wait_for(lambda: "Port statistics" in self.said("server") or receiver.poll() is not None, 30):
            raise NotRun("testpmd does not start")
        self.launch("client", "--forward-mode=txonly", f"--txpkts={self.octets}")
        if not pairs.wait_for(lambda: len(self.received()) >= SAMPLES + 1, SAMPLES + 30):
            raise NotRun(f"testpmd received nothing: {self.said('client').splitlines()[-1:]}")
        return statistics.median(self.received()[1:])

    def received(self) -> list[int]:
        """Returns the rates of the seconds in which frames arrived."""
        return [int(rate) for rate in RECEIVED.findall(self.said("server")) if rate != "0"]


class Uroce(pairs.Pair):
    """uroce on both sides."""

    def __init__(self, bench: Bench, devices: tuple[str, str]):
        super().__init__(bench.uroce)
        self.devices = dict(zip(("server", "client"), devices))

    def configuration(self, role: str) -> str:
        return f"{self.device}:{self.devices[role].format(where=self.where)};ip={pairs.ADDRESSES[role]};mtu={MTU}"


def alone(bench: Bench, octets: int, devices: tuple[str, str]) -> float:
    if shutil.which("dpdk-testpmd") is None:
        raise NotRun("dpdk-testpmd is not installed (Debian: dpdk-dev)")
    with Testpmd(bench, octets + limits.HEADERS + RETH, devices) as pair:
        return pair.rate() / 1e6


def messages(bench: Bench, octets: int, devices: tuple[str, str]) -> float:
    with Uroce(bench, devices) as pair:
        run = pair.run(["ib_write_bw", "-F", "-x", "1", "-m", "4096", "-s", str(octets), "-n", str(bench.count(200_000))], SECONDS)
        if run.problem():
            raise NotRun(run.problem())
        return figures.bandwidths(run.client.text)[0].rate


def rows(bench: Bench) -> list[Figure]:
    turns = []
    for name, *devices in DEVICES:
        for octets in (64, 4096):
            beside = Figure(f"testpmd over {name}, frames with {octets} bytes of payload", "M/s")
            turns += [(beside, lambda octets=octets, devices=devices: alone(bench, octets, devices)),
                      (Figure(f"ib_write_bw -s {octets} over {name}", "M/s", aim_ratio=AIM_RATIO if octets == 4096 else None, beside=beside),
                       lambda octets=octets, devices=devices: messages(bench, octets, devices))]
    by_turns(bench.runs, *turns)
    return [figure for figure, _ in turns if figure.beside is not None]
