/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <string.h>

#define PEER 0x654321u

static void qp__just_created__is_in_reset_and_reports_its_objects(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr init = api_qp_attr(cq), shown;
    struct ibv_qp_attr attr;

    init.qp_context = &init;
    init.sq_sig_all = 1;
    init.cap.max_inline_data = 100;
    struct ibv_qp *qp = ibv_create_qp(api->pd, &init);
    assert_non_null(qp);
    assert_int_equal(qp->state, IBV_QPS_RESET);
    assert_int_equal(qp->qp_type, IBV_QPT_RC);
    assert_ptr_equal(qp->qp_context, &init);
    assert_true(qp->qp_num > 1 && qp->qp_num < 0xffffff);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &shown), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RESET);
    assert_memory_equal(&attr.cap, &init.cap, sizeof attr.cap);
    assert_memory_equal(&shown.cap, &init.cap, sizeof attr.cap);
    assert_ptr_equal(shown.qp_context, &init);
    assert_ptr_equal(shown.send_cq, cq);
    assert_ptr_equal(shown.recv_cq, cq);
    assert_null(shown.srq);
    assert_int_equal(shown.qp_type, IBV_QPT_RC);
    assert_int_equal(shown.sq_sig_all, 1);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

static void qps__created_in_a_row__have_unpredictable_numbers(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *one = api_qp(api, cq), *two = api_qp(api, cq);

    assert_true(one->qp_num + 1 != two->qp_num);
    assert_int_not_equal(one->qp_num, two->qp_num);
    ibv_destroy_qp(one);
    ibv_destroy_qp(two);
    ibv_destroy_cq(cq);
}

static void capabilities__requested__are_granted_and_written_back(void **state)
{
    static const struct ibv_qp_cap caps[] = {
        { 1, 1, 1, 1, 0 },
        { 0, 0, 0, 0, 0 },
        { 100, 1, 3, 1, 17 },
        { 1, 100, 1, 32, 256 },
        { 1048576, 1048576, 2, 2, 64 },
        { 8, 8, 1, 1, 1024 },
    };
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr shown;
    struct ibv_qp_attr attr;

    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        struct ibv_qp_init_attr init = api_qp_attr(cq);
        init.cap = caps[i];
        struct ibv_qp *qp = ibv_create_qp(api->pd, &init);
        assert_non_null(qp);
        assert_true(init.cap.max_send_wr >= caps[i].max_send_wr);
        assert_true(init.cap.max_recv_wr >= caps[i].max_recv_wr);
        assert_true(init.cap.max_send_sge >= caps[i].max_send_sge);
        assert_true(init.cap.max_recv_sge >= caps[i].max_recv_sge);
        assert_true(init.cap.max_inline_data >= caps[i].max_inline_data);
        assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &shown), 0);
        assert_memory_equal(&attr.cap, &init.cap, sizeof attr.cap);
        assert_int_equal(ibv_destroy_qp(qp), 0);
    }
    ibv_destroy_cq(cq);
}

/* The number of slots of a queue is a power of two. */
static void capabilities__of_queues__are_all_their_slots(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr init = api_qp_attr(cq), shown;
    struct ibv_qp_attr attr;
    uint64_t taken = 0;

    init.cap.max_send_wr = 33;
    init.cap.max_recv_wr = 100;
    struct ibv_qp *qp = ibv_create_qp(api->pd, &init);
    assert_non_null(qp);
    assert_int_equal(init.cap.max_send_wr, 64);
    assert_int_equal(init.cap.max_recv_wr, 128);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &shown), 0);
    assert_memory_equal(&attr.cap, &init.cap, sizeof attr.cap);
    assert_memory_equal(&shown.cap, &init.cap, sizeof attr.cap);
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, 0), 0);
    while (api_post_id(qp, taken) == 0)
        taken++;
    assert_int_equal(api_post_id(qp, taken), ENOMEM);
    assert_int_equal(taken, 128);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

static void capabilities__beyond_the_limits__are_einval(void **state)
{
    static const struct ibv_qp_cap caps[] = {
        { 1048577, 1, 1, 1, 0 }, { 1, 1048577, 1, 1, 0 }, { 1, 1, 33, 1, 0 },
        { 1, 1, 1, 33, 0 },      { 1, 1, 1, 1, 1025 },    { UINT32_MAX, 1, 1, 1, 0 },
    };
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);

    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) {
        struct ibv_qp_init_attr init = api_qp_attr(cq);
        init.cap = caps[i];
        errno = 0;
        assert_null(ibv_create_qp(api->pd, &init));
        assert_int_equal(errno, EINVAL);
    }
    ibv_destroy_cq(cq);
}

