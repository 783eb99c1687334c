/* SPDX-License-Identifier: BSD-3-Clause */
/* quirks.c - see quirks.h for the contract. */
#include "sim/net/quirks.h"

#include <string.h>

#include "sim/oracle/model.h"
#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define PORT_FIRST     0xc000u
#define PORT_COUNT     0x4000u
#define ACK_REQ_EVERY  3u
#define CREDITS_FINITE 31u /* codes below 31 grant a number of requests */
#define BARE_ACK_EVERY 5u
#define SERVICE_BITS   0xe0u /* bits of an opcode that name its transport service */
#define READ_MIDDLE    0x0eu
#define READ_LAST      0x0fu
#define ACKNOWLEDGE    0x11u

static void put_acknowledge(const struct uro_frame *frame, uint8_t *body, unsigned quirks,
                            uint32_t number)
{
    struct uro_aeth aeth = frame->aeth;

    if (!(frame->op->ext & URO_EXT_AETH))
        return;
    if (quirks & SIM_QUIRK_CREDITS && aeth.kind == URO_AETH_ACK)
        aeth.value = (uint8_t)(number % CREDITS_FINITE);
    if (quirks & SIM_QUIRK_OPERATIONAL && aeth.kind == URO_AETH_NAK &&
        aeth.value == URO_NAK_INVALID_REQ)
        aeth.value = URO_NAK_OPERATIONAL;
    uro_aeth_encode(body + URO_BTH_LEN, &aeth);
}

static void put_transport(const struct uro_frame *frame, uint8_t *body, unsigned quirks,
                          uint32_t number)
{
    struct uro_bth bth = frame->bth;
    bool may_ask = frame->op->service == URO_UD ||
                   (frame->op->role == URO_REQUEST && frame->op->service == URO_RC);

    if (quirks & SIM_QUIRK_ACK_REQ && may_ask && number % ACK_REQ_EVERY == 0)
        bth.ack_req = true;
    if (quirks & SIM_QUIRK_MIGREQ)
        bth.migrated = false;
    uro_bth_encode(body, &bth);
}

static bool decode(const struct sim_world_frame *frame, struct uro_frame *decoded)
{
    return uro_frame_network(frame->bytes, frame->length, decoded) == URO_FRAME_OK &&
           decoded->ether.type != URO_ETHERTYPE_ARP && decoded->ip.protocol == URO_IPPROTO_UDP &&
           decoded->udp.dest_port == URO_ROCE_PORT && uro_frame_roce(decoded) == URO_FRAME_OK;
}

static void rewrite(struct sim_world_frame *frame, const struct uro_frame *decoded, unsigned quirks,
                    uint32_t number)
{
    uint8_t *network = frame->bytes + (decoded->network - frame->bytes);
    uint8_t *body = frame->bytes + (decoded->body - frame->bytes);
    uint8_t *end = body + decoded->body_length - URO_ICRC_LEN;
    const size_t length = (size_t)(end - network);
    struct uro_udp udp = decoded->udp;

    put_transport(decoded, body, quirks, number);
    put_acknowledge(decoded, body, quirks, number);
    if (quirks & SIM_QUIRK_PORT && udp.checksum == 0)
        udp.source_port = (uint16_t)(PORT_FIRST + number % PORT_COUNT);
    uro_udp_encode(body - URO_UDP_LEN, &udp);
    bool as_rxe = quirks & SIM_QUIRK_FLUSH && decoded->op->operation == URO_FLUSH;
    uro_put_le32(end, as_rxe ? uro_icrc_rxe_flush(network, decoded->ip.v6, length)
                             : uro_icrc(network, decoded->ip.v6, length));
}

/* ---- changed responses ---- */

