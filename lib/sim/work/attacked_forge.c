/* SPDX-License-Identifier: BSD-3-Clause */
/* attacked_forge.c - the frames of an attacker that reads all frames; see attacked.h. */
#include "sim/work/attacked.h"

#include <string.h>

#include "sim/net/forger.h"
#include "wire/bytes.h"
#include "wire/frame.h"

#define OPCODES      32u /* of a service */
#define AHEAD        5u  /* PSNs */
#define BEHIND       4u
#define ASIDE        24u /* bytes outside a range */
#define FORGED_LOW   0x30u
#define FORGED_ALL   0x40u /* forged bytes are never canary */
#define PSN_MASK     0xffffffu
#define LENGTH_HUGE  0x80000000u
#define DATAGRAM     1500u /* bytes */
#define DATAGRAM_MAX 4200u /* more than any path takes */
#define BTH_FLAGS    4u    /* bytes of the BTH before the destination QPN */
#define BTH_REST     8u    /* and after it */

static uint32_t below(struct sim_attacked *attacked, uint32_t bound)
{
    return uro_rng_below(&attacked->rng, bound);
}

static uint32_t psn_near(struct sim_attacked *attacked, uint32_t heard)
{
    if (below(attacked, 16) == 0)
        return below(attacked, PSN_MASK + 1);
    return (heard + below(attacked, AHEAD + BEHIND) - BEHIND + 1) & PSN_MASK;
}

/* A range of memory that has a key, or had one. */
struct range {
    uint32_t key;
    uint64_t address;
    uint32_t length;
};

static struct range choose_range(struct sim_attacked *attacked, const struct sim_endpoint *at)
{
    const struct sim_attacked_end *known = sim_attacked_end(at);
    unsigned section = below(attacked, SIM_MEMORY_SECTIONS + 1);

    if (section == SIM_MEMORY_SECTIONS)
        return (struct range){ known->gone_key, known->gone_range, SIM_ATTACKED_RANGE };
    return (struct range){ uro_key_number(&at->memory.keys[section]),
                           sim_memory_address(&at->memory, section, 0),
                           (uint32_t)at->memory.keys[section].length };
}

/* Chooses a key, which mostly exists, and an address, which is mostly inside its range. */
static void aim(struct sim_attacked *attacked, const struct sim_endpoint *at, uint32_t length,
                uint32_t *rkey, uint64_t *va)
{
    const struct range range = choose_range(attacked, at);
    const struct range other = choose_range(attacked, at);
    uint32_t room = length < range.length ? range.length - length : 0;

    *rkey = below(attacked, 8) == 0 ? other.key : range.key;
    if (below(attacked, 16) == 0)
        *rkey ^= 1u << below(attacked, 32);
    *va = range.address;
    if (below(attacked, 4) == 0)
        *va += room + below(attacked, 2 * ASIDE);
    else if (below(attacked, 4) == 0)
        *va -= 1 + below(attacked, ASIDE);
    else
        *va += below(attacked, room + 1);
}

/* XRC: mostly the queue of the attacked target, else the queue of another queue pair. */
static uint32_t choose_srqn(struct sim_attacked *attacked, const struct sim_endpoint *at)
{
    const struct sim_workload *load = attacked->load;
    uint32_t other = below(attacked, 8 * (SIM_PLAN_SRQS_MAX + 1));

    if (other < load->plan->srq_count[at->side])
        return uro_srq_number(load->srqs[at->side][other].srq);
    if (other == SIM_PLAN_SRQS_MAX || attacked->plan->type != URO_QPT_XRC_INI)
        return below(attacked, PSN_MASK + 1);
    return uro_srq_number(load->srqs[1][SIM_ATTACKED_SRQ].srq);
}

static void put_deth(struct sim_attacked *attacked, const struct sim_endpoint *at, uint8_t *out)
{
    struct uro_deth deth = { .qkey = SIM_ATTACKED_QKEY, .source_qpn = at->peer->qpn };

    if (below(attacked, 8) == 0)
        deth.qkey ^= 1u << below(attacked, 32);
    if (below(attacked, 4) == 0)
        deth.source_qpn = below(attacked, PSN_MASK + 1);
    uro_deth_encode(out, &deth);
}

