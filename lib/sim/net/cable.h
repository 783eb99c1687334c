/* SPDX-License-Identifier: BSD-3-Clause */
/* cable.h - one direction of a link, with its faults.
 *
 * The faults apply in this order: partition, loss, truncation, corruption, a bottleneck with a
 * finite queue, CE marking, delay. Frames are duplicated at the entry, so that each copy is lost or
 * damaged on its own. Corruption and truncation do not affect ARP and ND, which rely on the
 * checksum of the link. RoCE must not rely on that checksum.
 *
 * Each host has a switch. The switch sends a frame over the cable to its destination. It sends a
 * frame to a group or to an unknown address over all cables.
 */
#pragma once

#include "sim/net/host.h"
#include "sim/net/quirks.h"
#include "wire/gid.h"

/* Each probability is a number of frames in 65536. Zero switches the fault off. */
struct sim_cable_config {
    unsigned quirks;      /* set of SIM_QUIRK_*: deviations of the sender; not a fault */
    uro_time faults_from; /* time before which there are no faults */
    uint32_t loss_probability;
    uint32_t lose_run; /* largest number of frames that one loss drops in a row; 0 means 1 */
    uint32_t duplicate_probability;
    /* Frames with 1..3 wrong bits, which a CRC detects for certain. */
    uint32_t corrupt_probability;
    uint32_t truncate_probability;
    uint32_t ce_probability;
    uint32_t late_probability; /* probability that later frames may overtake a frame */
    uro_time late_max;
    uro_time one_way_delay;
    uro_time jitter;      /* largest extra delay */
    bool keep_order;      /* true: no delay reorders frames */
    uint32_t ps_per_byte; /* time of a byte in the bottleneck, ps; 0: infinitely fast */
    /* Size of the bottleneck's queue, which drops further frames; 0: no limit. */
    uint32_t queue_bytes;
    /* Bytes in the bottleneck's queue above which every UDP frame is marked CE; 0: no limit. */
    uint32_t mark_above;
    uro_time partition_from; /* start of the first partition, which lasts partition_for */
    uro_time partition_for;
    uro_time partition_every; /* time between the starts of partitions; 0: no partition */
};

struct sim_cable_counts {
    uint64_t frames;
    uint64_t lost; /* frames lost for any reason */
    uint64_t duplicated;
};

struct sim_cable {
    struct sim_node node;
    struct sim_world *world;
    struct sim_node *to;
    struct uro_rng rng;
    struct sim_cable_config config;
    struct sim_cable_counts counts;
    uint32_t entered; /* number of frames so far */
    struct sim_quirks quirks;
    bool down;                      /* the link is down: frames that enter are lost */
    uint32_t losing;                /* frames still to lose in this run */
    uro_time busy_until;            /* time until which the bottleneck is busy */
    struct sim_world_frame *flying; /* frames in flight, ordered by due and then by arrival */
    struct sim_world_frame *last;
};

/* Adds the cable to @world. Its frames are delivered to @to. */
void sim_cable_init(struct sim_cable *cable, struct sim_world *world,
                    const struct sim_cable_config *config, struct sim_node *to);

/* Frees the frames in flight. */
void sim_cable_fini(struct sim_cable *cable);

/* Stops the faults. Each frame that enters from now on arrives once, whole and in order. */
void sim_cable_calm(struct sim_cable *cable);

#define SIM_SWITCH_PORTS_MAX 8u

struct sim_switch {
    /* The node that receives the frames. The world does not call it, because it never has work. */
    struct sim_node node;
    struct sim_world *world;
    uint32_t port_count;
    struct sim_switch_port {
        struct uro_mac mac; /* MAC address of the host at the other end */
        struct sim_node *to;
    } ports[SIM_SWITCH_PORTS_MAX];
};

void sim_switch_init(struct sim_switch *sw, struct sim_world *world);
void sim_switch_add(struct sim_switch *sw, const struct uro_mac *mac, struct sim_node *to);

/* Links that go down and come up again, one at a time. */
#define SIM_OUTAGES_CABLES_MAX 16u
#define SIM_OUTAGES_LINKS_MAX  16u

struct sim_outages {
    struct sim_node node;
    struct sim_world *world;
    struct uro_rng rng;
    uint32_t wait_max; /* longest time until a link goes down, us; 0: no link ever does */
    uint32_t down_max; /* longest time until it comes up again, us */
    uint32_t link_count;
    struct sim_outage_link {
        uint32_t cable_count;
        /* Cables that go down together; borrowed. */
        struct sim_cable *cables[SIM_OUTAGES_CABLES_MAX];
        uint32_t host_count;
        /* Hosts whose engines get reports of the link state; borrowed. */
        struct sim_host *hosts[2];
    } links[SIM_OUTAGES_LINKS_MAX];
    const struct sim_outage_link *down; /* link that is down; NULL: none */
};

/* Adds the node to @world. */
void sim_outages_init(struct sim_outages *outages, struct sim_world *world, uint64_t seed,
                      uint32_t wait_max, uint32_t down_max);
/* Adds a link that may go down; the caller fills it. */
struct sim_outage_link *sim_outages_add(struct sim_outages *outages);
/* Keeps all links up from now on. */
void sim_outages_calm(struct sim_outages *outages);
