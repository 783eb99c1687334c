/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests devices that imitate a card (like=): the results of queries, and the errno of refused
 * calls. Each device of the test imitates the card of its name, except uroce0 (own.card) and both
 * (mana). */
#include "api/refusals.h"

#include <string.h>

#define FAILS(create, wanted)                                                                      \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_null(create);                                                                       \
        assert_int_equal(errno, wanted);                                                           \
    } while (0)

/* ---- queries ---------------------------------------------------------------------------- */

static void query__irdma__has_the_values_of_the_card(void **state)
{
    struct api api = api_open_device("irdma");
    struct ibv_device_attr_ex all;
    const struct ibv_device_attr *attr = &all.orig_attr;

    (void)state;
    assert_int_equal(ibv_query_device_ex(api.context, NULL, &all), 0);
    assert_string_equal(attr->fw_ver, "1.74");
    assert_int_equal(attr->vendor_id, 0x8086);
    assert_int_equal(attr->vendor_part_id, 5522);
    assert_int_equal(attr->hw_ver, 2);
    assert_int_equal(attr->max_mr_size, UINT64_C(0x200000000000));
    assert_int_equal(attr->page_size_cap, 0x40201000);
    assert_int_equal(attr->device_cap_flags, 0x01221000);
    assert_int_equal(attr->max_qp, 4092);
    assert_int_equal(attr->max_qp_wr, 8127);
    assert_int_equal(attr->max_sge, 6);
    assert_int_equal(attr->max_sge_rd, 6);
    assert_int_equal(attr->max_cqe, 1048574);
    assert_int_equal(attr->max_mr, 1048576); /* the card's 4194301 is more than uroce has */
    assert_int_equal(attr->max_qp_rd_atom, 8);
    assert_int_equal(attr->atomic_cap, IBV_ATOMIC_NONE);
    assert_int_equal(attr->max_srq, 0);
    assert_int_equal(attr->max_srq_wr, 0);
    assert_int_equal(all.odp_caps.general_caps, 0);
    assert_int_equal(all.completion_timestamp_mask, 0);
    assert_int_equal(all.max_dm_size, 0);
    assert_int_equal(all.device_cap_flags_ex, 0x01221000);
    const uint8_t *guid = (const uint8_t *)&attr->node_guid;
    assert_memory_equal(guid, "\x6e\xfe\x54\xff\xfe", 5);
    api_close_device(&api);
}

static void query__card_with_more_send_sges__shows_the_lower_max_sge(void **state)
{
    struct api api = api_open_device("erdma");
    struct ibv_device_attr attr;

    (void)state;
    assert_int_equal(ibv_query_device(api.context, &attr), 0);
    assert_int_equal(attr.max_sge, 1);
    assert_int_equal(attr.max_sge_rd, 1);
    assert_int_equal(attr.max_mw, 0);
    api_close_device(&api);
}

/* ---- missing verbs ---------------------------------------------------------------------- */

