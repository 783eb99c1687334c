/* SPDX-License-Identifier: BSD-3-Clause */
/* interrupt.h - finds out whether the receive interrupts of a device arrive.
 *
 * A driver of DPDK may accept the request for interrupts, although none arrives. The driver of
 * e1000e enables the interrupt, but does not map it to a vector (DPDK 22.11 to 26.07). The host
 * would sleep, and find frames only when its timers expire.
 */
#pragma once

#include <stdint.h>

#include "base/defs.h"

/* After this many sleeps in a row that leave frames without an interrupt, the host polls. A single
 * such sleep is usual: the host woke for another reason, and the interrupt was on its way. */
#define URO_INTERRUPT_MISSED_MAX 8u

struct uro_interrupt {
    uint32_t missed; /* sleeps in a row that left frames without an interrupt */
    bool polled;     /* the host must poll, because interrupts are missing */
};

/* Updates the state after a sleep. @arrived: an interrupt arrived. @frames: frames are waiting.
 * Returns whether `polled` changed. */
bool uro_interrupt_slept(struct uro_interrupt *interrupt, bool arrived, bool frames);

/* Updates the state after the driver refused an interrupt. The host then polls until an interrupt
 * arrives. Returns whether `polled` changed. */
bool uro_interrupt_refused(struct uro_interrupt *interrupt);
