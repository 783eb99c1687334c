# SPDX-License-Identifier: BSD-3-Clause
"""Runs Debian's programs for another processor in an emulator, against the same programs for this processor, over UDP and shared
memory."""
import pathlib
import re
import subprocess
from dataclasses import dataclass

import emulator
import pairs
import roots
import tally

HOSTS = {"server": 1, "client": 2}
HOP_LIMIT = roots.ROOT / "tests" / "cross" / "hop_limit.c"
PATIENT = "20"  # ACK timeout of 4 s: the emulator translates code during the first packets
PROGRAMS = (
    ["ibv_rc_pingpong", "-g", "1", "-c", "-n", "200"],
    ["ib_send_bw", "-F", "-x", "1", "-n", "1000", "-u", PATIENT],
    ["ib_write_bw", "-F", "-x", "1", "-n", "1000", "-u", PATIENT],
    ["ib_read_bw", "-F", "-x", "1", "-n", "1000", "-u", PATIENT],
)
FIGURES = re.compile(r"\s*\d+ +\d|\d+ iters in")
SECONDS = 60


@dataclass
class Mixed(pairs.Pair):
    """A pair of processes. The process of the role `foreign` runs in the emulator."""
    foreign: str = "server"
    foreign_uroce: pathlib.Path = pathlib.Path()
    sysroot: pathlib.Path = pathlib.Path()
    udp: bool = False
    net: int = 0  # each pair has other addresses, because the hub of the previous pair runs for some seconds
    lacks: frozenset[str] = frozenset()  # features that the emulator lacks
    preload: str = ""                    # library for the emulated programs

    def configuration(self, role: str) -> str:
        if self.udp:
            options = ",hub=no" if role == self.foreign and "reuseport-filter" in self.lacks else ""
            options += ",gso=no,gro=no" if role == self.foreign and "control-message" in self.lacks else ""
            return f"{self.device}:udp,ip=127.44.{self.net}.{HOSTS[role]}{options}{self.settings}"
        return super().configuration(role)

    def files(self) -> list[pathlib.Path]:
        return [*super().files(), self.foreign_uroce, self.sysroot]

    def command(self, role: str, program: list[str]) -> list[str]:
        if role != self.foreign:
            return super().command(role, program)
        # The library is loaded before the libraries of uroce, because it changes a call that they make.
        first = ["sh", "-c", f'LD_PRELOAD={self.preload}:$LD_PRELOAD exec "$0" "$@"'] if self.preload else []
        return ["env", f"QEMU_LD_PREFIX={self.sysroot}", str(self.foreign_uroce), "run", "--device", self.configuration(role),
                "--", *first, str(self.sysroot / "usr" / "bin" / program[0]), *program[1:]]


def result(text: str) -> str:
    """Returns the last line with figures, or "no figures"."""
    lines = [line for line in text.splitlines() if FIGURES.match(line)]
    return " ".join(lines[-1].split()) if lines else "no figures"


def preload_for(processor: roots.Processor, sysroot: pathlib.Path, build: pathlib.Path) -> str:
    """Compiles the library for an emulator that swaps the bytes of control messages. Returns the path of the library."""
    library = build / "hop_limit.so"
    subprocess.run([f"{processor.triplet}-gcc", f"--sysroot={sysroot}", "-shared", "-fPIC", "-o", str(library), str(HOP_LIMIT)],
                   check=True)
    return str(library)


def run(processor: roots.Processor, sysroot: pathlib.Path, build: pathlib.Path, here: pathlib.Path) -> tally.Row:
    """Runs each program with the emulated side as server, and then as client."""
    row = tally.Row(processor.debian, "programs")
    uroce = here / "app" / "uroce"
    lacks = frozenset(emulator.lacking(processor, sysroot, build))
    preload = preload_for(processor, sysroot, build) if "control-message" in lacks else ""
    # A memif ring has the byte order of the processor, so both processors must have the same byte order.
    links = ("udp", "memif") if processor.endian == "little" else ("udp",)
    for link in links:
        for foreign in ("server", "client"):
            for program in PROGRAMS:
                name = f"{' '.join(program)} over {link}, {processor.debian} is the {foreign}"
                if not (sysroot / "usr" / "bin" / program[0]).exists():
                    row.skipped.append(f"{name} (Debian has no such program for {processor.debian})")
                    continue
                with Mixed(uroce, foreign=foreign, foreign_uroce=build / "app" / "uroce", sysroot=sysroot,
                           udp=link == "udp", net=row.passed + len(row.failed), lacks=lacks, preload=preload) as pair:
                    done = pair.run(program, SECONDS)
                problem = done.problem()
                if problem:
                    row.failed.append(f"{name}\n{problem}")
                else:
                    row.passed += 1
                    print(f"{name}: {result(done.client.text)}", flush=True)
    return row
