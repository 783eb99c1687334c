/* SPDX-License-Identifier: BSD-3-Clause */
/* words.h - reads what stands behind the driver in a link: ",key=value,...". */
#pragma once

#include "engine/port.h"

struct uro_word {
    const char *key;
    const char *right; /* what a value must be, as part of a sentence */
    bool (*read)(const char *value, void *into);
    bool secret; /* the value is not repeated in an error */
};

/* Reads every word of @link by one of the @count @known, into what is @into. Returns 0, or -1 with a sentence in @error
 * that names the word; @driver is for that. */
URO_NODISCARD int uro_words_read(const char *driver, const char *link, const struct uro_word *known,
                                 size_t count, void *into, char error[static URO_PORT_ERROR_MAX]);

/* A number in digits, from @least to @most and a multiple of @grain. */
bool uro_words_number(const char *text, uint32_t least, uint32_t most, uint32_t grain,
                      uint32_t *out);

/* One of two words; the first is true. */
bool uro_words_either(const char *text, const char *first, const char *second, bool *out);
