/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults.c - see defaults.h for the contract. */
#define _GNU_SOURCE /* struct ifreq, strsep */
#include "config/defaults.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crc32.h"
#include "config/netdev.h"
#include "io/common/link_options.h"
#include "io/kernel/fib.h"

/* Largest MTU of a device over UDP, for a RoCE path MTU of 4096 and its headers. A larger MTU would
 * only need more space in the buffers of the sockets. */
#define UDP_MTU_MOST  4224u
#define UDP_MTU_LEAST 1280u

/* Addresses for documentation (RFC 5737, RFC 3849), which only the default route matches. No packet
 * is sent to them. */
#define FAR_IPV4 "192.0.2.1"
#define FAR_IPV6 "2001:db8::1"

bool uro_defaults_interface(const struct uro_device_config *config, char name[static IF_NAMESIZE])
{
    const char *option = config->driver->interface;

    return option != NULL && uro_link_options_value(config->link, option, name, IF_NAMESIZE);
}

/* Reads a property of an interface: SIOCGIFMTU, SIOCGIFHWADDR. Returns false on failure. */
static bool request(const char *interface, unsigned long code, struct ifreq *reply)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    memset(reply, 0, sizeof *reply);
    (void)snprintf(reply->ifr_name, sizeof reply->ifr_name, "%s", interface);
    bool good = ioctl(fd, code, reply) == 0;
    (void)close(fd);
    return good;
}

