/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cm_storm.c - simulates two connection managers with impatient applications, on a network
 * that loses, duplicates, delays and reorders their messages. Then the faults stop. In one of three
 * runs, an attacker reads the messages and sends messages with the addresses of both sides:
 * duplicate messages, changed messages, or messages of another kind.
 *
 *   test_cm_storm [first-seed [count]]
 *
 * Invariants: No side gets an event of a connection that was not made. Each side gets one event
 * about the end of a connection. Each message is counted. After all applications have released
 * their connections, no connection, no timer and no message remain.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/conn.h"

#define CONNS        24u /* connections that each application tries to have */
#define WIRE         256u
#define SERVICE      UINT64_C(0x1060001)
#define STORM        URO_MS(20000)
#define LONGEST      URO_MS(400000) /* longer than twice all retransmissions of all messages */
#define SEEDS        400u
#define DELAY_MS     3000u
#define RECORDED_MAX 32u /* recent messages that the attacker keeps */
#define IDS_END      40u /* bytes of a message up to the end of its communication IDs */

struct flying {
    bool used;
    uro_time at;
    unsigned to;
    struct uro_cm_route route;
    uint8_t mad[URO_MAD_LEN];
};

/* An application's view of one connection. */
struct user {
    struct uro_conn *conn;
    bool active;
    bool established;
    bool told_end;
    uro_time act_at;
};

struct side {
    struct uro_cm *cm;
    struct uro_gid address;
    struct uro_listener listener;
    struct user users[2 * CONNS];
};

struct storm {
    struct uro_rng rng;
    uro_time now;
    bool calm;
    uint32_t loss, twice, late; /* lost, duplicated and delayed messages per 1000 */
    struct uro_counters counters;
    struct side sides[2];
    struct flying wire[WIRE];
    uint64_t seed;
    uint32_t made, ended;

    struct uro_rng forger;
    uint32_t forge; /* forged messages per 1000 */
    uint64_t received;
    uint32_t recorded_count;
    struct recorded {
        unsigned to;
        uint8_t mad[URO_MAD_LEN];
    } recorded[RECORDED_MAX];
};

_Noreturn static void broken(const struct storm *s, const char *what)
{
    (void)printf("not ok - seed %llu at %llu ms: %s\n", (unsigned long long)s->seed,
                 (unsigned long long)(s->now / URO_MS(1)), what);
    exit(1);
}

static uint32_t below(struct storm *s, uint32_t bound)
{
    return uro_rng_below(&s->rng, bound);
}

static bool chance(struct storm *s, uint32_t per_1000)
{
    return !s->calm && below(s, 1000) < per_1000;
}

/* ---- the network --------------------------------------------------------- */

static void throw_in(struct storm *s, unsigned to, const struct uro_cm_out *out)
{
    for (unsigned i = 0; i < WIRE; i++) {
        if (s->wire[i].used)
            continue;
        s->wire[i] =
            (struct flying){ .used = true, .at = s->now + 1000 + below(s, 1000), .to = to };
        if (chance(s, s->late))
            s->wire[i].at += URO_MS(1) * below(s, DELAY_MS);
        s->wire[i].route = out->route;
        memcpy(s->wire[i].mad, out->mad, URO_MAD_LEN);
        return;
    }
}

static void remember(struct storm *s, unsigned to, const struct uro_cm_out *out)
{
    struct recorded *recorded = &s->recorded[s->recorded_count++ % RECORDED_MAX];

    recorded->to = to;
    memcpy(recorded->mad, out->mad, URO_MAD_LEN);
}

static void send_all(struct storm *s)
{
    struct uro_cm_out out;

    for (unsigned from = 0; from < 2; from++)
        while (uro_cm_output(s->sides[from].cm, &out, s->now)) {
            remember(s, 1 - from, &out);
            if (chance(s, s->loss))
                continue;
            throw_in(s, 1 - from, &out);
            if (chance(s, s->twice))
                throw_in(s, 1 - from, &out);
        }
}

/* Returns the number of received messages that were counted. */
static uint64_t named(const struct storm *s)
{
    return s->counters.value[URO_COUNT_CM_RX] + s->counters.value[URO_COUNT_CM_DROP_MALFORMED];
}

static void receive(struct storm *s, unsigned to, const struct uro_gid *local,
                    const struct uro_gid *remote, const uint8_t *mad)
{
    const struct uro_cm_route seen = { .local = *local, .remote = *remote, .hop_limit = 64 };

    uro_cm_receive(s->sides[to].cm, &seen, mad, s->now);
    s->received++;
    if (named(s) != s->received)
        broken(s, "a message came, and nothing says what became of it");
}

static void deliver(struct storm *s)
{
    for (unsigned i = 0; i < WIRE; i++) {
        struct flying *f = &s->wire[i];
        if (!f->used || f->at > s->now)
            continue;
        f->used = false;
        receive(s, f->to, &f->route.remote, &f->route.local, f->mad);
    }
}

/* ---- eavesdropper ---------------------------------------------------------- */

/* Changes a message: to another message about the same connection, or to the same message with
 * another value. */
