/* SPDX-License-Identifier: BSD-3-Clause */
/* utf8.c - see utf8.h. */
#include "base/utf8.h"

unsigned uro_utf8_length(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    const unsigned length = c[0] < 0x80                   ? 1
                            : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                            : c[0] >= 0xe0 && c[0] < 0xf0 ? 3
                            : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                                          : 0;

    for (unsigned i = 1; i < length; i++) /* the NUL at the end stops this loop */
        if (c[i] < 0x80 || c[i] > 0xbf)
            return 0;
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90)) /* too long a form */
        return 0;
    if ((c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf4 && c[1] > 0x8f)) /* no character */
        return 0;
    return length;
}

bool uro_utf8_is_control(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    return c[0] < ' ' || c[0] == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0);
}

char *uro_utf8_mask(char *text)
{
    for (char *c = text; *c != '\0';) {
        const unsigned length = uro_utf8_length(c);
        if (length == 0 || uro_utf8_is_control(c))
            *c++ = '?';
        else
            c += length;
    }
    return text;
}
