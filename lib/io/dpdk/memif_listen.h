/* SPDX-License-Identifier: BSD-3-Clause */
/* memif_listen.h - an orderly end for memif servers, which DPDK's driver does not have. */
#pragma once

#include "base/defs.h"

struct uro_link;

/* Around the plugging of a memif device, in the same thread: what listens is remembered for the
 * link. Callers serialise. */
void uro_memif_listen_begin(void);
void uro_memif_listen_end(const struct uro_link *link, bool plugged);

/* A server of the socket @path is about to stop. With the last one, nobody listens any more and
 * every client is gone when this returns. */
void uro_memif_listen_close(const char *path);
