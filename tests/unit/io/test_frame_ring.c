/* SPDX-License-Identifier: BSD-3-Clause */
/* test_frame_ring.c - tests the ring of frames to an engine, also with threads that put frames. */
#include "support/check.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/engines/frame_ring.h"
#include "support/patience.h"

#define FRAME_MAX   1518u
#define BURST       32u
#define FRAMES      5000u           /* of each thread */
#define PUT_BURST   7u              /* frames of a thread until it wakes the receiver */
#define WAITS       (3 * PUT_BURST) /* frames until the thread waits for the receiver */
#define SLEEP_MS    10000u
#define THREADS_MAX 2u

static struct uro_frame_ring *ring;
static struct uro_pkt pkts[URO_FRAME_RING_SLOTS];

static int start(void **state)
{
    (void)state;
    ring = aligned_alloc(_Alignof(struct uro_frame_ring), sizeof *ring);
    assert_non_null(ring);
    memset(ring, 0, sizeof *ring);
    assert_int_equal(uro_frame_ring_init(ring, FRAME_MAX), 0);
    return 0;
}

static int start_open(void **state)
{
    (void)start(state);
    uro_frame_ring_open(ring);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    uro_frame_ring_free(ring);
    free(ring);
    return 0;
}

/* Returns the length of frame @number. The longest frame fills the ring's frame size. */
static uint32_t length_of(uint32_t number)
{
    return FRAME_MAX - number % 100;
}

/* Puts a frame that has its number in its first and in its last bytes. Returns false if at most
 * @reserved slots are free. */
static bool put_unless(uint32_t number, uint32_t reserved)
{
    const uint32_t length = length_of(number);
    uint8_t *slot = uro_frame_ring_begin(ring, length, reserved);

    if (slot == NULL)
        return false;
    memcpy(slot, &number, sizeof number);
    memcpy(slot + length - sizeof number, &number, sizeof number);
    uro_frame_ring_commit(ring, length, number % 2 != 0, number % 3 != 0);
    return true;
}

/* Does the same for a ring without reserved slots. */
static bool put(uint32_t number)
{
    return put_unless(number, 0);
}

/* Returns the number of the frame. Uses no assert if the frame is whole, because cmocka's asserts
 * are slow. */
static uint32_t number_of(const struct uro_pkt *pkt)
{
    uint32_t first, last;

    memcpy(&first, pkt->octets, sizeof first);
    memcpy(&last, pkt->octets + pkt->length - sizeof last, sizeof last);
    if (first != last || pkt->length != length_of(first) || pkt->summed != (first % 2 != 0) ||
        pkt->weak != (first % 3 != 0) || pkt->indirect != NULL)
        fail_msg("frame %u is damaged", first);
    return first;
}

/* Takes @count frames, which must have the numbers from @first on. */
static void take(uint32_t first, uint32_t count)
{
    assert_int_equal(uro_frame_ring_lend(ring, pkts, count), count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(number_of(&pkts[i]), first + i);
    uro_frame_ring_release(ring, count);
}

static bool is_readable(int fd)
{
    struct pollfd polled = { .fd = fd, .events = POLLIN };

    return poll(&polled, 1, 0) == 1;
}

/* ---- one thread ------------------------------------------------------------ */

static void ring__frames__are_lent_in_order(void **state)
{
    (void)state;
    assert_true(uro_frame_ring_is_empty(ring));
    assert_int_equal(uro_frame_ring_lend(ring, pkts, BURST), 0);
    for (uint32_t i = 0; i < 5; i++)
        assert_true(put(i));
    assert_false(uro_frame_ring_is_empty(ring));
    assert_int_equal(uro_frame_ring_free_count(ring), URO_FRAME_RING_SLOTS - 5);
    take(0, 2);
    take(2, 3);
    assert_true(uro_frame_ring_is_empty(ring));
    assert_int_equal(uro_frame_ring_free_count(ring), URO_FRAME_RING_SLOTS);
}

/* A frame stays in its slot until it is released. */
static void ring__lent_frames__stay_until_they_are_released(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < URO_FRAME_RING_SLOTS; i++)
        assert_true(put(i));
    assert_int_equal(uro_frame_ring_lend(ring, pkts, 3), 3);
    assert_false(put(1000));
    assert_int_equal(uro_frame_ring_free_count(ring), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(number_of(&pkts[i]), i);
    uro_frame_ring_release(ring, 1);
    assert_int_equal(uro_frame_ring_free_count(ring), 1);
    assert_true(put(URO_FRAME_RING_SLOTS));
    assert_int_equal(number_of(&pkts[1]), 1);
    assert_int_equal(number_of(&pkts[2]), 2);
    assert_false(put(1000));
}

static void ring__full__accepts_frames_after_a_release(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < URO_FRAME_RING_SLOTS; i++)
        assert_true(put(i));
    assert_int_equal(uro_frame_ring_free_count(ring), 0);
    assert_false(put(1000));
    assert_false(put(1000)); /* the lock is free after a failure */
    take(0, 1);
    assert_true(put(URO_FRAME_RING_SLOTS));
    assert_false(put(1000));
    take(1, URO_FRAME_RING_SLOTS);
}

