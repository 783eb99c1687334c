/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests shared receive queues: creation, posting, receiving, resizing. */
#include "api/srq.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static void expect_refused(const struct api *api, uint32_t max_wr, uint32_t max_sge)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = max_wr, .max_sge = max_sge } };

    errno = 0;
    assert_null(ibv_create_srq(api->pd, &init));
    assert_int_equal(errno, EINVAL);
}

static void create_srq__any_capacity__has_at_least_this_capacity(void **state)
{
    const struct api *api = *state;
    struct ibv_device_attr device;

    assert_int_equal(ibv_query_device(api->context, &device), 0);
    assert_true(device.max_srq >= 917503);
    assert_true(device.max_srq_wr >= 1048576);
    assert_true(device.max_srq_sge >= 27);
    assert_true(device.device_cap_flags & IBV_DEVICE_SRQ_RESIZE);
    const uint32_t sizes[] = { 1, 3, 100, (uint32_t)device.max_srq_wr };
    const uint32_t slots[] = { 1, 4, 128, (uint32_t)device.max_srq_wr };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ibv_srq_init_attr init = { .srq_context = &device,
                                          .attr = { .max_wr = sizes[i], .max_sge = 3 } };
        struct ibv_srq *srq = ibv_create_srq(api->pd, &init);
        struct ibv_srq_attr attr;
        assert_non_null(srq);
        assert_ptr_equal(srq->srq_context, &device);
        assert_ptr_equal(srq->pd, api->pd);
        assert_int_equal(ibv_query_srq(srq, &attr), 0);
        assert_int_equal(attr.max_wr, slots[i]);
        assert_int_equal(init.attr.max_wr, slots[i]);
        assert_int_equal(attr.max_sge, 3);
        assert_int_equal(attr.srq_limit, 0);
        assert_int_equal(ibv_destroy_srq(srq), 0);
    }
    expect_refused(api, 0, 1);
    expect_refused(api, (uint32_t)device.max_srq_wr + 1, 1);
    expect_refused(api, UINT32_MAX, 1);
    expect_refused(api, 1, (uint32_t)device.max_srq_sge + 1);
}

static void create_srq_ex__basic_srq__needs_only_a_pd(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr_ex init = { .attr = { .max_wr = 4, .max_sge = 1 }, .pd = api->pd };

    init.comp_mask = IBV_SRQ_INIT_ATTR_PD;
    struct ibv_srq *srq = ibv_create_srq_ex(api->context, &init);
    assert_non_null(srq);
    uint32_t number;
    assert_int_equal(ibv_get_srq_num(srq, &number), EINVAL); /* only SRQs of XRC have numbers */
    assert_int_equal(ibv_destroy_srq(srq), 0);
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    errno = 0;
    assert_null(ibv_create_srq_ex(api->context, &init));
    assert_int_equal(errno, EINVAL);
    init.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_TM;
    init.srq_type = IBV_SRQT_TM;
    errno = 0;
    assert_null(ibv_create_srq_ex(api->context, &init));
    assert_int_equal(errno, EOPNOTSUPP);
}

