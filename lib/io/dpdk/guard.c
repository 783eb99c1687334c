/* SPDX-License-Identifier: BSD-3-Clause */
/* guard.c - disables thread cancellation around DPDK's drivers, because they call functions of the
 * C library that are cancellation points: cancel/cancel.h. The drivers net_ring and net_null only
 * access memory, so they need no guard.
 */
#include "io/dpdk/dpdk.h"

#include "cancel/cancel.h"

static const struct uro_port_ops *guarded;

static void close_port(struct uro_port *port)
{
    URO_UNCANCELLED;

    guarded->control.close(port);
}

static uint32_t receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    URO_UNCANCELLED;

    return guarded->datapath.receive(port, pkts, max);
}

static void release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    URO_UNCANCELLED;

    guarded->datapath.release(port, pkts, count);
}

static uint32_t tx_free_count(struct uro_port *port)
{
    URO_UNCANCELLED;

    return guarded->datapath.tx_free_count(port);
}

static void transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    URO_UNCANCELLED;

    guarded->datapath.transmit(port, tx, count);
}

static uint32_t wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    URO_UNCANCELLED;

    return guarded->sleep.wait_fds(port, fds);
}

static bool arm(struct uro_port *port)
{
    URO_UNCANCELLED;

    return guarded->sleep.arm(port);
}

static void disarm(struct uro_port *port)
{
    URO_UNCANCELLED;

    guarded->sleep.disarm(port);
}

static bool link_up(struct uro_port *port)
{
    URO_UNCANCELLED;

    return guarded->control.link_up(port);
}

static bool gone(struct uro_port *port)
{
    return guarded->control.gone(port);
}

static void multicast(struct uro_port *port, const struct uro_mac *macs, uint32_t count)
{
    URO_UNCANCELLED;

    guarded->control.multicast(port, macs, count);
}

static void forked(struct uro_port *port)
{
    URO_UNCANCELLED;

    guarded->control.forked(port);
}

static_assert(sizeof(struct uro_port_ops) == 19 * sizeof(void *),
              "a new operation may need a guard here");

const struct uro_port_ops *uro_guard_ops(const struct uro_port_ops *ops)
{
    static const struct uro_port_ops table = {
        .datapath = { .receive = receive, .release = release, .tx_free_count = tx_free_count, .transmit = transmit },
        .sleep = { .wait_fds = wait_fds, .arm = arm, .disarm = disarm },
        .control = {
            .close = close_port,
            .forked = forked,
            .link_up = link_up,
            .gone = gone,
            .multicast = multicast,
        },
    };

    guarded = ops;
    return &table;
}
