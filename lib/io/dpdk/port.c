/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - opens, starts and closes a port. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <net/if.h>
#include <rte_cycles.h>

#include "io/common/link_options.h"
#include "io/dpdk/card_problem.h"
#include "io/dpdk/dpdk.h"
#include "io/dpdk/link.h"
#include "io/dpdk/xdp.h"

__attribute__((visibility("default"))) struct uro_port *uro_port_open(
    const struct uro_port_config *config, char error[static URO_PORT_ERROR_MAX]);

/* A card that was started negotiates its link: copper at 1 Gb/s takes up to 3 s. */
#define LINK_WAIT_MS 4000u
#define LINK_POLL_MS 10u

/* Protects DPDK's list of devices. */
static pthread_mutex_t ports_lock = PTHREAD_MUTEX_INITIALIZER;

static bool look(struct uro_dpdk *dpdk)
{
    struct rte_eth_link state;

    if (atomic_load(&dpdk->removed))
        return false;
    if (dpdk->iface.name[0] != '\0') {
        bool running = uro_iface_running(&dpdk->iface);
        if (dpdk->iface.mtu != 0)
            dpdk->port.mtu = dpdk->iface.mtu < dpdk->mtu ? dpdk->iface.mtu : dpdk->mtu;
        return running;
    }
    return rte_eth_link_get_nowait(dpdk->id, &state) == 0 && state.link_status == RTE_ETH_LINK_UP;
}

static bool link_up(struct uro_port *port)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);

    dpdk->up = look(dpdk);
    return dpdk->up;
}

static bool gone(struct uro_port *port)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);

    return dpdk->iface.gone || atomic_load(&dpdk->removed);
}

static uint32_t wait_fds(struct uro_port *port, int fds[static URO_PORT_FDS_MAX])
{
    fds[0] = uro_wait_descriptor(uro_dpdk_of(port));
    return fds[0] >= 0 ? 1 : 0;
}

static bool arm(struct uro_port *port)
{
    return uro_wait_arm(uro_dpdk_of(port));
}

static void disarm(struct uro_port *port)
{
    uro_wait_disarm(uro_dpdk_of(port));
}

static void close_port(struct uro_port *port)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);

    pthread_mutex_lock(&ports_lock);
    uro_icmp_suppress_stop(&dpdk->icmp_suppress);
    uro_queue_drop_all(dpdk);
    uro_xdp_close(&dpdk->xdp); /* first, so that uro_nic_close() finds no program to remove */
    uro_remove_stop(dpdk);
    uro_nic_stop(dpdk);
    uro_wait_stop(dpdk);
    uro_filter_close(dpdk);
    uro_control_close(&dpdk->control);
    uro_iface_close(&dpdk->iface);
    uro_nic_close(dpdk);
    pthread_mutex_unlock(&ports_lock);
    free(dpdk);
}

/* Closes descriptors of this port in a forked child, and the descriptor from which DPDK's driver
 * reads frames. DPDK's other descriptors are unknown here. The descriptors of the XDP program and
 * of dpdk->control stay open. */
static void forked(struct uro_port *port)
{
    struct uro_dpdk *dpdk = uro_dpdk_of(port);

    if (dpdk->source.fd >= 0)
        (void)close(dpdk->source.fd);
    dpdk->source.fd = -1;
    if (dpdk->wait.news >= 0)
        (void)close(dpdk->wait.news);
    if (dpdk->wait.epoll >= 0)
        (void)close(dpdk->wait.epoll);
    dpdk->wait.news = dpdk->wait.epoll = -1;
    uro_filter_close(dpdk);
    uro_icmp_suppress_stop(&dpdk->icmp_suppress);
    uro_iface_close(&dpdk->iface);
}

static void multicast(struct uro_port *port, const struct uro_mac *macs, uint32_t count)
{
    uro_filter_groups(uro_dpdk_of(port), macs, count);
}

static const struct uro_port_ops ops = {
    .datapath = {
        .receive = uro_queue_receive,
        .release = uro_queue_release,
        .tx_free_count = uro_queue_tx_free_count,
        .transmit = uro_queue_transmit,
    },
    .sleep = { .wait_fds = wait_fds, .arm = arm, .disarm = disarm },
    .control = {
        .close = close_port,
        .forked = forked,
        .link_up = link_up,
        .gone = gone,
        .multicast = multicast,
    },
};

static void name_iface(struct uro_dpdk *dpdk, const struct uro_link *link)
{
    struct rte_eth_dev_info info;
    char *name = dpdk->iface.name;

    if (link->traits->kernel)
        snprintf(name, sizeof dpdk->iface.name, "%s", link->iface);
    else if (link->kind == URO_DPDK_TAP && rte_eth_dev_info_get(dpdk->id, &info) == 0 &&
             if_indextoname(info.if_index, name) == NULL)
        name[0] = '\0';
}

/* Chooses the MAC address of the device. The kernel uses the address of a tap interface at the
 * other end of the tap, so ours must differ. */
static void choose_mac(struct uro_dpdk *dpdk, const struct uro_port_config *config,
                       const struct uro_mac *iface)
{
    struct uro_mac *mac = &dpdk->port.mac;

    if (config->has_mac) {
        *mac = config->mac;
    } else if (dpdk->iface.name[0] != '\0') {
        *mac = *iface;
        if (dpdk->kind == URO_DPDK_TAP)
            mac->octets[5] ^= 1;
    } else {
        struct rte_ether_addr address;
        if (rte_eth_macaddr_get(dpdk->id, &address) == 0)
            memcpy(mac->octets, address.addr_bytes, sizeof mac->octets);
    }
}

