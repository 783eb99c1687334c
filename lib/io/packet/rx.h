/* SPDX-License-Identifier: BSD-3-Clause */
/* rx.h - lends the frames of the ring to the engine.
 *
 * A single frame is lent from its slot. Coalesced packets (wire/gso.h) are split into one frame for
 * each packet. The headers of such a frame are made. The payload of a long data packet is read in
 * place.
 */
#pragma once

#include "core/pkt.h"
#include "engine/port.h"
#include "io/packet/socket.h"

#define URO_PACKET_WHOLE 512u /* longest coalesced packet that is always copied, bytes */

/* Coalesced packets, some of which have not been lent yet. */
struct uro_packet_several {
    const uint8_t *headers; /* headers of the coalesced packets; NULL: none */
    uint32_t length;
    uint32_t head; /* length of the headers before the payload of the first packet, bytes */
    uint32_t segment;
    uint32_t index; /* index of the next packet */
    bool tagged;    /* true: `tag` is the VLAN tag of each packet, which the kernel removed */
    uint16_t tag;
};

struct uro_packet_rx {
    struct uro_packet_ring *ring;
    struct uro_packet_several several; /* the coalesced packets of the last slot */
    uint8_t *heads;                    /* URO_PACKET_WHOLE bytes for each lent frame */
    uint8_t *whole;                    /* a packet copied as a whole */
    uint32_t lent;
    uint64_t dropped; /* frames that were truncated or could not be read */
};

/* Allocates the buffers. @rx uses the ring until it is closed. Returns false when there is no
 * memory. */
URO_NODISCARD bool uro_packet_rx_open(struct uro_packet_rx *rx, struct uro_packet_ring *ring);
void uro_packet_rx_close(struct uro_packet_rx *rx);

/* Lends at most @max frames, and returns their number. Call this function only when no frame is
 * lent. */
uint32_t uro_packet_rx_lend(struct uro_packet_rx *rx, struct uro_pkt *pkts, uint32_t max);
/* Releases @count lent frames. The kernel gets their slots after the last release. */
void uro_packet_rx_release(struct uro_packet_rx *rx, uint32_t count);

/* Returns whether lend() would lend a frame. */
bool uro_packet_rx_waits(const struct uro_packet_rx *rx);
