/* SPDX-License-Identifier: BSD-3-Clause */
/* utf8.h - text from files, captures and names, which may have any bytes. */
#pragma once

#include "base/defs.h"

/* Returns the length of the UTF-8 sequence at @text, or 0 if it is not valid. */
unsigned uro_utf8_length(const char *text);

/* Returns whether a control character begins at @text: of ASCII, or U+0080 to U+009F. */
bool uro_utf8_is_control(const char *text);

/* Replaces each byte of @text that may have an effect in a terminal by '?': control characters, and
 * bytes that are not valid UTF-8. Returns @text. */
char *uro_utf8_mask(char *text);
