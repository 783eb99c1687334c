/* SPDX-License-Identifier: BSD-3-Clause */
/* ud.h - datagrams of a simulation: parties that write to each other, and the judgement of
 * what they get.
 *
 *   ud.c        lives: made, ended
 *   ud_post.c   what is written, to whom
 *   ud_group.c  groups that parties join and leave
 *   ud_judge.c  completions and frames against what was written
 *
 * A party is a queue pair. A letter is a datagram that was posted; it is remembered for ever, since
 * it may come after both queue pairs are gone. The last life of all parties begins when faults have
 * stopped: what is written then arrives, once.
 */
#pragma once

#include "core/ah.h"
#include "core/mcast.h"
#include "sim/work/workload.h"
#include "wire/frame.h"

#define SIM_UD_OPS_MAX  64u /* of a life */
#define SIM_UD_RECV_MAX 128u
#define SIM_UD_GRH      40u /* octets before the datagram in every receive */

enum sim_ud_fault {
    SIM_UD_RIGHT,
    SIM_UD_BAD_QKEY, /* sent, and dropped without a word */
    SIM_UD_BAD_LKEY, /* this and the following stop the send queue */
    SIM_UD_UNSUPPORTED,
    SIM_UD_NO_HANDLE, /* the address handle is gone */
    SIM_UD_TOO_LONG,
    SIM_UD_FAULTS
};

struct sim_ud_letter {
    uint32_t from_qpn;
    uint32_t to_qpn;
    uint32_t qkey;
    uint32_t from; /* party */
    uint32_t to;
    bool group; /* to the group of its IP version: each member gets it */
    bool v6;
    bool deliverable;
    bool has_imm;
    uint32_t imm;
    uint32_t length;
    uint64_t seed;
    uint32_t taken[SIM_PLAN_PARTIES_MAX]; /* by each party */
};

struct sim_ud_op {
    uint32_t letter; /* index in sim_ud.letters */
    enum sim_ud_fault fault;
    uint8_t flags;
    bool sent;
    bool flushed;
    struct sim_memory_layout layout;
};

struct sim_ud_party {
    struct sim_qp_owner owner;
    struct sim_drain pause;
    struct sim_ud *ud;
    struct sim_host *host;
    const struct sim_plan_party *plan;
    uint32_t number;
    struct uro_rng rng;
    struct sim_node control;
    struct sim_node poster;
    struct sim_node receiver;
    struct sim_cq cq; /* when it does not use the tight one */
    uint32_t qkey;
    enum sim_life_state state;
    uro_time due;
    uint32_t life;
    bool last_life; /* everything arrives */
    bool abrupt;
    uro_time post_at;
    uro_time receive_at;

    /* Of this life. */
    bool alive;
    bool ended;
    bool recv_failed;
    bool stopped; /* SQE */
    uint64_t flush_until;
    uro_time resume_at;
    uint32_t late_posts;
    uint32_t qpn;
    struct uro_qp *qp;
    void *qp_memory; /* owned */
    struct sim_memory memory;
    struct uro_ah handles[SIM_PLAN_PARTIES_MAX][2]; /* to each party, IPv4 and IPv6 */
    struct uro_ah group_handles[2];
    struct uro_mcast memberships[2];
    bool is_member[2];
    uint32_t sends;
    uint32_t posted;
    uint32_t confirmed;
    uint32_t signalled;
    uint32_t wire_op;
    uint32_t wire_psn;
    struct sim_ud_op ops[SIM_UD_OPS_MAX];
    uint32_t expected; /* letters that must come */
    uint32_t taken;
    struct sim_srq *srq;  /* NULL: its own receives */
    uint64_t shared_next; /* no older receive of it may complete any more */
    bool last_wqe;
    uint64_t recv_posted;
    uint64_t recv_done;
    struct sim_rc_recv recvs[SIM_UD_RECV_MAX];
};

struct sim_ud {
    struct sim_workload *load;
    uint32_t count;
    struct sim_ud_party parties[SIM_PLAN_PARTIES_MAX];
    struct sim_ud_letter *letters; /* owned */
    uint32_t letter_count;
    uint32_t letter_room;
};

struct sim_ud *sim_ud_make(struct sim_workload *load);
void sim_ud_free(struct sim_ud *ud);
/* Faults have stopped. */
void sim_ud_calm(struct sim_ud *ud);
/* The last life has done all it had to. */
bool sim_ud_quiet(const struct sim_ud *ud);
void sim_ud_finish(struct sim_ud *ud);
bool sim_ud_over(const struct sim_ud *ud);
uint32_t sim_ud_pd(const struct sim_ud_party *party);
/* Where @party writes to @other: the address that an address handle of it has. */
struct uro_address sim_ud_address(const struct sim_ud_party *other, bool v6);

/* ud_group.c */
/* The address of the load's group, as an address handle has it. */
struct uro_address sim_ud_group(const struct sim_ud *ud, bool v6);
/* The queue pair is made, and may become a member. */
void sim_ud_group_begin(struct sim_ud_party *party);
/* It is about to be reset or destroyed. */
void sim_ud_group_end(struct sim_ud_party *party);
/* In the last life: everybody is there and has a receive for one more. */
bool sim_ud_group_ready(const struct sim_ud *ud, bool v6);
/* A letter to it was written in the last life. */
void sim_ud_group_expect(struct sim_ud *ud, bool v6);

/* ud_post.c */
void sim_ud_post_init(struct sim_ud_party *party);

/* ud_judge.c */
/* False when none of them sent it. */
bool sim_ud_wire(struct sim_ud *ud, struct sim_host *host, const struct uro_frame *frame);
/* What was found in @cq. */
void sim_ud_judge(struct sim_ud_party *party, const struct uro_cq *cq, const struct uro_cqe *cqe);
/* After a round. */
void sim_ud_judge_lost(const struct sim_ud_party *party);
/* All sends completed that ever will. */
void sim_ud_judge_silent(struct sim_ud_party *party);
