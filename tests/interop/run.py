#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs verbs programs over uroce against Linux rxe. The cases are in cases.py. Writes TAP.

Needs root (namespaces), QEMU and the rxe peer's image (tools/rxe-peer). Otherwise prints what is missing and exits with
status 77.
"""
import argparse
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import cases
import connections
import mpi
from card import CARDS, Card
from sides import (GUEST_PORT, OUR_PROGRAMS, ROOT, RXE_PEER, SERVER_GRACE, USUAL, Namespace, OverUdp,
                   Rxe, Unavailable, Uroce, finish, must, tail)
import matching  # from tools/lib/common, which sides puts on the path
import patience

SECONDS = 40  # time limit of a case, tripled on an impaired link
FAILURES_MAX = 10
DEATHS_MAX = 3  # largest number of guests that may end in one run
PAIRS = ("uroce-rxe", "rxe-rxe", "uroce-uroce")
# qdisc_bypass=0: dumpcap does not see packets that bypass the queue.
AF_PACKET = "net_af_packet0,iface={},blocksz=65536,framesz=8192,qdisc_bypass=0"
VHOST = "net_vhost0,iface={}"
UDP = "udp"
HOST_OF_GUEST = "10.0.2.2"  # the address at which a guest reaches 127.0.0.1 of the namespace


class Pair:
    """Two sides on one link. hosts[n] is the address at which the other side reaches the TCP port of side n."""

    def __init__(self, options, namespace, scratch):
        self.options, self.namespace = options, namespace
        self.ours = options.build / "tests" / "interop"  # directory of uroce's test programs
        self.scratch = scratch
        self.tap = None  # interface to record
        self.set_up = None  # the present netdev MTU and impairment
        self.ours_by_link = {}  # uroce's sides by link, if one interface carries several links of uroce
        self.deaths = 0
        self.link = options.link
        {"uroce-rxe": self.one_guest, "rxe-rxe": self.two_guests,
         "uroce-uroce": self.no_guest}[options.pair](scratch)

    def uroce(self, link, *more):
        return Uroce(self.namespace, self.options.build, self.ours, self.scratch, link, *more)

    def guest(self, *more, number=2):
        return Rxe(f"g{number}", self.namespace, self.options.kernel, self.ours, number, more)

    def one_guest(self, scratch):
        self.hosts = (HOST_OF_GUEST, "127.0.0.1")
        if self.options.link in CARDS:
            self.over_card()
            return
        if self.options.link == "vhost":
            self.over_vhost(pathlib.Path(scratch) / "vhost.sock")
            return
        guest = self.guest("-f", GUEST_PORT)
        self.tap = guest.tap
        self.ours_by_link = {
            "af_packet": self.uroce(AF_PACKET.format(guest.tap)),
            UDP: OverUdp(guest.tap, self.namespace, self.options.build, self.ours, self.scratch, UDP)}
        self.sides = (self.ours_by_link[self.link], guest)
        self.sides[0].take()

    def over_card(self):
        """Starts two guests: uroce on an emulated card, and Linux rxe."""
        self.sides = (Card(self.options.link, "card", self.namespace, cases.FIRST_KERNEL, self.options.build, 1),
                      self.guest("-f", GUEST_PORT, "-b", "br0"))
        self.tap = "br0"
        self.hosts = (HOST_OF_GUEST, HOST_OF_GUEST)

    def over_vhost(self, socket):
        """Starts a guest over vhost. The guest starts only if a process listens at the socket. Later the guest reconnects."""
        ours = self.uroce(VHOST.format(socket))
        ours.socket = socket
        holder = ours.spawn(f"{self.ours}/verify -p {ours.port}", SECONDS)
        if not ours.wait_listening(holder):
            raise Unavailable("verify over vhost does not start: " + finish(ours, holder, "", 1)[0])
        guest = self.guest("-f", GUEST_PORT, "-V", socket)
        guest.tap = None
        ours.kill("", holder)
        holder.communicate()
        self.sides = (ours, guest)

    def two_guests(self, scratch):
        del scratch
        self.sides = (self.guest("-b", "br0", number=3), self.guest("-b", "br0"))
        self.tap = "br0"
        self.hosts = tuple(f"10.77.0.{side.number}" for side in self.sides)

    def no_guest(self, scratch):
        del scratch
        self.namespace.veth("va", "vb")
        self.tap = "va"
        self.sides = (self.uroce(AF_PACKET.format("va")),
                      self.uroce(AF_PACKET.format("vb"), 2, 18603))
        self.hosts = ("127.0.0.1", "127.0.0.1")

    def revive(self):
        """Starts each virtual machine again that has ended, with the same settings."""
        dead = [side for side in self.sides if side.dead()]
        self.deaths += len(dead)
        if self.deaths > DEATHS_MAX or self.options.link == "vhost":
            raise Unavailable(f"guests that died: {self.deaths}; none is started again")
        for side in dead:
            side.start()
        if self.tap:
            self.sides[0].take()
        self.set_up = None

    def use(self, link):
        """Switches to another link. After that, the guest must not send to the previous owner of the address."""
        if link == self.link:
            return
        self.sides[0].leave()
        self.link, self.sides = link, (self.ours_by_link[link], self.sides[1])
        self.sides[0].take()
        self.sides[1].forget_neighbors()
        self.set_up = None

    def prepare(self, case):
        if case.link and self.ours_by_link:
            self.use(case.link.split(",")[0])
            self.sides[0].link = case.link
        if self.options.pair == "uroce-rxe":
            self.sides[0].settings = case.settings or USUAL
            self.sides[0].vlan = case.vlan
            self.sides[0].held = case.held
        if self.set_up != (case.netdev_mtu, case.impairment):
            self.set_up_link(case)
        if case.vlan:
            self.sides[1].join_vlan(case.vlan, case.netdev_mtu)

    def set_up_link(self, case):
        for side in self.sides:
            side.set_mtu(case.netdev_mtu)
        for link in ("va", "vb") if self.tap == "va" else ():
            self.namespace.up(link, case.netdev_mtu)
        self.sides[1].impair(case.impairment)
        self.set_up = (case.netdev_mtu, case.impairment)


def stop_guests(scratch):
    """Stops running guests, and the processes of a guest that failed to start."""
    for state in pathlib.Path(scratch).glob("*/config"):
        subprocess.run([RXE_PEER, "stop", "-n", state.parent.name], check=False)


def consoles(scratch):
    """Returns the last kernel messages of the guests, because a guest may have crashed."""
    lines = []
    for console in pathlib.Path(scratch).glob("*/console.log"):
        lines += [f"{console.parent.name}'s console:", *console.read_text(errors="replace").splitlines()[-60:]]
    return lines


def comment(lines):
    if lines:
        print("\n".join("# " + line for line in lines), flush=True)


def run_case(pair, case):
    """Runs a case. Returns None, or the error."""
    pair.prepare(case)
    at = case.role == "client"  # the server's number
    server, client = pair.sides[at], pair.sides[1 - at]
    seconds = int(patience.seconds(SECONDS * (3 if case.impairment else 1)))

    if case.job:
        return mpi.run(pair, case, 2 * seconds)
    if case.meeting:
        return connections.run(server, client, pair.hosts[at], case, seconds)
    serving = server.spawn(case.text(**server.where(case)), seconds)
    if not server.wait_listening(serving):
        server.kill(case.tool, serving)
        out, _ = serving.communicate()
        return f"the server does not listen\n{tail(out)}"
    asking = client.spawn(case.text(**client.where(case, pair.hosts[at], server)), seconds)
    client_out, client_bad = finish(client, asking, case.tool, seconds)
    grace = 0 if case.refused else 2 if client_bad else patience.seconds(SERVER_GRACE)
    server_out, server_bad = finish(server, serving, case.tool, grace)
    if case.refused:
        client_bad, server_bad = "" if client_bad else "was not refused", ""
    if not re.search(case.prints, client_out if case.role == "client" else server_out):
        client_bad = client_bad or f"uroce does not print {case.prints}"
    if not client_bad and not server_bad:
        return None
    return (f"client: {client_bad or 'ended well'}\n{tail(client_out)}\n"
            f"server: {server_bad or 'ended well'}\n{tail(server_out)}")


def capture(pair, path):
    tool = shutil.which("dumpcap") or shutil.which("tcpdump")
    if not tool or not pair.tap:
        return None
    process = subprocess.Popen(
        pair.namespace.command(tool, "-i", pair.tap, "-w", path), text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while line := process.stderr.readline():
        if re.search("listening on|File:", line):
            break
    return process


def unused(directory, case):
    """Returns the path of a new capture. Captures of earlier failures of the same case are kept."""
    stem = re.sub(r"[^A-Za-z0-9]+", "_", case.name)
    paths = (directory / f"{stem}{suffix}.pcap" for suffix in itertools.chain([""], itertools.count(2)))
    return next(path for path in paths if not path.exists())


def recorded(pair, case, directory):
    """Runs @case and captures the link. Keeps the capture if the case fails."""
    directory.mkdir(parents=True, exist_ok=True)
    path = unused(directory, case)
    process = capture(pair, path)
    try:
        why = run_case(pair, case)
    finally:
        if process:
            process.terminate()
            process.wait()
    if process and not why:
        path.unlink()
    elif process:
        why += f"\nrecorded in {path}"
    return why


def attempt(pair, case, record):
    """Runs a case. Returns (None or the error, lines). If a guest ended during the case, starts it again, and the lines are the
    console output of all guests. Otherwise there are no lines."""
    why = None
    try:
        why = recorded(pair, case, record) if record else run_case(pair, case)
    except Unavailable as reason:
        for side in pair.sides:
            side.end_all()
        why = str(reason)
        if not any(side.dead() for side in pair.sides):
            raise
    if not any(side.dead() for side in pair.sides):
        return why, []
    said = consoles(pair.scratch) or ["no console"]
    pair.revive()
    return why or "the guest ended", said


def attempts(pair, case, options):
    """Runs a case, and once more if a guest ends during it: the first end of a guest is not a
    failure of uroce. Returns the error and notes."""
    record = options.pcap if options.record else None
    why, said = attempt(pair, case, record)
    if said:
        said.append(f"NOTE: the guest ended in '{case.name}', which was run again with another")
        why, more = attempt(pair, case, record)
        return f"the guest ended again\n{why}" if more else why, said + more
    if why and options.pcap and not options.record:
        once_more, said = attempt(pair, case, options.pcap)
        why += f"\nonce more: {once_more or 'it PASSED'}"
    return why, said


def run_all(pair, chosen, options):
    failures = 0
    print(f"1..{len(chosen)}", flush=True)
    for number, case in enumerate(chosen, 1):
        start = time.monotonic()
        why, said = attempts(pair, case, options)
        took = time.monotonic() - start
        print(f"{'not ok' if why else 'ok'} {number} - {case.name} # {took:.1f} s", flush=True)
        comment((why or "").splitlines() + said)
        failures += bool(why)
        if failures == options.failures:
            print(f"Bail out! {failures} failures", flush=True)
            break
    return failures


def check_machine(options):
    ours = options.pair.split("-")
    if os.geteuid() != 0:
        raise Unavailable("not root: cannot make a network namespace")
    if not shutil.which("ip"):
        raise Unavailable("no ip program (iproute2)")
    if "uroce" in ours and not (options.build / "app" / "uroce").exists():
        raise Unavailable(f"no {options.build}/app/uroce: not built")
    for program in OUR_PROGRAMS:
        if not (options.build / "tests" / "interop" / program).exists():
            raise Unavailable(f"{program} is not built: no headers of libibverbs or librdmacm?")
    if "rxe" in ours:
        if not shutil.which("qemu-system-x86_64"):
            raise Unavailable("no qemu-system-x86_64")
        must(RXE_PEER.parent / "build-image", "-k", options.kernel)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--kernel", default=cases.FIRST_KERNEL, choices=cases.KERNELS,
                        help="a kernel other than the first runs only some cases")
    parser.add_argument("--pair", default=PAIRS[0], choices=PAIRS,
                        help="rxe-rxe: run the cases without uroce")
    parser.add_argument("--link", default="af_packet", choices=("af_packet", "vhost", UDP, *CARDS),
                        help="link of uroce, or an emulated card; a few cases always use udp")
    matching.add_option(parser, "cases")
    parser.add_argument("--repeat", type=int, default=1, help="number of runs of each case in one guest")
    parser.add_argument("--full", action="store_true", help="run every combination")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--pcap", type=lambda text: pathlib.Path(text).resolve(),
                        help="run failed cases again, and write captures to this directory")
    parser.add_argument("--record", action="store_true",
                        help="with --pcap: also capture the first run")
    parser.add_argument("--failures", type=int, default=FAILURES_MAX, help="end after this number of failures")
    options = parser.parse_args()
    options.build = options.build.resolve()
    if options.record and not options.pcap:
        parser.error("--record needs --pcap")
    return options


def main():
    # When the time limit of the test runner ends the test, the guests must end and the namespace must be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options = parse()
    chosen = cases.plan(options.full, options.kernel)
    if "rxe" not in options.pair:
        chosen = [c for c in chosen if not c.impairment]
    # Between two guests, cases with a setting or link of uroce are left out, except meetings. qperf, for example, needs the
    # link "udp" only so that the kernel has the addresses. In a guest, the kernel has them.
    if options.pair == "rxe-rxe":
        chosen = [c for c in chosen if not c.settings and not c.link or c.meeting]
    elif options.pair != PAIRS[0] or options.link in ("vhost", *CARDS):
        chosen = [c for c in chosen if not c.link]
    if options.pair != PAIRS[0] or options.link == UDP:  # here, uroce has no VLAN of its own
        chosen = [c for c in chosen if not c.vlan]
    names = matching.chosen(options.match, [c.name for c in chosen])
    chosen = [c for c in chosen if c.name in names for _ in range(options.repeat)]
    if options.list:
        print("\n".join(c.name for c in chosen))
        return 0
    try:
        check_machine(options)
        namespace = Namespace(f"uroce-interop-{os.getpid()}")
    except Unavailable as reason:
        print(f"1..0 # SKIP {reason}", flush=True)
        print(f"SKIPPED: {reason}", file=sys.stderr)
        return 77
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="uroce-interop-") as scratch:
        os.environ["UROCE_RXE_DIR"] = scratch
        try:
            failures = run_all(Pair(options, namespace, scratch), chosen, options)
        except Unavailable as reason:
            print(f"Bail out! {reason}", flush=True)
            comment(consoles(scratch))
            return 1
        finally:
            stop_guests(scratch)
            namespace.remove()
    print(f"# {len(chosen)} cases, {failures} failed, {time.monotonic() - start:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
