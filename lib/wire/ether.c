/* SPDX-License-Identifier: BSD-3-Clause */
/* ether.c - Ethernet II headers, plain or with one 802.1Q tag. */
#include "wire/ether.h"

#include "base/mark.h"

enum { AT_DEST = 0, AT_SOURCE = 6, AT_TYPE = 12, AT_TAG = 14, AT_INNER_TYPE = 16 };
static_assert(AT_TYPE + 2 == URO_ETHER_LEN, "the offsets must cover the header");
static_assert(AT_INNER_TYPE + 2 == URO_ETHER_LEN_MAX, "the offsets must cover the tag");

bool uro_ether_take(struct uro_reader *reader, struct uro_ether *ether)
{
    const uint8_t *in = uro_take(reader, URO_ETHER_LEN);
    if (in == NULL)
        return false;

    memcpy(ether->dest.octets, &in[AT_DEST], sizeof ether->dest.octets);
    memcpy(ether->source.octets, &in[AT_SOURCE], sizeof ether->source.octets);
    ether->type = uro_get_be16(&in[AT_TYPE]);
    ether->tag = 0;
    ether->tagged = ether->type == URO_ETHERTYPE_VLAN;
    if (!ether->tagged)
        return true;

    if (uro_take(reader, URO_VLAN_LEN) == NULL)
        return false;
    URO_MARK("WIRE.TAG");
    ether->tag = uro_get_be16(&in[AT_TAG]);
    ether->type = uro_get_be16(&in[AT_INNER_TYPE]);
    return true;
}

size_t uro_ether_put(uint8_t out[static URO_ETHER_LEN_MAX], const struct uro_ether *ether)
{
    memcpy(&out[AT_DEST], ether->dest.octets, sizeof ether->dest.octets);
    memcpy(&out[AT_SOURCE], ether->source.octets, sizeof ether->source.octets);
    if (!ether->tagged) {
        uro_put_be16(&out[AT_TYPE], ether->type);
        return URO_ETHER_LEN;
    }
    uro_put_be16(&out[AT_TYPE], URO_ETHERTYPE_VLAN);
    uro_put_be16(&out[AT_TAG], ether->tag);
    uro_put_be16(&out[AT_INNER_TYPE], ether->type);
    return URO_ETHER_LEN_MAX;
}
