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

struct session {
    struct twins *twins;
    struct uroce_listener *listener;
    struct uroce_conn *active;
    struct uroce_conn *passive;
};

static struct session session_open(struct twins *s)
{
    return (struct session){ .twins = s };
}

static void listen_with(struct session *session, uint32_t backlog)
{
    assert_int_equal(uroce_listener_create(session->twins->engine, SERVICE, -1, backlog,
                                           session->twins, &session->listener),
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

static struct uroce_conn *connect_as(struct session *session,
                                     const struct uroce_conn_target *target,
                                     const struct uroce_conn_param *wanted)
{
    struct uroce_conn *conn;

    assert_int_equal(uroce_conn_connect(session->twins->engine, target, wanted, NULL,
                                        session->twins->now, &conn),
                     0);
    return conn;
}

static void connect_out(struct session *session)
{
    const struct uroce_conn_target where = target_at("10.9.9.9");
    const struct uroce_conn_param wanted = param(&session->twins->a, "hello");

    session->active = connect_as(session, &where, &wanted);
    twins_settle(session->twins);
}

static struct uroce_conn_event next_event(struct session *session)
{
    struct uroce_conn_event event;

    twins_settle(session->twins);
    assert_int_equal(uroce_conn_event(session->twins->engine, &event), 1);
    return event;
}

static struct uroce_conn *expect(struct session *session, enum uroce_conn_event_kind kind,
                                 int status)
{
    const struct uroce_conn_event event = next_event(session);

    assert_int_equal(event.kind, kind);
    assert_int_equal(event.status, status);
    if (kind == UROCE_CONN_REQUEST)
        assert_ptr_equal(event.user, session->twins);
    return event.conn;
}

static void expect_no_event(struct session *session)
{
    struct uroce_conn_event event;

    twins_settle(session->twins);
    assert_int_equal(uroce_conn_event(session->twins->engine, &event), 0);
}

static void expect_data(const struct uroce_conn *conn, const char *data)
{
    struct uroce_conn_param peer;

    assert_int_equal(uroce_conn_peer(conn, &peer), 0);
    assert_string_equal((const char *)peer.data, data);
}

static void close_conn(struct session *session, struct uroce_conn *conn)
{
    assert_int_equal(uroce_conn_close(conn, session->twins->now), 0);
}

static void move(struct session *session, struct uroce_conn *conn, struct end *end,
                 enum uroce_qp_state state)
{
    struct uroce_qp_attr attr;
    unsigned mask;

    assert_int_equal(uroce_conn_attr(conn, state, &attr, &mask), 0);
    assert_int_equal(uroce_qp_modify(end->qp, &attr, mask, session->twins->now), 0);
}

static void move_all(struct session *session, struct uroce_conn *conn, struct end *end)
{
    for (enum uroce_qp_state state = UROCE_INIT; state <= UROCE_RTS; state++)
        move(session, conn, end, state);
}

/* Makes both sides ESTABLISHED and takes the events. */
static void establish(struct session *session)
{
    const struct uroce_conn_param answer = param(&session->twins->b, "welcome");

    listen_with(session, BACKLOG);
    connect_out(session);
    session->passive = expect(session, UROCE_CONN_REQUEST, 0);
    expect_data(session->passive, "hello");
    move_all(session, session->passive, &session->twins->b);
    assert_int_equal(uroce_conn_accept(session->passive, &answer, NULL, session->twins->now), 0);
    assert_ptr_equal(expect(session, UROCE_CONN_RESPONSE, 0), session->active);
    expect_data(session->active, "welcome");
    move_all(session, session->active, &session->twins->a);
    assert_int_equal(uroce_conn_confirm(session->active, session->twins->now), 0);
    assert_ptr_equal(expect(session, UROCE_CONN_CONFIRMED, 0), session->passive);
}

/* Closes all objects. After the time of late packets, the engine has no connection left. */
static void finish(struct session *session)
{
    if (session->active != NULL)
        close_conn(session, session->active);
    if (session->passive != NULL)
        close_conn(session, session->passive);
    if (session->listener != NULL)
        assert_int_equal(uroce_listener_destroy(session->listener), 0);
    twins_pass_time(session->twins, session->twins->now + URO_MS(200000));
    assert_int_equal(uroce_engine_end_connections(session->twins->engine, session->twins->now), 1);
}

static void connection__accepted_used_and_disconnected__both_sides_get_each_event(void **state)
{
    struct session session = session_open(*state);
    struct twins *s = *state;
    struct uroce_qp_attr attr;

    establish(&session);
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

    assert_int_equal(uroce_conn_disconnect(session.active, s->now), 0);
    twins_settle(s);
    struct uroce_conn *first = expect(&session, UROCE_CONN_DISCONNECTED, 0);
    struct uroce_conn *second = expect(&session, UROCE_CONN_DISCONNECTED, 0);
    assert_true(first == session.passive && second == session.active);
    assert_int_equal(uroce_conn_disconnect(session.passive, s->now), 0);
    twins_pass_time(s, s->now + URO_MS(600));
    expect(&session, UROCE_CONN_TIMEWAIT_EXIT, 0);
    expect(&session, UROCE_CONN_TIMEWAIT_EXIT, 0);
    expect_no_event(&session);
    assert_true(uro_mark_hit("CM.REQ"));
    assert_true(uro_mark_hit("CM.REP"));
    assert_true(uro_mark_hit("CM.DREQ"));
    assert_true(uro_mark_hit("CM.DREP"));
    assert_true(uro_mark_hit("CM.TIMEWAIT"));
    assert_true(uro_mark_hit("CM.QP"));
    assert_true(uro_mark_hit("CM.GSI"));
    finish(&session);
}

/* Loses the RTU and delivers data. The passive queue pair is in RTR, the active queue pair in
 * RTS. */
static void data_before_the_rtu(struct session *session)
{
    struct twins *s = session->twins;
    const struct uroce_conn_param answer = param(&s->b, "");
    struct uroce_packet rtu;
    struct uroce_event event;

    listen_with(session, BACKLOG);
    connect_out(session);
    session->passive = expect(session, UROCE_CONN_REQUEST, 0);
    move(session, session->passive, &s->b, UROCE_INIT);
    move(session, session->passive, &s->b, UROCE_RTR);
    assert_int_equal(uroce_conn_accept(session->passive, &answer, NULL, s->now), 0);
    expect(session, UROCE_CONN_RESPONSE, 0);
    move_all(session, session->active, &s->a);
    assert_int_equal(uroce_conn_confirm(session->active, s->now), 0);
    assert_int_equal(twins_output(s, TWINS_BURST), 0);
    assert_int_equal(uroce_engine_looped(s->engine, &rtu, 1), 1);
    ((uint8_t *)(uintptr_t)rtu.bytes)[80] ^= 1; /* the ICRC of the RTU is wrong now */
    twins_post_recv(&s->b, 1, 0, 64);
    twins_post_send(&s->a, 2, 0, 64);
    twins_settle(s);
    twins_expect(s, &s->b, 1, UROCE_SUCCESS);
    twins_expect(s, &s->a, 2, UROCE_SUCCESS);
    expect_no_event(session);
    assert_true(uroce_engine_event(s->engine, &event));
    assert_int_equal(event.kind, UROCE_EVENT_COMM_EST);
}

static void send_back(struct session *session)
{
    struct twins *s = session->twins;

    move(session, session->passive, &s->b, UROCE_RTS);
    twins_post_recv(&s->a, 3, 0, 64);
    twins_post_send(&s->b, 4, 0, 64);
    twins_settle(s);
    twins_expect(s, &s->a, 3, UROCE_SUCCESS);
    twins_expect(s, &s->b, 4, UROCE_SUCCESS);
}

static void rtu__lost_and_data_arrives__application_confirms_with_comm_est(void **state)
{
    struct session session = session_open(*state);

    data_before_the_rtu(&session);
    assert_int_equal(uroce_conn_established(session.passive, session.twins->now), 0);
    assert_ptr_equal(expect(&session, UROCE_CONN_CONFIRMED, 0), session.passive);
    assert_true(uro_mark_hit("CM.HEARD"));
    send_back(&session);
    twins_pass_time(session.twins, session.twins->now + URO_MS(10000));
    expect_no_event(&session); /* the passive side sends no further REP */
    finish(&session);
}

static void rtu__lost_and_comm_est_not_reported__next_rep_gets_an_rtu(void **state)
{
    struct session session = session_open(*state);
    struct uroce_event event;

    data_before_the_rtu(&session);
    twins_pass_time(session.twins, session.twins->now + URO_MS(4097));
    assert_ptr_equal(expect(&session, UROCE_CONN_CONFIRMED, 0), session.passive);
    assert_true(uro_mark_hit("CM.RTU.AGAIN"));
    assert_false(
        uroce_engine_event(session.twins->engine, &event)); /* there is only one COMM_EST */
    send_back(&session);
    finish(&session);
}

static void connect__no_listener__is_rejected(void **state)
{
    struct session session = session_open(*state);

    connect_out(&session);
    expect(&session, UROCE_CONN_REJECTED, (int)UROCE_REJECT_BAD_SERVICE);
    finish(&session);
}

static void connect__application_rejects__private_data_arrives(void **state)
{
    struct session session = session_open(*state);

    listen_with(&session, BACKLOG);
    connect_out(&session);
    session.passive = expect(&session, UROCE_CONN_REQUEST, 0);
    assert_int_equal(
        uroce_conn_reject(session.passive, UROCE_REJECT_CONSUMER, "no", 2, session.twins->now), 0);
    expect(&session, UROCE_CONN_REJECTED, (int)UROCE_REJECT_CONSUMER);
    expect_data(session.active, "no");
    finish(&session);
}

static void connect__no_response__unreachable_in_bounded_time(void **state)
{
    struct session session = session_open(*state);
    struct uroce_conn_target where = target_at("10.0.0.77");
    const struct uroce_conn_param wanted = param(&session.twins->a, "");

    session.active = connect_as(&session, &where, &wanted);
    twins_pass_time(session.twins, session.twins->now + URO_MS(80000));
    expect_no_event(&session);
    twins_pass_time(session.twins, session.twins->now + URO_MS(3000));
    assert_ptr_equal(expect(&session, UROCE_CONN_UNREACHABLE, -ETIMEDOUT), session.active);
    assert_true(uro_mark_hit("CM.NO.NEIGHBOR"));
    finish(&session);
}

static void connect__no_route__unreachable(void **state)
{
    struct session session = session_open(*state);
    struct uroce_conn_target where = target_at("192.168.1.1");
    const struct uroce_conn_param wanted = param(&session.twins->a, "");

    where.retries = 0;
    session.active = connect_as(&session, &where, &wanted);
    twins_pass_time(session.twins, session.twins->now + URO_MS(6000));
    assert_ptr_equal(expect(&session, UROCE_CONN_UNREACHABLE, -ETIMEDOUT), session.active);
    assert_true(uro_mark_hit("CM.NO.ROUTE"));
    finish(&session);
}

static struct uro_gid gid_of(const char *text)
{
    struct uro_gid gid;

    assert_true(uro_gid_parse(text, &gid));
    return gid;
}

/* Compares the private data with the header that Linux writes: see wire/test_cm_msg.c. */
/* rule CM.SERVICE */
static void ip_cm_header__bytes_of_linux__are_decoded_and_encoded(void **state)
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
    again[1] = 0x6f; /* the low 4 bits have no meaning */
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
    struct session session = session_open(*state);
    struct uroce_engine *engine = session.twins->engine;
    struct uroce_listener *other, *specific;

    listen_with(&session, BACKLOG);
    assert_int_equal(uroce_listener_create(engine, SERVICE, -1, BACKLOG, NULL, &other),
                     -EADDRINUSE);
    assert_int_equal(uroce_listener_create(engine, SERVICE, 2, BACKLOG, &other, &specific), 0);
    connect_out(&session);
    const struct uroce_conn_event event = next_event(&session);
    assert_int_equal(event.kind, UROCE_CONN_REQUEST);
    assert_ptr_equal(event.user, &other); /* the event is for the listener at the address */
    assert_true(uro_mark_hit("CM.LISTEN"));
    close_conn(&session, event.conn);
    assert_int_equal(uroce_listener_destroy(specific), 0);
    finish(&session);
}

/* Closes all waiting requests. Returns their number. */
static unsigned end_requests(struct session *session)
{
    unsigned requests = 0;
    struct uroce_conn_event event;

    twins_settle(session->twins);
    while (uroce_conn_event(session->twins->engine, &event) == 1) {
        assert_true(event.kind == UROCE_CONN_REQUEST || event.status == (int)UROCE_REJECT_CONSUMER);
        requests += event.kind == UROCE_CONN_REQUEST;
        if (event.kind == UROCE_CONN_REQUEST)
            close_conn(session, event.conn);
        twins_settle(session->twins);
    }
    return requests;
}

/* As in Linux, a full backlog drops requests without a reply; the client retransmits. */
static void connect__more_than_the_backlog__peer_retransmits(void **state)
{
    struct session session = session_open(*state);
    struct uroce_conn *made[6];
    const struct uroce_conn_target where = target_at("10.9.9.9");

    listen_with(&session, BACKLOG);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++) {
        struct uroce_conn_param wanted = param(&session.twins->a, "");
        wanted.qpn = 100 + i;
        made[i] = connect_as(&session, &where, &wanted);
    }
    assert_int_equal(end_requests(&session), 4);
    assert_true(uro_mark_hit("CM.BACKLOG"));
    twins_pass_time(session.twins, session.twins->now + URO_MS(5121));
    assert_int_equal(end_requests(&session), 2);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++)
        close_conn(&session, made[i]);
    finish(&session);
}

