/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_listen.h - the listening socket of memif servers: DPDK's driver opens it for good. */
#pragma once

#include "base/defs.h"

struct uro_link;

/* Around the plugging of a memif device, in the same thread: what listens is remembered for the
 * link. Callers serialise. */
void uro_memif_listen_begin(void);
void uro_memif_listen_end(const struct uro_link *link, bool plugged);

/* A server of the socket @path closes; the last one stops listening. Before its device goes. */
void uro_memif_listen_close(const char *path);
