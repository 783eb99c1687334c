/* SPDX-License-Identifier: BSD-3-Clause */
/* parse.c - pieces of configuration text. */
#include "host/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_IPV4_DEFAULT 24u
#define PREFIX_IPV6_DEFAULT 64u

char *uro_parse_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

bool uro_parse_name(const char *text, size_t size)
{
    if (!isalpha((unsigned char)text[0]) || strlen(text) >= size)
        return false;
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && *text != '_' && *text != '-')
            return false;
    return true;
}

bool uro_parse_number(const char *text, uint64_t *number)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *number = strtoull(text, &end, hex ? 16 : 10);
    return errno == 0 && *end == '\0' && end > text + (hex ? 2 : 0);
}

bool uro_parse_word(const char *text, const char *const *words, uint32_t *index)
{
    for (uint32_t i = 0; words[i] != NULL; i++) {
        if (strcmp(text, words[i]) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

bool uro_parse_address(const char *text, struct uro_gid *gid)
{
    static const uint8_t any[4];

    if (!uro_gid_parse(text, gid) || uro_gid_is_zero(gid) || uro_gid_is_multicast(gid))
        return false;
    const uint8_t *v4 = &gid->octets[12];
    return !uro_gid_is_ipv4(gid) || (memcmp(v4, any, sizeof any) != 0 && v4[0] < 240);
}

const char *uro_parse_subnet(const char *text, struct uro_gid *gid, uint8_t *prefix)
{
    char address[URO_GID_TEXT_MAX];
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
    uint64_t bits;

    if (length >= sizeof address)
        return "must be an address such as 10.0.0.1/24 or fd00::1/64";
    memcpy(address, text, length);
    address[length] = '\0';
    if (!uro_parse_address(address, gid))
        return "must be an address such as 10.0.0.1/24 or fd00::1/64";
    bool v4 = uro_gid_is_ipv4(gid);
    bits = v4 ? PREFIX_IPV4_DEFAULT : PREFIX_IPV6_DEFAULT;
    if (slash != NULL &&
        (!uro_parse_number(slash + 1, &bits) || bits == 0 || bits > (v4 ? 32u : 128u)))
        return v4 ? "the prefix length must be from 1 to 32"
                  : "the prefix length must be from 1 to 128";
    *prefix = (uint8_t)bits;
    return NULL;
}

const char *uro_parse_expand(const char *text, char *out, size_t size)
{
    size_t used = 0;

    while (*text != '\0') {
        const char *piece = text;
        size_t length = 1;
        char name[64];
        if (text[0] == '%' && text[1] == '{') {
            const char *end = strchr(text, '}');
            if (end == NULL || (size_t)(end - text) - 2 >= sizeof name)
                return "%{ without a } that closes it";
            memcpy(name, text + 2, (size_t)(end - text) - 2);
            name[end - text - 2] = '\0';
            piece = getenv(name);
            if (piece == NULL)
                return "names an environment variable that is not set";
            length = strlen(piece);
            text = end;
        }
        if (used + length >= size)
            return "is too long";
        memcpy(out + used, piece, length);
        used += length;
        text++;
    }
    out[used] = '\0';
    return NULL;
}
