#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the files below /sys/class/infiniband and /dev/infiniband that programs under `uroce run` see. Writes TAP.

    test_tree.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys

import apart
import uroce_case
from uroce_case import LEFT, SUBNET, Case, Skip, equal, has

DEVICES = ("-d", LEFT, "-d", "right:net_null0;ip=10.0.0.2/24;mac=02:00:00:00:00:02")
KERNEL = pathlib.Path("/sys/class/infiniband")
NOBODY = 65534


def cat(case: Case, name: str) -> str:
    run = case.call("run", *DEVICES, "--", "cat", name)
    equal((run.returncode, run.stderr), (0, ""), name)
    return run.stdout


def device(case: Case, name: str) -> str:
    return cat(case, f"/sys/class/infiniband/left/{name}").rstrip("\n")


def trees(case: Case) -> set[str]:
    return {path.name for path in case.scratch.glob("uroce-tree-*")}


# ---- contents --------------------------------------------------------------

def tree__attributes__equal_the_query_results(case: Case) -> None:
    if shutil.which("ibv_devinfo") is None:
        raise Skip("ibv_devinfo is not installed")
    run = case.call("run", *DEVICES, "--", "ibv_devinfo", "-v", "-d", "left")
    equal(run.returncode, 0, run.stderr)
    said = dict(re.findall(r"^\s*(\w+):\s+(.*)$", run.stdout, re.M))
    for name in ("fw_ver", "node_guid", "sys_image_guid"):
        equal(device(case, name), said[name], name)
    equal(device(case, "ports/1/cap_mask"), said["port_cap_flags"])
    equal(device(case, "ports/1/link_layer"), said["link_layer"])
    equal(int(device(case, "ports/1/lid"), 16), int(said["port_lid"]))
    equal(int(device(case, "ports/1/sm_lid"), 16), int(said["sm_lid"]))
    state, number = re.fullmatch(r"PORT_(\w+) \((\d)\)", said["state"]).groups()
    equal(device(case, "ports/1/state"), f"{number}: {state}")
    number = re.fullmatch(r"LINK_UP \((\d)\)", said["phys_state"])[1]
    equal(device(case, "ports/1/phys_state"), f"{number}: LinkUp")
    has(said["active_speed"], "25.0 Gbps")
    equal(device(case, "ports/1/rate"), f"100 Gb/sec ({said['active_width'].split()[0]} EDR)")


def tree__gids__are_16_and_used_gids_have_a_type(case: Case) -> None:
    equal([device(case, f"ports/1/gids/{i}") for i in range(4)],
          ["fe80:0000:0000:0000:0000:00ff:fe00:0001", "0000:0000:0000:0000:0000:ffff:0a00:0001",
           "fd00:0000:0000:0000:0000:0000:0000:0001", "0000:0000:0000:0000:0000:0000:0000:0000"])
    equal([device(case, f"ports/1/gid_attrs/types/{i}") for i in range(3)], ["RoCE v2"] * 3)
    run = case.call("run", *DEVICES, "--", "ls", "/sys/class/infiniband/left/ports/1/gids")
    equal(sorted(run.stdout.split(), key=int), [str(i) for i in range(16)])


def tree__interface_of_the_link__is_listed(case: Case) -> None:
    loopback = "lo0:net_af_packet0,iface=lo;ip=10.0.0.1/24"
    for name, wanted in (("ports/1/gid_attrs/ndevs/1", "lo\n"), ("device/net/lo/ifindex", "1\n")):
        run = case.call("run", "-d", loopback, "--", "cat", f"/sys/class/infiniband/lo0/{name}")
        equal((run.stdout, run.stderr), (wanted, ""))


def tree__interfaces_of_addresses_over_udp__are_listed(case: Case) -> None:
    both = f"u0:udp,ip={SUBNET}.1,hub=no"
    for name, wanted in (("ports/1/gid_attrs/ndevs/0", "lo\n"), ("ports/1/gid_attrs/ndevs/1", "lo\n"),
                         ("device/net/lo/ifindex", "1\n")):
        run = case.call("run", "-d", both, "--", "cat", f"/sys/class/infiniband/u0/{name}")
        equal((run.stdout, run.stderr), (wanted, ""))


def tree__rate__is_that_of_the_interface_or_the_configuration(case: Case) -> None:
    reason = apart.why_not()
    if reason:
        raise Skip(reason)
    make = ("ip link add one type veth peer name two; ip link set one up; ip link set two up; "
            "ip address add 10.9.0.1/24 dev one; exec")
    for link, rate, speed in (("net_af_packet0,iface=one", "10 Gb/sec (1X QDR)", "10.0 Gbps (4)"),
                              ("udp,ip=10.9.0.1", "10 Gb/sec (1X QDR)", "10.0 Gbps (4)"),
                              ("udp,ip=10.9.0.1;rate=400", "400 Gb/sec (4X NDR)", "100.0 Gbps (128)")):
        for read, wanted in (("cat /sys/class/infiniband/u0/ports/1/rate", rate), ("ibv_devinfo -v -d u0", speed)):
            run = subprocess.run(["unshare", "--net", "sh", "-c", f"{make} {case.uroce} run -q -d 'u0:{link}' {read}"],
                                 capture_output=True, text=True, check=False)
            has(run.stdout, wanted)


