# SPDX-License-Identifier: BSD-3-Clause
"""Time limits of tests: how long a test waits before it assumes that a program hangs, on this
machine at this moment.

A time limit of a test guards against hanging and measures nothing. A limit is the worst case of an idle machine, in
seconds. factor() multiplies it. tests/support/patience.h is the same in C. UROCE_TEST_PATIENCE sets the factor by hand.
"""
import os

VARIABLE = "UROCE_TEST_PATIENCE"
FLOOR = 5.0  # the load may rise right after it was measured


def factor() -> float:
    """Returns the factor: at least FLOOR, and twice the number of processes per processor."""
    try:
        return max(1.0, float(os.environ[VARIABLE]))
    except (KeyError, ValueError):
        return max(FLOOR, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def seconds(limit: float) -> float:
    """Returns @limit seconds of an idle machine, multiplied by the factor."""
    return limit * factor()