static void create_qp__type_unknown_to_roce__is_eopnotsupp(void **state)
{
    static const enum ibv_qp_type types[] = { IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER };
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr init = api_qp_attr(cq);

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        init.qp_type = types[i];
        errno = 0;
        assert_null(ibv_create_qp(api->pd, &init));
        assert_int_equal(errno, EOPNOTSUPP);
    }
    ibv_destroy_cq(cq);
}

/* Receiving XRC queue pairs have a domain, not a PD: ibv_create_qp_ex() makes them. */
static void xrc_recv__from_a_pd__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr init = api_qp_attr(cq);

    init.qp_type = IBV_QPT_XRC_RECV;
    errno = 0;
    assert_null(ibv_create_qp(api->pd, &init));
    assert_int_equal(errno, EINVAL);
    ibv_destroy_cq(cq);
}

static void create_qp__attribute_unknown_to_roce__is_eopnotsupp(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr_ex init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .pd = api->pd
    };
    static const uint32_t masks[] = { IBV_QP_INIT_ATTR_MAX_TSO_HEADER, IBV_QP_INIT_ATTR_IND_TABLE,
                                      IBV_QP_INIT_ATTR_RX_HASH, 1u << 20 };
    static const uint32_t flags[] = { IBV_QP_CREATE_SCATTER_FCS, IBV_QP_CREATE_CVLAN_STRIPPING,
                                      IBV_QP_CREATE_SOURCE_QPN, IBV_QP_CREATE_PCI_WRITE_END_PADDING,
                                      1u << 20 };

    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        init.comp_mask = IBV_QP_INIT_ATTR_PD | masks[i];
        errno = 0;
        assert_null(ibv_create_qp_ex(api->context, &init));
        assert_int_equal(errno, EOPNOTSUPP);
    }
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        init.create_flags = flags[i];
        errno = 0;
        assert_null(ibv_create_qp_ex(api->context, &init));
        assert_int_equal(errno, EOPNOTSUPP);
    }
    init.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    struct ibv_qp *qp = ibv_create_qp_ex(api->context, &init);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    init.qp_type = IBV_QPT_RC; /* RC has no multicast */
    errno = 0;
    assert_null(ibv_create_qp_ex(api->context, &init));
    assert_int_equal(errno, EINVAL);
    ibv_destroy_cq(cq);
}

static void qp__without_a_cq__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_qp_init_attr init = api_qp_attr(NULL);

    errno = 0;
    assert_null(ibv_create_qp(api->pd, &init));
    assert_int_equal(errno, EINVAL);
}

#define SAME(field) assert_int_equal(got->field, set->field)

static void expect_same_address(const struct ibv_qp_attr *set, const struct ibv_qp_attr *got)
{
    assert_memory_equal(&got->ah_attr.grh.dgid, &set->ah_attr.grh.dgid, 16);
    SAME(ah_attr.grh.flow_label);
    SAME(ah_attr.grh.sgid_index);
    SAME(ah_attr.grh.hop_limit);
    SAME(ah_attr.grh.traffic_class);
    SAME(ah_attr.dlid);
    SAME(ah_attr.sl);
    SAME(ah_attr.src_path_bits);
    SAME(ah_attr.static_rate);
    SAME(ah_attr.is_global);
    SAME(ah_attr.port_num);
}

static void expect_same(const struct ibv_qp_attr *set, const struct ibv_qp_attr *got)
{
    SAME(qp_state);
    SAME(cur_qp_state);
    SAME(path_mtu);
    SAME(path_mig_state);
    SAME(qkey);
    SAME(rq_psn);
    SAME(sq_psn);
    SAME(dest_qp_num);
    SAME(qp_access_flags);
    SAME(pkey_index);
    SAME(en_sqd_async_notify);
    SAME(sq_draining);
    SAME(max_rd_atomic);
    SAME(max_dest_rd_atomic);
    SAME(min_rnr_timer);
    SAME(port_num);
    SAME(timeout);
    SAME(retry_cnt);
    SAME(rnr_retry);
    SAME(alt_port_num);
    SAME(alt_timeout);
    SAME(rate_limit);
    expect_same_address(set, got);
}

