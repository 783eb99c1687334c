/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_threads.c - many threads use rdma_cm at once: channels that several threads read,
 * identifiers that move to another channel while they get events, and identifiers that are
 * destroyed while another thread has not acknowledged their last event. The device is over UDP, on
 * an address that no other process has. tools/check also runs this test with the thread sanitizer.
 * UROCE_CM_ROUNDS sets the number of rounds.
 */
#include "api/api.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define ROUNDS  100 /* connections that each client makes */
#define SERVERS 3   /* threads that read the same channel */
#define CLIENTS 3
#define WAIT_MS 60000 /* a guard against hanging */
#define STOP    "stop"

static struct rdma_event_channel *server_channel, *other_channel, *reaped;
static struct rdma_cm_id *listener;
static struct sockaddr_in address = { .sin_family = AF_INET };
static atomic_uint accepted, refused, ended;
static int stop_reaping;
static atomic_bool all_refused;
static char own_address[API_ADDRESS];

static unsigned rounds(void)
{
    const char *text = getenv("UROCE_CM_ROUNDS");

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : ROUNDS;
}

/* Returns a QPN that no queue pair has. Each call returns a new QPN, because uroce may still know
 * the earlier QPN from its connection. */
static uint32_t next_queue_pair(void)
{
    static atomic_uint last = 0x10000;

    return (atomic_fetch_add(&last, 1) + 1) & 0xffffff;
}

/* ---- servers -------------------------------------------------------------------------------- */

/* rdma_accept() accesses the identifier once more after the connection is established. Another
 * thread that gets DISCONNECTED must not destroy the identifier before that. */
static pthread_rwlock_t accepting = PTHREAD_RWLOCK_INITIALIZER;

static void wait_for_accepts(void)
{
    assert_int_equal(pthread_rwlock_wrlock(&accepting), 0);
    assert_int_equal(pthread_rwlock_unlock(&accepting), 0);
}

static void answer(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = { .qp_num = next_queue_pair(), .rnr_retry_count = 7 };

    if (atomic_fetch_add(&accepted, 1) % 4 == 3) {
        atomic_fetch_add(&refused, 1);
        (void)rdma_reject(id, NULL, 0);
        assert_int_equal(rdma_destroy_id(id), 0);
        return;
    }
    /* The peer may have gone: then the accept fails and no event follows. */
    assert_int_equal(pthread_rwlock_rdlock(&accepting), 0);
    int error = rdma_accept(id, &param);
    assert_int_equal(pthread_rwlock_unlock(&accepting), 0);
    if (error != 0)
        assert_int_equal(rdma_destroy_id(id), 0);
}

/* Handles an event. Returns false when the thread must end. */
static bool serve_event(struct rdma_cm_event *event)
{
    struct rdma_cm_id *id = event->id;
    const enum rdma_cm_event_type type = event->event;
    const void *data = event->param.conn.private_data;
    const bool stop = type == RDMA_CM_EVENT_CONNECT_REQUEST &&
                      event->param.conn.private_data_len > 0 &&
                      memcmp(data, STOP, sizeof STOP) == 0;

    assert_int_equal(rdma_ack_cm_event(event), 0);
    switch ((int)type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        if (stop)
            assert_int_equal(rdma_destroy_id(id), 0);
        else
            answer(id);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT: /* another thread may be destroying the identifier */
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
        atomic_fetch_add(&ended, 1);
        wait_for_accepts();
        assert_int_equal(rdma_destroy_id(id), 0);
        break;
    default:
        fail_msg("unexpected %s", rdma_event_str(type));
    }
    return !stop;
}

static void *serve(void *unused)
{
    struct rdma_cm_event *event;

    (void)unused;
    do
        assert_int_equal(rdma_get_cm_event(server_channel, &event), 0);
    while (serve_event(event));
    return NULL;
}

/* ---- clients -------------------------------------------------------------------------------- */

static struct rdma_cm_id *resolve(void)
{
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, WAIT_MS), 0);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    return id;
}

