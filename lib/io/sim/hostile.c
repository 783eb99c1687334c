/* SPDX-License-Identifier: BSD-3-Clause */
/* hostile.c - see hostile.h for the contract. */
#include "io/sim/hostile.h"

#include <string.h>

#include "io/sim/forge.h"
#include "io/sim/hostile_mad.h"

#define PAYLOAD_MAX  64u
#define STRANGER     66u /* last octet of his own addresses */
#define MTU_CODE_MAX 6u
#define GROUP_BIT    1u /* of the first octet of a MAC address */

static uint32_t below(struct uro_hostile *hostile, uint32_t bound)
{
    return uro_rng_below(&hostile->rng, bound);
}

static void put_random(struct uro_hostile *hostile, struct uro_forged *forged, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        forged->octets[forged->length++] = (uint8_t)below(hostile, 256);
}

static void address(struct uro_hostile *hostile, struct uro_forged *forged, unsigned side,
                    bool as_peer)
{
    uro_forge_begin(forged, hostile->stations[!side], hostile->stations[side], below(hostile, 2));
    if (!as_peer)
        forged->ip.source.octets[sizeof forged->ip.source.octets - 1] = STRANGER;
}

static void deliver(struct uro_hostile *hostile, struct uro_forged *forged, unsigned side)
{
    uro_forge_deliver(forged, hostile->stations[side],
                      (uint16_t)(0xc000u | below(hostile, 0x4000)));
    hostile->sent++;
}

/* To a queue pair that exists, from his own address; or from the peer's, to one that he guesses. */
static void forge_packet(struct uro_hostile *hostile, unsigned side)
{
    bool as_peer = below(hostile, 2) == 0;
    struct uro_forged forged;
    uint8_t opcode;

    do
        opcode = (uint8_t)below(hostile, 256);
    while (uro_opcodes[opcode].name == NULL);
    address(hostile, &forged, side, as_peer);
    uint32_t length = uro_opcodes[opcode].payload ? below(hostile, PAYLOAD_MAX) : 0;
    forged.bth =
        (struct uro_bth){ .opcode = opcode,
                          .migrated = true,
                          .pad_count = (uint8_t)(-length & 3u),
                          .pkey = URO_PKEY_DEFAULT,
                          .dest_qpn = hostile->qpns[side][below(hostile, URO_HOSTILE_HEARD)],
                          .ack_req = below(hostile, 2) == 0,
                          .psn = below(hostile, 1u << 24) };
    if (as_peer || forged.bth.dest_qpn == 0)
        forged.bth.dest_qpn = 2 + below(hostile, (1u << 24) - 3);
    put_random(hostile, &forged, uro_opcodes[opcode].ext_length + length);
    for (uint32_t i = 0; i < forged.bth.pad_count; i++)
        forged.octets[forged.length++] = 0;
    deliver(hostile, &forged, side);
}

/* From his own address he can say anything about what he overheard. */
static void fill_message(struct uro_hostile *hostile, const struct uro_forged *forged,
                         unsigned side, bool as_peer, struct uro_cm_msg *msg)
{
    const uint32_t number = URO_HOSTILE_NUMBER;

    *msg = (struct uro_cm_msg){ .kind = (enum uro_cm_kind)below(hostile, URO_CM_KIND_COUNT),
                                .tid = uro_rng_u64(&hostile->rng) };
    for (unsigned i = 0; i < URO_CM_FIELD_COUNT; i++)
        msg->value[i] = uro_rng_u64(&hostile->rng);
    msg->value[URO_CM_SERVICE_ID] = hostile->service + below(hostile, 3);
    msg->value[URO_CM_TRANSPORT] = below(hostile, 4);
    msg->value[URO_CM_PATH_MTU] = below(hostile, MTU_CODE_MAX);
    msg->value[URO_CM_PKEY] = URO_PKEY_DEFAULT;
    msg->value[URO_CM_INFO_LENGTH] = below(hostile, URO_CM_INFO_MAX);
    const struct uro_hostile_ids *ids = &hostile->ids[side][below(hostile, URO_HOSTILE_HEARD)];
    if (!as_peer && below(hostile, 2) == 0) {
        msg->value[URO_CM_REMOTE_ID] = msg->value[URO_CM_REQUEST_ID] = ids->own;
        msg->value[URO_CM_LOCAL_ID] = ids->peers;
    }
    msg->remote_gid = forged->ip.dest;
    msg->local_gid = forged->ip.source;
    msg->data_length = sizeof number;
    memcpy(msg->data, &number, sizeof number);
}

