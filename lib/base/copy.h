/* SPDX-License-Identifier: BSD-3-Clause */
/* copy.h - copying into memory that somebody looks at meanwhile. */
#pragma once

#include "base/defs.h"

/* Copies @length octets from @from to @to, which do not overlap, in ascending order: another thread
 * that sees an octet sees all before it (when it looks in descending order, as from a flag at the
 * end to the data). memcpy() promises nothing of that and, for one, writes the first octets of a
 * long range last. An aligned word of 8 octets is seen whole. */
void uro_copy_in_order(void *restrict to, const void *restrict from, size_t length);