/* Returns the MTU of an interface, or 0. */
static uint32_t interface_mtu(const char *interface)
{
    struct ifreq reply;

    return request(interface, SIOCGIFMTU, &reply) && reply.ifr_mtu > 0 ? (uint32_t)reply.ifr_mtu
                                                                       : 0;
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

/* ---- links on an interface ------------------------------------------------- */

static uint8_t prefix_of(const uint8_t *mask, size_t length)
{
    uint8_t bits = 0;

    for (size_t i = 0; i < length; i++)
        for (int bit = 7; bit >= 0 && (mask[i] >> bit & 1); bit--)
            bits++;
    return bits;
}

/* Reads one address of an interface. Returns false for families and scopes that a device does not
 * use. */
static bool read_address(const struct ifaddrs *from, struct uro_gid *gid, uint8_t *prefix)
{
    if (from->ifa_netmask == NULL || !uro_netdev_gid(from->ifa_addr, gid))
        return false;
    if (from->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in mask;
        memcpy(&mask, from->ifa_netmask, sizeof mask);
        *prefix = prefix_of((const uint8_t *)&mask.sin_addr, sizeof mask.sin_addr);
    } else {
        struct sockaddr_in6 mask;
        memcpy(&mask, from->ifa_netmask, sizeof mask);
        *prefix = prefix_of((const uint8_t *)&mask.sin6_addr, sizeof mask.sin6_addr);
    }
    return !uro_gid_is_link_local(gid);
}

static void read_addresses(struct uro_device_config *config, const char *interface)
{
    struct ifaddrs *list;

    if (getifaddrs(&list) != 0)
        return;
    for (struct ifaddrs *from = list; from != NULL; from = from->ifa_next) {
        uint32_t index = config->gid_count;
        struct uro_gid gid;
        uint8_t prefix;
        if (strcmp(from->ifa_name, interface) != 0 || !read_address(from, &gid, &prefix))
            continue;
        if (index == URO_ENGINE_ADDRESSES_MAX) {
            config->left_out = true;
            break;
        }
        config->gids[index] = gid;
        config->prefix[index] = prefix;
        config->gid_count++;
    }
    freeifaddrs(list);
}

static void fill_from_interface(struct uro_entry *entry, const char *interface)
{
    struct uro_device_config *config = &entry->config;
    struct ifreq reply;

    if (if_nametoindex(interface) == 0) {
        uro_entry_refuse(entry, entry->where,
                         "there is no interface \"%s\" in this network namespace; see `ip link`",
                         interface);
        return;
    }
    if (is_zero(&config->mac) && request(interface, SIOCGIFHWADDR, &reply))
        memcpy(config->mac.octets, reply.ifr_hwaddr.sa_data, sizeof config->mac.octets);
    if (config->mtu == 0)
        config->mtu = interface_mtu(interface);
    if (config->gid_count == 1)
        read_addresses(config, interface);
}

/* ---- links over UDP --------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static union address address_of(const struct uro_gid *gid)
{
    union address out;

    memset(&out, 0, sizeof out);
    if (uro_gid_is_ipv4(gid)) {
        out.v4.sin_family = AF_INET;
        memcpy(&out.v4.sin_addr, &gid->octets[12], 4);
    } else {
        out.v6.sin6_family = AF_INET6;
        memcpy(&out.v6.sin6_addr, gid->octets, 16);
    }
    return out;
}

/* Finds the address that the kernel would send from. Returns false if the kernel has no route to
 * @far. */
static bool source_towards(const char *far, struct uro_gid *source)
{
    struct uro_gid gid;
    union address to, from = { 0 };
    socklen_t length = sizeof from;

    if (!uro_gid_parse(far, &gid))
        return false;
    to = address_of(&gid);
    int fd = socket(to.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool good = connect(fd, &to.any, sizeof to) == 0 && getsockname(fd, &from.any, &length) == 0;
    (void)close(fd);
    return good && uro_netdev_gid(&from.any, source) && !uro_gid_is_link_local(source);
}

static const char *const far[] = { FAR_IPV4, FAR_IPV6 };

static bool has_address(const struct uro_device_config *config, const struct uro_gid *gid)
{
    for (uint32_t i = 1; i < config->gid_count; i++)
        if (uro_gid_equal(gid, &config->gids[i]))
            return true;
    return false;
}

static void add_address(struct uro_device_config *config, const struct uro_gid *gid)
{
    if (has_address(config, gid))
        return;
    if (config->gid_count < URO_ENGINE_ADDRESSES_MAX)
        config->gids[config->gid_count++] = *gid;
    else
        config->left_out = true;
}

static void read_local(struct uro_device_config *config, struct uro_netdev_list *list)
{
    uro_netdev_read(list);
    config->left_out |= list->more;
}

static void add_all(struct uro_device_config *config, const struct uro_netdev_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        add_address(config, &list->addresses[i].gid);
}

/* Adds the address of an IP version if the list has only one address of this version. */
static void add_only(struct uro_device_config *config, const struct uro_netdev_list *list,
                     bool ipv4)
{
    if (uro_netdev_count(list, ipv4) != 1)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        if (uro_gid_is_ipv4(&list->addresses[i].gid) == ipv4)
            add_address(config, &list->addresses[i].gid);
}

/* Adds 127.0.0.1 or ::1 if the loopback interface is up. For a machine without a global address. */
static void add_loopback(struct uro_entry *entry)
{
    struct uro_netdev_list list;

    read_local(&entry->config, &list);
    uro_netdev_keep_interface(&list, "lo");
    if (list.count == 0) {
        uro_entry_refuse(entry, entry->where,
                         "ip=auto: no interface of this network namespace is up; try `ip link set "
                         "lo up`, or give an interface an address");
        return;
    }
    add_address(&entry->config, &list.addresses[0].gid);
    entry->config.loopback = true;
}

/* Adds the addresses of a machine without a default route. If there are IPv4 addresses, only they
 * must be unambiguous, because a device need not have addresses of both versions. */
static void add_unrouted(struct uro_entry *entry)
{
    struct uro_netdev_list list;
    char text[URO_NETDEV_TEXT_MAX], first[URO_GID_TEXT_MAX];

    read_local(&entry->config, &list);
    uro_netdev_keep_global(&list);
    const bool ipv4 = uro_netdev_count(&list, true) > 0;
    if (list.count == 0) {
        add_loopback(entry);
    } else if (uro_netdev_count(&list, ipv4) > 1) {
        uro_entry_refuse(entry, entry->where,
                         "ip=auto: this machine has no default route and several addresses: %s; "
                         "choose by an address (udp,ip=%s), a net (udp,ip=10.44.0.0/24) or an "
                         "interface (udp,iface=%s)",
                         uro_netdev_text(&list, text), uro_gid_text(&list.addresses[0].gid, first),
                         list.addresses[0].interface);
    } else {
        add_only(&entry->config, &list, ipv4);
        add_only(&entry->config, &list, !ipv4);
    }
}

static void add_auto(struct uro_entry *entry)
{
    struct uro_device_config *config = &entry->config;
    uint32_t before = config->gid_count;

    for (size_t i = 0; i < URO_ARRAY_LEN(far); i++) {
        struct uro_gid gid;
        if (source_towards(far[i], &gid))
            add_address(config, &gid);
    }
    if (config->gid_count == before && before == 1)
        add_unrouted(entry);
}

/* Adds the addresses of the link's interface, but link-local addresses only if it has no others. */
static void add_interface(struct uro_entry *entry, const char *interface)
{
    struct uro_netdev_list list;

    read_local(&entry->config, &list);
    uro_netdev_keep_interface(&list, interface);
    for (uint32_t i = 0; i < list.count; i++)
        if (list.addresses[i].global || uro_gid_is_loopback(&list.addresses[i].gid))
            add_address(&entry->config, &list.addresses[i].gid);
    if (entry->config.gid_count == 1)
        add_all(&entry->config, &list);
    if (entry->config.gid_count == 1)
        uro_entry_refuse(entry, entry->where,
                         "iface=%s: the interface is down or has no address; see `ip address show "
                         "dev %s`",
                         interface, interface);
}

/* Replaces the net in gids[@i] by the address that the machine has in this net. @interface: the
 * only interface to search, or "" for all. */
static void find_in_net(struct uro_entry *entry, uint32_t i, unsigned bits, const char *interface)
{
    struct uro_netdev_list all, list;
    const struct uro_gid gid = entry->config.gids[i];
    char net[URO_GID_TEXT_MAX], text[URO_NETDEV_TEXT_MAX];
    const unsigned length = bits - (uro_gid_is_ipv4(&gid) ? 96u : 0u);

    memset(&entry->config.gids[i], 0, sizeof gid);
    (void)uro_gid_text(&gid, net);
    read_local(&entry->config, &all);
    list = all;
    if (interface[0] != '\0')
        uro_netdev_keep_interface(&list, interface);
    uro_netdev_keep_net(&list, &gid, bits);
    if (list.count == 0)
        uro_entry_refuse(
            entry, entry->where,
            "ip=%s/%u: no address of this machine is in this net%s%s; its addresses: %s", net,
            length, interface[0] != '\0' ? " on " : "", interface, uro_netdev_text(&all, text));
    else if (list.count > 1)
        uro_entry_refuse(
            entry, entry->where,
            "ip=%s/%u: several addresses of this machine are in this net: %s; name one "
            "of them, a smaller net, or the interface (udp,iface=%s)",
            net, length, uro_netdev_text(&list, text), list.addresses[0].interface);
    else if (has_address(&entry->config, &list.addresses[0].gid))
        uro_entry_refuse(entry, entry->where, "ip=%s/%u: the same address is given twice", net,
                         length);
    else
        entry->config.gids[i] = list.addresses[0].gid;
}

/* Replaces nets by addresses, and checks that all addresses are on @interface unless it is "". */
static void resolve_nets(struct uro_entry *entry, const char *interface)
{
    struct uro_device_config *config = &entry->config;
    struct uro_netdev_list list;
    char text[URO_GID_TEXT_MAX];

    for (uint32_t i = 1; i < config->gid_count; i++)
        if ((config->ip_nets >> i & 1) != 0)
            find_in_net(entry, i,
                        config->prefix[i] + (uro_gid_is_ipv4(&config->gids[i]) ? 96u : 0u),
                        interface);
    config->ip_nets = 0;
    if (interface[0] == '\0' || config->problem[0] != '\0')
        return;
    read_local(&entry->config, &list);
    uro_netdev_keep_interface(&list, interface);
    for (uint32_t i = 1; i < config->gid_count; i++)
        if (uro_netdev_find(&list, &config->gids[i]) == NULL)
            uro_entry_refuse(entry, entry->where, "ip=%s: is not an address of the interface %s",
                             uro_gid_text(&config->gids[i], text), interface);
}

/* Adds the addresses of ip= among the link options. */
static void add_link_options(struct uro_entry *entry)
{
    char copy[sizeof entry->config.link];
    char *rest = copy, *option;

    memcpy(copy, entry->config.link, sizeof copy);
    (void)strsep(&rest, ",");
    while ((option = strsep(&rest, ",")) != NULL)
        if (strncmp(option, "ip=", 3) == 0)
            uro_entry_set(entry, entry->where, "ip", option + 3);
}

/* Writes the value of iface= among the link options, or "", to @name. Returns false if there is no
 * such interface. */
static bool find_interface(struct uro_entry *entry, char name[static IF_NAMESIZE])
{
    name[0] = '\0';
    if (strstr(entry->config.link, ",iface=") == NULL)
        return true;
    if (uro_defaults_interface(&entry->config, name) && if_nametoindex(name) != 0)
        return true;
    uro_entry_refuse(entry, entry->where,
                     "there is no interface \"%s\" in this network namespace; see `ip link`", name);
    return false;
}

static bool is_address(const struct ifaddrs *from, const struct uro_gid *gid)
{
    struct uro_gid own;

    return uro_netdev_gid(from->ifa_addr, &own) && uro_gid_equal(&own, gid);
}

/* Returns the smallest MTU of the interfaces with the device's addresses, and of the default routes
 * from these addresses. An administrator may have set the MTU of such a route because of a tunnel
 * behind a router. */
static uint32_t least_mtu(const struct uro_device_config *config)
{
    struct ifaddrs *list;
    uint32_t least = UDP_MTU_MOST;

    if (getifaddrs(&list) != 0)
        return UDP_MTU_LEAST;
    for (const struct ifaddrs *from = list; from != NULL; from = from->ifa_next)
        for (uint32_t i = 1; i < config->gid_count; i++)
            if (is_address(from, &config->gids[i])) {
                uint32_t mtu = interface_mtu(from->ifa_name);
                if (mtu == 0)
                    mtu = UDP_MTU_LEAST;
                least = mtu < least ? mtu : least;
            }
    freeifaddrs(list);
    for (size_t i = 0; i < URO_ARRAY_LEN(far); i++) {
        struct uro_gid from, to;
        if (!source_towards(far[i], &from) || !has_address(config, &from) ||
            !uro_gid_parse(far[i], &to))
            continue;
        uint32_t mtu = uro_fib_mtu(&from, &to, 0);
        least = mtu != 0 && mtu < least ? mtu : least;
    }
    return least;
}

static void fill_udp(struct uro_entry *entry)
{
    struct uro_device_config *config = &entry->config;
    char interface[IF_NAMESIZE];

    add_link_options(entry);
    if (!find_interface(entry, interface))
        return;
    resolve_nets(entry, interface);
    if (config->problem[0] != '\0')
        return;
    if (interface[0] != '\0' && (config->ip_auto || config->gid_count == 1))
        add_interface(entry, interface);
    else if (config->ip_auto || config->gid_count == 1)
        add_auto(entry);
    for (uint32_t i = 0; i < config->gid_count; i++)
        config->prefix[i] = 0;
    config->gids[0] = config->gids[1];
    if (config->mtu == 0)
        config->mtu = least_mtu(config);
}

/* ---- all links -------------------------------------------------------------- */

void uro_defaults_fill(struct uro_entry *entry)
{
    struct uro_device_config *config = &entry->config;
    char interface[IF_NAMESIZE];

    if (uro_port_driver_has(config->driver, URO_DRIVER_KERNEL_ADDRESSES)) {
        fill_udp(entry);
        if (is_zero(&config->mac))
            derive_mac(config);
        return;
    }
    if (uro_defaults_interface(config, interface))
        fill_from_interface(entry, interface);
    else if (uro_port_driver_has(config->driver, URO_DRIVER_NEEDS_INTERFACE))
        uro_entry_refuse(entry, entry->where, "link=%.60s: the interface is missing; add %s=NAME",
                         config->link, config->driver->interface);
    if (config->mtu == 0)
        config->mtu = config->driver->default_mtu;
    if (config->mtu > URO_PORT_MTU_MAX)
        config->mtu = URO_PORT_MTU_MAX;
    if (is_zero(&config->mac))
        derive_mac(config);
    config->gids[0] = uro_gid_link_local(&config->mac);
    config->prefix[0] = 64;
}

char *uro_defaults_loopback_text(const struct uro_device_config *entry,
                                 char text[static URO_DEFAULTS_LOOPBACK_MAX])
{
    char address[URO_GID_TEXT_MAX];

    (void)snprintf(text, URO_DEFAULTS_LOOPBACK_MAX,
                   "WARNING: %s has the address %s and reaches only this machine, because only the "
                   "interface lo has a usable address; give another interface an address, or write "
                   "ip=%s to hide this warning",
                   entry->name, uro_gid_text(&entry->gids[1], address), address);
    return text;
}

char *uro_defaults_left_out_text(const struct uro_device_config *entry,
                                 char text[static URO_DEFAULTS_LEFT_OUT_MAX])
{
    (void)snprintf(text, URO_DEFAULTS_LEFT_OUT_MAX,
                   "WARNING: %s does not have all addresses of the machine or the interface: a "
                   "device has at most %u, and uroce reads the first %u of the machine; name the "
                   "addresses that the device needs with ip=ADDRESS",
                   entry->name, URO_ENGINE_ADDRESSES_MAX - 1, URO_NETDEV_ADDRESSES_MAX);
    return text;
}
