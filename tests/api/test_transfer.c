/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <string.h>

static void fill(struct side *side, uint8_t first)
{
    for (size_t i = 0; i < API_BUFFER; i++)
        side->buffer[i] = (uint8_t)(first + i * 7);
}

static void post(struct side *side, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    assert_int_equal(ibv_post_send(side->qp, wr, &bad), 0);
}

static void send__of_several_packets__arrives_whole(void **state)
{
    struct pair pair;

    api_pair_open(*state, &pair, NULL);
    fill(&pair.a, 1);
    struct ibv_sge to = api_sge(&pair.b, 100, 4000), from = api_sge(&pair.a, 3, 3000);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND_WITH_IMM, &from);
    wr.imm_data = 0x12345678;
    assert_int_equal(api_post_recv(&pair.b, 42, &to), 0);
    post(&pair.a, &wr);

    struct ibv_wc wc = api_wait(pair.b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, 42);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, 3000);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, 0x12345678);
    assert_int_equal(wc.qp_num, pair.b.qp->qp_num);
    assert_memory_equal(pair.b.buffer + 100, pair.a.buffer + 3, 3000);
    assert_int_equal(pair.b.buffer[99] | pair.b.buffer[3100], 0);
    wc = api_wait(pair.a.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_SEND);
    assert_int_equal(wc.qp_num, pair.a.qp->qp_num);
    api_pair_close(&pair);
}

static void send__several_sges_on_both_sides__arrives_in_order(void **state)
{
    struct pair pair;

    api_pair_open(*state, &pair, NULL);
    fill(&pair.a, 9);
    struct ibv_sge from[3] = { api_sge(&pair.a, 0, 5), api_sge(&pair.a, 100, 0),
                               api_sge(&pair.a, 200, 11) };
    struct ibv_sge to[3] = { api_sge(&pair.b, 0, 1), api_sge(&pair.b, 50, 7),
                             api_sge(&pair.b, 100, 100) };
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, from);
    struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = to, .num_sge = 3 }, *bad;
    wr.num_sge = 3;
    assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad), 0);
    post(&pair.a, &wr);
    assert_int_equal(api_wait(pair.b.cq).byte_len, 16);
    uint8_t whole[16];
    memcpy(whole, pair.a.buffer, 5);
    memcpy(whole + 5, pair.a.buffer + 200, 11);
    assert_memory_equal(pair.b.buffer, whole, 1);
    assert_memory_equal(pair.b.buffer + 50, whole + 1, 7);
    assert_memory_equal(pair.b.buffer + 100, whole + 8, 8);
    api_pair_close(&pair);
}

/* When ibv_post_send() returns, the program may reuse the buffer, registered or not. */
static void send_inline__buffer_changed_after_posting__sends_old_data(void **state)
{
    struct pair pair;
    char words[] = "as it was";
    struct ibv_sge from = { .addr = (uintptr_t)words, .length = sizeof words };
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);

    api_pair_open(*state, &pair, NULL);
    struct ibv_sge to = api_sge(&pair.b, 0, 64);
    assert_int_equal(api_post_recv(&pair.b, 1, &to), 0);
    wr.send_flags |= IBV_SEND_INLINE;
    assert_int_equal(api_go(*state, pair.a.qp, IBV_QPS_SQD, 0), 0);
    post(&pair.a, &wr);
    memset(words, 'x', sizeof words);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
    assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), 0);
    api_expect(pair.b.cq, 1, IBV_WC_SUCCESS);
    assert_string_equal((char *)pair.b.buffer, "as it was");
    api_pair_close(&pair);
}

static struct ibv_send_wr rdma(enum ibv_wr_opcode opcode, struct ibv_sge *sge,
                               const struct side *peer, size_t offset)
{
    struct ibv_send_wr wr = api_send(opcode, sge);

    wr.wr.rdma.remote_addr = (uintptr_t)peer->buffer + offset;
    wr.wr.rdma.rkey = peer->mr->rkey;
    return wr;
}

