# SPDX-License-Identifier: BSD-3-Clause
"""Programs that connect by rdma_cm: their rows, and functions that run client and server.

In a command, {own} and {peer} are RDMA addresses. {copy} is a file that the server may write, and {closed} is a port without a
listener. {ours} is the directory of uroce's test programs. cases.py explains the other placeholders.

Not tested, because Linux rxe does not support it: XRC (`rdma_xserver -c x`); IPv6 groups by rdma_cm (`mckey -m
ff0e::1`, in either role, because the sender joins the group, too).
"""
import re
import subprocess
import time
from dataclasses import dataclass

from sides import SERVER_GRACE, Unavailable, finish, tail
import patience  # from tools/lib/common, which sides puts on the path

TRIES_TOLD = 2  # number of earlier attempts of a client whose errors are shown
HEARD = 2  # time until a sender of datagrams is started again, if the receiver was not ready, seconds


@dataclass(frozen=True)
class Meeting:
    tool: str
    both: str        # options of server and client
    server: str
    client: str
    families: tuple = (4,)
    client_tool: str = ""      # program of the client, if it has another name
    more: str = ""             # options of server and client that distinguish rows of one tool
    before: str = ""           # words before the program
    named: str = ""            # a further part of the name of the row
    stays: bool = False        # the server does not end after a client
    first_lost: bool = False   # the client's packets are lost until the server has joined the group: start the client again
    meets_twice: bool = False  # the server accepts no other client after a failed client
    ours: bool = False         # the program is in this directory
    first: bool = False        # only for the first kernel, because other rows are similar
    refused: str = ""          # the client must fail and print this text
    prints: str = ""           # the client prints this text when the case passes
    listens: str = ""          # "tcp" or "udp": the socket that shows that the server listens; "": an rdma_cm listener
    link: str = ""             # link of uroce, if the row needs a certain link
    then: str = ""             # shell command that must succeed on the server's side at the end
    quirk: str = ""            # a program that failed with this output is accepted

    @property
    def path(self):
        return self.before + ("{ours}/" if self.ours else "")

    @property
    def serve(self):
        return f"{self.path}{self.tool} {self.both} {self.more} {self.server}"

    @property
    def asker(self):
        return self.client_tool or self.tool

    @property
    def ask(self):
        return f"{self.path}{self.asker} {self.both} {self.more} {self.client}"

    @property
    def name(self):
        """Returns the name of a row, with the options that distinguish rows of one tool."""
        if self.refused:
            return f"{self.asker} refused"
        return " ".join(filter(None, (self.tool, self.named, self.more)))


# perftest connects twice. If the server does not listen yet at the second time, the client is rejected and exits. The server
# in the guest is the slower side.
def perftest(tool, options="", first=False):
    return Meeting(tool, f"-R -F -d {{dev}} -x {{gid}} -p {{port}} -m {{mtu}} -n 50 {options}", "",
                   "{peer}", meets_twice=True, first=first)


# At its end, in both roles, rping destroys its event channel while its other thread may still wait for an event of the channel.
RPING_CLOSES = "rdma_get_cm_event: Bad file descriptor"
QUIRK_ENDS = "status 255"

MEETINGS = (
    Meeting("rping", "-p {port} -C 5 -v -V", "-s -a {own}", "-c -a {peer}", (4, 6),
            prints="rdma-ping-4", quirk=RPING_CLOSES),
    Meeting("ucmatose", "-p {port} -c 3", "-b {own}", "-s {peer}", (4, 6)),
    Meeting("ucmatose", "-p {port} -c 3", "-b {own}", "-s {peer}", more="-m"),
    Meeting("udaddy", "-c 2", "-b {own}", "-s {peer}", (4, 6)),
    Meeting("rdma_server", "-p {port}", "-s {own}", "-s {peer}", client_tool="rdma_client"),
    Meeting("rdma_xserver", "-p {port}", "", "-s {peer}", client_tool="rdma_xclient"),
    # the sender destroys its queue pair at once, so some of its messages may not be sent
    Meeting("mckey", "-m 239.1.2.3", "-b {own} -C 1", "-b {own} -C 5 -s", first_lost=True),
    Meeting("cmtime", "-p {port} -c 20", "-b {own}", "-s {peer}", stays=True),
    Meeting("rstream", "-p {port} -S 4096 -C 50 -I 1", "-b {own}", "-s {peer}", (4, 6)),
    Meeting("riostream", "-p {port} -S 4096 -C 20", "-b {own}", "-s {peer}"),
    Meeting("rcopy", "", "-p {port}", "{ours}/verify {peer}:{copy} -p {port}", stays=True,
            then="cmp {ours}/verify {copy}"),
    Meeting("partings", "-p {port}", "-a {own}", "{peer}", (4, 6), ours=True),
    perftest("ib_send_bw", "-s 4096"),
    perftest("ib_send_lat", "-s 4096", first=True),
    perftest("ib_write_bw", "-s 4096", first=True),
    perftest("ib_write_lat", "-s 4096"),
    perftest("ib_read_bw", "-s 4096"),
    perftest("ib_read_lat", "-s 4096", first=True),
    perftest("ib_atomic_bw", first=True),
)

