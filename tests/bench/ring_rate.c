/* SPDX-License-Identifier: BSD-3-Clause */
/* ring_rate.c - measures two engines on two processors, with a ring of frames in each direction.
 *
 *   ring_rate rate rc|write OCTETS MESSAGES [PLAN]   one way, SIDES_WINDOW outstanding
 *   ring_rate turns write OCTETS MESSAGES [PLAN]     the same, with both sides in one thread
 *   ring_rate trips rc|write OCTETS MESSAGES [PLAN]  round trips, one at a time
 *   ring_rate bare-rate|bare-trips x OCTETS MESSAGES the rings without engines: the limit
 *
 * PLAN: faults of the sender's link, as those of impair=.
 * Prints one line of JSON: messages per second, or half of a round trip, median and 99.9 %.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/impair/port.h"
#include "sides.h"

#define RING      256u
#define FRAME_MAX 256u /* room for 64 bytes and every header */

/* A slot: a frame, and in the same cache line the word that shows whether the slot is full. */
struct slot {
    _Alignas(64) atomic_uint length; /* 0: free */
    uint8_t octets[FRAME_MAX];
};

/* A ring with one producer and one consumer. Their variables are in different cache lines. */
struct ring {
    _Alignas(128) uint32_t tail; /* written by the producer */
    uint32_t free;               /* slots up to here are known to be free */
    _Alignas(128) uint32_t head; /* written by the consumer */
    _Alignas(128) struct slot slots[RING];
};

struct end {
    struct ring *in, *out;
    unsigned number;
    struct uro_port bare;      /* a port with the rings, for `impaired` */
    struct uro_port *impaired; /* with the faults of a plan; NULL: the rings are used directly */
};

static struct plan plan = { .active = 1, .receives = SIDES_WINDOW * 4 };
static struct side sides[2];
static struct ring rings[2];
static atomic_bool done; /* the first side has finished all messages */
static bool trips, bare, turns;
static const struct end *other_end; /* with turns: the end of the receiver */
static float *spent;                /* ns of each round trip */

static struct slot *slot_of(struct ring *ring, uint32_t number)
{
    return &ring->slots[number % RING];
}

/* Returns the number of free slots, at most SIDES_BURST. Slots become free in order. */
static uint32_t ring_room(struct ring *ring)
{
    uint32_t room = ring->free - ring->tail;
    const struct slot *last = slot_of(ring, ring->free + SIDES_BURST - 1);

    if (room < SIDES_BURST && atomic_load_explicit(&last->length, memory_order_acquire) == 0) {
        ring->free += SIDES_BURST;
        room += SIDES_BURST;
    }
    return room < SIDES_BURST ? room : SIDES_BURST;
}

/* Writes the frames in reverse order, because the consumer polls the first slot. */
static void ring_put(struct ring *ring, const struct uro_tx *tx, uint32_t count)
{
    for (uint32_t i = count; i-- > 0;) {
        URO_ASSERT(uro_tx_length(&tx[i]) <= FRAME_MAX);
        uro_tx_write(&tx[i], slot_of(ring, ring->tail + i)->octets);
    }
    for (uint32_t i = 0; i < count; i++)
        atomic_store_explicit(&slot_of(ring, ring->tail + i)->length, uro_tx_length(&tx[i]),
                              memory_order_release);
    ring->tail += count;
}

/* Lends the received frames until ring_release(). */
static uint32_t ring_get(struct ring *ring, struct uro_pkt *pkts, uint32_t max)
{
    uint32_t count = 0;

    for (; count < max; count++) {
        struct slot *slot = slot_of(ring, ring->head + count);
        uint32_t length = atomic_load_explicit(&slot->length, memory_order_acquire);
        if (length == 0)
            break;
        pkts[count] = (struct uro_pkt){ .octets = slot->octets, .length = length };
    }
    return count;
}

static void ring_release(struct ring *ring, uint32_t count)
{
    for (; count > 0; count--)
        atomic_store_explicit(&slot_of(ring, ring->head++)->length, 0, memory_order_release);
}

/* ---- the rings as a port with faults --------------------------------------- */

static struct end *end_of(struct uro_port *port)
{
    return (struct end *)((char *)port - offsetof(struct end, bare));
}

static uint32_t port_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    return ring_get(end_of(port)->in, pkts, max);
}

static void port_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    (void)pkts;
    ring_release(end_of(port)->in, count);
}

static uint32_t port_free(struct uro_port *port)
{
    return ring_room(end_of(port)->out);
}

static void port_transmit(struct uro_port *port, const struct uro_tx *tx, uint32_t count)
{
    ring_put(end_of(port)->out, tx, count);
}

static void port_close(struct uro_port *port)
{
    (void)port;
}

