/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <string.h>

/* One queue pair with a registered buffer. The test chooses its peer. */
struct stand {
    const struct api *api;
    struct side side;
    struct ibv_sge sge;
    struct ibv_send_wr wr;
};

static void stand_open(struct stand *stand, const struct api *api, struct ibv_qp_cap cap)
{
    stand->api = api;
    stand->side.cq = api_cq(api, 64);
    struct ibv_qp_init_attr init = api_qp_attr(stand->side.cq);
    init.cap = cap;
    stand->side.qp = ibv_create_qp(api->pd, &init);
    assert_non_null(stand->side.qp);
    stand->side.mr = ibv_reg_mr(api->pd, stand->side.buffer, API_BUFFER, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(stand->side.mr);
    stand->sge = api_sge(&stand->side, 0, 8);
    stand->wr = api_send(IBV_WR_SEND, &stand->sge);
}

static void stand_close(struct stand *stand)
{
    assert_int_equal(ibv_destroy_qp(stand->side.qp), 0);
    assert_int_equal(ibv_destroy_cq(stand->side.cq), 0);
    assert_int_equal(ibv_dereg_mr(stand->side.mr), 0);
}

static const struct ibv_qp_cap usual = { 4, 4, 2, 2, 0 };

/* rule POST.ERRORS: expects that the request is refused with @error, and that *bad_wr points to
 * it. */
static void expect_refusal(struct stand *stand, int error)
{
    struct ibv_send_wr *bad = NULL;

    assert_int_equal(ibv_post_send(stand->side.qp, &stand->wr, &bad), error);
    assert_ptr_equal(bad, &stand->wr);
}

/* Connects the queue pair and moves it to SQD, where requests are queued and not started. */
static void connect_and_drain(struct stand *stand)
{
    api_connect(stand->api, stand->side.qp, 0x654321);
    assert_int_equal(api_go(stand->api, stand->side.qp, IBV_QPS_SQD, 0), 0);
}

/* bug B25 */
static void post_send__before_rts__is_einval(void **state)
{
    struct stand stand;

    stand_open(&stand, *state, usual);
    expect_refusal(&stand, EINVAL);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_INIT, 5), 0);
    expect_refusal(&stand, EINVAL);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_RTR, 5), 0);
    expect_refusal(&stand, EINVAL);
    stand_close(&stand);
}

/* bug B25 */
static void post_recv__in_reset__is_einval_and_later_accepted(void **state)
{
    struct stand stand;
    struct ibv_recv_wr wr = { .wr_id = 1 }, *bad = NULL;

    stand_open(&stand, *state, usual);
    assert_int_equal(ibv_post_recv(stand.side.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_INIT, 5), 0);
    assert_int_equal(ibv_post_recv(stand.side.qp, &wr, &bad), 0);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_RTR, 5), 0);
    assert_int_equal(ibv_post_recv(stand.side.qp, &wr, &bad), 0);
    stand_close(&stand);
}

static void post_recv__of_more_elements_than_granted__is_einval(void **state)
{
    struct stand stand;
    struct ibv_sge sges[3] = { { 0 } };
    struct ibv_recv_wr wr = { .sg_list = sges, .num_sge = 3 }, *bad = NULL;

    stand_open(&stand, *state, usual);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_INIT, 5), 0);
    assert_int_equal(ibv_post_recv(stand.side.qp, &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    wr.num_sge = -1;
    assert_int_equal(ibv_post_recv(stand.side.qp, &wr, &bad), EINVAL);
    stand_close(&stand);
}

static void post_recv__when_full__is_enomem_and_keeps_earlier_requests(void **state)
{
    struct stand stand;
    struct ibv_recv_wr wrs[6] = { { 0 } }, *bad = NULL;

    stand_open(&stand, *state, usual);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_INIT, 5), 0);
    for (uint64_t i = 0; i < 6; i++)
        wrs[i] = (struct ibv_recv_wr){ .wr_id = i, .next = i < 5 ? &wrs[i + 1] : NULL };
    assert_int_equal(ibv_post_recv(stand.side.qp, wrs, &bad), ENOMEM);
    assert_ptr_equal(bad, &wrs[4]);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_ERR, 5), 0);
    for (uint64_t i = 0; i < 4; i++)
        api_expect(stand.side.cq, i, IBV_WC_WR_FLUSH_ERR);
    stand_close(&stand);
}

