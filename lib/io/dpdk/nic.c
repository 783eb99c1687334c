/* SPDX-License-Identifier: BSD-3-Clause */
/* nic.c - finds, configures, starts and removes DPDK's device of a port. */
#include "io/dpdk/link.h"

#include <stdio.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_lcore.h>

#include "io/dpdk/dpdk.h"

#define CACHE 256u

/* Buffers in addition to those that the link holds: buffers lent to the engine, waiting to be sent,
 * or cached. */
#define SPARE 1024u

static void complain(char error[static URO_PORT_ERROR_MAX], const char *name, const char *what,
                     int status)
{
    char reason[128];

    uro_log_complaint(reason, sizeof reason);
    snprintf(error, URO_PORT_ERROR_MAX, "link %.40s: %s: %s", name, what,
             reason[0] != '\0' ? reason : rte_strerror(status < 0 ? -status : status));
}

/* Ports of DPDK that a port of ours uses. DPDK may have others: cards that it found, and devices of
 * --vdev. */
static bool in_use[RTE_MAX_ETHPORTS];

/* Finds the DPDK port of the link. A virtual device has the user's name. DPDK writes PCI addresses
 * in its own format, so they are matched by DPDK. */
static bool find_port(const struct uro_link *link, uint16_t *id)
{
    struct rte_dev_iterator iterator;
    uint16_t found;

    if (rte_eth_dev_get_port_by_name(link->name, id) == 0)
        return true;
    if (link->kind != URO_DPDK_PCI && link->kind != URO_DPDK_OTHER)
        return false;
    RTE_ETH_FOREACH_MATCHING_DEV(found, link->name, &iterator)
    {
        rte_eth_iterator_cleanup(&iterator);
        *id = found;
        return true;
    }
    return false;
}

/* Adds the device to DPDK, and sets dpdk->id to its port number. */
static int plug(struct uro_dpdk *dpdk, const struct uro_link *link,
                char error[static URO_PORT_ERROR_MAX])
{
    if (find_port(link, &dpdk->id)) {
        if (!in_use[dpdk->id])
            return 0;
        snprintf(error, URO_PORT_ERROR_MAX,
                 "link %s is open already in this process; give each device a link of its own",
                 link->name);
        return -1;
    }
    uro_log_forget();
    int status = rte_dev_probe(link->devargs);
    if (status != 0) {
        complain(error, link->name, "DPDK cannot use this device", status);
        return -1;
    }
    if (find_port(link, &dpdk->id))
        return 0;
    complain(error, link->name, "DPDK found no network port at this address", ENODEV);
    return -1;
}

static void unplug(struct uro_dpdk *dpdk)
{
    struct rte_eth_dev_info info;
    bool known = rte_eth_dev_info_get(dpdk->id, &info) == 0;

    in_use[dpdk->id] = false;
    rte_eth_dev_close(dpdk->id);
    if (known && info.device != NULL)
        rte_dev_remove(info.device);
}

static uint16_t descriptors(const struct uro_link *link, const struct rte_eth_desc_lim *limit)
{
    uint32_t count = link->descriptors;

    if (limit->nb_max != 0 && count > limit->nb_max)
        count = limit->nb_max;
    if (count < limit->nb_min)
        count = limit->nb_min;
    if (limit->nb_align > 1)
        count -= count % limit->nb_align;
    return (uint16_t)count;
}

static int configure(struct uro_dpdk *dpdk, const struct uro_link *link,
                     const struct rte_eth_dev_info *info, bool interrupts)
{
    struct rte_eth_conf conf = { .intr_conf.rxq = interrupts };

    if (link->vlan != 0)
        conf.rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
    uint16_t rx = descriptors(link, &info->rx_desc_lim);
    uint16_t tx = descriptors(link, &info->tx_desc_lim);
    unsigned socket = rte_socket_id();

    if (link->traits->own_limit)
        conf.rxmode.mtu = link->mtu;
    int status = rte_eth_dev_configure(dpdk->id, 1, 1, &conf);
    if (status == 0)
        status = rte_eth_rx_queue_setup(dpdk->id, 0, rx, socket, NULL, dpdk->pool);
    if (status == 0)
        status = rte_eth_tx_queue_setup(dpdk->id, 0, tx, socket, NULL);
    if (status == 0)
        status = rte_eth_dev_start(dpdk->id);
    dpdk->started = status == 0;
    dpdk->interrupts = interrupts && status == 0;
    return status;
}

