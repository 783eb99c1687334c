/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - packet buffers, each of which holds the longest frame of a port. */
#pragma once

#include "io/dpdk/dpdk.h"

/* Creates a buffer pool. @room: octets of the longest frame. @held: number of buffers that the link
 * itself may hold at a time. @memory_mib: 0: no more memory than needed. Returns NULL when there is
 * no memory. */
struct rte_mempool *uro_pool_create(const char *name, uint32_t room, uint32_t held,
                                    uint32_t memory_mib);
