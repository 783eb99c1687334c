#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plays the scripts of tests/peer against Linux rxe, and compares the results with rxe-scripts.txt.

    deviations.py --write                   plays all scripts on both kernels, and writes rxe-scripts.txt; 5 minutes
    deviations.py --kernel 6.1 --match gap  plays some scripts; fails if rxe now passes or fails unlike in rxe-scripts.txt; TAP

Needs root and the rxe peer, like run.py. Otherwise prints what is missing and exits with status 77.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from sides import ROOT, RXE_PEER, Namespace, Unavailable, must, noted
import matching  # from tools/lib/common, which sides puts on the path
import patience

RESULTS = ROOT / "tests" / "interop" / "rxe-scripts.txt"
SCRIPTS = ROOT / "tests" / "peer"
KERNELS = ("6.1", "6.12")
PORT = 7471
SECONDS = 280
TRIES = 3
LISTEN_SECONDS = 20
GUEST, OURS = "10.77.0.2", "10.77.0.1"
LINK = "uroce0:net_af_packet0,iface={},blocksz=65536,framesz=8192,qdisc_bypass=0;ip={}/24;mtu=4200"
HOLDS = "holds"
RESULT = re.compile(r"^(ok|not ok) \d+ - (\w+)\.peer")
ROW = re.compile(r"^(\w+) \|(.*)$", re.M)
# Numbers that differ from run to run, and the texts that the table has instead
NUMBERS = ((r"psn is \d+ \(([+-]\d+)\), not \d+ \(([+-]\d+)\)", r"PSN is \1, not \2"),
           (r"(local_qpn|local_id|remote_id) is 0x[0-9a-f]+, not 0x[0-9a-f]+", r"\1 is another"))

HEAD = """\
# Results of each script of tests/peer against Linux rxe, Debian's kernels 6.1 and 6.12. Written by deviations.py --write; do not
# edit. A script that failed was played twice more. "holds": rxe passed.
# script | rxe 6.1 | rxe 6.12
"""


def observed(lines):
    """Returns the result of a failed script, as text that is the same in every run."""
    if not lines:
        return "does not hold"
    text = re.sub(r"^#\s+[\d.]+\s+", "", lines[-1])
    came = re.search(r": came \S+ > \S+ (\w+)", text)
    said = text.split("; ", 1)[1] if "; " in text else text
    if "it is another packet" in said or (came and "; " not in text):
        nak = re.search(r" (nak \S+|rnr-nak)", text)
        said = f"{came[1]} {nak[1] + ' ' if nak else ''}comes"
    elif "nothing such came" in text or "no answer" in text:
        said = "nothing comes"
    for pattern, by in NUMBERS:
        said = re.sub(pattern, by, said)
    return said.replace("|", "/")


def read_tap(text):
    """Returns a map from each script to "holds" or its result."""
    results, lines = {}, []
    for line in text.splitlines():
        match = RESULT.match(line)
        if match:
            results[match[2]] = HOLDS if match[1] == "ok" else observed(lines)
            lines = []
        elif re.search(r"  (line \d+|at the end): ", line):
            lines.append(line)
    return results


