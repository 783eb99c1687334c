# SPDX-License-Identifier: BSD-3-Clause
"""P4: compares uroce with Linux rxe. Both run in turn in one virtual machine, over one pair of interfaces, first with an older
kernel and then with a newer kernel. In the newer kernel, a packet socket puts several packets into one frame of its ring, and rxe
processes packets in a workqueue."""
import contextlib
import json
import os
import pathlib
import re
import tempfile
from dataclasses import dataclass

import figures
from bench_rows import connections, limits
from bench_rows.connections import THERE, sides
from bench_rows.figure import Bench, Figure, NotRun, by_turns

KERNELS = ("6.1", "6.12")
MIB = 1048576
SECONDS = 60
RUNS = 5  # several, because the speed of a virtual machine without KVM changes from run to run
XDP_PROGRAMS = "*/bpf/xdp-dispatcher.o", "*/bpf/xsk_def_xdp_prog*.o"  # libxdp loads them
MTU, XDP_MTU = 4200, 2200  # MTU of the interfaces; XDP_MTU is smaller, because the largest MTU of af_xdp is 3400
IB_MTU = {MTU: 4096, XDP_MTU: 2048}
# rxe works only in the initial network namespace, so both interfaces are in this namespace. Routing rules make the packets
# leave one interface and enter the other. Without the rules, the kernel would deliver the packets locally.
WITH_RXE = """
set -e
modprobe veth
modprobe rdma_rxe
ip() { /bin/ip "$@"; }
ip link add veth0 type veth peer name veth1
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
for n in 0 1; do
    echo 1 >/proc/sys/net/ipv6/conf/veth$n/disable_ipv6
    echo 1 >/proc/sys/net/ipv4/conf/veth$n/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/veth$n/rp_filter
    ip link set veth$n mtu {mtu} up
    ip addr add 10.88.0.$((n + 1))/24 dev veth$n
    ip route add 10.88.0.$((2 - n)) dev veth$n table $((101 + n))
    rdma link add rxe_$n type rxe netdev veth$n
done
if ip rule | grep -q "^0:"; then
    ip rule add pref 10 oif veth0 lookup 101
    ip rule add pref 11 oif veth1 lookup 102
    ip rule add pref 100 lookup local
    ip rule del pref 0
fi
"""
WITHOUT_RXE = """
for link in $(rdma link | sed -n 's,^link \\(rxe[^/]*\\)/.*,\\1,p'); do rdma link delete $link; done
/bin/ip link del veth0 2>/dev/null
! grep -q "^rdma_rxe " /proc/modules || rmmod rdma_rxe
"""
# A second pair of interfaces carries the TCP connections of the programs, because AF_XDP takes all packets of its interface.
WITH_UROCE = """
set -e
modprobe veth
ip() { /bin/ip "$@"; }
for n in 0 1; do ip netns add side$n; ip -n side$n link set lo up; done
for pair in veth meet; do
    ip link add ${pair}0 netns side0 type veth peer name ${pair}1 netns side1
    for n in 0 1; do ip -n side$n link set $pair$n mtu {mtu} up; done
done
for n in 0 1; do
    ip -n side$n addr add 10.88.0.$((n + 1))/24 dev veth$n
    ip -n side$n addr add 10.89.0.$((n + 1))/24 dev meet$n
done
"""
WITHOUT_UROCE = "for n in 0 1; do /bin/ip netns del side$n; done"
UNTIL = "until {listens} grep -q ':4965 .* 0A ' /proc/net/tcp /proc/net/tcp6 || " \
        "! kill -0 $!; do usleep 20000; done"
