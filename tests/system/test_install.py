#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests an installation in a directory: its files, its use through PATH by a plain user, its use after a move, and its removal.
Writes TAP.

    test_install.py BUILD_DIRECTORY [--match REGEX]
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import uroce_case
from uroce_case import LIBRARY, PATHS, SUBNET, Case, Skip, equal, has
import patience  # from tools/lib/common, which uroce_case puts on the path

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOBODY = "65534"
ADDRESS = f"{SUBNET}.1"
DEVICE = f"uroce0:udp,ip={ADDRESS}"
UDP = "liburoce-udp.so"


# ---- installations ----------------------------------------------------------------------------------------------------------

def call(*command: object, **more) -> subprocess.CompletedProcess:
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=patience.seconds(60), **more)


class Installation:
    def __init__(self, case: Case, name: str = "root"):
        """Installs into an empty DESTDIR."""
        if shutil.which("meson") is None:
            raise Skip("meson is not on PATH")
        case.environment()
        self.case, self.root = case, case.scratch / name
        case.scratch.chmod(0o755)
        done = call("meson", "install", "-C", case.build, "--no-rebuild", "--destdir", self.root)
        equal(done.returncode, 0, done.stdout + done.stderr)
        self.prefix = next(self.root.rglob("bin/uroce")).parents[1]

    def file(self, name: str) -> pathlib.Path:
        return next(self.prefix.rglob(name))

    def files(self) -> set[str]:
        return {path.relative_to(self.prefix).as_posix() for path in self.prefix.rglob("*") if not path.is_dir()}

    def call(self, *words: object, **environment: str) -> subprocess.CompletedProcess:
        """Runs `uroce` through PATH as a plain user, in another directory."""
        drop = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"] if os.geteuid() == 0 else []
        runtime = self.case.scratch / "runtime"
        runtime.mkdir(exist_ok=True)
        if drop:
            os.chown(runtime, int(NOBODY), int(NOBODY))
        env = {"PATH": f"{self.prefix}/bin:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(runtime), "HOME": str(runtime), **environment}
        return call(*drop, "uroce", *words, cwd="/", env=env)


def commands(case: Case) -> list[str]:
    text = case.call("--help").stdout
    return [line.split()[0] for line in text.split("COMMAND is one of:\n")[1].split("\n\n")[0].splitlines()]


# ---- what is installed ------------------------------------------------------------------------------------------------------

def install__all_files__are_where_programs_expect_them(case: Case) -> None:
    files = "\n".join(sorted(Installation(case).files()))
    for pattern in (r"bin/uroce", rf"lib.*/uroce/{LIBRARY}", rf"lib.*/uroce/{PATHS}", rf"lib.*/uroce/{UDP}",
                    r"lib.*/uroce/liburoce-memif\.so", r"lib.*/liburoce\.so\.0", r"lib.*/pkgconfig/uroce\.pc",
                    r"include/uroce/uroce\.h", r"share/doc/uroce/LICENSE", r"share/doc/uroce/README\.md",
                    r"share/doc/uroce/docs/CONFIGURATION\.md", r"share/doc/uroce/docs/samples/hello\.c",
                    r"share/uroce/peer/.*\.peer", r".*/systemd/user/uroce-hub\.service",
                    r"share/bash-completion/completions/uroce", r"share/zsh/site-functions/_uroce",
                    r"share/fish/vendor_completions\.d/uroce\.fish"):
        assert re.search(rf"^{pattern}$", files, re.M), f"no {pattern} in\n{files}"
    assert "meson.build" not in files, files


def install__manual__has_a_page_for_each_command(case: Case) -> None:
    installed = Installation(case)
    if shutil.which("lowdown") is None:
        raise Skip("lowdown is not installed: there are no manual pages")
    files = installed.files()
    wanted = {f"man1/uroce-{name}.1" for name in commands(case)} - {"man1/uroce-version.1"}
    wanted |= {"man1/uroce.1", "man5/uroce.conf.5", "man7/uroce.7"}
    equal({name.split("/man/", 1)[1] for name in files if "/man/" in name}, wanted)


def install__unit_of_the_hub__starts_the_installed_program(case: Case) -> None:
    installed = Installation(case)
    unit = installed.file("uroce-hub.service")
    program = re.search(r"^ExecStart=(\S+) hub --address \$\{UROCE_HUB_ADDRESS\}$", unit.read_text(), re.M)[1]
    equal(installed.root / program[1:], installed.prefix / "bin" / "uroce")
    if shutil.which("systemd-analyze") is None:
        raise Skip("systemd-analyze is not installed")
    copy = case.scratch / "uroce-hub.service"
    copy.write_text(unit.read_text().replace(program, str(installed.root / program[1:])))
    run = call("systemd-analyze", "verify", "--man=no", copy, env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"})
    about_it = [line for line in (run.stdout + run.stderr).splitlines() if "uroce-hub" in line]
    equal(about_it, [])


def hub__address_auto__takes_the_default_address(case: Case) -> None:
    space = uroce_case.namespaces("--net")
    # In a new network namespace, the only IPv4 address is 127.0.0.1.
    run = call(*space, "sh", "-c", f"ip link set lo up && '{case.uroce}' hub --address auto --background --idle 1 && cat /proc/net/udp")
    equal(run.returncode, 0, run.stderr)
    has(run.stdout, "0100007F:12B7")
    run = case.call("hub", "--address", "aut")
    equal((run.returncode, run.stderr), (2, "uroce hub: --address aut: must be an address such as 192.168.1.7, or auto\n"))


# ---- completions ------------------------------------------------------------------------------------------------------------

def bash_offers(script: pathlib.Path, line: str) -> set[str]:
    """Returns the completions that bash offers for the last word of the line."""
    words = line.split(" ")
    text = f"""compopt() {{ :; }}; source '{script}'
COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}
_uroce; printf '%s\\n' "${{COMPREPLY[@]}}\""""
    run = call("bash", "--norc", "-c", text, cwd="/")
    equal(run.stderr, "")
    return set(run.stdout.split())


def bash__each_word__completes_to_the_words_of_the_help(case: Case) -> None:
    script = Installation(case).file("completions/uroce")
    assert set(commands(case)) <= bash_offers(script, "uroce ")
    equal(bash_offers(script, "uroce st"), {"stat"})
    for command in set(commands(case)) - {"version"}:
        text = case.call(command, "--help").stdout
        options = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.M))
        equal({word for word in bash_offers(script, f"uroce {command} --") if word.startswith("--")}, options, command)
    equal(bash_offers(script, "uroce run --config /et"), {"/etc"})
    equal(bash_offers(script, "uroce dump /et"), {"/etc"})
    equal(bash_offers(script, "uroce run --device "), set())


