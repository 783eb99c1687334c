/* SPDX-License-Identifier: BSD-3-Clause */
/* attacker.c - see attacker.h for the contract. */
#include "sim/net/attacker.h"

#include <string.h>

#include "sim/net/attacker_mad.h"
#include "sim/net/forger.h"

#define PAYLOAD_MAX  64u
#define STRANGER     66u /* last octet of his own addresses */
#define MTU_CODE_MAX 6u
#define GROUP_BIT    1u /* of the first octet of a MAC address */

static uint32_t below(struct sim_attacker *attacker, uint32_t bound)
{
    return uro_rng_below(&attacker->rng, bound);
}

static void put_random(struct sim_attacker *attacker, struct sim_forged *forged, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        forged->octets[forged->length++] = (uint8_t)below(attacker, 256);
}

static void address(struct sim_attacker *attacker, struct sim_forged *forged, unsigned side,
                    bool as_peer)
{
    sim_forger_begin(forged, attacker->hosts[!side], attacker->hosts[side], below(attacker, 2));
    if (!as_peer)
        forged->ip.source.octets[sizeof forged->ip.source.octets - 1] = STRANGER;
}

static void deliver(struct sim_attacker *attacker, struct sim_forged *forged, unsigned side)
{
    sim_forger_deliver(forged, attacker->hosts[side],
                       (uint16_t)(0xc000u | below(attacker, 0x4000)));
    attacker->sent++;
}

/* To a queue pair that exists, from his own address; or from the peer's, to one that he guesses. */
static void forge_packet(struct sim_attacker *attacker, unsigned side)
{
    bool as_peer = below(attacker, 2) == 0;
    struct sim_forged forged;
    uint8_t opcode;

    do
        opcode = (uint8_t)below(attacker, 256);
    while (uro_opcodes[opcode].name == NULL);
    address(attacker, &forged, side, as_peer);
    uint32_t length = uro_opcodes[opcode].payload ? below(attacker, PAYLOAD_MAX) : 0;
    forged.bth =
        (struct uro_bth){ .opcode = opcode,
                          .migrated = true,
                          .pad_count = (uint8_t)(-length & 3u),
                          .pkey = URO_PKEY_DEFAULT,
                          .dest_qpn = attacker->qpns[side][below(attacker, SIM_ATTACKER_HEARD)],
                          .ack_req = below(attacker, 2) == 0,
                          .psn = below(attacker, 1u << 24) };
    if (as_peer || forged.bth.dest_qpn == 0)
        forged.bth.dest_qpn = 2 + below(attacker, (1u << 24) - 3);
    put_random(attacker, &forged, uro_opcodes[opcode].ext_length + length);
    for (uint32_t i = 0; i < forged.bth.pad_count; i++)
        forged.octets[forged.length++] = 0;
    deliver(attacker, &forged, side);
}

/* From his own address he can say anything about what he overheard. */
static void fill_message(struct sim_attacker *attacker, const struct sim_forged *forged,
                         unsigned side, bool as_peer, struct uro_cm_msg *msg)
{
    const uint32_t number = SIM_ATTACKER_NUMBER;

    *msg = (struct uro_cm_msg){ .kind = (enum uro_cm_kind)below(attacker, URO_CM_KIND_COUNT),
                                .tid = uro_rng_u64(&attacker->rng) };
    for (unsigned i = 0; i < URO_CM_FIELD_COUNT; i++)
        msg->value[i] = uro_rng_u64(&attacker->rng);
    msg->value[URO_CM_SERVICE_ID] = attacker->service + below(attacker, 3);
    msg->value[URO_CM_TRANSPORT] = below(attacker, 4);
    msg->value[URO_CM_PATH_MTU] = below(attacker, MTU_CODE_MAX);
    msg->value[URO_CM_PKEY] = URO_PKEY_DEFAULT;
    msg->value[URO_CM_INFO_LENGTH] = below(attacker, URO_CM_INFO_MAX);
    const struct sim_attacker_ids *ids = &attacker->ids[side][below(attacker, SIM_ATTACKER_HEARD)];
    if (!as_peer && below(attacker, 2) == 0) {
        msg->value[URO_CM_REMOTE_ID] = msg->value[URO_CM_REQUEST_ID] = ids->own;
        msg->value[URO_CM_LOCAL_ID] = ids->peers;
    }
    msg->remote_gid = forged->ip.dest;
    msg->local_gid = forged->ip.source;
    msg->data_length = sizeof number;
    memcpy(msg->data, &number, sizeof number);
}

