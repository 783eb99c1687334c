#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that a message is acknowledged once the receiver has polled it, even if the receiver then ends, and that the ACK arrives
before a reply of the receiver. Writes TAP.

    test_leave.py build [--match REGEX]
"""
import functools
import sys

import apart  # puts tools/lib/common on the path
import test_udp
import uroce_case
from uroce_case import Case, Skip, equal
import pairs
import patience

WAYS = ["_exit", "exec", "abort", "kill", "destroy"]
SECONDS = 70   # longer than the time limits of the programs themselves
ROUNDS = 3     # more than one, because an error may occur only in some runs
LINKS = {"memif": pairs.Pair, "udp": test_udp.Pair}
THREAD = {"": "", "_service_thread": ";progress=thread"}


def meet(case: Case, pair: pairs.Pair, what: str) -> None:
    program = case.build / "tests" / "system" / "leaver"
    if not program.exists():
        raise Skip(f"{program.name} is not built: libibverbs is missing")
    port = pairs.free_port()
    server = pair.start("server", [str(program), "server", str(port), what])
    assert pairs.wait_for(lambda: pairs.listens(port) or server[0].poll() is not None,
                          patience.seconds(30))
    client = pair.start("client", [str(program), "client", str(port), what])
    for side, started in ("client", client), ("server", server):
        pair.finish(side, *started, patience.seconds(SECONDS))
    equal(client[1].status, 0, client[1].text + server[1].text)


def left(kind, settings: str, how: str, case: Case) -> None:
    for _ in range(ROUNDS):
        with kind(case.uroce, settings=settings) as pair:
            meet(case, pair, how)


def answered(kind, settings: str, case: Case) -> None:
    with kind(case.uroce, settings=settings) as pair:
        meet(case, pair, "answer")


def cases() -> list:
    for link, kind in LINKS.items():
        for who, settings in THREAD.items():
            for how in WAYS:
                run = functools.partial(left, kind, settings, how)
                run.__name__ = f"receiver_over_{link}{who}__leaves_by_{how}__sender_has_success"
                yield run
            run = functools.partial(answered, kind, settings)
            run.__name__ = f"answers_over_{link}{who}__come_behind_the_completion_of_the_question"
            yield run


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, list(cases())))
