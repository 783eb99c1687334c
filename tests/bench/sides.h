/* SPDX-License-Identifier: BSD-3-Clause */
/* sides.h - two engines with connected queue pairs, for benchmark programs.
 *
 * One thread at a time uses a side. Memory is never freed, because the program ends soon.
 */
#pragma once

#include "core/key.h"
#include "core/rq.h"
#include "engine/engine.h"

#define SIDES_WINDOW 128u  /* requests outstanding */
#define SIDES_BURST  32u   /* frames */
#define SIDES_FRAME  8192u /* bytes of the longest frame */
#define SIDES_MTU    4096u /* IB MTU */

struct side {
    struct uro_engine *engine;
    struct uro_cq *cq;
    struct uro_key key;
    uint8_t *memory;
    struct uro_qp **qps;
    struct uro_srq srq;
    struct uro_ah ah; /* UD: address handle of the peer */
};

struct plan {
    enum uro_qp_type type;
    enum uro_wr_opcode opcode; /* SEND, or with RC RDMA_WRITE */
    uint32_t octets;
    uint32_t active; /* queue pairs */
    uint32_t idle;
    uint32_t receives; /* receives of a queue pair; an SRQ has 4 windows */
    uint32_t each;     /* outstanding requests of each queue pair; 0: SIDES_WINDOW in total */
    uint32_t messages;
    struct uro_engine *engines[2]; /* existing engines, or NULL */
    uro_time now;                  /* virtual time of both sides */
};

/* Parses the kind: rc, uc, ud, xrc, or write (by RC). Ends the program for any other name. */
void sides_kind(struct plan *plan, const char *name);

/* Returns the configuration of engine 1 or 2, whose address is 10.0.0.@number. */
struct uro_engine_config sides_config(unsigned number);

/* Creates both engines if they do not exist yet, and connects plan->active + plan->idle queue pairs
 * between them. */
void sides_connect(struct side sides[static 2], const struct plan *plan);

/* Returns the time of CLOCK_MONOTONIC. Engines that plan->engines does not have use this time. */
uro_time sides_now(void);

/* Post requests. A full queue ends the program: the caller has a bug. */
void sides_post_receive(struct side *side, uint32_t qp, const struct plan *plan);
void sides_post(struct side sides[static 2], unsigned from, uint32_t qp, const struct plan *plan);

/* Polls the completions of @side, which must be successful. wr_id is the number of the queue
 * pair. */
uint32_t sides_completed(struct side *side, struct uro_cqe cqes[static SIDES_BURST]);

/* Polls the completions of @side. Adds those of receives to @received, and returns the number of
 * the others. */
uint32_t sides_poll(struct side *side, uint32_t *received);

void *sides_take(size_t size);
