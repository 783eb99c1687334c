/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults.c - asks the kernel about an interface; derives a MAC address where there is none.
 *
 * A link with iface=IF shares the interface with the kernel, so it takes over the interface's MAC
 * address, MTU and, without ip=, its addresses. Other links get a locally administered MAC from
 * name, link and addresses: stable from run to run, different at both ends of a memif.
 */
#define _GNU_SOURCE /* struct ifreq */
#include "host/defaults.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crc32.h"
#include "host/defaults_udp.h"
#include "host/plugin.h"

#define MTU_VIRTUAL 4500u /* memif, ring and cable: for a RoCE path MTU of 4096 */
#define MTU_DEFAULT 1500u

bool uro_defaults_interface(const char *link, char name[static IF_NAMESIZE])
{
    const char *at = strstr(link, ",iface=");
    size_t skip = strlen(",iface=");

    if (strncmp(link, "net_tap", 7) == 0 || strncmp(link, "net_vhost", 9) == 0 ||
        strncmp(link, "net_virtio_user", 15) == 0) {
        at = strstr(link, ",remote=");
        skip = strlen(",remote=");
    }
    if (at == NULL)
        return false;
    size_t length = strcspn(at + skip, ",");
    if (length == 0 || length >= IF_NAMESIZE)
        return false;
    memcpy(name, at + skip, length);
    name[length] = '\0';
    return true;
}

static bool ask(const char *interface, unsigned long request, struct ifreq *answer)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    memset(answer, 0, sizeof *answer);
    (void)snprintf(answer->ifr_name, sizeof answer->ifr_name, "%s", interface);
    bool good = ioctl(fd, request, answer) == 0;
    (void)close(fd);
    return good;
}

static uint8_t prefix_of(const uint8_t *mask, size_t length)
{
    uint8_t bits = 0;

    for (size_t i = 0; i < length; i++)
        for (int bit = 7; bit >= 0 && (mask[i] >> bit & 1); bit--)
            bits++;
    return bits;
}

/* One address of the interface as a GID; false for families and scopes that are not used. */
static bool take_address(const struct ifaddrs *from, struct uro_gid *gid, uint8_t *prefix)
{
    if (from->ifa_addr == NULL || from->ifa_netmask == NULL)
        return false;
    if (from->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in address, mask;
        memcpy(&address, from->ifa_addr, sizeof address);
        memcpy(&mask, from->ifa_netmask, sizeof mask);
        *gid = uro_gid_from_ipv4((const uint8_t *)&address.sin_addr);
        *prefix = prefix_of((const uint8_t *)&mask.sin_addr, sizeof mask.sin_addr);
        return true;
    }
    if (from->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 address, mask;
        memcpy(&address, from->ifa_addr, sizeof address);
        memcpy(&mask, from->ifa_netmask, sizeof mask);
        memcpy(gid->octets, &address.sin6_addr, sizeof gid->octets);
        *prefix = prefix_of((const uint8_t *)&mask.sin6_addr, sizeof mask.sin6_addr);
        return !uro_gid_is_link_local(gid);
    }
    return false;
}

static void take_addresses(struct uro_device_config *config, const char *interface)
{
    struct ifaddrs *list;

    if (getifaddrs(&list) != 0)
        return;
    for (struct ifaddrs *from = list; from != NULL; from = from->ifa_next) {
        uint32_t at = config->gid_count;
        struct uro_gid gid;
        uint8_t prefix;
        if (strcmp(from->ifa_name, interface) != 0 || !take_address(from, &gid, &prefix))
            continue;
        if (at == URO_ENGINE_ADDRESSES_MAX) {
            config->left_out = true;
            break;
        }
        config->gids[at] = gid;
        config->prefix[at] = prefix;
        config->gid_count++;
    }
    freeifaddrs(list);
}

static bool is_zero(const struct uro_mac *mac)
{
    static const struct uro_mac zero;
    return memcmp(mac, &zero, sizeof zero) == 0;
}

static void derive_mac(struct uro_device_config *config)
{
    uint32_t low = uro_crc32(URO_CRC32_START, config->name, strlen(config->name));
    uint32_t high;

    low = uro_crc32(low, config->link, strlen(config->link));
    low = uro_crc32(low, &config->gids[1], (config->gid_count - 1) * sizeof config->gids[0]);
    high = uro_crc32(low, config->name, strlen(config->name));
    config->mac = (struct uro_mac){ { 0x02, (uint8_t)(high >> 8), (uint8_t)(low >> 24),
                                      (uint8_t)(low >> 16), (uint8_t)(low >> 8), (uint8_t)low } };
}

static void fill_from_interface(struct uro_entry *entry, const char *interface)
{
    struct uro_device_config *config = &entry->config;
    struct ifreq answer;

    if (if_nametoindex(interface) == 0) {
        uro_entry_refuse(entry, entry->where,
                         "there is no interface \"%s\" in this network namespace; see ip link",
                         interface);
        return;
    }
    if (is_zero(&config->mac) && ask(interface, SIOCGIFHWADDR, &answer))
        memcpy(config->mac.octets, answer.ifr_hwaddr.sa_data, sizeof config->mac.octets);
    if (config->mtu == 0 && ask(interface, SIOCGIFMTU, &answer) && answer.ifr_mtu > 0)
        config->mtu = (uint32_t)answer.ifr_mtu;
    if (config->gid_count == 1)
        take_addresses(config, interface);
}

static bool begins(const char *link, const char *with)
{
    return strncmp(link, with, strlen(with)) == 0;
}

/* Memory carries the frames, which may have any length. */
static bool is_virtual(const char *link)
{
    if (uro_plugin_is_added(link))
        return begins(link, "cable") && strcspn(link, ",") == strlen("cable");
    return begins(link, "net_memif") || begins(link, "net_ring") || begins(link, "net_null");
}

void uro_defaults_fill(struct uro_entry *entry)
{
    struct uro_device_config *config = &entry->config;
    char interface[IF_NAMESIZE];

    if (uro_plugin_is_udp(config->link)) {
        uro_defaults_udp(entry);
        if (is_zero(&config->mac))
            derive_mac(config);
        return;
    }
    if (uro_defaults_interface(config->link, interface))
        fill_from_interface(entry, interface);
    else if (!uro_plugin_is_added(config->link) &&
             begins(config->link, "net_af_")) /* packet, xdp */
        uro_entry_refuse(entry, entry->where, "link=%.60s: names no interface: write iface=NAME",
                         config->link);
    if (config->mtu == 0)
        config->mtu = is_virtual(config->link) ? MTU_VIRTUAL : MTU_DEFAULT;
    if (config->mtu > 9600)
        config->mtu = 9600;
    if (is_zero(&config->mac))
        derive_mac(config);
    config->gids[0] = uro_gid_link_local(&config->mac);
    config->prefix[0] = 64;
}
