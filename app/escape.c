/* SPDX-License-Identifier: BSD-3-Clause */
/* escape.c - see escape.h. */
#include "escape.h"

#include "base/utf8.h"

void uro_escape_json(FILE *out, const char *text)
{
    (void)putc('"', out);
    while (*text != '\0') {
        const unsigned length = uro_utf8_length(text);
        if (length == 0)
            (void)fputs("\\ufffd", out);
        else if (*text == '"' || *text == '\\')
            (void)fprintf(out, "\\%c", *text);
        else if (length == 1 && (uro_utf8_is_control(text) || *text == '<'))
            (void)fprintf(out, "\\u%04x", (unsigned)*text);
        else if (uro_utf8_is_control(text))
            (void)fprintf(out, "\\u%04x", (unsigned)(unsigned char)text[1]);
        else
            (void)fwrite(text, 1, length, out);
        text += length > 0 ? length : 1;
    }
    (void)putc('"', out);
}

void uro_escape_label(FILE *out, const char *text)
{
    (void)putc('"', out);
    while (*text != '\0') {
        const unsigned length = uro_utf8_length(text);
        if (*text == '"' || *text == '\\')
            (void)fprintf(out, "\\%c", *text);
        else if (length == 0 || uro_utf8_is_control(text))
            (void)putc('?', out);
        else
            (void)fwrite(text, 1, length, out);
        text += length > 0 ? length : 1;
    }
    (void)putc('"', out);
}
