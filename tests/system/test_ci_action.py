#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the script of tools/ci-action as a plain user, without sudo and with sudo. Writes TAP.

    test_ci_action.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import uroce_case
from uroce_case import Case, Skip, equal, has
import patience  # from tools/lib/common, which uroce_case puts on the path

ROOT = pathlib.Path(__file__).resolve().parents[2]
ACTION = ROOT / "tools" / "ci-action"
SETUP = ACTION / "setup"
NOBODY = "65534"
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
FILES = ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT")
# Replaces a program. Logs the user and the arguments of the call.
STUB = """#!/bin/sh
echo "$(id -u) {name} $*" >>"{log}"
{more}
"""


class Job:
    """The machine of a CI job: a network namespace in which a plain user has a home."""

    def __init__(self, case: Case):
        if os.geteuid() != 0:
            raise Skip("only root can make a network namespace and be another user in it")
        case.environment()
        self.case, self.home, self.stubs, self.log = case, case.scratch / "home", case.scratch / "stubs", case.scratch / "log"
        case.scratch.chmod(0o755)
        self.home.mkdir()
        self.stubs.mkdir()
        self.log.write_text("")
        self.log.chmod(0o666)
        os.chown(self.home, int(NOBODY), int(NOBODY))

    def install(self, to: pathlib.Path) -> None:
        done = subprocess.run(["meson", "install", "-C", self.case.build, "--no-rebuild", "--destdir", self.case.scratch / "root"],
                              capture_output=True, text=True, check=False)
        equal(done.returncode, 0, done.stdout + done.stderr)
        shutil.copytree(next((self.case.scratch / "root").rglob("bin/uroce")).parents[1], to, symlinks=True)

    def stub(self, name: str, more: str = "") -> pathlib.Path:
        path = self.stubs / name
        path.write_text(STUB.format(log=self.log, name=name, more=more))
        path.chmod(0o755)
        return path

    def call(self, script: str, before: str = "", **environment: str) -> subprocess.CompletedProcess:
        """Runs a script of bash as the user, in new network and mount namespaces. `before` runs there first, as root."""
        inner = f"ip link set lo up\n{before}\nexec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups bash -euc \"$0\""
        env = {"PATH": f"{self.stubs}:{PATH}", "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home), **environment}
        return subprocess.run(["unshare", "--net", "--mount", "sh", "-euc", inner, script], capture_output=True, text=True, cwd="/",
                              check=False, timeout=patience.seconds(300), env=env)


def written(job: Job, run: subprocess.CompletedProcess) -> dict[str, str]:
    equal(run.returncode, 0, run.stdout + run.stderr)
    lines = "".join((job.home / name).read_text() for name in FILES).splitlines()
    return dict(line.split("=", 1) if "=" in line else ("PATH", line) for line in lines)


def step(**inputs: str) -> tuple[str, dict[str, str]]:
    """Returns the line that action.yml runs, and the environment that action.yml sets for this line."""
    text = (ACTION / "action.yml").read_text()
    line = re.search(r"^      run: '(.*)'$", text, re.M)[1]
    names = re.findall(r"^        (\w+): \$\{\{ inputs\.([\w-]+) \}\}$", text, re.M)
    defaults = dict(re.findall(r"^  ([\w-]+):\n    description: .*\n    default: '?(.*?)'?$", text, re.M))
    equal({key for _, key in names}, set(defaults))
    return line, {variable: inputs.get(key.replace("-", "_"), defaults[key]) for variable, key in names}


# ---- a user without sudo ----------------------------------------------------------------------------------------------------

def action__plain_user__next_steps_have_the_device(case: Case) -> None:
    job = Job(case)
    job.install(case.scratch / "here")
    line, env = step()
    env |= {name: str(job.home / name) for name in FILES} | {"GITHUB_ACTION_PATH": str(ACTION)}
    run = job.call(line, **env, PATH=f"{case.scratch}/here/bin:{PATH}")
    got = written(job, run)
    equal(got, {"UROCE_DEVICES": "rxe_0:udp,iface=lo", "PATH": f"{case.scratch}/here/bin", "interface": "lo", "device-name": "rxe_0",
                "device": "rxe_0:udp,iface=lo", "address": "127.0.0.1", "gid-index": "1"})
    outputs = re.findall(r"value: \$\{\{ steps\.setup\.outputs\.([\w-]+) \}\}", (ACTION / "action.yml").read_text())
    equal(sorted(outputs), sorted(set(got) - {"UROCE_DEVICES", "PATH"}))
    equal(run.stdout, "")


def moves_data(job: Job) -> str:
    """Sets up a job, and moves data with what the script prints. Returns the messages of the script."""
    for program in ("ib_send_bw", "ibv_devices"):
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed (perftest, ibverbs-utils)")
    # 48A6 is port 18598, and 0A means that the server listens.
    run = job.call(f"""eval "$({SETUP} --device-name soft0)"
uroce run -q ibv_devices
uroce run -q ib_send_bw -d soft0 -F -p 18598 >~/server 2>&1 &
until grep -Eqs ':48A6 0+:0000 0A' /proc/net/tcp /proc/net/tcp6; do kill -0 $! && sleep 0.1; done
uroce run -q ib_send_bw -d soft0 -F -p 18598 127.0.0.1 && wait $!""")
    equal(run.returncode, 0, run.stdout + run.stderr)
    has(run.stdout, "soft0", "65536")
    return run.stderr


def shell__plain_user__moves_data_with_what_is_printed(case: Case) -> None:
    job = Job(case)
    job.install(job.home / ".cache" / "uroce" / "ci")
    assert "building" not in moves_data(job)


def shell__plain_user_and_no_sudo__builds_in_the_home_and_moves_data(case: Case) -> None:
    missing = subprocess.run([ROOT / "tools" / "setup-packages", "--missing", "action"], capture_output=True, text=True, check=True).stdout
    if missing:
        raise Skip(f"packages are missing: {' '.join(missing.split())}")
    job = Job(case)
    job.stub("sudo", "exit 1")
    there = job.home / ".cache" / "uroce" / "ci"
    has(moves_data(job), f"building uroce into {there}")
    equal({path.stat().st_uid for path in there.rglob("*")}, {int(NOBODY)})
    assert "building" not in moves_data(job)


def shell__packages_missing_and_no_sudo__prints_the_commands_for_root(case: Case) -> None:
    job = Job(case)
    job.stub("dpkg-query")
    run = job.call(f"{SETUP} --prefix {job.home}/there", before="! [ -e /etc/sudoers.d ] || mount -t tmpfs -o mode=755 tmpfs /etc/sudoers.d")
    equal(run.returncode, 1)
    has(run.stderr, "not root and has no sudo; as root, run:", "apt-get install --no-install-recommends gcc", "packages are missing")


# ---- a user with sudo -------------------------------------------------------------------------------------------------------

def shell__packages_missing_and_sudo__installs_them_as_root_and_builds_as_the_user(case: Case) -> None:
    if shutil.which("sudo") is None:
        raise Skip("sudo is not installed")
    job = Job(case)
    job.install(case.scratch / "here")
    job.stub("dpkg-query")
    job.stub("apt-get")
    meson = job.stub("meson", f'[ "$1" = setup ] || cp -r {case.scratch}/here/. {job.home}/there')
    rule = f"Defaults secure_path={job.stubs}:{PATH}\\n#{NOBODY} ALL=(ALL) NOPASSWD: ALL\\n"
    before = f"""mount -t tmpfs -o mode=755 tmpfs /etc/sudoers.d
printf '{rule}' >/etc/sudoers.d/job; chmod 440 /etc/sudoers.d/job"""
    run = job.call(f"{SETUP} --prefix {job.home}/there", before=before, MESON=str(meson))
    equal(run.returncode, 0, run.stdout + run.stderr)
    has(run.stdout, f"export UROCE_DEVICES=rxe_0:udp\\,iface=lo PATH={job.home}/there/bin:")
    calls = [words[:2] for line in job.log.read_text().splitlines() if (words := line.split())[1] in ("apt-get", "meson")]
    equal(calls, [["0", "apt-get"], ["0", "apt-get"], [NOBODY, "meson"], [NOBODY, "meson"]])
    has(job.log.read_text(), "install -y --no-install-recommends gcc ", "-Dtests=disabled")


# ---- wrong input ------------------------------------------------------------------------------------------------------------

def shell__wrong_input__prints_a_remedy(case: Case) -> None:
    job = Job(case)
    for words, wanted in (("--device-name a:b", "device name 'a:b': must have 1 to 31 letters"),
                          ("--interface wlan7", "there is no interface 'wlan7'; this machine has: lo"),
                          ("--interface", "--interface needs a value"),
                          ("--prefix 'a b'", "choose another"),
                          ("--port 1", "there is no option --port")):
        run = job.call(f"{SETUP} {words}", GITHUB_ACTIONS="true")
        equal(run.returncode, 1, words)
        has(run.stderr, "::error::", wanted)
    run = job.call(SETUP.as_posix(), HOME="")
    has(run.stderr, "HOME is not set; name a directory with --prefix")


def shell__build_fails__shows_the_end_of_the_log(case: Case) -> None:
    job = Job(case)
    meson = job.stub("meson", "echo 'no compiler'; exit 1")
    run = job.call(f"{SETUP} --prefix {job.home}/there", MESON=str(meson))
    if "packages are missing" in run.stderr:
        raise Skip("packages are missing, so that nothing is built")
    equal(run.returncode, 1)
    has(run.stderr, "no compiler", f"the end of {job.home}/there/build.log is above")


CASES = uroce_case.named_cases(globals())

if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
