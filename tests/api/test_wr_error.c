/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests which calls of ibv_wr_*() are refused, and when. */
#include "api/wr.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef void (*build)(struct wr *wr);

static void nothing_begun_set_sge(struct wr *wr)
{
    wr_set(wr, 0, 8);
}

static void nothing_begun_set_inline(struct wr *wr)
{
    ibv_wr_set_inline_data(wr->qp, wr->pair.a.buffer, 8);
}

static void two_buffers(struct wr *wr)
{
    ibv_wr_send(wr->qp);
    wr_set(wr, 0, 8);
    wr_set(wr, 8, 8);
}

static void inline_too_long(struct wr *wr)
{
    ibv_wr_send(wr->qp);
    ibv_wr_set_inline_data(wr->qp, wr->pair.a.buffer, WR_INLINE + 1);
}

static void inline_too_long_together(struct wr *wr)
{
    const struct ibv_data_buf pieces[] = { { wr->pair.a.buffer, WR_INLINE },
                                           { wr->pair.a.buffer, 1 } };

    ibv_wr_send(wr->qp);
    ibv_wr_set_inline_data_list(wr->qp, 2, pieces);
}

static void inline_wraps(struct wr *wr)
{
    const struct ibv_data_buf pieces[] = { { wr->pair.a.buffer, 8 },
                                           { wr->pair.a.buffer, SIZE_MAX } };

    ibv_wr_send(wr->qp);
    ibv_wr_set_inline_data_list(wr->qp, 2, pieces);
}

static void inline_read(struct wr *wr)
{
    ibv_wr_rdma_read(wr->qp, wr->rkey, wr->remote);
    ibv_wr_set_inline_data(wr->qp, wr->pair.a.buffer, 8);
}

static void inline_atomic(struct wr *wr)
{
    ibv_wr_atomic_fetch_add(wr->qp, wr->rkey, wr->remote, 1);
    ibv_wr_set_inline_data(wr->qp, wr->pair.a.buffer, 8);
}

static void too_many_elements(struct wr *wr)
{
    struct ibv_sge sges[5] = { { 0 } };

    ibv_wr_send(wr->qp);
    ibv_wr_set_sge_list(wr->qp, 5, sges);
}

static void far_too_many_elements(struct wr *wr)
{
    struct ibv_sge sge = api_sge(&wr->pair.a, 0, 8);

    ibv_wr_send(wr->qp);
    ibv_wr_set_sge_list(wr->qp, (size_t)1 << 32 | 1, &sge);
}

static void message_too_long(struct wr *wr)
{
    struct ibv_sge sges[2] = { { .length = 0x80000000u }, { .length = 1 } };

    ibv_wr_send(wr->qp);
    ibv_wr_set_sge_list(wr->qp, 2, sges);
}

static void atomic_of_four(struct wr *wr)
{
    ibv_wr_atomic_fetch_add(wr->qp, wr->rkey, wr->remote, 1);
    wr_set(wr, 0, 4);
}

static void atomic_without_a_buffer(struct wr *wr)
{
    ibv_wr_atomic_cmp_swp(wr->qp, wr->rkey, wr->remote, 1, 2);
}

static void atomic_write_with_a_buffer(struct wr *wr)
{
    ibv_wr_atomic_write(wr->qp, wr->rkey, wr->remote, wr->pair.a.buffer);
    wr_set(wr, 0, 8);
}

static void flush_with_a_buffer(struct wr *wr)
{
    wr_flush_of(wr->qp)(wr->qp, wr->rkey, wr->remote, 8, WR_FLUSH_GLOBAL, WR_FLUSH_RANGE);
    wr_set(wr, 0, 8);
}

static void flush_to_nowhere(struct wr *wr)
{
    wr_flush_of(wr->qp)(wr->qp, wr->rkey, wr->remote, 8, 0, WR_FLUSH_RANGE);
}

static void flush_to_unknown(struct wr *wr)
{
    wr_flush_of(wr->qp)(wr->qp, wr->rkey, wr->remote, 8, 4, WR_FLUSH_RANGE);
}

static void flush_of_unknown(struct wr *wr)
{
    wr_flush_of(wr->qp)(wr->qp, wr->rkey, wr->remote, 8, WR_FLUSH_GLOBAL, 2);
}

static void flush_of_too_much(struct wr *wr)
{
    wr_flush_of(wr->qp)(wr->qp, wr->rkey, wr->remote, (size_t)1 << 32, WR_FLUSH_GLOBAL,
                        WR_FLUSH_RANGE);
}

