#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs rdma-core's own tests, from Debian's python3-pyverbs, over uroce. Writes TAP.

    test_rdma_core.py build/app/uroce [--match REGEX]

Each file of tests is a case with IPv4 addresses and a case with IPv6 addresses. In the tests of rdma_cm, each side is a process.
A skipped test must have one of the reasons in NEVER, so that a test that works is not skipped by accident.
"""
import argparse
import gzip
import os
import pathlib
import queue
import re
import shutil
import sys
import threading
from dataclasses import dataclass, field
from multiprocessing import managers

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "lib" / "common"))
import matching  # noqa: E402
import pairs  # noqa: E402
import patience  # noqa: E402

TESTS = pathlib.Path("/usr/share/doc/rdma-core/tests")
DEVICE = "uroce0:net_null0,no-rx=1;ip=10.0.0.1/24"  # both sides are in one process
GIDS = {"ipv4": "1", "ipv6": "0"}
OF_OTHERS = re.compile(r"test_(mlx5|efa|cuda)")  # tests for hardware of vendors
SECONDS = 120
ALL = "all"  # name of a result if there are no results of single files; every --match includes it

SIDE = pathlib.Path(__file__).resolve().parent / "rdmacm_side.py"
ADDRESS = {"server": "10.0.0.1", "client": "11.0.0.1"}
BARRIER_SECONDS = 15
LOCK = threading.Lock()  # protects BARRIERS and QUEUES, which both sides of the rdma_cm tests use
BARRIERS: dict[str, threading.Barrier] = {}
QUEUES: dict[str, queue.Queue] = {}

# Accepted reasons to skip a test: other hardware, settings of the machine, raw packets, tag matching
NEVER = re.compile(r"dmabuf|huge pages|PCI device|Raw Packet|by root on Ethernet"
                   r"|QP type 8 |^Extended CQ")
# Tests that may fail. In the first, the processes of multiprocessing would use objects of their parent, which a child of fork()
# cannot use (lib/host/fork.c). The second assumes that a posted request has completed before the next call.
OTHERWISE = {"test_multi_process_alloc_dm", "test_resize_cq"}

NAME = re.compile(r"^(\w+) \(tests\.(\w+)\.[\w.]+\)")
ENDING = re.compile(r"(?:\.\.\. |^)(ok|ERROR|FAIL|skipped (['\"])(.*)\2)$")


def unpack(where: pathlib.Path) -> None:
    (where / "tests").mkdir()
    for file in TESTS.iterdir():
        if OF_OTHERS.match(file.name) and "base" not in file.name:
            continue
        if file.suffix == ".gz":
            (where / "tests" / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.is_file():
            shutil.copy(file, where / "tests")


@dataclass
class Module:
    passed: int = 0
    absent: int = 0
    problems: list[str] = field(default_factory=list)

    def take(self, name: str, ending: re.Match) -> None:
        if ending[1] == "ok":
            self.passed += 1
        elif name in OTHERWISE and ending[3] is None:
            self.absent += 1
        elif ending[3] is None:
            self.problems.append(f"{name}: {ending[1]}")
        elif NEVER.search(ending[3]):
            self.absent += 1
        else:
            self.problems.append(f"{name} is skipped: {ending[3]}")


def read(text: str) -> dict[str, Module]:
    """Parses the output of unittest -v. A line begins with the name of a test. The result is at the end of this line or of a later
    line."""
    modules: dict[str, Module] = {}
    module, name = None, ""
    for line in text.splitlines():
        if line.startswith("====="):
            break
        begun = NAME.match(line)
        if begun:
            name, module = begun[1], modules.setdefault(begun[2], Module())
        ending = ENDING.search(line)
        if ending and module is not None:
            module.take(name, ending)
            module = None
    return modules


def barrier(name: str) -> threading.Barrier:
    with LOCK:
        return BARRIERS.setdefault(name, threading.Barrier(2, timeout=patience.seconds(BARRIER_SECONDS)))


def messages(name: str) -> queue.Queue:
    with LOCK:
        return QUEUES.setdefault(name, queue.Queue())


class Meeting(managers.BaseManager):
    """The server of rdmacm_side.Meeting."""


Meeting.register("barrier", barrier, proxytype=managers.BarrierProxy)
Meeting.register("queue", messages)


class Sides(pairs.Pair):
    """A pair whose addresses are in one subnet and differ only in the first byte. The tests replace the first byte to get the
    address of a multicast group."""

    def configuration(self, role: str) -> str:
        link = pairs.LINK.format(role=role, where=self.where)
        return f"uroce0:{link};ip={ADDRESS[role]}/7"


def run_rdmacm(uroce: pathlib.Path) -> tuple[dict[str, Module], str]:
    """Runs the rdma_cm tests of rdma-core with a process for each side. A test passes if both halves pass."""
    with Sides(uroce) as pair:
        unpack(pair.where)
        mask = os.umask(0)  # the sides may run as another user
        with Meeting(address=str(pair.where / "meeting"), authkey=b"uroce"):
            os.umask(mask)
            sides = {}
            for role, name in (("server", "passive"), ("client", "active")):
                sides[role] = pair.start(role, [
                    "/usr/bin/python3", str(SIDE), name, ADDRESS[role], ADDRESS["server"], "--dev", "uroce0",
                    "--gid", "1", "-v"])
            for role, (process, output) in sides.items():
                pair.finish(role, process, output, SECONDS)
    halves = [understood(output) for _, output in sides.values()]
    problem = "\n".join(why for _, why in halves if why)
    both = Module()
    for modules, _ in halves:
        for half in modules.values():
            both.problems += half.problems
            both.passed = min(both.passed or half.passed, half.passed)
    return {"test_rdmacm": both}, problem


def run(uroce: pathlib.Path, gid: str) -> tuple[dict[str, Module], str]:
    """Returns the results of each file, and the reason if there are no results."""
    with pairs.Pair(uroce) as pair:
        unpack(pair.where)
        (pair.where / "tests" / "test_rdmacm.py").unlink()  # run_rdmacm() runs this file
        pair.command = lambda _role, program: [str(uroce), "run", "-d", DEVICE, "--", *program]
        output = pair.alone(["/usr/bin/python3", "tests/run_tests.py", "--dev", "uroce0", "--gid",
                             gid, "-v"], SECONDS)
    return understood(output)


def understood(output: pairs.Output) -> tuple[dict[str, Module], str]:
    """Parses the output. Returns the results of each file, and the reason if there are no results."""
    modules = read(output.text)
    total = re.search(r"^Ran (\d+) tests", output.text, re.M)
    seen = sum(m.passed + m.absent + len(m.problems) for m in modules.values())
    if total is None or int(total[1]) != seen:
        return {}, f"{seen} results read; {pairs.ending(output.status)}\n{output.tail()}"
    details = re.split(r"^={70}\n", output.text.split("\nRan ")[0], flags=re.M)[1:]
    for detail in details:
        if any(re.match(rf"\w+: {name} ", detail) for name in OTHERWISE):
            continue
        for module in re.findall(r"^\w+: \w+ \(tests\.(\w+)", detail, re.M):
            modules[module].problems += detail.splitlines()
    return modules, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("uroce", type=pathlib.Path)
    matching.add_option(parser, "files")
    options = parser.parse_args()
    if not options.uroce.exists() or not (TESTS / "run_tests.py").exists():
        print("1..0 # SKIP uroce is not built, or Debian's python3-pyverbs has no tests here")
        return 0
    found = []
    uroce = options.uroce.resolve()
    runs = {address: lambda gid=gid: run(uroce, gid) for address, gid in GIDS.items()}
    runs["between two processes"] = lambda: run_rdmacm(uroce)
    for address, made in runs.items():
        modules, problem = made()
        if problem:
            modules = {ALL: Module(problems=problem.splitlines())}
        found += [(name, f"{name} {address}", module) for name, module in sorted(modules.items())]
    files = [name for name, _, _ in found if name != ALL]
    names = {ALL, *(matching.chosen(options.match, files) if files else ())}
    lines = [(text, module) for name, text, module in found if name in names]
    failed = any(module.problems for _, module in lines)
    print(f"1..{len(lines)}")
    for number, (name, module) in enumerate(lines, 1):
        skip = "" if module.passed or module.problems else " # SKIP uroce has none of these features"
        print(f"{'not ok' if module.problems else 'ok'} {number} - {name}: {module.passed} passed,"
              f" {module.absent} skipped because uroce lacks the feature{skip}")
        print("".join(f"# {line}\n" for line in module.problems), end="")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
