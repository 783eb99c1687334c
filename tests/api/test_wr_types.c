/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests ibv_wr_*() for datagrams, unreliable connections and XRC, with the setters that these types
 * need. */
#include "api/wr.h"

#include <fcntl.h>
#include <string.h>

#define GRH 40u

static struct ibv_ah *to_ourselves(const struct api *api, struct ibv_pd *pd)
{
    struct ibv_ah_attr attr = api_attr(api, 0).ah_attr;
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);

    assert_non_null(ah);
    return ah;
}

/* Opens two connected queue pairs of @type. The test posts to a with ibv_wr_*(), for the operations
 * @operations. */
static void open_pair(struct wr *wr, const struct api *api, enum ibv_qp_type type,
                      uint64_t operations)
{
    struct side *a = &wr->pair.a, *b = &wr->pair.b;

    api_side_open(api, a, NULL, type, NULL);
    api_side_open(api, b, NULL, type, NULL);
    assert_int_equal(ibv_destroy_qp(a->qp), 0);
    struct ibv_qp_init_attr_ex init = wr_init(api, a->cq, operations);
    init.qp_type = type;
    a->qp = ibv_create_qp_ex(api->context, &init);
    assert_non_null(a->qp);
    wr->qp = ibv_qp_to_qp_ex(a->qp);
    api_pair_join(api, &wr->pair);
    wr->rkey = b->mr->rkey;
    wr->remote = (uintptr_t)b->buffer;
}

/* ---- datagrams ---------------------------------------------------------- */

