/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_event.h - events of identifiers, in the queue of their channel. */
#pragma once

#include "ucma/command.h"

/* Values equal enum rdma_cm_event_type of <rdma/rdma_cma.h>, which cannot stand beside the kernel's
 * header. */
enum uro_cm_event_kind {
    URO_CM_EVENT_ADDR_RESOLVED,
    URO_CM_EVENT_ADDR_ERROR,
    URO_CM_EVENT_ROUTE_RESOLVED,
    URO_CM_EVENT_ROUTE_ERROR,
    URO_CM_EVENT_CONNECT_REQUEST,
    URO_CM_EVENT_CONNECT_RESPONSE,
    URO_CM_EVENT_CONNECT_ERROR,
    URO_CM_EVENT_UNREACHABLE,
    URO_CM_EVENT_REJECTED,
    URO_CM_EVENT_ESTABLISHED,
    URO_CM_EVENT_DISCONNECTED,
    URO_CM_EVENT_DEVICE_REMOVAL,
    URO_CM_EVENT_MULTICAST_JOIN,
    URO_CM_EVENT_MULTICAST_ERROR,
    URO_CM_EVENT_ADDR_CHANGE,
    URO_CM_EVENT_TIMEWAIT_EXIT,
    URO_CM_EVENT_ADDRINFO_RESOLVED, /* this and what follows: librdmacm since 61 */
    URO_CM_EVENT_ADDRINFO_ERROR,
    URO_CM_EVENT_USER,
    URO_CM_EVENT_INTERNAL,
};

/* An event with nothing but a status. Its device is locked. Returns 0 or -ENOMEM. */
URO_NODISCARD int uro_cm_event_simple(struct uro_id *id, enum uro_cm_event_kind kind, int status);

/* The command GET_EVENT; waits for one as the channel's descriptor says. */
uro_handler uro_cm_event_fetch;

/* The command WRITE_CM_EVENT. */
uro_handler uro_cm_event_write;

/* The kernel's form of the way to the peer. */
void uro_cm_event_path(const struct uro_id *id, const struct uro_gid *remote,
                       struct ib_uverbs_ah_attr *ah);

/* Tells every identifier of @device that it is gone. Takes the commands lock; remove.c. */
void uro_remove_device(struct uro_device *device);

extern const struct uro_conn_handlers uro_cm_event_handlers;
