/* SPDX-License-Identifier: BSD-3-Clause */
/* capture_kit.h - makes captures of one connection: side A is 10.0.0.1 with QP 0x11, side B is
 * 10.0.0.2 with QP 0x22.
 *
 * Each packet is 10 us later than the packet before it, and has an IPv4 identification of its own.
 */
#pragma once

#include "capture/judge.h"
#include "core/limits.h"
#include "wire/frame.h"

#define KIT_A       0
#define KIT_B       1
#define KIT_QPN_A   0x11u
#define KIT_QPN_B   0x22u
#define KIT_STEP_NS 10000u
#define KIT_PMTU    1024u

#define OP_SEND_FIRST   0x00
#define OP_SEND_MIDDLE  0x01
#define OP_SEND_LAST    0x02
#define OP_SEND_ONLY    0x04
#define OP_WRITE_FIRST  0x06
#define OP_WRITE_LAST   0x08
#define OP_WRITE_ONLY   0x0a
#define OP_READ         0x0c
#define OP_RESP_FIRST   0x0d
#define OP_RESP_MIDDLE  0x0e
#define OP_RESP_LAST    0x0f
#define OP_RESP_ONLY    0x10
#define OP_ACK          0x11
#define OP_FETCH_ADD    0x14
#define OP_UC_SEND_ONLY 0x24
#define OP_UD_SEND_ONLY 0x64
#define OP_CNP          0x81

#define SYNDROME_ACK URO_AETH_ACK, URO_CREDITS_UNLIMITED
#define SYNDROME_GAP URO_AETH_NAK, URO_NAK_PSN_SEQUENCE

/* Begins a capture. The kit makes only one capture at a time. */
void kit_begin(void);
/* Adds @ns to the time of the next packet. */
void kit_wait(uint64_t ns);

/* Returns a packet of @side. A test changes the fields that it tests, and calls kit_put(). */
struct uro_frame kit_frame(int side, uint8_t opcode, uint32_t psn, uint32_t payload);
void kit_put(const struct uro_frame *frame);
/* Appends a frame of any bytes. @length is its length on the wire. */
void kit_put_bytes(const uint8_t *octets, uint32_t stored, uint32_t length);

/* These functions append a packet without RETH and AETH, with RETH, or with AETH. */
void kit_send(int side, uint8_t opcode, uint32_t psn, uint32_t payload);
void kit_rdma(int side, uint8_t opcode, uint32_t psn, uint64_t va, uint32_t length,
              uint32_t payload);
void kit_respond(int side, uint8_t opcode, uint32_t psn, uint32_t msn, enum uro_aeth_kind kind,
                 uint8_t value, uint32_t payload);
/* Appends a SEND ONLY of side A with 64 bytes, and its ACK. */
void kit_exchange(uint32_t psn, uint32_t msn);

/* Ends the capture and reads it. The caller frees the result. */
struct uro_capture *kit_end(void);