static uint8_t *put_ext(struct sim_attacked *attacked, const struct sim_endpoint *at, unsigned one,
                        uint32_t length, uint8_t *out)
{
    struct uro_reth reth = { .length = length };
    struct uro_atomic_eth atomic = { .swap_add = below(attacked, 256), .compare = 0 };
    const struct uro_feth feth = { (uint8_t)below(attacked, 4), (uint8_t)below(attacked, 3) };
    const struct uro_aeth aeth = { .kind = (enum uro_aeth_kind)below(attacked, 4),
                                   .value = (uint8_t)below(attacked, 32),
                                   .msn = below(attacked, PSN_MASK + 1) };
    uint32_t rkey;

    if (below(attacked, 4) == 0)
        reth.length = below(attacked, 4) == 0 ? LENGTH_HUGE : below(attacked, SIM_ATTACKED_RANGE);
    aim(attacked, at, one == URO_EXT_ATOMIC ? 8 : reth.length, &reth.rkey, &reth.va);
    atomic.rkey = rkey = reth.rkey;
    atomic.va = reth.va & ~UINT64_C(7);
    if (one == URO_EXT_FETH)
        uro_feth_encode(out, &feth);
    else if (one == URO_EXT_RETH)
        uro_reth_encode(out, &reth);
    else if (one == URO_EXT_ATOMIC)
        uro_atomic_eth_encode(out, &atomic);
    else if (one == URO_EXT_AETH)
        uro_aeth_encode(out, &aeth);
    else if (one == URO_EXT_XRCETH)
        uro_put_be32(out, choose_srqn(attacked, at));
    else if (one == URO_EXT_DETH)
        put_deth(attacked, at, out);
    else if (one == URO_EXT_ATOMIC_ACK)
        uro_put_be64(out, FORGED_LOW);
    else
        uro_put_be32(out, rkey);
    return out + uro_ext_length(one);
}

static uint32_t payload_of(struct sim_attacked *attacked, const struct uro_opcode *op)
{
    uint32_t mtu = attacked->plan->pair.path_mtu;

    if (!op->payload)
        return 0;
    if (op->verb == URO_ATOMIC_WRITE)
        return 8;
    if (op->service == URO_UD)
        return below(attacked, 8) == 0 ? below(attacked, DATAGRAM_MAX) : below(attacked, DATAGRAM);
    if (op->service == URO_UC && below(attacked, 16) == 0)
        return below(attacked, 2 * mtu); /* longer than the path takes */
    if (below(attacked, 8) > 0 && !uro_place_ends(op->place))
        return mtu;
    return below(attacked, mtu + 1);
}

/* The first opcode of the service. */
static const uint8_t first_opcodes[URO_QPT_COUNT] = {
    [URO_QPT_RC] = 0x00,
    [URO_QPT_UC] = 0x20,
    [URO_QPT_UD] = 0x60,
    [URO_QPT_XRC_INI] = 0xa0,
};

static uint8_t choose_opcode(struct sim_attacked *attacked)
{
    uint8_t first = first_opcodes[attacked->plan->type];
    bool any = first != 0 && below(attacked, 16) == 0;
    uint8_t opcode;

    do
        opcode = (uint8_t)(any ? below(attacked, 256) : first + below(attacked, OPCODES));
    while (uro_opcodes[opcode].name == NULL);
    return opcode;
}