static void open_datagrams(struct wr *wr, const struct api *api)
{
    open_pair(wr, api, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
}

/* The setters can be called in any order, and each datagram sets its destination. */
static void datagrams__each_with_an_address__arrive(void **state)
{
    const struct api *api = *state;
    struct wr wr;

    open_datagrams(&wr, api);
    struct ibv_ah *ah = to_ourselves(api, api->pd);
    struct ibv_sge to = api_sge(&wr.pair.b, 0, GRH + 64);
    for (uint64_t id = 0; id < 2; id++)
        assert_int_equal(api_post_recv(&wr.pair.b, id, &to), 0);
    memcpy(wr.pair.a.buffer, "datagram", 8);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_send(wr.qp);
    ibv_wr_set_ud_addr(wr.qp, ah, wr.pair.b.qp->qp_num, API_QKEY);
    wr_set(&wr, 0, 8);
    wr_name(&wr, 2);
    ibv_wr_send_imm(wr.qp, 0x01020304);
    ibv_wr_set_inline_data(wr.qp, wr.pair.a.buffer, 4);
    ibv_wr_set_ud_addr(wr.qp, ah, wr.pair.b.qp->qp_num, API_QKEY);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    struct ibv_wc first = api_wait(wr.pair.b.cq), second = api_wait(wr.pair.b.cq);
    assert_int_equal(first.status, IBV_WC_SUCCESS);
    assert_int_equal(first.byte_len, GRH + 8);
    assert_int_equal(first.src_qp, wr.pair.a.qp->qp_num);
    assert_int_equal(second.status, IBV_WC_SUCCESS);
    assert_int_equal(second.byte_len, GRH + 4);
    assert_int_equal(second.imm_data, 0x01020304);
    assert_memory_equal(wr.pair.b.buffer + GRH, "datagram", 8);
    api_expect(wr.pair.a.cq, 1, IBV_WC_SUCCESS);
    api_expect(wr.pair.a.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    api_pair_close(&wr.pair);
}

static void datagram__without_an_address__is_einval(void **state)
{
    struct wr wr;

    open_datagrams(&wr, *state);
    for (int last = 0; last < 2; last++) {
        ibv_wr_start(wr.qp);
        ibv_wr_send(wr.qp);
        wr_set(&wr, 0, 8);
        if (last == 0)
            ibv_wr_send(wr.qp); /* setters do not change the earlier request any more */
        assert_int_equal(ibv_wr_complete(wr.qp), EINVAL);
    }
    api_pair_close(&wr.pair);
}

static void datagram__with_an_invalid_address__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_pd *other = ibv_alloc_pd(api->context);
    struct wr wr;

    open_datagrams(&wr, api);
    struct ibv_ah *ah = to_ourselves(api, api->pd), *foreign = to_ourselves(api, other);
    for (int i = 0; i < 5; i++) {
        ibv_wr_start(wr.qp);
        ibv_wr_send(wr.qp);
        if (i == 0)
            ibv_wr_set_ud_addr(wr.qp, NULL, 5, API_QKEY);
        else if (i == 1)
            ibv_wr_set_ud_addr(wr.qp, foreign, 5, API_QKEY);
        else if (i == 2)
            ibv_wr_set_ud_addr(wr.qp, ah, 1u << 24, API_QKEY);
        else if (i == 3)
            ibv_wr_set_xrc_srqn(wr.qp, 5);
        if (i == 4) {
            ibv_wr_set_ud_addr(wr.qp, ah, 5, API_QKEY);
            ibv_wr_set_ud_addr(wr.qp, ah, 5, API_QKEY);
        }
        assert_int_equal(ibv_wr_complete(wr.qp), EINVAL);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_destroy_ah(foreign), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    api_pair_close(&wr.pair);
}

/* bug B21: the port's active MTU is 4096. */
static void datagram__longer_than_the_mtu__is_einval(void **state)
{
    const struct api *api = *state;
    struct wr wr;

    open_datagrams(&wr, api);
    struct ibv_ah *ah = to_ourselves(api, api->pd);
    for (uint32_t length = 4096; length <= 4097; length++) {
        ibv_wr_start(wr.qp);
        wr_name(&wr, 1);
        ibv_wr_send(wr.qp);
        ibv_wr_set_ud_addr(wr.qp, ah, wr.pair.b.qp->qp_num, API_QKEY);
        wr_set(&wr, 0, length);
        assert_int_equal(ibv_wr_complete(wr.qp), length > 4096 ? EINVAL : 0);
    }
    api_expect(wr.pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    api_pair_close(&wr.pair);
}

/* ---- unreliable connections --------------------------------------------- */

static void unreliable__write_with_immediate__arrives(void **state)
{
    struct wr wr;

    open_pair(&wr, *state, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM);
    struct ibv_sge none = api_sge(&wr.pair.b, 0, 0);
    assert_int_equal(api_post_recv(&wr.pair.b, 7, &none), 0);
    memset(wr.pair.a.buffer, 'u', 5000);
    ibv_wr_start(wr.qp);
    wr_name(&wr, 1);
    ibv_wr_rdma_write_imm(wr.qp, wr.rkey, wr.remote, 9);
    wr_set(&wr, 0, 5000);
    assert_int_equal(ibv_wr_complete(wr.qp), 0);
    api_expect(wr.pair.a.cq, 1, IBV_WC_SUCCESS);
    struct ibv_wc wc = api_wait(wr.pair.b.cq);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.imm_data, 9);
    assert_memory_equal(wr.pair.b.buffer, wr.pair.a.buffer, 5000);
    api_pair_close(&wr.pair);
}

/* ---- XRC ---------------------------------------------------------------- */

/* An initiator a that sends to an SRQ of the domain. */
struct xrc {
    struct wr wr; /* only a, and the buffer of b */
    struct ibv_xrcd *xrcd;
    struct ibv_srq *srq;
    struct ibv_qp *target;
    struct ibv_cq *srq_cq;
    uint32_t srqn;
};

static void open_domain(struct xrc *xrc, const struct api *api)
{
    struct ibv_xrcd_init_attr domain = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT
    };
    struct ibv_srq_init_attr_ex srq = {
        .attr = { .max_wr = 4, .max_sge = 1 },
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC,
        .pd = api->pd,
    };

    xrc->xrcd = srq.xrcd = ibv_open_xrcd(api->context, &domain);
    xrc->srq_cq = srq.cq = api_cq(api, 4);
    xrc->srq = ibv_create_srq_ex(api->context, &srq);
    assert_non_null(xrc->srq);
    assert_int_equal(ibv_get_srq_num(xrc->srq, &xrc->srqn), 0);
}

static void open_xrc(struct xrc *xrc, const struct api *api)
{
    struct side *a = &xrc->wr.pair.a, *b = &xrc->wr.pair.b;
    struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV,
                                          .comp_mask = IBV_QP_INIT_ATTR_XRCD };

    open_domain(xrc, api);
    api_side_open(api, a, NULL, IBV_QPT_UC, NULL); /* provides a buffer and a CQ */
    api_side_open(api, b, NULL, IBV_QPT_UC, NULL);
    assert_int_equal(ibv_destroy_qp(a->qp), 0);
    struct ibv_qp_init_attr_ex sender = wr_init(api, a->cq, WR_OPERATIONS);
    sender.qp_type = IBV_QPT_XRC_SEND;
    a->qp = ibv_create_qp_ex(api->context, &sender);
    target.xrcd = xrc->xrcd;
    xrc->target = ibv_create_qp_ex(api->context, &target);
    assert_non_null(a->qp);
    assert_non_null(xrc->target);
    api_connect(api, a->qp, xrc->target->qp_num);
    api_connect(api, xrc->target, a->qp->qp_num);
    xrc->wr.qp = ibv_qp_to_qp_ex(a->qp);
    xrc->wr.rkey = b->mr->rkey;
    xrc->wr.remote = (uintptr_t)b->buffer;
}