static void query_qp__after_modify__returns_every_attribute_as_set(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);
    struct ibv_qp_attr set = api_attr(api, PEER), got;
    struct ibv_qp_init_attr init;

    set.ah_attr.grh.traffic_class = 0x68;
    set.ah_attr.grh.flow_label = 0xabcde;
    set.ah_attr.sl = 3;
    set.ah_attr.static_rate = 2;
    set.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    set.max_rd_atomic = 5;
    set.max_dest_rd_atomic = 9;
    set.retry_cnt = 3;
    set.rnr_retry = 2;
    set.rq_psn = 0xfffffe;
    set.qp_state = IBV_QPS_INIT;
    assert_int_equal(ibv_modify_qp(qp, &set, API_TO_INIT), 0);
    set.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(qp, &set, API_TO_RTR), 0);
    set.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &set, API_TO_RTS), 0);

    memset(&got, 0xff, sizeof got);
    assert_int_equal(ibv_query_qp(qp, &got, 0x1fffff, &init), 0);
    set.cur_qp_state = IBV_QPS_RTS;
    set.qkey = 0; /* RC has no Q_Key */
    expect_same(&set, &got);
    assert_int_equal(qp->state, IBV_QPS_RTS);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

static void modify_qp__to_reset__forgets_everything(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);
    struct ibv_qp_attr got;
    struct ibv_qp_init_attr init;

    api_connect(api, qp, PEER);
    assert_int_equal(api_go(api, qp, IBV_QPS_RESET, PEER), 0);
    assert_int_equal(ibv_query_qp(qp, &got, IBV_QP_STATE, &init), 0);
    assert_int_equal(got.qp_state, IBV_QPS_RESET);
    assert_int_equal(got.dest_qp_num, 0);
    assert_int_equal(got.ah_attr.is_global, 0);
    api_connect(api, qp, PEER);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

static void modify_qp__transition_that_does_not_exist__is_einval_and_state_is_unchanged(
    void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);

    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, PEER), EINVAL);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTS, PEER), EINVAL);
    assert_int_equal(api_go(api, qp, IBV_QPS_ERR, PEER), EINVAL);
    assert_int_equal(api_go(api, qp, (enum ibv_qp_state)99, PEER), EINVAL);
    assert_int_equal(qp->state, IBV_QPS_RESET);
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, PEER), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTS, PEER), EINVAL);
    assert_int_equal(api_go(api, qp, IBV_QPS_SQD, PEER), EINVAL);
    assert_int_equal(qp->state, IBV_QPS_INIT);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

static void modify_qp__attributes_missing_or_too_many__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);
    struct ibv_qp_attr attr = api_attr(api, PEER);

    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT & ~IBV_QP_PORT), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT & ~IBV_QP_ACCESS_FLAGS), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT | IBV_QP_QKEY), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT | IBV_QP_CAP), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT | IBV_QP_RATE_LIMIT), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT), 0);
    attr.qp_state = IBV_QPS_RTR;
    for (unsigned bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1)
        if ((bit & API_TO_RTR & ~(unsigned)IBV_QP_STATE) != 0)
            assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR & (int)~bit), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR | IBV_QP_ALT_PATH), EINVAL);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), 0);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

/* Each wrong value alone fails. The same transition with valid values then succeeds. */
static void modify_qp__values_out_of_range__are_einval(void **state)
{
    const struct api *api = *state;
    const struct ibv_qp_attr good = api_attr(api, PEER);
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);
    struct ibv_qp_attr attr;