static void forge_message(struct sim_attacker *attacker, unsigned side)
{
    const struct uro_deth deth = { .qkey = below(attacker, 8) == 0 ? uro_rng_u32(&attacker->rng)
                                                                   : URO_CM_QKEY,
                                   .source_qpn = URO_CM_MAD_QPN };
    bool as_peer = below(attacker, 2) == 0;
    int opcode = uro_opcode_find(URO_UD, URO_REQUEST, URO_SEND, URO_ONLY, 0);
    struct sim_forged forged;
    struct uro_cm_msg msg;

    address(attacker, &forged, side, as_peer);
    forged.bth = (struct uro_bth){ .opcode = (uint8_t)opcode,
                                   .migrated = true,
                                   .pkey = URO_PKEY_DEFAULT,
                                   .dest_qpn = URO_CM_MAD_QPN,
                                   .psn = below(attacker, 1u << 24) };
    uro_deth_encode(forged.octets + forged.length, &deth);
    forged.length += URO_DETH_LEN;
    fill_message(attacker, &forged, side, as_peer, &msg);
    uro_cm_encode(forged.octets + forged.length, &msg);
    forged.length += URO_MAD_LEN;
    if (below(attacker, 8) == 0) {
        forged.length -= URO_MAD_LEN;
        put_random(attacker, &forged, URO_MAD_LEN);
    }
    deliver(attacker, &forged, side);
}

static struct sim_attacker *of_node(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_attacker, node);
}

static uro_time hostile_next(const struct sim_node *node)
{
    return of_node(node)->due;
}

static void hostile_run(struct sim_node *node)
{
    struct sim_attacker *attacker = of_node(node);
    unsigned side = below(attacker, 2);

    bool speaks = attacker->config->speaks && uro_rng_below(&attacker->speaker, 2) == 0;
    if (speaks && sim_attacker_mad_say(attacker))
        ;
    else if (below(attacker, 2) == 0)
        forge_packet(attacker, side);
    else
        forge_message(attacker, side);
    attacker->due = attacker->world->now + URO_US(1 + below(attacker, attacker->config->wait_max));
}

/* From a message to the host of @side. */
static void overhear_ids(struct sim_attacker *attacker, unsigned side, const struct uro_cm_msg *msg)
{
    uint32_t receivers = (uint32_t)msg->value[URO_CM_REMOTE_ID];
    uint32_t senders = (uint32_t)msg->value[URO_CM_LOCAL_ID];

    attacker->ids[side][below(attacker, SIM_ATTACKER_HEARD)] =
        (struct sim_attacker_ids){ .own = receivers, .peers = senders };
    attacker->ids[!side][below(attacker, SIM_ATTACKER_HEARD)] =
        (struct sim_attacker_ids){ .own = senders, .peers = receivers };
}

/* To somebody who is neither of the two. */
static bool elsewhere(const struct sim_attacker *attacker, const struct uro_mac *dest)
{
    for (unsigned side = 0; side < 2; side++)
        if (memcmp(dest, &attacker->hosts[side]->config.engine.mac, sizeof *dest) == 0)
            return false;
    return (dest->octets[0] & GROUP_BIT) == 0;
}

void sim_attacker_overhear(void *user, struct sim_host *host, const struct sim_world_frame *octets)
{
    struct sim_attacker *attacker = user;
    unsigned side = host == attacker->hosts[0];
    struct uro_frame frame;
    struct uro_cm_msg msg;

    if (attacker->due == URO_TIME_NEVER ||
        uro_frame_network(octets->octets, octets->length, &frame) != URO_FRAME_OK ||
        uro_frame_roce(&frame) != URO_FRAME_OK || elsewhere(attacker, &frame.ether.dest))
        return;
    if (uro_gid_equal(&frame.ip.source, &frame.ip.dest))
        side = !side;
    if (frame.bth.dest_qpn != URO_CM_MAD_QPN)
        attacker->qpns[side][below(attacker, SIM_ATTACKER_HEARD)] = frame.bth.dest_qpn;
    else if (frame.payload_length == URO_MAD_LEN &&
             uro_cm_decode(frame.payload, &msg) == URO_CM_OK) {
        overhear_ids(attacker, side, &msg);
        sim_attacker_mad_overhear(attacker, side, &frame, msg.kind);
    }
}

void sim_attacker_init(struct sim_attacker *attacker, struct sim_world *world,
                       const struct sim_attacker_config *config, struct sim_host *a,
                       struct sim_host *b, uint64_t service)
{
    memset(attacker, 0, sizeof *attacker);
    attacker->world = world;
    attacker->config = config;
    attacker->hosts[0] = a;
    attacker->hosts[1] = b;
    attacker->service = service;
    uro_rng_init_number(&attacker->rng, config->seed);
    uro_rng_init_number(&attacker->speaker, config->seed ^ UINT64_C(0x737065616b));
    attacker->due = config->wait_max > 0 ? world->now + URO_US(config->wait_max) : URO_TIME_NEVER;
    attacker->node = (struct sim_node){ NULL, hostile_next, hostile_run };
    sim_world_add(world, &attacker->node);
}

void sim_attacker_calm(struct sim_attacker *attacker)
{
    attacker->due = URO_TIME_NEVER;
}
