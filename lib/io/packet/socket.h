/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.h - a packet socket on one interface, its filter, and its ring of received frames. */
#pragma once

#include <linux/virtio_net.h>

#include "base/defs.h"

/* Makes a socket that receives nothing yet. Returns it, or -errno. */
URO_NODISCARD int uro_packet_socket(void);

/* Returns whether this kernel supports coalesced UDP packets at packet sockets in both directions.
 * Linux does since 6.2. If a socket requests virtio headers, an older kernel loses coalesced
 * packets, and then other packets (uro_packet_ring_renew). */
bool uro_packet_socket_can_join(void);

/* Attaches the filter, and sets options. If an older kernel lacks an option, the port works without
 * this option. @alien: the MAC address of the port is not that of the interface. */
void uro_packet_socket_teach(int fd, int interface, bool alien, bool qdisc_bypass);

/* Starts receiving from the interface. Returns 0 or -errno. */
URO_NODISCARD int uro_packet_socket_bind(int fd, int interface);

/* Returns the number of frames that the kernel dropped since the last call, because no slot was
 * free or because it could not describe them. */
uint32_t uro_packet_socket_drops(int fd);

/* Clears the error that the kernel stores in the socket when the interface goes down. The error
 * would wake a sleeping thread again and again. */
void uro_packet_socket_forget_error(int fd);

/* ---- the receive ring -------------------------------------------------- */

/* The memory in which the kernel stores received frames: PACKET_RX_RING, TPACKET_V2 (packet(7)).
 *
 * A slot belongs to the kernel until it has a frame. Then it belongs to the port until the port
 * returns it. Slots are returned in order. */

struct uro_packet_ring {
    uint8_t *memory; /* NULL: no ring */
    size_t size;
    uint32_t slot; /* size of a slot, bytes */
    uint32_t slots;
    uint32_t block; /* size of a block, bytes; no slot crosses the border of a block */
    bool described; /* each frame has a virtio header with its checksum and segmentation */
    uint32_t next;  /* next slot to read */
    uint32_t done;  /* next slot to return */
    uint32_t held;  /* slots taken and not returned yet */
    bool moved;     /* a frame was taken since the last look_for_drops() */
};

struct uro_packet_slot {
    uint8_t *frame;
    uint32_t length;  /* length of the frame */
    uint32_t here;    /* bytes of the frame that are in the slot */
    uint32_t segment; /* UDP payload of each coalesced packet, bytes; 0: single frame */
    bool odd;         /* cannot be read: coalesced but not UDP, or a tag that is not 802.1Q */
    bool unsummed;    /* the UDP checksum is missing, or the kernel has verified it */
    bool tagged;      /* the kernel removed a VLAN tag; restored unless packets are coalesced */
    uint16_t tag;
};

/* Gives the socket a ring with about @slots slots (framecnt=) of about @slot bytes (framesz=).
 * @block is the size of a block (blocksz=), or 0. The socket must not be bound yet. Returns 0 or
 * -errno. */
URO_NODISCARD int uro_packet_ring_open(struct uro_packet_ring *ring, int fd, uint32_t slot,
                                       uint32_t slots, uint32_t block, bool described);
void uro_packet_ring_close(struct uro_packet_ring *ring);

/* Replaces the ring with an empty ring of the same sizes. No slot may be held. This is necessary
 * after a frame that the kernel cannot describe, for example coalesced packets of a protocol that
 * virtio does not support. The slot of such a frame stays marked as being filled, and nothing is
 * received any more. Returns 0, or -errno if there is no ring now. */
URO_NODISCARD int uro_packet_ring_renew(struct uro_packet_ring *ring, int fd);

/* Takes the next frame. Returns false if there is no frame. The slot belongs to the caller until it
 * is returned. */
bool uro_packet_ring_take(struct uro_packet_ring *ring, struct uro_packet_slot *slot);
/* Returns whether there is a frame. */
bool uro_packet_ring_waits(const struct uro_packet_ring *ring);
/* Returns the oldest @count slots to the kernel. */
void uro_packet_ring_give(struct uro_packet_ring *ring, uint32_t count);

/* The kind of coalesced UDP packets in struct virtio_net_hdr, which describes frames between a
 * packet socket and the kernel (PACKET_VNET_HDR). Kernel headers before Linux 6.2 do not define it
 * (virtio 1.3, 5.1.6). */
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif
