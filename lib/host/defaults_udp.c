/* SPDX-License-Identifier: BSD-3-Clause */
/* defaults_udp.c - asks the kernel which addresses it would send from, and how long packets may be. */
#define _GNU_SOURCE /* struct ifreq */
#include "host/defaults_udp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/defaults.h"
#include "host/local.h"
#include "io/kernel/fib.h"

/* Longest IP packet of a device: a RoCE MTU of 4096 and its headers. Longer ones would only take more
 * of the sockets' buffers. */
#define MTU_MOST  4224u
#define MTU_LEAST 1280u

/* Addresses that are nobody's (RFC 5737, RFC 3849): the way there is the default route. No packet is
 * sent. */
#define FAR_IPV4 "192.0.2.1"
#define FAR_IPV6 "2001:db8::1"

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

static struct uro_gid gid_of(const union address *address)
{
    struct uro_gid gid;

    if (address->any.sa_family == AF_INET)
        return uro_gid_from_ipv4((const uint8_t *)&address->v4.sin_addr);
    memcpy(gid.octets, &address->v6.sin6_addr, sizeof gid.octets);
    return gid;
}

/* The address the kernel would send from; false when there is no way to @far. */
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
    if (good)
        *source = gid_of(&from);
    return good && !uro_gid_is_link_local(source);
}

static const char *const far[] = { FAR_IPV4, FAR_IPV6 };

static bool has(const struct uro_device_config *config, const struct uro_gid *gid)
{
    for (uint32_t i = 1; i < config->gid_count; i++)
        if (uro_gid_equal(gid, &config->gids[i]))
            return true;
    return false;
}

static void add(struct uro_device_config *config, const struct uro_gid *gid)
{
    if (has(config, gid))
        return;
    if (config->gid_count < URO_ENGINE_ADDRESSES_MAX)
        config->gids[config->gid_count++] = *gid;
    else
        config->left_out = true;
}

static void read_local(struct uro_device_config *config, struct uro_local_list *list)
{
    uro_local_read(list);
    config->left_out |= list->more;
}

static void add_all(struct uro_device_config *config, const struct uro_local_list *list)
{
    for (uint32_t i = 0; i < list->count; i++)
        add(config, &list->at[i].gid);
}

/* The only address of its version. */
static void add_only(struct uro_device_config *config, const struct uro_local_list *list, bool ipv4)
{
    if (uro_local_count(list, ipv4) != 1)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        if (uro_gid_is_ipv4(&list->at[i].gid) == ipv4)
            add(config, &list->at[i].gid);
}

/* No address is global: 127.0.0.1 or ::1, if the loopback interface is up. */
static void add_loopback(struct uro_entry *entry)
{
    struct uro_local_list list;

    read_local(&entry->config, &list);
    uro_local_keep_interface(&list, "lo");
    if (list.count == 0) {
        uro_entry_refuse(entry, entry->where,
                         "ip=auto: no interface of this network namespace is up; try `ip link set "
                         "lo up`, or give an interface an address");
        return;
    }
    add(&entry->config, &list.at[0].gid);
    entry->config.loopback = true;
}

/* There is no default route. IPv4 decides: a device need not have an address of both versions. */
static void add_unrouted(struct uro_entry *entry)
{
    struct uro_local_list list;
    char text[URO_LOCAL_TEXT_MAX], first[URO_GID_TEXT_MAX];

    read_local(&entry->config, &list);
    uro_local_keep_global(&list);
    const bool ipv4 = uro_local_count(&list, true) > 0;
    if (list.count == 0) {
        add_loopback(entry);
    } else if (uro_local_count(&list, ipv4) > 1) {
        uro_entry_refuse(entry, entry->where,
                         "ip=auto: this machine has no default route and several addresses: %s; "
                         "choose by an address (udp,ip=%s), a net (udp,ip=10.44.0.0/24) or an "
                         "interface (udp,iface=%s)",
                         uro_local_text(&list, text), uro_gid_text(&list.at[0].gid, first),
                         list.at[0].interface);
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
            add(config, &gid);
    }
    if (config->gid_count == before && before == 1)
        add_unrouted(entry);
}

/* The addresses of the interface that the link names; its link-local one if it has no other. */
static void add_interface(struct uro_entry *entry, const char *interface)
{
    struct uro_local_list list;

    read_local(&entry->config, &list);
    uro_local_keep_interface(&list, interface);
    for (uint32_t i = 0; i < list.count; i++)
        if (list.at[i].global || uro_gid_is_loopback(&list.at[i].gid))
            add(&entry->config, &list.at[i].gid);
    if (entry->config.gid_count == 1)
        add_all(&entry->config, &list);
    if (entry->config.gid_count == 1)
        uro_entry_refuse(entry, entry->where,
                         "iface=%s: the interface is down or has no address; see `ip address show "
                         "dev %s`",
                         interface, interface);
}

