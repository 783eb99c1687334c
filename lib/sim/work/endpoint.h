/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint.h - a queue pair of the simulation, of any type, with its requests.
 *
 *   endpoint.c  creates, modifies and destroys the queue pair and its memory; posts requests
 *   judge.c     checks every completion against what was posted
 *   life.c      decides when a queue pair ends, and how
 *
 * struct sim_endpoint_ops has the functions that differ between the types: rc.c (RC and XRC; cm.c
 * has variants of some), uc.c, ud.c and attacked.c implement them.
 */
#pragma once

#include "sim/net/host.h"
#include "sim/oracle/memory.h"
#include "sim/plan/plan.h"
#include "sim/work/queue.h"

#define SIM_REQUESTS_MAX 64u /* outstanding requests of a queue */
#define SIM_NO_WINDOW    UINT32_MAX
#define SIM_ACCESS_REMOTE                                                                          \
    (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC |           \
     UROCE_ACCESS_FLUSH_GLOBAL | UROCE_ACCESS_FLUSH_PERSISTENT)

struct uro_frame;
struct sim_endpoint;
struct sim_life;
struct sim_workload;
struct sim_rc_state;
struct sim_rc_mw;
struct sim_ud_state;

/* Drains a send queue now and then and resumes it: RTS, SQD, SQ_DRAINED, RTS. */
struct sim_drain {
    struct uro_rng rng;
    uint32_t left; /* drains left in this life */
    bool draining; /* the program moved the queue pair to SQD */
    bool drained;  /* SQ_DRAINED was reported, so the queue pair may send nothing */
    uro_time due;  /* NEVER: no drain is due */
};

/* The deliberate error of a request. */
enum sim_fault {
    SIM_FAULT_NONE,
    SIM_FAULT_BAD_RKEY,    /* an invalid key */
    SIM_FAULT_OTHER_PD,    /* a key of another protection domain */
    SIM_FAULT_BEYOND,      /* some bytes are outside the range */
    SIM_FAULT_NO_RIGHT,    /* a key without remote rights */
    SIM_FAULT_MISALIGNED,  /* an atomic that is not aligned to 8 bytes */
    SIM_FAULT_BAD_LKEY,    /* one element has an invalid key */
    SIM_FAULT_UNSUPPORTED, /* an operation that the queue pair does not offer */
    SIM_FAULT_BAD_WINDOW,  /* a wrong key, or an access outside of the memory window */
    SIM_FAULT_BAD_QKEY,    /* a Q_Key with which the receiver drops the datagram */
    SIM_FAULT_NO_HANDLE,   /* an address handle that was destroyed, or is of another PD */
    SIM_FAULT_TOO_LONG,
    SIM_FAULTS
};

/* A send request. */
struct sim_request {
    uint64_t number; /* wr_id */
    uint8_t opcode;  /* enum uroce_opcode */
    uint8_t flags;
    enum sim_fault fault;
    uint32_t length;
    uint32_t imm;
    uint64_t seed;    /* seed of the message, or of the data that a READ returns */
    uint32_t offset;  /* offset in the window that the request uses */
    uint32_t window;  /* RC, UC: slot in the peer's memory; SIM_NO_WINDOW: none */
    uint64_t message; /* RC: number among messages that the peer takes; UD: index of the datagram */
    uint64_t remote_address;
    uint32_t rkey;
    uint32_t sent;  /* UC, UD: packets seen on the wire */
    uint32_t taken; /* number of receives of the peer that the request completed */
    bool flushed;

