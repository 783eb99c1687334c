#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the values that a monitor in another process reads in /sys while programs use a device. Writes TAP.

    test_monitor.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import re
import shutil
import socket
import stat
import subprocess
import sys
import urllib.request

import apart
import uroce_case
from uroce_case import SUBNET, Case, Skip, equal, has, patience

NOBODY = 65534
PORT = "/sys/class/infiniband/u0/ports/1"
RECEIVED = f"{PORT}/counters/port_rcv_packets"
DEVICE = f"u0:udp,ip={SUBNET}.1,hub=no"  # device of the servers and of the monitors
CLIENT = f"u1:udp,ip={SUBNET}.2,hub=no"

# A typical monitor script. It sleeps between its reads, so that the programs get the processor.
WATCH = f"""
import time
while True:
    with open("{RECEIVED}") as file:
        print(int(file.read()), flush=True)
    time.sleep(0.005)
"""


def environment(case: Case, **more: str) -> dict[str, str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
    return {**env, "XDG_RUNTIME_DIR": str(case.scratch), "UROCE_STATE_DIR": str(case.scratch / "states"), **more}


def run_in(case: Case, *program: object, device: str = DEVICE) -> list[str]:
    return [str(case.uroce), "run", "-q", "-d", device, "--", *map(str, program)]


def read(case: Case, name: str, **more: str) -> str:
    run = subprocess.run(run_in(case, "cat", f"{PORT}/{name}"), env=environment(case, **more), capture_output=True,
                         text=True, check=False, timeout=patience.seconds(60))
    equal((run.returncode, run.stderr), (0, ""), name)
    return run.stdout.rstrip("\n")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Transfer:
    """Two processes of ib_write_bw. Without a number of messages, they run for ten minutes. @more is added to both devices."""

    def __init__(self, case: Case, messages: int = 0, more: str = ""):
        if shutil.which("ib_write_bw") is None:
            raise Skip("perftest is not installed")
        length = ["-n", str(messages)] if messages else ["-D", "600"]
        port = str(free_port())
        program = ["stdbuf", "-oL", "ib_write_bw", "-x", "1", "-s", "65536", "-p", port, *length, "-d"]
        self.server = subprocess.Popen(run_in(case, *program, "u0", device=DEVICE + more), env=environment(case), stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)
        while "Waiting for client" not in (line := self.server.stdout.readline()):
            assert line, "ib_write_bw does not start"
        self.client = subprocess.Popen(run_in(case, *program, "u1", f"{SUBNET}.1", device=CLIENT + more), env=environment(case),
                                       stdout=subprocess.DEVNULL)

    def received(self, case: Case) -> int:
        """Waits until the server has received packets. Returns their number."""
        while (count := int(read(case, "counters/port_rcv_packets"))) == 0:
            equal(self.client.poll(), None, "the transfer has ended")
        return count

    def wait(self) -> None:
        equal(self.client.wait(patience.seconds(60)), 0)
        self.server.stdout.read()
        self.server.wait(patience.seconds(60))

    def kill(self) -> None:
        for process in (self.server, self.client):
            process.kill()
            process.wait()
        self.server.stdout.close()


def monitor__while_programs_run_and_are_killed__no_counter_decreases(case: Case) -> None:
    with subprocess.Popen(run_in(case, "/usr/bin/python3", "-c", WATCH), env=environment(case), text=True,
                          stdout=subprocess.PIPE) as monitor:
        values = [int(monitor.stdout.readline())]
        for _ in range(2):
            transfer = Transfer(case)
            before = values[-1]
            while values[-1] < before + 1000:
                equal(transfer.client.poll(), None, "the transfer has ended")
                values.append(int(monitor.stdout.readline()))
            transfer.kill()
            Transfer(case, messages=200).wait()
        last = int(read(case, "counters/port_rcv_packets"))
        while values[-1] < last:
            values.append(int(monitor.stdout.readline()))
        monitor.kill()
    equal(values, sorted(values))
    equal(last, values[-1])
    equal(values[0], 0)


def monitor__data__is_in_units_of_four_bytes_in_both_directions(case: Case) -> None:
    Transfer(case, messages=100).wait()
    received, sent = (int(read(case, f"counters/port_{way}_data")) for way in ("rcv", "xmit"))
    assert received * 4 >= 100 * 65536, received
    assert 0 < sent < received, sent
    equal(int(read(case, "hw_counters/rcvd_pkts")), int(read(case, "counters/port_rcv_packets")))
    assert int(read(case, "hw_counters/rx_write_requests")) >= 100


def monitor__shell_in_the_directory__reads_current_values(case: Case) -> None:
    Transfer(case, messages=100).wait()
    run = subprocess.run(run_in(case, "sh", "-c", f"cd {PORT}/counters && read value < port_rcv_packets && echo $value && "
                                                  "cat port_rcv_packets && grep . port_rcv_packets"),
                         env=environment(case), capture_output=True, text=True, check=False)
    equal(run.stdout.split(), [read(case, "counters/port_rcv_packets")] * 3, run.stderr)


def monitor__another_version__is_not_counted(case: Case) -> None:
    transfer = Transfer(case)
    transfer.received(case)
    transfer.kill()
    for file in (case.scratch / "states").glob("u0-*"):
        data = bytearray(file.read_bytes())
        data[8:12] = b"\xff\xff\xff\xff"  # version number of the file's layout
        file.write_bytes(data)
    equal(read(case, "counters/port_rcv_packets"), "0")


def monitor__rubbish_in_the_state_directory__is_ignored(case: Case) -> None:
    Transfer(case, messages=10).wait()
    before = read(case, "counters/port_rcv_packets")
    states = case.scratch / "states"
    name = next(states.glob("u0-*")).name.split(".")[0]
    (states / f"{name}.1").write_bytes(b"")
    (states / f"{name}.2").write_bytes(os.urandom(100000))
    (states / f"{name}.3").symlink_to("/etc/passwd")
    os.mkfifo(states / f"{name}.4")
    (states / f"{name}.5").mkdir()
    equal(read(case, "counters/port_rcv_packets"), before)


# ---- users and places --------------------------------------------------------

def user__another_user__cannot_read_the_state(case: Case) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        raise Skip("only root can become another user")
    Transfer(case, messages=10).wait()
    case.scratch.chmod(0o711)
    other = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    run = subprocess.run([*other, "ls", case.scratch / "states"], capture_output=True, text=True, check=False)
    has(run.stderr, "Permission denied")
    run = subprocess.run([*other, *run_in(case, "cat", RECEIVED)], capture_output=True, text=True, check=False,
                         env=environment(case, XDG_RUNTIME_DIR=""))
    if subprocess.run([*other, "test", "-r", case.uroce], check=False).returncode != 0:
        raise Skip(f"user {NOBODY} cannot read the build directory {case.uroce.parent}")
    equal((run.stdout, run.returncode), ("0\n", 0), run.stderr)


def state_directory__full__program_runs_and_prints_the_reason(case: Case) -> None:
    reason = apart.why_not()
    if reason:
        raise Skip(reason)
    states = case.scratch / "states"
    states.mkdir(mode=0o700)
    full = (f"mount -t tmpfs -o size=4k,mode=700 none {states} && "
            f"(cat /dev/zero > {states}/file; exec {case.uroce} devices --probe)")
    run = subprocess.run(["unshare", "--mount", "sh", "-c", full], env=environment(case, UROCE_DEVICES=DEVICE),
                         capture_output=True, text=True, check=False)
    equal(run.returncode, 0, run.stderr)
    has(run.stdout, "u0  link up")
    has(run.stderr, "u0: other processes cannot see the counters of this process: ", "No space left on device")


def state_directory__full_when_a_process_ends__counters_are_kept(case: Case) -> None:
    reason = apart.why_not()
    if reason:
        raise Skip(reason)
    states = case.scratch / "states"
    states.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "none", states], check=True)
    try:
        transfer = Transfer(case)
        transfer.received(case)
        subprocess.run(["sh", "-c", f"cat /dev/zero > {states}/file"], capture_output=True, check=False)
        before = int(read(case, "counters/port_rcv_packets"))
        transfer.kill()
        assert int(read(case, "counters/port_rcv_packets")) >= before > 0
    finally:
        subprocess.run(["umount", "--lazy", states], check=True)


