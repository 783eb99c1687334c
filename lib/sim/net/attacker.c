/* SPDX-License-Identifier: BSD-3-Clause */
/* attacker.c - see attacker.h for the contract. */
#include "sim/net/attacker.h"

#include <string.h>

#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define HOP_LIMIT    64u
#define PAYLOAD_MAX  64u
#define STRANGER     66u /* last byte of the addresses of the attacker */
#define MTU_CODE_MAX 6u
#define GROUP_BIT    1u    /* multicast bit in the first byte of a MAC address */
#define LONGER_MAX   1024u /* bytes by which a datagram is too long for a MAD */
#define HEADER       4u    /* bytes of a MAD that have its class and its method */
#define AT_LOCAL     24u   /* offsets of the communication IDs of both sides */
#define AT_REMOTE    28u
#define FILLER       0x30u

/* ---- forged frames --------------------------------------------------------------------------- */

static size_t header_length(const struct sim_forged *forged)
{
    return forged->ip.v6 ? URO_IPV6_LEN : URO_IPV4_LEN;
}

void sim_forger_begin(struct sim_forged *forged, const struct sim_host *from,
                      const struct sim_host *to, unsigned index)
{
    forged->ip = (struct uro_ip){ .v6 = index == 0,
                                  .dont_fragment = true,
                                  .hop_limit = HOP_LIMIT,
                                  .protocol = URO_IPPROTO_UDP,
                                  .source = from->gids[index],
                                  .dest = to->gids[index] };
    const struct uro_ether ether = { .dest = to->mac,
                                     .source = from->mac,
                                     .type =
                                         forged->ip.v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    forged->bth = (struct uro_bth){ .migrated = true, .pkey = URO_PKEY_DEFAULT };
    forged->network = uro_ether_put(forged->bytes, &ether);
    forged->length = forged->network + header_length(forged) + URO_UDP_LEN + URO_BTH_LEN;
}

void sim_forger_pad(struct sim_forged *forged, uint32_t payload)
{
    forged->bth.pad_count = (uint8_t)(-payload & 3u);
    memset(forged->bytes + forged->length, 0, forged->bth.pad_count);
    forged->length += forged->bth.pad_count;
}

void sim_forger_raw(struct sim_host *to, const uint8_t *bytes, uint32_t length)
{
    struct sim_world_frame *frame = sim_world_copy_frame(to->world, bytes, length);

    sim_world_note_frame(to->world, "!>", frame->bytes, frame->length);
    to->node.accept(&to->node, frame);
}

void sim_forger_sum(uint8_t *bytes, uint32_t length)
{
    uint8_t *network = bytes + URO_ETHER_LEN;
    bool v6 = network[0] >> 4 == 6;
    uint32_t summed = length - URO_ETHER_LEN - URO_ICRC_LEN;

    uro_put_le32(network + summed, uro_icrc(network, v6, summed));
}

void sim_forger_seal(struct sim_forged *forged, uint16_t source_port)
{
    size_t header = header_length(forged);
    uint8_t *network = forged->bytes + forged->network;
    size_t udp_length = forged->length + URO_ICRC_LEN - forged->network - header;
    const struct uro_udp udp = { .source_port = source_port,
                                 .dest_port = URO_ROCE_PORT,
                                 .length = (uint16_t)udp_length };

    forged->ip.payload_length = (uint16_t)udp_length;
    (void)uro_ip_put(network, &forged->ip);
    uro_udp_encode(network + header, &udp);
    uro_bth_encode(network + header + URO_UDP_LEN, &forged->bth);
    uro_put_le32(forged->bytes + forged->length,
                 uro_icrc(network, forged->ip.v6, forged->length - forged->network));
    forged->length += URO_ICRC_LEN;
}

void sim_forger_deliver(struct sim_forged *forged, struct sim_host *to, uint16_t source_port)
{
    sim_forger_seal(forged, source_port);
    sim_forger_raw(to, forged->bytes, (uint32_t)forged->length);
}

/* ---- packets and messages ---- */

static uint32_t below(struct sim_attacker *attacker, uint32_t bound)
{
    return uro_rng_below(&attacker->rng, bound);
}

static void put_random(struct sim_attacker *attacker, struct sim_forged *forged, uint32_t length)
{
    for (uint32_t i = 0; i < length; i++)
        forged->bytes[forged->length++] = (uint8_t)below(attacker, 256);
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
}

/* Forges a packet. From the attacker's address, the destination is a QPN that the attacker read, if
 * there is one. From the peer's address, the destination is a random QPN. */
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
    forged.bth.opcode = opcode;
    forged.bth.dest_qpn = attacker->qpns[side][below(attacker, SIM_ATTACKER_SEEN)];
    if (as_peer || forged.bth.dest_qpn == 0)
        forged.bth.dest_qpn = 2 + below(attacker, (1u << 24) - 3);
    forged.bth.ack_req = below(attacker, 2) == 0;
    forged.bth.psn = below(attacker, 1u << 24);
    put_random(attacker, &forged, uro_opcodes[opcode].ext_length + length);
    sim_forger_pad(&forged, length);
    deliver(attacker, &forged, side);
}

