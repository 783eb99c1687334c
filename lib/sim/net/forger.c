/* SPDX-License-Identifier: BSD-3-Clause */
/* forger.c - see forger.h for the contract. */
#include "sim/net/forger.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define ROCE_PORT 4791u
#define HOP_LIMIT 64u

static size_t header_length(const struct sim_forged *forged)
{
    return forged->ip.v6 ? URO_IPV6_LEN : URO_IPV4_LEN;
}

void sim_forger_begin(struct sim_forged *forged, const struct sim_host *from,
                      const struct sim_host *to, unsigned index)
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

void sim_forger_raw(struct sim_host *to, const uint8_t *octets, uint32_t length)
{
    struct sim_world_frame *frame = sim_world_make_frame(to->world, length);

    memcpy(frame->octets, octets, length);
    sim_journal_frame(to->world->journal, to->world->now, "!>", frame->octets, frame->length);
    to->node.accept(&to->node, frame);
}

void sim_forger_sum(uint8_t *octets, uint32_t length)
{
    uint8_t *network = octets + URO_ETHER_LEN;
    bool v6 = network[0] >> 4 == 6;
    uint32_t summed = length - URO_ETHER_LEN - URO_ICRC_LEN;

    uro_put_le32(network + summed, uro_icrc(network, v6, summed));
}

void sim_forger_seal(struct sim_forged *forged, uint16_t source_port)
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

void sim_forger_deliver(struct sim_forged *forged, struct sim_host *to, uint16_t source_port)
{
    sim_forger_seal(forged, source_port);
    sim_forger_raw(to, forged->octets, (uint32_t)forged->length);
}