static void objects__that_erdma_lacks__fail_as_without_the_verb(void **state)
{
    struct api api = api_open_device("erdma");
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_xrcd_init_attr xrcd = { .comp_mask =
                                           IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                       .fd = -1 };
    struct ibv_cq_init_attr_ex cq_ex = { .cqe = 4 };
    struct ibv_alloc_dm_attr dm = { .length = 64 };
    struct ibv_td_init_attr td = { 0 };
    static uint8_t memory[64];

    (void)state;
    struct ibv_cq *cq = api_cq(&api, 16);
    struct ibv_qp_init_attr qp = api_qp_attr(cq);
    FAILS(ibv_create_srq(api.pd, &srq), EOPNOTSUPP);
    FAILS(ibv_open_xrcd(api.context, &xrcd), EOPNOTSUPP);
    FAILS(ibv_create_cq_ex(api.context, &cq_ex), EOPNOTSUPP);
    FAILS(ibv_alloc_dm(api.context, &dm), EOPNOTSUPP);
    FAILS(ibv_alloc_td(api.context, &td), EOPNOTSUPP);
    FAILS(ibv_alloc_null_mr(api.pd), EOPNOTSUPP);
    FAILS(ibv_alloc_mw(api.pd, IBV_MW_TYPE_1), EOPNOTSUPP);
    FAILS(ibv_reg_mr(api.pd, memory, sizeof memory, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
    assert_int_equal(ibv_resize_cq(cq, 32), EOPNOTSUPP);
    qp.qp_type = IBV_QPT_UD;
    FAILS(ibv_create_qp(api.pd, &qp), EOPNOTSUPP);
    qp.qp_type = IBV_QPT_UC;
    FAILS(ibv_create_qp(api.pd, &qp), EOPNOTSUPP);
    qp.qp_type = IBV_QPT_RC;
    FAILS(ibv_create_qp(api.pd, &qp), EINVAL); /* max_recv_sge is 4, and the card has 1 */
    struct ibv_mr *mr = ibv_reg_mr(api.pd, memory, sizeof memory, 0);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
        IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

static void errno__of_the_card__is_returned_and_explained(void **state)
{
    struct api api = api_open_device("uroce0");
    struct ibv_xrcd_init_attr xrcd = { .comp_mask =
                                           IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                       .fd = -1 };
    struct ibv_alloc_dm_attr dm = { .length = 64 };
    struct ibv_cq_init_attr_ex cq_ex = { .cqe = 4,
                                         .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP };

    (void)state;
    struct ibv_cq *cq = api_cq(&api, 16); /* starts the device, which then records refusals */
    FAILS(ibv_open_xrcd(api.context, &xrcd), ENOSYS);
    refusals_expect("ibv_open_xrcd", ENOSYS, "like=own.card: this card has no XRC");
    FAILS(ibv_alloc_mw(api.pd, IBV_MW_TYPE_1), EPERM);
    FAILS(ibv_alloc_dm(api.context, &dm), ENOMEM);
    FAILS(ibv_create_cq_ex(api.context, &cq_ex), EOPNOTSUPP);
    refusals_expect("ibv_create_cq_ex", EOPNOTSUPP, "this card has no completion timestamps");
    cq_ex.wc_flags = 0;
    struct ibv_cq_ex *ex = ibv_create_cq_ex(api.context, &cq_ex);
    assert_non_null(ex);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

static void qp_ex__operation_that_the_card_lacks__is_refused_at_creation(void **state)
{
    struct api api = api_open_device("uroce0");
    struct ibv_cq *cq = api_cq(&api, 16);
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = { .max_send_wr = 1, .max_send_sge = 1 },
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = api.pd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    };

    (void)state;
    FAILS(ibv_create_qp_ex(api.context, &attr), EOPNOTSUPP);
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    struct ibv_qp *qp = ibv_create_qp_ex(api.context, &attr);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
    api = api_open_device("mana"); /* without ibv_wr_*() */
    attr.send_cq = attr.recv_cq = cq = api_cq(&api, 16);
    attr.pd = api.pd;
    FAILS(ibv_create_qp_ex(api.context, &attr), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

/* ---- limits ----------------------------------------------------------------------------- */

static void limits__of_queue_pairs__are_those_of_the_card(void **state)
{
    struct api api = api_open_device("uroce0");
    struct ibv_cq *cq = api_cq(&api, 70);
    const struct ibv_qp_init_attr fits = { .send_cq = cq,
                                           .recv_cq = cq,
                                           .cap = { .max_send_wr = 100,
                                                    .max_recv_wr = 77,
                                                    .max_send_sge = 3,
                                                    .max_recv_sge = 1,
                                                    .max_inline_data = 20 },
                                           .qp_type = IBV_QPT_RC };
    struct ibv_qp_init_attr attr;

    (void)state;
    assert_int_equal(cq->cqe, 70); /* exactly what the program wants */
#define EXCEEDS(field)                                                                             \
    do {                                                                                           \
        attr = fits;                                                                               \
        attr.cap.field++;                                                                          \
        FAILS(ibv_create_qp(api.pd, &attr), EINVAL);                                               \
    } while (0)
    EXCEEDS(max_send_wr);
    EXCEEDS(max_send_sge);
    EXCEEDS(max_recv_sge);
    EXCEEDS(max_inline_data);
    attr = fits;
    struct ibv_qp *qp = ibv_create_qp(api.pd, &attr);
    assert_non_null(qp);
    assert_int_equal(attr.cap.max_send_wr, 100);
    assert_int_equal(attr.cap.max_recv_wr, 77);
    assert_int_equal(attr.cap.max_inline_data, 20);
    struct ibv_recv_wr recv = { 0 }, *bad;
    assert_int_equal(api_go(&api, qp, IBV_QPS_INIT, 0), 0);
    for (int i = 0; i < 77; i++)
        assert_int_equal(ibv_post_recv(qp, &recv, &bad), 0);
    assert_int_equal(ibv_post_recv(qp, &recv, &bad), ENOMEM);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    FAILS(ibv_create_cq(api.context, 101, NULL, NULL, 0), EINVAL);
    assert_int_equal(ibv_resize_cq(cq, 101), EINVAL);
    assert_int_equal(ibv_resize_cq(cq, 100), 0);
    assert_int_equal(cq->cqe, 100);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

static void limits__of_the_card__bound_srq_memory_and_reads(void **state)
{
    struct api api = api_open_device("uroce0");
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 51, .max_sge = 1 } };
    static uint8_t memory[10001];

    (void)state;
    FAILS(ibv_create_srq(api.pd, &srq), EINVAL);
    srq.attr = (struct ibv_srq_attr){ .max_wr = 50, .max_sge = 3 };
    FAILS(ibv_create_srq(api.pd, &srq), EINVAL);
    srq.attr = (struct ibv_srq_attr){ .max_wr = 50, .max_sge = 2 };
    struct ibv_srq *queue = ibv_create_srq(api.pd, &srq);
    assert_non_null(queue);
    assert_int_equal(srq.attr.max_wr, 50);
    assert_int_equal(ibv_destroy_srq(queue), 0);
    FAILS(ibv_reg_mr(api.pd, memory, 10001, 0), ENOMEM);
    refusals_expect("ibv_reg_mr", ENOMEM, "max_mr_size of this card is 10000");
    struct ibv_mr *mr = ibv_reg_mr(api.pd, memory, 10000, 0);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    struct ibv_cq *cq = api_cq(&api, 16);
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
    struct ibv_qp *qp = ibv_create_qp(api.pd, &init);
    assert_int_equal(api_go(&api, qp, IBV_QPS_INIT, 0), 0);
    struct ibv_qp_attr attr = api_attr(&api, qp->qp_num); /* wants 4 READs each way */
    attr.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), EINVAL);
    refusals_expect("ibv_modify_qp", EINVAL, "max_dest_rd_atomic is 4; it must be at most 3");
    attr.max_dest_rd_atomic = 3;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.max_rd_atomic = 3;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTS), EINVAL);
    attr.max_rd_atomic = 2;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTS), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