/* Fills a message. From its own address the attacker may use the IDs that it read. */
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
    const struct sim_attacker_ids *ids = &attacker->ids[side][below(attacker, SIM_ATTACKER_SEEN)];
    if (!as_peer && below(attacker, 2) == 0) {
        msg->value[URO_CM_REMOTE_ID] = msg->value[URO_CM_REQUEST_ID] = ids->own;
        msg->value[URO_CM_LOCAL_ID] = ids->peers;
    }
    msg->remote_gid = forged->ip.dest;
    msg->local_gid = forged->ip.source;
    msg->data_length = sizeof number;
    memcpy(msg->data, &number, sizeof number);
}

/* Writes the headers of a message to the connection manager. */
static void put_headers(struct sim_attacker *attacker, struct sim_forged *forged,
                        enum uro_service service, uint32_t qkey)
{
    const struct uro_deth deth = { .qkey = qkey, .source_qpn = URO_CM_MAD_QPN };

    forged->bth.opcode = (uint8_t)uro_opcode_find(service, URO_REQUEST, URO_SEND, URO_ONLY, 0);
    forged->bth.dest_qpn = URO_CM_MAD_QPN;
    forged->bth.psn = below(attacker, 1u << 24);
    if (service != URO_UD)
        return;
    uro_deth_encode(forged->bytes + forged->length, &deth);
    forged->length += URO_DETH_LEN;
}

static void forge_message(struct sim_attacker *attacker, unsigned side)
{
    bool has_qkey = below(attacker, 8) > 0;
    bool as_peer = below(attacker, 2) == 0;
    struct sim_forged forged;
    struct uro_cm_msg msg;

    address(attacker, &forged, side, as_peer);
    put_headers(attacker, &forged, URO_UD, has_qkey ? URO_CM_QKEY : uro_rng_u32(&attacker->rng));
    fill_message(attacker, &forged, side, as_peer, &msg);
    uro_cm_encode(forged.bytes + forged.length, &msg);
    if (below(attacker, 8) == 0)
        put_random(attacker, &forged, URO_MAD_LEN);
    else
        forged.length += URO_MAD_LEN;
    deliver(attacker, &forged, side);
}

/* ---- management datagrams of the two hosts, sent again ---- */

enum change { UNCHANGED, SHORT, LONG, KEY, CLASS, SERVICE, REMOTE_ID, LOCAL_ID, CUT, CHANGES };

/* Returns true if every host must refuse a message with this change. */
static bool is_refused(enum change change, enum uro_cm_kind kind)
{
    bool asks = kind == URO_CM_REQ || kind == URO_CM_SIDR_REQ;
    /* A DREQ with a changed ID causes a DREP, which the attacker reads, too. A second change could
     * make this DREP valid. */
    bool settled = kind == URO_CM_RTU || kind == URO_CM_DREQ;

    if (change == UNCHANGED)
        return !asks;
    return settled || (change != REMOTE_ID && change != LOCAL_ID);
}

