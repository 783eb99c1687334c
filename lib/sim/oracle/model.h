/* SPDX-License-Identifier: BSD-3-Clause */
/* model.h - the rules of the standard for operations and frames, independent of lib/core. */
#pragma once

#include <uroce/objects.h>

#include "wire/frame.h"

/* Returns the completion opcode of a send with this enum uroce_opcode. */
enum uroce_completion_opcode sim_model_wc_opcode(uint8_t opcode);
/* Returns whether the payload goes into a receive of the peer. */
bool sim_model_takes_receive(uint8_t opcode);
/* Returns whether the operation completes a receive of the peer: SENDs and WRITE_WITH_IMM. */
bool sim_model_is_message(uint8_t opcode);
bool sim_model_has_imm(uint8_t opcode);
bool sim_model_is_write(uint8_t opcode);  /* RDMA_WRITE, with immediate data or without */
bool sim_model_is_atomic(uint8_t opcode); /* an operation that returns an original value */
/* Returns whether the operation needs a response other than an ACK. */
bool sim_model_has_response(uint8_t opcode);
/* Returns whether the request packets carry the bytes of the memory elements. */
bool sim_model_carries_data(uint8_t opcode);
/* Returns whether the operation sends no packet. */
bool sim_model_is_local(uint8_t opcode);
/* Returns the operation of its packets. */
enum uro_operation sim_model_operation(uint8_t opcode);

/* Returns the number of packets of a message of @length bytes. */
uint32_t sim_model_packets(uint32_t length, uint32_t mtu);
/* Returns the position of packet @index of @count. */
enum uro_position sim_model_position(uint32_t index, uint32_t count);
/* Returns whether the payload is @length bytes of message @seed, from byte @from on. */
bool sim_model_carries(const struct uro_frame *frame, uint32_t from, uint32_t length,
                       uint64_t seed);
/* Returns whether the bytes are those of message @seed. */
bool sim_model_holds(const uint8_t *bytes, uint32_t length, uint64_t seed);

#define SIM_CODEC_TEXT_MAX 160u

struct sim_codec {
    bool roce; /* UDP to the RoCE port */
    bool read_response;
    bool rxe_flush; /* the ICRC is that of Linux rxe for FLUSH, not of the standard */
    char problem[SIM_CODEC_TEXT_MAX]; /* first problem; "": none */
};

/* Decodes the frame, and checks its checksums. Computes the ICRC bit by bit, without code of
 * base/crc32. Encodes all headers again and compares every byte, so reserved bits must be zero.
 * Returns true when the frame has no problem. */
bool sim_codec_check(const uint8_t *bytes, uint32_t length, struct sim_codec *result);