/* Adds the faults of a plan to the rings of @end. Returns false if the plan is wrong or memory runs
 * out. */
static bool impair(struct end *end, const char *text)
{
    static const struct uro_port_ops ops = { .datapath = { .receive = port_receive,
                                                           .release = port_release,
                                                           .tx_free_count = port_free,
                                                           .transmit = port_transmit },
                                             .control = { .close = port_close } };
    static struct uro_impair_plan faults;
    struct uro_impair_port_config config = { .plan = &faults, .now = sides_now };
    char error[URO_IMPAIR_ERROR_MAX];

    if (uro_impair_plan_parse(&faults, text, error) != 0) {
        (void)fprintf(stderr, "%s\n", error);
        return false;
    }
    end->bare = (struct uro_port){ .ops = &ops, .mtu = FRAME_MAX };
    end->impaired = uro_impair_port_open(&end->bare, &config);
    return end->impaired != NULL;
}

static void go_impaired_round(const struct end *end, struct uro_tx tx[static SIDES_BURST])
{
    struct uro_engine *engine = sides[end->number].engine;
    struct uro_pkt pkts[URO_PORT_BURST];
    uro_time now = sides_now();
    uint32_t count = uro_port_receive(end->impaired, pkts, URO_PORT_BURST);

    if (count > 0)
        uro_engine_input(engine, pkts, count, now);
    uro_port_release(end->impaired, pkts, count);
    const uint32_t room = uro_port_tx_free_count(end->impaired);
    count = uro_engine_output(engine, tx, room < SIDES_BURST ? room : SIDES_BURST, now);
    uro_port_transmit(end->impaired, tx, count);
}

static void go_round(const struct end *end)
{
    static _Thread_local struct uro_tx tx[SIDES_BURST];

    if (end->impaired != NULL) {
        go_impaired_round(end, tx);
        return;
    }
    struct uro_engine *engine = sides[end->number].engine;
    struct uro_pkt pkts[SIDES_BURST];
    uro_time now = sides_now();
    uint32_t count = ring_get(end->in, pkts, SIDES_BURST);

    if (count > 0)
        uro_engine_input(engine, pkts, count, now);
    ring_release(end->in, count);
    count = uro_engine_output(engine, tx, ring_room(end->out), now);
    ring_put(end->out, tx, count);
}

/* ---- one way ------------------------------------------------------------- */

static void send_all(const struct end *end, uint32_t messages)
{
    uint32_t posted = 0, sent = 0, received = 0;

    while (sent < messages) {
        for (; posted < messages && posted - sent < SIDES_WINDOW; posted++)
            sides_post(sides, end->number, 0, &plan);
        go_round(end);
        if (turns)
            go_round(other_end);
        sent += sides_poll(&sides[end->number], &received);
    }
}

static void receive_all(const struct end *end)
{
    uint32_t received = 0;
    uint32_t ready = 0;

    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        for (; plan.opcode == URO_WR_SEND && ready - received < plan.receives; ready++)
            sides_post_receive(&sides[end->number], 0, &plan);
        go_round(end);
        (void)sides_poll(&sides[end->number], &received);
    }
}

/* ---- round trips -------------------------------------------------------- */

/* Waits for the peer's message @number. Returns false if no more messages come. The last byte of a
 * WRITE is the number of the message. A SEND has a completion. */
static bool wait_message(const struct end *end, uint32_t number, uint32_t *received)
{
    const _Atomic uint8_t *last =
        (const _Atomic uint8_t *)(sides[end->number].memory + plan.octets - 1);

    for (;;) {
        go_round(end);
        (void)sides_poll(&sides[end->number], received);
        if (plan.opcode == URO_WR_SEND ? *received == number : atomic_load(last) == (uint8_t)number)
            return true;
        if (atomic_load_explicit(&done, memory_order_relaxed))
            return false;
    }
}

static void send_number(const struct end *end, uint32_t number)
{
    struct side *side = &sides[end->number];

    if (plan.opcode == URO_WR_SEND)
        sides_post_receive(side, 0, &plan); /* receive for the response */
    side->memory[SIDES_FRAME + plan.octets - 1] = (uint8_t)number;
    sides_post(sides, end->number, 0, &plan);
}

static void ask_all(const struct end *end, uint32_t messages)
{
    uint32_t received = 0;

    for (uint32_t i = 1; i <= messages; i++) {
        uro_time start = sides_now();
        send_number(end, i);
        (void)wait_message(end, i, &received);
        spent[i - 1] = (float)(sides_now() - start);
    }
}

