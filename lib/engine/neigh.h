/* SPDX-License-Identifier: BSD-3-Clause */
/* neigh.h - who has which MAC address: ARP and ND, asked, answered, retried, expired; and echo.
 *
 * Also the owner of the few frames the engine sends that are not RoCE.
 *
 * ARP and ND prove nothing. If a host claims another MAC address for a next hop in use, the known MAC address is asked first,
 * up to five times in 155 ms. Otherwise one frame of any host on the segment would take the peer of every connection away.
 */
#pragma once

#include "base/counters.h"
#include "base/time.h"
#include "core/path.h"
#include "engine/engine.h"
#include "wire/frame.h"

#define URO_NEIGH_HOPS_MAX     32768u /* next hops in use at once; rxe has as many address handles */
#define URO_NEIGH_BUCKETS      4096u
#define URO_NEIGH_REPLIES_MAX  16u /* frames waiting for the next output */
#define URO_NEIGH_REPLY_OCTETS 2048u

struct uro_neigh_entry {
    struct uro_neigh_entry *next; /* in its bucket, or among the free ones */
    struct uro_hop hop;
    struct uro_gid address; /* whose MAC address is wanted */
    struct uro_gid source;  /* one of ours, for asking */
    uint32_t users;         /* paths that hold it; 0 = free */
    uint32_t asked;         /* times since the last answer */
    bool doubted;  /* somebody says that it has another MAC address; frames wait once it is asked */
    uro_time due;  /* when to ask next */
    uro_time sure; /* it has answered a doubt: no other before that */
};

struct uro_neigh_reply {
    uint32_t length;
    uint8_t octets[URO_NEIGH_REPLY_OCTETS];
};

struct uro_neigh {
    const struct uro_engine_config *config;
    struct uro_counters *counters;
    uint32_t used; /* entries[0 .. used) may be in use */
    uro_time due;  /* earliest due of all entries, or earlier */
    struct uro_neigh_entry *free;
    struct uro_neigh_entry *buckets[URO_NEIGH_BUCKETS]; /* by address */
    uint32_t reply_first;
    uint32_t reply_count;
    struct uro_neigh_reply replies[URO_NEIGH_REPLIES_MAX];
    uint32_t hops;                   /* next hops in use at once */
    bool refused;                    /* a next hop was refused because all are in use */
    struct uro_neigh_entry *entries; /* as many, lent; none is touched before it is used */
};

/* Octets of memory for the next hops that a configuration asks for. */
size_t uro_neigh_size(const struct uro_engine_config *config);

/* @memory: uro_neigh_size() octets, aligned to 64. */
void uro_neigh_init(struct uro_neigh *neigh, const struct uro_engine_config *config,
                    struct uro_counters *counters, void *memory);

/* The next hop towards @dest from address number @sgid_index, held until uro_neigh_put(); asking
 * starts at once. To one of our own addresses: ourselves, by URO_TX_LOCAL. To a multicast group: its
 * MAC address, by URO_TX_BOTH. Returns 0, -EINVAL (no such source address, or of the other IP version),
 * -ENETUNREACH (another subnet and no gateway) or -ENOMEM (as many as there may be are in use). */
URO_NODISCARD int uro_neigh_get(struct uro_neigh *neigh, uint8_t sgid_index,
                                const struct uro_gid *dest, uro_time now, struct uro_hop **hop);
void uro_neigh_put(struct uro_neigh *neigh, struct uro_hop *hop);

/* Frames that are not RoCE: ARP, ICMP, ICMPv6. True when a next hop became known or changed. */
URO_NODISCARD bool uro_neigh_arp(struct uro_neigh *neigh, const struct uro_frame *frame,
                                 uro_time now);
URO_NODISCARD bool uro_neigh_icmp(struct uro_neigh *neigh, const struct uro_frame *frame,
                                  uro_time now);

/* Asks, gives up, asks again, as due. True when a next hop changed its state. */
URO_NODISCARD bool uro_neigh_run(struct uro_neigh *neigh, uro_time now);

/* Describes at most @room frames; their spans are the neighbour's own memory. */
URO_NODISCARD uint32_t uro_neigh_output(struct uro_neigh *neigh, struct uro_tx *tx, uint32_t room);

/* The link came back: everything known may have changed. */
void uro_neigh_forget(struct uro_neigh *neigh, uro_time now);

uro_time uro_neigh_next(const struct uro_neigh *neigh, uro_time now);
