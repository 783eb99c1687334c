/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h - the multicast groups of a port: a socket for each, because one that is bound to an
 * address of ours hears nothing else. Any number of processes may have a group; the kernel gives
 * each of them every packet, and tells routers and switches. */
#pragma once

#include "io/udp/sock.h"

struct uro_group {
    struct uro_sock sock; /* its address is the group's */
    bool wanted;
};

struct uro_groups {
    struct uro_group all[URO_PORT_GROUPS_MAX];
    uint32_t count;
    uint32_t turn; /* whose socket is looked at next */
    int epoll;     /* of all of them: the port waits for it */
    bool complained;
};

/* The groups are @gids from now on, on the interfaces of the @own sockets' addresses. One that
 * cannot be had is told on stderr, once. */
void uro_groups_set(struct uro_groups *groups, const struct uro_gid *gids, uint32_t count,
                    const struct uro_sock *own, uint32_t own_count,
                    const struct uro_sock_options *options);
/* The same groups anew: the interface of an address is another than it was. */
void uro_groups_renew(struct uro_groups *groups, const struct uro_sock *own, uint32_t own_count,
                      const struct uro_sock_options *options);
void uro_groups_close(struct uro_groups *groups);

/* Each in turn; NULL when there is none. */
const struct uro_sock *uro_groups_next(struct uro_groups *groups);

/* Whether a packet of a group is one of ours that comes back: the engine gave it to our members
 * already. */
bool uro_group_is_echo(const struct uro_sock *own, uint32_t own_count, const struct uro_gid *from,
                       const uint8_t *bth, uint32_t length);
