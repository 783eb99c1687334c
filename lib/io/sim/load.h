/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h - the applications of two stations of a simulation: queue pairs between them or of one with
 * itself, work for them, and the judgement of every completion and every octet.
 *
 *   load_site.c     what several loads share of a station
 *   load_life.c     queue pairs and their memory: made, connected, ended
 *   load_choose.c   what to ask for next
 *   load_window.c   memory windows: bound, used, invalidated
 *   load_post.c     posts it: sends and receives
 *   load_srq.c      shared receive queues and who posts to them
 *   load_pause.c    send queues that are drained and go on
 *   load_poll.h     takes completions, by polling or by waiting for events
 *   load_tight.h    completion queues that overflow
 *   load_judge.c    a completion of a send against what was asked
 *   load_receive.c  a completion of a receive likewise
 *   load_wire.c     every frame against what was asked
 *   load_control.c  when a life ends and how
 *   load_uc.h       unreliable connections, which have lives of their own
 *   load_ud.h       datagrams, likewise
 *   load_cm.h       connections made by messages
 *   load_victim.h   a pair that is attacked by somebody who reads along
 *
 * A pair lives several times. Earlier lives may be ended from outside or by requests that are
 * wrong on purpose; the last one must do all its work.
 */
#pragma once

#include "core/srq.h"
#include "io/sim/arena.h"
#include "io/sim/load_poll.h"
#include "io/sim/station.h"
#include "io/sim/swarm.h"

#define URO_LOAD_OPS_MAX      64u /* outstanding requests of a queue */
#define URO_LOAD_MWS          2u  /* memory windows of an end */
#define URO_LOAD_WINDOWS_MAX  (URO_LOAD_OPS_MAX + 8u + URO_LOAD_MWS)
#define URO_LOAD_MESSAGES_MAX 256u /* sent, perhaps not yet taken */
#define URO_LOAD_CQS_MAX      4u
#define URO_LOAD_RECV_BIT     (UINT64_C(1) << 63) /* in a wr_id */
#define URO_LOAD_NO_WINDOW    UINT32_MAX

/* In the wr_id of a shared receive: which queue, and its number there. */
#define URO_LOAD_SRQ_BIT           (UINT64_C(1) << 62)
#define URO_LOAD_SRQ_SHIFT         48u
#define URO_LOAD_SRQ_INDEX(wr_id)  ((uint32_t)((wr_id) >> URO_LOAD_SRQ_SHIFT & 0xff))
#define URO_LOAD_SRQ_NUMBER(wr_id) ((wr_id) & ((UINT64_C(1) << URO_LOAD_SRQ_SHIFT) - 1))
#define URO_LOAD_SRQ_PD            1000u  /* and those after it: beyond every pair's own */
#define URO_LOAD_XRC_DOMAIN        7u     /* and those after it: a load has one */
#define URO_LOAD_PDS               10000u /* protection domains of a load */
#define URO_LOAD_PAIRS             100u   /* numbers of its pairs */

struct uro_frame;
struct uro_load;
struct uro_load_site;
struct uro_load_pair;
struct uro_load_srq;
struct uro_load_uc;
struct uro_load_ud;
struct uro_load_cm;

/* What is wrong with a request on purpose. */
enum uro_load_inject {
    URO_LOAD_RIGHT,
    URO_LOAD_BAD_RKEY,    /* a number that is no key */
    URO_LOAD_OTHER_PD,    /* a key of another protection domain */
    URO_LOAD_BEYOND,      /* the last octet is outside the range */
    URO_LOAD_NO_RIGHT,    /* a key without remote rights */
    URO_LOAD_MISALIGNED,  /* an atomic not on eight octets */
    URO_LOAD_BAD_LKEY,    /* one element names no key */
    URO_LOAD_UNSUPPORTED, /* an operation that is not offered */
    URO_LOAD_BAD_WINDOW,  /* what its memory window does not allow, or no window at all */
    URO_LOAD_INJECT_COUNT
};

enum uro_load_mw_state {
    URO_LOAD_MW_FREE,
    URO_LOAD_MW_BINDING,
    URO_LOAD_MW_BOUND,
    URO_LOAD_MW_DYING
};

/* A memory window of type 2. */
struct uro_load_mw {
    struct uro_key key;
    enum uro_load_mw_state state; /* as its owner and the peer know */
    uint32_t rkey;
    uint32_t at; /* in its slot */
    uint32_t length;
    uint32_t access;
    uint64_t base; /* address of its first octet */
};

