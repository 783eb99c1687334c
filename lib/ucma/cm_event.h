/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_event.h - events of identifiers, which are queued on their channels. */
#pragma once

#include "ucma/command.h"

/* The values of enum rdma_cm_event_type. Its header <rdma/rdma_cma.h> conflicts with the kernel's
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
    URO_CM_EVENT_ADDRINFO_RESOLVED, /* this event and the next ones exist since librdmacm 61 */
    URO_CM_EVENT_ADDRINFO_ERROR,
    URO_CM_EVENT_USER,
    URO_CM_EVENT_INTERNAL,
};

/* Queues an event that has only a status. Engine lock of the device held, unless the device was
 * removed. Returns 0 or -ENOMEM. */
URO_NODISCARD int uro_cm_event_simple(struct uro_id *id, enum uro_cm_event_kind kind, int status);

/* Handles GET_EVENT. Waits for an event unless the channel's descriptor is O_NONBLOCK. */
uro_handler uro_cm_event_fetch;

/* Handles WRITE_CM_EVENT. */
uro_handler uro_cm_event_write;

/* Fills in the path to the peer in the kernel's form. */
void uro_cm_event_path(const struct uro_id *id, const struct uro_gid *remote,
                       struct ib_uverbs_ah_attr *ah);

/* Ends the activity of all identifiers of @device, and queues DEVICE_REMOVAL for those that the
 * program has. Takes the commands lock; remove.c. */
void uro_remove_device(struct uro_device *device);

extern const struct uro_conn_handlers uro_cm_event_handlers;
