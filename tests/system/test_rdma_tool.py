#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the rdma tool of iproute2 under `uroce run`, and tools that need management datagrams. Writes TAP.

    test_rdma_tool.py BUILD_DIRECTORY [--match REGEX]
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import uroce_case
from uroce_case import SUBNET, Case, Skip, equal, has

SERVER, CLIENT = f"{SUBNET}.1", f"{SUBNET}.2"
DEVICES = f"u0:udp,ip={SERVER},hub=no u1:udp,ip={CLIENT},hub=no"
KINDS = ("qp", "cq", "mr", "pd", "cm_id", "ctx", "srq")


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        raise Skip(f"{name} is not installed")
    return found


def environment(case: Case) -> dict[str, str]:
    return {"UROCE_STATE_DIR": str(case.scratch / "state"), "UROCE_DEVICES": DEVICES}


def rdma(case: Case, *words: str) -> subprocess.CompletedProcess:
    return case.call("run", "--", tool("rdma"), *words, **environment(case))


def said(case: Case, *words: str) -> str:
    run = rdma(case, *words)
    equal((run.returncode, run.stderr), (0, ""), run.stdout)
    return run.stdout


def parsed(case: Case, *words: str):
    return json.loads(said(case, "-j", *words))


# ---- devices and links ------------------------------------------------------

def dev__show__is_what_ibv_devinfo_prints(case: Case) -> None:
    run = case.call("run", "--", tool("ibv_devinfo"), "-v", **environment(case))
    equal(run.returncode, 0, run.stderr)
    infos = [dict(re.findall(r"^\s*(\w+):\s+(.*)$", part, re.M)) for part in run.stdout.split("hca_id:")[1:]]
    devices = parsed(case, "dev")
    equal([device["ifname"] for device in devices], ["u0", "u1"])
    for number, (device, info) in enumerate(zip(devices, infos, strict=True)):
        equal((device["ifindex"], device["node_type"], device["fw"]), (number, "ca", info["fw_ver"]))
        equal((device["node_guid"], device["sys_image_guid"]), (info["node_guid"], info["sys_image_guid"]))
    equal(parsed(case, "dev", "show", "u1"), devices[1:])
    has(said(case, "dev"), f"0: u0: node_type ca fw {infos[0]['fw_ver']} node_guid {infos[0]['node_guid']}")


def link__show__has_state_and_interface(case: Case) -> None:
    links = parsed(case, "link")
    state = {"port": 1, "state": "ACTIVE", "physical_state": "LINK_UP"}
    loopback = {"netdev": "lo", "netdev_index": socket.if_nametoindex("lo")}
    equal(links, [{"ifindex": 0, "ifname": "u0", **state, **loopback},
                  {"ifindex": 1, "ifname": "u1", **state, **loopback}])
    equal(parsed(case, "link", "show", "u1/1"), links[1:])
    has(said(case, "-d", "link"), "caps: <CM,")


def system__show__netns_mode_is_shared(case: Case) -> None:
    has(said(case, "system"), "netns shared", "copy-on-fork on")


# ---- traffic and processes --------------------------------------------------

def free_port() -> str:
    with socket.create_server((SERVER, 0)) as probe:
        return str(probe.getsockname()[1])


