/* SPDX-License-Identifier: BSD-3-Clause */
/* gsi.c - see gsi.h. A datagram waits until its next hop is known. If the next hop does not answer,
 * the datagram is dropped; the connection manager retransmits important messages. When all slots
 * are in use, the oldest datagram that waits for a next hop is dropped. Otherwise requests with
 * forged source addresses could fill all slots, and real hosts would get no answer. */
#include "engine/gsi.h"

#include "base/mark.h"
#include "core/psn.h"
#include "wire/frame.h"
#include "wire/icmp.h"

#define HOP_LIMIT 64u

void uro_gsi_init(struct uro_gsi *gsi, struct uro_shard *shard, struct uro_neigh *neigh,
                  struct uro_cm *cm)
{
    gsi->shard = shard;
    gsi->neigh = neigh;
    gsi->cm = cm;
    gsi->psn = 0;
    uro_list_init(&gsi->unused);
    uro_list_init(&gsi->waiting);
    uro_list_init(&gsi->written);
    for (unsigned i = 0; i < URO_GSI_WAITING; i++) {
        gsi->slots[i].link = (struct uro_link){ 0 };
        uro_list_append(&gsi->unused, &gsi->slots[i].link);
    }
}

static uint8_t index_of(const struct uro_shard *shard, const struct uro_gid *address)
{
    for (uint32_t i = 0; i < shard->config.gid_count; i++)
        if (uro_gid_equal(&shard->config.gids[i], address))
            return (uint8_t)i;
    return 0;
}

void uro_gsi_receive(struct uro_gsi *gsi, const struct uro_frame *frame, uro_time now)
{
    struct uro_counters *counters = gsi->shard->counters;

    if (uro_gid_is_multicast(&frame->ip.dest)) {
        URO_MARK("MCAST.QPN");
        uro_count(counters, URO_COUNT_DROP_QPN);
        return;
    }
    if (frame->op->service != URO_UD || frame->payload_length != URO_MAD_LEN) {
        uro_count(counters, URO_COUNT_CM_DROP_MALFORMED);
        return;
    }
    if (frame->deth.qkey != URO_CM_QKEY) {
        uro_count(counters, URO_COUNT_DROP_QKEY);
        return;
    }
    if ((frame->bth.pkey & URO_PKEY_MASK) != (URO_PKEY_DEFAULT & URO_PKEY_MASK)) {
        uro_count(counters, URO_COUNT_DROP_PKEY);
        return;
    }
    const struct uro_cm_route route = { .local = frame->ip.dest,
                                        .remote = frame->ip.source,
                                        .sgid_index = index_of(gsi->shard, &frame->ip.dest),
                                        .hop_limit = HOP_LIMIT };
    URO_MARK("CM.GSI");
    uro_count(counters, URO_COUNT_RX_ROCE);
    counters->value[URO_COUNT_RX_BYTES] += uro_frame_packet_length(frame);
    uro_cm_receive(gsi->cm, &route, frame->payload, now);
}

void uro_gsi_icmp(struct uro_gsi *gsi, const struct uro_frame *frame, uro_time now)
{
    const uint32_t mad_at = URO_BTH_LEN + URO_DETH_LEN;
    struct uro_icmp icmp;
    struct uro_bth bth;

    if (!uro_icmp_decode(&frame->ip, frame->body, frame->body_length, &icmp) ||
        icmp.kind != URO_ICMP_NO_PORT || icmp.quoted_length < URO_BTH_LEN)
        return;
    uro_record_closed_port(uro_record_of(gsi->shard->counters), &icmp.dest, now);
    uro_bth_decode(icmp.quoted, &bth);
    if (bth.dest_qpn == URO_CM_MAD_QPN && icmp.quoted_length > mad_at)
        uro_cm_undelivered(gsi->cm, &icmp.dest, icmp.quoted + mad_at, icmp.quoted_length - mad_at,
                           now);
}

static void release(struct uro_gsi *gsi, struct uro_gsi_slot *slot)
{
    uro_list_remove(&slot->link);
    uro_neigh_put(gsi->neigh, slot->hop);
    uro_list_append(&gsi->unused, &slot->link);
}

