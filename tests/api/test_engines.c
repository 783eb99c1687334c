/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engines.c - a device over UDP with three engines. The test starts the broker of its address,
 * which the engines share as processes do. */
#include "api/api.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/must.h"
#include "support/own_runtime.h"
#include "support/stderr_text.h"

#define ENGINES  3
#define MESSAGES 200u

/* Opens a side whose CQs have these completion vectors. */
static void open_side(const struct api *api, struct side *side, struct ibv_cq *send_cq,
                      struct ibv_cq *recv_cq, enum ibv_qp_type type, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr attr = api_qp_attr(send_cq);

    memset(side->buffer, 0, sizeof side->buffer);
    side->cq = recv_cq;
    attr.recv_cq = recv_cq;
    attr.qp_type = type;
    attr.srq = srq;
    side->qp = ibv_create_qp(api->pd, &attr);
    assert_non_null(side->qp);
    side->mr = ibv_reg_mr(api->pd, side->buffer, sizeof side->buffer,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    assert_non_null(side->mr);
}

static void close_side(struct side *side)
{
    assert_int_equal(ibv_destroy_qp(side->qp), 0);
    assert_int_equal(ibv_dereg_mr(side->mr), 0);
}

static struct ibv_cq *cq_of(const struct api *api, int vector)
{
    struct ibv_cq *cq = ibv_create_cq(api->context, 64, NULL, NULL, vector);

    assert_non_null(cq);
    return cq;
}

static void destroy_cq(struct ibv_cq *cq)
{
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Sends @length bytes from @from to @to. The sends of @from complete in @send_cq. */
static void send_once(struct side *from, struct ibv_cq *send_cq, struct side *to, uint8_t octet)
{
    struct ibv_sge source = api_sge(from, 0, 3000), target = api_sge(to, 4096, 3000);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);

    memset(from->buffer, octet, 3000);
    assert_int_equal(api_post_recv(to, 2, &target), 0);
    assert_int_equal(api_post_send(from, &wr), 0);
    api_expect(to->cq, 2, IBV_WC_SUCCESS);
    api_expect(send_cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(to->buffer[4096], octet);
    assert_int_equal(to->buffer[4096 + 2999], octet);
}

static void device__three_engines__has_three_vectors_and_no_windows(void **state)
{
    const struct api *api = *state;
    struct ibv_device_attr attr;

    assert_int_equal(api->context->num_comp_vectors, ENGINES);
    assert_null(ibv_create_cq(api->context, 1, NULL, NULL, ENGINES));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_query_device(api->context, &attr), 0);
    assert_int_equal(attr.max_mw, 0);
    assert_int_equal(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW, 0);
    assert_null(ibv_alloc_mw(api->pd, IBV_MW_TYPE_1));
    assert_int_equal(errno, EOPNOTSUPP);
}

/* Includes pairs on one engine, and pairs on two engines, whose packets go through the kernel. */
static void two_queue_pairs__on_any_two_engines__exchange_data(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cqs[ENGINES];
    struct pair pair;

    for (int i = 0; i < ENGINES; i++)
        cqs[i] = cq_of(api, i);
    for (int i = 0; i < ENGINES * ENGINES; i++) {
        struct ibv_cq *one = cqs[i / ENGINES], *other = cqs[i % ENGINES];
        open_side(api, &pair.a, one, one, IBV_QPT_RC, NULL);
        open_side(api, &pair.b, other, other, IBV_QPT_RC, NULL);
        api_pair_join(api, &pair);
        send_once(&pair.a, one, &pair.b, (uint8_t)(0x10 + i));
        send_once(&pair.b, other, &pair.a, (uint8_t)(0x20 + i));
        close_side(&pair.a);
        close_side(&pair.b);
    }
    for (int i = 0; i < ENGINES; i++)
        destroy_cq(cqs[i]);
}

static void queue_pair__cqs_of_two_engines__both_get_its_completions(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *zero = cq_of(api, 0), *one = cq_of(api, 1), *two = cq_of(api, 2);
    struct ibv_cq *other = cq_of(api, 1);
    struct pair pair;

    open_side(api, &pair.a, two, one, IBV_QPT_RC, NULL);
    open_side(api, &pair.b, other, zero, IBV_QPT_RC, NULL);
    api_pair_join(api, &pair);
    for (unsigned i = 0; i < MESSAGES; i++) {
        send_once(&pair.a, two, &pair.b, (uint8_t)i);
        send_once(&pair.b, other, &pair.a, (uint8_t)~i);
    }
    close_side(&pair.a);
    close_side(&pair.b);
    destroy_cq(zero);
    destroy_cq(one);
    destroy_cq(two);
    destroy_cq(other);
}

/* The CQ has completions of three engines, in an order that is only fixed for each queue pair. */
static void cq__queue_pairs_on_all_engines__gets_each_completion_once(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *shared = cq_of(api, 1), *own[ENGINES];
    struct side from[ENGINES], to[ENGINES];
    uint64_t next[ENGINES] = { 0 };

    for (int i = 0; i < ENGINES; i++) {
        own[i] = cq_of(api, i);
        open_side(api, &from[i], shared, own[i], IBV_QPT_RC, NULL);
        open_side(api, &to[i], own[i], own[i], IBV_QPT_RC, NULL);
        api_connect(api, from[i].qp, to[i].qp->qp_num);
        api_connect(api, to[i].qp, from[i].qp->qp_num);
    }
    for (unsigned sent = 0; sent < MESSAGES; sent += 8) {
        for (int i = 0; i < ENGINES; i++)
            for (unsigned j = 0; j < 8; j++) {
                struct ibv_sge sge = api_sge(&from[i], 0, 64);
                struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &sge);
                wr.wr_id = (uint64_t)i << 32 | (sent + j);
                wr.wr.rdma.remote_addr = (uintptr_t)to[i].buffer;
                wr.wr.rdma.rkey = to[i].mr->rkey;
                assert_int_equal(api_post_send(&from[i], &wr), 0);
            }
        for (unsigned left = 8 * ENGINES; left > 0; left--) {
            struct ibv_wc wc = api_wait(shared);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.wr_id & UINT32_MAX, next[wc.wr_id >> 32]++);
        }
    }
    struct ibv_wc none;
    assert_int_equal(ibv_poll_cq(shared, 1, &none), 0);
    assert_int_equal(ibv_resize_cq(shared, 100), EOPNOTSUPP);
    for (int i = 0; i < ENGINES; i++) {
        close_side(&from[i]);
        close_side(&to[i]);
        destroy_cq(own[i]);
    }
    destroy_cq(shared);
}

