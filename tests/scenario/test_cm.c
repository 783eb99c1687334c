/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm.c - tests a connection from the request to the end, with both sides on one engine. */
#include <errno.h>
#include <string.h>

#include <uroce/connection.h>

#include "base/mark.h"
#include "cm/ip_cm.h"
#include "twins.h"

#define SERVICE UINT64_C(0x1061234)
#define BACKLOG 4u

struct talk {
    struct twins *twins;
    struct uroce_listener *listener;
    struct uroce_conn *active;
    struct uroce_conn *passive;
};

static struct talk talk_open(struct twins *s)
{
    return (struct talk){ .twins = s };
}

static void listen_with(struct talk *talk, uint32_t backlog)
{
    assert_int_equal(uroce_listener_create(talk->twins->engine, SERVICE, -1, backlog, talk->twins,
                                           &talk->listener),
                     0);
}

static struct uroce_conn_param param(const struct end *end, const char *data)
{
    struct uroce_conn_param param = { .type = UROCE_RC,
                                      .qpn = uroce_qp_number(end->qp),
                                      .responder_resources = 4,
                                      .initiator_depth = 2,
                                      .retry_count = 7,
                                      .rnr_retry_count = 6 };

    param.data_length = (uint32_t)strlen(data);
    memcpy(param.data, data, param.data_length);
    return param;
}

static struct uroce_conn_target target_at(const char *remote)
{
    struct uroce_conn_target target = { .address = { .sgid_index = 1, .flow_label = 0x12345 },
                                        .service_id = SERVICE,
                                        .path_mtu = 1024,
                                        .ack_timeout = 17,
                                        .response_timeout = 20,
                                        .retries = 15 };

    assert_int_equal(uroce_gid_parse(remote, target.address.gid), 0);
    return target;
}

static struct uroce_conn *connect_as(struct talk *talk, const struct uroce_conn_target *target,
                                     const struct uroce_conn_param *wanted)
{
    struct uroce_conn *conn;

    assert_int_equal(
        uroce_conn_connect(talk->twins->engine, target, wanted, NULL, talk->twins->now, &conn), 0);
    return conn;
}

static void connect_out(struct talk *talk)
{
    const struct uroce_conn_target where = target_at("10.9.9.9");
    const struct uroce_conn_param wanted = param(&talk->twins->a, "hello");

    talk->active = connect_as(talk, &where, &wanted);
    twins_settle(talk->twins);
}

static struct uroce_conn_event next_event(struct talk *talk)
{
    struct uroce_conn_event event;

    twins_settle(talk->twins);
    assert_int_equal(uroce_conn_event(talk->twins->engine, &event), 1);
    return event;
}

static struct uroce_conn *expect(struct talk *talk, enum uroce_conn_event_kind kind, int status)
{
    const struct uroce_conn_event event = next_event(talk);

    assert_int_equal(event.kind, kind);
    assert_int_equal(event.status, status);
    if (kind == UROCE_CONN_REQUEST)
        assert_ptr_equal(event.user, talk->twins);
    return event.conn;
}

static void expect_no_event(struct talk *talk)
{
    struct uroce_conn_event event;

    twins_settle(talk->twins);
    assert_int_equal(uroce_conn_event(talk->twins->engine, &event), 0);
}

static void expect_data(const struct uroce_conn *conn, const char *data)
{
    struct uroce_conn_param peer;

    assert_int_equal(uroce_conn_peer(conn, &peer), 0);
    assert_string_equal((const char *)peer.data, data);
}

static void close_conn(struct talk *talk, struct uroce_conn *conn)
{
    assert_int_equal(uroce_conn_close(conn, talk->twins->now), 0);
}

static void move(struct talk *talk, struct uroce_conn *conn, struct end *end,
                 enum uroce_qp_state state)
{
    struct uroce_qp_attr attr;
    unsigned mask;

    assert_int_equal(uroce_conn_attr(conn, state, &attr, &mask), 0);
    assert_int_equal(uroce_qp_modify(end->qp, &attr, mask, talk->twins->now), 0);
}

