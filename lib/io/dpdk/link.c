/* SPDX-License-Identifier: BSD-3-Clause */
/* link.c - the words a user writes for a link: read, checked and completed with our defaults. */
#include "io/dpdk/link.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define MTU_MAX        9600u
#define ETHER_OVERHEAD 18u /* header and one VLAN tag */
#define ALIGNMENT      64u

/* The largest packet of a RoCE MTU of 4096 is 4096 octets and less than 128 of headers. */
#define MTU_FOR_4096 4224u

/* clang-format off */
static const struct uro_link_kind kinds[URO_DPDK_KIND_COUNT] = {
    [URO_DPDK_PCI]         = { NULL, .own_limit = true, .own_filter = true, .mtu = 1500 },
    [URO_DPDK_AF_PACKET]   = { "net_af_packet", .kernel = true },
    [URO_DPDK_AF_XDP]      = { "net_af_xdp", .kernel = true },
    [URO_DPDK_MEMIF]       = { "net_memif", .mtu = MTU_FOR_4096 },
    [URO_DPDK_PCAP]        = { "net_pcap", .mtu = 1500 },
    [URO_DPDK_RING]        = { "net_ring", .mtu = MTU_FOR_4096 },
    [URO_DPDK_NULL]        = { "net_null", .mtu = MTU_FOR_4096 },
    [URO_DPDK_TAP]         = { "net_tap", .mtu = 1500 },
    [URO_DPDK_VHOST]       = { "net_vhost", .mtu = 1500 },
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

int uro_link_iface(const char *name, struct uro_link_iface *iface)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq ask;
    int status = -1;

    if (fd < 0)
        return -1;
    *iface = (struct uro_link_iface){ 0 };
    memset(&ask, 0, sizeof ask);
    snprintf(ask.ifr_name, sizeof ask.ifr_name, "%s", name);
    if (ioctl(fd, SIOCGIFINDEX, &ask) != 0)
        goto out;
    iface->index = ask.ifr_ifindex;
    if (ioctl(fd, SIOCGIFMTU, &ask) != 0)
        goto out;
    iface->mtu = (uint32_t)ask.ifr_mtu;
    if (ioctl(fd, SIOCGIFHWADDR, &ask) != 0)
        goto out;
    memcpy(iface->mac.octets, ask.ifr_hwaddr.sa_data, sizeof iface->mac.octets);
    if (ioctl(fd, SIOCGIFFLAGS, &ask) != 0)
        goto out;
    iface->running = (ask.ifr_flags & IFF_UP) != 0 && (ask.ifr_flags & IFF_RUNNING) != 0;
    status = 0;
out:
    close(fd);
    return status;
}

static uint32_t round_up(uint32_t value)
{
    return (value + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static void append(struct uro_link *link, const char *key, uint32_t value)
{
    char present[16];
    size_t used = strlen(link->words);

    if (!uro_link_value(link->words, key, present, sizeof present))
        snprintf(link->words + used, sizeof link->words - used, ",%s=%u", key, value);
}

static uint32_t number(const struct uro_link *link, const char *key, uint32_t otherwise)
{
    char text[16];

    return uro_link_value(link->words, key, text, sizeof text) ? (uint32_t)strtoul(text, NULL, 10)
                                                               : otherwise;
}

/* A ring of slots, each long enough for one frame and the kernel's header of 80 octets. Slots of
 * a power of two fill blocks of the kernel's without waste. The driver copies what the kernel put
 * into a slot without asking how long the mbuf is, so the mbuf must be as long as the slot. */
static void complete_af_packet(struct uro_link *link)
{
    uint32_t frame = 2048;
    uint32_t block = 65536;

    while (frame < link->frame_max + 128)
        frame *= 2;
    append(link, "blocksz", block);
    append(link, "framesz", frame);
    append(link, "framecnt", 1u << URO_LINK_RING_LOG2);
    frame = number(link, "framesz", frame);
    if (link->room < frame)
        link->room = frame;
}

static void complete(struct uro_link *link)
{
    char text[16];

    if (link->kind == URO_DPDK_AF_PACKET)
        complete_af_packet(link);
    if (link->kind == URO_DPDK_MEMIF) {
        append(link, "bsize", round_up(link->frame_max));
        append(link, "rsize", URO_LINK_RING_LOG2);
        link->client = !uro_link_value(link->words, "role", text, sizeof text) ||
                       (strcmp(text, "server") != 0 && strcmp(text, "master") != 0);
    }
}

static int read_iface(struct uro_link *link, char error[static URO_PORT_ERROR_MAX])
{
    struct uro_link_iface iface;

    if (!uro_link_value(link->words, "iface", link->iface, sizeof link->iface)) {
        snprintf(error, URO_PORT_ERROR_MAX, "link %s names no interface: write %s,iface=NAME",
                 link->name, link->name);
        return -1;
    }
    if (uro_link_iface(link->iface, &iface) != 0) {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "link %s: there is no network interface %s in this network namespace", link->name,
                 link->iface);
        return -1;
    }
    if (link->mtu == 0 || link->mtu > iface.mtu)
        link->mtu = iface.mtu;
    return 0;
}

int uro_link_parse(const struct uro_port_config *config, struct uro_link *link,
                   char error[static URO_PORT_ERROR_MAX])
{
    size_t name_length = strcspn(config->link, ",");

    memset(link, 0, sizeof *link);
    snprintf(link->name, sizeof link->name, "%.*s", (int)name_length, config->link);
    if (name_length >= sizeof link->name || !find_kind(link->name, &link->kind)) {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "link %.40s is neither a PCI address nor one of net_af_packet, net_af_xdp, "
                 "net_memif, net_pcap, net_ring, net_null, net_tap, net_vhost, net_virtio_user, "
                 "each with a number (net_memif0)",
                 link->name);
        return -1;
    }
    if (strlen(config->link) > sizeof link->words - 128) {
        snprintf(error, URO_PORT_ERROR_MAX, "link %s: too many words", link->name);
        return -1;
    }
    snprintf(link->words, sizeof link->words, "%s", config->link);
    link->traits = &kinds[link->kind];
    link->mtu = config->mtu;
    if (link->traits->kernel && read_iface(link, error) != 0)
        return -1;
    if (link->mtu == 0)
        link->mtu = link->traits->mtu;
    if (link->mtu > MTU_MAX)
        link->mtu = MTU_MAX;
    link->frame_max = link->mtu + ETHER_OVERHEAD;
    link->room = round_up(link->frame_max);
    complete(link);
    return 0;
}
