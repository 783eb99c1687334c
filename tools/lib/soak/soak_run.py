# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs for hours. Reports programs that end early, fail, or use more and more memory. tools/soak calls this script."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common",)]

import pairs
import veths

ROOT = pathlib.Path(__file__).resolve().parents[3]
SAMPLE_SECONDS = 5
WARM_SHARE = 0.3        # first part of the run, in which processes may grow, as a fraction of the run
GROWTH_KIB = 1024       # growth that a process may have after this part, because of the memory allocator, KiB
LOSS_PER_MILLE = 5
PATIENT = ["-t", "18"]    # long ACK timeout: on a busy machine, a peer may need up to 8 s to respond
CHURN = [["ibv_rc_pingpong", "-g", "1", "-n", "500"], ["ibv_uc_pingpong", "-g", "1", "-n", "1"],
         ["ib_send_lat", "-F", "-x", "1", "-n", "200"], ["ib_read_bw", "-F", "-x", "1", "-n", "100"],
         ["ib_atomic_lat", "-F", "-x", "1", "-n", "200"]]


@dataclass
class Watched:
    """A process that runs during the whole soak test."""
    what: str
    process: subprocess.Popen
    resident: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)

    def sample(self) -> None:
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
            self.resident.append(int(status.split("VmRSS:", 1)[1].split()[0]))
            self.descriptors.append(len(os.listdir(f"/proc/{self.process.pid}/fd")))
        except (OSError, IndexError):
            pass  # the process has ended; problem() reports that

    def warm(self) -> int:
        return max(1, int(len(self.resident) * WARM_SHARE))

    def problem(self) -> str:
        if self.process.poll() is not None:
            return f"{self.what} {pairs.ending(self.process.returncode)}"
        before, after = max(self.resident[:self.warm()]), max(self.resident[self.warm():])
        if after > before + GROWTH_KIB:
            return f"{self.what} grew from {before} to {after} KiB"
        fds = self.descriptors[self.warm() - 1:]
        return f"{self.what} went from {fds[0]} to {max(fds)} descriptors" \
            if max(fds) > fds[0] else ""

    def row(self) -> str:
        return (f"{self.what:<34} {self.resident[self.warm() - 1]:>7} KiB to "
                f"{self.resident[-1]:>7} KiB, {self.descriptors[self.warm() - 1]:>3} to "
                f"{self.descriptors[-1]:>3} descriptors")


def start_verify(pair: veths.Veths, build: pathlib.Path, rounds: int) -> list[tuple]:
    port = pairs.free_port()
    program = [str(build / "tests" / "interop" / "verify"), *PATIENT, "-p", str(port)]
    server = pair.start("server", program)
    pairs.wait_for(lambda: pair.listening(port), 20)
    return [server, pair.start("client", [*program, "-r", str(rounds), "10.0.0.1"])]


def start_stream(pair: pairs.Pair) -> list[tuple]:
    port = pairs.free_port()
    program = ["ib_write_bw", "-F", "-x", "1", "--run_infinitely", "-D", "10", "-u", "18", "-p", str(port)]
    server = pair.start("server", program)
    pairs.wait_for(lambda: pairs.listens(port), 20)
    return [server, pair.start("client", [*program, "localhost"])]


def churn(uroce: pathlib.Path, number: int) -> str:
    with pairs.Pair(uroce) as pair:
        return pair.run(CHURN[number % len(CHURN)], 120).problem()


def run(build: pathlib.Path, seconds: float) -> int:
    uroce = build / "app" / "uroce"
    problems: list[str] = []
    signals: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):  # a signal ends the run early; the results are still printed
        signal.signal(number, lambda caught, _: signals.append(caught))
    begin, sampled, count = time.monotonic(), 0.0, 0
    with pairs.Pair(uroce) as stream:
        watched = [Watched(f"ib_write_bw, {side}", process) for side, (process, _) in
                   zip(("server", "client"), start_stream(stream))]
        lossy = None
        if not veths.why_not():
            lossy = veths.Veths(uroce, carried=True, lose=LOSS_PER_MILLE)
            lossy.__enter__()
            watched += [Watched(f"verify with loss, {side}", process) for side, (process, _) in
                        zip(("server", "client"), start_verify(lossy, build, 1000000))]
        else:
            print(f"{veths.why_not()}: no programs run over a link with loss", flush=True)
        try:
            while not signals and time.monotonic() - begin < seconds and not any(w.process.poll() for w in watched):
                if time.monotonic() - sampled >= SAMPLE_SECONDS:
                    sampled = time.monotonic()
                    for one in watched:
                        one.sample()
                problem = churn(uroce, count)
                count += 1
                if problem:
                    problems.append(f"short program {count}: {problem}")
            problems += [problem for one in watched if (problem := one.problem())]
            for one in watched:
                print(one.row(), flush=True)
            if lossy is not None:
                lossy.carrier.terminate()
                print(f"the link: {lossy.carrier.stdout.read().strip()}", flush=True)
        finally:
            if lossy is not None:
                if problems:
                    print(lossy.said("server")[-500:], lossy.said("client")[-500:])
                lossy.__exit__()
        if any(one.process.poll() for one in watched[:2]):
            for side in ("server", "client"):
                print(f"ib_write_bw, {side}, said: {stream.said(side)[-500:]}", flush=True)
    print(f"{count} short programs; {time.monotonic() - begin:.0f} s, {len(problems)} problems")
    for problem in problems:
        print(f"FAILED {problem}")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/soak", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=0)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options = parser.parse_args()
    seconds = options.hours * 3600 + options.minutes * 60
    if seconds <= 0:
        parser.error("say how long: --hours N or --minutes N")
    return run(options.build.resolve(), seconds)


if __name__ == "__main__":
    sys.exit(main())
