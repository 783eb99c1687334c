/* SPDX-License-Identifier: BSD-3-Clause */
/* impair_page.h - the text of a plan in the page of a device, which other processes may change.
 *
 * By a sequence number, a reader knows whether the text has changed, and whether its copy is of one
 * text.
 */
#pragma once

#include "stats/layout.h"

/* Shows the first plan of a device: afterwards, other processes may change it. */
void uro_stats_impair_begin(struct uro_stats_impair *impair, const char *text);

/* Returns whether the text has changed since the sequence @seen. The call is fast enough for each
 * round of the engine. */
static inline bool uro_stats_impair_changed(const struct uro_stats_impair *impair, unsigned seen)
{
    return atomic_load_explicit(&impair->sequence, memory_order_acquire) != seen;
}

/* Copies the text, and sets *@seen to its sequence. Returns false if another process is writing
 * it. */
bool uro_stats_impair_read(const struct uro_stats_impair *impair, unsigned *seen,
                           char text[static URO_STATS_IMPAIR_MAX]);

/* Replaces the text. Several processes may do so at the same time. Waits about 1 s for a process
 * that was killed while it wrote. Returns the sequence of the new text, or 0 if the device has no
 * impair=. */
unsigned uro_stats_impair_write(struct uro_stats_impair *impair, const char *text);
