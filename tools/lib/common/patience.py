# SPDX-License-Identifier: BSD-3-Clause
"""Time limits of tests: how long a test waits before it assumes that a program hangs. They depend on the load of the machine.

A time limit only guards against hanging and measures nothing. The author of a test writes the worst case of an idle machine, in
seconds. Each limit is multiplied by factor(). tests/support/patience.h does the same in C, but limits the factor to 100.
"""
import os

VARIABLE = "UROCE_TEST_PATIENCE"
FLOOR = 5.0  # smallest factor, because the load may rise right after it was measured


def factor() -> float:
    """Returns the factor: twice the load average per processor, but at least FLOOR. UROCE_TEST_PATIENCE overrides it."""
    try:
        return max(1.0, float(os.environ[VARIABLE]))
    except (KeyError, ValueError):
        return max(FLOOR, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def seconds(limit: float) -> float:
    """Returns @limit, which is for an idle machine, multiplied by the factor."""
    return limit * factor()
