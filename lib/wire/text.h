/* SPDX-License-Identifier: BSD-3-Clause */
/* text.h - one line per frame, for `uroce dump`, traces and failing tests. */
#pragma once

#include "wire/frame.h"

#define URO_TEXT_LINE_MAX 352u

/* Some frames of a capture hold a sentence instead of a packet. They have this EtherType (IEEE 802:
 * for local experiments) and these bytes before the sentence. */
#define URO_TEXT_SENTENCE_TYPE  0x88b5u
#define URO_TEXT_SENTENCE_BEGIN "uroce: "

/* Returns whether the frame has a sentence instead of a packet. */
bool uro_text_is_sentence(const uint8_t *octets, uint32_t length);

/* Describes a frame, valid or not, and names its first problem. Examples:
 *   10.0.0.2 > 10.0.0.1 RC_WRITE_FIRST qp 0x000011 psn 100 ack va 0x7f.. rkey 0x.. len 3000 pay 1024
 *   10.0.0.2 > 10.0.0.1 RC_SEND_ONLY qp 0x000011 psn 7 pay 16 !ICRC is 8d9285d6, should be 9d8592d6
 *   vlan 10 priority 5 10.0.0.2 > 10.0.0.1 RC_ACK qp 0x000011 psn 7 msn 1
 *   -- QP 0x000011: RTS to ERR
 * Always NUL terminated. Returns false when the frame has a problem. */
bool uro_text_line(const uint8_t *octets, uint32_t length, char line[static URO_TEXT_LINE_MAX]);