static void ring__reserved_slots_are_left__accepts_no_other_frame(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < URO_FRAME_RING_SLOTS - BURST; i++)
        assert_true(put_unless(i, BURST));
    assert_false(put_unless(1000, BURST));
    assert_true(put_unless(URO_FRAME_RING_SLOTS - BURST, 0));
    take(0, 1);
    assert_false(put_unless(1000, BURST));
    take(1, 1);
    assert_true(put_unless(URO_FRAME_RING_SLOTS - BURST + 1, BURST));
}

static void ring__more_frames_than_slots__order_is_kept(void **state)
{
    uint32_t put_count = 0, taken = 0;

    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < 1 + round % 50; i++)
            assert_true(put(put_count++));
        take(taken, put_count - taken);
        taken = put_count;
    }
    assert_in_range(put_count, 4 * URO_FRAME_RING_SLOTS, UINT32_MAX);
}

/* The counters of frames are of 32 bits. */
static void ring__counters_overflow__order_is_kept(void **state)
{
    (void)state;
    atomic_store(&ring->head, UINT32_MAX - 9);
    atomic_store(&ring->tail, UINT32_MAX - 9);
    for (uint32_t i = 0; i < URO_FRAME_RING_SLOTS; i++)
        assert_true(put(i));
    assert_int_equal(uro_frame_ring_free_count(ring), 0);
    assert_false(put(1000));
    take(0, URO_FRAME_RING_SLOTS);
    assert_true(uro_frame_ring_is_empty(ring));
}

static void ring__not_open__discards_frames(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * URO_FRAME_RING_SLOTS; i++)
        assert_true(put(i));
    assert_int_equal(uro_frame_ring_free_count(ring), URO_FRAME_RING_SLOTS);
    uro_frame_ring_open(ring);
    assert_true(uro_frame_ring_is_empty(ring));
    assert_true(put(7));
    take(7, 1);
}

static void ring__closed_and_opened__frames_of_before_are_discarded(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < URO_FRAME_RING_SLOTS; i++)
        assert_true(put(i));
    uro_frame_ring_close(ring);
    assert_int_equal(uro_frame_ring_free_count(ring), URO_FRAME_RING_SLOTS);
    assert_true(put(1000));
    uro_frame_ring_open(ring);
    assert_true(uro_frame_ring_is_empty(ring));
    assert_int_equal(uro_frame_ring_free_count(ring), URO_FRAME_RING_SLOTS);
    for (uint32_t i = 0; i < URO_FRAME_RING_SLOTS; i++)
        assert_true(put(i));
    assert_false(put(1000));
    take(0, URO_FRAME_RING_SLOTS);
}

static void arm__empty__the_next_wake_makes_the_descriptor_readable(void **state)
{
    (void)state;
    assert_true(uro_frame_ring_arm(ring));
    uro_frame_ring_disarm(ring); /* does not block, although there was no wake-up */
    assert_true(uro_frame_ring_arm(ring));
    assert_false(is_readable(ring->fd));
    assert_true(put(0));
    uro_frame_ring_wake(ring);
    assert_true(is_readable(ring->fd));
    uro_frame_ring_disarm(ring);
    assert_false(is_readable(ring->fd));
    take(0, 1);
}

static void arm__frames_in_the_ring__fails_and_requests_nothing(void **state)
{
    (void)state;
    assert_true(put(0));
    assert_false(uro_frame_ring_arm(ring));
    uro_frame_ring_wake(ring);
    assert_false(is_readable(ring->fd));
    take(0, 1);
    assert_true(uro_frame_ring_arm(ring));
}

static void wake__not_armed__does_nothing(void **state)
{
    (void)state;
    uro_frame_ring_wake(ring);
    assert_false(is_readable(ring->fd));
    assert_true(uro_frame_ring_arm(ring));
    uro_frame_ring_disarm(ring);
    assert_true(put(0));
    uro_frame_ring_wake(ring);
    assert_false(is_readable(ring->fd));
}

