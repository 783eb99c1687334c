/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests two queue pairs of one device. Its link never delivers a frame, so all frames stay inside
 * the engine, and the link wakes no thread. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#define BIG (3u * 1024 * 1024 + 5) /* bytes; an engine needs many rounds to move them */

struct big {
    uint8_t *memory;
    struct ibv_mr *mr;
};

static struct big open_big(const struct api *api)
{
    struct big big = { .memory = malloc(BIG) };

    assert_non_null(big.memory);
    memset(big.memory, 0, BIG);
    big.mr = ibv_reg_mr(api->pd, big.memory, BIG,
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    assert_non_null(big.mr);
    return big;
}

static void fill(const struct big *big)
{
    for (uint32_t i = 0; i < BIG; i++)
        big->memory[i] = (uint8_t)(i * 7 + i / 255 + 1);
}

static void close_big(struct big *big)
{
    assert_int_equal(ibv_dereg_mr(big->mr), 0);
    free(big->memory);
}

static void post(struct side *side, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    assert_int_equal(ibv_post_send(side->qp, wr, &bad), 0);
}

static struct ibv_send_wr rdma(enum ibv_wr_opcode opcode, struct ibv_sge *sge,
                               const struct big *peer)
{
    struct ibv_send_wr wr = api_send(opcode, sge);

    wr.wr.rdma.remote_addr = (uintptr_t)peer->memory;
    wr.wr.rdma.rkey = peer->mr->rkey;
    return wr;
}

static void expect_event(struct ibv_comp_channel *channel, struct side *side)
{
    struct ibv_cq *cq;
    void *context;

    assert_int_equal(ibv_get_cq_event(channel, &cq, &context), 0);
    assert_ptr_equal(context, side);
    ibv_ack_cq_events(cq, 1);
}

/* ---- a program that polls ----------------------------------------------- */

static void send__both_ways__arrives(void **state)
{
    struct pair pair;

    api_pair_open(*state, &pair, NULL);
    for (uint32_t i = 0; i < 100; i++) {
        struct side *from = i % 2 ? &pair.a : &pair.b, *to = i % 2 ? &pair.b : &pair.a;
        struct ibv_sge source = api_sge(from, 0, 3000), sink = api_sge(to, 4096, 3000);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
        memset(from->buffer, (int)i, 3000);
        assert_int_equal(api_post_recv(to, i, &sink), 0);
        post(from, &wr);
        api_expect(to->cq, i, IBV_WC_SUCCESS);
        api_expect(from->cq, 1, IBV_WC_SUCCESS);
        assert_memory_equal(to->buffer + 4096, from->buffer, 3000);
    }
    api_pair_close(&pair);
}

static void write_and_read__big__arrive_whole(void **state)
{
    struct big here = open_big(*state), there = open_big(*state), back = open_big(*state);
    struct ibv_sge from = { (uintptr_t)here.memory, BIG, here.mr->lkey };
    struct ibv_sge to = { (uintptr_t)back.memory, BIG, back.mr->lkey };
    struct ibv_send_wr write = rdma(IBV_WR_RDMA_WRITE, &from, &there);
    struct ibv_send_wr read = rdma(IBV_WR_RDMA_READ, &to, &there);
    struct pair pair;

    api_pair_open(*state, &pair, NULL);
    fill(&here);
    write.next = &read;
    read.wr_id = 2;
    post(&pair.a, &write);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    api_expect(pair.a.cq, 2, IBV_WC_SUCCESS);
    assert_memory_equal(there.memory, here.memory, BIG);
    assert_memory_equal(back.memory, here.memory, BIG);
    api_pair_close(&pair);
    close_big(&here);
    close_big(&there);
    close_big(&back);
}

static void atomics__both_sides_add__nothing_is_lost(void **state)
{
    struct pair pair;
    uint64_t sum;

    api_pair_open(*state, &pair, NULL);
    for (uint32_t i = 0; i < 50; i++)
        for (struct side *side = &pair.a; side <= &pair.b; side++) {
            struct ibv_sge old = api_sge(side, 64, 8);
            struct ibv_send_wr wr = api_send(IBV_WR_ATOMIC_FETCH_AND_ADD, &old);
            wr.wr.atomic.remote_addr = (uintptr_t)pair.a.buffer;
            wr.wr.atomic.rkey = pair.a.mr->rkey;
            wr.wr.atomic.compare_add = 3;
            post(side, &wr);
            api_expect(side->cq, 1, IBV_WC_SUCCESS);
        }
    memcpy(&sum, pair.a.buffer, 8);
    assert_int_equal(sum, 300);
    api_pair_close(&pair);
}

static void destroy__peer_with_requests_outstanding__requester_fails(void **state)
{
    struct pair pair;
    struct ibv_sge from;
    struct ibv_qp_attr attr = api_attr(*state, 0);

    api_pair_open(*state, &pair, NULL);
    attr.timeout = 1;
    attr.retry_cnt = 1;
    assert_int_equal(api_go(*state, pair.a.qp, IBV_QPS_RESET, 0), 0);
    assert_int_equal(api_go(*state, pair.a.qp, IBV_QPS_INIT, 0), 0);
    assert_int_equal(api_go(*state, pair.a.qp, IBV_QPS_RTR, pair.b.qp->qp_num), 0);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, API_TO_RTS), 0);
    from = api_sge(&pair.a, 0, 8);
    struct ibv_send_wr wr =
        api_send(IBV_WR_SEND, &from); /* no receive is posted, so the SEND waits */
    post(&pair.a, &wr);
    assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
    api_expect(pair.a.cq, 1, IBV_WC_RETRY_EXC_ERR);
    pair.b.qp = api_qp(*state, pair.b.cq);
    api_pair_close(&pair);
}

