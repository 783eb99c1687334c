/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests two sides that exchange messages. Before each message, a side waits in ibv_get_cq_event(),
 * poll() or epoll_wait(), with or without a time limit, or it polls the CQ, or it computes. The
 * choice is random. A lost wake-up makes the test hang. UROCE_SLEEPERS_TRIPS sets the number of
 * messages, and UROCE_SLEEPERS_SEED the seed of the choices. The test prints the longest round
 * trip. With the argument "engines", the device has several engines.
 */
#include "api/engines.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/patience.h"

#define TRIPS    500u
#define PATIENCE 100u  /* seconds */
#define COMPUTE  3000u /* longest time of computing, us */

/* Ends the process with an exit status if the condition fails. cmocka's assertions work only in the
 * main thread of the parent. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            perror(#condition);                                                                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct sleeper {
    struct side *side;
    struct ibv_cq *send_cq; /* may be side->cq, the CQ of the receives */
    struct ibv_comp_channel *channel;
    int epoll;
    bool begins;
    unsigned lots;
    uint64_t received;
    uint64_t worst; /* longest round trip, us */
};

static unsigned number_of(const char *name, unsigned usual)
{
    const char *text = getenv(name);

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : usual;
}

static uint64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static unsigned draw(struct sleeper *sleeper, unsigned below)
{
    sleeper->lots = sleeper->lots * 1664525u + 1013904223u;
    return (sleeper->lots >> 8) % below;
}

static void compute(struct sleeper *sleeper)
{
    const uint64_t until = now_us() + draw(sleeper, COMPUTE);

    while (now_us() < until)
        ;
}

static bool poll_cq(struct sleeper *sleeper, struct ibv_cq *cq)
{
    struct ibv_wc wcs[8];
    const int count = ibv_poll_cq(cq, 8, wcs);

    for (int i = 0; i < count; i++) {
        MUST(wcs[i].status == IBV_WC_SUCCESS);
        sleeper->received += wcs[i].opcode == IBV_WC_RECV;
    }
    MUST(count >= 0);
    return count > 0;
}

/* Polls the completions. Returns whether there were any. */
static bool poll_once(struct sleeper *sleeper)
{
    const bool found = poll_cq(sleeper, sleeper->side->cq);

    return (sleeper->send_cq != sleeper->side->cq && poll_cq(sleeper, sleeper->send_cq)) || found;
}

static void arm(const struct sleeper *sleeper)
{
    MUST(ibv_req_notify_cq(sleeper->side->cq, 0) == 0);
    if (sleeper->send_cq != sleeper->side->cq)
        MUST(ibv_req_notify_cq(sleeper->send_cq, 0) == 0);
}

static void take_event(const struct sleeper *sleeper)
{
    struct ibv_cq *cq;
    void *context;

    MUST(ibv_get_cq_event(sleeper->channel, &cq, &context) == 0);
    ibv_ack_cq_events(cq, 1);
}

/* Waits in poll(), in epoll_wait(), or not at all. Returns false if the time limit has passed. */
static bool wait_by_lot(struct sleeper *sleeper)
{
    struct pollfd fd = { .fd = sleeper->channel->fd, .events = POLLIN };
    struct epoll_event event;
    const int ms = draw(sleeper, 4) == 0 ? (int)draw(sleeper, 20) : -1;
    int ready = 1;

    switch (draw(sleeper, 3)) {
    case 0:
        break;
    case 1:
        ready = poll(&fd, 1, ms);
        break;
    default:
        ready = epoll_wait(sleeper->epoll, &event, 1, ms);
        break;
    }
    MUST(ready == 1 || (ready == 0 && ms >= 0));
    return ready == 1;
}

static void wait_for_message(struct sleeper *sleeper, uint64_t wanted)
{
    while (sleeper->received < wanted) {
        const unsigned lot = draw(sleeper, 6);
        if (lot == 0)
            compute(sleeper);
        if (lot <= 1) {
            (void)poll_once(sleeper);
            continue;
        }
        arm(sleeper);
        if (!poll_once(sleeper) && wait_by_lot(sleeper))
            take_event(sleeper);
    }
}

