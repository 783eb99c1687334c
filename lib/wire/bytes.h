/* SPDX-License-Identifier: BSD-3-Clause */
/* bytes.h - the only place where network byte order is spelled out. */
#pragma once

#include "base/defs.h"

static inline uint16_t uro_get_be16(const uint8_t p[static 2])
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t uro_get_be24(const uint8_t p[static 3])
{
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t uro_get_be32(const uint8_t p[static 4])
{
    return (uint32_t)p[0] << 24 | uro_get_be24(p + 1);
}

static inline uint64_t uro_get_be64(const uint8_t p[static 8])
{
    return (uint64_t)uro_get_be32(p) << 32 | uro_get_be32(p + 4);
}

static inline void uro_put_be16(uint8_t p[static 2], uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static inline void uro_put_be24(uint8_t p[static 3], uint32_t v)
{
    URO_ASSERT(v <= 0xffffff);
    p[0] = (uint8_t)(v >> 16);
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)v;
}

static inline void uro_put_be32(uint8_t p[static 4], uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

static inline void uro_put_be64(uint8_t p[static 8], uint64_t v)
{
    uro_put_be32(p, (uint32_t)(v >> 32));
    uro_put_be32(p + 4, (uint32_t)v);
}

/* The ICRC alone is stored least significant octet first. */
static inline uint32_t uro_get_le32(const uint8_t p[static 4])
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static inline void uro_put_le32(uint8_t p[static 4], uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

/* What is left of a received packet. */
struct uro_reader {
    const uint8_t *at;
    const uint8_t *end;
};

/* Takes the next @len octets, or returns NULL and takes nothing when fewer are left. */
static inline const uint8_t *uro_take(struct uro_reader *reader, size_t len)
{
    const uint8_t *at = reader->at;
    if ((size_t)(reader->end - at) < len)
        return NULL;
    reader->at += len;
    return at;
}