/* Opens DPDK's device. For af_xdp it also installs our XDP program on the interface, and opens a
 * socket for packets that both the kernel and this port need. */
static int open_nic(struct uro_dpdk *dpdk, struct uro_link *link,
                    const struct uro_port_config *config, char error[static URO_PORT_ERROR_MAX])
{
    char program[URO_LINK_DEVARGS_MAX];

    if (dpdk->kind != URO_DPDK_AF_XDP)
        return uro_nic_open(dpdk, link, config->memory_mib, error);
    uro_xdp_socket_prepare(
        &dpdk->xdp, config, link->iface,
        uro_link_options_value(link->devargs, "xdp_prog", program, sizeof program));
    int status = 0;
    if (dpdk->xdp.link >= 0)
        status = uro_control_open(&dpdk->control, (int)if_nametoindex(link->iface), false);
    if (status != 0)
        snprintf(error, URO_PORT_ERROR_MAX, "link %s: a packet socket on %s: %s", link->name,
                 link->iface, strerror(-status));
    else
        status = uro_nic_open(dpdk, link, config->memory_mib, error);
    uro_xdp_socket_made();
    if (status != 0) {
        uro_xdp_close(&dpdk->xdp);
        uro_control_close(&dpdk->control);
    }
    return status;
}

static int open_port(struct uro_dpdk *dpdk, struct uro_link *link,
                     const struct uro_port_config *config, char error[static URO_PORT_ERROR_MAX])
{
    struct uro_source_fds before = { 0 };
    struct uro_iface_state state = { 0 };

    if (link->iface[0] != '\0')
        uro_source_fds(&before, link->iface);
    if (open_nic(dpdk, link, config, error) != 0)
        return -1;
    dpdk->frame_max = link->frame_max;
    dpdk->port.mtu = dpdk->mtu = link->mtu;
    dpdk->port.flags = (link->kind == URO_DPDK_VHOST ? URO_PORT_AWAITS_PEER : 0u) |
                       (link->traits->call_per_send ? URO_PORT_CALL_PER_SEND : 0u);
    name_iface(dpdk, link);
    if (dpdk->iface.name[0] != '\0' && uro_iface_read(-1, dpdk->iface.name, &state) != 0)
        dpdk->iface.name[0] = '\0';
    dpdk->iface.index = state.index;
    choose_mac(dpdk, config, &state.mac);
    bool alien = memcmp(&dpdk->port.mac, &state.mac, sizeof state.mac) != 0;
    uro_filter_address(dpdk, alien);
    if (link->vlan != 0)
        uro_filter_vlan(dpdk, link->vlan);
    if (dpdk->iface.name[0] != '\0') {
        uro_iface_open(&dpdk->iface);
        uro_source_find(&dpdk->source, dpdk->iface.name, &before);
        uro_icmp_suppress_start(&dpdk->icmp_suppress, config, (uint32_t)state.index);
    }
    uro_wait_start(dpdk);
    uro_remove_start(dpdk);
    return 0;
}

/* Returns -1 with the cause in @error if the link is a card that DPDK cannot use. DPDK starts only
 * once in a process, so this is tested before. */
static int check_card(const struct uro_link *link, char error[static URO_PORT_ERROR_MAX])
{
    const int used = snprintf(error, URO_PORT_ERROR_MAX, "link %.40s: ", link->name);

    if (link->kind == URO_DPDK_PCI &&
        uro_card_problem("", link->name, error + used, URO_PORT_ERROR_MAX - (size_t)used))
        return -1;
    error[0] = '\0';
    return 0;
}

/* Waits at most LINK_WAIT_MS until the link of a card is up. Many programs give up when they find
 * the port down. */
static void await_link(const struct uro_dpdk *dpdk)
{
    struct rte_eth_link state;

    for (uint32_t ms = 0; ms < LINK_WAIT_MS; ms += LINK_POLL_MS) {
        if (rte_eth_link_get_nowait(dpdk->id, &state) != 0 || state.link_status == RTE_ETH_LINK_UP)
            return;
        rte_delay_us_sleep(LINK_POLL_MS * 1000);
    }
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
    dpdk->wait = URO_WAIT_INIT;
    dpdk->iface = URO_IFACE_INIT;
    dpdk->source = URO_SOURCE_INIT;
    dpdk->filter = URO_FILTER_INIT;
    dpdk->xdp = URO_XDP_INIT;
    dpdk->control = URO_CONTROL_INIT;
    pthread_mutex_lock(&ports_lock);
    status = uro_link_parse(config, &link, error);
    if (status == 0)
        status = check_card(&link, error);
    if (status == 0)
        status = uro_eal_start(config, link.kind == URO_DPDK_PCI ? link.devargs : NULL, error);
    if (status == 0) {
        dpdk->kind = link.kind;
        if (!link.traits->memory_only)
            dpdk->port.ops = uro_guard_ops(&ops);
        status = open_port(dpdk, &link, config, error);
    }
    pthread_mutex_unlock(&ports_lock);
    if (status != 0) {
        free(dpdk);
        return NULL;
    }
    if (dpdk->kind == URO_DPDK_PCI)
        await_link(dpdk); /* without the lock, because other devices need it */
    return &dpdk->port;
}
