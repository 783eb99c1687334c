/* SPDX-License-Identifier: BSD-3-Clause */
/* station.h - an engine as a node of the world: a driver with a finite receive ring and a finite
 * transmit ring, which judges every frame the engine hands it.
 */
#pragma once

#include "engine/engine.h"
#include "io/pcap/pcap_write.h"
#include "io/sim/world.h"

#define URO_STATION_BURST_MAX 32u

struct uro_station_config {
    struct uro_engine_config engine;
    char name;               /* in the journal */
    uint32_t rx_burst;       /* frames given to the engine at once, 1 .. URO_STATION_BURST_MAX */
    uint32_t rx_ring;        /* frames that wait; more are dropped */
    uint32_t tx_burst;       /* frames taken at once, 1 .. URO_STATION_BURST_MAX */
    uint32_t tx_gap_max;     /* after a burst the transmit ring is full for up to this many ns */
    uint32_t tx_stall_share; /* of 65536 bursts, after which it is full for longer */
    uro_time tx_stall_max;
};

struct uro_station {
    struct uro_node node;
    struct uro_world *world;
    struct uro_station_config config;
    struct uro_rng rng;
    void *memory; /* owned; the engine's */
    struct uro_engine *engine;
    struct uro_node *out;        /* where frames go; set before the world runs */
    struct uro_pcap_write *pcap; /* borrowed; may be NULL */
    void (*event)(void *user, const struct uro_event *event);
    void (*after_round)(void *user, struct uro_station *station);
    /* Each frame sent that is RoCE. */
    void (*sent)(void *user, struct uro_station *station, const struct uro_world_frame *frame);
    void *user;

    /* Each frame sent that is RoCE, to somebody who reads along; NULL: nobody does. */
    void (*tap)(void *tapper, struct uro_station *station, const struct uro_world_frame *frame);
    void *tapper;

    struct uro_world_frame *waiting; /* the receive ring */
    struct uro_world_frame *last;
    uint32_t waiting_count;
    uro_time tx_free; /* the transmit ring has room again */
    uint64_t frames_sent;
    uint64_t roce_sent;
    uint64_t ring_drops;
    uint64_t rounds;
};

/* Builds the engine and adds it to @world. */
void uro_station_init(struct uro_station *station, struct uro_world *world,
                      const struct uro_station_config *config);
void uro_station_fini(struct uro_station *station);

/* Tells the events of the engine; after every command, as after every round. */
void uro_station_events(struct uro_station *station);

/* Faults stop: the receive ring is long enough for everything, the transmit ring soon has room. */
void uro_station_calm(struct uro_station *station);