static void modify_srq__one_value_wrong__changes_nothing(void **state)
{
    const struct api *api = *state;
    struct ibv_srq *srq = srq_create(api, 8);
    struct ibv_srq_attr attr = { .max_wr = 4, .srq_limit = 5 };
    const int both = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;

    assert_int_equal(ibv_modify_srq(srq, &attr, both), EINVAL); /* a limit beyond the size */
    assert_int_equal(ibv_modify_srq(srq, &attr, 4), EINVAL);
    attr.max_wr = 0;
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    attr.srq_limit = 9;
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
    assert_int_equal(ibv_query_srq(srq, &attr), 0);
    assert_int_equal(attr.max_wr, 8);
    assert_int_equal(attr.srq_limit, 0);

    attr.srq_limit = 8;
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    attr.max_wr = 4;
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL); /* below its limit */
    for (uint64_t id = 0; id < 5; id++)
        assert_int_equal(api_post_srq(srq, id, NULL), 0);
    attr.srq_limit = 2;
    assert_int_equal(ibv_modify_srq(srq, &attr, both),
                     EINVAL); /* below the number of posted receives */
    assert_int_equal(ibv_query_srq(srq, &attr), 0);
    assert_int_equal(attr.max_wr, 8);
    assert_int_equal(attr.srq_limit, 8);
    attr.max_wr = 5;
    attr.srq_limit = 2;
    assert_int_equal(ibv_modify_srq(srq, &attr, both), 0);
    assert_int_equal(ibv_query_srq(srq, &attr), 0);
    assert_int_equal(attr.max_wr, 8); /* slots */
    assert_int_equal(attr.srq_limit, 2);
    assert_int_equal(ibv_modify_srq(srq, &attr, 0), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void post_srq_recv__wrong_request__bad_wr_points_to_it(void **state)
{
    const struct api *api = *state;
    struct ibv_srq *srq = srq_create(api, 4);
    struct ibv_sge sges[3] = { { 0 } };
    struct ibv_recv_wr wrs[6] = { { 0 } }, *bad = NULL;

    wrs[0] = (struct ibv_recv_wr){ .sg_list = sges, .num_sge = 3 };
    assert_int_equal(ibv_post_srq_recv(srq, wrs, &bad), EINVAL);
    assert_ptr_equal(bad, wrs);
    wrs[0].num_sge = -1;
    assert_int_equal(ibv_post_srq_recv(srq, wrs, &bad), EINVAL);
    for (uint64_t i = 0; i < 6; i++)
        wrs[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i < 5 ? &wrs[i + 1] : NULL };
    assert_int_equal(ibv_post_srq_recv(srq, wrs, &bad), ENOMEM);
    assert_ptr_equal(bad, &wrs[4]);
    assert_int_equal(api_post_srq(srq, 9, NULL),
                     ENOMEM); /* the four receives before it are still posted */
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void srq__several_queue_pairs__use_receives_in_order(void **state)
{
    static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct srq_stand stand;
        srq_stand_open(&stand, *state, types[i]);
        struct ibv_sge to[4];
        for (uint64_t id = 0; id < 4; id++) {
            to[id] = api_sge(&stand.one.b, id * 100, 100);
            assert_int_equal(api_post_srq(stand.srq, id, &to[id]), 0);
        }
        for (uint64_t id = 0; id < 4; id++) {
            struct pair *pair = id % 2 ? &stand.two : &stand.one;
            srq_send(pair);
            struct ibv_wc wc = api_wait(pair->b.cq);
            assert_int_equal(wc.wr_id, id);
            assert_int_equal(wc.status, IBV_WC_SUCCESS);
            assert_int_equal(wc.qp_num, pair->b.qp->qp_num);
            assert_memory_equal(stand.one.b.buffer + id * 100, pair->a.buffer, 16);
            api_expect(pair->a.cq, 1, IBV_WC_SUCCESS);
        }
        srq_stand_close(&stand);
    }
}

/* rule SRQ.PD: the keys of a shared receive are checked against the PD of the queue, not of the
 * queue pair that takes the receive. */
static void receive__pd_differs_from_the_queue_pairs__arrives(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 2 } };
    struct ibv_pd *pd = ibv_alloc_pd(api->context);
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    static uint8_t buffer[64];
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge to = { (uintptr_t)buffer, sizeof buffer, mr->lkey };
    struct pair pair;

    api_side_open(api, &pair.a, NULL, IBV_QPT_RC, NULL);
    api_side_open(api, &pair.b, NULL, IBV_QPT_RC, srq);
    api_pair_join(api, &pair);
    memset(pair.a.buffer, 'x', 16);
    assert_int_equal(api_post_srq(srq, 4, &to), 0);
    srq_send(&pair);
    api_expect(pair.b.cq, 4, IBV_WC_SUCCESS);
    assert_memory_equal(buffer, pair.a.buffer, 16);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void srq__empty__sender_waits_until_a_receive_is_posted(void **state)
{
    struct srq_stand stand;
    struct ibv_wc wc;

    srq_stand_open(&stand, *state, IBV_QPT_RC);
    struct ibv_sge to = api_sge(&stand.two.b, 0, 100);
    srq_send(&stand.two);
    assert_int_equal(ibv_poll_cq(stand.two.a.cq, 1, &wc), 0);
    assert_int_equal(api_post_srq(stand.srq, 5, &to), 0);
    api_expect(stand.two.b.cq, 5, IBV_WC_SUCCESS);
    api_expect(stand.two.a.cq, 1, IBV_WC_SUCCESS);
    srq_stand_close(&stand);
}

