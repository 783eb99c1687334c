/* SPDX-License-Identifier: BSD-3-Clause */
/* forge.c - see forge.h for the contract. */
#include "io/sim/forge.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define ROCE_PORT 4791u
#define HOP_LIMIT 64u

static size_t header_length(const struct uro_forged *forged)
{
    return forged->ip.v6 ? URO_IPV6_LEN : URO_IPV4_LEN;
}

void uro_forge_begin(struct uro_forged *forged, const struct uro_station *from,
                     const struct uro_station *to, unsigned index)
{
    const struct uro_engine_config *there = &to->config.engine;
    const struct uro_engine_config *here = &from->config.engine;

    forged->ip = (struct uro_ip){ .v6 = index == 0,
                                  .dont_fragment = true,
                                  .hop_limit = HOP_LIMIT,
                                  .protocol = URO_IPPROTO_UDP,
                                  .source = here->addresses[index].gid,
                                  .dest = there->addresses[index].gid };
    const struct uro_ether ether = { .dest = there->mac,
                                     .source = here->mac,
                                     .type =
                                         forged->ip.v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    forged->network = uro_ether_put(forged->octets, &ether);
    forged->length = forged->network + header_length(forged) + URO_UDP_LEN + URO_BTH_LEN;
}

void uro_forge_raw(struct uro_station *to, const uint8_t *octets, uint32_t length)
{
    struct uro_world_frame *frame = uro_world_make_frame(to->world, length);

    memcpy(frame->octets, octets, length);
    uro_journal_frame(to->world->journal, to->world->now, "!>", frame->octets, frame->length);
    to->node.accept(&to->node, frame);
}

void uro_forge_sum(uint8_t *octets, uint32_t length)
{
    uint8_t *network = octets + URO_ETHER_LEN;
    bool v6 = network[0] >> 4 == 6;
    uint32_t summed = length - URO_ETHER_LEN - URO_ICRC_LEN;

    uro_put_le32(network + summed, uro_icrc(network, v6, summed));
}

void uro_forge_seal(struct uro_forged *forged, uint16_t source_port)
{
    size_t header = header_length(forged);
    uint8_t *network = forged->octets + forged->network;
    size_t udp_length = forged->length + URO_ICRC_LEN - forged->network - header;
    const struct uro_udp udp = { .source_port = source_port,
                                 .dest_port = ROCE_PORT,
                                 .length = (uint16_t)udp_length };

    forged->ip.payload_length = (uint16_t)udp_length;
    (void)uro_ip_put(network, &forged->ip);
    uro_udp_encode(network + header, &udp);
    uro_bth_encode(network + header + URO_UDP_LEN, &forged->bth);
    uro_put_le32(forged->octets + forged->length,
                 uro_icrc(network, forged->ip.v6, forged->length - forged->network));
    forged->length += URO_ICRC_LEN;
}

void uro_forge_deliver(struct uro_forged *forged, struct uro_station *to, uint16_t source_port)
{
    uro_forge_seal(forged, source_port);
    uro_forge_raw(to, forged->octets, (uint32_t)forged->length);
}
