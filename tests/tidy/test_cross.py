#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests tools/cross: its messages when something is missing, its file for meson, and how it counts the emulator's failures."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools" / "lib"
sys.path[:0] = [str(TOOLS / name) for name in ("common", "cross")]
import cross_run  # noqa: E402
import emulator  # noqa: E402
import pairs  # noqa: E402
import programs  # noqa: E402
import roots  # noqa: E402
import tally  # noqa: E402

ARM = roots.PROCESSORS["arm64"]


class PlainUser(unittest.TestCase):
    def drop(self, *statuses: int) -> list[str]:
        runs = [mock.Mock(returncode=status) for status in statuses]
        with mock.patch("os.geteuid", return_value=0), mock.patch("shutil.which", return_value="/usr/bin/setpriv"), \
                mock.patch("subprocess.run", side_effect=runs):
            return pairs.plain_user(*(pathlib.Path(str(number)) for number in range(len(statuses))))

    def test_programs_run_as_nobody_only_if_nobody_can_read_all_their_files(self) -> None:
        self.assertEqual(self.drop(0, 0)[0], "setpriv")
        self.assertEqual(self.drop(0, 1), [])

    def test_emulated_programs_need_their_root_directory(self) -> None:
        pair = programs.Mixed(pathlib.Path("u"), foreign_uroce=pathlib.Path("f"), sysroot=pathlib.Path("s"))
        self.assertEqual([str(path) for path in pair.files()], ["u", "f", "s"])


class Missing(unittest.TestCase):
    def why(self, uid: int = 0, machine: str = "x86_64", program: str | None = "/usr/bin/it") -> str:
        with mock.patch("os.geteuid", return_value=uid), mock.patch("platform.machine", return_value=machine), \
                mock.patch("shutil.which", return_value=program), self.assertRaises(roots.Unavailable) as caught:
            roots.check(ARM)
        return str(caught.exception)

    def test_user_without_root_skips_with_the_reason(self) -> None:
        self.assertIn("run `sudo tools/cross", self.why(uid=1000))

    def test_other_machine_skips_with_the_reason(self) -> None:
        self.assertIn("this machine is aarch64", self.why(machine="aarch64"))

    def test_missing_compiler_skips_with_the_reason(self) -> None:
        self.assertEqual(self.why(program=None), "aarch64-linux-gnu-gcc is missing: run `tools/setup-packages cross`")

    def test_kernel_without_binfmt_skips_with_the_reason(self) -> None:
        with tempfile.TemporaryDirectory() as empty, mock.patch.object(roots, "BINFMT", pathlib.Path(empty)), \
                mock.patch.object(roots, "mount_binfmt"), mock.patch("shutil.which", return_value=None), \
                self.assertRaisesRegex(roots.Unavailable, "mount binfmt_misc"):
            roots.register(ARM)

    def test_unpacking_that_fails_leaves_no_root(self) -> None:
        with tempfile.TemporaryDirectory() as cache, mock.patch("subprocess.run") as run, mock.patch("builtins.print"), \
                self.assertRaisesRegex(roots.Unavailable, "whole output is in"):
            run.return_value.returncode = 1
            roots.make(ARM, pathlib.Path(cache))
        run.assert_called_once()

    def test_existing_root_is_kept(self) -> None:
        with tempfile.TemporaryDirectory() as cache, mock.patch("subprocess.run") as run:
            root = pathlib.Path(cache) / "arm64"
            root.mkdir()
            (root / ".uroce-packages").write_text(" ".join((roots.RELEASE, *ARM.packages)) + "\n")
            self.assertEqual(roots.make(ARM, pathlib.Path(cache)), root)
        run.assert_not_called()


class Description(unittest.TestCase):
    def test_byte_order_and_compiler_are_those_of_the_processor(self) -> None:
        text = cross_run.cross_file(roots.PROCESSORS["s390x"], pathlib.Path("/root"))
        for line in ("endian = 'big'", "cpu_family = 's390x'", "c_args = ['--sysroot=/root']",
                     "exe_wrapper = ['qemu-s390x-static', '-L', '/root']"):
            self.assertIn(line, text.splitlines())


class Excuses(unittest.TestCase):
    LIST = "# a comment\nio/test_a:*  aio\nio/test_b:case__x  preadv2\n"

    def excuse(self, lacks: set[str], *failed: str) -> tally.Row:
        with tempfile.NamedTemporaryFile("w+") as file, mock.patch.object(emulator, "LIST", pathlib.Path(file.name)):
            file.write(self.LIST)
            file.flush()
            return emulator.excuse(tally.Row("arm64", "unit", failed=list(failed)), lacks)

    def test_listed_case_is_skipped_with_its_probe(self) -> None:
        row = self.excuse({"aio"}, "io/test_a: case__y\n      more")
        self.assertEqual((row.failed, row.skipped), ([], ["io/test_a:case__y (the emulator lacks aio)"]))

    def test_probe_that_works_excuses_nothing(self) -> None:
        self.assertEqual(self.excuse({"preadv2"}, "io/test_a: case__y").failed, ["io/test_a: case__y"])

    def test_other_case_stays_failed(self) -> None:
        self.assertEqual(self.excuse({"aio", "preadv2"}, "io/test_b: case__z").failed, ["io/test_b: case__z"])

    def test_line_without_probe_is_an_error(self) -> None:
        with self.assertRaisesRegex(ValueError, "TEST:CASE PROBE"):
            emulator.excuses("io/test_a:*\n")

    def test_lacking_has_the_probes_that_only_the_emulator_fails(self) -> None:
        given = [{"aio": True, "new": False, "both": True}, {"aio": False, "new": False, "both": True}]
        with mock.patch.object(emulator, "answers", side_effect=given):
            self.assertEqual(emulator.lacking(ARM, pathlib.Path("/root"), pathlib.Path("/build")), {"aio"})

    def test_list_of_the_tree_names_probes(self) -> None:
        probes = emulator.PROBES.read_text()
        for entry in emulator.excuses(emulator.LIST.read_text()):
            self.assertIn(f'"{entry.probe}"', probes)


class Seeds(unittest.TestCase):
    def failed(self, processor: str, *lines: str) -> list[str]:
        with mock.patch.object(cross_run, "last_line", side_effect=lines):
            return cross_run.run_seeds(roots.PROCESSORS[processor], pathlib.Path(), pathlib.Path(), pathlib.Path(), 1).failed

    def test_digest_must_be_that_of_this_machine(self) -> None:
        self.assertEqual(self.failed("arm64", "seed 1: passed, digest 1", "seed 1: passed, digest 1"), [])
        self.assertEqual(len(self.failed("arm64", "seed 1: passed, digest 1", "seed 1: passed, digest 2")), 1)

    def test_other_byte_order_must_pass(self) -> None:
        self.assertEqual(self.failed("s390x", "seed 1: passed, digest 1"), [])
        self.assertEqual(len(self.failed("s390x", "seed 1: FAILED")), 1)


class Figures(unittest.TestCase):
    def test_result_is_the_last_line_with_figures(self) -> None:
        self.assertEqual(programs.result(" #bytes #iterations\n 65536  1000   15.08  13.41\n---\nDevice not recognized\n"),
                         "65536 1000 15.08 13.41")
        self.assertEqual(programs.result("200 iters in 0.90 seconds\n"), "200 iters in 0.90 seconds")
        self.assertEqual(programs.result("failed\n"), "no figures")


if __name__ == "__main__":
    unittest.main()
