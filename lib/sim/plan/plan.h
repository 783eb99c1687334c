/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.h - the plan of a run, drawn from a seed: which faults and kinds of work the run has, and
 * how many or how often.
 *
 *   fields.c  a table for each struct: how each field is drawn, and to which part it belongs
 *   plan.c    draws a whole plan from the tables, and computes time limits for the run
 *
 * Many runs with few kinds of faults find more errors than runs with all kinds at once. So a first
 * random number decides whether a field is on, and a second chooses its value. A field may belong
 * to parts, such as "lose" or "cm", which can be left out. A clean link is a link without the parts
 * that are faults.
 */
#pragma once

#include <uroce/objects.h>

#include "sim/net/attacker.h"
#include "sim/net/cable.h"
#include "sim/net/host.h"

/* Connections of a host with a clean link: more than any run has. */
#define SIM_PLAN_CALM_CONNECTIONS 512u
#define SIM_PLAN_PAIRS_MAX        8u
#define SIM_PLAN_UCS_MAX          3u
#define SIM_PLAN_PARTIES_MAX      5u
#define SIM_PLAN_SRQS_MAX         5u
#define SIM_PLAN_NO_SRQ           UINT32_MAX
/* Maximum bytes around the payload: IPv6 to ICRC of an XRC WRITE_WITH_IMM. */
#define SIM_PLAN_OVERHEAD 88u
/* Time at the start of a run, since clocks seldom start at zero. */
#define SIM_PLAN_START     URO_MS(1)
#define SIM_PLAN_JUMPS_MAX 8u
#define SIM_NET_HOSTS_MAX  8u
#define SIM_NET_LINKS_MAX  8u

/* Kinds of work requests. The plan has a weight for each kind. */
enum sim_plan_kind {
    SIM_PLAN_SEND,
    SIM_PLAN_SEND_IMM,
    SIM_PLAN_WRITE,
    SIM_PLAN_WRITE_IMM,
    SIM_PLAN_READ,
    SIM_PLAN_CMP_SWAP,
    SIM_PLAN_FETCH_ADD,
    SIM_PLAN_SHARED_ADD, /* FETCH_ADD to a word that all pairs share */
    SIM_PLAN_READ_BACK,  /* READ of the bytes of the WRITE before it */
    SIM_PLAN_OVERWRITE,  /* fenced WRITE over the bytes of the READ before it */
    SIM_PLAN_FLUSH,      /* FLUSH of the bytes of the WRITE before it, or of other bytes */
    SIM_PLAN_ATOMIC_WRITE,
    SIM_PLAN_BIND, /* this kind and the kinds below are for RC only */
    SIM_PLAN_LOCAL_INV,
    SIM_PLAN_SEND_INV,
    SIM_PLAN_MW_WRITE,
    SIM_PLAN_MW_READ,
    SIM_PLAN_KINDS
};

/* A shared receive queue. */
struct sim_plan_srq {
    bool xrc;
    bool wild; /* true: some receives are wrong on purpose */
    uint32_t capacity;
    uint32_t capacity_max; /* after a resize */
    uint32_t spare;        /* further receives, which messages may use while the queue is full */
    uint32_t sges;
    uint32_t batch_max;
    uint32_t wait_max;          /* delay of a post, ns */
    uint32_t limit_probability; /* probability to arm a limit, of 65536 occasions */
    uint32_t resize_probability;
    uint32_t wrong_probability;   /* wild: wrong receives, of 65536 */
    uint32_t replace_probability; /* probability to replace the queue, of 65536 occasions */
};

/* One endpoint. */
struct sim_plan_end {
    uint32_t send_capacity; /* at least 1 */
    uint32_t recv_capacity;
    uint32_t send_sges; /* 1 .. UROCE_SGE_MAX */
    uint32_t recv_sges;
    uint32_t inline_max;
    bool signal_all;
    uint32_t signal_probability; /* signalled requests, of 65536 that need not be signalled */
    uint32_t inline_probability; /* inline requests, of 65536 whose data fits inline */
    uint32_t fence_probability;
    uint32_t solicit_probability;
    uint32_t weights[SIM_PLAN_KINDS]; /* RC and XRC: not all zero */
    uint32_t batch_max;               /* maximum number of requests posted at once */
    uint32_t recv_batch_max;
    uint32_t post_wait_max; /* delay of a post, ns */
    uint32_t recv_wait_max;
    uint32_t first_psn;
    uint32_t srq;   /* index of the SRQ for the receives; SIM_PLAN_NO_SRQ: none */
    uint32_t sends; /* work requests of each life; UC, UD: maximum */
    uint8_t rd_atomic;
    uint8_t min_rnr_timer;
    uint8_t timeout;
    uint8_t retry_count;
    uint8_t rnr_retry;
    /* UC, UD: longest time in SQE until the queue pair returns to RTS, ns. */
    uint32_t resume_wait_max;
};

