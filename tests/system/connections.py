# SPDX-License-Identifier: BSD-3-Clause
"""Runs the rows of programs.txt whose two processes connect by rdma_cm."""
import dataclasses
import os
import pathlib
import re
import subprocess
import time

import programs
import pairs
import patience

STAYS, AGAIN = "stays: ", "again: "
SECONDS = 60  # seconds for one row; the slowest rows take a tenth of it
# At its end, rping destroys its event channel while its other thread may still wait for an event of the channel.
RPING_CLOSES = "rdma_get_cm_event: Bad file descriptor"
APPEARS = 3   # time until a server opens its end of the link, seconds; some servers open it only for a client
HEARD = 2     # time until a sender of datagrams is started again, because the server may not have listened, seconds
# Messages of a client whose server does not listen yet, for connections and for datagrams. perftest connects twice. If the server
# does not listen at the second time, the test must start both programs again.
EARLY = re.compile(r"REJECTED|Event rejected|UNREACHABLE[,;] error: 1\b|Connection refused|Unexpected CM event bl blka 8")
COPIED = 64 << 20  # bytes of the file that rcopy copies
IPV6 = {"server": "fd00::1/64", "client": "fd00::2/64"}


@dataclasses.dataclass
class Connection:
    name: str
    server: list[str]
    stays: bool  # the server does not end after a client
    client: list[str]
    again: bool  # the client is started again until the server ends
    must_say: list[str]


class Pair(pairs.Pair):
    """A pair of processes with IPv4 and IPv6 addresses."""

    def configuration(self, role: str) -> str:
        return f"{super().configuration(role)};ip={IPV6[role]}"

    def listens(self) -> bool:
        """Returns whether the server listens: whether the abstract socket of the memif exists."""
        return f"{self.where}/link.sock" in pathlib.Path("/proc/net/unix").read_text()


def built(uroce, command: str) -> list[str]:
    """Returns the words of a command. Looks up a sample program, ./NAME, in the build directory."""
    samples = uroce.parent.parent / "docs" / "samples"
    return [str(samples / word) if word.startswith("./") else word for word in command.split()]


def rows(uroce, section: str = "rdma_cm") -> list[Connection]:
    return [Connection(name, built(uroce, server.removeprefix(STAYS)), server.startswith(STAYS),
                       built(uroce, client.removeprefix(AGAIN)), client.startswith(AGAIN), programs.needles(said))
            for name, server, client, said in programs.section(section)]


def wrong_copy(pair: Pair) -> str:
    """Returns an error if the row copies a file and the copy is wrong, else ""."""
    sent, copied = pair.where / "sent", pair.where / "copied"
    same = not copied.exists() or sent.read_bytes() == copied.read_bytes()
    return "" if same else f"{copied.stat().st_size} bytes were copied, and they differ from the file that was sent"


def serve(pair: Pair, row: Connection) -> tuple[subprocess.Popen, pairs.Output]:
    """Starts the server, and waits until it has opened its end of the link, but at most APPEARS: some servers open their end
    only for the first client."""
    server, served = pair.start("server", row.server)
    pairs.wait_for(lambda: pair.listens() or server.poll() is not None, APPEARS)
    return server, served


def run(uroce, row: Connection, kind=Pair) -> str:
    """Runs a row. Returns "" when the row passes, else the reason."""
    until = time.monotonic() + patience.seconds(SECONDS)
    port = str(pairs.free_port())  # the usual port of a program may be in use
    row = dataclasses.replace(row, server=[word.replace("{port}", port) for word in row.server],
                              client=[word.replace("{port}", port) for word in row.client])
    with kind(uroce) as pair:
        if "sent" in row.client:
            (pair.where / "sent").write_bytes(os.urandom(COPIED))
        server, served = serve(pair, row)
        while True:
            client, asked = pair.start("client", row.client)
            pair.finish("client", client, asked, SECONDS)
            early = asked.status != 0 and server.poll() is None and EARLY.search(asked.text)
            unheard = row.again and not pairs.wait_for(lambda: server.poll() is not None, HEARD)
            if not (early or unheard) or time.monotonic() > until:
                break
            if early and row.server[0].startswith("ib_"):
                pair.end(server)
                server, served = serve(pair, row)
        if row.stays:
            pair.end(server)
            served.status = 0
            served.text = pair.said("server")
        else:
            pair.finish("server", server, served, 10 if asked.status == 0 else 2)
        problem = wrong_copy(pair)
    for output in (served, asked):
        if RPING_CLOSES in output.text and output.status == 255:
            output.status = 0
    said = " ".join((served.text + " " + asked.text).split())
    missing = [word for word in row.must_say if word not in said]
    problem = pairs.Run(served, asked).problem() or problem
    if not problem and missing:
        problem = f"neither side printed {', '.join(missing)}\n{served.tail()}\n{asked.tail()}"
    return problem
