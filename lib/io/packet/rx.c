/* SPDX-License-Identifier: BSD-3-Clause */
/* rx.c - see rx.h. */
#include "io/packet/rx.h"

#include <stdlib.h>
#include <string.h>

#include "wire/ether.h"
#include "wire/gso.h"

bool uro_packet_rx_open(struct uro_packet_rx *rx, struct uro_packet_ring *ring)
{
    *rx = (struct uro_packet_rx){ .ring = ring };
    rx->heads = aligned_alloc(64, (size_t)URO_PORT_BURST * URO_PACKET_WHOLE);
    rx->whole = malloc(ring->slot + URO_VLAN_LEN);
    return rx->heads != NULL && rx->whole != NULL;
}

void uro_packet_rx_close(struct uro_packet_rx *rx)
{
    free(rx->whole);
    free(rx->heads);
    *rx = (struct uro_packet_rx){ 0 };
}

/* ---- several packets ----------------------------------------------------- */

/* Writes the headers of a packet with @payload bytes of UDP payload. Returns their length in
 * bytes. */
static uint32_t put_headers(const struct uro_packet_several *from, uint32_t payload, uint8_t *out)
{
    if (!from->tagged) {
        uro_gso_cut(from->headers, from->head, from->index, payload, out);
        return from->head;
    }
    uro_gso_cut(from->headers, from->head, from->index, payload, out + URO_VLAN_LEN);
    (void)uro_ether_insert_tag(out + URO_VLAN_LEN, from->tag);
    return from->head + URO_VLAN_LEN;
}

/* Makes the next packet of coalesced packets, with new headers. The payload of a long data packet
 * is not moved. Other packets are copied as a whole. Returns true if the packet is in rx->whole,
 * which has space for only one packet. */
static bool cut(struct uro_packet_rx *rx, uint8_t *head, struct uro_pkt *pkt)
{
    const struct uro_packet_several *const from = &rx->several;
    /* address at which the frame would begin if its headers preceded this payload */
    const uint8_t *const frame_headers = from->headers + from->index * from->segment;
    const uint32_t left = from->length - from->head - from->index * from->segment;
    const uint32_t payload = left < from->segment ? left : from->segment;
    const uint32_t headers = put_headers(from, payload, head);
    const bool is_long = headers + payload > URO_PACKET_WHOLE;

    *pkt = (struct uro_pkt){ .octets = head, .length = headers + payload };
    if (is_long) {
        memcpy(head + headers, frame_headers + from->head, URO_FRAME_HEAD - headers);
        if (uro_frame_is_data(head, pkt->length)) {
            pkt->indirect = frame_headers;
            return false;
        }
        pkt->octets = memcpy(rx->whole, head, headers);
    }
    memcpy((is_long ? rx->whole : head) + headers, frame_headers + from->head, payload);
    return is_long;
}

/* Lends the next of the coalesced packets. Their slot is returned when the last packet is
 * released. */
static bool lend_next(struct uro_packet_rx *rx, uint8_t *head, struct uro_pkt *pkt)
{
    struct uro_packet_several *const from = &rx->several;
    const bool alone = cut(rx, head, pkt);

    from->index++;
    if (from->head + from->index * from->segment >= from->length)
        from->headers = NULL;
    return alone;
}

/* Starts lending coalesced packets. Drops packets that are not completely in the slot. Returns
 * false when the packets are not UDP or none is complete. */
static bool begin_several(struct uro_packet_rx *rx, const struct uro_packet_slot *slot)
{
    const uint32_t head = uro_gso_head(slot->frame, slot->here);
    uint32_t here = slot->here;

    if (head == 0)
        return false;
    if (here < slot->length) {
        rx->dropped++;
        here = head + (here - head) / slot->segment * slot->segment;
    }
    rx->several = (struct uro_packet_several){ slot->frame, here,         head,     slot->segment,
                                               0,           slot->tagged, slot->tag };
    return here > head;
}

/* ---- frames --------------------------------------------------------------- */

/* Lends the frame of a slot, or the first of its coalesced packets. Returns false when it has
 * neither. */
static bool lend_slot(struct uro_packet_rx *rx, const struct uro_packet_slot *slot, uint8_t *head,
                      struct uro_pkt *pkt, bool *alone)
{
    if (!slot->odd && slot->segment == 0 && slot->here == slot->length) {
        *pkt = (struct uro_pkt){ .octets = slot->frame, .length = slot->length };
        return true;
    }
    if (!slot->odd && slot->segment != 0 && begin_several(rx, slot)) {
        *alone = lend_next(rx, head, pkt);
        return true;
    }
    rx->several.headers = NULL;
    rx->dropped++;
    return false;
}

/* Returns all slots to the kernel, except a slot with packets that were not lent yet. No packet may
 * be lent. */
static void give_back(struct uro_packet_rx *rx)
{
    uro_packet_ring_give(rx->ring, rx->ring->held - (rx->several.headers != NULL));
}

uint32_t uro_packet_rx_lend(struct uro_packet_rx *rx, struct uro_pkt *pkts, uint32_t max)
{
    const uint32_t limit = max < URO_PORT_BURST ? max : URO_PORT_BURST;
    struct uro_packet_slot slot;
    uint32_t count = 0;
    bool alone = false;

    URO_ASSERT(rx->lent == 0); /* heads has one buffer for each lent packet */
    while (count < limit && !alone) {
        uint8_t *const head = rx->heads + (size_t)count * URO_PACKET_WHOLE;
        if (rx->several.headers != NULL) {
            alone = lend_next(rx, head, &pkts[count++]);
            continue;
        }
        if (!uro_packet_ring_take(rx->ring, &slot))
            break;
        count += lend_slot(rx, &slot, head, &pkts[count], &alone);
    }
    rx->lent = count;
    if (count == 0)
        give_back(rx);
    return count;
}

void uro_packet_rx_release(struct uro_packet_rx *rx, uint32_t count)
{
    rx->lent -= count;
    if (rx->lent == 0)
        give_back(rx);
}

bool uro_packet_rx_waits(const struct uro_packet_rx *rx)
{
    return rx->several.headers != NULL || uro_packet_ring_waits(rx->ring);
}
