/* SPDX-License-Identifier: BSD-3-Clause */
/* workload.h - the applications of two hosts of a simulation: queue pairs between them or of one with
 * itself, work for them, and the judgement of every completion and every octet.
 *
 *   host_work.c     what several loads share of a host
 *   rc_life.c     queue pairs and their memory: made, connected, ended
 *   rc_choose.c   what to ask for next
 *   rc_window.c   memory windows: bound, used, invalidated
 *   rc_post.c     posts it: sends and receives
 *   srq.c      shared receive queues and who posts to them
 *   drain.c    send queues that are drained and go on
 *   cq.h     takes completions, by polling or by waiting for events
 *   tight.h    completion queues that overflow
 *   rc_judge.c    a completion of a send against what was asked
 *   rc_receive.c  a completion of a receive likewise
 *   rc_wire.c     every frame against what was asked
 *   rc_control.c  when a life ends and how
 *   uc.h       unreliable connections, which have lives of their own
 *   ud.h       datagrams, likewise
 *   cm.h       connections made by messages
 *   attacked.h   a pair that is attacked by somebody who reads along
 *
 * A pair lives several times. Earlier lives may be ended from outside or by requests that are
 * wrong on purpose; the last one must do all its work.
 */
#pragma once

#include "core/srq.h"
#include "sim/net/host.h"
#include "sim/oracle/memory.h"
#include "sim/plan/plan.h"
#include "sim/work/cq.h"

#define SIM_WORKLOAD_OPS_MAX      64u /* outstanding requests of a queue */
#define SIM_RC_MWS                2u  /* memory windows of an end */
#define SIM_WORKLOAD_WINDOWS_MAX  (SIM_WORKLOAD_OPS_MAX + 8u + SIM_RC_MWS)
#define SIM_WORKLOAD_MESSAGES_MAX 256u /* sent, perhaps not yet taken */
#define SIM_WORKLOAD_CQS_MAX      4u
#define SIM_WORKLOAD_RECV_BIT     (UINT64_C(1) << 63) /* in a wr_id */
#define SIM_WORKLOAD_NO_WINDOW    UINT32_MAX

/* In the wr_id of a shared receive: which queue, and its number there. */
#define SIM_SRQ_BIT             (UINT64_C(1) << 62)
#define SIM_SRQ_SHIFT           48u
#define SIM_SRQ_INDEX(wr_id)    ((uint32_t)((wr_id) >> SIM_SRQ_SHIFT & 0xff))
#define SIM_SRQ_NUMBER(wr_id)   ((wr_id) & ((UINT64_C(1) << SIM_SRQ_SHIFT) - 1))
#define SIM_SRQ_PD              1000u  /* and those after it: beyond every pair's own */
#define SIM_WORKLOAD_XRC_DOMAIN 7u     /* and those after it: a load has one */
#define SIM_WORKLOAD_PDS        10000u /* protection domains of a load */
#define SIM_WORKLOAD_PAIRS      100u   /* numbers of its pairs */

struct uro_frame;
struct sim_workload;
struct sim_host_work;
struct sim_rc;
struct sim_srq;
struct sim_uc;
struct sim_ud;
struct sim_cm;

/* What is wrong with a request on purpose. */
enum sim_rc_inject {
    SIM_WORKLOAD_RIGHT,
    SIM_WORKLOAD_BAD_RKEY,    /* a number that is no key */
    SIM_WORKLOAD_OTHER_PD,    /* a key of another protection domain */
    SIM_WORKLOAD_BEYOND,      /* the last octet is outside the range */
    SIM_WORKLOAD_NO_RIGHT,    /* a key without remote rights */
    SIM_WORKLOAD_MISALIGNED,  /* an atomic not on eight octets */
    SIM_WORKLOAD_BAD_LKEY,    /* one element names no key */
    SIM_WORKLOAD_UNSUPPORTED, /* an operation that is not offered */
    SIM_WORKLOAD_BAD_WINDOW,  /* what its memory window does not allow, or no window at all */
    SIM_WORKLOAD_INJECT_COUNT
};

enum sim_rc_mw_state { SIM_RC_MW_FREE, SIM_RC_MW_BINDING, SIM_RC_MW_BOUND, SIM_RC_MW_DYING };