/* Puts our address in the net gids[@i] into its place. @interface: of that interface only, unless "". */
static void find_in_net(struct uro_entry *entry, uint32_t i, unsigned bits, const char *interface)
{
    struct uro_local_list all, list;
    const struct uro_gid gid = entry->config.gids[i];
    char net[URO_GID_TEXT_MAX], text[URO_LOCAL_TEXT_MAX];
    const unsigned length = bits - (uro_gid_is_ipv4(&gid) ? 96u : 0u);

    memset(&entry->config.gids[i], 0, sizeof gid);
    (void)uro_gid_text(&gid, net);
    read_local(&entry->config, &all);
    list = all;
    if (interface[0] != '\0')
        uro_local_keep_interface(&list, interface);
    uro_local_keep_net(&list, &gid, bits);
    if (list.count == 0)
        uro_entry_refuse(
            entry, entry->where,
            "ip=%s/%u: no address of this machine is in this net%s%s; its addresses: %s", net,
            length, interface[0] != '\0' ? " on " : "", interface, uro_local_text(&all, text));
    else if (list.count > 1)
        uro_entry_refuse(
            entry, entry->where,
            "ip=%s/%u: several addresses of this machine are in this net: %s; name one "
            "of them, a smaller net, or the interface (udp,iface=%s)",
            net, length, uro_local_text(&list, text), list.at[0].interface);
    else if (has(&entry->config, &list.at[0].gid))
        uro_entry_refuse(entry, entry->where, "ip=%s/%u: the same address is given twice", net,
                         length);
    else
        entry->config.gids[i] = list.at[0].gid;
}

/* The addresses that were given: nets become addresses, and all must be on the interface that was given, too. */
static void settle_given(struct uro_entry *entry, const char *interface)
{
    struct uro_device_config *config = &entry->config;
    struct uro_local_list list;
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
    uro_local_keep_interface(&list, interface);
    for (uint32_t i = 1; i < config->gid_count; i++)
        if (!uro_local_has(&list, &config->gids[i]))
            uro_entry_refuse(entry, entry->where, "ip=%s: is no address of the interface %s",
                             uro_gid_text(&config->gids[i], text), interface);
}

/* The ip= among the words of the link. */
static void add_words(struct uro_entry *entry)
{
    char copy[sizeof entry->config.link];
    char *rest = copy, *word;

    memcpy(copy, entry->config.link, sizeof copy);
    (void)strsep(&rest, ",");
    while ((word = strsep(&rest, ",")) != NULL)
        if (strncmp(word, "ip=", 3) == 0)
            uro_entry_set(entry, entry->where, "ip", word + 3);
}

/* The value of iface= among the words of the link, or "". False when there is no such interface. */
static bool find_interface(struct uro_entry *entry, char name[static IF_NAMESIZE])
{
    name[0] = '\0';
    if (strstr(entry->config.link, ",iface=") == NULL)
        return true;
    if (uro_defaults_interface(entry->config.link, name) && if_nametoindex(name) != 0)
        return true;
    uro_entry_refuse(entry, entry->where,
                     "there is no interface \"%s\" in this network namespace; see `ip link`", name);
    return false;
}

static uint32_t interface_mtu(const char *interface)
{
    struct ifreq request;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return MTU_LEAST;
    memset(&request, 0, sizeof request);
    (void)snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    bool good = ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0;
    (void)close(fd);
    return good ? (uint32_t)request.ifr_mtu : MTU_LEAST;
}

static bool is_address(const struct ifaddrs *from, const struct uro_gid *gid)
{
    union address address;

    if (from->ifa_addr == NULL ||
        (from->ifa_addr->sa_family != AF_INET && from->ifa_addr->sa_family != AF_INET6))
        return false;
    memcpy(&address, from->ifa_addr,
           from->ifa_addr->sa_family == AF_INET ? sizeof address.v4 : sizeof address.v6);
    const struct uro_gid own = gid_of(&address);
    return uro_gid_equal(&own, gid);
}

/* The least of the interfaces that have our addresses, and of the default routes that they are on: a tunnel behind
 * a router may be told there. */
static uint32_t least_mtu(const struct uro_device_config *config)
{
    struct ifaddrs *list;
    uint32_t least = MTU_MOST;

    if (getifaddrs(&list) != 0)
        return MTU_LEAST;
    for (const struct ifaddrs *at = list; at != NULL; at = at->ifa_next)
        for (uint32_t i = 1; i < config->gid_count; i++)
            if (is_address(at, &config->gids[i])) {
                uint32_t mtu = interface_mtu(at->ifa_name);
                least = mtu < least ? mtu : least;
            }
    freeifaddrs(list);
    for (size_t i = 0; i < URO_ARRAY_LEN(far); i++) {
        struct uro_gid from, to;
        if (!source_towards(far[i], &from) || !has(config, &from) || !uro_gid_parse(far[i], &to))
            continue;
        uint32_t mtu = uro_fib_mtu(&from, &to, 0);
        least = mtu != 0 && mtu < least ? mtu : least;
    }
    return least;
}

void uro_defaults_udp(struct uro_entry *entry)
{
    struct uro_device_config *config = &entry->config;
    char interface[IF_NAMESIZE];

    add_words(entry);
    if (!find_interface(entry, interface))
        return;
    settle_given(entry, interface);
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
