/* SPDX-License-Identifier: BSD-3-Clause */
/* dpdk.h - one open DPDK port: definitions that the files of this driver share.
 *
 *   port.c   opens and closes the port      eal.c    starts DPDK, once per process
 *   link.c   options and limits of a link   log.c    DPDK's log
 *   drivers.c  the kinds of links           nic.c    DPDK's device of the port
 *   pool.c   packet buffers                 queue.c  receives and sends frames
 *   wait.c   sleeps until a frame arrives   source.c finds the descriptor of the driver
 *   filter.c chooses the frames received    xdp.c    the XDP program of af_xdp
 *   control.c copies of ARP, ICMP, ND, IGMP and MLD, for af_xdp
 *   xdp_socket.c  connects the driver's socket to the XDP program
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
#include "io/kernel/iface.h"

#define URO_DPDK_BACKLOG_MAX URO_PORT_BURST

struct uro_dpdk_counters {
    uint64_t rx_dropped; /* frames in several segments that cannot be linearized */
    uint64_t tx_dropped; /* no link, no buffer, or longer than the link allows */
};

struct uro_dpdk {
    struct uro_port port; /* first: the host holds a pointer to it */
    enum uro_dpdk_kind kind;
    uint16_t id;     /* port number in DPDK */
    bool started;    /* the device is started */
    bool up;         /* whether the link was up at the last check */
    bool interrupts; /* receive interrupts are enabled */

    struct uro_wait wait;
    struct uro_iface iface; /* the kernel interface, for af_xdp and tap */
    struct uro_source source;
    struct uro_icmp_suppress icmp_suppress;
    struct uro_filter filter;
    struct uro_xdp xdp;         /* af_xdp: the program that takes RoCE packets */
    struct uro_control control; /* af_xdp: copies of packets that the kernel needs, too */
    struct rte_mempool *pool;
    uint32_t frame_max; /* longest frame sent */
    uint32_t mtu;       /* MTU of the port at opening */
    uint32_t idle;      /* receive() calls that found no frame */

    uint32_t backlog_count; /* frames to send that the link had no room for, oldest first */
    struct rte_mbuf *backlog[URO_DPDK_BACKLOG_MAX];
    uint32_t stash_count; /* received frames that arm() found */
    struct rte_mbuf *stash[URO_PORT_BURST];

    struct uro_dpdk_counters counters;
};

static inline struct uro_dpdk *uro_dpdk_of(struct uro_port *port)
{
    return URO_CONTAINER_OF(port, struct uro_dpdk, port);
}