class Guest:
    """A guest with Linux rxe and the server for the scripts."""

    def __init__(self, namespace, kernel, build):
        self.name = f"d{kernel.replace('.', '')}"
        must(RXE_PEER.parent / "build-image", "-k", kernel)
        noted(RXE_PEER, "start", "-n", self.name, "-k", kernel, "-N", namespace.name, "-M", 4200,
              "-4", f"{GUEST}/24")
        must(RXE_PEER, "put", "-n", self.name, build / "tests/peer/peer_target", "/tmp/peer_target")
        self.target = subprocess.Popen(
            [RXE_PEER, "exec", "-n", self.name, "-T", str(2 * int(patience.seconds(SECONDS))),
             f"modprobe rdma_ucm; /tmp/peer_target {PORT} {GUEST}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.tap = f"rxetap-{self.name}"
        self.wait_listening()

    def wait_listening(self):
        until = time.monotonic() + patience.seconds(LISTEN_SECONDS)
        while "LISTEN" not in must(RXE_PEER, "exec", "-n", self.name, "rdma resource show cm_id"):
            if time.monotonic() > until or self.target.poll() is not None:
                raise Unavailable("the server does not listen in the guest")
            time.sleep(0.1)

    def stop(self):
        subprocess.run([RXE_PEER, "stop", "-n", self.name], check=False)
        self.target.wait()


def play_once(options, namespace, guest, names):
    done = subprocess.run(
        namespace.command(options.build / "app" / "uroce", "peer", "-d",
                          LINK.format(guest.tap, OURS), "--peer", GUEST, "-p", PORT,
                          "--tap", "-q", *scripts(names)),
        capture_output=True, text=True, timeout=patience.seconds(SECONDS), check=False)
    results = read_tap(done.stdout)
    if set(names) - set(results):
        raise Unavailable(f"some scripts were not played: {done.stderr}{done.stdout[-500:]}")
    return results


def play_rxe(options, kernel, names):
    """Plays the scripts against rxe in a new namespace and a new guest. A failed script is played again, because the clock of an
    emulated machine may stop for a while and then jump."""
    namespace = Namespace(f"uroce-deviations-{os.getpid()}")
    guest, results, left = None, {}, names
    try:
        guest = Guest(namespace, kernel, options.build)
        for _ in range(TRIES):
            results |= play_once(options, namespace, guest, left)
            left = [name for name in left if results[name] != HOLDS]
            if not left:
                break
        return results
    finally:
        if guest:
            guest.stop()
        namespace.remove()


def scripts(names):
    return [SCRIPTS / f"{name}.peer" for name in names]


def recorded(kernel):
    """Returns a map from each script to the entry of rxe-scripts.txt for that kernel."""
    column = KERNELS.index(kernel)
    return {m[1]: [cell.strip() for cell in m[2].split(" | ")][column]
            for m in ROW.finditer(RESULTS.read_text())}


def write(options, names):
    columns = [play_rxe(options, kernel, names) for kernel in KERNELS]
    order = sorted(names, key=lambda n: (all(c[n] == HOLDS for c in columns), n))
    RESULTS.write_text(HEAD + "".join(f"{n} | {' | '.join(c[n] for c in columns)}\n" for n in order))


def compare(options, names):
    """Fails if rxe passes a script that it failed in rxe-scripts.txt, or the reverse. Ignores how a script failed."""
    known, failed = recorded(options.kernel), 0
    results = play_rxe(options, options.kernel, names)
    print(f"1..{len(names)}")
    for number, name in enumerate(names, 1):
        wanted, got = known.get(name, "no row"), results[name]
        good = (wanted == HOLDS) == (got == HOLDS) and name in known
        failed += not good
        print(f"{'ok' if good else 'not ok'} {number} - rxe {options.kernel} {name}: {got}")
        if not good:
            print(f"# rxe-scripts.txt says: {wanted}")
    return 1 if failed else 0


def check_machine(options):
    if os.geteuid() != 0:
        raise Unavailable("not root: cannot make a network namespace")
    for program in ("ip", "qemu-system-x86_64"):
        if not shutil.which(program):
            raise Unavailable(f"no {program}")
    for program in ("app/uroce", "tests/peer/peer_target", "lib/io/packet/liburoce-packet.so"):
        if not (options.build / program).exists():
            raise Unavailable(f"no {options.build}/{program}: not built")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--kernel", default="6.1", choices=KERNELS)
    matching.add_option(parser, "scripts")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.build = options.build.resolve()
    return options


def main():
    # When the time limit of the test runner ends the test, the guest must end and the namespace must be removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options = parse()
    names = [path.stem for path in SCRIPTS.glob("*.peer")]
    names = sorted(names if options.write else matching.chosen(options.match, names))
    with tempfile.TemporaryDirectory(prefix="uroce-deviations-") as scratch:
        os.environ["UROCE_RXE_DIR"] = scratch
        try:
            check_machine(options)
            if options.write:
                write(options, names)
                return 0
            return compare(options, names)
        except Unavailable as reason:
            print(f"1..0 # SKIP {reason}", flush=True)
            return 77


if __name__ == "__main__":
    sys.exit(main())
