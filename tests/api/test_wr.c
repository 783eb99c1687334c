/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the effect of builders and setters of ibv_wr_*(). test_wr_error.c tests errors. */
#include "api/wr.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static uint64_t word_at(const struct side *side, size_t offset)
{
    uint64_t word;

    memcpy(&word, side->buffer + offset, sizeof word);
    return word;
}

static void put_word(struct side *side, size_t offset, uint64_t word)
{
    memcpy(side->buffer + offset, &word, sizeof word);
}

static void post_recv(struct side *side, uint64_t id, size_t offset, uint32_t length)
{
    struct ibv_sge sink = api_sge(side, offset, length);

    assert_int_equal(api_post_recv(side, id, &sink), 0);
}

static void expect_done(struct wr *wr, uint64_t id, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = api_wait(wr->pair.a.cq);

    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, opcode);
}

/* ---- messages ----------------------------------------------------------- */

static void send__one_element__arrives(void **state)
{
    struct wr wr;
    struct ibv_wc wc;

    wr_open(&wr, *state);
    post_recv(&wr.pair.b, 7, 100, 64);
    memcpy(wr.pair.a.buffer, "hello", 6);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_send(wr.qp);
    wr_set(&wr, 0, 6);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    wc = api_wait(wr.pair.b.cq);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(wc.byte_len, 6);
    assert_string_equal((char *)wr.pair.b.buffer + 100, "hello");
    expect_done(&wr, 1, IBV_WC_SEND);
    wr_close(&wr);
}

static void send_imm__without_a_buffer__immediate_arrives(void **state)
{
    struct wr wr;
    struct ibv_wc wc;

    wr_open(&wr, *state);
    post_recv(&wr.pair.b, 7, 0, 64);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_send_imm(wr.qp, 0x12345678);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    wc = api_wait(wr.pair.b.cq);
    assert_int_equal(wc.byte_len, 0);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, 0x12345678);
    expect_done(&wr, 1, IBV_WC_SEND);
    wr_close(&wr);
}

static void send__list_of_elements__is_one_message(void **state)
{
    struct wr wr;
    struct ibv_sge sges[3];

    wr_open(&wr, *state);
    post_recv(&wr.pair.b, 7, 0, 64);
    memcpy(wr.pair.a.buffer, "abcdefghijkl", 12);
    for (size_t i = 0; i < 3; i++)
        sges[i] = api_sge(&wr.pair.a, 8 - i * 4, 4);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_send(wr.qp);
    ibv_wr_set_sge_list(wr.qp, 3, sges);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    api_expect(wr.pair.b.cq, 7, IBV_WC_SUCCESS);
    assert_memory_equal(wr.pair.b.buffer, "ijklefghabcd", 12);
    expect_done(&wr, 1, IBV_WC_SEND);
    wr_close(&wr);
}

/* Sends from memory that is not registered, and that changes before the post. */
static void send__inline__has_the_bytes_of_the_setter(void **state)
{
    uint8_t octets[WR_INLINE];
    struct wr wr;

    wr_open(&wr, *state);
    post_recv(&wr.pair.b, 7, 0, sizeof octets);
    memset(octets, 'x', sizeof octets);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    wr.qp->wr_flags |= IBV_SEND_INLINE; /* set by the program, like perftest */
    ibv_wr_send(wr.qp);
    ibv_wr_set_inline_data(wr.qp, octets, sizeof octets);
    memset(octets, 'y', sizeof octets);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    api_expect(wr.pair.b.cq, 7, IBV_WC_SUCCESS);
    memset(octets, 'x', sizeof octets);
    assert_memory_equal(wr.pair.b.buffer, octets, sizeof octets);
    expect_done(&wr, 1, IBV_WC_SEND);
    wr_close(&wr);
}

