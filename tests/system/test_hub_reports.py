#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests which processes get the ICMP errors about packets from a shared UDP address. Writes TAP.

    test_hub_reports.py BUILD [--match REGEX]
"""
import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import sys

from test_hub import Broker, start_broker, udp_sockets
from test_udp import PORT, SUBNET, Namespaces, call, is_used
from test_udp_paths import inside, spaces_or_skip
import hub_member
import pairs  # from tools/lib/common, which a module of test_udp puts on the path
import patience
from uroce_case import Case, equal, main, named_cases

SMALL_ONES = 400  # small datagrams that fill the receive buffer of a socket


def unlimited(spaces: Namespaces) -> None:
    """Removes the rate limit of ICMP errors, because a host normally sends only a few of them per second."""
    inside(spaces, "b", "sh", "-c", "cd /proc/sys/net; echo 0 >ipv4/icmp_ratemask; echo 0 >ipv6/icmp/ratelimit")


def icmp_error__for_a_sent_packet__only_the_sending_process_reports_it(case: Case) -> None:
    nobody = [f"10.9.0.{number}" for number in range(11, 19)]
    with spaces_or_skip() as spaces:
        unlimited(spaces)
        for address in nobody:
            call("ip", "-n", spaces.names["b"], "address", "add", f"{address}/32", "dev", "eth0")

        def start(name: str, *program: str) -> subprocess.Popen:
            with (case.scratch / name).open("w") as said:
                return spaces.start("a", case.uroce, "run", "--device", "uroce0:udp,ip=10.9.0.1;verbose=yes", "--", *program,
                                    stderr=said)

        def reported(name: str) -> list[str]:
            text = (case.scratch / name).read_text()
            return [address for address in nobody if f"uroce: {address}: Connection refused" in text]

        silent = start("silent", "rping", "-s", "-a", "10.9.0.1", "-C", "1")
        assert pairs.wait_for(lambda: is_used("10.9.0.1", inside(spaces, "a", "cat", "/proc/net/unix")), 20)
        for address in nobody:
            start(address, "rping", "-c", "-a", address, "-C", "1")
        pairs.wait_for(lambda: all(reported(address) for address in nobody), 30)
        equal({address: reported(address) for address in nobody}, {address: [address] for address in nobody})
        # The request of the client comes through the broker, after all packets that the broker passed to the silent process.
        client = spaces.start("b", case.uroce, "run", "--device", "uroce0:udp,ip=10.9.0.2", "--", "rping", "-c", "-a",
                              "10.9.0.1", "-C", "1")
        silent.wait(patience.seconds(30))  # until its client was served
        client.wait(patience.seconds(30))
        equal(reported("silent"), [])


def at_any_of_the_sockets(case: Case, own: str, net: str, via: str, nobody: list[str]) -> None:
    with spaces_or_skip() as spaces:
        unlimited(spaces)
        call("ip", "-n", spaces.names["b"], "route", "add", "local", net, "dev", "lo")
        call("ip", "-n", spaces.names["a"], "route", "add", net, "via", via)
        start_broker(case, spaces, own)
        with hub_member.within(spaces.names["a"]):
            member = hub_member.Member(own)
        untold = set(nobody)

        def all_reported() -> bool:
            for address in untold:
                member.send(address)
            untold.difference_update(member.taken(), member.passed_on())
            return not untold

        with member:
            assert pairs.wait_for(all_reported, 30), f"no ICMP error for {len(untold)} of {len(nobody)} addresses"


def icmp_error__at_any_socket__reaches_a_process(case: Case) -> None:
    """The kernel delivers each error to a random socket of the 63. The test causes so many errors that nearly all
    sockets get one."""
    at_any_of_the_sockets(case, "10.9.0.1", "10.8.0.0/24", "10.9.0.2", [f"10.8.0.{number}" for number in range(1, 251)])


def icmpv6_error__at_any_socket__reaches_a_process(case: Case) -> None:
    at_any_of_the_sockets(case, "fd09::1", "fd08::/64", "fd09::2", [f"fd08::{number}" for number in range(1, 9)])


def failed(socks: list[socket.socket]) -> bool:
    """Returns whether poll() reports an error for any of the sockets."""
    look = select.poll()
    for sock in socks:
        look.register(sock, 0)
    return bool(look.poll(0))


def icmp_error__receive_buffer_full__wakes_the_broker_once(case: Case) -> None:
    """The socket keeps the error, which poll() reports until a process reads it."""
    with spaces_or_skip() as spaces, contextlib.ExitStack() as stack:
        unlimited(spaces)
        made = start_broker(case, spaces, "10.9.0.1")
        with hub_member.within(spaces.names["a"]):
            member = stack.enter_context(hub_member.Member("10.9.0.1"))
        socks = [stack.enter_context(sock) for sock in udp_sockets(made.pid)]
        equal(len(socks), 63)
        os.kill(made.pid, signal.SIGSTOP)
        for share in range(2, 63):
            for _ in range(SMALL_ONES):
                member.sock.sendto(hub_member.bth(share), ("10.9.0.1", PORT))
        call("ip", "-n", spaces.names["b"], "route", "add", "local", "10.8.0.0/24", "dev", "lo")
        call("ip", "-n", spaces.names["a"], "route", "add", "10.8.0.0/24", "via", "10.9.0.2")
        for number in range(1, 33):
            member.send(f"10.8.0.{number}")
        assert pairs.wait_for(lambda: failed(socks), 10), "nothing is reported"
        os.kill(made.pid, signal.SIGCONT)
        assert pairs.wait_for(lambda: member.taken() is not None and not failed(socks), 10), "an ICMP error stays on a socket"


def icmp_error__received_by_one_process__other_processes_get_it(case: Case) -> None:
    refused, narrow = errno.ECONNREFUSED, errno.EMSGSIZE
    address = f"{SUBNET}.8"
    made = Broker(case.uroce, [], address)
    try:
        with hub_member.Member(address) as one, hub_member.Member(address) as two, hub_member.Member(address) as three:
            one.report("192.0.2.1", refused)
            for member in (two, three):
                equal(member.receive(), (hub_member.REPORT, "192.0.2.1", refused))
            two.report("192.0.2.2", narrow)
            equal(one.receive(), (hub_member.REPORT, "192.0.2.2", narrow))  # the broker does not send a process its own report
            for length in (0, 1, 7, 9, 100, 60000):
                one.say(hub_member.REPORT, "192.0.2.3", bytes(length))
            one.report("192.0.2.4", refused)
            equal(two.receive(), (hub_member.REPORT, "192.0.2.4", refused))
    finally:
        made.end()


def icmp_errors__endless__datagrams_are_still_forwarded(case: Case) -> None:
    """Any host can send ICMP. A process that does not read for a while still gets the datagrams
    that it needs to connect."""
    address = f"{SUBNET}.8"
    made = Broker(case.uroce, [], address)
    try:
        with hub_member.Member(address) as one, hub_member.Member(address) as two:
            for _ in range(1000):
                one.report("192.0.2.1", errno.ECONNREFUSED)
            one.pass_to(two.share)
            one.pass_to(one.share)
            equal(one.receive()[0], hub_member.DATAGRAM)  # so the broker has passed on everything
            kind = hub_member.REPORT
            while kind == hub_member.REPORT:
                kind = two.receive()[0]
            equal(kind, hub_member.DATAGRAM)
    finally:
        made.end()


CASES = named_cases(globals())

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
