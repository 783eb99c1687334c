/* SPDX-License-Identifier: BSD-3-Clause */
/* managers.c - see managers.h. */
#include "managers.h"

#include <stdlib.h>
#include <string.h>

#include "base/mark.h"

#define SETTLE_MAX 1000u /* maximum number of messages at one time; more means an endless loop */

static void open_manager(struct managers *s, struct manager *m, unsigned number)
{
    const uint8_t ipv4[4] = { 10, 0, 0, (uint8_t)number };
    const struct uro_cm_config config = { .guid = number,
                                          .connections = MANAGERS_CONNECTIONS,
                                          .path_mtu = 3,
                                          .seed = { (uint8_t)number } };
    size_t size = (uro_cm_size(&config) + 63) & ~(size_t)63;

    m->memory = aligned_alloc(64, size);
    assert_non_null(m->memory);
    memset(m->memory, 0xee, size);
    m->cm = uro_cm_init(m->memory, &config, &s->counters, s->now);
    m->address = uro_gid_from_ipv4(ipv4);
    m->listener =
        (struct uro_listener){ .service_id = MANAGERS_SERVICE, .any_address = true, .backlog = 4 };
}

int managers_open(void **state)
{
    struct managers *s = calloc(1, sizeof *s);

    assert_non_null(s);
    uro_mark_clear();
    open_manager(s, &s->a, 1);
    open_manager(s, &s->b, 2);
    assert_int_equal(uro_conn_listen(s->b.cm, &s->b.listener), 0);
    *state = s;
    return 0;
}

void managers_close_both(struct managers *s)
{
    struct manager *both[2] = { &s->a, &s->b };

    for (unsigned i = 0; i < 2; i++) {
        if (both[i]->conn != NULL)
            uro_conn_close(both[i]->conn, s->now);
        both[i]->conn = NULL;
    }
}

/* Closes both managers. Fails if a manager still has a connection or a timer after 1000 s, for
 * example a half-open connection. */
int managers_close(void **state)
{
    struct managers *s = *state;
    const struct manager *both[2] = { &s->a, &s->b };

    managers_close_both(s);
    uro_conn_unlisten(s->b.cm, &s->b.listener);
    managers_pass_time(s, s->now + URO_MS(1000000));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(both[i]->cm->by_id.count, 0);
        assert_int_equal(uro_cm_next(both[i]->cm), URO_TIME_NEVER);
        free(both[i]->memory);
    }
    free(s);
    return 0;
}

struct uro_conn_param managers_param(const char *data)
{
    struct uro_conn_param param = { .type = URO_QPT_RC,
                                    .qpn = MANAGERS_QPN,
                                    .responder_resources = 4,
                                    .initiator_depth = 2,
                                    .retry_count = 7,
                                    .rnr_retry_count = 6 };

    param.data_length = (uint32_t)strlen(data);
    memcpy(param.data, data, param.data_length);
    return param;
}

struct uro_conn_target managers_target(const struct managers *s)
{
    return (struct uro_conn_target){
        .route = { .local = s->a.address, .remote = s->b.address, .hop_limit = 64 },
        .service_id = MANAGERS_SERVICE,
        .path_mtu = 3,
        .ack_timeout = 17,
        .response_timeout = 20,
        .retries = 15
    };
}

void managers_ask(struct managers *s)
{
    const struct uro_conn_target target = managers_target(s);
    struct uro_conn_param param = managers_param("hello");

    param.qpn += s->asked++;

    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), 0);
}

void managers_ask_service(struct managers *s, uint64_t service_id)
{
    struct uro_conn_target target = managers_target(s);
    const struct uro_conn_param param = { .type = URO_QPT_UD };

    target.service_id = service_id;
    assert_int_equal(uro_conn_connect(s->a.cm, &target, &param, s->now, &s->a.conn), 0);
}

void managers_establish(struct managers *s)
{
    struct uro_conn_param answer = managers_param("welcome");

    answer.qpn = 0x456;
    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    assert_int_equal(uro_conn_accept(s->b.conn, &answer, s->now), 0);
    managers_expect(s, &s->a, URO_CONN_RESPONSE, 0);
    assert_int_equal(uro_conn_confirm(s->a.conn, s->now), 0);
    managers_expect(s, &s->b, URO_CONN_CONFIRMED, 0);
}

static void hand_over(struct managers *s, struct manager *to, const struct uro_cm_route *route,
                      const uint8_t *mad)
{
    const struct uro_cm_route seen = { .local = route->remote,
                                       .remote = route->local,
                                       .hop_limit = 64 };

    uro_cm_receive(to->cm, &seen, mad, s->now);
}

/* Delivers, loses or holds one message from @from to @to. Returns false if there was no message. */
static bool carry(struct managers *s, struct manager *from, struct manager *to)
{
    struct uro_cm_out out;

    if (!uro_cm_output(from->cm, &out, s->now))
        return false;
    assert_int_equal(uro_cm_decode(out.mad, &from->last), URO_CM_OK);
    enum uro_cm_kind kind = from->last.kind;
    from->sent[kind]++;
    if (from->lose[kind] > 0) {
        from->lose[kind]--;
        return true;
    }
    if (from->hold[kind]) {
        from->hold[kind] = false;
        from->held = out;
        return true;
    }
    hand_over(s, to, &out.route, out.mad);
    if (from->twice[kind])
        hand_over(s, to, &out.route, out.mad);
    return true;
}

void managers_settle(struct managers *s)
{
    for (uint32_t i = 0; i < SETTLE_MAX; i++) {
        bool moved = carry(s, &s->a, &s->b);
        moved |= carry(s, &s->b, &s->a);
        if (!moved)
            return;
    }
    fail_msg("the two connection managers never stop sending");
}

void managers_pass_time(struct managers *s, uro_time until)
{
    for (;;) {
        managers_settle(s);
        uro_time a = uro_cm_next(s->a.cm);
        uro_time b = uro_cm_next(s->b.cm);
        uro_time next = a < b ? a : b;
        if (next >= until)
            break;
        if (next > s->now)
            s->now = next;
    }
    s->now = until;
}

void managers_release(struct managers *s, struct manager *from)
{
    hand_over(s, from == &s->a ? &s->b : &s->a, &from->held.route, from->held.mad);
    managers_settle(s);
}

void managers_forge(struct managers *s, struct manager *from, const struct uro_cm_msg *msg)
{
    struct manager *to = from == &s->a ? &s->b : &s->a;
    const struct uro_cm_route route = { .local = from->address, .remote = to->address };
    uint8_t mad[URO_MAD_LEN];

    uro_cm_encode(mad, msg);
    hand_over(s, to, &route, mad);
    managers_settle(s);
}

struct uro_conn *managers_expect(struct managers *s, struct manager *at,
                                 enum uro_conn_event_kind kind, int status)
{
    struct uro_conn_event event;

    managers_settle(s);
    if (!uro_conn_event(at->cm, &event))
        fail_msg("no event, expected number %d", (int)kind);
    assert_int_equal(event.kind, kind);
    assert_int_equal(event.status, status);
    return event.conn;
}

void managers_expect_nothing(struct managers *s, struct manager *at)
{
    struct uro_conn_event event;

    managers_settle(s);
    assert_false(uro_conn_event(at->cm, &event));
}