static void send__inline_flag_and_an_element__is_not_inline(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    post_recv(&wr.pair.b, 7, 0, 4096);
    memset(wr.pair.a.buffer, 'x', 4096);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    wr.qp->wr_flags |= IBV_SEND_INLINE;
    ibv_wr_send(wr.qp);
    wr_set(&wr, 0, 4096);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    api_expect(wr.pair.b.cq, 7, IBV_WC_SUCCESS);
    assert_memory_equal(wr.pair.b.buffer, wr.pair.a.buffer, 4096);
    expect_done(&wr, 1, IBV_WC_SEND);
    wr_close(&wr);
}

/* ---- remote memory ------------------------------------------------------ */

static void write__list_of_inline_pieces__arrives(void **state)
{
    char one[] = "one ", two[] = "two";
    const struct ibv_data_buf pieces[] = { { one, 4 }, { NULL, 0 }, { two, 3 } };
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote + 32);
    ibv_wr_set_inline_data_list(wr.qp, 3, pieces);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    expect_done(&wr, 1, IBV_WC_RDMA_WRITE);
    assert_memory_equal(wr.pair.b.buffer + 32, "one two", 7);
    wr_close(&wr);
}

static void write_imm__posted__peer_gets_data_and_immediate(void **state)
{
    struct wr wr;
    struct ibv_wc wc;

    wr_open(&wr, *state);
    post_recv(&wr.pair.b, 7, 4096, 0);
    memset(wr.pair.a.buffer, 'w', 3000);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_rdma_write_imm(wr.qp, wr.rkey, wr.remote, 0x01020304);
    wr_set(&wr, 0, 3000);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    wc = api_wait(wr.pair.b.cq);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.imm_data, 0x01020304);
    assert_int_equal(wc.byte_len, 3000);
    assert_memory_equal(wr.pair.b.buffer, wr.pair.a.buffer, 3000);
    expect_done(&wr, 1, IBV_WC_RDMA_WRITE);
    wr_close(&wr);
}

static void read__posted__returns_the_bytes_of_the_peer(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    memset(wr.pair.b.buffer, 'r', 3000);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_rdma_read(wr.qp, wr.rkey, wr.remote);
    wr_set(&wr, 0, 3000);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    expect_done(&wr, 1, IBV_WC_RDMA_READ);
    assert_memory_equal(wr.pair.a.buffer, wr.pair.b.buffer, 3000);
    wr_close(&wr);
}

static void atomics__swap_and_add__return_old_value(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    put_word(&wr.pair.b, 8, 11);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_atomic_cmp_swp(wr.qp, wr.rkey, wr.remote + 8, 11, 22);
    wr_set(&wr, 64, 8);
    wr_name(&wr, 2);
    ibv_wr_atomic_fetch_add(wr.qp, wr.rkey, wr.remote + 8, 20);
    wr_set(&wr, 72, 8);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    expect_done(&wr, 1, IBV_WC_COMP_SWAP);
    expect_done(&wr, 2, IBV_WC_FETCH_ADD);
    assert_int_equal(word_at(&wr.pair.a, 64), 11);
    assert_int_equal(word_at(&wr.pair.a, 72), 22);
    assert_int_equal(word_at(&wr.pair.b, 8), 42);
    wr_close(&wr);
}

static void atomic_write__bytes_of_the_call__arrive(void **state)
{
    uint64_t word = 0x1122334455667788;
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_atomic_write(wr.qp, wr.rkey, wr.remote + 8, &word);
    word = 0;
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    expect_done(&wr, 1, IBV_WC_ATOMIC_WRITE);
    assert_true(word_at(&wr.pair.b, 8) == 0x1122334455667788);
    wr_close(&wr);
}

static void flush__behind_a_write__completes(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    for (uint8_t level = WR_FLUSH_RANGE; level <= WR_FLUSH_MR; level++) {
        wr_name(&wr, level * 2);
        ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote);
        wr_set(&wr, 0, 100);
        wr_name(&wr, level * 2 + 1u);
        wr_flush_of(wr.qp)(wr.qp, wr.rkey, wr.remote, level == WR_FLUSH_MR ? SIZE_MAX : 100,
                           WR_FLUSH_GLOBAL, level);
    }
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    for (uint64_t id = 0; id < 4; id++)
        expect_done(&wr, id, id % 2 == 0 ? IBV_WC_RDMA_WRITE : WR_WC_FLUSH);
    wr_close(&wr);
}