    /* RC */
    bool shared_word; /* an atomic on the word that all connections share */
    uint32_t psn;     /* PSN of the first packet */
    uint32_t psns;
    uint32_t writers; /* WRITEs to the window, this request included */
    uint32_t srq;     /* XRC: the peer's shared receive queue */
    uint32_t srqn;    /* number of that queue when the request was posted */
    uint32_t srq_generation;
    uint64_t compare_add;
    uint64_t swap;        /* COMPARE_SWAP, ATOMIC_WRITE: value to write */
    uint64_t original;    /* atomics: the value that must be returned */
    struct sim_rc_mw *mw; /* window that the request binds, invalidates or uses; NULL: none */
    uint32_t inv_rkey;    /* key that is invalidated; BIND_MW: key before the binding */
    struct sim_flush {
        uint8_t placement;   /* as in struct uroce_send */
        uint8_t selectivity; /* as in struct uroce_send */
    } flush;
    uint64_t remote_number; /* number of earlier requests that reach the peer */

    struct sim_buffer buffer;
};

/* A receive that completed. */
struct sim_receive {
    const struct uroce_completion *cqe;
    uint64_t number;
    const struct sim_recv *recv;
    struct sim_srq *srq; /* NULL: the queue pair's own receive queue */
};

struct sim_endpoint_ops {
    const char *family;  /* in messages */
    bool reliable;       /* RC and XRC */
    bool own_cq;         /* each endpoint has a CQ of its own; false: it uses CQs of the workload */
    bool alone;          /* UD: a life has one endpoint */
    bool forged;         /* an attacker may answer its requests */
    uint8_t unsupported; /* an opcode that this type does not offer */

    /* Sets the type, the number, the protection domain and the members that only this type uses.
     * Called once. */
    void (*init)(struct sim_endpoint *end, unsigned index);

    /* The functions of a life, in the order of the calls. */
    void (*begin)(struct sim_endpoint *end); /* draws the work of this life */
    /* Creates memory, and a queue pair unless the previous life kept its queue pair. */
    void (*make)(struct sim_endpoint *end);
    /* Called in RTR, after make() of all endpoints of the life; NULL: nothing to do. */
    void (*connect)(struct sim_endpoint *end);
    /* Returns whether all work is done, as sim_endpoint_worked() does. */
    bool (*worked)(const struct sim_endpoint *end);
    /* Called before the queue pair is reset or destroyed. */
    void (*stop)(struct sim_endpoint *end);
    /* Called after the queue pair was reset or destroyed. */
    void (*stopped)(struct sim_endpoint *end);
    /* Called when all endpoints of the life are stopped. */
    void (*check_memory)(struct sim_endpoint *end);
    void (*bury)(struct sim_endpoint *end);    /* NULL: sim_endpoint_bury() */
    void (*release)(struct sim_endpoint *end); /* destroys the objects that only this type has, if
                                                  any are left; NULL: none */
    /* Deregisters memory in use, or changes its key; NULL: never. */
    void (*revoke)(struct sim_life *life);

    /* Sends. */
    /* Returns whether the endpoint may send if its queue has a free slot; NULL: always. */
    bool (*can_send)(const struct sim_endpoint *end);
    /* Draws the next request; returns false if there is none now. */
    bool (*choose)(struct sim_endpoint *end, struct sim_request *request);
    void (*fill)(struct sim_endpoint *end, const struct sim_request *request,
                 struct uroce_send *send); /* adds the fields of this type */
    /* Changes a posted request as uroce_qp_send() would not allow; NULL: no such fault. */
    void (*spoil)(struct sim_endpoint *end, const struct sim_request *request);
    /* Checks a request that succeeded; NULL: nothing to check. */
    void (*confirm)(struct sim_endpoint *end, const struct sim_request *request);
    /* Returns whether the request may fail with this status; NULL: life->may_fail. */
    bool (*expected)(const struct sim_endpoint *end, const struct sim_request *request,
                     uint32_t status);
    /* Handles a completion in error, or an overflow of a CQ. @request is NULL unless a send
     * failed. */
    void (*on_error)(struct sim_endpoint *end, const struct sim_request *request, uint32_t status);

    /* Called after a completion; RC, XRC: only if it succeeded. */
    void (*on_progress)(struct sim_endpoint *end);

