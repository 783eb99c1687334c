/* SPDX-License-Identifier: BSD-3-Clause */
/* arp.c - ARP for IPv4 over Ethernet (RFC 826). */
#include "wire/arp.h"

#include "wire/ether.h"

enum {
    AT_HARDWARE = 0,
    AT_PROTOCOL = 2,
    AT_SIZES = 4,
    AT_OPERATION = 6,
    AT_SENDER_MAC = 8,
    AT_SENDER = 14,
    AT_TARGET_MAC = 18,
    AT_TARGET = 24,
};
static_assert(AT_TARGET + 4 == URO_ARP_LEN, "the offsets must cover the message");

#define HARDWARE_ETHERNET 1u
#define SIZES_MAC_IPV4    0x0604u /* six octets, four octets */
#define OPERATION_REQUEST 1u
#define OPERATION_REPLY   2u

bool uro_arp_decode(const uint8_t *in, size_t length, struct uro_arp *arp)
{
    if (length < URO_ARP_LEN || uro_get_be16(&in[AT_HARDWARE]) != HARDWARE_ETHERNET ||
        uro_get_be16(&in[AT_PROTOCOL]) != URO_ETHERTYPE_IPV4 ||
        uro_get_be16(&in[AT_SIZES]) != SIZES_MAC_IPV4)
        return false;

    const uint16_t operation = uro_get_be16(&in[AT_OPERATION]);
    if (operation != OPERATION_REQUEST && operation != OPERATION_REPLY)
        return false;

    arp->request = operation == OPERATION_REQUEST;
    memcpy(arp->sender_mac.octets, &in[AT_SENDER_MAC], sizeof arp->sender_mac.octets);
    arp->sender = uro_gid_from_ipv4(&in[AT_SENDER]);
    memcpy(arp->target_mac.octets, &in[AT_TARGET_MAC], sizeof arp->target_mac.octets);
    arp->target = uro_gid_from_ipv4(&in[AT_TARGET]);
    return true;
}

void uro_arp_encode(uint8_t out[static URO_ARP_LEN], const struct uro_arp *arp)
{
    uro_put_be16(&out[AT_HARDWARE], HARDWARE_ETHERNET);
    uro_put_be16(&out[AT_PROTOCOL], URO_ETHERTYPE_IPV4);
    uro_put_be16(&out[AT_SIZES], SIZES_MAC_IPV4);
    uro_put_be16(&out[AT_OPERATION], arp->request ? OPERATION_REQUEST : OPERATION_REPLY);
    memcpy(&out[AT_SENDER_MAC], arp->sender_mac.octets, sizeof arp->sender_mac.octets);
    memcpy(&out[AT_SENDER], &arp->sender.octets[12], 4);
    memcpy(&out[AT_TARGET_MAC], arp->target_mac.octets, sizeof arp->target_mac.octets);
    memcpy(&out[AT_TARGET], &arp->target.octets[12], 4);
}
