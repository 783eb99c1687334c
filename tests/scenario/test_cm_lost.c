/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_lost.c - tests the events of both sides, each once, when CM messages of a connection are
 * lost once, several times or always, or are duplicated.
 */
#include <errno.h>

#include "base/mark.h"
#include "managers.h"

#define COPIES  16u /* copies of a message: the first and 15 retransmissions */
#define FOREVER URO_MS(400000)

/* Events of an application that reacts at once. */
struct events {
    uint32_t count[URO_CONN_EVENT_COUNT];
    int status[URO_CONN_EVENT_COUNT];
};

struct life {
    struct managers *s;
    struct events a, b;
    bool rejects;
    bool leaves; /* a disconnects when b gets CONFIRMED */
};

static void answer(struct life *life, struct manager *m, const struct uro_conn_event *event)
{
    struct managers *s = life->s;
    const struct uro_conn_param param = { .type = event->conn->local.type, .qpn = 0x456 };
    int error = 0;

    if (event->kind == URO_CONN_REQUEST) {
        if (m->conn != NULL) /* the request was retransmitted */
            uro_conn_close(m->conn, s->now);
        m->conn = event->conn;
        error = life->rejects ? uro_conn_reject(m->conn, URO_CONN_REJ_CONSUMER, NULL, 0, s->now)
                              : uro_conn_accept(m->conn, &param, s->now);
    } else if (event->kind == URO_CONN_RESPONSE && event->conn->local.type != URO_QPT_UD) {
        error = uro_conn_confirm(m->conn, s->now);
    } else if (event->kind == URO_CONN_CONFIRMED && life->leaves) {
        error = uro_conn_disconnect(s->a.conn, s->now);
    }
    assert_int_equal(error, 0);
}

static bool take_event(struct life *life, struct manager *m, struct events *events)
{
    struct uro_conn_event event;

    managers_settle(life->s);
    if (!uro_conn_event(m->cm, &event))
        return false;
    events->count[event.kind]++;
    events->status[event.kind] = event.status;
    answer(life, m, &event);
    return true;
}

/* Runs both sides until the longest possible retransmission has passed. */
static void live(struct life *life)
{
    struct managers *s = life->s;
    uro_time end = s->now + FOREVER;

    for (;;) {
        while (take_event(life, &s->a, &life->a) || take_event(life, &s->b, &life->b))
            ;
        uro_time a = uro_cm_next(s->a.cm), b = uro_cm_next(s->b.cm);
        uro_time next = a < b ? a : b;
        if (next > end)
            return;
        s->now = next > s->now ? next : s->now;
    }
}

static void expect(const struct events *events, unsigned kinds)
{
    for (unsigned kind = 0; kind < URO_CONN_EVENT_COUNT; kind++)
        if (events->count[kind] != (kinds >> kind & 1))
            fail_msg("event %u came %u times", kind, events->count[kind]);
}

#define BIT(kind) (1u << URO_CONN_##kind)
#define WHOLE_A   (BIT(RESPONSE) | BIT(DISCONNECTED) | BIT(TIMEWAIT_EXIT))
#define WHOLE_B   (BIT(REQUEST) | BIT(CONFIRMED) | BIT(DISCONNECTED) | BIT(TIMEWAIT_EXIT))

/* ---- lost, and retransmitted --------------------------------------------- */

static void fresh(void **state)
{
    assert_int_equal(managers_close(state), 0);
    assert_int_equal(managers_open(state), 0);
}

/* A message and its sender. When the message is lost, @again is retransmitted, by b if
 * @again_by_b. */
struct message {
    enum uro_cm_kind kind;
    bool by_b;
    enum uro_cm_kind again;
    bool again_by_b;
};

static const struct message messages[] = {
    { URO_CM_REQ, false, URO_CM_REQ, false },  { URO_CM_REP, true, URO_CM_REP, true },
    { URO_CM_RTU, false, URO_CM_REP, true },   { URO_CM_DREQ, false, URO_CM_DREQ, false },
    { URO_CM_DREP, true, URO_CM_DREQ, false },
};

