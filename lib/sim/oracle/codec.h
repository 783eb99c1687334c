/* SPDX-License-Identifier: BSD-3-Clause */
/* codec.h - the codec oracle: decodes a frame, encodes it again, and compares. */
#pragma once

#include "base/defs.h"

#define SIM_CODEC_TEXT_MAX 160u

struct sim_codec {
    bool roce; /* UDP to the RoCE port */
    bool read_response;
    bool rxe_flush; /* the ICRC is that of Linux rxe for FLUSH, not of the standard */
    char problem[SIM_CODEC_TEXT_MAX]; /* first problem; "": none */
};

/* Decodes the frame, checks its checksums and its ICRC by plain bitwise arithmetic that shares nothing with base/crc32,
 * encodes all headers again and compares every byte. Reserved bits that are not zero are a problem. Returns true when the
 * frame has no problem. */
bool sim_codec_check(const uint8_t *octets, uint32_t length, struct sim_codec *result);
