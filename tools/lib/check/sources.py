# SPDX-License-Identifier: BSD-3-Clause
"""Functions for the checks: list the files of the tree, and remove comments from C text."""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

SKIP_DIRS = re.compile(r"^(build[^/]*|\.git|__pycache__|corpus)$")


def files(root: pathlib.Path, *patterns: str) -> list[pathlib.Path]:
    """Returns the files below root whose path from root matches a pattern (* crosses slashes),
    sorted.

    In a git work tree, files that git ignores are left out.
    """
    found = []
    for directory, inner, names in os.walk(root):
        # Build directories are skipped. They may be large, and a build may change them during the check.
        inner[:] = [name for name in inner if not SKIP_DIRS.match(name)]
        for name in names:
            path = pathlib.Path(directory, name)
            rel = path.relative_to(root).as_posix()
            if any(fnmatch.fnmatch(rel, pattern) for pattern in patterns) and path.is_file():
                found.append(path)
    return not_ignored(root, sorted(found))


def not_ignored(root: pathlib.Path, paths: list[pathlib.Path]) -> list[pathlib.Path]:
    if not (root / ".git").exists() or not paths:
        return paths
    names = "\0".join(str(p.relative_to(root)) for p in paths)
    git = subprocess.run(["git", "-C", str(root), "check-ignore", "-z", "--stdin"],
                         input=names, capture_output=True, text=True, check=False)
    ignored = set(git.stdout.split("\0"))
    return [p for p in paths if str(p.relative_to(root)) not in ignored]


def c_files(root: pathlib.Path, *dirs: str) -> list[pathlib.Path]:
    return [p for p in files(root, "*.c", "*.h")
            if p.relative_to(root).parts[0] in (dirs or ("lib", "app", "tests", "include"))]


TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def _blank(match: re.Match) -> str:
    text = match.group(0)
    if text[0] in "\"'":
        return text[0] + re.sub(r"[^\n]", " ", text[1:-1]) + text[0]
    return re.sub(r"[^\n]", " ", text)


def code_only(text: str) -> str:
    """Returns C text with spaces instead of comments and the contents of strings. The length of the text does not change."""
    return TOKEN.sub(_blank, text)


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class Report:
    """Collects findings. finish() prints them and returns the exit status."""

    def __init__(self) -> None:
        self.bad: list[str] = []

    def add(self, path: pathlib.PurePath | str, line: int | None, message: str) -> None:
        self.bad.append(f"{path}:{line}: {message}" if line else f"{path}: {message}")

    def finish(self, subject: str) -> int:
        for message in self.bad:
            print(message)
        if self.bad:
            print(f"{len(self.bad)} to mend ({subject})")
            return 1
        print(f"fine: {subject}")
        return 0


def root_argument() -> pathlib.Path:
    """Returns the first argument that is not an option, or the tree that contains this file."""
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    return pathlib.Path(names[0]) if names else pathlib.Path(__file__).resolve().parents[3]