static void move_all(struct talk *talk, struct uroce_conn *conn, struct end *end)
{
    for (enum uroce_qp_state state = UROCE_INIT; state <= UROCE_RTS; state++)
        move(talk, conn, end, state);
}

/* Makes both sides ESTABLISHED and takes the events. */
static void establish(struct talk *talk)
{
    const struct uroce_conn_param answer = param(&talk->twins->b, "welcome");

    listen_with(talk, BACKLOG);
    connect_out(talk);
    talk->passive = expect(talk, UROCE_CONN_REQUEST, 0);
    expect_data(talk->passive, "hello");
    move_all(talk, talk->passive, &talk->twins->b);
    assert_int_equal(uroce_conn_accept(talk->passive, &answer, NULL, talk->twins->now), 0);
    assert_ptr_equal(expect(talk, UROCE_CONN_RESPONSE, 0), talk->active);
    expect_data(talk->active, "welcome");
    move_all(talk, talk->active, &talk->twins->a);
    assert_int_equal(uroce_conn_confirm(talk->active, talk->twins->now), 0);
    assert_ptr_equal(expect(talk, UROCE_CONN_CONFIRMED, 0), talk->passive);
}

/* Closes everything. After the last late packet, the engine has nothing to do. */
static void finish(struct talk *talk)
{
    if (talk->active != NULL)
        close_conn(talk, talk->active);
    if (talk->passive != NULL)
        close_conn(talk, talk->passive);
    if (talk->listener != NULL)
        assert_int_equal(uroce_listener_destroy(talk->listener), 0);
    twins_pass_time(talk->twins, talk->twins->now + URO_MS(200000));
    assert_int_equal(uroce_engine_end_connections(talk->twins->engine, talk->twins->now), 1);
}

static void connect__accept__talk__disconnect(void **state)
{
    struct talk talk = talk_open(*state);
    struct twins *s = *state;
    struct uroce_qp_attr attr;

    establish(&talk);
    assert_int_equal(uroce_qp_query(s->a.qp, &attr), 0);
    assert_int_equal(attr.dest_qpn, uroce_qp_number(s->b.qp));
    assert_int_equal(attr.path_mtu, 1024);
    assert_int_equal(attr.timeout, 17);
    assert_int_equal(attr.rnr_retry, 6);
    assert_int_equal(attr.max_rd_atomic, 4);
    assert_int_equal(attr.max_dest_rd_atomic, 2);
    twins_post_recv(&s->b, 1, 0, 64);
    twins_post_send(&s->a, 2, 0, 64);
    twins_settle(s);
    twins_expect(s, &s->a, 2, UROCE_SUCCESS);
    twins_expect(s, &s->b, 1, UROCE_SUCCESS);

    assert_int_equal(uroce_conn_disconnect(talk.active, s->now), 0);
    twins_settle(s);
    struct uroce_conn *first = expect(&talk, UROCE_CONN_DISCONNECTED, 0);
    struct uroce_conn *second = expect(&talk, UROCE_CONN_DISCONNECTED, 0);
    assert_true(first == talk.passive && second == talk.active);
    assert_int_equal(uroce_conn_disconnect(talk.passive, s->now), 0);
    twins_pass_time(s, s->now + URO_MS(600));
    expect(&talk, UROCE_CONN_TIMEWAIT_EXIT, 0);
    expect(&talk, UROCE_CONN_TIMEWAIT_EXIT, 0);
    expect_no_event(&talk);
    assert_true(uro_mark_hit("CM.REQ"));
    assert_true(uro_mark_hit("CM.REP"));
    assert_true(uro_mark_hit("CM.DREQ"));
    assert_true(uro_mark_hit("CM.DREP"));
    assert_true(uro_mark_hit("CM.TIMEWAIT"));
    assert_true(uro_mark_hit("CM.QP"));
    assert_true(uro_mark_hit("CM.GSI"));
    finish(&talk);
}

/* Loses the RTU and delivers data. The passive queue pair is in RTR, the active queue pair in
 * RTS. */
