/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_channel.c - tests event channels: how programs wait for events, the order of events,
 * and which calls wait for acknowledgements. */
#include "api/api.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define WAIT_MS 60000 /* a guard against hanging */

static struct rdma_event_channel *channel, *other;

static struct sockaddr_in address_of(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = port };

    assert_int_equal(inet_pton(AF_INET, "10.0.0.1", &address.sin_addr), 1);
    return address;
}

static struct rdma_cm_id *create(void)
{
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    return id;
}

static int bind_to(struct rdma_cm_id *id, uint16_t port)
{
    struct sockaddr_in address = address_of(port);

    return rdma_bind_addr(id, (struct sockaddr *)&address);
}

/* Causes an event of @id in its channel. */
static void cause(struct rdma_cm_id *id)
{
    struct sockaddr_in address = address_of(htons(1));

    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, WAIT_MS), 0);
}

static struct rdma_cm_event *fetch(struct rdma_event_channel *from, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    assert_int_equal(rdma_get_cm_event(from, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    assert_int_equal(event->status, 0);
    return event;
}

static struct rdma_cm_id *expect(struct rdma_event_channel *from, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = fetch(from, type);
    struct rdma_cm_id *id = event->id;

    assert_int_equal(rdma_ack_cm_event(event), 0);
    return id;
}

static void set_nonblocking(const struct rdma_event_channel *of)
{
    assert_int_equal(fcntl(of->fd, F_SETFL, fcntl(of->fd, F_GETFL) | O_NONBLOCK), 0);
}

/* ---- waiting for events -------------------------------------------------- */

static bool selected(void)
{
    fd_set set;
    struct timeval now = { 0 };

    FD_ZERO(&set);
    FD_SET(channel->fd, &set);
    return select(channel->fd + 1, &set, NULL, NULL, &now) == 1;
}

static void channel__event_pending__ready_for_select_and_both_kinds_of_epoll(void **state)
{
    struct rdma_cm_id *one = create(), *two = create();
    struct epoll_event level = { .events = EPOLLIN }, edge = { .events = EPOLLIN | EPOLLET }, got;
    int levels = epoll_create1(0), edges = epoll_create1(0);

    (void)state;
    assert_int_equal(epoll_ctl(levels, EPOLL_CTL_ADD, channel->fd, &level), 0);
    assert_int_equal(epoll_ctl(edges, EPOLL_CTL_ADD, channel->fd, &edge), 0);
    assert_false(selected());
    assert_int_equal(epoll_wait(levels, &got, 1, 0), 0);
    cause(one);
    assert_int_equal(epoll_wait(edges, &got, 1, -1), 1);
    assert_int_equal(epoll_wait(edges, &got, 1, 0), 0);
    cause(two); /* the program has not fetched the first event yet */
    assert_int_equal(epoll_wait(edges, &got, 1, -1), 1);
    assert_ptr_equal(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED), one);
    assert_true(selected());
    assert_int_equal(epoll_wait(levels, &got, 1, -1), 1);
    assert_ptr_equal(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED), two);
    assert_false(selected());
    assert_int_equal(epoll_wait(levels, &got, 1, 0), 0);
    close(levels);
    close(edges);
    assert_int_equal(rdma_destroy_id(one), 0);
    assert_int_equal(rdma_destroy_id(two), 0);
}

static void nothing(int number)
{
    (void)number;
}

static atomic_bool returned;

static void *wait_in_vain(void *unused)
{
    struct rdma_cm_event *event;

    (void)unused;
    errno = 0;
    assert_int_equal(rdma_get_cm_event(channel, &event), -1);
    assert_int_equal(errno, EINTR);
    atomic_store(&returned, true);
    return NULL;
}

