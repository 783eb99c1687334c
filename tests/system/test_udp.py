#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the link over UDP. Runs programs of programs.txt between two addresses of the loopback interface, as a plain user. Also
tests features that only this link has. Writes TAP.

    test_udp.py BUILD [--match REGEX] [--all]       --all: every row that can run on the loopback interface
"""
import dataclasses
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import apart
import connections
import programs
import test_programs
import pairs  # from tools/lib/common, which the module programs puts on the path
import patience
from uroce_case import SUBNET, Case, Skip, equal, has, main, named_cases

# A few programs of each kind. --all runs every row that can run.
CHOSEN = """rc_pingpong rc_pingpong_events rc_pingpong_large rc_pingpong_odd rc_pingpong_odp uc_pingpong
ud_pingpong srq_pingpong xsrq_pingpong send_bw send_bw_events send_bw_srq send_lat_ud send_bw_xrc
write_bw_all write_bw_many write_lat read_bw_all read_bw_many atomic_bw_add ucx_rc_tag_bw ucx_ud_tag_bw
hello rping rping_large ucmatose rdma_server rdma_xserver cmtime udaddy rstream_verify riostream rcopy
fi_rdm cm_send_bw cm_send_lat""".split()
# Rows whose processes share one address through the broker
SHARED = """rc_pingpong rc_pingpong_events ud_pingpong xsrq_pingpong send_lat_ud write_bw write_bw_many read_bw
ucx_rc_tag_bw hello rping ucmatose rdma_server udaddy cmtime mckey""".split()
# Rows that run in two connected namespaces with IPv4 and IPv6 addresses
APART = """rping_ipv6 hello_ipv6 ucmatose_ipv6 udaddy_ipv6 mckey_ipv6 rstream_ipv6 tcp_iperf_ipv6 fi_msg udpong udpong_ipv6
qperf_rc_bw qperf_rc_rdma_write_lat""".split()
# Rows that run in such namespaces with the IPv6 address first, so that programs choose IPv6
APART_V6 = """rc_pingpong rc_pingpong_events rc_pingpong_large uc_pingpong ud_pingpong write_bw_many
read_bw atomic_bw_add ucx_rc_tag_bw ucx_ud_tag_bw""".split()
# Rows whose processes share one IPv6 address
SHARED_V6 = "rc_pingpong ud_pingpong write_bw_many rping_ipv6".split()
# Rows that this link cannot run. LOST: a stream without acknowledgements overruns the socket buffer of an ordinary user, and
# perftest waits forever for the lost messages. ipv6: loopback has only one IPv6 address. fi_msg: libfabric skips loopback
# addresses. bw_group: perftest's IPv6 group has a scope that the kernel does not forward. xsrq: the first IPv6 neighbour
# resolution between new namespaces takes a second, and ibv_xsrq_pingpong does not wait that long. With --all, v6_*write_lat* may
# fail for the same reason.
LOST = "^send_bw_uc"
LEFT_OUT = re.compile(f"ipv6|bw_group$|^fi_msg|{LOST}")
LEFT_OUT_V6 = re.compile(f"bw_group|xsrq|{LOST}")
# Also rows with the addresses of both sides, or with an MTU that the network does not have
LEFT_OUT_SHARED_V6 = re.compile(f"{LEFT_OUT_V6.pattern}|^mckey|^fi_dgram|^ucx_cm|^cm_send_bw_ud")
ADDRESSES = {"server": f"{SUBNET}.2", "client": f"{SUBNET}.3"}
LOOPBACK = {"10.0.0.1": ADDRESSES["server"], "10.0.0.2": ADDRESSES["client"]}
SHARED_ADDRESS = f"{SUBNET}.7"
TAKEN_ADDRESS = f"{SUBNET}.9"
PORT = 4791


def is_bound(address: str) -> bool:
    """Returns whether /proc/net/udp lists the address."""
    local = f"{int.from_bytes(socket.inet_aton(address), sys.byteorder):08X}:{PORT:04X}"
    return local in pathlib.Path("/proc/net/udp").read_text()


def is_used(address: str, table: str | None = None) -> bool:
    """Returns whether a process uses the address. The UDP port shows only whether the broker runs. The broker drops datagrams
    for a process that does not run yet, and the client would retransmit only after five seconds."""
    return shares(address, table) > 0


def shares(address: str, table: str | None = None) -> int:
    """Returns the number of processes that use the address."""
    table = table or pathlib.Path("/proc/net/unix").read_text()
    name = re.compile(rf"/uroce(-\d+)?/hub-\d+-{re.escape(address)}$")
    return sum(line.split()[5] == "03" and name.search(line) is not None for line in table.splitlines())


class Pair(pairs.Pair):
    """A pair whose processes have two addresses of the loopback interface, over UDP."""
    words = {"server": "", "client": ""}

    def configuration(self, role: str) -> str:
        return f"{self.device}:udp,ip={ADDRESSES[role]}{self.words[role]}{self.settings}"

    def listens(self) -> bool:
        return is_used(ADDRESSES["server"])


class Shared(Pair):
    """A pair whose processes share one address."""

    def configuration(self, role: str) -> str:
        return f"{self.device}:udp,ip={SHARED_ADDRESS}{self.settings}"

    def listens(self) -> bool:
        return is_used(SHARED_ADDRESS)


class Apart(apart.Pair):
    """A pair in two network namespaces. The programs run as a plain user who cannot create namespaces."""
    meeting = "10.0.0.1"
    words = {"server": "", "client": ""}
    first = 0  # index of the address that is written first

    def __init__(self, uroce: pathlib.Path, settings: str = ""):
        why = apart.why_not()
        if why:
            raise Skip(why)
        super().__init__(uroce, settings, meeting=self.meeting)

    def configuration(self, role: str) -> str:
        addresses = apart.ADDRESSES[role]
        return (f"{self.device}:udp{self.words[role]};ip={addresses[self.first]},{addresses[1 - self.first]}"
                f"{self.settings}")

    def command(self, role: str, program: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name(role), *pairs.plain_user(self.uroce), str(self.uroce), "run", "--device",
                self.configuration(role), "--", *program]

    def table(self, *names: str) -> str:
        return subprocess.run(["ip", "netns", "exec", self.name("server"), "cat", *(f"/proc/net/{name}" for name in names)],
                              capture_output=True, text=True, check=True).stdout

    def listens(self) -> bool:
        return is_used("10.0.0.1", self.table("unix")) or any(
            line.split()[3:4] == ["0A"] for line in self.table("tcp", "tcp6").splitlines())

    def listening(self, port: int) -> bool:
        return f":{port:04X} 0" in self.table("tcp", "tcp6")


class ApartV6(Apart):
    first = 1


class SharedV6(ApartV6):
    """A pair whose processes share the server's addresses, in the server's namespace."""

    def configuration(self, role: str) -> str:
        return super().configuration("server")

    def command(self, role: str, program: list[str]) -> list[str]:
        return super().command("server", program)

    def listens(self) -> bool:
        return is_used("fd00::1", self.table("unix"))


def here(words: list[str], addresses: dict[str, str]) -> list[str]:
    for there, own in addresses.items():
        words = [word.replace(there, own) for word in words]
    return words


def program(row: programs.Row, kind=Pair):
    def run(case: Case) -> None:
        try:
            problem = test_programs.run_row(case.uroce, row, kind)
        except test_programs.Skip as why:
            raise Skip(str(why)) from why
        assert not problem, problem
    return run


def on_loopback(row: connections.Connection, where: dict[str, str] = LOOPBACK) -> connections.Connection:
    return dataclasses.replace(row, server=here(row.server, where), client=here(row.client, where),
                               must_say=here(row.must_say, where))


def connection(row: connections.Connection, kind=Pair):
    if issubclass(kind, Apart):
        row = on_loopback(row, {"127.0.0.1": kind.meeting})
    else:
        row = on_loopback(row, dict.fromkeys(LOOPBACK, SHARED_ADDRESS) if kind is Shared else LOOPBACK)

    def run(case: Case) -> None:
        problem = connections.run(case.uroce, row, kind)
        assert not problem, problem
    return run


def rows(build: pathlib.Path, every: bool) -> list:
    uroce = build / "app" / "uroce"
    found = [(row, program) for row in programs.rows() if not row.alone]
    found += [(row, connection) for row in connections.rows(uroce)]
    beside = [(row, connection) for row in connections.rows(uroce, apart.SECTION)]
    chosen = []
    for prefix, kind, names, left_out, more in (("", Pair, CHOSEN, LEFT_OUT, []), ("shared_", Shared, SHARED, LEFT_OUT, []),
                                                ("apart_", Apart, APART, re.compile(LOST), beside),
                                                ("v6_", ApartV6, APART_V6, LEFT_OUT_V6, []),
                                                ("shared_v6_", SharedV6, SHARED_V6, LEFT_OUT_SHARED_V6, [])):
        for row, make in found + more:
            if left_out.search(row.name) or not (every or row.name in names):
                continue
            run = make(row, kind)
            run.__name__ = prefix + row.name
            chosen.append(run)
    return chosen


def checked_bytes(case: Case, server: str, client: str, kind=Pair) -> None:
    class Words(kind):
        words = {"server": server, "client": client}
    with Words(case.uroce) as pair:
        problem = pair.run(["ibv_rc_pingpong", "-g", "1", "-c", "-s", "100000", "-n", "200"],
                           60).problem()
    assert not problem, problem


def udp__no_gso_no_gro__data_is_right(case: Case) -> None:
    checked_bytes(case, ",gso=no,gro=no", ",gso=no,gro=no")


def udp__gso_without_gro__data_is_right(case: Case) -> None:
    checked_bytes(case, ",gso=no,gro=no", ",gro=no")


def udp__no_gso_no_gro_over_ipv6__data_is_right(case: Case) -> None:
    checked_bytes(case, ",gso=no,gro=no", ",gso=no,gro=no", ApartV6)


def udp__gso_without_gro_over_ipv6__data_is_right(case: Case) -> None:
    checked_bytes(case, ",gso=no,gro=no", ",gro=no", ApartV6)


def udp__ident_plain__packets_of_uroce_are_accepted(case: Case) -> None:
    checked_bytes(case, ",ident=plain", ",ident=plain,gro=no")


def udp__captured_on_an_interface__every_icrc_is_right(case: Case) -> None:
    """The kernel segments long sends and sets the IP ID of each packet. The ICRC of a captured packet must be right for that IP
    ID."""
    tools = ["ip", "ethtool", "tcpdump"]
    if os.geteuid() != 0 or any(shutil.which(tool) is None for tool in tools):
        raise Skip(f"needs root and {', '.join(tools)}")
    pcap = case.scratch / "wire.pcap"
    with Namespaces() as spaces:
        watcher = spaces.start("b", "tcpdump", "-U", "-Z", "root", "-i", "eth0", "-w", pcap, "udp", "port", str(PORT))
        assert pairs.wait_for(lambda: pcap.exists() and pcap.stat().st_size > 0, 10), "tcpdump does not start"
        program = ["ib_write_bw", "-F", "-x", "1", "-n", "20"]
        server = spaces.start("a", case.uroce, "run", "--device", "uroce0:udp", "--", *program)
        assert pairs.wait_for(lambda: ":4853" in spaces.sockets("a"), 20), "the server does not listen"
        client = spaces.start("b", case.uroce, "run", "--device", "uroce0:udp", "--", *program, "10.9.0.1")
        equal((client.wait(patience.seconds(30)), server.wait(patience.seconds(30))), (0, 0))
        watcher.terminate()
        watcher.wait(patience.seconds(10))
    dump = case.call("dump", pcap).stdout
    cut = subprocess.run(["tcpdump", "-nvr", pcap], capture_output=True, text=True, check=True).stdout
    has(cut, "id 31,")  # the kernel segmented a send into more than 31 packets, as this test needs
    wrong = [line for line in dump.splitlines() if "!" in line]
    assert not wrong and dump.count("RC_WRITE_MIDDLE") > 1000, "\n".join(wrong[:5]) or dump[:500]


class Namespaces:
    """Two namespaces: a has 10.9.0.1 and fd09::1, b has 10.9.0.2 and fd09::2. Their interfaces carry only single packets."""

    def __enter__(self) -> "Namespaces":
        self.names = {side: f"uroce-udp-{os.getpid()}-{side}" for side in "ab"}
        self.running: list[subprocess.Popen] = []
        for name in self.names.values():
            call("ip", "netns", "add", name)
        call("ip", "link", "add", "eth0", "netns", self.names["a"], "type", "veth", "peer", "name", "eth0",
             "netns", self.names["b"])
        for number, name in enumerate(self.names.values(), 1):
            for address in (f"10.9.0.{number}/24", f"fd09::{number}/64"):
                call("ip", "-n", name, "addr", "add", address, "dev", "eth0", *(["nodad"] if ":" in address else []))
            call("ip", "-n", name, "link", "set", "lo", "up")
            call("ip", "-n", name, "link", "set", "eth0", "up")
            call("ip", "-n", name, "route", "add", "default", "dev", "eth0")
            call("ip", "netns", "exec", name, "ethtool", "-K", "eth0", "tx-udp-segmentation", "off", "gso", "off", "tx", "off")
        return self

    def start(self, side: str, *command: object, stderr: int = subprocess.DEVNULL) -> subprocess.Popen:
        process = subprocess.Popen(["ip", "netns", "exec", self.names[side], *map(str, command)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=stderr)
        self.running.append(process)
        return process

    def sockets(self, side: str) -> str:
        """Returns the table of TCP sockets. Ports are hexadecimal: 4853 is 18515, the port of perftest."""
        return subprocess.run(["ip", "netns", "exec", self.names[side], "cat", "/proc/net/tcp", "/proc/net/tcp6"],
                              capture_output=True, text=True, check=True).stdout

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            process.kill()
            process.wait()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


def call(*command: str) -> None:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    equal(run.returncode, 0, f"{' '.join(command)}: {run.stderr}")


def udp__link_without_checksum_offload__no_gso_and_no_loss(case: Case) -> None:
    """The first long send fails with EIO. Then uroce sends the packets one by one."""
    if os.geteuid() != 0 or shutil.which("ethtool") is None:
        raise Skip("needs root and ethtool")
    with Namespaces() as spaces:
        program = ["ibv_rc_pingpong", "-g", "1", "-c", "-s", "100000", "-n", "20"]
        server = spaces.start("a", case.uroce, "run", "--device", "uroce0:udp", "--", *program)
        assert pairs.wait_for(lambda: ":4853" in spaces.sockets("a"), 20), "the server does not listen"
        client = spaces.start("b", case.uroce, "run", "--device", "uroce0:udp;verbose=yes", "--", *program, "10.9.0.1",
                              stderr=subprocess.PIPE)
        said = client.communicate(timeout=patience.seconds(30))[1].decode()
        equal((client.returncode, server.wait(patience.seconds(30))), (0, 0), said)
    equal("timeouts" in said or "drop_icrc" in said, False, said)


def refused(case: Case, link: str, *words: str) -> None:
    run = case.call("run", "--device", f"uroce0:{link}", "--", "ibv_rc_pingpong", "-g", "1")
    has(run.stderr, *words)
    assert run.returncode != 0


def udp__port_in_use__error_has_the_process(case: Case) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind((TAKEN_ADDRESS, PORT))
        refused(case, f"udp,ip={TAKEN_ADDRESS}", f"UDP port 4791 of {TAKEN_ADDRESS} is taken by process ",
                "(python3)", "ip=")


def udp__address_of_another_machine__error_has_the_reason(case: Case) -> None:
    refused(case, "udp,ip=192.0.2.77", "this machine has no address 192.0.2.77", "ip=auto")
    refused(case, "udp,ip=fe80::77", "this machine has no address fe80::77", "ip=auto")


def udp__unknown_option__error_has_the_known_options(case: Case) -> None:
    refused(case, f"udp,ip={SUBNET}.10,speed=fast", 'unknown option "speed"', "gso=", "ident=")


def busy_poll__no_number__error_names_the_allowed_values(case: Case) -> None:
    for value in ("", "-1", "5us", "10001", "99999999999999999999"):
        refused(case, f"udp,ip={SUBNET}.10,hub=no,busy-poll={value}", f"busy-poll={value}: must be a number of microseconds from 0 to 10000")


def busy_poll__given__is_set_on_the_socket_or_permission_is_missing(case: Case) -> None:
    class Alone(Pair):
        """A pair with addresses that no other case uses, because brokers of ADDRESSES may still run."""
        def configuration(self, role: str) -> str:
            end, poll = {"server": (4, 0), "client": (5, 20)}[role]
            return f"{self.device}:udp,ip={SUBNET}.{end},hub=no,busy-poll={poll}"

        def listens(self) -> bool:
            return is_bound(f"{SUBNET}.4")
    with Alone(case.uroce) as pair:
        run = pair.run(["ibv_rc_pingpong", "-g", "1", "-n", "200"], 60)
    assert not run.problem() or "it takes CAP_NET_ADMIN" in run.client.text, run.problem()


def listed(case: Case, device: str) -> str:
    run = case.call("devices", UROCE_DEVICES=device)
    return run.stdout + run.stderr


def udp__without_address__uses_the_address_of_the_default_route(case: Case) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError as why:
            raise Skip("this machine has no default route; test_addresses.py has the cases without one") from why
        has(listed(case, "uroce0:udp"), f"gid 1   {probe.getsockname()[0]}")


def auto__on_another_link__is_refused(case: Case) -> None:
    has(listed(case, "uroce0:net_ring0;ip=auto"), "ip=auto: works only with link=udp")


OWN = named_cases(globals())

if __name__ == "__main__":
    EVERY = "--all" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--all"]
    sys.exit(main(__doc__, OWN + rows(pathlib.Path(sys.argv[1]).resolve(), EVERY)))
