#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests processes that share an address over UDP, and their broker. Each process may be killed at any time. Writes TAP.

    test_hub.py BUILD [--match REGEX]
    UROCE_HUB_LIVES=1000 test_hub.py BUILD --match come_and_die
"""
import contextlib
import ctypes
import fcntl
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import time

import programs
import pairs  # from tools/lib/common, which the module programs puts on the path
import hub_member
import patience
from test_udp import PORT, SHARED_ADDRESS, SUBNET, TAKEN_ADDRESS, Namespaces, Shared, is_bound, is_used, shares
from test_udp_paths import inside, spaces_or_skip
from uroce_case import Case, Skip, equal, has, main, named_cases

LIVES = int(os.environ.get("UROCE_HUB_LIVES", "70"))  # processes that join; more than the broker accepts at once
AT_ONCE = 4
LIFE = 0.3       # longest time until a process is killed, seconds; long enough for every phase of a process
GROWN = 256      # growth of the broker that is accepted after the first round, KiB
PIDFD_GETFD = 438  # number of the system call
SO_BUSY_POLL = 46
LISTENER = pathlib.Path(__file__).resolve().parent / "listener.py"
OTHER_ADDRESS = f"{SUBNET}.8"
LISTENS_ON = 7471
EVENTS = pathlib.Path(__file__).resolve().parent / "link_events.py"


class Broker:
    """A broker that the test starts. `uroce run` can also start brokers."""

    def __init__(self, uroce: pathlib.Path, drop: list[str], address: str = SHARED_ADDRESS,
                 more: list[str] | None = None):
        self.process = subprocess.Popen([*drop, uroce, "hub", "--address", address, *(more or [])], stderr=subprocess.PIPE)
        assert pairs.wait_for(lambda: self.process.poll() is not None or self.serves(), 10)
        assert self.process.poll() is None, self.process.stderr.read()

    def serves(self) -> bool:
        """Returns whether the broker has opened all its sockets and sleeps."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return len(self.descriptors()) > 63 and "State:\tS" in status

    def descriptors(self) -> list[str]:
        return os.listdir(f"/proc/{self.process.pid}/fd")

    def memory(self) -> int:
        """Returns the private memory in KiB. Pages of libraries do not count, because their number varies."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", text)[1])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@contextlib.contextmanager
def broker(pair: Shared):
    """Kills brokers that earlier cases left, then starts a broker."""
    for pid in brokers():
        os.kill(pid, signal.SIGKILL)
    assert pairs.wait_for(lambda: not is_bound(SHARED_ADDRESS), 10), f"{SHARED_ADDRESS} stays taken"
    made = Broker(pair.uroce, pair.drop)
    try:
        yield made
    finally:
        made.end()


def brokers() -> list[int]:
    """Returns the brokers of the shared address. This test may end them, because no other test uses this subnet."""
    found = subprocess.run(["pgrep", "-f", f"uroce hub .*--address {SHARED_ADDRESS}"], capture_output=True, text=True,
                           check=False)
    return [int(pid) for pid in found.stdout.split()]


class Crowd:
    """At most AT_ONCE processes that run at the same time. Each process is killed after a random time, unless it has ended by
    itself."""
    KINDS = (["ibv_rc_pingpong", "-g", "1", "-p", "{port}"], ["rping", "-s", "-a", SHARED_ADDRESS, "-p", "{port}"],
             ["rping", "-c", "-C", "1", "-a", SHARED_ADDRESS, "-p", "{port}"])  # rejected, because no program listens there

    def __init__(self, pair: Shared, rng: random.Random):
        self.pair, self.rng = pair, rng
        self.living: list[tuple[float, subprocess.Popen]] = []
        self.killed = 0

    def add(self, number: int) -> None:
        while len(self.living) == AT_ONCE:
            self.end_first()
        program = [word.format(port=20000 + number % 10000) for word in self.KINDS[number % len(self.KINDS)]]
        process = subprocess.Popen([*self.pair.drop, *self.pair.command("server", program)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.living.append((time.monotonic() + self.rng.uniform(0, LIFE), process))
        self.living.sort(key=lambda entry: entry[0])

    def end_first(self) -> None:
        until, process = self.living.pop(0)
        try:
            process.wait(max(0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.killed += 1

    def end(self) -> None:
        while self.living:
            self.end_first()


def crowd(pair: Shared, rng: random.Random, lives: int) -> int:
    """Runs @lives processes. Returns how many of them were killed."""
    made = Crowd(pair, rng)
    try:
        for number in range(lives):
            made.add(number)
    finally:
        made.end()
    return made.killed


def connect(pair: Shared) -> None:
    problem = pair.run(["ibv_rc_pingpong", "-g", "1", "-c"], 30).problem()
    assert not problem, problem


def broker__processes_join_and_die__releases_everything(case: Case) -> None:
    rng = random.Random(7)
    with Shared(case.uroce) as pair, broker(pair) as hub:
        alone = len(hub.descriptors())
        crowd(pair, rng, 12)
        assert pairs.wait_for(lambda: len(hub.descriptors()) == alone, 10), hub.descriptors()
        before = hub.memory()
        killed = crowd(pair, rng, LIVES)
        assert pairs.wait_for(lambda: len(hub.descriptors()) == alone, 10), hub.descriptors()
        equal(hub.memory() - before < GROWN, True, f"{before} KiB before, {hub.memory()} after {LIVES} processes")
        assert killed > 0, f"none of {LIVES} was killed: all ended by themselves"
        connect(pair)
        equal(hub.process.poll(), None)


def broker__killed__link_is_down_until_the_next_broker(case: Case) -> None:
    with Shared(case.uroce) as pair:
        watcher, _ = pair.start("server", ["/usr/bin/python3", str(EVENTS)])

        def printed(*words: str) -> None:
            pairs.wait_for(lambda: watcher.poll() is not None or all(w in pair.said("server") for w in words), 20)
            has(pair.said("server"), *words)

        assert pairs.wait_for(lambda: watcher.poll() is not None or "started" in pair.said("server"), 20)
        if watcher.poll() == 77:
            raise Skip("pyverbs is not installed")
        with broker(pair):
            printed("IBV_EVENT_PORT_ERR", "IBV_EVENT_PORT_ACTIVE")
        assert pairs.wait_for(lambda: pair.said("server").count("IBV_EVENT_PORT_ERR") == 2, 20), pair.said("server")


def broker__started_after_a_killed_broker__traffic_continues(case: Case) -> None:
    program_ = list(pairs.STREAM)

    def lines() -> int:
        return len(programs.figures.bandwidths(pair.said("client")))

    with Shared(case.uroce) as pair:
        port = pairs.free_port()
        server, _ = pair.serve(program_, port)
        client, _ = pair.start("client", [*program_, "-p", str(port), "localhost"])
        assert pairs.wait_for(lambda: lines() > 0 or client.poll() is not None, 30), pair.said("client")
        for pid in brokers():
            os.kill(pid, signal.SIGKILL)
        again = subprocess.run([*pair.drop, case.uroce, "hub", "--address", SHARED_ADDRESS, "--idle", "2", "--background"],
                               check=False)
        equal(again.returncode, 0)
        # The line of the second in which the broker died, and lines of later seconds.
        before = lines()
        assert pairs.wait_for(lambda: lines() > before + 3 or client.poll() is not None, 30), pair.said("client")
        assert client.poll() is None and server.poll() is None, pair.said("client") + pair.said("server")


def start_broker(case: Case, spaces: Namespaces, address: str) -> subprocess.Popen:
    hub = spaces.start("a", case.uroce, "hub", "--address", address)
    table = "/proc/net/udp6" if ":" in address else "/proc/net/udp"
    assert pairs.wait_for(lambda: inside(spaces, "a", "cat", table).count(":12B7") > 60, 10), "no broker"
    return hub


def raw_socket__broker_ends_and_starts__closes_and_opens(case: Case) -> None:
    """A broker that runs as root has a raw socket, so that it can check the ICRC of packets from other implementations."""
    with spaces_or_skip() as spaces:
        def table(name: str) -> str:
            return inside(spaces, "a", "cat", f"/proc/net/{name}")

        def serve() -> subprocess.Popen:
            return start_broker(case, spaces, "10.9.0.1")

        first = serve()
        spaces.start("a", case.uroce, "run", "--device", "uroce0:udp,ip=10.9.0.1", "--", "ibv_rc_pingpong", "-g", "1")
        assert pairs.wait_for(lambda: "0100090A:0011" in table("raw"), 10), table("raw")
        first.kill()
        first.wait()
        assert pairs.wait_for(lambda: "0100090A:0011" not in table("raw"), 10), table("raw")
        serve()
        assert pairs.wait_for(lambda: "0100090A:0011" in table("raw"), 10), table("raw")
        equal(table("raw").count("0100090A:0011"), 1)


def broker__ends_while_another_starts__one_broker_runs(case: Case) -> None:
    with Shared(case.uroce) as pair, broker(pair) as going:
        os.kill(going.process.pid, signal.SIGSTOP)
        asked = subprocess.Popen([*pair.drop, case.uroce, "hub", "--address", SHARED_ADDRESS, "--idle", "2", "--background"])
        pairs.wait_exactly(lambda: asked.poll() is not None, 1)  # it must wait, because the stopped broker may be about to end
        going.process.kill()
        equal(asked.wait(patience.seconds(30)), 0)
        going.process.wait()
        equal(len(brokers()), 1)
        connect(pair)


def hub__port_in_use__error_names_the_process(case: Case) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind((TAKEN_ADDRESS, PORT))
        run = case.call("hub", "--address", TAKEN_ADDRESS)
    has(run.stderr, f"UDP port 4791 of {TAKEN_ADDRESS} is taken by process ", "(python3)")
    equal(run.returncode, 1)


def run_in(place: pathlib.Path, pair: Shared, *words: str) -> subprocess.CompletedProcess:
    """Runs `uroce` as the user of the pair, with @place as XDG_RUNTIME_DIR."""
    return subprocess.run([*pair.drop, "env", f"XDG_RUNTIME_DIR={place}", pair.uroce, *words], capture_output=True, text=True,
                          timeout=patience.seconds(60), check=False)


def two_places(pair: Shared) -> list[pathlib.Path]:
    places = [pair.where / name for name in ("first", "second")]
    for place in places:
        place.mkdir(mode=0o700)
        if pair.drop:
            os.chown(place, pairs.NOBODY, pairs.NOBODY)
    return places


def second_hub__in_another_directory__is_refused(case: Case) -> None:
    with Shared(case.uroce) as pair:
        places = two_places(pair)
        first = Broker(pair.uroce, [*pair.drop, "env", f"XDG_RUNTIME_DIR={places[0]}"], f"{SUBNET}.11")
        try:
            run = run_in(places[1], pair, "hub", "--address", f"{SUBNET}.11", "--idle", "1")
        finally:
            first.end()
        equal(run.returncode, 1, run.stderr)
        has(run.stderr, f"another hub of this user has {SUBNET}.11, with another XDG_RUNTIME_DIR; use the same")


def idle_hub__another_directory_needs_the_address__hub_ends(case: Case) -> None:
    with Shared(case.uroce) as pair:
        places = two_places(pair)
        device = f"uroce0:udp,ip={SUBNET}.12"
        for place in [*places, *places]:
            run = run_in(place, pair, "run", "--device", device, "--", "ibv_devinfo")
            equal((run.returncode, run.stderr), (0, ""))
        # `sh` has no device open, but it can start programs that do.
        script = f"XDG_RUNTIME_DIR={places[0]} exec {pair.uroce} run --device {device} -- ibv_devinfo"
        run = run_in(places[1], pair, "run", "--device", device, "--", "sh", "-c", script)
        has(run.stderr, f"another hub of this user has {SUBNET}.12, with another XDG_RUNTIME_DIR")


def hub_no__while_a_broker_runs__port_is_in_use(case: Case) -> None:
    with Shared(case.uroce) as pair, broker(pair):
        run = subprocess.run([*pair.drop, case.uroce, "run", "--device", f"uroce0:udp,ip={SHARED_ADDRESS},hub=no", "--",
                              "ibv_rc_pingpong", "-g", "1"], capture_output=True, text=True, timeout=patience.seconds(60), check=False)
    has(run.stderr, f"UDP port 4791 of {SHARED_ADDRESS} is taken by process ", "(uroce-hub)")
    assert run.returncode != 0


def udp_sockets(pid: int) -> list[socket.socket]:
    """Duplicates the IPv4 UDP sockets of another process into this process, and returns them."""
    found = []
    libc = ctypes.CDLL(None, use_errno=True)
    with open(os.pidfd_open(pid)) as process:
        for name in os.listdir(f"/proc/{pid}/fd"):
            fd = libc.syscall(PIDFD_GETFD, process.fileno(), int(name), 0)
            if fd < 0:
                continue
            try:
                sock = socket.socket(fileno=fd)
            except OSError:  # the descriptor is not a socket
                os.close(fd)
                continue
            if (sock.family, sock.type) == (socket.AF_INET, socket.SOCK_DGRAM):
                found.append(sock)
            else:
                sock.close()
    return found


def busy_polls(pid: int) -> set[int]:
    """Returns the SO_BUSY_POLL values of the process's UDP sockets."""
    found = set()
    for sock in udp_sockets(pid):
        with sock:
            found.add(sock.getsockopt(socket.SOL_SOCKET, SO_BUSY_POLL))
    return found


