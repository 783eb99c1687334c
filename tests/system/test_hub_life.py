#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests when the broker of a UDP address ends, and which error a process gets if the broker cannot serve it. Writes TAP.

    test_hub_life.py BUILD [--match REGEX]
"""
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys

from test_hub import Broker, broker
from test_udp import SHARED_ADDRESS, Shared, is_used
import pairs  # from tools/lib/common, which a module of test_udp puts on the path
import patience
from uroce_case import Case, equal, has, main, named_cases


def looks(hub: Broker) -> int:
    """Returns how often the broker was woken."""
    text = pathlib.Path(f"/proc/{hub.process.pid}/status").read_text()
    return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])


@contextlib.contextmanager
def program(pair: Shared, *words: str):
    """Runs a program under `uroce run` during a `with` block."""
    started = subprocess.Popen([*pair.drop, str(pair.uroce), "run", "-q", "--device", pair.configuration("server"), "--",
                                *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.stdin.close()
        started.stdout.close()
        started.wait()


def idle(case: Case, pair: Shared) -> Broker:
    """Starts a broker that ends after a second without members."""
    return Broker(case.uroce, pair.drop, more=["--idle", "1"])


def ends(hub: Broker) -> None:
    equal(hub.process.wait(patience.seconds(20)), 0)


def broker__idle_program_of_uroce_run__keeps_running(case: Case) -> None:
    with Shared(case.uroce) as pair:
        hub = idle(case, pair)
        try:
            with program(pair, "/bin/sh", "-c", "echo ready; exec cat") as waits:
                equal(waits.stdout.readline().strip(), "ready")
                before = looks(hub)
                assert pairs.wait_for(lambda: hub.process.poll() is not None or looks(hub) > before + 2, 20)
                equal(hub.process.poll(), None, "the broker ended before the program")
            ends(hub)
        finally:
            hub.end()


def broker__child_of_a_program_of_uroce_run__keeps_running(case: Case) -> None:
    """The broker runs as long as a background process that a shell started, although the shell has ended."""
    with Shared(case.uroce) as pair:
        hub = idle(case, pair)
        try:
            with program(pair, "/bin/sh", "-c", "exec 3<&0; cat <&3 & echo ready") as parent:
                equal(parent.stdout.readline().strip(), "ready")
                equal(parent.wait(patience.seconds(10)), 0)
                before = looks(hub)
                assert pairs.wait_for(lambda: hub.process.poll() is not None or looks(hub) > before + 2, 20)
                equal(hub.process.poll(), None, "the broker ended before the child")
            ends(hub)
        finally:
            hub.end()


def broker__no_descriptors_left__prints_the_reason_and_continues(case: Case) -> None:
    with Shared(case.uroce) as pair:
        with broker(pair) as first:
            needed = len(first.descriptors())
        hub = Broker(case.uroce, [*pair.drop, "prlimit", f"--nofile={needed + 1}:{needed + 1}"])
        try:
            server, _ = pair.start("server", ["ibv_rc_pingpong", "-g", "1"])
            assert pairs.wait_for(lambda: is_used(SHARED_ADDRESS) or server.poll() is not None, 20)
            said = subprocess.run([*pair.drop, *pair.command("client", ["ibv_rc_pingpong", "-g", "1"])], capture_output=True,
                                  text=True, timeout=patience.seconds(60), check=False)
            has(said.stderr, f"the broker of {SHARED_ADDRESS} (uroce hub) has no file descriptor left (EMFILE)")
            pair.end(server)
            assert pairs.wait_for(lambda: len(hub.descriptors()) == needed, 10)
            with program(pair, "/usr/bin/env", "ibv_rc_pingpong", "-g", "1"):
                assert pairs.wait_for(lambda: is_used(SHARED_ADDRESS), 20), "the broker does not serve the next program"
        finally:
            hub.end()


CASES = named_cases(globals())

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