/* Returns the memory that DPDK reserves for a buffer with @each bytes of data. Without hugepages, a
 * buffer does not cross the end of a page. A larger buffer fills whole pages. */
static uint32_t footprint(uint32_t each)
{
    const uint32_t size = rte_mempool_calc_obj_size(sizeof(struct rte_mbuf) + each, 0, NULL);
    const uint32_t page = (uint32_t)sysconf(_SC_PAGESIZE);

    if (rte_eal_has_hugepages())
        return size;
    return size > page ? (size + page - 1) / page * page : page / (page / size);
}

/* Creates a buffer pool. Each buffer holds the longest frame of the port. @buffer_size: bytes
 * of the longest frame. @held: number of buffers that the link itself may hold at a time.
 * @memory_mib: 0: no more memory than needed. Returns NULL when there is no memory. */
static struct rte_mempool *create_pool(const char *name, uint32_t buffer_size, uint32_t held,
                                       uint32_t memory_mib)
{
    uint32_t each = buffer_size + RTE_PKTMBUF_HEADROOM;
    uint64_t affordable = ((uint64_t)memory_mib << 20) / footprint(each);
    uint32_t count = held + SPARE;
    char unique[RTE_MEMPOOL_NAMESIZE];

    if (memory_mib != 0 && affordable > count)
        count = affordable < UINT16_MAX ? (uint32_t)affordable : UINT16_MAX;
    snprintf(unique, sizeof unique, "%.20s", name);
    return rte_pktmbuf_pool_create(unique, count, CACHE, 0, (uint16_t)each, (int)rte_socket_id());
}

/* Returns the largest MTU that DPDK accepts for the device. A driver may report only the length of
 * its longest frame: net_memif of DPDK reports 1518 bytes. */
static uint32_t largest_mtu(const struct rte_eth_dev_info *info)
{
    const uint32_t reported = info->max_mtu;
    uint32_t overhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;

    if (reported != UINT16_MAX && info->max_rx_pktlen > reported)
        overhead = info->max_rx_pktlen - reported;
    if (info->max_rx_pktlen <= overhead)
        return reported;
    const uint32_t fits = info->max_rx_pktlen - overhead;
    return fits < reported ? fits : reported;
}

static int set_up(struct uro_dpdk *dpdk, struct uro_link *link, uint32_t memory_mib)
{
    struct rte_eth_dev_info info;
    int status = rte_eth_dev_info_get(dpdk->id, &info);

    if (status != 0)
        return status;
    if (link->traits->own_limit && link->mtu > largest_mtu(&info))
        uro_link_set_mtu(link, largest_mtu(&info));
    dpdk->pool = create_pool(link->name, link->buffer_size,
                             (uint32_t)descriptors(link, &info.rx_desc_lim) +
                                 descriptors(link, &info.tx_desc_lim),
                             memory_mib);
    if (dpdk->pool == NULL)
        return -ENOMEM;
    /* A NIC without a free interrupt is polled. */
    if (link->traits->interrupts && configure(dpdk, link, &info, true) == 0)
        return 0;
    uro_log_forget();
    return configure(dpdk, link, &info, false);
}

int uro_nic_open(struct uro_dpdk *dpdk, struct uro_link *link, uint32_t memory_mib,
                 char error[static URO_PORT_ERROR_MAX])
{
    if (plug(dpdk, link, error) != 0)
        return -1;
    in_use[dpdk->id] = true;
    int status = set_up(dpdk, link, memory_mib);
    if (status != 0) {
        complain(error, link->name, "DPDK cannot start the port", status);
        uro_nic_stop(dpdk);
        uro_nic_close(dpdk);
        return -1;
    }
    return 0;
}

void uro_nic_stop(struct uro_dpdk *dpdk)
{
    if (dpdk->started)
        rte_eth_dev_stop(dpdk->id);
    dpdk->started = false;
}

void uro_nic_close(struct uro_dpdk *dpdk)
{
    unplug(dpdk);
    rte_mempool_free(dpdk->pool);
    dpdk->pool = NULL;
}
