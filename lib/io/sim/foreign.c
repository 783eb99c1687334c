/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign.c - see foreign.h for the contract. */
#include "io/sim/foreign.h"

#include "wire/bytes.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define ROCE_PORT      4791u
#define PORT_FIRST     0xc000u
#define PORT_COUNT     0x4000u
#define ACK_REQ_EVERY  3u
#define CREDITS_FINITE 31u /* codes below that one */

static void put_acknowledge(const struct uro_frame *frame, uint8_t *body, unsigned habits,
                            uint32_t number)
{
    struct uro_aeth aeth = frame->aeth;

    if (!(habits & URO_FOREIGN_CREDITS) || !(frame->op->ext & URO_EXT_AETH) ||
        aeth.kind != URO_AETH_ACK)
        return;
    aeth.value = (uint8_t)(number % CREDITS_FINITE);
    uro_aeth_encode(body + URO_BTH_LEN, &aeth);
}

static void put_transport(const struct uro_frame *frame, uint8_t *body, unsigned habits,
                          uint32_t number)
{
    struct uro_bth bth = frame->bth;
    bool may_ask = frame->op->service == URO_UD ||
                   (frame->op->role == URO_REQUEST && frame->op->service == URO_RC);

    if (habits & URO_FOREIGN_ACK_REQ && may_ask && number % ACK_REQ_EVERY == 0)
        bth.ack_req = true;
    uro_bth_encode(body, &bth);
}

void uro_foreign_rewrite(struct uro_world_frame *frame, unsigned habits, uint32_t number)
{
    struct uro_frame decoded;

    if (habits == 0 || uro_frame_network(frame->octets, frame->length, &decoded) != URO_FRAME_OK ||
        decoded.ether.type == URO_ETHERTYPE_ARP || decoded.ip.protocol != URO_IPPROTO_UDP ||
        decoded.udp.dest_port != ROCE_PORT || uro_frame_roce(&decoded) != URO_FRAME_OK)
        return;
    uint8_t *network = frame->octets + (decoded.network - frame->octets);
    uint8_t *body = frame->octets + (decoded.body - frame->octets);
    uint8_t *end = body + decoded.body_length - URO_ICRC_LEN;
    const size_t length = (size_t)(end - network);
    struct uro_udp udp = decoded.udp;

    put_transport(&decoded, body, habits, number);
    put_acknowledge(&decoded, body, habits, number);
    if (habits & URO_FOREIGN_PORT && udp.checksum == 0)
        udp.source_port = (uint16_t)(PORT_FIRST + number % PORT_COUNT);
    uro_udp_encode(body - URO_UDP_LEN, &udp);
    bool as_rxe = habits & URO_FOREIGN_FLUSH && decoded.op->verb == URO_FLUSH;
    uro_put_le32(end, as_rxe ? uro_icrc_rxe_flush(network, decoded.ip.v6, length)
                             : uro_icrc(network, decoded.ip.v6, length));
}
