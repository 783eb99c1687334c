/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.h - the parts of the verify program: one end of a connection, and the steps run over it.
 *
 * verify is a plain libibverbs program that runs on both ends of a connection and checks every
 * byte that arrived, every byte that should not have changed, and every completion.
 */
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "meet.h"

#define VERIFY_AREA      (4u << 20) /* bytes of each of the two registered areas */
#define VERIFY_DEPTH     64u        /* work requests each queue can hold */
#define VERIFY_SECONDS   60         /* a step that takes longer has failed */
#define VERIFY_RECV_WRID (1ull << 32)

struct verify_options {
    struct meet_options
        meet;         /* without host this end takes mtu, seed and the rest from the other */
    const char *only; /* NULL or the one operation to run */
    uint32_t rounds;
    uint32_t seed;
    uint32_t largest; /* message */
    uint8_t timeout;  /* local ACK timeout of the queue pair */
    bool zero_read;   /* also READs of no bytes (Linux 6.1 rxe refuses a repeated one) */
};

/* One end of a connection. A message moves between slots at the same offset of one end's local
 * and the other end's target area. */
struct verify_end {
    int peer; /* TCP */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    uint8_t *local, *target;
    struct ibv_mr *local_mr, *target_mr;
    uint64_t remote_target;
    uint32_t remote_key;
};

/* Opens the device, meets the other end, connects the queue pairs; both ends leave at the same
 * time. Afterwards the two ends' @options agree. */
void verify_end_open(struct verify_end *end, struct verify_options *options);
void verify_end_close(struct verify_end *end);

/* Returns when both ends have called it. */
void verify_end_barrier(struct verify_end *end);

/* Runs all steps once, in all three directions: client requests, server requests, both request. */
void verify_steps_run(struct verify_end *end, const struct verify_options *options, uint32_t round);
