/* SPDX-License-Identifier: BSD-3-Clause */
/* path.c - header templates, and the table of address handles. */
#include "core/path.h"

#include <string.h>

#include "base/mark.h"
#include "core/shard.h"
#include "wire/ext.h"
#include "wire/icrc.h"

#define HOP_LIMIT_DEFAULT 64u
#define AT_IPV4_LENGTH    2u
#define AT_IPV4_CHECKSUM  10u
#define AT_IPV6_LENGTH    4u
#define AT_UDP_LENGTH     4u
#define SOURCE_PORT_BASE  0xc000u
#define SOURCE_PORT_MASK  0x3fffu
#define GOLDEN_RATIO      0x61c88647u /* 2^32 / (golden ratio squared), for hashing */

uint16_t uro_path_source_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn)
{
    uint32_t label = flow_label & 0xfffff;

    URO_MARK("TX.PORT");
    if (label == 0) {
        uint64_t product = (uint64_t)local_qpn * remote_qpn;
        product ^= product >> 20;
        product ^= product >> 40;
        label = (uint32_t)product & 0xfffff;
    }
    return (uint16_t)(SOURCE_PORT_BASE | (((label & SOURCE_PORT_MASK) ^ (label >> 14))));
}

uint16_t uro_path_datagram_port(uint32_t local_qpn)
{
    URO_MARK("TX.PORT.UD");
    return (uint16_t)(SOURCE_PORT_BASE + ((local_qpn * GOLDEN_RATIO) >> 18));
}

void uro_path_init(struct uro_path *path, const struct uro_shard *shard,
                   const struct uro_address *address, uint32_t mtu, uint16_t source_port)
{
    const struct uro_gid *source = &shard->config.gids[address->sgid_index];
    bool v6 = !uro_gid_is_ipv4(&address->dest);

    *path = (struct uro_path){ .hop = address->hop,
                               .source = *source,
                               .dest = address->dest,
                               .mtu = mtu,
                               .v6 = v6,
                               .port_fixed = shard->config.source_port != 0,
                               .source_port = source_port };
    if (path->port_fixed)
        path->source_port = shard->config.source_port;
    path->hop_version = address->hop->version;

    struct uro_ether ether = { .dest = address->hop->mac,
                               .source = shard->config.mac,
                               .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    uro_ether_tag(&ether, shard->config.vlan, address->service_level);
    if (ether.tagged)
        URO_MARK("TX.TAG");
    URO_MARK("TX.HEADER");
    const struct uro_ip ip = {
        .v6 = v6,
        .dont_fragment = true,
        .traffic_class = address->traffic_class,
        .hop_limit = address->hop_limit != 0 ? address->hop_limit : HOP_LIMIT_DEFAULT,
        .protocol = URO_IPPROTO_UDP,
        .flow_label = address->flow_label & 0xfffff,
        .source = *source,
        .dest = address->dest,
    };
    const struct uro_udp udp = { .source_port = path->source_port, .dest_port = URO_ROCE_PORT };

    uint8_t *pos = path->head;
    pos += uro_ether_put(pos, &ether);
    path->network_at = (uint8_t)(pos - path->head);
    pos += uro_ip_put(pos, &ip);
    uro_udp_encode(pos, &udp);
    path->head_length = (uint8_t)(pos + URO_UDP_LEN - path->head);

    if (!v6) {
        uint8_t *network = path->head + path->network_at;
        uro_put_be16(network + AT_IPV4_LENGTH, 0);
        uro_put_be16(network + AT_IPV4_CHECKSUM, 0);
        path->checksum = uro_ip_sum(0, network, URO_IPV4_LEN);
    }
}

/* Writes the fields that differ from packet to packet: lengths, checksum and source port. */
static void put_network(const struct uro_path *path, uint8_t *network, uint16_t source_port,
                        uint32_t udp_length)
{
    uint8_t *udp;

    if (path->v6) {
        uro_put_be16(network + AT_IPV6_LENGTH, (uint16_t)udp_length);
        udp = network + URO_IPV6_LEN;
    } else {
        uint16_t total = (uint16_t)(URO_IPV4_LEN + udp_length);
        uro_put_be16(network + AT_IPV4_LENGTH, total);
        uro_put_be16(network + AT_IPV4_CHECKSUM, uro_ip_sum_finish(path->checksum + total));
        udp = network + URO_IPV4_LEN;
    }
    uro_put_be16(udp, source_port);
    uro_put_be16(udp + AT_UDP_LENGTH, (uint16_t)udp_length);
}

void uro_path_seal(struct uro_tx *tx, struct uro_path *path, struct uro_bth *bth,
                   uint32_t ext_length)
{
    uro_path_seal_from(tx, path, path->source_port, bth, ext_length);
}

void uro_path_seal_from(struct uro_tx *tx, struct uro_path *path, uint16_t source_port,
                        struct uro_bth *bth, uint32_t ext_length)
{
    if (path->hop_version != path->hop->version) {
        memcpy(path->head, path->hop->mac.octets, sizeof path->hop->mac.octets);
        path->hop_version = path->hop->version;
    }

    bth->pad_count = (uint8_t)(-tx->payload_length & 3u);
    tx->pad_count = bth->pad_count;
    tx->icrc = true;
    tx->icrc_v6 = path->v6;
    tx->icrc_doubled = false;
    tx->icrc_wrong = 0;
    tx->network_at = path->network_at;
    tx->way = path->hop->state == URO_HOP_LOST ? URO_TX_NOWHERE : path->hop->way;
    if (path->hop->qpn_prefix != 0 && bth->dest_qpn >> URO_QPN_OWN_BITS == path->hop->qpn_prefix) {
        URO_MARK("LOOP.SHARE");
        tx->way = URO_TX_LOCAL;
    }
    tx->head_length = (uint16_t)(path->head_length + URO_BTH_LEN + ext_length);

    /* Copies a constant number of bytes, some of them beyond the template. A copy of variable
     * length would take 10 ns longer. */
    if (path->v6)
        memcpy(tx->head, path->head, URO_ETHER_LEN_MAX + URO_IPV6_LEN + URO_UDP_LEN);
    else
        memcpy(tx->head, path->head, URO_ETHER_LEN_MAX + URO_IPV4_LEN + URO_UDP_LEN);
    put_network(
        path, tx->head + path->network_at, path->port_fixed ? path->source_port : source_port,
        URO_UDP_LEN + URO_BTH_LEN + ext_length + tx->payload_length + tx->pad_count + URO_ICRC_LEN);
    uro_bth_encode(tx->head + path->head_length, bth);
}

/* ---- address handles --------------------------------------------------------- */

void uro_ah_create(struct uro_shard *shard, struct uro_ah *ah, uint32_t pd,
                   const struct uro_address *address)
{
    ah->pd = pd;
    /* Each sending queue pair gives its source port to uro_path_seal_from(). */
    uro_path_init(&ah->path, shard, address, uro_shard_path_mtu_ever(shard), 0);
    ah->node.number = uro_shard_unused(shard, &shard->ahs, 32, 1);
    uro_table_insert(&shard->ahs, &ah->node);
}

void uro_ah_destroy(struct uro_shard *shard, struct uro_ah *ah)
{
    uro_table_remove(&shard->ahs, &ah->node);
}

struct uro_ah *uro_ah_find(const struct uro_shard *shard, uint32_t number, uint32_t pd)
{
    struct uro_table_node *node = uro_table_find(&shard->ahs, number);

    if (node == NULL)
        return NULL;
    struct uro_ah *ah = URO_CONTAINER_OF(node, struct uro_ah, node);
    return ah->pd == pd ? ah : NULL;
}
