/* SPDX-License-Identifier: BSD-3-Clause */
/* flow.c - see flow.h. */
#include "impair/flow.h"

#include "impair/hash.h"
#include "wire/bth.h"
#include "wire/ether.h"
#include "wire/ip.h"
#include "wire/opcode.h"

#define AT_ETHER_TYPE        12u
#define VLAN_LEN             4u
#define ETHER_TYPE_VLAN      0x8100u
#define ETHER_TYPE_IPV4      0x0800u
#define ETHER_TYPE_IPV6      0x86ddu
#define IPV4_WITHOUT_OPTIONS 0x45u
#define AT_IPV4_PROTOCOL     9u
#define AT_IPV4_SOURCE       12u
#define AT_IPV4_DEST         16u
#define AT_IPV6_NEXT         6u
#define AT_IPV6_SOURCE       8u
#define AT_IPV6_DEST         24u
#define AT_UDP_DEST          2u
#define QPN_CM               1u
#define PSN_MASK             0xffffffu
#define BEHIND_MAX           0x10000u /* a PSN that is further behind begins a new connection */

/* ---- packets -------------------------------------------------------------- */

static enum uro_impair_kind kind_of(const struct uro_bth *bth)
{
    const struct uro_opcode *op = &uro_opcodes[bth->opcode];

    if (op->name == NULL)
        return URO_IMPAIR_OTHER;
    if (bth->dest_qpn == QPN_CM)
        return URO_IMPAIR_CM;
    if (op->service == URO_CNP)
        return URO_IMPAIR_CNP;
    if (op->service == URO_UD)
        return URO_IMPAIR_DATAGRAM;
    if (op->role == URO_REQUEST)
        return URO_IMPAIR_REQUEST;
    return op->operation == URO_READ ? URO_IMPAIR_READ : URO_IMPAIR_ACK;
}

static uint32_t hash_ipv6(const uint8_t *address)
{
    return (uint32_t)uro_impair_mix(uro_get_be64(address) +
                                    uro_impair_mix(uro_get_be64(address + 8)));
}

/* Reads the IP header. Returns the offset of the UDP header, or 0 if there is none. */
static uint32_t read_network(struct uro_impair_packet *packet, const uint8_t *head, uint32_t length)
{
    const bool sent = packet->direction == URO_IMPAIR_TX;
    uint32_t at = AT_ETHER_TYPE;

    if (length < at + 2)
        return 0;
    if (uro_get_be16(head + at) == ETHER_TYPE_VLAN)
        at += VLAN_LEN;
    packet->network_at = at + 2;
    const uint8_t *ip = head + packet->network_at;
    if (length < packet->network_at + URO_IPV4_LEN)
        return 0;
    packet->v6 = uro_get_be16(head + at) == ETHER_TYPE_IPV6;
    if (packet->v6) {
        if (length < packet->network_at + URO_IPV6_LEN || ip[AT_IPV6_NEXT] != URO_IPPROTO_UDP)
            return 0;
        packet->peer = hash_ipv6(ip + (sent ? AT_IPV6_DEST : AT_IPV6_SOURCE));
        return packet->network_at + URO_IPV6_LEN;
    }
    if (uro_get_be16(head + at) != ETHER_TYPE_IPV4 || ip[0] != IPV4_WITHOUT_OPTIONS ||
        ip[AT_IPV4_PROTOCOL] != URO_IPPROTO_UDP)
        return 0;
    packet->peer = uro_get_be32(ip + (sent ? AT_IPV4_DEST : AT_IPV4_SOURCE));
    return packet->network_at + URO_IPV4_LEN;
}

void uro_impair_packet_read(struct uro_impair_packet *packet, enum uro_impair_direction direction,
                            const uint8_t *head, uint32_t length)
{
    struct uro_bth bth;

    *packet = (struct uro_impair_packet){ .direction = direction, .kind = URO_IMPAIR_OTHER };
    const uint32_t udp_at = read_network(packet, head, length);
    if (udp_at == 0 || length < udp_at + URO_UDP_LEN + URO_BTH_LEN ||
        uro_get_be16(head + udp_at + AT_UDP_DEST) != URO_ROCE_PORT) {
        packet->peer = 0;
        return;
    }
    packet->bth_at = udp_at + URO_UDP_LEN;
    uro_bth_decode(head + packet->bth_at, &bth);
    packet->kind = kind_of(&bth);
    packet->psn = bth.psn;
    packet->qpn = packet->kind == URO_IMPAIR_OTHER ? 0 : bth.dest_qpn;
    packet->payload_at = packet->bth_at + URO_BTH_LEN + uro_opcodes[bth.opcode].ext_length;
}

/* ---- flows ---------------------------------------------------------------- */