static void rewrite(struct storm *s, uint8_t *mad)
{
    struct uro_cm_msg msg;

    if (uro_cm_decode(mad, &msg) != URO_CM_OK)
        return;
    if (uro_rng_below(&s->forger, 2) == 0)
        msg.kind = (enum uro_cm_kind)uro_rng_below(&s->forger, URO_CM_KIND_COUNT);
    else
        msg.value[uro_rng_below(&s->forger, URO_CM_FIELD_COUNT)] = uro_rng_u64(&s->forger);
    if (msg.data_length > uro_cm_data_max(msg.kind))
        msg.data_length = uro_cm_data_max(msg.kind);
    uro_cm_encode(mad, &msg);
}

static void change(struct storm *s, uint8_t *mad)
{
    switch (uro_rng_below(&s->forger, 5)) {
    case 0:
        return;
    case 1:
        mad[uro_rng_below(&s->forger, URO_MAD_LEN)] ^=
            (uint8_t)(1u << uro_rng_below(&s->forger, 8));
        return;
    case 2:
        mad[uro_rng_below(&s->forger, IDS_END)] ^= (uint8_t)(1u << uro_rng_below(&s->forger, 8));
        return;
    case 3:
        for (uint32_t i = IDS_END; i < URO_MAD_LEN; i++)
            mad[i] = (uint8_t)uro_rng_below(&s->forger, 256);
        return;
    default:
        rewrite(s, mad);
    }
}

static void forge(struct storm *s)
{
    const struct recorded *recorded = &s->recorded[uro_rng_below(&s->forger, RECORDED_MAX)];
    uint8_t mad[URO_MAD_LEN];

    if (s->calm || s->recorded_count < RECORDED_MAX || uro_rng_below(&s->forger, 1000) >= s->forge)
        return;
    memcpy(mad, recorded->mad, sizeof mad);
    change(s, mad);
    receive(s, recorded->to, &s->sides[recorded->to].address, &s->sides[1 - recorded->to].address,
            mad);
}

/* ---- the applications ---------------------------------------------------- */

static struct user *user_of(struct side *side, const struct uro_conn *conn)
{
    for (unsigned i = 0; i < URO_ARRAY_LEN(side->users); i++)
        if (side->users[i].conn == conn)
            return &side->users[i];
    return NULL;
}

static struct user *new_user(struct storm *s, struct side *side, struct uro_conn *conn, bool active)
{
    struct user *user = user_of(side, NULL);

    if (user == NULL)
        return NULL;
    *user = (struct user){ .conn = conn, .active = active };
    user->act_at = s->now + URO_MS(1) * below(s, 4000);
    return user;
}

static struct uro_conn_param param(struct storm *s, bool datagram)
{
    return (struct uro_conn_param){ .type = datagram ? URO_QPT_UD : URO_QPT_RC,
                                    .qpn = 16 + below(s, 1u << 20),
                                    .retry_count = 7 };
}

static void maybe_connect(struct storm *s, unsigned number)
{
    struct side *side = &s->sides[number];
    const struct uro_conn_target target = {
        .route = { .local = side->address,
                   .remote = s->sides[1 - number].address,
                   .hop_limit = 64 },
        .service_id = SERVICE + (below(s, 10) == 0),
        .path_mtu = 3,
        .ack_timeout = 14,
        .response_timeout = 16,
        .retries = 15,
    };
    const struct uro_conn_param wanted = param(s, below(s, 4) == 0);
    struct uro_conn *conn;

    if (s->calm || s->now > STORM || user_of(side, NULL) == NULL || below(s, 3) != 0)
        return;
    if (uro_conn_connect(side->cm, &target, &wanted, s->now, &conn) == 0) {
        (void)new_user(s, side, conn, true);
        s->made++;
    }
}

static void let_go(struct storm *s, struct user *user)
{
    uro_conn_close(user->conn, s->now);
    user->conn = NULL;
}

/* Runs a step of an application with one of its connections. The application may answer,
 * disconnect, or release the connection without a message. */
static void act(struct storm *s, struct user *user)
{
    const struct uro_conn_param answer = param(s, user->conn->local.type == URO_QPT_UD);
    int result = 0;

    user->act_at = s->now + URO_MS(1) * (1 + below(s, 3000));
    if (below(s, 8) == 0 || user->told_end || (s->calm && below(s, 2) == 0)) {
        let_go(s, user);
        return;
    }
    switch (user->conn->state) {
    case URO_CONN_REQ_RECEIVED:
    case URO_CONN_SIDR_REQ_RECEIVED:
        result = below(s, 5) == 0
                     ? uro_conn_reject(user->conn, URO_CONN_REJ_CONSUMER, NULL, 0, s->now)
                     : uro_conn_accept(user->conn, &answer, s->now);
        break;
    case URO_CONN_REP_RECEIVED:
        result = uro_conn_confirm(user->conn, s->now);
        user->established = true;
        break;
    case URO_CONN_ESTABLISHED:
        result = uro_conn_disconnect(user->conn, s->now);
        break;
    case URO_CONN_IDLE:
    case URO_CONN_REQ_SENT:
    case URO_CONN_REP_SENT:
    case URO_CONN_DREQ_SENT:
    case URO_CONN_TIMEWAIT:
    case URO_CONN_SIDR_REQ_SENT:
    case URO_CONN_SIDR_ANSWERED:
    case URO_CONN_STATE_COUNT:
        break;
    }
    if (result != 0)
        broken(s, "an answer that fits the state was refused");
}