/* The card grants 15 receives for 8. */
static void modify_srq__card_that_grants_more__every_granted_receive_fits(void **state)
{
    struct api api = api_open_device("less_1");
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 3, .max_sge = 2 } };
    struct ibv_srq *srq = ibv_create_srq(api.pd, &init);
    struct ibv_srq_attr attr = { .max_wr = 8 };

    (void)state;
    assert_non_null(srq);
    assert_int_equal(init.attr.max_wr, 3);
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(ibv_query_srq(srq, &attr), 0);
    assert_int_equal(attr.max_wr, 15);
    for (uint64_t id = 0; id < 15; id++)
        assert_int_equal(api_post_srq(srq, id, NULL), 0);
    assert_int_equal(api_post_srq(srq, 15, NULL), ENOMEM);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    api_close_device(&api);
}

/* ---- posts ------------------------------------------------------------------------------ */

static void posts__atomic_in_a_list__only_requests_before_it_are_posted(void **state)
{
    struct api api = api_open_device("mana");
    static struct pair pair;

    (void)state;
    api_pair_open(&api, &pair, NULL);
    struct ibv_sge sge = api_sge(&pair.a, 0, 8);
    struct ibv_send_wr write = api_send(IBV_WR_RDMA_WRITE, &sge);
    struct ibv_send_wr atomic = api_send(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge);
    struct ibv_send_wr last = write, *bad = NULL;
    write.wr.rdma.remote_addr = (uintptr_t)pair.b.buffer;
    write.wr.rdma.rkey = pair.b.mr->rkey;
    write.wr_id = 7;
    write.next = &atomic;
    atomic.next = &last;
    assert_int_equal(ibv_post_send(pair.a.qp, &write, &bad), EINVAL);
    assert_ptr_equal(bad, &atomic);
    assert_ptr_equal(write.next, &atomic);
    api_expect(pair.a.cq, 7, IBV_WC_SUCCESS);
    assert_int_equal(ibv_post_send(pair.a.qp, &atomic, &bad), EINVAL);
    assert_ptr_equal(bad, &atomic);
    write.next = NULL;
    assert_int_equal(ibv_post_send(pair.a.qp, &write, &bad), 0);
    api_expect(pair.a.cq, 7, IBV_WC_SUCCESS);
    api_pair_close(&pair);
    api_close_device(&api);
}