static void answer_all(const struct end *end)
{
    uint32_t received = 0;

    if (plan.opcode == URO_WR_SEND)
        sides_post_receive(&sides[end->number], 0, &plan);
    for (uint32_t i = 1; wait_message(end, i, &received); i++)
        send_number(end, i);
    while (!atomic_load(&done))
        go_round(end);
}

/* ---- without engines ----------------------------------------------------- */

static void bare_send(const struct end *end, uint32_t messages)
{
    static struct uro_tx tx[SIDES_BURST];
    struct uro_pkt pkts[SIDES_BURST];

    for (uint32_t i = 0; i < SIDES_BURST; i++)
        tx[i] = (struct uro_tx){ .head_length = (uint16_t)plan.octets };
    for (uint32_t sent = 0; sent < messages;) {
        uro_time start = sides_now();
        uint32_t room = trips ? 1 : ring_room(end->out);
        ring_put(end->out, tx, room);
        while (trips && ring_get(end->in, pkts, SIDES_BURST) == 0) {
        }
        ring_release(end->in, trips);
        if (trips)
            spent[sent] = (float)(sides_now() - start);
        sent += room;
    }
}

static void bare_answer(const struct end *end)
{
    static struct uro_tx tx;
    struct uro_pkt pkts[SIDES_BURST];

    tx.head_length = (uint16_t)plan.octets;
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        uint32_t count = ring_get(end->in, pkts, SIDES_BURST);
        ring_release(end->in, count);
        if (trips && count > 0)
            ring_put(end->out, &tx, 1);
    }
}

/* -------------------------------------------------------------------------- */

static cpu_set_t allowed;

static void pin(unsigned number)
{
    cpu_set_t one;
    unsigned seen = 0;

    CPU_ZERO(&one);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == number)
            CPU_SET(cpu, &one);
    if (CPU_COUNT(&one) == 1)
        (void)sched_setaffinity(0, sizeof one, &one);
}

static void *second(void *argument)
{
    const struct end *end = argument;

    pin(end->number);
    if (bare)
        bare_answer(end);
    else if (trips)
        answer_all(end);
    else
        receive_all(end);
    return NULL;
}

static void first(const struct end *end, uint32_t messages)
{
    if (bare)
        bare_send(end, messages);
    else if (trips)
        ask_all(end, messages);
    else
        send_all(end, messages);
}

static int by_value(const void *one, const void *other)
{
    float a = *(const float *)one, b = *(const float *)other;

    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    struct end ends[2] = { { .in = &rings[1], .out = &rings[0] },
                           { .in = &rings[0], .out = &rings[1], .number = 1 } };
    pthread_t thread;

    plan.octets = argc >= 5 ? (uint32_t)strtoul(argv[3], NULL, 0) : 0;
    plan.messages = argc >= 5 ? (uint32_t)strtoul(argv[4], NULL, 0) : 0;
    bare = argc > 1 && strncmp(argv[1], "bare-", 5) == 0;
    if (plan.octets == 0 || plan.octets > FRAME_MAX / 2 || plan.messages < 1000 ||
        argc > 5 + !bare) {
        (void)fprintf(stderr, "usage: ring_rate rate|trips rc|write OCTETS MESSAGES [PLAN]\n"
                              "       ring_rate turns write OCTETS MESSAGES [PLAN]\n"
                              "       ring_rate bare-rate|bare-trips x OCTETS MESSAGES\n");
        return 2;
    }
    if (argc == 6 && !impair(&ends[0], argv[5]))
        return 2;
    trips = strstr(argv[1], "trips") != NULL;
    turns = strcmp(argv[1], "turns") == 0;
    other_end = &ends[1];
    spent = sides_take(plan.messages * sizeof *spent);
    if (!bare) {
        sides_kind(&plan, argv[2]);
        sides_connect(sides, &plan);
    }
    (void)sched_getaffinity(0, sizeof allowed, &allowed);
    pin(0);
    if (!turns && pthread_create(&thread, NULL, second, &ends[1]) != 0)
        return 1;
    if (!trips)
        first(&ends[0], plan.messages / 10); /* warm-up: resolves neighbours and touches memory */
    uro_time start = sides_now();
    first(&ends[0], plan.messages);
    double seconds = (double)(sides_now() - start) * 1e-9;
    atomic_store(&done, true);
    if (!turns)
        (void)pthread_join(thread, NULL);
    if (ends[0].impaired != NULL)
        uro_port_close(ends[0].impaired);
    qsort(spent, plan.messages, sizeof *spent, by_value);
    if (trips)
        printf("{\"median_us\": %.3f, \"p999_us\": %.3f}\n", spent[plan.messages / 2] / 2000,
               spent[plan.messages - plan.messages / 1000] / 2000);
    else
        printf("{\"per_s\": %.0f}\n", plan.messages / seconds);
    return 0;
}