static void data_before_the_rtu(struct talk *talk)
{
    struct twins *s = talk->twins;
    const struct uroce_conn_param answer = param(&s->b, "");
    struct uroce_packet rtu;
    struct uroce_event event;

    listen_with(talk, BACKLOG);
    connect_out(talk);
    talk->passive = expect(talk, UROCE_CONN_REQUEST, 0);
    move(talk, talk->passive, &s->b, UROCE_INIT);
    move(talk, talk->passive, &s->b, UROCE_RTR);
    assert_int_equal(uroce_conn_accept(talk->passive, &answer, NULL, s->now), 0);
    expect(talk, UROCE_CONN_RESPONSE, 0);
    move_all(talk, talk->active, &s->a);
    assert_int_equal(uroce_conn_confirm(talk->active, s->now), 0);
    assert_int_equal(twins_output(s, TWINS_BURST), 0);
    assert_int_equal(uroce_engine_looped(s->engine, &rtu, 1), 1);
    ((uint8_t *)(uintptr_t)rtu.bytes)[80] ^= 1; /* its ICRC is wrong now */
    twins_post_recv(&s->b, 1, 0, 64);
    twins_post_send(&s->a, 2, 0, 64);
    twins_settle(s);
    twins_expect(s, &s->b, 1, UROCE_SUCCESS);
    twins_expect(s, &s->a, 2, UROCE_SUCCESS);
    expect_no_event(talk);
    assert_true(uroce_engine_event(s->engine, &event));
    assert_int_equal(event.kind, UROCE_EVENT_COMM_EST);
}

static void talk_back(struct talk *talk)
{
    struct twins *s = talk->twins;

    move(talk, talk->passive, &s->b, UROCE_RTS);
    twins_post_recv(&s->a, 3, 0, 64);
    twins_post_send(&s->b, 4, 0, 64);
    twins_settle(s);
    twins_expect(s, &s->a, 3, UROCE_SUCCESS);
    twins_expect(s, &s->b, 4, UROCE_SUCCESS);
}

static void rtu_lost__data_arrives__established_event_confirms(void **state)
{
    struct talk talk = talk_open(*state);

    data_before_the_rtu(&talk);
    assert_int_equal(uroce_conn_established(talk.passive, talk.twins->now), 0);
    assert_ptr_equal(expect(&talk, UROCE_CONN_CONFIRMED, 0), talk.passive);
    assert_true(uro_mark_hit("CM.HEARD"));
    talk_back(&talk);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(10000));
    expect_no_event(&talk); /* no REP comes again */
    finish(&talk);
}

static void rtu_lost__data_arrives_unnoticed__next_rep_is_answered_with_rtu(void **state)
{
    struct talk talk = talk_open(*state);
    struct uroce_event event;

    data_before_the_rtu(&talk);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(4097));
    assert_ptr_equal(expect(&talk, UROCE_CONN_CONFIRMED, 0), talk.passive);
    assert_true(uro_mark_hit("CM.RTU.AGAIN"));
    assert_false(uroce_engine_event(talk.twins->engine, &event)); /* there is only one COMM_EST */
    talk_back(&talk);
    finish(&talk);
}

static void connect__no_listener__rejected(void **state)
{
    struct talk talk = talk_open(*state);

    connect_out(&talk);
    expect(&talk, UROCE_CONN_REJECTED, (int)UROCE_REJECT_BAD_SERVICE);
    finish(&talk);
}

static void connect__application_rejects__its_data_arrives(void **state)
{
    struct talk talk = talk_open(*state);

    listen_with(&talk, BACKLOG);
    connect_out(&talk);
    talk.passive = expect(&talk, UROCE_CONN_REQUEST, 0);
    assert_int_equal(
        uroce_conn_reject(talk.passive, UROCE_REJECT_CONSUMER, "no", 2, talk.twins->now), 0);
    expect(&talk, UROCE_CONN_REJECTED, (int)UROCE_REJECT_CONSUMER);
    expect_data(talk.active, "no");
    finish(&talk);
}

static void connect__never_answered__unreachable_in_bounded_time(void **state)
{
    struct talk talk = talk_open(*state);
    struct uroce_conn_target where = target_at("10.0.0.77");
    const struct uroce_conn_param wanted = param(&talk.twins->a, "");

    talk.active = connect_as(&talk, &where, &wanted);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(80000));
    expect_no_event(&talk);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(3000));
    assert_ptr_equal(expect(&talk, UROCE_CONN_UNREACHABLE, -ETIMEDOUT), talk.active);
    assert_true(uro_mark_hit("CM.NO.NEIGHBOR"));
    finish(&talk);
}