static void posts__with_fail_and_like__both_apply(void **state)
{
    struct api api = api_open_device("both");
    static struct pair pair;

    (void)state;
    api_pair_open(&api, &pair, NULL);
    struct ibv_sge sge = api_sge(&pair.a, 0, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_ATOMIC_FETCH_AND_ADD, &sge), *bad;
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), EAGAIN);
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), EINVAL);
    api_pair_close(&pair);
    api_close_device(&api);
}

static void posts__read_of_many_elements__is_refused(void **state)
{
    struct api api = api_open_device("uroce0");
    struct ibv_cq *cq = api_cq(&api, 16);
    struct ibv_qp_init_attr init = { .send_cq = cq,
                                     .recv_cq = cq,
                                     .cap = { .max_send_wr = 4, .max_send_sge = 3 },
                                     .qp_type = IBV_QPT_RC };
    struct ibv_sge sges[3] = { { .length = 1 }, { .length = 1 }, { .length = 1 } };
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_READ, sges), *bad;

    (void)state;
    struct ibv_qp *qp = ibv_create_qp(api.pd, &init);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    assert_int_equal(api_go(&api, qp, IBV_QPS_INIT, 0), 0);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE),
                     0); /* in ERR, accepted requests are flushed */
    wr.num_sge = 3;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
    refusals_expect("ibv_post_send", EINVAL,
                    "the READ has 3 elements; max_sge_rd of this card is 2");
    wr.num_sge = 2;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.num_sge = 3;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), EPERM);
    refusals_expect("ibv_post_send", EPERM, "this card has no RDMA_WRITE_WITH_IMM");
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.num_sge = 1;
    sges[0].length = 5001;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL); /* more than max_msg_sz */
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

