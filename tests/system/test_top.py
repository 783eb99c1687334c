#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests `uroce top` in a pseudo-terminal. A terminal emulator renders the screen. Writes TAP.

    test_top.py BUILD_DIRECTORY [--match REGEX]
"""
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import test_stat
import uroce_case
from uroce_case import Case, Skip, equal, has, patience

try:
    import pyte
except ImportError:
    pyte = None


class Terminal:
    def __init__(self, case: Case, *options: str, lines: int = 24, columns: int = 80, **environment: str):
        if pyte is None:
            raise Skip("python3-pyte is not installed")
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.master, slave = pty.openpty()
        self.resize(lines, columns)
        self.modes = termios.tcgetattr(slave)
        self.slave = slave
        self.written = b""
        self.program = subprocess.Popen(
            [case.uroce, "top", *options], stdin=slave, stdout=slave, stderr=subprocess.PIPE, text=True,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, "TERM": "xterm", **test_stat.environment(case), **environment})

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", lines, columns, 0, 0))
        self.screen.resize(lines, columns)

    def read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            data = os.read(self.master, 65536)
            self.written += data
            self.stream.feed(data)

    def text(self) -> str:
        return "\n".join(self.screen.display)

    def wait(self, *patterns: str) -> str:
        """Reads until the screen has all patterns."""
        until = time.monotonic() + patience.seconds(20)
        while time.monotonic() < until:
            if all(re.search(pattern, self.text(), re.M) for pattern in patterns):
                return self.text()
            self.read(0.1)
        raise AssertionError(f"no {patterns} in\n{self.text()}\n{self.program.poll()}")

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """Reads until the program has ended. Returns its status."""
        until = time.monotonic() + patience.seconds(20)
        while self.program.poll() is None and time.monotonic() < until:
            self.read(0.1)
        self.read(0.1)
        return self.program.returncode


@contextlib.contextmanager
def top(case: Case, *options: str, **more):
    terminal = Terminal(case, *options, **more)
    try:
        yield terminal
    finally:
        terminal.program.kill()
        terminal.program.communicate()
        os.close(terminal.master)
        os.close(terminal.slave)


def expect_restored(terminal: Terminal) -> None:
    equal(termios.tcgetattr(terminal.slave), terminal.modes)
    has(terminal.written[-200:].decode(errors="replace"), "\x1b[?1049l")  # switches back from the alternate screen


def top__nothing_runs__prints_it_and_q_ends_the_program(case: Case) -> None:
    with top(case) as terminal:
        terminal.wait("no program of (any|this) user runs over uroce; start one with `uroce run PROGRAM`", "^DEVICE", "^PID")
        terminal.press("q")
        equal(terminal.end(), 0)
        expect_restored(terminal)


def top__filter_that_nothing_passes__is_named(case: Case) -> None:
    with test_stat.bandwidth(case):
        for words, wanted in ((("nodev",), "no process has used the device nodev; `uroce stat` lists all"),
                              (("--pid", "1"), "no process 1 runs over uroce; `uroce stat` lists all"),
                              (("--pid", "1", "u0"), "no process 1 with device u0 runs over uroce")):
            with top(case, *words) as terminal:
                terminal.wait(wanted)


def top__signals__restore_the_terminal(case: Case) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with top(case) as terminal:
            terminal.wait("^PID")
            terminal.program.send_signal(number)
            equal(terminal.end(), 0)
            expect_restored(terminal)


def top__two_programs__shows_both_rows_and_the_history(case: Case) -> None:
    with test_stat.bandwidth(case) as programs, \
            top(case, "--delay", "0.2", LC_ALL="C.UTF-8") as terminal:
        pids = [program.pid for program in programs]
        terminal.wait(*(rf"^{pid} +ib_write_bw +[0-9a-f]{{6}} RC +RT[RS] " for pid in pids), "[▁▂▃▄▅▆▇█]{3}",
                      r"^u0 +up ", r"/256 ")
        equal(len(terminal.screen.display[0]), 80)
        terminal.press("p")
        terminal.wait(rf"(?s)^{min(pids)} .*^{max(pids)} ")
        terminal.press("i")
        terminal.wait(rf"(?s)^{max(pids)} .*^{min(pids)} ")
        terminal.resize(30, 120)
        terminal.wait("RNR +PEER", test_stat.CLIENT)
        terminal.resize(4, 20)
        terminal.wait("enlarge the window")
        terminal.resize(24, 80)
        terminal.wait(rf"^{pids[0]} ")
        programs[1].kill()
        programs[1].wait()
        terminal.wait(r"processes [01] ")


def top__locale_without_utf8__has_a_plain_history(case: Case) -> None:
    with test_stat.bandwidth(case), top(case, "--delay", "0.2", LC_ALL="C") as terminal:
        terminal.wait(r"^u0 +up .*[_.:=+*#-]{3}$|^u0 +up .*[_.:=+*#-]{3} ")
        assert terminal.written.isascii(), terminal.written


def top__terminal_closed__ends(case: Case) -> None:
    terminal = Terminal(case)
    try:
        terminal.wait("^PID")
        os.close(terminal.slave)
        os.close(terminal.master)
        terminal.program.wait(timeout=patience.seconds(20))
    finally:
        terminal.program.kill()
        terminal.program.communicate()


def top__no_terminal_or_unknown_type__is_reported(case: Case) -> None:
    run = case.call("top", **test_stat.environment(case))
    equal((run.returncode, run.stdout), (1, ""))
    has(run.stderr, "uroce stat --watch")
    with top(case, TERM="no-such-terminal") as terminal:
        equal(terminal.end(), 1)
        has(terminal.program.stderr.read(), '"no-such-terminal" is not known', "TERM=xterm")


def top__options_that_do_not_fit__error_has_the_option(case: Case) -> None:
    for words, wanted in ((("-d", "0"), "0.2 to 10"), (("-d", "x"), "0.2 to 10"), (("-p", "0"), "--pid 0 is not the number of a process"), (("-p", "1.5"), "--pid 1.5 is not"),
                          (("a", "b"), "only one device"), (("--nonsense",), "the option --nonsense does not exist")):
        run = case.call("top", *words, **test_stat.environment(case))
        equal((run.returncode, run.stdout), (2, ""), str(words))
        has(run.stderr, wanted)


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
