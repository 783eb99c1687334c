/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>

static void pd__used_by_an_mr_a_qp_or_an_ah__is_busy(void **state)
{
    const struct api *api = *state;
    static uint8_t buffer[64];
    struct ibv_pd *pd = ibv_alloc_pd(api->context);
    struct ibv_ah_attr address = api_attr(api, 0).ah_attr;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr attr = api_qp_attr(cq);

    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, 0);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    struct ibv_ah *ah = ibv_create_ah(pd, &address);
    assert_non_null(ah);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void alloc_pd__several__have_different_numbers(void **state)
{
    const struct api *api = *state;
    struct ibv_pd *one = ibv_alloc_pd(api->context), *two = ibv_alloc_pd(api->context);

    assert_int_not_equal(one->handle, two->handle);
    assert_ptr_equal(one->context, api->context);
    ibv_dealloc_pd(one);
    ibv_dealloc_pd(two);
}

static void create_cq__any_capacity__has_at_least_this_capacity(void **state)
{
    static const int sizes[] = { 1, 2, 3, 4, 100, 1023, 1024, 4194303 };
    const struct api *api = *state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ibv_cq *cq = ibv_create_cq(api->context, sizes[i], (void *)&sizes[i], NULL, 0);
        assert_non_null(cq);
        assert_true(cq->cqe >= sizes[i]);
        assert_ptr_equal(cq->cq_context, &sizes[i]);
        assert_int_equal(ibv_destroy_cq(cq), 0);
    }
}

static void cq__wrong_arguments__is_einval(void **state)
{
    static const struct {
        int cqe, vector;
    } wrong[] = { { 0, 0 }, { -1, 0 }, { 4194304, 0 }, { 1, -1 }, { 1, 1 } };
    const struct api *api = *state;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        errno = 0;
        assert_null(ibv_create_cq(api->context, wrong[i].cqe, NULL, NULL, wrong[i].vector));
        assert_int_equal(errno, EINVAL);
    }
}

static void cq__with_a_channel_of_another_context__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_context *context = ibv_open_device(api->device);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);

    errno = 0;
    assert_null(ibv_create_cq(api->context, 1, NULL, channel, 0));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void cq__used_by_a_qp__is_busy(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *send = api_cq(api, 4), *recv = api_cq(api, 4);
    struct ibv_qp_init_attr attr = api_qp_attr(send);

    attr.recv_cq = recv;
    struct ibv_qp *qp = ibv_create_qp(api->pd, &attr);
    assert_int_equal(ibv_destroy_cq(send), EBUSY);
    assert_int_equal(ibv_destroy_cq(recv), EBUSY);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(send), 0);
    assert_int_equal(ibv_destroy_cq(recv), 0);
}

static void cq__empty__polls_zero(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_wc wc[4];

    assert_int_equal(ibv_poll_cq(cq, 4, wc), 0);
    assert_int_equal(ibv_poll_cq(cq, 0, wc), 0);
    assert_true(ibv_poll_cq(cq, -1, wc) < 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void channel__used_by_a_cq__is_busy(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct ibv_cq *cq = ibv_create_cq(api->context, 4, NULL, channel, 0);

    assert_non_null(cq);
    assert_ptr_equal(cq->channel, channel);
    assert_int_equal(ibv_destroy_comp_channel(channel), EBUSY);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void channel__nonblocking_without_events__is_eagain(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pollfd wait = { .fd = channel->fd, .events = POLLIN };
    struct ibv_cq *cq;
    void *context;

    assert_true(fcntl(channel->fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(poll(&wait, 1, 0), 0);
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    errno = 0;
    assert_int_equal(ibv_get_cq_event(channel, &cq, &context), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

static void address__that_roce_cannot_reach__is_einval(void **state)
{
    const struct api *api = *state;
    const struct ibv_ah_attr good = api_attr(api, 0).ah_attr;
    struct ibv_ah_attr wrong[4] = { good, good, good, good };

    wrong[0].is_global = 0;
    wrong[1].port_num = 2;
    wrong[2].grh.sgid_index = 9; /* an empty slot */
    memset(&wrong[3].grh.dgid, 0, sizeof wrong[3].grh.dgid);
    for (int i = 0; i < 4; i++) {
        errno = 0;
        assert_null(ibv_create_ah(api->pd, &wrong[i]));
        assert_int_equal(errno, EINVAL);
    }
}

static void verbs__unsupported__are_eopnotsupp(void **state)
{
    const struct api *api = *state;
    struct ibv_counters_init_attr counters = { 0 };
    uint8_t mac[ETHERNET_LL_SIZE];

#define REFUSED(call)                                                                              \
    errno = 0;                                                                                     \
    assert_null(call);                                                                             \
    assert_int_equal(errno, EOPNOTSUPP)

    REFUSED(ibv_create_counters(api->context, &counters));
    REFUSED(ibv_reg_dmabuf_mr(api->pd, 0, 64, 0, 0, 0));
    assert_int_equal(ibv_resolve_eth_l2_from_gid(api->context, NULL, mac, NULL), -1);
}

static void fork_init__called__succeeds(void **state)
{
    (void)state;
    assert_int_equal(ibv_fork_init(), 0);
    assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

/* Objects that the program did not destroy become inaccessible, as with a kernel. Destroying them
 * later is harmless. */
static void close_device__with_objects_left__they_can_be_destroyed(void **state)
{
    const struct api *api = *state;
    static uint8_t buffer[64];
    struct ibv_context *context = ibv_open_device(api->device);
    struct api other = { .device = api->device, .context = context, .pd = ibv_alloc_pd(context) };
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, channel, 0);
    struct ibv_qp *qp = api_qp(&other, cq);
    struct ibv_mr *mr = ibv_reg_mr(other.pd, buffer, sizeof buffer, 0);

    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    assert_int_equal(ibv_dealloc_pd(other.pd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(pd__used_by_an_mr_a_qp_or_an_ah__is_busy),
        API_TEST(alloc_pd__several__have_different_numbers),
        API_TEST(create_cq__any_capacity__has_at_least_this_capacity),
        API_TEST(cq__wrong_arguments__is_einval),
        API_TEST(cq__with_a_channel_of_another_context__is_einval),
        API_TEST(cq__used_by_a_qp__is_busy),
        API_TEST(cq__empty__polls_zero),
        API_TEST(channel__used_by_a_cq__is_busy),
        API_TEST(channel__nonblocking_without_events__is_eagain),
        API_TEST(address__that_roce_cannot_reach__is_einval),
        API_TEST(verbs__unsupported__are_eopnotsupp),
        API_TEST(fork_init__called__succeeds),
        API_TEST(close_device__with_objects_left__they_can_be_destroyed),
    };
    return API_RUN(tests);
}
