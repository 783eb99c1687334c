#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests that a program can fork while it uses RDMA, over each link. The program is forker.c. Writes TAP.

    test_fork.py BUILD [--match REGEX]
"""
import contextlib
import os
import pathlib
import re
import socket
import subprocess
import sys

import uroce_case
from uroce_case import Case, Skip, equal, has
import pairs  # from tools/lib/common, which uroce_case puts on the path
import patience

ADDRESS = "10.7.0.1"
UDP = f"uroce0:udp,ip={ADDRESS}"
ALONE = f"uroce0:udp,ip={ADDRESS},hub=no"
PACKET = f"uroce0:net_af_packet0,iface=one;ip={ADDRESS}/24"
NET = f"ip link set lo up && ip link add one type veth peer name two && ip link set one up && ip link set two up && " \
      f"ip addr add {ADDRESS}/24 dev one"
LONG_MS = 600_000  # lifetime of a child that the test kills earlier
CHILD = re.compile(r"child (\d+) sleeps")
PYVERBS = pathlib.Path(__file__).resolve().parent / "forker.py"


def memif(case: Case, role: str, address: str = ADDRESS) -> str:
    return f"uroce0:net_memif0,role={role},socket={case.scratch}/m.sock;ip={address}/24"


class Net:
    """A network namespace with loopback and an interface with an address. A sleeping process keeps it alive."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise Skip("a network namespace needs root")
        self.keeper = subprocess.Popen(["unshare", "-n", "sh", "-c", f"{NET} && echo ready && exec sleep 3600"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "ready\n":
            raise Skip(f"no network namespace: {self.keeper.communicate()[1]}")

    def __enter__(self) -> "Net":
        return self

    def __exit__(self, *_: object) -> None:
        self.keeper.kill()
        self.keeper.communicate()

    def command(self, case: Case, device: str, *program: object) -> list[str]:
        enter = ["nsenter", f"--net=/proc/{self.keeper.pid}/ns/net"]
        return [*enter, str(case.uroce), "run", "--device", device, "--", *map(str, program)]

    def environment(self, address: str = ADDRESS) -> dict[str, str]:
        return {**os.environ, "FORKER_ADDRESS": address}

    def run(self, case: Case, device: str, *program: object) -> subprocess.CompletedProcess:
        return subprocess.run(self.command(case, device, *program), env=self.environment(), capture_output=True,
                              text=True, timeout=patience.seconds(60), check=False)


def forker(case: Case) -> pathlib.Path:
    path = case.build / "tests" / "system" / "forker"
    if not path.exists():
        raise Skip("forker is not built: the headers of libibverbs or librdmacm are missing")
    return path


def links(case: Case) -> dict[str, str]:
    return {"udp": UDP, "packet": PACKET, "memif client": memif(case, "client"),
            "memif server": memif(case, "server")}


def each_link(case: Case, *words: str) -> None:
    """Checks that the program succeeds over each link."""
    program = forker(case)
    with Net() as net:
        for name, device in links(case).items():
            ended = net.run(case, device, program, *words)
            equal(ended.returncode, 0, f"over {name}: {' '.join(words)}\n{ended.stdout}{ended.stderr}")


class Stays:
    """Runs forker until its child sleeps. In the mode `keeps`, the parent continues."""

    def __init__(self, case: Case, net: Net, device: str, address: str = ADDRESS, mode: str = "keeps"):
        self.process = subprocess.Popen(net.command(case, device, forker(case), mode, LONG_MS),
                                        env=net.environment(address), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        self.said, self.child = "", 0
        while self.child == 0:
            line = self.process.stdout.readline()
            self.said += line
            assert line, f"forker ended: {self.said}"
            if found := CHILD.search(line):
                self.child = int(found[1])

    def has(self, who: str) -> list[str]:
        """Returns the descriptors and mappings of the device in the parent or the child (@who). Leaves out cmd_fd and
        async_fd of the context."""
        programs = re.findall(r"program has (\d+)", self.said)
        found = re.findall(rf"^{who} has (.*)$", self.said, re.MULTILINE)
        return [what for what in found if not re.match(rf"descriptor ({'|'.join(programs)}) ", what)]

    def kill_parent(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.kill_parent()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.child, 9)
        self.process.stdout.close()


# ---- a child that uses no RDMA ----------------------------------------------------------------------------------

def fork__child_uses_no_device__has_no_descriptors_of_the_parent(case: Case) -> None:
    with Net() as net:
        for name, device in links(case).items():
            stays = Stays(case, net, device)
            try:
                assert stays.has("parent"), f"over {name}: {stays.said}"
                equal(stays.has("child"), [], f"over {name}: {stays.said}")
            finally:
                stays.end()


def fork__child_of_either_memif_side__has_no_descriptors_of_the_parent(case: Case) -> None:
    with Net() as net, contextlib.ExitStack() as ends:
        for role, address in (("server", ADDRESS), ("client", "10.7.0.2")):
            stays = Stays(case, net, memif(case, role, address), address)
            ends.callback(stays.end)
            equal(stays.has("child"), [], f"{role}: {stays.said}")
        has(stays.said, "parent has mapping")


def fork__parent_killed_and_child_runs__address_of_the_parent_is_free(case: Case) -> None:
    with Net() as net:
        for name, device in {"memif server": memif(case, "server"), "udp alone": ALONE}.items():
            stays = Stays(case, net, device)
            try:
                stays.kill_parent()
                ended = net.run(case, device, forker(case), "uses", "first")
                equal(ended.returncode, 0, f"over {name}: {ended.stdout}{ended.stderr}")
            finally:
                stays.end()


# ---- a child that uses RDMA -------------------------------------------------------------------------------------

def fork__parent_only_loaded_the_library__child_uses_the_device(case: Case) -> None:
    each_link(case, "uses", "first")


def fork__parent_listed_the_device__child_uses_the_device(case: Case) -> None:
    each_link(case, "uses", "listed")


def fork__parent_opened_the_device__child_uses_the_device(case: Case) -> None:
    each_link(case, "uses", "opened")


def fork__parent_uses_the_device__child_uses_the_device(case: Case) -> None:
    each_link(case, "uses", "used")


def fork__parent_closed_the_device__child_uses_the_device(case: Case) -> None:
    each_link(case, "uses", "closed")


def fork__from_a_thread__child_uses_the_device(case: Case) -> None:
    each_link(case, "uses", "thread")


def fork__two_children_and_a_grandchild__use_the_device(case: Case) -> None:
    each_link(case, "twice")


def fork__parent_changed_its_faults__child_has_the_configured_faults(case: Case) -> None:
    program = case.build / "tests" / "api" / "api_impair"
    if not program.exists():
        raise Skip("the headers of libibverbs are missing")
    net = uroce_case.SUBNET
    run = case.call("run", "-d", f"forked:udp,ip={net}.9;impair=only:requests,every:10;trace={case.scratch}/trace",
                    "-d", f"other:udp,ip={net}.10", "--", program, "fork")
    equal(run.returncode, 0, run.stdout + run.stderr)
    traces = sorted(path.name for path in case.scratch.glob("trace*"))  # the parent's; the child's, which has a PID in its name
    assert len(traces) == 2 and traces[0] == "trace" and re.fullmatch(r"trace\.\d+", traces[1]), traces


def fork__parent_connected_by_rdma_cm__child_connects(case: Case) -> None:
    each_link(case, "cm")


def fork__child_kills_its_parent__child_uses_the_device(case: Case) -> None:
    """A daemon may use RDMA before it moves to the background."""
    with Net() as net:
        for name, device in links(case).items():
            ended = net.run(case, device, forker(case), "hands-over")
            has(f"over {name}: {ended.stdout}{ended.stderr}", "took over")


def fork__parent_memif_server_ended__child_listens(case: Case) -> None:
    with Net() as net:
        device = memif(case, "server").replace(";", ",socket-abstract=no;", 1)
        stays = Stays(case, net, device, mode="outlives")
        try:
            assert pairs.wait_for(lambda: is_greeted(case), patience.seconds(20)), "no process listens at the memif"
        finally:
            stays.end()


def is_greeted(case: Case) -> bool:
    """Returns whether a memif server sends HELLO."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.settimeout(patience.seconds(2))
        try:
            client.connect(f"{case.scratch}/m.sock")
            return len(client.recv(256)) > 0
        except OSError:
            return False


def fork__without_the_fork_handlers__child_is_refused(case: Case) -> None:
    each_link(case, "clone")


def fork__workers_of_python_multiprocessing__use_the_device(case: Case) -> None:
    python = "/usr/bin/python3"
    if subprocess.run([python, "-c", "import pyverbs"], capture_output=True, check=False).returncode != 0:
        raise Skip("python3-pyverbs is not installed")
    with Net() as net:
        ended = net.run(case, UDP, python, PYVERBS)
        equal(ended.returncode, 0, ended.stdout + ended.stderr)


def broker__started_by_a_program__has_no_descriptor_of_the_program(case: Case) -> None:
    read, write = os.pipe()
    try:
        with Net() as net:
            subprocess.run(net.command(case, UDP, "true"), pass_fds=[write], timeout=patience.seconds(60), check=True)
            name = os.readlink(f"/proc/self/fd/{write}")
            held = [descriptors(broker) for broker in brokers(net)]
            equal(len(held), 1, "there is one broker")
            assert name not in held[0], f"the broker has {name}: {held[0]}"
    finally:
        os.close(read)
        os.close(write)


def brokers(net: Net) -> list[pathlib.Path]:
    """Returns the brokers of the namespace."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text().strip() == "uroce-hub" and \
                    os.readlink(process / "ns" / "net") == os.readlink(f"/proc/{net.keeper.pid}/ns/net"):
                found.append(process)
    return found


def descriptors(process: pathlib.Path) -> list[str]:
    return [os.readlink(fd) for fd in (process / "fd").iterdir()]


def fork__parent_has_the_port_without_a_hub__child_gets_an_error(case: Case) -> None:
    with Net() as net:
        ended = net.run(case, ALONE, forker(case), "uses", "used")
        equal(ended.returncode, 1)
        has(ended.stderr, "4791")


def fork__after_dpdk_was_used__child_gets_an_error(case: Case) -> None:
    case.plugin()
    with Net() as net:
        ended = net.run(case, f"uroce0:net_null0,no-rx=1;ip={ADDRESS}/24", forker(case), "uses", "used")
        equal(ended.returncode, 1)
        has(ended.stderr, "a child of fork() cannot use DPDK after its parent did")


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, uroce_case.named_cases(globals())))
