/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that the record of failures has the right cause for each error. */
#include "scene.h"

#include <stdio.h>
#include <string.h>

#include "core/limits.h"
#include "core/qp_private.h"
#include "core/record.h"
#include "core/shard.h"
#include "inside.h"
#include "stats/failure_text.h"
#include "wire/icmp.h"

static struct uro_failure last; /* the failure that was read last */
static char text[URO_FAILURE_TEXT_MAX];

static struct uro_record *record_of(const struct scene *s)
{
    return uro_record_of(inside_shard(s->engine)->counters);
}

/* Reads failure @number, and checks that its text contains @wanted. */
static void expect_failure(struct scene *s, uint64_t number, const char *wanted)
{
    assert_int_equal(record_of(s)->recorded, number);
    assert_true(uro_record_get(record_of(s), number, &last));
    (void)uro_failure_text(&last, text);
    if (strstr(text, wanted) == NULL)
        fail_msg("\"%s\" does not contain \"%s\"", text, wanted);
    assert_true(uro_failure_mend(&last)[0] != '\0');
}

/* Receives @packet, which fails the queue pair with a NAK of @syndrome. */
static void refuse(struct scene *s, const struct scene_packet *packet, uint8_t syndrome,
                   const char *wanted)
{
    scene_rx(s, 0, packet);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = syndrome));
    scene_expect_state(s, UROCE_ERR);
    expect_failure(s, 1, wanted);
    assert_int_equal(last.qpn, uroce_qp_number(s->qp));
    assert_int_equal(last.peer_qpn, SCENE_QPN_PEER);
    assert_int_equal(last.packet_count, 1);
    assert_int_equal(uro_record_packet_qpn(&last.packets[0]), last.qpn);
    scene_close(s);
}

static void write__with_an_unknown_key__reports_that_no_memory_has_the_key(void **state)
{
    (void)state;
    refuse(scene_rc(.rq_psn = 100),
           PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .va = 0x1000, .rkey = 0x77, .dma = 1,
                  .text = "a"),
           0x62,
           "10.0.0.2 (QP 0xabc) sent RC_WRITE_ONLY with PSN 100 for 1 bytes at 0x1000 with rkey "
           "0x77: no memory is registered with this key");
}

static void write__outside_of_the_memory__reports_the_range(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);
    char wanted[96];

    (void)snprintf(wanted, sizeof wanted, "outside of the memory, which has %u bytes at 0x%llx",
                   SCENE_MEMORY, (unsigned long long)s->remote_mr->key.base);
    refuse(s,
           PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .va = s->remote_mr->key.base + SCENE_MEMORY,
                  .dma = 1, .text = "a"),
           0x62, wanted);
}

static void write__into_memory_without_the_right__reports_the_right(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    s->remote_mr->key.access = UROCE_ACCESS_REMOTE_READ;
    refuse(s, PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .dma = 1, .text = "a"), 0x62,
           "the memory lacks REMOTE_WRITE; it has REMOTE_READ");
}

static void write__into_memory_of_another_domain__is_reported(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    s->remote_mr->key.pd++;
    refuse(s, PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .dma = 1, .text = "a"), 0x62,
           "the memory is of another protection domain");
}

/* The keys of XRC are checked against the protection domain of the SRQ. */
static void xrc_write__into_memory_without_the_right__reports_the_right(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.type = UROCE_XRC_TGT, .srq = 16, .rq_psn = 100);

    s->remote_mr->key.access = UROCE_ACCESS_REMOTE_READ;
    scene_rx(s, 0, PACKET(.op = "XRC_WRITE_ONLY", .psn = 100, .dma = 1, .text = "a"));
    expect_failure(s, 1, "the memory lacks REMOTE_WRITE; it has REMOTE_READ");
    scene_expect_tx(s, 0, PACKET(.op = "XRC_ACK", .psn = 100, .syndrome = 0x62));
    scene_close(s);
}

static void write__to_a_queue_pair_without_the_right__names_qp_access_flags(void **state)
{
    (void)state;
    refuse(scene_rc(.rq_psn = 100, .access = UROCE_ACCESS_REMOTE_READ),
           PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .dma = 1, .text = "a"), 0x61,
           "qp_access_flags lacks REMOTE_WRITE; it has REMOTE_READ");
}

