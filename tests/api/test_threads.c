/* SPDX-License-Identifier: BSD-3-Clause */
/* test_threads.c - many threads use verbs at the same time. They post to shared queue pairs,
 * and poll, resize and wait for shared completion queues. They create and destroy objects. They
 * deregister memory while a peer writes to it, and they fork. Two devices of this process are
 * connected over UDP, at loopback addresses that no other process has. tools/check also runs this
 * test with the thread sanitizer.
 */
#include "api/api.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICES     2
#define PAIRS       2
#define POSTERS     4 /* posting threads: two for each connection */
#define MESSAGES    400u
#define OUTSTANDING 8
#define OCTETS      256u
#define CAPACITY    64
#define FORKS       3
#define OTHERS      6
#define MOVES       20u /* minimum number of accepted WRITEs, and of refused WRITEs */
#define ARRIVED     1u  /* bit of a wr_id: receive. The other bits are the connection's index */

static struct ibv_context *contexts[DEVICES];
static struct ibv_pd *pds[DEVICES];
static struct ibv_cq *cqs[DEVICES]; /* shared by all connections */
static struct ibv_mr *mrs[DEVICES];
static struct ibv_comp_channel *channel;
static uint8_t buffers[DEVICES][PAIRS * OCTETS];

static struct {
    struct ibv_qp *qps[DEVICES];
    pthread_mutex_t posting; /* held to post a receive and then its send */
    unsigned posted;
    atomic_uint sent, arrived;
} pairs[PAIRS];
static atomic_bool over;

/* A connection whose requester writes to @target. When @target is not registered, the connection
 * fails, and the test connects again. */
static struct {
    struct ibv_cq *cqs[DEVICES];
    struct ibv_qp *qps[DEVICES];
    struct ibv_qp_attr ways[DEVICES]; /* attributes for the transitions to RTS */
    atomic_uint key;                  /* rkey of the current or of the previous target */
    uint8_t target[2][OCTETS];        /* two buffers; at most one is registered */
    atomic_uint begun;
    unsigned written, refused;
    atomic_bool over;
} moving;

/* Asserts @condition in any thread: cmocka's assertions work in one thread only. */
static void must(bool condition, int line)
{
    if (condition)
        return;
    (void)fprintf(stderr, "%s:%d: does not hold\n", __FILE__, line);
    abort();
}
#define MUST(condition) must((condition), __LINE__)

/* ---- messages between the devices ---------------------------------------- */

static void note(const struct ibv_wc *wc)
{
    const unsigned pair = (unsigned)(wc->wr_id >> 1);

    MUST(wc->status == IBV_WC_SUCCESS);
    MUST(pair < PAIRS);
    atomic_fetch_add(wc->wr_id & ARRIVED ? &pairs[pair].arrived : &pairs[pair].sent, 1);
}

static void take_completions(void)
{
    struct ibv_wc wc[4];

    for (int i = 0; i < DEVICES; i++) {
        int count = ibv_poll_cq(cqs[i], 4, wc);
        MUST(count >= 0);
        while (count > 0)
            note(&wc[--count]);
    }
}

static void post_message(unsigned pair)
{
    struct ibv_sge from = { (uintptr_t)buffers[0] + pair * OCTETS, OCTETS, mrs[0]->lkey };
    struct ibv_sge to = { (uintptr_t)buffers[1] + pair * OCTETS, OCTETS, mrs[1]->lkey };
    struct ibv_recv_wr recv = { .wr_id = pair << 1 | ARRIVED, .sg_list = &to, .num_sge = 1 };
    struct ibv_send_wr send = { .wr_id = pair << 1,
                                .sg_list = &from,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED };
    struct ibv_recv_wr *bad_recv;
    struct ibv_send_wr *bad_send;

    MUST(ibv_post_recv(pairs[pair].qps[1], &recv, &bad_recv) == 0);
    MUST(ibv_post_send(pairs[pair].qps[0], &send, &bad_send) == 0);
}

