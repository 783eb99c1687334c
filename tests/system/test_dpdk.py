#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests links of the kind `dpdk:NAME`, which use a driver of DPDK, and arguments for DPDK's EAL. Links between two network
namespaces need root. Writes TAP.

    test_dpdk.py BUILD_DIRECTORY [--match REGEX]
"""
import functools
import json
import os
import shutil
import subprocess
import sys

import apart
import pairs  # from tools/lib/common, which the module programs puts on the path
from uroce_case import Case, Skip, has, main, named_cases

PINGPONG = ("ibv_rc_pingpong", "-g", "1", "-n", "300", "-c")
ADDRESSES = {"server": "10.0.0.11/24", "client": "10.0.0.12/24"}  # the kernel does not have these addresses


class Wire(apart.Pair):
    """Two network namespaces and a wire between them. @server and @client: the link of each side, with its keys."""

    def __init__(self, case: Case, server: str, client: str):
        case.plugin()
        why = apart.why_not()
        if why:
            raise Skip(why)
        super().__init__(case.uroce, meeting="10.0.0.1")
        self.links = {"server": server, "client": client}

    def configuration(self, role: str) -> str:
        return f"uroce0:{self.links[role]};ip={ADDRESSES[role]};mac=02:00:00:00:00:{1 + (role == 'client'):02x}"

    def listening(self, port: int) -> bool:
        tables = subprocess.run(["ip", "netns", "exec", self.name("server"), "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                                capture_output=True, text=True, check=True).stdout
        return f":{port:04X} 0" in tables


class Shared(pairs.Pair):
    """Two processes whose link has a socket. {where} in a link is the directory of the socket."""

    def __init__(self, case: Case, server: str, client: str):
        case.plugin()
        super().__init__(case.uroce)
        self.links = {"server": server, "client": client}

    def configuration(self, role: str) -> str:
        return f"uroce0:{self.links[role].format(where=self.where)};ip={ADDRESSES[role]}"


class Switched(Shared):
    """Two processes with testpmd between them, as a switch of two ports. @port: device of testpmd for the socket {socket}."""

    def __init__(self, case: Case, server: str, client: str, port: str):
        super().__init__(case, server, client)
        if shutil.which("dpdk-testpmd") is None:
            raise Skip("dpdk-testpmd is not installed (Debian: dpdk-dev)")
        self.port = port

    def __enter__(self) -> "Switched":
        super().__enter__()
        devices = [word for number, role in enumerate(ADDRESSES)
                   for word in ("--vdev", self.port.format(number=number, socket=self.where / f"{role}.sock"))]
        processors = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        # Memory without hugepages. testpmd runs until its standard input ends.
        command = [*self.drop, "stdbuf", "-oL", "dpdk-testpmd", "--no-huge", "-m", "256", "--no-pci", "--no-shconf", "--no-telemetry",
                   "--lcores", f"(0,1)@({processors})", *devices, "--", "--total-num-mbufs=4096", "--mbuf-size=9216", "--auto-start"]
        self.text = self.where / "testpmd.out"
        with self.text.open("w") as out:
            self.switch = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, cwd=self.where,
                                           start_new_session=True)
        self.running.append(self.switch)
        started = pairs.wait_for(lambda: "Press enter to exit" in self.text.read_text() or self.switch.poll() is not None, 60)
        if not started or self.switch.poll() is not None:
            text = self.text.read_text()
            self.__exit__()
            raise AssertionError(f"testpmd does not start\n{text}")
        return self


# gso=no, because a veth does not split a frame of several packets, and no driver of DPDK can receive it.
OURS, BOND = "net_af_packet0,iface=link0,gso=no", "--vdev=net_af_packet7,iface=link0"
# Key: name of a case. Value: kind of pair, link of the server, link of the client
LINKS = {
    "af_packet_of_dpdk__with_ours": (Wire, "dpdk:net_af_packet0,iface=link0", OURS),
    "ours__with_af_packet_of_dpdk": (Wire, OURS, "dpdk:net_af_packet0,iface=link0"),
    "pcap_of_dpdk__with_ours": (Wire, "dpdk:net_pcap0,iface=link0", OURS),
    "bonding__with_ours": (Wire, f"dpdk:net_bonding0,mode=1,slave=net_af_packet7;eal={BOND}", OURS),
    "memif_of_dpdk__with_ours": (Shared, "dpdk:net_memif0,role=server,socket={where}/m.sock,socket-abstract=no",
                                 "net_memif0,role=client,socket={where}/m.sock,socket-abstract=no"),
    "memif_of_dpdk__larger_mtu_than_it_carries": (
        Shared, "dpdk:net_memif0,role=server,socket={where}/m.sock,socket-abstract=no;mtu=4200",
        "dpdk:net_memif0,role=client,socket={where}/m.sock,socket-abstract=no;mtu=4200"),
    "memif_of_dpdk__128_mib_of_buffers": (
        Shared, "dpdk:net_memif0,role=server,socket={where}/m.sock,socket-abstract=no;memory=128",
        "dpdk:net_memif0,role=client,socket={where}/m.sock,socket-abstract=no;memory=128"),
    "memif_of_dpdk__both": (Shared, "dpdk:net_memif0,role=server,socket={where}/m.sock,socket-abstract=no",
                            "dpdk:net_memif0,role=client,socket={where}/m.sock,socket-abstract=no"),
    "vhost_server__virtio_user": (Shared, "net_vhost0,iface={where}/v.sock", "net_virtio_user0,path={where}/v.sock"),
    "vhost_client__virtio_user_server_of_mtu_4200": (Shared, "net_vhost0,iface={where}/v.sock,client=1;mtu=4200",
                                                     "net_virtio_user0,path={where}/v.sock,server=1;mtu=4200"),
    "vhost_client__virtio_user_server": (Shared, "net_vhost0,iface={where}/v.sock,client=1",
                                         "net_virtio_user0,path={where}/v.sock,server=1"),
}


MEMIF_SERVER = "net_memif{number},role=server,socket={socket},socket-abstract=no"
VHOST = "net_vhost{number},iface={socket}"
# Key: name of a case. Value: link of the side {role}, device of testpmd
SWITCHES = {
    "memif": ("net_memif0,role=client,socket={{where}}/{role}.sock,socket-abstract=no", MEMIF_SERVER),
    "memif_of_dpdk": ("dpdk:net_memif0,role=client,socket={{where}}/{role}.sock,socket-abstract=no", MEMIF_SERVER),
    "virtio_user": ("net_virtio_user0,path={{where}}/{role}.sock", VHOST),
    "virtio_user_server": ("net_virtio_user0,path={{where}}/{role}.sock,server=1", VHOST + ",client=1"),
}


def switched(name: str, case: Case) -> None:
    """Moves data through testpmd, the only connection of the two devices. A testpmd serves one pair of programs: DPDK's memif driver
    polls rings that it frees when the peer ends, and may crash."""
    link, port = SWITCHES[name]
    with Switched(case, link.format(role="server"), link.format(role="client"), port) as pair:
        run = pair.run([*PINGPONG, "-s", "16384"], 60)
        assert not run.problem(), f"{run.problem()}\ntestpmd:\n{pair.text.read_text()}"
        has(run.client.text, "300 iters in")


def of_bond(case: Case) -> str:
    """Returns DPDK's option for a port of a bond."""
    found = json.loads((case.build / "meson-info" / "intro-dependencies.json").read_text())
    version = next((dependency["version"] for dependency in found if dependency["name"] == "libdpdk"), "0")
    return "member=" if tuple(int(part) for part in version.split(".")[:2]) >= (23, 11) else "slave="


