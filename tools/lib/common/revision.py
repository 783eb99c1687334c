# SPDX-License-Identifier: BSD-3-Clause
"""What a recorded result is of."""
import datetime
import pathlib
import subprocess


def today(root: pathlib.Path) -> tuple[str, str]:
    """The date, and the commit of the tree; "-dirty" when it is not quite that."""
    git = subprocess.run(["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"],
                         capture_output=True, text=True, check=False)
    return datetime.date.today().isoformat(), git.stdout.strip() or "unknown"