/* A send request on its way. */
struct uro_load_op {
    uint64_t number; /* its wr_id */
    uint8_t opcode;  /* enum uro_wr_opcode */
    uint8_t flags;
    bool shared; /* atomics: to the word all pairs share */
    enum uro_load_inject inject;
    uint32_t length;
    uint32_t psn; /* of its first packet */
    uint32_t psns;
    uint32_t imm;
    uint64_t seed;    /* of the message, or of what a READ finds */
    uint32_t window;  /* at the peer; URO_LOAD_NO_WINDOW: none */
    uint32_t at;      /* in the window */
    uint32_t writers; /* the window's, after this request */
    uint32_t srq;     /* XRC: the peer's shared receive queue */
    uint32_t srqn;    /* and the number it had */
    uint32_t srq_generation;
    uint64_t message; /* number of the message it carries */
    uint64_t remote_address;
    uint32_t rkey;
    uint64_t compare_add;
    uint64_t swap;          /* ATOMIC_WRITE: what is written */
    uint64_t original;      /* atomics: the value before, as it must be */
    struct uro_load_mw *mw; /* bound, invalidated or used; NULL */
    uint32_t inv_rkey;      /* what is invalidated; BIND_MW: the key until now */
    struct uro_flush_kind flush;
    uint64_t remote_number; /* requests before it that the peer sees */
    struct uro_arena_layout layout;
};

/* A SEND or WRITE_WITH_IMM that the peer has to take. */
struct uro_load_message {
    bool taken;
    bool write;
    bool has_imm;
    bool has_inv;
    bool solicited;
    uint32_t imm; /* or the key that it invalidates */
    uint32_t length;
    uint64_t seed;
    uint32_t window;
    uint32_t at;
    uint32_t srq; /* XRC */
};

struct uro_load_recv {
    uint32_t room; /* octets of the elements */
    bool bad_lkey;
    struct uro_arena_layout layout;
};

/* A window of the peer's memory. Free when nobody uses it. */
struct uro_load_window {
    uint32_t users;
    uint32_t writers; /* WRITEs posted, ever */
    bool revoked;     /* its memory window was invalidated under those who use it */
    uint64_t seed;
    uint32_t at;
    uint32_t length;
};

/* Who a queue pair belongs to: first in the structs that it is created with as user. */
struct uro_load_owner {
    struct uro_load_owner *next;
    const struct uro_station *station;
    void (*on_event)(struct uro_load_owner *owner, enum uro_event_kind kind);
    const char *(*problem)(const struct uro_load_owner *owner); /* uro_qp_problem() */

    /* Of the queue pair that there is; others may use them as well. */
    struct uro_cq *send_cq; /* NULL: none, as the next one */
    struct uro_cq *recv_cq;
    bool fatal; /* QP_FATAL was told */
};

/* Who drains a send queue now and then. */
struct uro_load_pause {
    struct uro_node node;
    struct uro_load *load;
    struct uro_station *station;
    struct uro_rng rng;
    struct uro_qp *qp; /* borrowed; NULL: none */
    uint32_t left;     /* times, in this life */
    bool draining;     /* SQD was asked for */
    bool drained;      /* and SQ_DRAINED told: nothing is sent */
    uro_time at;
};

struct uro_load_end {
    struct uro_load_owner owner;
    struct uro_load_pause pause;
    struct uro_load_pair *pair;
    struct uro_load_end *peer;
    struct uro_load *load;
    struct uro_station *station;
    const struct uro_swarm_end *plan;
    struct uro_rng rng;
    struct uro_node poster;
    struct uro_node receiver;
    uro_time post_at;    /* not before */
    uro_time receive_at; /* not before */
    uint32_t side;       /* of its station */
    uint32_t number;     /* of all ends, from 1 */
    uint32_t pd;
    enum uro_qp_type type;

