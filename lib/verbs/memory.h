/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - may this process read, or write, a range? Asked before the range is registered. */
#pragma once

#include "base/defs.h"

/* True when the process may read (and, with @write, write) all of the range; its pages are faulted
 * in unless @lazy. Otherwise false with errno
 *   EFAULT  not mapped, not with these rights, or past the end of a file (not seen when @lazy)
 *   ENOMEM  the system has no memory for the pages
 * Never changes what the memory holds. */
bool uro_memory_usable(const void *at, size_t length, bool write, bool lazy);