/* A memory window of type 2. */
struct sim_rc_mw {
    struct uro_key key;
    enum sim_rc_mw_state state; /* as its owner and the peer know */
    uint32_t rkey;
    uint32_t at; /* in its slot */
    uint32_t length;
    uint32_t access;
    uint64_t base; /* address of its first octet */
};

/* A send request on its way. */
struct sim_rc_op {
    uint64_t number; /* its wr_id */
    uint8_t opcode;  /* enum uro_wr_opcode */
    uint8_t flags;
    bool shared; /* atomics: to the word all pairs share */
    enum sim_rc_inject inject;
    uint32_t length;
    uint32_t psn; /* of its first packet */
    uint32_t psns;
    uint32_t imm;
    uint64_t seed;    /* of the message, or of what a READ finds */
    uint32_t window;  /* at the peer; SIM_WORKLOAD_NO_WINDOW: none */
    uint32_t at;      /* in the window */
    uint32_t writers; /* the window's, after this request */
    uint32_t srq;     /* XRC: the peer's shared receive queue */
    uint32_t srqn;    /* and the number it had */
    uint32_t srq_generation;
    uint64_t message; /* number of the message it carries */
    uint64_t remote_address;
    uint32_t rkey;
    uint64_t compare_add;
    uint64_t swap;        /* ATOMIC_WRITE: what is written */
    uint64_t original;    /* atomics: the value before, as it must be */
    struct sim_rc_mw *mw; /* bound, invalidated or used; NULL */
    uint32_t inv_rkey;    /* what is invalidated; BIND_MW: the key until now */
    struct uro_flush_kind flush;
    uint64_t remote_number; /* requests before it that the peer sees */
    struct sim_memory_layout layout;
};

/* A SEND or WRITE_WITH_IMM that the peer has to take. */
struct sim_rc_message {
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

struct sim_rc_recv {
    uint32_t room; /* octets of the elements */
    bool bad_lkey;
    struct sim_memory_layout layout;
};

/* A window of the peer's memory. Free when nobody uses it. */
struct sim_rc_window {
    uint32_t users;
    uint32_t writers; /* WRITEs posted, ever */
    bool revoked;     /* its memory window was invalidated under those who use it */
    uint64_t seed;
    uint32_t at;
    uint32_t length;
};

/* Who a queue pair belongs to: first in the structs that it is created with as user. */
struct sim_qp_owner {
    struct sim_qp_owner *next;
    const struct sim_host *host;
    void (*on_event)(struct sim_qp_owner *owner, enum uro_event_kind kind);
    const char *(*problem)(const struct sim_qp_owner *owner); /* uro_qp_problem() */

    /* Of the queue pair that there is; others may use them as well. */
    struct uro_cq *send_cq; /* NULL: none, as the next one */
    struct uro_cq *recv_cq;
    bool fatal; /* QP_FATAL was told */
};

/* Who drains a send queue now and then. */
struct sim_drain {
    struct sim_node node;
    struct sim_workload *load;
    struct sim_host *host;
    struct uro_rng rng;
    struct uro_qp *qp; /* borrowed; NULL: none */
    uint32_t left;     /* times, in this life */
    bool draining;     /* SQD was asked for */
    bool drained;      /* and SQ_DRAINED told: nothing is sent */
    uro_time at;
};

struct sim_rc_end {
    struct sim_qp_owner owner;
    struct sim_drain pause;
    struct sim_rc *pair;
    struct sim_rc_end *peer;
    struct sim_workload *load;
    struct sim_host *host;
    const struct sim_plan_end *plan;
    struct uro_rng rng;
    struct sim_node poster;
    struct sim_node receiver;
    uro_time post_at;    /* not before */
    uro_time receive_at; /* not before */
    uint32_t side;       /* of its host */
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
    bool recv_failed_of[SIM_PLAN_SRQS_MAX]; /* XRC: of this shared queue, which may be read later */
    bool last_wqe;                          /* LAST_WQE was told */
    uro_time last_wqe_at;
    bool revoked[SIM_MEMORY_SECTIONS]; /* deregistered in the middle of it all */
    uint64_t renewed;    /* the first request that may use it with a new key; MAX: none */
    uint32_t rights;     /* URO_ACCESS_REMOTE_* of the queue pair */
    uint32_t qpn;        /* kept when the queue pair is gone */
    uint32_t psn;        /* of the next request to be posted */
    uint32_t wire_psn;   /* of the next request to be sent, if none is sent again */
    uint32_t msn_sent;   /* by our responder */
    bool blocked;        /* nothing can be posted until something completes */
    uint32_t late_posts; /* into ERR, still to come */
    struct uro_qp *qp;
    void *qp_memory;                         /* owned */
    struct sim_srq *srq;                     /* basic; NULL: its own receives */
    uint64_t shared_next[SIM_PLAN_SRQS_MAX]; /* no older receive may complete any more */
    struct sim_memory memory;
    struct uro_key shared_key; /* of the host's shared word, in our PD */

