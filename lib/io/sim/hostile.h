/* SPDX-License-Identifier: BSD-3-Clause */
/* hostile.h - somebody on the network who forges frames: with addresses of his own to queue pairs
 * that exist, or with the addresses of others to queue pairs that he guesses; messages of
 * connections that he does not have; and what was said about those of others (hostile_mad.h). Nothing
 * of it may change anything but counters, and the time and room that an honest request would take.
 *
 * Who has the addresses of a peer and reads along can do more: no protocol without secrets stops him.
 * load_victim.h has queue pairs for him.
 */
#pragma once

#include "io/sim/station.h"
#include "wire/cm_msg.h"

#define URO_HOSTILE_HEARD  16u
#define URO_HOSTILE_MADS   32u
#define URO_HOSTILE_NUMBER UINT32_C(0x686f7374) /* in the private data of his requests */

struct uro_hostile_config {
    uint64_t seed;
    uint32_t wait_max; /* us between frames; 0: he is not there */
    bool speaks;       /* he says again what others said to make connections */
};

struct uro_hostile {
    struct uro_node node;
    struct uro_world *world;
    const struct uro_hostile_config *config;
    struct uro_rng rng;
    struct uro_station *stations[2]; /* that he attacks; borrowed */
    uint64_t service;                /* and the two after it: what he asks for */
    uro_time due;
    /* What he overheard of each station: its queue pairs, and connections by both their IDs. */
    uint32_t qpns[2][URO_HOSTILE_HEARD];
    struct uro_hostile_ids {
        uint32_t own;
        uint32_t peers;
    } ids[2][URO_HOSTILE_HEARD];
    uint64_t sent;

    struct uro_rng speaker;
    uint32_t mad_count; /* ever */
    struct uro_hostile_mad {
        bool heard;
        unsigned side;    /* of whom it was for */
        unsigned address; /* the one of its addresses */
        enum uro_cm_kind kind;
        uint8_t octets[URO_MAD_LEN];
    } mads[URO_HOSTILE_MADS];
};

/* Adds him to @world, between @a and @b, which have services of connections from @service on. */
void uro_hostile_init(struct uro_hostile *hostile, struct uro_world *world,
                      const struct uro_hostile_config *config, struct uro_station *a,
                      struct uro_station *b, uint64_t service);

/* @user is the hostile: he reads along, as a station's tap, but for numbers of queue pairs and of
 * connections only. */
void uro_hostile_overhear(void *user, struct uro_station *station,
                          const struct uro_world_frame *octets);

/* He goes. */
void uro_hostile_calm(struct uro_hostile *hostile);
