/* SPDX-License-Identifier: BSD-3-Clause */
/* workload.h - the work that programs of two hosts do with each other: queue pairs, their requests,
 * and the check of every completion and every byte.
 *
 *   endpoint.h  queue pairs of any type, their requests and their lives
 *   rc.h        reliable connections, also of XRC; uc.c and ud.c are the other types
 *   cm.h        connections that the connection manager sets up
 *   attacked.h  queue pairs under attack by an attacker that reads all frames
 *   queue.h     completion queues and shared receive queues
 */
#pragma once

#include "sim/work/queue.h"

#define SIM_WORKLOAD_CQS_MAX   4u
#define SIM_WORKLOAD_LIVES_MAX (SIM_PLAN_PAIRS_MAX + SIM_PLAN_UCS_MAX + SIM_PLAN_PARTIES_MAX + 1u)
/* First protection domain of shared queues, beyond those of connections. */
#define SIM_SRQ_PD       1000u
#define SIM_XRC_DOMAIN   7u     /* first XRC domain; each workload has an XRC domain */
#define SIM_XRC_ATTACKED 5000u  /* first XRC domain of attacked targets */
#define SIM_WORKLOAD_PDS 10000u /* protection domains of a workload */

struct uro_frame;
struct sim_attacked;
struct sim_cm;
struct sim_datagram;
struct sim_endpoint;
struct sim_life;

/* A word to which all connections add. Every original value must be the start plus the sum of some
 * adds before it. */
struct sim_shared_word {
    uint64_t *word; /* owned */
    uint64_t start;
    uint64_t uncertain; /* sum of the adds whose execution is unknown */
    uint32_t count;
    uint32_t capacity;
    struct sim_shared_add {
        uint64_t original;
        uint64_t add;
    } * adds; /* owned */
};

/* Memory of an ended life, which must not change any more. */
struct sim_buried {
    struct sim_buried *next;
    struct sim_memory memory;
    uint32_t sum;
};

#define SIM_HOST_WORKLOADS_MAX 8u

/* A host and all workloads that use it: its queue pairs, keys, services and groups for different
 * peers are in one engine. */
struct sim_host_workloads {
    struct sim_host *host;
    uint32_t count;
    struct sim_host_workload {
        struct sim_workload *workload;
        unsigned side; /* side of this host in the workload */
    } list[SIM_HOST_WORKLOADS_MAX];
};

struct sim_workload {
    struct sim_world *world;
    uint32_t number; /* index among all workloads of the run */
    uint32_t pds;    /* first protection domain of this workload */
    const struct sim_plan *plan;
    struct uro_rng rng;
    struct sim_host_workloads *host_workloads[2]; /* borrowed */
    struct sim_host *hosts[2];                    /* the hosts of host_workloads */
    struct sim_cq cqs[2][SIM_WORKLOAD_CQS_MAX];
    struct sim_cq tight[2]; /* plan->cq_tight */
    struct sim_shared_word shared[2];
    /* The last queue belongs to an attacked XRC target. */
    struct sim_srq srqs[2][SIM_PLAN_SRQS_MAX + 1];
    struct sim_life *connections;   /* lives of RC and XRC, then UC, then UD; owned */
    struct sim_life *parties;       /* lives of UD */
    struct sim_datagram *datagrams; /* datagrams of the whole run; owned */
    uint32_t datagram_count;
    uint32_t datagram_capacity;
    uint32_t life_count;
    /* All lives: of the connections, of UD and of the attacked queue pairs. */
    struct sim_life *lives[SIM_WORKLOAD_LIVES_MAX];
    struct sim_cm *cm;             /* owned */
    struct sim_attacked *attacked; /* owned; NULL: none */
    struct sim_endpoint *endpoints;
    struct sim_buried *buried;
    uint32_t drain_count; /* number of endpoints so far that may drain their send queue */
    bool calm;
    uro_time calm_since;
    uint64_t ops_done;
    uint64_t lives_begun;
    uint64_t failures; /* completions in error, all expected */
};

/* Creates the workload between the hosts of @a and @b. */
void sim_workload_init(struct sim_workload *workload, struct sim_world *world,
                       const struct sim_plan *plan, uint32_t number, struct sim_host_workloads *a,
                       struct sim_host_workloads *b);
void sim_workload_fini(struct sim_workload *workload);
/* Prepares for the end of faults. */
void sim_workload_calm(struct sim_workload *workload);
/* Returns whether all work is done. */
bool sim_workload_idle(const struct sim_workload *workload);
/* Ends idle queue pairs. Requests that are still posted must be flushed. */
void sim_workload_end_all(struct sim_workload *workload);
bool sim_workload_over(const struct sim_workload *workload);
/* Checks at the end: shared words, shared receive queues, memory of ended lives. */
void sim_workload_check(struct sim_workload *workload);
/* Writes the unfinished work, for the failure message. */
void sim_workload_explain(const struct sim_workload *workload, char *text, size_t size);

/* Registers the callbacks of @host, which pass its events and frames to the workload that they
 * belong to. */
void sim_host_workloads_init(struct sim_host_workloads *host_workloads, struct sim_host *host);