# ---- uroce stat --sysfs ---------------------------------------------------------

class Exporter:
    """A process of `uroce stat --sysfs` that has written its files."""

    def __init__(self, case: Case, directory: pathlib.Path):
        self.process = subprocess.Popen([case.uroce, "stat", "--sysfs", directory], env=environment(case), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        has(self.process.stdout.readline(), f"uroce stat: files of the devices are in {directory} until")

    def end(self) -> str:
        self.process.terminate()
        errors = self.process.communicate(timeout=patience.seconds(60))[1]
        equal(self.process.returncode, 0, errors)
        return errors


def exporter__device_of_a_program__counts_until_interrupted(case: Case) -> None:
    place = case.scratch / "sysfs"
    exporter = Exporter(case, place)
    equal(stat.S_IMODE(place.stat().st_mode), 0o700)
    transfer = Transfer(case)
    file = place / "class/infiniband/u0/ports/1/counters/port_rcv_packets"
    first = None
    while first is None or int(file.read_text()) == first:
        equal((transfer.client.poll(), exporter.process.poll()), (None, None), "the transfer or the command has ended")
        if first is None and file.exists() and int(file.read_text()) > 0:
            first = int(file.read_text())
    transfer.kill()
    equal((place / "class/net/lo/ifindex").read_text(), "1\n")
    equal((place / "class/infiniband/u0/ports/1/state").read_text(), "4: ACTIVE\n")
    equal(exporter.end(), "")
    assert not place.exists()


def exporter__devices_like_a_card__have_the_texts_of_the_card(case: Case) -> None:
    card = case.scratch / "my.card"
    card.write_text("hca_type = MT4119\nboard_id = MT_0000000008\nfirmware = 16.23\nhw_ver = 0x12\n", encoding="utf-8")
    transfer = Transfer(case, more=f";like=@{card}")
    try:
        transfer.received(case)
        exporter = Exporter(case, case.scratch / "sysfs")
        shown = case.scratch / "sysfs/class/infiniband/u1"
        found = [file.read_text() for name in ("hca_type", "board_id", "fw_ver", "hw_rev") if (file := shown / name).exists()]
        exporter.end()
    finally:
        transfer.kill()
    equal(found, ["MT4119\n", "MT_0000000008\n", "16.23\n", "0x12\n"])


def exporter__node_exporter__exports_the_counters_of_uroce(case: Case) -> None:
    program = shutil.which("prometheus-node-exporter")
    if program is None:
        raise Skip("prometheus-node-exporter is not installed")
    Transfer(case, messages=100).wait()
    exporter = Exporter(case, case.scratch / "sysfs")
    port = free_port()
    with subprocess.Popen([program, f"--path.sysfs={case.scratch}/sysfs", f"--web.listen-address=127.0.0.1:{port}",
                           "--collector.disable-defaults", "--collector.infiniband"], stderr=subprocess.PIPE,
                          text=True) as node:
        while "Listening on" not in (line := node.stderr.readline()):
            assert line, "the exporter does not start"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=patience.seconds(60)) as page:
            text = page.read().decode()
        node.kill()
    exporter.end()
    value = re.search(r'^node_infiniband_port_data_received_bytes_total\{device="u0",port="1"\} (\S+)$', text, re.M)
    assert value is not None and float(value[1]) >= 100 * 65536, text
    has(text, 'node_infiniband_rate_bytes_per_second{device="u0",port="1"} 1.25e+10',
        'node_infiniband_state_id{device="u0",port="1"} 4')