static void connect__no_route__unreachable(void **state)
{
    struct talk talk = talk_open(*state);
    struct uroce_conn_target where = target_at("192.168.1.1");
    const struct uroce_conn_param wanted = param(&talk.twins->a, "");

    where.retries = 0;
    talk.active = connect_as(&talk, &where, &wanted);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(6000));
    assert_ptr_equal(expect(&talk, UROCE_CONN_UNREACHABLE, -ETIMEDOUT), talk.active);
    assert_true(uro_mark_hit("CM.NO.ROUTE"));
    finish(&talk);
}

static struct uro_gid gid_of(const char *text)
{
    struct uro_gid gid;

    assert_true(uro_gid_parse(text, &gid));
    return gid;
}

/* Compares the private data with the header that Linux writes: see wire/test_cm_msg.c. */
/* rule CM.SERVICE */
static void addresses_in_private_data__as_linux_has_them(void **state)
{
    static const uint8_t known[URO_IP_CM_LEN] = { 0x00, 0x40, 0xec,      0x06, [16] = 10, 7,
                                                  0,    2,    [32] = 10, 7,    0,         1 };
    const struct uro_gid client = gid_of("10.7.0.2");
    const struct uro_gid server = gid_of("10.7.0.1");
    const struct uro_ip_cm six = { .source = gid_of("fd00::2"),
                                   .dest = gid_of("fd00::1"),
                                   .source_port = 4660 };
    uint8_t again[URO_IP_CM_LEN];
    struct uro_ip_cm header;

    (void)state;
    assert_true(uro_ip_cm_decode(known, &header));
    assert_int_equal(header.source_port, 0xec06);
    assert_true(uro_gid_equal(&header.source, &client) && uro_gid_equal(&header.dest, &server));
    uro_ip_cm_encode(again, &header);
    assert_memory_equal(again, known, sizeof known);

    uro_ip_cm_encode(again, &six);
    assert_int_equal(again[1], 0x60);
    assert_true(uro_ip_cm_decode(again, &header));
    assert_true(uro_gid_equal(&header.source, &six.source));
    again[1] = 0x50;
    assert_false(uro_ip_cm_decode(again, &header));
    again[1] = 0x6f; /* the low half has no meaning */
    assert_true(uro_ip_cm_decode(again, &header));
    again[1] = 0x60;
    again[0] = 1;
    assert_false(uro_ip_cm_decode(again, &header));
    assert_int_equal(uro_ip_cm_service(URO_IP_CM_TCP, 7174), 0x1061c06);
    assert_int_equal(uro_ip_cm_service(URO_IP_CM_UDP, 7174), 0x1111c06);
    assert_int_equal(uro_ip_cm_service(URO_IP_CM_IB, 7174), 0x13f1c06);
    assert_int_equal(uro_ip_cm_service(URO_IP_CM_IPOIB, 7174), 0x21c06);
    assert_true(uro_mark_hit("CM.IP"));
}

static void listen__twice__address_in_use(void **state)
{
    struct talk talk = talk_open(*state);
    struct uroce_engine *engine = talk.twins->engine;
    struct uroce_listener *other, *specific;

    listen_with(&talk, BACKLOG);
    assert_int_equal(uroce_listener_create(engine, SERVICE, -1, BACKLOG, NULL, &other),
                     -EADDRINUSE);
    assert_int_equal(uroce_listener_create(engine, SERVICE, 2, BACKLOG, &other, &specific), 0);
    connect_out(&talk);
    const struct uroce_conn_event event = next_event(&talk);
    assert_int_equal(event.kind, UROCE_CONN_REQUEST);
    assert_ptr_equal(event.user, &other); /* the event is for the listener at the address */
    assert_true(uro_mark_hit("CM.LISTEN"));
    close_conn(&talk, event.conn);
    assert_int_equal(uroce_listener_destroy(specific), 0);
    finish(&talk);
}