def bash__program_of_run__is_completed_as_a_command(case: Case) -> None:
    script = Installation(case).file("completions/uroce")
    assert "setpriv" in bash_offers(script, "uroce run --device x:udp -q setpri")
    equal(bash_offers(script, "uroce run cat /et"), {"/etc"})


def fish__each_command__is_offered(case: Case) -> None:
    script = Installation(case).file("uroce.fish")
    if shutil.which("fish") is None:
        raise Skip("fish is not installed")
    home = {**os.environ, "HOME": str(case.scratch)}
    run = call("fish", "--no-config", "-c", f"source {script}; complete -C 'uroce '", env=home)
    equal(({line.split("\t")[0] for line in run.stdout.splitlines()}, run.stderr), (set(commands(case)), ""))
    run = call("fish", "--no-config", "-c", f"source {script}; complete -C 'uroce run --dev'", env=home)
    has(run.stdout, "--device\t")


def zsh__each_command__is_offered(case: Case) -> None:
    script = Installation(case).file("_uroce")
    if shutil.which("zsh") is None:
        raise Skip("zsh is not installed")
    equal(call("zsh", "-f", "-n", script).stderr, "")
    # These functions replace those of zsh's completion system. They print the completions that they get as arguments.
    offer = f"""_describe() {{ print -rl -- ${{(P)4}} }}; _arguments() {{ print -rl -- "$@" }}
    words=(uroce '') CURRENT=2; source {script}; words=(uroce run '') CURRENT=3; source {script}"""
    run = call("zsh", "-f", "-c", offer)
    equal(run.stderr, "")
    has(run.stdout, *(f"{name}:" for name in commands(case)), "--device[", "*::PROGRAM:_normal")


# ---- use, move, removal -----------------------------------------------------------------------------------------------------

def uses(installed: Installation) -> None:
    run = installed.call("devices", UROCE_DEVICES=DEVICE)
    has(run.stdout, "uroce0  configured")
    if shutil.which("ibv_devices") is None:
        raise Skip("ibv_devices is not installed (ibverbs-utils)")
    run = installed.call("run", "-q", "-d", DEVICE, "ibv_devices")
    equal((run.returncode, run.stderr), (0, ""))
    has(run.stdout, "uroce0")


def prefix__plain_user_through_PATH__runs_programs(case: Case) -> None:
    uses(Installation(case))


def prefix__moved__runs_programs(case: Case) -> None:
    installed = Installation(case)
    elsewhere = case.scratch / "elsewhere"
    installed.prefix.rename(elsewhere)
    installed.prefix = elsewhere
    uses(installed)


def prefix__moved__pkg_config_has_the_new_prefix(case: Case) -> None:
    installed = Installation(case)
    if shutil.which("pkg-config") is None:
        raise Skip("pkg-config is not installed")
    elsewhere = case.scratch / "elsewhere"
    installed.prefix.rename(elsewhere)
    where = {**os.environ, "PKG_CONFIG_PATH": str(next(elsewhere.rglob("uroce.pc")).parent)}
    for variable, file in (("includedir", "uroce/uroce.h"), ("libdir", "liburoce.so")):
        found = call("pkg-config", f"--variable={variable}", "uroce", env=where).stdout.strip()
        assert (pathlib.Path(found) / file).resolve().is_relative_to(elsewhere), found
        assert (pathlib.Path(found) / file).exists(), found


def uninstall__from_a_directory_with_other_files__keeps_only_these_files(case: Case) -> None:
    other = case.scratch / "root" / "usr" / "local" / "bin" / "other"
    other.parent.mkdir(parents=True)
    other.write_text("not of uroce\n")
    installed = Installation(case)
    uses(installed)
    run = call("ninja", "-C", case.build, "uninstall")
    equal(run.returncode, 0, run.stdout + run.stderr)
    left = sorted(path for path in installed.root.rglob("*"))
    equal([path for path in left if not path.is_dir()], [other])
    equal(left, sorted([other, *list(other.parents)[:3]]))


CASES = uroce_case.named_cases(globals())

if __name__ == "__main__":
    sys.exit(uroce_case.main(__doc__, CASES))
