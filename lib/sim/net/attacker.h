/* SPDX-License-Identifier: BSD-3-Clause */
/* attacker.h - an attacker on the network that forges frames between two hosts.
 *
 * The attacker sends from its own address to queue pairs that exist, or from the address of a host
 * to queue pairs that it guesses. It sends connection messages for connections that it does not
 * have. It replays management datagrams that it read, with the addresses of the two hosts. The
 * datagrams are unchanged, or changed so that no host may accept them. A replayed request would be
 * a new request after its connection has ended, so requests are always changed. The attack may
 * change only counters, and delay or displace correct requests.
 *
 * An attacker that uses the addresses of a peer and reads all frames can do more: no protocol
 * without secrets stops it. work/attacked.h simulates such attacks.
 */
#pragma once

#include "sim/net/host.h"
#include "wire/bth.h"
#include "wire/cm_msg.h"
#include "wire/ip.h"

#define SIM_ATTACKER_SEEN   16u
#define SIM_ATTACKER_MADS   32u
#define SIM_ATTACKER_NUMBER UINT32_C(0x686f7374) /* marks the private data of forged messages */

struct sim_attacker_config {
    uint64_t seed;
    uint32_t wait_max; /* longest time between frames, us; 0: no attacker */
    bool repeats;      /* true: the attacker replays management datagrams */
};

struct sim_attacker {
    struct sim_node node;
    struct sim_world *world;
    const struct sim_attacker_config *config;
    struct uro_rng rng;
    struct sim_host *hosts[2]; /* attacked hosts; borrowed */
    uint64_t service;          /* first of three service IDs that the attacker requests */
    /* Recent numbers of each host that the attacker read: QPNs, and both IDs of each connection. */
    uint32_t qpns[2][SIM_ATTACKER_SEEN];
    struct sim_attacker_ids {
        uint32_t own;
        uint32_t peers;
    } ids[2][SIM_ATTACKER_SEEN];
    uint32_t mad_count; /* datagrams stored so far */
    struct sim_attacker_mad {
        bool seen;
        unsigned side;    /* side of the receiver */
        unsigned address; /* index of the receiver's address */
        enum uro_cm_kind kind;
        uint8_t bytes[URO_MAD_LEN];
    } mads[SIM_ATTACKER_MADS];
};

/* Adds the attacker to @world between @a and @b, whose connection services begin at @service. */
void sim_attacker_init(struct sim_attacker *attacker, struct sim_world *world,
                       const struct sim_attacker_config *config, struct sim_host *a,
                       struct sim_host *b, uint64_t service);

/* Reads a frame of a host. Stores its destination QPN, or its management datagram and connection
 * IDs. @user is the attacker. */
void sim_attacker_overhear(void *user, struct sim_host *host, const struct sim_world_frame *packet);

/* Stops the attack. */
void sim_attacker_calm(struct sim_attacker *attacker);

/* A frame that no engine sends. It has any addresses and any content, and gets correct lengths and
 * a correct ICRC. */
#define SIM_FORGER_SIZE 4400u

struct sim_forged {
    uint8_t bytes[SIM_FORGER_SIZE];
    size_t network; /* offset of the IP header */
    size_t length;  /* end of the frame, where headers behind the BTH are appended */
    struct uro_ip ip;
    struct uro_bth bth; /* sim_forger_seal() writes it */
};

/* Begins a frame from address @index of @from to address @index of @to. The caller may change
 * @forged->ip, except the version. */
void sim_forger_begin(struct sim_forged *forged, const struct sim_host *from,
                      const struct sim_host *to, unsigned index);

/* Appends the padding of a payload of @payload bytes, and writes the pad count to @forged->bth. */
void sim_forger_pad(struct sim_forged *forged, uint32_t payload);

/* Delivers the bytes unchanged. */
void sim_forger_raw(struct sim_host *to, const uint8_t *bytes, uint32_t length);

/* Corrects the ICRC of a frame that was changed after its IP header. */
void sim_forger_sum(uint8_t *bytes, uint32_t length);

/* Writes the IP, UDP and BTH headers, and the ICRC. */
void sim_forger_seal(struct sim_forged *forged, uint16_t source_port);

/* Seals the frame and delivers it to @to at once. */
void sim_forger_deliver(struct sim_forged *forged, struct sim_host *to, uint16_t source_port);
