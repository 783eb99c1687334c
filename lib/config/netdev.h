/* SPDX-License-Identifier: BSD-3-Clause */
/* netdev.h - the kernel's network interfaces and their addresses, in the network namespace of this
 * process. */
#pragma once

#include <net/if.h>

#include "config/device_config.h"

struct sockaddr;

#define URO_NETDEV_ADDRESSES_MAX 128u /* addresses in a list; further addresses are left out */
#define URO_NETDEV_TEXT_MAX      200u

struct uro_netdev_address {
    struct uro_gid gid;
    char interface[IF_NAMESIZE];
    bool running; /* whether the interface is up and has a carrier */
    bool global;  /* whether the address is neither link-local nor loopback */
};

struct uro_netdev_list {
    uint32_t count;
    bool more; /* whether the machine has more addresses than this list */
    struct uro_netdev_address addresses[URO_NETDEV_ADDRESSES_MAX];
};

/* Converts an IPv4 or IPv6 address. Returns false for NULL and for other families. */
bool uro_netdev_gid(const struct sockaddr *address, struct uro_gid *gid);

/* Reads the addresses of all interfaces that are up, IPv4 first. Leaves out IPv6 addresses that are
 * temporary, deprecated or duplicate. */
void uro_netdev_read(struct uro_netdev_list *list);

/* Keeps only the addresses of one interface. */
void uro_netdev_keep_interface(struct uro_netdev_list *list, const char *interface);

/* Keeps only the addresses whose first @bits of the GID's 128 bits equal those of @net. */
void uro_netdev_keep_net(struct uro_netdev_list *list, const struct uro_gid *net, unsigned bits);

/* Keeps only the global addresses, and if some of their interfaces are running, only those of
 * running interfaces. */
void uro_netdev_keep_global(struct uro_netdev_list *list);

/* Returns the number of addresses of one IP version. */
uint32_t uro_netdev_count(const struct uro_netdev_list *list, bool ipv4);

/* Returns the entry with the address @gid, or NULL. */
const struct uro_netdev_address *uro_netdev_find(const struct uro_netdev_list *list,
                                                 const struct uro_gid *gid);

/* Writes "10.0.0.1 (eth0), fd00::1 (eth0)" to @text, or "none". A long list ends with "...".
 * Returns @text. */
char *uro_netdev_text(const struct uro_netdev_list *list, char text[static URO_NETDEV_TEXT_MAX]);

/* Writes the name of the interface of the device's GID @index to @name. This is the interface of
 * the link, or over UDP the interface that has the address now. A link without an interface, for
 * example memif, has "lo", because programs need the name of an existing interface. Returns false
 * if no interface has the address any more. */
bool uro_netdev_name(const struct uro_device_config *config, uint32_t index,
                     char name[static IF_NAMESIZE]);

/* Returns the kernel's index of that interface, or 0. */
uint32_t uro_netdev_index(const struct uro_device_config *config, uint32_t index);

/* Returns whether the kernel's interface of a device that is not started is up: over UDP the
 * interface of any of its addresses, otherwise the interface that the link needs. Returns true for
 * a link that needs no interface. */
bool uro_netdev_is_up(const struct uro_device_config *config);

/* Returns the speed of the port in Mb/s: the speed of rate= or like=, or else the kernel's speed of
 * the interface. The kernel's speed is rounded down to a speed in stats/link_rate.h. Without an
 * interface and over loopback the result is 100 Gb/s. If the kernel has no speed, the result is
 * 10 Gb/s. */
uint32_t uro_netdev_speed(const struct uro_device_config *config);
