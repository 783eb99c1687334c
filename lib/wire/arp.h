/* SPDX-License-Identifier: BSD-3-Clause */
/* arp.h - ARP for IPv4 over Ethernet (RFC 826). */
#pragma once

#include "wire/gid.h"

#define URO_ARP_LEN 28u

struct uro_arp {
    bool request; /* true: a request; false: a reply */
    struct uro_mac sender_mac;
    struct uro_gid sender; /* IPv4-mapped */
    struct uro_mac target_mac;
    struct uro_gid target;
};

/* Reads an ARP message. Returns false when it is too short, or not an ARP request or reply for IPv4
 * over Ethernet. */
URO_NODISCARD bool uro_arp_decode(const uint8_t *in, size_t length, struct uro_arp *arp);
void uro_arp_encode(uint8_t out[static URO_ARP_LEN], const struct uro_arp *arp);
