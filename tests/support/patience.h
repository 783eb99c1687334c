/* SPDX-License-Identifier: BSD-3-Clause */
/* patience.h - time limits of tests: how long a test waits before it assumes that a program hangs.
 * A limit only guards against hanging and measures nothing. The author of a test writes the worst
 * case of an idle machine. This limit is multiplied by a factor for the load of the machine, or
 * by UROCE_TEST_PATIENCE. tools/lib/common/patience.py does the same in Python, without a largest
 * factor. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_FLOOR 5.0   /* smallest factor, because the load may rise after it was measured */
#define PATIENCE_MOST  100.0 /* largest factor */

/* getloadavg() needs _DEFAULT_SOURCE, which not every test defines. */
int getloadavg(double loads[], int count);

static inline double patience_factor(void)
{
    const char *by_hand = getenv("UROCE_TEST_PATIENCE");
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    double load = 0, factor;

    if (by_hand != NULL && strtod(by_hand, NULL) >= 1)
        factor = strtod(by_hand, NULL);
    else if (getloadavg(&load, 1) == 1 && processors > 0 &&
             2 * load / (double)processors > PATIENCE_FLOOR)
        factor = 2 * load / (double)processors;
    else
        factor = PATIENCE_FLOOR;
    return factor < PATIENCE_MOST ? factor : PATIENCE_MOST;
}

/* Returns @limit, which is for an idle machine, multiplied by the factor, in the same unit. */
static inline unsigned patience(unsigned limit)
{
    return (unsigned)(limit * patience_factor());
}
