/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static bool readable(int fd)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };
    return poll(&wait, 1, 0) == 1;
}

static void send_to(struct pair *pair, unsigned flags)
{
    struct ibv_sge from = api_sge(&pair->a, 0, 8), to = api_sge(&pair->b, 0, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from), *bad;

    wr.send_flags |= flags;
    assert_int_equal(api_post_recv(&pair->b, 1, &to), 0);
    assert_int_equal(ibv_post_send(pair->a.qp, &wr, &bad), 0);
}

/* Blocks until the descriptor is readable. Meanwhile, another thread must run the engine. */
static void await_readable(int fd)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };

    assert_int_equal(poll(&wait, 1, -1), 1);
}

static void expect_cq_event(struct ibv_comp_channel *channel, struct side *side)
{
    struct ibv_cq *cq;
    void *context;

    assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
    assert_ptr_equal(cq, side->cq);
    assert_ptr_equal(context, side);
    ibv_ack_cq_events(cq, 1);
}

static void armed_cq__gets_a_completion__wakes_a_waiter_that_does_not_poll(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pair pair;

    api_pair_open(api, &pair, channel);
    assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
    send_to(&pair, 0);
    expect_cq_event(channel, &pair.b);
    api_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
    api_pair_close(&pair);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void cq__not_armed_again__gives_one_event_for_many_completions(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pair pair;

    api_pair_open(api, &pair, channel);
    assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
    for (int i = 0; i < 3; i++) {
        send_to(&pair, 0);
        api_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
    }
    expect_cq_event(channel, &pair.b);
    assert_false(readable(channel->fd));
    api_pair_close(&pair);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void cq__armed_again_before_the_event_is_taken__gives_a_second_event(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pair pair;

    api_pair_open(api, &pair, channel);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
        send_to(&pair, 0);
        api_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
        await_readable(channel->fd); /* a completion can be polled before its event is there */
    }
    expect_cq_event(channel, &pair.b);
    expect_cq_event(channel, &pair.b);
    assert_false(readable(channel->fd));
    api_pair_close(&pair);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void cq__armed_for_solicited__ignores_other_completions(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pair pair;

    api_pair_open(api, &pair, channel);
    assert_int_equal(ibv_req_notify_cq(pair.b.cq, 1), 0);
    send_to(&pair, 0);
    api_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
    assert_false(readable(channel->fd));
    send_to(&pair, IBV_SEND_SOLICITED);
    expect_cq_event(channel, &pair.b);
    api_pair_close(&pair);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void destroy_cq__unfetched_event__is_dropped(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pair pair;

    api_pair_open(api, &pair, channel);
    assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
    send_to(&pair, 0);
    api_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
    api_pair_close(&pair);
    assert_false(readable(channel->fd));
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

struct late_ack {
    struct ibv_cq *cq;
    atomic_bool acked;
};

static void *acknowledge(void *argument)
{
    struct late_ack *late = argument;

    atomic_store(&late->acked, true);
    ibv_ack_cq_events(late->cq, 1);
    return NULL;
}

/* The other thread may still access the CQ until it acknowledges the event. */
static void destroy_cq__with_an_event_not_acknowledged__waits_for_it(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pair pair;
    struct ibv_cq *cq;
    void *context;
    pthread_t thread;

    api_pair_open(api, &pair, channel);
    assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
    send_to(&pair, 0);
    assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
    struct late_ack late = { .cq = cq };
    assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
    assert_int_equal(pthread_create(&thread, NULL, acknowledge, &late), 0);
    assert_int_equal(ibv_destroy_cq(pair.b.cq), 0);
    assert_true(atomic_load(&late.acked));
    pthread_join(thread, NULL);
    ibv_dereg_mr(pair.b.mr);
    ibv_destroy_qp(pair.a.qp);
    ibv_destroy_cq(pair.a.cq);
    ibv_dereg_mr(pair.a.mr);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static struct ibv_async_event expect_async(const struct api *api, enum ibv_event_type type)
{
    struct ibv_async_event event;

    assert_int_equal(ibv_get_async_event(api->context, &event), 0);
    assert_int_equal(event.event_type, type);
    ibv_ack_async_event(&event);
    return event;
}

static void async_event__send_queue_drained__is_raised_on_async_fd(void **state)
{
    const struct api *api = *state;
    struct epoll_event event = { .events = EPOLLIN };
    struct pair pair;
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    api_pair_open(api, &pair, NULL);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, api->context->async_fd, &event), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
    assert_int_equal(api_go(api, pair.a.qp, IBV_QPS_SQD, 0), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, -1), 1);
    assert_ptr_equal(expect_async(api, IBV_EVENT_SQ_DRAINED).element.qp, pair.a.qp);
    assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
    close(epoll);
    api_pair_close(&pair);
}

/* The other queue pair requests SQ_DRAINED later. The first event must be of this queue pair. */
static void drained_send_queue__notify_not_requested__raises_no_event(void **state)
{
    const struct api *api = *state;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 0 };
    struct ibv_qp_attr back = { .qp_state = IBV_QPS_RTS };
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    assert_int_equal(api_go(api, pair.b.qp, IBV_QPS_SQD, 0), 0);
    assert_ptr_equal(expect_async(api, IBV_EVENT_SQ_DRAINED).element.qp, pair.b.qp);
    assert_int_equal(ibv_modify_qp(pair.a.qp, &back, IBV_QP_STATE), 0);
    assert_int_equal(ibv_modify_qp(pair.b.qp, &back, IBV_QP_STATE), 0);
    attr.en_sqd_async_notify = 1;
    assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0); /* not in the mask */
    assert_int_equal(api_go(api, pair.b.qp, IBV_QPS_SQD, 0), 0);
    assert_ptr_equal(expect_async(api, IBV_EVENT_SQ_DRAINED).element.qp, pair.b.qp);
    api_pair_close(&pair);
}

static void async_event__access_refused__is_raised_by_the_responders_qp(void **state)
{
    const struct api *api = *state;
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    struct ibv_sge from = api_sge(&pair.a, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &from), *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)pair.b.buffer;
    wr.wr.rdma.rkey = pair.b.mr->rkey ^ 1;
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    assert_ptr_equal(expect_async(api, IBV_EVENT_QP_ACCESS_ERR).element.qp, pair.b.qp);
    api_pair_close(&pair);
}

