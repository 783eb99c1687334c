/* SPDX-License-Identifier: BSD-3-Clause */
/* netdev.c - see netdev.h for the contract. */
#define _GNU_SOURCE /* IFF_UP, syscall */
#include "config/netdev.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/defaults.h"
#include "stats/link_rate.h"

#define LOOPBACK        "lo"
#define SPEED_OF_MEMORY 100000u /* Mb/s */
#define SPEED_UNKNOWN   10000u  /* Mb/s; virtual machines often have such interfaces */

/* Flags of /proc/net/if_inet6 (linux/if_addr.h): IFA_F_TEMPORARY, IFA_F_DADFAILED,
 * IFA_F_DEPRECATED. */
#define UNSUITABLE (0x01u | 0x08u | 0x20u)

static bool is_link_local(const struct uro_gid *gid)
{
    if (uro_gid_is_ipv4(gid))
        return gid->octets[12] == 169 && gid->octets[13] == 254; /* RFC 3927 */
    return uro_gid_is_link_local(gid);
}

bool uro_netdev_gid(const struct sockaddr *address, struct uro_gid *gid)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (address == NULL)
        return false;
    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof v4);
        *gid = uro_gid_from_ipv4((const uint8_t *)&v4.sin_addr);
        return true;
    }
    if (address->sa_family != AF_INET6)
        return false;
    memcpy(&v6, address, sizeof v6);
    memcpy(gid->octets, &v6.sin6_addr, sizeof gid->octets);
    return true;
}

static bool read_address(const struct ifaddrs *from, struct uro_netdev_address *out)
{
    if ((from->ifa_flags & IFF_UP) == 0 || !uro_netdev_gid(from->ifa_addr, &out->gid))
        return false;
    (void)snprintf(out->interface, sizeof out->interface, "%.*s", (int)strcspn(from->ifa_name, ":"),
                   from->ifa_name); /* without a label */
    out->running = (from->ifa_flags & IFF_RUNNING) != 0;
    out->global = !is_link_local(&out->gid) && !uro_gid_is_loopback(&out->gid);
    return true;
}

static void drop(struct uro_netdev_list *list, const struct uro_gid *gid)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (uro_gid_equal(&list->addresses[i].gid, gid)) {
            list->count--;
            memmove(&list->addresses[i], &list->addresses[i + 1],
                    (list->count - i) * sizeof list->addresses[0]);
            return;
        }
}

/* Removes unsuitable IPv6 addresses. The kernel lists their flags in a file: "fd00...01 02 40 00 80
 * eth0". Without that file, all addresses stay. */
static void drop_unsuitable(struct uro_netdev_list *list)
{
    FILE *in = fopen("/proc/net/if_inet6", "re");
    char digits[33];
    unsigned flags;

    if (in == NULL)
        return;
    while (fscanf(in, "%32[0-9a-f] %*x %*x %*x %x %*s ", digits, &flags) == 2) {
        struct uro_gid gid;
        for (size_t i = 0; i < sizeof gid.octets; i++) {
            unsigned octet = 0;
            (void)sscanf(digits + 2 * i, "%2x", &octet);
            gid.octets[i] = (uint8_t)octet;
        }
        if ((flags & UNSUITABLE) != 0)
            drop(list, &gid);
    }
    (void)fclose(in);
}

static void read_version(struct uro_netdev_list *list, const struct ifaddrs *from, bool ipv4)
{
    for (; from != NULL; from = from->ifa_next) {
        struct uro_netdev_address address;
        if (!read_address(from, &address) || uro_gid_is_ipv4(&address.gid) != ipv4)
            continue;
        list->more |= list->count == URO_NETDEV_ADDRESSES_MAX;
        if (!list->more)
            list->addresses[list->count++] = address;
    }
}

