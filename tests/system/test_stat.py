#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests `uroce stat` while real programs run, and with forged files. Writes TAP.

    test_stat.py BUILD_DIRECTORY [--match REGEX]
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import uroce_case
from uroce_case import SUBNET, Case, Skip, equal, has, patience

SERVER, CLIENT = f"{SUBNET}.1", f"{SUBNET}.2"


def environment(case: Case) -> dict[str, str]:
    state = case.scratch / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    return {"UROCE_STATE_DIR": str(state)}


def stat(case: Case, *options: object) -> subprocess.CompletedProcess:
    return case.call("stat", *options, **environment(case))


def processes(case: Case) -> list[dict]:
    run = stat(case, "--json")
    equal(run.stderr, "")
    return [{**process, "device": device} for device in json.loads(run.stdout)["devices"]
            for process in device["processes"]]


def start(case: Case, address: str, *command: str, link: str = "", hub: bool = False) -> subprocess.Popen:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
    return subprocess.Popen(
        [case.uroce, "run", "-q", "-d", f"u0:udp,ip={address}{'' if hub else ',hub=no'};{link}", "--", *command], text=True,
        env={**clean, **environment(case), "XDG_RUNTIME_DIR": str(case.scratch)},
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@contextlib.contextmanager
def bandwidth(case: Case):
    """Runs ib_write_bw between two addresses. Yields the server and the client once the client sends."""
    if shutil.which("ib_write_bw") is None:
        raise Skip("ib_write_bw is not installed")
    port = str(20000 + os.getpid() % 20000)
    common = ("ib_write_bw", "-p", port, "-d", "u0", "-x", "0", "--run_infinitely", "-D", "5")
    server, client = start(case, SERVER, *common), None
    try:
        until = time.monotonic() + patience.seconds(30)
        while time.monotonic() < until:
            if server.poll() is not None:  # the server ended because a client failed
                server = start(case, SERVER, *common)
            if client is None or client.poll() is not None:  # the server did not listen yet
                client = start(case, CLIENT, *common, SERVER)
            found = {process["pid"]: process for process in processes(case)}
            both = [found.get(server.pid, {}), found.get(client.pid, {})]
            if all(process.get("queue_pairs") for process in both) and \
                    both[1]["counters"]["tx_roce"] > 1000:
                break
        else:
            raise AssertionError(f"no traffic: {server.poll()}, {client and client.poll()}")
        yield server, client
    finally:
        for process in (server, client):
            if process is not None:
                process.kill()
                process.communicate()


# ---- real programs ----------------------------------------------------------

def stat__nothing_runs__reports_what_to_do(case: Case) -> None:
    run = stat(case)
    equal((run.returncode, run.stdout), (1, ""))
    has(run.stderr, "start one with `uroce run PROGRAM`")
    run = stat(case, "--json")
    equal((run.returncode, json.loads(run.stdout)["devices"]), (0, []))


def stat__two_programs__queue_pairs_are_peers(case: Case) -> None:
    with bandwidth(case) as programs:
        found = {process["pid"]: process for process in processes(case)}
        equal(set(found), {program.pid for program in programs})
        pairs = [found[program.pid]["queue_pairs"][0] for program in programs]
        for mine, other, gid in ((pairs[0], pairs[1], CLIENT), (pairs[1], pairs[0], SERVER)):
            equal((mine["peer_qpn"], mine["peer_gid"]), (other["qpn"], gid))
            equal((mine["type"], mine["last_reason"]), ("RC", None))
        equal(pairs[1]["state"], "RTS")
        assert pairs[0]["state"] in ("RTR", "RTS"), pairs[0]
        assert pairs[1]["rtt_ns"] > 0 and pairs[1]["tx_packets_per_second"] is not None, pairs[1]
        equal(len(found[programs[0].pid]["completion_queues"]), 1)
        assert found[programs[0].pid]["memory_keys"][0]["length"] >= 65536

        text = stat(case).stdout
        assert max(map(len, text.splitlines())) <= 80, text
        has(text, f"pid {programs[0].pid}  ib_write_bw", "1 queue pair, 1 CQ", CLIENT, SERVER)
        has(stat(case, "--qps").stdout, "path MTU", "oldest unacknowledged PSN")
        only = stat(case, "-p", programs[1].pid).stdout
        assert f"pid {programs[0].pid}" not in only, only
        equal(stat(case, "no_such_device").returncode, 1)


def stat__killed_program__disappears_and_counters_are_kept(case: Case) -> None:
    with bandwidth(case) as (server, client):
        client.kill()
        client.wait()
        server.kill()
        server.wait()
        first = json.loads(stat(case, "--json").stdout)["devices"]
        again = json.loads(stat(case, "--json").stdout)["devices"]
        equal(first, again)
        equal([device["processes"] for device in first], [[], []])
        assert all(device["counters"]["rx_roce"] > 0 for device in first), first
        has(stat(case).stdout, "no process uses the device now")


def stat__device_without_a_process__is_counted_after_devices_in_use(case: Case) -> None:
    with bandwidth(case) as (server, client):
        server.send_signal(signal.SIGSTOP)  # a stopped server does not end when its client ends
        client.kill()
        client.wait()
        shown = stat(case).stdout
        has(shown, f"pid {server.pid} ", "\n1 more device without a process now; `uroce stat DEVICE` shows one\n")
        assert "no process uses the device now" not in shown, shown
        has(stat(case, "u0").stdout, f"pid {server.pid} ", "no process uses the device now")


def stat__stopped_program__prints_counters_and_the_reason(case: Case) -> None:
    with bandwidth(case) as (server, _):
        server.send_signal(signal.SIGSTOP)
        found = {process["pid"]: process for process in processes(case)}
        server.send_signal(signal.SIGCONT)
        has(found[server.pid]["problem"], "stopped")
        assert "queue_pairs" not in found[server.pid]
        assert found[server.pid]["counters"]["rx_roce"] > 0


NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABELS = r'\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*\}'


def check_prometheus(text: str) -> dict[str, float]:
    """Checks the text format: the samples of a metric are consecutive lines after its HELP and TYPE. Returns the samples."""
    samples, kind, seen = {}, {}, None
    for line in text.splitlines():
        comment = re.fullmatch(rf"# (HELP|TYPE) ({NAME}) (.+)", line)
        if comment is not None:
            if comment[1] == "HELP":
                assert comment[2] not in kind, line
                seen = comment[2]
            else:
                assert comment[2] == seen and comment[3] in ("counter", "gauge"), line
                kind[seen] = comment[3]
            continue
        sample = re.fullmatch(rf"({NAME})({LABELS}) (\S+)", line)
        assert sample is not None and sample[1] == seen, line
        assert (kind[seen] == "counter") == seen.endswith("_total"), line
        assert sample[1] + sample[2] not in samples, line
        samples[sample[1] + sample[2]] = float(sample[3])
    return samples


def stat__prometheus__has_the_text_format_of_prometheus(case: Case) -> None:
    with bandwidth(case) as (_, client):
        run = stat(case, "--prometheus")
        equal((run.returncode, run.stderr), (0, ""))
        samples = check_prometheus(run.stdout)
        windows = [key for key in samples if key.startswith("uroce_qp_window_packets")]
        equal(len(windows), 2)
        assert any(f'pid="{client.pid}"' in key for key in windows), windows
        assert sum(value for key, value in samples.items()
                   if key.startswith("uroce_tx_roce_bytes_total")) > 0
        if shutil.which("promtool") is not None:
            subprocess.run(["promtool", "check", "metrics"], input=run.stdout, text=True, check=True)


def stat__device_with_three_engines__is_one_process(case: Case) -> None:
    """ibv_rc_pingpong waits for its client after its device has started."""
    if shutil.which("ibv_rc_pingpong") is None:
        raise Skip("ibv_rc_pingpong is not installed")
    program = start(case, SERVER, "ibv_rc_pingpong", "-g", "1", "-p", str(20000 + os.getpid() % 20000), link="engines=3", hub=True)
    try:
        until = time.monotonic() + patience.seconds(30)
        while len(found := processes(case)) < 3:
            assert time.monotonic() < until and program.poll() is None, found
            time.sleep(0.05)
        equal([(process["pid"], process["engine"]) for process in found], [(program.pid, n) for n in range(3)])
        has(stat(case).stdout, f"pid {program.pid}  ibv_rc_pingpong", f"pid {program.pid} engine 2  ibv_rc_pingpong")
        samples = check_prometheus(stat(case, "--prometheus").stdout)
        equal([value for key, value in samples.items() if key.startswith("uroce_processes")], [1])
        keys = [key for key in samples if key.startswith("uroce_process_queue_pairs")]
        equal(len(keys), 3)
        assert all(f'pid="{program.pid}"' in key for key in keys), keys
        equal([key for key in keys if 'engine="2"' in key], keys[2:])
    finally:
        program.kill()
        program.communicate()


# ---- bad input ----------------------------------------------------------------

def options__that_do_not_fit__error_has_the_option(case: Case) -> None:
    for words, wanted in ((("-p", "x"), "--pid x is not the number of a process"), (("-p", "-3"), "--pid -3 is not"),
                          (("--watch=0",), "0.1 to 86400"), (("--watch", "1e9"), "0.1 to 86400"),
                          (("--watch=nan",), "0.1 to 86400"), (("a", "b"), "only one device"),
                          (("--watch", "--prometheus"), "--watch"), (("-p", "4294967297"), "--pid 4294967297 is not"),
                          (("--prometheus", "--json"), "exclude each other"), (("--nonsense",), "the option --nonsense does not exist")):
        run = stat(case, *words)
        equal((run.returncode, run.stdout), (2, ""), str(words))
        has(run.stderr, wanted)


def file__of_another_version__error_has_the_file(case: Case) -> None:
    state = pathlib.Path(environment(case)["UROCE_STATE_DIR"])
    path = state / "u0-0000000000000001.4000000"
    path.write_bytes(struct.pack("8sII24siI", b"uroce-st", 77, 4096, b"9.9\x1b[2J", 4000000, 1) + bytes(4096))
    with open(path, "rb") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)  # like the lock of a running process
        run = stat(case)
    equal((run.returncode, run.stdout), (1, ""))
    has(run.stderr, "pid 4000000 uses uroce 9.9?[2J, another version")


def files__with_hostile_content__no_crash(case: Case) -> None:
    state = pathlib.Path(environment(case)["UROCE_STATE_DIR"])
    for number, content in enumerate((b"", b"uroce-st", os.urandom(200000), b"uroce-st" + os.urandom(200000))):
        (state / f"u0-0000000000000001.{number + 4000000}").write_bytes(content)
        (state / f"u{number}-0000000000000001.total").write_bytes(content)
    (state / "u0-0000000000000001.5").mkdir()
    (state / "u0-0000000000000001.6").symlink_to("/etc/passwd")
    os.mkfifo(state / "u0-0000000000000001.7")
    for words in ((), ("--json",), ("--prometheus",)):
        assert stat(case, *words).returncode in (0, 1), words
    json.loads(stat(case, "--json").stdout)


def state_directory__open_to_others__is_refused(case: Case) -> None:
    directory = pathlib.Path(environment(case)["UROCE_STATE_DIR"])
    directory.chmod(0o777)
    run = stat(case)
    equal(run.returncode, 1)
    has(run.stderr, f"the directory {directory} in UROCE_STATE_DIR cannot be read: this user must own it, other users must have no "
        "rights to it")


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
