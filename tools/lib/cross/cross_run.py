# SPDX-License-Identifier: BSD-3-Clause
"""Builds for another processor, runs suites of tests with the emulator, and prints a table of cases. Called by tools/cross."""
import argparse
import fnmatch
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

sys.path += [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("common",)]

import emulator
import programs
import roots
import tally

ROOT = roots.ROOT
SUITES = ("unit", "scenario", "sim", "replay", "api")
PATIENCE = "30"  # factor for the time limits of tests, which are written for an idle machine without an emulator


def cross_file(processor: roots.Processor, sysroot: pathlib.Path) -> str:
    """Returns meson's description of the compiler, the libraries and the emulator."""
    ccache = "'ccache', " if shutil.which("ccache") else ""
    libraries = f"{sysroot}/usr/lib/{processor.triplet}/pkgconfig:{sysroot}/usr/share/pkgconfig"
    return f"""\
[binaries]
c = [{ccache}'{processor.triplet}-gcc']
ar = '{processor.triplet}-gcc-ar'
strip = '{processor.triplet}-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['{processor.emulator}', '-L', '{sysroot}']
[properties]
sys_root = '{sysroot}'
pkg_config_libdir = '{libraries}'
needs_exe_wrapper = true
[built-in options]
c_args = ['--sysroot={sysroot}']
c_link_args = ['--sysroot={sysroot}']
[host_machine]
system = 'linux'
cpu_family = '{processor.family}'
cpu = '{processor.family}'
endian = '{processor.endian}'
"""


def build(processor: roots.Processor, sysroot: pathlib.Path, where: pathlib.Path, targets: list[str]) -> bool:
    """Builds everything. Returns false, and prints the end of the output, when the build fails."""
    where.mkdir(exist_ok=True)
    description = cross_file(processor, sysroot)
    file = where / "cross.ini"
    commands = [["ninja", "-C", str(where), *targets]]
    if not (where / "build.ninja").exists() or file.read_text() != description:
        file.write_text(description)
        wipe = ["--wipe"] if (where / "build.ninja").exists() else []
        commands.insert(0, ["meson", "setup", *wipe, str(where), str(ROOT), "--cross-file", str(file), "-Dwerror=true"])
    log = where / "build.log"
    with log.open("w") as out:
        for command in commands:
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode:
                print(f"cross: {processor.debian} does not build; the end of {log}:")
                print("\n".join(log.read_text().splitlines()[-60:]))
                return False
    return True


def environment(sysroot: pathlib.Path) -> dict[str, str]:
    """Returns the environment of a program that the kernel starts with the emulator."""
    return {**os.environ, "QEMU_LD_PREFIX": str(sysroot), "UROCE_TEST_PATIENCE": PATIENCE,
            "UROCE_SIM_COUNT": os.environ.get("UROCE_SIM_COUNT", "3")}


def run_tests(processor: roots.Processor, sysroot: pathlib.Path, where: pathlib.Path, suites: list[str],
              names: list[str]) -> list[tally.Row]:
    """Runs tests, and returns a row of the table for each suite."""
    listed = json.loads(subprocess.run(["meson", "introspect", "--tests", str(where)], capture_output=True, text=True,
                                       check=True).stdout)
    listed = [test for test in listed if tally.suite_of(test) in suites and
              (not names or any(fnmatch.fnmatch(test["name"], name) for name in names))]
    log = where / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    command = ["meson", "test", "-C", str(where), "--no-rebuild", "-t", PATIENCE]
    command += [test["name"] for test in listed] if names else [word for suite in suites for word in ("--suite", suite)]
    subprocess.run(command, env=environment(sysroot), check=False)
    lacks = emulator.lacking(processor, sysroot, where)
    return [emulator.excuse(row, lacks) for row in tally.read(processor.debian, tuple(suites), listed, log)]


def last_line(command: list[str], env: dict[str, str]) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return (run.stdout.strip().splitlines() or ["no output"])[-1]


def run_seeds(processor: roots.Processor, sysroot: pathlib.Path, where: pathlib.Path, here: pathlib.Path,
              count: int) -> tally.Row:
    """Runs the first seeds of the simulator. On a processor of the same byte order, the line with the digest of all frames must
    be equal to the line on this machine. On a processor of the other byte order, the lines differ, because
    the payload has other bytes."""
    row = tally.Row(processor.debian, "seeds")
    for seed in range(1, count + 1):
        words = ["sim", "--seed", str(seed)]
        line = last_line([str(where / "app" / "uroce"), *words], environment(sysroot))
        expected = last_line([str(here / "app" / "uroce"), *words], dict(os.environ)) if processor.endian == sys.byteorder else line
        if line.startswith(f"seed {seed}: passed") and line == expected:
            row.passed += 1
        else:
            row.failed.append(f"seed {seed}: {line}; here: {expected}")
    return row


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/cross", description=__doc__.splitlines()[0])
    parser.add_argument("processor", choices=sorted(roots.PROCESSORS))
    parser.add_argument("--suite", action="append", choices=SUITES, default=[])
    parser.add_argument("--test", action="append", default=[])
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--here", default="build")
    parser.add_argument("--cache")
    options = parser.parse_args()
    os.chdir(ROOT)
    start = time.monotonic()
    processor = roots.PROCESSORS[options.processor]
    where = ROOT / f"build-cross-{processor.debian}"
    try:
        subprocess.run(["tools/setup-packages", "cross"], check=True)
        roots.check(processor)
        roots.register(processor)
        sysroot = roots.make(processor, roots.cache(options.cache))
    except roots.Unavailable as why:
        print(f"tools/cross: {why}", file=sys.stderr)
        return 77
    except subprocess.CalledProcessError:
        return 1
    if not build(processor, sysroot, where, []):
        return 1
    print(f"cross: {where.name} is built; it took {time.monotonic() - start:.0f} s", flush=True)
    rows = []
    if options.suite or options.test:
        rows += run_tests(processor, sysroot, where, options.suite or list(SUITES), options.test)
    here = pathlib.Path(options.here).resolve()
    if (options.programs or options.seeds) and not os.access(here / "app" / "uroce", os.X_OK):
        print(f"tools/cross: {here}/app/uroce is missing: build uroce for this machine first, or name its directory with --here",
              file=sys.stderr)
        return 2
    if options.seeds:
        rows.append(run_seeds(processor, sysroot, where, here, options.seeds))
    if options.programs:
        rows.append(programs.run(processor, sysroot, where, here))
    if rows:
        print(tally.table(rows))
    print(f"took {time.monotonic() - start:.0f} s")
    return 1 if any(row.failed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
