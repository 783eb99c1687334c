/* SPDX-License-Identifier: BSD-3-Clause */
/* mbuf.c - see mbuf.h. */
#include "io/dpdk/mbuf.h"

#include <stdbool.h>

#include <rte_ether.h>

#define REMOVED (RTE_MBUF_F_RX_VLAN_STRIPPED | RTE_MBUF_F_RX_QINQ_STRIPPED)

static bool restore(struct rte_mbuf *mbuf)
{
    if (mbuf->nb_segs > 1 && rte_pktmbuf_linearize(mbuf) != 0)
        return false;
    if ((mbuf->ol_flags & REMOVED) == 0)
        return true;
    /* A device has at most one tag. A frame with two tags is not for it. */
    return (mbuf->ol_flags & RTE_MBUF_F_RX_QINQ_STRIPPED) == 0 && rte_vlan_insert(&mbuf) == 0;
}

uint16_t uro_mbuf_restore(struct rte_mbuf **mbufs, uint16_t count, uint64_t *dropped)
{
    uint16_t kept = 0;

    for (uint16_t i = 0; i < count; i++) {
        if (restore(mbufs[i])) {
            mbufs[kept++] = mbufs[i];
            continue;
        }
        rte_pktmbuf_free(mbufs[i]);
        (*dropped)++;
    }
    return kept;
}
