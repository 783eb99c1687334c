/* SPDX-License-Identifier: BSD-3-Clause */
/* patience.h - how long a test waits before it takes something for hung: tools/lib/common/patience.py in C.
 *
 * A limit guards against hanging and measures nothing. It is written as what an idle machine could need in the worst
 * case, and is stretched by the load of the machine, or by UROCE_TEST_PATIENCE. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define PATIENCE_FLOOR 5.0 /* load can begin right after it was looked at */
#define PATIENCE_MOST  100.0

/* getloadavg() is in _DEFAULT_SOURCE, which not every test asks for. */
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

/* @limit of an idle machine, stretched; the unit stays. */
static inline unsigned patience(unsigned limit)
{
    return (unsigned)(limit * patience_factor());
}
