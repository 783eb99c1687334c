/* SPDX-License-Identifier: BSD-3-Clause */
/* command.h - what librdmacm writes to /dev/infiniband/rdma_cm: a header and one command of
 * <rdma/rdma_user_cm.h>.
 *
 * A command may be longer or shorter than we know it, because librdmacm is older or newer: what is
 * missing reads as 0, what is too much is ignored. An answer is cut to the room for it.
 */
#pragma once

#include <sys/types.h>

#include "ucma/id.h"

/* As write(): the octets, or -1 with errno EINVAL (no such command, or malformed), ENOSYS, EIO
 * (forked child), ENOENT (no such identifier) or what the command says. */
ssize_t uro_command_write(struct uro_channel *channel, const void *octets, size_t size);

/* Held while a command runs, and while anybody else changes what commands change. */
void uro_command_lock(void);
void uro_command_unlock(void);

/* Where the answer to a command goes: its response address and its room. */
struct uro_reply {
    uint64_t to;
    uint32_t room;
};

/* Writes what fits of an answer. Returns 0, or -ENOSPC when there is no room for the first @least
 * octets of it. */
URO_NODISCARD int uro_reply(const struct uro_reply *reply, const void *answer, size_t size,
                            size_t least);

/* The handlers: 0 or -errno. @in is the command, all of it. */
typedef int uro_handler(struct uro_channel *channel, const void *in, uint32_t room);

uro_handler uro_bind_ip;
uro_handler uro_bind_any;
uro_handler uro_bind_listen;
uro_handler uro_resolve_ip;
uro_handler uro_resolve_any;
uro_handler uro_resolve_route;
uro_handler uro_resolve_service;
uro_handler uro_connect_start;
uro_handler uro_connect_accept;
uro_handler uro_connect_reject;
uro_handler uro_connect_disconnect;
uro_handler uro_connect_notify;
uro_handler uro_attr_init_qp;
uro_handler uro_query_route;
uro_handler uro_query_any;
uro_handler uro_option_set;
uro_handler uro_mcast_join_ip;
uro_handler uro_mcast_join_any;
uro_handler uro_mcast_leave;
