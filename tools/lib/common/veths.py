# SPDX-License-Identifier: BSD-3-Clause
"""Two network namespaces that are connected by a pair of interfaces, or by a third namespace that loses and reorders frames.
Needs root."""
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

import pairs

LOSSY_LINK = pathlib.Path(__file__).resolve().parent / "lossy_link.py"
AF_PACKET = "net_af_packet0,iface=link0;ip={address}"
# The kernel does not have this address. Otherwise both the kernel and uroce would respond.
OWN_AF_PACKET = "net_af_packet0,iface=link0;ip={own}"
OWN_AF_XDP = "net_af_xdp0,iface=link0;ip={own}"
UDP = "udp,ip={plain},hub=no"


def why_not() -> str:
    """Returns the reason why this process cannot create namespaces, or "" if it can."""
    if os.geteuid() != 0:
        return "not root: no namespaces"
    if shutil.which("ip") is None:
        return "ip (iproute2) is not installed"
    able = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return "" if able.returncode == 0 else "namespaces cannot be made here"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass
class Veths(pairs.Pair):
    """A pair of interfaces. The kernel has their addresses too, so that the programs can make TCP connections over them."""
    device_text: str = AF_PACKET
    mtu: int = 1500
    carried: bool = False  # frames go through lossy_link.py, which loses `lose` and delays `late` frames per mille
    lose: float = 0
    late: float = 0
    aside: bool = False  # TCP has a second pair of interfaces, because AF_XDP takes all frames of its interface
    meeting: str = pairs.ADDRESSES["server"].split("/", maxsplit=1)[0]
    carrier: subprocess.Popen | None = field(init=False, default=None)

    def name(self, role: str) -> str:
        return f"{self.where.name}-{role}"

    def roles(self) -> list[str]:
        return [*(["middle"] if self.carried else []), *pairs.ADDRESSES]

    def __enter__(self) -> "Veths":
        super().__enter__()
        self.drop = []
        for role in self.roles():
            ip("netns", "add", self.name(role))
        if not self.carried:
            ip("link", "add", "link0", "netns", self.name("server"), "type", "veth",
               "peer", "name", "link0", "netns", self.name("client"))
        for role, address in pairs.ADDRESSES.items():
            if self.carried:
                ip("link", "add", role, "netns", self.name("middle"), "type", "veth",
                   "peer", "name", "link0", "netns", self.name(role))
                ip("-n", self.name("middle"), "link", "set", role, "mtu", str(self.mtu), "up")
            ip("-n", self.name(role), "address", "add", address, "dev", "link0")
            ip("-n", self.name(role), "link", "set", "lo", "up")
            ip("-n", self.name(role), "link", "set", "link0", "mtu", str(self.mtu), "up")
        if self.aside:
            self.make_aside()
        for role in pairs.ADDRESSES:  # some programs read the state of the link once, when they start
            pairs.wait_for(lambda role=role: self.is_up(role), 5)
        if self.carried:
            self.carrier = subprocess.Popen(
                ["ip", "netns", "exec", self.name("middle"), sys.executable, "-B",
                 str(LOSSY_LINK), *pairs.ADDRESSES, str(self.lose), "1", str(self.late)],
                stdout=subprocess.PIPE, text=True)
            self.carrier.stdout.readline()
        return self

    def is_up(self, role: str) -> bool:
        return " state UP " in subprocess.run(
            ["ip", "-n", self.name(role), "-o", "link", "show", "dev", "link0"],
            capture_output=True, text=True, check=False).stdout

    def make_aside(self) -> None:
        ip("link", "add", "meet0", "netns", self.name("server"), "type", "veth",
           "peer", "name", "meet0", "netns", self.name("client"))
        for n, role in enumerate(pairs.ADDRESSES, 1):
            ip("-n", self.name(role), "address", "add", f"10.2.0.{n}/24", "dev", "meet0")
            ip("-n", self.name(role), "link", "set", "meet0", "up")
        self.meeting = "10.2.0.1"

    def __exit__(self, *why: object) -> None:
        super().__exit__(*why)
        if self.carrier is not None and self.carrier.poll() is None:
            self.carrier.terminate()
            self.carrier.wait()
        for role in self.roles():
            subprocess.run(["ip", "netns", "del", self.name(role)], check=False)

    def configuration(self, role: str) -> str:
        address = pairs.ADDRESSES[role]
        text = self.device_text
        if self.carried:  # without segmentation offload, so that lossy_link.py loses single packets
            text = text.replace("iface=link0", "iface=link0,gso=no")
        return (f"{self.device}:" + text.format(
            address=address, plain=address.split("/", maxsplit=1)[0],
            own=address.replace("10.0.", "10.1.")) + self.settings)

    def command(self, role: str, program: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name(role), *super().command(role, program)]

    def listening(self, port: int) -> bool:
        table = subprocess.run(["ip", "netns", "exec", self.name("server"), "cat",
                                "/proc/net/tcp", "/proc/net/tcp6"], text=True, check=False,
                               capture_output=True).stdout
        return any(f":{port:04X} " in line and " 0A " in line for line in table.splitlines())
