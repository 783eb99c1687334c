/* SPDX-License-Identifier: BSD-3-Clause */
/* codec.h - the codec oracle: decodes a frame, encodes it again, and compares. */
#pragma once

#include "base/defs.h"

#define SIM_CODEC_TEXT_MAX 160u

struct sim_codec {
    bool roce; /* UDP to the RoCE port */
    bool read_response;
    bool rxe_flush; /* its ICRC is the one Linux rxe computes for FLUSH, not the standard's */
    char problem[SIM_CODEC_TEXT_MAX]; /* "" when all is well */
};

/* Decodes the frame, checks its checksums and its ICRC by plain bitwise arithmetic that shares
 * nothing with base/crc32, encodes all headers again and compares every octet. Reserved bits that
 * are not zero are a problem. Returns true when there is none. */
bool sim_codec_check(const uint8_t *octets, uint32_t length, struct sim_codec *result);
