/* SPDX-License-Identifier: BSD-3-Clause */
/* parse.h - the small pieces of configuration text: numbers, words, addresses, %{VAR}. */
#pragma once

#include "wire/gid.h"

/* Cuts white space from both ends; changes @text. */
char *uro_parse_trim(char *text);

/* A letter, then letters, digits, _ and -; fewer than @size characters. */
bool uro_parse_name(const char *text, size_t size);

/* Decimal or 0x hexadecimal, the whole text. */
bool uro_parse_number(const char *text, uint64_t *number);

/* The index of @text in the NULL-terminated @words. */
bool uro_parse_word(const char *text, const char *const *words, uint32_t *index);

/* A unicast address of either version. */
bool uro_parse_address(const char *text, struct uro_gid *gid);

/* "10.0.0.1/24" or "fd00::1/64"; without a length /24 and /64. Returns NULL or what is wrong. */
const char *uro_parse_subnet(const char *text, struct uro_gid *gid, uint8_t *prefix);

/* Replaces each %{VAR} by the environment variable VAR. Returns NULL or what is wrong. */
const char *uro_parse_expand(const char *text, char *out, size_t size);
