/* SPDX-License-Identifier: BSD-3-Clause */
/* gid_text.c - the text of GIDs and MAC addresses. Addresses are written in the form of RFC 5952,
 * and read in any usual form. */
#include <stdio.h>

#include "wire/bytes.h"
#include "wire/gid.h"

#define GROUPS 8u /* groups of 16 bits, separated by colons */

struct run {
    size_t first;
    size_t count;
};

/* Returns the first of the longest runs of two or more zero groups. Count 0: there is none. */
static struct run longest_zeros(const struct uro_gid *gid)
{
    struct run best = { GROUPS, 0 };
    struct run here = { 0, 0 };

    for (size_t i = 0; i < GROUPS; i++) {
        if (uro_get_be16(&gid->octets[2 * i]) != 0) {
            here = (struct run){ i + 1, 0 };
            continue;
        }
        here.count++;
        if (here.count > best.count)
            best = here;
    }
    if (best.count < 2)
        return (struct run){ GROUPS, 0 };
    return best;
}

char *uro_gid_text(const struct uro_gid *gid, char text[static URO_GID_TEXT_MAX])
{
    if (uro_gid_is_ipv4(gid)) {
        snprintf(text, URO_GID_TEXT_MAX, "%u.%u.%u.%u", gid->octets[12], gid->octets[13],
                 gid->octets[14], gid->octets[15]);
        return text;
    }

    const struct run zeros = longest_zeros(gid);
    size_t used = 0;
    bool colon = false;

    text[0] = '\0';
    for (size_t i = 0; i < GROUPS; i++) {
        if (i == zeros.first) {
            used += (size_t)snprintf(text + used, URO_GID_TEXT_MAX - used, "::");
            colon = false;
            i += zeros.count - 1;
            continue;
        }
        used += (size_t)snprintf(text + used, URO_GID_TEXT_MAX - used, colon ? ":%x" : "%x",
                                 uro_get_be16(&gid->octets[2 * i]));
        colon = true;
    }
    return text;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Reads one to @max hexadecimal digits. Returns the number of digits, or 0. */
static int take_hex(const char **text, int max, unsigned *value)
{
    int digits = 0;

    *value = 0;
    while (digits < max && hex_value(**text) >= 0) {
        *value = *value << 4 | (unsigned)hex_value(**text);
        (*text)++;
        digits++;
    }
    return digits;
}

/* Reads a number from 0 to 255 without leading zeros. */
static bool take_decimal(const char **text, uint8_t *value)
{
    const char *start = *text;
    unsigned number = 0;

    while (**text >= '0' && **text <= '9' && *text - start < 3)
        number = number * 10 + (unsigned)(*(*text)++ - '0');
    *value = (uint8_t)number;
    return *text != start && number <= 255 && (*start != '0' || *text - start == 1);
}

/* Parses four decimal numbers with dots between them, up to the end of @text. */
static bool parse_ipv4(const char *text, uint8_t out[static 4])
{
    for (int i = 0; i < 4; i++) {
        if (i > 0 && *text++ != '.')
            return false;
        if (!take_decimal(&text, &out[i]))
            return false;
    }
    return *text == '\0';
}

struct groups {
    uint8_t octets[16];
    size_t length; /* octets read */
    size_t gap;    /* offset of "::" in octets; SIZE_MAX: the text has none */
};

/* Reads groups up to the end of the text. */
static bool take_groups(const char *text, struct groups *groups)
{
    unsigned value;

    while (*text != '\0') {
        if (text[0] == ':' && text[1] == ':' && groups->gap == SIZE_MAX) {
            groups->gap = groups->length;
            text += 2;
            continue;
        }
        const bool follows_gap = groups->length == 0 || groups->gap == groups->length;
        if (!follows_gap && *text++ != ':')
            return false;
        if (groups->length <= 12 && parse_ipv4(text, &groups->octets[groups->length])) {
            groups->length += 4;
            return true;
        }
        if (groups->length > 14 || take_hex(&text, 4, &value) == 0)
            return false;
        uro_put_be16(&groups->octets[groups->length], (uint16_t)value);
        groups->length += 2;
    }
    return true;
}

bool uro_gid_parse(const char *text, struct uro_gid *gid)
{
    uint8_t ipv4[4];
    if (parse_ipv4(text, ipv4)) {
        *gid = uro_gid_from_ipv4(ipv4);
        return true;
    }

    struct groups groups = { .gap = SIZE_MAX };
    if (!take_groups(text, &groups))
        return false;
    if (groups.gap == SIZE_MAX ? groups.length != 16 : groups.length > 14)
        return false;

    const size_t before = groups.gap == SIZE_MAX ? 16 : groups.gap;
    const size_t after = groups.length - before;
    *gid = (struct uro_gid){ { 0 } };
    memcpy(gid->octets, groups.octets, before);
    memcpy(&gid->octets[16 - after], &groups.octets[before], after);
    return true;
}

bool uro_mac_parse(const char *text, struct uro_mac *mac)
{
    struct uro_mac read;
    unsigned value;

    for (int i = 0; i < 6; i++) {
        if (i > 0 && *text++ != ':')
            return false;
        if (take_hex(&text, 2, &value) != 2)
            return false;
        read.octets[i] = (uint8_t)value;
    }
    if (*text != '\0')
        return false;
    *mac = read;
    return true;
}