def runs(link: str, case: Case) -> None:
    kind, server, client = LINKS[link]
    with kind(case, server.replace("slave=", of_bond(case)), client) as pair:
        run = pair.run([*PINGPONG], 60)
        assert not run.problem(), run.problem()
        has(run.client.text, "300 iters in")


def impair__on_a_link_of_dpdk__loses_and_duplicates(case: Case) -> None:
    _, server, client = LINKS["memif_of_dpdk__both"]
    plan = "impair=only:requests,loss:5%,duplicate:5%,seed:3;trace={where}/"  # the last ACK must arrive
    with Shared(case, f"{server};{plan}server", f"{client};{plan}client") as pair:
        run = pair.run([*PINGPONG], 60)
        assert not run.problem(), run.problem()
        for side in ("server", "client"):
            has((pair.where / side).read_text(), " lose", " dup")


def alone(case: Case, link: str) -> subprocess.CompletedProcess:
    case.plugin()
    return case.call("run", "-q", "-d", f"u0:{link};ip=10.9.0.1/24", "--", "ibv_rc_pingpong", "-g", "1", "-d", "u0")


# Key: a wrong link. Value: the error message
WRONG = {
    "0000:7f:1f.7": "u0: link 0000:7f:1f.7: this machine has no PCI device 0000:7f:1f.7; `lspci -D` lists them",
    "dpdk:net_nosuch0": 'u0: link net_nosuch0: DPDK cannot use this device: EAL: failed to parse device "net_nosuch0"',
    "net_null0;eal=--proc-type=auto": "u0: eal=--proc-type=auto: uroce does not pass this argument on: a uroce process is always a "
                                      "primary process of its own; leave it out",
    "net_null0;eal=--huge-dri=/x": "u0: eal=--huge-dri=/x: DPDK's EAL has no such argument",
    "net_null0;memory=1000000;hugepages=yes": "u0: hugepages=yes: 65600 MiB of hugepages are not free",
}


def open__wrong_link__one_line_has_the_reason(case: Case) -> None:
    for link, wanted in WRONG.items():
        has(alone(case, link).stderr, f"uroce: {wanted}")


def eal__of_two_devices_differ__is_refused(case: Case) -> None:
    case.plugin()
    run = case.call("run", "-q", "-d", "u0:net_null0;ip=10.9.0.1/24;eal=--no-hpet", "-d", "u1:net_null1;ip=10.9.0.2/24", "--",
                    sys.executable, "-c", TWO_DEVICES)
    has(run.stderr, "u1: eal=: DPDK was started with eal=--no-hpet for another device of this process")


TWO_DEVICES = """
import pyverbs.device as d
for device in d.get_device_list():
    context = d.Context(name=device.name.decode())
    try:
        from pyverbs.cq import CQ
        CQ(context, 4)
    except Exception as error:
        print(error)
"""


def dpdk_keys__another_link__are_refused(case: Case) -> None:
    for key in ("eal=--no-hpet", "hugepages=yes", "telemetry=yes"):
        run = case.call("devices", UROCE_DEVICES=f"u0:udp,ip=127.0.0.1;{key}")
        has(run.stdout + run.stderr, f"{key.partition('=')[0]}=: only for DPDK links, and udp is not one")


def cases() -> list:
    for link in LINKS:
        run = functools.partial(runs, link)
        run.__name__ = f"{link}__every_byte_is_right"
        yield run
    for name in SWITCHES:
        run = functools.partial(switched, name)
        run.__name__ = f"{name}__testpmd_between__every_byte_is_right"
        yield run
    yield from named_cases(globals())


if __name__ == "__main__":
    sys.exit(main(__doc__, list(cases())))
