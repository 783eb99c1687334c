/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - the plug-in's one symbol: opens a DPDK device, starts it, closes it again. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_errno.h>

#include "io/dpdk/dpdk.h"
#include "io/dpdk/eal.h"
#include "io/dpdk/link.h"
#include "io/dpdk/log.h"
#include "io/dpdk/pool.h"
#include "io/dpdk/queue.h"

#define DESCRIPTORS (1u << URO_LINK_RING_LOG2)

__attribute__((visibility("default"))) struct uro_port *uro_port_open(
    const struct uro_port_config *config, char error[static URO_PORT_ERROR_MAX]);

/* DPDK's device list and our use of it are one at a time. */
static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER;

static void complain(char error[static URO_PORT_ERROR_MAX], const char *name, const char *what,
                     int status)
{
    char why[128];

    uro_log_complaint(why, sizeof why);
    snprintf(error, URO_PORT_ERROR_MAX, "link %.40s: %s: %s", name, what,
             why[0] != '\0' ? why : rte_strerror(status < 0 ? -status : status));
}

static bool link_up(struct uro_port *port)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);
    struct rte_eth_link state;

    if (dpdk->kind == URO_DPDK_MEMIF)
        uro_memif_tend(dpdk);
    if (!dpdk->started)
        return false;
    return rte_eth_link_get_nowait(dpdk->id, &state) == 0 && state.link_status == RTE_ETH_LINK_UP;
}

static int wait_fd(struct uro_port *port)
{
    (void)port;
    return -1;
}

static bool arm(struct uro_port *port)
{
    return !uro_queue_peek(uro_dpdk_of(port));
}

static void disarm(struct uro_port *port)
{
    (void)port;
}

static void unplug(struct uro_dpdk *dpdk)
{
    struct rte_eth_dev_info info;
    bool known = rte_eth_dev_info_get(dpdk->id, &info) == 0;

    if (dpdk->started)
        rte_eth_dev_stop(dpdk->id);
    if (dpdk->kind == URO_DPDK_MEMIF)
        uro_memif_forget(dpdk);
    rte_eth_dev_close(dpdk->id);
    if (known && info.device != NULL)
        rte_dev_remove(info.device);
}

static void close_port(struct uro_port *port)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);

    pthread_mutex_lock(&ports_lock);
    uro_queue_drop_all(dpdk);
    unplug(dpdk);
    rte_mempool_free(dpdk->pool);
    free(dpdk);
    pthread_mutex_unlock(&ports_lock);
}

static const struct uro_port_ops ops = {
    .name = "dpdk",
    .close = close_port,
    .receive = uro_queue_receive,
    .release = uro_queue_release,
    .room = uro_queue_room,
    .transmit = uro_queue_transmit,
    .wait_fd = wait_fd,
    .arm = arm,
    .disarm = disarm,
    .link_up = link_up,
};

/* Virtual devices are called what the user calls them; on PCI DPDK writes addresses its own way. */
static bool find_port(const struct uro_link *link, uint16_t *id)
{
    struct rte_dev_iterator iterator;
    uint16_t found;

    if (link->kind != URO_DPDK_PCI)
        return rte_eth_dev_get_port_by_name(link->name, id) == 0;
    RTE_ETH_FOREACH_MATCHING_DEV(found, link->name, &iterator)
    {
        rte_eth_iterator_cleanup(&iterator);
        *id = found;
        return true;
    }
    return false;
}

/* Makes DPDK find the device; its port number goes to dpdk->id. */
static int plug(struct uro_dpdk *dpdk, const struct uro_link *link,
                char error[static URO_PORT_ERROR_MAX])
{
    uint16_t id;

    if (find_port(link, &id)) {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "link %s is open already in this process; give each device a number of its own",
                 link->name);
        return -1;
    }
    uro_log_forget();
    int status = rte_dev_probe(link->words);
    if (status != 0) {
        complain(error, link->name, "DPDK does not take it", status);
        return -1;
    }
    if (find_port(link, &dpdk->id))
        return 0;
    complain(error, link->name, "DPDK found no network port there", ENODEV);
    return -1;
}