    /* Of this life. */
    bool alive;       /* there is a connected queue pair */
    bool ended;       /* it was moved to ERR from outside, or is not alive */
    bool send_failed; /* a send completed in error */
    bool cause_known; /* one that was not flushed */
    bool lost_answer; /* the first flushed was a READ or atomic: its answer may have been lost */
    bool recv_failed;
    bool
        recv_failed_of[URO_SWARM_SRQS_MAX]; /* XRC: of this shared queue, which may be read later */
    bool last_wqe;                          /* LAST_WQE was told */
    uro_time last_wqe_at;
    bool revoked[URO_ARENA_SECTIONS]; /* deregistered in the middle of it all */
    uint64_t renewed;    /* the first request that may use it with a new key; MAX: none */
    uint32_t rights;     /* URO_ACCESS_REMOTE_* of the queue pair */
    uint32_t qpn;        /* kept when the queue pair is gone */
    uint32_t psn;        /* of the next request to be posted */
    uint32_t wire_psn;   /* of the next request to be sent, if none is sent again */
    uint32_t msn_sent;   /* by our responder */
    bool blocked;        /* nothing can be posted until something completes */
    uint32_t late_posts; /* into ERR, still to come */
    struct uro_qp *qp;
    void *qp_memory;                          /* owned */
    struct uro_load_srq *srq;                 /* basic; NULL: its own receives */
    uint64_t shared_next[URO_SWARM_SRQS_MAX]; /* no older receive may complete any more */
    struct uro_arena arena;
    struct uro_key shared_key; /* of the station's shared word, in our PD */

    uint32_t sends_left;
    uint64_t remote;    /* of those posted, that the peer sees */
    uint64_t posted;    /* send requests; ops[number % URO_LOAD_OPS_MAX] */
    uint64_t confirmed; /* known to be complete */
    uint64_t signalled; /* one past the newest that is signalled */
    struct uro_load_op ops[URO_LOAD_OPS_MAX];
    struct uro_load_window windows[URO_LOAD_WINDOWS_MAX]; /* in the peer's arena */
    struct uro_load_mw mws[URO_LOAD_MWS];                 /* ours */
    uint64_t word; /* the peer's word for us, after all that was posted */
    uint32_t word_maybes;
    uint64_t word_maybe[URO_LOAD_OPS_MAX]; /* what else it may be */
    uint64_t messages_sent;
    uint64_t messages_base; /* all before were taken */
    struct uro_load_message messages[URO_LOAD_MESSAGES_MAX];

    uint64_t recv_posted;
    uint64_t recv_done;
    uint64_t messages_taken; /* from the peer */
    struct uro_load_recv recvs[URO_LOAD_OPS_MAX];
};

enum uro_load_state {
    URO_LOAD_RUNNING,
    URO_LOAD_ENDING,  /* something failed or we lost patience: being ended one way or another */
    URO_LOAD_WAITING, /* ended, until the next life */
    URO_LOAD_QUIET,   /* the last life did all its work */
    URO_LOAD_OVER,
};

struct uro_load_pair {
    struct uro_node control;
    struct uro_load *load;
    const struct uro_swarm_pair *plan;
    struct uro_rng rng;
    uint32_t number; /* of all pairs of the run */
    struct uro_load_end ends[2];
    enum uro_load_state state;
    uint32_t life; /* 0 .. */
    bool last_life;
    bool may_fail; /* of this life: something was done that makes completions fail */
    bool may_time_out;
    bool peace;     /* the last life was QUIET */
    uro_time due;   /* control acts; NEVER */
    bool abrupt;    /* ENDING without waiting for flushed work */
    bool revoked;   /* of this life: memory was deregistered in the middle of it all */
    bool reuse;     /* ENDING by RESET, the next life has the same queue pairs */
    uint32_t first; /* end that is ended first */
};

struct uro_load_srq_recv {
    bool used;
    uint64_t number;
    struct uro_load_recv recv;
};

/* A shared receive queue and who posts to it. */
struct uro_load_srq {
    struct uro_node poster;
    struct uro_load *load;
    struct uro_station *station;
    const struct uro_swarm_srq *plan;
    struct uro_rng rng;
    uint32_t side;
    uint32_t index;
    uint32_t pd;
    struct uro_srq *srq;         /* owned */
    void *slots;                 /* owned */
    struct uro_load_cq *cq;      /* XRC: where its receives complete */
    struct uro_load_cq *wide_cq; /* and where they do when not in a tight one */
    struct uro_arena arena;
    uint32_t room; /* octets of a receive */
    uint32_t slot_count;
    struct uro_load_srq_recv *recvs; /* owned; a slot of the arena each */
    uint64_t posted;                 /* ever */
    uint64_t done;                   /* completed, or forgotten with their queue pair */
    uint32_t lost_max;               /* may be gone with a queue pair that was using them */
    uint64_t dropped;                /* went with the queue they waited in */
    uint32_t generation;             /* how often another queue took its place */
    uint64_t seen;                   /* the oldest after the last round */
    uint32_t limit;                  /* armed; 0: not */
    uint64_t armed_at;               /* the oldest then */
    uro_time post_at;
};

