/* SPDX-License-Identifier: BSD-3-Clause */
/* model.h - the rules of the standard for operations and frames, independent of lib/core. */
#pragma once

#include <uroce/objects.h>

#include "wire/frame.h"

/* Properties of operations. */
#define SIM_TAKES    (1u << 0) /* the payload goes into a receive of the peer */
#define SIM_MESSAGE  (1u << 1) /* completes a receive of the peer: SENDs and WRITE_WITH_IMM */
#define SIM_IMM      (1u << 2)
#define SIM_WRITE    (1u << 3) /* RDMA_WRITE, with immediate data or without */
#define SIM_ATOMIC   (1u << 4) /* returns an original value */
#define SIM_ANSWERED (1u << 5) /* needs a response other than an ACK */
#define SIM_DATA     (1u << 6) /* the request packets carry the bytes of the memory elements */
#define SIM_LOCAL    (1u << 7) /* sends no packet */

/* Properties of each enum uroce_opcode. */
extern const struct sim_operation {
    enum uroce_completion_opcode completion;
    enum uro_operation operation; /* in its packets */
    unsigned properties;
} sim_operations[];

static inline bool sim_model_is(uint8_t opcode, unsigned property)
{
    return sim_operations[opcode].properties & property;
}

/* Returns the number of packets of a message of @length bytes. */
uint32_t sim_model_packets(uint32_t length, uint32_t mtu);
/* Returns the position of packet @index of @count. */
enum uro_position sim_model_position(uint32_t index, uint32_t count);
/* Returns whether the payload is @length bytes of message @seed, from byte @from on. */
bool sim_model_carries(const struct uro_frame *frame, uint32_t from, uint32_t length,
                       uint64_t seed);
/* Returns whether the bytes are those of message @seed. */
bool sim_model_holds(const uint8_t *bytes, uint32_t length, uint64_t seed);

/* ---- packet sequence numbers ---- */

#define SIM_PSN_MASK 0xffffffu

/* Returns the signed distance a - b in packets, in [-2^23, 2^23): negative means a is older. */
static inline int32_t sim_psn_diff(uint32_t a, uint32_t b)
{
    const int32_t delta = (int32_t)((a - b) & SIM_PSN_MASK);

    return delta < 1 << 23 ? delta : delta - (1 << 24);
}

#define SIM_CODEC_TEXT_MAX 160u

struct sim_codec {
    bool roce; /* UDP to the RoCE port */
    bool read_response;
    bool rxe_flush; /* the ICRC is that of Linux rxe for FLUSH, not of the standard */
    char problem[SIM_CODEC_TEXT_MAX]; /* first problem; "": none */
};

/* Decodes the frame, and checks its checksums. Computes the ICRC with tables of its own, without
 * code of base/crc32. Encodes all headers again and compares every byte, so reserved bits must be
 * zero. Returns true when the frame has no problem. */
bool sim_codec_check(const uint8_t *bytes, uint32_t length, struct sim_codec *result);
