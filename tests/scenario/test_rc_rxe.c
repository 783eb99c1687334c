/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rc_rxe.c - tests uroce with Linux rxe as requester, on a network that loses, duplicates and
 * reorders packets, and with a timer that fires early.
 *
 * rxe.h is a model of rxe, also of its bugs. Each run draws messages, losses and the order of
 * events from a seed. A run fails if rxe's queue pair fails or waits for ever, or if data or an
 * atomic is wrong. The environment variable RXE_RUNS sets another number of runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "rxe.h"
#include "scene_wire.h"

#define MTU           256u
#define MESSAGES      32u
#define MESSAGE_MAX   4096u
#define IN_FLIGHT     512u /* packets that one direction holds */
#define PACKET_MAX    512u /* bytes of a frame */
#define ACK_LENGTH    62u  /* length of a frame with an ACK */
#define ETHER_TYPE_AT 12u
#define NIC           64u                /* packets that rxe's interface takes */
#define WORD          (SCENE_MEMORY - 8) /* offset of the atomics' word in scene->remote */
#define TIMER         10u /* minimum number of events between two expiries of rxe's timer */
#define EVENTS_MAX    100000u
#define STUCK         200u /* milliseconds without an event */
#define RUNS          500u
#define PER_MILLION   1000000u

/* Rates of network faults per million packets, and of early timers per million events. */
struct weather {
    uint32_t loss, repeat, overtake;
    uint32_t early; /* the timer fires */
};

struct packet {
    uint8_t octets[PACKET_MAX];
    uint32_t length;
};

/* One direction of the network. */
struct way {
    struct packet packets[IN_FLIGHT];
    uint32_t first, end;  /* numbers of the oldest packet and of the next packet */
    struct packet newest; /* packet that was sent last, even if it was lost */
    bool newest_lost;
};

struct run {
    struct scene *scene;
    struct rxe rxe;
    struct uro_rng rng;
    struct weather weather;
    uro_time now;
    uint8_t *source;           /* what rxe sends */
    uint32_t events, timer_at; /* events so far; number from which rxe's timer may fire again */
    struct way up, down;       /* up: from rxe; down: to rxe */
};

static bool happens(struct run *run, uint32_t per_million)
{
    return uro_rng_below(&run->rng, PER_MILLION) < per_million;
}

static uint32_t under_way(const struct way *way)
{
    return way->end - way->first;
}

/* Decides whether a packet is lost. If an ACK is sent twice, both copies arrive or both are
 * lost. */
static bool is_lost(struct run *run, struct way *way, const uint8_t *octets, uint32_t length)
{
    bool copy = length == ACK_LENGTH && way->newest.length == length &&
                memcmp(way->newest.octets, octets, length) == 0;

    assert_true(length <= PACKET_MAX);
    memcpy(way->newest.octets, octets, length);
    way->newest.length = length;
    if (!copy)
        way->newest_lost = happens(run, run->weather.loss);
    return way->newest_lost;
}

static void carry(struct run *run, struct way *way, const uint8_t *octets, uint32_t length)
{
    uint32_t times = 1 + happens(run, run->weather.repeat);

    if (is_lost(run, way, octets, length))
        return;
    for (; times > 0 && under_way(way) < IN_FLIGHT; times--) {
        struct packet *packet = &way->packets[way->end++ % IN_FLIGHT];
        memcpy(packet->octets, octets, length);
        packet->length = length;
    }
    if (under_way(way) > 1 && happens(run, run->weather.overtake)) {
        struct packet *last = &way->packets[(way->end - 1) % IN_FLIGHT];
        struct packet *before = &way->packets[(way->end - 2) % IN_FLIGHT];
        struct packet other = *last;
        *last = *before;
        *before = other;
    }
}

static void post(struct run *run, uint32_t number)
{
    static const enum uro_operation verbs[] = { URO_WRITE, URO_READ, URO_FETCH_ADD, URO_SEND };
    enum uro_operation operation = verbs[uro_rng_below(&run->rng, 4)];
    uint32_t length = uro_rng_below(&run->rng, 3) == 0 ? 1 + uro_rng_below(&run->rng, MTU)
                                                       : 1 + uro_rng_below(&run->rng, MESSAGE_MAX);
    uint32_t at = number * MESSAGE_MAX;
    uint8_t *remote = run->scene->remote + at;

    if (operation == URO_FETCH_ADD) {
        rxe_post(&run->rxe, operation, NULL, 8, (uintptr_t)run->scene->remote + WORD);
        return;
    }
    uint8_t *content = operation == URO_READ ? remote : run->source + at;
    scene_fill(content, number, length);
    rxe_post(&run->rxe, operation, content, length, (uintptr_t)remote);
    if (operation == URO_SEND)
        scene_post_recv(run->scene, number, length);
}

