/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests unreliable connections: delivery, refusals, and the send queue that stops after an
 * error. */
#include "api/api.h"

#include <string.h>

#define LENGTH 3000u /* three packets */

static void open_pair(const struct api *api, struct pair *pair)
{
    api_side_open(api, &pair->a, NULL, IBV_QPT_UC, NULL);
    api_side_open(api, &pair->b, NULL, IBV_QPT_UC, NULL);
    api_pair_join(api, pair);
    for (size_t i = 0; i < LENGTH; i++)
        pair->a.buffer[i] = (uint8_t)(i * 5 + i / 255 + 1);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(init.qp_type, IBV_QPT_UC);
    return attr.qp_state;
}

static void sends__with_and_without_immediate__arrive(void **state)
{
    struct pair pair;

    open_pair(*state, &pair);
    struct ibv_sge from = api_sge(&pair.a, 0, LENGTH), to = api_sge(&pair.b, 0, LENGTH);
    for (int imm = 0; imm < 2; imm++) {
        struct ibv_send_wr wr = api_send(imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, &from);
        wr.imm_data = 0x01020304;
        memset(pair.b.buffer, 0, LENGTH);
        assert_int_equal(api_post_recv(&pair.b, 7, &to), 0);
        assert_int_equal(api_post_send(&pair.a, &wr), 0);
        api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
        struct ibv_wc wc = api_wait(pair.b.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 7);
        assert_int_equal(wc.byte_len, LENGTH);
        assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, imm ? IBV_WC_WITH_IMM : 0);
        assert_int_equal(wc.imm_data, imm ? 0x01020304 : 0);
        assert_memory_equal(pair.b.buffer, pair.a.buffer, LENGTH);
    }
    api_pair_close(&pair);
}

/* The immediate data of the second WRITE shows that the first WRITE, which was sent before, has
 * arrived. */
static void uc_write__posted__arrives(void **state)
{
    struct pair pair;

    open_pair(*state, &pair);
    struct ibv_sge from = api_sge(&pair.a, 0, LENGTH);
    struct ibv_send_wr second = api_send(IBV_WR_RDMA_WRITE_WITH_IMM, &from);
    second.imm_data = 5;
    second.wr.rdma.remote_addr = (uintptr_t)pair.b.buffer + LENGTH;
    second.wr.rdma.rkey = pair.b.mr->rkey;
    struct ibv_send_wr first = second;
    first.opcode = IBV_WR_RDMA_WRITE;
    first.wr.rdma.remote_addr = (uintptr_t)pair.b.buffer;
    first.next = &second;

    assert_int_equal(api_post_recv(&pair.b, 7, NULL), 0);
    assert_int_equal(api_post_send(&pair.a, &first), 0);
    struct ibv_wc wc = api_wait(pair.b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.imm_data, 5);
    assert_memory_equal(pair.b.buffer, pair.a.buffer, LENGTH);
    assert_memory_equal(pair.b.buffer + LENGTH, pair.a.buffer, LENGTH);
    api_pair_close(&pair);
}

static void uc_post__unsupported_operation__is_einval(void **state)
{
    static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
                                                  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND_WITH_INV,
                                                  IBV_WR_ATOMIC_WRITE };
    struct pair pair;

    open_pair(*state, &pair);
    struct ibv_sge sge = api_sge(&pair.a, 0, 8);
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        struct ibv_send_wr wr = api_send(opcodes[i], &sge);
        assert_int_equal(api_post_send(&pair.a, &wr), EINVAL);
    }
    api_pair_close(&pair);
}

/* After a local error, only the send queue stops. Requests that are posted then are flushed. */
static void uc__local_error__stops_the_send_queue_until_rts(void **state)
{
    const struct api *api = *state;
    struct pair pair;

    open_pair(api, &pair);
    struct ibv_sge from = api_sge(&pair.a, 0, 8), back = api_sge(&pair.b, 8, 8);
    struct ibv_sge to = api_sge(&pair.a, 100, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    from.lkey ^= 0x100;
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    api_expect(pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(state_of(pair.a.qp), IBV_QPS_SQE);
    from.lkey ^= 0x100;
    wr.wr_id = 2;
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    api_expect(pair.a.cq, 2, IBV_WC_WR_FLUSH_ERR);

    assert_int_equal(api_post_recv(&pair.a, 3, &to), 0); /* the queue pair still receives */
    struct ibv_send_wr answer = api_send(IBV_WR_SEND, &back);
    assert_int_equal(api_post_send(&pair.b, &answer), 0);
    api_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
    api_expect(pair.a.cq, 3, IBV_WC_SUCCESS);

    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
    assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(api_post_recv(&pair.b, 4, &back), 0);
    wr.wr_id = 5;
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    api_expect(pair.a.cq, 5, IBV_WC_SUCCESS);
    api_expect(pair.b.cq, 4, IBV_WC_SUCCESS);
    api_pair_close(&pair);
}

static void query_qp__after_modify__has_the_attributes_that_were_set(void **state)
{
    const struct api *api = *state;
    struct ibv_qp_attr set = api_attr(api, 0x123456), got;
    struct ibv_qp_init_attr init;
    struct side side;

    api_side_open(api, &side, NULL, IBV_QPT_UC, NULL);
    api_connect(api, side.qp, 0x123456);
    assert_int_equal(ibv_query_qp(side.qp, &got, -1, &init), 0);
    assert_int_equal(got.qp_state, IBV_QPS_RTS);
    assert_int_equal(got.dest_qp_num, set.dest_qp_num);
    assert_int_equal(got.path_mtu, set.path_mtu);
    assert_int_equal(got.qp_access_flags, set.qp_access_flags);
    assert_int_equal(got.rq_psn, set.rq_psn);
    assert_int_equal(got.sq_psn, set.sq_psn);
    assert_memory_equal(&got.ah_attr.grh.dgid, &set.ah_attr.grh.dgid, 16);
    assert_ptr_equal(init.recv_cq, side.cq);
    assert_null(init.srq);
    set.qp_state = IBV_QPS_SQD; /* UC has no READs and no ACK timer */
    assert_int_equal(ibv_modify_qp(side.qp, &set, IBV_QP_STATE), 0);
    assert_int_equal(ibv_modify_qp(side.qp, &set, IBV_QP_MAX_QP_RD_ATOMIC), EINVAL);
    assert_int_equal(ibv_modify_qp(side.qp, &set, IBV_QP_TIMEOUT), EINVAL);
    api_side_close(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(sends__with_and_without_immediate__arrive),
        API_TEST(uc_write__posted__arrives),
        API_TEST(uc_post__unsupported_operation__is_einval),
        API_TEST(uc__local_error__stops_the_send_queue_until_rts),
        API_TEST(query_qp__after_modify__has_the_attributes_that_were_set),
    };
    return API_RUN(tests);
}
