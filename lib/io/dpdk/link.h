/* SPDX-License-Identifier: BSD-3-Clause */
/* link.h - the options and limits of a DPDK link, and the DPDK device that nic.c opens for it. */
#pragma once

#include "io/dpdk/dpdk.h"

#define URO_LINK_DEVARGS_MAX 512u
#define URO_LINK_RING_LOG2   10u /* log2 of the descriptors of a ring, if we choose its size */

/* Properties of a kind of link that do not depend on the device. */
struct uro_link_kind {
    bool kernel;        /* uses a kernel interface, named by "iface=" */
    bool own_limit;     /* DPDK reports its maximum MTU, and accepts a smaller MTU */
    bool interrupts;    /* may support DPDK's receive interrupts */
    bool memory_only;   /* the driver makes no system call */
    bool call_per_send; /* each send is a system call: URO_PORT_CALL_PER_SEND */
    uint32_t mtu_max;   /* limit that DPDK does not report; 0: none */
};

struct uro_link {
    enum uro_dpdk_kind kind;
    const struct uro_link_kind *traits;
    char name[RTE_ETH_NAME_MAX_LEN];    /* net_ring0, 0000:01:00.0 */
    char iface[32];                     /* the kernel's interface, "" when not named */
    uint32_t mtu;                       /* largest IP packet */
    uint16_t vlan;                      /* VLAN of the device, 0: none */
    uint32_t frame_max;                 /* longest frame that is sent, bytes */
    uint32_t buffer_size;               /* bytes that a receive buffer needs */
    uint16_t descriptors;               /* number of descriptors requested for each ring */
    char devargs[URO_LINK_DEVARGS_MAX]; /* the link as the user wrote it, for DPDK */
};

/* Parses the link of @config. Returns 0, or -1 with a sentence in @error. */
URO_NODISCARD int uro_link_parse(const struct uro_port_config *config, struct uro_link *link,
                                 char error[static URO_PORT_ERROR_MAX]);

/* Limits the link to packets of @mtu bytes. */
void uro_link_set_mtu(struct uro_link *link, uint32_t mtu);

/* ---- nic.c: DPDK's device -------------------------------------------------- */

/* Starts the device of @link as dpdk->id, with a buffer pool and one queue in each direction.
 * Lowers the MTU of @link to what the device supports. Returns 0, or -1 with a sentence in @error
 * and everything undone. Callers must serialise. */
URO_NODISCARD int uro_nic_open(struct uro_dpdk *dpdk, struct uro_link *link, uint32_t memory_mib,
                               char error[static URO_PORT_ERROR_MAX]);

/* Stops the device. */
void uro_nic_stop(struct uro_dpdk *dpdk);
/* Removes the device and its pool. */
void uro_nic_close(struct uro_dpdk *dpdk);
