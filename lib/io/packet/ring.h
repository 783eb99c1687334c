/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.h - the memory in which the kernel leaves received frames: PACKET_RX_RING, TPACKET_V2
 * (packet(7)).
 *
 * A slot is the kernel's until it has a frame, ours until it is given back, in the same order.
 */
#pragma once

#include "base/defs.h"

struct uro_packet_ring {
    uint8_t *memory; /* NULL: there is none */
    size_t size;
    uint32_t slot; /* octets */
    uint32_t slots;
    uint32_t block; /* octets: slots do not lie across their borders */
    bool
        described; /* in front of each frame stands what the kernel has left to do: virtio's header */
    uint32_t next; /* slot to be looked at */
    uint32_t done; /* slot to be given back */
    uint32_t held; /* slots that were taken and not given back */
    bool moved;    /* a frame was taken; whoever looks sets it back */
};

struct uro_packet_slot {
    uint8_t *frame;
    uint32_t length;  /* of the frame */
    uint32_t here;    /* octets of it that are in the slot */
    uint32_t segment; /* octets of UDP payload in each of several packets; 0: it is one frame */
    bool odd;         /* several in one, but not packets of UDP; or the tag is none of 802.1Q */
    bool unsummed;    /* what stands for its UDP checksum is none, or was checked */
    bool tagged; /* the kernel took an 802.1Q tag out: it is put back unless there are several */
    uint16_t tag;
};

/* Gives the socket a ring: as near as can be to @slot octets, as framesz=, and @slots; @block as
 * blocksz=, 0: chosen. The socket is not bound yet. Returns 0 or -errno. */
URO_NODISCARD int uro_packet_ring_open(struct uro_packet_ring *ring, int fd, uint32_t slot,
                                       uint32_t slots, uint32_t block, bool described);
void uro_packet_ring_close(struct uro_packet_ring *ring);

/* A ring like it from then on, empty; nothing is held of the present one. A frame that the kernel
 * cannot describe (several in one, of a protocol that virtio has no name for) leaves a slot marked
 * as being filled, and nothing comes any more. Returns 0 or -errno: there is none. */
URO_NODISCARD int uro_packet_ring_renew(struct uro_packet_ring *ring, int fd);

/* The next frame; false when there is none. Its slot is ours, once. */
bool uro_packet_ring_take(struct uro_packet_ring *ring, struct uro_packet_slot *slot);
/* Whether there is one. */
bool uro_packet_ring_waits(const struct uro_packet_ring *ring);
/* Gives back the @count slots that were taken first. */
void uro_packet_ring_give(struct uro_packet_ring *ring, uint32_t count);