static void atomic__at_an_odd_address__is_reported(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    refuse(s, PACKET(.op = "RC_FETCH_ADD", .psn = 100, .va = s->remote_mr->key.base + 1), 0x61,
           "not a multiple of 8");
}

static void send__longer_than_the_receive__reports_both_lengths(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_post_recv(s, 1, 2);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 100, .text = "abc"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x61));
    scene_expect_recv(s, 1, UROCE_LOC_LEN_ERR, 0);
    expect_failure(s, 1, "has at least 3 bytes, but the receive has 2");
    scene_close(s);
}

static void send__with_a_larger_path_mtu__reports_path_mtu(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .mtu = 256);

    scene_post_recv(s, 1, 2000);
    scene_rx(s, 0, PACKET(.op = "RC_SEND_FIRST", .psn = 100, .length = 1024));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x61));
    scene_expect_recv(s, 1, UROCE_LOC_LEN_ERR, 0);
    expect_failure(s, 1, "with 1024 bytes, but the path MTU here is 256: the sides have different");
    scene_close(s);
}

static void reads__more_than_allowed__reports_max_dest_rd_atomic(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100, .dest_depth = 0);

    refuse(s, PACKET(.op = "RC_READ_REQUEST", .psn = 100, .dma = 8), 0x61,
           "outstanding than max_dest_rd_atomic, which is 0");
}

static void record__access_nak__has_the_request_and_the_key(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 7, .op = UROCE_RDMA_WRITE, .text = "a", .remote_address = 0x500,
                            .rkey = 0x99));
    scene_expect_tx(s, 0,
                    PACKET(.op = "RC_WRITE_ONLY", .psn = 10, .ack_req = true, .va = 0x500,
                           .rkey = 0x99, .dma = 1, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x62));
    scene_expect_sent(s, 7, UROCE_REM_ACCESS_ERR);
    expect_failure(s, 1,
                   "10.0.0.2 (QP 0xabc) refused an RDMA WRITE of 1 bytes at 0x500 with rkey 0x99");
    assert_int_equal(last.wr_id, 7);
    assert_int_equal(last.packet_count, 2);
    assert_int_equal(uro_record_packet_sender(&last.packets[0]), last.qpn);
    assert_int_equal(uro_record_packet_sender(&last.packets[1]), 0);
    (void)uro_failure_packet_text(&last.packets[1], text);
    assert_non_null(strstr(text, "RC_ACK"));
    assert_non_null(strstr(text, "NAK: remote access error"));
    scene_close(s);
}

static void record__nak_of_an_invalid_request__has_the_causes(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x61));
    scene_expect_sent(s, 1, UROCE_REM_INV_REQ_ERR);
    expect_failure(s, 1, "a SEND of 1 bytes as invalid");
    scene_close(s);
}

/* Sends a request that is never answered, with one retry. */
static void send_in_vain(struct scene *s)
{
    scene_post_send(s, SEND(.id = 1, .text = "a"));
    for (uint32_t i = 0; i < 2; i++)
        scene_expect_tx(s, URO_MS(70 * i),
                        PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
}

static void record__no_response__has_the_duration_and_the_last_packet(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .retry_count = 1);

    send_in_vain(s);
    scene_expect_silence(s, URO_MS(140));
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    expect_failure(s, 1,
                   "no answer from 10.0.0.2 (QP 0xabc) in 1 retries of 67 ms; no response is "
                   "recorded");
    assert_false(last.unreachable);
    scene_close(s);
}

static void silence__closed_port__reports_the_icmp_error(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .retry_count = 1);
    struct uro_gid peer;

    send_in_vain(s);
    assert_true(uro_gid_parse("10.0.0.2", &peer));
    uro_record_closed_port(record_of(s), &peer, s->now);
    scene_expect_silence(s, URO_MS(140));
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    expect_failure(s, 1, "ICMP says that port 4791 is closed there");
    last.route_mtu = 1000;
    (void)uro_failure_text(&last, text);
    assert_non_null(strstr(text, "path MTU 1024 does not pass the route, which carries 1000"));
    scene_close(s);
}