def busy_poll__on_a_shared_address__is_set_per_process(case: Case) -> None:
    """The next process that gets the socket must not inherit the value."""
    if os.geteuid() != 0:
        raise Skip("needs root, which can read the sockets of other users")
    with Shared(case.uroce) as pair, broker(pair):
        for wanted in (77, 0):
            pair.settings = f",busy-poll={wanted}" if wanted else ""
            process, _ = pair.start("server", ["ibv_rc_pingpong", "-g", "1"])
            assert pairs.wait_for(lambda: is_used(SHARED_ADDRESS) or process.poll() is not None, 10)
            if process.poll() is not None:
                has(pair.said("server"), "it takes CAP_NET_ADMIN")
                raise Skip("a plain user cannot set busy-poll on this machine")
            assert pairs.wait_for(lambda: busy_polls(process.pid) == {wanted}, 5), f"{busy_polls(process.pid)}, not {wanted}"
            pair.end(process)
            assert pairs.wait_for(lambda: not is_used(SHARED_ADDRESS), 5)


class Listener:
    """A process that listens by rdma_cm on command: listener.py."""

    def __init__(self, pair: Shared):
        self.process = subprocess.Popen([*pair.drop, *pair.command("server", ["/usr/bin/python3", str(LISTENER)])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        pair.running.append(self.process)

    def __call__(self, *words: object) -> str:
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def listen(self, name: str, address: str = SHARED_ADDRESS, port: int = LISTENS_ON, space: str = "tcp") -> str:
        return self("listen", name, address, port, space)

    def kill(self) -> None:
        """Kills only the process, not its children. Afterwards, `pair` does not kill the children either."""
        self.process.kill()
        self.process.wait()


def is_locked(file: pathlib.Path) -> bool:
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def listened_for() -> int:
    """Returns how many services at the addresses of this test are locked by a process."""
    return sum(is_locked(file) for place in hub_member.places() for file in place.glob(f"listen-*-{SUBNET}.*"))


def lock_file_of_a_running_broker__removed__broker_continues(case: Case) -> None:
    """Removes the file, like a program that removes old files from /tmp."""
    with Shared(case.uroce) as pair, broker(pair):
        for place in hub_member.places():
            for file in place.glob(f"hub-*-{SHARED_ADDRESS}.lock"):
                file.unlink()
        asked = subprocess.run([*pair.drop, case.uroce, "hub", "--address", SHARED_ADDRESS, "--idle", "2", "--background"],
                               capture_output=True, text=True, check=False)
        equal((asked.returncode, asked.stderr), (0, ""))
        equal(len(brokers()), 1)
        connect(pair)


def files__of_killed_processes__are_removed_by_the_next_broker(case: Case) -> None:
    with Shared(case.uroce) as pair:
        with broker(pair):
            listener = Listener(pair)
            equal(listener.listen("a"), "ok")
            listener.kill()
        left = [file for place in hub_member.places() for file in place.glob(f"*-{SHARED_ADDRESS}*")]
        other = Broker(case.uroce, pair.drop, TAKEN_ADDRESS)
        try:
            equal([file for file in left if file.exists()], [])
        finally:
            other.end()


def listener__second_on_one_port__succeeds_after_the_first_closed(case: Case) -> None:
    with Shared(case.uroce) as pair:
        first, second = Listener(pair), Listener(pair)
        equal(first.listen("a"), "ok")
        equal(second.listen("a"), "EADDRINUSE")
        equal(second.listen("b", port=LISTENS_ON + 1), "ok")
        equal(second.listen("c", space="udp"), "ok")
        equal(first.listen("c", space="udp"), "EADDRINUSE")
        equal(first("stop", "a"), "ok")
        equal(second.listen("a"), "ok")
        equal(first.listen("a"), "EADDRINUSE")
        second.kill()
        equal((first.listen("a"), first.listen("c", space="udp")), ("ok", "ok"))


def rping__port_with_a_listener__error_has_the_reason(case: Case) -> None:
    with Shared(case.uroce) as pair:
        equal(Listener(pair).listen("a"), "ok")
        said = pair.alone(["rping", "-s", "-a", SHARED_ADDRESS, "-p", str(LISTENS_ON)])
        has(said.text, "Address already in use")
        assert said.status, f"ended with {said.status}"


class Two(Shared):
    """A pair whose processes have two addresses."""
    def configuration(self, role: str) -> str:
        return f"{self.device}:udp;ip={SHARED_ADDRESS},{OTHER_ADDRESS}"


class Other(Shared):
    def configuration(self, role: str) -> str:
        return f"{self.device}:udp;ip={OTHER_ADDRESS}"


def qpn_prefix__in_use_at_the_second_address__prefix_free_at_both_is_found(case: Case) -> None:
    with Other(case.uroce) as other, Two(case.uroce) as two, Shared(case.uroce) as pair:
        equal([Listener(other).listen(name, OTHER_ADDRESS, port) for name, port in (("a", 1), ("b", 2))], ["ok", "ok"])
        both, shared = Listener(two), Listener(pair)
        equal(both.listen("a", "0.0.0.0"), "ok")
        equal(shared.listen("a", SHARED_ADDRESS, 3), "ok")
        equal(Listener(two).listen("a", "0.0.0.0", 4), "ok")


def wildcard_listener__conflict_at_one_address__listens_at_no_address(case: Case) -> None:
    with Shared(case.uroce) as pair, Two(case.uroce) as two:
        holder, wild, other = Listener(pair), Listener(two), Listener(two)
        equal(holder.listen("a"), "ok")
        before = listened_for()
        equal(wild.listen("a", "0.0.0.0"), "EADDRINUSE")
        equal(listened_for(), before)
        equal(other.listen("a", OTHER_ADDRESS), "ok")
        equal((holder("stop", "a"), other("stop", "a")), ("ok", "ok"))
        equal(wild.listen("a", "0.0.0.0"), "ok")
        equal((holder.listen("a"), other.listen("a", OTHER_ADDRESS)), ("EADDRINUSE", "EADDRINUSE"))
        equal(wild("stop", "a"), "ok")
        equal(listened_for(), 0)


def service_port__no_broker__still_belongs_to_one_process(case: Case) -> None:
    with Shared(case.uroce) as pair:
        first, second = Listener(pair), Listener(pair)
        equal((first.listen("a"), second.listen("b", port=LISTENS_ON + 1)), ("ok", "ok"))
        for pid in brokers():
            os.kill(pid, signal.SIGKILL)
        assert pairs.wait_for(lambda: not is_bound(SHARED_ADDRESS), 10)
        equal((second.listen("a"), first.listen("b", port=LISTENS_ON + 1)), ("EADDRINUSE", "EADDRINUSE"))
        equal(first("stop", "a"), "ok")
        equal(second.listen("a"), "ok")


def service_port__child_of_a_listener_runs_on__port_is_free(case: Case) -> None:
    with Shared(case.uroce) as pair:
        first, second = Listener(pair), Listener(pair)
        equal((first.listen("a"), first.listen("b", port=LISTENS_ON + 1)), ("ok", "ok"))
        equal(first("fork"), "ok")
        try:
            equal(first("stop", "a"), "ok")
            equal((second.listen("a"), second.listen("b", port=LISTENS_ON + 1)), ("ok", "EADDRINUSE"))
            equal(shares(SHARED_ADDRESS), 2)
            first.kill()
            equal(second.listen("b", port=LISTENS_ON + 1), "ok")
            # While the broker still has the dead process, it passes packets for the new process to the dead process.
            assert pairs.wait_for(lambda: shares(SHARED_ADDRESS) == 1, 10), f"{shares(SHARED_ADDRESS)} processes have the address"
        finally:
            os.killpg(first.process.pid, signal.SIGKILL)


CASES = named_cases(globals())

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
