/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm.c - a connection from the request to the end, both sides on one engine. */
#include <errno.h>
#include <string.h>

#include "base/mark.h"
#include "cm/conn.h"
#include "cm/ip_cm.h"
#include "inside.h"
#include "twins.h"

#define SERVICE UINT64_C(0x1061234)

static struct uro_gid gid_of(const char *text)
{
    struct uro_gid gid;

    assert_true(uro_gid_parse(text, &gid));
    return gid;
}

struct talk {
    struct twins *twins;
    struct uro_cm *cm;
    struct uro_listener listener;
    struct uro_conn *active;
    struct uro_conn *passive;
};

static struct talk talk_open(struct twins *s)
{
    struct talk talk = { .twins = s,
                         .cm = uro_engine_cm(s->engine->engine),
                         .listener = { .service_id = SERVICE, .any_address = true, .backlog = 4 } };

    talk.listener.user = s;
    return talk;
}

static struct uro_conn_param param(const struct end *end, const char *data)
{
    struct uro_conn_param param = { .type = URO_QPT_RC,
                                    .qpn = uroce_qp_number(end->qp),
                                    .responder_resources = 4,
                                    .initiator_depth = 2,
                                    .retry_count = 7,
                                    .rnr_retry_count = 6 };

    param.data_length = (uint32_t)strlen(data);
    memcpy(param.data, data, param.data_length);
    return param;
}

static struct uro_conn_target target(void)
{
    return (struct uro_conn_target){ .route = { .local = gid_of("10.0.0.1"),
                                                .remote = gid_of("10.9.9.9"),
                                                .sgid_index = 1,
                                                .hop_limit = 64,
                                                .flow_label = 0x12345 },
                                     .service_id = SERVICE,
                                     .path_mtu = 3,
                                     .ack_timeout = 17,
                                     .response_timeout = 20,
                                     .retries = 15 };
}

static void connect_to(struct talk *talk, uint64_t service_id)
{
    struct uro_conn_target where = target();
    const struct uro_conn_param wanted = param(&talk->twins->a, "hello");

    where.service_id = service_id;
    assert_int_equal(uro_conn_connect(talk->cm, &where, &wanted, talk->twins->now, &talk->active),
                     0);
    twins_settle(talk->twins);
}

static struct uro_conn *expect(struct talk *talk, enum uro_conn_event_kind kind, int status)
{
    struct uro_conn_event event;

    twins_settle(talk->twins);
    assert_true(uro_conn_event(talk->cm, &event));
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.status, status);
    return event.conn;
}

static void expect_no_event(struct talk *talk)
{
    struct uro_conn_event event;

    twins_settle(talk->twins);
    assert_false(uro_conn_event(talk->cm, &event));
}

static void move(struct talk *talk, struct uro_conn *conn, struct end *end, enum uro_qp_state state)
{
    struct uro_qp_attr attr = { .state = state };
    unsigned mask;

    assert_int_equal(uro_conn_qp_attr(conn, &attr, &mask), 0);
    assert_int_equal(uro_engine_qp_modify(talk->twins->engine->engine, end->qp->core, &attr, mask,
                                          talk->twins->now),
                     0);
}

static void move_all(struct talk *talk, struct uro_conn *conn, struct end *end)
{
    for (enum uro_qp_state state = URO_QPS_INIT; state <= URO_QPS_RTS; state++)
        move(talk, conn, end, state);
}

/* Makes both sides ESTABLISHED and takes the events. */
static void establish(struct talk *talk)
{
    const struct uro_conn_param answer = param(&talk->twins->b, "welcome");

    assert_int_equal(uro_conn_listen(talk->cm, &talk->listener), 0);
    connect_to(talk, SERVICE);
    talk->passive = expect(talk, URO_CONN_REQUEST, 0);
    assert_memory_equal(talk->passive->peer.data, "hello", 6);
    move_all(talk, talk->passive, &talk->twins->b);
    assert_int_equal(uro_conn_accept(talk->passive, &answer, talk->twins->now), 0);
    assert_ptr_equal(expect(talk, URO_CONN_RESPONSE, 0), talk->active);
    assert_memory_equal(talk->active->peer.data, "welcome", 8);
    move_all(talk, talk->active, &talk->twins->a);
    assert_int_equal(uro_conn_confirm(talk->active, talk->twins->now), 0);
    assert_ptr_equal(expect(talk, URO_CONN_CONFIRMED, 0), talk->passive);
}