void uro_netdev_read(struct uro_netdev_list *list)
{
    struct ifaddrs *all;

    list->count = 0;
    list->more = false;
    if (getifaddrs(&all) != 0)
        return;
    read_version(list, all, true);
    read_version(list, all, false);
    freeifaddrs(all);
    drop_unsuitable(list);
}

typedef bool wanted_fn(const struct uro_netdev_address *address, const void *argument);

static void keep(struct uro_netdev_list *list, wanted_fn *wanted, const void *argument)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->count; i++)
        if (wanted(&list->addresses[i], argument))
            list->addresses[kept++] = list->addresses[i];
    list->count = kept;
}

static bool is_of_interface(const struct uro_netdev_address *address, const void *argument)
{
    return strcmp(address->interface, argument) == 0;
}

void uro_netdev_keep_interface(struct uro_netdev_list *list, const char *interface)
{
    keep(list, is_of_interface, interface);
}

struct net {
    const struct uro_gid *gid;
    unsigned bits;
};

static bool is_in_net(const struct uro_netdev_address *address, const void *argument)
{
    const struct net *net = argument;

    return uro_gid_same_subnet(&address->gid, net->gid, net->bits);
}

void uro_netdev_keep_net(struct uro_netdev_list *list, const struct uro_gid *net, unsigned bits)
{
    keep(list, is_in_net, &(const struct net){ net, bits });
}

static bool is_global(const struct uro_netdev_address *address, const void *argument)
{
    (void)argument;
    return address->global;
}

static bool is_running(const struct uro_netdev_address *address, const void *argument)
{
    (void)argument;
    return address->running;
}

void uro_netdev_keep_global(struct uro_netdev_list *list)
{
    bool running = false;

    keep(list, is_global, NULL);
    for (uint32_t i = 0; i < list->count; i++)
        running |= list->addresses[i].running;
    if (running)
        keep(list, is_running, NULL);
}

uint32_t uro_netdev_count(const struct uro_netdev_list *list, bool ipv4)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < list->count; i++)
        count += uro_gid_is_ipv4(&list->addresses[i].gid) == ipv4;
    return count;
}

const struct uro_netdev_address *uro_netdev_find(const struct uro_netdev_list *list,
                                                 const struct uro_gid *gid)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (uro_gid_equal(&list->addresses[i].gid, gid))
            return &list->addresses[i];
    return NULL;
}

