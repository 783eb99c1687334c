/* SPDX-License-Identifier: BSD-3-Clause */
/* card_problem.h - why DPDK cannot use a network card, as Linux's sysfs and /dev show it. */
#pragma once

#include <stddef.h>

#include "base/defs.h"

/* Writes the reason why DPDK cannot use the card at the PCI address @link ("0000:00:05.0" or
 * "00:05.0", options may follow), with the remedy. @root: "", or a directory in place of the root
 * of the file system, for tests. Returns false when nothing is wrong, as far as files show it. */
URO_NODISCARD bool uro_card_problem(const char *root, const char *link, char *text, size_t size);