/* Posts one message if there is space. Returns false after the last message. */
static bool post_one(unsigned pair)
{
    (void)pthread_mutex_lock(&pairs[pair].posting);
    const unsigned open = pairs[pair].posted - atomic_load(&pairs[pair].sent);
    const unsigned full = pairs[pair].posted - atomic_load(&pairs[pair].arrived);
    const bool more = pairs[pair].posted < MESSAGES;
    if (more && open < OUTSTANDING && full < OUTSTANDING) {
        post_message(pair);
        pairs[pair].posted++;
    }
    (void)pthread_mutex_unlock(&pairs[pair].posting);
    return more;
}

static void *post(void *argument)
{
    const unsigned pair = (unsigned)(uintptr_t)argument;

    while (post_one(pair))
        take_completions();
    while (atomic_load(&pairs[pair].sent) < MESSAGES ||
           atomic_load(&pairs[pair].arrived) < MESSAGES)
        take_completions();
    return NULL;
}

/* ---- meanwhile ----------------------------------------------------------- */

static void *resize(void *argument)
{
    (void)argument;
    for (int n = 0; !atomic_load(&over); n++)
        for (int i = 0; i < DEVICES; i++)
            MUST(ibv_resize_cq(cqs[i], n % 2 ? CAPACITY : 8 * CAPACITY) == 0);
    return NULL;
}

static void *wait_for_events(void *argument)
{
    struct pollfd arrived = { .fd = channel->fd, .events = POLLIN };
    struct ibv_cq *cq;
    void *context;

    (void)argument;
    while (!atomic_load(&over)) {
        MUST(ibv_req_notify_cq(cqs[1], 0) == 0);
        if (poll(&arrived, 1, 1) != 1)
            continue;
        MUST(ibv_get_cq_event(channel, &cq, &context) == 0 && cq == cqs[1]);
        ibv_ack_cq_events(cq, 1);
    }
    return NULL;
}