/* A word that all pairs add to: every original value must be the sum of some adds before it. */
struct uro_load_shared {
    uint64_t *word; /* owned */
    uint64_t start;
    uint64_t uncertain; /* adds that may or may not have been done */
    uint32_t count;
    uint32_t room;
    struct uro_load_add {
        uint64_t original;
        uint64_t add;
    } * adds; /* owned */
};

/* Memory of an ended life: nobody may write there any more. */
struct uro_load_grave {
    struct uro_load_grave *next;
    struct uro_arena arena;
    uint32_t sum;
};

struct uro_load {
    struct uro_world *world;
    uint32_t number; /* of all loads of the run, from 0 */
    uint32_t pds;    /* the first of its protection domains */
    const struct uro_swarm *swarm;
    struct uro_rng rng;
    struct uro_load_site *sites[2];  /* borrowed */
    struct uro_station *stations[2]; /* theirs */
    struct uro_load_cq cqs[2][URO_LOAD_CQS_MAX];
    struct uro_load_cq tight[2]; /* swarm->cq_tight */
    struct uro_load_shared shared[2];
    struct uro_load_srq srqs[2][URO_SWARM_SRQS_MAX];
    struct uro_load_pair *pairs;    /* owned; swarm->pair_count */
    struct uro_load_uc *ucs;        /* owned; swarm->uc_count */
    struct uro_load_ud *ud;         /* owned */
    struct uro_load_cm *cm;         /* owned */
    struct uro_load_victim *victim; /* owned; NULL: none */
    struct uro_load_owner *owners;
    struct uro_load_grave *graves;
    uint32_t pause_count; /* ever made */
    bool calm;
    uro_time calm_since;
    uint64_t ops_done;
    uint64_t lives;
    uint64_t failures; /* completions in error, all expected */
};

/* load.c */
/* Between the stations of @a and @b. */
void uro_load_init(struct uro_load *load, struct uro_world *world, const struct uro_swarm *swarm,
                   uint32_t number, struct uro_load_site *a, struct uro_load_site *b);
void uro_load_fini(struct uro_load *load);
/* Faults stopped. */
void uro_load_calm(struct uro_load *load);
/* Every pair did all its work. */
bool uro_load_quiet(const struct uro_load *load);
/* Ends the quiet pairs: what is still posted must be flushed. */
void uro_load_end_all(struct uro_load *load);
bool uro_load_over(const struct uro_load *load);
/* What must hold at the end: shared words, memory of ended lives. */
void uro_load_check(struct uro_load *load);
/* Who is not done, for the failure message. */
void uro_load_blame(const struct uro_load *load, char *text, size_t room);

/* Lists a queue pair's owner. */
void uro_load_own(struct uro_load *load, struct uro_load_owner *owner,
                  const struct uro_station *station,
                  void (*on_event)(struct uro_load_owner *, enum uro_event_kind),
                  const char *(*problem)(const struct uro_load_owner *));
/* A next hop was not found: frames to it are not sent, and only who asks for answers notices. */
bool uro_load_swallows(const struct uro_station *station);
/* What was under way when the clock jumped has arrived by then. */
uro_time uro_load_arrived_at(const struct uro_load *load);
/* Takes over memory that nobody may write to any more. */
void uro_load_bury_arena(struct uro_load *load, struct uro_arena *arena);

/* load_life.c */
void uro_load_life_begin(struct uro_load_pair *pair);
/* Resets (pair->reuse) or destroys the queue pair of one end; uncompleted work is uncertain. */
void uro_load_life_stop(struct uro_load_end *end);
void uro_load_life_to_error(struct uro_load_end *end);
/* Both ends are stopped: checks the memory and buries it. */
void uro_load_life_bury(struct uro_load_pair *pair);

/* load_choose.c */
/* Fills in the next request; false when there is no room for one now. */
bool uro_load_choose_op(struct uro_load_end *end, struct uro_load_op *op);

/* load_window.c */
/* The memory windows of a life. */
void uro_load_window_begin(struct uro_load_end *end);
void uro_load_window_end(struct uro_load_end *end);
/* The slot that a memory window opens a part of. */
uint32_t uro_load_window_of(const struct uro_load_end *owner, const struct uro_load_mw *mw);
/* One of the end's memory windows is open. */
bool uro_load_window_bound(const struct uro_load_end *end);
/* Fills in a request about a memory window; false when there is none for it now. */
bool uro_load_window_choose(struct uro_load_end *end, struct uro_load_op *op,
                            enum uro_swarm_kind kind);
