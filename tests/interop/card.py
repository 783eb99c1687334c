# SPDX-License-Identifier: BSD-3-Clause
"""A side of a test on an emulated network card: programs under uroce in a guest, whose card is bound to vfio-pci."""
import json
import os
import socket

import patience  # from tools/lib/common, which sides puts on the path
from sides import Rxe, Side, UnderUroce

CARDS = ("virtio-net-pci", "vmxnet3", "e1000e", "e1000")  # cards of QEMU that have been tried
ADDRESS = "0000:01:00.0"  # of the card in the guest
CARD_PORT = 18605         # TCP port of servers in the guest
GUEST_MIB = 1024          # vfio locks the memory that DPDK reserves
HUGEPAGES = 200           # pages of 2 MiB in the guest, because the emulated IOMMU maps the memory of DPDK page by page
ANSWER = 60               # time limit of QEMU's monitor, seconds
# Programs under uroce have another root directory than other processes of the guest.
END_ALL = 'for p in /proc/[0-9]*; do [ "$(readlink $p/root)" != /host ] || kill -9 ${p#/proc/}; done'


class Card(UnderUroce, Rxe):
    """A guest whose programs run under uroce on an emulated card. The guest sees the files of this machine."""

    port = CARD_PORT
    scratch = "/run"
    link = ADDRESS

    def __init__(self, card, name, namespace, kernel, build, number=2):
        self.build = build
        super().__init__(name, namespace, kernel, None, number, ("-d", card, "-m", GUEST_MIB, "-f", CARD_PORT, "-b", "br0"))
        self.ours = build / "tests" / "interop"

    def start(self):
        super().start()
        self.run(f"echo {HUGEPAGES} >/proc/sys/vm/nr_hugepages")

    def spawn(self, command, seconds):
        return super().spawn(f"exec chroot /host env XDG_RUNTIME_DIR=/run {self.build}/app/uroce run "
                             f"--device '{self.description()}' -- {command}", seconds)

    def run_beside_programs(self, command):
        return self.run(f"chroot /host {command}")

    def set_mtu(self, mtu):
        self.mtu = mtu
        self.namespace.up(self.tap, mtu)

    def end_all(self):
        self.run(END_ALL)

    # The kernel of this guest has neither the card nor an RDMA device.
    gid = Side.gid
    reach = Side.reach
    wait_meeting = Side.wait_meeting

    def monitor(self, command, **arguments):
        """Sends a command to QEMU's monitor, and waits for its answer."""
        with socket.socket(socket.AF_UNIX) as to:
            to.settimeout(patience.seconds(ANSWER))
            to.connect(os.path.join(os.environ["UROCE_RXE_DIR"], self.name, "qmp"))
            with to.makefile("rw") as lines:
                for line in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                    lines.write(json.dumps(line) + "\n")
                    lines.flush()
                    while "return" not in (answer := json.loads(lines.readline() or '{"error": "QEMU has ended"}')):
                        assert "error" not in answer, answer