static void get_cm_event__signal__is_interrupted(void **state)
{
    struct sigaction action = { .sa_handler = nothing }, before;
    pthread_t waiter;

    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    atomic_store(&returned, false);
    assert_int_equal(pthread_create(&waiter, NULL, wait_in_vain, NULL), 0);
    while (!atomic_load(&returned)) {
        (void)pthread_kill(waiter, SIGUSR1);
        sched_yield();
    }
    assert_int_equal(pthread_join(waiter, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
}

/* ---- events that are not acknowledged ------------------------------------ */

static atomic_bool acknowledged;

static void *destroy(void *id)
{
    assert_int_equal(rdma_destroy_id(id), 0);
    assert_true(atomic_load(&acknowledged));
    return NULL;
}

static void destroy_id__event_fetched__waits_for_its_acknowledgement(void **state)
{
    struct rdma_cm_id *id = create(), *probe = create();
    pthread_t destroyer;

    (void)state;
    assert_int_equal(bind_to(id, htons(4100)), 0);
    cause(id);
    struct rdma_cm_event *event = fetch(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    atomic_store(&acknowledged, false);
    assert_int_equal(pthread_create(&destroyer, NULL, destroy, id), 0);
    /* When port 4100 is free again, rdma_destroy_id() waits only for the acknowledgement. */
    while (bind_to(probe, htons(4100)) != 0)
        sched_yield();
    atomic_store(&acknowledged, true);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(pthread_join(destroyer, NULL), 0);
    assert_int_equal(rdma_destroy_id(probe), 0);
}

static void *migrate(void *id)
{
    assert_int_equal(rdma_migrate_id(id, other), 0);
    assert_true(atomic_load(&acknowledged));
    return NULL;
}

/* The call waits until the fetched events are acknowledged. Events that were not fetched move to
 * the new channel. */
static void migrate__waits_for_fetched_events__and_moves_the_others(void **state)
{
    struct rdma_cm_id *id = create();
    struct pollfd there = { .fd = other->fd, .events = POLLIN };
    pthread_t migrator;

    (void)state;
    cause(id);
    struct rdma_cm_event *event = fetch(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    atomic_store(&acknowledged, false);
    assert_int_equal(pthread_create(&migrator, NULL, migrate, id), 0);
    /* When the other event has moved, rdma_migrate_id() waits only for the acknowledgement. */
    assert_int_equal(poll(&there, 1, -1), 1);
    assert_false(selected());
    atomic_store(&acknowledged, true);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(pthread_join(migrator, NULL), 0);
    assert_ptr_equal(id->channel, other);
    assert_ptr_equal(expect(other, RDMA_CM_EVENT_ROUTE_RESOLVED), id);
    assert_int_equal(rdma_destroy_id(id), 0);
}

/* ---- order --------------------------------------------------------------- */

/* Both sides use one channel. There, DISCONNECTED never comes before ESTABLISHED. */
static void connection__events_come_in_order__and_none_after_destruction(void **state)
{
    struct rdma_conn_param param = { .qp_num = 0x101, .retry_count = 7 };
    struct rdma_cm_id *listener = create(), *client = create();
    struct sockaddr_in address;
    struct rdma_cm_event *event;

    (void)state;
    assert_int_equal(bind_to(listener, 0), 0);
    assert_int_equal(rdma_listen(listener, 1), 0);
    address = address_of(rdma_get_src_port(listener));
    assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, WAIT_MS), 0);
    expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(client, WAIT_MS), 0);
    expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(rdma_connect(client, &param), 0);
    struct rdma_cm_id *server = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    param.qp_num = 0x102;
    assert_int_equal(rdma_accept(server, &param), 0);
    assert_ptr_equal(expect(channel, RDMA_CM_EVENT_CONNECT_RESPONSE), client);
    assert_int_equal(rdma_establish(client), 0);
    assert_ptr_equal(expect(channel, RDMA_CM_EVENT_ESTABLISHED), server);
    assert_int_equal(rdma_disconnect(client), 0);
    struct rdma_cm_id *first = expect(channel, RDMA_CM_EVENT_DISCONNECTED);
    struct rdma_cm_id *second = expect(channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_true((first == server && second == client) || (first == client && second == server));
    assert_int_equal(rdma_destroy_id(client), 0);
    assert_int_equal(rdma_destroy_id(server), 0);
    assert_int_equal(rdma_destroy_id(listener), 0);
    set_nonblocking(channel);
    assert_int_equal(rdma_get_cm_event(channel, &event), -1);
    assert_int_equal(errno, EAGAIN);
}

static int open_channels(void **state)
{
    (void)state;
    channel = rdma_create_event_channel();
    other = rdma_create_event_channel();
    return channel == NULL || other == NULL;
}

static int close_channels(void **state)
{
    (void)state;
    rdma_destroy_event_channel(channel);
    rdma_destroy_event_channel(other);
    return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_channels, close_channels)
    const struct CMUnitTest tests[] = {
        TEST(channel__event_pending__ready_for_select_and_both_kinds_of_epoll),
        TEST(get_cm_event__signal__is_interrupted),
        TEST(destroy_id__event_fetched__waits_for_its_acknowledgement),
        TEST(migrate__waits_for_fetched_events__and_moves_the_others),
        TEST(connection__events_come_in_order__and_none_after_destruction),
    };
    return API_RUN(tests);
}
