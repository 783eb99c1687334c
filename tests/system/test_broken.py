#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the messages of broken installations and on bare systems: each is one line with the missing part and the remedy. Writes TAP.

    test_broken.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import shutil
import subprocess
import sys

import uroce_case
from uroce_case import LIBRARY, PATHS, SUBNET, Case, Skip, equal, has, namespaces
import patience  # from tools/lib/common, which uroce_case puts on the path
from test_install import Installation

DEVICE = f"uroce0:udp,ip={SUBNET}.1,hub=no"
UDP, MEMIF, TOP = "liburoce-udp.so", "liburoce-memif.so", "liburoce-top.so"


def one_line(text: str, *wanted: str) -> None:
    has(text, *wanted)
    equal(text.count("\n"), 1, text)


def run(installed: Installation, *options: str) -> subprocess.CompletedProcess:
    return installed.call("run", "-q", *options, "--", "true")


def damage(path: pathlib.Path, before: bytes, after: bytes) -> None:
    octets = path.read_bytes()
    assert before in octets, f"no {before!r} in {path}"
    path.write_bytes(octets.replace(before, after))


def version(case: Case) -> str:
    return case.call("version").stdout.split()[1]


# ---- half removed -----------------------------------------------------------------------------------------------------------

def removed__library__one_line_has_its_name_and_place(case: Case) -> None:
    for name in (LIBRARY, PATHS):
        installed = Installation(case, name)
        installed.file(name).unlink()
        done = run(installed, "-d", DEVICE)
        equal((done.returncode, done.stdout), (126, ""))
        one_line(done.stderr, f"uroce run: {name} is missing: it must be in {installed.prefix}/bin/../lib", "install it again")


def removed__all_libraries__one_line(case: Case) -> None:
    installed = Installation(case)
    shutil.rmtree(installed.file(LIBRARY).parent)
    one_line(run(installed, "-d", DEVICE).stderr, f"uroce run: {LIBRARY} is missing")


def moved__program_alone__one_line(case: Case) -> None:
    installed = Installation(case)
    (case.scratch / "alone" / "bin").mkdir(parents=True)
    shutil.move(installed.prefix / "bin" / "uroce", case.scratch / "alone" / "bin")
    installed.prefix = case.scratch / "alone"
    one_line(run(installed, "-d", DEVICE).stderr, f"uroce run: {LIBRARY} is missing: it must be in {installed.prefix}/bin/",
             "move uroce only as a whole")


def removed__plug_in__one_line_for_its_link_and_other_links_work(case: Case) -> None:
    installed = Installation(case)
    installed.file(UDP).unlink()
    for done, begin in ((run(installed), "uroce run: no device is configured, and none can be chosen: "),
                        (installed.call("run", "-q", "-d", DEVICE, "ibv_devices"), "uroce run: ")):
        one_line(done.stderr, f"{UDP} is not beside the library; install uroce as a whole")
        assert done.stderr.startswith(begin), done.stderr
    done = installed.call("devices", UROCE_DEVICES="a:net_memif0")
    has(done.stdout, "a  configured")


# ---- another version --------------------------------------------------------------------------------------------------------

def version__of_a_library__one_line_names_both(case: Case) -> None:
    own = version(case)
    for name in (LIBRARY, PATHS):
        installed = Installation(case, name)
        library = installed.file(name).resolve()
        damage(library, b"uroce\0\0\0" + own.encode() + b"\0", b"uroce\0\0\0" + b"9.9" + own.encode()[3:] + b"\0")
        done = run(installed, "-d", DEVICE)
        equal((done.returncode, done.stdout), (126, ""))
        one_line(done.stderr, f"{name} is of uroce 9.9{own[3:]}, and this program is of uroce {own}; "
                              "install uroce as a whole from one build")


def version__of_a_plug_in__one_line(case: Case) -> None:
    installed = Installation(case)
    other = case.build / "tests" / "system" / "libother_version.so"
    if not other.exists():
        raise Skip(f"{other} is not built")
    shutil.copy(other, installed.file(UDP))
    done = installed.call("run", "-q", "-d", DEVICE, "ibv_devices")
    one_line(done.stderr, f"{UDP} is of another version of uroce (interface 9999, not ",
             "install the plug-ins and the library from one build")


