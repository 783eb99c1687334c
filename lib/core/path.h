/* SPDX-License-Identifier: BSD-3-Clause */
/* path.h - how a queue pair's packets look from the Ethernet header to the UDP header. */
#pragma once

#include "core/qp.h"
#include "core/tx.h"
#include "wire/bth.h"
#include "wire/ether.h"
#include "wire/ip.h"

struct uro_shard;

enum uro_hop_state {
    URO_HOP_ASKING, /* not known yet: frames wait */
    URO_HOP_KNOWN,
    URO_HOP_LOST, /* did not answer: frames are dropped, and the retry budget decides */
};

/* The next hop of a path. Owned and changed by engine/neigh.c, shared by all paths that use it. */
struct uro_hop {
    enum uro_hop_state state;
    struct uro_mac mac;
    uint8_t
        share; /* of our own address that other processes have, too: upper bits of our queue pair numbers */
    enum uro_tx_way way;
    uint32_t version; /* changes with mac: templates are then made again */
};

/* What a packet received is compared with first; pair.h says why the order matters. */
struct uro_path {
    struct uro_gid source;
    struct uro_gid dest;
    struct uro_hop *hop; /* NULL until an address vector was given */
    uint32_t hop_version;
    uint32_t mtu;         /* octets of payload of a full packet */
    uint32_t checksum;    /* IPv4: sum of the header with length and checksum 0 */
    uint16_t source_port; /* UDP */
    bool port_fixed;      /* whoever sends */
    bool v6;
    uint8_t network_at; /* offset of the IP header in head */
    uint8_t head_length;
    uint8_t head[URO_ETHER_LEN_MAX + URO_IPV6_LEN + URO_UDP_LEN];
};

/* Makes the template from an address vector. A link that has one source port wins over @source_port. */
void uro_path_init(struct uro_path *path, const struct uro_shard *shard,
                   const struct uro_address *address, uint32_t mtu, uint16_t source_port);

/* UDP source port of an RC or UC pair, so that both directions hash alike. @flow_label 0: made from
 * the QPNs. */
uint16_t uro_path_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);

/* Where the first extension header goes in @tx; then fill in the spans, then uro_path_seal(). */
static inline uint8_t *uro_path_ext(struct uro_tx *tx, const struct uro_path *path)
{
    return tx->head + path->head_length + URO_BTH_LEN;
}

/* UDP source port of datagrams, and of everything else a queue pair sends before it has a peer. */
uint16_t uro_path_datagram_port(uint32_t local_qpn);

/* Completes @tx: everything before the extension headers, padding, and the start of the ICRC.
 * bth->pad_count is set here; tx->payload_length and the spans are already there. */
void uro_path_seal(struct uro_tx *tx, struct uro_path *path, struct uro_bth *bth,
                   uint32_t ext_length);

/* Likewise, from another UDP port than the template's, unless the link has only one. */
void uro_path_seal_from(struct uro_tx *tx, struct uro_path *path, uint16_t source_port,
                        struct uro_bth *bth, uint32_t ext_length);
