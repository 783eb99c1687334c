/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static void expect_ids(struct ibv_cq *cq, uint64_t first, uint64_t count)
{
    for (uint64_t id = first; id < first + count; id++)
        api_expect(cq, id, IBV_WC_WR_FLUSH_ERR);
}

/* ---- resizing ----------------------------------------------------------- */

static void resize_cq__larger_and_smaller__keeps_completions_in_order(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 7);
    struct ibv_qp *qp = api_flushing_qp(api, cq);

    api_flush(api, qp, 0, 5);
    expect_ids(cq, 0, 3);
    assert_int_equal(ibv_resize_cq(cq, 100), 0);
    assert_true(cq->cqe >= 100);
    api_flush(api, qp, 5, 60);
    expect_ids(cq, 3, 50);
    assert_int_equal(ibv_resize_cq(cq, 12), 0);
    assert_true(cq->cqe >= 12 && cq->cqe < 100);
    expect_ids(cq, 53, 12);
    api_flush(api, qp, 65, 2);
    expect_ids(cq, 65, 2);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void resize_cq__below_pending_completions_or_out_of_range__is_einval_and_changes_nothing(
    void **state)
{
    const struct api *api = *state;
    static const int wrong[] = { 0, -1, 4194304, 1 };
    struct ibv_cq *cq = api_cq(api, 7);
    struct ibv_qp *qp = api_flushing_qp(api, cq);
    int before = cq->cqe;

    api_flush(api, qp, 0, 2);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(ibv_resize_cq(cq, wrong[i]), EINVAL);
        assert_int_equal(cq->cqe, before);
    }
    expect_ids(cq, 0, 2);
    assert_int_equal(ibv_resize_cq(cq, 1), 0);
    assert_int_equal(ibv_resize_cq(cq, 4194303), 0);
    assert_int_equal(cq->cqe, 4194303);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void resize_cq__more_completions_than_the_old_size__no_overrun(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 1);
    struct ibv_qp *qp = api_flushing_qp(api, cq);

    api_flush(api, qp, 0, (uint64_t)cq->cqe);
    assert_int_equal(ibv_resize_cq(cq, 16), 0);
    api_flush(api, qp, 1, 15);
    expect_ids(cq, 0, 16);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void resize_cq__of_an_armed_cq__cq_remains_armed(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct ibv_cq *cq = ibv_create_cq(api->context, 4, NULL, channel, 0), *notified;
    struct ibv_qp *qp = api_flushing_qp(api, cq);
    void *context;

    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    assert_int_equal(ibv_resize_cq(cq, 50), 0);
    api_flush(api, qp, 0, 1);
    assert_int_equal(ibv_get_cq_event(channel, &notified, &context), 0);
    assert_ptr_equal(notified, cq);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

#define STREAM 100000u
#define IN_CQ  60u

struct stream {
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    uint64_t disordered;
    atomic_bool done;
};

/* Posts and polls, with IN_CQ completions waiting most of the time. */
static void *run_stream(void *argument)
{
    struct stream *stream = argument;
    uint64_t posted = 0, seen = 0;
    struct ibv_wc wc[8];

    while (seen < STREAM) {
        while (posted < STREAM && posted - seen < IN_CQ && api_post_id(stream->qp, posted) == 0)
            posted++;
        int count = ibv_poll_cq(stream->cq, 8, wc);
        for (int i = 0; i < count; i++)
            stream->disordered += wc[i].wr_id != seen++;
    }
    atomic_store(&stream->done, true);
    return NULL;
}

static void resize_cq__while_a_thread_posts_and_polls__nothing_is_lost_or_moved(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 63);
    struct stream stream = { .qp = api_flushing_qp(api, cq), .cq = cq };
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run_stream, &stream), 0);
    for (unsigned turn = 0; !atomic_load(&stream.done); turn++)
        assert_int_equal(ibv_resize_cq(cq, 63 << turn % 4), 0);
    pthread_join(thread, NULL);
    assert_int_equal(stream.disordered, 0);
    assert_int_equal(ibv_destroy_qp(stream.qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(resize_cq__larger_and_smaller__keeps_completions_in_order),
        API_TEST(
            resize_cq__below_pending_completions_or_out_of_range__is_einval_and_changes_nothing),
        API_TEST(resize_cq__more_completions_than_the_old_size__no_overrun),
        API_TEST(resize_cq__of_an_armed_cq__cq_remains_armed),
        API_TEST(resize_cq__while_a_thread_posts_and_polls__nothing_is_lost_or_moved),
    };
    return API_RUN(tests);
}
