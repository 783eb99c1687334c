/* SPDX-License-Identifier: BSD-3-Clause */
/* test_quota.c - tests a device whose configuration allows two objects of each kind and 1 MiB of
 * registered memory. */
#include "api/api.h"

#include <string.h>

#define MEBIBYTE 1048576u

static uint8_t memory[2 * MEBIBYTE];

/* Functions that create and destroy each kind of object, with this PD and this CQ if needed. */
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static void *new_pd(const struct api *api)
{
    return ibv_alloc_pd(api->context);
}

static int end_pd(void *object)
{
    return ibv_dealloc_pd(object);
}

static void *new_cq(const struct api *api)
{
    return ibv_create_cq(api->context, 4, NULL, NULL, 0);
}

static int end_cq(void *object)
{
    return ibv_destroy_cq(object);
}

static void *new_qp(const struct api *api)
{
    struct ibv_qp_init_attr attr = api_qp_attr(cq);

    (void)api;
    return ibv_create_qp(pd, &attr);
}

static int end_qp(void *object)
{
    return ibv_destroy_qp(object);
}

static void *new_srq(const struct api *api)
{
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

    (void)api;
    return ibv_create_srq(pd, &attr);
}

static int end_srq(void *object)
{
    return ibv_destroy_srq(object);
}

static void *new_mr(const struct api *api)
{
    (void)api;
    return ibv_reg_mr(pd, memory, 64, 0);
}

static int end_mr(void *object)
{
    return ibv_dereg_mr(object);
}

static void *new_mw(const struct api *api)
{
    (void)api;
    return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int end_mw(void *object)
{
    return ibv_dealloc_mw(object);
}

static void *new_ah(const struct api *api)
{
    struct ibv_ah_attr address = api_attr(api, 0).ah_attr;

    return ibv_create_ah(pd, &address);
}

static int end_ah(void *object)
{
    return ibv_destroy_ah(object);
}

/* Checks that the limit is two objects, of which @there exist already. The third object is refused.
 * After the others are destroyed, the same works again. */
static void two_and_no_more(const struct api *api, void *(*make)(const struct api *api),
                            int (*end)(void *object), unsigned there)
{
    void *objects[2] = { NULL, NULL };

    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = there; i < 2; i++)
            assert_non_null(objects[i] = make(api));
        errno = 0;
        assert_null(make(api));
        assert_int_equal(errno, ENOMEM);
        for (unsigned i = there; i < 2; i++)
            assert_int_equal(end(objects[i]), 0);
    }
}

static void objects__more_than_the_device_may_have__are_enomem(void **state)
{
    const struct api *api = *state;

    pd = api->pd;
    two_and_no_more(api, new_pd, end_pd, 1);
    two_and_no_more(api, new_cq, end_cq, 0);
    cq = api_cq(api, 4);
    two_and_no_more(api, new_qp, end_qp, 0);
    two_and_no_more(api, new_srq, end_srq, 0);
    two_and_no_more(api, new_mr, end_mr, 0);
    two_and_no_more(api, new_mw, end_mw, 0);
    two_and_no_more(api, new_ah, end_ah, 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void device__queried__reports_limits(void **state)
{
    const struct api *api = *state;
    struct ibv_device_attr attr;

    assert_int_equal(ibv_query_device(api->context, &attr), 0);
    const int all[] = { attr.max_qp, attr.max_cq, attr.max_srq, attr.max_mr,
                        attr.max_mw, attr.max_pd, attr.max_ah };
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_int_equal(all[i], 2);
}

static void memory__more_than_may_be_registered__is_enomem(void **state)
{
    const struct api *api = *state;

    assert_null(ibv_reg_mr(api->pd, memory, MEBIBYTE + 1, 0));
    assert_int_equal(errno, ENOMEM);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, MEBIBYTE, 0);
    assert_non_null(mr);
    assert_null(ibv_reg_mr(api->pd, memory, 1, 0));
    assert_int_equal(errno, ENOMEM);

    /* On-demand memory is not pinned, so it does not count. */
    struct ibv_mr *loose =
        ibv_reg_mr(api->pd, memory, sizeof memory, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(loose);
    assert_int_equal(ibv_dereg_mr(loose), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void memory__of_a_reregistered_region__is_counted_by_its_new_length(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, MEBIBYTE / 2, 0);

    assert_non_null(mr);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, MEBIBYTE + 1, 0),
        IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, MEBIBYTE, 0),
                     0);
    assert_null(ibv_reg_mr(api->pd, memory, 1, 0));
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 64, 0), 0);
    struct ibv_mr *other = ibv_reg_mr(api->pd, memory, MEBIBYTE - 64, 0);
    assert_non_null(other);
    assert_int_equal(ibv_dereg_mr(other), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void context__closed_with_objects__refunds_their_quota(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cqs[2];
    struct ibv_mr *mrs[2];

    for (unsigned turn = 0; turn < 3; turn++) {
        struct ibv_context *context = ibv_open_device(api->device);
        assert_non_null(context);
        for (unsigned i = 0; i < 2; i++)
            assert_non_null(cqs[i] = ibv_create_cq(context, 4, NULL, NULL, 0));
        struct ibv_pd *of_it = ibv_alloc_pd(context);
        for (unsigned i = 0; i < 2; i++)
            assert_non_null(mrs[i] = ibv_reg_mr(of_it, memory, MEBIBYTE / 2, 0));
        assert_int_equal(ibv_close_device(context), 0);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(ibv_destroy_cq(cqs[i]), 0);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
        assert_int_equal(ibv_dealloc_pd(of_it), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(objects__more_than_the_device_may_have__are_enomem),
        API_TEST(device__queried__reports_limits),
        API_TEST(memory__more_than_may_be_registered__is_enomem),
        API_TEST(memory__of_a_reregistered_region__is_counted_by_its_new_length),
        API_TEST(context__closed_with_objects__refunds_their_quota),
    };
    return API_RUN(tests);
}
