/* SPDX-License-Identifier: BSD-3-Clause */
/* test_connection.c - tests uroce/connection.h with both sides of a connection on one engine in
 * virtual time, and with wrong arguments. */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <uroce/connection.h>

#define ROOM    1518
#define FRAMES  8
#define SERVICE 0x1061234u
#define MS      UINT64_C(1000000)

static struct uroce_engine *engine;
static struct uroce_pd *pd;
static struct uroce_cq *cq;
static struct uroce_qp *qps[2]; /* active, passive */
static uint64_t now;
static int on_listener, on_active, on_passive; /* their addresses are the `user` of events */

static int start(void **state)
{
    struct uroce_engine_config config = { .size = sizeof config,
                                          .mac = { 2, 0, 0, 0, 0, 1 },
                                          .mtu = 1500,
                                          .address_count = 2,
                                          .connections = 8,
                                          .seed = { 1 } };
    (void)state;
    now = 0;
    config.addresses[0].prefix = config.addresses[1].prefix = 24;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    assert_int_equal(uroce_gid_parse("10.9.9.9", config.addresses[1].gid), 0);
    assert_int_equal(uroce_engine_create(&config, now, &engine), 0);
    assert_int_equal(uroce_pd_create(engine, &pd), 0);
    assert_int_equal(uroce_cq_create(engine, 16, NULL, &cq), 0);
    const struct uroce_qp_config qp = { .size = sizeof qp,
                                        .type = UROCE_RC,
                                        .send_cq = cq,
                                        .recv_cq = cq,
                                        .send_capacity = 4,
                                        .recv_capacity = 4 };
    for (int i = 0; i < 2; i++)
        assert_int_equal(uroce_qp_create(pd, &qp, &qps[i]), 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(uroce_qp_destroy(qps[i]), 0);
    assert_int_equal(uroce_cq_destroy(cq), 0);
    assert_int_equal(uroce_pd_destroy(pd), 0);
    assert_int_equal(uroce_engine_destroy(engine), 0);
    return 0;
}

/* Runs the engine until nothing is due at @until. */
static void run(uint64_t until)
{
    static uint8_t bytes[FRAMES][ROOM];
    struct uroce_buffer buffers[FRAMES];
    struct uroce_event event;

    for (int i = 0; i < FRAMES; i++)
        buffers[i] = (struct uroce_buffer){ bytes[i], ROOM, 0 };
    while (uroce_engine_next(engine) <= until) {
        if (uroce_engine_next(engine) > now)
            now = uroce_engine_next(engine);
        assert_true(uroce_engine_output(engine, buffers, FRAMES, now) >= 0);
        while (uroce_engine_event(engine, &event) == 1)
            ;
    }
    now = until;
    assert_int_equal(uroce_engine_input(engine, NULL, 0, now), 0);
}

static struct uroce_conn_event expect(enum uroce_conn_event_kind kind, const void *user)
{
    struct uroce_conn_event event = { 0 };

    run(now);
    assert_int_equal(uroce_conn_event(engine, &event), 1);
    assert_int_equal(event.kind, kind);
    assert_ptr_equal(event.user, user);
    return event;
}

static void expect_nothing(void)
{
    struct uroce_conn_event event;

    run(now);
    assert_int_equal(uroce_conn_event(engine, &event), 0);
}

static struct uroce_conn_param param_of(int side, const char *data)
{
    struct uroce_conn_param param = { .type = UROCE_RC,
                                      .qpn = uroce_qp_number(qps[side]),
                                      .responder_resources = 4,
                                      .initiator_depth = 2,
                                      .retry_count = 7,
                                      .rnr_retry_count = 6,
                                      .data_length = (uint32_t)strlen(data) };

    memcpy(param.data, data, strlen(data));
    return param;
}

static struct uroce_conn_target target_of(void)
{
    struct uroce_conn_target target = { .address = { .sgid_index = 1 },
                                        .service_id = SERVICE,
                                        .path_mtu = 1024,
                                        .ack_timeout = 12,
                                        .response_timeout = 16,
                                        .retries = 3 };

    assert_int_equal(uroce_gid_parse("10.9.9.9", target.address.gid), 0);
    return target;
}

static struct uroce_listener *listen_at(int sgid_index)
{
    struct uroce_listener *listener;

    assert_int_equal(uroce_listener_create(engine, SERVICE, sgid_index, 2, &on_listener, &listener),
                     0);
    return listener;
}

static struct uroce_conn *connect_with(const char *data)
{
    const struct uroce_conn_target target = target_of();
    const struct uroce_conn_param param = param_of(0, data);
    struct uroce_conn *conn;

    assert_int_equal(uroce_conn_connect(engine, &target, &param, &on_active, now, &conn), 0);
    return conn;
}

static void move(const struct uroce_conn *conn, struct uroce_qp *qp, enum uroce_qp_state last)
{
    for (enum uroce_qp_state state = UROCE_INIT; state <= last; state++) {
        struct uroce_qp_attr attr;
        unsigned mask;
        if (state <= uroce_qp_state(qp))
            continue;
        assert_int_equal(uroce_conn_attr(conn, state, &attr, &mask), 0);
        assert_int_equal(uroce_qp_modify(qp, &attr, mask, now), 0);
    }
}

static void connection__made_used_and_ended__both_sides_have_the_events(void **state)
{
    struct uroce_listener *listener = listen_at(2);
    struct uroce_conn *active = connect_with("hello");
    struct uroce_conn_param peer;
    struct uroce_conn_target target;
    const struct uroce_conn_param answer = param_of(1, "welcome");

    (void)state;
    struct uroce_conn *passive = expect(UROCE_CONN_REQUEST, &on_listener).conn;
    assert_int_equal(uroce_conn_peer(passive, &peer), 0);
    assert_string_equal((const char *)peer.data, "hello");
    assert_int_equal(peer.qpn, uroce_qp_number(qps[0]));
    assert_int_equal(uroce_conn_target(passive, &target), 0);
    assert_int_equal(target.service_id, SERVICE);
    assert_int_equal(target.path_mtu, 1024);
    assert_int_equal(target.address.gid[15], 1);
    move(passive, qps[1], UROCE_RTR);
    assert_int_equal(uroce_conn_accept(passive, &answer, &on_passive, now), 0);
    assert_ptr_equal(expect(UROCE_CONN_RESPONSE, &on_active).conn, active);
    move(active, qps[0], UROCE_RTS);
    assert_int_equal(uroce_conn_confirm(active, now), 0);
    assert_ptr_equal(expect(UROCE_CONN_CONFIRMED, &on_passive).conn, passive);
    move(passive, qps[1], UROCE_RTS);

    const struct uroce_send send = { .wr_id = 1, .opcode = UROCE_SEND };
    struct uroce_completion completion;
    assert_int_equal(uroce_qp_receive(qps[1], 2, NULL, 0), 0);
    assert_int_equal(uroce_qp_send(qps[0], &send), 0);
    run(now);
    assert_int_equal(uroce_cq_poll(cq, &completion, 1), 1);
    assert_int_equal(completion.wr_id, 2);

    assert_int_equal(uroce_engine_end_connections(engine, now), 0);
    (void)expect(UROCE_CONN_DISCONNECTED, &on_passive);
    (void)expect(UROCE_CONN_DISCONNECTED, &on_active);
    assert_int_equal(uroce_conn_disconnect(active, now), 0);
    run(now + 10000 * MS);
    (void)expect(UROCE_CONN_TIMEWAIT_EXIT, &on_passive);
    (void)expect(UROCE_CONN_TIMEWAIT_EXIT, &on_active);
    expect_nothing();
    assert_int_equal(uroce_engine_end_connections(engine, now), 1);
    assert_int_equal(uroce_conn_close(active, now), 0);
    assert_int_equal(uroce_conn_close(passive, now), 0);
    assert_int_equal(uroce_listener_destroy(listener), 0);
}

static void request__rejected__the_reason_and_the_data_arrive(void **state)
{
    struct uroce_listener *listener = listen_at(-1);
    struct uroce_conn *active = connect_with("");
    struct uroce_conn_param peer;

    (void)state;
    struct uroce_conn *passive = expect(UROCE_CONN_REQUEST, &on_listener).conn;
    assert_int_equal(uroce_conn_reject(passive, UROCE_REJECT_CONSUMER, NULL, 1, now), -EINVAL);
    assert_int_equal(uroce_conn_reject(passive, UROCE_REJECT_CONSUMER, "no", 149, now), -EINVAL);
    assert_int_equal(uroce_conn_reject(passive, 65536, "no", 3, now), -EINVAL);
    assert_int_equal(uroce_conn_reject(passive, UROCE_REJECT_CONSUMER, "no", 3, now), 0);
    assert_int_equal(expect(UROCE_CONN_REJECTED, &on_active).status, UROCE_REJECT_CONSUMER);
    assert_int_equal(uroce_conn_peer(active, &peer), 0);
    assert_string_equal((const char *)peer.data, "no");
    assert_int_equal(uroce_engine_destroy(engine), -EBUSY);
    assert_int_equal(uroce_conn_close(active, now), 0);
    assert_int_equal(uroce_conn_close(passive, now), 0);
    assert_int_equal(uroce_listener_destroy(listener), 0);
    run(now + 10000 * MS);
}

static void request__no_listener__bad_service(void **state)
{
    struct uroce_conn *active = connect_with("");

    (void)state;
    assert_int_equal(expect(UROCE_CONN_REJECTED, &on_active).status, UROCE_REJECT_BAD_SERVICE);
    assert_int_equal(uroce_conn_close(active, now), 0);
    run(now + 10000 * MS);
}

static void datagram_service__sidr_req__reply_has_a_queue_pair(void **state)
{
    struct uroce_listener *listener = listen_at(-1);
    const struct uroce_conn_target target = target_of();
    const struct uroce_conn_param ask = { .type = UROCE_UD },
                                  answer = { .type = UROCE_UD, .qpn = 0x123, .qkey = 7 };
    struct uroce_conn_param peer;
    struct uroce_conn *active;

    (void)state;
    assert_int_equal(uroce_conn_connect(engine, &target, &ask, &on_active, now, &active), 0);
    struct uroce_conn *passive = expect(UROCE_CONN_REQUEST, &on_listener).conn;
    assert_int_equal(uroce_conn_accept(passive, &answer, NULL, now), 0);
    (void)expect(UROCE_CONN_RESPONSE, &on_active);
    assert_int_equal(uroce_conn_peer(active, &peer), 0);
    assert_int_equal(peer.qpn, 0x123);
    assert_int_equal(peer.qkey, 7);
    assert_int_equal(uroce_conn_close(active, now), 0);
    assert_int_equal(uroce_conn_close(passive, now), 0);
    assert_int_equal(uroce_listener_destroy(listener), 0);
    run(now + 10000 * MS);
}

static void listener__wrong_argument__refused(void **state)
{
    struct uroce_listener *listener = listen_at(1), *other = NULL;

    (void)state;
    assert_int_equal(uroce_listener_create(NULL, SERVICE, -1, 1, NULL, &other), -EINVAL);
    assert_int_equal(uroce_listener_create(engine, SERVICE, -1, 1, NULL, NULL), -EINVAL);
    assert_int_equal(uroce_listener_create(engine, SERVICE, -1, 0, NULL, &other), -EINVAL);
    assert_int_equal(uroce_listener_create(engine, SERVICE, 3, 1, NULL, &other), -EINVAL);
    assert_int_equal(uroce_listener_create(engine, SERVICE, 1, 1, NULL, &other), -EADDRINUSE);
    assert_null(other);
    assert_int_equal(uroce_listener_destroy(NULL), -EINVAL);
    assert_int_equal(uroce_listener_destroy(listener), 0);
}

static void connect__wrong_argument__refused(void **state)
{
    struct uroce_conn_target targets[8];
    struct uroce_conn_param params[6];
    const struct uroce_conn_param param = param_of(0, "");
    struct uroce_conn *conn = NULL;

    (void)state;
    for (int i = 0; i < 8; i++)
        targets[i] = target_of();
    targets[0].path_mtu = 1000;
    targets[1].path_mtu = 8192;
    targets[2].ack_timeout = 32;
    targets[3].response_timeout = 32;
    targets[4].retries = 16;
    targets[5].address.sgid_index = 0; /* IPv6 */
    targets[6].address.sgid_index = 9;
    targets[7].reserved[4] = 1;
    for (int i = 0; i < 8; i++)
        assert_int_equal(uroce_conn_connect(engine, &targets[i], &param, NULL, now, &conn),
                         -EINVAL);
    for (int i = 0; i < 6; i++)
        params[i] = param;
    params[0].qpn = 1u << 24;
    params[1].retry_count = 8;
    params[2].rnr_retry_count = 8;
    params[3].data_length = 93; /* the message has room for 92 */
    params[4].data_length = UROCE_CONN_DATA_MAX + 1;
    params[5].type = (enum uroce_qp_type)5;
    const struct uroce_conn_target target = target_of();
    for (int i = 0; i < 6; i++)
        assert_int_equal(uroce_conn_connect(engine, &target, &params[i], NULL, now, &conn),
                         -EINVAL);
    assert_int_equal(uroce_conn_connect(engine, NULL, &param, NULL, now, &conn), -EINVAL);
    assert_int_equal(uroce_conn_connect(engine, &target, NULL, NULL, now, &conn), -EINVAL);
    assert_int_equal(uroce_conn_connect(NULL, &target, &param, NULL, now, &conn), -EINVAL);
    assert_int_equal(uroce_conn_connect(engine, &target, &param, NULL, now, NULL), -EINVAL);
    assert_null(conn);
}

static void connect__all_connections_are_in_use__enomem(void **state)
{
    const struct uroce_conn_target target = target_of();
    const struct uroce_conn_param param = param_of(0, "");
    struct uroce_conn *conns[9];

    (void)state;
    for (int i = 0; i < 9; i++)
        assert_int_equal(uroce_conn_connect(engine, &target, &param, NULL, now, &conns[i]),
                         i < 8 ? 0 : -ENOMEM);
    for (int i = 0; i < 8; i++)
        assert_int_equal(uroce_conn_close(conns[i], now), 0);
    run(now + 10000 * MS);
}

static void conn__wrong_moment_or_argument__refused(void **state)
{
    struct uroce_conn *conn = connect_with("");
    const struct uroce_conn_param param = param_of(1, "");
    struct uroce_qp_attr attr;
    struct uroce_conn_event event;
    struct uroce_conn_target target;
    struct uroce_conn_param peer;
    unsigned mask;

    (void)state;
    assert_int_equal(uroce_conn_accept(conn, &param, NULL, now), -EINVAL);
    assert_int_equal(uroce_conn_accept(NULL, &param, NULL, now), -EINVAL);
    assert_int_equal(uroce_conn_accept(conn, NULL, NULL, now), -EINVAL);
    assert_int_equal(uroce_conn_confirm(conn, now), -EINVAL);
    assert_int_equal(uroce_conn_confirm(NULL, now), -EINVAL);
    assert_int_equal(uroce_conn_established(conn, now), -EINVAL);
    assert_int_equal(uroce_conn_established(NULL, now), -EINVAL);
    assert_int_equal(uroce_conn_disconnect(NULL, now), -EINVAL);
    assert_int_equal(uroce_conn_close(NULL, now), -EINVAL);
    assert_int_equal(uroce_conn_reject(NULL, 28, NULL, 0, now), -EINVAL);
    assert_int_equal(uroce_conn_attr(conn, UROCE_RTR, &attr, &mask), -EINVAL); /* no answer yet */
    assert_int_equal(uroce_conn_attr(conn, UROCE_SQD, &attr, &mask), -EINVAL);
    assert_int_equal(uroce_conn_attr(NULL, UROCE_INIT, &attr, &mask), -EINVAL);
    assert_int_equal(uroce_conn_attr(conn, UROCE_INIT, NULL, &mask), -EINVAL);
    assert_int_equal(uroce_conn_attr(conn, UROCE_INIT, &attr, NULL), -EINVAL);
    assert_int_equal(uroce_conn_event(NULL, &event), -EINVAL);
    assert_int_equal(uroce_conn_event(engine, NULL), -EINVAL);
    assert_int_equal(uroce_conn_peer(NULL, &peer), -EINVAL);
    assert_int_equal(uroce_conn_peer(conn, NULL), -EINVAL);
    assert_int_equal(uroce_conn_target(NULL, &target), -EINVAL);
    assert_int_equal(uroce_conn_target(conn, NULL), -EINVAL);
    assert_int_equal(uroce_engine_end_connections(NULL, now), -EINVAL);
    run(now + 100 * MS);
    assert_int_equal(uroce_conn_close(conn, now - 1), -EINVAL); /* time goes back */
    assert_int_equal(uroce_conn_close(conn, now), 0);
    run(now + 10000 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define WITH_ENGINE(name) cmocka_unit_test_setup_teardown(name, start, stop)
        WITH_ENGINE(connection__made_used_and_ended__both_sides_have_the_events),
        WITH_ENGINE(request__rejected__the_reason_and_the_data_arrive),
        WITH_ENGINE(request__no_listener__bad_service),
        WITH_ENGINE(datagram_service__sidr_req__reply_has_a_queue_pair),
        WITH_ENGINE(listener__wrong_argument__refused),
        WITH_ENGINE(connect__wrong_argument__refused),
        WITH_ENGINE(connect__all_connections_are_in_use__enomem),
        WITH_ENGINE(conn__wrong_moment_or_argument__refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
