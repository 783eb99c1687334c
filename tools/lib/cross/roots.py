# SPDX-License-Identifier: BSD-3-Clause
"""The root directory of another processor: Debian's packages, unpacked, and the emulator that runs its programs.

    roots.py PROCESSOR    makes the kernel start programs of this processor with the emulator
"""
import os
import pathlib
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[3]
MIRROR = "http://deb.debian.org/debian"
RELEASE = "bookworm"
# Packages with the libraries of the build and of its tests, and with the programs of --programs.
# No program of these packages runs at installation.
PACKAGES = ("libc6-dev", "libibverbs-dev", "librdmacm-dev", "libinih-dev", "libpcap-dev", "libncurses-dev",
            "libcmocka-dev", "zlib1g-dev", "perftest", "ibverbs-utils", "rdmacm-utils")
BINFMT = pathlib.Path("/proc/sys/fs/binfmt_misc")


class Unavailable(Exception):
    """Says in one line what is missing and what to do."""


@dataclass(frozen=True)
class Processor:
    debian: str   # Debian's name of the architecture
    family: str   # meson's name, which is also the first part of the GNU triplet
    endian: str
    more: tuple[str, ...] = ()  # packages that not every processor has

    @property
    def packages(self) -> tuple[str, ...]:
        return (*PACKAGES, *self.more)

    @property
    def triplet(self) -> str:
        return f"{self.family}-linux-gnu"

    @property
    def emulator(self) -> str:
        return f"qemu-{self.family}-static"


PROCESSORS = {p.debian: p for p in (Processor("arm64", "aarch64", "little", ("libdpdk-dev",)),
                                     Processor("s390x", "s390x", "big"))}


def cache(given: str | None) -> pathlib.Path:
    """Returns the directory of the root directories."""
    usual = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "uroce" / "cross"
    return pathlib.Path(given or os.environ.get("UROCE_CROSS") or usual).resolve()


def check(processor: Processor) -> None:
    """Raises Unavailable unless this machine can build and run programs of @processor."""
    if platform.machine() != "x86_64":
        raise Unavailable(f"this machine is {platform.machine()}, and Debian's cross compilers of this tool run on x86-64")
    if os.geteuid() != 0:
        raise Unavailable("mmdebstrap, chroot and binfmt need root: run `sudo tools/cross ...`")
    for program in (f"{processor.triplet}-gcc", processor.emulator, "mmdebstrap"):
        if shutil.which(program) is None:
            raise Unavailable(f"{program} is missing: run `tools/setup-packages cross`")


def mount_binfmt() -> None:
    subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT)], check=False, capture_output=True)


def register(processor: Processor) -> None:
    """Makes the kernel start programs of @processor with the emulator, unless it already does."""
    name = f"qemu-{processor.family}"
    if not (BINFMT / "register").exists():
        mount_binfmt()
    if not (BINFMT / name).exists() and shutil.which("update-binfmts"):
        subprocess.run(["update-binfmts", "--enable", name], check=False, capture_output=True)
    if not (BINFMT / name).exists():
        raise Unavailable(f"the kernel does not start {processor.debian} programs: mount binfmt_misc at {BINFMT}, "
                          f"then run `update-binfmts --enable {name}`")


def make(processor: Processor, where: pathlib.Path) -> pathlib.Path:
    """Returns the root directory below @where, and unpacks it first if it is missing or was made with another list of packages."""
    root = where / processor.debian
    stamp = root / ".uroce-packages"
    wanted = " ".join((RELEASE, *processor.packages)) + "\n"
    if stamp.exists() and stamp.read_text() == wanted:
        return root
    log = where / f"{processor.debian}.log"
    print(f"cross: unpacking Debian {RELEASE} for {processor.debian} in {root}", flush=True)
    where.mkdir(parents=True, exist_ok=True)
    fresh = where / f"{processor.debian}.new"
    for old in (root, fresh):
        if old.exists():
            subprocess.run(["rm", "-rf", "--one-file-system", str(old)], check=True)
    with log.open("w") as out:
        done = subprocess.run(["mmdebstrap", "--mode=root", "--variant=extract", f"--architectures={processor.debian}",
                               "--include=" + ",".join(processor.packages), RELEASE, str(fresh), MIRROR],
                              stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        last = (log.read_text().strip().splitlines() or ["no output"])[-1]
        raise Unavailable(f"mmdebstrap failed ({last}); its whole output is in {log}")
    (fresh / stamp.name).write_text(wanted)
    fresh.rename(root)
    return root


if __name__ == "__main__":
    try:
        register(PROCESSORS[sys.argv[1]])
    except Unavailable as why:
        sys.exit(str(why))
