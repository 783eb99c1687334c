/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests events of a shared receive queue: SRQ_LIMIT_REACHED and LAST_WQE_REACHED. */
#include "api/srq.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

static bool readable(int fd)
{
    struct pollfd wait = { .fd = fd, .events = POLLIN };

    return poll(&wait, 1, 0) == 1;
}

static void limit__reached__raises_one_event_until_armed_again(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_attr attr = { .srq_limit = 2 };
    struct srq_stand stand;

    srq_stand_open(&stand, api, IBV_QPT_RC);
    struct ibv_sge to = api_sge(&stand.one.b, 0, 100);
    for (int round = 0; round < 2; round++) {
        while (api_post_srq(stand.srq, 1, &to) == 0)
            ;
        attr.srq_limit = 2;
        assert_int_equal(ibv_modify_srq(stand.srq, &attr, IBV_SRQ_LIMIT), 0);
        for (int left = 3; left >= 1; left--) {
            assert_false(readable(api->context->async_fd)); /* at least two receives are left */
            srq_send(&stand.one);
            api_expect(stand.one.b.cq, 1, IBV_WC_SUCCESS);
        }
        api_expect_async(api, IBV_EVENT_SRQ_LIMIT_REACHED, stand.srq);
        assert_int_equal(ibv_query_srq(stand.srq, &attr), 0);
        assert_int_equal(attr.srq_limit, 0);
        srq_send(&stand.one);
        api_expect(stand.one.b.cq, 1, IBV_WC_SUCCESS);
        assert_false(readable(api->context->async_fd));
        for (int i = 0; i < 4; i++)
            api_expect(stand.one.a.cq, 1, IBV_WC_SUCCESS);
    }
    srq_stand_close(&stand);
}

/* No thread polls or blocks in the library: only the descriptor reports the event. */
static void limit__reached__wakes_epoll(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_attr attr = { .srq_limit = 1 };
    struct epoll_event news = { .events = EPOLLIN | EPOLLET };
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct srq_stand stand;

    srq_stand_open(&stand, api, IBV_QPT_RC);
    struct ibv_sge to = api_sge(&stand.one.b, 0, 100);
    assert_int_equal(fcntl(api->context->async_fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, api->context->async_fd, &news), 0);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(ibv_modify_srq(stand.srq, &attr, IBV_SRQ_LIMIT), 0);
        assert_int_equal(api_post_srq(stand.srq, 1, &to), 0);
        srq_send(&stand.one);
        assert_int_equal(epoll_wait(set, &news, 1, -1), 1);
        api_expect_async(api, IBV_EVENT_SRQ_LIMIT_REACHED, stand.srq);
    }
    close(set);
    srq_stand_close(&stand);
}

static void queue_pair__in_error__raises_last_wqe_reached(void **state)
{
    const struct api *api = *state;
    struct ibv_wc wc;
    struct srq_stand stand;

    srq_stand_open(&stand, api, IBV_QPT_RC);
    assert_int_equal(api_post_srq(stand.srq, 1, NULL), 0);
    assert_int_equal(api_go(api, stand.one.b.qp, IBV_QPS_ERR, 0), 0);
    api_expect_async(api, IBV_EVENT_QP_LAST_WQE_REACHED, stand.one.b.qp);
    assert_int_equal(ibv_poll_cq(stand.one.b.cq, 1, &wc),
                     0); /* the receive of the SRQ is not flushed */
    srq_stand_close(&stand);
}

struct late_ack {
    struct ibv_srq *srq;
    atomic_bool acknowledged;
};

static void *acknowledge(void *argument)
{
    struct late_ack *late = argument;
    struct ibv_async_event event = { .event_type = IBV_EVENT_SRQ_LIMIT_REACHED };

    event.element.srq = late->srq;
    for (int i = 0; i < 1000; i++)
        sched_yield(); /* so that the destroying thread could continue too early */
    atomic_store(&late->acknowledged, true);
    ibv_ack_async_event(&event);
    return NULL;
}

static void destroy_srq__fetched_event__waits_for_its_acknowledgement(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_attr attr = { .srq_limit = 1 };
    struct ibv_async_event event;
    struct srq_stand stand;
    pthread_t thread;

    srq_stand_open(&stand, api, IBV_QPT_RC);
    struct ibv_sge to = api_sge(&stand.one.b, 0, 100);
    assert_int_equal(ibv_modify_srq(stand.srq, &attr, IBV_SRQ_LIMIT), 0);
    assert_int_equal(api_post_srq(stand.srq, 1, &to), 0);
    srq_send(&stand.one);
    api_expect(stand.one.b.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(ibv_get_async_event(api->context, &event), 0);
    api_pair_close(&stand.one);
    api_pair_close(&stand.two);
    struct late_ack late = { .srq = stand.srq };
    assert_int_equal(pthread_create(&thread, NULL, acknowledge, &late), 0);
    assert_int_equal(ibv_destroy_srq(stand.srq), 0);
    assert_true(atomic_load(&late.acknowledged));
    pthread_join(thread, NULL);
}

static void destroy_srq__unfetched_event__is_dropped(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_attr attr = { .srq_limit = 1 };
    struct srq_stand stand;

    srq_stand_open(&stand, api, IBV_QPT_RC);
    struct ibv_sge to = api_sge(&stand.one.b, 0, 100);
    assert_int_equal(ibv_modify_srq(stand.srq, &attr, IBV_SRQ_LIMIT), 0);
    assert_int_equal(api_post_srq(stand.srq, 1, &to), 0);
    srq_send(&stand.one);
    api_expect(stand.one.b.cq, 1, IBV_WC_SUCCESS);
    struct pollfd wait = { .fd = api->context->async_fd, .events = POLLIN };
    assert_int_equal(poll(&wait, 1, -1), 1);
    srq_stand_close(&stand);
    assert_false(readable(api->context->async_fd));
    assert_int_equal(fcntl(api->context->async_fd, F_SETFL, O_NONBLOCK), 0);
    struct ibv_async_event event;
    errno = 0;
    assert_int_equal(ibv_get_async_event(api->context, &event), -1);
    assert_int_equal(errno, EAGAIN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(limit__reached__raises_one_event_until_armed_again),
        API_TEST(limit__reached__wakes_epoll),
        API_TEST(queue_pair__in_error__raises_last_wqe_reached),
        API_TEST(destroy_srq__fetched_event__waits_for_its_acknowledgement),
        API_TEST(destroy_srq__unfetched_event__is_dropped),
    };
    return API_RUN(tests);
}