static void local_inv_with_a_buffer(struct wr *wr)
{
    ibv_wr_local_inv(wr->qp, 5);
    wr_set(wr, 0, 8);
}

static void bind_of_nothing(struct wr *wr)
{
    const struct ibv_mw_bind_info info = { 0 };

    ibv_wr_bind_mw(wr->qp, NULL, 5, &info);
}

static void datagram_address(struct wr *wr)
{
    ibv_wr_send(wr->qp);
    ibv_wr_set_ud_addr(wr->qp, NULL, 1, 2);
}

static void xrc_address(struct wr *wr)
{
    ibv_wr_send(wr->qp);
    ibv_wr_set_xrc_srqn(wr->qp, 1);
}

static void unknown_flag(struct wr *wr)
{
    wr->qp->wr_flags = 1u << 10;
    ibv_wr_send(wr->qp);
}

static void checksum_flag(struct wr *wr)
{
    wr->qp->wr_flags = IBV_SEND_IP_CSUM;
    ibv_wr_send(wr->qp);
}

static void overfull(struct wr *wr)
{
    for (uint32_t i = 0; i < WR_CAPACITY; i++)
        ibv_wr_send(wr->qp);
}

static const struct {
    const char *name;
    build build;
    int error;
} mistakes[] = {
    { "an element for nothing", nothing_begun_set_sge, EINVAL },
    { "octets for nothing", nothing_begun_set_inline, EINVAL },
    { "a second buffer", two_buffers, EINVAL },
    { "more octets inline than granted", inline_too_long, EINVAL },
    { "more octets inline than granted, in two pieces", inline_too_long_together, EINVAL },
    { "lengths whose sum wraps", inline_wraps, EINVAL },
    { "READ into octets", inline_read, EINVAL },
    { "atomic into octets", inline_atomic, EINVAL },
    { "more elements than granted", too_many_elements, EINVAL },
    { "more elements than an int", far_too_many_elements, EINVAL },
    { "a message of more than 2^31 octets", message_too_long, EINVAL },
    { "atomic of four octets", atomic_of_four, EINVAL },
    { "atomic without a buffer", atomic_without_a_buffer, EINVAL },
    { "ATOMIC_WRITE with a buffer", atomic_write_with_a_buffer, EINVAL },
    { "FLUSH with a buffer", flush_with_a_buffer, EINVAL },
    { "FLUSH without a placement", flush_to_nowhere, EINVAL },
    { "FLUSH to an unknown placement", flush_to_unknown, EINVAL },
    { "FLUSH of an unknown selectivity", flush_of_unknown, EINVAL },
    { "FLUSH of more than 2^31 octets", flush_of_too_much, EINVAL },
    { "LOCAL_INV with a buffer", local_inv_with_a_buffer, EINVAL },
    { "BIND_MW without a window", bind_of_nothing, EINVAL },
    { "a datagram's address", datagram_address, EINVAL },
    { "an XRC SRQ", xrc_address, EINVAL },
    { "an unknown flag", unknown_flag, EINVAL },
    { "IP checksums", checksum_flag, EINVAL },
    { "more than the queue has room for", overfull, ENOMEM },
};

/* rule POST.BATCH: the valid requests before and after the wrong request are not posted either. */
static void complete__one_mistake__nothing_is_posted(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        print_message("# %s\n", mistakes[i].name);
        memset(wr.pair.a.buffer, 'x', 8);
        ibv_wr_start(wr.qp);
        for (int good = 0; good < 2; good++) {
            if (good == 1) {
                wr_name(&wr, 1);
                mistakes[i].build(&wr);
            } else if (strstr(mistakes[i].name, "for nothing") != NULL) {
                continue;
            }
            wr_name(&wr, 2);
            ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote);
            wr_set(&wr, 0, 8);
        }
        assert_int_equal(ibv_wr_complete(wr.qp), mistakes[i].error);
    }
    /* A request that was posted by mistake would complete before this request. */
    ibv_wr_start(wr.qp);
    wr_name(&wr, 3);
    ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote + 64);
    wr_set(&wr, 0, 8);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    api_expect(wr.pair.a.cq, 3, IBV_WC_SUCCESS);
    assert_memory_equal(wr.pair.b.buffer, "\0\0\0\0\0\0\0\0", 8);
    wr_close(&wr);
}

