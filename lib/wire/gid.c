/* SPDX-License-Identifier: BSD-3-Clause */
/* gid.c - predicates of addresses, and addresses made from MAC addresses. Their text form is in
 * gid_text.c. */
#include "wire/gid.h"

#include "wire/bytes.h"

bool uro_gid_is_zero(const struct uro_gid *gid)
{
    static const struct uro_gid zero;
    return uro_gid_equal(gid, &zero);
}

bool uro_gid_is_loopback(const struct uro_gid *gid)
{
    static const struct uro_gid one = { { [15] = 1 } };

    return uro_gid_is_ipv4(gid) ? gid->octets[12] == 127 : uro_gid_equal(gid, &one);
}

bool uro_gid_is_link_local(const struct uro_gid *gid)
{
    return gid->octets[0] == 0xfe && (gid->octets[1] & 0xc0) == 0x80;
}

/* RFC 4291, appendix A: ff:fe in the middle, and the universal/local bit inverted */
static void eui64(uint8_t out[static 8], const struct uro_mac *mac)
{
    memcpy(out, mac->octets, 3);
    out[0] ^= 0x02;
    out[3] = 0xff;
    out[4] = 0xfe;
    memcpy(&out[5], &mac->octets[3], 3);
}

struct uro_gid uro_gid_link_local(const struct uro_mac *mac)
{
    struct uro_gid gid = { { 0xfe, 0x80 } };

    eui64(&gid.octets[8], mac);
    return gid;
}

uint64_t uro_guid_from_mac(const struct uro_mac *mac)
{
    uint8_t octets[8];

    eui64(octets, mac);
    return uro_get_be64(octets);
}

bool uro_gid_same_subnet(const struct uro_gid *a, const struct uro_gid *b, unsigned prefix)
{
    URO_ASSERT(prefix <= 128);
    const unsigned whole = prefix / 8;
    const unsigned rest = prefix % 8;

    if (memcmp(a->octets, b->octets, whole) != 0)
        return false;
    return rest == 0 || (a->octets[whole] ^ b->octets[whole]) >> (8 - rest) == 0;
}