/* Changes the packet's opcode, and its length to @body_length bytes from the BTH on. */
static void become(struct sim_world_frame *frame, const struct uro_frame *decoded, uint8_t opcode,
                   uint32_t body_length)
{
    uint8_t *network = frame->bytes + (decoded->network - frame->bytes);
    uint8_t *body = frame->bytes + (decoded->body - frame->bytes);
    uint8_t *end = body + body_length - URO_ICRC_LEN;
    struct uro_ip ip = decoded->ip;
    struct uro_udp udp = decoded->udp;
    struct uro_bth bth = decoded->bth;

    bth.opcode = (uint8_t)((bth.opcode & SERVICE_BITS) | opcode);
    if (opcode == ACKNOWLEDGE)
        bth.pad_count = 0;
    udp.length = (uint16_t)(URO_UDP_LEN + body_length);
    ip.payload_length = udp.length;
    (void)uro_ip_put(network, &ip);
    uro_udp_encode(body - URO_UDP_LEN, &udp);
    uro_bth_encode(body, &bth);
    uro_put_le32(end, uro_icrc(network, ip.v6, (size_t)(end - network)));
    frame->length = (uint32_t)(end + URO_ICRC_LEN - frame->bytes);
}

/* Returns the distance from the first response of a READ; negative: before it. */
static int32_t behind(const struct sim_quirks_read *read, const struct uro_bth *bth)
{
    return sim_psn_diff(bth->psn, read->first);
}

/* Returns whether the response was sent before, and is not the first response of its READ. */
static bool is_tail(const struct sim_quirks *seen, const struct uro_bth *bth)
{
    bool found = false;

    for (uint32_t i = 0; i < SIM_QUIRKS_READS; i++) {
        const struct sim_quirks_read *read = &seen->reads[i];
        int32_t distance = behind(read, bth);
        found |= read->count > 0 && read->qpn == bth->dest_qpn && distance > 0 &&
                 distance < (int32_t)read->count;
    }
    return found;
}

static void remember_read(struct sim_quirks *seen, const struct uro_frame *frame)
{
    if (uro_position_begins(frame->op->position)) {
        seen->reads[seen->next_read++ % SIM_QUIRKS_READS] = (struct sim_quirks_read){
            .qpn = frame->bth.dest_qpn, .first = frame->bth.psn, .count = 1
        };
        return;
    }
    for (uint32_t i = 0; i < SIM_QUIRKS_READS; i++) {
        struct sim_quirks_read *read = &seen->reads[i];
        if (read->count > 0 && read->qpn == frame->bth.dest_qpn &&
            behind(read, &frame->bth) == (int32_t)read->count)
            read->count++;
    }
}

static void answer_read(struct sim_quirks *seen, struct sim_world_frame *frame,
                        const struct uro_frame *decoded, unsigned quirks, uint32_t number)
{
    uint8_t *body = frame->bytes + (decoded->body - frame->bytes);
    uint8_t *aeth = body + URO_BTH_LEN;

    if (quirks & SIM_QUIRK_BARE_ACK && uro_position_ends(decoded->op->position) &&
        number % BARE_ACK_EVERY == 0) {
        become(frame, decoded, ACKNOWLEDGE, URO_BTH_LEN + URO_AETH_LEN + URO_ICRC_LEN);
        return;
    }
    bool tail = uro_position_begins(decoded->op->position) && is_tail(seen, &decoded->bth);
    if (!tail)
        remember_read(seen, decoded);
    if (!tail || !(quirks & SIM_QUIRK_TAIL))
        return;
    if (uro_position_ends(decoded->op->position)) {
        become(frame, decoded, READ_LAST, decoded->body_length);
        return;
    }
    memmove(aeth, aeth + URO_AETH_LEN, decoded->body_length - URO_BTH_LEN - URO_AETH_LEN);
    become(frame, decoded, READ_MIDDLE, decoded->body_length - URO_AETH_LEN);
}

void sim_quirks_rewrite(struct sim_quirks *seen, struct sim_world_frame *frame, unsigned quirks,
                        uint32_t number)
{
    struct uro_frame decoded;

    if (quirks == 0 || !decode(frame, &decoded))
        return;
    if (decoded.op->operation == URO_READ && decoded.op->role == URO_RESPONSE &&
        decoded.udp.checksum == 0) {
        answer_read(seen, frame, &decoded, quirks, number);
        if (!decode(frame, &decoded))
            return;
    }
    rewrite(frame, &decoded, quirks, number);
}
