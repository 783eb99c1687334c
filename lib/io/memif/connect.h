/* SPDX-License-Identifier: BSD-3-Clause */
/* connect.h - connects and disconnects the two sides of a memif. Nothing here waits. */
#pragma once

#include "io/memif/memif.h"

/* Advances the connection: connects, handles messages, and disconnects when the other side has gone
 * or broken the protocol. Does nothing while frames are lent, because they are in the shared
 * memory. */
void uro_memif_tend(struct uro_memif *memif);

int64_t uro_memif_now_ms(void);

/* Ends the connection, if there is one, and sends @reason to the other side. */
void uro_memif_leave(struct uro_memif *memif, const char *reason);
/* Closes a forked child's copy of the connection. The parent continues to use it, and the other
 * side notices nothing. */
void uro_memif_leave_forked(struct uro_memif *memif);