static void on_event(struct storm *s, struct side *side, const struct uro_conn_event *event)
{
    if (event->kind == URO_CONN_REQUEST) {
        if (event->user != side || new_user(s, side, event->conn, false) == NULL)
            uro_conn_close(event->conn, s->now);
        return;
    }
    struct user *user = user_of(side, event->conn);
    if (user == NULL)
        broken(s, "an event of a connection without a user");
    if (event->kind == URO_CONN_RESPONSE && !user->active)
        broken(s, "a response to somebody who did not ask");
    if (event->kind == URO_CONN_CONFIRMED) {
        if (user->active || user->established)
            broken(s, "confirmed twice, or the wrong side");
        user->established = true;
    }
    if (event->kind == URO_CONN_TIMEWAIT_EXIT || event->kind == URO_CONN_RESPONSE)
        return;
    if (event->kind != URO_CONN_CONFIRMED) {
        if (user->told_end)
            broken(s, "the end was reported twice");
        user->told_end = true;
        s->ended++;
    }
}

static void live(struct storm *s)
{
    struct uro_conn_event event;

    for (unsigned number = 0; number < 2; number++) {
        struct side *side = &s->sides[number];
        while (uro_conn_event(side->cm, &event))
            on_event(s, side, &event);
        maybe_connect(s, number);
        for (unsigned i = 0; i < URO_ARRAY_LEN(side->users); i++)
            if (side->users[i].conn != NULL && side->users[i].act_at <= s->now)
                act(s, &side->users[i]);
    }
}

/* ---- one run ------------------------------------------------------------- */

static bool everybody_gone(const struct storm *s)
{
    for (unsigned number = 0; number < 2; number++) {
        if (s->sides[number].cm->by_id.count != 0 ||
            uro_cm_next(s->sides[number].cm) != URO_TIME_NEVER)
            return false;
    }
    for (unsigned i = 0; i < WIRE; i++)
        if (s->wire[i].used)
            return false;
    return true;
}

static void open_side(struct storm *s, unsigned number, void *memory,
                      const struct uro_cm_config *config)
{
    const uint8_t ipv4[4] = { 10, 0, 0, (uint8_t)(number + 1) };
    struct side *side = &s->sides[number];

    side->cm = uro_cm_init(memory, config, &s->counters, s->now);
    side->address = uro_gid_from_ipv4(ipv4);
    side->listener = (struct uro_listener){
        .service_id = SERVICE, .any_address = true, .backlog = 1 + below(s, 12), .user = side
    };
    int error = uro_conn_listen(side->cm, &side->listener);
    URO_ASSERT(error == 0);
}

static void run(uint64_t seed, struct storm *s)
{
    void *memory[2];

    memset(s, 0, sizeof *s);
    s->seed = seed;
    uro_rng_init_number(&s->rng, seed);
    s->loss = below(s, 2) * below(s, 500);
    s->twice = below(s, 2) * below(s, 500);
    s->late = below(s, 2) * below(s, 800);
    uro_rng_init_number(&s->forger, seed ^ UINT64_C(0x666f72676572));
    s->forge = uro_rng_below(&s->forger, 3) == 0 ? uro_rng_below(&s->forger, 1000) : 0;
    for (unsigned number = 0; number < 2; number++) {
        const struct uro_cm_config config = { .guid = number + 1,
                                              .connections = 8 + below(s, 4 * CONNS),
                                              .path_mtu = 3,
                                              .seed = { (uint8_t)seed, (uint8_t)number } };
        memory[number] = aligned_alloc(64, (uro_cm_size(&config) + 63) & ~(size_t)63);
        URO_ASSERT(memory[number] != NULL);
        open_side(s, number, memory[number], &config);
    }
    while (s->now < STORM + LONGEST) {
        s->calm = s->now > STORM;
        deliver(s);
        forge(s);
        live(s);
        send_all(s);
        if (s->calm && everybody_gone(s))
            break;
        s->now += URO_MS(1) * (1 + below(s, s->calm ? 50 : 10));
    }
    if (!everybody_gone(s))
        broken(s, "something is left that will never end");
    for (unsigned number = 0; number < 2; number++) {
        if (s->sides[number].listener.waiting != 0)
            broken(s, "a listener counts a waiting request, and there is none");
        uro_conn_unlisten(s->sides[number].cm, &s->sides[number].listener);
        free(memory[number]);
    }
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) : SEEDS;
    static struct storm storm;
    uint64_t made = 0, ended = 0;

    for (uint64_t seed = first; seed < first + count; seed++) {
        run(seed, &storm);
        made += storm.made;
        ended += storm.ended;
    }
    (void)printf("ok - %llu seeds, %llu requested connections, %llu reported ends\n",
                 (unsigned long long)count, (unsigned long long)made, (unsigned long long)ended);
    return 0;
}