static void describe(struct uro_gsi *gsi, struct uro_gsi_slot *slot, struct uro_tx *tx)
{
    const struct uro_cm_route *route = &slot->out.route;
    const struct uro_address address = { .dest = route->remote,
                                         .sgid_index = route->sgid_index,
                                         .hop_limit = route->hop_limit,
                                         .traffic_class = route->traffic_class,
                                         .hop = slot->hop };
    const struct uro_deth deth = { .qkey = URO_CM_QKEY, .source_qpn = URO_CM_MAD_QPN };
    int opcode = uro_opcode_find(URO_UD, URO_REQUEST, URO_SEND, URO_ONLY, 0);
    struct uro_bth bth = { .opcode = (uint8_t)opcode,
                           .migrated = true,
                           .pkey = URO_PKEY_DEFAULT,
                           .dest_qpn = URO_CM_MAD_QPN,
                           .psn = gsi->psn };
    struct uro_path path;

    uro_path_init(&path, gsi->shard, &address, URO_MAD_LEN, uro_path_datagram_port(URO_CM_MAD_QPN));
    uro_deth_encode(uro_path_ext(tx, &path), &deth);
    tx->payload_length = URO_MAD_LEN;
    tx->span_count = 1;
    tx->spans[0] = (struct uro_span){ .data = slot->out.mad, .length = URO_MAD_LEN };
    uro_path_seal(tx, &path, &bth, URO_DETH_LEN);
    gsi->psn = (gsi->psn + 1) & URO_PSN_MASK;
}

/* Makes sure that a slot is free, if need be by dropping a datagram. Returns false when no slot is
 * free and every waiting datagram can be sent. */
static bool make_room(struct uro_gsi *gsi)
{
    if (!uro_list_empty(&gsi->unused))
        return true;
    for (struct uro_link *link = gsi->waiting.head.next; link != &gsi->waiting.head;
         link = link->next) {
        struct uro_gsi_slot *slot = URO_CONTAINER_OF(link, struct uro_gsi_slot, link);
        if (slot->hop->state != URO_HOP_RESOLVING)
            continue;
        URO_MARK("CM.CROWD");
        uro_count(gsi->shard->counters, URO_COUNT_TX_NO_NEIGHBOR);
        release(gsi, slot);
        return true;
    }
    return false;
}

/* Takes messages from the connection manager while slots are free. */
static void collect(struct uro_gsi *gsi, uro_time now)
{
    while (uro_cm_next(gsi->cm) <= now && make_room(gsi)) {
        struct uro_gsi_slot *slot =
            URO_CONTAINER_OF(gsi->unused.head.next, struct uro_gsi_slot, link);
        if (!uro_cm_output(gsi->cm, &slot->out, now))
            return;
        const struct uro_cm_route *route = &slot->out.route;
        if (uro_neigh_get(gsi->neigh, route->sgid_index, &route->remote, now, &slot->hop) != 0) {
            URO_MARK("CM.NO.ROUTE");
            uro_count(gsi->shard->counters, URO_COUNT_TX_NO_NEIGHBOR);
            continue;
        }
        uro_list_remove(&slot->link);
        uro_list_append(&gsi->waiting, &slot->link);
    }
}

uint32_t uro_gsi_output(struct uro_gsi *gsi, struct uro_tx *tx, uint32_t max, uro_time now)
{
    uint32_t count = 0;

    while (!uro_list_empty(&gsi->written))
        release(gsi, URO_CONTAINER_OF(gsi->written.head.next, struct uro_gsi_slot, link));
    collect(gsi, now);

    struct uro_link *next;
    for (struct uro_link *link = gsi->waiting.head.next; link != &gsi->waiting.head && count < max;
         link = next) {
        struct uro_gsi_slot *slot = URO_CONTAINER_OF(link, struct uro_gsi_slot, link);
        next = link->next;
        if (slot->hop->state == URO_HOP_RESOLVING)
            continue;
        if (slot->hop->state == URO_HOP_LOST) {
            URO_MARK("CM.NO.NEIGHBOR");
            uro_count(gsi->shard->counters, URO_COUNT_TX_NO_NEIGHBOR);
            release(gsi, slot);
            continue;
        }
        describe(gsi, slot, &tx[count++]);
        uro_list_remove(&slot->link);
        uro_list_append(&gsi->written, &slot->link);
    }
    gsi->shard->counters->value[URO_COUNT_TX_ROCE] += count;
    for (uint32_t i = 0; i < count; i++)
        gsi->shard->counters->value[URO_COUNT_TX_BYTES] += uro_tx_length(&tx[i]) - tx[i].network_at;
    return count;
}

bool uro_gsi_idle(const struct uro_gsi *gsi)
{
    return uro_list_empty(&gsi->waiting);
}

static bool can_send(const struct uro_gsi *gsi)
{
    for (const struct uro_link *link = gsi->waiting.head.next; link != &gsi->waiting.head;
         link = link->next)
        if (URO_CONTAINER_OF(link, const struct uro_gsi_slot, link)->hop->state !=
            URO_HOP_RESOLVING)
            return true;
    return false;
}

uro_time uro_gsi_next(const struct uro_gsi *gsi)
{
    if (can_send(gsi) || !uro_list_empty(&gsi->written))
        return gsi->shard->now;
    return uro_cm_next(gsi->cm);
}
