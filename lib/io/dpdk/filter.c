/* SPDX-License-Identifier: BSD-3-Clause */
/* filter.c - chooses the frames that a link receives.
 *
 * NICs have a list of group addresses. If the driver has no such list, or the list is too short,
 * the port enables all groups. If the driver cannot do that either, the port enables promiscuous
 * mode, and the engine drops the frames that are not wanted. For a kernel interface that af_xdp
 * uses, a packet socket requests the groups, so that the request ends with the process.
 */
#include "io/dpdk/dpdk.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if_packet.h>
#include <net/if.h>
#include <rte_log.h>

static_assert(sizeof(struct rte_ether_addr) == sizeof(struct uro_mac), "both are six octets");

void uro_filter_address(struct uro_dpdk *dpdk, bool alien)
{
    const bool card = dpdk->kind == URO_DPDK_PCI || dpdk->kind == URO_DPDK_VIRTIO_USER;
    struct rte_ether_addr address;

    memcpy(address.addr_bytes, dpdk->port.mac.octets, sizeof address.addr_bytes);
    if ((card && rte_eth_dev_default_mac_addr_set(dpdk->id, &address) != 0) ||
        (dpdk->kind == URO_DPDK_AF_XDP && alien))
        dpdk->filter.promiscuous = rte_eth_promiscuous_enable(dpdk->id) == 0;
}

/* A card may drop the frames of all VLANs that are not in its filter. QEMU's virtio-net does. */
void uro_filter_vlan(struct uro_dpdk *dpdk, uint16_t vlan)
{
    struct rte_eth_dev_info info;

    if (rte_eth_dev_info_get(dpdk->id, &info) != 0 ||
        (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_VLAN_FILTER) == 0)
        return;
    if (rte_eth_dev_vlan_filter(dpdk->id, vlan, 1) != 0)
        dpdk->filter.promiscuous = rte_eth_promiscuous_enable(dpdk->id) == 0;
}

static void print_filter(const struct uro_dpdk *dpdk, const char *what, uint32_t count)
{
    char name[RTE_ETH_NAME_MAX_LEN] = "";

    (void)rte_eth_dev_get_name_by_port(dpdk->id, name);
    rte_log(RTE_LOG_INFO, RTE_LOGTYPE_USER1, "uroce: %s: %s (%u groups wanted)\n", name, what,
            count);
}

static bool set_list(const struct uro_dpdk *dpdk, const struct uro_mac *macs, uint32_t count)
{
    struct rte_ether_addr *list = calloc(count, sizeof *list);

    if (list == NULL)
        return false;
    memcpy(list, macs, count * sizeof *list);
    const int status = rte_eth_dev_set_mc_addr_list(dpdk->id, list, count);
    free(list);
    return status == 0;
}

/* Requests all groups from the kernel, for an interface that DPDK reads directly. */
static bool request_kernel(struct uro_dpdk *dpdk)
{
    const struct packet_mreq all = { .mr_ifindex = (int)if_nametoindex(dpdk->iface.name),
                                     .mr_type = PACKET_MR_ALLMULTI };
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0); /* protocol 0: receives nothing */

    if (fd >= 0 && setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) == 0) {
        dpdk->filter.socket = fd;
        return true;
    }
    if (fd >= 0)
        close(fd);
    return false;
}

static bool all_groups(struct uro_dpdk *dpdk)
{
    if (dpdk->kind == URO_DPDK_AF_XDP && request_kernel(dpdk))
        return true;
    return rte_eth_allmulticast_enable(dpdk->id) == 0;
}

void uro_filter_groups(struct uro_dpdk *dpdk, const struct uro_mac *macs, uint32_t count)
{
    struct uro_filter *filter = &dpdk->filter;

    if (filter->groups != URO_FILTER_LIST)
        return; /* all groups are received already */
    if (set_list(dpdk, macs, count)) {
        print_filter(dpdk, "the link filters by the list of groups", count);
        return;
    }
    if (all_groups(dpdk)) {
        filter->groups = URO_FILTER_ALL_GROUPS;
        print_filter(dpdk, "the link accepts all groups", count);
        return;
    }
    filter->groups = URO_FILTER_EVERYTHING;
    if (!filter->promiscuous)
        filter->promiscuous = rte_eth_promiscuous_enable(dpdk->id) == 0;
    print_filter(dpdk,
                 filter->promiscuous ? "the link accepts every frame"
                                     : "the link has no filter for groups",
                 count);
}

void uro_filter_close(struct uro_dpdk *dpdk)
{
    if (dpdk->filter.socket >= 0)
        close(dpdk->filter.socket);
    dpdk->filter.socket = -1;
}
