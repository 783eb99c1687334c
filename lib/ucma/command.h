/* SPDX-License-Identifier: BSD-3-Clause */
/* command.h - the commands that librdmacm writes to /dev/infiniband/rdma_cm: a header and one
 * command of <rdma/rdma_user_cm.h>.
 *
 * CONNECT and ACCEPT of an older librdmacm are shorter. A command of a newer librdmacm may be
 * longer. Missing fields are read as 0, and additional fields are ignored. A reply is truncated to
 * the size of its buffer.
 */
#pragma once

#include <sys/types.h>

#include "ucma/id.h"

/* Runs a command. Returns the number of bytes like write(), or -1 with errno
 *   EINVAL  malformed command, or number of the command out of range
 *   ENOSYS  unsupported command
 *   EIO     forked child
 *   ENOENT  unknown identifier
 *   errno   error of the command */
ssize_t uro_command_write(struct uro_channel *channel, const void *octets, size_t size);

/* Take and release the commands lock. The lock is held while a command runs, and while other code
 * changes the same state. GET_EVENT waits without the lock. */
void uro_command_lock(void);
/* Takes the lock unless another thread has it. Returns whether it took the lock. */
URO_NODISCARD bool uro_command_try_lock(void);
void uro_command_unlock(void);

/* The buffer for the reply to a command. */
struct uro_reply {
    uint64_t address; /* in the program */
    uint32_t size;    /* bytes */
};

/* Writes the part of the reply that fits. Returns 0, or -ENOSPC if the first @least bytes do not
 * fit. */
URO_NODISCARD int uro_reply(const struct uro_reply *reply, const void *response, size_t size,
                            size_t least);

/* Handles a command. @in: the whole command. Returns 0 or -errno. */
typedef int uro_handler(struct uro_channel *channel, const void *in, uint32_t reply_size);

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
