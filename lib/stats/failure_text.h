/* SPDX-License-Identifier: BSD-3-Clause */
/* failure_text.h - failures of core/record.h as sentences, and the explanation of each vendor_err.
 *
 * A failure may be from the file of another process: the functions check every value.
 */
#pragma once

#include "core/record.h"

#define URO_FAILURE_TEXT_MAX 512u

/* Writes what happened, with its numbers, as part of a sentence: "no answer from 10.0.0.2 (QP 0x34)
 * in 4 retries of 67 ms". Returns @text. */
char *uro_failure_text(const struct uro_failure *failure, char text[static URO_FAILURE_TEXT_MAX]);

/* Returns the advice about a failure: what the user can do. */
const char *uro_failure_mend(const struct uro_failure *failure);

/* Describes a packet: its opcode, PSN and length, and the result in its AETH. Returns @text. */
char *uro_failure_packet_text(const struct uro_record_packet *packet,
                              char text[static URO_FAILURE_TEXT_MAX]);

/* Writes a duration of @ns nanoseconds: "67 ms". Returns @text. */
#define URO_DURATION_TEXT_MAX 24u
char *uro_failure_duration(uint64_t ns, char text[static URO_DURATION_TEXT_MAX]);

/* The explanation of a vendor_err. */
struct uro_failure_reason {
    const char *text;   /* what happened */
    const char *causes; /* usual causes */
    const char *mend;
};

/* Returns the explanation, or NULL if there is no such vendor_err. */
const struct uro_failure_reason *uro_failure_reason(uint32_t vendor_err);
