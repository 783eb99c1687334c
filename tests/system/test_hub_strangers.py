#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that another user of the machine cannot block the processes of a user who share a UDP address. Runs as root, because it
acts as both users. Writes TAP.

    test_hub_strangers.py BUILD [--match REGEX]
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

from test_hub import LISTENS_ON, Broker, Listener, connect
from test_udp import SHARED_ADDRESS, Shared
import pairs  # from tools/lib/common, which a module of test_udp puts on the path
from uroce_case import Case, Skip, equal, has, main, named_cases

USER, STRANGER = 65000 + os.getpid() % 200, 65300  # unused user IDs, whose directories do not exist yet
PROGRAM = pathlib.Path(__file__).resolve().parent / "stranger.py"
PLACES = [f"{place}/uroce-{USER}" for place in ("/tmp", "/var/tmp")]


def drop_to(user: int) -> list[str]:
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]


class Dropped(Shared):
    """A pair whose processes run as USER, without XDG_RUNTIME_DIR."""

    def __enter__(self) -> "Dropped":
        if os.geteuid() != 0 or shutil.which("setpriv") is None:
            raise Skip("needs root and setpriv")
        super().__enter__()
        if not self.drop:
            raise Skip("the build directory is readable for root only")
        self.drop = drop_to(USER)
        os.chown(self.where, USER, USER)
        self.runtime = os.environ.pop("XDG_RUNTIME_DIR", None)
        return self

    def __exit__(self, *why: object) -> None:
        super().__exit__(*why)
        for pid in brokers():
            os.kill(pid, 9)
        for place in PLACES:
            shutil.rmtree(place, ignore_errors=True)
        if self.runtime is not None:
            os.environ["XDG_RUNTIME_DIR"] = self.runtime


def brokers() -> list[int]:
    """Returns the brokers of USER for the shared address."""
    found = subprocess.run(["pgrep", "-U", str(USER), "-f", f"uroce hub .*--address {SHARED_ADDRESS}"], capture_output=True,
                           text=True, check=False)
    return [int(pid) for pid in found.stdout.split()]


@contextlib.contextmanager
def stranger(*words: str):
    process = subprocess.Popen([*drop_to(STRANGER), "/usr/bin/python3", PROGRAM, *words], stdout=subprocess.PIPE, text=True)
    try:
        equal(process.stdout.readline().strip(), "ready")
        yield
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def works(pair: Shared) -> None:
    """Checks that devices start, that two processes connect, and that a process can listen."""
    connect(pair)
    equal(Listener(pair).listen("a"), "ok")


def abstract_names__used_by_another_user__uroce_still_works(case: Case) -> None:
    service = 0x106 << 16 | LISTENS_ON
    with Dropped(case.uroce) as pair:
        with stranger("abstract", f"uroce-hub-{USER}-{SHARED_ADDRESS}", f"uroce-listen-{USER}-{SHARED_ADDRESS}-{service:x}"):
            works(pair)


def directory__made_by_another_user__another_directory_is_used(case: Case) -> None:
    with Dropped(case.uroce) as pair, stranger("directory", PLACES[0]):
        works(pair)
        equal(os.listdir(PLACES[0]), [])


def directories__all_made_by_another_user__error_has_their_paths(case: Case) -> None:
    with Dropped(case.uroce) as pair, stranger("directory", *PLACES):
        said = pair.alone(["/usr/bin/true"])
        has(said.text, f"uroce hub: {PLACES[1]} belongs to another user", "set XDG_RUNTIME_DIR")
        equal(said.status, 0)


def address__hub_of_another_user__error_has_the_user(case: Case) -> None:
    with Dropped(case.uroce) as pair:
        hub = Broker(case.uroce, drop_to(pairs.NOBODY))
        try:
            said = pair.alone(["ibv_rc_pingpong", "-g", "1"])
        finally:
            hub.end()
        has(said.text, f"uroce hub: UDP port 4791 of {SHARED_ADDRESS} is taken by a hub of user nobody (one user can share an address)")
        assert said.status, f"ended with {said.status}"


CASES = named_cases(globals())

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
