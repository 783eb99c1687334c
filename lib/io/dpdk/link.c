/* SPDX-License-Identifier: BSD-3-Clause */
/* link.c - the words a user writes for a link: read, checked and completed with our defaults. */
#define _GNU_SOURCE
#include "io/dpdk/link.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "io/kernel/iface.h"

#define MTU_MAX        9600u
#define ETHER_OVERHEAD 18u /* header and one VLAN tag */
#define ALIGNMENT      64u

/* A buffer is a chunk of the kernel's: with DPDK's headers it fills a page, whatever the frames.
 * Smaller ones are not sent. Its first octets stay the kernel's. */
#define AF_XDP_MTU  3400u
#define AF_XDP_ROOM 3712u

/* The largest packet of a RoCE MTU of 4096 is 4096 octets and less than 128 of headers. */
#define MTU_FOR_4096 4224u

/* clang-format off */
static const struct uro_link_kind kinds[URO_DPDK_KIND_COUNT] = {
    [URO_DPDK_PCI]         = { NULL, .own_limit = true, .interrupts = true, .mtu = 1500 },
    [URO_DPDK_AF_XDP]      = { "net_af_xdp", .kernel = true, .own_limit = true, .call_per_send = true,
                               .mtu_max = AF_XDP_MTU },
    [URO_DPDK_PCAP]        = { "net_pcap", .mtu = 1500 },
    [URO_DPDK_RING]        = { "net_ring", .memory_only = true, .mtu = MTU_FOR_4096 },
    [URO_DPDK_NULL]        = { "net_null", .memory_only = true, .mtu = MTU_FOR_4096 },
    [URO_DPDK_TAP]         = { "net_tap", .mtu = 1500, .mtu_max = 1500 },
    [URO_DPDK_VHOST]       = { "net_vhost", .interrupts = true, .mtu = 1500 },
    [URO_DPDK_VIRTIO_USER] = { "net_virtio_user", .own_limit = true, .mtu = 1500 },
};
/* clang-format on */

static bool pci_address(const char *name)
{
    unsigned domain, bus, device, function;
    int end = 0;

    if (sscanf(name, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) == 4)
        return name[end] == '\0';
    return sscanf(name, "%2x:%2x.%1x%n", &bus, &device, &function, &end) == 3 && name[end] == '\0';
}

static bool named_after(const char *name, const char *driver)
{
    size_t length = strlen(driver);

    if (strncmp(name, driver, length) != 0)
        return false;
    for (name += length; *name != '\0'; name++)
        if (!isdigit((unsigned char)*name))
            return false;
    return true;
}

static bool find_kind(const char *name, enum uro_dpdk_kind *kind)
{
    for (unsigned i = 0; i < URO_DPDK_KIND_COUNT; i++) {
        bool is = kinds[i].driver == NULL ? pci_address(name) : named_after(name, kinds[i].driver);
        if (is) {
            *kind = (enum uro_dpdk_kind)i;
            return true;
        }
    }
    return false;
}

bool uro_link_value(const char *words, const char *key, char *out, size_t size)
{
    size_t length = strlen(key);

    for (const char *at = strchr(words, ','); at != NULL; at = strchr(at, ',')) {
        at++;
        if (strncmp(at, key, length) == 0 && at[length] == '=') {
            at += length + 1;
            snprintf(out, size, "%.*s", (int)strcspn(at, ","), at);
            return true;
        }
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
        snprintf(error, URO_PORT_ERROR_MAX, "link %s names no interface: write %s,iface=NAME",
                 link->name, link->name);
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
    link->mtu = mtu < MTU_MAX ? mtu : MTU_MAX;
    link->frame_max = link->mtu + ETHER_OVERHEAD;
    /* Some cards count a buffer's length in kibioctets. */
    link->room = round_up(link->frame_max, link->kind == URO_DPDK_PCI ? 1024 : ALIGNMENT);
    if (link->kind == URO_DPDK_AF_XDP)
        link->room = AF_XDP_ROOM;
}

static int read_words(const char *words, struct uro_link *link,
                      char error[static URO_PORT_ERROR_MAX])
{
    size_t length = strcspn(words, ",");

    if (length < sizeof link->name)
        memcpy(link->name, words, length);
    if (length >= sizeof link->name || !find_kind(link->name, &link->kind)) {
        snprintf(
            error, URO_PORT_ERROR_MAX,
            "link %.40s is neither udp, a PCI address nor one of net_memif, net_af_packet, "
            "net_af_xdp, net_tap, net_vhost, net_virtio_user, net_pcap, net_ring, net_null, each "
            "with a number (net_ring0)",
            words);
        return -1;
    }
    if (strlen(words) > sizeof link->words - 128) {
        snprintf(error, URO_PORT_ERROR_MAX, "link %s: too many words", link->name);
        return -1;
    }
    snprintf(link->words, sizeof link->words, "%s", words);
    if (!uro_link_value(link->words, "iface", link->iface, sizeof link->iface))
        link->iface[0] = '\0';
    link->traits = &kinds[link->kind];
    return 0;
}

int uro_link_parse(const struct uro_port_config *config, struct uro_link *link,
                   char error[static URO_PORT_ERROR_MAX])
{
    memset(link, 0, sizeof *link);
    if (read_words(config->link, link, error) != 0)
        return -1;
    link->mtu = config->mtu;
    if (link->traits->kernel && read_iface(link, error) != 0)
        return -1;
    if (link->mtu == 0)
        link->mtu = link->traits->mtu;
    if (link->traits->mtu_max != 0 && link->mtu > link->traits->mtu_max)
        link->mtu = link->traits->mtu_max;
    uro_link_set_mtu(link, link->mtu);
    /* The tap driver keeps a buffer ready for each, and uses one at a time. */
    link->descriptors = link->kind == URO_DPDK_TAP ? 64 : 1u << URO_LINK_RING_LOG2;
    return 0;
}
