# SPDX-License-Identifier: BSD-3-Clause
"""Runs a server and its client over uroce, connected by shared memory (memif).

Needs neither root nor hugepages. If root calls this module, the programs run as the user nobody, provided that this user can
execute uroce. The module ends only processes that it started. The socket of the link is in a new directory.
"""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

import patience

LINK = "net_memif0,role={role},socket={where}/link.sock"
ADDRESSES = {"server": "10.0.0.1/24", "client": "10.0.0.2/24"}
NOBODY = 65534
LAST_LINES = 15
# Writes until it is ended. -u 17 sets the ACK timeout to 0.54 s. perftest's default of 67 ms is too short on a busy machine: a
# peer that only waits for a processor would seem to be dead.
STREAM = ("ib_write_bw", "-F", "-x", "1", "-u", "17", "--run_infinitely", "-D", "1")
# Writes for 50 s, or until a write fails. Unlike STREAM, it has no thread that prints rates. In perftest 4.5, that thread continues
# while the process exits after a failure. Then it sometimes reads freed memory and ends with SIGSEGV. stdbuf makes ib_write_bw
# write each line at once, so that tests see it.
FAILING_STREAM = ("stdbuf", "-oL", "ib_write_bw", "-F", "-x", "1", "-u", "17", "-D", "50")


@dataclass
class Output:
    """Output and exit status of one side."""
    command: list[str]
    status: int | None = None  # exit status; negative: ended by this signal; None: did not end in time and was killed
    text: str = ""

    def tail(self) -> str:
        return "\n".join("    " + line for line in self.text.strip().splitlines()[-LAST_LINES:])


@dataclass
class Run:
    server: Output
    client: Output
    seconds: float = 0.0

    def problem(self) -> str:
        """Returns "" when both sides ended well; else the cause and the last lines of both."""
        bad = [name for name in ("client", "server") if getattr(self, name).status != 0]
        if not bad:
            return ""
        return "\n".join(f"{name} {ending(getattr(self, name).status)}: "
                         f"{' '.join(getattr(self, name).command)}\n{getattr(self, name).tail()}"
                         for name in ("client", "server"))


def fails_by_itself(status: int | None) -> bool:
    """Returns whether the program ended with an error status or SIGFPE. perftest divides by zero when a stream gets no packet for a
    second."""
    return status is not None and (status > 0 or status == -signal.SIGFPE)


def ending(status: int | None) -> str:
    if status is None:
        return "was not done in time"
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def free_port() -> int:
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::", 0))
        return probe.getsockname()[1]


def listens(port: int) -> bool:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[1].endswith(f":{port:04X}") and words[3] == "0A":
                return True
    return False


def wait_for(holds, seconds: float) -> bool:
    """Waits until holds() is true. Returns false after @seconds, which are multiplied by patience.factor()."""
    return wait_exactly(holds, patience.seconds(seconds))


def wait_exactly(holds, seconds: float) -> bool:
    """Waits until holds() is true. Returns false after @seconds, also on a busy machine."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def end_politely(_number: int, _frame: object) -> None:
    """Raises SystemExit, so that __exit__ ends the started programs."""
    raise SystemExit(128 + signal.SIGTERM)


def plain_user(*paths: pathlib.Path) -> list[str]:
    """Returns a command that starts a program as the user nobody. The command is empty if the caller is not root, if setpriv is
    missing, or if this user cannot read and execute each of the paths."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return []
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    can = all(subprocess.run([*drop, "test", "-x", str(path), "-a", "-r", str(path)], check=False).returncode == 0 for path in paths)
    return drop if can else []


@dataclass
class Pair:
    """A server and a client: `with Pair(uroce) as pair: pair.run([...])`. @uroce is the path of the command."""
    uroce: pathlib.Path
    settings: str = ""  # text added to the device description, for example ";window=64"
    link: str = ""      # text added to the link, for example ",bsize=8192"
    device: str = "uroce0"
    meeting: str = "localhost"  # host name or address to which a client makes its TCP connection
    bare: bool = False  # true: programs run without uroce
    where: pathlib.Path = field(init=False)
    drop: list[str] = field(init=False)
    running: list[subprocess.Popen] = field(default_factory=list)

    def __enter__(self) -> "Pair":
        signal.signal(signal.SIGTERM, end_politely)
        self.where = pathlib.Path(tempfile.mkdtemp(prefix="uroce-pair-"))
        self.drop = plain_user(*self.files())
        if self.drop:
            os.chown(self.where, NOBODY, NOBODY)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running:
            self.end(process)
        shutil.rmtree(self.where, ignore_errors=True)

    def configuration(self, role: str) -> str:
        return (f"{self.device}:{LINK.format(role=role, where=self.where)}{self.link};"
                f"ip={ADDRESSES[role]}{self.settings}")

    def command(self, role: str, program: list[str]) -> list[str]:
        if self.bare:
            return program
        return [str(self.uroce), "run", "--device", self.configuration(role), "--", *program]

    def files(self) -> list[pathlib.Path]:
        """Returns the files that the programs need."""
        return [self.uroce]

    def start(self, role: str, program: list[str]) -> tuple[subprocess.Popen, Output]:
        """Starts a program. Its output goes to files, because a full pipe would block the program."""
        command = self.command(role, program)
        with (self.where / f"{role}.out").open("wb") as out, \
                (self.where / f"{role}.err").open("wb") as err:
            # The program gets its own process group. Ending the group ends all processes that the program started, and no others.
            process = subprocess.Popen([*self.drop, *command], stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, cwd=self.where, start_new_session=True)
        self.running.append(process)
        return process, Output(command)

    def said(self, role: str) -> str:
        """Returns stdout, then stderr, which usually has the cause of a failure."""
        return "".join((self.where / f"{role}.{kind}").read_text(errors="replace")
                       for kind in ("out", "err"))

    def end(self, process: subprocess.Popen) -> None:
        if process.poll() is None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def finish(self, role: str, process: subprocess.Popen, output: Output, seconds: float) -> None:
        try:
            output.status = process.wait(timeout=patience.seconds(seconds))
        except subprocess.TimeoutExpired:
            self.end(process)
        output.text = self.said(role)

    def listening(self, port: int) -> bool:
        return listens(port)

    def serve(self, program: list[str], port: int) -> tuple[subprocess.Popen, Output]:
        """Starts the server, and waits until it listens or has ended."""
        process, output = self.start("server", [*program, "-p", str(port)])
        wait_for(lambda: self.listening(port) or process.poll() is not None, 20)
        return process, output

    def run(self, program: list[str], seconds: float = 60) -> Run:
        """Runs the same program on both sides; the client gets the server's address."""
        port = free_port()
        begin = time.monotonic()
        server, run = self.serve(program, port), Run(Output([]), Output([]))
        run.server = server[1]
        client, run.client = self.start("client", [*program, "-p", str(port), self.meeting])
        self.finish("client", client, run.client, seconds)
        self.finish("server", server[0], run.server, 10 if run.client.status == 0 else 2)
        run.seconds = time.monotonic() - begin
        return run

    def alone(self, program: list[str], seconds: float = 30) -> Output:
        """Runs one program that needs no peer."""
        process, output = self.start("server", program)
        self.finish("server", process, output, seconds)
        return output
