/* SPDX-License-Identifier: BSD-3-Clause */
/* grh.h - the 40 octets before a received datagram: where it came from, as IP says it.
 *
 * An IPv6 header fills them; an IPv4 header stands at their end, behind 20 zeros.
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

/* False when neither header is there. Others leave the first 20 octets as they were, so that those
 * may look like IPv6: then a checksum that is right says IPv4. */
bool uro_grh_decode(const uint8_t in[static URO_GRH_LEN], struct uro_grh *grh);
