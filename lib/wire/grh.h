/* SPDX-License-Identifier: BSD-3-Clause */
/* grh.h - the 40 octets before a received datagram, which contain its IP header.
 *
 * An IPv6 header fills the 40 octets. An IPv4 header is in the second half, behind 20 zeros.
 */
#pragma once

#include "wire/gid.h"

#define URO_GRH_LEN 40u

struct uro_grh {
    bool v6;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint32_t flow_label; /* IPv6 only, 20 bits */
    struct uro_gid source;
    struct uro_gid dest;
};

/* Writes a GRH. @network: an IP header of that version. */
void uro_grh_encode(uint8_t out[static URO_GRH_LEN], const uint8_t *network, bool v6);

/* Decodes a GRH. Returns false if it holds neither an IPv6 nor an IPv4 header. Some stacks do not
 * write the first 20 octets of an IPv4 GRH, so that they may look like IPv6. A correct IPv4
 * checksum therefore means IPv4. */
bool uro_grh_decode(const uint8_t in[static URO_GRH_LEN], struct uro_grh *grh);
