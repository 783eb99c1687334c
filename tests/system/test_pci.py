#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests links with the PCI address of a network card: emulated cards in a QEMU guest, bound to vfio-pci behind an IOMMU. The other
side is uroce on this machine, on the TAP interface of the guest, or Linux rxe in a second guest. Needs root, QEMU and
the image of tools/rxe-peer. Writes TAP.

    test_pci.py BUILD_DIRECTORY [--match REGEX]

The variable UROCE_PCI_CARDS names the cards to emulate. The default names the cards that QEMU emulates fast: "virtio-net-pci vmxnet3".
"""
import argparse
import functools
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

import uroce_case
from uroce_case import Case, Skip, equal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))  # before this directory, which also has connections.py
import card as emulated  # noqa: E402
import cases as interop  # noqa: E402
import pairs  # noqa: E402
import patience  # noqa: E402
import run as interop_run  # noqa: E402
from sides import GUEST_PORT, RXE_PEER, SERVER_GRACE, USUAL, Namespace, Rxe, Unavailable, Uroce, finish, must, tail  # noqa: E402

KERNEL = "6.1"
SECONDS = int(patience.seconds(60))  # time limit of a program
TRIES = 20                           # of a client that connects before the server listens
GUEST, PEER = "card", "rxe"          # names of the guests
OURS, CARD, RXE = 1, 2, 3            # last numbers of the addresses
VLAN = 10


class Card(emulated.Card):
    """A guest with a card, and programs whose output a case watches."""

    def __init__(self, card: str, namespace: Namespace, build: pathlib.Path):
        super().__init__(card, GUEST, namespace, KERNEL, build, CARD)

    def start_watch(self, case: Case) -> subprocess.Popen:
        """Starts the program that prints the events of the device."""
        watch = self.record(f"{case.build}/tests/system/link_watch")
        self.expect(watch, "started: active")
        return watch

    def record(self, command: str) -> subprocess.Popen:
        """Starts a program whose output watched() returns."""
        self.run("rm -f /host/run/watch")  # the output of an earlier program
        return self.spawn(f"sh -c '{command} >/run/watch 2>&1'", 10 * SECONDS)

    def watched(self) -> str:
        return self.run("cat /host/run/watch 2>/dev/null || :")

    def expect(self, watch: subprocess.Popen, line: str) -> None:
        """Waits until the program has printed the line."""
        ended = pairs.wait_exactly(lambda: line in self.watched() or watch.poll() is not None, SECONDS)
        text = self.watched()
        if line not in text:
            self.end_all()
            raise AssertionError(f"no {line!r}, {'the program has ended' if ended else 'in time'}\n{text}")


class WithRxe(interop_run.Pair):
    """The two sides of an interop case: uroce on a card, and Linux rxe."""

    def __init__(self, card: Card, rxe: Rxe, scratch: str):
        self.sides, self.hosts = (card, rxe), (interop_run.HOST_OF_GUEST,) * 2
        self.options = argparse.Namespace(pair="uroce-rxe")
        self.scratch, self.link, self.tap = scratch, "", None
        self.ours_by_link, self.set_up = {}, None


class Machine:
    """The guest of the present card, and its peers. A guest serves all cases of its card."""

    def __init__(self):
        self.scratch = tempfile.mkdtemp(prefix="uroce-pci-")
        os.environ["UROCE_RXE_DIR"] = self.scratch
        self.namespace, self.card, self.name, self.rxe = None, None, "", None
        self.broken: dict[str, str] = {}  # why the guest of a card does not start

    def use_card(self, case: Case, name: str) -> Card:
        """Returns the guest with that card, without a VLAN."""
        case.plugin()
        if os.geteuid() != 0:
            raise Skip("not root: cannot make a network namespace")
        if shutil.which("qemu-system-x86_64") is None:
            raise Skip("qemu-system-x86_64 is not installed")
        try:
            if self.namespace is None:
                must(RXE_PEER.parent / "build-image", "-k", KERNEL)
                self.namespace = Namespace(f"uroce-pci-{os.getpid()}")
        except Unavailable as reason:
            raise Skip(str(reason)) from reason
        assert name not in self.broken, self.broken[name]
        if self.name != name:
            self.end_guest()
            self.name = name  # end_guest() also ends a guest that does not get ready
            try:
                self.card = Card(name, self.namespace, case.build)
            except Unavailable as problem:
                self.broken[name] = f"the guest does not start: {problem}"
                raise
        self.card.vlan, self.card.settings = 0, USUAL
        return self.card

    def use(self, case: Case, name: str, mtu: int = 1500) -> tuple[Card, Uroce]:
        """Returns the card and uroce on this machine, with a link of that MTU."""
        card = self.use_card(case, name)
        ours = Uroce(self.namespace, case.build, case.build / "tests/interop", str(case.scratch), f"net_af_packet0,iface={card.tap}", OURS)
        for side in (card, ours):
            side.set_mtu(mtu)
        return card, ours

    def use_rxe(self, case: Case, name: str) -> WithRxe:
        """Returns the card and a guest with Linux rxe on the same bridge."""
        card = self.use_card(case, name)
        if self.rxe is None:
            self.rxe = Rxe(PEER, self.namespace, KERNEL, case.build / "tests/interop", RXE, ("-f", GUEST_PORT, "-b", "br0"))
        return WithRxe(card, self.rxe, str(case.scratch))

    def end_guest(self) -> None:
        if self.name != "":
            self.stop(GUEST)
        self.card, self.name = None, ""

    def stop(self, guest: str) -> None:
        # The command gets its own session, because the test runner may end the process group of this test.
        subprocess.run([RXE_PEER, "stop", "-n", guest], check=False, start_new_session=True)

    def end(self) -> None:
        self.end_guest()
        self.stop(PEER)
        if self.namespace is not None:
            self.namespace.remove()
        shutil.rmtree(self.scratch, ignore_errors=True)


machine = Machine()


def run_both(server, client, server_command: str, client_command: str) -> None:
    """Runs a program on both sides. Both must end with status 0."""
    tool = pathlib.Path(shlex.split(server_command)[0]).name
    serving = server.spawn(server_command, SECONDS)
    try:
        if not server.wait_listening(serving):
            server.kill(tool, serving)
            raise AssertionError("the server does not listen\n" + tail(serving.communicate()[0]))
        asking = client.spawn(client_command, SECONDS)
        client_text, client_bad = finish(client, asking, tool, SECONDS)
        server_text, server_bad = finish(server, serving, tool, 2 if client_bad else patience.seconds(SERVER_GRACE))
    finally:
        if serving.poll() is None:
            server.kill(tool, serving)
    assert not client_bad and not server_bad, (f"client: {client_bad or 'ended well'}\n{tail(client_text)}\n"
                                               f"server: {server_bad or 'ended well'}\n{tail(server_text)}")


def runs(card: str, role: str, mtu: int, vlan: int, words: str, case: Case, settings: str = "") -> None:
    """Runs a program whose two sides meet by TCP. @role: that of the card. @settings: more settings of its device."""
    guest, ours = machine.use(case, card, mtu)
    guest.vlan = ours.vlan = vlan
    guest.settings += settings
    server, client, host = (guest, ours, "127.0.0.1") if role == "server" else (ours, guest, interop_run.HOST_OF_GUEST)
    command = words.format(interop=case.build / "tests/interop", port=server.port)
    run_both(server, client, command, f"{command} {host}")


def rping(card: str, role: str, address: str, case: Case) -> None:
    """Runs rping, whose sides connect by rdma_cm. Repeats the client until the server listens."""
    guest, ours = machine.use(case, card)
    server, client = (guest, ours) if role == "server" else (ours, guest)
    serving = server.spawn(f"rping -s -a {address} -C 5 -v", SECONDS)
    try:
        for _ in range(TRIES):
            client_text, bad = finish(client, client.spawn(f"rping -c -a {address} -C 5 -v", SECONDS), "rping",
                                      SECONDS)
            if not bad or serving.poll() is not None:
                break
        server_text, server_bad = finish(server, serving, "rping", patience.seconds(SERVER_GRACE))
    finally:
        if serving.poll() is None:
            server.kill("rping", serving)
    assert not bad and not server_bad, f"client: {bad}\n{tail(client_text)}\nserver: {server_bad}\n{tail(server_text)}"


def without_hugepages(card: str, case: Case) -> None:
    runs(card, "client", 1500, 0, PROGRAMS["pingpong_over_ipv4__every_byte_is_right"][-1], case, ";hugepages=no;memory=64")


def untagged_on_a_vlan(card: str, case: Case) -> None:
    """The card is on a VLAN, and its peer is not. The card drops the ARP replies of the peer."""
    guest, ours = machine.use(case, card)
    guest.vlan = ours.vlan = VLAN
    ours.tagged, guest.settings = False, ";verbose=yes"
    command = f"ibv_rc_pingpong -p {ours.port} -g 1 -n 1"
    serving = ours.spawn(command, SECONDS)
    try:
        assert ours.wait_listening(serving), "the server does not listen"
        text, bad = finish(guest, guest.spawn(f"{command} {interop_run.HOST_OF_GUEST}", SECONDS), "ibv_rc_pingpong", SECONDS)
    finally:
        ours.end_all()
    assert bad and re.search(r"drop_vlan +[1-9]", text), f"client: {bad or 'ended well'}\n{tail(text)}"


def with_rxe(card: str, row: interop.Case, case: Case) -> None:
    """Runs an interop case, with Linux rxe as the peer of the card."""
    pair = machine.use_rxe(case, card)
    try:
        why = interop_run.run_case(pair, row)
    finally:
        for side in pair.sides:
            assert not side.dead(), f"the guest {side.name} has ended\n" + "\n".join(interop_run.consoles(machine.scratch))
    assert why is None, why


# Sends a frame that no protocol uses to all hosts.
SEND_FRAME = ("import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('{tap}', 0)); "
              "s.send(bytes((255,) * 6 + (2, 0, 0, 0, 0, 9, 0x88, 0xb5)) + bytes(46))")
# With verbose=yes, the driver prints one of these lines.
WAKES, MISSING = "receive interrupts wake the device", "the device is polled, because receive interrupts do not arrive"
NO_INTERRUPTS = ("e1000e", "e1000")  # DPDK's driver requests interrupts that never arrive


def asleep(card: str, case: Case) -> None:
    """Frames arrive while the device is idle. Interrupts of the card wake it, or it finds out that they do not."""
    guest, _ = machine.use(case, card)
    guest.settings += ";verbose=yes"
    wanted = [WAKES, MISSING] if card in NO_INTERRUPTS else [WAKES]
    watch = guest.start_watch(case)

    def printed() -> list[str]:
        return [line for line in (WAKES, MISSING) if line in guest.watched()]

    def woken() -> bool:
        must(*machine.namespace.command(sys.executable, "-c", SEND_FRAME.format(tap=guest.tap)))
        arrived = guest.run(r"awk '/vfio-msix.1/ { print $2 }' /proc/interrupts")
        return printed() == wanted and (card in NO_INTERRUPTS or int(arrived or 0) >= 3)

    try:
        assert pairs.wait_exactly(woken, SECONDS), guest.watched() + guest.run("cat /proc/interrupts")
    finally:
        guest.kill("link_watch", watch)
        watch.communicate()


def link_down_and_up(card: str, case: Case) -> None:
    guest, _ = machine.use(case, card)
    watch = guest.start_watch(case)
    try:
        guest.monitor("set_link", name="card", up=False)
        guest.expect(watch, "port error: down")
        guest.monitor("set_link", name="card", up=True)
        guest.expect(watch, "port active: active")
    finally:
        guest.monitor("set_link", name="card", up=True)
        guest.kill("link_watch", watch)
        watch.communicate()


def link_down_in_a_transfer(card: str, case: Case) -> None:
    """The link is down for a moment while messages are in flight."""
    guest, ours = machine.use(case, card)
    verify = f"{case.build}/tests/interop/verify -p {ours.port}"
    serving, client = ours.spawn(verify, SECONDS), None
    try:
        assert ours.wait_listening(serving), "the server does not listen"
        client = guest.record(f"{verify} -r 2 -l 4096 10.0.2.2")
        guest.expect(client, "messages")
        guest.monitor("set_link", name="card", up=False)
        guest.monitor("set_link", name="card", up=True)
        _, client_bad = finish(guest, client, "verify", SECONDS)
        server_text, server_bad = finish(ours, serving, "verify", patience.seconds(SERVER_GRACE))
    finally:
        guest.monitor("set_link", name="card", up=True)
        for side, program in ((ours, serving), (guest, client)):
            if program is not None and program.poll() is None:
                side.kill("verify", program)
    assert not client_bad and not server_bad, f"client: {client_bad}\n{tail(guest.watched())}\nserver: {server_bad}\n{tail(server_text)}"


def card_removed(card: str, case: Case) -> None:
    """The device reports DEVICE_FATAL, and the program can free its objects. Then the guest releases the card."""
    guest, _ = machine.use(case, card)
    watch = guest.start_watch(case)
    try:
        guest.monitor("device_del", id="card")
        guest.expect(watch, "local catastrophic error: down")
        guest.expect(watch, "closed")
        equal(finish(guest, watch, "link_watch", SECONDS)[1], "", guest.watched())
        assert pairs.wait_exactly(lambda: guest.run(f"ls /sys/bus/pci/devices/{emulated.ADDRESS} 2>/dev/null || :") == "", SECONDS), "the card is there"
    finally:
        if watch.poll() is None:
            guest.kill("link_watch", watch)
        machine.end_guest()  # the card is gone


# Key: what runs. Value: role of the card, MTU of the link, VLAN, command
PROGRAMS = {
    "pingpong_over_ipv4__every_byte_is_right": ("client", 1500, 0, "ibv_rc_pingpong -p {port} -g 1 -c -n 100"),
    "pingpong_over_ipv6_with_events__every_byte_is_right": ("server", 1500, 0, "ibv_rc_pingpong -p {port} -g 2 -c -e -n 20"),
    "all_operations__every_byte_is_right": ("client", 1500, 0, "{interop}/verify -p {port} -l 4096"),
    "path_mtu_4096__every_byte_is_right": ("server", 4200, 0, "{interop}/verify -p {port} -o mixed -m 4096 -l 65536"),
    "ib_write_bw__ends_well": ("client", 1500, 0, "ib_write_bw -p {port} -F -x 1 -n 100 -s 65536"),
    "ib_send_bw__ends_well": ("server", 1500, 0, "ib_send_bw -p {port} -F -x 2 -n 100 -s 65536"),
    "longest_frame_of_2048_bytes__every_byte_is_right": ("client", 2030, 0, "ibv_rc_pingpong -p {port} -g 1 -c -n 20"),
    "vlan_and_path_mtu_4096__every_byte_is_right": ("client", 4200, VLAN, "{interop}/verify -p {port} -o mixed -m 4096 -l 65536"),
    "group_of_ipv4__datagrams_arrive_until_the_leave": ("server", 1500, 0, "{interop}/services -p {port} -k group -g 239.1.2.3"),
    "group_of_ipv6__datagrams_arrive_until_the_leave": ("server", 1500, 0, "{interop}/services -p {port} -x 2 -k group -g ff15::1234"),
    "group_of_ipv4__peer_receives_datagrams": ("client", 1500, 0, "{interop}/services -p {port} -k group -g 239.1.2.3"),
}
# Role of the card, address of the server
RPINGS = {"rping_over_ipv4__connects": ("server", "10.77.0.2"), "rping_over_ipv6__connects": ("client", "fd77::1")}
FAULTS = {"link_down_and_up__events_and_states_of_the_port": link_down_and_up,
          "asleep__frames_wake_the_device": asleep,
          "no_hugepages__every_byte_is_right": without_hugepages,
          "peer_not_on_the_vlan__frames_are_dropped": untagged_on_a_vlan,
          "link_down_in_a_transfer__connection_survives": link_down_in_a_transfer,
          "card_removed__device_fatal_and_the_card_is_released": card_removed}
# Names of cases of tests/interop, whose peer is Linux rxe
WITH_RXE = (
    "verify -z, mtu 1024, IPv4, uroce is client",
    "verify -z, mtu 4096, IPv6, uroce is server",
    "ib_send_bw 65536, mtu 4096, IPv4, uroce is client",
    "ib_write_bw 65536, mtu 1024, IPv6, uroce is server",
    "ib_read_bw 65536, mtu 4096, IPv6, uroce is client",
    "rping by rdma_cm, mtu 1024, IPv4, uroce is server",
    "services -k group -g 239.1.2.3, mtu 1024, IPv4, uroce is server",
    "services -k group -g ff15::1234, mtu 4096, IPv6, uroce is server",
    "verify -z, mtu 1024, IPv4, uroce is client, VLAN 10",
    "rping by rdma_cm, mtu 4096, IPv6, uroce is server, VLAN 10",
)
USUAL_CARDS = "virtio-net-pci vmxnet3"
# Key: emulated card of QEMU. Value: pattern of its cases; virtio-net-pci runs all cases
CARDS = {"virtio-net-pci": "", "vmxnet3": "pingpong|operations|4096|asleep|down_and|removed",
         "e1000e": "ipv4__every|asleep|down_and|removed", "e1000": "ipv4__every|asleep"}


def run_case(function, *arguments) -> None:
    try:
        function(*arguments)
    except Unavailable as problem:  # the guest did not start, or a command in it failed
        raise AssertionError(str(problem)) from problem


def named(name: str, function, *arguments):
    run = functools.partial(run_case, function, *arguments)
    run.__name__ = name
    return run


def words(name: str) -> str:
    """Returns the name of an interop case as one word."""
    return re.sub(r"\W+", "_", name.replace("uroce", "card"))


def cases() -> list:
    of_rxe = {case.name: case for case in interop.plan(True, KERNEL)}
    for card in os.environ.get("UROCE_PCI_CARDS", USUAL_CARDS).split():
        if card not in CARDS:
            sys.exit(f"UROCE_PCI_CARDS: no card {card}: choose from {', '.join(CARDS)}")
        every = [named(f"{card}__{name}", runs, card, *row) for name, row in PROGRAMS.items()]
        every += [named(f"{card}__{name}", rping, card, *row) for name, row in RPINGS.items()]
        every += [named(f"{card}__rxe__{words(name)}", with_rxe, card, of_rxe[name]) for name in WITH_RXE]
        every += [named(f"{card}__{name}", function, card) for name, function in FAULTS.items()]
        yield from (run for run in every if re.search(CARDS[card], run.__name__))


if __name__ == "__main__":
    # When the time limit of the test runner ends the test, the guest must end and the namespace must be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        status = uroce_case.main(__doc__, list(cases()))
    finally:
        machine.end()
    sys.exit(status)
