# SPDX-License-Identifier: BSD-3-Clause
"""The cases of the interop tests: tables of programs, and the links for each row.

In a command, {dev} and {gid} are those of the side that runs it. {mtu} is the IB MTU, and {port} is the TCP port of the server.
{host} is the address of the other side's TCP port, and empty for the server. Most cases run twice: with uroce as server and
with uroce as client.
"""
from dataclasses import dataclass

import connections
import libraries

SIZES = (1, 33, 4095, 65536, 1048576)
# Only a few iterations, because the peer is an emulated machine.
ITERATIONS = {1: 100, 33: 100, 4095: 60, 65536: 12, 1048576: 5}

PERFTEST = "{tool} -F -d {dev} -x {gid} -p {port} -m {mtu} -s {size} -n {n} {extra} {host}"
ATOMIC = "{tool} -F -d {dev} -x {gid} -p {port} -m {mtu} -n 60 {extra} {host}"
PINGPONG = "{tool} -d {dev} -g {gid} -p {port} -m {mtu} -s {size} -n {n} {extra} {host}"
VERIFY = "{ours}/verify -d {dev} -x {gid} -p {port} -m {mtu} {extra} {host}"

SERVICES = "{ours}/services -d {dev} -x {gid} -p {port} -m {mtu} {extra} {host}"
DATAGRAM = "{tool} -d {dev} -g {gid} -p {port} -s {size} -n {n} {extra} {host}"  # programs without an option for the MTU

ROLES = ("client", "server")  # roles of uroce

# Kernel 6.1 runs all cases that it supports. Without --full, the other kernels run compact() instead of plain() and impaired().
FIRST_KERNEL = "6.1"
KERNELS = (FIRST_KERNEL, "6.12")

# Columns: command, tool, extra options, sizes
TOOLS = (
    (PINGPONG, "ibv_rc_pingpong", "-c", (33, 4096)),
    (PINGPONG, "ibv_rc_pingpong", "-c -e", (33, 4096)),
    (PERFTEST, "ib_send_bw", "", SIZES),
    (PERFTEST, "ib_send_lat", "", SIZES),
    (PERFTEST, "ib_send_lat", "-e", (33, 65536)),
    (PERFTEST, "ib_write_bw", "", SIZES),
    (PERFTEST, "ib_write_lat", "", SIZES),
    (PERFTEST, "ib_read_bw", "", SIZES),
    (PERFTEST, "ib_read_lat", "", SIZES),
    (ATOMIC, "ib_atomic_bw", "-A CMP_AND_SWAP", (8,)),
    (ATOMIC, "ib_atomic_bw", "-A FETCH_AND_ADD", (8,)),
    (ATOMIC, "ib_atomic_lat", "-A FETCH_AND_ADD", (8,)),
    (PINGPONG, "ibv_uc_pingpong", "-c", (33, 4096)),
    (PINGPONG, "ibv_srq_pingpong", "-c", (4096,)),
    (DATAGRAM, "ibv_ud_pingpong", "-c", (33, 1024)),
    (PERFTEST, "ib_send_lat", "-c UC", (33, 65536)),
    (PERFTEST, "ib_write_lat", "-c UC", (33,)),
    (PERFTEST, "ib_send_lat", "-c UD", (33, 1024)),
    (PERFTEST, "ib_send_lat", "-c RC --use-srq", (33,)),
)
# Plain transfers, in which every byte is compared. Columns: kind, IP versions of the links or of the multicast group, roles of
# uroce, kernels. As a group member, Linux rxe gets only groups that its host's IP layer has joined.
CONVERSATIONS = (
    ("-k uc", (4, 6), ROLES, KERNELS),
    ("-k ud", (4, 6), ROLES, KERNELS),
    ("-k srq", (4, 6), ROLES, KERNELS),
    ("-k window", (4, 6), ROLES, KERNELS),
    ("-k group -g 224.0.0.1", (4,), ROLES, KERNELS),
    ("-k group -g ff02::1", (6,), ROLES, KERNELS),
    ("-k group -g 239.1.2.3", (4,), ("server",), KERNELS),
    ("-k group -g ff15::1234", (6,), ("server",), KERNELS),
    ("-k atomic_write", (4, 6), ROLES, KERNELS[1:]),
    ("-k flush", (4, 6), ROLES, KERNELS[1:]),
)
# Columns: IB MTU, IP version. The MTU of the interface depends on the IB MTU.
LINKS = ((1024, 4), (4096, 6), (4096, 4), (1024, 6))
NETDEV_MTU = {1024: 1500, 4096: 4200}

