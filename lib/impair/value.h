/* SPDX-License-Identifier: BSD-3-Clause */
/* value.h - the values in the text of a plan: probabilities, times, sizes, rates, numbers.
 *
 * Each function accepts a text only as a whole. Except for uro_impair_value_number(), which returns
 * whether @text is a number, they return NULL, or the part of a message that describes the correct
 * form.
 */
#pragma once

#include "impair/plan.h"

/* Reads "0.5%" or "0.005" as a probability. */
const char *uro_impair_value_probability(const char *text, uint32_t *billionths);

/* Reads a time of at most @max, such as "50us" or "1.5ms". */
const char *uro_impair_value_time(const char *text, uro_time max, uro_time *ns);

/* Reads "1500", "64kB" or "1MB". */
const char *uro_impair_value_bytes(const char *text, uint64_t *bytes);

/* Reads "10Gbit", "100Mbit" or "64kbit", per second. */
const char *uro_impair_value_rate(const char *text, uint64_t *bits);

/* Reads a number of 64 bits in decimal digits. */
bool uro_impair_value_number(const char *text, uint64_t *number);