# 18789 is 0x4965, as /proc/net/tcp prints the port
RUN = """
{server} {tool} {served} -p 18789 >/tmp/server.txt 2>&1 &
""" + UNTIL + """
timeout {seconds} {client} {tool} {asked} -p 18789 {host} 2>/tmp/client.txt
status=$?
n=0
while pidof {name} >/dev/null && [ $n -lt 100 ]; do n=$((n + 1)); usleep 20000; done
killall -9 {name} 2>/dev/null
[ $status = 0 ] || cat /tmp/server.txt /tmp/client.txt
exit $status
"""
TRIPS_COUNT = 5000
TRIES = 3
SEND_AND_ACK_FRAMES = "66+62"
TRIPS = """
rm -f /tmp/server.txt
/bin/ip netns exec side0 {program} {length} 5555 >/tmp/server.txt 2>&1 &
until grep -qs ready /tmp/server.txt || ! kill -0 $!; do usleep 20000; done
/bin/ip netns exec side1 {program} {length} 5555 10.88.0.1 {count}
status=$?
wait
exit $status
"""
# port_rate runs both ends, each in its own process.
WITH_PORTS = """
set -e
modprobe veth
/bin/ip link add veth0 type veth peer name veth1
for n in 0 1; do
    echo 1 >/proc/sys/net/ipv6/conf/veth$n/disable_ipv6
    /bin/ip link set veth$n mtu {mtu} up
done
"""
WITHOUT_PORTS = "/bin/ip link del veth0"
PORTS = ("/bin/env LD_LIBRARY_PATH={there} LIBXDP_OBJECT_PATH={there} UROCE_PACKET_PLUGIN={there}/liburoce-packet.so "
         "UROCE_DPDK_PLUGIN={there}/liburoce-dpdk.so timeout {seconds} {there}/port_rate {links} {frames}")
PORT_SECONDS = 3
LINKS = {"af_packet": ("net_af_packet0,iface=veth{n};ip=10.90.0.{own}/24", MTU),
         "UDP": ("udp,ip=10.88.0.{own},hub=no", MTU),
         "af_xdp": ("net_af_xdp0,iface=veth{n};ip=10.90.0.{own}/24", XDP_MTU)}


@dataclass
class Kind:
    """A measurement of uroce and rxe. The aim is the value of uroce divided by the value of rxe."""
    name: str
    unit: str
    program: str
    count: int
    aim: float
    read: object

    @property
    def long(self) -> bool:
        return self.unit == "GB/s"


@dataclass
class Alone:
    """A measurement of a link without engines, for comparison with that of uroce over this link."""
    name: str
    frames: str  # arguments of port_rate: LENGTH SECONDS MODE
    read: object


def gigabytes(text: str) -> float:
    return figures.bandwidths(text)[0].average * MIB / 1e9


KINDS = (
    Kind("ib_write_bw 64 KiB", "GB/s", "ib_write_bw -s 65536", 1000, 2, gigabytes),
    Kind("ib_read_bw 64 KiB", "GB/s", "ib_read_bw -s 65536", 1000, 2, gigabytes),
    Kind("ib_send_lat 8 bytes, median", "us", "ib_send_lat -s 8", 2000, 0.5,
         lambda text: figures.latencies(text)[0].typical),
    Kind("ib_send_bw 64 bytes", "M/s", "ib_send_bw -s 64", 10_000, 2,
         lambda text: figures.bandwidths(text)[0].rate),
)


def alone_of(kind: Kind, link: str) -> Alone | None:
    """Returns the measurement of the link alone with frames of the same length, or None."""
    payload = IB_MTU[LINKS[link][1]] if kind.long else 64
    octets = payload + limits.HEADERS
    if "read" in kind.program or link == "UDP":
        return None
    if kind.unit == "us":
        return Alone("a round trip of a SEND and an ACK, mean", f"{SEND_AND_ACK_FRAMES} {PORT_SECONDS} pingpong",
                     lambda said: said["round_trip_us"] / 2)
    if kind.long:
        return Alone(f"frames of {octets} bytes", f"{octets} {PORT_SECONDS} icrc",
                     lambda said: said["gbit_per_s"] / 8 * payload / octets)
    return Alone(f"frames of {octets} bytes", f"{octets} {PORT_SECONDS} icrc",
                 lambda said: said["frames_per_s"] / 1e6)


