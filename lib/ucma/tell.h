/* SPDX-License-Identifier: BSD-3-Clause */
/* tell.h - what happens to an identifier becomes an event of its channel. */
#pragma once

#include "ucma/command.h"

/* Values equal enum rdma_cm_event_type of <rdma/rdma_cma.h>, which cannot stand beside the kernel's
 * header. */
enum uro_tell_kind {
    URO_TELL_ADDR_RESOLVED,
    URO_TELL_ADDR_ERROR,
    URO_TELL_ROUTE_RESOLVED,
    URO_TELL_ROUTE_ERROR,
    URO_TELL_CONNECT_REQUEST,
    URO_TELL_CONNECT_RESPONSE,
    URO_TELL_CONNECT_ERROR,
    URO_TELL_UNREACHABLE,
    URO_TELL_REJECTED,
    URO_TELL_ESTABLISHED,
    URO_TELL_DISCONNECTED,
    URO_TELL_DEVICE_REMOVAL,
    URO_TELL_MULTICAST_JOIN,
    URO_TELL_MULTICAST_ERROR,
    URO_TELL_ADDR_CHANGE,
    URO_TELL_TIMEWAIT_EXIT,
    URO_TELL_ADDRINFO_RESOLVED, /* this and what follows: librdmacm since 61 */
    URO_TELL_ADDRINFO_ERROR,
    URO_TELL_USER,
    URO_TELL_INTERNAL,
};

/* An event with nothing but a status. Its device is locked. Returns 0 or -ENOMEM. */
URO_NODISCARD int uro_tell_simple(struct uro_id *id, enum uro_tell_kind kind, int status);

/* The command GET_EVENT; waits for one as the channel's descriptor says. */
uro_handler uro_tell_fetch;

/* The command WRITE_CM_EVENT. */
uro_handler uro_tell_write;

/* The kernel's form of the way to the peer. */
void uro_tell_path(const struct uro_id *id, const struct uro_gid *remote,
                   struct ib_uverbs_ah_attr *ah);

/* Tells every identifier of @device that it is gone. Takes the commands lock; remove.c. */
void uro_remove_device(struct uro_device *device);

extern const struct uro_conn_handlers uro_tell_sink;
