/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_end.c - tests that a process gets an event if its connected peer ends without a
 * disconnect, as with RDMA drivers of the kernel.
 */
#include "support/check.h"
#include "support/must.h"
#include "support/patience.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define PORT    7471
#define WAIT_MS 60000 /* a guard against hanging */
#define PATIENT 30    /* time until a side that gets no event fails, seconds */
#define QPN     77    /* any number, because a connection needs no existing queue pair */

/* One process. It writes messages to a pipe that the other process reads. The pipe is closed when
 * the process ends. */
struct side {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener;
    struct rdma_cm_id *id;
    int to_other, from_other;
};

typedef void part(struct side *side);

static void send_byte(const struct side *side)
{
    MUST(write(side->to_other, "x", 1) == 1);
}

/* Waits for a message. Returns false when the other process has ended. */
static bool await_byte(const struct side *side)
{
    char octet;

    return read(side->from_other, &octet, 1) == 1;
}

static struct rdma_cm_id *expect(struct side *side, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    MUST(rdma_get_cm_event(side->channel, &event) == 0);
    if (event->event != type)
        (void)fprintf(stderr, "# %s\n", rdma_event_str(event->event));
    MUST(event->event == type);
    struct rdma_cm_id *id = event->id;
    MUST(rdma_ack_cm_event(event) == 0);
    return id;
}

static struct sockaddr_in server_address(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };

    MUST(inet_pton(AF_INET, "10.0.0.1", &address.sin_addr) == 1);
    return address;
}

/* ---- steps --------------------------------------------------------------- */

