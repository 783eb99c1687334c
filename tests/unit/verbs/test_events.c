/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs/events.h"

struct pair {
    struct uro_event_queue queue;
    struct uro_event_node one, two;
};

static void open_pair(struct pair *pair)
{
    *pair = (struct pair){ .one.type = 1, .two.type = 2 };
    assert_int_equal(uro_events_open(&pair->queue), 0);
    pair->one.queue = pair->two.queue = &pair->queue;
}

static void set_nonblocking(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static bool readable(int fd)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    return poll(&wait, 1, 0) == 1;
}

static void expect_type(struct pair *pair, int type)
{
    const struct uro_event_node *node = uro_events_take(&pair->queue);

    assert_non_null(node);
    assert_int_equal(node->type, type);
}

static void events__of_several_objects__keep_their_order(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    uro_events_put(&pair.two);
    uro_events_put(&pair.one);
    expect_type(&pair, 2);
    expect_type(&pair, 1);
    uro_events_close(&pair.queue);
}

static void events__raised_twice_by_one_object__other_objects_come_next(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    uro_events_put(&pair.one);
    uro_events_put(&pair.one);
    uro_events_put(&pair.two);
    expect_type(&pair, 1);
    expect_type(&pair, 2);
    expect_type(&pair, 1);
    assert_false(readable(pair.queue.fd));
    assert_int_equal(pair.one.taken, 2);
    uro_events_close(&pair.queue);
}

static void take__nonblocking_without_events__is_eagain(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    set_nonblocking(pair.queue.fd);
    errno = 0;
    assert_null(uro_events_take(&pair.queue));
    assert_int_equal(errno, EAGAIN);
    uro_events_close(&pair.queue);
}

static void withdraw__of_one_object__other_event_remains_readable(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    uro_events_put(&pair.one);
    uro_events_put(&pair.two);
    uro_events_put(&pair.one);
    uro_events_withdraw(&pair.one);
    assert_int_equal(pair.one.taken, 0);
    assert_true(readable(pair.queue.fd));
    expect_type(&pair, 2);
    assert_false(
        readable(pair.queue.fd)); /* withdraw did not read the descriptor, which would block */
    uro_events_close(&pair.queue);
}

static void withdraw__then_put_again__is_an_event_again(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    uro_events_put(&pair.one);
    uro_events_withdraw(&pair.one);
    uro_events_put(&pair.one);
    expect_type(&pair, 1);
    assert_false(readable(pair.queue.fd));
    uro_events_close(&pair.queue);
}

static void put__on_an_object_without_a_queue__does_nothing(void **state)
{
    struct uro_event_node node = { .type = 1 };

    (void)state;
    uro_events_put(&node);
    uro_events_withdraw(&node);
    assert_int_equal(node.waiting, 0);
}

/* Edge-triggered waiters get one edge per event, not one per object. */
static void epoll__edge_triggered__sees_every_put(void **state)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    struct pair pair;

    (void)state;
    open_pair(&pair);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, pair.queue.fd, &event), 0);
    for (int i = 0; i < 3; i++) {
        uro_events_put(&pair.one);
        assert_int_equal(epoll_wait(epoll, &event, 1, 0), 1);
        assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
    }
    close(epoll);
    uro_events_close(&pair.queue);
}

static void *put_many(void *node)
{
    for (int i = 0; i < 1000; i++)
        uro_events_put(node);
    return NULL;
}

static void events__put_by_two_threads_at_once__are_all_taken(void **state)
{
    struct pair pair;
    pthread_t threads[2];
    uint32_t seen[3] = { 0 };

    (void)state;
    open_pair(&pair);
    assert_int_equal(pthread_create(&threads[0], NULL, put_many, &pair.one), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, put_many, &pair.two), 0);
    for (int i = 0; i < 2000; i++)
        seen[uro_events_take(&pair.queue)->type]++;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    assert_int_equal(seen[1], 1000);
    assert_int_equal(seen[2], 1000);
    assert_false(readable(pair.queue.fd));
    uro_events_close(&pair.queue);
}

