# SPDX-License-Identifier: BSD-3-Clause
"""cases.py - what the interop runner runs: a table, and which rows of it meet which link.

In a command, {dev} {gid} {port} {mtu} are the running side's, and {host} (empty for the server)
is where the other side's TCP port is. Every case is run twice: uroce as server, uroce as client.
"""
from dataclasses import dataclass

SIZES = (1, 33, 4095, 65536, 1048576)
# Few: the peer is an emulated machine.
ITERATIONS = {1: 100, 33: 100, 4095: 60, 65536: 12, 1048576: 5}

PERFTEST = "{tool} -F -d {dev} -x {gid} -p {port} -m {mtu} -s {size} -n {n} {extra} {host}"
ATOMIC = "{tool} -F -d {dev} -x {gid} -p {port} -m {mtu} -n 60 {extra} {host}"
PINGPONG = "{tool} -d {dev} -g {gid} -p {port} -m {mtu} -s {size} -n {n} {extra} {host}"
VERIFY = "{ours}/verify -d {dev} -x {gid} -p {port} -m {mtu} {extra} {host}"

SERVICES = "{ours}/services -d {dev} -x {gid} -p {port} -m {mtu} {extra} {host}"
DATAGRAM = "{tool} -d {dev} -g {gid} -p {port} -s {size} -n {n} {extra} {host}"  # takes no MTU

ROLES = ("client", "server")  # of uroce

# command, tool, extra options, sizes
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
# Plain conversations, every octet compared: kind, IP versions of its links (of a group: its own),
# roles of uroce. Linux rxe as the one who joins gets what its host's IP layer has joined too.
CONVERSATIONS = (
    ("-k uc", (4, 6), ROLES),
    ("-k ud", (4, 6), ROLES),
    ("-k srq", (4, 6), ROLES),
    ("-k window", (4, 6), ROLES),
    ("-k group -g 224.0.0.1", (4,), ROLES),
    ("-k group -g ff02::1", (6,), ROLES),
    ("-k group -g 239.1.2.3", (4,), ("server",)),
    ("-k group -g ff15::1234", (6,), ("server",)),
)
# IB MTU, IP version; the netdev's MTU goes with the IB MTU
LINKS = ((1024, 4), (4096, 6), (4096, 4), (1024, 6))
NETDEV_MTU = {1024: 1500, 4096: 4200}

# Programs that meet by rdma_cm: options of both, of the server, of the client. {own} and {peer} are
# RDMA addresses. There is no TCP port to see the server by: the client asks until it is there.
CM_TOOLS = (
    ("rping", "-p {port} -C 5 -v -V", "-s -a {own}", "-c -a {peer}", (4, 6)),
    ("ucmatose", "-p {port} -c 3", "-b {own}", "-s {peer}", (4, 6)),
    ("udaddy", "-c 2", "-b {own}", "-s {peer}", (4, 6)),
    ("rdma_server", "-p {port}", "-s {own}", "-s {peer}", (4,)),
    ("rstream", "-p {port} -S 4096 -C 50 -I 1", "-b {own}", "-s {peer}", (4,)),
    ("ib_send_bw", "-R -F -d {dev} -x {gid} -p {port} -m {mtu} -s 4096 -n 50", "", "{peer}", (4,)),
)
CM_CLIENTS = {"rdma_server": "rdma_client"}  # of another name
# perftest meets twice; a client that is too quick the second time is rejected, and gone.
CM_ONE_CLIENT = {"ib_send_bw"}
# At the end rping closes its channel while its other thread may be about to read from it.
CM_QUIRKS = {"rping": ("rdma_get_cm_event: Bad file descriptor",)}

# name: (netem for what the guest sends, netem for what it receives)
LOSS = ("loss 1%", "loss 1%")
REORDER = ("delay 300us reorder 2%", "delay 300us reorder 2%")
DUPLICATE = ("duplicate 3%", "duplicate 3%")

# command, tool, extra, size, links, roles, impairment. A lost answer of a READ of 1 MiB costs an
# emulated rxe the whole rest of it: one case of that is enough.
IMPAIRED = (
    (VERIFY, "verify", "", 0, (LINKS[0],), ("client",), LOSS),
    (VERIFY, "verify", "-l 65536", 0, (LINKS[0],), ("server",), LOSS),
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
    client: str = ""  # rdma_cm: the client's command; then there is no TCP port to wait for

    @property
    def name(self):
        size = f" {self.size}" if self.size else ""
        words = [f"{self.tool}{size} {self.extra}".strip(),
                 f"mtu {self.ib_mtu}", f"IPv{self.family}", f"uroce is {self.role}"]
        return ", ".join(words + ([self.impairment[0]] if self.impairment else []))

    @property
    def netdev_mtu(self):
        return NETDEV_MTU[self.ib_mtu]

    def text(self, client=False, **where):
        command = self.client if client and self.client else self.command
        return command.format(tool=self.tool, extra=self.extra, size=self.size,
                                   n=ITERATIONS.get(self.size, 50), mtu=self.ib_mtu, **where)


def plain(full):
    """Every tool meets every size in both roles, and every link; with @full, all combinations."""
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


def conversations(full):
    for extra, families, roles in CONVERSATIONS:
        for link in LINKS if full else LINKS[:2]:
            if link[1] in families:
                for role in roles:
                    yield Case(SERVICES, "services", extra, 0, *link, role)


def connections(full):
    for tool, both, server, client, families in CM_TOOLS:
        other = CM_CLIENTS.get(tool, tool)
        for link in LINKS if full else LINKS[:2]:
            if link[1] in families:
                for role in ROLES:
                    yield Case(f"{tool} {both} {server}", tool, "by rdma_cm", 0, *link, role,
                               client=f"{other} {both} {client}")


def impaired():
    for command, tool, extra, size, links, roles, impairment in IMPAIRED:
        for link in links:
            for role in roles:
                yield Case(command, tool, extra, size, *link, role, impairment)


def plan(full=False):
    """All cases, those that need the same link next to each other."""
    cases = list(plain(full)) + list(conversations(full)) + list(connections(full)) + list(impaired())
    return sorted(cases, key=lambda c: (c.impairment, c.ib_mtu))