/* Closes all waiting requests. Returns their number. */
static unsigned end_requests(struct talk *talk)
{
    unsigned requests = 0;
    struct uroce_conn_event event;

    twins_settle(talk->twins);
    while (uroce_conn_event(talk->twins->engine, &event) == 1) {
        assert_true(event.kind == UROCE_CONN_REQUEST || event.status == (int)UROCE_REJECT_CONSUMER);
        requests += event.kind == UROCE_CONN_REQUEST;
        if (event.kind == UROCE_CONN_REQUEST)
            close_conn(talk, event.conn);
        twins_settle(talk->twins);
    }
    return requests;
}

/* As in Linux, a full backlog drops requests without a reply; the client retransmits. */
static void connect__more_than_the_backlog__peer_retransmits(void **state)
{
    struct talk talk = talk_open(*state);
    struct uroce_conn *made[6];
    const struct uroce_conn_target where = target_at("10.9.9.9");

    listen_with(&talk, BACKLOG);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++) {
        struct uroce_conn_param wanted = param(&talk.twins->a, "");
        wanted.qpn = 100 + i;
        made[i] = connect_as(&talk, &where, &wanted);
    }
    assert_int_equal(end_requests(&talk), 4);
    assert_true(uro_mark_hit("CM.BACKLOG"));
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(5121));
    assert_int_equal(end_requests(&talk), 2);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++)
        close_conn(&talk, made[i]);
    finish(&talk);
}

static void backlog__counts_only_requests_whose_event_was_not_fetched(void **state)
{
    struct talk talk = talk_open(*state);
    struct uroce_conn *made[2], *first;
    const struct uroce_conn_target where = target_at("10.9.9.9");

    listen_with(&talk, 1);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++) {
        struct uroce_conn_param wanted = param(&talk.twins->a, "");
        wanted.qpn = 100 + i;
        made[i] = connect_as(&talk, &where, &wanted);
        struct uroce_conn *request = expect(&talk, UROCE_CONN_REQUEST, 0);
        if (i == 0)
            first = request;
        else
            close_conn(&talk, request);
    }
    close_conn(&talk, first);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++)
        close_conn(&talk, made[i]);
    finish(&talk);
}

static void datagram_service__sidr_req__gets_sidr_rep(void **state)
{
    struct uroce_conn_param peer;
    struct talk talk = talk_open(*state);
    const struct uroce_conn_target where = target_at("10.9.9.9");
    const struct uroce_conn_param wanted = { .type = UROCE_UD };
    const struct uroce_conn_param answer = { .type = UROCE_UD, .qpn = 77, .qkey = 0x01234567 };

    listen_with(&talk, BACKLOG);
    talk.active = connect_as(&talk, &where, &wanted);
    talk.passive = expect(&talk, UROCE_CONN_REQUEST, 0);
    assert_int_equal(uroce_conn_accept(talk.passive, &answer, NULL, talk.twins->now), 0);
    assert_ptr_equal(expect(&talk, UROCE_CONN_RESPONSE, 0), talk.active);
    assert_int_equal(uroce_conn_peer(talk.active, &peer), 0);
    assert_int_equal(peer.qpn, 77);
    assert_int_equal(peer.qkey, 0x01234567);
    assert_true(uro_mark_hit("CM.SIDR.REQ"));
    assert_true(uro_mark_hit("CM.SIDR.REP"));
    finish(&talk);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, twins_open, twins_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(connect__accept__talk__disconnect),
        TEST(rtu_lost__data_arrives__established_event_confirms),
        TEST(rtu_lost__data_arrives_unnoticed__next_rep_is_answered_with_rtu),
        TEST(connect__no_listener__rejected),
        TEST(connect__application_rejects__its_data_arrives),
        TEST(connect__never_answered__unreachable_in_bounded_time),
        TEST(connect__no_route__unreachable),
        TEST(addresses_in_private_data__as_linux_has_them),
        TEST(listen__twice__address_in_use),
        TEST(connect__more_than_the_backlog__peer_retransmits),
        TEST(backlog__counts_only_requests_whose_event_was_not_fetched),
        TEST(datagram_service__sidr_req__gets_sidr_rep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
