/* SPDX-License-Identifier: BSD-3-Clause */
/* wr.h - two connected queue pairs. Requests are posted to one of them with ibv_wr_*(). */
#pragma once

#include <assert.h>

#include "api/api.h"

#define WR_CAPACITY 16u
#define WR_INLINE   1024u

/* Names from <infiniband/verbs.h> since rdma-core 45, where struct ibv_qp_ex has one more
 * operation. */
#define WR_WITH_FLUSH          (1u << 11)
#define WR_ACCESS_FLUSH_GLOBAL (1u << 8)
#define WR_FLUSH_GLOBAL        1u
#define WR_FLUSH_RANGE         0u
#define WR_FLUSH_MR            1u
#define WR_WC_FLUSH            8u
#ifdef URO_HAS_IBV_WR_FLUSH
#define wr_flush_of(qp) ((qp)->wr_flush)
#else
struct wr_newer_qp_ex {
    struct ibv_qp_ex older;
    void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, size_t length,
                     uint8_t type, uint8_t level);
};
#ifdef __x86_64__
static_assert(offsetof(struct wr_newer_qp_ex, wr_flush) == 352, "as programs were compiled");
#endif
#define wr_flush_of(qp) (((struct wr_newer_qp_ex *)(qp))->wr_flush)
#endif

/* All operations of an RC queue pair. */
#define WR_OPERATIONS                                                                              \
    (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |        \
     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |     \
     IBV_QP_EX_WITH_SEND_WITH_INV | WR_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE)

struct wr {
    struct pair pair;     /* the test posts to a */
    struct ibv_qp_ex *qp; /* queue pair of a */
    struct ibv_mr *whole; /* b's buffer with every right */
    uint32_t rkey;        /* rkey of that region */
    uint32_t plain_rkey;  /* rkey of b's buffer, without flush access */
    uint64_t remote;      /* b's buffer */
};
void wr_open(struct wr *wr, const struct api *api);
void wr_close(struct wr *wr);

/* Returns the attributes of ibv_create_qp_ex() for a queue pair with @operations. */
struct ibv_qp_init_attr_ex wr_init(const struct api *api, struct ibv_cq *cq, uint64_t operations);

/* Sets the wr_id of the next request, which is signalled. */
void wr_name(struct wr *wr, uint64_t id);
/* Calls ibv_wr_set_sge() for a's buffer. */
void wr_set(struct wr *wr, size_t offset, uint32_t length);