/* The region was registered without IBV_ACCESS_FLUSH_GLOBAL. */
static void flush__of_a_region_without_flush_access__remote_access_error(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    wr_flush_of(wr.qp)(wr.qp, wr.plain_rkey, wr.remote, 100, WR_FLUSH_GLOBAL, WR_FLUSH_RANGE);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    api_expect(wr.pair.a.cq, 1, IBV_WC_REM_ACCESS_ERR);
    wr_close(&wr);
}

/* ---- batches ------------------------------------------------------------ */

/* A builder uses the wr_id and flags at the time of its call. */
static void builder__id_and_flags_changed_later__keeps_the_first_values(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote);
    wr.qp->wr_id = 2;
    wr.qp->wr_flags = 0;
    wr_set(&wr, 0, 8);
    ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote); /* not signalled */
    wr_name(&wr, 3);
    ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote);
    wr.qp->wr_id = 4;
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    expect_done(&wr, 1, IBV_WC_RDMA_WRITE);
    expect_done(&wr, 3, IBV_WC_RDMA_WRITE);
    wr_close(&wr);
}

static void wr_abort__batch_started__no_request_is_posted(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    memset(wr.pair.a.buffer, 'a', 8);
    for (uint32_t i = 0; i < 2 * WR_CAPACITY; i++) {
        ibv_wr_start(wr.qp);
        wr_name(&wr, 1);
        ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote);
        wr_set(&wr, 0, 8);
        ibv_wr_abort(wr.qp);
    }
    ibv_wr_start(wr.qp);
    wr_name(&wr, 2);
    ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote + 8);
    wr_set(&wr, 0, 8);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    expect_done(&wr, 2, IBV_WC_RDMA_WRITE);
    assert_memory_equal(wr.pair.b.buffer, "\0\0\0\0\0\0\0\0aaaaaaaa", 16);
    wr_close(&wr);
}

static void complete__empty_batch__posts_nothing(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    wr_close(&wr);
}

/* rule POST.BATCH */
static void post_send_and_builder__mixed__complete_in_order(void **state)
{
    struct wr wr;
    struct ibv_send_wr *bad;

    wr_open(&wr, *state);
    struct ibv_sge from = api_sge(&wr.pair.a, 0, 8);
    for (uint64_t id = 0; id < 100; id += 4) {
        struct ibv_send_wr plain = api_send(IBV_WR_RDMA_WRITE, &from);
        plain.wr.rdma.rkey = wr.rkey;
        plain.wr.rdma.remote_addr = wr.remote;
        plain.wr_id = id;
        assert_int_equal(ibv_post_send(wr.pair.a.qp, &plain, &bad), 0);
        ibv_wr_start(wr.qp);
        for (uint64_t i = 1; i < 4; i++) {
            wr_name(&wr, id + i);
            ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote);
            wr_set(&wr, 0, 8);
        }
        assert_int_equal(ibv_wr_complete(wr.qp), 0);
        for (uint64_t i = 0; i < 4; i++)
            expect_done(&wr, id + i, IBV_WC_RDMA_WRITE);
    }
    wr_close(&wr);
}

#define THREADS 4u
#define BATCHES 200u

struct poster {
    struct wr *wr;
    uint64_t first;
};

static void *post_batches(void *argument)
{
    const struct poster *poster = argument;
    struct ibv_qp_ex *qp = poster->wr->qp;

    for (uint64_t i = 0; i < BATCHES; i++) {
        int error;
        do { /* the queue is full until the peer has acknowledged a request */
            ibv_wr_start(qp);
            for (uint64_t step = 0; step < 2; step++) {
                qp->wr_id = poster->first + 2 * i + step;
                qp->wr_flags = IBV_SEND_SIGNALED;
                ibv_wr_atomic_fetch_add(qp, poster->wr->rkey, poster->wr->remote, 1);
                wr_set(poster->wr, 64, 8);
            }
            error = ibv_wr_complete(qp);
        } while (error == ENOMEM);
        if (error != 0)
            return argument;
    }
    return NULL;
}

