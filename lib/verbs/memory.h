/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - may this process read, or write, a range? */
#pragma once

#include "base/defs.h"

/* True when the process may read (and, with @write, write) all of the range; its pages are then
 * there. Otherwise false with errno
 *   EFAULT  not mapped, not with these rights, or past the end of a file
 *   ENOMEM  the system has no memory for the pages
 * Never changes what the memory holds. */
bool uro_memory_usable(const uint8_t *at, uint64_t length, bool write);
