/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h - the multicast groups of a port. Each group has its own socket, because a socket bound
 * to a unicast address receives no multicast. Any number of processes may join a group. The kernel
 * delivers each packet to all of them, and announces the membership to routers and switches. */
#pragma once

#include "io/udp/sock.h"

struct uro_group {
    struct uro_sock sock; /* bound to the group's address */
    bool wanted;
};

struct uro_groups {
    struct uro_group all[URO_PORT_GROUPS_MAX];
    uint32_t count;
    uint32_t turn; /* index of the group to read next, modulo count */
    int epoll;     /* epoll descriptor with all sockets; the port waits for it */
    bool complained;
};

/* Sets the groups to @gids, on the interfaces of the @own sockets' addresses. Prints the first
 * failure to stderr. */
void uro_groups_set(struct uro_groups *groups, const struct uro_gid *gids, uint32_t count,
                    const struct uro_sock *own, uint32_t own_count,
                    const struct uro_sock_options *options);
/* Joins the same groups again, after an address has moved to another interface. */
void uro_groups_renew(struct uro_groups *groups, const struct uro_sock *own, uint32_t own_count,
                      const struct uro_sock_options *options);
void uro_groups_close(struct uro_groups *groups);

/* Returns the next socket, round robin. Returns NULL when there is no group. */
const struct uro_sock *uro_groups_next(struct uro_groups *groups);

/* Returns whether a multicast packet is the loopback copy of a packet that this process sent. The
 * engine has delivered that packet to local members already. */
bool uro_group_is_echo(const struct uro_sock *own, uint32_t own_count, const struct uro_gid *from,
                       const uint8_t *bth, uint32_t length);
