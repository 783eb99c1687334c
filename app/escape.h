/* SPDX-License-Identifier: BSD-3-Clause */
/* escape.h - writes text from files, captures and names so that a reader of the format takes it
 * only as text. For a terminal see base/utf8.h.
 */
#pragma once

#include <stdio.h>

/* Writes @text as a JSON string, with its quotation marks. The string can also be inside a script
 * element of HTML. Each byte that is not valid UTF-8 becomes U+FFFD. */
void uro_escape_json(FILE *out, const char *text);

/* Writes @text as the value of a label in the text format of Prometheus, with its quotation
 * marks. */
void uro_escape_label(FILE *out, const char *text);
