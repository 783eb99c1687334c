# SPDX-License-Identifier: BSD-3-Clause
"""P13: uroce over virtual devices of DPDK, compared with testpmd on the same devices. One testpmd process sends frames, and
another receives them. The frames are as long as those of uroce. testpmd reads and writes no payload, but uroce copies each byte
and computes its CRC. The rows of 4 KiB therefore have a second limit: a core that only copies and computes the CRC."""
import os
import re
import shutil
import statistics
import subprocess
import threading
from dataclasses import dataclass

import figures
import pairs
import veths
from bench_rows import limits
from bench_rows.figure import Bench, Figure, NotRun, by_turns
from bench_rows.messages import ring_rate

SECONDS = 120
MTU = 4200  # MTU of the devices that can carry 4200 bytes
SMALL, LARGE = 64, 4096
RETH = 16   # bytes of the header of a WRITE
SAMPLES = 3  # number of rates that testpmd prints, each over one second
NOISE = 1000  # frames per second; the kernel sends fewer frames of its own
AIM_RATIO = 0.8
AIM_RING = 5  # M/s
RECEIVED = re.compile(r"^\s*Rx-pps:\s*(\d+)", re.M)
TESTPMD = ("stdbuf", "-oL", "dpdk-testpmd", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry")
TESTPMD_OPTIONS = ("--total-num-mbufs=8192", "--mbuf-size=9216", "--auto-start", "--stats-period=1")


class Sockets(pairs.Pair):
    """Two processes whose devices have a socket in {where}."""


class Wire(veths.Veths):
    """Two namespaces with a veth between them."""

    def __enter__(self) -> "Wire":
        if veths.why_not():
            raise NotRun(veths.why_not())
        try:
            return super().__enter__()
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise NotRun(f"no veth: {error.stderr}") from error


class Bridge(pairs.Pair):
    """A namespace with a bridge. Each side creates a tap device, which becomes a port of the bridge."""

    @property
    def name(self) -> str:
        return self.where.name

    def __enter__(self) -> "Bridge":
        if veths.why_not():
            raise NotRun(veths.why_not())
        super().__enter__()
        self.drop = []
        veths.ip("netns", "add", self.name)
        try:
            veths.ip("-n", self.name, "link", "add", "bridge0", "type", "bridge")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise NotRun(f"no bridge: {error.stderr}") from error
        for interface in ("bridge0", "lo"):
            veths.ip("-n", self.name, "link", "set", interface, "up")
        return self

    def __exit__(self, *why: object) -> None:
        super().__exit__(*why)
        subprocess.run(["ip", "netns", "del", self.name], check=False)

    def command(self, role: str, program: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name, *super().command(role, program)]

    def inside(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run(["ip", "netns", "exec", self.name, *words], check=False, capture_output=True, text=True)

    def listening(self, port: int) -> bool:
        return any(f":{port:04X} " in line and " 0A " in line
                   for line in self.inside("cat", "/proc/net/tcp", "/proc/net/tcp6").stdout.splitlines())

    def start(self, role: str, program: list[str]) -> tuple[subprocess.Popen, pairs.Output]:
        process, output = super().start(role, program)
        port = ("ip", "link", "set", role, "master", "bridge0", "up")
        # A thread, because ib_write_bw opens its device only after its peer has connected.
        threading.Thread(target=pairs.wait_for, args=(lambda: self.inside(*port).returncode == 0 or process.poll() is not None, SECONDS),
                         daemon=True).start()
        return process, output


@dataclass
class Device:
    """A kind of device with its two ends. In a text, {where} is a directory, and {role} is server or client."""
    name: str
    place: type[pairs.Pair]
    server: str
    client: str
    of_dpdk: str = ""  # "dpdk:" where uroce has a driver of the same name that is not DPDK's
    mtu: int = 1024    # the largest IB MTU that the driver can carry

    def end(self, pair: pairs.Pair, role: str) -> str:
        return getattr(self, role).format(where=pair.where, role=role)

    def packets(self, octets: int) -> int:
        return max(1, octets // self.mtu)


AF_PACKET = "net_af_packet0,iface=link0"
# There is no row for DPDK's memif. Its client connects only once, so the server must open its device first. ib_write_bw does that
# only with -R, and then the server sometimes rejects the connection (RDMA_CM_EVENT_REJECTED, status 8).
DEVICES = (
    Device("net_vhost and net_virtio_user", Sockets, "net_vhost0,iface={where}/link.sock,client=1",
           "net_virtio_user0,path={where}/link.sock,server=1", mtu=4096),
    Device("DPDK's net_af_packet", Wire, AF_PACKET, AF_PACKET, "dpdk:"),
    Device("net_tap and a bridge", Bridge, "net_tap0,iface={role}", "net_tap0,iface={role}"),
)


def testpmd(pair: pairs.Pair, role: str, device: str, *options: str) -> subprocess.Popen:
    """Starts testpmd on one side. Each side has a processor of its own, if there are two."""
    if shutil.which("dpdk-testpmd") is None:
        raise NotRun("dpdk-testpmd is not installed (Debian: dpdk-dev)")
    processors = sorted(os.sched_getaffinity(0))
    worker = processors[0 if role == "server" else -1]
    process, _ = pair.start(role, [*TESTPMD, "--lcores", f"0@{processors[0]},1@{worker}", f"--vdev={device}", "--", *TESTPMD_OPTIONS, *options])
    return process


def received(pair: pairs.Pair) -> list[int]:
    """Returns the rates of the seconds in which frames arrived."""
    return [int(rate) for rate in RECEIVED.findall(pair.said("server")) if int(rate) > NOISE]


def median_rate(pair: pairs.Pair, sender: str) -> float:
    """Returns the frames per second that the server receives: the median of some seconds."""
    if not pairs.wait_for(lambda: len(received(pair)) >= SAMPLES + 1, SAMPLES + 30):
        raise NotRun(f"testpmd received nothing: {pair.said(sender).splitlines()[-1:]}")
    return statistics.median(received(pair)[1:])


def alone(bench: Bench, octets: int, device: Device) -> float:
    """Returns the millions of messages a second that testpmd can carry as frames."""
    frame = octets // device.packets(octets) + limits.HEADERS + RETH
    with device.place(bench.uroce, bare=True) as pair:
        receiver = testpmd(pair, "server", device.end(pair, "server"), "--forward-mode=rxonly")
        if not pairs.wait_for(lambda: "Port statistics" in pair.said("server") or receiver.poll() is not None, 30):
            raise NotRun("testpmd does not start")
        testpmd(pair, "client", device.end(pair, "client"), "--forward-mode=txonly", f"--txpkts={frame}")
        return median_rate(pair, "client") / device.packets(octets) / 1e6


def messages(bench: Bench, octets: int, device: Device) -> float:
    with device.place(bench.uroce) as pair:
        def configuration(role: str) -> str:
            address = pairs.ADDRESSES[role].replace("10.0.", "10.1.")  # the kernel has 10.0.0.1 and 10.0.0.2 on a veth
            return f"uroce0:{device.of_dpdk}{device.end(pair, role)};ip={address}" + (f";mtu={MTU}" if device.mtu == LARGE else "")
        pair.configuration = configuration
        run = pair.run(["ib_write_bw", "-F", "-x", "1", "-m", str(device.mtu), "-s", str(octets), "-n", str(bench.count(200_000))], SECONDS)
        if run.problem():
            raise NotRun(run.problem())
        return figures.bandwidths(run.client.text)[0].rate


def copies(bench: Bench) -> float:
    """Returns the millions of messages of 4 KiB a second that one core can copy while it computes their CRC."""
    return limits.crc(bench, "copy") * 1e3 / LARGE


def looped(bench: Bench) -> float:
    """Returns the millions of frames a second that testpmd forwards on a ring that returns them."""
    with Sockets(bench.uroce, bare=True) as pair:
        testpmd(pair, "server", "net_ring0", "--forward-mode=io", "--tx-first")
        return median_rate(pair, "server") / 1e6


def ring_rows(bench: Bench) -> list[Figure]:
    """testpmd passes pointers through net_ring, but uroce writes each frame. Packets between two queue pairs of an engine do not
    use the link. Therefore ring_rate measures two engines with its own rings, not with net_ring."""
    beside = Figure("testpmd over net_ring, a frame that is not read", "M/s")
    frame = SMALL + limits.HEADERS + RETH
    port = Figure("net_ring without engines, frames with 64 bytes of payload", "M/s", beside=beside)
    engines = Figure("two engines and a ring, WRITE 64", "M/s", aim=AIM_RING, beside=beside)
    by_turns(bench.runs, (beside, lambda: looped(bench)),
             (port, lambda: limits.fields(bench, "port_rate", "net_ring0", "self", str(frame), "1", "icrc")["frames_per_s"] / 1e6),
             (engines, lambda: ring_rate(bench, "rate", "write")))
    return [port, engines]


def rows(bench: Bench) -> list[Figure]:
    copied = Figure("copy and CRC of 4096 bytes in the cache of one core", "M/s")
    turns = [(copied, lambda: copies(bench))]
    found = []
    for device in DEVICES:
        for octets in (SMALL, LARGE):
            count = device.packets(octets)
            what = f"frames with {octets} bytes" if count == 1 else f"{count} frames with {device.mtu} bytes each"
            beside = Figure(f"testpmd over {device.name}, {what} of payload", "M/s")
            row = Figure(f"ib_write_bw -s {octets} over {device.name}", "M/s", beside=beside)
            if octets == LARGE:
                row.aim_ratio, row.rivals = AIM_RATIO, [copied]
            turns += [(beside, lambda octets=octets, device=device: alone(bench, octets, device)),
                      (row, lambda octets=octets, device=device: messages(bench, octets, device))]
            found.append(row)
    by_turns(bench.runs, *turns)
    of_copies = [Figure(row.name, "M/s", beside=copied, values=row.values, pairs=row.pairs, why=row.why) for row in found if row.rivals]
    return [*found, *of_copies, *ring_rows(bench)]