def transfer(case: Case) -> None:
    """Runs a ping-pong from u1 to u0."""
    command = [tool("ibv_rc_pingpong"), "-g", "0", "-n", "50", "-p", free_port()]
    env = {**os.environ, **environment(case), "XDG_RUNTIME_DIR": str(case.scratch)}
    with subprocess.Popen([case.uroce, "run", "--", *command, "-d", "u0"], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        try:
            for _ in range(1000):  # until the server listens
                client = case.call("run", "--", *command, "-d", "u1", SERVER, **environment(case))
                if client.returncode == 0 or "Couldn't connect" not in client.stderr:
                    break
            equal(client.returncode, 0, client.stdout + client.stderr)
            output = server.communicate(timeout=uroce_case.patience.seconds(30))[0]
            equal(server.returncode, 0, output)
        finally:
            server.kill()


def counters(case: Case) -> dict[str, dict[str, int]]:
    rows = parsed(case, "statistic", "show")
    equal([row["port"] for row in rows], [1, 1])
    return {row["ifname"]: row for row in rows}


def statistic__show__has_the_packets_of_processes(case: Case) -> None:
    before = counters(case)
    equal({name: row["sent_pkts"] for name, row in before.items()}, {"u0": 0, "u1": 0})
    transfer(case)
    first = counters(case)
    assert first["u0"]["sent_pkts"] >= 50 and first["u1"]["sent_pkts"] >= 50, first
    equal((first["u0"]["sent_pkts"], first["u1"]["sent_pkts"]), (first["u1"]["rcvd_pkts"], first["u0"]["rcvd_pkts"]))
    transfer(case)
    second = counters(case)
    assert second["u0"]["sent_pkts"] >= first["u0"]["sent_pkts"] + 50, (first, second)
    equal(parsed(case, "statistic", "show", "link", "u1/1"), [second["u1"]])
    has(said(case, "statistic", "show", "link", "u0"), f"link u0/1 sent_pkts {second['u0']['sent_pkts']} ")


def statistic__show__names_are_those_of_sysfs(case: Case) -> None:
    source = pathlib.Path(__file__).resolve().parents[2] / "lib" / "stats" / "kernel_names.c"
    names = re.findall(r'"hw_counters/(\w+)"', source.read_text())
    equal(set(counters(case)["u0"]), {"ifname", "port", *names})


def statistic__of_objects__are_none_and_mode_is_off(case: Case) -> None:
    for words in (("qp",), ("show", "mr"), ("mode",), ("mode", "supported")):
        said(case, "statistic", *words)
    has(said(case, "statistic", "qp", "mode"), "link u0/1 mode qp auto off")


@contextlib.contextmanager
def user_of(case: Case, device: str, program: str = "ibv_rc_pingpong"):
    """Runs a process that uses the device: the server of a ping-pong, which waits for its client."""
    env = {**os.environ, **environment(case), "XDG_RUNTIME_DIR": str(case.scratch)}
    command = [tool("stdbuf"), "-oL", tool(program), "-g", "0", "-p", free_port(), "-d", device]
    with subprocess.Popen([case.uroce, "run", "--", *command], env=env, stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            qpn = re.search(r"local address:.* QPN (0x[0-9a-f]+)", process.stdout.readline())[1]
            yield process.pid, int(qpn, 16)
        finally:
            process.kill()


def resource__show_ctx__contexts_are_processes(case: Case) -> None:
    equal(parsed(case, "resource", "show", "ctx"), [])
    with user_of(case, "u0") as (first, _), user_of(case, "u1") as (second, _):
        rows = parsed(case, "resource", "show", "ctx")
        equal(sorted((row["ifname"], row["pid"]) for row in rows),
              [("u0", first), ("u1", second)])
        equal({row["comm"] for row in rows}, {"ibv_rc_pingpong"})
        equal([(row["ifname"], row["ctx"]) for row in parsed(case, "resource")], [("u0", 1), ("u1", 1)])
        has(said(case, "resource", "show", "u0"), "0: u0: ", "ctx 1")
    equal([row["ctx"] for row in parsed(case, "resource", "show")], [0, 0])


def only_row(case: Case, kind: str) -> dict:
    (row,) = parsed(case, "resource", "show", kind)
    equal((row["ifname"], row["comm"]), ("u1", "ibv_rc_pingpong"))
    return row


def resource__show__objects_are_those_of_the_process(case: Case) -> None:
    with user_of(case, "u1") as (pid, qpn):
        qp, cq, mr, pd = (only_row(case, kind) for kind in ("qp", "cq", "mr", "pd"))
        equal((qp["lqpn"], qp["type"], qp["state"], qp["port"]), (qpn, "RC", "INIT", 1))
        equal((mr["mrlen"], mr["rkey"], cq["users"], pd["users"]), (4096, mr["lkey"], 1, 2))
        equal({row["pid"] for row in (qp, cq, mr, pd)}, {pid})
        equal({row["pdn"] for row in (qp, mr, pd)}, {qp["pdn"]})
        equal(parsed(case, "resource", "show", "qp", "lqpn", str(qpn)), [qp])
        equal(parsed(case, "resource", "show", "qp", "link", "u1/1", "type", "RC"), [qp])
        equal(parsed(case, "resource", "show", "qp", "link", "u0/1"), [])
        counts = {kind: parsed(case, "resource")[1].get(kind) for kind in KINDS}
        equal(counts, {"qp": 1, "cq": 1, "mr": 1, "pd": 1, "ctx": 1, "cm_id": 0, "srq": 0})


def resource__show_srq__has_the_queue_pairs(case: Case) -> None:
    with user_of(case, "u1", "ibv_srq_pingpong") as (pid, _):
        (row,) = parsed(case, "resource", "show", "srq")
        qps = parsed(case, "resource", "show", "qp")
        equal((row["ifname"], row["pid"], row["srqn"], row["type"]), ("u1", pid, 1, "BASIC"))
        equal(row["pdn"], qps[0]["pdn"])
        equal(len(qps), 16)
        listed = set()
        for part in ",".join(str(part) for part in row["lqpn"]).split(","):
            first, _, last = part.partition("-")
            listed |= set(range(int(first), int(last or first) + 1))
        equal(listed, {qp["lqpn"] for qp in qps})
        equal(parsed(case, "resource")[1]["srq"], 1)


@contextlib.contextmanager
def running(case: Case, *command: str):
    env = {**os.environ, **environment(case), "XDG_RUNTIME_DIR": str(case.scratch)}
    with subprocess.Popen([case.uroce, "run", "--quiet", "--", *command], env=env, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def identifiers(case: Case, *users: subprocess.Popen, count: int) -> list[dict]:
    """Waits until there are @count identifiers of rdma_cm, and returns them."""
    rows = []
    while len(rows) < count:
        equal([user.poll() for user in users], [None] * len(users), "a program has ended")
        rows = parsed(case, "resource", "show", "cm_id")
    return rows


def resource__show_cm_id__has_state_and_addresses(case: Case) -> None:
    port = free_port()
    with running(case, tool("rping"), "-s", "-a", SERVER, "-p", port) as server:
        (listener,) = identifiers(case, server, count=1)
        equal([listener[key] for key in ("ifname", "port", "state", "ps", "src-addr", "pid", "comm")],
              ["u0", 1, "LISTEN", "TCP", f"{SERVER}:{port}", server.pid, "rping"])
        with running(case, tool("rping"), "-c", "-I", CLIENT, "-a", SERVER, "-p", port) as client:
            rows = identifiers(case, server, client, count=3)
            mine = {row["pid"]: row for row in rows if row["state"] == "CONNECT"}
            equal(set(mine), {server.pid, client.pid}, rows)
            active, passive = mine[client.pid], mine[server.pid]
            equal((active["ifname"], active["dst-addr"]), ("u1", f"{SERVER}:{port}"))
            equal((passive["ifname"], passive["dst-addr"]), ("u0", active["src-addr"]))
            equal({active["qp-type"], passive["qp-type"]}, {"RC"})
            equal(parsed(case, "resource", "show", "cm_id", "dst-port", port), [active])
            equal(active["lqpn"] in [qp["lqpn"] for qp in parsed(case, "resource", "show", "qp")], True)


def resource__show_each_kind__is_listed(case: Case) -> None:
    for kind in KINDS:
        equal(parsed(case, "resource", "show", kind), [], kind)
    for kind in ("qp", "cm_id"):
        equal(said(case, "resource", "show", kind, "link", "u0/1"), "", kind)
    equal(said(case, "resource", "show", "qp", "lqpn", "17"), "")


# ---- refusals ---------------------------------------------------------------

def refused(case: Case, *words: str) -> str:
    """Runs a command that uroce refuses. Returns its error message."""
    run = rdma(case, *words)
    line, error = run.stderr.splitlines()
    equal((run.returncode, run.stdout, error), (1, "", "error: Operation not supported"), words)
    assert line.startswith("uroce: "), line
    return line


def link__add__prints_the_line_that_makes_the_device(case: Case) -> None:
    line = refused(case, "link", "add", "rxe7", "type", "rxe", "netdev", "lo")
    setting = re.search(r"export UROCE_DEVICES=(\S+)$", line)[1]
    equal(setting, "rxe7:udp,iface=lo")
    run = case.call("run", "--", tool("rdma"), "-j", "link", UROCE_DEVICES=setting)
    equal([(link["ifname"], link["netdev"]) for link in json.loads(run.stdout)], [("rxe7", "lo")], run.stderr)


def link__delete__prints_where_the_device_is_configured(case: Case) -> None:
    has(refused(case, "link", "del", "u1"), "u1", "UROCE_DEVICES", "UROCE_CONFIG")


def rdma__changes__are_refused(case: Case) -> None:
    for words in ("dev set u0 name u7", "dev set u0 adaptive-moderation on", "system set netns exclusive",
                  "statistic qp set link u0/1 auto type on"):
        has(refused(case, *words.split()), "can show a device of uroce but not change it")


def resource__raw__is_refused(case: Case) -> None:
    has(refused(case, "-r", "resource", "show", "qp"), "without -r")


def get_chardev__asked_by_a_library__prints_nothing(case: Case) -> None:
    """librdmacm sends this request when a program first uses it."""
    script = "import ctypes; assert ctypes.CDLL('librdmacm.so.1').rdma_create_event_channel()"
    run = case.call("run", "--quiet", "--", sys.executable, "-c", script, **environment(case))
    equal((run.returncode, run.stdout, run.stderr), (0, "", ""))


def rdma__wrong_words__get_the_errors_of_the_tool(case: Case) -> None:
    for words, wanted in (("link show nix", "Wrong device name"), ("dev show nix", "Wrong device name"),
                          ("link show u0/2", ""), ("nonsense", "Unknown object")):
        run = rdma(case, *words.split())
        has(run.stdout + run.stderr, wanted)
        equal("uroce" in run.stderr, False, run.stderr)


# ---- management datagrams ---------------------------------------------------

def management_tools__with_devices_of_uroce__print_why_they_fail(case: Case) -> None:
    for name in ("perfquery", "ibping"):
        run = case.call("run", "--", tool(name), "1", **environment(case))
        assert run.returncode != 0, run.stdout
        (line,) = [line for line in run.stderr.splitlines() if "uroce" in line]
        has(line, f"{name}: uroce has no management datagrams (umad)", "rdma statistic show link")


def management_tools__without_devices_of_uroce__run_unchanged(case: Case) -> None:
    run = case.call("run", "--no-paths", "--", tool("perfquery"), **environment(case))
    assert "uroce has" not in run.stderr, run.stderr


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
