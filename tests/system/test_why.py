#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that `uroce why` and the messages on stderr give the cause of each mistake in tests/system/mistake.c. Writes TAP.

    test_why.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys

import uroce_case
from uroce_case import LIBRARY, Case, Skip, equal, has

NOBODY = 65534
HEADER_VERSION = 16  # offset of the version in struct uro_stats_header
HEADER_PID = 40      # offset of the pid
HEADER = 56          # unchanged bytes at the start of a file; at least the size of struct uro_stats_header


def address() -> str:
    """Returns a loopback address that no other test uses at the same time."""
    return f"127.{100 + os.getpid() % 100}.{os.getpid() // 100 % 250}.{os.getpid() // 25000 % 250 + 1}"


class Why:
    def __init__(self, case: Case):
        program = case.build / "tests" / "system" / "mistake"
        if not program.exists() or not (case.build / "lib" / "abi" / LIBRARY).exists():
            raise Skip("the headers of libibverbs are missing")
        self.case = case
        self.program = program
        self.directory = case.scratch / "state"
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(mode=0o700)

    def run(self, mistake: str, keys: str = "") -> subprocess.CompletedProcess:
        return self.case.call("run", "-d", f"uroce0:udp,ip={address()},hub=no{keys}", self.program, mistake,
                              UROCE_STATE_DIR=str(self.directory))

    def why(self, *arguments: object, code: int = 0) -> str:
        run = self.case.call("why", *arguments, UROCE_STATE_DIR=str(self.directory))
        equal(run.returncode, code, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def kept(self) -> list[pathlib.Path]:
        return sorted(self.directory.glob("*.ended"))


def pid_of(stderr: str) -> str:
    return re.search(r"uroce why (\d+)", stderr)[1]


# ---- mistakes ---------------------------------------------------------------

def why__no_mistake__prints_nothing(case: Case) -> None:
    why = Why(case)
    run = why.run("none")
    equal((run.stdout, run.stderr), ("0\n0\n", ""))
    equal(why.kept(), [])
    has(why.why(), "No queue pair has failed, and no call was refused.")


def why__wrong_key__both_ends_print_it(case: Case) -> None:
    why = Why(case)
    run = why.run("rkey")
    equal(run.stdout, "0\n10\n")
    has(run.stderr, "with rkey 0x777: no memory is registered with this key",
        "refused an RDMA WRITE of 64 bytes at 0x")
    equal(run.stderr.count("\n"), 2, run.stderr)
    has(why.why(pid_of(run.stderr)), "vendor_err 0x9", "vendor_err 0x10", "peer     process", "RC_WRITE_ONLY",
        "NAK: remote access error", "wr_id 0x7", "sent", "received")


def why__other_end_in_another_process__is_printed(case: Case) -> None:
    """Makes two files of one, so that each process has one end of the connection."""
    why = Why(case)
    pid = int(pid_of(why.run("rkey").stderr))
    file = why.kept()[0]
    content = file.read_bytes()
    first, second = (int(qpn, 16) for qpn in re.findall(r"QP 0x(\w+) failed", why.why()))
    ends = [struct.pack("<II", *pair) for pair in ((first, second), (second, first))]
    equal([content.count(end) for end in ends], [1, 1])
    nobody = struct.pack("<II", 1, 2)
    file.write_bytes(content.replace(ends[0], nobody))
    other = bytearray(content.replace(ends[1], nobody))
    struct.pack_into("<i", other, HEADER_PID, pid + 1)
    copy = file.with_name(file.name.replace(str(pid), str(pid + 1)))
    copy.write_bytes(other)
    copy.chmod(0o600)
    for own, peer in ((pid, pid + 1), (pid + 1, pid)):
        text = why.why(own)
        has(text, f"    peer     process {peer} (mistake): ")
        equal(text.count("  do  "), 2, text)


def why__wrong_queue_pair__counter_of_the_peer_shows_it(case: Case) -> None:
    why = Why(case)
    run = why.run("qpn")
    equal(run.stdout, "0\n12\n")
    has(run.stderr, f"no answer from {address()} (QP 0x", "in 2 retries of 16 ms")
    has(why.why(), "counted", "no such queue pair (drop_qpn)")


def why__closed_port__prints_the_icmp_error(case: Case) -> None:
    run = Why(case).run("closed")
    equal(run.stdout, "0\n12\n")
    has(run.stderr, "ICMP says that port 4791 is closed there", "start the peer's program under uroce")


def why__no_receive__is_printed_during_the_wait(case: Case) -> None:
    why = Why(case)
    run = why.run("rnr")
    equal(run.stdout, "0\n0\n")
    has(run.stderr, "RNR for 5", "posts no receives, and rnr_retry 7 retries for ever")
    equal(run.stderr.count("\n"), 1, run.stderr)
    has(why.why("uroce0"), "waits: RNR", "RNR NAK")


def why__path_mtu_above_the_link__prints_both(case: Case) -> None:
    why = Why(case)
    run = why.run("mtu", ";mtu=1500")
    equal(run.stdout, "22\n")
    wanted = "ibv_modify_qp: path_mtu 4096 is more than active_mtu 1024 of the port, whose link carries 1500 bytes"
    has(run.stderr, wanted)
    has(why.why(), "ibv_modify_qp refused (Invalid argument): path_mtu 4096 is more than active_mtu 1024")


def why__event_of_a_fail_rule__is_no_refusal(case: Case) -> None:
    why = Why(case)
    run = why.run("none", ";fail=ibv_post_send:1:IBV_EVENT_GID_CHANGE")
    equal(run.stdout, "0\n0\n")
    text = why.why()
    has(text, "  ibv_post_send: call 1 raises an event (GID table change) because of fail=")
    equal(text.count("refused"), 0, text)


def why__log_none__prints_nothing_and_records_all(case: Case) -> None:
    why = Why(case)
    run = why.run("rkey", ";log=none")
    equal(run.stderr, "")
    has(why.why(), "with rkey 0x777: no memory is registered")


def why__killed_process__failure_is_kept(case: Case) -> None:
    why = Why(case)
    run = why.run("killed")
    has(run.stderr, "with rkey 0x777")
    has(why.why(pid_of(run.stderr)), "(mistake, ended)", "no memory is registered with this key")
    equal(len(why.kept()), 1)


def why__ten_thousand_failures__are_a_few_lines(case: Case) -> None:
    why = Why(case)
    run = why.run("many")
    equal(run.stdout, "10000\n")
    assert run.stderr.count("\n") < 200, run.stderr[-2000:]
    has(run.stderr, "more lines were left out; see `uroce why ")
    has(why.why(pid_of(run.stderr)), "no answer from")


def why__ended_processes__16_are_kept(case: Case) -> None:
    why = Why(case)
    pids = [pid_of(why.run("rkey").stderr) for _ in range(18)]
    equal(len(why.kept()), 16)
    has(why.why(pids[-1]), "no memory is registered")
    has(why.why(pids[0], code=1), f"process {pids[0]} is not recorded")


# ---- files ------------------------------------------------------------------

def why__no_process_ran__is_printed(case: Case) -> None:
    why = Why(case)
    why.directory.rmdir()
    has(why.why(code=1), "no process of user")
    why.directory.mkdir(mode=0o700)
    has(why.why("4194304", code=1), "process 4194304 is not recorded", "`uroce why 0x400000` explains a vendor_err")
    has(why.why("other0", code=1), 'no process that is recorded runs a device "other0"')


def why__file_of_another_version__prints_a_remedy(case: Case) -> None:
    why = Why(case)
    why.run("rkey")
    file = why.kept()[0]
    content = bytearray(file.read_bytes())
    content[HEADER_VERSION:HEADER_VERSION + 6] = b"0.0.9\0"
    file.write_bytes(content)
    has(why.why(code=1), "uses uroce 0.0.9", "call the uroce that started the process")
    file.write_bytes(b"not ours")
    has(why.why(code=1), "not a file of uroce")


def why__files_with_any_content__no_crash_and_no_control_characters(case: Case) -> None:
    why = Why(case)
    why.run("rkey")
    file = why.kept()[0]
    content = file.read_bytes()
    draw = random.Random(1)
    for _ in range(40):
        wrong = bytearray(content)
        for _ in range(draw.choice([1, 100, 20000])):
            wrong[draw.randrange(HEADER, len(wrong))] = draw.randrange(256)
        file.write_bytes(wrong)
        run = case.call("why", "uroce0", UROCE_STATE_DIR=str(why.directory))
        assert run.returncode in (0, 1), (run.returncode, run.stderr)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", run.stdout), run.stdout
    file.write_bytes(content[:HEADER] + bytes([255]) * (len(content) - HEADER))
    run = case.call("why", "uroce0", UROCE_STATE_DIR=str(why.directory))
    assert run.returncode in (0, 1), (run.returncode, run.stderr)


def why__another_user__reads_nothing(case: Case) -> None:
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    why = Why(case)
    why.run("rkey")
    run = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", case.uroce, "why",
                          "--user", "0"], capture_output=True, text=True, check=False,
                         env={**os.environ, "UROCE_STATE_DIR": str(why.directory)})
    if run.returncode in (126, 127):
        raise Skip("another user cannot run the program here")
    equal((run.returncode, run.stdout), (1, ""))
    has(run.stderr, "only the user and root may read it")


# ---- vendor_err -------------------------------------------------------------

def why__vendor_err__is_explained(case: Case) -> None:
    has(Why(case).why("0x9"), "vendor_err 0x9 (9): the peer refused the remote key, address range or right",
        "usual causes", "what to do")
    has(Why(case).why("0x99", code=1), "0x99 is not a vendor_err of uroce")
    has(Why(case).why("0x", code=1), "0x is not a vendor_err of uroce")


def why__wrong_options__are_refused(case: Case) -> None:
    why = Why(case)
    has(why.why("--user", "me", code=2), "--user must be the number of a user")
    has(why.why("1", "2", code=2), '"2": only one process or device can be named')
    for number in ("999999999999", "4294967297", "99999999999999999999", "0"):
        equal(why.why(number, code=2),
              f"uroce why: {number} is not the number of a process, which is from 1 to 2147483647; see `uroce why --help`\n")
    has(why.why("--what", code=2), "the option --what does not exist")
    has(why.why("--help"), "Usage: uroce why")


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, uroce_case.named_cases(globals())))