static void rdma_write__then_read_back__data_is_equal(void **state)
{
    struct pair pair;

    api_pair_open(*state, &pair, NULL);
    fill(&pair.a, 3);
    struct ibv_sge from = api_sge(&pair.a, 0, 2500), to = api_sge(&pair.a, 4096, 2500);
    struct ibv_send_wr write = rdma(IBV_WR_RDMA_WRITE, &from, &pair.b, 1000);
    struct ibv_send_wr read = rdma(IBV_WR_RDMA_READ, &to, &pair.b, 1000);
    write.next = &read;
    read.wr_id = 2;
    post(&pair.a, &write);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    struct ibv_wc wc = api_wait(pair.a.cq);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_memory_equal(pair.b.buffer + 1000, pair.a.buffer, 2500);
    assert_memory_equal(pair.a.buffer + 4096, pair.a.buffer, 2500);
    api_pair_close(&pair);
}

/* The peer allows READs only later. Before that, its queue pair has no responder resources. */
static void rdma_read__access_granted_after_rts__is_answered(void **state)
{
    const struct api *api = *state;
    struct pair pair;

    api_side_open(api, &pair.a, NULL, IBV_QPT_RC, NULL);
    api_side_open(api, &pair.b, NULL, IBV_QPT_RC, NULL);
    api_connect(api, pair.a.qp, pair.b.qp->qp_num);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = API_PORT };
    assert_int_equal(ibv_modify_qp(pair.b.qp, &attr, API_TO_INIT), 0);
    assert_int_equal(api_go(api, pair.b.qp, IBV_QPS_RTR, pair.a.qp->qp_num), 0);
    assert_int_equal(api_go(api, pair.b.qp, IBV_QPS_RTS, pair.a.qp->qp_num), 0);
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    assert_int_equal(ibv_modify_qp(pair.b.qp, &attr, IBV_QP_ACCESS_FLAGS), 0);

    fill(&pair.b, 7);
    struct ibv_sge back = api_sge(&pair.a, 0, 4000);
    struct ibv_send_wr read = api_send(IBV_WR_RDMA_READ, &back);
    read.wr.rdma.remote_addr = (uintptr_t)pair.b.buffer;
    read.wr.rdma.rkey = pair.b.mr->rkey;
    for (int i = 0; i < 20; i++) {
        post(&pair.a, &read);
        api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    }
    assert_memory_equal(pair.a.buffer, pair.b.buffer, 4000);
    api_pair_close(&pair);
}

static void atomic__fetch_add_and_cmp_swap__return_the_old_value_and_store_the_new(void **state)
{
    struct pair pair;
    uint64_t value = 40, old;

    api_pair_open(*state, &pair, NULL);
    memcpy(pair.b.buffer + 8, &value, 8);
    struct ibv_sge to = api_sge(&pair.a, 0, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_ATOMIC_FETCH_AND_ADD, &to);
    wr.wr.atomic.remote_addr = (uintptr_t)pair.b.buffer + 8;
    wr.wr.atomic.rkey = pair.b.mr->rkey;
    wr.wr.atomic.compare_add = 2;
    post(&pair.a, &wr);
    assert_int_equal(api_wait(pair.a.cq).opcode, IBV_WC_FETCH_ADD);
    memcpy(&old, pair.a.buffer, 8);
    assert_int_equal(old, 40);
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic.compare_add = 42;
    wr.wr.atomic.swap = 7;
    post(&pair.a, &wr);
    assert_int_equal(api_wait(pair.a.cq).opcode, IBV_WC_COMP_SWAP);
    memcpy(&old, pair.a.buffer, 8);
    memcpy(&value, pair.b.buffer + 8, 8);
    assert_int_equal(old, 42);
    assert_int_equal(value, 7);
    api_pair_close(&pair);
}

