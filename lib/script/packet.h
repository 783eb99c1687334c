/* SPDX-License-Identifier: BSD-3-Clause */
/* packet.h - converts a RoCE packet to the numbers of field.h, and back, with deliberate faults. */
#pragma once

#include "script/field.h"

/* Maximum bytes after the UDP header. */
#define URO_PACKET_BYTES_MAX 8192u
#define URO_PACKET_FRAME_MAX (URO_PACKET_BYTES_MAX + 128u)

enum uro_packet_icrc { URO_PACKET_ICRC_GOOD, URO_PACKET_ICRC_BAD, URO_PACKET_ICRC_NONE };

struct uro_packet {
    const struct uro_opcode *op; /* opcode, which determines the headers; NULL: bytes only */
    uint64_t value[URO_FIELD_PACKET_END];
    struct uro_mac from_mac, to_mac;
    struct uro_gid from, to;
    const uint8_t *octets; /* payload, or all after the UDP header; NULL: test pattern */
    uint32_t length;       /* length of `octets`, or of the pattern */
};

/* Returns the byte of the test pattern at a position. */
static inline uint8_t uro_packet_pattern(uint64_t position)
{
    return (uint8_t)(position * 31 + position / 256);
}

/* Fills in a valid packet of that opcode. The caller adds the addresses, the QPN and the PSN. */
void uro_packet_init(struct uro_packet *packet, uint8_t opcode);

/* Writes the frame. Returns its length in bytes. */
uint32_t uro_packet_write(const struct uro_packet *packet,
                          uint8_t out[static URO_PACKET_FRAME_MAX]);

/* Reads the numbers of a received packet, with the extension headers that it has. */
void uro_packet_read(struct uro_packet *packet, const struct uro_frame *frame);