def version__of_top__one_line(case: Case) -> None:
    installed = Installation(case)
    found = list(installed.prefix.rglob(TOP))
    if not found:
        raise Skip(f"{TOP} is not built: the headers of ncurses are missing")
    own = version(case)
    damage(found[0], b"uroce\0\0\0" + own.encode() + b"\0", b"uroce\0\0\0" + b"9.9" + own.encode()[3:] + b"\0")
    one_line(installed.call("top").stderr, f"{TOP} is of uroce 9.9", "install uroce as a whole")


def damaged__library__one_line(case: Case) -> None:
    for name, size in ((LIBRARY, 0), (PATHS, 100)):
        installed = Installation(case, name)
        with installed.file(name).resolve().open("r+b") as file:
            file.truncate(size)
        done = run(installed, "-d", DEVICE)
        equal((done.returncode, done.stdout), (126, ""))
        one_line(done.stderr, f"{name} is damaged or is not a library of uroce; install uroce again")


# ---- bare systems -----------------------------------------------------------------------------------------------------------

NO_PROC = "mount -t tmpfs none /proc"
NO_SYS = "mount -t tmpfs none /sys"
# Replaces /dev by a directory that has the usual devices, but no shm.
NO_SHM = """mount -t tmpfs none "$SCRATCH"; for f in null zero random urandom tty; do touch "$SCRATCH/$f"
mount --bind /dev/$f "$SCRATCH/$f"; done; mount --rbind "$SCRATCH" /dev; test ! -e /dev/shm"""
READ_ONLY_HOME = 'mount -t tmpfs -o ro none "$HOME"; ! touch "$HOME/a" 2>/dev/null'
READ_ONLY = """for place in /dev/shm /tmp /var/tmp /run; do mount -t tmpfs -o ro none $place; done"""


def bare(case: Case, make: str, *words: object, **environment: str) -> subprocess.CompletedProcess:
    """Runs `uroce` in namespaces of its own, after the shell commands @make have changed the file system there."""
    if not (case.build / "lib" / "abi" / LIBRARY).exists():
        raise Skip(f"{LIBRARY} is not built: the headers of libibverbs are missing")
    space = namespaces("--net", "--mount")
    home, scratch = case.scratch / "home", case.scratch / "dev"
    for directory in (home, scratch):
        directory.mkdir(exist_ok=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "SCRATCH": str(scratch), "LANG": "C", **environment}
    script = f'ip link set lo up && {{ {make}\n}} && exec "$@"'
    return subprocess.run([*space, "sh", "-ec", script, "sh", case.uroce, *words], capture_output=True, text=True, check=False, env=env,
                          timeout=patience.seconds(60))


def no_proc__run__one_line(case: Case) -> None:
    done = bare(case, NO_PROC, "run", "-q", "-d", DEVICE, "true")
    equal((done.returncode, done.stdout), (126, ""))
    one_line(done.stderr, f"uroce run: cannot find {LIBRARY}, because /proc/self/exe cannot be read", "mount /proc")


def no_proc__devices__one_line(case: Case) -> None:
    done = bare(case, NO_PROC, "devices", UROCE_DEVICES=DEVICE)
    equal((done.returncode, done.stderr), (1, ""))
    one_line(done.stdout, "uroce0  not usable: ", f"link=udp,ip={SUBNET}.1,hub=no: cannot find the plug-ins of uroce, "
             "because /proc/self/maps cannot be read; mount /proc, or set UROCE_LIB_DIR to their directory")