/* Only the first wake-up is a system call. */
static void wake__twice__writes_to_the_descriptor_once(void **state)
{
    uint64_t count = 0;

    (void)state;
    assert_true(uro_frame_ring_arm(ring));
    uro_frame_ring_wake(ring);
    uro_frame_ring_wake(ring);
    assert_int_equal(read(ring->fd, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
}

static void init__no_descriptor_is_left__error(void **state)
{
    struct uro_frame_ring none = { 0 };
    struct rlimit before, less;

    (void)state;
    const int next = dup(0);
    assert_int_equal(close(next), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    less = before;
    less.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
    const int error = uro_frame_ring_init(&none, FRAME_MAX);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(error, -EMFILE);
    uro_frame_ring_free(&none); /* has no effect */
}

/* ---- several threads ------------------------------------------------------- */

struct sender {
    pthread_t thread;
    uint32_t first;    /* number of its first frame */
    atomic_uint taken; /* frames that the receiver has taken */
};

static struct sender senders[THREADS_MAX];

/* Puts frames in bursts. Sometimes waits for the receiver, which then finds the ring empty and
 * sleeps. */
static void *sender_main(void *context)
{
    struct sender *sender = context;

    for (uint32_t i = 0; i < FRAMES; i++) {
        while (!put(sender->first + i)) {
            uro_frame_ring_wake(ring);
            (void)sched_yield();
        }
        if ((i + 1) % PUT_BURST == 0)
            uro_frame_ring_wake(ring);
        while ((i + 1) % WAITS == 0 && i < FRAMES / 2 && atomic_load(&sender->taken) <= i)
            (void)sched_yield();
    }
    uro_frame_ring_wake(ring);
    return NULL;
}

static void start_senders(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        senders[i].first = i * FRAMES;
        atomic_store(&senders[i].taken, 0);
        assert_int_equal(pthread_create(&senders[i].thread, NULL, sender_main, &senders[i]), 0);
    }
}

/* Sleeps until the ring has frames. The senders may wait for the receiver, so a lost wake-up would
 * make the receiver sleep for ever. */
static void sleep_until_woken(void)
{
    struct pollfd polled = { .fd = ring->fd, .events = POLLIN };

    if (!uro_frame_ring_arm(ring))
        return;
    if (poll(&polled, 1, (int)patience(SLEEP_MS)) != 1)
        fail_msg("the receiver was not woken");
    uro_frame_ring_disarm(ring);
}

/* Takes all frames of the first @count threads. The frames of each thread have their order. */
static void take_all(uint32_t count)
{
    uint32_t left = count * FRAMES;

    while (left > 0) {
        const uint32_t lent = uro_frame_ring_lend(ring, pkts, BURST);
        for (uint32_t i = 0; i < lent; i++) {
            const uint32_t number = number_of(&pkts[i]);
            struct sender *sender = &senders[number / FRAMES];
            if (number - sender->first != atomic_load(&sender->taken))
                fail_msg("frame %u is in the place of frame %u", number,
                         sender->first + atomic_load(&sender->taken));
            atomic_fetch_add(&sender->taken, 1);
        }
        uro_frame_ring_release(ring, lent);
        left -= lent;
        if (lent == 0)
            sleep_until_woken();
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(pthread_join(senders[i].thread, NULL), 0);
    assert_true(uro_frame_ring_is_empty(ring));
}

static void threads__one_puts_and_one_takes__no_frame_and_no_wake_up_is_lost(void **state)
{
    (void)state;
    start_senders(1);
    take_all(1);
}

static void threads__two_put_and_one_takes__no_frame_is_lost(void **state)
{
    (void)state;
    start_senders(2);
    take_all(2);
}

static atomic_bool stopping;

static void *put_always(void *unused)
{
    (void)unused;
    for (uint32_t i = 0; !atomic_load(&stopping); i++) {
        if (put(i))
            uro_frame_ring_wake(ring);
        (void)sched_yield(); /* otherwise close() may wait long for the lock */
    }
    return NULL;
}

/* After close() no frame arrives. After open() the frames have their order again. */
static void threads__closed_and_opened_while_another_puts__frames_are_whole(void **state)
{
    pthread_t thread;

    (void)state;
    atomic_store(&stopping, false);
    assert_int_equal(pthread_create(&thread, NULL, put_always, NULL), 0);
    for (uint32_t round = 0; round < 100; round++) {
        uint32_t lent;
        while ((lent = uro_frame_ring_lend(ring, pkts, BURST)) == 0)
            sleep_until_woken();
        for (uint32_t i = 1; i < lent; i++)
            assert_int_equal(number_of(&pkts[i]), number_of(&pkts[0]) + i);
        uro_frame_ring_release(ring, lent);
        uro_frame_ring_close(ring);
        const unsigned tail = atomic_load(&ring->tail);
        (void)sched_yield();
        assert_int_equal(atomic_load(&ring->tail), tail);
        uro_frame_ring_open(ring);
    }
    atomic_store(&stopping, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start_open, stop)
        TEST(ring__frames__are_lent_in_order),
        TEST(ring__lent_frames__stay_until_they_are_released),
        TEST(ring__full__accepts_frames_after_a_release),
        TEST(ring__reserved_slots_are_left__accepts_no_other_frame),
        TEST(ring__more_frames_than_slots__order_is_kept),
        TEST(ring__counters_overflow__order_is_kept),
        cmocka_unit_test_setup_teardown(ring__not_open__discards_frames, start, stop),
        TEST(ring__closed_and_opened__frames_of_before_are_discarded),
        TEST(arm__empty__the_next_wake_makes_the_descriptor_readable),
        TEST(arm__frames_in_the_ring__fails_and_requests_nothing),
        TEST(wake__not_armed__does_nothing),
        TEST(wake__twice__writes_to_the_descriptor_once),
        TEST(init__no_descriptor_is_left__error),
        TEST(threads__one_puts_and_one_takes__no_frame_and_no_wake_up_is_lost),
        TEST(threads__two_put_and_one_takes__no_frame_is_lost),
        TEST(threads__closed_and_opened_while_another_puts__frames_are_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