def exporter__unusable_directory__error_has_the_reason(case: Case) -> None:
    full, shared, used = case.scratch / "full", case.scratch / "shared", case.scratch / "used"
    full.mkdir()
    (full / "kept").touch()
    shared.mkdir()
    shared.chmod(0o777)
    exporter = Exporter(case, used)
    for place, reason in ((full, "is not empty; name a new or an empty directory"), (shared, "can be written by others"),
                          (used, "another `uroce stat --sysfs` uses the directory"),
                          (case.scratch / "no/such", "No such file or directory"), (full / "kept", "Not a directory")):
        run = case.call("stat", "--sysfs", place)
        equal((run.returncode, run.stdout), (1, ""))
        has(run.stderr, f"uroce stat: --sysfs {place}: ", reason)
    assert (full / "kept").exists()
    exporter.end()


def exporter__killed__next_exporter_cleans_up(case: Case) -> None:
    place = case.scratch / "sysfs"
    place.mkdir(mode=0o755)
    killed = Exporter(case, place)
    killed.process.kill()
    killed.process.communicate()
    (place / "class/infiniband/old").mkdir()
    exporter = Exporter(case, place)
    assert not (place / "class/infiniband/old").exists()
    exporter.end()
    equal(list(place.iterdir()), [])


def exporter__wrong_options__usage(case: Case) -> None:
    for words, wanted in ((["--sysfs"], "the option --sysfs needs a value"), (["--sysfs", "a", "u0"], "--sysfs allows no other option"),
                          (["--sysfs", "a", "--json"], "--sysfs allows no other option")):
        run = case.call("stat", *words)
        equal((run.returncode, run.stdout), (2, ""), " ".join(words))
        has(run.stderr, wanted)
    has(case.call("stat", "--help").stdout, "Usage: uroce stat", "--sysfs DIRECTORY")


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
