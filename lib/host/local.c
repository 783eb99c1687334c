/* SPDX-License-Identifier: BSD-3-Clause */
/* local.c - see local.h. */
#define _GNU_SOURCE /* IFF_UP */
#include "host/local.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Flags of /proc/net/if_inet6 (linux/if_addr.h): IFA_F_TEMPORARY, IFA_F_DADFAILED, IFA_F_DEPRECATED. */
#define UNSUITABLE (0x01u | 0x08u | 0x20u)

static bool is_link_local(const struct uro_gid *gid)
{
    if (uro_gid_is_ipv4(gid))
        return gid->octets[12] == 169 && gid->octets[13] == 254; /* RFC 3927 */
    return uro_gid_is_link_local(gid);
}

static bool take(const struct ifaddrs *from, struct uro_local *out)
{
    if (from->ifa_addr == NULL || (from->ifa_flags & IFF_UP) == 0)
        return false;
    if (from->ifa_addr->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, from->ifa_addr, sizeof v4);
        out->gid = uro_gid_from_ipv4((const uint8_t *)&v4.sin_addr);
    } else if (from->ifa_addr->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, from->ifa_addr, sizeof v6);
        memcpy(out->gid.octets, &v6.sin6_addr, sizeof out->gid.octets);
    } else {
        return false;
    }
    (void)snprintf(out->interface, sizeof out->interface, "%.*s", (int)strcspn(from->ifa_name, ":"),
                   from->ifa_name); /* without a label */
    out->running = (from->ifa_flags & IFF_RUNNING) != 0;
    out->global = !is_link_local(&out->gid) && !uro_gid_is_loopback(&out->gid);
    return true;
}

static void drop(struct uro_local_list *list, const struct uro_gid *gid)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (uro_gid_equal(&list->at[i].gid, gid)) {
            list->count--;
            memmove(&list->at[i], &list->at[i + 1], (list->count - i) * sizeof list->at[0]);
            return;
        }
}

/* The kernel tells the flags of IPv6 addresses in a file: "fd00...01 02 40 00 80 eth0". Without it, all suit. */
static void drop_unsuitable(struct uro_local_list *list)
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

static void read_version(struct uro_local_list *list, const struct ifaddrs *from, bool ipv4)
{
    for (; from != NULL; from = from->ifa_next) {
        struct uro_local local;
        if (!take(from, &local) || uro_gid_is_ipv4(&local.gid) != ipv4)
            continue;
        list->more |= list->count == URO_LOCAL_MAX;
        if (!list->more)
            list->at[list->count++] = local;
    }
}

void uro_local_read(struct uro_local_list *list)
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

typedef bool wanted_fn(const struct uro_local *local, const void *what);

static void keep(struct uro_local_list *list, wanted_fn *wanted, const void *what)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < list->count; i++)
        if (wanted(&list->at[i], what))
            list->at[kept++] = list->at[i];
    list->count = kept;
}

static bool is_of_interface(const struct uro_local *local, const void *what)
{
    return strcmp(local->interface, what) == 0;
}

void uro_local_keep_interface(struct uro_local_list *list, const char *interface)
{
    keep(list, is_of_interface, interface);
}

struct net {
    const struct uro_gid *gid;
    unsigned bits;
};

static bool is_in_net(const struct uro_local *local, const void *what)
{
    const struct net *net = what;

    return uro_gid_same_subnet(&local->gid, net->gid, net->bits);
}

void uro_local_keep_net(struct uro_local_list *list, const struct uro_gid *net, unsigned bits)
{
    keep(list, is_in_net, &(const struct net){ net, bits });
}

static bool is_global(const struct uro_local *local, const void *what)
{
    (void)what;
    return local->global;
}

static bool is_running(const struct uro_local *local, const void *what)
{
    (void)what;
    return local->running;
}

void uro_local_keep_global(struct uro_local_list *list)
{
    bool running = false;

    keep(list, is_global, NULL);
    for (uint32_t i = 0; i < list->count; i++)
        running |= list->at[i].running;
    if (running)
        keep(list, is_running, NULL);
}

uint32_t uro_local_count(const struct uro_local_list *list, bool ipv4)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < list->count; i++)
        count += uro_gid_is_ipv4(&list->at[i].gid) == ipv4;
    return count;
}

bool uro_local_has(const struct uro_local_list *list, const struct uro_gid *gid)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (uro_gid_equal(&list->at[i].gid, gid))
            return true;
    return false;
}

char *uro_local_text(const struct uro_local_list *list, char text[static URO_LOCAL_TEXT_MAX])
{
    const size_t most = URO_LOCAL_TEXT_MAX - sizeof ", ...";
    size_t used = 0;

    (void)snprintf(text, URO_LOCAL_TEXT_MAX, "none");
    for (uint32_t i = 0; i < list->count; i++) {
        char address[URO_GID_TEXT_MAX], item[URO_GID_TEXT_MAX + IF_NAMESIZE + 8];
        (void)snprintf(item, sizeof item, "%s%s (%s)", i > 0 ? ", " : "",
                       uro_gid_text(&list->at[i].gid, address), list->at[i].interface);
        if (used + strlen(item) > most) {
            (void)snprintf(text + used, URO_LOCAL_TEXT_MAX - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, URO_LOCAL_TEXT_MAX - used, "%s", item);
    }
    return text;
}
