/* SPDX-License-Identifier: BSD-3-Clause */
/* value.h - the values in the text of a plan: probabilities, times, sizes, rates, numbers.
 *
 * Each function reads a whole text. It returns NULL, or a text for a message that describes the
 * correct form.
 */
#pragma once

#include "impair/plan.h"

/* Reads "0.5%" or "0.005" as a probability. */
const char *uro_impair_value_probability(const char *text, uint32_t *billionths);

/* Reads "50us", "1.5ms" and so on: at most @max. */
const char *uro_impair_value_time(const char *text, uro_time max, uro_time *ns);

/* Reads "1500", "64kB" or "1MB". */
const char *uro_impair_value_bytes(const char *text, uint64_t *bytes);

/* Reads "10Gbit", "100Mbit" or "64kbit", per second. */
const char *uro_impair_value_rate(const char *text, uint64_t *bits);

/* Reads decimal digits: a number of 64 bits. */
bool uro_impair_value_number(const char *text, uint64_t *number);
