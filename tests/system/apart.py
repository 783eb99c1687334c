# SPDX-License-Identifier: BSD-3-Clause
"""Runs two processes in two network namespaces. The kernel and uroce use the same addresses, for programs that also use the
kernel's sockets. Needs root."""
import os
import pathlib
import shutil
import subprocess

import programs  # puts tools/lib/common on the path
import pairs

SECTION = "rdma_cm with the kernel's addresses"
ADDRESSES = {"server": ("10.0.0.1/24", "fd00::1/64"), "client": ("10.0.0.2/24", "fd00::2/64")}


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def add_address(namespace: str, interface: str, address: str) -> None:
    """Adds an address without duplicate address detection, so that it is usable at once. Newer releases of ip accept the
    option nodad only for IPv6."""
    ip("-n", namespace, "address", "add", address, "dev", interface, *(["nodad"] if ":" in address else []))


def why_not() -> str:
    """Returns the reason why this process cannot create namespaces, or "" if it can."""
    if os.geteuid() != 0:
        return "namespaces need root"
    if shutil.which("ip") is None:
        return "ip (iproute2) is not installed"
    able = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return "" if able.returncode == 0 else "namespaces cannot be made here"


class Pair(pairs.Pair):
    """A pair of interfaces, one in each namespace, which the devices use through af_packet."""

    def name(self, role: str) -> str:
        return f"{self.where.name}-{role}"

    def __enter__(self) -> "Pair":
        super().__enter__()
        self.drop = []
        for role in ADDRESSES:
            ip("netns", "add", self.name(role))
        ip("link", "add", "link0", "netns", self.name("server"), "type", "veth",
           "peer", "name", "link0", "netns", self.name("client"))
        for role, addresses in ADDRESSES.items():
            for address in addresses:
                add_address(self.name(role), "link0", address)
            for link in ("lo", "link0"):
                ip("-n", self.name(role), "link", "set", link, "up")
        return self

    def __exit__(self, *why: object) -> None:
        super().__exit__(*why)
        for role in ADDRESSES:
            subprocess.run(["ip", "netns", "del", self.name(role)], check=False)

    def configuration(self, role: str) -> str:
        return "uroce0:net_af_packet0,iface=link0;" + ";".join(f"ip={a}" for a in ADDRESSES[role])

    def command(self, role: str, program: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name(role), *super().command(role, program)]

    def listens(self) -> bool:
        """Returns whether a kernel socket is open in the namespace of the server."""
        tables = [f"/proc/net/{kind}" for kind in ("udp", "udp6", "tcp", "tcp6")]
        text = subprocess.run(["ip", "netns", "exec", self.name("server"), "cat", *tables],
                              capture_output=True, text=True, check=True).stdout
        return any(":" in line and "local" not in line for line in text.splitlines())


def cases(uroce: pathlib.Path, rows, run) -> list[tuple[str, list[str], object]]:
    """Returns the cases: (name, programs it needs, function that runs it)."""
    return [(row.name, [row.server[0]], lambda row=row: run(uroce, row, Pair))
            for row in rows(uroce, SECTION)]