/* The two requests of a batch stay adjacent, even if other threads post. */
static void batches__of_several_threads__do_not_mix(void **state)
{
    struct poster posters[THREADS];
    pthread_t threads[THREADS];
    struct wr wr;

    wr_open(&wr, *state);
    assert_int_equal(ibv_resize_cq(wr.pair.a.cq, 2 * THREADS * BATCHES), 0);
    for (uint64_t i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){ &wr, i * 2 * BATCHES };
        assert_int_equal(pthread_create(&threads[i], NULL, post_batches, &posters[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS * BATCHES; i++) {
        struct ibv_wc first = api_wait(wr.pair.a.cq), second = api_wait(wr.pair.a.cq);
        assert_int_equal(first.status, IBV_WC_SUCCESS);
        assert_int_equal(second.status, IBV_WC_SUCCESS);
        assert_int_equal(first.wr_id % 2, 0);
        assert_int_equal(second.wr_id, first.wr_id + 1);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(word_at(&wr.pair.b, 0), 2 * THREADS * BATCHES);
    wr_close(&wr);
}

struct keeper {
    struct ibv_qp *qp;
    atomic_bool stop;
};

static void *modify_until_stopped(void *argument)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
    struct keeper *keeper = argument;

    while (!atomic_load(&keeper->stop))
        if (ibv_modify_qp(keeper->qp, &attr, IBV_QP_STATE) != 0)
            return argument;
    return NULL;
}

/* A program may register memory inside a batch while another thread modifies the queue pair. */
static void batch__registers_memory_while_a_thread_modifies__no_deadlock(void **state)
{
    const struct api *api = *state;
    struct keeper keeper = { .stop = false };
    uint8_t memory[64];
    pthread_t thread;
    void *failed;
    struct wr wr;

    wr_open(&wr, api);
    keeper.qp = wr.pair.a.qp;
    assert_int_equal(pthread_create(&thread, NULL, modify_until_stopped, &keeper), 0);
    for (uint64_t id = 0; id < 4000; id++) {
        ibv_wr_start(wr.qp);
        struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
        wr_name(&wr, id);
        ibv_wr_rdma_read(wr.qp, wr.rkey, wr.remote);
        ibv_wr_set_sge(wr.qp, mr->lkey, (uintptr_t)memory, sizeof memory);
        assert_int_equal(ibv_wr_complete(wr.qp), 0);
        api_expect(wr.pair.a.cq, id, IBV_WC_SUCCESS);
        assert_int_equal(ibv_dereg_mr(mr), 0);
    }
    atomic_store(&keeper.stop, true);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    wr_close(&wr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(send__one_element__arrives),
        API_TEST(send_imm__without_a_buffer__immediate_arrives),
        API_TEST(send__list_of_elements__is_one_message),
        API_TEST(send__inline__has_the_bytes_of_the_setter),
        API_TEST(send__inline_flag_and_an_element__is_not_inline),
        API_TEST(write__list_of_inline_pieces__arrives),
        API_TEST(write_imm__posted__peer_gets_data_and_immediate),
        API_TEST(read__posted__returns_the_bytes_of_the_peer),
        API_TEST(atomics__swap_and_add__return_old_value),
        API_TEST(atomic_write__bytes_of_the_call__arrive),
        API_TEST(flush__behind_a_write__completes),
        API_TEST(flush__of_a_region_without_flush_access__remote_access_error),
        API_TEST(builder__id_and_flags_changed_later__keeps_the_first_values),
        API_TEST(wr_abort__batch_started__no_request_is_posted),
        API_TEST(complete__empty_batch__posts_nothing),
        API_TEST(post_send_and_builder__mixed__complete_in_order),
        API_TEST(batches__of_several_threads__do_not_mix),
        API_TEST(batch__registers_memory_while_a_thread_modifies__no_deadlock),
    };
    return API_RUN(tests);
}