    /* Receives. */
    /* Returns the bytes of a receive; NULL: those of the largest message. */
    uint32_t (*recv_size)(struct sim_endpoint *end);
    void (*take)(struct sim_endpoint *end, const struct sim_receive *receive); /* a message */
    /* Returns whether a receive may fail with its status; NULL: life->may_fail. */
    bool (*recv_expected)(const struct sim_endpoint *end, const struct sim_receive *receive);

    /* Checks a frame that the endpoint sent, or its response to a frame of the peer. */
    void (*wire)(struct sim_endpoint *end, const struct uro_frame *frame);
};

struct sim_endpoint {
    /* The program that posts and drains, and members of frequent use. */
    struct sim_node program;
    const struct sim_endpoint_ops *ops;
    struct sim_life *life;
    const struct sim_plan_end *plan;
    enum uroce_qp_type type;
    bool alive;       /* from RTS (cm.c: INIT) until the queue pair is stopped */
    bool blocked;     /* no send can be posted until a request completes */
    bool ended;       /* the program moved the queue pair to ERR, or `alive` is false */
    bool stopped;     /* UC, UD: in SQE, since a send failed */
    bool send_failed; /* RC: a send completed in error */
    bool recv_failed;
    bool fatal;          /* QP_FATAL was reported */
    uint32_t late_posts; /* requests still to post in ERR */
    uint32_t sends_left;
    uint32_t qpn;       /* QPN, also after the queue pair is destroyed */
    uint64_t posted;    /* send requests; requests[number % SIM_REQUESTS_MAX] */
    uint64_t confirmed; /* send requests known to be complete */
    uint64_t recv_posted;
    uint64_t recv_done;
    uro_time post_at;    /* earliest time of the next send */
    uro_time receive_at; /* earliest time of the next receive */
    uro_time resume_at;
    struct sim_srq *srq; /* basic SRQ; NULL: none */
    struct sim_host *host;
    struct sim_endpoint *next; /* next endpoint of the workload */

    struct sim_endpoint *peer; /* the other end; NULL: none */
    struct sim_workload *workload;
    struct sim_world *world;
    uint32_t side;   /* side of its host */
    uint32_t number; /* number within its family */
    struct uroce_pd *pd;
    uint32_t qkey; /* UD */
    struct uro_rng rng;
    struct sim_drain drain;

    /* The queue pair. */
    struct uroce_qp *qp;      /* owned; NULL: none */
    struct uroce_cq *send_cq; /* NULL: none */
    struct uroce_cq *recv_cq;
    struct sim_cq cq; /* with ops->own_cq: its CQ, unless it uses the tight CQ */
    struct sim_memory memory;
    bool last_wqe;
    uro_time last_wqe_at;

    /* State of the present life. */
    bool cause_known;     /* RC: a send failed that was not flushed */
    bool lost_answer;     /* RC: the response of the first flushed request may be lost */
    uint64_t flush_until; /* UC, UD: requests before this may be flushed in SQE */
    bool recv_failed_of[SIM_PLAN_SRQS_MAX + 1]; /* XRC: a receive of this shared queue failed */
    /* Number before which no receive may complete any more. */
    uint64_t shared_next[SIM_PLAN_SRQS_MAX + 1];
    uint32_t wire_psn; /* PSN of the next packet; RC: next new PSN of a clean link */
    /* UC, UD: the next packet belongs to this request or to a later request. */
    uint32_t wire_next;
    uint64_t signalled;           /* number of the newest signalled request, plus 1 */
    struct sim_request *requests; /* owned */
    struct sim_recv *recvs;       /* owned; SIM_REQUESTS_MAX */
    uint64_t messages_sent;       /* messages that the peer must receive */
    uint64_t messages_taken;      /* messages received from the peer */
    uint64_t taken_last;          /* UC: number of the newest received message */

    struct sim_rc_state *rc; /* owned; NULL: UC, UD or attacked */
    struct sim_ud_state *ud; /* owned; NULL: not UD */
};

enum sim_life_state {
    SIM_LIFE_RUNNING,
    SIM_LIFE_ENDING,  /* its work is done, a request failed, or its time is over */
    SIM_LIFE_WAITING, /* waits until the next life */
    SIM_LIFE_IDLE,    /* the last life did all its work */
    SIM_LIFE_OVER,
};