static void finish(struct talk *talk)
{
    if (talk->active != NULL)
        uro_conn_close(talk->active, talk->twins->now);
    if (talk->passive != NULL)
        uro_conn_close(talk->passive, talk->twins->now);
    if (uro_link_used(&talk->listener.link))
        uro_conn_unlisten(talk->cm, &talk->listener);
    twins_pass_time(talk->twins, talk->twins->now + URO_MS(200000));
    assert_int_equal(talk->cm->by_id.count, 0);
}

static void connect__accept__talk__disconnect(void **state)
{
    struct talk talk = talk_open(*state);
    struct twins *s = *state;
    struct uro_qp_attr attr;

    establish(&talk);
    uro_qp_query(s->a.qp->core, &attr);
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

    assert_int_equal(uro_conn_disconnect(talk.active, s->now), 0);
    twins_settle(s);
    struct uro_conn *first = expect(&talk, URO_CONN_DISCONNECTED, 0);
    struct uro_conn *second = expect(&talk, URO_CONN_DISCONNECTED, 0);
    assert_true(first == talk.passive && second == talk.active);
    assert_int_equal(uro_conn_disconnect(talk.passive, s->now), 0);
    twins_pass_time(s, s->now + URO_MS(600));
    expect(&talk, URO_CONN_TIMEWAIT_EXIT, 0);
    expect(&talk, URO_CONN_TIMEWAIT_EXIT, 0);
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
    const struct uro_conn_param answer = param(&s->b, "");
    struct uro_cm_out lost;
    struct uroce_event event;

    assert_int_equal(uro_conn_listen(talk->cm, &talk->listener), 0);
    connect_to(talk, SERVICE);
    talk->passive = expect(talk, URO_CONN_REQUEST, 0);
    move(talk, talk->passive, &s->b, URO_QPS_INIT);
    move(talk, talk->passive, &s->b, URO_QPS_RTR);
    assert_int_equal(uro_conn_accept(talk->passive, &answer, s->now), 0);
    expect(talk, URO_CONN_RESPONSE, 0);
    move_all(talk, talk->active, &s->a);
    assert_int_equal(uro_conn_confirm(talk->active, s->now), 0);
    assert_true(uro_cm_output(talk->cm, &lost, s->now));
    twins_post_recv(&s->b, 1, 0, 64);
    twins_post_send(&s->a, 2, 0, 64);
    twins_settle(s);
    twins_expect(s, &s->b, 1, UROCE_SUCCESS);
    twins_expect(s, &s->a, 2, UROCE_SUCCESS);
    expect_no_event(talk);
    assert_true(uroce_engine_event(s->engine, &event));
    assert_int_equal(event.kind, UROCE_EVENT_COMM_EST);
    assert_int_equal(talk->passive->state, URO_CONN_REP_SENT);
}

static void talk_back(struct talk *talk)
{
    struct twins *s = talk->twins;

    move(talk, talk->passive, &s->b, URO_QPS_RTS);
    twins_post_recv(&s->a, 3, 0, 64);
    twins_post_send(&s->b, 4, 0, 64);
    twins_settle(s);
    twins_expect(s, &s->a, 3, UROCE_SUCCESS);
    twins_expect(s, &s->b, 4, UROCE_SUCCESS);
}

static void rtu_lost__data_arrives__its_notice_confirms(void **state)
{
    struct talk talk = talk_open(*state);

    data_before_the_rtu(&talk);
    assert_int_equal(uro_conn_data_arrived(talk.passive, talk.twins->now), 0);
    assert_ptr_equal(expect(&talk, URO_CONN_CONFIRMED, 0), talk.passive);
    assert_true(uro_mark_hit("CM.HEARD"));
    talk_back(&talk);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(10000));
    expect_no_event(&talk); /* no REP comes again */
    finish(&talk);
}

