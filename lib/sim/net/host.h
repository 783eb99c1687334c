/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h - a simulated host: an engine and its driver. The driver has a finite receive ring and a
 * finite transmit ring, and checks every frame that the engine sends. */
#pragma once

#include <uroce/objects.h>

#include "base/counters.h"
#include "io/pcap/pcap_write.h"
#include "sim/net/threads.h"
#include "sim/net/world.h"
#include "wire/gid.h"

#define SIM_HOST_BURST_MAX 32u
#define SIM_HOST_GIDS      2u

struct sim_host_config {
    struct uroce_engine_config engine;
    uint8_t table_bits;  /* log2 of the slots of the QPN and key tables, 4..20; 0: the default */
    char name;           /* name of the host in the journal */
    uint32_t rx_burst;   /* frames given to the engine at once, 1 .. SIM_HOST_BURST_MAX */
    uint32_t rx_ring;    /* size of the receive ring, frames; further frames are dropped */
    uint32_t tx_burst;   /* frames taken at once, 1 .. SIM_HOST_BURST_MAX */
    uint32_t tx_gap_max; /* longest time for which the transmit ring is full after a burst, ns */
    /* Bursts in 65536 after which the ring is full for up to tx_stall_max. */
    uint32_t tx_stall_probability;
    uro_time tx_stall_max;
    /* True: the threads of lib/host run the engine (net/threads.h); false: the engine runs at
     * once. */
    bool threads;
    bool threads_wait;    /* true: now and then a thread waits for a processor */
    bool call_per_send;   /* true: each send is a system call */
    uint64_t thread_seed; /* seed of the threads */
};

struct sim_host {
    struct sim_node node;
    struct sim_world *world;
    struct sim_host_config config;
    struct uro_rng rng;
    struct uroce_engine *engine; /* owned */
    uint32_t domain_count;
    struct sim_host_domain {
        uint32_t number;
        struct uroce_pd *pd;     /* NULL: an XRC domain */
        struct uroce_xrcd *xrcd; /* NULL: a protection domain */
    } * domains;                 /* owned */
    struct uro_mac mac;
    struct uro_gid gids[SIM_HOST_GIDS]; /* by GID index: the link-local address, the IPv4 address */
    struct sim_node *out;        /* node that receives the sent frames; set before the world runs */
    struct uro_pcap_write *pcap; /* borrowed; may be NULL */
    void (*event)(void *user, const struct uroce_event *event);
    void (*after_round)(void *user, struct sim_host *host);
    /* Called for each RoCE frame that is sent, except multicast frames to the host itself. */
    void (*sent)(void *user, struct sim_host *host, const struct sim_world_frame *frame);
    void *user;

    /* Called for each RoCE frame, for an attacker that reads all of them. NULL: no attacker. */
    void (*tap)(void *tapper, struct sim_host *host, const struct sim_world_frame *frame);
    void *tapper;

    struct sim_threads threads;      /* valid with config.threads */
    struct sim_world_frame *waiting; /* the receive ring; `due` is the time of arrival */
    struct sim_world_frame *last;
    uint32_t waiting_count;
    bool looped;      /* true: the engine will process frames to itself in its next round */
    uro_time tx_free; /* time when the transmit ring has room again */
    uint64_t frames_sent;
    uint64_t roce_sent;
    /* Rounds of the engine; with config.threads: sleeps of the service thread or of a waiter. */
    uint64_t wakeups;
};

/* Builds the engine and adds it to @world. */
void sim_host_init(struct sim_host *host, struct sim_world *world,
                   const struct sim_host_config *config);
/* Destroys the engine. All objects except the domains must be destroyed already. */
void sim_host_fini(struct sim_host *host);

/* Return the protection domain or the XRC domain with this number. Create it on the first call. */
struct uroce_pd *sim_host_pd(struct sim_host *host, uint32_t number);
struct uroce_xrcd *sim_host_xrcd(struct sim_host *host, uint32_t number);

/* Returns the value of an engine counter. */
static inline uint64_t sim_host_count(const struct sim_host *host, enum uro_counter counter)
{
    return uroce_engine_counter_at(host->engine, counter);
}

/* Takes the events of the engine and calls host->event for each. Called after every round, and
 * after commands that can cause events. */
void sim_host_events(struct sim_host *host);

/* Returns whether frames were dropped because a next hop was not found. Only a sender that waits
 * for a response detects this. */
bool sim_host_swallows(const struct sim_host *host);

/* Returns whether a frame that arrived before @arrived waits in the receive ring. */
bool sim_host_has_older(const struct sim_host *host, uro_time arrived);

/* Stops the faults: the receive ring takes all frames, and the transmit ring soon has room. */
void sim_host_calm(struct sim_host *host);
