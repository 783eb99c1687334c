/* SPDX-License-Identifier: BSD-3-Clause */
/* load_ud.h - datagrams of a simulation: parties that write to each other, and the judgement of
 * what they get.
 *
 *   load_ud.c        lives: made, ended
 *   load_ud_post.c   what is written, to whom
 *   load_ud_group.c  groups that parties join and leave
 *   load_ud_judge.c  completions and frames against what was written
 *
 * A party is a queue pair. A letter is a datagram that was posted; it is remembered for ever, since
 * it may come after both queue pairs are gone. The last life of all parties begins when faults have
 * stopped: what is written then arrives, once.
 */
#pragma once

#include "core/ah.h"
#include "core/mcast.h"
#include "io/sim/load.h"
#include "wire/frame.h"

#define URO_LOAD_UD_OPS_MAX  64u /* of a life */
#define URO_LOAD_UD_RECV_MAX 128u
#define URO_LOAD_UD_GRH      40u /* octets before the datagram in every receive */

enum uro_load_ud_fault {
    URO_LOAD_UD_RIGHT,
    URO_LOAD_UD_BAD_QKEY, /* sent, and dropped without a word */
    URO_LOAD_UD_BAD_LKEY, /* this and the following stop the send queue */
    URO_LOAD_UD_UNSUPPORTED,
    URO_LOAD_UD_NO_HANDLE, /* the address handle is gone */
    URO_LOAD_UD_TOO_LONG,
    URO_LOAD_UD_FAULTS
};

struct uro_load_ud_letter {
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
    uint32_t taken[URO_SWARM_PARTIES_MAX]; /* by each party */
};

struct uro_load_ud_op {
    uint32_t letter; /* index in uro_load_ud.letters */
    enum uro_load_ud_fault fault;
    uint8_t flags;
    bool sent;
    bool flushed;
    struct uro_arena_layout layout;
};

struct uro_load_ud_party {
    struct uro_load_owner owner;
    struct uro_load_pause pause;
    struct uro_load_ud *ud;
    struct uro_station *station;
    const struct uro_swarm_party *plan;
    uint32_t number;
    struct uro_rng rng;
    struct uro_node control;
    struct uro_node poster;
    struct uro_node receiver;
    struct uro_load_cq cq; /* when it does not use the tight one */
    uint32_t qkey;
    enum uro_load_state state;
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
    struct uro_arena arena;
    struct uro_ah handles[URO_SWARM_PARTIES_MAX][2]; /* to each party, IPv4 and IPv6 */
    struct uro_ah group_handles[2];
    struct uro_mcast memberships[2];
    bool is_member[2];
    uint32_t sends;
    uint32_t posted;
    uint32_t confirmed;
    uint32_t signalled;
    uint32_t wire_op;
    uint32_t wire_psn;
    struct uro_load_ud_op ops[URO_LOAD_UD_OPS_MAX];
    uint32_t expected; /* letters that must come */
    uint32_t taken;
    struct uro_load_srq *srq; /* NULL: its own receives */
    uint64_t shared_next;     /* no older receive of it may complete any more */
    bool last_wqe;
    uint64_t recv_posted;
    uint64_t recv_done;
    struct uro_load_recv recvs[URO_LOAD_UD_RECV_MAX];
};

struct uro_load_ud {
    struct uro_load *load;
    uint32_t count;
    struct uro_load_ud_party parties[URO_SWARM_PARTIES_MAX];
    struct uro_load_ud_letter *letters; /* owned */
    uint32_t letter_count;
    uint32_t letter_room;
};

struct uro_load_ud *uro_load_ud_make(struct uro_load *load);
void uro_load_ud_free(struct uro_load_ud *ud);
/* Faults have stopped. */
void uro_load_ud_calm(struct uro_load_ud *ud);
/* The last life has done all it had to. */
bool uro_load_ud_quiet(const struct uro_load_ud *ud);
void uro_load_ud_finish(struct uro_load_ud *ud);
bool uro_load_ud_over(const struct uro_load_ud *ud);
uint32_t uro_load_ud_pd(const struct uro_load_ud_party *party);
/* Where @party writes to @other: the address that an address handle of it has. */
struct uro_address uro_load_ud_address(const struct uro_load_ud_party *other, bool v6);

/* load_ud_group.c */
/* The address of the load's group, as an address handle has it. */
struct uro_address uro_load_ud_group(const struct uro_load_ud *ud, bool v6);
/* The queue pair is made, and may become a member. */
void uro_load_ud_group_begin(struct uro_load_ud_party *party);
/* It is about to be reset or destroyed. */
void uro_load_ud_group_end(struct uro_load_ud_party *party);
/* In the last life: everybody is there and has a receive for one more. */
bool uro_load_ud_group_ready(const struct uro_load_ud *ud, bool v6);
/* A letter to it was written in the last life. */
void uro_load_ud_group_expect(struct uro_load_ud *ud, bool v6);

/* load_ud_post.c */
void uro_load_ud_post_init(struct uro_load_ud_party *party);

/* load_ud_judge.c */
/* False when none of them sent it. */
bool uro_load_ud_wire(struct uro_load_ud *ud, struct uro_station *station,
                      const struct uro_frame *frame);
/* What was found in @cq. */
void uro_load_ud_judge(struct uro_load_ud_party *party, const struct uro_cq *cq,
                       const struct uro_cqe *cqe);
/* After a round. */
void uro_load_ud_judge_lost(const struct uro_load_ud_party *party);
/* All sends completed that ever will. */
void uro_load_ud_judge_silent(struct uro_load_ud_party *party);