static void talk_once(unsigned round)
{
    struct rdma_conn_param param = { .qp_num = next_queue_pair(), .retry_count = 7 };
    struct rdma_cm_id *id = resolve();

    if (rdma_connect(id, &param) != 0) {
        assert_int_equal(errno, ECONNREFUSED);
    } else {
        assert_int_equal(rdma_establish(id), 0);
        if (round % 3 != 0)
            assert_int_equal(rdma_migrate_id(id, reaped), 0);
        if (round % 2 != 0)
            assert_int_equal(rdma_disconnect(id), 0);
    }
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void *talk(void *unused)
{
    const unsigned count = rounds();

    (void)unused;
    for (unsigned i = 0; i < count; i++)
        talk_once(i);
    return NULL;
}

/* Reads events of identifiers that moved to the channel `reaped`. Uses epoll, and never blocks in a
 * read. */
static void *reap(void *unused)
{
    struct epoll_event which = { .events = EPOLLIN, .data.fd = reaped->fd };
    struct rdma_cm_event *event;
    int epoll = epoll_create1(0);

    (void)unused;
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, reaped->fd, &which), 0);
    which.data.fd = stop_reaping;
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, stop_reaping, &which), 0);
    do {
        int count = epoll_wait(epoll, &which, 1, -1);
        assert_true(count == 1 || errno == EINTR);
        while (rdma_get_cm_event(reaped, &event) == 0)
            assert_int_equal(rdma_ack_cm_event(event), 0);
        assert_int_equal(errno, EAGAIN);
    } while (which.data.fd != stop_reaping);
    close(epoll);
    return NULL;
}

