#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests programs during faults: peers are killed or stopped, interfaces go down or vanish, memory and disks are full. Writes TAP.

    test_faults.py build [--match REGEX]     UROCE_FAULT_SEED chooses when peers are killed,
    UROCE_FAULT_ROUNDS how often.
"""
import errno
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

import apart
import test_udp
import uroce_case
from uroce_case import Case, Skip, equal, has
import pairs
import patience

SECONDS = 60      # time limit of a case, seconds
SHORT_STOP = 0.3  # seconds
LONG_STOP = 3     # seconds
PATIENT = ["-t", "18"]  # long ACK timeout: on a busy machine, a peer may need up to 8 s to respond
SEED = int(os.environ.get("UROCE_FAULT_SEED", "1"))
ROUNDS = int(os.environ.get("UROCE_FAULT_ROUNDS", "2"))  # number of kills of a process whose peer continues
PAIR_ROUNDS = int(os.environ.get("UROCE_FAULT_ROUNDS", "3"))  # number of kills of a process whose peer ends, too
FILE_HEADER = 24  # bytes of a capture without frames
FLOWS = re.compile(r"octets, \d+ messages")  # output of the program that checks every byte


class Checked:
    """A program that checks every byte, running on both sides of a pair."""

    def __init__(self, case: Case, pair: pairs.Pair, rounds: int, host: str = "localhost",
                 patience: list[str] = PATIENT):
        program = case.build / "tests" / "interop" / "verify"
        case.plugin()
        if not program.exists():
            raise Skip(f"{program.name} is not built: libibverbs is missing")
        self.start(pair, [str(program), *patience], ["-r", str(rounds), "-l", "4096", host])

    def start(self, pair: pairs.Pair, program: list[str], more: list[str]) -> None:
        self.pair = pair
        self.port = pairs.free_port()
        program = [*program, "-p", str(self.port)]
        self.sides = {"server": pair.start("server", program)}
        assert pairs.wait_for(self.listens, 20), pair.said("server")
        self.sides["client"] = pair.start("client", [*program, *more])

    def listens(self) -> bool:
        """Returns whether the server listens, in its network namespace."""
        table = pathlib.Path(f"/proc/{self.process('server').pid}/net/tcp").read_text()
        table += pathlib.Path(f"/proc/{self.process('server').pid}/net/tcp6").read_text()
        return f":{self.port:04X} " in table or self.process("server").poll() is not None

    def process(self, side: str) -> subprocess.Popen:
        return self.sides[side][0]

    def flowed(self) -> int:
        return len(FLOWS.findall(self.pair.said("client")))

    def flow(self, messages: int = 1) -> None:
        """Waits until the program has completed @messages steps since its start."""
        assert pairs.wait_for(lambda: self.flowed() >= messages, 30), self.pair.said("client")

    def end(self, *sides: str) -> list[pairs.Output]:
        for side in sides:
            self.pair.finish(side, *self.sides[side], SECONDS)
        return [self.sides[side][1] for side in sides]

    def all_right(self) -> None:
        for output in self.end("client", "server"):
            equal(output.status, 0, output.text[-3000:])
            has(output.text, "verified")

    def signal(self, side: str, number: int) -> None:
        os.killpg(self.process(side).pid, number)


class Survivors:
    """The program survivor.c, running on both sides of a pair. Its client ends on SIGTERM."""

    def __init__(self, case: Case, pair: pairs.Pair, address: str):
        program = case.build / "tests" / "system" / "survivor"
        case.plugin()
        if not program.exists():
            raise Skip(f"{program.name} is not built: librdmacm is missing")
        self.pair = pair
        port = str(pairs.free_port())
        self.commands = {"server": [str(program), "server", port],
                         "client": [str(program), "client", address, port]}
        self.sides: dict[str, tuple[subprocess.Popen, pairs.Output]] = {}
        self.start("server")
        assert pairs.wait_for(lambda: "listening" in pair.said("server"), 20), pair.said("server")
        self.start("client")

    def start(self, side: str) -> None:
        self.sides[side] = self.pair.start(side, self.commands[side])

    def flow(self, more: int) -> None:
        """Waits until the client has printed @more further lines. It prints a line for every sixteen returned messages."""
        wanted = self.pair.said("client").count("echoed") + more
        assert pairs.wait_for(lambda: self.pair.said("client").count("echoed") >= wanted, 30), \
            f"client: {self.pair.said('client')[-1000:]}\nserver: {self.pair.said('server')[-1000:]}"

    def kill(self, side: str) -> None:
        os.killpg(self.sides[side][0].pid, signal.SIGKILL)
        self.sides[side][0].wait()

    def end_well(self) -> None:
        self.sides["client"][0].send_signal(signal.SIGTERM)
        for side in ("client", "server"):
            self.pair.finish(side, *self.sides[side], SECONDS)
            output = self.sides[side][1]
            equal(output.status, 0, f"{side}: {output.tail()}")
            has(output.text, "done")


class Stream(Checked):
    """A program that still writes to its peer when the peer does not respond any more."""

    def __init__(self, case: Case, pair: pairs.Pair, host: str = "localhost"):
        case.plugin()
        if shutil.which("ib_write_bw") is None:
            raise Skip("ib_write_bw (perftest) is not installed")
        self.start(pair, list(pairs.FAILING_STREAM), [host])

    def flow(self, messages: int = 1) -> None:
        """Waits until both sides are connected. Then the client writes."""
        del messages
        assert pairs.wait_for(lambda: "MsgRate" in self.pair.said("client"), 30), self.pair.said("client")

    def is_given_up(self) -> None:
        output = self.end("client")[0]
        ended_badly(output)
        has(output.text.lower(), "status 12")


def ended_badly(output: pairs.Output) -> None:
    """Checks that the program ended with an error status of its own, and that neither a signal nor the test ended it."""
    assert output.status is not None, f"the program continues without its peer\n{output.tail()}"
    assert pairs.fails_by_itself(output.status), f"{pairs.ending(output.status)}\n{output.tail()}"


# ---- peers ------------------------------------------------------------------

def killed(case: Case, victim: str) -> None:
    """Repeatedly kills one side, and starts both sides again over the same link. The client must detect by itself that its peer
    is gone. The server only responds and cannot detect this, so the test ends it."""
    survivor = "client" if victim == "server" else "server"
    rng = random.Random(SEED)
    with pairs.Pair(case.uroce) as pair:
        for _ in range(PAIR_ROUNDS):
            run = Checked(case, pair, 1000, patience=[])
            run.flow(1 + rng.randrange(40))
            run.signal(victim, signal.SIGKILL)
            run.end(victim)
            if survivor == "server":
                run.signal(survivor, signal.SIGKILL)
                run.end(survivor)
            else:
                ended_badly(run.end(survivor)[0])
            Checked(case, pair, 1).all_right()


def peer__server_killed_at_any_moment__client_fails_and_both_can_restart(case: Case) -> None:
    killed(case, "server")


def peer__client_killed_at_any_moment__both_can_restart(case: Case) -> None:
    killed(case, "client")


def outlived(case: Case, pair: pairs.Pair, address: str, victim: str) -> str:
    """Repeatedly kills and restarts one side, while its peer continues. Returns the output of the peer."""
    survivor = "client" if victim == "server" else "server"
    rng = random.Random(SEED)
    with pair:
        run = Survivors(case, pair, address)
        for _ in range(ROUNDS):
            run.flow(1 + rng.randrange(8))
            time.sleep(rng.random() / 100)  # a random moment
            run.kill(victim)
            run.start(victim)
        run.flow(1)
        run.end_well()
        return pair.said(survivor)


def server_outlives(case: Case, pair: pairs.Pair, address: str) -> None:
    said = outlived(case, pair, address, "client")
    assert said.count("served") > ROUNDS, said


def client_outlives(case: Case, pair: pairs.Pair, address: str) -> None:
    said = outlived(case, pair, address, "server")
    assert said.count("lost") >= ROUNDS, said


def server_over_memif__client_killed__serves_the_next_client(case: Case) -> None:
    server_outlives(case, pairs.Pair(case.uroce), "10.0.0.1")


def client_over_memif__server_killed__connects_to_the_next_server(case: Case) -> None:
    client_outlives(case, pairs.Pair(case.uroce), "10.0.0.1")


def server_over_udp__client_killed__serves_the_next_client(case: Case) -> None:
    server_outlives(case, test_udp.Pair(case.uroce), test_udp.ADDRESSES["server"])


def client_over_udp__server_killed__connects_to_the_next_server(case: Case) -> None:
    client_outlives(case, test_udp.Pair(case.uroce), test_udp.ADDRESSES["server"])


def peer__stopped_for_less_than_all_retries__connection_survives(case: Case) -> None:
    with pairs.Pair(case.uroce) as pair:
        run = Checked(case, pair, 2)
        for side in ("server", "client"):
            run.flow()
            run.signal(side, signal.SIGSTOP)
            time.sleep(SHORT_STOP)  # the process is stopped for that long
            run.signal(side, signal.SIGCONT)
        run.all_right()


def peer__stopped_for_seconds__connection_survives(case: Case) -> None:
    with pairs.Pair(case.uroce) as pair:
        run = Checked(case, pair, 1)
        run.flow()
        run.signal("server", signal.SIGSTOP)
        time.sleep(LONG_STOP)  # the process is stopped for that long
        run.signal("server", signal.SIGCONT)
        run.all_right()


def peer__ended_before_a_stopped_server_answers__next_client_is_served(case: Case) -> None:
    """When the server continues, the socket of its memif has pending connections that the clients have already closed."""
    with pairs.Pair(case.uroce) as pair:
        case.plugin()
        port = pairs.free_port()
        server, output = pair.serve(["ibv_rc_pingpong", "-g", "1"], port)
        os.killpg(server.pid, signal.SIGSTOP)
        for _ in range(4):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as gone:
                if gone.connect_ex(f"\0{pair.where}/link.sock") not in (0, errno.EAGAIN):
                    raise AssertionError("no process listens at the memif")
        os.killpg(server.pid, signal.SIGCONT)
        client = pair.start("client", ["ibv_rc_pingpong", "-g", "1", "-p", str(port), "localhost"])
        for role, side in (("client", client), ("server", (server, output))):
            pair.finish(role, *side, SECONDS)
            equal(side[1].status, 0, f"{role}: {side[1].tail()}")


def peer__stopped_for_longer_than_all_retries__requests_fail_in_bounded_time(case: Case) -> None:
    with pairs.Pair(case.uroce) as pair:
        run = Stream(case, pair)
        run.flow()
        run.signal("server", signal.SIGSTOP)
        run.is_given_up()
        run.signal("server", signal.SIGCONT)


# ---- interfaces -------------------------------------------------------------

def segment(case: Case) -> apart.Pair:
    why = apart.why_not()
    if why:
        raise Skip(why)
    return apart.Pair(case.uroce)


def change(pair: apart.Pair, *lines: str) -> None:
    """Changes the interfaces by one command, because the peer reports an error if the interface is down for half a second."""
    subprocess.run(["ip", "-n", pair.name("client"), "-batch", "-"], check=True, text=True,
                   input="\n".join(f"link {line}" for line in lines))


def interface__down_for_a_moment__connection_survives(case: Case) -> None:
    with segment(case) as pair:
        run = Checked(case, pair, 3, "10.0.0.1")
        run.flow()
        change(pair, "set link0 down", "set link0 up")
        run.all_right()


def interface__renamed__connection_survives(case: Case) -> None:
    with segment(case) as pair:
        run = Checked(case, pair, 3, "10.0.0.1")
        run.flow()
        change(pair, "set link0 down", "set link0 name other0", "set other0 up")
        run.all_right()


def interface__down_for_good__requests_fail(case: Case) -> None:
    with segment(case) as pair:
        run = Stream(case, pair, "10.0.0.1")
        run.flow()
        change(pair, "set link0 down")
        run.is_given_up()


def interface__removed__requests_fail(case: Case) -> None:
    with segment(case) as pair:
        run = Stream(case, pair, "10.0.0.1")
        run.flow()
        change(pair, "del link0")
        run.is_given_up()


class Udp(apart.Pair):
    """The same interfaces, used by devices over UDP."""

    def configuration(self, role: str) -> str:
        return f"uroce0:udp,ip={apart.ADDRESSES[role][0].partition('/')[0]},hub=no"


def interface_under_udp__down_renamed_or_created_again__connection_survives(case: Case) -> None:
    why = apart.why_not()
    if why:
        raise Skip(why)
    with Udp(case.uroce) as pair:
        client, server = pair.name("client"), pair.name("server")
        run = Checked(case, pair, 4, "10.0.0.1")
        for lines in (["link set link0 down", "link set link0 up"],
                      ["address flush dev link0", "address add 10.0.0.2/24 dev link0"],
                      ["link set link0 down", "link set link0 name other0", "link set other0 up"],
                      ["link del other0", f"link add link0 type veth peer name link0 netns {server}",
                       "address add 10.0.0.2/24 dev link0", "link set link0 up"]):
            run.flow(run.flowed() + 1)
            subprocess.run(["ip", "-n", client, "-batch", "-"], check=True, text=True,
                           input="\n".join(lines))
        subprocess.run(["ip", "-n", server, "-batch", "-"], check=True, text=True,
                       input="address add 10.0.0.1/24 dev link0\nlink set link0 up")
        run.all_right()


# ---- exhausted resources ----------------------------------------------------

def limited(case: Case, kind: int, most: int, **environment: str) -> subprocess.CompletedProcess:
    case.plugin()
    return subprocess.run([case.uroce, "devices", "--probe"], capture_output=True, text=True,
                          timeout=patience.seconds(SECONDS), check=False, env={**os.environ, **environment},
                          preexec_fn=lambda: resource.setrlimit(kind, (most, most)))


def memory__too_little_address_space__error_has_the_reason(case: Case) -> None:
    for mebibytes in range(100, 700, 100):
        run = limited(case, resource.RLIMIT_AS, mebibytes << 20,
                      UROCE_DEVICES="a:net_ring0;ip=10.0.0.1/24")
        assert run.returncode in (0, 1), f"{mebibytes} MiB: {pairs.ending(run.returncode)}"
        if run.returncode == 1:
            has(run.stdout, "a  not usable: ", "memory")


def memory__memlock_limit_0__works(case: Case) -> None:
    run = limited(case, resource.RLIMIT_MEMLOCK, 0, UROCE_DEVICES="a:net_ring0;ip=10.0.0.1/24")
    equal(run.returncode, 0, run.stdout + run.stderr)


def descriptors__too_few__error_has_the_reason(case: Case) -> None:
    for most in (8, 10, 12, 14, 16):
        run = limited(case, resource.RLIMIT_NOFILE, most,
                      UROCE_DEVICES="a:net_ring0;ip=10.0.0.1/24")
        assert run.returncode in (0, 1), f"{most}: {pairs.ending(run.returncode)} {run.stderr}"
        if run.returncode == 1:
            has(run.stdout, "a  not usable: ")


def disk__full_for_a_capture__program_continues_and_a_warning_is_printed(case: Case) -> None:
    if os.geteuid() != 0:
        raise Skip("only root can mount a small disk")
    disk = case.scratch / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", disk],
                             capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise Skip(f"a small disk cannot be mounted: {mounted.stderr.strip()}")
    try:
        case.scratch.chmod(0o755)
        capture = disk / "full-%{ROLE}.pcap"
        with pairs.Pair(case.uroce, settings=f";pcap={capture}".replace("-%{ROLE}", "")) as pair:
            pair.configuration = lambda role, plain=pair.configuration: plain(role).replace(
                "full", role)
            run = Checked(case, pair, 2)
            run.all_right()
            said = pair.said("client") + pair.said("server")
        has(said, "which could not be written")
        dump = subprocess.run([case.uroce, "dump", disk / "client.pcap"], capture_output=True,
                              text=True, check=False)
        assert dump.returncode == 0 and len(dump.stdout.splitlines()) > 100, dump.stderr
    finally:
        subprocess.run(["umount", disk], check=False)


def capture__of_a_killed_program__has_the_frames_before(case: Case) -> None:
    """If a program hangs and is killed, its capture must show why it hung."""
    capture = case.scratch / "killed.pcap"
    device = f"a:net_null0,no-rx=1;ip=10.0.0.1/24,fd00::1/64;pcap={capture}"
    command = [case.uroce, "run", "--device", device, "--", "ibv_rc_pingpong", "-g", "1", "-p", str(pairs.free_port())]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
        try:
            deadline = time.monotonic() + patience.seconds(20)
            while not (capture.exists() and capture.stat().st_size > FILE_HEADER):
                assert time.monotonic() < deadline, "nothing was captured"
                assert program.poll() is None, "the program ended"
                time.sleep(0.02)
        finally:
            program.kill()
    dump = subprocess.run([case.uroce, "dump", capture], capture_output=True, text=True, check=False)
    assert dump.returncode == 0, dump.stderr
    has(dump.stdout, "MLD")


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
