/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.h - the parts of the program verify: one end of a connection, and the steps that run over
 * it.
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
#define VERIFY_DEPTH     64u        /* capacity of each work queue, requests */
#define VERIFY_SECONDS   60         /* time limit of a step, seconds */
#define VERIFY_RECV_WRID (1ull << 32)

struct verify_options {
    struct meet_options
        meet; /* without host, this end gets mtu, seed and other options from the other end */
    const char *only; /* the only operation to run, or NULL */
    uint32_t rounds;
    uint32_t seed;
    uint32_t largest; /* longest message to send, bytes */
    uint8_t timeout;  /* local ACK timeout of the queue pair */
    bool zero_read; /* also READs of 0 bytes (Linux rxe 6.1 refuses a duplicate READ of 0 bytes) */
};

/* One end of a connection. Most messages move between two slots at the same offset: in the local
 * area of one end, and in the target area of the other end. */
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

/* Opens the device, connects to the other end, and connects the queue pairs. Returns at the same
 * time at both ends. After that, both ends have the client's options for the steps. */
void verify_end_open(struct verify_end *end, struct verify_options *options);
void verify_end_close(struct verify_end *end);

/* Returns when both ends have called this function. */
void verify_end_barrier(struct verify_end *end);

/* Runs all steps once, in all three directions: client requests, server requests, both request. */
void verify_steps_run(struct verify_end *end, const struct verify_options *options, uint32_t round);
