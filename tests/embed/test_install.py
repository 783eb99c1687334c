#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests an installed liburoce: builds programs with only the flags of pkg-config, and runs them without environment variables."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MESON_BUILD_ROOT", ROOT / "build"))
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SAMPLES = ROOT / "docs" / "samples"
FUNCTION = re.compile(r"\b(uroce_\w+)\(")

sys.path.insert(0, str(ROOT / "tools" / "lib" / "common"))
import patience  # noqa: E402


def call(command: list[str], **more) -> str:
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience.seconds(60), **more)
    if run.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.directory = tempfile.TemporaryDirectory(prefix="uroce-install-")
        cls.tree = pathlib.Path(cls.directory.name)
        call(["meson", "install", "-C", str(BUILD), "--no-rebuild", "--destdir", str(cls.tree)])
        cls.pc = next(cls.tree.rglob("uroce.pc"))
        cls.library = next(cls.tree.rglob("liburoce.so"))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.directory.cleanup()

    def flags(self, which: str) -> list[str]:
        env = {**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(self.tree)}
        return call(["pkg-config", which, "uroce"], env=env).split()

    def build(self, source: pathlib.Path, *libraries: str, compiler: str = "cc", more: tuple[str, ...] = ()) -> str:
        program = str(self.tree / source.stem)
        libs = list(libraries) or self.flags("--libs")
        call([compiler, *WARNINGS, *more, *self.flags("--cflags"), str(source), "-xnone", "-o", program, "-pthread",
              f"-Wl,-rpath,{self.library.parent}", *libs])
        return program

    def run_alone(self, program: str) -> str:
        return call([program], env={})

    def test_samples_in_c(self) -> None:
        for name, output in {"embed": "65536 bytes", "inprocess": "there and back"}.items():
            program = self.build(SAMPLES / f"{name}.c", more=("-std=gnu11",))
            self.assertIn(output, self.run_alone(program))

    def test_samples_in_cxx(self) -> None:
        for name in ["embed", "inprocess"]:
            self.run_alone(self.build(SAMPLES / f"{name}.c", compiler="c++", more=("-xc++", "-std=c++11")))

    def test_system_libraries_behind(self) -> None:
        where = [flag for flag in self.flags("--libs") if flag.startswith("-L")]
        program = self.build(SAMPLES / "inprocess.c", *where, "-Wl,--no-as-needed", "-luroce", "-libverbs", "-lrdmacm")
        self.assertIn("there and back", self.run_alone(program))

    def test_plug_ins_are_found(self) -> None:
        program = self.build(ROOT / "tests/embed/test_device.c", *self.flags("--libs"), "-lcmocka",
                             more=("-D_GNU_SOURCE", f"-I{ROOT / 'tests'}"))
        self.run_alone(program)

    def test_symbols_are_those_of_the_headers(self) -> None:
        promised = {name for header in (ROOT / "include/uroce").glob("*.h")
                    for name in FUNCTION.findall(re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S))}
        exported = [line.split()[-1] for line in call(["nm", "-D", "--defined-only", str(self.library)]).splitlines()]
        own = {name.split("@@")[0] for name in exported if name.endswith("@@UROCE_0.1")}
        self.assertEqual(own, promised)
        others = [name for name in exported if "IBVERBS_" not in name and "UROCE_0.1" not in name]
        self.assertEqual(others, [])

    def test_headers_are_installed(self) -> None:
        self.assertEqual({path.name for path in self.tree.rglob("include/uroce/*.h")},
                         {path.name for path in (ROOT / "include/uroce").glob("*.h")})


if __name__ == "__main__":
    unittest.main()
