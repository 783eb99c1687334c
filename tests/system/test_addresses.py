#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests which addresses a device over UDP has if its description does not name all of them. Each case has its own network
namespace, so it needs root. Writes TAP.

    test_addresses.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import re
import shutil
import sys

import apart
import test_udp
from uroce_case import Case, Skip, equal, has, main, named_cases

LO = "ip link set lo up"
ETH0 = ("ip link add eth0 type veth peer name far0; ip link set far0 up; ip link set eth0 up;"
        "ip address add 10.44.0.7/24 dev eth0; ip address add fd44::7/64 dev eth0 nodad")
ETH1 = ("ip link add eth1 type veth peer name far1; ip link set far1 up; ip link set eth1 up;"
        "ip address add 10.55.0.7/24 dev eth1; ip address add fd55::7/64 dev eth1 nodad")
NO_CARRIER = "ip link add eth2 type veth peer name far2; ip link set eth2 up; ip address add 10.66.0.7/24 dev eth2"
PROGRAM = ("ibv_devices",)


class Machine:
    """A network namespace in which the test calls uroce. Commands set it up."""

    def __init__(self, case: Case, *commands: str):
        why = apart.why_not()
        if why:
            raise Skip(why)
        self.case = case
        self.commands = "set -e; " + "; ".join((*commands, 'exec "$@"'))

    def call(self, *words: str, device: str = ""):
        environment = {"UROCE_DEVICES": device} if device else {}
        return self.case.call("--net", "sh", "-c", self.commands, "sh", self.case.uroce, *words,
                              uroce=shutil.which("unshare"), **environment)

    def addresses(self, device: str = "") -> list[str]:
        """Returns the addresses of the device, as `uroce devices` prints them. Leaves out GID 0, which repeats GID 1."""
        run = self.call("devices", device=device)
        equal((run.returncode, run.stderr), (0, ""), run.stdout)
        return re.findall(r"gid [1-9]\d? +(\S+)/0\n", run.stdout)

    def refused(self, device: str, *wanted: str) -> None:
        run = self.call("devices", device=device)
        equal(run.returncode, 1, run.stdout)
        has(run.stdout, "uroce0  not usable: ", *wanted)


def needs_library(case: Case) -> None:
    if not (case.build / "lib" / "abi" / "libibverbs.so.1").exists() or shutil.which("ibv_devices") is None:
        raise Skip("libibverbs.so.1 is not built, or ibv_devices is not installed")


# ---- auto -------------------------------------------------------------------

def auto__no_default_route__only_global_address_is_used(case: Case) -> None:
    machine = Machine(case, LO, ETH0)
    for device in ("", "uroce0:udp", "uroce0:udp,ip=auto", "uroce0:udp;ip=auto"):
        equal(machine.addresses(device), ["10.44.0.7", "fd44::7"], device)


def auto__run_and_devices__choose_the_same_address(case: Case) -> None:
    needs_library(case)
    run = Machine(case, LO, ETH0).call("run", "--", *PROGRAM)
    equal(run.returncode, 0, run.stderr)
    has(run.stderr, "uroce run: no device is configured, so uroce0 is 10.44.0.7 over UDP.")
    has(run.stdout, "uroce0")
    assert "WARNING" not in run.stderr, run.stderr


def auto__only_ipv6__is_used(case: Case) -> None:
    machine = Machine(case, LO, ETH0, "ip address del 10.44.0.7/24 dev eth0")
    equal(machine.addresses(), ["fd44::7"])


def auto__default_route__decides_between_several(case: Case) -> None:
    machine = Machine(case, LO, ETH0, ETH1, "ip route add default via 10.55.0.1")
    equal(machine.addresses(), ["10.55.0.7"])


def auto__interface_without_carrier__is_left_out(case: Case) -> None:
    equal(Machine(case, LO, ETH0, NO_CARRIER).addresses(), ["10.44.0.7", "fd44::7"])
    equal(Machine(case, LO, NO_CARRIER).addresses(), ["10.66.0.7"])


def auto__link_local_addresses__are_left_out(case: Case) -> None:
    machine = Machine(case, LO, ETH0, "ip address add 169.254.7.7/16 dev eth0")
    equal(machine.addresses(), ["10.44.0.7", "fd44::7"])


