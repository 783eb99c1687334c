/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - receives and sends frames: the port operations of the data path.
 *
 * DPDK keeps a cache of free buffers for each of its logical cores, last in first out, so that a
 * buffer is used again while it is still in the CPU's caches. The threads that call this port
 * belong to the program and are not logical cores of DPDK. Without a logical core, a thread would
 * take every buffer from a ring that cycles through the whole pool (measured: 3 times slower at 64
 * bytes, 2 times at 4096). So the thread that calls a port becomes the logical core of that port
 * for the duration of the call. Only one thread calls a port at a time.
 */
#include "io/dpdk/dpdk.h"
#include "io/dpdk/mbuf.h"

#include <string.h>

#include <rte_lcore.h>

/* Number of receive() calls without a frame between checks of the link, which may need to
 * reconnect. */
#define LOOK_EVERY 1024u

/* Shortest Ethernet frame without FCS. NICs may pad shorter frames with leftover data. */
#define SHORTEST 60u

static_assert(1 + RTE_MAX_ETHPORTS < RTE_MAX_LCORE, "every port has a logical core of its own");

static unsigned enter(const struct uro_dpdk *dpdk)
{
    unsigned before = RTE_PER_LCORE(_lcore_id);

    RTE_PER_LCORE(_lcore_id) = 1u + dpdk->id; /* logical core 0 is the thread that started DPDK */
    return before;
}

static void leave(unsigned before)
{
    RTE_PER_LCORE(_lcore_id) = before;
}

static uint16_t burst(struct uro_dpdk *dpdk, struct rte_mbuf **mbufs, uint32_t max)
{
    uint16_t count;

    if (dpdk->source.trigger != NULL)
        dpdk->source.trigger(0);
    count = rte_eth_rx_burst(dpdk->id, 0, mbufs, (uint16_t)max);
    count = uro_mbuf_restore(mbufs, count, &dpdk->counters.rx_dropped);
    if (dpdk->control.fd >= 0 && count < max)
        count += uro_control_take(&dpdk->control, dpdk->pool, mbufs + count, max - count);
    if (count == 0 && ++dpdk->idle % LOOK_EVERY == 0)
        uro_port_link_up(&dpdk->port);
    return count;
}

static uint32_t take_stash(struct uro_dpdk *dpdk, struct rte_mbuf **mbufs, uint32_t max)
{
    uint32_t count = dpdk->stash_count < max ? dpdk->stash_count : max;

    memcpy(mbufs, dpdk->stash, count * sizeof mbufs[0]);
    dpdk->stash_count -= count;
    memmove(dpdk->stash, dpdk->stash + count, dpdk->stash_count * sizeof mbufs[0]);
    return count;
}

uint32_t uro_queue_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);
    struct rte_mbuf *mbufs[URO_PORT_BURST];
    uint32_t limit = max < URO_PORT_BURST ? max : URO_PORT_BURST;
    uint32_t count = 0;

    if (dpdk->stash_count > 0)
        count = take_stash(dpdk, mbufs, limit);
    if (count < limit) {
        unsigned core = enter(dpdk);
        count += burst(dpdk, mbufs + count, limit - count);
        leave(core);
    }

    for (uint32_t i = 0; i < count; i++)
        pkts[i] = (struct uro_pkt){ .octets = rte_pktmbuf_mtod(mbufs[i], const uint8_t *),
                                    .length = rte_pktmbuf_data_len(mbufs[i]),
                                    .owner = mbufs[i] };
    return count;
}

void uro_queue_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    struct rte_mbuf *mbufs[URO_PORT_BURST];
    unsigned core = enter(uro_dpdk_of(port));

    while (count > 0) {
        uint32_t now = count < URO_PORT_BURST ? count : URO_PORT_BURST;

        for (uint32_t i = 0; i < now; i++)
            mbufs[i] = pkts[i].owner;
        rte_pktmbuf_free_bulk(mbufs, now);
        pkts += now;
        count -= now;
    }
    leave(core);
}

bool uro_queue_peek(struct uro_dpdk *dpdk)
{
    if (dpdk->stash_count == 0) {
        unsigned core = enter(dpdk);
        dpdk->stash_count = burst(dpdk, dpdk->stash, URO_PORT_BURST);
        leave(core);
    }
    return dpdk->stash_count > 0;
}

static void drop_backlog(struct uro_dpdk *dpdk)
{
    rte_pktmbuf_free_bulk(dpdk->backlog, dpdk->backlog_count);
    dpdk->counters.tx_dropped += dpdk->backlog_count;
    dpdk->backlog_count = 0;
}

static void flush(struct uro_dpdk *dpdk)
{
    uint16_t sent = rte_eth_tx_burst(dpdk->id, 0, dpdk->backlog, (uint16_t)dpdk->backlog_count);

    dpdk->backlog_count -= sent;
    if (dpdk->backlog_count == 0)
        return;
    if (sent == 0 && !uro_port_link_up(&dpdk->port)) {
        drop_backlog(dpdk);
        return;
    }
    memmove(dpdk->backlog, dpdk->backlog + sent, dpdk->backlog_count * sizeof dpdk->backlog[0]);
}

uint32_t uro_queue_tx_free_count(struct uro_port *port)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);

    if (dpdk->backlog_count > 0) {
        unsigned core = enter(dpdk);
        flush(dpdk);
        leave(core);
    }
    return URO_DPDK_BACKLOG_MAX - dpdk->backlog_count;
}

static struct rte_mbuf *write_frame(struct uro_dpdk *dpdk, const struct uro_tx *frame)
{
    uint32_t length = uro_tx_length(frame);
    struct rte_mbuf *mbuf = NULL;

    if (length <= dpdk->frame_max)
        mbuf = rte_pktmbuf_alloc(dpdk->pool);
    if (mbuf == NULL) {
        dpdk->counters.tx_dropped++;
        return NULL;
    }
    uint8_t *octets = rte_pktmbuf_mtod(mbuf, uint8_t *);
    uro_tx_write(frame, octets);
    if (length < SHORTEST) {
        memset(octets + length, 0, SHORTEST - length);
        length = SHORTEST;
    }
    rte_pktmbuf_data_len(mbuf) = (uint16_t)length;
    rte_pktmbuf_pkt_len(mbuf) = length;
    return mbuf;
}

void uro_queue_transmit(struct uro_port *port, const struct uro_tx *frames, uint32_t count)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);

    /* Without a link, some drivers would keep the frames and send them much later. */
    if (!dpdk->up && !uro_port_link_up(port)) {
        dpdk->counters.tx_dropped += count;
        return;
    }
    unsigned core = enter(dpdk);
    for (uint32_t i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = write_frame(dpdk, &frames[i]);

        if (mbuf == NULL)
            continue;
        URO_ASSERT(dpdk->backlog_count < URO_DPDK_BACKLOG_MAX);
        dpdk->backlog[dpdk->backlog_count++] = mbuf;
    }
    if (dpdk->backlog_count > 0)
        flush(dpdk);
    leave(core);
}

void uro_queue_drop_all(struct uro_dpdk *dpdk)
{
    drop_backlog(dpdk);
    rte_pktmbuf_free_bulk(dpdk->stash, dpdk->stash_count);
    dpdk->stash_count = 0;
}
