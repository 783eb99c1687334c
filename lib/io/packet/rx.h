/* SPDX-License-Identifier: BSD-3-Clause */
/* rx.h - what the ring has, as frames for the engine.
 *
 * A frame is lent from its slot. Of several packets in one (wire/gso.h) each becomes a frame: its
 * headers are made, its payload is read from where it is.
 */
#pragma once

#include "core/pkt.h"
#include "engine/port.h"
#include "io/packet/ring.h"

#define URO_PACKET_WHOLE 512u /* octets of packets that are copied, whatever they are */

/* Several packets, of which some were not lent yet. */
struct uro_packet_several {
    const uint8_t *at; /* the frame's headers; NULL: there are none */
    uint32_t length;
    uint32_t head; /* octets before the payload of the first */
    uint32_t segment;
    uint32_t index; /* of the next */
    bool tagged;    /* each of them has this tag, the frame has not */
    uint16_t tag;
};

struct uro_packet_rx {
    struct uro_packet_ring *ring;
    struct uro_packet_several several; /* of the slot taken last */
    uint8_t *heads;                    /* URO_PACKET_WHOLE octets for each frame that is lent */
    uint8_t *whole;                    /* a packet that had to be put together */
    uint32_t lent;
    uint64_t dropped; /* cut off, or several of another protocol */
};

/* The ring is @rx's until it is closed. False when there is no memory. */
URO_NODISCARD bool uro_packet_rx_open(struct uro_packet_rx *rx, struct uro_packet_ring *ring);
void uro_packet_rx_close(struct uro_packet_rx *rx);

/* Nothing is lent. */
uint32_t uro_packet_rx_lend(struct uro_packet_rx *rx, struct uro_pkt *pkts, uint32_t room);
/* Of those that were lent; what all of them stood on is the kernel's again with the last. */
void uro_packet_rx_release(struct uro_packet_rx *rx, uint32_t count);

/* Whether lend() would lend something. */
bool uro_packet_rx_waits(const struct uro_packet_rx *rx);
