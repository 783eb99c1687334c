/* SPDX-License-Identifier: BSD-3-Clause */
/* log.h - what DPDK has to say: kept for our own error sentences, shown when asked for. */
#pragma once

#include "base/defs.h"

/* Takes DPDK's log over, away from stderr and syslog. Before rte_eal_init(). */
void uro_log_capture(void);

/* Lets the log through to stderr, from now on. */
void uro_log_show(void);

/* Forgets the last complaint, so that a later one belongs to what is done next. */
void uro_log_forget(void);

/* The first complaint since then, one line without a line end; "" when there was none. */
void uro_log_complaint(char *out, size_t size);