static void extended_cq__queue_pair_of_another_engine__is_polled(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_init_attr_ex attr = { .cqe = 16,
                                        .wc_flags = IBV_WC_STANDARD_FLAGS,
                                        .comp_vector = 2 };
    struct ibv_cq_ex *ex = ibv_create_cq_ex(api->context, &attr);
    struct ibv_cq *zero = cq_of(api, 0);
    struct pair pair;

    assert_non_null(ex);
    open_side(api, &pair.a, ibv_cq_ex_to_cq(ex), zero, IBV_QPT_RC, NULL);
    open_side(api, &pair.b, zero, zero, IBV_QPT_RC, NULL);
    api_pair_join(api, &pair);
    struct ibv_sge source = api_sge(&pair.a, 0, 10), target = api_sge(&pair.b, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
    assert_int_equal(api_post_recv(&pair.b, 2, &target), 0);
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    api_start_poll(ex);
    assert_int_equal(ex->wr_id, 1);
    assert_int_equal(ex->status, IBV_WC_SUCCESS);
    ibv_end_poll(ex);
    api_expect(zero, 2, IBV_WC_SUCCESS);
    close_side(&pair.a);
    close_side(&pair.b);
    destroy_cq(ibv_cq_ex_to_cq(ex));
    destroy_cq(zero);
}

/* Waits until the channel has an event, and takes it. */
static void take_event(struct ibv_comp_channel *channel, const struct ibv_cq *wanted)
{
    struct ibv_cq *cq;
    void *context;

    assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
    assert_ptr_equal(cq, wanted);
    ibv_ack_cq_events(cq, 1);
}

/* Both parts of the CQ get a completion, but the CQ was armed once. */
static void armed_cq__completions_of_two_engines__one_event(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct ibv_cq *sends = ibv_create_cq(api->context, 64, NULL, channel, 0);
    struct ibv_cq *zero = cq_of(api, 0), *one = cq_of(api, 1);
    struct pair first, second;

    assert_non_null(channel);
    assert_non_null(sends);
    assert_int_equal(ibv_req_notify_cq(sends, 0), 0); /* before the part of engine 1 exists */
    open_side(api, &first.a, sends, zero, IBV_QPT_RC, NULL);
    open_side(api, &first.b, zero, zero, IBV_QPT_RC, NULL);
    open_side(api, &second.a, sends, one, IBV_QPT_RC, NULL);
    open_side(api, &second.b, one, one, IBV_QPT_RC, NULL);
    api_pair_join(api, &first);
    api_pair_join(api, &second);
    struct pair *const pairs[] = { &second, &first };
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_sge source = api_sge(&pairs[i]->a, 0, 10), target = api_sge(&pairs[i]->b, 0, 10);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
        assert_int_equal(api_post_recv(&pairs[i]->b, 2, &target), 0);
        assert_int_equal(api_post_send(&pairs[i]->a, &wr), 0);
    }
    take_event(channel, sends);
    api_expect(zero, 2, IBV_WC_SUCCESS);
    api_expect(one, 2, IBV_WC_SUCCESS);
    api_expect(sends, 1, IBV_WC_SUCCESS);
    api_expect(sends, 1, IBV_WC_SUCCESS);
    struct pollfd more = { .fd = channel->fd, .events = POLLIN };
    assert_int_equal(poll(&more, 1, 0), 0);

    assert_int_equal(ibv_req_notify_cq(sends, 0), 0); /* the part of engine 1 exists */
    send_once(&second.b, one, &second.a, 1);
    assert_int_equal(poll(&more, 1, 0), 0);
    struct ibv_sge source = api_sge(&second.a, 0, 10), target = api_sge(&second.b, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
    assert_int_equal(api_post_recv(&second.b, 2, &target), 0);
    assert_int_equal(api_post_send(&second.a, &wr), 0);
    take_event(channel, sends);
    api_expect(sends, 1, IBV_WC_SUCCESS);
    api_expect(one, 2, IBV_WC_SUCCESS);
    close_side(&first.a);
    close_side(&first.b);
    close_side(&second.a);
    close_side(&second.b);
    destroy_cq(sends);
    destroy_cq(zero);
    destroy_cq(one);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* The SRQ is on the engine of the newest CQ, so the queue pair is on another engine than its CQ. */
static void queue_pair__srq_of_another_engine_than_its_cq__receives(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
    struct ibv_cq *zero = cq_of(api, 0), *two = cq_of(api, 2);
    struct ibv_srq *srq = ibv_create_srq(api->pd, &attr);
    struct pair pair;

    assert_non_null(srq);
    open_side(api, &pair.a, zero, zero, IBV_QPT_RC, NULL);
    open_side(api, &pair.b, zero, zero, IBV_QPT_RC, srq);
    api_pair_join(api, &pair);
    struct ibv_sge source = api_sge(&pair.a, 0, 10), target = api_sge(&pair.b, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
    memset(pair.a.buffer, 7, 10);
    wr.send_flags = 0;
    assert_int_equal(api_post_srq(srq, 2, &target), 0);
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    api_expect(zero, 2, IBV_WC_SUCCESS);
    assert_int_equal(pair.b.buffer[9], 7);
    close_side(&pair.a);
    close_side(&pair.b);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    destroy_cq(zero);
    destroy_cq(two);
}

static void datagrams__queue_pairs_on_any_two_engines__arrive(void **state)
{
    const struct api *api = *state;
    struct ibv_qp_attr peer = api_attr(api, 0);
    struct ibv_ah *ah = ibv_create_ah(api->pd, &peer.ah_attr);
    struct pair pair;

    assert_non_null(ah);
    for (int i = 0; i < ENGINES * ENGINES; i++) {
        struct ibv_cq *one = cq_of(api, i / ENGINES), *other = cq_of(api, i % ENGINES);
        open_side(api, &pair.a, one, one, IBV_QPT_UD, NULL);
        open_side(api, &pair.b, other, other, IBV_QPT_UD, NULL);
        api_pair_join(api, &pair);
        struct ibv_sge source = api_sge(&pair.a, 0, 100), target = api_sge(&pair.b, 0, 200);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = pair.b.qp->qp_num;
        wr.wr.ud.remote_qkey = API_QKEY;
        memset(pair.a.buffer, 0x30 + i, 100);
        assert_int_equal(api_post_recv(&pair.b, 2, &target), 0);
        assert_int_equal(api_post_send(&pair.a, &wr), 0);
        api_expect(one, 1, IBV_WC_SUCCESS);
        api_expect(other, 2, IBV_WC_SUCCESS);
        assert_int_equal(pair.b.buffer[139], 0x30 + i);
        close_side(&pair.a);
        close_side(&pair.b);
        destroy_cq(one);
        destroy_cq(other);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* Writes the first 10 bytes of the side to the region, or reads them. */
static void move(struct side *from, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
                 enum ibv_wc_status status)
{
    struct ibv_sge source = api_sge(from, 0, 10);
    struct ibv_send_wr wr = api_send(opcode, &source);

    wr.wr.rdma.remote_addr = (uintptr_t)mr->addr;
    wr.wr.rdma.rkey = mr->rkey;
    assert_int_equal(api_post_send(from, &wr), 0);
    api_expect(from->cq, 1, status);
}

static void write_to(struct side *from, const struct ibv_mr *mr)
{
    move(from, IBV_WR_RDMA_WRITE, mr, IBV_WC_SUCCESS);
}

static void region__registered_and_deregistered__on_every_engine(void **state)
{
    const struct api *api = *state;
    static uint8_t memory[64];
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

    for (int i = 0; i < ENGINES; i++) {
        struct ibv_cq *zero = cq_of(api, 0), *cq = cq_of(api, i);
        struct pair pair;
        open_side(api, &pair.a, zero, zero, IBV_QPT_RC, NULL);
        open_side(api, &pair.b, cq, cq, IBV_QPT_RC, NULL);
        api_pair_join(api, &pair);
        struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory, access);
        assert_non_null(mr);
        const struct ibv_mr before = *mr;
        memset(pair.a.buffer, 0x40 + i, 10);
        move(&pair.a, IBV_WR_RDMA_WRITE, mr, IBV_WC_SUCCESS);
        memset(pair.a.buffer, 0, 10);
        move(&pair.a, IBV_WR_RDMA_READ, mr, IBV_WC_SUCCESS);
        assert_int_equal(pair.a.buffer[9], 0x40 + i);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        move(&pair.a, IBV_WR_RDMA_WRITE, &before, IBV_WC_REM_ACCESS_ERR);
        close_side(&pair.a);
        close_side(&pair.b);
        destroy_cq(zero);
        destroy_cq(cq);
    }
}

/* ---- threads ----------------------------------------------------- */

struct worker {
    const struct api *api;
    pthread_t thread;
    int vector;
};

static atomic_uint working;

static void *work(void *argument)
{
    const struct worker *worker = argument;
    struct ibv_cq *cq = cq_of(worker->api, worker->vector);
    struct pair *pair = calloc(1, sizeof *pair);

    assert_non_null(pair);
    open_side(worker->api, &pair->a, cq, cq, IBV_QPT_RC, NULL);
    open_side(worker->api, &pair->b, cq, cq, IBV_QPT_RC, NULL);
    api_pair_join(worker->api, pair);
    for (unsigned i = 0; i < MESSAGES; i++)
        write_to(&pair->a, pair->b.mr);
    close_side(&pair->a);
    close_side(&pair->b);
    destroy_cq(cq);
    free(pair);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void threads__on_each_engine__another_registers__all_writes_arrive(void **state)
{
    const struct api *api = *state;
    struct worker workers[ENGINES];
    static uint8_t memory[64];

    atomic_store(&working, ENGINES);
    for (int i = 0; i < ENGINES; i++) {
        workers[i] = (struct worker){ .api = api, .vector = i };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    while (atomic_load(&working) > 0) {
        struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
        assert_non_null(mr);
        assert_int_equal(ibv_dereg_mr(mr), 0);
    }
    for (int i = 0; i < ENGINES; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
}

/* ---- devices that cannot have several engines -------------------- */

static void no_broker__engines_auto__has_one_engine(void **state)
{
    const struct api api = api_open_device("auto");
    struct pair pair;

    (void)state;
    struct ibv_cq *cq = cq_of(&api, api.context->num_comp_vectors - 1);
    open_side(&api, &pair.a, cq, cq, IBV_QPT_RC, NULL);
    open_side(&api, &pair.b, cq, cq, IBV_QPT_RC, NULL);
    api_pair_join(&api, &pair);
    write_to(&pair.a, pair.b.mr);
    close_side(&pair.a);
    close_side(&pair.b);
    destroy_cq(cq);
    api_close_device(&api);
}

static void no_broker__two_engines__does_not_start_and_names_the_mend(void **state)
{
    const struct api api = api_open_device("two");
    const struct stderr_capture capture = capture_stderr_begin();

    (void)state;
    assert_null(ibv_create_cq(api.context, 1, NULL, NULL, 0));
    assert_int_equal(errno, ENODEV);
    assert_non_null(strstr(capture_stderr_text(capture),
                           "uroce: two: engines=2: several engines need the broker of the address; "
                           "start the program with `uroce run`"));
    capture_stderr_end(capture);
    api_close_device(&api);
}

/* ---- a forked child ---------------------------------------------- */

#ifndef __SANITIZE_THREAD__ /* it refuses threads in a forked child */

/* Writes from one queue pair with the CQ to another. */
static void write_in_child(const struct api *api, struct ibv_cq *cq)
{
    struct pair pair;

    open_side(api, &pair.a, cq, cq, IBV_QPT_RC, NULL);
    open_side(api, &pair.b, cq, cq, IBV_QPT_RC, NULL);
    api_pair_join(api, &pair);
    write_to(&pair.a, pair.b.mr);
}

static void child(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct api api = { .device = list[0], .context = ibv_open_device(list[0]) };
    struct ibv_cq *one = NULL, *two = NULL;
    struct pair pair;

    ibv_free_device_list(list);
    MUST(api.context != NULL);
    api.pd = ibv_alloc_pd(api.context);
    MUST(api.pd != NULL);
    one = cq_of(&api, 1);
    two = cq_of(&api, 2);
    open_side(&api, &pair.a, one, one, IBV_QPT_RC, NULL);
    open_side(&api, &pair.b, two, two, IBV_QPT_RC, NULL);
    api_pair_join(&api, &pair);
    send_once(&pair.a, one, &pair.b, 5);
    _exit(0);
}

static void forked_child__after_the_parent_used_all_engines__uses_new_ones(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *two = cq_of(api, 2);
    struct pair pair;
    int status;

    open_side(api, &pair.a, two, two, IBV_QPT_RC, NULL);
    open_side(api, &pair.b, two, two, IBV_QPT_RC, NULL);
    api_pair_join(api, &pair);
    send_once(&pair.a, two, &pair.b, 1);
    const pid_t pid = fork();
    if (pid == 0)
        child();
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    send_once(&pair.b, two, &pair.a, 2);
    close_side(&pair.a);
    close_side(&pair.b);
    destroy_cq(two);
}

/* Starts the device with at most @most descriptors, and again with many. */
static void start_with(rlim_t most, rlim_t many)
{
    const struct api api = api_open_device("uroce0");
    struct rlimit limit = { most, many };

    MUST(api.pd != NULL);
    MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    struct ibv_cq *cq = ibv_create_cq(api.context, 1, NULL, NULL, 2);
    const int error = errno;
    limit.rlim_cur = many;
    MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (cq == NULL) {
        MUST(error == ENODEV || error == ENOMEM);
        cq = ibv_create_cq(api.context, 1, NULL, NULL, 2);
    }
    MUST(cq != NULL);
    write_in_child(&api, cq);
    _exit(0);
}

/* The limit is reached in the first engine, then in the second, and so on. */
static void engines__a_later_one_lacks_descriptors__a_second_start_works(void **state)
{
    struct rlimit before;
    const int first = dup(0); /* lowest free descriptor */

    (void)state;
    assert_int_equal(close(first), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (rlim_t more = 2; more < 40; more += 2) {
        int status;
        const pid_t pid = fork();
        if (pid == 0) {
            MUST(freopen("/dev/null", "w", stderr) != NULL);
            start_with((rlim_t)first + more, before.rlim_max);
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

#endif

int main(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(device__three_engines__has_three_vectors_and_no_windows),
        API_TEST(two_queue_pairs__on_any_two_engines__exchange_data),
        API_TEST(queue_pair__cqs_of_two_engines__both_get_its_completions),
        API_TEST(cq__queue_pairs_on_all_engines__gets_each_completion_once),
        API_TEST(extended_cq__queue_pair_of_another_engine__is_polled),
        API_TEST(armed_cq__completions_of_two_engines__one_event),
        API_TEST(queue_pair__srq_of_another_engine_than_its_cq__receives),
        API_TEST(datagrams__queue_pairs_on_any_two_engines__arrive),
        API_TEST(region__registered_and_deregistered__on_every_engine),
        API_TEST(threads__on_each_engine__another_registers__all_writes_arrive),
        cmocka_unit_test(no_broker__engines_auto__has_one_engine),
        cmocka_unit_test(no_broker__two_engines__does_not_start_and_names_the_mend),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(engines__a_later_one_lacks_descriptors__a_second_start_works),
        API_TEST(forked_child__after_the_parent_used_all_engines__uses_new_ones),
#endif
    };
    char address[API_ADDRESS], alone[API_ADDRESS], two[API_ADDRESS], text[256];

    if (own_runtime_make(NULL) != 0)
        return 1;
    (void)api_own_address(0, address);
    (void)snprintf(text, sizeof text, "'%s' hub --address %s --idle 2 --background", API_UROCE,
                   address);
    if (system(text) != 0)
        return 1;
    (void)api_own_address(1, alone);
    (void)api_own_address(2, two);
    (void)snprintf(
        text, sizeof text,
        "uroce0:udp,ip=%s;engines=%u auto:udp,ip=%s;engines=auto two:udp,ip=%s;engines=2", address,
        ENGINES, alone, two);
    (void)setenv("UROCE_DEVICES", text, 1);
    return API_RUN(tests);
}
