#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests `uroce peer`: its messages, and packet scripts over memif against an rdma_cm server under `uroce run`. Writes TAP.

    test_peer.py BUILD_DIRECTORY [--match REGEX]
"""
import pathlib
import subprocess
import sys

import uroce_case
from uroce_case import Case, equal, has

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "peer"
# Scripts of each kind. tests/peer runs all scripts in virtual time.
PLAYED = ("send", "gap", "read", "repeated_atomic", "rnr_write", "access_key", "dropped_icrc",
          "requester_nak", "requester_rnr", "cm_connect_and_disconnect", "cm_stale", "cm_sidr", "cm_no_listener",
          "uc_last_lost", "uc_write", "ud_header", "ud_group", "ud_too_long", "srq_empty")
LINK = "net_memif0,role={role},socket={where}/link.sock"


def device(case: Case, role: str) -> str:
    last = 1 if role == "server" else 2
    link = LINK.format(role=role, where=case.scratch)
    return f"{role}:{link};ip=10.0.0.{last}/24"


def script(case: Case, text: str) -> str:
    path = case.scratch / "some.peer"
    path.write_text(text)
    return str(path)


class Target:
    """The server of tests/peer, which prints a line when it listens."""

    def __init__(self, case: Case):
        self.process = subprocess.Popen(
            [case.uroce, "run", "-d", device(case, "server"), "--",
             case.build / "tests" / "peer" / "peer_target", "7471", "10.0.0.1"],
            stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        equal(self.process.stdout.readline(), "target: listens\n")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


# ---- over a link ------------------------------------------------------------

def peer__scripts_of_each_kind__pass_against_a_stock_server(case: Case) -> None:
    case.plugin()
    case.environment()
    with Target(case):
        run = case.call("peer", "-d", device(case, "client"), "--peer", "10.0.0.1", "--tap", "-q",
                        *(SCRIPTS / f"{name}.peer" for name in PLAYED))
    equal(run.returncode, 0, run.stdout + run.stderr)
    equal(run.stdout, f"1..{len(PLAYED)}\n" +
          "".join(f"ok {i} - {name}.peer\n" for i, name in enumerate(PLAYED, 1)))


def peer__script_fails__status_1_and_the_difference(case: Case) -> None:
    case.plugin()
    case.environment()
    wrong = script(case, "connect $p\nsend SEND_ONLY psn=+0 ackreq\n"
                         "expect ACKNOWLEDGE psn=+0 syndrome=nak_access\n")
    with Target(case):
        run = case.call("peer", "-d", device(case, "client"), "-a", "10.0.0.1", "--set", "p=7471",
                        "--pcap", case.scratch / "a.pcap", wrong)
    equal(run.returncode, 1, run.stdout + run.stderr)
    has(run.stdout, "line 3: expect ACKNOWLEDGE psn=+0 syndrome=nak_access: came 10.0.0.1 > ",
        "syndrome is 0x1f (ack), not 0x62 (nak_access)\n", "some.peer: DEVIATED\n")
    run = case.call("dump", case.scratch / "a.pcap")
    has(run.stdout, "RC_SEND_ONLY", "RC_ACK")


def peer__absent_address__status_77(case: Case) -> None:
    case.plugin()
    case.environment()
    with Target(case):
        run = case.call("peer", "-d", device(case, "client"), "-a", "10.0.0.9",
                        SCRIPTS / "send.peer", SCRIPTS / "read.peer")
    equal(run.returncode, 77, run.stdout + run.stderr)
    has(run.stdout, "send.peer: NO HOST HAS THE ADDRESS\n")
    assert "read.peer" not in run.stdout, run.stdout


def peer__endpoint_in_another_subnet__uses_the_gateway(case: Case) -> None:
    case.plugin()
    case.environment()
    own = device(case, "client").replace("ip=10.0.0.2/24", "ip=10.0.2.2/24,10.0.3.2/24;gateway=10.0.2.1")
    with Target(case):
        run = case.call("peer", "-d", own, "-a", "10.0.0.1", "--pcap", case.scratch / "a.pcap", SCRIPTS / "send.peer")
    equal(run.returncode, 77, run.stdout + run.stderr)
    run = case.call("dump", case.scratch / "a.pcap")
    has(run.stdout, "ARP who has 10.0.2.1? tell 10.0.2.2")


# ---- errors before the first packet -----------------------------------------

def peer__wrong_script__error_has_file_line_and_column(case: Case) -> None:
    run = case.call("peer", "-a", "10.0.0.1", SCRIPTS / "send.peer",
                    script(case, "wait 1s\nwait 5\n"))
    equal((run.returncode, run.stdout), (2, ""))
    equal(run.stderr,
          f'{case.scratch}/some.peer:2:6: "5": expected a time such as 500us, 200ms or 2s\n')


def peer__check__only_parses(case: Case) -> None:
    run = case.call("peer", "--check", *sorted(SCRIPTS.glob("*.peer")))
    equal((run.returncode, run.stdout, run.stderr), (0, "", ""))


def peer__wrong_arguments__usage(case: Case) -> None:
    send = SCRIPTS / "send.peer"
    for words, say in (
            ([], "no script is given; name one or more SCRIPT files"),
            ([send], "no endpoint is given; name it with --peer ADDRESS"),
            (["-a", "10.0.0.1", "/no/such.peer"], "No such file or directory"),
            (["-a", "10.0.0.1", "--set", "x", send], "--set must be NAME=NUMBER"),
            (["-a", "10.0.0.1", "--set", "x=1", send], "--set x=1: no script uses the variable $x"),
            (["-a", "10.0.0.1", "-p", "70000", send], "--port must be a number"),
            (["-a", "10.0.0.1", send], "no device"),
            (["-a", "here", "-d", "a:net_null0;ip=10.0.0.2/24", send], "--peer here"),
            (["-a", "127.0.0.1", "-d", "a:udp,ip=127.0.0.2", send], "a link over UDP cannot carry the frames of scripts"),
            (["-a", "10.0.0.1", "-d", "a:net_null0;ip=10.0.0.2/24;vlan=10", send], "leave out vlan=10"),
            (["-a", "fd00::1", "-d", "a:net_null0;ip=10.0.0.2/24", send], "--peer fd00::1")):
        run = case.call("peer", *words)
        equal(run.returncode, 2, run.stderr)
        has(run.stderr, say)
    run = case.call("peer", "--help")
    equal((run.returncode, run.stderr), (0, ""))
    has(run.stdout, "Usage: uroce peer")


def peer__impossible_port__status_77(case: Case) -> None:
    case.plugin()
    run = case.call("peer", "-a", "10.0.0.1", "-d", "a:net_af_packet0,iface=lo,blocksz=4096,framesz=8192;ip=10.0.0.2/24",
                    SCRIPTS / "send.peer")
    equal(run.returncode, 77)
    has(run.stderr, "uroce peer: a: ")


CASES = uroce_case.named_cases(globals())

if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