static void backlog__event_of_a_request_fetched__request_is_not_counted(void **state)
{
    struct session session = session_open(*state);
    struct uroce_conn *made[2], *first;
    const struct uroce_conn_target where = target_at("10.9.9.9");

    listen_with(&session, 1);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++) {
        struct uroce_conn_param wanted = param(&session.twins->a, "");
        wanted.qpn = 100 + i;
        made[i] = connect_as(&session, &where, &wanted);
        struct uroce_conn *request = expect(&session, UROCE_CONN_REQUEST, 0);
        if (i == 0)
            first = request;
        else
            close_conn(&session, request);
    }
    close_conn(&session, first);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++)
        close_conn(&session, made[i]);
    finish(&session);
}

static void datagram_service__sidr_req__gets_sidr_rep(void **state)
{
    struct uroce_conn_param peer;
    struct session session = session_open(*state);
    const struct uroce_conn_target where = target_at("10.9.9.9");
    const struct uroce_conn_param wanted = { .type = UROCE_UD };
    const struct uroce_conn_param answer = { .type = UROCE_UD, .qpn = 77, .qkey = 0x01234567 };

    listen_with(&session, BACKLOG);
    session.active = connect_as(&session, &where, &wanted);
    session.passive = expect(&session, UROCE_CONN_REQUEST, 0);
    assert_int_equal(uroce_conn_accept(session.passive, &answer, NULL, session.twins->now), 0);
    assert_ptr_equal(expect(&session, UROCE_CONN_RESPONSE, 0), session.active);
    assert_int_equal(uroce_conn_peer(session.active, &peer), 0);
    assert_int_equal(peer.qpn, 77);
    assert_int_equal(peer.qkey, 0x01234567);
    assert_true(uro_mark_hit("CM.SIDR.REQ"));
    assert_true(uro_mark_hit("CM.SIDR.REP"));
    finish(&session);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, twins_open, twins_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(connection__accepted_used_and_disconnected__both_sides_get_each_event),
        TEST(rtu__lost_and_data_arrives__application_confirms_with_comm_est),
        TEST(rtu__lost_and_comm_est_not_reported__next_rep_gets_an_rtu),
        TEST(connect__no_listener__is_rejected),
        TEST(connect__application_rejects__private_data_arrives),
        TEST(connect__no_response__unreachable_in_bounded_time),
        TEST(connect__no_route__unreachable),
        TEST(ip_cm_header__bytes_of_linux__are_decoded_and_encoded),
        TEST(listen__twice__address_in_use),
        TEST(connect__more_than_the_backlog__peer_retransmits),
        TEST(backlog__event_of_a_request_fetched__request_is_not_counted),
        TEST(datagram_service__sidr_req__gets_sidr_rep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
