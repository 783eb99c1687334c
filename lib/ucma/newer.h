/* SPDX-License-Identifier: BSD-3-Clause */
/* newer.h - definitions of <rdma/rdma_user_cm.h> since Linux 6.17 (librdmacm 61), for building with
 * older headers.
 */
#pragma once

#include <rdma/rdma_user_cm.h>

/* Commands, and the subjects of QUERY. */
#define URO_NEWER_RESOLVE_IB_SERVICE (RDMA_USER_CM_CMD_JOIN_MCAST + 1)
#define URO_NEWER_WRITE_CM_EVENT     (RDMA_USER_CM_CMD_JOIN_MCAST + 2)
#define URO_NEWER_QUERY_IB_SERVICE   (RDMA_USER_CM_QUERY_GID + 1)

/* A name or number of a service. A subnet administrator finds its addresses. */
struct uro_newer_resolve_ib_service {
    __u32 id;
    __u32 reserved;
    __aligned_u64 service_id;
    __u8 service_name[64];
    __u32 flags;
    __u32 more_reserved;
};

/* The beginning of the response. Records could follow. */
struct uro_newer_query_ib_service {
    __u32 count;
    __u32 reserved;
};

/* An event that the program sends to itself. */
struct uro_newer_write_cm_event {
    __u32 id;
    __u32 reserved;
    __u32 event;
    __u32 status;
    union {
        struct rdma_ucm_conn_param conn;
        struct rdma_ucm_ud_param ud;
        __aligned_u64 argument;
    } param;
};
