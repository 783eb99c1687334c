/* SPDX-License-Identifier: BSD-3-Clause */
/* raw_tap_stage.h - shared parts of the tests of io/udp/raw_tap.c: a UDP socket with a raw tap on
 * loopback, packets of a sender without uroce to this socket, and the verdict on each packet. The
 * tests run in their own network namespace. */
#pragma once

#include "support/check.h"

#include "io/udp/raw_tap.h"
#include "io/udp/rx.h"
#include "support/make_frame.h"
#include "support/own_net.h"

#define RC_MIDDLE 0x07
#define PAYLOAD   64u
#define UDP_BYTES (URO_BTH_LEN + PAYLOAD + URO_ICRC_LEN)
#define COVERED   (URO_IPV4_LEN + URO_UDP_LEN + UDP_BYTES - URO_ICRC_LEN)
#define PACKET    (COVERED + URO_ICRC_LEN)
#define BEHIND    (COVERED - 6) /* bytes behind the identification that the ICRC covers */
#define ANOTHER   0x5a00        /* an identification; its effect on the ICRC is added as damage */
#define PORT      49321

static struct uro_rx rx;
static struct uro_sock sock;
static struct uro_gid own, foreign;
static uint32_t qpn; /* destination queue pair of the packets */

/* ---- packets ------------------------------------------------------------ */

struct sent {
    uint8_t buffer[MADE_FRAME_MAX];
    uint8_t *packet; /* packet that begins with the IP header */
};

/* Makes a packet of the foreign sender to @dest. */
static inline void make(struct sent *sent, const struct uro_gid *dest, uint16_t ident,
                        bool fragmentable, uint32_t psn)
{
    static const uint8_t payload[PAYLOAD] = { 1, 2, 3 };
    const struct uro_frame frame = {
        .op = &uro_opcodes[RC_MIDDLE],
        .ether = { .type = URO_ETHERTYPE_IPV4 },
        .ip = { .dont_fragment = !fragmentable,
                .identification = ident,
                .hop_limit = 64,
                .source = foreign,
                .dest = *dest },
        .udp = { .source_port = PORT, .dest_port = URO_ROCE_PORT },
        .bth = { .opcode = RC_MIDDLE, .dest_qpn = qpn, .psn = psn, .pkey = 0xffff },
        .payload = payload,
        .payload_length = PAYLOAD,
    };

    assert_int_equal(make_frame(&frame, sent->buffer), URO_ETHER_LEN + PACKET);
    sent->packet = sent->buffer + URO_ETHER_LEN;
}

/* Damages the packet so that its ICRC would be right for another IPv4 identification. One in 65536
 * kinds of damage has this effect. */
static inline void damage(struct sent *sent)
{
    uint8_t *icrc = sent->packet + COVERED;

    uro_put_le32(icrc, uro_get_le32(icrc) ^ uro_ip_id_change(ANOTHER, BEHIND));
}

static inline void send_made(const struct sent *sent)
{
    assert_true(own_net_send(sent->packet, PACKET));
}

static inline void send_one(uint16_t ident, bool fragmentable)
{
    struct sent sent;

    make(&sent, &own, ident, fragmentable, ident);
    send_made(&sent);
}

static inline void send_damaged(uint16_t ident)
{
    struct sent sent;

    make(&sent, &own, ident, false, ident);
    damage(&sent);
    send_made(&sent);
}

/* ---- verdicts ----------------------------------------------------------- */

enum verdict {
    REFUSED,
    WEAK,
    FULL
}; /* the engine checks the ICRC of refused packets again, and drops them */

static inline struct uro_pkt next(const struct uro_sock *from)
{
    struct uro_pkt pkt;

    if (uro_rx_lend(&rx, &pkt, 1) == 0) {
        assert_true(uro_rx_take(&rx, from));
        assert_int_equal(uro_rx_lend(&rx, &pkt, 1), 1);
    }
    return pkt;
}

static inline enum verdict verdict_by(const struct uro_sock *from)
{
    const struct uro_pkt pkt = next(from);

    return !pkt.summed ? REFUSED : pkt.weak ? WEAK : FULL;
}

static inline enum verdict verdict(void)
{
    return verdict_by(&sock);
}

/* Sends a packet, so that the raw tap finds that it gets copies of arriving packets. */
static inline void prove(void)
{
    send_one(999, false);
    assert_int_equal(verdict(), FULL);
}

static inline void open_rx(enum uro_ip_id_rule idents, bool raw_tap)
{
    const struct uro_sock_options options = { .coalesces = true, .idents = idents };
    char error[URO_PORT_ERROR_MAX];

    int fd = uro_sock_bind(&own, false, error);
    assert_true(fd >= 0);
    sock = (struct uro_sock){ .fd = -1 };
    uro_sock_start(&sock, fd, &own, &options);
    if (raw_tap)
        assert_true(uro_raw_tap_open(&sock, idents));
    assert_true(uro_rx_open(&rx, &(struct uro_mac){ { 2 } }, &sock, 1, idents));
}

static inline int start(void **state)
{
    (void)state;
    assert_true(uro_gid_parse("127.0.0.5", &own) && uro_gid_parse("127.0.0.9", &foreign));
    qpn = 0x123456;
    open_rx(URO_IP_ID_ANY, true);
    return 0;
}

static inline int stop(void **state)
{
    (void)state;
    uro_rx_close(&rx);
    uro_sock_close(&sock);
    return 0;
}

static inline void start_again(enum uro_ip_id_rule idents, bool raw_tap)
{
    (void)stop(NULL);
    open_rx(idents, raw_tap);
}

/* Returns the verdict of the raw tap on the packet that send_one() sends. */
static inline enum uro_raw_tap_answer asked_of(uint16_t ident)
{
    struct sent sent;

    make(&sent, &own, ident, false, ident);
    const struct uro_raw_tap_header header = { .source = uro_get_be32(sent.packet + 12),
                                               .source_port = PORT,
                                               .identification = ident,
                                               .bth = sent.packet + URO_IPV4_LEN + URO_UDP_LEN };
    return uro_raw_tap_ask(sock.raw_tap, &header);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