/* A connection, or a datagram queue pair. A datagram queue pair has the first end only. */
struct sim_plan_pair {
    uint64_t seed; /* UC, UD and attacked queue pairs; else 0 */
    uint32_t path_mtu;
    uint32_t message_max;
    uint32_t lives; /* number of lives; the last life must do all its work */
    /* Longest time until the program ends a life that is not the last, us; 0: only errors or the
     * end of its work end a life. */
    uint32_t life_max;
    /* Requests in 65536 that are wrong on purpose, except in the last life. */
    uint32_t inject_probability;
    bool v6;
    bool xrc;            /* true: one end is an XRC initiator, the other an XRC target */
    uint32_t xrc_target; /* index of the XRC target in ends[] */
    unsigned sides[2];   /* hosts of the two ends; equal numbers: a loopback connection */
    struct sim_plan_end ends[2];
};

/* Applications that connect to each other by messages of the connection manager. */
struct sim_plan_cm {
    uint64_t seed;
    uint32_t callers[2];  /* active CM users of each host; 0 and 0: none */
    uint32_t attempts;    /* attempts of each user while there are faults */
    uint32_t connections; /* maximum number of connections of each connection manager */
    uint32_t backlog;
    bool notices; /* true: the backlog does not count requests whose events the program has taken */
    bool v6;
    uint32_t path_mtu;
    uint32_t message_max;
    uint32_t message_count; /* maximum number of messages of each side */
    uint32_t call_wait_max; /* time between two attempts, ns */
    uint32_t turn_wait_max; /* time until an application acts on an event, ns */
    uint32_t stay_max;      /* longest time until a user that abandons its connection leaves, us */
    uint32_t shut_wait_max; /* time between closing and opening a service, us; 0: always open */
    /* Connections in 65536 that a user abandons in any state, mostly without a message. */
    uint32_t leave_probability;
    uint32_t reject_probability;
    uint32_t query_probability;   /* attempts in 65536 that ask for a datagram service */
    uint32_t nobody_probability;  /* attempts in 65536 to a service without a listener */
    uint32_t self_probability;    /* attempts in 65536 to the own host */
    uint32_t patient_probability; /* attempts in 65536 in which no side leaves or rejects */
    uint32_t absent_probability;  /* attempts in 65536 to an address without a host */
    uint32_t slow_probability;    /* patient attempts in 65536 that a server answers slowly */
    uint8_t retries;              /* retries of impatient attempts */
    uint8_t response_timeout;
    uint8_t ack_timeout; /* exponent of the ACK timeout */
};

/* Two endpoints under attack by an attacker that reads all frames. */
struct sim_plan_attacked {
    uint64_t seed;
    enum uroce_qp_type type; /* XRC_INI: the other queue pair is the target */
    uint32_t wait_max;       /* longest time between frames of the attacker, us; 0: no attacker */
    struct sim_plan_pair pair;
};

/* The faults of the whole run; maxima are in us. */
struct sim_plan_faults {
    uint64_t seed;
    uint32_t down_wait_max; /* longest time until a link goes down; 0: no link goes down */
    uint32_t down_max;
    /* Longest time until the clock jumps, at most JUMPS_MAX times; 0: the clock never jumps. */
    uint32_t jump_wait_max;
    uint32_t jump_max;
};

/* The plan of one link: two hosts, the cables between them, and a workload of their own. */
struct sim_plan {
    const struct sim_net_plan *net;
    unsigned hosts[2];
    uint64_t seed;
    /* True: there are no faults, no slow receivers and no errors. So no packet may be sent
     * twice. */
    bool clean;
    bool forever;        /* true: retries never run out, so no request may time out */
    uro_time calm_at;    /* earliest time at which faults stop and errors are no longer injected */
    uro_time flight_max; /* longest time of a frame in flight */
    struct sim_cable_config cables[2];
    struct sim_attacker_config attacker;
    uint32_t doze_probability; /* polls in 65536 after which the program pauses */
    uint32_t doze_max;         /* longest pause, us */
    uint32_t cq_count;         /* completion queues of each host */
    uint32_t cq_tight;         /* capacity of the tight CQ, too small for its users; 0: none */
    /* True: shared receive queues, UC and UD may use the tight CQ, too. */
    bool cq_tight_all;
    uint32_t resize_probability; /* polls in 65536 before which the CQ is resized */
    bool cq_events;              /* true: programs wait for completion events instead of polling */
    uint32_t poll_wait_max;      /* maximum pause after a poll, ns */
    bool revokes;                /* memory is deregistered while it is used */
    bool pauses;                 /* send queues are drained now and then */
    bool shared;                 /* there are basic shared receive queues */
    bool xrc;                    /* there are shared receive queues of XRC */
    uint32_t srq_count[2];
    /* The last queue belongs to an attacked XRC target. */
    struct sim_plan_srq srqs[2][SIM_PLAN_SRQS_MAX + 1];
    uint32_t pair_count;
    struct sim_plan_pair pairs[SIM_PLAN_PAIRS_MAX];
    uint32_t uc_count;
    struct sim_plan_pair ucs[SIM_PLAN_UCS_MAX];
    bool groups; /* true: UD queue pairs also send to multicast groups */
    uint32_t party_count;
    struct sim_plan_pair parties[SIM_PLAN_PARTIES_MAX];
    struct sim_plan_cm cm;
    struct sim_plan_attacked attacked;
};