# Columns: name, netem for packets from the guest, netem for packets to the guest, tc filter of the impaired packets
ROCE = "flower ip_proto udp dst_port 4791"
LOSS = ("loss 1%", "loss 1%", "loss 1%", ROCE)
REORDER = ("reorder 2%", "delay 300us reorder 2%", "delay 300us reorder 2%", ROCE)
DUPLICATE = ("duplicate 3%", "duplicate 3%", "duplicate 3%", ROCE)
# Only datagrams of the connection manager, which the filter selects by their length. See meets_twice in connections.py.
LATE_REQUESTS = ("late requests", "delay 0ms", "delay 100ms", "u32 match u16 308 0xffff at 2")

# Columns: command, tool, extra options, size, links, roles, impairment. If a response of a 1 MiB READ is lost, an
# emulated rxe requests the whole rest again. One such case is enough.
IMPAIRED = (
    (VERIFY, "verify", "", 0, (LINKS[0],), ("client",), LOSS),
    (VERIFY, "verify", "-l 65536", 0, (LINKS[0],), ("server",), LOSS),
    (VERIFY, "verify", "-l 65536 -o mixed -r 10", 0, (LINKS[0],), ROLES, LOSS),
    (VERIFY, "verify", "-l 65536", 0, (LINKS[1],), ROLES, LOSS),
    (VERIFY, "verify", "-l 65536", 0, (LINKS[0],), ROLES, REORDER),
    (VERIFY, "verify", "-l 65536", 0, (LINKS[0],), ROLES, DUPLICATE),
    (PERFTEST, "ib_send_bw", "", 65536, (LINKS[0],), ROLES, LOSS),
    (PERFTEST, "ib_read_bw", "", 65536, (LINKS[0],), ROLES, LOSS),
    (ATOMIC, "ib_atomic_bw", "-A FETCH_AND_ADD", 8, (LINKS[0],), ROLES, LOSS),
)


@dataclass(frozen=True)
class Case:
    command: str
    tool: str
    extra: str
    size: int
    ib_mtu: int
    family: int
    role: str
    impairment: tuple = ()
    meeting: connections.Meeting | None = None  # the row of programs that connect by rdma_cm
    link: str = ""       # link of uroce, if it is not the link of the run
    job: bool = False    # both sides are ranks of one Open MPI job
    settings: str = ""   # settings of uroce's device, instead of the usual settings
    prints: str = ""     # uroce must print a line that matches this pattern
    refused: str = ""    # why the client must fail
    held: bool = False   # uroce runs without the right to open raw sockets, like an ordinary user
    vlan: int = 0        # VLAN of uroce's device, and of the kernel's interface in the guest

    @property
    def name(self):
        size = f" {self.size}" if self.size else ""
        words = [f"{self.tool}{size} {self.extra}".strip(),
                 f"mtu {self.ib_mtu}", f"IPv{self.family}", f"uroce is {self.role}"]
        words += [self.impairment[0]] if self.impairment else []
        words += [f"over {self.link}"] if self.link else []
        words += ["without raw sockets"] if self.held else []
        words += [f"VLAN {self.vlan}"] if self.vlan else []
        return ", ".join(words + ([self.refused] if self.refused else []))

    @property
    def netdev_mtu(self):
        return NETDEV_MTU[self.ib_mtu]

    def text(self, command="", **where):
        return (command or self.command).format(
            tool=self.tool, extra=self.extra, size=self.size, n=ITERATIONS.get(self.size, 50),
            mtu=self.ib_mtu, **where)


def plain(full):
    """Returns the cases: every tool with every size in both roles, and every link. With @full, returns all combinations."""
    for i, (command, tool, extra, sizes) in enumerate(TOOLS):
        for j, size in enumerate(sizes):
            for k, role in enumerate(ROLES):
                some = LINKS if full or len(sizes) == 1 else (LINKS[(i + j + 2 * k) % 4],)
                for link in some:
                    yield Case(command, tool, extra, size, *link, role)
    for i, link in enumerate(LINKS):
        for k, role in enumerate(ROLES):
            if full or i % 2 == k:
                yield Case(VERIFY, "verify", "-z", 0, *link, role)


def conversations(full, kernel):
    for extra, families, roles, kernels in CONVERSATIONS:
        if kernel not in kernels:
            continue
        for link in LINKS if full else LINKS[:2]:
            if link[1] in families:
                for role in roles:
                    yield Case(SERVICES, "services", extra, 0, *link, role)