    uint32_t sends_left;
    uint64_t remote;    /* of those posted, that the peer sees */
    uint64_t posted;    /* send requests; ops[number % SIM_WORKLOAD_OPS_MAX] */
    uint64_t confirmed; /* known to be complete */
    uint64_t signalled; /* one past the newest that is signalled */
    struct sim_rc_op ops[SIM_WORKLOAD_OPS_MAX];
    struct sim_rc_window windows[SIM_WORKLOAD_WINDOWS_MAX]; /* in the peer's memory */
    struct sim_rc_mw mws[SIM_RC_MWS];                       /* ours */
    uint64_t word; /* the peer's word for us, after all that was posted */
    uint32_t word_maybes;
    uint64_t word_maybe[SIM_WORKLOAD_OPS_MAX]; /* what else it may be */
    uint64_t messages_sent;
    uint64_t messages_base; /* all before were taken */
    struct sim_rc_message messages[SIM_WORKLOAD_MESSAGES_MAX];

    uint64_t recv_posted;
    uint64_t recv_done;
    uint64_t messages_taken; /* from the peer */
    struct sim_rc_recv recvs[SIM_WORKLOAD_OPS_MAX];
};

enum sim_life_state {
    SIM_LIFE_RUNNING,
    SIM_LIFE_ENDING,  /* something failed or we lost patience: being ended one way or another */
    SIM_LIFE_WAITING, /* ended, until the next life */
    SIM_LIFE_QUIET,   /* the last life did all its work */
    SIM_LIFE_OVER,
};

struct sim_rc {
    struct sim_node control;
    struct sim_workload *load;
    const struct sim_plan_pair *plan;
    struct uro_rng rng;
    uint32_t number; /* of all pairs of the run */
    struct sim_rc_end ends[2];
    enum sim_life_state state;
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

struct sim_srq_recv {
    bool used;
    uint64_t number;
    struct sim_rc_recv recv;
};

/* A shared receive queue and who posts to it. */
struct sim_srq {
    struct sim_node poster;
    struct sim_workload *load;
    struct sim_host *host;
    const struct sim_plan_srq *plan;
    struct uro_rng rng;
    uint32_t side;
    uint32_t index;
    uint32_t pd;
    struct uro_srq *srq;    /* owned */
    void *slots;            /* owned */
    struct sim_cq *cq;      /* XRC: where its receives complete */
    struct sim_cq *wide_cq; /* and where they do when not in a tight one */
    struct sim_memory memory;
    uint32_t room; /* octets of a receive */
    uint32_t slot_count;
    struct sim_srq_recv *recvs; /* owned; a slot of the memory each */
    uint64_t posted;            /* ever */
    uint64_t done;              /* completed, or forgotten with their queue pair */
    uint32_t lost_max;          /* may be gone with a queue pair that was using them */
    uint64_t dropped;           /* went with the queue they waited in */
    uint32_t generation;        /* how often another queue took its place */
    uint64_t seen;              /* the oldest after the last round */
    uint32_t limit;             /* armed; 0: not */
    uint64_t armed_at;          /* the oldest then */
    uro_time post_at;
};

/* A word that all pairs add to: every original value must be the sum of some adds before it. */
struct sim_shared_shared {
    uint64_t *word; /* owned */
    uint64_t start;
    uint64_t uncertain; /* adds that may or may not have been done */
    uint32_t count;
    uint32_t room;
    struct sim_shared_add {
        uint64_t original;
        uint64_t add;
    } * adds; /* owned */
};

/* Memory of an ended life: nobody may write there any more. */
struct sim_buried {
    struct sim_buried *next;
    struct sim_memory memory;
    uint32_t sum;
};

struct sim_workload {
    struct sim_world *world;
    uint32_t number; /* of all loads of the run, from 0 */
    uint32_t pds;    /* the first of its protection domains */
    const struct sim_plan *plan;
    struct uro_rng rng;
    struct sim_host_work *at_hosts[2]; /* borrowed */
    struct sim_host *hosts[2];         /* theirs */
    struct sim_cq cqs[2][SIM_WORKLOAD_CQS_MAX];
    struct sim_cq tight[2]; /* plan->cq_tight */
    struct sim_shared_shared shared[2];
    struct sim_srq srqs[2][SIM_PLAN_SRQS_MAX];
    struct sim_rc *pairs;          /* owned; plan->pair_count */
    struct sim_uc *ucs;            /* owned; plan->uc_count */
    struct sim_ud *ud;             /* owned */
    struct sim_cm *cm;             /* owned */
    struct sim_attacked *attacked; /* owned; NULL: none */
    struct sim_qp_owner *owners;
    struct sim_buried *graves;
    uint32_t pause_count; /* ever made */
    bool calm;
    uro_time calm_since;
    uint64_t ops_done;
    uint64_t lives;
    uint64_t failures; /* completions in error, all expected */
};

/* workload.c */
/* Between the hosts of @a and @b. */
void sim_workload_init(struct sim_workload *load, struct sim_world *world,
                       const struct sim_plan *plan, uint32_t number, struct sim_host_work *a,
                       struct sim_host_work *b);
void sim_workload_fini(struct sim_workload *load);
/* Faults stopped. */
void sim_workload_calm(struct sim_workload *load);
/* Every pair did all its work. */
bool sim_workload_quiet(const struct sim_workload *load);
/* Ends the quiet pairs: what is still posted must be flushed. */
void sim_workload_end_all(struct sim_workload *load);
bool sim_workload_over(const struct sim_workload *load);
/* What must hold at the end: shared words, memory of ended lives. */
void sim_workload_check(struct sim_workload *load);
/* Who is not done, for the failure message. */
void sim_workload_blame(const struct sim_workload *load, char *text, size_t room);

/* Lists a queue pair's owner. */
void sim_workload_own(struct sim_workload *load, struct sim_qp_owner *owner,
                      const struct sim_host *host,
                      void (*on_event)(struct sim_qp_owner *, enum uro_event_kind),
                      const char *(*problem)(const struct sim_qp_owner *));
/* A next hop was not found: frames to it are not sent, and only who asks for answers notices. */
bool sim_workload_swallows(const struct sim_host *host);
/* What was under way when the clock jumped has arrived by then. */
uro_time sim_workload_arrived_at(const struct sim_workload *load);
/* Takes over memory that nobody may write to any more. */
void sim_workload_bury_arena(struct sim_workload *load, struct sim_memory *memory);

/* rc_life.c */
void sim_rc_life_begin(struct sim_rc *pair);
/* Resets (pair->reuse) or destroys the queue pair of one end; uncompleted work is uncertain. */
void sim_rc_life_stop(struct sim_rc_end *end);
void sim_rc_life_to_error(struct sim_rc_end *end);
/* Both ends are stopped: checks the memory and buries it. */
void sim_rc_life_bury(struct sim_rc *pair);

/* rc_choose.c */
/* Fills in the next request; false when there is no room for one now. */
bool sim_rc_choose_op(struct sim_rc_end *end, struct sim_rc_op *op);

/* rc_window.c */
/* The memory windows of a life. */
void sim_rc_window_begin(struct sim_rc_end *end);
void sim_rc_window_end(struct sim_rc_end *end);
/* The slot that a memory window opens a part of. */
uint32_t sim_rc_window_of(const struct sim_rc_end *owner, const struct sim_rc_mw *mw);
/* One of the end's memory windows is open. */
bool sim_rc_window_bound(const struct sim_rc_end *end);
/* Fills in a request about a memory window; false when there is none for it now. */
bool sim_rc_window_choose(struct sim_rc_end *end, struct sim_rc_op *op, enum sim_plan_kind kind);
/* The key of a window that is not bound, or of nothing. */
uint32_t sim_rc_window_stale(const struct sim_rc_end *owner);
/* Makes it wrong; false when it cannot be. */
bool sim_rc_window_spoil(struct sim_rc_end *end, struct sim_rc_op *op);
void sim_rc_window_fill(const struct sim_rc_end *end, const struct sim_rc_op *op,
                        struct uro_wqe *wqe);
/* The request succeeded. */
void sim_rc_window_done(struct sim_rc_end *end, const struct sim_rc_op *op);
/* A SEND_WITH_INV came. */
void sim_rc_window_invalidated(struct sim_rc_end *end, uint32_t rkey);

/* rc_post.c */
void sim_rc_post_init(struct sim_rc_end *end);
/* There may be something to post. */
bool sim_rc_post_can_send(const struct sim_rc_end *end);

/* srq.c */
void sim_srq_init(struct sim_srq *srq, struct sim_workload *load, uint32_t side, uint32_t index);
void sim_srq_fini(struct sim_srq *srq);
/* That of the end's host. */
struct sim_srq *sim_srq_of(const struct sim_rc_end *end, uint32_t index);
/* The number of the oldest receive that waits; of the next one when none does. */
uint64_t sim_srq_oldest(const struct sim_srq *srq);
/* NULL: it was never posted, or completed. */
struct sim_srq_recv *sim_srq_find(struct sim_srq *srq, uint64_t number);
/* Its slot can be used again. */
void sim_srq_done(struct sim_srq *srq, struct sim_srq_recv *recv);
void sim_srq_on_limit(struct sim_srq *srq);
void sim_srq_after_round(struct sim_srq *srq);
/* A queue pair that uses a basic one is about to be reset or destroyed. */
void sim_srq_on_stop(struct sim_srq *srq, const struct uro_cq *cq, uint32_t qpn);
/* The receive that completed on a queue pair, which completed all before @next; NULL, and the run
 * has failed, when it cannot have. */
struct sim_srq_recv *sim_srq_completed(struct sim_srq *srq, const struct uro_cqe *cqe,
                                       uint64_t *next);
/* No queue pair is left: destroys it and checks its memory. */
void sim_srq_check(struct sim_srq *srq);

/* drain.c */
void sim_drain_init(struct sim_drain *pause, struct sim_workload *load, struct sim_host *host);
/* A queue pair is in RTS. */
void sim_drain_begin(struct sim_drain *pause, struct uro_qp *qp);
/* It is about to be reset or destroyed. */
void sim_drain_end(struct sim_drain *pause);
void sim_drain_on_drained(struct sim_drain *pause);

/* rc_judge.c */
void sim_rc_judge(struct sim_rc_end *end, const struct uro_cqe *cqe);
/* The send queue and its CQ are empty: what did not complete must have been silent success. */
void sim_rc_judge_silent(struct sim_rc_end *end);
/* The request will never complete: done or not, nobody can say. */
void sim_rc_judge_uncertain(struct sim_rc_end *end, const struct sim_rc_op *op);
bool sim_rc_judge_add(struct sim_shared_shared *shared, uint64_t original, uint64_t add);

/* The request was posted when a key of the section was good that is no more. */
bool sim_rc_judge_revoked(const struct sim_rc_end *owner, enum sim_memory_section section,
                          const struct sim_rc_op *op);
/* After a round. */
void sim_rc_judge_lost(const struct sim_rc_end *end);
bool sim_rc_judge_may_flush(const struct sim_rc_end *end);
/* Both return false. */
bool sim_rc_judge_fail(const struct sim_rc_end *end, const char *kind, uint64_t number,
                       const char *what);
bool sim_rc_judge_fail_memory(const struct sim_rc_end *end, const char *kind, uint64_t number,
                              const char *what, uint32_t at);

/* rc_receive.c */
bool sim_rc_receive(struct sim_rc_end *end, const struct uro_cqe *cqe);

/* After every round of a host: what must hold. */
void sim_workload_after_round(struct sim_workload *load, unsigned side);

/* rc_wire.c */
/* False when the frame is none of this load's. */
bool sim_rc_wire(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame);

/* rc_control.c */
void sim_rc_control_init(struct sim_rc *pair);
/* A completion in error was seen: ends this life some time. */
void sim_rc_control_on_failure(struct sim_rc *pair);
/* Something completed: perhaps this life has done what it had to. */
void sim_rc_control_on_progress(struct sim_rc *pair);
/* A quiet pair ends. */
void sim_rc_control_finish(struct sim_rc *pair);