/* The lives of a connection, or of one datagram queue pair. */
struct sim_life {
    struct sim_node control; /* due: the next step */
    struct sim_workload *workload;
    struct sim_world *world;
    const struct sim_plan_pair *plan;
    struct uro_rng *rng;
    struct uro_rng own_rng;
    uint32_t number; /* number within its family */
    uint32_t count;  /* number of endpoints: 1 or 2 */
    struct sim_endpoint ends[2];
    enum sim_life_state state;
    uint32_t life; /* 0 .. */
    bool last_life;
    bool may_fail; /* completions of this life may fail */
    bool may_time_out;
    bool peace;          /* the last life did all its work; after its end it is OVER */
    uro_time arrived_by; /* time at which all frames to reused queue pairs have reached the host */
    bool abrupt;         /* ENDING without waiting for flushed work */
    bool revoked;        /* revoke() was called in this life */
    bool reuse;          /* ENDING by RESET: the next life has the same queue pairs */
    uint32_t first;      /* end that is ended first */
};

extern const struct sim_endpoint_ops sim_rc_ops, sim_uc_ops, sim_ud_ops;

/* endpoint.c */
/* Lists the endpoint in its workload. The caller has set its ops, workload, host, type, side and
 * number. */
void sim_endpoint_init(struct sim_endpoint *end);
/* Removes an endpoint without a queue pair from the list. */
void sim_endpoint_unlist(struct sim_endpoint *end);
void sim_endpoint_fini(struct sim_endpoint *end);
/* Creates and registers the memory of a life. The addresses of two families differ. */
void sim_endpoint_make_memory(struct sim_endpoint *end, unsigned family,
                              const struct sim_memory_section_size *sizes);
/* Creates the queue pair with the parameters of the plan, unless the previous life left its queue
 * pair in place. */
void sim_endpoint_create(struct sim_endpoint *end);
void sim_endpoint_modify(struct sim_endpoint *end, const struct uroce_qp_attr *attr, unsigned mask);
/* Move the queue pair to INIT and RTR, and to RTS. */
void sim_endpoint_to_rtr(struct sim_endpoint *end);
void sim_endpoint_to_rts(struct sim_endpoint *end);
/* Returns whether all sends are done, and the peer has taken all messages. */
bool sim_endpoint_worked(const struct sim_endpoint *end);
void sim_endpoint_destroy(struct sim_endpoint *end);
void sim_endpoint_to_error(struct sim_endpoint *end);
/* Resets or destroys the queue pair. */
void sim_endpoint_stop(struct sim_endpoint *end, bool reuse);
/* Deregisters the memory of the life and keeps it: it may not change any more. */
void sim_endpoint_bury(struct sim_endpoint *end);
/* Returns the address of the endpoint's host. */
struct uroce_address sim_endpoint_address(const struct sim_endpoint *end, bool v6);
/* Reports a failure. Always returns false. */
bool sim_endpoint_fail(const struct sim_endpoint *end, const char *kind, uint64_t number,
                       const char *problem);

bool sim_receive_fail(const struct sim_endpoint *end, const struct sim_receive *receive,
                      const char *problem);

/* Draws the drains of a life, whose queue pair is in RTS. */
void sim_drain_begin(struct sim_endpoint *end);
void sim_drain_on_drained(struct sim_endpoint *end);

/* Returns when the endpoint's program has work. */
uro_time sim_post_next(const struct sim_endpoint *end);
void sim_post_run(struct sim_endpoint *end);
/* Adds the endpoint's program to the world. */
void sim_post_init(struct sim_endpoint *end);
/* Draws the flags of the request. */
void sim_post_choose_flags(struct sim_endpoint *end, struct sim_request *request, bool may_inline);
/* Draws the length of a message. Small lengths, and lengths near multiples of the path MTU, are
 * more likely than others. */
uint32_t sim_post_choose_length(struct sim_endpoint *end);