static void post_send__when_full__is_enomem_and_keeps_earlier_requests(void **state)
{
    struct stand stand;
    struct ibv_send_wr wrs[6], *bad = NULL;

    stand_open(&stand, *state, usual);
    connect_and_drain(&stand);
    for (uint64_t i = 0; i < 6; i++) {
        wrs[i] = stand.wr;
        wrs[i].wr_id = i;
        wrs[i].next = i < 5 ? &wrs[i + 1] : NULL;
    }
    assert_int_equal(ibv_post_send(stand.side.qp, wrs, &bad), ENOMEM);
    assert_ptr_equal(bad, &wrs[4]);
    expect_refusal(&stand, ENOMEM);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_ERR, 5), 0);
    for (uint64_t i = 0; i < 4; i++)
        api_expect(stand.side.cq, i, IBV_WC_WR_FLUSH_ERR);
    stand_close(&stand);
}

static void post_send__wrong_in_the_middle_of_a_list__keeps_earlier_requests(void **state)
{
    struct stand stand;
    struct ibv_send_wr wrs[3], *bad = NULL;

    stand_open(&stand, *state, usual);
    connect_and_drain(&stand);
    wrs[0] = wrs[1] = wrs[2] = stand.wr;
    wrs[0].wr_id = 77;
    wrs[0].next = &wrs[1];
    wrs[1].next = &wrs[2];
    wrs[1].num_sge = 3;
    assert_int_equal(ibv_post_send(stand.side.qp, wrs, &bad), EINVAL);
    assert_ptr_equal(bad, &wrs[1]);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_ERR, 5), 0);
    api_expect(stand.side.cq, 77, IBV_WC_WR_FLUSH_ERR);
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(stand.side.cq, 1, &wc), 0);
    stand_close(&stand);
}

static void post_send__elements_out_of_range__is_einval(void **state)
{
    struct stand stand;
    struct ibv_sge sges[3];

    stand_open(&stand, *state, usual);
    connect_and_drain(&stand);
    sges[0] = sges[1] = sges[2] = stand.sge;
    stand.wr.sg_list = sges;
    stand.wr.num_sge = 3;
    expect_refusal(&stand, EINVAL);
    stand.wr.num_sge = -1;
    expect_refusal(&stand, EINVAL);
    stand.wr.num_sge = 2; /* the longest message has 2^31 bytes */
    sges[0].length = UINT32_C(1) << 31;
    sges[1].length = 1;
    expect_refusal(&stand, EINVAL);
    stand_close(&stand);
}

static void post_send__unsupported_opcodes_or_flags__are_einval(void **state)
{
    static const int opcodes[] = { IBV_WR_TSO, IBV_WR_DRIVER1, 14, 16, 255, -1 };
    struct stand stand;

    stand_open(&stand, *state, usual);
    connect_and_drain(&stand);
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        stand.wr.opcode = (enum ibv_wr_opcode)opcodes[i];
        expect_refusal(&stand, EINVAL);
    }
    stand.wr.opcode = IBV_WR_SEND;
    stand.wr.send_flags = IBV_SEND_IP_CSUM;
    expect_refusal(&stand, EINVAL);
    stand_close(&stand);
}

static void post_send__inline__einval_for_too_long_data_or_reads_and_atomics(void **state)
{
    struct stand stand;
    struct ibv_qp_cap cap = usual;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ibv_send_wr *bad;

    cap.max_inline_data = 40;
    stand_open(&stand, *state, cap);
    connect_and_drain(&stand);
    assert_int_equal(ibv_query_qp(stand.side.qp, &attr, IBV_QP_CAP, &init), 0);
    stand.wr.send_flags |= IBV_SEND_INLINE;
    stand.sge.length = attr.cap.max_inline_data + 1;
    expect_refusal(&stand, EINVAL);
    stand.sge.length = attr.cap.max_inline_data;
    assert_int_equal(ibv_post_send(stand.side.qp, &stand.wr, &bad), 0);
    stand.sge.length = 8;
    stand.wr.opcode = IBV_WR_RDMA_READ;
    expect_refusal(&stand, EINVAL);
    stand.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    expect_refusal(&stand, EINVAL);
    stand_close(&stand);
}