static void posts__read_of_many_elements_by_wr__is_refused(void **state)
{
    struct api api = api_open_device("uroce0");
    struct ibv_sge sges[3] = { { .length = 1 }, { .length = 1 }, { .length = 1 } };

    (void)state;
    struct ibv_cq *cq = api_cq(&api, 16);
    struct ibv_qp_init_attr_ex attr = { .send_cq = cq,
                                        .recv_cq = cq,
                                        .cap = { .max_send_wr = 4, .max_send_sge = 3 },
                                        .qp_type = IBV_QPT_RC,
                                        .comp_mask =
                                            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                        .pd = api.pd,
                                        .send_ops_flags =
                                            IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE };
    struct ibv_qp *qp = ibv_create_qp_ex(api.context, &attr);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    struct ibv_qp_attr fail = { .qp_state = IBV_QPS_ERR };
    assert_int_equal(api_go(&api, qp, IBV_QPS_INIT, 0), 0);
    assert_int_equal(ibv_modify_qp(qp, &fail, IBV_QP_STATE),
                     0); /* in ERR, accepted requests are flushed */
    ibv_wr_start(ex);
    ibv_wr_rdma_read(ex, 0, 0);
    ibv_wr_set_sge_list(ex, 3, sges);
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    refusals_expect("ibv_wr_complete", EINVAL,
                    "the READ has more elements than max_sge_rd of the card");
    ibv_wr_start(ex);
    ibv_wr_rdma_read(ex, 0, 0);
    ibv_wr_set_sge_list(ex, 2, sges);
    ibv_wr_rdma_write(ex, 0, 0);
    ibv_wr_set_sge_list(ex, 3, sges);
    assert_int_equal(ibv_wr_complete(ex), 0);
    ibv_wr_start(ex);
    ibv_wr_set_sge_list(ex, 3, sges); /* without a builder */
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

/* ---- multicast -------------------------------------------------------------------------- */

static void multicast__more_queue_pairs_and_groups_than_the_card_has__are_refused(void **state)
{
    struct api api = api_open_device("groups");
    struct ibv_device_attr shown;
    struct ibv_cq *cq = api_cq(&api, 16);
    struct ibv_qp_init_attr init = api_qp_attr(cq);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = API_PORT, .qkey = 1 };
    union ibv_gid groups[3] = { { .raw = { 0xff, 0x12, [15] = 7 } },
                                { .raw = { 0xff, 0x12, [15] = 8 } },
                                { .raw = { 0xff, 0x12, [15] = 9 } } };
    struct ibv_qp *qps[4];

    (void)state;
    assert_int_equal(ibv_query_device(api.context, &shown), 0);
    assert_int_equal(shown.max_mcast_grp, 2);
    assert_int_equal(shown.max_mcast_qp_attach, 3);
    assert_int_equal(shown.max_total_mcast_qp_attach, 6);
    init.qp_type = IBV_QPT_UD;
    for (unsigned i = 0; i < 4; i++) {
        qps[i] = ibv_create_qp(api.pd, &init);
        assert_non_null(qps[i]);
        assert_int_equal(
            ibv_modify_qp(qps[i], &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            0);
        assert_int_equal(ibv_attach_mcast(qps[i], &groups[0], 0), i < 3 ? 0 : ENOMEM);
    }
    assert_int_equal(ibv_attach_mcast(qps[3], &groups[1], 0), 0);
    assert_int_equal(ibv_attach_mcast(qps[3], &groups[2], 0), ENOMEM);
    assert_int_equal(ibv_detach_mcast(qps[0], &groups[0], 0), 0);
    assert_int_equal(ibv_attach_mcast(qps[3], &groups[0], 0), 0);
    assert_int_equal(ibv_detach_mcast(qps[3], &groups[1], 0), 0);
    for (unsigned i = 1; i < 4; i++)
        assert_int_equal(ibv_detach_mcast(qps[i], &groups[0], 0), 0);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

/* ---- GIDs ------------------------------------------------------------------------------- */

static void gids__card_of_v1_and_v2__has_each_address_twice(void **state)
{
    struct api api = api_open_device("connectx5");
    struct ibv_gid_entry entries[8];
    union ibv_gid gid;

    (void)state;
    assert_int_equal(ibv_query_gid_table(api.context, entries, 3, 0), -EINVAL);
    assert_int_equal(ibv_query_gid_table(api.context, entries, 8, 0), 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(entries[i].gid_index, i);
        assert_int_equal(entries[i].gid_type,
                         i % 2 == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2);
        assert_int_equal(ibv_query_gid(api.context, 1, (int)i, &gid), 0);
        assert_memory_equal(&gid, &entries[i].gid, sizeof gid);
    }
    assert_memory_equal(&entries[0].gid, &entries[1].gid, sizeof gid);
    assert_memory_equal(&entries[2].gid, &entries[3].gid, sizeof gid);
    assert_memory_not_equal(&entries[1].gid, &entries[2].gid, sizeof gid);
    assert_int_equal(ibv_query_gid_ex(api.context, 1, 4, entries, 0), ENODATA);
    api_close_device(&api);
}

static void gids__index_of_v1__is_refused_and_index_of_v2_works(void **state)
{
    struct api api = api_open_device("connectx5");
    struct ibv_cq *cq = api_cq(&api, 16);
    struct ibv_qp *qp = api_qp(&api, cq);
    struct ibv_qp_attr attr = api_attr(&api, qp->qp_num);
    struct ibv_qp_init_attr init;

    (void)state;
    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr.grh.sgid_index = 2;
    assert_int_equal(ibv_query_gid(api.context, 1, 2, &attr.ah_attr.grh.dgid), 0);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), EINVAL);
    FAILS(ibv_create_ah(api.pd, &attr.ah_attr), EINVAL);
    attr.ah_attr.grh.sgid_index = 4;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), EINVAL);
    attr.ah_attr.grh.sgid_index = 3;
    struct ibv_ah *ah = ibv_create_ah(api.pd, &attr.ah_attr);
    assert_non_null(ah);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), 0);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_AV, &init), 0);
    assert_int_equal(attr.ah_attr.grh.sgid_index, 3);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

