/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests which types of queue pairs ibv_create_qp_ex() creates with which operations of
 * ibv_wr_*(). */
#include "api/wr.h"

#include <fcntl.h>

static void device__flush_and_atomic_write__are_reported(void **state)
{
    const uint64_t global = UINT64_C(1) << 38, persistent = UINT64_C(1) << 39;
    const uint64_t atomic_write = UINT64_C(1) << 40;
    const struct api *api = *state;
    struct ibv_device_attr_ex attr;

    assert_int_equal(ibv_query_device_ex(api->context, NULL, &attr), 0);
    assert_true((attr.device_cap_flags_ex & global) != 0);
    assert_true((attr.device_cap_flags_ex & persistent) == 0);
    assert_true((attr.device_cap_flags_ex & atomic_write) != 0);
}

static void reg_mr__to_be_flushed_to_persistence__is_eopnotsupp(void **state)
{
    const struct api *api = *state;
    uint8_t memory[64];

    assert_null(ibv_reg_mr(api->pd, memory, sizeof memory, 1u << 9));
    assert_int_equal(errno, EOPNOTSUPP);
}

static const struct {
    enum ibv_qp_type type;
    uint64_t operations;
} types[] = {
    { IBV_QPT_RC, WR_OPERATIONS },
    { IBV_QPT_XRC_SEND, WR_OPERATIONS },
    { IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                      IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                      IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW },
    { IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM },
};

/* Returns a mask: which of the thirteen builders exist, in the order of the operations' bits. */
static uint64_t found(struct ibv_qp_ex *ex)
{
    const bool there[] = {
        ex->wr_rdma_write != NULL,
        ex->wr_rdma_write_imm != NULL,
        ex->wr_send != NULL,
        ex->wr_send_imm != NULL,
        ex->wr_rdma_read != NULL,
        ex->wr_atomic_cmp_swp != NULL,
        ex->wr_atomic_fetch_add != NULL,
        ex->wr_local_inv != NULL,
        ex->wr_bind_mw != NULL,
        ex->wr_send_inv != NULL,
        ex->wr_send_tso != NULL,
        wr_flush_of(ex) != NULL,
        ex->wr_atomic_write != NULL,
    };
    uint64_t bits = 0;

    for (unsigned i = 0; i < sizeof there / sizeof there[0]; i++)
        bits |= (uint64_t)there[i] << i;
    return bits;
}

static void create__requested_operations__exist(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        for (unsigned bit = 0; bit <= 13; bit++) {
            struct ibv_qp_init_attr_ex init = wr_init(api, cq, UINT64_C(1) << bit);
            init.qp_type = types[i].type;
            errno = 0;
            struct ibv_qp *qp = ibv_create_qp_ex(api->context, &init);
            assert_int_equal(qp != NULL, (types[i].operations & UINT64_C(1) << bit) != 0);
            if (qp == NULL) {
                assert_int_equal(errno, EOPNOTSUPP);
                continue;
            }
            assert_non_null(ibv_qp_to_qp_ex(qp));
            assert_int_equal(found(ibv_qp_to_qp_ex(qp)), UINT64_C(1) << bit);
            assert_int_equal(ibv_destroy_qp(qp), 0);
        }
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* An XRC target sends no requests. */
static void create__xrc_recv_with_an_operation__is_eopnotsupp(void **state)
{
    const struct api *api = *state;
    struct ibv_xrcd_init_attr domain = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT
    };
    struct ibv_xrcd *xrcd = ibv_open_xrcd(api->context, &domain);
    struct ibv_qp_init_attr_ex init = {
        .qp_type = IBV_QPT_XRC_RECV,
        .comp_mask = IBV_QP_INIT_ATTR_XRCD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .xrcd = xrcd,
        .send_ops_flags = IBV_QP_EX_WITH_SEND,
    };

    assert_non_null(xrcd);
    assert_null(ibv_create_qp_ex(api->context, &init));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void create__unknown_operation__is_eopnotsupp(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr_ex init = wr_init(api, cq, IBV_QP_EX_WITH_SEND | UINT64_C(1) << 40);

    assert_null(ibv_create_qp_ex(api->context, &init));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void to_qp_ex__created_without_operations__is_null(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr_ex init = wr_init(api, cq, 0);
    struct ibv_qp *qp = api_qp(api, cq);

    assert_null(ibv_qp_to_qp_ex(qp));
    assert_int_equal(ibv_destroy_qp(qp), 0);
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND;
    qp = ibv_create_qp_ex(api->context, &init);
    assert_non_null(qp);
    assert_null(ibv_qp_to_qp_ex(qp));
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* The granted capabilities are written back, as by ibv_create_qp(). */
static void create__capabilities__are_written_back(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr_ex init = wr_init(api, cq, IBV_QP_EX_WITH_SEND);

    init.cap.max_inline_data = 0;
    struct ibv_qp *qp = ibv_create_qp_ex(api->context, &init);
    assert_non_null(qp);
    assert_int_equal(init.cap.max_inline_data, 4 * sizeof(struct ibv_sge));
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(device__flush_and_atomic_write__are_reported),
        API_TEST(reg_mr__to_be_flushed_to_persistence__is_eopnotsupp),
        API_TEST(create__requested_operations__exist),
        API_TEST(create__xrc_recv_with_an_operation__is_eopnotsupp),
        API_TEST(create__unknown_operation__is_eopnotsupp),
        API_TEST(to_qp_ex__created_without_operations__is_null),
        API_TEST(create__capabilities__are_written_back),
    };
    return API_RUN(tests);
}