/* ---- events --------------------------------------------------------------- */

static bool rxe_sends(struct run *run, uint32_t most)
{
    uint32_t i = 0;

    for (; i < most && under_way(&run->up) < NIC; i++) {
        struct scene_packet packet;
        uint8_t octets[SCENE_FRAME_MAX];
        if (!rxe_send(&run->rxe, &packet))
            break;
        carry(run, &run->up, octets, scene_frame(run->scene, &packet, octets));
    }
    return i > 0;
}

static bool we_receive(struct run *run, uint32_t most)
{
    uint32_t i = 0;

    for (; i < most && under_way(&run->up) > 0; i++) {
        const struct packet *packet = &run->up.packets[run->up.first++ % IN_FLIGHT];
        scene_input(run->scene, run->now, packet->octets, packet->length);
    }
    return i > 0;
}

/* Answers the ARP request for rxe's address that uroce sends again in a long run. */
static bool answered_arp(struct run *run, const uint8_t *octets)
{
    uint8_t frame[SCENE_FRAME_MAX];

    if (uro_get_be16(octets + ETHER_TYPE_AT) != URO_ETHERTYPE_ARP)
        return false;
    scene_input(run->scene, run->now, frame,
                scene_arp_reply(&scene_mac, &scene_peer_mac, "10.0.0.2", frame));
    return true;
}

/* Sends packets of uroce. Both copies of an ACK leave at once. */
static bool we_send(struct run *run, uint32_t most)
{
    uint32_t i = 0, length = 0;

    run->down.newest.length = 0;
    for (; (i < most || length == ACK_LENGTH) && under_way(&run->down) < IN_FLIGHT; i++) {
        uint8_t octets[SCENE_FRAME_MAX];
        length = scene_output(run->scene, run->now, octets);
        if (length == 0)
            break;
        if (!answered_arp(run, octets))
            carry(run, &run->down, octets, length);
    }
    return i > 0;
}

/* Delivers packets to rxe. Both copies of an ACK arrive at once. */
static bool rxe_receives(struct run *run, uint32_t most)
{
    uint32_t i = 0, length = 0;

    for (; (i < most || length == ACK_LENGTH) && under_way(&run->down) > 0; i++) {
        const struct packet *packet = &run->down.packets[run->down.first % IN_FLIGHT];
        struct uro_frame frame;
        assert_int_equal(uro_frame_network(packet->octets, packet->length, &frame), URO_FRAME_OK);
        assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
        if (!rxe_receive(&run->rxe, &frame))
            break;
        length = packet->length;
        run->down.first++;
    }
    return i > 0;
}

/* Advances the time until a timer of uroce or of rxe causes a packet. Nothing is in flight. */
static bool wait(struct run *run)
{
    for (uint32_t ms = 0; ms < STUCK; ms++) {
        run->now += URO_MS(1);
        if (we_send(run, IN_FLIGHT) && under_way(&run->down) > 0)
            return true;
        if (ms % 67 == 66)
            rxe_timeout(&run->rxe);
        if (rxe_sends(run, NIC))
            return true;
    }
    return false;
}

static bool event(struct run *run)
{
    static bool (*const events[])(struct run *, uint32_t) = { rxe_sends, we_receive, we_send,
                                                              rxe_receives };
    uint32_t most = 1 + uro_rng_below(&run->rng, uro_rng_below(&run->rng, 2) == 0 ? 3 : 100);
    bool happened = false;

    if (++run->events >= run->timer_at && happens(run, run->weather.early)) {
        run->timer_at = run->events + TIMER;
        rxe_timeout(&run->rxe);
    }
    run->now += URO_US(uro_rng_below(&run->rng, 20));
    happened = events[uro_rng_below(&run->rng, 4)](run, most);
    for (uint32_t i = 0; i < 4 && !happened; i++)
        happened = events[i](run, most);
    return happened || wait(run);
}