static void cm_message__lost_up_to_15_times__is_retransmitted(void **state)
{
    for (unsigned i = 0; i < URO_ARRAY_LEN(messages); i++)
        for (uint32_t lost = 0; lost < COPIES; lost++) {
            const struct message *what = &messages[i];
            struct managers *s = *state;
            struct life life = { .s = s, .leaves = true };
            struct manager *m = what->by_b ? &s->b : &s->a;
            m->lose[what->kind] = lost;
            managers_ask(s);
            live(&life);
            expect(&life.a, WHOLE_A);
            expect(&life.b, WHOLE_B);
            assert_int_equal(m->sent[what->kind], lost + 1);
            assert_int_equal((what->again_by_b ? &s->b : &s->a)->sent[what->again], lost + 1);
            fresh(state);
        }
}

/* ---- lost for good ------------------------------------------------------- */

static struct life lose_always(struct managers *s, enum uro_cm_kind kind)
{
    struct life life = { .s = s, .leaves = true };

    s->a.lose[kind] = s->b.lose[kind] = UINT32_MAX;
    managers_ask(s);
    live(&life);
    return life;
}

static void req__always_lost__unreachable_after_16_copies(void **state)
{
    struct managers *s = *state;
    const struct life life = lose_always(s, URO_CM_REQ);

    expect(&life.a, BIT(UNREACHABLE));
    expect(&life.b, 0);
    assert_int_equal(life.a.status[URO_CONN_UNREACHABLE], -ETIMEDOUT);
    assert_int_equal(s->a.sent[URO_CM_REQ], COPIES);
    assert_int_equal(s->a.sent[URO_CM_REJ], 1);
    assert_int_equal(s->a.last.value[URO_CM_REASON], URO_CONN_REJ_TIMEOUT);
    assert_int_equal(s->a.last.value[URO_CM_MESSAGE], 2);
    assert_int_equal(s->a.last.value[URO_CM_INFO_LENGTH], 8);
    assert_int_equal(s->a.last.info[7], 1); /* the CA GUID of a */
}

/* The passive side gives up first and sends a REJ, which the active side accepts. */
static void rep__always_lost__both_sides_get_an_event(void **state)
{
    struct managers *s = *state;
    const struct life life = lose_always(s, URO_CM_REP);

    expect(&life.a, BIT(REJECTED));
    expect(&life.b, BIT(REQUEST) | BIT(UNREACHABLE));
    assert_int_equal(life.a.status[URO_CONN_REJECTED], URO_CONN_REJ_TIMEOUT);
}

static void rtu__always_lost__both_sides_get_an_event(void **state)
{
    struct managers *s = *state;
    const struct life life = lose_always(s, URO_CM_RTU);

    expect(&life.a, BIT(RESPONSE) | BIT(DISCONNECTED));
    expect(&life.b, BIT(REQUEST) | BIT(UNREACHABLE));
    assert_int_equal(s->b.sent[URO_CM_REP], COPIES);
    assert_int_equal(s->a.sent[URO_CM_RTU], COPIES);
}

static void dreq__always_lost__sender_gets_disconnected_event(void **state)
{
    struct managers *s = *state;
    const struct life life = lose_always(s, URO_CM_DREQ);

    expect(&life.a, WHOLE_A);
    expect(&life.b, BIT(REQUEST) | BIT(CONFIRMED));
    assert_int_equal(s->a.sent[URO_CM_DREQ], COPIES);
}

static void drep__always_lost__both_sides_get_an_event(void **state)
{
    struct managers *s = *state;
    const struct life life = lose_always(s, URO_CM_DREP);

    expect(&life.a, WHOLE_A);
    expect(&life.b, WHOLE_B);
    assert_int_equal(s->b.sent[URO_CM_DREP], COPIES);
}

/* The listener's application gets the request again, and rejects it again. */
static void rej__lost__next_req_is_rejected_again(void **state)
{
    for (uint32_t lost = 0; lost < COPIES; lost++) {
        struct managers *s = *state;
        struct life life = { .s = s, .rejects = true };
        s->b.lose[URO_CM_REJ] = lost;
        managers_ask(s);
        live(&life);
        expect(&life.a, BIT(REJECTED));
        assert_int_equal(life.b.count[URO_CONN_REQUEST], lost + 1);
        assert_int_equal(s->a.sent[URO_CM_REQ], lost + 1);
        assert_true(uro_mark_hit("CM.REJ"));
        fresh(state);
    }
}

