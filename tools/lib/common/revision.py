# SPDX-License-Identifier: BSD-3-Clause
"""The revision and date of a recorded result."""
import datetime
import pathlib
import subprocess


def today(root: pathlib.Path) -> tuple[str, str]:
    """Returns the date, and the commit of the tree with "-dirty" added if files differ from the commit."""
    git = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"],
                         capture_output=True, text=True, check=False)
    return datetime.date.today().isoformat(), git.stdout.strip() or "unknown"