static void forge_packet(struct sim_attacked *attacked, struct sim_endpoint *at, bool cut)
{
    struct sim_forged forged;
    uint8_t opcode = choose_opcode(attacked);
    const struct uro_opcode *op = &uro_opcodes[opcode];
    uint32_t length = payload_of(attacked, op);

    sim_forger_begin(&forged, at->peer->host, at->host, attacked->plan->pair.v6 ? 0 : 1);
    forged.bth =
        (struct uro_bth){ .opcode = opcode,
                          .migrated = true,
                          .solicited = below(attacked, 2) == 0,
                          .pad_count = (uint8_t)(-length & 3u),
                          .pkey = URO_PKEY_DEFAULT,
                          .dest_qpn = at->qpn,
                          .ack_req = below(attacked, 2) == 0,
                          .psn = psn_near(attacked, sim_attacked_end(at)->heard[op->role]) };
    size_t headers = forged.length;
    for (unsigned i = 0; i < URO_EXT_COUNT; i++)
        if (op->ext & 1u << i)
            forged.length =
                (size_t)(put_ext(attacked, at, 1u << i, length, forged.octets + forged.length) -
                         forged.octets);
    for (uint32_t i = 0; i < length; i++)
        forged.octets[forged.length++] = (uint8_t)(FORGED_LOW + below(attacked, FORGED_ALL));
    for (uint32_t i = 0; i < forged.bth.pad_count; i++)
        forged.octets[forged.length++] = 0;
    if (cut) {
        forged.length = headers + below(attacked, (uint32_t)(forged.length - headers) + 1);
        forged.bth.pad_count = (uint8_t)below(attacked, 4);
    }
    /* The next frame may continue this message. */
    if (op->service == URO_UC && below(attacked, 2) == 0)
        sim_attacked_end(at)->heard[op->role] = forged.bth.psn;
    sim_forger_deliver(&forged, at->host, (uint16_t)(0xc000u | below(attacked, 0x4000)));
}

void sim_attacked_remember(struct sim_attacked *attacked, const struct sim_endpoint *to,
                           const struct uro_frame *frame)
{
    struct sim_attacked_frame *kept =
        &attacked->frames[attacked->frame_count++ % SIM_ATTACKED_FRAMES];
    const uint8_t *from = frame->network - URO_ETHER_LEN;
    size_t length = (size_t)(frame->body - from) + frame->body_length;

    kept->length = 0;
    if (length > sizeof kept->octets)
        return;
    memcpy(kept->octets, from, length);
    kept->length = (uint32_t)length;
    kept->to = to;
}

/* Chooses a byte to change, never in the destination QPN: no other queue pair is attacked. */
static uint32_t choose_octet(struct sim_attacked *attacked, uint32_t bth, uint32_t length)
{
    if (below(attacked, 4) == 0)
        return bth + below(attacked, BTH_FLAGS);
    return bth + BTH_REST + below(attacked, length - URO_ICRC_LEN - bth - BTH_REST);
}

/* Sends a frame again that the attacker read, unchanged or changed. */
static void repeat(struct sim_attacked *attacked, bool change, bool cut)
{
    const struct sim_attacked_frame *kept = &attacked->frames[below(attacked, SIM_ATTACKED_FRAMES)];
    uint32_t headers = URO_ETHER_LEN + URO_UDP_LEN;
    uint8_t octets[SIM_ATTACKED_FRAME];
    uint32_t length = kept->length;

    if (length == 0)
        return;
    memcpy(octets, kept->octets, length);
    headers += octets[URO_ETHER_LEN] >> 4 == 6 ? URO_IPV6_LEN : URO_IPV4_LEN;
    if (change) {
        octets[choose_octet(attacked, headers, length)] ^= (uint8_t)(1u << below(attacked, 8));
        sim_forger_sum(octets, length);
    }
    if (cut)
        length = 1 + below(attacked, length);
    sim_forger_raw(kept->to->host, octets, length);
}

void sim_attacked_forge(struct sim_attacked *attacked)
{
    struct sim_endpoint *at = &attacked->life.ends[below(attacked, 2)];
    uint32_t way = attacked->plan->type == URO_QPT_RC ? 0 : below(attacked, 8);

    if (way < 5)
        forge_packet(attacked, at, way == 4);
    else
        repeat(attacked, way == 6, way == 7);
}
