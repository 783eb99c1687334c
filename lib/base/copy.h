/* SPDX-License-Identifier: BSD-3-Clause */
/* copy.h - copies into memory that another thread reads meanwhile. */
#pragma once

#include "base/defs.h"

/* Copies @length bytes from @from to @to, which do not overlap, in ascending order. Another thread
 * that sees a byte then also sees all bytes before it, if it reads in descending order, for example
 * first a flag at the end and then the data before it. memcpy() does not promise this: it may write
 * the first bytes of a long range last. Another thread never sees a part of an aligned word of 8
 * bytes in the range. */
void uro_copy_in_order(void *restrict to, const void *restrict from, size_t length);
