/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests a device that acts like a card (like=). like.card describes the card. Queries return its
 * limits. The verbs refuse requests beyond a limit, and operations that the card lacks. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#define MESSAGE 64u

static void query_device__like_a_card__has_the_values_of_the_card(void **state)
{
    const struct api *api = *state;
    struct ibv_device_attr_ex all;
    const struct ibv_device_attr *attr = &all.orig_attr;

    assert_int_equal(ibv_query_device_ex(api->context, NULL, &all), 0);
    assert_string_equal(attr->fw_ver, "7.1");
    assert_int_equal(attr->vendor_id, 0x1234);
    assert_int_equal(attr->vendor_part_id, 99);
    assert_int_equal(attr->hw_ver, 3);
    assert_int_equal(attr->max_mr_size, 4096);
    assert_int_equal(attr->max_qp, 3);
    assert_int_equal(attr->max_qp_wr, 20);
    assert_int_equal(attr->max_sge, 2);
    assert_int_equal(attr->max_cqe, 100);
    assert_int_equal(attr->max_qp_rd_atom, 2);
    assert_int_equal(attr->max_qp_init_rd_atom, 1);
    assert_int_equal(attr->max_mw, 0);
    assert_int_equal(attr->max_srq, 0);
    assert_int_equal(attr->max_srq_wr, 0);
    assert_int_equal(attr->max_mcast_grp, 0);
    assert_int_equal(attr->atomic_cap, IBV_ATOMIC_NONE);
    assert_int_equal(attr->local_ca_ack_delay, 9);
    assert_int_equal(attr->device_cap_flags & (IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_XRC), 0);
    assert_int_equal(all.odp_caps.general_caps, 0);
    assert_int_equal(all.max_dm_size, 0);
    assert_int_equal(attr->max_cq,
                     1048576); /* not in the card's text, so it is uroce's own limit */
}

static struct ibv_qp *create(const struct api *api, struct ibv_cq *cq, enum ibv_qp_type type,
                             struct ibv_qp_cap cap)
{
    struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = type, .cap = cap };

    errno = 0;
    return ibv_create_qp(api->pd, &attr);
}

static void queue_pair__beyond_a_limit__is_refused(void **state)
{
    const struct api *api = *state;
    const struct ibv_qp_cap least = {
        .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1
    };
    struct ibv_cq *cq = api_cq(api, 100);
    struct ibv_qp_cap cap = least;
    struct ibv_qp *qps[3];

    assert_null(create(api, cq, IBV_QPT_UC, least));
    assert_int_equal(errno, EOPNOTSUPP);
    cap.max_send_wr = 21;
    assert_null(create(api, cq, IBV_QPT_RC, cap));
    assert_int_equal(errno, EINVAL);
    cap = least;
    cap.max_recv_sge = 3;
    assert_null(create(api, cq, IBV_QPT_RC, cap));
    cap = least;
    cap.max_inline_data = 17;
    assert_null(create(api, cq, IBV_QPT_RC, cap));
    cap = (struct ibv_qp_cap){ 20, 20, 3, 2, 16 };
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(qps[i] = create(api, cq, IBV_QPT_RC, cap));
    assert_null(create(api, cq, IBV_QPT_RC, least));
    assert_int_equal(errno, ENOMEM);
    struct ibv_qp_attr attr = api_attr(api, 1);
    assert_int_equal(api_go(api, qps[0], IBV_QPS_INIT, 1), 0);
    attr.qp_state = IBV_QPS_RTR;
    attr.max_dest_rd_atomic = 3;
    assert_int_equal(ibv_modify_qp(qps[0], &attr, API_TO_RTR), EINVAL);
    attr.max_dest_rd_atomic = 2;
    assert_int_equal(ibv_modify_qp(qps[0], &attr, API_TO_RTR), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.max_rd_atomic = 2;
    assert_int_equal(ibv_modify_qp(qps[0], &attr, API_TO_RTS), EINVAL);
    attr.max_rd_atomic = 1;
    assert_int_equal(ibv_modify_qp(qps[0], &attr, API_TO_RTS), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void objects__that_the_card_lacks__are_not_supported(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1, .max_sge = 1 } };
    struct ibv_alloc_dm_attr dm = { .length = 64 };
    static uint8_t memory[8192];
    struct ibv_cq *cq;

    assert_null(ibv_create_srq(api->pd, &srq));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_alloc_mw(api->pd, IBV_MW_TYPE_1));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_alloc_dm(api->context, &dm));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_reg_mr(api->pd, memory, 4096, IBV_ACCESS_ON_DEMAND));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_reg_mr(api->pd, memory, 4097, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_cq(api->context, 101, NULL, NULL, 0));
    assert_int_equal(errno, EINVAL);
    assert_non_null(cq = ibv_create_cq(api->context, 100, NULL, NULL, 0));
    assert_int_equal(ibv_resize_cq(cq, 50), EOPNOTSUPP);
    struct ibv_qp *qp = create(api, cq, IBV_QPT_UD, (struct ibv_qp_cap){ 1, 1, 1, 1, 0 });
    union ibv_gid group = { .raw = { 0xff, 0x12, [15] = 7 } };
    assert_non_null(qp);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), EOPNOTSUPP);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* The test's link returns frames to the device, whose two queue pairs are connected. */
static void operations__that_the_card_lacks__are_refused_and_others_work(void **state)
{
    const struct api *api = *state;
    const struct ibv_qp_cap cap = { 8, 8, 1, 1, 0 };
    static uint8_t memory[4096];
    struct ibv_cq *cq = api_cq(api, 100);
    struct ibv_qp *a = create(api, cq, IBV_QPT_RC, cap), *b = create(api, cq, IBV_QPT_RC, cap);
    struct ibv_qp *const qps[2] = { a, b };
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_sge sge = { (uintptr_t)memory, 8, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
    struct ibv_send_wr *bad;

    for (unsigned i = 0; i < 2; i++) {
        struct ibv_qp_attr attr = api_attr(api, qps[1 - i]->qp_num);
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
        assert_int_equal(api_go(api, qps[i], IBV_QPS_INIT, qps[1 - i]->qp_num), 0);
        attr.qp_state = IBV_QPS_RTR;
        assert_int_equal(ibv_modify_qp(qps[i], &attr, API_TO_RTR), 0);
        attr.qp_state = IBV_QPS_RTS;
        assert_int_equal(ibv_modify_qp(qps[i], &attr, API_TO_RTS), 0);
    }
    wr.wr.rdma.remote_addr = (uintptr_t)memory + MESSAGE;
    wr.wr.rdma.rkey = mr->rkey;
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    assert_int_equal(ibv_post_send(a, &wr, &bad), EINVAL);
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    assert_int_equal(ibv_post_send(a, &wr, &bad), EINVAL);
    wr.opcode = (enum ibv_wr_opcode)77;
    assert_int_equal(ibv_post_send(a, &wr, &bad), EINVAL);
    wr.opcode = IBV_WR_RDMA_WRITE;
    assert_int_equal(ibv_post_send(a, &wr, &bad), 0);
    api_expect(cq, 0, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_qp(a), 0);
    assert_int_equal(ibv_destroy_qp(b), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(query_device__like_a_card__has_the_values_of_the_card),
        API_TEST(queue_pair__beyond_a_limit__is_refused),
        API_TEST(objects__that_the_card_lacks__are_not_supported),
        API_TEST(operations__that_the_card_lacks__are_refused_and_others_work),
    };

    return API_RUN(tests);
}
