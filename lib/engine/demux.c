/* SPDX-License-Identifier: BSD-3-Clause */
/* demux.c - sorts received frames. Every reason to drop a frame has a counter. */
#include "engine/demux.h"

#include <string.h>

#include "base/mark.h"
#include "core/prefetch.h"
#include "core/shard.h"
#include "wire/mld.h"

static const enum uro_counter refusals[URO_FRAME_RESULT_COUNT] = {
    [URO_FRAME_SHORT] = URO_COUNT_DROP_SHORT,
    [URO_FRAME_ETHER_TYPE] = URO_COUNT_DROP_ETHER_TYPE,
    [URO_FRAME_IP_BAD] = URO_COUNT_DROP_IP_HEADER,
    [URO_FRAME_IP_CHECKSUM] = URO_COUNT_DROP_IP_CHECKSUM,
    [URO_FRAME_IP_OPTIONS] = URO_COUNT_DROP_IP_OPTIONS,
    [URO_FRAME_IP_FRAGMENT] = URO_COUNT_DROP_IP_FRAGMENT,
    [URO_FRAME_UDP_LENGTH] = URO_COUNT_DROP_UDP_LENGTH,
    [URO_FRAME_UDP_CHECKSUM] = URO_COUNT_DROP_UDP_CHECKSUM,
    [URO_FRAME_OPCODE] = URO_COUNT_DROP_OPCODE,
    [URO_FRAME_LENGTH] = URO_COUNT_DROP_LENGTH,
    [URO_FRAME_VERSION] = URO_COUNT_DROP_VERSION,
    [URO_FRAME_ICRC] = URO_COUNT_DROP_ICRC,
};

static bool for_us(const struct uro_shard *shard, const struct uro_mac *dest)
{
    return (dest->octets[0] & 1) || memcmp(dest, &shard->config.mac, sizeof *dest) == 0;
}

static void roce(const struct uro_demux *to, struct uro_frame *frame, uro_time now)
{
    struct uro_shard *shard = to->shard;

    if (frame->udp.dest_port != URO_ROCE_PORT) {
        uro_count(shard->counters, URO_COUNT_DROP_UDP_PORT);
        return;
    }
    if (!uro_shard_owns(shard, &frame->ip.dest) && !uro_member_of(to->member, &frame->ip.dest)) {
        if (uro_gid_is_multicast(&frame->ip.dest))
            URO_MARK("MCAST.DEST");
        uro_count(shard->counters, URO_COUNT_DROP_IP_DEST);
        return;
    }
    enum uro_frame_result result = uro_frame_roce(frame);
    if (result != URO_FRAME_OK) {
        uro_count(shard->counters, refusals[result]);
        return;
    }
    if (frame->bth.dest_qpn == URO_CM_MAD_QPN)
        uro_gsi_receive(to->gsi, frame, now);
    else
        uro_receive(shard, frame);
}

/* Handles an ICMP frame. Returns whether a next hop became known or changed. */
static bool icmp(const struct uro_demux *to, const struct uro_frame *frame, uro_time now)
{
    uro_gsi_icmp(to->gsi, frame, now);
    return uro_neigh_icmp(to->neigh, frame, now);
}

static bool is_membership(const struct uro_frame *frame)
{
    if (!frame->ip.v6)
        return frame->ip.protocol == URO_IPPROTO_IGMP;
    return frame->ip.protocol == URO_IPPROTO_ICMPV6 && frame->body_length > 0 &&
           uro_mld_is(frame->body[0]);
}

void uro_demux(const struct uro_demux *to, const struct uro_pkt *pkt, uro_time now)
{
    struct uro_shard *shard = to->shard;
    struct uro_frame frame;

    shard->counters->value[URO_COUNT_RX_WEAK_ICRC] += pkt->weak;
    bool hops_changed = false;
    enum uro_frame_result result = uro_frame_network(pkt->octets, pkt->length, &frame);

    frame.summed = pkt->summed;
    if (pkt->indirect != NULL)
        frame.indirect = pkt->indirect + URO_ETHER_LEN;
    if (result != URO_FRAME_OK) {
        uro_count(shard->counters, refusals[result]);
        return;
    }
    if (!for_us(shard, &frame.ether.dest)) {
        uro_count(shard->counters, URO_COUNT_DROP_ETHER_DEST);
        return;
    }

    if (!uro_ether_in_vlan(&frame.ether, shard->config.vlan)) {
        URO_MARK("RX.VLAN");
        uro_count(shard->counters, URO_COUNT_DROP_VLAN);
        return;
    }

    if (frame.ether.type == URO_ETHERTYPE_ARP)
        hops_changed = uro_neigh_arp(to->neigh, &frame, now);
    else if (frame.ip.protocol == URO_IPPROTO_UDP)
        roce(to, &frame, now);
    else if (is_membership(&frame))
        uro_member_input(to->member, &frame, now);
    else if (frame.ip.protocol == (frame.ip.v6 ? URO_IPPROTO_ICMPV6 : URO_IPPROTO_ICMP))
        hops_changed = icmp(to, &frame, now);
    else
        uro_count(shard->counters, URO_COUNT_DROP_IP_PROTOCOL);

    if (hops_changed)
        uro_schedule_all(shard);
}

/* Offset of the QPN in the BTH. The memory for a frame with IP options is not prefetched. */
#define QPN_IN_BTH 5u

struct uro_demux_guess uro_demux_guess(const struct uro_pkt *pkt)
{
    const struct uro_demux_guess unknown = { 0 };
    uint32_t offset = URO_ETHER_LEN;

    if (pkt->length < offset + URO_IPV4_LEN + URO_UDP_LEN + URO_BTH_LEN)
        return unknown;
    if (uro_get_be16(pkt->octets + offset - 2) == URO_ETHERTYPE_VLAN)
        offset = URO_ETHER_LEN_MAX;
    offset +=
        uro_get_be16(pkt->octets + offset - 2) == URO_ETHERTYPE_IPV6 ? URO_IPV6_LEN : URO_IPV4_LEN;
    offset += URO_UDP_LEN;
    if (pkt->length < offset + URO_BTH_LEN)
        return unknown;
    const uint8_t *bth = pkt->octets + offset;
    return (struct uro_demux_guess){ uro_get_be24(bth + QPN_IN_BTH),
                                     uro_opcodes[bth[0]].role == URO_RESPONSE };
}

void uro_demux_prefetch(const struct uro_demux *to, struct uro_demux_guess guess,
                        enum uro_demux_step step)
{
    const struct uro_table *table = &to->shard->qps;

    if (step == URO_DEMUX_BUCKET) {
        __builtin_prefetch(uro_table_bucket_of(table, guess.number));
        return;
    }
    const struct uro_table_node *node = uro_table_find(table, guess.number);
    if (node == NULL)
        return;
    const struct uro_qp *qp = URO_CONTAINER_OF(node, struct uro_qp, node);
    if (guess.response)
        uro_prefetch_requester(qp);
    else
        uro_prefetch_responder(qp);
}
