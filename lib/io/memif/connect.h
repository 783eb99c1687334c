/* SPDX-License-Identifier: BSD-3-Clause */
/* connect.h - how the two sides of a memif find each other, and part. Nothing here waits. */
#pragma once

#include "io/memif/memif.h"

/* Does what there is to do: connects, hears the other side, leaves it when it is gone or broke a
 * rule. Nothing while frames are lent: they are in the memory of both. */
void uro_memif_tend(struct uro_memif *memif);

int64_t uro_memif_now_ms(void);

/* Ends the connection, if there is one; @reason is told to the other side. */
void uro_memif_leave(struct uro_memif *memif, const char *reason);
/* In a forked child: gives up the copy of the connection. The parent goes on with it, and the other
 * side sees nothing. */
void uro_memif_leave_forked(struct uro_memif *memif);