static void post(struct side *side, bool sends)
{
    struct ibv_sge sge = { .addr = (uintptr_t)side->buffer, .length = 8, .lkey = side->mr->lkey };
    struct ibv_send_wr send = { .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad_send;
    struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad_receive;

    if (sends)
        MUST(ibv_post_send(side->qp, &send, &bad_send) == 0);
    else
        MUST(ibv_post_recv(side->qp, &receive, &bad_receive) == 0);
}

static void open_sleeper(struct sleeper *sleeper, struct side *side, struct ibv_cq *send_cq,
                         struct ibv_comp_channel *channel, bool begins)
{
    struct epoll_event event = { .events = EPOLLIN };

    *sleeper = (struct sleeper){ .side = side,
                                 .send_cq = send_cq,
                                 .channel = channel,
                                 .begins = begins,
                                 .lots = number_of("UROCE_SLEEPERS_SEED", 1) * 2 + begins };
    sleeper->epoll = epoll_create1(EPOLL_CLOEXEC);
    MUST(epoll_ctl(sleeper->epoll, EPOLL_CTL_ADD, channel->fd, &event) == 0);
}

/* Plays one side. Its receive requests are already posted. */
static void *play(void *argument)
{
    struct sleeper *sleeper = argument;
    const unsigned trips = number_of("UROCE_SLEEPERS_TRIPS", TRIPS);

    for (unsigned i = 1; i <= trips; i++) {
        const uint64_t begin = now_us();
        if (sleeper->begins)
            post(sleeper->side, true);
        wait_for_message(sleeper, i);
        post(sleeper->side, false);
        if (!sleeper->begins)
            post(sleeper->side, true);
        const uint64_t took = now_us() - begin;
        if (sleeper->worst < took)
            sleeper->worst = took;
    }
    close(sleeper->epoll);
    return NULL;
}

/* ---- one device in one process ------------------------------------------------------ */

static atomic_bool is_over;

/* Calls commands, which take the engine lock and wake the waiting thread that runs the engine. */
static void *command(void *argument)
{
    const struct api *api = argument;
    static char bytes[64];

    while (!atomic_load(&is_over)) {
        struct ibv_mr *mr = ibv_reg_mr(api->pd, bytes, sizeof bytes, 0);
        MUST(mr != NULL && ibv_dereg_mr(mr) == 0);
        (void)poll(NULL, 0, 1);
    }
    return NULL;
}

static struct ibv_cq *cq_of(const struct api *api, struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq *cq = ibv_create_cq(api->context, 64, NULL, channel, vector);

    assert_non_null(cq);
    return cq;
}

/* Each of two threads waits for its own channel. The receives of thread i complete on the engine
 * @receive_vectors[i], its sends on the engine @send_vectors[i]. */
static void run_threads(struct api *api, const int send_vectors[2], const int receive_vectors[2])
{
    struct ibv_comp_channel *channels[2];
    struct ibv_cq *send_cqs[2], *receive_cqs[2];
    struct sleeper sleepers[2];
    pthread_t threads[2], other;
    struct pair pair;
    struct side *sides[2] = { &pair.a, &pair.b };

    for (int i = 0; i < 2; i++) {
        assert_non_null(channels[i] = ibv_create_comp_channel(api->context));
        receive_cqs[i] = cq_of(api, channels[i], receive_vectors[i]);
        send_cqs[i] = send_vectors[i] == receive_vectors[i]
                          ? receive_cqs[i]
                          : cq_of(api, channels[i], send_vectors[i]);
        api_side_open_with(api, sides[i], send_cqs[i], receive_cqs[i], IBV_QPT_RC, NULL);
    }
    api_pair_join(api, &pair);
    for (int i = 0; i < 2; i++) {
        open_sleeper(&sleepers[i], sides[i], send_cqs[i], channels[i], i == 0);
        post(sides[i], false);
    }
    atomic_store(&is_over, false);
    assert_int_equal(pthread_create(&other, NULL, command, api), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, play, &sleepers[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    atomic_store(&is_over, true);
    assert_int_equal(pthread_join(other, NULL), 0);
    printf("# threads: longest trip %lu us\n", (unsigned long)sleepers[0].worst);
    for (int i = 0; i < 2; i++) {
        engines_close_side(sides[i]);
        if (send_cqs[i] != receive_cqs[i])
            engines_destroy_cq(send_cqs[i]);
        engines_destroy_cq(receive_cqs[i]);
        assert_int_equal(ibv_destroy_comp_channel(channels[i]), 0);
    }
}

static void two_threads__one_device__exchange_all_messages(void **state)
{
    run_threads(*state, (int[]){ 0, 0 }, (int[]){ 0, 0 });
}

static void two_threads__own_engines__exchange_all_messages(void **state)
{
    run_threads(*state, (int[]){ 0, 1 }, (int[]){ 0, 1 });
}

static void two_threads__same_engine_of_three__exchange_all_messages(void **state)
{
    run_threads(*state, (int[]){ 2, 2 }, (int[]){ 2, 2 });
}

static void two_threads__send_cqs_of_the_other_engine__exchange_all_messages(void **state)
{
    run_threads(*state, (int[]){ 1, 0 }, (int[]){ 0, 1 });
}

/* ---- two processes ------------------------------------------------------------------ */

struct address {
    uint32_t qpn;
    union ibv_gid gid;
};

static void connect_to(const struct api *api, struct ibv_qp *qp, const struct address *peer)
{
    struct ibv_qp_attr attr = api_attr(api, peer->qpn);

    attr.ah_attr.grh.dgid = peer->gid;
    attr.qp_state = IBV_QPS_INIT;
    MUST(ibv_modify_qp(qp, &attr, API_TO_INIT) == 0);
    attr.qp_state = IBV_QPS_RTR;
    MUST(ibv_modify_qp(qp, &attr, API_TO_RTR) == 0);
    attr.qp_state = IBV_QPS_RTS;
    MUST(ibv_modify_qp(qp, &attr, API_TO_RTS) == 0);
}

/* Runs one side over the device @line. @socket is connected to the other side. */
static void be_side(int socket, const char *line, bool begins)
{
    void *state = NULL;
    struct sleeper sleeper;
    struct address own, peer;
    struct side side;
    char byte = 0;

    (void)alarm(patience(PATIENCE));
    MUST(setenv("UROCE_DEVICES", line, 1) == 0);
    MUST(api_open(&state) == 0);
    const struct api *api = state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    api_side_open(api, &side, channel, IBV_QPT_RC, NULL);
    own.qpn = side.qp->qp_num;
    own.gid = api_attr(api, 0).ah_attr.grh.dgid;
    MUST(write(socket, &own, sizeof own) == sizeof own);
    MUST(read(socket, &peer, sizeof peer) == sizeof peer);
    connect_to(api, side.qp, &peer);
    open_sleeper(&sleeper, &side, side.cq, channel, begins);
    post(&side, false);
    MUST(write(socket, &byte, 1) == 1 && read(socket, &byte, 1) == 1);
    play(&sleeper);
    if (begins)
        printf("# %s: longest trip %lu us\n", line, (unsigned long)sleeper.worst);
    (void)fflush(stdout);
    MUST(write(socket, &byte, 1) == 1 && read(socket, &byte, 1) == 1); /* the last ACK arrived */
    api_side_close(&side);
    MUST(ibv_destroy_comp_channel(channel) == 0);
    _exit(0);
}

/* Starts this program again as one side. */
static pid_t start_side(int socket, const char *line, const char *role)
{
    char number[16];
    const pid_t child = fork();

    (void)snprintf(number, sizeof number, "%d", socket);
    if (child == 0) {
        execl("/proc/self/exe", "api_sleepers", number, line, role, (char *)NULL);
        _exit(1);
    }
    return child;
}

static void run_processes(const char *line, const char *other)
{
    int sockets[2], status;
    pid_t children[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    (void)fflush(stdout);
    children[0] = start_side(sockets[0], line, "begins");
    children[1] = start_side(sockets[1], other, "follows");
    assert_int_equal(close(sockets[0]) + close(sockets[1]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
}

static void two_processes__udp__exchange_all_messages(void **state)
{
    char one[API_ADDRESS], two[API_ADDRESS], line[64], other[64];

    (void)state;
    (void)snprintf(line, sizeof line, "uroce0:udp,ip=%s", api_own_address(1, one));
    (void)snprintf(other, sizeof other, "uroce0:udp,ip=%s", api_own_address(2, two));
    run_processes(line, other);
}

static void two_processes__memif__exchange_all_messages(void **state)
{
    char dir[] = "/tmp/uroce-sleepers.XXXXXX", socket[64], line[160], other[160];

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(socket, sizeof socket, "%s/link.sock", dir);
    (void)snprintf(line, sizeof line, "uroce0:net_memif0,role=server,socket=%s;ip=10.9.0.1/24",
                   socket);
    (void)snprintf(other, sizeof other, "uroce0:net_memif0,role=client,socket=%s;ip=10.9.0.2/24",
                   socket);
    run_processes(line, other);
    (void)unlink(socket);
    assert_int_equal(rmdir(dir), 0);
}

int main(int count, char **arguments)
{
    char one[API_ADDRESS], line[64];

    const struct CMUnitTest tests[] = {
        API_TEST(two_threads__one_device__exchange_all_messages),
        cmocka_unit_test(two_processes__udp__exchange_all_messages),
        cmocka_unit_test(two_processes__memif__exchange_all_messages),
    };
    const struct CMUnitTest engine_tests[] = {
        API_TEST(two_threads__own_engines__exchange_all_messages),
        API_TEST(two_threads__same_engine_of_three__exchange_all_messages),
        API_TEST(two_threads__send_cqs_of_the_other_engine__exchange_all_messages),
    };

    if (count == 4)
        be_side((int)strtol(arguments[1], NULL, 10), arguments[2],
                strcmp(arguments[3], "begins") == 0);
    if (count == 2 && strcmp(arguments[1], "engines") == 0)
        return ENGINES_RUN(engine_tests);
    (void)snprintf(line, sizeof line, "uroce0:udp,ip=%s", api_own_address(0, one));
    assert_int_equal(setenv("UROCE_DEVICES", line, 1), 0);
    return API_RUN(tests);
}