static void silence__own_link_is_down__text_begins_with_it(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .retry_count = 1);

    send_in_vain(s);
    scene_expect_silence(s, URO_MS(140));
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    expect_failure(s, 1, "no answer from 10.0.0.2");
    last.link_down_ms = 3000;
    (void)uro_failure_text(&last, text);
    assert_ptr_equal(strstr(text, "the link of this device has been down for 3 s; no answer"),
                     text);
    assert_non_null(strstr(uro_failure_mend(&last), "the address of this device"));
    last.hub_ended = true;
    (void)uro_failure_text(&last, text);
    assert_ptr_equal(strstr(text, "the link of this device has been down for 3 s, because the hub "
                                  "of its address ended; no answer"),
                     text);
    assert_non_null(strstr(uro_failure_mend(&last), "start `uroce hub`"));
    scene_close(s);
}

/* An ICMP error about another host says nothing about the peer. */
static void silence__closed_port_of_another_host__report_does_not_mention_the_port(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .retry_count = 1);
    struct uro_gid other;

    send_in_vain(s);
    assert_true(uro_gid_parse("10.0.0.9", &other));
    uro_record_closed_port(record_of(s), &other, s->now);
    scene_expect_silence(s, URO_MS(140));
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    expect_failure(s, 1, "no response is recorded");
    assert_false(last.unreachable);
    scene_close(s);
}

/* A response after the ICMP message shows that the port was opened. */
static void silence__port_open_again__report_does_not_mention_the_port(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 9, .retry_count = 1);
    struct uro_gid peer;

    assert_true(uro_gid_parse("10.0.0.2", &peer));
    uro_record_closed_port(record_of(s), &peer, s->now - 1);
    scene_post_send(s, SEND(.id = 0, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 9, .ack_req = true, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 9, .syndrome = 0x1f));
    scene_expect_sent(s, 0, UROCE_SUCCESS);
    send_in_vain(s);
    scene_expect_silence(s, URO_MS(140));
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    assert_true(uro_record_get(record_of(s), 1, &last));
    assert_true(last.last_response > 0);
    assert_false(last.unreachable);
    scene_close(s);
}

/* Receives an ICMP message that quotes a packet to queue pair @qpn of 10.0.0.2. */
static void receive_no_port(struct scene *s, uint32_t qpn)
{
    const struct uro_bth bth = { .opcode = 4, .pkey = 0xffff, .dest_qpn = qpn };
    const struct uro_ether ether = { .dest = inside_shard(s->engine)->config.mac,
                                     .type = URO_ETHERTYPE_IPV4 };
    struct uro_ip ip = { .hop_limit = 64, .protocol = URO_IPPROTO_ICMP };
    uint8_t quoted[URO_BTH_LEN], octets[256];
    struct uro_icmp icmp = { .kind = URO_ICMP_NO_PORT,
                             .quoted = quoted,
                             .quoted_length = sizeof quoted };

    uro_bth_encode(quoted, &bth);
    assert_true(uro_gid_parse("10.0.0.1", &ip.dest));
    assert_true(uro_gid_parse("10.0.0.2", &ip.source));
    icmp.source = ip.dest;
    icmp.dest = ip.source;
    ip.payload_length =
        (uint16_t)(URO_ICMP_ECHO_HEADER + URO_IPV4_LEN + URO_UDP_LEN + sizeof quoted);
    uint32_t length = (uint32_t)uro_ether_put(octets, &ether);
    length += (uint32_t)uro_ip_put(octets + length, &ip);
    length += uro_icmp_encode_no_port(octets + length, &ip, &icmp);
    scene_input_raw(s, octets, length);
}

static void icmp__quotes_a_sent_packet__marks_the_peer(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .retry_count = 1);

    send_in_vain(s);
    receive_no_port(s, SCENE_QPN_PEER);
    assert_int_equal(record_of(s)->closed_at, 1);
    scene_expect_silence(s, URO_MS(140));
    scene_expect_sent(s, 1, UROCE_RETRY_EXC_ERR);
    expect_failure(s, 1, "ICMP says that port 4791 is closed there");
    scene_close(s);
}

static void rnr__retries_used_up__is_reported(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .rnr_retry = 0);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x20 | 1));
    scene_expect_sent(s, 1, UROCE_RNR_RETRY_EXC_ERR);
    expect_failure(s, 1, "had no receive posted in 0 RNR retries");
    scene_close(s);
}