static void close_xrc(struct xrc *xrc)
{
    assert_int_equal(ibv_destroy_qp(xrc->target), 0);
    assert_int_equal(ibv_destroy_srq(xrc->srq), 0);
    assert_int_equal(ibv_destroy_cq(xrc->srq_cq), 0);
    assert_int_equal(ibv_close_xrcd(xrc->xrcd), 0);
    api_pair_close(&xrc->wr.pair);
}

static void xrc__sends_writes_and_atomics__reach_the_shared_queue_and_its_memory(void **state)
{
    struct xrc xrc;
    struct wr *wr = &xrc.wr;
    uint64_t word = 5;

    open_xrc(&xrc, *state);
    struct ibv_sge to = api_sge(&wr->pair.b, 64, 64);
    assert_int_equal(api_post_srq(xrc.srq, 7, &to), 0);
    memcpy(wr->pair.b.buffer, &word, sizeof word);
    memcpy(wr->pair.a.buffer, "extended", 8);
    ibv_wr_start(wr->qp);
    wr_name(wr, 1);
    ibv_wr_send(wr->qp);
    ibv_wr_set_xrc_srqn(wr->qp, xrc.srqn);
    wr_set(wr, 0, 8);
    wr_name(wr, 2);
    ibv_wr_rdma_write(wr->qp, wr->rkey, wr->remote + 128);
    wr_set(wr, 0, 8);
    ibv_wr_set_xrc_srqn(wr->qp, xrc.srqn);
    wr_name(wr, 3);
    ibv_wr_atomic_fetch_add(wr->qp, wr->rkey, wr->remote, 6);
    ibv_wr_set_xrc_srqn(wr->qp, xrc.srqn);
    wr_set(wr, 32, 8);
    wr_name(wr, 4);
    ibv_wr_atomic_write(wr->qp, wr->rkey, wr->remote + 256, "12345678");
    ibv_wr_set_xrc_srqn(wr->qp, xrc.srqn);
    assert_int_equal(ibv_wr_complete(wr->qp), 0);
    api_expect(xrc.srq_cq, 7, IBV_WC_SUCCESS);
    for (uint64_t id = 1; id <= 4; id++)
        api_expect(wr->pair.a.cq, id, IBV_WC_SUCCESS);
    assert_memory_equal(wr->pair.b.buffer + 64, "extended", 8);
    assert_memory_equal(wr->pair.b.buffer + 128, "extended", 8);
    assert_memory_equal(wr->pair.b.buffer + 256, "12345678", 8);
    memcpy(&word, wr->pair.b.buffer, sizeof word);
    assert_int_equal(word, 11);
    close_xrc(&xrc);
}

static void xrc__without_or_with_a_wrong_number__is_einval(void **state)
{
    struct xrc xrc;

    open_xrc(&xrc, *state);
    for (int i = 0; i < 3; i++) {
        ibv_wr_start(xrc.wr.qp);
        ibv_wr_rdma_write(xrc.wr.qp, xrc.wr.rkey, xrc.wr.remote);
        if (i == 1)
            ibv_wr_set_xrc_srqn(xrc.wr.qp, 1u << 24);
        if (i == 2)
            ibv_wr_set_ud_addr(xrc.wr.qp, NULL, 5, API_QKEY);
        assert_int_equal(ibv_wr_complete(xrc.wr.qp), EINVAL);
    }
    close_xrc(&xrc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(datagrams__each_with_an_address__arrive),
        API_TEST(datagram__without_an_address__is_einval),
        API_TEST(datagram__with_an_invalid_address__is_einval),
        API_TEST(datagram__longer_than_the_mtu__is_einval),
        API_TEST(unreliable__write_with_immediate__arrives),
        API_TEST(xrc__sends_writes_and_atomics__reach_the_shared_queue_and_its_memory),
        API_TEST(xrc__without_or_with_a_wrong_number__is_einval),
    };
    return API_RUN(tests);
}
