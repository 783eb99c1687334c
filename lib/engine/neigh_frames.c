/* SPDX-License-Identifier: BSD-3-Clause */
/* neigh_frames.c - builds ARP, ND and echo frames. */
#include "engine/neigh_frames.h"

#include <string.h>

#include "wire/ether.h"

#define HOP_LIMIT_ND   255u
#define HOP_LIMIT_ECHO 64u
#define ETHER_LEAST    60u /* without the frame check sequence */

static const struct uro_mac broadcast = { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } };

/* Returns the next free slot, or NULL if all are in use: the peer retransmits its request. */
static struct uro_neigh_reply *slot(struct uro_neigh *neigh)
{
    uint32_t index = (neigh->reply_first + neigh->reply_count) % URO_NEIGH_REPLIES_MAX;

    return neigh->reply_count < URO_NEIGH_REPLIES_MAX ? &neigh->replies[index] : NULL;
}

static void commit(struct uro_neigh *neigh, struct uro_neigh_reply *reply, const uint8_t *end)
{
    reply->length = (uint32_t)(end - reply->octets);
    if (reply->length < ETHER_LEAST) {
        memset(reply->octets + reply->length, 0, ETHER_LEAST - reply->length);
        reply->length = ETHER_LEAST;
    }
    neigh->reply_count++;
}

static uint8_t *put_ether(const struct uro_neigh *neigh, struct uro_neigh_reply *reply,
                          const struct uro_mac *dest, uint16_t type)
{
    struct uro_ether ether = { .dest = *dest, .source = neigh->config->mac, .type = type };

    uro_ether_tag(&ether, neigh->config->vlan, 0);
    return reply->octets + uro_ether_put(reply->octets, &ether);
}

static void send_arp(struct uro_neigh *neigh, const struct uro_mac *dest, const struct uro_arp *arp)
{
    struct uro_neigh_reply *reply = slot(neigh);

    if (reply == NULL)
        return;
    uint8_t *pos = put_ether(neigh, reply, dest, URO_ETHERTYPE_ARP);
    uro_arp_encode(pos, arp);
    commit(neigh, reply, pos + URO_ARP_LEN);
    uro_count(neigh->counters, URO_COUNT_ARP_TX);
}

static void send_nd(struct uro_neigh *neigh, const struct uro_mac *mac,
                    const struct uro_gid *source, const struct uro_gid *dest,
                    const struct uro_icmp *icmp)
{
    struct uro_neigh_reply *reply = slot(neigh);
    const struct uro_ip ip = { .v6 = true,
                               .hop_limit = HOP_LIMIT_ND,
                               .protocol = URO_IPPROTO_ICMPV6,
                               .payload_length = URO_ND_LEN,
                               .source = *source,
                               .dest = *dest };

    if (reply == NULL)
        return;
    uint8_t *pos = put_ether(neigh, reply, mac, URO_ETHERTYPE_IPV6);
    pos += uro_ip_put(pos, &ip);
    uro_icmp_encode_neighbor(pos, &ip, icmp);
    commit(neigh, reply, pos + URO_ND_LEN);
    uro_count(neigh->counters, URO_COUNT_ARP_TX);
}

void uro_neigh_send_request(struct uro_neigh *neigh, const struct uro_neigh_entry *entry)
{
    bool known = entry->hop.state == URO_HOP_KNOWN || entry->doubted;

    if (uro_gid_is_ipv4(&entry->address)) {
        const struct uro_arp arp = { .request = true,
                                     .sender_mac = neigh->config->mac,
                                     .sender = entry->source,
                                     .target = entry->address };
        send_arp(neigh, known ? &entry->hop.mac : &broadcast, &arp);
        return;
    }
    struct uro_gid group = uro_gid_solicited_node(&entry->address);
    struct uro_mac group_mac = uro_mac_multicast(&group);
    const struct uro_icmp icmp = { .kind = URO_ICMP_NEIGHBOR_SOLICIT,
                                   .target = entry->address,
                                   .has_mac = true,
                                   .mac = neigh->config->mac };
    send_nd(neigh, known ? &entry->hop.mac : &group_mac, &entry->source,
            known ? &entry->address : &group, &icmp);
}

void uro_neigh_send_arp_reply(struct uro_neigh *neigh, const struct uro_arp *request)
{
    const struct uro_arp arp = { .request = false,
                                 .sender_mac = neigh->config->mac,
                                 .sender = request->target,
                                 .target_mac = request->sender_mac,
                                 .target = request->sender };
    send_arp(neigh, &request->sender_mac, &arp);
}

void uro_neigh_send_advert(struct uro_neigh *neigh, const struct uro_frame *frame,
                           const struct uro_icmp *solicit)
{
    /* A node that checks whether its address is free has no source address yet. So the answer goes
     * to all nodes. */
    static const struct uro_gid all_nodes = { { 0xff, 0x02, [15] = 1 } };
    bool anonymous = uro_gid_is_zero(&frame->ip.source);
    struct uro_mac all_mac = uro_mac_multicast(&all_nodes);
    const struct uro_icmp icmp = { .kind = URO_ICMP_NEIGHBOR_ADVERT,
                                   .target = solicit->target,
                                   .has_mac = true,
                                   .mac = neigh->config->mac,
                                   .solicited = !anonymous,
                                   .override = true };
    send_nd(neigh, anonymous ? &all_mac : &frame->ether.source, &solicit->target,
            anonymous ? &all_nodes : &frame->ip.source, &icmp);
}

void uro_neigh_send_echo_reply(struct uro_neigh *neigh, const struct uro_frame *frame,
                               const struct uro_icmp *request)
{
    struct uro_neigh_reply *reply = slot(neigh);
    struct uro_icmp icmp = *request;
    const struct uro_ip ip = { .v6 = frame->ip.v6,
                               .hop_limit = HOP_LIMIT_ECHO,
                               .traffic_class = frame->ip.traffic_class,
                               .protocol = frame->ip.protocol,
                               .payload_length = frame->ip.payload_length,
                               .source = frame->ip.dest,
                               .dest = frame->ip.source };

    if (reply == NULL ||
        frame->ip.payload_length + URO_IPV6_LEN + URO_ETHER_LEN_MAX > URO_NEIGH_REPLY_BYTES)
        return;
    icmp.kind = URO_ICMP_ECHO_REPLY;
    uint8_t *pos = put_ether(neigh, reply, &frame->ether.source,
                             frame->ip.v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4);
    pos += uro_ip_put(pos, &ip);
    commit(neigh, reply, pos + uro_icmp_encode_echo(pos, &ip, &icmp));
}