static void flip(struct sim_attacker *attacker, uint8_t *byte)
{
    *byte ^= (uint8_t)(1u << below(attacker, 8));
}

/* Returns the receiver's QPN, if the attacker read a message with it; else 0. */
static uint64_t qpn_of(const struct sim_attacker *attacker, const struct sim_attacker_mad *kept,
                       uint64_t id)
{
    struct uro_cm_msg msg;

    for (uint32_t i = 0; i < SIM_ATTACKER_MADS; i++) {
        const struct sim_attacker_mad *other = &attacker->mads[i];
        if (!other->seen || other->side == kept->side ||
            uro_cm_decode(other->bytes, &msg) != URO_CM_OK)
            continue;
        if (msg.value[URO_CM_LOCAL_ID] == id && msg.value[URO_CM_LOCAL_QPN] != 0)
            return msg.value[URO_CM_LOCAL_QPN];
    }
    return 0;
}

/* Turns a REQ into a new request, and a REP or RTU into a DREQ. Leaves other messages as they are.
 * The checks detect if a host accepts the message. */
static void change_content(struct sim_attacker *attacker, const struct sim_attacker_mad *kept,
                           uint8_t *mad)
{
    struct uro_cm_msg msg;

    if (uro_cm_decode(kept->bytes, &msg) != URO_CM_OK)
        return;
    if (kept->kind == URO_CM_REQ) {
        msg.tid = uro_rng_u64(&attacker->rng);
        msg.value[URO_CM_LOCAL_ID] ^= 1u + below(attacker, UINT16_MAX);
        msg.value[URO_CM_LOCAL_QPN] ^= 1u + below(attacker, UINT16_MAX);
    } else if (kept->kind == URO_CM_REP || kept->kind == URO_CM_RTU) {
        msg.value[URO_CM_REMOTE_QPN] = qpn_of(attacker, kept, msg.value[URO_CM_REMOTE_ID]);
        msg.kind = URO_CM_DREQ;
        msg.data_length = 0;
    }
    uro_cm_encode(mad, &msg);
}

static void change_message(struct sim_attacker *attacker, const struct sim_attacker_mad *kept,
                           enum change change, uint8_t *mad)
{
    memcpy(mad, kept->bytes, URO_MAD_LEN);
    if (change == REMOTE_ID)
        flip(attacker, mad + AT_REMOTE + below(attacker, 4));
    else if (change == LOCAL_ID)
        flip(attacker, mad + AT_LOCAL + below(attacker, 4));
    else if (change != UNCHANGED)
        change_content(attacker, kept, mad);
    if (change == CLASS)
        flip(attacker, mad + below(attacker, HEADER));
}

static bool repeat_message(struct sim_attacker *attacker)
{
    const struct sim_attacker_mad *kept = &attacker->mads[below(attacker, SIM_ATTACKER_MADS)];
    enum change change = (enum change)below(attacker, CHANGES);
    enum uro_service other = below(attacker, 2) == 0 ? URO_RC : URO_UC;
    struct sim_forged forged;

    if (!kept->seen || !is_refused(change, kept->kind))
        return false;
    sim_forger_begin(&forged, attacker->hosts[!kept->side], attacker->hosts[kept->side],
                     kept->address);
    put_headers(attacker, &forged, change == SERVICE ? other : URO_UD,
                change == KEY ? URO_CM_QKEY ^ 1u << below(attacker, 32) : URO_CM_QKEY);
    uint32_t length = URO_MAD_LEN;
    if (change == SHORT)
        length = below(attacker, URO_MAD_LEN);
    else if (change == LONG)
        length += 1 + below(attacker, LONGER_MAX);
    uint8_t *mad = forged.bytes + forged.length;
    memset(mad, FILLER, URO_MAD_LEN + LONGER_MAX);
    change_message(attacker, kept, change, mad);
    forged.length += length;
    sim_forger_pad(&forged, length);
    sim_forger_seal(&forged, (uint16_t)below(attacker, UINT16_MAX));
    if (change == CUT)
        forged.length = 1 + below(attacker, (uint32_t)forged.length - 1);
    sim_forger_raw(attacker->hosts[kept->side], forged.bytes, (uint32_t)forged.length);
    return true;
}

