/* SPDX-License-Identifier: BSD-3-Clause */
/* attacker.h - somebody on the network who forges frames between two hosts.
 *
 * The attacker sends from its own address to queue pairs that exist, or from the address of a host to queue pairs
 * that it guesses. It sends messages of connections that it does not have. It sends again, in the name of the two
 * hosts, the management datagrams that it read: unchanged, or changed so that nobody may accept them. A request
 * that is sent again after its connection has ended would be a new one, so requests are only sent changed.
 * Nothing of that may change anything but counters, and the time and room that an honest request would take.
 *
 * An attacker with the addresses of a peer who reads all frames can do more: no protocol without secrets stops it.
 * work/attacked.h has queue pairs for that.
 */
#pragma once

#include "sim/net/host.h"
#include "wire/cm_msg.h"

#define SIM_ATTACKER_HEARD  16u
#define SIM_ATTACKER_MADS   32u
#define SIM_ATTACKER_NUMBER UINT32_C(0x686f7374) /* in the private data of his requests */

struct sim_attacker_config {
    uint64_t seed;
    uint32_t wait_max; /* us between frames; 0: he is not there */
    bool speaks;       /* he says again what others said to make connections */
};

struct sim_attacker {
    struct sim_node node;
    struct sim_world *world;
    const struct sim_attacker_config *config;
    struct uro_rng rng;
    struct sim_host *hosts[2]; /* that he attacks; borrowed */
    uint64_t service;          /* and the two after it: what he asks for */
    uro_time due;
    /* What he overheard of each host: its queue pairs, and connections by both their IDs. */
    uint32_t qpns[2][SIM_ATTACKER_HEARD];
    struct sim_attacker_ids {
        uint32_t own;
        uint32_t peers;
    } ids[2][SIM_ATTACKER_HEARD];
    uint64_t sent;

    struct uro_rng speaker;
    uint32_t mad_count; /* ever */
    struct sim_attacker_mad {
        bool heard;
        unsigned side;    /* of whom it was for */
        unsigned address; /* the one of its addresses */
        enum uro_cm_kind kind;
        uint8_t octets[URO_MAD_LEN];
    } mads[SIM_ATTACKER_MADS];
};

/* Adds him to @world, between @a and @b, which have services of connections from @service on. */
void sim_attacker_init(struct sim_attacker *attacker, struct sim_world *world,
                       const struct sim_attacker_config *config, struct sim_host *a,
                       struct sim_host *b, uint64_t service);

/* @user is the attacker: he reads along, as a host's tap, but for numbers of queue pairs and of
 * connections only. */
void sim_attacker_overhear(void *user, struct sim_host *host, const struct sim_world_frame *octets);

/* He goes. */
void sim_attacker_calm(struct sim_attacker *attacker);