/* bug B10: a full CQ lost a completion. uroce raises CQ_ERR for this completion. */
static void async_event__cq_full__is_raised_and_completions_are_kept(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 1);
    struct ibv_qp_init_attr init = api_qp_attr(cq);
    struct ibv_recv_wr wr = { .wr_id = 7 }, *bad;

    struct ibv_qp *qp = ibv_create_qp(api->pd, &init);
    api_connect(api, qp, 0x654321);
    for (int i = 0; i <= cq->cqe; i++)
        assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_ERR, 0), 0);
    assert_ptr_equal(expect_async(api, IBV_EVENT_CQ_ERR).element.cq, cq);
    api_expect(cq, 7, IBV_WC_WR_FLUSH_ERR);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

static void destroy_qp__unfetched_event__is_dropped(void **state)
{
    const struct api *api = *state;
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    assert_int_equal(api_go(api, pair.a.qp, IBV_QPS_SQD, 0), 0);
    struct pollfd wait = { .fd = api->context->async_fd, .events = POLLIN };
    assert_int_equal(poll(&wait, 1, -1), 1);
    api_pair_close(&pair);
    assert_false(readable(api->context->async_fd));
}

static void events__of_one_context__are_not_seen_in_another(void **state)
{
    const struct api *api = *state;
    struct ibv_context *other = ibv_open_device(api->device);
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    assert_int_equal(api_go(api, pair.a.qp, IBV_QPS_SQD, 0), 0);
    expect_async(api, IBV_EVENT_SQ_DRAINED);
    assert_false(readable(other->async_fd));
    api_pair_close(&pair);
    assert_int_equal(ibv_close_device(other), 0);
}

static atomic_bool stop;
static atomic_uint posted;

static void *post_for_ever(void *argument)
{
    struct pair *pair = argument;
    struct ibv_sge from = api_sge(&pair->a, 0, 2000);
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &from), *bad;
    struct ibv_wc wc;

    wr.wr.rdma.remote_addr = (uintptr_t)pair->b.buffer;
    wr.wr.rdma.rkey = pair->b.mr->rkey;
    while (!atomic_load(&stop)) {
        (void)ibv_post_send(
            pair->a.qp, &wr,
            &bad); /* fails when the queue is full, and later when the queue pair is in ERR */
        atomic_fetch_add(&posted, ibv_poll_cq(pair->a.cq, 1, &wc) == 1);
    }
    return NULL;
}

static void destroy_qp_and_mr__while_the_peer_sends__is_safe(void **state)
{
    struct pair pair;
    pthread_t thread;

    api_pair_open(*state, &pair, NULL);
    atomic_store(&stop, false);
    atomic_store(&posted, 0);
    assert_int_equal(pthread_create(&thread, NULL, post_for_ever, &pair), 0);
    while (atomic_load(&posted) < 20)
        ;
    assert_int_equal(ibv_dereg_mr(pair.b.mr), 0);
    memset(pair.b.buffer, 0x5a, API_BUFFER);
    assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
    assert_int_equal(ibv_destroy_cq(pair.b.cq), 0);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < API_BUFFER; i++)
        assert_int_equal(pair.b.buffer[i], 0x5a);
    ibv_destroy_qp(pair.a.qp);
    ibv_destroy_cq(pair.a.cq);
    ibv_dereg_mr(pair.a.mr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(armed_cq__gets_a_completion__wakes_a_waiter_that_does_not_poll),
        API_TEST(cq__not_armed_again__gives_one_event_for_many_completions),
        API_TEST(cq__armed_again_before_the_event_is_taken__gives_a_second_event),
        API_TEST(cq__armed_for_solicited__ignores_other_completions),
        API_TEST(destroy_cq__unfetched_event__is_dropped),
        API_TEST(destroy_cq__with_an_event_not_acknowledged__waits_for_it),
        API_TEST(async_event__send_queue_drained__is_raised_on_async_fd),
        API_TEST(drained_send_queue__notify_not_requested__raises_no_event),
        API_TEST(async_event__access_refused__is_raised_by_the_responders_qp),
        API_TEST(async_event__cq_full__is_raised_and_completions_are_kept),
        API_TEST(destroy_qp__unfetched_event__is_dropped),
        API_TEST(events__of_one_context__are_not_seen_in_another),
        API_TEST(destroy_qp_and_mr__while_the_peer_sends__is_safe),
    };
    return API_RUN(tests);
}