static void overhear_mad(struct sim_attacker *attacker, unsigned side,
                         const struct uro_frame *frame, enum uro_cm_kind kind)
{
    unsigned address = frame->ip.v6 ? 0 : 1;
    struct sim_attacker_mad *kept = &attacker->mads[attacker->mad_count % SIM_ATTACKER_MADS];

    /* Ignores messages to other hosts, and messages from a host to itself. */
    if (!uro_gid_equal(&frame->ip.dest, &attacker->hosts[side]->gids[address]) ||
        uro_gid_equal(&frame->ip.source, &frame->ip.dest))
        return;
    attacker->mad_count++;
    *kept =
        (struct sim_attacker_mad){ .seen = true, .side = side, .address = address, .kind = kind };
    memcpy(kept->bytes, frame->payload, URO_MAD_LEN);
}

/* ---- the node ---- */

static void attacker_run(struct sim_node *node)
{
    struct sim_attacker *attacker = URO_CONTAINER_OF(node, struct sim_attacker, node);
    unsigned side = below(attacker, 2);

    bool repeats = attacker->config->repeats && below(attacker, 2) == 0;
    if (repeats && repeat_message(attacker))
        ;
    else if (below(attacker, 2) == 0)
        forge_packet(attacker, side);
    else
        forge_message(attacker, side);
    attacker->node.due =
        attacker->world->now + URO_US(1 + below(attacker, attacker->config->wait_max));
}

/* Keeps the communication IDs of a message to the host of @side. */
static void overhear_ids(struct sim_attacker *attacker, unsigned side, const struct uro_cm_msg *msg)
{
    uint32_t receivers = (uint32_t)msg->value[URO_CM_REMOTE_ID];
    uint32_t senders = (uint32_t)msg->value[URO_CM_LOCAL_ID];

    attacker->ids[side][below(attacker, SIM_ATTACKER_SEEN)] =
        (struct sim_attacker_ids){ .own = receivers, .peers = senders };
    attacker->ids[!side][below(attacker, SIM_ATTACKER_SEEN)] =
        (struct sim_attacker_ids){ .own = senders, .peers = receivers };
}

/* Returns whether the frame is for another host. */
static bool elsewhere(const struct sim_attacker *attacker, const struct uro_mac *dest)
{
    for (unsigned side = 0; side < 2; side++)
        if (memcmp(dest, &attacker->hosts[side]->mac, sizeof *dest) == 0)
            return false;
    return (dest->octets[0] & GROUP_BIT) == 0;
}

void sim_attacker_overhear(void *user, struct sim_host *host, const struct sim_world_frame *packet)
{
    struct sim_attacker *attacker = user;
    unsigned side = host == attacker->hosts[0];
    struct uro_frame frame;
    struct uro_cm_msg msg;

    if (attacker->node.due == URO_TIME_NEVER ||
        uro_frame_network(packet->bytes, packet->length, &frame) != URO_FRAME_OK ||
        uro_frame_roce(&frame) != URO_FRAME_OK || elsewhere(attacker, &frame.ether.dest))
        return;
    if (uro_gid_equal(&frame.ip.source, &frame.ip.dest))
        side = !side;
    if (frame.bth.dest_qpn != URO_CM_MAD_QPN)
        attacker->qpns[side][below(attacker, SIM_ATTACKER_SEEN)] = frame.bth.dest_qpn;
    else if (frame.payload_length == URO_MAD_LEN &&
             uro_cm_decode(frame.payload, &msg) == URO_CM_OK) {
        overhear_ids(attacker, side, &msg);
        overhear_mad(attacker, side, &frame, msg.kind);
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
    attacker->node.due =
        config->wait_max > 0 ? world->now + URO_US(config->wait_max) : URO_TIME_NEVER;
    sim_world_add(world, &attacker->node, NULL, attacker_run);
}

void sim_attacker_calm(struct sim_attacker *attacker)
{
    attacker->node.due = URO_TIME_NEVER;
}