def by_rdma_cm(full, kernel):
    links = LINKS if full else LINKS[:2]
    for meeting, link in connections.rows(links, full or kernel == FIRST_KERNEL):
        for role in ROLES:
            late = LATE_REQUESTS if meeting.meets_twice and role == "client" else ()
            yield Case("", meeting.name, "by rdma_cm", 0, *link, role, late, meeting)


def by_libraries(full, kernel):
    for meeting, role in libraries.rows(full, kernel):
        yield Case("", meeting.name, "by rdma_cm", 0, *LINKS[0], role, (), meeting, meeting.link)


def jobs():
    """Returns the MPI cases. The traffic between mpirun and its daemon uses the link as well."""
    for transport in ("rc_v", "ud_v"):
        for role in ROLES:
            yield Case("", "Open MPI", transport, 0, *LINKS[1], role, link="udp", job=True)


def impaired():
    for command, tool, extra, size, links, roles, impairment in IMPAIRED:
        for link in links:
            for role in roles:
                yield Case(command, tool, extra, size, *link, role, impairment)


# rxe sets the IPv4 identification, and the ICRC covers it. A raw socket gets it, but a UDP socket does not. Without the right
# to open a raw socket, uroce infers the identification and counts the packet, or refuses the packet if the configuration says
# so. IPv6 has no identification.
WORKED_OUT = r"rx_weak_icrc +[1-9]"
ALL_SEEN = r"(?s)^(?!.*(rx_weak_icrc|drop_icrc)).*rx_frames +[1-9]"


def over_udp(kernel):
    """Returns the cases of every run over the kernel's interface and a UDP socket."""
    verbose = ";retry_7=forever;verbose=yes"
    yield Case(PINGPONG, "ibv_rc_pingpong", "-c", 33, *LINKS[0], "server", link="udp", settings=verbose,
               prints=ALL_SEEN)
    yield Case(PINGPONG, "ibv_rc_pingpong", "-c", 33, *LINKS[0], "server", link="udp", settings=verbose,
               prints=WORKED_OUT, held=True)
    if kernel != FIRST_KERNEL:
        return
    yield Case(PINGPONG, "ibv_rc_pingpong", "-c", 4096, *LINKS[1], "client", link="udp", settings=verbose,
               prints=ALL_SEEN)
    yield Case(PINGPONG, "ibv_rc_pingpong", "-c", 33, *LINKS[0], "client", link="udp,ident=plain",
               settings=";verbose=yes", prints=r"drop_icrc +[1-9]", refused="refused")
    yield Case(PINGPONG, "ibv_rc_pingpong", "-c", 4096, *LINKS[2], "client", link="udp,ident=full", settings=verbose,
               prints=ALL_SEEN)
    rping = next(meeting for meeting in connections.MEETINGS if meeting.tool == "rping")
    for link in ("udp", "udp,ident=full"):
        yield Case("", rping.name, "by rdma_cm", 0, *LINKS[0], "server", (), rping, link=link, settings=verbose,
                   prints=ALL_SEEN)


def on_a_vlan():
    rping = next(meeting for meeting in connections.MEETINGS if meeting.tool == "rping")
    for link, role in zip(LINKS[:2], ROLES):
        yield Case(VERIFY, "verify", "-z", 0, *link, role, vlan=10)
        yield Case("", rping.name, "by rdma_cm", 0, *link, role, (), rping, vlan=10)
    yield Case(SERVICES, "services", "-k ud", 0, *LINKS[0], "client", vlan=10)


def compact():
    """Returns the cases for a further kernel. They have all operations once, in both roles, and several runs of the cases that rxe
    handles badly (decision 38)."""
    for link, role in zip(LINKS[:2], ROLES):
        yield Case(VERIFY, "verify", "-z", 0, *link, role)
    for extra in ("-l 4096", "-l 4096 -o mixed -r 20"):
        yield Case(VERIFY, "verify", extra, 0, *LINKS[0], "client", LOSS)


def plan(full=False, kernel=FIRST_KERNEL):
    """Returns all cases. Cases with the same link are adjacent."""
    cases = list(conversations(full, kernel)) + list(by_rdma_cm(full, kernel)) + list(over_udp(kernel))
    cases += list(on_a_vlan())
    cases += list(by_libraries(full, kernel)) + list(jobs() if full else ())
    if full or kernel == FIRST_KERNEL:
        cases += list(plain(full)) + list(impaired())
    else:
        cases += compact()
    return sorted(cases, key=lambda c: (bool(c.link), c.vlan, c.impairment, c.ib_mtu))