static void listens(struct side *side)
{
    struct sockaddr_in address = server_address();

    MUST(rdma_create_id(side->channel, &side->listener, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_bind_addr(side->listener, (struct sockaddr *)&address) == 0);
    MUST(rdma_listen(side->listener, 4) == 0);
    send_byte(side);
    side->id = expect(side, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void accepts(struct side *side)
{
    struct rdma_conn_param param = { .qp_num = QPN };

    listens(side);
    MUST(rdma_accept(side->id, &param) == 0);
    expect(side, RDMA_CM_EVENT_ESTABLISHED);
}

static void asks(struct side *side)
{
    struct rdma_conn_param param = { .qp_num = QPN, .retry_count = 7 };
    struct sockaddr_in address = server_address();

    MUST(rdma_create_id(side->channel, &side->id, NULL, RDMA_PS_TCP) == 0);
    MUST(await_byte(side));
    MUST(rdma_resolve_addr(side->id, NULL, (struct sockaddr *)&address, WAIT_MS) == 0);
    expect(side, RDMA_CM_EVENT_ADDR_RESOLVED);
    MUST(rdma_resolve_route(side->id, WAIT_MS) == 0);
    expect(side, RDMA_CM_EVENT_ROUTE_RESOLVED);
    MUST(rdma_connect(side->id, &param) == 0);
}

static void connects(struct side *side)
{
    asks(side);
    expect(side,
           RDMA_CM_EVENT_CONNECT_RESPONSE); /* there is no queue pair to move to RTR and RTS */
    MUST(rdma_establish(side->id) == 0);
}

/* ---- two processes ------------------------------------------------------- */

static void run_side(const char *role, const char *socket, const char *address, part *play,
                     int to_other, int from_other)
{
    static struct side side;
    char device[256];

    side.to_other = to_other;
    side.from_other = from_other;

    (void)alarm(patience(PATIENT));
    (void)snprintf(device, sizeof device, "uroce0:net_memif0,role=%s,socket=%s;ip=%s/24", role,
                   socket, address);
    MUST(setenv("UROCE_DEVICES", device, 1) == 0);
    MUST(ibv_fork_init() == 0); /* keeps libibverbs linked */
    side.channel = rdma_create_event_channel();
    MUST(side.channel != NULL);
    play(&side);
    exit(0);
}

static pid_t start(const char *role, const char *socket, const char *address, part *play,
                   const int to_other[2], const int from_other[2])
{
    (void)fflush(NULL);
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        (void)close(to_other[0]);
        (void)close(from_other[1]);
        run_side(role, socket, address, play, to_other[1], from_other[0]);
    }
    return child;
}

/* Runs both processes, which must end normally. */
static void meet(part *server, part *client)
{
    char where[] = "/tmp/uroce-end-XXXXXX", socket[64];
    int one[2], two[2], status;

    assert_non_null(mkdtemp(where));
    (void)snprintf(socket, sizeof socket, "%s/link", where);
    assert_int_equal(pipe2(one, O_CLOEXEC), 0);
    assert_int_equal(pipe2(two, O_CLOEXEC), 0);
    (void)start("server", socket, "10.0.0.1", server, one, two);
    (void)start("client", socket, "10.0.0.2", client, two, one);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(close(one[i]), 0);
        assert_int_equal(close(two[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_true(wait(&status) > 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    (void)unlink(socket);
    assert_int_equal(rmdir(where), 0);
}

/* ---- the ends ------------------------------------------------------------ */

static void serves_to_the_end(struct side *side)
{
    accepts(side);
    expect(side, RDMA_CM_EVENT_DISCONNECTED);
    send_byte(side);
}

static void asks_to_the_end(struct side *side)
{
    connects(side);
    expect(side, RDMA_CM_EVENT_DISCONNECTED);
}

static void exit__client_connected__server_gets_disconnected_event(void **state)
{
    (void)state;
    meet(serves_to_the_end, connects);
}

static struct side *to_clean_up;

static void cleans_up(void)
{
    MUST(rdma_destroy_id(to_clean_up->id) == 0);
    rdma_destroy_event_channel(to_clean_up->channel);
}

/* Cleans up in an exit handler, like the destructor of a program. The handler was registered before
 * the device started. */
static void connects_and_cleans_up_at_exit(struct side *side)
{
    to_clean_up = side;
    MUST(atexit(cleans_up) == 0);
    connects(side);
    MUST(rdma_disconnect(side->id) == 0);
    expect(side, RDMA_CM_EVENT_DISCONNECTED);
}

static void connects_and_cleans_up_the_connection_at_exit(struct side *side)
{
    to_clean_up = side;
    MUST(atexit(cleans_up) == 0);
    connects(side);
}

static void exit__program_uses_the_device_after_its_shutdown__does_not_hang(void **state)
{
    (void)state;
    meet(serves_to_the_end, connects_and_cleans_up_at_exit);
    meet(serves_to_the_end, connects_and_cleans_up_the_connection_at_exit);
}

static void exit__server_connected__client_gets_disconnected_event(void **state)
{
    (void)state;
    meet(accepts, asks_to_the_end);
}

static void asks_and_leaves(struct side *side)
{
    asks(side);
    MUST(await_byte(side)); /* the peer has seen the request */
}

/* The client ends before its request is accepted. The server may notice this before or after
 * rdma_accept(). */
static void accepts_a_gone_client(struct side *side)
{
    struct rdma_conn_param param = { .qp_num = QPN };

    listens(side);
    send_byte(side);
    MUST(!await_byte(side));
    if (rdma_accept(side->id, &param) == 0)
        expect(side, RDMA_CM_EVENT_REJECTED);
    else
        MUST(errno == EINVAL);
}

static void exit__client_requested_connection__server_gets_event(void **state)
{
    (void)state;
    meet(accepts_a_gone_client, asks_and_leaves);
}

static void is_rejected(struct side *side)
{
    asks(side);
    expect(side, RDMA_CM_EVENT_REJECTED);
}

static void exit__server_got_request__client_is_rejected(void **state)
{
    (void)state;
    meet(listens, is_rejected);
}

static void destroys_it(struct side *side)
{
    connects(side);
    MUST(rdma_destroy_id(side->id) == 0);
    MUST(await_byte(side)); /* the client still runs when the server gets the event */
}

static void destroy_id__connected__peer_gets_disconnected_event(void **state)
{
    (void)state;
    meet(serves_to_the_end, destroys_it);
}

static void closes_its_channel(struct side *side)
{
    connects(side);
    rdma_destroy_event_channel(side->channel);
    MUST(await_byte(side));
}

static void close_channel__connected__peer_gets_disconnected_event(void **state)
{
    (void)state;
    meet(serves_to_the_end, closes_its_channel);
}

static void forks_a_child_that_ends(struct side *side)
{
    int status;

    connects(side);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0)
        exit(0);
    MUST(waitpid(child, &status, 0) == child && status == 0);
    send_byte(side); /* signals to the peer that the disconnect comes now */
    MUST(rdma_disconnect(side->id) == 0);
    MUST(await_byte(side));
}

static void gets_the_event_only_after_the_call(struct side *side)
{
    accepts(side);
    expect(side, RDMA_CM_EVENT_DISCONNECTED);
    MUST(fcntl(side->from_other, F_SETFL, O_NONBLOCK) == 0);
    MUST(await_byte(side));
    send_byte(side);
}

static void exit__of_a_forked_child__connection_of_the_parent_remains(void **state)
{
    (void)state;
    meet(gets_the_event_only_after_the_call, forks_a_child_that_ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit__client_connected__server_gets_disconnected_event),
        cmocka_unit_test(exit__program_uses_the_device_after_its_shutdown__does_not_hang),
        cmocka_unit_test(exit__server_connected__client_gets_disconnected_event),
        cmocka_unit_test(exit__client_requested_connection__server_gets_event),
        cmocka_unit_test(exit__server_got_request__client_is_rejected),
        cmocka_unit_test(destroy_id__connected__peer_gets_disconnected_event),
        cmocka_unit_test(close_channel__connected__peer_gets_disconnected_event),
        cmocka_unit_test(exit__of_a_forked_child__connection_of_the_parent_remains),
    };
    (void)alarm(patience(100));
    return cmocka_run_group_tests_name("api/rdma_cm_end", tests, NULL, NULL);
}
