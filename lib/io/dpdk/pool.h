/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - packet buffers: every frame of a port fits into one, in one piece. */
#pragma once

#include "io/dpdk/dpdk.h"

/* @room: octets of the longest frame. @held: buffers the link itself may hold at a time.
 * @memory_mib: 0 for no more than needed. Returns NULL when memory ran out. */
struct rte_mempool *uro_pool_create(const char *name, uint32_t room, uint32_t held,
                                    uint32_t memory_mib);
