# SPDX-License-Identifier: BSD-3-Clause
"""Runs an Open MPI job with a rank on each side. mpirun runs in the namespace. To start its daemon in the guest, it calls rxe-peer
instead of ssh.
"""
import pathlib
import subprocess

from sides import ROOT, RXE_PEER, finish, must, tail

SOURCE = ROOT / "tests" / "system" / "mpi_pingpong.c"
IN_GUEST = "/tmp/mpi_pingpong"
SAYS = "all to all: 2 ranks, every octet right"
# Only IPv6 works. wc.sl tells UCX that a datagram came over IPv4, but rxe sets wc.sl to 0.
GID = 2
# The host name of the guest is known only inside the guest.
AGENT = """#!/bin/sh
shift
exec {peer} exec -n {name} -T {seconds} "$*"
"""


def program(pair):
    """Compiles the program once. Copies it to the guest each time, because the guest may be new."""
    path = pathlib.Path(pair.scratch) / "mpi_pingpong"
    if not path.exists():
        must("mpicc", "-O2", "-o", path, SOURCE)
    must(RXE_PEER, "put", "-n", pair.sides[1].name, path, IN_GUEST)
    return path


def agent(pair, seconds):
    path = pathlib.Path(pair.scratch) / "agent"
    path.write_text(AGENT.format(peer=RXE_PEER, name=pair.sides[1].name, seconds=seconds))
    path.chmod(0o700)
    # the daemon starts no other daemon, but checks that the program for it exists
    pair.sides[1].run(f"mkdir -p {path.parent} && ln -sf /bin/true {path}")
    return path


def run(pair, case, seconds):
    """Runs a job. Returns None, or the error. uroce is rank 0 if it is the server, else rank 1."""
    ours, _ = pair.sides
    own = ["-np", "1", "-x", f"UCX_TLS={case.extra}", "-x", f"UCX_IB_GID_INDEX={GID}", "-host"]
    ranks = [[*own, "localhost", str(ours.program), "run", "--device", ours.description(), "--",
              str(program(pair))],
             [*own, "guest", IN_GUEST]]
    if case.role == "client":
        ranks.reverse()
    words = ["mpirun", "--allow-run-as-root", "-wdir", "/tmp", "--mca", "plm", "rsh", "--mca",
             "plm_rsh_agent", str(agent(pair, seconds)), "--mca", "pml", "ucx",
             "--mca", "btl", "^openib",
             *ranks[0], ":", *ranks[1]]
    argv = pair.namespace.command(*words)
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    out, bad = finish(ours, process, "", seconds)
    if not bad and SAYS in out:
        return None
    return f"{bad or 'it does not say ' + SAYS}\n{tail(out)}"
