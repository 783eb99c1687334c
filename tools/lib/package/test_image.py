#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the image and docs/samples/compose.yaml without a container engine, and prints a transcript.

    test_image.py OUTDIR      called by tools/package, in the root of the tree, as root

umoci unpacks the image. Each service gets namespaces for its network, mounts, processes, IPC and host name, as an engine
would make them, and runs in the unpacked directory as the user of the compose file, without capabilities. What an engine does besides is
not tested: seccomp, cgroups, and its own parsing of the compose file."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import yaml

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import patience

ROOT = pathlib.Path(__file__).resolve().parents[3]
OWNER = 12345  # user ID that is not in /etc/passwd of the image
SECONDS = 120
NET = "10.88.0"
# Runs as the first process of a container. $1: its files, $2: its /etc/hosts, $3: its /captures, $4: its address, then its command.
INNER = r"""
set -eu
files=$1 hosts=$2 captures=$3 address=$4; shift 4
echo ready; read -r _
ip link set lo up
ip link set inner name eth0; ip address add "$address/24" dev eth0; ip link set eth0 up
mount --make-rprivate /
mount --bind "$files" "$files"
mount -t proc proc "$files/proc"
mount -t sysfs -o ro sysfs "$files/sys"
mount -t tmpfs -o mode=755 tmpfs "$files/dev"
for name in null zero full random urandom tty; do touch "$files/dev/$name"; mount --bind "/dev/$name" "$files/dev/$name"; done
mkdir "$files/dev/shm"; mount -t tmpfs -o mode=1777,size=64m tmpfs "$files/dev/shm"
ln -s /proc/self/fd "$files/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$files/tmp"
touch "$files/etc/hosts"; mount --bind "$hosts" "$files/etc/hosts"
mkdir -p "$files/captures"; mount --bind "$captures" "$files/captures"
exec chroot "$files" "$@"
"""


class Problem(Exception):
    """The description of an expected line that the transcript lacks."""


def ip(*words: object) -> None:
    subprocess.run(["ip", *map(str, words)], check=True)