/* Creates a queue pair, flushes it, polls all its completions, and destroys it. */
static void live_and_die(unsigned device)
{
    uint8_t octets[64];
    struct ibv_cq *cq = ibv_create_cq(contexts[device], CAPACITY, NULL, NULL, 0);
    struct ibv_mr *mr = ibv_reg_mr(pds[device], octets, sizeof octets, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = { (uintptr_t)octets, sizeof octets, 0 };
    struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    struct ibv_wc wc;

    MUST(cq != NULL && mr != NULL);
    struct ibv_qp_init_attr init = api_qp_attr(cq);
    struct ibv_qp *qp = ibv_create_qp(pds[device], &init);
    MUST(qp != NULL && ibv_modify_qp(qp, &attr, API_TO_INIT) == 0);
    sge.lkey = mr->lkey;
    MUST(ibv_post_recv(qp, &recv, &bad) == 0);
    attr.qp_state = IBV_QPS_ERR;
    MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    MUST(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
    MUST(ibv_dereg_mr(mr) == 0);
    MUST(ibv_destroy_qp(qp) == 0);
    MUST(ibv_destroy_cq(cq) == 0);
}

static void *make_and_destroy(void *argument)
{
    (void)argument;
    for (unsigned n = 0; !atomic_load(&over); n++)
        live_and_die(n % DEVICES);
    return NULL;
}

/* Forks repeatedly. The child has a consistent copy of the memory, and may not use the device. */
static void *fork_often(void *argument)
{
    (void)argument;
    for (int i = 0; i < FORKS && !atomic_load(&over); i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            _exit(ibv_alloc_pd(contexts[0]) == NULL && errno == EIO ? 0 : 1);
        MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    return NULL;
}

/* ---- a target that moves ------------------------------------------------- */

static void enter(int i, enum ibv_qp_state state, int mask)
{
    moving.ways[i].qp_state = state;
    MUST(ibv_modify_qp(moving.qps[i], &moving.ways[i], mask) == 0);
}

/* Connects for round @life. Late packets of earlier rounds must be too old to be accepted. */
static void begin_moving(uint32_t life)
{
    for (int i = DEVICES; i-- > 0;) { /* first the responder */
        moving.ways[i].rq_psn = moving.ways[i].sq_psn = life << 8 & 0xffffff;
        enter(i, IBV_QPS_RESET, IBV_QP_STATE);
        enter(i, IBV_QPS_INIT, API_TO_INIT);
        enter(i, IBV_QPS_RTR, API_TO_RTR);
        enter(i, IBV_QPS_RTS, API_TO_RTS);
    }
}

static enum ibv_wc_status write_target(void)
{
    struct ibv_sge from = { (uintptr_t)buffers[0], OCTETS, mrs[0]->lkey };
    struct ibv_send_wr send = { .sg_list = &from,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad;
    struct ibv_wc wc;
    int count;

    send.wr.rdma.rkey = atomic_load(&moving.key);
    MUST(ibv_post_send(moving.qps[0], &send, &bad) == 0);
    atomic_fetch_add(&moving.begun, 1);
    while ((count = ibv_poll_cq(moving.cqs[0], 1, &wc)) == 0)
        ;
    MUST(count == 1);
    return wc.status;
}

static void *write_often(void *argument)
{
    uint32_t life = 1;

    (void)argument;
    while (!atomic_load(&over) || moving.written < MOVES || moving.refused < MOVES) {
        enum ibv_wc_status status = write_target();
        MUST(status == IBV_WC_SUCCESS || status == IBV_WC_REM_ACCESS_ERR);
        if (status == IBV_WC_SUCCESS) {
            moving.written++;
        } else {
            moving.refused++;
            begin_moving(++life);
        }
    }
    atomic_store(&moving.over, true);
    return NULL;
}

/* Writes to memory that was deregistered. A data race shows that uroce still accesses it. */
static void own_target(unsigned which)
{
    memset(moving.target[which], 0xcc, OCTETS);
    for (unsigned i = 0; i < OCTETS; i++)
        MUST(((volatile uint8_t *)moving.target[which])[i] == 0xcc);
}

static void show_target(const struct ibv_mr *mr)
{
    atomic_store(&moving.key, mr->rkey);
}

static struct ibv_mr *register_target(void)
{
    struct ibv_mr *mr =
        ibv_reg_mr(pds[1], moving.target[0], OCTETS,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED);

    MUST(mr != NULL);
    show_target(mr);
    return mr;
}

/* Waits until @count more requests have started, so that the next action of the caller overlaps
 * with the last request. */
static void let_write(unsigned count)
{
    unsigned before = atomic_load(&moving.begun);

    while (atomic_load(&moving.begun) - before < count && !atomic_load(&moving.over))
        (void)sched_yield();
}

static void *move_target(void *argument)
{
    struct ibv_mr *mr = register_target();

    (void)argument;
    for (unsigned n = 0; !atomic_load(&moving.over); n++) {
        let_write(n % 3);
        MUST(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, moving.target[1], OCTETS, 0) ==
             0);
        own_target(0);
        show_target(mr);
        let_write(n / 3 % 3);
        MUST(ibv_dereg_mr(mr) == 0);
        own_target(1);
        mr = register_target();
    }
    MUST(ibv_dereg_mr(mr) == 0);
    return NULL;
}

/* ---- the stage ----------------------------------------------------------- */

static void name_devices(void)
{
    char line[256], one[API_ADDRESS], other[API_ADDRESS];

    (void)snprintf(line, sizeof line, "uroce0:udp,ip=%s uroce1:udp,ip=%s", api_own_address(0, one),
                   api_own_address(1, other));
    assert_int_equal(setenv("UROCE_DEVICES", line, 1), 0);
}

static void open_device(struct ibv_device *device, int i)
{
    contexts[i] = ibv_open_device(device);
    assert_non_null(contexts[i]);
    pds[i] = ibv_alloc_pd(contexts[i]);
    mrs[i] = ibv_reg_mr(pds[i], buffers[i], sizeof buffers[i], IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mrs[i]);
    if (i == 1)
        channel = ibv_create_comp_channel(contexts[i]);
    cqs[i] = ibv_create_cq(contexts[i], CAPACITY, NULL, i == 1 ? channel : NULL, 0);
    assert_non_null(cqs[i]);
}

static int open_all(void **state)
{
    struct ibv_device **list;

    (void)state;
    name_devices();
    list = ibv_get_device_list(NULL);
    assert_non_null(list);
    for (int i = 0; i < DEVICES; i++) {
        assert_non_null(list[i]);
        open_device(list[i], i);
    }
    ibv_free_device_list(list);
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(ibv_destroy_cq(cqs[i]), 0);
        if (i == 1)
            assert_int_equal(ibv_destroy_comp_channel(channel), 0);
        assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
        assert_int_equal(ibv_dealloc_pd(pds[i]), 0);
        assert_int_equal(ibv_close_device(contexts[i]), 0);
    }
    return 0;
}

static void make_pair(unsigned pair)
{
    for (int i = 0; i < DEVICES; i++) {
        const struct api api = { .context = contexts[i], .pd = pds[i] };
        pairs[pair].qps[i] = api_qp(&api, cqs[i]);
    }
    for (int i = 0; i < DEVICES; i++) {
        const struct api peer = { .context = contexts[!i], .pd = pds[!i] };
        api_connect(&peer, pairs[pair].qps[i], pairs[pair].qps[!i]->qp_num);
    }
    assert_int_equal(pthread_mutex_init(&pairs[pair].posting, NULL), 0);
}

static void make_moving_pair(void)
{
    for (int i = 0; i < DEVICES; i++) {
        const struct api api = { .context = contexts[i], .pd = pds[i] };
        moving.cqs[i] = ibv_create_cq(contexts[i], CAPACITY, NULL, NULL, 0);
        assert_non_null(moving.cqs[i]);
        moving.qps[i] = api_qp(&api, moving.cqs[i]);
    }
    for (int i = 0; i < DEVICES; i++) {
        const struct api peer = { .context = contexts[!i], .pd = pds[!i] };
        moving.ways[i] = api_attr(&peer, moving.qps[!i]->qp_num);
        moving.ways[i].timeout = 18; /* 1 s, since other programs may delay this test */
    }
    begin_moving(1);
}

static void end_moving_pair(void)
{
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(ibv_destroy_qp(moving.qps[i]), 0);
        assert_int_equal(ibv_destroy_cq(moving.cqs[i]), 0);
    }
}

static void threads__use_all_verbs_at_once__messages_arrive_and_nothing_leaks(void **state)
{
    void *(*const others[OTHERS])(void *) = { resize,     wait_for_events, make_and_destroy,
                                              fork_often, write_often,     move_target };
    pthread_t posters[POSTERS], threads[OTHERS];

    (void)state;
    for (unsigned pair = 0; pair < PAIRS; pair++)
        make_pair(pair);
    make_moving_pair();
    for (unsigned i = 0; i < OTHERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, others[i], NULL), 0);
    for (uintptr_t i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&posters[i], NULL, post, (void *)(i % PAIRS)), 0);
    for (unsigned i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_join(posters[i], NULL), 0);
    atomic_store(&over, true);
    for (unsigned i = 0; i < OTHERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    for (unsigned pair = 0; pair < PAIRS; pair++) {
        assert_int_equal(atomic_load(&pairs[pair].sent), MESSAGES);
        assert_int_equal(atomic_load(&pairs[pair].arrived), MESSAGES);
        for (int i = 0; i < DEVICES; i++)
            assert_int_equal(ibv_destroy_qp(pairs[pair].qps[i]), 0);
    }
    end_moving_pair();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            threads__use_all_verbs_at_once__messages_arrive_and_nothing_leaks, open_all, close_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