static void gids__table_of_the_card__has_its_length(void **state)
{
    struct api api = api_open_device("uroce0");
    struct ibv_port_attr port;
    union ibv_gid gid;

    (void)state;
    assert_int_equal(ibv_query_port(api.context, 1, &port), 0);
    assert_int_equal(port.gid_tbl_len, 300);
    assert_int_equal(port.max_msg_sz, 5000);
    assert_int_equal(ibv_query_gid(api.context, 1, 299, &gid), 0);
    assert_int_equal(ibv_query_gid(api.context, 1, 300, &gid), -1);
    api_close_device(&api);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(query__irdma__has_the_values_of_the_card),
        cmocka_unit_test(query__card_with_more_send_sges__shows_the_lower_max_sge),
        cmocka_unit_test(objects__that_erdma_lacks__fail_as_without_the_verb),
        cmocka_unit_test(errno__of_the_card__is_returned_and_explained),
        cmocka_unit_test(qp_ex__operation_that_the_card_lacks__is_refused_at_creation),
        cmocka_unit_test(limits__of_queue_pairs__are_those_of_the_card),
        cmocka_unit_test(limits__of_the_card__bound_srq_memory_and_reads),
        cmocka_unit_test(modify_srq__card_that_grants_more__every_granted_receive_fits),
        cmocka_unit_test(posts__atomic_in_a_list__only_requests_before_it_are_posted),
        cmocka_unit_test(posts__with_fail_and_like__both_apply),
        cmocka_unit_test(posts__read_of_many_elements__is_refused),
        cmocka_unit_test(posts__read_of_many_elements_by_wr__is_refused),
        cmocka_unit_test(multicast__more_queue_pairs_and_groups_than_the_card_has__are_refused),
        cmocka_unit_test(gids__card_of_v1_and_v2__has_each_address_twice),
        cmocka_unit_test(gids__index_of_v1__is_refused_and_index_of_v2_works),
        cmocka_unit_test(gids__table_of_the_card__has_its_length),
    };

    return refusals_run(__FILE__, tests, URO_ARRAY_LEN(tests));
}