static void sidr_message__lost_up_to_15_times__is_retransmitted(void **state)
{
    for (uint32_t lost = 0; lost < 2 * COPIES; lost++) {
        struct managers *s = *state;
        struct life life = { .s = s };
        s->a.lose[URO_CM_SIDR_REQ] = lost < COPIES ? lost : 0;
        s->b.lose[URO_CM_SIDR_REP] = lost < COPIES ? 0 : lost - COPIES;
        managers_ask_service(s, MANAGERS_SERVICE);
        live(&life);
        expect(&life.a, BIT(RESPONSE));
        expect(&life.b, BIT(REQUEST));
        assert_int_equal(s->a.sent[URO_CM_SIDR_REQ], lost % COPIES + 1);
        fresh(state);
    }
}

/* The requester retransmits the REQ until it gets an MRA. */
static void mra__lost__next_req_gets_an_mra(void **state)
{
    struct managers *s = *state;

    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    s->b.lose[URO_CM_MRA] = 3;
    managers_pass_time(s, URO_MS(5125 * 3));
    assert_int_equal(s->b.sent[URO_CM_MRA], 3);
    managers_pass_time(s, URO_MS(5125 * 5));
    assert_int_equal(s->a.sent[URO_CM_REQ], 5); /* the fourth MRA arrived */
    assert_int_equal(s->b.sent[URO_CM_MRA], 4);
}

/* The peer accepted and left: its DREQ reaches a side that never got the REP. */
static void rep__lost_and_peer_closed__event_in_time(void **state)
{
    struct managers *s = *state;
    const struct uro_conn_param param = managers_param("");

    managers_ask(s);
    s->b.conn = managers_expect(s, &s->b, URO_CONN_REQUEST, 0);
    s->b.lose[URO_CM_REP] = UINT32_MAX;
    assert_int_equal(uro_conn_accept(s->b.conn, &param, s->now), 0);
    managers_settle(s);
    uro_conn_close(s->b.conn, s->now);
    s->b.conn = NULL;
    managers_settle(s);
    assert_int_equal(s->a.sent[URO_CM_DREP], 1);
    assert_true(uro_mark_hit("CM.DREQ.EARLY"));
    uro_conn_unlisten(s->b.cm, &s->b.listener);
    managers_pass_time(s, URO_MS(5125));
    managers_expect(s, &s->a, URO_CONN_REJECTED, URO_CONN_REJ_BAD_SERVICE);
}

/* ---- twice --------------------------------------------------------------- */

static void cm_message__received_twice__changes_nothing(void **state)
{
    for (unsigned kind = 0; kind < URO_CM_KIND_COUNT; kind++) {
        struct managers *s = *state;
        struct life life = { .s = s, .leaves = true };
        s->a.twice[kind] = s->b.twice[kind] = true;
        managers_ask(s);
        live(&life);
        expect(&life.a, WHOLE_A);
        expect(&life.b, WHOLE_B);
        fresh(state);
    }
}

static void sidr_message__received_twice__changes_nothing(void **state)
{
    struct managers *s = *state;
    struct life life = { .s = s };

    s->a.twice[URO_CM_SIDR_REQ] = s->b.twice[URO_CM_SIDR_REP] = true;
    managers_ask_service(s, MANAGERS_SERVICE);
    live(&life);
    expect(&life.a, BIT(RESPONSE));
    expect(&life.b, BIT(REQUEST));
    assert_int_equal(s->b.sent[URO_CM_SIDR_REP], 1); /* the duplicate got no second reply */
}

static void rej__received_twice__one_event(void **state)
{
    struct managers *s = *state;
    struct life life = { .s = s, .rejects = true };

    s->b.twice[URO_CM_REJ] = true;
    managers_ask(s);
    live(&life);
    expect(&life.a, BIT(REJECTED));
    expect(&life.b, BIT(REQUEST));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, managers_open, managers_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cm_message__lost_up_to_15_times__is_retransmitted),
        TEST(req__always_lost__unreachable_after_16_copies),
        TEST(rep__always_lost__both_sides_get_an_event),
        TEST(rtu__always_lost__both_sides_get_an_event),
        TEST(dreq__always_lost__sender_gets_disconnected_event),
        TEST(drep__always_lost__both_sides_get_an_event),
        TEST(rej__lost__next_req_is_rejected_again),
        TEST(sidr_message__lost_up_to_15_times__is_retransmitted),
        TEST(mra__lost__next_req_gets_an_mra),
        TEST(rep__lost_and_peer_closed__event_in_time),
        TEST(cm_message__received_twice__changes_nothing),
        TEST(sidr_message__received_twice__changes_nothing),
        TEST(rej__received_twice__one_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