static void reg_mr__zero_based__is_addressed_from_zero(void **state)
{
    const struct api *api = *state;
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    fill(&pair.a, 5);
    struct ibv_mr *zero =
        ibv_reg_mr(api->pd, pair.b.buffer + 4000, 100,
                   IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(zero);
    struct ibv_sge from = api_sge(&pair.a, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &from);
    wr.wr.rdma.remote_addr = 90;
    wr.wr.rdma.rkey = zero->rkey;
    post(&pair.a, &wr);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(pair.b.buffer + 4090, pair.a.buffer, 10);
    ibv_dereg_mr(zero);
    api_pair_close(&pair);
}

static void reg_mr__with_an_iova__is_addressed_by_the_iova(void **state)
{
    const struct api *api = *state;
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    fill(&pair.a, 6);
    struct ibv_mr *moved = ibv_reg_mr_iova(api->pd, pair.b.buffer, 100, 0x70000000,
                                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(moved);
    struct ibv_sge from = api_sge(&pair.a, 0, 10);
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &from);
    wr.wr.rdma.remote_addr = 0x70000005;
    wr.wr.rdma.rkey = moved->rkey;
    post(&pair.a, &wr);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(pair.b.buffer + 5, pair.a.buffer, 10);
    ibv_dereg_mr(moved);
    api_pair_close(&pair);
}

/* After ibv_dereg_mr() returns, uroce does not access the memory any more. */
static void write__to_a_deregistered_region__is_refused_and_writes_nothing(void **state)
{
    const struct api *api = *state;
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    fill(&pair.a, 6);
    struct ibv_mr *gone =
        ibv_reg_mr(api->pd, pair.b.buffer, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_sge from = api_sge(&pair.a, 0, 10);
    struct ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, &from, &pair.b, 0);
    wr.wr.rdma.rkey = gone->rkey;
    assert_int_equal(ibv_dereg_mr(gone), 0);
    post(&pair.a, &wr);
    struct ibv_wc wc = api_wait(pair.a.cq);
    assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
    assert_int_not_equal(wc.vendor_err, 0);
    assert_int_equal(pair.b.buffer[0], 0);
    api_pair_close(&pair);
}

/* The context is closed without cleanup, as when a kernel closes a program's descriptor. */
static void closed_context__with_objects_left__peer_access_is_refused(void **state)
{
    const struct api *api = *state;
    struct api other = { .context = ibv_open_device(api->device) };
    struct ibv_qp_attr attr;
    struct pair pair;

    other.pd = ibv_alloc_pd(other.context);
    api_pair_open(&other, &pair, NULL);
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, pair.a.buffer, API_BUFFER, 0);
    assert_int_equal(api_go(&other, pair.b.qp, IBV_QPS_RESET, 0), 0);
    api_connect(&other, pair.b.qp, qp->qp_num);
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, 0), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, pair.b.qp->qp_num), 0);
    attr = api_attr(api, 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 8; /* about 1 ms */
    attr.retry_cnt = 1;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTS), 0);

    struct ibv_sge from = api_sge(&pair.a, 0, 8);
    from.lkey = mr->lkey;
    struct ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, &from, &pair.b, 0), *bad;
    pair.a.buffer[0] = 1;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    api_expect(cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(pair.b.buffer[0], 1);
    assert_int_equal(ibv_close_device(other.context), 0);
    pair.a.buffer[0] = 2;
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    api_expect(cq, 1, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(pair.b.buffer[0], 1);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dereg_mr(mr);
    api_pair_close(&pair);
    assert_int_equal(ibv_dealloc_pd(other.pd), 0);
}

static void keys__of_another_pd__access_is_refused(void **state)
{
    const struct api *api = *state;
    struct pair pair;
    struct ibv_pd *other = ibv_alloc_pd(api->context);

    api_pair_open(api, &pair, NULL);
    struct ibv_mr *foreign =
        ibv_reg_mr(other, pair.b.buffer, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_sge from = api_sge(&pair.a, 0, 10);
    struct ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, &from, &pair.b, 0);
    wr.wr.rdma.rkey = foreign->rkey;
    post(&pair.a, &wr);
    api_expect(pair.a.cq, 1, IBV_WC_REM_ACCESS_ERR);
    ibv_dereg_mr(foreign);
    ibv_dealloc_pd(other);
    api_pair_close(&pair);
}

/* The peer checks the alignment of the address, as on a NIC. */
static void atomics__at_a_misaligned_address__are_refused_by_the_peer(void **state)
{
    static const enum ibv_wr_opcode opcodes[] = { IBV_WR_ATOMIC_CMP_AND_SWP,
                                                  IBV_WR_ATOMIC_FETCH_AND_ADD,
                                                  IBV_WR_ATOMIC_WRITE };

    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        struct pair pair;
        api_pair_open(*state, &pair, NULL);
        struct ibv_sge here = api_sge(&pair.a, 0, 8);
        struct ibv_send_wr wr = api_send(opcodes[i], &here);
        if (opcodes[i] == IBV_WR_ATOMIC_WRITE) {
            wr.wr.rdma.remote_addr = (uintptr_t)pair.b.buffer + 4;
            wr.wr.rdma.rkey = pair.b.mr->rkey;
        } else {
            wr.wr.atomic.remote_addr = (uintptr_t)pair.b.buffer + 4;
            wr.wr.atomic.rkey = pair.b.mr->rkey;
        }
        post(&pair.a, &wr);
        api_expect(pair.a.cq, 1, IBV_WC_REM_INV_REQ_ERR);
        api_expect_async(*state, IBV_EVENT_QP_REQ_ERR, pair.b.qp);
        api_pair_close(&pair);
    }
}

