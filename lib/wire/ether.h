/* SPDX-License-Identifier: BSD-3-Clause */
/* ether.h - Ethernet II with at most one 802.1Q tag. */
#pragma once

#include "wire/bytes.h"
#include "wire/gid.h"

#define URO_ETHER_LEN     14u
#define URO_VLAN_LEN      4u
#define URO_ETHER_LEN_MAX (URO_ETHER_LEN + URO_VLAN_LEN)

#define URO_ETHERTYPE_IPV4 0x0800u
#define URO_ETHERTYPE_ARP  0x0806u
#define URO_ETHERTYPE_VLAN 0x8100u
#define URO_ETHERTYPE_IPV6 0x86ddu

struct uro_ether {
    struct uro_mac dest;
    struct uro_mac source;
    bool tagged;
    uint16_t tag;  /* 802.1Q TCI (PCP, DEI, VID); meaningful when tagged */
    uint16_t type; /* EtherType of the payload, after the tag */
};

#define URO_VLAN_MAX 4094u /* largest VLAN ID; 4095 is reserved */

/* Tags the frame for a VLAN, with the priority of an IB service level. With @vlan 0, the frame has
 * no tag. */
static inline void uro_ether_tag(struct uro_ether *ether, uint16_t vlan, uint8_t service_level)
{
    ether->tagged = vlan != 0;
    ether->tag = (uint16_t)((service_level & 7u) << 13 | vlan);
}

/* Returns whether a device on @vlan accepts the frame. A device without a VLAN (0) accepts untagged
 * frames and priority tags, whose VLAN ID is 0. */
static inline bool uro_ether_in_vlan(const struct uro_ether *ether, uint16_t vlan)
{
    if (!ether->tagged)
        return vlan == 0;
    return (ether->tag & 0xfff) == vlan;
}

/* Takes the header of 14 or 18 octets. Returns false when the frame is shorter. */
URO_NODISCARD bool uro_ether_take(struct uro_reader *reader, struct uro_ether *ether);

/* Writes the header. Returns its length: 14 or 18 octets. */
size_t uro_ether_put(uint8_t out[static URO_ETHER_LEN_MAX], const struct uro_ether *ether);

/* Inserts a tag into the frame at @frame. Returns the new start of the frame, which is URO_VLAN_LEN
 * octets before @frame. */
static inline uint8_t *uro_ether_insert_tag(uint8_t *frame, uint16_t tag)
{
    const size_t addresses = 2 * sizeof(struct uro_mac);
    uint8_t *const out = frame - URO_VLAN_LEN;

    memmove(out, frame, addresses);
    uro_put_be16(out + addresses, URO_ETHERTYPE_VLAN);
    uro_put_be16(out + addresses + 2, tag);
    return out;
}
