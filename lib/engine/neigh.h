/* SPDX-License-Identifier: BSD-3-Clause */
/* neigh.h - finds the MAC addresses of next hops by ARP and ND, and answers ARP, ND and echo
 * requests.
 *
 * This file also has the queue of these frames, which are not RoCE.
 *
 * ARP and ND have no authentication. If a host claims another MAC address for a next hop in use,
 * the engine first asks the known MAC address, up to five times in 155 ms. Otherwise any host on
 * the segment could redirect every connection with one frame.
 */
#pragma once

#include "base/counters.h"
#include "base/time.h"
#include "core/path.h"
#include "engine/engine.h"
#include "wire/frame.h"

/* Largest number of next hops in use at once. */
#define URO_NEIGH_HOPS_MAX    32768u
#define URO_NEIGH_BUCKETS     4096u
#define URO_NEIGH_REPLIES_MAX 16u /* frames waiting for the next output */
#define URO_NEIGH_REPLY_BYTES 2048u

struct uro_neigh_entry {
    struct uro_neigh_entry *next; /* next entry in the bucket or in the list of free entries */
    struct uro_hop hop;
    struct uro_gid address; /* IP address of the next hop */
    struct uro_gid source;  /* our address for requests */
    uint32_t users;         /* number of holders, for example paths; 0 = free */
    uint32_t unanswered;    /* requests since the last answer or change of state */
    bool doubted;  /* a host claims another MAC address; frames wait once a request is sent */
    uro_time due;  /* time of the next request */
    uro_time sure; /* the address was confirmed: no new doubt is checked before this time */
};

struct uro_neigh_reply {
    uint32_t length;
    uint8_t octets[URO_NEIGH_REPLY_BYTES];
};

struct uro_neigh {
    const struct uro_engine_config *config;
    struct uro_counters *counters;
    uint32_t used; /* entries[0 .. used) may be in use */
    uro_time due;  /* earliest due of all entries, or earlier */
    struct uro_neigh_entry *free;
    struct uro_neigh_entry *buckets[URO_NEIGH_BUCKETS]; /* entries by the hash of their address */
    uint32_t reply_first;
    uint32_t reply_count;
    struct uro_neigh_reply replies[URO_NEIGH_REPLIES_MAX];
    uint32_t hops;                   /* maximum number of next hops in use at once */
    bool refused;                    /* a next hop was refused because all are in use */
    struct uro_neigh_entry *entries; /* `hops` entries, lent; not touched before they are used */
};

/* Returns the number of bytes of memory for the next hops of a configuration. */
size_t uro_neigh_size(const struct uro_engine_config *config);

/* Initialises the table. @memory: uro_neigh_size() bytes, aligned to 64. */
void uro_neigh_init(struct uro_neigh *neigh, const struct uro_engine_config *config,
                    struct uro_counters *counters, void *memory);

/* Finds the next hop towards @dest from our address number @sgid_index, and holds it until
 * uro_neigh_put(). Requests for its MAC address begin at once. The next hop of our own address has
 * URO_TX_LOCAL, or URO_TX_SHARED if other engines or processes share the address. The next hop of a
 * multicast group has the group's MAC address and URO_TX_BOTH. Returns 0, or
 *   -EINVAL       no such source address, it is of the other IP version, or @dest is zero
 *   -ENETUNREACH  another subnet, and no gateway is configured
 *   -ENOMEM       all next hops are in use */
URO_NODISCARD int uro_neigh_get(struct uro_neigh *neigh, uint8_t sgid_index,
                                const struct uro_gid *dest, uro_time now, struct uro_hop **hop);
void uro_neigh_put(struct uro_neigh *neigh, struct uro_hop *hop);

/* Handle frames that are not RoCE: ARP, ICMP, ICMPv6. Return whether a next hop became known or
 * changed. */
URO_NODISCARD bool uro_neigh_arp(struct uro_neigh *neigh, const struct uro_frame *frame,
                                 uro_time now);
URO_NODISCARD bool uro_neigh_icmp(struct uro_neigh *neigh, const struct uro_frame *frame,
                                  uro_time now);

/* Sends the due requests, and changes the state of next hops that do not answer. Returns whether a
 * state changed. */
URO_NODISCARD bool uro_neigh_run(struct uro_neigh *neigh, uro_time now);

/* Describes at most @max frames. Their spans are memory of @neigh. */
URO_NODISCARD uint32_t uro_neigh_output(struct uro_neigh *neigh, struct uro_tx *tx, uint32_t max);

/* Asks for all next hops again after the link came back. */
void uro_neigh_forget(struct uro_neigh *neigh, uro_time now);

uro_time uro_neigh_next(const struct uro_neigh *neigh, uro_time now);
