#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs of programs.txt over a library that was built with sanitizers. A report of a sanitizer is a failure. Writes TAP.

    test_sanitized.py BUILD LINK [--match REGEX] [--all]      LINK: memif or udp; --all: every row that can run

The programs are those of the distribution. The runtime of the sanitizer is loaded before the library. So it also tracks the
program's own memory, for example registered memory and posted requests.
"""
import atexit
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import connections
import programs
import test_programs
import test_udp
import pairs  # from tools/lib/common, which the module programs puts on the path
from uroce_case import LIBRARY, PATHS, Case, Skip, equal, has, main

# A few programs of each kind. Together they use every transport, each way to post and to wait, and rarely used features.
CHOSEN = {
    "memif": """rc_pingpong_odp rc_pingpong_dm uc_pingpong ud_pingpong_events xsrq_pingpong send_bw_group
        send_bw_srq read_bw_events wr_ud_send_lat_inline wr_xrc_send_bw wr_atomic_bw devinfo rping mckey""",
    "udp": """rc_pingpong_wr rc_pingpong_events srq_pingpong_events old_send_lat_inline read_bw
        atomic_bw_swap ucx_rc_tag_bw ucx_ud_tag_bw hello rping_own_qp ucmatose udaddy rdma_xserver cmtime
        rstream_verify riostream"""}
SHORT = ["-n", "100"]  # option of perftest and the pingpongs
# These programs have bugs of their own. With several connections, the service thread of librdmacm polls a list that it has
# freed. If the server does not listen yet, perftest with -R uses an identifier that it has destroyed.
LEFT_OUT = re.compile("pyverbs|_duration$|^tcp_iperf_many$|^cm_")

# Objects that a program does not free: start of the program's name, and the function that returned the object.
# Leaks of memory that the program itself allocated are ignored.
KEPT = (
    ("ib_", "ibv_get_device_list"),  # perftest never frees the list
    ("ib_", "ibv_create_cq"),        # the client of ib_send_* never destroys the CQ of its receives
)
# At its end, rping destroys the event channel on which its other thread waits. The leak check delays that thread. The
# thread then uses a closed descriptor, and the program ends with an error.
NO_LEAKS = ("rping",)

REPORTED = 86  # exit status of a process with a sanitizer report
# halt_on_error=0: the program continues after a leak report and writes its own output. Other errors in uroce still end the
# program. verify_asan_link_order=0: `env` starts the program, and in `env` the library is loaded before the runtime of the
# sanitizer.
ADDRESSES = (f"exitcode={REPORTED}:log_path={{where}}/report:halt_on_error=0:detect_stack_use_after_return=1:"
             "verify_asan_link_order=0:detect_leaks={leaks}")
UNDEFINED = f"exitcode={REPORTED}:halt_on_error=1:print_stacktrace=1"  # gcc's runtime writes its reports to stderr, not to a file
LEAKS = "ERROR: LeakSanitizer: detected memory leaks"
LEAK = re.compile(r"^(?:Direct|Indirect) leak of .*?(?=\n\n)", re.M | re.S)
FRAME_OF_OURS = re.compile(r"^ +#\d+ 0x\w+ in (\w+) [^(\s]*/lib/\S+\.c:\d+", re.M)


@functools.cache
def runtime(build: pathlib.Path) -> str:
    """Returns the path of the sanitizer runtime that the library needs, or an empty string if it needs none."""
    needs = subprocess.run(["ldd", build / "lib" / "abi" / LIBRARY], capture_output=True, text=True, check=False).stdout
    found = re.search(r"libasan\.so\S* => (\S+)", needs)
    return found[1] if found else ""


def is_ours(leak: str, program: str) -> bool:
    """Returns whether uroce allocated the leaked block, and the block does not belong to an object in KEPT."""
    functions = FRAME_OF_OURS.findall(leak)
    return bool(functions) and not any(program.startswith(name) and function in functions for name, function in KEPT)


def what_counts(report: str, program: str) -> str:
    if LEAKS not in report:
        return report
    ours = [leak for leak in LEAK.findall(report) if is_ours(leak, program)]
    # An indirect leak is reachable from a direct leak. For example, a CQ that the program does not destroy has a pointer to its
    # context. So indirect leaks alone do not count.
    return "\n\n".join(ours) if any(leak.startswith("Direct") for leak in ours) else ""


class Reports:
    """The reports of all processes, also of a broker that ends after the case that started it."""

    def __init__(self, uroce: pathlib.Path):
        self.where = pathlib.Path(tempfile.mkdtemp(prefix="uroce-reports-"))
        atexit.register(shutil.rmtree, self.where, ignore_errors=True)
        if pairs.plain_user(uroce):
            os.chown(self.where, pairs.NOBODY, pairs.NOBODY)

    def take(self, program: str) -> str:
        """Returns the text of the new reports that count, and removes all report files."""
        texts = []
        for file in sorted(self.where.iterdir()):
            texts.append(what_counts(file.read_text(errors="replace"), program))
            file.unlink()
        return "\n".join(filter(None, texts))


def sanitized(kind: type, reports: Reports, program: str) -> type:
    """Returns a subclass of @kind whose programs run with the runtime of the sanitizer."""
    class Sanitized(kind):
        def command(self, role: str, words: list[str]) -> list[str]:
            build = self.uroce.parent.parent
            options = {"where": reports.where, "leaks": int(program not in NO_LEAKS)}
            first = f"LD_PRELOAD={runtime(build)} "
            return ["env", f"ASAN_OPTIONS={ADDRESSES.format(**options)}",
                    f"UBSAN_OPTIONS={UNDEFINED}",
                    *super().command(role, ["env", f"{first}{build}/lib/paths/{PATHS} {build}/lib/abi/{LIBRARY}",
                                            *[word.replace("LD_PRELOAD=", first) for word in words]])]

        def __exit__(self, *why: object) -> None:
            for said in self.where.glob("*.err"):
                if "runtime error: " in said.read_text(errors="replace"):
                    shutil.copyfile(said, reports.where / said.name)
            super().__exit__(*why)
    return Sanitized


# ---- tests of the test: Python scripts with errors that the sanitizer must report --------------

FREED = "import ctypes as c; p = c.CDLL(None).malloc; p.restype = c.c_void_p; p = c.c_void_p(p(4096)); "
VERBS = f"v = c.CDLL('{LIBRARY}'); v.ibv_get_device_list.restype = c.c_void_p; "
BAD = {  # value: the script, its exit status, texts of the expected report
    "memory_that_was_freed__is_reported": (
        FREED + VERBS + "c.CDLL(None).free(p); v.ibv_ack_async_event(p)", REPORTED,
        "heap-use-after-free", "async.c"),
    "pointer_that_is_not_aligned__is_reported": (
        FREED + VERBS + "v.ibv_ack_async_event(c.c_void_p(p.value + 1))", REPORTED,
        "misaligned address", "async.c"),
    "list_that_is_forgotten__is_reported": (
        FREED + VERBS + "v.ibv_get_device_list(None)", 0,
        "Direct leak of ", "ibv_get_device_list"),
}


def bad_program(name: str, reports: Reports):
    script, status, *said = BAD[name]

    def run(case: Case) -> None:
        with sanitized(pairs.Pair, reports, "python3")(case.uroce) as pair:
            output = pair.alone(["/usr/bin/python3", "-c", script])
        found = reports.take("python3")
        equal(output.status, status, output.tail())
        has(found, *said)
    run.__name__ = name
    return run


# ---- programs -------------------------------------------------------------------------------

def case_of(row, program: str, run, reports: Reports):
    """Returns a case that calls @run, and fails if @run or the sanitizer reports a problem."""
    def checked(case: Case) -> None:
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed")
        try:
            problem = run(case)
        except test_programs.Skip as why:
            raise Skip(str(why)) from why
        found = reports.take(pathlib.Path(program).name)
        assert not found, f"{found}\n{problem}"
        assert not problem, problem
    checked.__name__ = row.name
    return checked


def program_case(row: programs.Row, kind: type, reports: Reports):
    if row.file.startswith("ib") and not row.alone:
        row = dataclasses.replace(row, program=row.program + (SHORT if "-n" not in row.program else []))
    pair = sanitized(kind, reports, row.file)
    return case_of(row, row.file, lambda case: test_programs.run_row(case.uroce, row, pair), reports)


def connection_case(row: connections.Connection, kind: type, reports: Reports):
    program = programs.file_of(row.server)
    pair = sanitized(kind, reports, pathlib.Path(program).name)
    return case_of(row, program, lambda case: connections.run(case.uroce, row, pair), reports)


def cases(build: pathlib.Path, link: str, every: bool) -> list:
    uroce = build / "app" / "uroce"
    reports = Reports(uroce)
    kinds = {"memif": (pairs.Pair, connections.Pair), "udp": (test_udp.Pair, test_udp.Pair)}[link]
    found = [program_case(row, kinds[0], reports) for row in programs.rows() if link == "memif" or not row.alone]
    rows = connections.rows(uroce)
    if link == "udp":
        rows = [test_udp.on_loopback(row) for row in rows]
    found += [connection_case(row, kinds[1], reports) for row in rows]
    left_out = [LEFT_OUT] + ([test_udp.LEFT_OUT] if link == "udp" else [])
    if every:
        return [case for case in found if not any(words.search(case.__name__) for words in left_out)]
    chosen = [case for case in found if case.__name__ in CHOSEN[link].split()]
    return [bad_program(name, reports) for name in BAD if link == "memif"] + chosen


if __name__ == "__main__":
    BUILD, LINK = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if not runtime(BUILD):
        print(f"1..0 # SKIP {LIBRARY} was built without -Db_sanitize=address,undefined, or not at all")
        sys.exit(0)
    EVERY = "--all" in sys.argv
    sys.argv = [sys.argv[0], *[word for word in sys.argv[1:] if word not in ("--all", LINK)]]
    sys.exit(main(__doc__, cases(BUILD, LINK, EVERY)))