/* ---- a run ---------------------------------------------------------------- */

static const char *wrong(struct run *run)
{
    const uint8_t *received = scene_recv_memory(run->scene, 0);
    uint64_t word, adds = 0;

    for (uint32_t i = 0; i < run->rxe.count; i++) {
        const struct rxe_message *message = &run->rxe.messages[i];
        const uint8_t *at = (const uint8_t *)(uintptr_t)message->va;
        if (message->operation == URO_FETCH_ADD && message->original != adds++)
            return "an atomic was not executed exactly once";
        if (message->operation == URO_WRITE && memcmp(at, message->at, message->length) != 0)
            return "the content of a WRITE is wrong";
        if (message->operation != URO_SEND)
            continue;
        scene_expect_recv(run->scene, i, UROCE_SUCCESS, message->length);
        if (memcmp(received, message->at, message->length) != 0)
            return "the content of a SEND is wrong";
        received += message->length;
    }
    memcpy(&word, run->scene->remote + WORD, sizeof word);
    return word == adds ? NULL : "the atomics do not add up";
}

static const char *play(struct run *run)
{
    memset(run->scene->remote + WORD, 0, 8);
    for (uint32_t i = 0; i < MESSAGES; i++)
        post(run, i);
    while (!rxe_is_done(&run->rxe) && run->rxe.failed == NULL)
        if (!event(run) || run->events == EVENTS_MAX)
            return "rxe waits for ever";
    return run->rxe.failed != NULL ? run->rxe.failed : wrong(run);
}

/* Drops all packets and completions that are left when a run failed. */
static void drain(struct run *run)
{
    struct uroce_completion cqe;

    run->down.first = run->down.end;
    while (we_send(run, IN_FLIGHT))
        run->down.first = run->down.end;
    while (uroce_cq_poll(run->scene->recv_cq, &cqe, 1) == 1)
        ;
}

static uint32_t number_of_runs(void)
{
    const char *text = getenv("RXE_RUNS");

    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : RUNS;
}

static void expect_all_well(enum rxe_kernel kernel, struct weather weather)
{
    uint32_t failures = 0, runs = number_of_runs();
    static struct run run;

    for (uint32_t seed = 1; seed <= runs; seed++) {
        run = (struct run){ .weather = weather, .source = malloc(MESSAGES * MESSAGE_MAX) };
        uro_rng_init_number(&run.rng, seed);
        run.scene = scene_rc(.mtu = MTU, .rq_psn = 0xffff00, .reorder_buffer = 256);
        rxe_init(&run.rxe, kernel, MTU, 0xffff00, 4);
        const char *why = play(&run);
        if (why != NULL) {
            print_message("run %u: %s, message %u\n", seed, why, run.rxe.head);
            failures++;
        }
        drain(&run);
        free(run.source);
        scene_close(run.scene);
    }
    if (failures > 0)
        fail_msg("%u of %u runs failed", failures, runs);
}

/* Kernel 6.12 is tested without overtaking: its queue pair fails with any responder when a READ
 * response overtakes an ACK. */
static void rc_rxe__lossy_network__all_requests_complete(void **state)
{
    (void)state;
    expect_all_well(RXE_6_1, (struct weather){ .loss = 10000, .repeat = 10000, .overtake = 10000 });
    expect_all_well(RXE_6_12, (struct weather){ .loss = 10000, .repeat = 10000 });
}

/* An ACK that arrives while rxe sends the same message again moves rxe beyond the end of that
 * message. */
static void rc_rxe__timer_fires_early__all_requests_complete(void **state)
{
    (void)state;
    expect_all_well(RXE_6_1, (struct weather){ .early = 200000 });
    expect_all_well(RXE_6_12, (struct weather){ .early = 200000 });
}

static void rc_rxe__lossy_network_and_early_timer__all_requests_complete(void **state)
{
    const struct weather bad = { .loss = 10000, .repeat = 10000, .early = 200000 };

    (void)state;
    expect_all_well(RXE_6_1, bad);
    expect_all_well(RXE_6_12, bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_rxe__lossy_network__all_requests_complete),
        cmocka_unit_test(rc_rxe__timer_fires_early__all_requests_complete),
        cmocka_unit_test(rc_rxe__lossy_network_and_early_timer__all_requests_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
