#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests the stage of another Debian release. Tests that did not run must count as skipped or failed, not as passed."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "tools" / "lib" / name) for name in ("common", "check")]
import release  # noqa: E402
import tally  # noqa: E402

LISTED = [{"name": "a", "suite": ["uroce:unit"]}, {"name": "b", "suite": ["uroce:scenario"]}, {"name": "c", "suite": ["uroce:api"]}]
# A script in place of in_release. It makes the files of a build in which only some tests have results.
BUILT = """mkdir -p $2/build/meson-info $2/build/meson-logs
cat >$2/build/meson-info/intro-tests.json <<'END'
{listed}
END
cat >$2/build/meson-logs/testlog.json <<'END'
{results}
END
printf '{programs}' >$2/programs.tap
"""


def result(name: str) -> str:
    return json.dumps({"name": name, "result": "OK", "stdout": "", "stderr": ""})


def run(script: str, codename: str = "trixie") -> tuple[dict[str, tally.Row], str]:
    """Runs the stage with @script as in_release. Returns the rows and the output."""
    with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as where:
        stub = pathlib.Path(where) / "tools" / "lib" / "check" / "in_release"
        stub.parent.mkdir(parents=True)
        stub.write_text(f"#!/bin/sh\nset -eu\n{script}")
        stub.chmod(0o755)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            rows = release.stage(pathlib.Path(where), codename)
    return {row.suite: row for row in rows}, out.getvalue()


def built(results: list[str], programs: str) -> dict[str, tally.Row]:
    return run(BUILT.format(listed=json.dumps(LISTED), results="\n".join(results), programs=programs))[0]


class Release(unittest.TestCase):
    def test_missing_root_directory_is_skipped_with_a_reason(self) -> None:
        rows, said = run("echo working; echo 'no mirror'; exit 77\n")
        self.assertEqual((rows["build"].passed, rows["build"].failed, rows["build"].skipped), (0, [], ["all: no mirror"]))
        self.assertIn("SKIPPED: nothing was built or run on trixie: no mirror", said)

    def test_a_failed_build_fails(self) -> None:
        rows, said = run("echo 'error: x'; echo 'does not build'; exit 1\n")
        self.assertEqual(rows["build"].failed, ["does not build"])
        self.assertIn("error: x", said)

    def test_a_failure_on_unstable_is_a_warning(self) -> None:
        rows, said = run("echo 'error: x'; echo 'does not build'; exit 1\n", "sid")
        self.assertEqual((rows["build"].failed, rows["build"].warned), ([], ["does not build"]))
        self.assertIn("error: x", said)
        self.assertIn("WARNED, failed where a failure is allowed:\n  sid build: does not build", tally.table(list(rows.values())))
        rows, said = run("echo 'no mirror'; exit 77\n", "sid")
        self.assertEqual(rows["build"].skipped, ["all: no mirror"])
        self.assertIn("SKIPPED: nothing was built or run on sid: no mirror", said)

    def test_results_are_counted(self) -> None:
        rows = built([result("uroce:unit / a"), result("uroce:scenario / b")], "1..2\\nok 1 - x\\nok 2 - y # SKIP absent\\n")
        self.assertEqual({suite: (row.passed, row.failed, row.skipped) for suite, row in rows.items()},
                         {"tidy": (0, [], ["the suite is empty"]), "unit": (1, [], []), "scenario": (1, [], []),
                          "sim": (0, [], ["the suite is empty"]), "programs": (1, [], ["programs: y (absent)"])})

    def test_a_test_or_program_that_did_not_run_failed(self) -> None:
        rows = built([result("uroce:unit / a")], "1..2\\nok 1 - x\\n")
        self.assertEqual(rows["scenario"].failed, ["b: left no result"])
        self.assertEqual(rows["programs"].failed, ["programs: 1 of 2 cases never ran (OK)"])
        self.assertEqual(len(built([result("uroce:unit / a")], "")["programs"].failed), 1)

    def test_missing_mirror_is_the_reason_for_no_root_directory(self) -> None:
        with tempfile.TemporaryDirectory(prefix="uroce-tidy-") as where:
            done = subprocess.run([ROOT / "tools/lib/check/in_release", "trixie", where], capture_output=True, text=True, check=False,
                                  env={**os.environ, "UROCE_MIRROR": "http://127.0.0.1:9/debian"})
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertRegex(done.stdout.splitlines()[-1], "not root|not installed|no mount namespaces|cannot be reached")


if __name__ == "__main__":
    unittest.main()