#define WRONG(to, mask, field, value)                                                              \
    attr = good;                                                                                   \
    attr.qp_state = to;                                                                            \
    attr.field = value;                                                                            \
    assert_int_equal(ibv_modify_qp(qp, &attr, mask), EINVAL)

    WRONG(IBV_QPS_INIT, API_TO_INIT, port_num, 2);
    WRONG(IBV_QPS_INIT, API_TO_INIT, pkey_index, 1);
    WRONG(IBV_QPS_INIT, API_TO_INIT, qp_access_flags, 1 << 15);
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, PEER), 0);
    WRONG(IBV_QPS_RTR, API_TO_RTR, path_mtu,
          IBV_MTU_2048); /* bug B29: the MTU of the link is 1500 bytes */
    WRONG(IBV_QPS_RTR, API_TO_RTR, path_mtu, (enum ibv_mtu)0);
    WRONG(IBV_QPS_RTR, API_TO_RTR, path_mtu, (enum ibv_mtu)6);
    WRONG(IBV_QPS_RTR, API_TO_RTR, dest_qp_num, 0x1000000);
    WRONG(IBV_QPS_RTR, API_TO_RTR, max_dest_rd_atomic, 129);
    WRONG(IBV_QPS_RTR, API_TO_RTR, min_rnr_timer, 32);
    WRONG(IBV_QPS_RTR, API_TO_RTR, ah_attr.is_global, 0);
    WRONG(IBV_QPS_RTR, API_TO_RTR, ah_attr.port_num, 0);
    WRONG(IBV_QPS_RTR, API_TO_RTR, ah_attr.grh.sgid_index, 7);
    WRONG(IBV_QPS_RTR, API_TO_RTR, ah_attr.grh.sgid_index, 0); /* IPv6 to an IPv4 address */
    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, PEER), 0);
    WRONG(IBV_QPS_RTS, API_TO_RTS, timeout, 32);
    WRONG(IBV_QPS_RTS, API_TO_RTS, retry_cnt, 8);
    WRONG(IBV_QPS_RTS, API_TO_RTS, rnr_retry, 8);
    WRONG(IBV_QPS_RTS, API_TO_RTS, max_rd_atomic, 129);
    WRONG(IBV_QPS_RTS, API_TO_RTS | IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_RTS);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTS, PEER), 0);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

static void modify_qp__no_route_to_the_peer__is_enetunreach(void **state)
{
    static const uint8_t elsewhere[4] = { 192, 168, 77, 1 };
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);
    struct ibv_qp_attr attr = api_attr(api, PEER);

    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, PEER), 0);
    memcpy(&attr.ah_attr.grh.dgid.raw[12], elsewhere, sizeof elsewhere);
    attr.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), ENETUNREACH);
    assert_int_equal(qp->state, IBV_QPS_INIT);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

static void extended_verbs__on_a_plain_qp__are_unsupported(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);
    struct ibv_ece ece = { 0 };
    struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_RC,
                                        .comp_mask = IBV_QP_INIT_ATTR_PD | 1u << 30,
                                        .send_cq = cq,
                                        .recv_cq = cq,
                                        .pd = api->pd };
    struct ibv_qp_rate_limit_attr rate = { 0 };

    assert_null(ibv_qp_to_qp_ex(qp));
    assert_int_equal(ibv_set_ece(qp, &ece), EOPNOTSUPP);
    assert_int_equal(ibv_query_ece(qp, &ece), EOPNOTSUPP);
    assert_int_equal(ibv_modify_qp_rate_limit(qp, &rate), EOPNOTSUPP);
    assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0), 1);
    assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_READ, 0), 1);
    assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0), 1);
    assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 1), 0); /* an unknown flag */
    assert_int_equal(ibv_query_qp_data_in_order(qp, IBV_WR_BIND_MW, 0), 0);
    assert_int_equal(ibv_query_qp_data_in_order(qp, (enum ibv_wr_opcode) - 1, 0), 0);
    errno = 0;
    assert_null(ibv_create_qp_ex(api->context, &init));
    assert_int_equal(errno, EOPNOTSUPP);
    /* With only a PD in the mask, the call equals ibv_create_qp(). */
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    struct ibv_qp *plain = ibv_create_qp_ex(api->context, &init);
    assert_non_null(plain);
    ibv_destroy_qp(plain);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(qp__just_created__is_in_reset_and_reports_its_objects),
        API_TEST(qps__created_in_a_row__have_unpredictable_numbers),
        API_TEST(capabilities__requested__are_granted_and_written_back),
        API_TEST(capabilities__of_queues__are_all_their_slots),
        API_TEST(capabilities__beyond_the_limits__are_einval),
        API_TEST(create_qp__type_unknown_to_roce__is_eopnotsupp),
        API_TEST(xrc_recv__from_a_pd__is_einval),
        API_TEST(create_qp__attribute_unknown_to_roce__is_eopnotsupp),
        API_TEST(qp__without_a_cq__is_einval),
        API_TEST(query_qp__after_modify__returns_every_attribute_as_set),
        API_TEST(modify_qp__to_reset__forgets_everything),
        API_TEST(modify_qp__transition_that_does_not_exist__is_einval_and_state_is_unchanged),
        API_TEST(modify_qp__attributes_missing_or_too_many__is_einval),
        API_TEST(modify_qp__values_out_of_range__are_einval),
        API_TEST(modify_qp__no_route_to_the_peer__is_enetunreach),
        API_TEST(extended_verbs__on_a_plain_qp__are_unsupported),
    };
    return API_RUN(tests);
}
