/* SPDX-License-Identifier: BSD-3-Clause */
/* ip_cm.c - encodes and decodes the header with the IP addresses: version, port, source,
 * destination. */
#include "cm/ip_cm.h"

#include <string.h>

#include "base/mark.h"
#include "wire/bytes.h"

#define AT_IP_VERSION 1u
#define AT_PORT       2u
#define AT_SOURCE     4u
#define AT_DEST       20u
#define IPV4          0x40u
#define IPV6          0x60u
#define AT_IPV4       12u /* offset of an IPv4 address in an address of 16 bytes */

static void put_address(uint8_t *out, const struct uro_gid *address, bool v4)
{
    memset(out, 0, sizeof address->octets);
    memcpy(out + (v4 ? AT_IPV4 : 0), address->octets + (v4 ? AT_IPV4 : 0),
           sizeof address->octets - (v4 ? AT_IPV4 : 0));
}

static struct uro_gid get_address(const uint8_t *in, bool v4)
{
    struct uro_gid address;

    if (v4)
        return uro_gid_from_ipv4(in + AT_IPV4);
    memcpy(address.octets, in, sizeof address.octets);
    return address;
}

void uro_ip_cm_encode(uint8_t out[static URO_IP_CM_LEN], const struct uro_ip_cm *header)
{
    bool v4 = uro_gid_is_ipv4(&header->dest);

    URO_MARK("CM.IP");
    out[0] = 0;
    out[AT_IP_VERSION] = v4 ? IPV4 : IPV6;
    uro_put_be16(out + AT_PORT, header->source_port);
    put_address(out + AT_SOURCE, &header->source, v4);
    put_address(out + AT_DEST, &header->dest, v4);
}

bool uro_ip_cm_decode(const uint8_t in[static URO_IP_CM_LEN], struct uro_ip_cm *header)
{
    uint8_t version = in[AT_IP_VERSION] & 0xf0u;
    bool v4 = version == IPV4;

    if (in[0] != 0 || (!v4 && version != IPV6))
        return false;
    header->source_port = uro_get_be16(in + AT_PORT);
    header->source = get_address(in + AT_SOURCE, v4);
    header->dest = get_address(in + AT_DEST, v4);
    return true;
}
