/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c - packet buffers, each of which holds the longest frame of a port. */
#include "io/dpdk/pool.h"

#include <stdio.h>

#include <rte_lcore.h>

#define CACHE 256u

/* Buffers in addition to those that the link holds: lent to the engine, waiting to be sent,
 * cached. */
#define SPARE 1024u

struct rte_mempool *uro_pool_create(const char *name, uint32_t room, uint32_t held,
                                    uint32_t memory_mib)
{
    uint32_t each = room + RTE_PKTMBUF_HEADROOM;
    uint64_t affordable = ((uint64_t)memory_mib << 20) / (each + sizeof(struct rte_mbuf) + 64);
    uint32_t count = held + SPARE;
    char unique[RTE_MEMPOOL_NAMESIZE];

    if (memory_mib != 0 && affordable > count)
        count = affordable < UINT16_MAX ? (uint32_t)affordable : UINT16_MAX;
    snprintf(unique, sizeof unique, "%.20s", name);
    return rte_pktmbuf_pool_create(unique, count, CACHE, 0, (uint16_t)each, (int)rte_socket_id());
}