static void post_send__atomics__need_eight_bytes(void **state)
{
    struct stand stand;
    struct ibv_send_wr *bad;

    stand_open(&stand, *state, usual);
    connect_and_drain(&stand);
    static const enum ibv_wr_opcode opcodes[] = { IBV_WR_ATOMIC_CMP_AND_SWP,
                                                  IBV_WR_ATOMIC_FETCH_AND_ADD,
                                                  IBV_WR_ATOMIC_WRITE };
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        stand.wr.opcode = opcodes[i];
        stand.wr.wr.atomic.remote_addr = 0x1008;
        stand.sge.length = 4;
        expect_refusal(&stand, EINVAL);
        stand.sge.length = 16;
        expect_refusal(&stand, EINVAL);
        stand.sge.length = 8;
        assert_int_equal(ibv_post_send(stand.side.qp, &stand.wr, &bad), 0);
    }
    stand_close(&stand);
}

static void posting__in_error__is_accepted_and_flushed(void **state)
{
    struct stand stand;
    struct ibv_send_wr *bad;

    stand_open(&stand, *state, usual);
    api_connect(*state, stand.side.qp, 0x654321);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_ERR, 5), 0);
    stand.wr.wr_id = 5;
    stand.wr.send_flags = 0; /* a flushed request completes even if it is unsignaled */
    assert_int_equal(ibv_post_send(stand.side.qp, &stand.wr, &bad), 0);
    api_expect(stand.side.cq, 5, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(api_post_recv(&stand.side, 6, &stand.sge), 0);
    api_expect(stand.side.cq, 6, IBV_WC_WR_FLUSH_ERR);
    stand_close(&stand);
}

static void modify_qp__to_reset__drops_posted_requests_and_empties_queues(void **state)
{
    struct stand stand;
    struct ibv_wc wc;
    struct ibv_send_wr *bad;

    stand_open(&stand, *state, usual);
    connect_and_drain(&stand);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ibv_post_send(stand.side.qp, &stand.wr, &bad), 0);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_RESET, 5), 0);
    assert_int_equal(ibv_poll_cq(stand.side.cq, 1, &wc), 0);
    connect_and_drain(&stand);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ibv_post_send(stand.side.qp, &stand.wr, &bad), 0);
    stand_close(&stand);
}

static void destroy_qp__completions_pending__are_removed(void **state)
{
    struct stand stand;
    struct ibv_wc wc;

    stand_open(&stand, *state, usual);
    struct ibv_qp *other = api_qp(*state, stand.side.cq);
    api_connect(*state, other, 0x654321);
    api_connect(*state, stand.side.qp, 0x654321);
    struct ibv_recv_wr wr = { .wr_id = 9 }, *bad;
    assert_int_equal(ibv_post_recv(other, &wr, &bad), 0);
    assert_int_equal(api_post_recv(&stand.side, 8, NULL), 0);
    assert_int_equal(api_go(*state, other, IBV_QPS_ERR, 5), 0);
    assert_int_equal(api_go(*state, stand.side.qp, IBV_QPS_ERR, 5), 0);
    assert_int_equal(ibv_destroy_qp(other), 0);
    api_expect(stand.side.cq, 8, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_poll_cq(stand.side.cq, 1, &wc), 0);
    stand_close(&stand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(post_send__before_rts__is_einval),
        API_TEST(post_recv__in_reset__is_einval_and_later_accepted),
        API_TEST(post_recv__of_more_elements_than_granted__is_einval),
        API_TEST(post_recv__when_full__is_enomem_and_keeps_earlier_requests),
        API_TEST(post_send__when_full__is_enomem_and_keeps_earlier_requests),
        API_TEST(post_send__wrong_in_the_middle_of_a_list__keeps_earlier_requests),
        API_TEST(post_send__elements_out_of_range__is_einval),
        API_TEST(post_send__unsupported_opcodes_or_flags__are_einval),
        API_TEST(post_send__inline__einval_for_too_long_data_or_reads_and_atomics),
        API_TEST(post_send__atomics__need_eight_bytes),
        API_TEST(posting__in_error__is_accepted_and_flushed),
        API_TEST(modify_qp__to_reset__drops_posted_requests_and_empties_queues),
        API_TEST(destroy_qp__completions_pending__are_removed),
    };
    return API_RUN(tests);
}