static void rtu_lost__data_arrives__nobody_notices__next_rep_brings_it(void **state)
{
    struct talk talk = talk_open(*state);
    struct uroce_event event;

    data_before_the_rtu(&talk);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(4097));
    assert_ptr_equal(expect(&talk, URO_CONN_CONFIRMED, 0), talk.passive);
    assert_true(uro_mark_hit("CM.RTU.AGAIN"));
    assert_false(uroce_engine_event(talk.twins->engine, &event)); /* COMM_EST came once */
    talk_back(&talk);
    finish(&talk);
}

static void connect__nobody_listens__rejected(void **state)
{
    struct talk talk = talk_open(*state);

    connect_to(&talk, SERVICE);
    expect(&talk, URO_CONN_REJECTED, (int)URO_CONN_REJ_BAD_SERVICE);
    finish(&talk);
}

static void connect__application_rejects__its_data_arrives(void **state)
{
    struct talk talk = talk_open(*state);

    assert_int_equal(uro_conn_listen(talk.cm, &talk.listener), 0);
    connect_to(&talk, SERVICE);
    talk.passive = expect(&talk, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_reject(talk.passive, URO_CONN_REJ_CONSUMER, "no", 2, talk.twins->now),
                     0);
    expect(&talk, URO_CONN_REJECTED, (int)URO_CONN_REJ_CONSUMER);
    assert_memory_equal(talk.active->peer.data, "no", 3);
    finish(&talk);
}

static void connect__never_answered__unreachable_in_bounded_time(void **state)
{
    struct talk talk = talk_open(*state);
    struct uro_conn_target where = target();
    const struct uro_conn_param wanted = param(&talk.twins->a, "");

    where.route.remote = gid_of("10.0.0.77");
    assert_int_equal(uro_conn_connect(talk.cm, &where, &wanted, talk.twins->now, &talk.active), 0);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(80000));
    expect_no_event(&talk);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(3000));
    assert_ptr_equal(expect(&talk, URO_CONN_UNREACHABLE, -ETIMEDOUT), talk.active);
    assert_true(uro_mark_hit("CM.NO.NEIGHBOR"));
    finish(&talk);
}

static void connect__no_route__unreachable(void **state)
{
    struct talk talk = talk_open(*state);
    struct uro_conn_target where = target();
    const struct uro_conn_param wanted = param(&talk.twins->a, "");

    where.route.remote = gid_of("192.168.1.1");
    where.retries = 0;
    assert_int_equal(uro_conn_connect(talk.cm, &where, &wanted, talk.twins->now, &talk.active), 0);
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(6000));
    assert_ptr_equal(expect(&talk, URO_CONN_UNREACHABLE, -ETIMEDOUT), talk.active);
    assert_true(uro_mark_hit("CM.NO.ROUTE"));
    finish(&talk);
}

/* Compares with the header that Linux put in front of the private data: see wire/test_cm_msg.c. */
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
    again[1] = 0x6f; /* the low half says nothing */
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
    struct uro_listener other = talk.listener;
    struct uro_listener specific = talk.listener;

    specific.any_address = false;
    specific.address = gid_of("10.9.9.9");
    assert_int_equal(uro_conn_listen(talk.cm, &talk.listener), 0);
    assert_int_equal(uro_conn_listen(talk.cm, &other), -EADDRINUSE);
    assert_int_equal(uro_conn_listen(talk.cm, &specific), 0);
    connect_to(&talk, SERVICE);
    talk.passive = expect(&talk, URO_CONN_REQUEST, 0);
    assert_ptr_equal(talk.passive->listener, &specific);
    assert_true(uro_mark_hit("CM.LISTEN"));
    uro_conn_close(talk.passive, talk.twins->now);
    talk.passive = NULL;
    uro_conn_unlisten(talk.cm, &specific);
    finish(&talk);
}

