/* SPDX-License-Identifier: BSD-3-Clause */
/* gid.h - a GID is an IP address: IPv6 unchanged, IPv4 as ::ffff:a.b.c.d. */
#pragma once

#include <string.h>

#include "base/defs.h"

struct uro_gid {
    uint8_t octets[16];
};

struct uro_mac {
    uint8_t octets[6];
};

static inline bool uro_gid_equal(const struct uro_gid *a, const struct uro_gid *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Returns a hash for tables of addresses. */
static inline uint64_t uro_gid_hash(const struct uro_gid *gid)
{
    uint64_t parts[2];

    memcpy(parts, gid->octets, sizeof parts);
    return parts[0] * 0x9e3779b97f4a7c15u ^ parts[1];
}

/* uro_gid_is_ipv4() is inline, because every packet needs this check. */
#define URO_GID_IPV4_MAPPED 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff

static inline bool uro_gid_is_ipv4(const struct uro_gid *gid) /* ::ffff:0:0/96 */
{
    static const uint8_t mapped[12] = { URO_GID_IPV4_MAPPED };

    return memcmp(gid->octets, mapped, sizeof mapped) == 0;
}

static inline bool uro_gid_is_multicast(const struct uro_gid *gid)
{
    if (uro_gid_is_ipv4(gid))
        return gid->octets[12] >> 4 == 0xe; /* 224.0.0.0/4 */
    return gid->octets[0] == 0xff;
}

static inline struct uro_gid uro_gid_from_ipv4(const uint8_t address[static 4])
{
    struct uro_gid gid = { { URO_GID_IPV4_MAPPED } };

    memcpy(&gid.octets[12], address, 4);
    return gid;
}

bool uro_gid_is_zero(const struct uro_gid *gid);
bool uro_gid_is_loopback(const struct uro_gid *gid);   /* 127.0.0.0/8, ::1 */
bool uro_gid_is_link_local(const struct uro_gid *gid); /* fe80::/10 */

/* Returns fe80:: with the modified EUI-64 of @mac: the default GID of a RoCE port. */
struct uro_gid uro_gid_link_local(const struct uro_mac *mac);

/* Returns the modified EUI-64 of @mac in host order: the node GUID. */
uint64_t uro_guid_from_mac(const struct uro_mac *mac);

/* Returns whether the first @prefix bits of both addresses are equal. */
bool uro_gid_same_subnet(const struct uro_gid *a, const struct uro_gid *b, unsigned prefix);

#define URO_GID_TEXT_MAX 46u
/* Writes the address as text, such as "10.0.0.1" or "fe80::1", with a terminating NUL. Returns
 * @text. */
char *uro_gid_text(const struct uro_gid *gid, char text[static URO_GID_TEXT_MAX]);

/* Parses an IPv4 or IPv6 address. Returns false when @text is neither. */
bool uro_gid_parse(const char *text, struct uro_gid *gid);
/* Parses a MAC address. Returns false when @text is not a MAC address. */
bool uro_mac_parse(const char *text, struct uro_mac *mac);
