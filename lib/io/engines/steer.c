/* SPDX-License-Identifier: BSD-3-Clause */
/* steer.c - see steer.h. */
#include "io/engines/steer.h"

#include "core/shard.h"
#include "wire/arp.h"
#include "wire/bytes.h"
#include "wire/icmp.h"

#define AT_QPN 5u /* offset of the destination QPN in the BTH */

static uint32_t engine_of(uint32_t qpn)
{
    const uint32_t prefix = qpn >> URO_QPN_OWN_BITS;

    if (qpn == URO_QPN_MULTICAST)
        return URO_STEER_ALL;
    if (prefix == 0 || prefix > URO_STEER_ENGINES_MAX)
        return URO_STEER_FIRST;
    return 1u << (prefix - 1);
}

/* A host that announces its MAC address asks for its own IP address. */
static uint32_t arp(const struct uro_frame *frame)
{
    struct uro_arp arp;

    if (!uro_arp_decode(frame->body, frame->body_length, &arp))
        return URO_STEER_FIRST;
    return arp.request && !uro_gid_equal(&arp.sender, &arp.target) ? URO_STEER_FIRST
                                                                   : URO_STEER_ALL;
}

/* Membership queries are not known to uro_icmp_decode(), and are for all engines. */
static uint32_t icmpv6(const struct uro_frame *frame)
{
    struct uro_icmp icmp;

    if (!uro_icmp_decode(&frame->ip, frame->body, frame->body_length, &icmp))
        return URO_STEER_FIRST;
    return icmp.kind == URO_ICMP_NEIGHBOR_ADVERT || icmp.kind == URO_ICMP_OTHER ? URO_STEER_ALL
                                                                                : URO_STEER_FIRST;
}

uint32_t uro_steer_received(const struct uro_pkt *pkt)
{
    struct uro_frame frame;

    if (uro_frame_network(pkt->octets, pkt->length, &frame) != URO_FRAME_OK)
        return URO_STEER_FIRST;
    if (frame.ether.type == URO_ETHERTYPE_ARP)
        return arp(&frame);
    if (frame.ip.protocol == URO_IPPROTO_UDP)
        return frame.udp.dest_port == URO_ROCE_PORT && frame.body_length >= URO_BTH_LEN
                   ? engine_of(uro_get_be24(frame.body + AT_QPN))
                   : URO_STEER_FIRST;
    if (frame.ip.protocol == URO_IPPROTO_IGMP)
        return URO_STEER_ALL;
    if (frame.ip.protocol == URO_IPPROTO_ICMPV6)
        return icmpv6(&frame);
    return URO_STEER_FIRST;
}

uint32_t uro_steer_sent(const struct uro_tx *tx)
{
    const uint8_t *bth =
        tx->head + tx->network_at + (tx->icrc_v6 ? URO_IPV6_LEN : URO_IPV4_LEN) + URO_UDP_LEN;

    if (tx->way == URO_TX_SHARED)
        return engine_of(uro_get_be24(bth + AT_QPN));
    return tx->way == URO_TX_BOTH ? URO_STEER_ALL | URO_STEER_WIRE : URO_STEER_WIRE;
}
