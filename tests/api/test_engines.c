/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engines.c - tests queue pairs, CQs, SRQs and memory of a device with three engines. */
#include "api/engines.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES 200u

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
        cqs[i] = engines_cq_of(api, i);
    for (int i = 0; i < ENGINES * ENGINES; i++) {
        struct ibv_cq *one = cqs[i / ENGINES], *other = cqs[i % ENGINES];
        api_side_open_with(api, &pair.a, one, one, IBV_QPT_RC, NULL);
        api_side_open_with(api, &pair.b, other, other, IBV_QPT_RC, NULL);
        api_pair_join(api, &pair);
        engines_send_once(&pair.a, one, &pair.b, (uint8_t)(0x10 + i));
        engines_send_once(&pair.b, other, &pair.a, (uint8_t)(0x20 + i));
        engines_close_side(&pair.a);
        engines_close_side(&pair.b);
    }
    for (int i = 0; i < ENGINES; i++)
        engines_destroy_cq(cqs[i]);
}

static void queue_pair__cqs_of_two_engines__both_get_its_completions(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *zero = engines_cq_of(api, 0), *one = engines_cq_of(api, 1),
                  *two = engines_cq_of(api, 2);
    struct ibv_cq *other = engines_cq_of(api, 1);
    struct pair pair;

    api_side_open_with(api, &pair.a, two, one, IBV_QPT_RC, NULL);
    api_side_open_with(api, &pair.b, other, zero, IBV_QPT_RC, NULL);
    api_pair_join(api, &pair);
    for (unsigned i = 0; i < MESSAGES; i++) {
        engines_send_once(&pair.a, two, &pair.b, (uint8_t)i);
        engines_send_once(&pair.b, other, &pair.a, (uint8_t)~i);
    }
    engines_close_side(&pair.a);
    engines_close_side(&pair.b);
    engines_destroy_cq(zero);
    engines_destroy_cq(one);
    engines_destroy_cq(two);
    engines_destroy_cq(other);
}

/* The CQ has completions of three engines, in an order that is only fixed for each queue pair. */
static void cq__queue_pairs_on_all_engines__gets_each_completion_once(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *shared = engines_cq_of(api, 1), *own[ENGINES];
    struct side from[ENGINES], to[ENGINES];
    uint64_t next[ENGINES] = { 0 };

    for (int i = 0; i < ENGINES; i++) {
        own[i] = engines_cq_of(api, i);
        api_side_open_with(api, &from[i], shared, own[i], IBV_QPT_RC, NULL);
        api_side_open_with(api, &to[i], own[i], own[i], IBV_QPT_RC, NULL);
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
        engines_close_side(&from[i]);
        engines_close_side(&to[i]);
        engines_destroy_cq(own[i]);
    }
    engines_destroy_cq(shared);
}

static void extended_cq__queue_pair_of_another_engine__is_polled(void **state)
{
    const struct api *api = *state;
    struct ibv_cq_init_attr_ex attr = { .cqe = 16,
                                        .wc_flags = IBV_WC_STANDARD_FLAGS,
                                        .comp_vector = 2 };
    struct ibv_cq_ex *ex = ibv_create_cq_ex(api->context, &attr);
    struct ibv_cq *zero = engines_cq_of(api, 0);
    struct pair pair;

    assert_non_null(ex);
    api_side_open_with(api, &pair.a, ibv_cq_ex_to_cq(ex), zero, IBV_QPT_RC, NULL);
    api_side_open_with(api, &pair.b, zero, zero, IBV_QPT_RC, NULL);
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
    engines_close_side(&pair.a);
    engines_close_side(&pair.b);
    engines_destroy_cq(ibv_cq_ex_to_cq(ex));
    engines_destroy_cq(zero);
}