/* judge.c */
/* Finds the queue pair of a polled completion, and checks the completion. */
void sim_judge(const struct sim_cq *cq, const struct uroce_completion *cqe);
/* Checks an empty send queue with an empty CQ: requests without completion must have succeeded
 * unsignalled. */
void sim_judge_silent(struct sim_endpoint *end);
/* Checks for completions that did not fit in their CQ. Called after a round. */
void sim_judge_lost(const struct sim_endpoint *end);
/* Checks a data packet of the request. Returns the problem as text, or NULL. */
const char *sim_judge_packet(const struct sim_request *request, uint32_t index, uint32_t mtu,
                             const struct uro_frame *frame);
/* Checks the completion of a receive that took the message, but not the received bytes. Returns the
 * problem as text, or NULL. */
const char *sim_judge_message(const struct sim_request *message, const struct sim_receive *receive);
/* Returns the status with which the request must fail. */
uint32_t sim_judge_status(const struct sim_request *request);
/* Returns whether the request stops its send queue before any packet is sent. */
bool sim_judge_stops(const struct sim_request *request);
/* UC, UD: expected(), on_error() and recv_expected(). */
bool sim_judge_expected(const struct sim_endpoint *end, const struct sim_request *request,
                        uint32_t status);
void sim_judge_stop_queue(struct sim_endpoint *end, const struct sim_request *request,
                          uint32_t status);
bool sim_judge_bad_lkey(const struct sim_endpoint *end, const struct sim_receive *receive);

/* Returns whether a send or receive that is posted now completes in error. */
static inline bool sim_endpoint_in_error(const struct sim_endpoint *end)
{
    return end->ended || end->recv_failed || (end->ops->reliable ? end->send_failed : end->fatal);
}

static inline struct sim_request *sim_request_of(const struct sim_endpoint *end, uint64_t number)
{
    return &end->requests[number % SIM_REQUESTS_MAX];
}

/* Returns the bytes of SIM_MEMORY_WINDOWS that a request of the peer writes or reads. */
static inline struct sim_buffer sim_endpoint_window(struct sim_endpoint *end,
                                                    const struct sim_request *request)
{
    struct sim_buffer buffer = sim_buffer_at(&end->memory, SIM_MEMORY_WINDOWS, request->window);

    buffer.count = 1;
    buffer.pieces[0].offset = request->offset;
    buffer.pieces[0].length = request->length;
    return buffer;
}

/* Returns whether the request's slot has the bytes of the request, and no other change. */
static inline bool sim_judge_window(struct sim_endpoint *end, const struct sim_request *request)
{
    const struct sim_buffer window = sim_endpoint_window(end, request);

    return sim_buffer_check(&window, request->length, request->seed);
}

static inline bool sim_request_is_signalled(const struct sim_endpoint *end,
                                            const struct sim_request *request)
{
    return request->flags & UROCE_SIGNALED || end->plan->signal_all;
}

/* life.c */
/* Creates the endpoints of life @number of a family, with their programs. */
void sim_life_init(struct sim_life *life, struct sim_workload *workload,
                   const struct sim_endpoint_ops *ops, const struct sim_plan_pair *plan,
                   uint32_t number);
void sim_life_fini(struct sim_life *life);
/* Begins a life of one endpoint, with its memory and its queue pair. */
void sim_life_begin_endpoint(struct sim_endpoint *end);
/* Schedules the end of this life after a completion in error. */
void sim_life_on_failure(struct sim_life *life);
/* Checks after a completion whether this life has done its work. */
void sim_life_on_progress(struct sim_endpoint *end);
/* Prepares for the end of faults. */
void sim_life_calm(struct sim_life *life);
/* Returns whether the last life has done all its work. */
bool sim_life_idle(const struct sim_life *life);
/* Ends an idle life. */
void sim_life_finish(struct sim_life *life);
/* Time after the end of faults at which a life that must not fail may begin. */
#define SIM_LIFE_NEIGHBOUR_WAIT URO_MS(1500)