def tree__devices_with_one_mac__have_different_guids(case: Case) -> None:
    same = ("-d", "a:net_null0;ip=10.0.0.1/24;mac=02:00:00:00:00:07", "-d", "b:net_null1;ip=10.0.1.1/24;mac=02:00:00:00:00:07")
    guids = [case.call("run", *same, "--", "cat", f"/sys/class/infiniband/{name}/node_guid").stdout
             for name in "ab"]
    equal(guids, ["0000:00ff:fe00:0007\n", "0000:00ff:ff00:0007\n"])


def tree__local_cpus__are_all_cpus_without_a_numa_node(case: Case) -> None:
    equal(device(case, "device/numa_node"), "-1")
    mask = int(device(case, "device/local_cpus").replace(",", ""), 16)
    equal(mask, (1 << os.sysconf("SC_NPROCESSORS_CONF")) - 1)


def tree__second_device__has_the_second_number(case: Case) -> None:
    equal(cat(case, "/sys/class/infiniband_verbs/uverbs0/ibdev"), "left\n")
    equal(cat(case, "/sys/class/infiniband_verbs/uverbs1/ibdev"), "right\n")


def tree__device_node__is_a_character_device_with_the_right_number(case: Case) -> None:
    code = ("import os; s = os.stat('/dev/infiniband/uverbs1'); import stat;"
            "print(stat.S_ISCHR(s.st_mode), os.access('/dev/infiniband/uverbs1', os.R_OK | os.W_OK),"
            "f'{os.major(s.st_rdev)}:{os.minor(s.st_rdev)}')")
    run = case.call("run", *DEVICES, "--", "/usr/bin/python3", "-c", code)
    equal(run.stdout.split(), ["True", "True",
                               cat(case, "/sys/class/infiniband_verbs/uverbs1/dev").strip()])


def tree__rdma_cm__is_absent(case: Case) -> None:
    if pathlib.Path("/dev/infiniband/rdma_cm").exists():
        raise Skip("this kernel has RDMA")
    run = case.call("run", *DEVICES, "--", "cat", "/dev/infiniband/rdma_cm")
    equal(run.returncode, 1)


def tree__ls__lists_all_without_errors(case: Case) -> None:
    run = case.call("run", *DEVICES, "--", "ls", "-laR", "/sys/class/infiniband",
                    "/sys/devices/virtual/infiniband", "/sys/class/infiniband_verbs", "/dev/infiniband")
    equal((run.returncode, run.stderr), (0, ""))
    has(run.stdout, " left\n", " right\n", " left -> ../../devices/virtual/infiniband/left\n", "node_guid", "uverbs1")


def tree__device__is_a_link_to_a_virtual_device(case: Case) -> None:
    run = case.call("run", *DEVICES, "--", "readlink", "/sys/class/infiniband/left")
    equal(run.stdout, "../../devices/virtual/infiniband/left\n")
    equal(cat(case, "/sys/devices/virtual/infiniband/left/node_guid"), device(case, "node_guid") + "\n")
    run = case.call("run", *DEVICES, "--", "ls", "/sys/class/infiniband/left/..")
    assert {"left", "right"} <= set(run.stdout.split()), run.stdout
    run = case.call("run", *DEVICES, "--", "ls", "/sys/class/infiniband/left/../..")
    assert "net" in run.stdout.split(), run.stdout


def tree__devices_of_the_kernel__are_listed_too(case: Case) -> None:
    real = {path.name for path in KERNEL.glob("*")}
    run = case.call("run", *DEVICES, "--", "ls", "/sys/class/infiniband")
    equal(set(run.stdout.split()), real | {"left", "right"})


def tree__wrong_entry__is_absent_and_takes_no_number(case: Case) -> None:
    run = case.call("run", "--", "cat", "/sys/class/infiniband_verbs/uverbs0/ibdev",
                    UROCE_DEVICES=f"wrong:net_null0;mtu=1 {LEFT}")
    equal(run.stdout, "left\n", run.stderr)


def tree__nested_run__inner_tree_is_used(case: Case) -> None:
    inner = ["-d", LEFT, "--", "ls", "/sys/class/infiniband"]
    run = case.call("run", "-d", "outer:net_null0", "--", case.uroce, "run", *inner)
    assert "outer" not in run.stdout.split() and "left" in run.stdout.split(), run.stdout


