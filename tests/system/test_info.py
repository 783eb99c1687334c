#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the output of `uroce info` about the installation, the kernel and the user, and its check of the links. Writes TAP.

    test_info.py BUILD_DIRECTORY [--match REGEX]
"""
import json
import os
import re
import shutil
import subprocess
import sys

import uroce_case
from uroce_case import LEFT, Case, Skip, equal, has
import patience  # from tools/lib/common, which uroce_case puts on the path

NOBODY = "65534"


def alone(case: Case, *words: str, up: bool = True, user: str = "", **environment: str) -> subprocess.CompletedProcess:
    """Runs `uroce` in a new network namespace, which has only the loopback interface."""
    space = uroce_case.namespaces("--net")
    case.scratch.chmod(0o755)
    drop = f"setpriv --reuid {user} --regid {user} --clear-groups " if user else ""
    runtime = case.scratch / "runtime"
    runtime.mkdir(exist_ok=True)
    if user:
        os.chown(runtime, int(user), int(user))
    env = {name: value for name, value in os.environ.items() if not name.startswith("UROCE_")}
    script = f"{'ip link set lo up; ' if up else ''}exec {drop}\"$@\""
    return subprocess.run([*space, "sh", "-c", script, "sh", case.uroce, *words], capture_output=True, text=True, check=False,
                          env={**env, "XDG_RUNTIME_DIR": str(runtime), **environment}, timeout=patience.seconds(60))


def checks(run: subprocess.CompletedProcess) -> dict[str, dict[str, str]]:
    return {entry["link"]: entry for entry in json.loads(run.stdout)["check"]}


# ---- installation, kernel and user ----------------------------------------------------------------------------------------------------------

def info__text__has_version_links_rights_and_default(case: Case) -> None:
    run = alone(case, "info")
    equal((run.returncode, run.stderr), (0, ""), run.stdout)
    has(run.stdout, case.call("version").stdout, f"  libraries       {(case.build / 'lib' / 'abi').resolve()}\n",
        "\nLinks\n  udp             UDP sockets", "\n  UDP GSO         ", "\n  AF_XDP          ", "\n  hugepages       ",
        "\n  locked memory   ", "\n  uroce0:udp,ip=127.0.0.1\n",
        "  no device is configured, and 127.0.0.1 is the only address of this machine (lo)\n")
    assert "Check" not in run.stdout


def info__json__has_the_same_values(case: Case) -> None:
    run = alone(case, "info", "--json")
    equal((run.returncode, run.stderr), (0, ""), run.stdout)
    found = json.loads(run.stdout)
    equal("uroce " + found["version"] + "\n", case.call("version").stdout)
    equal({"udp", "net_memif", "net_af_packet"} - {link["name"] for link in found["links"]}, set())
    equal(found["default"]["device"], "uroce0:udp,ip=127.0.0.1")
    equal({"udp_gso", "udp_gro", "raw_sockets", "af_xdp", "hugepages", "memlock"} - set(found["system"]), set())
    equal(found["check"], [])


def info__device_configured__is_the_default(case: Case) -> None:
    run = alone(case, "info", UROCE_DEVICES=LEFT)
    equal(run.returncode, 0, run.stdout)
    has(run.stdout, "\n  left:net_memif0,role=server,socket=/tmp/x.sock\n  UROCE_DEVICES configures this device\n")
    run = alone(case, "info", UROCE_DEVICES="wrong:net_null0;mtu=12")
    equal(run.returncode, 1, run.stdout)
    has(run.stdout, "  not usable: UROCE_DEVICES, device 1 (wrong): mtu=12: must be a number")


def info__no_interface_is_up__default_is_not_usable(case: Case) -> None:
    run = alone(case, "info", up=False)
    equal(run.returncode, 1, run.stdout)
    has(run.stdout, "  not usable: no interface of this network namespace is up; try `ip link set lo up`")


def info__extra_word__error_has_the_word(case: Case) -> None:
    run = case.call("info", "more")
    equal((run.returncode, run.stdout), (2, ""))
    has(run.stderr, '"more": only options')


# ---- the check --------------------------------------------------------------------------------------------------------------

def check__links_without_rights__move_a_megabyte(case: Case) -> None:
    case.environment()
    run = alone(case, "info", "--check", "--json")
    equal(run.returncode, 0, run.stdout + run.stderr)
    found = checks(run)
    for link in ("udp", "net_memif"):
        equal((found[link]["result"], found[link]["text"]), ("ok", "1 MiB between two processes"))
    equal(set(found), {link["name"] for link in json.loads(run.stdout)["links"]})
    assert all(entry["text"] for entry in found.values()), found


def check__links_with_rights__move_a_megabyte(case: Case) -> None:
    case.environment()
    if os.geteuid() != 0:
        raise Skip("only root has CAP_NET_RAW")
    equal(checks(alone(case, "info", "--check", "--json"))["net_af_packet"]["result"], "ok")


def check__dpdk__moves_a_megabyte(case: Case) -> None:
    case.environment()
    case.plugin()
    found = checks(alone(case, "info", "--check", "--json"))["net_ring"]
    equal((found["result"], found["text"]), ("ok", "1 MiB between two queue pairs of one device"))


def check__plain_user__names_the_missing_right(case: Case) -> None:
    case.environment()
    if os.geteuid() != 0:
        raise Skip("only root can become another user")
    run = alone(case, "info", "--check", user=NOBODY)
    equal((run.returncode, run.stderr), (0, ""), run.stdout)
    has(run.stdout, "  net_af_packet   not tried: needs CAP_NET_RAW\n", "  udp             ok: ",
        "  raw sockets     no (Operation not permitted): ")


def check__no_address__udp_fails_with_one_line(case: Case) -> None:
    case.environment()
    run = alone(case, "info", "--check", up=False)
    equal(run.returncode, 1)
    has(run.stdout, "  udp             failed: no interface of this network namespace is up", "  net_memif       ok: ")


def check__library_missing__each_link_reports_it(case: Case) -> None:
    lone = case.scratch / "uroce"
    shutil.copy(case.uroce, lone)
    run = case.call("info", "--check", uroce=lone)
    equal(run.returncode, 1)
    has(run.stdout, "  libraries       libibverbs.so.1 is missing: it must be in ", "none: the directory of the libraries has no plug-in")


CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def uroce__control_characters_in_its_input__are_not_printed(case: Case) -> None:
    """The input is in device descriptions, plans, scripts and words of the command line."""
    plan, script = case.scratch / "escape.impair", case.scratch / "escape.peer"
    plan.write_text("loss:1%\nlo\x1b]0;x\x07\n")
    script.write_text("# title \x1b[2J\nsend \x1b[2J\n")
    for devices in ("u\x1b[2J0:udp,ip=127.0.0.1", "u0:udp,ip=127.0.0.1;mtu=\x1b[2J", "u0:ud\x1b[2Jp", "\x1b[2J"):
        for words in (["devices"], ["info"], ["info", "--json"]):
            run = case.call(*words, UROCE_DEVICES=devices)
            assert not CONTROL.search(run.stdout + run.stderr), (devices, words, run.stdout, run.stderr)
            if "--json" in words:
                json.loads(run.stdout)
    for words in (["impair", "u0", f"@{plan}"], ["impair", "u0", "\x1b[2J"], ["peer", "--check", script], ["dump", "a", "b\x1b[2J"]):
        run = case.call(*words)
        equal(run.returncode, 2)
        assert run.stderr and not CONTROL.search(run.stdout + run.stderr), (words, run.stdout, run.stderr)


CASES = uroce_case.named_cases(globals())

if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