static void forge_message(struct uro_hostile *hostile, unsigned side)
{
    const struct uro_deth deth = { .qkey = below(hostile, 8) == 0 ? uro_rng_u32(&hostile->rng)
                                                                  : URO_CM_QKEY,
                                   .source_qpn = URO_CM_MAD_QPN };
    bool as_peer = below(hostile, 2) == 0;
    int opcode = uro_opcode_find(URO_UD, URO_REQUEST, URO_SEND, URO_ONLY, 0);
    struct uro_forged forged;
    struct uro_cm_msg msg;

    address(hostile, &forged, side, as_peer);
    forged.bth = (struct uro_bth){ .opcode = (uint8_t)opcode,
                                   .migrated = true,
                                   .pkey = URO_PKEY_DEFAULT,
                                   .dest_qpn = URO_CM_MAD_QPN,
                                   .psn = below(hostile, 1u << 24) };
    uro_deth_encode(forged.octets + forged.length, &deth);
    forged.length += URO_DETH_LEN;
    fill_message(hostile, &forged, side, as_peer, &msg);
    uro_cm_encode(forged.octets + forged.length, &msg);
    forged.length += URO_MAD_LEN;
    if (below(hostile, 8) == 0) {
        forged.length -= URO_MAD_LEN;
        put_random(hostile, &forged, URO_MAD_LEN);
    }
    deliver(hostile, &forged, side);
}

static struct uro_hostile *of_node(const struct uro_node *node)
{
    return URO_CONTAINER_OF(node, struct uro_hostile, node);
}

static uro_time hostile_next(const struct uro_node *node)
{
    return of_node(node)->due;
}

static void hostile_run(struct uro_node *node)
{
    struct uro_hostile *hostile = of_node(node);
    unsigned side = below(hostile, 2);

    bool speaks = hostile->config->speaks && uro_rng_below(&hostile->speaker, 2) == 0;
    if (speaks && uro_hostile_mad_say(hostile))
        ;
    else if (below(hostile, 2) == 0)
        forge_packet(hostile, side);
    else
        forge_message(hostile, side);
    hostile->due = hostile->world->now + URO_US(1 + below(hostile, hostile->config->wait_max));
}

/* From a message to the station of @side. */
static void overhear_ids(struct uro_hostile *hostile, unsigned side, const struct uro_cm_msg *msg)
{
    uint32_t receivers = (uint32_t)msg->value[URO_CM_REMOTE_ID];
    uint32_t senders = (uint32_t)msg->value[URO_CM_LOCAL_ID];

    hostile->ids[side][below(hostile, URO_HOSTILE_HEARD)] =
        (struct uro_hostile_ids){ .own = receivers, .peers = senders };
    hostile->ids[!side][below(hostile, URO_HOSTILE_HEARD)] =
        (struct uro_hostile_ids){ .own = senders, .peers = receivers };
}

/* To somebody who is neither of the two. */
static bool elsewhere(const struct uro_hostile *hostile, const struct uro_mac *dest)
{
    for (unsigned side = 0; side < 2; side++)
        if (memcmp(dest, &hostile->stations[side]->config.engine.mac, sizeof *dest) == 0)
            return false;
    return (dest->octets[0] & GROUP_BIT) == 0;
}

void uro_hostile_overhear(void *user, struct uro_station *station,
                          const struct uro_world_frame *octets)
{
    struct uro_hostile *hostile = user;
    unsigned side = station == hostile->stations[0];
    struct uro_frame frame;
    struct uro_cm_msg msg;

    if (hostile->due == URO_TIME_NEVER ||
        uro_frame_network(octets->octets, octets->length, &frame) != URO_FRAME_OK ||
        uro_frame_roce(&frame) != URO_FRAME_OK || elsewhere(hostile, &frame.ether.dest))
        return;
    if (uro_gid_equal(&frame.ip.source, &frame.ip.dest))
        side = !side;
    if (frame.bth.dest_qpn != URO_CM_MAD_QPN)
        hostile->qpns[side][below(hostile, URO_HOSTILE_HEARD)] = frame.bth.dest_qpn;
    else if (frame.payload_length == URO_MAD_LEN &&
             uro_cm_decode(frame.payload, &msg) == URO_CM_OK) {
        overhear_ids(hostile, side, &msg);
        uro_hostile_mad_overhear(hostile, side, &frame, msg.kind);
    }
}

void uro_hostile_init(struct uro_hostile *hostile, struct uro_world *world,
                      const struct uro_hostile_config *config, struct uro_station *a,
                      struct uro_station *b, uint64_t service)
{
    memset(hostile, 0, sizeof *hostile);
    hostile->world = world;
    hostile->config = config;
    hostile->stations[0] = a;
    hostile->stations[1] = b;
    hostile->service = service;
    uro_rng_init_number(&hostile->rng, config->seed);
    uro_rng_init_number(&hostile->speaker, config->seed ^ UINT64_C(0x737065616b));
    hostile->due = config->wait_max > 0 ? world->now + URO_US(config->wait_max) : URO_TIME_NEVER;
    hostile->node = (struct uro_node){ NULL, hostile_next, hostile_run };
    uro_world_add(world, &hostile->node);
}

void uro_hostile_calm(struct uro_hostile *hostile)
{
    hostile->due = URO_TIME_NEVER;
}