char *uro_netdev_text(const struct uro_netdev_list *list, char text[static URO_NETDEV_TEXT_MAX])
{
    const size_t most = URO_NETDEV_TEXT_MAX - sizeof ", ...";
    size_t used = 0;

    (void)snprintf(text, URO_NETDEV_TEXT_MAX, "none");
    for (uint32_t i = 0; i < list->count; i++) {
        char address[URO_GID_TEXT_MAX], item[URO_GID_TEXT_MAX + IF_NAMESIZE + 8];
        (void)snprintf(item, sizeof item, "%s%s (%s)", i > 0 ? ", " : "",
                       uro_gid_text(&list->addresses[i].gid, address),
                       list->addresses[i].interface);
        if (used + strlen(item) > most) {
            (void)snprintf(text + used, URO_NETDEV_TEXT_MAX - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, URO_NETDEV_TEXT_MAX - used, "%s", item);
    }
    return text;
}

bool uro_netdev_name(const struct uro_device_config *config, uint32_t index,
                     char name[static IF_NAMESIZE])
{
    struct uro_netdev_list list;

    if (index >= config->gid_count)
        return false;
    if (uro_defaults_interface(config, name))
        return true;
    if (!uro_port_driver_has(config->driver, URO_DRIVER_KERNEL_ADDRESSES) ||
        uro_gid_is_loopback(&config->gids[index])) { /* 127.0.0.9 is in no list of addresses */
        memcpy(name, LOOPBACK, sizeof LOOPBACK);
        return true;
    }
    uro_netdev_read(&list);
    const struct uro_netdev_address *address = uro_netdev_find(&list, &config->gids[index]);
    if (address != NULL)
        memcpy(name, address->interface, IF_NAMESIZE);
    return address != NULL;
}

/* Returns whether an interface that is up has the address, or no interface has it but a socket can
 * be bound to it. Routes of type "local" have addresses without an interface. */
static bool is_usable(const struct ifaddrs *all, const struct uro_gid *gid)
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    const bool ipv4 = uro_gid_is_ipv4(gid);
    bool found = false;
    struct uro_gid own;

    for (; all != NULL; all = all->ifa_next) {
        if (!uro_netdev_gid(all->ifa_addr, &own) || !uro_gid_equal(&own, gid))
            continue;
        found = true;
        if ((all->ifa_flags & IFF_UP) != 0)
            return true;
    }
    /* librspreload replaces socket(), but not this call. */
    const int fd =
        found ? -1
              : (int)syscall(SYS_socket, ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    memcpy(&v4.sin_addr, gid->octets + sizeof gid->octets - sizeof v4.sin_addr, sizeof v4.sin_addr);
    memcpy(&v6.sin6_addr, gid->octets, sizeof v6.sin6_addr);
    const bool can_bind = ipv4 ? bind(fd, (const struct sockaddr *)&v4, sizeof v4) == 0
                               : bind(fd, (const struct sockaddr *)&v6, sizeof v6) == 0;
    (void)close(fd);
    return can_bind;
}

/* Returns whether the interface is up. @name may be an alternative name, which getifaddrs() does
 * not return. */
static bool is_interface_up(const struct ifaddrs *all, const char *name)
{
    const unsigned index = if_nametoindex(name);

    for (; all != NULL && index != 0; all = all->ifa_next)
        if (if_nametoindex(all->ifa_name) == index)
            return (all->ifa_flags & IFF_UP) != 0;
    return false;
}

bool uro_netdev_is_up(const struct uro_device_config *config)
{
    const bool has_addresses = uro_port_driver_has(config->driver, URO_DRIVER_KERNEL_ADDRESSES);
    char name[IF_NAMESIZE];
    struct ifaddrs *all;
    bool up = false;

    if ((!has_addresses && (!uro_port_driver_has(config->driver, URO_DRIVER_NEEDS_INTERFACE) ||
                            !uro_defaults_interface(config, name))) ||
        getifaddrs(&all) != 0)
        return true;
    if (!has_addresses)
        up = is_interface_up(all, name);
    for (uint32_t i = 0; i < config->gid_count && has_addresses && !up; i++)
        up = is_usable(all, &config->gids[i]);
    freeifaddrs(all);
    return up;
}

/* Returns the speed of an interface in Mb/s from the kernel, or 0 if the kernel has none. */
static uint32_t interface_speed(const char *interface)
{
    char path[sizeof "/sys/class/net//speed" + IF_NAMESIZE];
    int speed = 0;

    (void)snprintf(path, sizeof path, "/sys/class/net/%s/speed", interface);
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return 0;
    if (fscanf(in, "%d", &speed) != 1 || speed < 0) /* -1: unknown */
        speed = 0;
    (void)fclose(in);
    return (uint32_t)speed;
}

uint32_t uro_netdev_speed(const struct uro_device_config *config)
{
    char interface[IF_NAMESIZE] = "";

    if (config->speed != 0)
        return config->speed;
    (void)uro_netdev_name(config, config->gid_count > 1 ? 1 : 0, interface);
    if (strcmp(interface, LOOPBACK) == 0)
        return SPEED_OF_MEMORY;
    const uint32_t speed = interface_speed(interface);
    return uro_link_rate_of(speed != 0 ? speed : SPEED_UNKNOWN)->speed;
}

uint32_t uro_netdev_index(const struct uro_device_config *config, uint32_t index)
{
    char name[IF_NAMESIZE];

    return uro_netdev_name(config, index, name) ? if_nametoindex(name) : 0;
}
