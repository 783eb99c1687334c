/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes.h - reads and writes the numbers in packets, mostly in network byte order. */
#pragma once

#include <string.h>

#include "base/defs.h"

/* Each function is one load or store, and a byte swap on little-endian machines. Compilers generate
 * worse code for separate octets. */
#define URO_BYTES(bits)                                                                            \
    static inline uint##bits##_t uro_host##bits(uint##bits##_t v, bool little)                     \
    {                                                                                              \
        return little == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) ? v                           \
                                                                     : __builtin_bswap##bits(v);   \
    }                                                                                              \
    static inline uint##bits##_t uro_get_be##bits(const uint8_t p[static bits / 8])                \
    {                                                                                              \
        uint##bits##_t v;                                                                          \
        memcpy(&v, p, sizeof v);                                                                   \
        return uro_host##bits(v, false);                                                           \
    }                                                                                              \
    static inline void uro_put_be##bits(uint8_t p[static bits / 8], uint##bits##_t v)              \
    {                                                                                              \
        v = uro_host##bits(v, false);                                                              \
        memcpy(p, &v, sizeof v);                                                                   \
    }

URO_BYTES(16)
URO_BYTES(32)
URO_BYTES(64)

static inline uint32_t uro_get_be24(const uint8_t p[static 3])
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline void uro_put_be24(uint8_t p[static 3], uint32_t v)
{
    URO_ASSERT(v <= 0xffffff);
    p[0] = (uint8_t)(v >> 16);
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)v;
}

/* Only the ICRC is stored least significant octet first. */
static inline uint32_t uro_get_le32(const uint8_t p[static 4])
{
    uint32_t v;

    memcpy(&v, p, sizeof v);
    return uro_host32(v, true);
}

static inline void uro_put_le32(uint8_t p[static 4], uint32_t v)
{
    v = uro_host32(v, true);
    memcpy(p, &v, sizeof v);
}

/* The unread rest of a received packet. */
struct uro_reader {
    const uint8_t *pos;
    const uint8_t *end;
};

/* Takes the next @len octets. When fewer are left, takes nothing and returns NULL. */
static inline const uint8_t *uro_take(struct uro_reader *reader, size_t len)
{
    const uint8_t *pos = reader->pos;
    if ((size_t)(reader->end - pos) < len)
        return NULL;
    reader->pos += len;
    return pos;
}