/* Closes all waiting requests. Returns their number. */
static unsigned end_requests(struct talk *talk)
{
    unsigned requests = 0;
    struct uro_conn_event event;

    twins_settle(talk->twins);
    while (uro_conn_event(talk->cm, &event)) {
        assert_true(event.kind == URO_CONN_REQUEST || event.status == URO_CONN_REJ_CONSUMER);
        requests += event.kind == URO_CONN_REQUEST;
        if (event.kind == URO_CONN_REQUEST)
            uro_conn_close(event.conn, talk->twins->now);
        twins_settle(talk->twins);
    }
    return requests;
}

/* As in Linux, a full backlog drops requests without a reply; the client retransmits. */
static void connect__more_than_the_backlog__comes_again(void **state)
{
    struct talk talk = talk_open(*state);
    struct uro_conn *made[6];
    struct uro_conn_target where = target();

    assert_int_equal(uro_conn_listen(talk.cm, &talk.listener), 0);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++) {
        struct uro_conn_param wanted = param(&talk.twins->a, "");
        wanted.qpn = 100 + i;
        assert_int_equal(uro_conn_connect(talk.cm, &where, &wanted, talk.twins->now, &made[i]), 0);
    }
    assert_int_equal(end_requests(&talk), 4);
    assert_true(uro_mark_hit("CM.BACKLOG"));
    twins_pass_time(talk.twins, talk.twins->now + URO_MS(5121));
    assert_int_equal(end_requests(&talk), 2);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++)
        uro_conn_close(made[i], talk.twins->now);
    finish(&talk);
}

static void backlog__counts_only_requests_that_nobody_has_noticed(void **state)
{
    struct talk talk = talk_open(*state);
    struct uro_conn *made[2], *first;
    struct uro_conn_target where = target();

    talk.listener.backlog = 1;
    assert_int_equal(uro_conn_listen(talk.cm, &talk.listener), 0);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++) {
        struct uro_conn_param wanted = param(&talk.twins->a, "");
        wanted.qpn = 100 + i;
        assert_int_equal(uro_conn_connect(talk.cm, &where, &wanted, talk.twins->now, &made[i]), 0);
        struct uro_conn *request = expect(&talk, URO_CONN_REQUEST, 0);
        uro_conn_noticed(request);
        if (i == 0)
            first = request;
        else
            uro_conn_close(request, talk.twins->now);
    }
    uro_conn_close(first, talk.twins->now);
    for (unsigned i = 0; i < URO_ARRAY_LEN(made); i++)
        uro_conn_close(made[i], talk.twins->now);
    finish(&talk);
}

static void datagram_service__asked_and_answered(void **state)
{
    struct talk talk = talk_open(*state);
    struct uro_conn_target where = target();
    struct uro_conn_param wanted = { .type = URO_QPT_UD };
    const struct uro_conn_param answer = { .type = URO_QPT_UD, .qpn = 77, .qkey = 0x01234567 };

    assert_int_equal(uro_conn_listen(talk.cm, &talk.listener), 0);
    assert_int_equal(uro_conn_connect(talk.cm, &where, &wanted, talk.twins->now, &talk.active), 0);
    talk.passive = expect(&talk, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(talk.passive, &answer, talk.twins->now), 0);
    assert_ptr_equal(expect(&talk, URO_CONN_RESPONSE, 0), talk.active);
    assert_int_equal(talk.active->peer.qpn, 77);
    assert_int_equal(talk.active->peer.qkey, 0x01234567);
    assert_true(uro_mark_hit("CM.SIDR.REQ"));
    assert_true(uro_mark_hit("CM.SIDR.REP"));
    finish(&talk);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, twins_open, twins_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(connect__accept__talk__disconnect),
        TEST(rtu_lost__data_arrives__its_notice_confirms),
        TEST(rtu_lost__data_arrives__nobody_notices__next_rep_brings_it),
        TEST(connect__nobody_listens__rejected),
        TEST(connect__application_rejects__its_data_arrives),
        TEST(connect__never_answered__unreachable_in_bounded_time),
        TEST(connect__no_route__unreachable),
        TEST(addresses_in_private_data__as_linux_has_them),
        TEST(listen__twice__address_in_use),
        TEST(connect__more_than_the_backlog__comes_again),
        TEST(backlog__counts_only_requests_that_nobody_has_noticed),
        TEST(datagram_service__asked_and_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