static void send__from_memory_that_is_not_registered__completes_in_error(void **state)
{
    struct pair pair;

    api_pair_open(*state, &pair, NULL);
    struct ibv_sge from = api_sge(&pair.a, 0, 10);
    from.lkey ^= 1;
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    post(&pair.a, &wr);
    struct ibv_wc wc = api_wait(pair.a.cq);
    assert_true(wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR);
    assert_int_equal(wc.wr_id, 1);
    api_pair_close(&pair);
}

static void post_send__unsignaled__completes_with_the_next_signaled_send(void **state)
{
    struct pair pair;
    struct ibv_wc wc;

    api_pair_open(*state, &pair, NULL);
    struct ibv_sge from = api_sge(&pair.a, 0, 10);
    struct ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, &from, &pair.b, 0);
    for (uint64_t i = 0; i < 40; i++) { /* more than the queue holds at once */
        wr.wr_id = i;
        wr.send_flags = i % 8 == 7 ? IBV_SEND_SIGNALED : 0;
        post(&pair.a, &wr);
        if (i % 8 == 7)
            api_expect(pair.a.cq, i, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_poll_cq(pair.a.cq, 1, &wc), 0);
    api_pair_close(&pair);
}

static void poll_cq__more_wanted_than_a_batch__returns_all_in_order(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 64);
    struct ibv_qp_init_attr init = api_qp_attr(cq);
    struct ibv_wc wc[64];
    struct ibv_recv_wr wr = { 0 }, *bad;

    init.cap.max_recv_wr = 50;
    struct ibv_qp *qp = ibv_create_qp(api->pd, &init);
    api_connect(api, qp, 0x654321);
    for (wr.wr_id = 0; wr.wr_id < 50; wr.wr_id++)
        assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_ERR, 0), 0);
    assert_int_equal(ibv_poll_cq(cq, 33, wc), 33);
    assert_int_equal(ibv_poll_cq(cq, 64, wc + 33), 17);
    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(wc[i].wr_id, i);
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(send__of_several_packets__arrives_whole),
        API_TEST(send__several_sges_on_both_sides__arrives_in_order),
        API_TEST(send_inline__buffer_changed_after_posting__sends_old_data),
        API_TEST(rdma_write__then_read_back__data_is_equal),
        API_TEST(rdma_read__access_granted_after_rts__is_answered),
        API_TEST(atomic__fetch_add_and_cmp_swap__return_the_old_value_and_store_the_new),
        API_TEST(atomics__at_a_misaligned_address__are_refused_by_the_peer),
        API_TEST(reg_mr__zero_based__is_addressed_from_zero),
        API_TEST(reg_mr__with_an_iova__is_addressed_by_the_iova),
        API_TEST(write__to_a_deregistered_region__is_refused_and_writes_nothing),
        API_TEST(closed_context__with_objects_left__peer_access_is_refused),
        API_TEST(keys__of_another_pd__access_is_refused),
        API_TEST(send__from_memory_that_is_not_registered__completes_in_error),
        API_TEST(post_send__unsignaled__completes_with_the_next_signaled_send),
        API_TEST(poll_cq__more_wanted_than_a_batch__returns_all_in_order),
    };
    return API_RUN(tests);
}
