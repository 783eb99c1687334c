/* SPDX-License-Identifier: BSD-3-Clause */
/* path.h - the headers of a queue pair's packets from Ethernet to UDP, and address handles. */
#pragma once

#include "base/table.h"
#include "core/qp.h"
#include "core/tx.h"
#include "wire/bth.h"
#include "wire/ether.h"
#include "wire/ip.h"

struct uro_shard;

enum uro_hop_state {
    URO_HOP_RESOLVING, /* not known yet: frames wait */
    URO_HOP_KNOWN,
    URO_HOP_LOST, /* did not answer: frames are dropped, and requests fail after their retries */
};

/* The next hop of a path. Owned and changed by engine/neigh.c, shared by all paths that use it. */
struct uro_hop {
    enum uro_hop_state state;
    struct uro_mac mac;
    uint8_t qpn_prefix; /* hop to our own address, if shared: prefix of our QPNs; otherwise 0 */
    enum uro_tx_way way;
    uint32_t version; /* changes with mac: paths then update their templates */
};

/* The first fields are compared with each received packet; the order matters for the cache lines
 * (qp_private.h). */
struct uro_path {
    struct uro_gid source;
    struct uro_gid dest;
    struct uro_hop *hop; /* NULL until an address vector was given */
    uint32_t hop_version;
    uint32_t mtu;         /* bytes of payload of a full packet */
    uint32_t checksum;    /* IPv4: sum of the header with length and checksum 0 */
    uint16_t source_port; /* UDP source port */
    bool port_fixed; /* every frame of this path has source_port; the sender's choice is ignored */
    bool v6;
    uint8_t network_at; /* offset of the IP header in head */
    uint8_t head_length;
    uint8_t head[URO_ETHER_LEN_MAX + URO_IPV6_LEN + URO_UDP_LEN];
};

/* Makes the template from an address vector. If the link has one source port for all frames, the
 * template has this port instead of @source_port. */
void uro_path_init(struct uro_path *path, const struct uro_shard *shard,
                   const struct uro_address *address, uint32_t mtu, uint16_t source_port);

/* Returns the UDP source port of a connection. It is made from @flow_label, or from the QPNs if
 * @flow_label is 0. Both directions have the same port, and thus the same hash, if their flow
 * labels are equal. */
uint16_t uro_path_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);

/* Returns the address of the first extension header in @tx. The caller fills in the headers and the
 * spans, then calls uro_path_seal(). */
static inline uint8_t *uro_path_ext(struct uro_tx *tx, const struct uro_path *path)
{
    return tx->head + path->head_length + URO_BTH_LEN;
}

/* Returns the UDP source port of the datagrams of a queue pair. */
uint16_t uro_path_datagram_port(uint32_t local_qpn);

/* Completes @tx: the headers before the extension headers, the padding, and the data for the ICRC.
 * Sets bth->pad_count. The caller has set tx->payload_length and the spans. */
void uro_path_seal(struct uro_tx *tx, struct uro_path *path, struct uro_bth *bth,
                   uint32_t ext_length);

/* Completes @tx as uro_path_seal(), but with UDP source port @source_port, unless the link has one
 * source port for all frames. */
void uro_path_seal_from(struct uro_tx *tx, struct uro_path *path, uint16_t source_port,
                        struct uro_bth *bth, uint32_t ext_length);

/* ---- address handles: the path of a datagram, with a number ------------------
 *
 * Work requests carry the number. A handle that was destroyed too early causes an error completion,
 * never a dangling pointer. */

/* The caller (lib/verbs) owns the memory of the struct. */
struct uro_ah {
    struct uro_table_node node; /* node.number names the handle in work requests; never 0 */
    uint32_t pd;
    struct uro_path path;
};

/* Creates a handle. The caller has set address->hop; uro_engine_ah_create() does both. Engine
 * locked. */
void uro_ah_create(struct uro_shard *shard, struct uro_ah *ah, uint32_t pd,
                   const struct uro_address *address);
void uro_ah_destroy(struct uro_shard *shard, struct uro_ah *ah);

/* Returns the handle with @number in protection domain @pd, or NULL when there is none. */
struct uro_ah *uro_ah_find(const struct uro_shard *shard, uint32_t number, uint32_t pd);

static inline uint32_t uro_ah_number(const struct uro_ah *ah)
{
    return ah->node.number;
}
