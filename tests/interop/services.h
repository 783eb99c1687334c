/* SPDX-License-Identifier: BSD-3-Clause */
/* services.h - tests of unreliable connections, datagrams, groups, shared receive queues, windows,
 * ATOMIC_WRITE and FLUSH, which the program "verify" does not test. An end sends one message after
 * the other over a link without loss, and the receiver compares every byte.
 */
#pragma once

#include <stdbool.h>

#include "meet.h"

#define SERVICES_ROOM  (256u * 1024)
#define SERVICES_DEPTH 64
#define SERVICES_GRH   40u
#define SERVICES_QKEY  0x11111111u
#define SERVICES_QPS   3u

/* IBV_QP_EX_WITH_FLUSH and IBV_ACCESS_FLUSH_GLOBAL, in verbs.h since rdma-core 45 */
#define SERVICES_WITH_FLUSH          (1u << 11)
#define SERVICES_ACCESS_FLUSH_GLOBAL (1u << 8)

struct services_options {
    struct meet_options meet;
    const char *kind;
    const char *group; /* IP address of the group of the kind "group" */
};

struct services_hello {
    uint8_t gid[16];
    uint64_t address;
    uint32_t rkey;
    uint32_t qpn[SERVICES_QPS];
};

struct services_end {
    const struct services_options *options;
    bool client;
    uint64_t operations; /* operations posted by ibv_wr_*(), set before services_open(); 0: none */
    unsigned
        access; /* further access flags of memory and queue pairs, set before services_open() */
    int peer;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq; /* or NULL */
    struct ibv_qp *qps[SERVICES_QPS];
    bool flush_unknown; /* the library of this end does not support FLUSH */
    uint32_t qp_count;
    union ibv_gid gid;
    uint8_t *memory; /* SERVICES_ROOM bytes for sends, then as many for receives */
    struct ibv_mr *mr;
    struct services_hello theirs;
};

/* Creates the objects, and connects to the other end. */
void services_open(struct services_end *end, enum ibv_qp_type type, uint32_t qp_count, bool srq);
void services_close(struct services_end *end);

void services_post_recv(struct services_end *end, uint32_t qp, uint64_t id, uint32_t at,
                        uint32_t length);
void services_post_send(struct services_end *end, uint32_t qp, struct ibv_send_wr *wr, uint32_t at,
                        uint32_t length);
/* Returns the next completion. Fails after a minute without one completion. */
void services_wait(struct services_end *end, struct ibv_wc *wc);
/* Returns the next completion, which must be a success of @id. */
void services_expect(struct services_end *end, uint64_t id, struct ibv_wc *wc);

/* Fills the memory with the bytes of message @number. */
void services_fill(uint8_t *at, uint32_t length, uint32_t number);
void services_compare(const uint8_t *at, uint32_t length, uint32_t number);

/* Kinds of services_newer.c: ATOMIC_WRITE and FLUSH, which Linux rxe has since 6.2. */
void services_run_atomic_write(struct services_end *end);
void services_run_flush(struct services_end *end);

/* The kinds; services_kinds.c */
struct services_kind {
    const char *name;
    void (*run)(struct services_end *end);
};
extern const struct services_kind services_kinds[];
extern const unsigned services_kind_count;
