/* SPDX-License-Identifier: BSD-3-Clause */
/* nldev.h - answers requests of NETLINK_RDMA about devices, as the `rdma` tool of iproute2 sends
 * them. The commands and attributes are those of <rdma/rdma_netlink.h>.
 *
 * Devices can be read but not changed: they come from the configuration. A request to change a
 * device gets -EOPNOTSUPP, and a hint that says what to do instead.
 */
#pragma once

#include "base/counters.h"
#include "netlink/msg.h"

#define URO_NLDEV_DEVICES_MAX 64u
#define URO_NLDEV_NAME_MAX    64u
#define URO_NLDEV_FIELDS_MAX  12u
#define URO_NLDEV_HINT_MAX    384u
#define URO_NLDEV_MORE_MAX    2048u /* bytes of uro_nldev_object.more */
/* Bytes of a message of the answer; tools have buffers of a page. */
#define URO_NLDEV_MESSAGE_MAX 4096u

/* Kinds of verbs objects, in the order of `rdma resource show`. */
enum uro_nldev_kind {
    URO_NLDEV_QP,
    URO_NLDEV_CQ,
    URO_NLDEV_PD,
    URO_NLDEV_CM_ID,
    URO_NLDEV_MR,
    URO_NLDEV_CTX,
    URO_NLDEV_SRQ,
    URO_NLDEV_KINDS,
};

/* A verbs object as the attributes that a tool gets about it. A queue pair has RES_LQPN, RES_RQPN,
 * RES_TYPE, RES_STATE, RES_SQ_PSN, RES_RQ_PSN and RES_PID, for example. */
struct uro_nldev_object {
    uint32_t field_count;
    struct uro_nldev_field {
        uint16_t attr; /* RDMA_NLDEV_ATTR_... */
        uint16_t size; /* 1, 4 or 8 bytes */
        uint64_t value;
    } fields[URO_NLDEV_FIELDS_MAX];
    uint8_t *more; /* further attributes as in a message, on the heap; NULL: none */
    uint32_t more_length;
};

/* The objects of one kind that a device has, in all processes of the user. */
struct uro_nldev_objects {
    bool known; /* false: objects of this kind are not counted */
    uint32_t count;
    struct uro_nldev_object *list; /* `count` objects */
};

struct uro_nldev_device {
    uint32_t index; /* the device is uverbs<index> */
    char name[URO_NLDEV_NAME_MAX];
    char firmware[URO_NLDEV_NAME_MAX];
    uint64_t node_guid, sys_image_guid;  /* the first byte is the top 8 bits */
    uint8_t node_type;                   /* 1: channel adapter */
    uint8_t port_state, port_phys_state; /* as in ports/1/state and phys_state */
    uint32_t port_cap_mask;
    uint32_t ndev_index; /* network interface; 0: the link has none */
    char ndev_name[URO_NLDEV_NAME_MAX];
    struct uro_counters counters; /* sums over all processes of the user */
    struct uro_nldev_objects objects[URO_NLDEV_KINDS];
};

struct uro_nldev_view {
    uint32_t count;
    struct uro_nldev_device devices[URO_NLDEV_DEVICES_MAX];
};

/* The answer to a request. */
struct uro_nldev_answer {
    struct uro_netlink_list messages; /* each message is sent as one datagram */
    char hint[URO_NLDEV_HINT_MAX];    /* one line for the user, without newline; or "" */
};

/* Returns whether the answer needs the objects of the devices. */
bool uro_nldev_needs_objects(const uint8_t *request, size_t length);

/* Answers all messages of a datagram @request, as the kernel does: a truncated message ends the
 * datagram. A message without NLM_F_REQUEST gets at most an acknowledgement. Appends the
 * answers to @answer. @port_id is the port id of the socket that sent the request. */
void uro_nldev_answer(const struct uro_nldev_view *view, const uint8_t *request, size_t length,
                      uint32_t port_id, struct uro_nldev_answer *answer);

/* Frees all objects of the device. */
void uro_nldev_free_objects(struct uro_nldev_device *device);

/* Adds a field to an object that has fewer than URO_NLDEV_FIELDS_MAX. */
void uro_nldev_add_field(struct uro_nldev_object *object, uint16_t attr, uint16_t size,
                         uint64_t value);
