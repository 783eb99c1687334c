/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - captures DPDK's log: keeps errors for our own messages, and prints the log when
 * verbose. */
#pragma once

#include "base/defs.h"

/* Captures DPDK's log, which then no longer goes to stderr and syslog. Call this before
 * rte_eal_init(). */
void uro_log_capture(void);

/* Prints the log to stderr from now on. */
void uro_log_show(void);

/* Clears the stored error, so that the next stored error belongs to the next operation. */
void uro_log_forget(void);

/* Copies the first error since then to @out: one line without a line end, "" when there was
 * none. */
void uro_log_complaint(char *out, size_t size);