def no_proc__stat__shows_the_program_that_runs(case: Case) -> None:
    state = case.scratch / "state"
    state.mkdir(mode=0o700, exist_ok=True)
    script = f"""ibv_rc_pingpong -d uroce0 -g 1 >/dev/null & trap 'kill $!' EXIT
until {case.uroce} stat 2>/dev/null | grep -q uroce0; do kill -0 $!; done; unshare --mount sh -ec '{NO_PROC}; exec {case.uroce} stat'"""
    done = bare(case, ":", "run", "-q", "-d", DEVICE, "sh", "-ec", script, UROCE_STATE_DIR=str(state))
    equal((done.returncode, done.stderr), (0, ""))
    has(done.stdout, f"uroce0  udp,ip={SUBNET}.1,hub=no\n  link     up")


def no_sys__info_check__one_line_for_a_link_of_dpdk(case: Case) -> None:
    done = bare(case, NO_SYS, "info", "--check", UROCE_DEVICES=DEVICE)
    equal(done.stderr, "")
    assert "EAL common options" not in done.stdout, done.stdout
    has(done.stdout, "/sys            no (No such file or directory): DPDK links need it; mount sysfs at /sys")
    ring = next(line for line in done.stdout.splitlines() if line.startswith("  net_ring        f"))
    has(ring, "failed: ", "DPDK does not start: /sys/devices/system/cpu has no processor of this process; mount sysfs at /sys")


def no_sys__run__works(case: Case) -> None:
    done = bare(case, NO_SYS, "run", "-q", "-d", DEVICE, "ibv_devinfo")
    equal((done.returncode, done.stderr), (0, ""))
    has(done.stdout, "uroce0", "PORT_ACTIVE")


def no_dev_shm__run__works(case: Case) -> None:
    done = bare(case, NO_SHM, "run", "-q", "-d", DEVICE, "ibv_devinfo")
    equal((done.returncode, done.stderr), (0, ""))
    has(done.stdout, "uroce0", "PORT_ACTIVE")
    done = bare(case, NO_SHM, "info", UROCE_DEVICES=DEVICE)
    line = next(line for line in done.stdout.splitlines() if line.startswith("  /dev/shm"))
    has(line, "no (No such file or directory): ", "mount a tmpfs at /dev/shm")


def read_only_home__run__works(case: Case) -> None:
    done = bare(case, READ_ONLY_HOME, "run", "-q", "-d", f"uroce0:udp,ip={SUBNET}.1", "ibv_devinfo")
    equal((done.returncode, done.stderr), (0, ""))
    has(done.stdout, "uroce0", "PORT_ACTIVE")


def no_writable_directory__run__one_line_for_each_affected_part(case: Case) -> None:
    if str(case.scratch).startswith(("/tmp/", "/var/tmp/", "/run/")) and str(case.build).startswith(("/tmp/", "/var/tmp/", "/run/")):
        raise Skip("the build is in a directory that this case hides")
    done = bare(case, READ_ONLY, "run", "-q", "-d", f"uroce0:udp,ip={SUBNET}.1", "ibv_devices")
    equal(done.returncode, 0, done.stderr)
    has(done.stdout, "uroce0")
    lines = done.stderr.splitlines()
    equal(len(lines), 2, done.stderr)
    has(lines[0], "uroce hub: the hub cannot write its socket to XDG_RUNTIME_DIR, /run/user/", "(Read-only file system); set XDG_RUNTIME_DIR")
    has(lines[1], "uroce run: XDG_RUNTIME_DIR, TMPDIR and /tmp: cannot write files of the devices", "Set TMPDIR")


# ---- the command line of run ------------------------------------------------------------------------------------------------

def absent_interface__run__works_because_the_program_may_make_it(case: Case) -> None:
    for spec in ("a:udp,iface=absent0", "a:net_af_packet0,iface=absent0;ip=10.9.8.7/24"):
        done = case.call("run", "-q", "-d", spec, "true")
        equal((done.returncode, done.stderr), (0, ""))


def blanks_around_a_device__run__are_ignored(case: Case) -> None:
    done = case.call("run", "-q", "-d", f" {DEVICE}\n", "sh", "-c", 'printf %s "$UROCE_DEVICES"')
    equal((done.returncode, done.stdout), (0, DEVICE))


CASES = uroce_case.named_cases(globals())

if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