static uint32_t pair_taken(struct pair *pair)
{
    (void)pthread_mutex_lock(&pair->queue.lock);
    uint32_t taken = pair->one.taken;
    (void)pthread_mutex_unlock(&pair->queue.lock);
    return taken;
}

static void *take_for_ever(void *argument)
{
    struct pair *pair = argument;

    for (;;)
        (void)uro_events_take(&pair->queue);
    return NULL;
}

/* The descriptor counts the remaining events, whether the thread was cancelled before, in or after
 * its read. */
static void take__cancelled_while_events_arrive__loses_no_event(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3000; i++) {
        struct pair pair;
        pthread_t thread;

        open_pair(&pair);
        assert_int_equal(pthread_create(&thread, NULL, take_for_ever, &pair), 0);
        while (i % 2 == 0 && pair_taken(&pair) == 0) {
            uro_events_put(&pair.one);
            sched_yield(); /* on a busy machine, the loop would put thousands of events */
        }
        uro_events_put(&pair.one);
        assert_int_equal(pthread_cancel(thread), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        set_nonblocking(pair.queue.fd);
        while (pair.one.waiting > 0)
            expect_type(&pair, 1);
        assert_false(readable(pair.queue.fd));
        uro_events_close(&pair.queue);
    }
}

/* A thread that runs the engine takes its event without the descriptor. Other threads get the other
 * events through the descriptor. */
static void collect__two_events__one_is_taken_and_one_is_counted(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    uro_events_collect(&pair.queue);
    uro_events_put(&pair.one);
    uro_events_put(&pair.two);
    assert_false(readable(pair.queue.fd));
    assert_int_equal(uro_events_collected(&pair.queue)->type, 1);
    assert_true(readable(pair.queue.fd));
    expect_type(&pair, 2);
    assert_false(readable(pair.queue.fd));
    uro_events_put(&pair.one);
    assert_true(readable(pair.queue.fd));
    uro_events_close(&pair.queue);
}

static void collect__no_event__none_is_taken(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    uro_events_collect(&pair.queue);
    assert_null(uro_events_collected(&pair.queue));
    assert_null(uro_events_try(&pair.queue));
    uro_events_put(&pair.one);
    assert_int_equal(uro_events_try(&pair.queue)->type, 1);
    assert_false(readable(pair.queue.fd));
    uro_events_close(&pair.queue);
}

/* One event is counted and one is not. The count must stay right whichever object is destroyed. */
static void collect__object_is_destroyed__count_is_that_of_the_others(void **state)
{
    struct pair pair;

    (void)state;
    open_pair(&pair);
    uro_events_put(&pair.one);
    uro_events_collect(&pair.queue);
    uro_events_put(&pair.two);
    uro_events_put(&pair.two);
    uro_events_withdraw(&pair.two);
    assert_int_equal(uro_events_collected(&pair.queue)->type, 1);
    assert_false(readable(pair.queue.fd));
    uro_events_close(&pair.queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events__of_several_objects__keep_their_order),
        cmocka_unit_test(events__raised_twice_by_one_object__other_objects_come_next),
        cmocka_unit_test(take__nonblocking_without_events__is_eagain),
        cmocka_unit_test(withdraw__of_one_object__other_event_remains_readable),
        cmocka_unit_test(withdraw__then_put_again__is_an_event_again),
        cmocka_unit_test(put__on_an_object_without_a_queue__does_nothing),
        cmocka_unit_test(epoll__edge_triggered__sees_every_put),
        cmocka_unit_test(events__put_by_two_threads_at_once__are_all_taken),
        cmocka_unit_test(take__cancelled_while_events_arrive__loses_no_event),
        cmocka_unit_test(collect__two_events__one_is_taken_and_one_is_counted),
        cmocka_unit_test(collect__no_event__none_is_taken),
        cmocka_unit_test(collect__object_is_destroyed__count_is_that_of_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
