#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the MPI program mpi_pingpong.c with Open MPI over UCX, as a plain user. Each rank has its own device of uroce. Writes TAP.

    test_mpi.py BUILD [--match REGEX]

The test allows UCX only one transport, which only InfiniBand devices have. It also checks that the device of each rank received at
least one packet for each message.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools" / "lib" / "common"))
import pairs  # noqa: E402
from test_udp import SHARED_ADDRESS  # noqa: E402
from uroce_case import SUBNET, Case, Skip, equal, has, main, named_cases  # noqa: E402

SOURCE = ROOT / "tests" / "system" / "mpi_pingpong.c"
MESSAGES = 160  # messages each way between rank 0 and another rank
SECONDS = 60
SETTINGS = ";verbose=yes"
MPIRUN = ["mpirun", "--oversubscribe", "--mca", "pml", "ucx"]
# mpirun needs the name of a program that starts processes on other machines, even if all ranks run on this machine. Open MPI 4
# reads the first variable, and Open MPI 5 reads the second.
AGENT = ["OMPI_MCA_plm_rsh_agent=true", "PRTE_MCA_plm_ssh_agent=true"]
RECEIVED = re.compile(r"^uroce: uroce0: rx_roce +(\d+)", re.M)


class Job(pairs.Pair):
    """One mpirun, which starts both sides."""

    def run(self, case: Case, transport: str, ranks: list[list[str]]) -> pairs.Output:
        for tool in ("mpicc", "mpirun"):
            if shutil.which(tool) is None:
                raise Skip(f"{tool} is not installed")
        modules = [path.name for path in pathlib.Path("/usr/lib").glob("*/ucx/libuct_*")]
        if modules and not any(name.startswith("libuct_ib.") for name in modules):
            raise Skip("the UCX of this system is built without InfiniBand")
        program = self.where / "mpi_pingpong"
        compiled = subprocess.run(["mpicc", "-O2", "-o", program, SOURCE], capture_output=True,
                                  text=True, check=False)
        equal(compiled.returncode, 0, compiled.stderr)
        command = ["env", f"HOME={self.where}", f"TMPDIR={self.where}", *AGENT, *MPIRUN, "-x", f"UCX_TLS={transport}"]
        if os.geteuid() == 0 and not self.drop:
            command.append("--allow-run-as-root")
        # A shell chooses the command of the rank: mpirun of Open MPI 5.0.7 crashes when ranks have commands of their own.
        # Each rank writes its errors to a file of its own: mpirun forwards pieces of them that do not end with a line, so that a
        # line of one rank can stand inside a line of another.
        errors = [self.where / f"rank{number}.errors" for number in range(len(ranks))]
        choose = " ".join(f"{number}) exec {shlex.join([*rank, str(program)])} 2>{shlex.quote(str(errors[number]))};;"
                          for number, rank in enumerate(ranks))
        command += ["-np", str(len(ranks)), "sh", "-c", f"case $OMPI_COMM_WORLD_RANK in {choose} esac"]
        self.command = lambda _role, words: words
        output = self.alone(command, SECONDS)
        output.text += "".join(path.read_text() for path in errors if path.exists())
        return output


def two_ranks(case: Case, transport: str, device: str | None = None) -> pairs.Output:
    with Job(case.uroce, SETTINGS) as job:
        sides = [job.command(role, []) for role in ("server", "client")]
        if device is not None:
            sides = [[str(case.uroce), "run", "--device", device, "--"]] * 2
        return job.run(case, transport, sides)


def holds(output: pairs.Output, ranks: int) -> None:
    equal(output.status, 0, output.tail())
    has(output.text, f"all to all: {ranks} ranks, every octet right",
        *[f"hello from rank {rank} of {ranks}" for rank in range(ranks)],
        *[f"ping-pong with rank {rank}: {MESSAGES} messages each way, every octet right"
          for rank in range(1, ranks)])
    received = [int(number) for number in RECEIVED.findall(output.text)]
    assert len(received) == ranks and min(received) >= MESSAGES, f"{received} packets\n{output.text}"


def two_ranks_over_memif__rc__every_byte_right(case: Case) -> None:
    holds(two_ranks(case, "rc_v"), 2)


def two_ranks_over_memif__ud__every_byte_right(case: Case) -> None:
    holds(two_ranks(case, "ud_v"), 2)


def four_ranks_over_udp(case: Case, transport: str, address: str) -> None:
    device = f"uroce0:udp,ip={address}{SETTINGS}"
    with Job(case.uroce) as job:
        output = job.run(case, transport, [[str(case.uroce), "run", "--device", device, "--"]] * 4)
    holds(output, 4)


def four_ranks_over_udp__one_line_of_configuration__every_byte_right(case: Case) -> None:
    four_ranks_over_udp(case, "rc_v", f"{SUBNET}.1%{{OMPI_COMM_WORLD_LOCAL_RANK}}")


def four_ranks_on_one_address__rc__every_byte_right(case: Case) -> None:
    four_ranks_over_udp(case, "rc_v", SHARED_ADDRESS)


def four_ranks_on_one_address__ud__every_byte_right(case: Case) -> None:
    four_ranks_over_udp(case, "ud_v", SHARED_ADDRESS)


def two_ranks__no_such_address__fail(case: Case) -> None:
    output = two_ranks(case, "rc_v", "uroce0:udp,ip=192.0.2.77")
    assert output.status not in (0, None), output.tail()
    assert "hello" not in output.text, output.text


CASES = named_cases(globals())

if __name__ == "__main__":
    sys.exit(main(__doc__, CASES))
