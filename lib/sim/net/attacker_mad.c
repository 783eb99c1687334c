/* SPDX-License-Identifier: BSD-3-Clause */
/* attacker_mad.c - see attacker_mad.h for the contract. */
#include "sim/net/attacker_mad.h"

#include <string.h>

#include "sim/net/forger.h"
#include "wire/bytes.h"

#define LONGER_MAX 1024u /* octets more than a management datagram has */
#define HEADER     4u    /* octets that say what class of message it is, and how to take it */
#define AT_LOCAL   24u   /* where a message about a connection has the numbers of both sides */
#define AT_REMOTE  28u
#define FILLER     0x30u

enum way { AGAIN, SHORT, LONG, KEY, CLASS, SERVICE, REMOTE_ID, LOCAL_ID, CUT, WAYS };

static uint32_t below(struct sim_attacker *attacker, uint32_t bound)
{
    return uro_rng_below(&attacker->speaker, bound);
}

/* What nobody takes for something new, or for the answer that is waited for. */
static bool fits(enum way way, enum uro_cm_kind kind)
{
    bool asks = kind == URO_CM_REQ || kind == URO_CM_SIDR_REQ;
    /* A DREP to a request whose number was changed is heard as well: changed once more it could be right. */
    bool settled = kind == URO_CM_RTU || kind == URO_CM_DREQ;

    if (way == AGAIN)
        return !asks;
    return settled || (way != REMOTE_ID && way != LOCAL_ID);
}

static void flip(struct sim_attacker *attacker, uint8_t *octet)
{
    *octet ^= (uint8_t)(1u << below(attacker, 8));
}

/* The queue pair of whom the message was for, if he read where that said its number. */
static uint64_t qpn_of(const struct sim_attacker *attacker, const struct sim_attacker_mad *kept,
                       uint64_t id)
{
    struct uro_cm_msg msg;

    for (uint32_t i = 0; i < SIM_ATTACKER_MADS; i++) {
        const struct sim_attacker_mad *other = &attacker->mads[i];
        if (!other->heard || other->side == kept->side ||
            uro_cm_decode(other->octets, &msg) != URO_CM_OK)
            continue;
        if (msg.value[URO_CM_LOCAL_ID] == id && msg.value[URO_CM_LOCAL_QPN] != 0)
            return msg.value[URO_CM_LOCAL_QPN];
    }
    return 0;
}

/* What would be noticed if it were believed: a request that nobody made, or the end of a connection. */
static void harm(struct sim_attacker *attacker, const struct sim_attacker_mad *kept, uint8_t *mad)
{
    struct uro_cm_msg msg;

    if (uro_cm_decode(kept->octets, &msg) != URO_CM_OK)
        return;
    if (kept->kind == URO_CM_REQ) {
        msg.tid = uro_rng_u64(&attacker->speaker);
        msg.value[URO_CM_LOCAL_ID] ^= 1u + below(attacker, UINT16_MAX);
        msg.value[URO_CM_LOCAL_QPN] ^= 1u + below(attacker, UINT16_MAX);
    } else if (kept->kind == URO_CM_REP || kept->kind == URO_CM_RTU) {
        msg.value[URO_CM_REMOTE_QPN] = qpn_of(attacker, kept, msg.value[URO_CM_REMOTE_ID]);
        msg.kind = URO_CM_DREQ;
        msg.data_length = 0;
    }
    uro_cm_encode(mad, &msg);
}

static void spoil(struct sim_attacker *attacker, const struct sim_attacker_mad *kept, enum way way,
                  uint8_t *mad)
{
    memcpy(mad, kept->octets, URO_MAD_LEN);
    if (way == REMOTE_ID)
        flip(attacker, mad + AT_REMOTE + below(attacker, 4));
    else if (way == LOCAL_ID)
        flip(attacker, mad + AT_LOCAL + below(attacker, 4));
    else if (way != AGAIN)
        harm(attacker, kept, mad);
    if (way == CLASS)
        flip(attacker, mad + below(attacker, HEADER));
}

static uint32_t length_of(struct sim_attacker *attacker, enum way way)
{
    if (way == SHORT)
        return below(attacker, URO_MAD_LEN);
    return way == LONG ? URO_MAD_LEN + 1 + below(attacker, LONGER_MAX) : URO_MAD_LEN;
}

static void begin(struct sim_attacker *attacker, struct sim_forged *forged,
                  const struct sim_attacker_mad *kept, enum way way)
{
    enum uro_service service = way != SERVICE ? URO_UD : below(attacker, 2) == 0 ? URO_RC : URO_UC;
    int opcode = uro_opcode_find(service, URO_REQUEST, URO_SEND, URO_ONLY, 0);
    struct uro_deth deth = { .qkey = URO_CM_QKEY, .source_qpn = URO_CM_MAD_QPN };

    sim_forger_begin(forged, attacker->hosts[!kept->side], attacker->hosts[kept->side],
                     kept->address);
    forged->bth = (struct uro_bth){ .opcode = (uint8_t)opcode,
                                    .migrated = true,
                                    .pkey = URO_PKEY_DEFAULT,
                                    .dest_qpn = URO_CM_MAD_QPN,
                                    .psn = below(attacker, 1u << 24) };
    if (way == KEY)
        deth.qkey ^= 1u << below(attacker, 32);
    if (way == SERVICE)
        return;
    uro_deth_encode(forged->octets + forged->length, &deth);
    forged->length += URO_DETH_LEN;
}

bool sim_attacker_mad_say(struct sim_attacker *attacker)
{
    const struct sim_attacker_mad *kept = &attacker->mads[below(attacker, SIM_ATTACKER_MADS)];
    enum way way = (enum way)below(attacker, WAYS);
    struct sim_forged forged;

    if (!kept->heard || !fits(way, kept->kind))
        return false;
    begin(attacker, &forged, kept, way);
    uint32_t length = length_of(attacker, way);
    uint8_t *mad = forged.octets + forged.length;
    memset(mad, FILLER, URO_MAD_LEN + LONGER_MAX);
    spoil(attacker, kept, way, mad);
    forged.length += length;
    forged.bth.pad_count = (uint8_t)(-length & 3u);
    memset(mad + length, 0, forged.bth.pad_count);
    forged.length += forged.bth.pad_count;
    sim_forger_seal(&forged, (uint16_t)below(attacker, UINT16_MAX));
    if (way == CUT)
        forged.length = 1 + below(attacker, (uint32_t)forged.length - 1);
    sim_forger_raw(attacker->hosts[kept->side], forged.octets, (uint32_t)forged.length);
    attacker->sent++;
    return true;
}

void sim_attacker_mad_overhear(struct sim_attacker *attacker, unsigned side,
                               const struct uro_frame *frame, enum uro_cm_kind kind)
{
    const struct uro_engine_config *to = &attacker->hosts[side]->config.engine;
    unsigned address = frame->ip.v6 ? 0 : 1;
    struct sim_attacker_mad *kept = &attacker->mads[attacker->mad_count % SIM_ATTACKER_MADS];

    /* Not to somebody else, whose name he used; nor to themselves. */
    if (!uro_gid_equal(&frame->ip.dest, &to->addresses[address].gid) ||
        uro_gid_equal(&frame->ip.source, &frame->ip.dest))
        return;
    attacker->mad_count++;
    *kept =
        (struct sim_attacker_mad){ .heard = true, .side = side, .address = address, .kind = kind };
    memcpy(kept->octets, frame->payload, URO_MAD_LEN);
}
