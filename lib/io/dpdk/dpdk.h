/* SPDX-License-Identifier: BSD-3-Clause */
/* dpdk.h - one open DPDK port: what the files of this driver share.
 *
 *   port.c   open, close, link                  eal.c    DPDK itself, once per process
 *   link.c   options and limits of a link       log.c    what DPDK has to say
 *   drivers.c  the kinds of links, for the host
 *   nic.c    DPDK's device behind the port      pool.c   packet buffers
 *   queue.c  frames in, frames out              wait.c   sleeping until a frame arrives
 *   source.c what the driver reads from         filter.c which frames are let in
 *   xdp.c    what af_xdp takes from the kernel   control.c what both get
 *   xdp_socket.c  the driver's socket gets it
 */
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "engine/port.h"
#include "io/dpdk/control.h"
#include "io/dpdk/drivers.h"
#include "io/dpdk/filter.h"
#include "io/dpdk/source.h"
#include "io/dpdk/wait.h"
#include "io/dpdk/xdp.h"
#include "io/kernel/icmp_suppress.h"
#include "io/kernel/iface.h"

#define URO_DPDK_BACKLOG_MAX URO_PORT_BURST

struct uro_dpdk_counters {
    uint64_t rx_dropped; /* in several pieces and too long to be made one */
    uint64_t tx_dropped; /* no link, no buffer, or longer than the link takes */
};

struct uro_dpdk {
    struct uro_port port; /* first: the host holds a pointer to it */
    enum uro_dpdk_kind kind;
    uint16_t id;     /* DPDK's number of it */
    bool started;    /* frames may move */
    bool up;         /* as last seen */
    bool interrupts; /* DPDK can wake us */

    struct uro_wait wait;
    struct uro_iface iface; /* ports over an interface of the kernel's */
    struct uro_source source;
    struct uro_icmp_suppress icmp_suppress;
    struct uro_filter filter;
    struct uro_xdp xdp;         /* af_xdp: what it takes from the kernel */
    struct uro_control control; /* and what both get */
    struct rte_mempool *pool;
    uint32_t frame_max; /* longest frame sent */
    uint32_t mtu;       /* when it was opened */
    uint32_t idle;      /* receives without a frame */

    uint32_t backlog_count; /* frames the link had no room for, oldest first */
    struct rte_mbuf *backlog[URO_DPDK_BACKLOG_MAX];
    uint32_t stash_count; /* frames arm() found */
    struct rte_mbuf *stash[URO_PORT_BURST];

    struct uro_dpdk_counters counters;
};

static inline struct uro_dpdk *uro_dpdk_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_dpdk, port);
}
