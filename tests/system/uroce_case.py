# SPDX-License-Identifier: BSD-3-Clause
"""Shared parts of the tests of the program `uroce`: they run it in a clean environment, and print the results as TAP."""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib" / "common"))
import matching  # noqa: E402
import patience  # noqa: E402

LIBRARY = "libibverbs.so.1"
PATHS = "liburoce-paths.so"
PLUGIN = "liburoce-dpdk.so"
LINKS = "liburoce-dpdk-links.so"  # describes the links of PLUGIN
# Each test process has its own subnet, because other tests, also of other users, may run on this machine.
SUBNET = f"127.{1 + os.getpid() % 250}.{os.getpid() // 250 % 250}"
LEFT = "left:net_memif0,role=server,socket=/tmp/x.sock;ip=10.0.0.1/24,fd00::1/64;mac=02:00:00:00:00:01"


class Skip(Exception):
    """The reason why a case cannot run here."""


def namespaces(*kinds: str) -> list[str]:
    """Returns a command that starts a program in new namespaces, as root there. An ordinary user needs a user namespace for
    this, which the kernel refuses in a chroot. Root does not need a user namespace."""
    words = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), *kinds]
    made = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if made.returncode:
        raise Skip(made.stderr.strip())
    return words


class Case:
    def __init__(self, build: pathlib.Path, scratch: pathlib.Path):
        self.build = build
        self.uroce = build / "app" / "uroce"
        self.scratch = scratch

    def call(self, *arguments: object, uroce: pathlib.Path | str | None = None,
             cwd: pathlib.Path | None = None, **environment: str) -> subprocess.CompletedProcess:
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("UROCE_") and k not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
        env["XDG_RUNTIME_DIR"] = str(self.scratch)
        env["UROCE_STATE_DIR"] = str(self.scratch / "state")
        return subprocess.run([uroce or self.uroce, *map(str, arguments)], capture_output=True, cwd=cwd,
                              text=True, env={**env, **environment}, timeout=patience.seconds(60), check=False)

    def environment(self, *options: object, **before: str) -> dict[str, str]:
        """Returns the environment of a program that `uroce run` starts."""
        if not (self.build / "lib" / "abi" / LIBRARY).exists():
            raise Skip(f"{LIBRARY} is not built: the headers of libibverbs are missing")
        run = self.call("run", *options, "--", shutil.which("env"), "-0", **before)
        equal(run.returncode, 0, run.stderr)
        return dict(line.split("=", 1) for line in run.stdout.split("\0") if line)

    def plugin(self) -> None:
        if not (self.build / "lib" / "io" / "dpdk" / PLUGIN).exists():
            raise Skip(f"{PLUGIN} is not built: DPDK is missing")


def equal(got: object, wanted: object, more: str = "") -> None:
    assert got == wanted, f"got    {got!r}\nwanted {wanted!r}\n{more}"


def has(text: str, *wanted: str) -> None:
    for words in wanted:
        assert words in text, f"no {words!r} in\n{text}"


def named_cases(names: dict[str, object]) -> list:
    """Returns the cases of a file, from its globals(): all functions whose names have several parts with "__" between them. So no
    case can be left out."""
    return [value for name, value in names.items()
            if isinstance(value, types.FunctionType) and "__" in name.strip("_")]


def attempt(run, case: Case) -> tuple[str, str]:
    """Runs a case. Returns (reason of a skip, reason of a failure)."""
    try:
        run(case)
    except Skip as why:
        return str(why), ""
    except (AssertionError, OSError, StopIteration, subprocess.TimeoutExpired) as why:
        return "", str(why) or repr(why)
    return "", ""


def main(text: str, cases: list) -> int:
    """Runs the cases of a file whose docstring is text."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    matching.add_option(parser, "cases")
    options = parser.parse_args()
    names = matching.chosen(options.match, [run.__name__ for run in cases])
    chosen = [run for run in cases if run.__name__ in names]
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    for number, run in enumerate(chosen, 1):
        with tempfile.TemporaryDirectory(prefix="uroce-app-") as scratch:
            skipped, problem = attempt(run, Case(options.build.resolve(), pathlib.Path(scratch)))
        failed += bool(problem)
        why = f" # SKIP {skipped}" if skipped else ""
        print(f"{'not ok' if problem else 'ok'} {number} - {run.__name__}{why}", flush=True)
        for line in problem.splitlines():
            print("#", line, flush=True)
    return 1 if failed else 0