static uint16_t descriptors(const struct rte_eth_desc_lim *limit)
{
    uint32_t count = DESCRIPTORS;

    if (limit->nb_max != 0 && count > limit->nb_max)
        count = limit->nb_max;
    if (count < limit->nb_min)
        count = limit->nb_min;
    if (limit->nb_align > 1)
        count -= count % limit->nb_align;
    return (uint16_t)count;
}

static int configure(struct uro_dpdk *dpdk, struct uro_link *link,
                     const struct rte_eth_dev_info *info, uint32_t memory_mib)
{
    struct rte_eth_conf conf = { 0 };
    uint16_t rx = descriptors(&info->rx_desc_lim);
    uint16_t tx = descriptors(&info->tx_desc_lim);
    unsigned socket = rte_socket_id();
    int status;

    if (link->traits->own_limit) {
        if (link->mtu > info->max_mtu)
            link->mtu = info->max_mtu;
        link->frame_max = link->mtu + 18;
        conf.rxmode.mtu = link->mtu;
    }
    dpdk->pool = uro_pool_create(link->name, link->room, (uint32_t)rx + tx, memory_mib);
    if (dpdk->pool == NULL)
        return -ENOMEM;
    status = rte_eth_dev_configure(dpdk->id, 1, 1, &conf);
    if (status == 0)
        status = rte_eth_rx_queue_setup(dpdk->id, 0, rx, socket, NULL, dpdk->pool);
    if (status == 0)
        status = rte_eth_tx_queue_setup(dpdk->id, 0, tx, socket, NULL);
    return status;
}

static int start(struct uro_dpdk *dpdk, const struct uro_link *link)
{
    if (dpdk->kind == URO_DPDK_MEMIF)
        return uro_memif_start(dpdk, link->client);

    int status = rte_eth_dev_start(dpdk->id);
    dpdk->started = status == 0;
    return status;
}

static int open_port(struct uro_dpdk *dpdk, struct uro_link *link,
                     const struct uro_port_config *config, char error[static URO_PORT_ERROR_MAX])
{
    struct rte_eth_dev_info info;
    int status;

    if (plug(dpdk, link, error) != 0)
        return -1;
    status = rte_eth_dev_info_get(dpdk->id, &info);
    if (status == 0)
        status = configure(dpdk, link, &info, config->memory_mib);
    if (status == 0)
        status = start(dpdk, link);
    if (status != 0) {
        complain(error, link->name, "cannot be started", status);
        unplug(dpdk);
        rte_mempool_free(dpdk->pool);
        return -1;
    }
    dpdk->frame_max = link->frame_max;
    dpdk->port.mtu = link->mtu;
    if (config->has_mac)
        dpdk->port.mac = config->mac;
    else
        rte_eth_macaddr_get(dpdk->id, (struct rte_ether_addr *)(void *)&dpdk->port.mac);
    return 0;
}

struct uro_port *uro_port_open(const struct uro_port_config *config,
                               char error[static URO_PORT_ERROR_MAX])
{
    struct uro_dpdk *dpdk = calloc(1, sizeof *dpdk);
    struct uro_link link;
    int status;

    error[0] = '\0';
    if (dpdk == NULL) {
        snprintf(error, URO_PORT_ERROR_MAX, "link %.40s: out of memory", config->link);
        return NULL;
    }
    dpdk->port.ops = &ops;
    pthread_mutex_lock(&ports_lock);
    status = uro_link_parse(config, &link, error);
    if (status == 0)
        status = uro_eal_start(config, link.kind == URO_DPDK_PCI, error);
    if (status == 0) {
        dpdk->kind = link.kind;
        memcpy(dpdk->name, link.name, sizeof dpdk->name);
        status = open_port(dpdk, &link, config, error);
    }
    pthread_mutex_unlock(&ports_lock);
    if (status != 0) {
        free(dpdk);
        return NULL;
    }
    return &dpdk->port;
}