def auto__deprecated_ipv6_addresses__are_left_out(case: Case) -> None:
    machine = Machine(case, LO, ETH0, "ip address add fd44::8/64 dev eth0 nodad preferred_lft 0")
    equal(machine.addresses(), ["10.44.0.7", "fd44::7"])


def auto__several_addresses__lists_them_and_does_not_start(case: Case) -> None:
    machine = Machine(case, LO, ETH0, ETH1)
    wanted = ("this machine has no default route and several addresses: ", "10.44.0.7 (eth0)", "10.55.0.7 (eth1)",
              "udp,ip=", "udp,iface=eth")
    machine.refused("uroce0:udp", "ip=auto: ", *wanted)
    machine.refused("", *wanted)
    needs_library(case)
    run = machine.call("run", "--", "echo", "program")
    equal((run.returncode, run.stdout), (2, ""))
    has(run.stderr, "uroce run: no device is configured, and none can be chosen: ", *wanted,
        "uroce run --device uroce0:udp,ip=")


def auto__only_loopback__one_warning(case: Case) -> None:
    needs_library(case)
    warning = "WARNING: uroce0 has the address 127.0.0.1 and reaches only this machine"
    machine = Machine(case, LO)
    equal(machine.addresses(), ["127.0.0.1"])
    for words, device in (((), ""), (("-q",), ""), ((), "uroce0:udp"), ((), "uroce0:udp,ip=auto")):
        run = machine.call("run", *words, "--", *PROGRAM, device=device)
        equal(run.returncode, 0, run.stderr)
        equal(run.stderr.count(warning), 1, run.stderr)
    run = machine.call("run", "--", *PROGRAM, device="uroce0:udp,ip=127.0.0.1")
    assert warning not in run.stderr, run.stderr
    has(machine.call("devices").stdout, warning)


def auto__no_interface_up__error_has_the_remedy(case: Case) -> None:
    machine = Machine(case)
    machine.refused("uroce0:udp", "no interface of this network namespace is up", "ip link set lo up")
    needs_library(case)
    run = machine.call("run", "--", "echo", "program")
    equal((run.returncode, run.stdout), (2, ""))


def quiet__default_device__is_not_mentioned(case: Case) -> None:
    needs_library(case)
    for option in ("-q", "--quiet"):
        run = Machine(case, LO, ETH0).call("run", option, "--", *PROGRAM)
        equal((run.returncode, run.stderr), (0, ""))
        has(run.stdout, "uroce0")


# ---- iface= -----------------------------------------------------------------

def iface__several_addresses__device_has_all_of_them(case: Case) -> None:
    machine = Machine(case, LO, ETH0, ETH1, "ip address add 10.55.1.7/24 dev eth1 label eth1:more",
                      "ip address add fd55::8/64 dev eth1 nodad preferred_lft 0")
    equal(machine.addresses("uroce0:udp,iface=eth0"), ["10.44.0.7", "fd44::7"])
    equal(machine.addresses("uroce0:udp,iface=eth1"), ["10.55.0.7", "10.55.1.7", "fd55::7"])
    equal(machine.addresses("uroce0:udp,gso=no,iface=eth0;ip=auto"), ["10.44.0.7", "fd44::7"])
    equal(machine.addresses("uroce0:udp,iface=lo"), ["127.0.0.1", "::1"])


def iface__with_an_address__uses_only_that_address(case: Case) -> None:
    machine = Machine(case, LO, ETH0, ETH1)
    equal(machine.addresses("uroce0:udp,iface=eth0,ip=fd44::7"), ["fd44::7"])
    machine.refused("uroce0:udp,iface=eth0,ip=10.55.0.7", "ip=10.55.0.7: is not an address of the interface eth0")


def iface__absent_or_down__is_refused(case: Case) -> None:
    machine = Machine(case, LO, ETH0, "ip link set eth0 down")
    machine.refused("uroce0:udp,iface=eth7", 'there is no interface "eth7"', "ip link")
    machine.refused("uroce0:udp,iface=eth0", "iface=eth0: the interface is down or has no address")
    machine.refused("uroce0:udp,iface=", "there is no interface")