def tree__set_user_id_program__sees_no_tree(case: Case) -> None:
    if os.geteuid() != 0:
        raise Skip("only root can make a set-user-ID program of another user")
    program = case.scratch / "cat"
    shutil.copy(shutil.which("cat"), program)
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    case.scratch.chmod(0o711)
    for name in ("/proc/self/status", "/sys/class/infiniband/left/fw_ver"):
        run = case.call("run", "-d", LEFT, "--", program, name)
        if "self" in name and not re.search(rf"^Uid:\t0\t{NOBODY}\t", run.stdout, re.M):
            raise Skip(f"{case.scratch} is on a file system without set-user-ID")
    equal(run.returncode, 1, run.stdout)


# ---- place and lifetime -----------------------------------------------------

def tree_directory__in_the_runtime_directory__is_private_to_the_user(case: Case) -> None:
    where = pathlib.Path(case.environment("-d", LEFT)["UROCE_TREE"])
    equal(where.parent, case.scratch)
    equal((stat.S_IMODE(where.stat().st_mode), where.stat().st_uid), (0o700, os.geteuid()))


def tree_directory__writable_by_others__is_not_used(case: Case) -> None:
    anybodys, safe = case.scratch / "anybodys", case.scratch / "safe"
    safe.mkdir()
    anybodys.mkdir()
    anybodys.chmod(0o777)
    found = case.environment("-d", LEFT, XDG_RUNTIME_DIR=str(anybodys), TMPDIR=str(safe))
    equal(pathlib.Path(found["UROCE_TREE"]).parent, safe)


def tree_directory__replaceable_by_others__is_not_used(case: Case) -> None:
    inside, safe = case.scratch / "anybodys" / "inside", case.scratch / "safe"
    safe.mkdir()
    inside.mkdir(parents=True)
    inside.parent.chmod(0o777)
    found = case.environment("-d", LEFT, XDG_RUNTIME_DIR=str(inside), TMPDIR=str(safe))
    equal(pathlib.Path(found["UROCE_TREE"]).parent, safe)


def tree_directory__of_another_user__is_not_used(case: Case) -> None:
    if os.geteuid() != 0:
        raise Skip("only root can make a directory of another user")
    os.chown(case.scratch, NOBODY, NOBODY)
    found = case.environment("-d", LEFT, TMPDIR=str(case.scratch))
    equal(str(pathlib.Path(found["UROCE_TREE"]).parent), "/tmp")


def tree__program_ended__next_run_removes_the_tree(case: Case) -> None:
    first = pathlib.Path(case.environment("-d", LEFT)["UROCE_TREE"])
    second = pathlib.Path(case.environment("-d", LEFT)["UROCE_TREE"])
    equal(trees(case), {second.name})
    assert first != second


def tree__program_runs__tree_is_kept(case: Case) -> None:
    code = "import os, sys; print(os.environ['UROCE_TREE'], flush=True); sys.stdin.read()"
    with subprocess.Popen([case.uroce, "run", "-d", LEFT, "--", "/usr/bin/python3", "-c", code],
                          env={**os.environ, "XDG_RUNTIME_DIR": str(case.scratch)}, text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        first = pathlib.Path(living.stdout.readline().strip())
        case.environment("-d", LEFT)
        assert (first / "class/infiniband/left/node_guid").exists()
        living.stdin.close()


def tree__child_outlives_the_program__tree_is_kept(case: Case) -> None:
    run = case.call("run", "-d", LEFT, "--", "sh", "-c",
                    f"echo $UROCE_TREE; mkfifo {case.scratch}/go; "
                    f"cat {case.scratch}/go >/dev/null 2>&1 &")
    first = pathlib.Path(run.stdout.strip())
    case.environment("-d", LEFT)
    there = first.exists()
    (case.scratch / "go").write_text("")  # ends the child
    assert there


def tree__few_descriptors_allowed__lock_is_kept(case: Case) -> None:
    run = subprocess.run(["sh", "-c", 'ulimit -n 20; exec "$0" run -d "$1" -- sh -c "$2"',
                          case.uroce, LEFT, 'ls -l /proc/$$/fd'], capture_output=True, text=True,
                         env={**os.environ, "XDG_RUNTIME_DIR": str(case.scratch)}, check=False)
    has(run.stdout, str(case.scratch))


def tree__symbolic_link_with_the_name_of_a_tree__is_not_followed(case: Case) -> None:
    victim = case.scratch / "victim"
    victim.mkdir()
    (victim / "kept").touch()
    link = case.scratch / "uroce-tree-abcdef"
    link.symlink_to(victim)
    case.environment("-d", LEFT)
    assert link.is_symlink() and (victim / "kept").exists()


def tree__symbolic_link_in_a_leftover_tree__is_not_followed(case: Case) -> None:
    (case.scratch / "victim").mkdir()
    (case.scratch / "victim" / "kept").touch()
    forgotten = case.scratch / "uroce-tree-abcdef"
    forgotten.mkdir()
    (forgotten / "out").symlink_to(case.scratch / "victim")
    case.environment("-d", LEFT)
    assert not forgotten.exists() and (case.scratch / "victim" / "kept").exists()


CASES = uroce_case.named_cases(globals())


if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