static void post_recv__on_a_queue_pair_of_a_shared_queue__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_srq *srq = srq_create(api, 4);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct side side;

    api_side_open(api, &side, NULL, IBV_QPT_RC, srq);
    assert_int_equal(api_go(api, side.qp, IBV_QPS_INIT, 5), 0);
    assert_int_equal(api_post_recv(&side, 1, NULL), EINVAL);
    assert_int_equal(ibv_query_qp(side.qp, &attr, IBV_QP_CAP, &init), 0);
    assert_ptr_equal(init.srq, srq);
    assert_int_equal(attr.cap.max_recv_wr, 0);
    assert_int_equal(ibv_destroy_srq(srq), EBUSY);
    api_side_close(&side);
    assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void resize__with_receives_waiting__keeps_them_in_order(void **state)
{
    struct srq_stand stand;
    struct ibv_srq_attr attr = { .max_wr = 100 };

    srq_stand_open(&stand, *state, IBV_QPT_RC);
    struct ibv_sge to = api_sge(&stand.one.b, 0, 100);
    for (uint64_t id = 0; id < 4; id++)
        assert_int_equal(api_post_srq(stand.srq, id, &to), 0);
    srq_send(&stand.one);
    api_expect(stand.one.b.cq, 0, IBV_WC_SUCCESS);
    assert_int_equal(ibv_modify_srq(stand.srq, &attr, IBV_SRQ_MAX_WR), 0);
    for (uint64_t id = 4; id < 101; id++)
        assert_int_equal(api_post_srq(stand.srq, id, &to), 0);
    for (uint64_t id = 1; id < 9; id++) {
        srq_send(&stand.one);
        api_expect(stand.one.b.cq, id, IBV_WC_SUCCESS);
    }
    attr.max_wr = 92;
    assert_int_equal(ibv_modify_srq(stand.srq, &attr, IBV_SRQ_MAX_WR), 0);
    for (uint64_t id = 101; id < 137; id++) /* until its 128 slots are full */
        assert_int_equal(api_post_srq(stand.srq, id, &to), 0);
    assert_int_equal(api_post_srq(stand.srq, 137, &to), ENOMEM);
    srq_send(&stand.two);
    api_expect(stand.two.b.cq, 9, IBV_WC_SUCCESS);
    srq_stand_close(&stand);
}

struct poster {
    struct srq_stand *stand;
    atomic_bool stop;
};

/* Posts as many receives as the queue takes, repeatedly, with increasing wr_id. */
static void *post_for_ever(void *argument)
{
    struct poster *poster = argument;
    struct ibv_sge to = api_sge(&poster->stand->one.b, 0, 100);

    for (uint64_t id = 0; !atomic_load(&poster->stop);)
        id += api_post_srq(poster->stand->srq, id, &to) == 0;
    return NULL;
}

static void resize__while_a_thread_posts__loses_and_repeats_no_receive(void **state)
{
    struct srq_stand stand;
    struct poster poster = { .stand = &stand };
    pthread_t thread;

    srq_stand_open(&stand, *state, IBV_QPT_RC);
    assert_int_equal(pthread_create(&thread, NULL, post_for_ever, &poster), 0);
    for (uint64_t id = 0; id < 500; id++) {
        struct ibv_srq_attr attr = { .max_wr = 1 + (uint32_t)(id * 7 % 40) };
        int error = ibv_modify_srq(stand.srq, &attr, IBV_SRQ_MAX_WR);
        assert_true(error == 0 || error == EINVAL); /* too small for the posted receives */
        struct pair *pair = id % 2 ? &stand.two : &stand.one;
        srq_send(pair);
        api_expect(pair->b.cq, id, IBV_WC_SUCCESS);
        api_expect(pair->a.cq, 1, IBV_WC_SUCCESS);
    }
    atomic_store(&poster.stop, true);
    pthread_join(thread, NULL);
    srq_stand_close(&stand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(create_srq__any_capacity__has_at_least_this_capacity),
        API_TEST(create_srq_ex__basic_srq__needs_only_a_pd),
        API_TEST(modify_srq__one_value_wrong__changes_nothing),
        API_TEST(post_srq_recv__wrong_request__bad_wr_points_to_it),
        API_TEST(srq__several_queue_pairs__use_receives_in_order),
        API_TEST(receive__pd_differs_from_the_queue_pairs__arrives),
        API_TEST(srq__empty__sender_waits_until_a_receive_is_posted),
        API_TEST(post_recv__on_a_queue_pair_of_a_shared_queue__is_einval),
        API_TEST(resize__with_receives_waiting__keeps_them_in_order),
        API_TEST(resize__while_a_thread_posts__loses_and_repeats_no_receive),
    };
    return API_RUN(tests);
}
