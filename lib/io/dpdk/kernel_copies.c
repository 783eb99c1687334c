/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_copies.c - see dpdk.h. */
#include "io/dpdk/dpdk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "io/packet/socket.h"

#define SLOT  2048u /* bytes of a slot, like framesz= of af_packet */
#define SLOTS 128u

int uro_control_open(struct uro_control *control, int interface, bool alien)
{
    *control = URO_CONTROL_INIT;
    control->fd = uro_packet_socket();
    if (control->fd < 0)
        return control->fd;
    uro_packet_socket_teach(control->fd, interface, alien, false);
    int result = uro_packet_ring_open(&control->ring, control->fd, SLOT, SLOTS, 0, false);
    if (result == 0)
        result = uro_packet_socket_bind(control->fd, interface);
    if (result != 0)
        uro_control_close(control);
    return result;
}

void uro_control_close(struct uro_control *control)
{
    if (control->ring.memory != NULL)
        uro_packet_ring_close(&control->ring);
    if (control->fd >= 0)
        (void)close(control->fd);
    *control = URO_CONTROL_INIT;
}

static struct rte_mbuf *copy(const struct uro_packet_slot *slot, struct rte_mempool *pool)
{
    const bool whole = slot->segment == 0 && !slot->odd && slot->here == slot->length;
    struct rte_mbuf *mbuf = whole ? rte_pktmbuf_alloc(pool) : NULL;

    if (mbuf == NULL)
        return NULL;
    if (slot->length > rte_pktmbuf_tailroom(mbuf)) {
        rte_pktmbuf_free(mbuf);
        return NULL;
    }
    memcpy(rte_pktmbuf_mtod(mbuf, uint8_t *), slot->frame, slot->length);
    rte_pktmbuf_data_len(mbuf) = (uint16_t)slot->length;
    rte_pktmbuf_pkt_len(mbuf) = slot->length;
    return mbuf;
}

uint16_t uro_control_take(struct uro_control *control, struct rte_mempool *pool,
                          struct rte_mbuf **mbufs, uint32_t max)
{
    struct uro_packet_slot slot;
    uint16_t count = 0;

    while (count < max && uro_packet_ring_take(&control->ring, &slot)) {
        mbufs[count] = copy(&slot, pool);
        if (mbufs[count] != NULL)
            count++;
        uro_packet_ring_give(&control->ring, 1);
    }
    return count;
}