/* The plan of a whole run. */
struct sim_net_plan {
    uint32_t host_count;
    struct sim_host_config hosts[SIM_NET_HOSTS_MAX];
    uint32_t link_count;
    struct sim_plan links[SIM_NET_LINKS_MAX];
    bool clean;       /* true: every link is clean */
    uro_time calm_at; /* time at which the faults of all links stop */
    struct sim_plan_faults faults;
};

/* The parts that can be left out of a run to find the cause of a failure: faults, work, and all
 * hosts but two. UNNAMED is for fields that only clean links and their hosts
 * leave out: no option names it. */
#define SIM_PLAN_PARTS(X)                                                                          \
    X(LOSE, "lose")                                                                                \
    X(DUPLICATE, "duplicate")                                                                      \
    X(CORRUPT, "corrupt")                                                                          \
    X(TRUNCATE, "truncate")                                                                        \
    X(LATE, "late")                                                                                \
    X(JITTER, "jitter")                                                                            \
    X(CE, "ce")                                                                                    \
    X(QUEUE, "queue")                                                                              \
    X(PARTITION, "partition")                                                                      \
    X(RING, "ring")                                                                                \
    X(GAP, "gap")                                                                                  \
    X(STALL, "stall")                                                                              \
    X(THREADS, "threads")                                                                          \
    X(DOWN, "down")                                                                                \
    X(JUMP, "jump")                                                                                \
    X(DOZE, "doze")                                                                                \
    X(TIGHT, "tight")                                                                              \
    X(RESIZE, "resize")                                                                            \
    X(ATTACKER, "attacker")                                                                        \
    X(ATTACKED, "attacked")                                                                        \
    X(QUIRKS, "quirks")                                                                            \
    X(INJECT, "inject")                                                                            \
    X(REVOKE, "revoke")                                                                            \
    X(PAUSE, "pause")                                                                              \
    X(SRQ, "srq")                                                                                  \
    X(PAIRS, "pairs")                                                                              \
    X(UC, "uc")                                                                                    \
    X(UD, "ud")                                                                                    \
    X(GROUPS, "groups")                                                                            \
    X(CM, "cm")                                                                                    \
    X(HOSTS, "nodes")                                                                              \
    X(UNNAMED, NULL)

enum sim_plan_part {
#define PART(part, name) SIM_PLAN_PART_##part,
    SIM_PLAN_PARTS(PART)
#undef PART
};

#define SIM_PLAN_PART(part) (1u << SIM_PLAN_PART_##part)

/* Draws the plan of a run, without a set of parts, and with the work halved @less times. The other
 * parts stay as they are. */
void sim_net_plan_draw(struct sim_net_plan *net, uint64_t seed, uint32_t without, uint32_t less);
/* Returns whether the host has a clean link. No fault may then delay the host. */
bool sim_net_plan_is_calm(const struct sim_net_plan *net, unsigned host);
/* Writes the plan as text with a line for each host, link and cable. Writes at most @size bytes. */
void sim_net_plan_text(const struct sim_net_plan *net, char *text, size_t size);

/* ACK timeout in ns. */
#define SIM_PLAN_ACK_TIMEOUT(exponent) (UINT64_C(4096) << (exponent))
/* Returns the time of a CM timeout exponent, ns. */
uro_time sim_plan_cm_time(uint32_t exponent);

/* Settings of a patient attempt. It keeps retrying until all faults have ended. */
#define SIM_PLAN_CM_PATIENT_TIMEOUT 16u
#define SIM_PLAN_CM_PATIENT_RETRIES 15u
/* Delay of a slow answer: longer than a patient caller waits without an MRA. */
#define SIM_PLAN_CM_SLOW      URO_MS(10000)
#define SIM_PLAN_CM_STAY_LONG URO_MS(6000) /* longer than any message is retransmitted */

/* Returns for how long slow hosts and clock jumps can delay a program that acts @occasions times,
 * ns. */
uro_time sim_plan_faults_max(const struct sim_plan *plan, uint32_t occasions);
/* Returns the time limit for all work after the faults have stopped, ns. */
uro_time sim_net_plan_patience(const struct sim_net_plan *net);