def xdp_programs() -> list[pathlib.Path]:
    return [path for pattern in XDP_PROGRAMS for path in pathlib.Path("/usr/lib").glob(pattern)]


def libraries(build: pathlib.Path) -> list[pathlib.Path]:
    """Returns the libraries that the guest needs, also those of the DPDK plug-in."""
    plugin = build / "lib" / "io" / "dpdk" / "liburoce-dpdk.so"
    if not plugin.exists():
        raise NotRun("the DPDK plug-in is not built")
    needed = re.findall(r"=> (/\S+)", sides.must("ldd", plugin))
    return [*connections.libraries(build), build / "lib" / "io" / "packet" / "liburoce-packet.so", plugin, *xdp_programs(),
            *(pathlib.Path(path) for path in needed if not re.search(r"/lib(c|m)\.so", path))]


@contextlib.contextmanager
def guest(build: pathlib.Path, kernel: str):
    """Starts a virtual machine of two processors, with the libraries of uroce and without rxe."""
    if os.geteuid() != 0:
        raise sides.Unavailable("not root: cannot make a network namespace")
    sides.must(sides.RXE_PEER.parent / "build-image", "-k", kernel)
    namespace = sides.Namespace(f"uroce-beside-{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="uroce-bench-") as scratch:
        os.environ["UROCE_RXE_DIR"] = scratch
        try:
            made = sides.Rxe("beside", namespace, kernel, None, 2, ("-p", "2", "-m", "768"))
            made.run(f"mkdir -p {THERE} /var/run")
            for path in dict.fromkeys(libraries(build)):
                sides.must(sides.RXE_PEER, "put", "-n", made.name, path.resolve(),
                           f"{THERE}/{path.name}")
            made.run(WITHOUT_RXE)
            yield made
        finally:
            sides.must(sides.RXE_PEER, "stop", "-n", "beside")
            namespace.remove()


def spoken(made: sides.Rxe, script: str) -> str:
    process = made.spawn(script, SECONDS + 30)
    text, problem = sides.finish(made, process, "none", SECONDS + 60)
    if problem:
        words = [line.strip() for line in text.splitlines() if re.search(r"[a-z]", line)]
        reasons = [line for line in words if line.startswith("uroce: ")] or words or ["no word why"]
        raise NotRun(f"{problem}: {reasons[-1]}")
    return text


def tool_of(bench: Bench, kind: Kind, mtu: int) -> str:
    count = max(kind.count // 5, 200) if bench.quick else kind.count
    return f"{kind.program} -n {count} -F -x 1" + (f" -m {mtu}" if kind.long else "")


def by_rxe(bench: Bench, made: sides.Rxe, kind: Kind, mtu: int) -> float:
    made.run(WITH_RXE.replace("{mtu}", str(MTU)))
    try:
        tool = tool_of(bench, kind, mtu)
        return kind.read(spoken(made, RUN.format(
            server="", client="", tool=tool, served="-d rxe_0", asked="-d rxe_1", listens="",
            seconds=SECONDS, host="127.0.0.1", name=tool.split()[0])))
    finally:
        made.run(WITHOUT_RXE)


def by_uroce(bench: Bench, made: sides.Rxe, kind: Kind, link: str) -> float:
    text, mtu = LINKS[link]
    enter = "/bin/ip netns exec side{n} "
    preload = (f"/bin/env LD_LIBRARY_PATH={THERE} LD_PRELOAD={THERE}/libibverbs.so.1 "
               f"LIBXDP_OBJECT_PATH={THERE} 'UROCE_DEVICES=uroce0:{text}'")
    ends = [(enter + preload).format(n=n, own=n + 1) for n in range(2)]
    made.run(WITH_UROCE.replace("{mtu}", str(mtu)))
    try:
        tool = tool_of(bench, kind, IB_MTU[mtu])
        return kind.read(spoken(made, RUN.format(
            server=ends[0], client=ends[1], tool=tool, served="", asked="",
            listens=enter.format(n=0), seconds=SECONDS, host="10.89.0.1", name=tool.split()[0])))
    finally:
        made.run(WITHOUT_UROCE)


def by_udp(bench: Bench, made: sides.Rxe) -> float:
    """Measures the UDP of the kernel alone, between two busy-polling programs."""
    trips = bench.build / "tests" / "bench" / "udp_trips"
    sides.must(sides.RXE_PEER, "put", "-n", made.name, trips, f"{THERE}/{trips.name}")
    made.run(WITH_UROCE.replace("{mtu}", str(MTU)))
    try:
        text = spoken(made, TRIPS.format(length=limits.SEND_AND_ACK, program=f"{THERE}/{trips.name}",
                                         count=bench.count(TRIPS_COUNT)))
        return json.loads(text.splitlines()[-1])["median_us"]
    finally:
        made.run(WITHOUT_UROCE)


def by_port(bench: Bench, made: sides.Rxe, link: str, alone: Alone) -> float:
    program = bench.build / "tests" / "bench" / "port_rate"
    sides.must(sides.RXE_PEER, "put", "-n", made.name, program, f"{THERE}/{program.name}")
    text, mtu = LINKS[link]
    name = text.partition(",")[0].rstrip("0")
    links = " ".join(f"{name}{n},iface=veth{n}" for n in range(2))
    made.run(WITH_PORTS.replace("{mtu}", str(mtu)))
    try:
        said = spoken(made, PORTS.format(there=THERE, links=links, frames=alone.frames, seconds=SECONDS))
        return alone.read(json.loads(re.search(r"^{.*}$", said, re.M)[0]))
    finally:
        made.run(WITHOUT_PORTS)


def sure(measure):
    """Returns a function that calls @measure until the value is above 0, at most TRIES times. The retries are needed because
    perftest sometimes prints 0 although it ended in time."""
    def measured_so() -> float:
        try:
            for _ in range(TRIES):
                value = measure()
                if value > 0:
                    return value
        except sides.Unavailable as error:
            raise NotRun(str(error).splitlines()[-1]) from error
        raise NotRun("0, each time")
    return measured_so


def measured(bench: Bench, made: sides.Rxe, kernel: str) -> list[Figure]:
    turns, found = [], []
    for kind in KINDS:
        less = kind.unit == "us"
        peers = {}
        for mtu in IB_MTU.values() if kind.long else (4096,):
            peers[mtu] = Figure(f"Linux rxe {kernel}" + (f", IB MTU {mtu}" if kind.long else ""),
                                kind.unit, less=less)
            turns.append((peers[mtu], sure(lambda kind=kind, mtu=mtu: by_rxe(bench, made, kind, mtu))))
        for link, (_, mtu) in LINKS.items():
            beside = peers[IB_MTU[mtu] if kind.long else 4096]
            row = Figure(f"Linux {kernel}, {link}, {kind.name}", kind.unit, aim_ratio=kind.aim, less=less,
                         beside=beside)
            turns.append((row, sure(lambda kind=kind, link=link: by_uroce(bench, made, kind, link))))
            found.append(row)
            alone = alone_of(kind, link)
            if alone is not None:
                limit = Figure(f"Linux {kernel}, {link} alone, {alone.name}", kind.unit, less=less, beside=beside)
                turns.append((limit, sure(lambda link=link, alone=alone: by_port(bench, made, link, alone))))
                found.append(limit)
        if less:
            udp = Figure(f"Linux {kernel}, UDP alone, the same packets, median", kind.unit, less=less,
                         beside=peers[4096])
            turns.append((udp, sure(lambda: by_udp(bench, made))))
            found.append(udp)
    by_turns(min(bench.runs, RUNS), *turns)
    return found


def rows(bench: Bench) -> list[Figure]:
    found = []
    for kernel in KERNELS:
        try:
            with guest(bench.build, kernel) as made:
                found += measured(bench, made, kernel)
        except sides.Unavailable as error:
            found.append(Figure(f"Linux {kernel}", "", why=str(error).splitlines()[-1]))
    return found