static void rnr__for_ever__is_recorded_once_while_the_queue_pair_waits(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .rnr_retry = 7);
    const uro_time step = URO_MS(1000);

    scene_post_send(s, SEND(.id = 1, .text = "a"));
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(record_of(s)->recorded, i > 5 ? 1 : 0);
        scene_expect_tx(s, i * step,
                        PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
        scene_rx(s, i * step, PACKET(.op = "RC_ACK", .psn = 10, .syndrome = 0x20 | 1));
    }
    expect_failure(s, 1, "RNR for 5 s: the receiver 10.0.0.2 (QP 0xabc) posts no receives");
    assert_true(last.waits);
    scene_expect_state(s, UROCE_RTS);
    scene_expect_tx(s, 12 * step,
                    PACKET(.op = "RC_SEND_ONLY", .psn = 10, .ack_req = true, .text = "a"));
    scene_rx(s, 12 * step, PACKET(.op = "RC_ACK", .psn = 10));
    scene_expect_sent(s, 1, UROCE_SUCCESS);
    assert_int_equal(uro_qp_failure(s->qp->core), URO_FAIL_NONE);
    scene_close(s);
}

static void psn__far_from_the_expected__is_recorded_once(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 99999);

    for (uint32_t i = 0; i < 3; i++) {
        scene_rx(s, 0, PACKET(.op = "RC_SEND_ONLY", .psn = 200 + i, .ack_req = true, .text = "a"));
        scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 99998));
    }
    expect_failure(s, 1, "with PSN 200, but 99999 is expected: rq_psn is not the peer's sq_psn");
    assert_true(last.waits);
    scene_close(s);
}

static void lkey__unknown__is_reported(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10);

    scene_post_send(s, SEND(.id = 1, .text = "a", .lkey = 0x1234));
    scene_expect_silence(s, 0);
    scene_expect_sent(s, 1, UROCE_LOC_PROT_ERR);
    expect_failure(s, 1, "with lkey 0x1234: no memory is registered with this key");
    scene_close(s);
}

static void program__moves_to_error__is_no_failure(void **state)
{
    (void)state;
    struct scene *s = scene_rc();

    scene_to_state(s, UROCE_ERR);
    assert_int_equal(record_of(s)->failure_count, 0);
    scene_close(s);
}

/* Thousands of queue pairs may fail in one round, under the engine lock. */
static void failures__thousands_at_once__keep_the_first_and_count_the_others(void **state)
{
    (void)state;
    struct scene *s = scene_rc();
    struct uro_record *record = record_of(s);
    struct uro_record_cause cause = { .reason = URO_FAIL_NO_ANSWER, .failed_wqe = URO_QP_NO_WQE };

    for (uint32_t i = 0; i < 10000; i++) {
        s->qp->core->fail_reason = URO_FAIL_NONE;
        uro_record_failure(s->qp->core, &cause);
    }
    assert_int_equal(record->failure_count, 10000);
    assert_int_equal(record->recorded, URO_RECORD_PERIOD_MAX);
    assert_true(uro_record_get(record, 1, &last));
    inside_shard(s->engine)->now += URO_RECORD_PERIOD;
    cause.reason = URO_FAIL_CQ_OVERRUN;
    s->qp->core->fail_reason = URO_FAIL_NONE;
    uro_record_failure(s->qp->core, &cause);
    assert_int_equal(record->recorded, URO_RECORD_PERIOD_MAX + 1);
    assert_false(uro_record_get(record, 1, &last));
    expect_failure(s, URO_RECORD_PERIOD_MAX + 1, "the completion queue overflowed");
    assert_false(uro_record_get(record, 0, &last));
    record->failures[(URO_RECORD_PERIOD_MAX + 1) % URO_RECORD_FAILURES].number_again = 0;
    assert_false(uro_record_get(record, URO_RECORD_PERIOD_MAX + 1, &last));
    scene_close(s);
}

static void packets__of_a_failure__are_the_last_packets_of_the_queue_pair(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.sq_psn = 10, .window = 1000);

    for (uint32_t i = 0; i < 100; i++) {
        scene_post_send(s, SEND(.id = i, .text = "a"));
        scene_expect_tx(s, 0,
                        PACKET(.op = "RC_SEND_ONLY", .psn = 10 + i, .ack_req = true, .text = "a"));
        scene_rx(s, 0, PACKET(.op = "RC_ACK", .psn = 10 + i, .syndrome = i < 99 ? 0x1f : 0x62));
        scene_expect_sent(s, i, i < 99 ? UROCE_SUCCESS : UROCE_REM_ACCESS_ERR);
    }
    expect_failure(s, 1, "refused");
    assert_int_equal(last.packet_count, URO_FAILURE_PACKETS);
    (void)uro_failure_packet_text(&last.packets[URO_FAILURE_PACKETS - 2], text);
    assert_non_null(strstr(text, "RC_SEND_ONLY"));
    assert_non_null(strstr(text, "psn 109"));
    assert_int_equal(last.last_response, s->now);
    scene_close(s);
}

