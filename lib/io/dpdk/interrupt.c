/* SPDX-License-Identifier: BSD-3-Clause */
/* interrupt.c - see interrupt.h. */
#include "io/dpdk/interrupt.h"

static bool set_polled(struct uro_interrupt *interrupt, bool polled)
{
    const bool changed = interrupt->polled != polled;

    interrupt->polled = polled;
    return changed;
}

bool uro_interrupt_slept(struct uro_interrupt *interrupt, bool arrived, bool frames)
{
    if (arrived) {
        interrupt->missed = 0;
        return set_polled(interrupt, false);
    }
    if (!frames || ++interrupt->missed < URO_INTERRUPT_MISSED_MAX)
        return false;
    interrupt->missed = 0;
    return set_polled(interrupt, true);
}

bool uro_interrupt_refused(struct uro_interrupt *interrupt)
{
    interrupt->missed = 0;
    return set_polled(interrupt, true);
}