static bool fits(const struct uro_impair_rule *rule, const struct uro_impair_flow *flow)
{
    return (rule->directions >> flow->direction & 1) != 0 && (rule->kinds >> flow->kind & 1) != 0 &&
           (!rule->has_qpn || rule->qpn == flow->qpn);
}

void uro_impair_flow_plan(struct uro_impair_flow *flow, const struct uro_impair_plan *plan)
{
    const uint64_t name =
        (uint64_t)(flow->direction * URO_IMPAIR_KINDS + flow->kind) << 32 | flow->number;

    flow->key = uro_impair_mix(plan->seed + uro_impair_mix(name + 1));
    flow->rules = 0;
    flow->in_burst = 0;
    for (uint32_t i = 0; i < plan->rule_count; i++)
        if (fits(&plan->rules[i], flow))
            flow->rules |= UINT32_C(1) << i;
}

static void begin(struct uro_impair_flow *flow, const struct uro_impair_plan *plan,
                  const struct uro_impair_packet *packet, uint32_t number)
{
    *flow = (struct uro_impair_flow){ .direction = packet->direction,
                                      .kind = packet->kind,
                                      .qpn = packet->qpn,
                                      .peer = packet->peer,
                                      .number = number,
                                      .replay_at = UINT32_MAX,
                                      .used = true };
    uro_impair_flow_plan(flow, plan);
}

static bool is_of(const struct uro_impair_flow *flow, const struct uro_impair_packet *packet)
{
    return flow->qpn == packet->qpn && flow->peer == packet->peer && flow->kind == packet->kind &&
           flow->direction == packet->direction;
}

static uint32_t slot_of(const struct uro_impair_packet *packet)
{
    const uint64_t which = packet->direction * URO_IMPAIR_KINDS + packet->kind;
    const uint64_t name = (uint64_t)packet->peer << 32 | packet->qpn;

    return (uint32_t)uro_impair_mix(name + uro_impair_mix(which + 1)) % URO_IMPAIR_FLOW_SLOTS;
}

static struct uro_impair_flow *search(struct uro_impair_flows *flows,
                                      const struct uro_impair_plan *plan,
                                      const struct uro_impair_packet *packet)
{
    uint32_t slot = slot_of(packet);

    while (flows->slots[slot].used && !is_of(&flows->slots[slot], packet))
        slot = (slot + 1) % URO_IMPAIR_FLOW_SLOTS;
    struct uro_impair_flow *flow = &flows->slots[slot];
    if (flow->used)
        return flow;
    if (flows->count == URO_IMPAIR_FLOWS_MAX) {
        flow = &flows->others[packet->direction][packet->kind];
        if (!flow->used)
            begin(flow, plan, packet, URO_IMPAIR_FLOWS_MAX);
        return flow;
    }
    flows->count++;
    begin(flow, plan, packet, flows->numbers[packet->direction][packet->kind]++);
    return flow;
}

static struct uro_impair_flow *find(struct uro_impair_flows *flows,
                                    const struct uro_impair_plan *plan,
                                    const struct uro_impair_packet *packet)
{
    struct uro_impair_flow **recent = &flows->recent[packet->direction][packet->kind];

    if (*recent == NULL || !is_of(*recent, packet))
        *recent = search(flows, plan, packet);
    return *recent;
}

static bool has_repeats(enum uro_impair_kind kind)
{
    return kind == URO_IMPAIR_REQUEST || kind == URO_IMPAIR_ACK || kind == URO_IMPAIR_READ;
}

struct uro_impair_flow *uro_impair_flow_find(struct uro_impair_flows *flows,
                                             const struct uro_impair_plan *plan,
                                             const struct uro_impair_packet *packet)
{
    struct uro_impair_flow *flow = find(flows, plan, packet);

    if (!has_repeats(packet->kind))
        return flow;
    if (flow->count > 0 && ((flow->psn - packet->psn) & PSN_MASK) <= BEHIND_MAX) {
        struct uro_impair_packet repeat = *packet;
        repeat.kind = URO_IMPAIR_REPEAT;
        return find(flows, plan, &repeat);
    }
    flow->psn = packet->psn;
    return flow;
}

void uro_impair_flow_replan(struct uro_impair_flows *flows, const struct uro_impair_plan *plan)
{
    for (uint32_t i = 0; i < URO_IMPAIR_FLOW_SLOTS; i++)
        if (flows->slots[i].used)
            uro_impair_flow_plan(&flows->slots[i], plan);
    for (unsigned direction = 0; direction < URO_IMPAIR_DIRECTIONS; direction++)
        for (unsigned kind = 0; kind < URO_IMPAIR_KINDS; kind++)
            if (flows->others[direction][kind].used)
                uro_impair_flow_plan(&flows->others[direction][kind], plan);
}