/* Listens and resolves. Destroys the identifiers and the channel without waiting for the result. */
static void *come_and_go(void *unused)
{
    const unsigned count = rounds();

    (void)unused;
    for (unsigned i = 0; i < count; i++) {
        struct rdma_event_channel *channel = rdma_create_event_channel();
        struct rdma_cm_id *listens, *asks;
        struct sockaddr_in any = { .sin_family = AF_INET };

        assert_non_null(channel);
        assert_int_equal(rdma_create_id(channel, &listens, NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_create_id(channel, &asks, NULL, RDMA_PS_UDP), 0);
        assert_int_equal(rdma_bind_addr(listens, (struct sockaddr *)&any), 0);
        assert_int_equal(rdma_listen(listens, 1), 0);
        assert_int_equal(rdma_resolve_addr(asks, NULL, (struct sockaddr *)&address, WAIT_MS), 0);
        if (i % 2 != 0)
            assert_int_equal(rdma_migrate_id(asks, other_channel), 0);
        assert_int_equal(rdma_destroy_id(asks), 0);
        assert_int_equal(rdma_destroy_id(listens), 0);
        rdma_destroy_event_channel(channel);
    }
    return NULL;
}

/* ---- all together --------------------------------------------------------------------------- */

static void open_all(void)
{
    server_channel = rdma_create_event_channel();
    other_channel = rdma_create_event_channel();
    reaped = rdma_create_event_channel();
    stop_reaping = eventfd(0, 0);
    assert_true(server_channel != NULL && other_channel != NULL && reaped != NULL);
    assert_int_equal(fcntl(reaped->fd, F_SETFL, fcntl(reaped->fd, F_GETFL) | O_NONBLOCK), 0);
    assert_int_equal(inet_pton(AF_INET, own_address, &address.sin_addr), 1);
    assert_int_equal(rdma_create_id(server_channel, &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
    assert_int_equal(rdma_listen(listener, 1024), 0);
    address.sin_port = rdma_get_src_port(listener);
}

static void close_all(void)
{
    assert_int_equal(rdma_destroy_id(listener), 0);
    rdma_destroy_event_channel(server_channel);
    rdma_destroy_event_channel(other_channel);
    rdma_destroy_event_channel(reaped);
    close(stop_reaping);
}

static void tell_server_to_stop(void)
{
    struct rdma_conn_param param = { .qp_num = next_queue_pair(),
                                     .private_data = STOP,
                                     .private_data_len = sizeof STOP };
    struct rdma_cm_id *id = resolve();

    assert_int_equal(rdma_connect(id, &param), -1);
    assert_int_equal(rdma_destroy_id(id), 0);
}

static void threads__share_channels_and_identifiers__everything_ends(void **state)
{
    pthread_t servers[SERVERS], clients[CLIENTS], reaper, visitor;
    const uint64_t one = 1;

    (void)state;
    open_all();
    for (unsigned i = 0; i < SERVERS; i++)
        assert_int_equal(pthread_create(&servers[i], NULL, serve, NULL), 0);
    assert_int_equal(pthread_create(&reaper, NULL, reap, NULL), 0);
    assert_int_equal(pthread_create(&visitor, NULL, come_and_go, NULL), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, talk, NULL), 0);

    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
    assert_int_equal(pthread_join(visitor, NULL), 0);
    for (unsigned i = 0; i < SERVERS; i++)
        tell_server_to_stop();
    for (unsigned i = 0; i < SERVERS; i++)
        assert_int_equal(pthread_join(servers[i], NULL), 0);
    assert_int_equal(write(stop_reaping, &one, sizeof one), sizeof one);
    assert_int_equal(pthread_join(reaper, NULL), 0);
    assert_int_equal(atomic_load(&accepted), CLIENTS * rounds());
    close_all();
}

/* Rejects all connection requests of the channel. */
static void refuse_all(struct rdma_event_channel *channel)
{
    struct rdma_cm_event *event;

    while (rdma_get_cm_event(channel, &event) == 0) {
        struct rdma_cm_id *id = event->id;
        assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
        assert_int_equal(rdma_ack_cm_event(event), 0);
        assert_int_equal(rdma_reject(id, NULL, 0), 0);
        assert_int_equal(rdma_destroy_id(id), 0);
    }
    assert_int_equal(errno, EAGAIN);
}

/* The thread that moves the listener also reads its events. When librdmacm reads a request from the
 * previous channel, it uses the present channel of the listener. Another thread could not read the
 * request safely. */
static void *refuse_on_the_move(void *channels)
{
    struct rdma_event_channel **both = channels;

    for (unsigned moves = 0; !atomic_load(&all_refused); moves++) {
        assert_int_equal(rdma_migrate_id(listener, both[1 - moves % 2]), 0);
        refuse_all(both[1 - moves % 2]);
    }
    return NULL;
}

static void *ask(void *unused)
{
    const unsigned count = rounds();

    (void)unused;
    for (unsigned i = 0; i < count; i++) {
        struct rdma_conn_param param = { .qp_num = next_queue_pair(), .retry_count = 7 };
        struct rdma_cm_id *id = resolve();
        assert_int_equal(rdma_connect(id, &param), -1);
        assert_int_equal(errno, ECONNREFUSED);
        assert_int_equal(rdma_destroy_id(id), 0);
    }
    return NULL;
}

/* The engine reports requests while the channel changes. A listener on all addresses has no device
 * of its own, but listens on all devices. */
static void threads__wildcard_listener_migrates__all_requests_are_answered(void **state)
{
    struct rdma_event_channel *both[2];
    pthread_t mover, clients[CLIENTS];
    struct sockaddr_in any = { .sin_family = AF_INET };

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        both[i] = rdma_create_event_channel();
        assert_non_null(both[i]);
        assert_int_equal(fcntl(both[i]->fd, F_SETFL, O_NONBLOCK), 0);
    }
    assert_int_equal(rdma_create_id(both[0], &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&any), 0);
    assert_int_equal(rdma_listen(listener, 1024), 0);
    address.sin_port = rdma_get_src_port(listener);
    assert_int_equal(pthread_create(&mover, NULL, refuse_on_the_move, both), 0);
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, ask, NULL), 0);

    for (unsigned i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_join(clients[i], NULL), 0);
    atomic_store(&all_refused, true);
    assert_int_equal(pthread_join(mover, NULL), 0);
    assert_int_equal(rdma_destroy_id(listener), 0);
    for (unsigned i = 0; i < 2; i++)
        rdma_destroy_event_channel(both[i]);
}

int main(void)
{
    char line[64];

    (void)snprintf(line, sizeof line, "uroce0:udp,ip=%s", api_own_address(0, own_address));
    (void)setenv("UROCE_DEVICES", line, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads__share_channels_and_identifiers__everything_ends),
        cmocka_unit_test(threads__wildcard_listener_migrates__all_requests_are_answered),
    };
    return API_RUN(tests);
}