class Image:
    def __init__(self, layout: pathlib.Path, where: pathlib.Path):
        subprocess.run(["umoci", "unpack", "--image", f"{layout}:latest", where / "bundle"], check=True)
        self.files = where / "bundle" / "rootfs"
        self.process = json.loads((where / "bundle" / "config.json").read_text())["process"]
        self.hosts, self.captures = where / "hosts", where / "captures"
        self.captures.mkdir()
        os.chown(self.captures, OWNER, OWNER)

    def start(self, number: int, words: list[str], user: int) -> subprocess.Popen:
        """Starts a container with address NET.number."""
        drop = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", "--bounding-set=-all", "--inh-caps=-all",
                "--no-new-privs", "env", "-i", "-C", self.process["cwd"], *self.process["env"]]
        space = ["unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child"]
        side = subprocess.Popen([*space, "sh", "-c", INNER, "sh", self.files, self.hosts, self.captures, f"{NET}.{number}", *drop, *words],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if side.stdout.readline() != "ready\n":
            raise Problem(f"no namespaces: {side.stdout.read()}")
        ip("link", "add", f"outer{number}", "type", "veth", "peer", "name", "inner", "netns", side.pid)
        ip("link", "set", f"outer{number}", "master", "bridge0", "up")
        side.stdin.write("\n")
        side.stdin.close()
        side.stdin = None
        return side

    def run(self, words: list[str], user: int) -> str:
        self.hosts.write_text("127.0.0.1 localhost\n")
        print(f"\n$ {shlex.join(words)}", flush=True)
        text = ended(words[0], self.start(200, words, user))
        # Fails if the interface has already gone with its peer.
        subprocess.run(["ip", "link", "delete", "outer200"], check=False, stderr=subprocess.DEVNULL)
        return text


def ended(name: str, side: subprocess.Popen) -> str:
    """Returns the output of a container that must succeed."""
    try:
        text = side.communicate(timeout=patience.seconds(SECONDS))[0]
    except subprocess.TimeoutExpired:
        side.kill()
        print(side.communicate()[0], end="", flush=True)
        raise
    print(text, end="", flush=True)
    if side.returncode:
        raise Problem(f"{name}: exit status {side.returncode}")
    return text


def compose(image: Image, path: pathlib.Path) -> dict[str, str]:
    """Returns what each service printed."""
    text = re.sub(r"\$\{OWNER:-\d+\}", str(OWNER), path.read_text())
    services = yaml.safe_load(text)["services"]
    numbers = {name: number for number, name in enumerate(services, 2)}
    image.hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{NET}.{number} {name}\n" for name, number in numbers.items()))
    sides = {name: image.start(numbers[name], shlex.split(service["command"]), int(service["user"])) for name, service in services.items()}
    output = {}
    for name in reversed(sides):
        print(f"\n--- {name}: {services[name]['command']}", flush=True)
        output[name] = ended(name, sides[name])
    return output


def wants(text: str, pattern: str) -> None:
    if not re.search(pattern, text, re.M):
        raise Problem(f"no {pattern!r} in the output")


def mpi(image: Image) -> None:
    """Compiles a program on this machine, because the image has no compiler, and runs it in the image."""
    if shutil.which("mpicc") is None:
        print("\nOpen MPI was not run: mpicc is not installed (libopenmpi-dev)")
        return
    subprocess.run(["mpicc", "-O2", "-o", image.captures / "pingpong", ROOT / "tests/system/mpi_pingpong.c"], check=True)
    text = image.run(["mpirun", "-n", "2", "--oversubscribe", "--mca", "pml", "ucx", "-x", "UCX_TLS=rc_v", "uroce", "run", "-q",
                      "/captures/pingpong"], OWNER)
    wants(text, "all to all: 2 ranks, every octet right")


def test(out: pathlib.Path, where: pathlib.Path) -> None:
    image = Image(out / "uroce.oci", where)
    user = image.process["user"]["uid"]
    print(f"user {user}, packed {(out / 'uroce-image.tar.gz').stat().st_size // 1000000} MB")
    wants(image.run(image.process["args"], user), "udp")
    output = compose(image, ROOT / "docs/samples/compose.yaml")
    wants(output["client"], r"^ *65536 +200 +[\d.]+ +[\d.]+")
    for name in output:
        wants(dumped(image, name), "RC_WRITE")
    ucx = "uroce run -q ucx_perftest -p 13400 & until uroce run -q ucx_perftest -p 13400 -t tag_bw -n 1000 localhost; do sleep 1; done; wait"
    wants(image.run(["sh", "-c", f"export UCX_TLS=rc_v; {ucx}"], OWNER), "Final:")
    mpi(image)


def dumped(image: Image, name: str) -> str:
    """Returns the first lines of a capture, which is on the host now."""
    path = image.captures / f"{name}.pcap"
    print(f"\ncaptures/{name}.pcap: {path.stat().st_size} bytes, of user {path.stat().st_uid}")
    return image.run(["sh", "-c", f"uroce dump /captures/{name}.pcap | head -n 3"], OWNER)


def main() -> int:
    if os.geteuid() != 0:
        print("test_image.py: needs root, for namespaces and chroot; it was not run", file=sys.stderr)
        return 77
    if os.environ.get("UROCE_IN_NAMESPACE") != "yes":
        os.environ["UROCE_IN_NAMESPACE"] = "yes"
        os.execvp("unshare", ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *sys.argv])
    ip("link", "set", "lo", "up")
    ip("link", "add", "bridge0", "type", "bridge")
    ip("address", "add", f"{NET}.1/24", "dev", "bridge0")
    ip("link", "set", "bridge0", "up")
    with tempfile.TemporaryDirectory(dir=os.environ.get("UROCE_CHROOTS", "/var/tmp")) as where:
        try:
            test(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(where))
        except (Problem, subprocess.TimeoutExpired) as problem:
            print(f"FAILED: {problem}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
