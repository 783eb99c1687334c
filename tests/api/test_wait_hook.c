/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests programs that wait with poll() or epoll under `uroce run`. liburoce-paths.so makes the
 * waiting thread run the engine. The calls must return the same results as in the C library. */
#include "api/api.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TRIPS 300

enum how { BY_POLL, BY_EPOLL, BY_EPOLL_EDGE, BY_EPOLL_PWAIT, HOWS };

struct server {
    struct ibv_comp_channel *channel;
    struct pair *pair;
    enum how how;
    int epoll;
    atomic_int served;
};

/* Waits until the channel has an event. */
static void wait_for_channel(const struct server *server)
{
    struct pollfd fd = { .fd = server->channel->fd, .events = POLLIN };
    struct epoll_event event;

    if (server->how == BY_POLL)
        assert_int_equal(poll(&fd, 1, -1), 1);
    else if (server->how == BY_EPOLL_PWAIT)
        assert_int_equal(epoll_pwait(server->epoll, &event, 1, -1, NULL), 1);
    else
        assert_int_equal(epoll_wait(server->epoll, &event, 1, -1), 1);
}

static void open_server(struct server *server, enum how how)
{
    struct epoll_event event = { .events = how == BY_EPOLL_EDGE ? EPOLLIN | EPOLLET : EPOLLIN };

    server->how = how;
    server->epoll = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->channel->fd, &event), 0);
}

static void post(struct side *from, struct side *to)
{
    struct ibv_sge source = api_sge(from, 0, 8), sink = api_sge(to, 0, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);

    assert_int_equal(api_post_recv(to, 1, &sink), 0);
    assert_int_equal(api_post_send(from, &wr), 0);
}

/* Takes the event, polls until the receive completion, and arms the CQ again. */
static void serve_one(struct server *server)
{
    struct ibv_cq *cq;
    void *context;

    assert_int_equal(ibv_get_cq_event(server->channel, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    api_expect(server->pair->b.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
}

static void *serve(void *argument)
{
    struct server *server = argument;

    for (int i = 0; i < TRIPS; i++) {
        wait_for_channel(server);
        serve_one(server);
        atomic_store(&server->served, i + 1);
    }
    return NULL;
}

static void channel__waited_for_by_any_call__gives_each_event(void **state)
{
    for (enum how how = BY_POLL; how < HOWS; how++) {
        const struct api *api = *state;
        struct server server = { .channel = ibv_create_comp_channel(api->context) };
        struct pair pair;
        pthread_t thread;

        server.pair = &pair;
        api_pair_open(api, &pair, server.channel);
        open_server(&server, how);
        assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
        assert_int_equal(pthread_create(&thread, NULL, serve, &server), 0);
        for (int i = 0; i < TRIPS; i++) {
            post(&pair.a, &pair.b);
            api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
            while (atomic_load(&server.served) <= i)
                (void)sched_yield();
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(close(server.epoll), 0);
        api_pair_close(&pair);
        assert_int_equal(ibv_destroy_comp_channel(server.channel), 0);
    }
}

static void channel__no_event__waits_end_at_the_timeout(void **state)
{
    const struct api *api = *state;
    struct server server = { .channel = ibv_create_comp_channel(api->context) };
    struct pollfd fd = { .fd = server.channel->fd, .events = POLLIN };
    struct epoll_event event;
    struct pair pair;

    api_pair_open(api, &pair, server.channel);
    open_server(&server, BY_EPOLL);
    for (int ms = 0; ms <= 20; ms += 10) {
        assert_int_equal(poll(&fd, 1, ms), 0);
        assert_int_equal(fd.revents, 0);
        assert_int_equal(epoll_wait(server.epoll, &event, 1, ms), 0);
    }
    assert_int_equal(close(server.epoll), 0);
    api_pair_close(&pair);
    assert_int_equal(ibv_destroy_comp_channel(server.channel), 0);
}

/* A readable descriptor that does not belong to uroce ends the wait, too. */
static void other_descriptor__readable__ends_the_wait(void **state)
{
    const struct api *api = *state;
    struct server server = { .channel = ibv_create_comp_channel(api->context) };
    struct epoll_event event = { .events = EPOLLIN, .data.fd = 7 };
    struct pair pair;
    int ends[2];

    api_pair_open(api, &pair, server.channel);
    open_server(&server, BY_EPOLL);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(epoll_ctl(server.epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    struct pollfd fds[] = { { .fd = server.channel->fd, .events = POLLIN },
                            { .fd = ends[0], .events = POLLIN },
                            { .fd = -1, .events = POLLIN } };
    assert_int_equal(poll(fds, 3, -1), 1);
    assert_int_equal(fds[0].revents, 0);
    assert_int_equal(fds[1].revents, POLLIN);
    event.data.fd = 0;
    assert_int_equal(epoll_wait(server.epoll, &event, 1, -1), 1);
    assert_int_equal(event.data.fd, 7);
    assert_int_equal(close(ends[0]) + close(ends[1]) + close(server.epoll), 0);
    api_pair_close(&pair);
    assert_int_equal(ibv_destroy_comp_channel(server.channel), 0);
}

static void *wait_for_ever(void *argument)
{
    wait_for_channel(argument);
    return NULL;
}

static void wait__cancelled__ends_and_the_next_wait_works(void **state)
{
    for (enum how how = BY_POLL; how < HOWS; how++) {
        const struct api *api = *state;
        struct server server = { .channel = ibv_create_comp_channel(api->context) };
        struct pair pair;
        pthread_t thread;
        void *result;

        server.pair = &pair;
        api_pair_open(api, &pair, server.channel);
        open_server(&server, how);
        assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, &server), 0);
        assert_int_equal(pthread_cancel(thread), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        post(&pair.a, &pair.b);
        wait_for_channel(&server);
        serve_one(&server);
        api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
        assert_int_equal(close(server.epoll), 0);
        api_pair_close(&pair);
        assert_int_equal(ibv_destroy_comp_channel(server.channel), 0);
    }
}

int main(void)
{
    char one[API_ADDRESS], line[64];

    const struct CMUnitTest tests[] = {
        API_TEST(channel__waited_for_by_any_call__gives_each_event),
        API_TEST(channel__no_event__waits_end_at_the_timeout),
        API_TEST(other_descriptor__readable__ends_the_wait),
        API_TEST(wait__cancelled__ends_and_the_next_wait_works),
    };

    (void)snprintf(line, sizeof line, "uroce0:udp,ip=%s", api_own_address(0, one));
    assert_int_equal(setenv("UROCE_DEVICES", line, 1), 0);
    return API_RUN(tests);
}