/* ---- a program that waits ----------------------------------------------- */

static void send__waited_for_by_event__arrives(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pair pair;

    api_pair_open(api, &pair, channel);
    for (uint32_t i = 0; i < 100; i++) {
        struct ibv_sge from = api_sge(&pair.a, 0, 100), to = api_sge(&pair.b, 0, 100);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
        memset(pair.a.buffer, (int)i + 1, 100);
        assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
        assert_int_equal(api_post_recv(&pair.b, i, &to), 0);
        post(&pair.a, &wr);
        expect_event(channel, &pair.b);
        api_expect(pair.b.cq, i, IBV_WC_SUCCESS);
        api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
        assert_memory_equal(pair.b.buffer, pair.a.buffer, 100);
    }
    api_pair_close(&pair);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* The RNR timer ends the sender's wait while the program makes no call. */
static void send__receive_posted_later__arrives_while_the_program_sleeps(void **state)
{
    const struct api *api = *state;
    struct ibv_comp_channel *channel = ibv_create_comp_channel(api->context);
    struct pair pair;

    api_pair_open(api, &pair, channel);
    struct ibv_sge from = api_sge(&pair.a, 0, 100), to = api_sge(&pair.b, 0, 100);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
    post(&pair.a, &wr);
    assert_int_equal(api_post_recv(&pair.b, 7, &to), 0);
    expect_event(channel, &pair.b);
    api_expect(pair.b.cq, 7, IBV_WC_SUCCESS);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    api_pair_close(&pair);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* The post sends only the packets of one round. The service thread must send the rest. */
static void write__large_and_program_spins_on_its_last_byte__arrives(void **state)
{
    struct big here = open_big(*state), there = open_big(*state);
    struct ibv_sge from = { (uintptr_t)here.memory, BIG, here.mr->lkey };
    struct ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, &from, &there);
    const volatile uint8_t *last = &there.memory[BIG - 1];
    struct pair pair;

    api_pair_open(*state, &pair, NULL);
    fill(&here);
    post(&pair.a, &wr);
    while (*last != here.memory[BIG - 1])
        ;
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(there.memory, here.memory, BIG);
    api_pair_close(&pair);
    close_big(&here);
    close_big(&there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(send__both_ways__arrives),
        API_TEST(write_and_read__big__arrive_whole),
        API_TEST(atomics__both_sides_add__nothing_is_lost),
        API_TEST(destroy__peer_with_requests_outstanding__requester_fails),
        API_TEST(send__waited_for_by_event__arrives),
        API_TEST(send__receive_posted_later__arrives_while_the_program_sleeps),
        API_TEST(write__large_and_program_spins_on_its_last_byte__arrives),
    };
    return API_RUN(tests);
}