/* The prefix of a QPN shows the engine of its queue pair. */
static void queue_pair__vector_of_its_cq__chooses_its_engine(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(api->pd, &attr); /* before any CQ */
    struct ibv_cq *zero = engines_cq_of(api, 0), *two = engines_cq_of(api, 2);
    struct ibv_qp *on_zero = api_qp(api, zero), *on_two = api_qp(api, two);
    struct side with_srq;

    assert_non_null(srq);
    assert_int_not_equal(engines_prefix_of(on_zero), engines_prefix_of(on_two));
    api_side_open_with(api, &with_srq, zero, two, IBV_QPT_RC, srq);
    assert_int_equal(engines_prefix_of(with_srq.qp), engines_prefix_of(on_two));
    engines_close_side(&with_srq);
    api_side_open_with(api, &with_srq, two, zero, IBV_QPT_RC, srq); /* the SRQ stays */
    assert_int_equal(engines_prefix_of(with_srq.qp), engines_prefix_of(on_two));
    engines_close_side(&with_srq);
    assert_int_equal(ibv_destroy_qp(on_zero), 0);
    assert_int_equal(ibv_destroy_qp(on_two), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    engines_destroy_cq(zero);
    engines_destroy_cq(two);
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

/* Sends a message that @to receives. */
static void send_receive(struct side *from, struct side *to, unsigned flags)
{
    struct ibv_sge source = api_sge(from, 0, 10), target = api_sge(to, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);

    wr.send_flags |= flags;
    assert_int_equal(api_post_recv(to, 2, &target), 0);
    assert_int_equal(api_post_send(from, &wr), 0);
}

/* Both parts of the CQ get a completion, but the CQ was armed once. */
static void armed_cq__completions_of_two_engines__one_event(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct ibv_cq *sends = ibv_create_cq(api->context, 64, NULL, channel, 0);
    struct ibv_cq *zero = engines_cq_of(api, 0), *one = engines_cq_of(api, 1);
    struct pair first, second;

    assert_non_null(channel);
    assert_non_null(sends);
    assert_int_equal(ibv_req_notify_cq(sends, 0), 0); /* before the part of engine 1 exists */
    api_side_open_with(api, &second.a, sends, one, IBV_QPT_RC, NULL);
    api_side_open_with(api, &second.b, one, one, IBV_QPT_RC, NULL);
    api_pair_join(api, &second);
    send_receive(&second.a, &second.b, 0);
    take_event(channel, sends);
    api_expect(one, 2, IBV_WC_SUCCESS);
    api_expect(sends, 1, IBV_WC_SUCCESS);

    assert_int_equal(ibv_req_notify_cq(sends, 0), 0);
    api_side_open_with(api, &first.a, sends, zero, IBV_QPT_RC, NULL);
    api_side_open_with(api, &first.b, zero, zero, IBV_QPT_RC, NULL);
    api_pair_join(api, &first);
    struct pair *const pairs[] = { &second, &first };
    for (unsigned i = 0; i < 2; i++)
        send_receive(&pairs[i]->a, &pairs[i]->b, 0);
    take_event(channel, sends);
    api_expect(zero, 2, IBV_WC_SUCCESS);
    api_expect(one, 2, IBV_WC_SUCCESS);
    api_expect(sends, 1, IBV_WC_SUCCESS);
    api_expect(sends, 1, IBV_WC_SUCCESS);
    struct pollfd more = { .fd = channel->fd, .events = POLLIN };
    assert_int_equal(poll(&more, 1, 0), 0);

    assert_int_equal(ibv_req_notify_cq(sends, 0), 0); /* the part of engine 1 exists */
    engines_send_once(&second.b, one, &second.a, 1);
    assert_int_equal(poll(&more, 1, 0), 0);
    send_receive(&second.a, &second.b, 0);
    take_event(channel, sends);
    api_expect(sends, 1, IBV_WC_SUCCESS);
    api_expect(one, 2, IBV_WC_SUCCESS);
    engines_close_side(&first.a);
    engines_close_side(&first.b);
    engines_close_side(&second.a);
    engines_close_side(&second.b);
    engines_destroy_cq(sends);
    engines_destroy_cq(zero);
    engines_destroy_cq(one);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* The receives of two queue pairs on two engines complete in the armed CQ. */
static void armed_cq__solicited_only_after_any__unsolicited_raises_no_event(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct ibv_cq *armed = ibv_create_cq(api->context, 64, NULL, channel, 0);
    struct ibv_cq *zero = engines_cq_of(api, 0), *one = engines_cq_of(api, 1),
                  *other = engines_cq_of(api, 1);
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(api->pd, &attr);
    struct pair first, second;
    struct side placer;

    assert_non_null(channel);
    assert_non_null(armed);
    assert_non_null(srq);
    api_side_open_with(api, &placer, one, one, IBV_QPT_RC,
                       srq); /* the SRQ is on engine 1 from now on */
    api_side_open_with(api, &first.a, zero, zero, IBV_QPT_RC, NULL);
    api_side_open_with(api, &first.b, zero, armed, IBV_QPT_RC, NULL);
    api_side_open_with(api, &second.a, other, other, IBV_QPT_RC, NULL);
    api_side_open_with(api, &second.b, one, armed, IBV_QPT_RC, srq);
    api_pair_join(api, &first);
    api_pair_join(api, &second);
    assert_int_equal(ibv_req_notify_cq(armed, 0), 0);
    send_receive(&first.a, &first.b, 0);
    take_event(channel, armed);
    api_expect(zero, 1, IBV_WC_SUCCESS);
    api_expect(armed, 2, IBV_WC_SUCCESS);

    assert_int_equal(ibv_req_notify_cq(armed, 1), 0);
    struct pollfd more = { .fd = channel->fd, .events = POLLIN };
    for (unsigned solicited = 0; solicited < 2; solicited++) {
        struct ibv_sge source = api_sge(&second.a, 0, 10), target = api_sge(&second.b, 0, 10);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
        wr.send_flags |= solicited ? IBV_SEND_SOLICITED : 0;
        assert_int_equal(api_post_srq(srq, 2, &target), 0);
        assert_int_equal(api_post_send(&second.a, &wr), 0);
        if (solicited)
            take_event(channel, armed);
        api_expect(other, 1, IBV_WC_SUCCESS);
        api_expect(armed, 2, IBV_WC_SUCCESS);
        assert_int_equal(poll(&more, 1, 0), 0);
    }
    engines_close_side(&first.a);
    engines_close_side(&first.b);
    engines_close_side(&second.a);
    engines_close_side(&second.b);
    engines_close_side(&placer);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    engines_destroy_cq(armed);
    engines_destroy_cq(zero);
    engines_destroy_cq(one);
    engines_destroy_cq(other);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* Because of the SRQ, the queue pair of pair.b is on the engine of placer. Its CQ is on another
 * engine. */
static void queue_pair__srq_of_another_engine_than_its_cq__receives(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
    struct ibv_cq *zero = engines_cq_of(api, 0), *two = engines_cq_of(api, 2);
    struct ibv_srq *srq = ibv_create_srq(api->pd, &attr);
    struct side placer;
    struct pair pair;

    assert_non_null(srq);
    api_side_open_with(api, &placer, two, two, IBV_QPT_RC, srq);
    api_side_open_with(api, &pair.a, zero, zero, IBV_QPT_RC, NULL);
    api_side_open_with(api, &pair.b, zero, zero, IBV_QPT_RC, srq);
    api_pair_join(api, &pair);
    struct ibv_sge source = api_sge(&pair.a, 0, 10), target = api_sge(&pair.b, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
    memset(pair.a.buffer, 7, 10);
    wr.send_flags = 0;
    assert_int_equal(api_post_srq(srq, 2, &target), 0);
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    api_expect(zero, 2, IBV_WC_SUCCESS);
    assert_int_equal(pair.b.buffer[9], 7);
    engines_close_side(&placer);
    engines_close_side(&pair.a);
    engines_close_side(&pair.b);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    engines_destroy_cq(zero);
    engines_destroy_cq(two);
}

static void datagrams__queue_pairs_on_any_two_engines__arrive(void **state)
{
    const struct api *api = *state;
    struct ibv_qp_attr peer = api_attr(api, 0);
    struct ibv_ah *ah = ibv_create_ah(api->pd, &peer.ah_attr);
    struct pair pair;

    assert_non_null(ah);
    for (int i = 0; i < ENGINES * ENGINES; i++) {
        struct ibv_cq *one = engines_cq_of(api, i / ENGINES),
                      *other = engines_cq_of(api, i % ENGINES);
        api_side_open_with(api, &pair.a, one, one, IBV_QPT_UD, NULL);
        api_side_open_with(api, &pair.b, other, other, IBV_QPT_UD, NULL);
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
        engines_close_side(&pair.a);
        engines_close_side(&pair.b);
        engines_destroy_cq(one);
        engines_destroy_cq(other);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* Sends a datagram with a wrong Q_Key to a queue pair of each engine. */
static void datagrams__of_wrong_qkey_to_each_engine__port_counts_all(void **state)
{
    const struct api *api = *state;
    struct ibv_qp_attr peer = api_attr(api, 0);
    struct ibv_ah *ah = ibv_create_ah(api->pd, &peer.ah_attr);
    struct ibv_port_attr port;

    assert_non_null(ah);
    assert_int_equal(ibv_query_port(api->context, 1, &port), 0);
    const uint32_t before = port.qkey_viol_cntr;
    for (int i = 0; i < ENGINES; i++) {
        struct ibv_cq *cq = engines_cq_of(api, i);
        struct pair pair;
        api_side_open_with(api, &pair.a, cq, cq, IBV_QPT_UD, NULL);
        api_side_open_with(api, &pair.b, cq, cq, IBV_QPT_UD, NULL);
        api_pair_join(api, &pair);
        struct ibv_sge source = api_sge(&pair.a, 0, 100), target = api_sge(&pair.b, 0, 200);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = pair.b.qp->qp_num;
        wr.wr.ud.remote_qkey = API_QKEY + 1;
        assert_int_equal(api_post_recv(&pair.b, 2, &target), 0);
        assert_int_equal(api_post_send(&pair.a, &wr), 0);
        api_expect(cq, 1, IBV_WC_SUCCESS);
        wr.wr.ud.remote_qkey = API_QKEY; /* arrives after the first datagram */
        assert_int_equal(api_post_send(&pair.a, &wr), 0);
        (void)api_wait(cq);
        (void)api_wait(cq);
        engines_close_side(&pair.a);
        engines_close_side(&pair.b);
        engines_destroy_cq(cq);
    }
    assert_int_equal(ibv_query_port(api->context, 1, &port), 0);
    assert_int_equal(port.qkey_viol_cntr, before + ENGINES);
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void region__registered_and_deregistered__takes_effect_on_every_engine(void **state)
{
    const struct api *api = *state;
    static uint8_t memory[64];
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

    for (int i = 0; i < ENGINES; i++) {
        struct ibv_cq *zero = engines_cq_of(api, 0), *cq = engines_cq_of(api, i);
        struct pair pair;
        api_side_open_with(api, &pair.a, zero, zero, IBV_QPT_RC, NULL);
        api_side_open_with(api, &pair.b, cq, cq, IBV_QPT_RC, NULL);
        api_pair_join(api, &pair);
        struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory, access);
        assert_non_null(mr);
        const struct ibv_mr before = *mr;
        memset(pair.a.buffer, 0x40 + i, 10);
        engines_move(&pair.a, IBV_WR_RDMA_WRITE, mr, IBV_WC_SUCCESS);
        memset(pair.a.buffer, 0, 10);
        engines_move(&pair.a, IBV_WR_RDMA_READ, mr, IBV_WC_SUCCESS);
        assert_int_equal(pair.a.buffer[9], 0x40 + i);
        assert_int_equal(ibv_dereg_mr(mr), 0);
        engines_move(&pair.a, IBV_WR_RDMA_WRITE, &before, IBV_WC_REM_ACCESS_ERR);
        engines_close_side(&pair.a);
        engines_close_side(&pair.b);
        engines_destroy_cq(zero);
        engines_destroy_cq(cq);
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
    struct ibv_cq *cq = engines_cq_of(worker->api, worker->vector);
    struct pair *pair = calloc(1, sizeof *pair);

    assert_non_null(pair);
    api_side_open_with(worker->api, &pair->a, cq, cq, IBV_QPT_RC, NULL);
    api_side_open_with(worker->api, &pair->b, cq, cq, IBV_QPT_RC, NULL);
    api_pair_join(worker->api, pair);
    for (unsigned i = 0; i < MESSAGES; i++)
        engines_write_to(&pair->a, pair->b.mr);
    engines_close_side(&pair->a);
    engines_close_side(&pair->b);
    engines_destroy_cq(cq);
    free(pair);
    atomic_fetch_sub(&working, 1);
    return NULL;
}

static void threads__on_each_engine_while_another_registers__all_writes_arrive(void **state)
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

static struct ibv_cq *crossed[2];

/* Resets a queue pair repeatedly. It has the two CQs of the other thread's queue pair, but
 * swapped. */
static void *cross(void *argument)
{
    const struct worker *worker = argument;
    struct ibv_qp_init_attr attr = api_qp_attr(crossed[worker->vector]);
    struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };

    attr.recv_cq = crossed[1 - worker->vector];
    struct ibv_qp *qp = ibv_create_qp(worker->api->pd, &attr);
    assert_non_null(qp);
    for (unsigned i = 0; i < 500 * MESSAGES; i++)
        assert_int_equal(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    return NULL;
}

static void queue_pairs__with_the_same_cqs_crossed__two_threads_modify_them(void **state)
{
    const struct api *api = *state;
    struct worker workers[2];

    for (int i = 0; i < 2; i++)
        crossed[i] = engines_cq_of(api, i);
    for (int i = 0; i < 2; i++) {
        workers[i] = (struct worker){ .api = api, .vector = i };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, cross, &workers[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    engines_destroy_cq(crossed[0]);
    engines_destroy_cq(crossed[1]);
}

/* Creates a queue pair on another engine than its send CQ, which gets a part on this engine. */
static void *make_part(void *argument)
{
    const struct worker *worker = argument;
    struct ibv_qp_init_attr attr = api_qp_attr(crossed[0]);

    attr.recv_cq = crossed[1];
    struct ibv_qp *qp = ibv_create_qp(worker->api->pd, &attr);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    return NULL;
}

static void cq__resized_while_it_gets_a_part__resize_works_or_is_refused(void **state)
{
    const struct api *api = *state;
    struct worker worker = { .api = api };

    crossed[1] = engines_cq_of(api, 1);
    for (int i = 0; i < 50; i++) {
        crossed[0] = engines_cq_of(api, 0);
        assert_int_equal(pthread_create(&worker.thread, NULL, make_part, &worker), 0);
        const int error = ibv_resize_cq(crossed[0], 4000);
        assert_true(error == 0 || error == EOPNOTSUPP);
        assert_int_equal(pthread_join(worker.thread, NULL), 0);
        engines_destroy_cq(crossed[0]);
    }
    engines_destroy_cq(crossed[1]);
}

/* Moves the queue pair to ERR, with one receive more than the CQ has room for. */
static void overrun(const struct api *api, struct ibv_qp *qp, const struct ibv_cq *cq)
{
    struct ibv_recv_wr wr = { .wr_id = 7 }, *bad;

    for (int i = 0; i <= cq->cqe; i++)
        assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_ERR, 0), 0);
}

static void cq__overrun_by_one_engine__queue_pair_of_another_engine_fails(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = ibv_create_cq(api->context, 1, NULL, NULL, 0);
    struct ibv_cq *other = engines_cq_of(api, 1);
    struct ibv_qp *qp = api_qp(api, cq);
    struct pair pair;

    api_connect(api, qp, 0x654321);
    api_side_open_with(api, &pair.a, cq, other, IBV_QPT_RC, NULL); /* sends complete in a part */
    api_side_open_with(api, &pair.b, other, other, IBV_QPT_RC, NULL);
    api_pair_join(api, &pair);
    overrun(api, qp, cq);
    api_expect_async(api, IBV_EVENT_CQ_ERR, cq);

    struct ibv_sge source = api_sge(&pair.a, 0, 10), target = api_sge(&pair.b, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
    assert_int_equal(api_post_recv(&pair.b, 2, &target), 0);
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    api_expect(other, 2, IBV_WC_SUCCESS);
    api_expect_async(api, IBV_EVENT_QP_FATAL, pair.a.qp);

    /* The CQ gets its part for the third engine only now. */
    struct ibv_cq *third = engines_cq_of(api, 2);
    struct pair late;
    api_side_open_with(api, &late.a, cq, third, IBV_QPT_RC, NULL);
    api_side_open_with(api, &late.b, third, third, IBV_QPT_RC, NULL);
    api_pair_join(api, &late);
    source = api_sge(&late.a, 0, 10);
    target = api_sge(&late.b, 0, 10);
    assert_int_equal(api_post_recv(&late.b, 2, &target), 0);
    assert_int_equal(api_post_send(&late.a, &wr), 0);
    api_expect(third, 2, IBV_WC_SUCCESS);
    api_expect_async(api, IBV_EVENT_QP_FATAL, late.a.qp);

    engines_close_side(&late.a);
    engines_close_side(&late.b);
    engines_close_side(&pair.a);
    engines_close_side(&pair.b);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    engines_destroy_cq(third);
    engines_destroy_cq(other);
    engines_destroy_cq(cq);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        API_TEST(device__three_engines__has_three_vectors_and_no_windows),
        API_TEST(two_queue_pairs__on_any_two_engines__exchange_data),
        API_TEST(queue_pair__cqs_of_two_engines__both_get_its_completions),
        API_TEST(cq__queue_pairs_on_all_engines__gets_each_completion_once),
        API_TEST(extended_cq__queue_pair_of_another_engine__is_polled),
        API_TEST(armed_cq__completions_of_two_engines__one_event),
        API_TEST(queue_pair__vector_of_its_cq__chooses_its_engine),
        API_TEST(armed_cq__solicited_only_after_any__unsolicited_raises_no_event),
        API_TEST(queue_pair__srq_of_another_engine_than_its_cq__receives),
        API_TEST(datagrams__queue_pairs_on_any_two_engines__arrive),
        API_TEST(datagrams__of_wrong_qkey_to_each_engine__port_counts_all),
        API_TEST(region__registered_and_deregistered__takes_effect_on_every_engine),
        API_TEST(threads__on_each_engine_while_another_registers__all_writes_arrive),
        API_TEST(queue_pairs__with_the_same_cqs_crossed__two_threads_modify_them),
        API_TEST(cq__resized_while_it_gets_a_part__resize_works_or_is_refused),
        API_TEST(cq__overrun_by_one_engine__queue_pair_of_another_engine_fails),
    };

    return ENGINES_RUN(tests);
}