static void complete__several_mistakes__returns_the_first_error(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    overfull(&wr);
    ibv_wr_send(wr.qp);
    wr_name(&wr, 1);
    two_buffers(&wr);
    assert_int_equal(ibv_wr_complete(wr.qp), ENOMEM);
    ibv_wr_start(wr.qp);
    two_buffers(&wr);
    overfull(&wr);
    assert_int_equal(ibv_wr_complete(wr.qp), EINVAL);
    wr_close(&wr);
}

/* Posts @count WRITEs in one batch. Returns the result of ibv_wr_complete(). */
static int post_writes(struct wr *wr, uint64_t count)
{
    ibv_wr_start(wr->qp);
    for (uint64_t id = 0; id < count; id++) {
        wr_name(wr, id);
        ibv_wr_rdma_write(wr->qp, wr->rkey, wr->remote);
        wr_set(wr, 0, 8);
    }
    return ibv_wr_complete(wr->qp);
}

static void complete__exactly_full__is_posted(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    assert_int_equal(post_writes(&wr, WR_CAPACITY + 1), ENOMEM); /* one request too many */
    assert_int_equal(post_writes(&wr, WR_CAPACITY), 0);
    for (uint64_t id = 0; id < WR_CAPACITY; id++)
        api_expect(wr.pair.a.cq, id, IBV_WC_SUCCESS);
    wr_close(&wr);
}

static void complete__before_rts__is_einval(void **state)
{
    static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR };
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp_init_attr_ex init = wr_init(api, cq, IBV_QP_EX_WITH_SEND);
    struct ibv_qp *qp = ibv_create_qp_ex(api->context, &init);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);

    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        assert_int_equal(api_go(api, qp, states[i], 5), 0);
        ibv_wr_start(ex);
        ibv_wr_send(ex);
        assert_int_equal(ibv_wr_complete(ex), EINVAL);
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void complete__in_error__is_flushed(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    assert_int_equal(api_go(*state, wr.pair.a.qp, IBV_QPS_ERR, 0), 0);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 5);
    ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    api_expect(wr.pair.a.cq, 5, IBV_WC_WR_FLUSH_ERR);
    wr_close(&wr);
}

/* struct ibv_send_wr has no members for the arguments of FLUSH; it can carry an ATOMIC_WRITE. */
static void post_send__flush__is_einval(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    struct ibv_send_wr plain = api_send((enum ibv_wr_opcode)14, NULL), *bad = NULL;
    assert_int_equal(ibv_post_send(wr.pair.a.qp, &plain, &bad), EINVAL);
    assert_ptr_equal(bad, &plain);
    wr_close(&wr);
}

static int post_in_child(struct wr *wr)
{
    ibv_wr_start(wr->qp);
    ibv_wr_send(wr->qp);
    wr_set(wr, 0, 8);
    if (ibv_wr_complete(wr->qp) != EIO)
        return 1;
    ibv_wr_start(wr->qp);
    ibv_wr_abort(wr->qp);
    return 0;
}

/* The process forks inside a batch: the child has no thread that holds the lock. */
static void complete__in_a_forked_child__is_eio(void **state)
{
    struct wr wr;
    int status;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(post_in_child(&wr));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    wr_close(&wr);
}

/* After an error of its own, a program may destroy the queue pair without finishing the batch. */
static void destroy__inside_a_batch__succeeds(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_send(wr.qp);
    wr_close(&wr);
}

static void modify__inside_a_batch__loses_the_batch(void **state)
{
    struct wr wr;

    wr_open(&wr, *state);
    ibv_wr_start(wr.qp);
    ibv_wr_rdma_write(wr.qp, wr.rkey, wr.remote);
    assert_int_equal(api_go(*state, wr.pair.a.qp, IBV_QPS_RESET, 0), 0);
    wr_set(&wr, 0, 8);
    assert_int_equal(ibv_wr_complete(wr.qp), EINVAL);
    api_connect(*state, wr.pair.a.qp, wr.pair.b.qp->qp_num);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 2);
    ibv_wr_send(wr.qp);
    ibv_wr_abort(wr.qp);
    wr_close(&wr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(complete__one_mistake__nothing_is_posted),
        API_TEST(complete__several_mistakes__returns_the_first_error),
        API_TEST(complete__exactly_full__is_posted),
        API_TEST(complete__before_rts__is_einval),
        API_TEST(complete__in_error__is_flushed),
        API_TEST(post_send__flush__is_einval),
        API_TEST(complete__in_a_forked_child__is_eio),
        API_TEST(destroy__inside_a_batch__succeeds),
        API_TEST(modify__inside_a_batch__loses_the_batch),
    };
    return API_RUN(tests);
}