def iface__device__opens(case: Case) -> None:
    machine = Machine(case, LO, ETH0)
    for device in ("uroce0:udp,iface=eth0,hub=no", "uroce0:udp,ip=10.44.0.0/24,hub=no"):
        run = machine.call("devices", "--probe", device=device)
        equal((run.returncode, run.stderr), (0, ""), run.stdout)
        has(run.stdout, "uroce0  link up\n")


# ---- ip=NET -----------------------------------------------------------------

def net__subnet_of_a_local_address__uses_this_address(case: Case) -> None:
    machine = Machine(case, LO, ETH0, ETH1)
    equal(machine.addresses("uroce0:udp,ip=10.44.0.0/24"), ["10.44.0.7"])
    equal(machine.addresses("uroce0:udp;ip=fd55::/64,10.44.0.0/16"), ["fd55::7", "10.44.0.7"])
    equal(machine.addresses("uroce0:udp,ip=127.0.0.0/8"), ["127.0.0.1"])
    equal(machine.addresses("uroce0:udp,iface=eth1,ip=10.0.0.0/8"), ["10.55.0.7"])


def net__address_with_a_length__is_that_address(case: Case) -> None:
    machine = Machine(case, LO, ETH0)
    equal(machine.addresses("uroce0:udp,ip=10.44.0.7/24"), ["10.44.0.7"])
    equal(machine.addresses("uroce0:udp,ip=10.44.0.0"), ["10.44.0.0"])
    equal(machine.addresses("uroce0:udp,ip=10.44.0.0/32"), ["10.44.0.0"])


def net__first_address_of_the_subnet__can_be_local(case: Case) -> None:
    machine = Machine(case, LO, ETH0, "ip address add 10.77.0.0/31 dev eth0")
    equal(machine.addresses("uroce0:udp,ip=10.77.0.0/31"), ["10.77.0.0"])


def net__no_local_address__lists_the_addresses(case: Case) -> None:
    machine = Machine(case, LO, ETH0, ETH1)
    machine.refused("uroce0:udp,ip=10.99.0.0/16", "ip=10.99.0.0/16: no address of this machine is in this net",
                    "10.44.0.7 (eth0)")
    machine.refused("uroce0:udp,iface=eth1,ip=10.44.0.0/24", "is in this net on eth1")


def net__several_local_addresses__lists_these_addresses(case: Case) -> None:
    machine = Machine(case, LO, ETH0, ETH1)
    machine.refused("uroce0:udp,ip=10.0.0.0/8", "several addresses of this machine are in this net: ",
                    "10.44.0.7 (eth0)", "10.55.0.7 (eth1)")


def net__given_twice__is_refused(case: Case) -> None:
    machine = Machine(case, LO, ETH0)
    machine.refused("uroce0:udp;ip=10.44.0.0/24,10.44.0.0/16", "the same address is given twice")
    machine.refused("uroce0:udp;ip=10.44.0.7,10.44.0.0/16", "the same address is given twice")


# ---- two machines -----------------------------------------------------------

class Unnamed(test_udp.Apart):
    """Two machines on a network without a router. Both have the same options, or none."""
    options: tuple[str, ...] = ()

    def command(self, role: str, program: list[str]) -> list[str]:
        named = super().command(role, program)
        return [*named[:named.index("run") + 1], *self.options, *named[named.index("--"):]]


class OneNet(Unnamed):
    options = ("--device", "uroce0:udp,ip=10.0.0.0/24")


class OneInterface(Unnamed):
    options = ("--device", "uroce0:udp,iface=link0")


def two_machines__same_line_or_no_configuration__reach_each_other(case: Case) -> None:
    needs_library(case)
    for kind in (Unnamed, OneNet, OneInterface):
        with kind(case.uroce) as pair:
            run = pair.run(["ibv_rc_pingpong", "-g", "1", "-n", "100"], 60)
        assert not run.problem(), f"{kind.__name__}: {run.problem()}"
        has(run.client.text, "GID ::ffff:10.0.0.2\n", "GID ::ffff:10.0.0.1\n")


CASES = named_cases(globals())


if __name__ == "__main__":
    os.environ.pop("UROCE_DEVICES", None)
    sys.exit(main(__doc__, CASES))
