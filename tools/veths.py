# SPDX-License-Identifier: BSD-3-Clause
"""Two network namespaces with a pair of interfaces between them, or with a third one between them that
loses and reorders frames. Needs root."""
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

import pairs

LOSSY_LINK = pathlib.Path(__file__).resolve().parent / "lossy_link.py"
AF_PACKET = "net_af_packet0,iface=link0;ip={address}"


def why_not() -> str:
    """Empty when namespaces can be made here."""
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
    """The kernel has the addresses too, so that programs find each other by its TCP."""
    device_text: str = AF_PACKET
    mtu: int = 1500
    carried: bool = False  # by a process that loses frames, per mille, and lets others overtake
    lose: float = 0
    late: float = 0
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
        if self.carried:
            self.carrier = subprocess.Popen(
                ["ip", "netns", "exec", self.name("middle"), sys.executable, "-B",
                 str(LOSSY_LINK), *pairs.ADDRESSES, str(self.lose), "1", str(self.late)],
                stdout=subprocess.PIPE, text=True)
            self.carrier.stdout.readline()
        return self

    def __exit__(self, *why: object) -> None:
        super().__exit__(*why)
        if self.carrier is not None and self.carrier.poll() is None:
            self.carrier.terminate()
            self.carrier.wait()
        for role in self.roles():
            subprocess.run(["ip", "netns", "del", self.name(role)], check=False)

    def configuration(self, role: str) -> str:
        address = pairs.ADDRESSES[role]
        return (f"{self.device}:" + self.device_text.format(
            address=address, plain=address.split("/", maxsplit=1)[0]) + self.settings)

    def command(self, role: str, program: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name(role), *super().command(role, program)]

    def listening(self, port: int) -> bool:
        table = subprocess.run(["ip", "netns", "exec", self.name("server"), "cat",
                                "/proc/net/tcp", "/proc/net/tcp6"], text=True, check=False,
                               capture_output=True).stdout
        return any(f":{port:04X} " in line and " 0A " in line for line in table.splitlines())