/* The key of a window that is not bound, or of nothing. */
uint32_t uro_load_window_stale(const struct uro_load_end *owner);
/* Makes it wrong; false when it cannot be. */
bool uro_load_window_spoil(struct uro_load_end *end, struct uro_load_op *op);
void uro_load_window_fill(const struct uro_load_end *end, const struct uro_load_op *op,
                          struct uro_wqe *wqe);
/* The request succeeded. */
void uro_load_window_done(struct uro_load_end *end, const struct uro_load_op *op);
/* A SEND_WITH_INV came. */
void uro_load_window_invalidated(struct uro_load_end *end, uint32_t rkey);

/* load_post.c */
void uro_load_post_init(struct uro_load_end *end);
/* There may be something to post. */
bool uro_load_post_can_send(const struct uro_load_end *end);

/* load_srq.c */
void uro_load_srq_init(struct uro_load_srq *srq, struct uro_load *load, uint32_t side,
                       uint32_t index);
void uro_load_srq_fini(struct uro_load_srq *srq);
/* That of the end's station. */
struct uro_load_srq *uro_load_srq_of(const struct uro_load_end *end, uint32_t index);
/* The number of the oldest receive that waits; of the next one when none does. */
uint64_t uro_load_srq_oldest(const struct uro_load_srq *srq);
/* NULL: it was never posted, or completed. */
struct uro_load_srq_recv *uro_load_srq_find(struct uro_load_srq *srq, uint64_t number);
/* Its slot can be used again. */
void uro_load_srq_done(struct uro_load_srq *srq, struct uro_load_srq_recv *recv);
void uro_load_srq_on_limit(struct uro_load_srq *srq);
void uro_load_srq_after_round(struct uro_load_srq *srq);
/* A queue pair that uses a basic one is about to be reset or destroyed. */
void uro_load_srq_on_stop(struct uro_load_srq *srq, const struct uro_cq *cq, uint32_t qpn);
/* The receive that completed on a queue pair, which completed all before @next; NULL, and the run
 * has failed, when it cannot have. */
struct uro_load_srq_recv *uro_load_srq_completed(struct uro_load_srq *srq,
                                                 const struct uro_cqe *cqe, uint64_t *next);
/* No queue pair is left: destroys it and checks its memory. */
void uro_load_srq_check(struct uro_load_srq *srq);

/* load_pause.c */
void uro_load_pause_init(struct uro_load_pause *pause, struct uro_load *load,
                         struct uro_station *station);
/* A queue pair is in RTS. */
void uro_load_pause_begin(struct uro_load_pause *pause, struct uro_qp *qp);
/* It is about to be reset or destroyed. */
void uro_load_pause_end(struct uro_load_pause *pause);
void uro_load_pause_on_drained(struct uro_load_pause *pause);

/* load_judge.c */
void uro_load_judge(struct uro_load_end *end, const struct uro_cqe *cqe);
/* The send queue and its CQ are empty: what did not complete must have been silent success. */
void uro_load_judge_silent(struct uro_load_end *end);
/* The request will never complete: done or not, nobody can say. */
void uro_load_judge_uncertain(struct uro_load_end *end, const struct uro_load_op *op);
bool uro_load_judge_add(struct uro_load_shared *shared, uint64_t original, uint64_t add);

/* The request was posted when a key of the section was good that is no more. */
bool uro_load_judge_revoked(const struct uro_load_end *owner, enum uro_arena_section section,
                            const struct uro_load_op *op);
/* After a round. */
void uro_load_judge_lost(const struct uro_load_end *end);
bool uro_load_judge_may_flush(const struct uro_load_end *end);
/* Both return false. */
bool uro_load_judge_fail(const struct uro_load_end *end, const char *kind, uint64_t number,
                         const char *what);
bool uro_load_judge_fail_memory(const struct uro_load_end *end, const char *kind, uint64_t number,
                                const char *what, uint32_t at);

/* load_receive.c */
bool uro_load_receive(struct uro_load_end *end, const struct uro_cqe *cqe);

/* After every round of a station: what must hold. */
void uro_load_after_round(struct uro_load *load, unsigned side);

/* load_wire.c */
/* False when the frame is none of this load's. */
bool uro_load_wire(struct uro_load *load, struct uro_station *station,
                   const struct uro_frame *frame);

/* load_control.c */
void uro_load_control_init(struct uro_load_pair *pair);
/* A completion in error was seen: ends this life some time. */
void uro_load_control_on_failure(struct uro_load_pair *pair);
/* Something completed: perhaps this life has done what it had to. */
void uro_load_control_on_progress(struct uro_load_pair *pair);
/* A quiet pair ends. */
void uro_load_control_finish(struct uro_load_pair *pair);