/* The ring has the packets of all queue pairs. */
static void packets__of_another_queue_pair__are_not_in_the_failure(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);
    struct uro_record *record = record_of(s);
    const uint8_t bth[URO_RECORD_BTH] = { 0x04 };
    const uint64_t other = uroce_qp_number(s->qp) ^ 1u;

    uro_record_packet_add(record, s->now, bth, other << 32 | 60);
    scene_rx(s, 0, PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .rkey = 0x77, .dma = 1, .text = "a"));
    assert_true(uro_record_get(record, 1, &last));
    assert_int_equal(last.packet_count, 1);
    assert_int_equal(uro_record_packet_qpn(&last.packets[0]), last.qpn);
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62));
    scene_close(s);
}

/* The first cause is recorded. Later causes are its consequences. */
static void failure__with_another_cause_later__keeps_the_first(void **state)
{
    (void)state;
    struct scene *s = scene_rc(.rq_psn = 100);

    scene_rx(s, 0, PACKET(.op = "RC_WRITE_ONLY", .psn = 100, .rkey = 0x77, .dma = 1, .text = "a"));
    scene_expect_tx(s, 0, PACKET(.op = "RC_ACK", .psn = 100, .syndrome = 0x62));
    const struct uro_record_cause later = { .reason = URO_FAIL_NO_ANSWER,
                                            .failed_wqe = URO_QP_NO_WQE };
    uro_record_failure(s->qp->core, &later);
    expect_failure(s, 1, "no memory is registered with this key");
    scene_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(write__with_an_unknown_key__reports_that_no_memory_has_the_key),
        cmocka_unit_test(write__outside_of_the_memory__reports_the_range),
        cmocka_unit_test(write__into_memory_without_the_right__reports_the_right),
        cmocka_unit_test(write__into_memory_of_another_domain__is_reported),
        cmocka_unit_test(xrc_write__into_memory_without_the_right__reports_the_right),
        cmocka_unit_test(write__to_a_queue_pair_without_the_right__names_qp_access_flags),
        cmocka_unit_test(atomic__at_an_odd_address__is_reported),
        cmocka_unit_test(send__longer_than_the_receive__reports_both_lengths),
        cmocka_unit_test(send__with_a_larger_path_mtu__reports_path_mtu),
        cmocka_unit_test(reads__more_than_allowed__reports_max_dest_rd_atomic),
        cmocka_unit_test(record__access_nak__has_the_request_and_the_key),
        cmocka_unit_test(record__nak_of_an_invalid_request__has_the_causes),
        cmocka_unit_test(record__no_response__has_the_duration_and_the_last_packet),
        cmocka_unit_test(silence__own_link_is_down__text_begins_with_it),
        cmocka_unit_test(silence__closed_port__reports_the_icmp_error),
        cmocka_unit_test(silence__closed_port_of_another_host__report_does_not_mention_the_port),
        cmocka_unit_test(silence__port_open_again__report_does_not_mention_the_port),
        cmocka_unit_test(icmp__quotes_a_sent_packet__marks_the_peer),
        cmocka_unit_test(rnr__retries_used_up__is_reported),
        cmocka_unit_test(rnr__for_ever__is_recorded_once_while_the_queue_pair_waits),
        cmocka_unit_test(psn__far_from_the_expected__is_recorded_once),
        cmocka_unit_test(lkey__unknown__is_reported),
        cmocka_unit_test(program__moves_to_error__is_no_failure),
        cmocka_unit_test(failures__thousands_at_once__keep_the_first_and_count_the_others),
        cmocka_unit_test(packets__of_a_failure__are_the_last_packets_of_the_queue_pair),
        cmocka_unit_test(packets__of_another_queue_pair__are_not_in_the_failure),
        cmocka_unit_test(failure__with_another_cause_later__keeps_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
