/* SPDX-License-Identifier: BSD-3-Clause */
/* uc.h - unreliable connections of a simulation: two ends that send to each other what may be
 * lost, and the judgement of what comes.
 *
 *   uc.c        lives: made, connected, ended
 *   uc_post.c   what is asked for
 *   uc_judge.c  completions, frames and memory against what was asked for
 *
 * A message arrives whole or not at all. The last life begins when faults have stopped: all of it
 * must arrive.
 */
#pragma once

#include "sim/work/workload.h"
#include "wire/frame.h"

#define SIM_UC_OPS_MAX  64u /* of a life */
#define SIM_UC_RECV_MAX 256u

enum sim_uc_fault {
    SIM_UC_RIGHT,
    SIM_UC_BAD_RKEY,    /* sent, and refused without a word */
    SIM_UC_BAD_LKEY,    /* stops the send queue */
    SIM_UC_UNSUPPORTED, /* likewise */
};

struct sim_uc_op {
    uint8_t opcode; /* enum uro_wr_opcode */
    uint8_t flags;
    enum sim_uc_fault fault;
    uint32_t length;
    uint32_t imm;
    uint64_t seed;
    uint32_t at; /* WRITE: in its window, which has its number */
    struct sim_memory_layout layout;
    uint32_t sent;  /* packets seen on the wire */
    uint32_t taken; /* completed at the peer so many times */
    bool flushed;
};

struct sim_uc_end {
    struct sim_qp_owner owner;
    struct sim_drain pause;
    struct sim_uc *uc;
    struct sim_uc_end *peer;
    struct sim_host *host;
    uint32_t side;
    uint32_t number;
    struct uro_rng rng;
    struct sim_node poster;
    struct sim_node receiver;
    struct sim_cq cq; /* of its sends and receives, when they do not use the tight one */
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
    struct sim_memory memory;
    uint32_t sends;
    uint32_t posted;
    uint32_t confirmed;
    uint32_t signalled; /* one past the newest */
    uint32_t takes;     /* posted, that take a receive of the peer */
    uint32_t wire_op;   /* the next first packet is of this request or a later one */
    uint32_t wire_psn;
    struct sim_uc_op ops[SIM_UC_OPS_MAX];
    uint32_t taken;       /* messages from the peer */
    uint32_t taken_last;  /* number of the newest */
    struct sim_srq *srq;  /* NULL: its own receives */
    uint64_t shared_next; /* no older receive of it may complete any more */
    bool last_wqe;
    uint64_t recv_posted;
    uint64_t recv_done;
    struct sim_rc_recv recvs[SIM_UC_RECV_MAX];
};

struct sim_uc {
    struct sim_node control;
    struct sim_workload *load;
    const struct sim_plan_uc *plan;
    struct uro_rng rng;
    uint32_t number;
    struct sim_uc_end ends[2];
    enum sim_life_state state;
    uint32_t life;
    bool last_life; /* everything arrives */
    bool abrupt;
    bool reuse;
    uint32_t first; /* end that is ended first */
    uro_time due;
};

void sim_uc_init(struct sim_uc *uc, struct sim_workload *load, uint32_t number);
void sim_uc_fini(struct sim_uc *uc);
/* Faults have stopped. */
void sim_uc_calm(struct sim_uc *uc);
/* A quiet one ends. */
void sim_uc_finish(struct sim_uc *uc);
/* Something completed: perhaps the last life has done what it had to. */
void sim_uc_on_progress(struct sim_uc *uc);

/* uc_post.c */
void sim_uc_post_init(struct sim_uc_end *end);
uint32_t sim_uc_packets(const struct sim_uc_end *end, const struct sim_uc_op *op);
bool sim_uc_takes(const struct sim_uc_op *op);

/* uc_judge.c */
/* False when the frame is of no end of this connection. */
bool sim_uc_wire(struct sim_uc *uc, struct sim_host *host, const struct uro_frame *frame);
/* What was found in @cq. */
void sim_uc_judge(struct sim_uc_end *end, const struct uro_cq *cq, const struct uro_cqe *cqe);
/* After a round. */
void sim_uc_judge_lost(const struct sim_uc_end *end);
/* All sends completed that ever will. */
void sim_uc_judge_silent(struct sim_uc_end *end);
/* Both ends are gone: the windows. */
void sim_uc_judge_memory(struct sim_uc_end *end);
