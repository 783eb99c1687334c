/* SPDX-License-Identifier: BSD-3-Clause */
/* load_uc.h - unreliable connections of a simulation: two ends that send to each other what may be
 * lost, and the judgement of what comes.
 *
 *   load_uc.c        lives: made, connected, ended
 *   load_uc_post.c   what is asked for
 *   load_uc_judge.c  completions, frames and memory against what was asked for
 *
 * A message arrives whole or not at all. The last life begins when faults have stopped: all of it
 * must arrive.
 */
#pragma once

#include "io/sim/load.h"
#include "wire/frame.h"

#define URO_LOAD_UC_OPS_MAX  64u /* of a life */
#define URO_LOAD_UC_RECV_MAX 256u

enum uro_load_uc_fault {
    URO_LOAD_UC_RIGHT,
    URO_LOAD_UC_BAD_RKEY,    /* sent, and refused without a word */
    URO_LOAD_UC_BAD_LKEY,    /* stops the send queue */
    URO_LOAD_UC_UNSUPPORTED, /* likewise */
};

struct uro_load_uc_op {
    uint8_t opcode; /* enum uro_wr_opcode */
    uint8_t flags;
    enum uro_load_uc_fault fault;
    uint32_t length;
    uint32_t imm;
    uint64_t seed;
    uint32_t at; /* WRITE: in its window, which has its number */
    struct uro_arena_layout layout;
    uint32_t sent;  /* packets seen on the wire */
    uint32_t taken; /* completed at the peer so many times */
    bool flushed;
};

struct uro_load_uc_end {
    struct uro_load_owner owner;
    struct uro_load_pause pause;
    struct uro_load_uc *uc;
    struct uro_load_uc_end *peer;
    struct uro_station *station;
    uint32_t side;
    uint32_t number;
    struct uro_rng rng;
    struct uro_node poster;
    struct uro_node receiver;
    struct uro_load_cq cq; /* of its sends and receives, when they do not use the tight one */
    uro_time post_at;
    uro_time receive_at;

    /* Of this life. */
    bool alive;
    bool ended; /* moved to ERR, or gone */
    bool recv_failed;
    bool stopped;         /* SQE: a send failed, and it was not resumed */
    uint64_t flush_until; /* requests before may have been flushed in SQE */
    uro_time resume_at;
    uint32_t late_posts; /* into ERR */
    uint32_t qpn;
    struct uro_qp *qp;
    void *qp_memory; /* owned */
    struct uro_arena arena;
    uint32_t sends;
    uint32_t posted;
    uint32_t confirmed;
    uint32_t signalled; /* one past the newest */
    uint32_t takes;     /* posted, that take a receive of the peer */
    uint32_t wire_op;   /* the next first packet is of this request or a later one */
    uint32_t wire_psn;
    struct uro_load_uc_op ops[URO_LOAD_UC_OPS_MAX];
    uint32_t taken;           /* messages from the peer */
    uint32_t taken_last;      /* number of the newest */
    struct uro_load_srq *srq; /* NULL: its own receives */
    uint64_t shared_next;     /* no older receive of it may complete any more */
    bool last_wqe;
    uint64_t recv_posted;
    uint64_t recv_done;
    struct uro_load_recv recvs[URO_LOAD_UC_RECV_MAX];
};

struct uro_load_uc {
    struct uro_node control;
    struct uro_load *load;
    const struct uro_swarm_uc *plan;
    struct uro_rng rng;
    uint32_t number;
    struct uro_load_uc_end ends[2];
    enum uro_load_state state;
    uint32_t life;
    bool last_life; /* everything arrives */
    bool abrupt;
    bool reuse;
    uint32_t first; /* end that is ended first */
    uro_time due;
};

void uro_load_uc_init(struct uro_load_uc *uc, struct uro_load *load, uint32_t number);
void uro_load_uc_fini(struct uro_load_uc *uc);
/* Faults have stopped. */
void uro_load_uc_calm(struct uro_load_uc *uc);
/* A quiet one ends. */
void uro_load_uc_finish(struct uro_load_uc *uc);
/* Something completed: perhaps the last life has done what it had to. */
void uro_load_uc_on_progress(struct uro_load_uc *uc);

/* load_uc_post.c */
void uro_load_uc_post_init(struct uro_load_uc_end *end);
uint32_t uro_load_uc_packets(const struct uro_load_uc_end *end, const struct uro_load_uc_op *op);
bool uro_load_uc_takes(const struct uro_load_uc_op *op);

/* load_uc_judge.c */
/* False when the frame is of no end of this connection. */
bool uro_load_uc_wire(struct uro_load_uc *uc, struct uro_station *station,
                      const struct uro_frame *frame);
/* What was found in @cq. */
void uro_load_uc_judge(struct uro_load_uc_end *end, const struct uro_cq *cq,
                       const struct uro_cqe *cqe);
/* After a round. */
void uro_load_uc_judge_lost(const struct uro_load_uc_end *end);
/* All sends completed that ever will. */
void uro_load_uc_judge_silent(struct uro_load_uc_end *end);
/* Both ends are gone: the windows. */
void uro_load_uc_judge_memory(struct uro_load_uc_end *end);
