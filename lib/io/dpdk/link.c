/* SPDX-License-Identifier: BSD-3-Clause */
/* link.c - see link.h. */
#include "io/dpdk/link.h"

#include <stdio.h>
#include <string.h>

#include "io/common/link_options.h"
#include "io/kernel/iface.h"

#define ETHER_OVERHEAD 18u /* header and one VLAN tag */
#define ALIGNMENT      64u
#define DRIVER_HEADER  12u   /* virtio counts a header of its own as part of a received frame */
#define BUFFER_OTHER   2048u /* some drivers refuse smaller buffers, whatever the MTU is */

/* A buffer is a chunk of AF_XDP's memory: with DPDK's headers it fills a page, whatever the MTU is.
 * Frames in smaller buffers are not sent. The kernel reserves the first bytes of a buffer. */
#define AF_XDP_MTU  3400u
#define AF_XDP_ROOM 3712u

/* clang-format off */
static const struct uro_link_kind kinds[URO_DPDK_KIND_COUNT] = {
    [URO_DPDK_PCI]         = { .own_limit = true, .interrupts = true },
    [URO_DPDK_AF_XDP]      = { .kernel = true, .own_limit = true, .call_per_send = true,
                               .mtu_max = AF_XDP_MTU },
    [URO_DPDK_RING]        = { .memory_only = true },
    [URO_DPDK_NULL]        = { .memory_only = true },
    [URO_DPDK_TAP]         = { .mtu_max = 1500 },
    [URO_DPDK_VHOST]       = { .interrupts = true },
    [URO_DPDK_VIRTIO_USER] = { .own_limit = true, .interrupts = true },
    [URO_DPDK_OTHER]       = { .own_limit = true, .interrupts = true },
};
/* clang-format on */

static bool find_kind(const char *name, enum uro_dpdk_kind *kind)
{
    for (unsigned i = 0; i < URO_DPDK_KIND_COUNT; i++)
        if (uro_link_options_serve(&uro_dpdk_drivers[i], name)) {
            *kind = (enum uro_dpdk_kind)i;
            return true;
        }
    return false;
}

static uint32_t round_up(uint32_t value, uint32_t to)
{
    return (value + to - 1) / to * to;
}

static int read_iface(struct uro_link *link, char error[static URO_PORT_ERROR_MAX])
{
    struct uro_iface_state state;

    if (link->iface[0] == '\0') {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "link %s: the interface is missing; write %s,iface=NAME", link->name, link->name);
        return -1;
    }
    if (uro_iface_read(-1, link->iface, &state) != 0) {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "link %s: there is no network interface %s in this network namespace", link->name,
                 link->iface);
        return -1;
    }
    if (link->mtu == 0 || link->mtu > state.mtu)
        link->mtu = state.mtu;
    return 0;
}

void uro_link_set_mtu(struct uro_link *link, uint32_t mtu)
{
    link->mtu = mtu < URO_PORT_MTU_MAX ? mtu : URO_PORT_MTU_MAX;
    link->frame_max = link->mtu + ETHER_OVERHEAD;
    /* Some NICs count the length of a buffer in KiB. */
    link->buffer_size =
        round_up(link->frame_max + DRIVER_HEADER, link->kind == URO_DPDK_PCI ? 1024 : ALIGNMENT);
    if (link->kind == URO_DPDK_AF_XDP)
        link->buffer_size = AF_XDP_ROOM;
    if (link->kind == URO_DPDK_OTHER && link->buffer_size < BUFFER_OTHER)
        link->buffer_size = BUFFER_OTHER;
}

static int read_options(const char *text, struct uro_link *link,
                        char error[static URO_PORT_ERROR_MAX])
{
    size_t length = strcspn(text, ",");

    if (length >= sizeof link->name || !find_kind(text, &link->kind)) {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "link %.40s: DPDK carries no such link; see `uroce devices --links`", text);
        return -1;
    }
    if (uro_link_options_read(&uro_dpdk_drivers[link->kind], text, NULL, NULL, error) != 0)
        return -1;
    if (link->kind == URO_DPDK_OTHER) {
        text += strlen(uro_dpdk_drivers[link->kind].prefix);
        length = strcspn(text, ",");
    }
    memcpy(link->name, text, length);
    snprintf(link->devargs, sizeof link->devargs, "%s", text);
    if (!uro_link_options_value(text, "iface", link->iface, sizeof link->iface))
        link->iface[0] = '\0';
    link->traits = &kinds[link->kind];
    return 0;
}

int uro_link_parse(const struct uro_port_config *config, struct uro_link *link,
                   char error[static URO_PORT_ERROR_MAX])
{
    memset(link, 0, sizeof *link);
    if (read_options(config->link, link, error) != 0)
        return -1;
    link->mtu = config->mtu;
    link->vlan = config->vlan;
    if (link->traits->kernel && read_iface(link, error) != 0)
        return -1;
    if (link->mtu == 0)
        link->mtu = uro_dpdk_drivers[link->kind].default_mtu;
    if (link->traits->mtu_max != 0 && link->mtu > link->traits->mtu_max)
        link->mtu = link->traits->mtu_max;
    uro_link_set_mtu(link, link->mtu);
    /* The tap driver keeps a buffer for each descriptor, but uses one at a time. */
    link->descriptors = link->kind == URO_DPDK_TAP ? 64 : 1u << URO_LINK_RING_LOG2;
    return 0;
}