# Programs that are refused: reason 8 of a REJ, and status 1 of a SIDR_REP, mean "no such service".
REFUSALS = (
    Meeting("rping", "", "-s -a {own} -p {port}", "-c -a {peer} -p {closed}", (4, 6), stays=True,
            refused="RDMA_CM_EVENT_REJECTED, error 8"),
    Meeting("ucmatose", "", "-b {own} -p {port}", "-s {peer} -p {closed}", stays=True,
            refused="RDMA_CM_EVENT_REJECTED, error: 8"),
    Meeting("rping", "", "-s -a {own} -p {port}", "-s {peer}", client_tool="udaddy", stays=True,
            refused="RDMA_CM_EVENT_UNREACHABLE, error: 1"),
)


def rows(links, first_kernel):
    """Returns each (row, link) in which the row has the link's IP version."""
    return [(row, link) for row in MEETINGS + REFUSALS for link in links
            if link[1] in row.families and (first_kernel or not row.first)]


def finish_meeting(side, process, tool, seconds, meeting):
    """Does the same as finish(), but excuses a bad exit status that is a known quirk of the tool.
    A signal or a timeout is still a failure."""
    out, bad = finish(side, process, tool, seconds)
    return out, "" if bad == QUIRK_ENDS and meeting.quirk and meeting.quirk in out else bad


def ends(process, seconds):
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def then(server, case, client_out):
    """Checks the client's output, and the condition of the row on the server's side. Returns an error, or nothing."""
    if case.meeting.prints not in client_out:
        return f"does not print {case.meeting.prints}"
    try:
        if case.meeting.then:
            server.run_beside_programs(case.text(case.meeting.then, **server.where(case)))
    except Unavailable as why:
        return str(why)
    return ""


def wait(server, serving, meeting):
    """Waits until the server listens or has ended. Returns at once if the test cannot see that."""
    if meeting.listens:
        server.wait_listening(serving, meeting.listens)
    elif not meeting.first_lost:
        server.wait_meeting(serving)


def run(server, client, host, case, seconds):
    """Runs a row. Returns None, or the error. If the client fails, starts the client again until the time limit, because the
    server may not have listened yet. If the server cannot accept another client, starts the server again, too. @host has the
    server's TCP port."""
    meeting = case.meeting
    serve = case.text(meeting.serve, **server.where(case))
    ask = case.text(meeting.ask, **client.where(case, host, server))
    until = time.monotonic() + seconds
    serving = server.spawn(serve, seconds)
    client.reach(server, case)
    wait(server, serving, meeting)
    tries = []
    while True:
        client_out, client_bad = finish_meeting(client, client.spawn(ask, seconds), meeting.asker, seconds, meeting)
        if meeting.refused:
            client_bad = "" if meeting.refused in client_out else client_bad or "was not refused"
        arrived = ends(serving, patience.seconds(HEARD)) if meeting.first_lost else not client_bad
        if arrived or serving.poll() is not None or time.monotonic() > until:
            break
        tries.append(f"client before: {client_bad or 'ended well'}\n{tail(client_out)}\n")
        if meeting.meets_twice:
            server.kill(meeting.tool, serving)
            serving.communicate()
            serving = server.spawn(serve, seconds)
            wait(server, serving, meeting)
    if meeting.stays and serving.poll() is None:
        server.kill(meeting.tool, serving)
        server_out, server_bad = serving.communicate()[0], ""
    else:
        server_out, server_bad = finish_meeting(server, serving, meeting.tool, 2 if client_bad else patience.seconds(SERVER_GRACE),
                                                meeting)
    if not re.search(case.prints, client_out if case.role == "client" else server_out):
        client_bad = client_bad or f"uroce does not print {case.prints}"
    if not client_bad and not server_bad:
        client_bad = then(server, case, client_out)
        if not client_bad:
            return None
    return ("".join(tries[-TRIES_TOLD:]) + f"client: {client_bad or 'ended well'}\n{tail(client_out)}\n"
            f"server: {server_bad or 'ended well'}\n{tail(server_out)}")
