/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests XRC: domains, SRQs with numbers, both ends of a connection, and several handles of a queue
 * pair. */
#include "api/api.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int flags)
{
    struct ibv_xrcd_init_attr init = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = flags
    };

    errno = 0;
    return ibv_open_xrcd(context, &init);
}

static struct ibv_srq_init_attr_ex srq_attr(const struct api *api, struct ibv_xrcd *xrcd,
                                            struct ibv_cq *cq)
{
    return (struct ibv_srq_init_attr_ex){ .attr = { .max_wr = 16, .max_sge = 4 },
                                          .comp_mask =
                                              IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                              IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
                                          .srq_type = IBV_SRQT_XRC,
                                          .pd = api->pd,
                                          .xrcd = xrcd,
                                          .cq = cq };
}

static struct ibv_srq *open_srq(const struct api *api, struct ibv_xrcd *xrcd, struct ibv_cq *cq,
                                uint32_t *number)
{
    struct ibv_srq_init_attr_ex init = srq_attr(api, xrcd, cq);
    struct ibv_srq *srq = ibv_create_srq_ex(api->context, &init);

    assert_non_null(srq);
    assert_int_equal(ibv_get_srq_num(srq, number), 0);
    return srq;
}

static struct ibv_qp_init_attr_ex target_attr(struct ibv_xrcd *xrcd)
{
    return (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV,
                                         .comp_mask = IBV_QP_INIT_ATTR_XRCD,
                                         .cap = { 9, 9, 9, 9, 9 },
                                         .xrcd = xrcd };
}

static struct ibv_qp *open_target(struct ibv_context *context, struct ibv_xrcd *xrcd)
{
    struct ibv_qp_init_attr_ex init = target_attr(xrcd);
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);

    assert_non_null(qp);
    return qp;
}

static struct ibv_qp_open_attr open_attr(struct ibv_xrcd *xrcd, uint32_t number)
{
    return (struct ibv_qp_open_attr){ .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
                                                   IBV_QP_OPEN_ATTR_TYPE,
                                      .qp_num = number,
                                      .xrcd = xrcd,
                                      .qp_type = IBV_QPT_XRC_RECV };
}

static void expect_not_open(struct ibv_context *context, struct ibv_qp_open_attr attr, int error)
{
    errno = 0;
    assert_null(ibv_open_qp(context, &attr));
    assert_int_equal(errno, error);
}

/* An initiator and its target: a domain with two SRQs, whose receives complete in cq. */
struct stand {
    const struct api *api;
    struct side a;
    struct ibv_xrcd *xrcd;
    struct ibv_cq *cq;
    struct ibv_srq *srq[2];
    uint32_t number[2];
    struct ibv_qp *target;
};

static void stand_open(struct stand *stand, const struct api *api)
{
    *stand = (struct stand){ .api = api };
    api_side_open(api, &stand->a, NULL, IBV_QPT_XRC_SEND, NULL);
    stand->xrcd = open_domain(api->context, -1, O_CREAT);
    assert_non_null(stand->xrcd);
    stand->cq = api_cq(api, 16);
    for (int i = 0; i < 2; i++)
        stand->srq[i] = open_srq(api, stand->xrcd, stand->cq, &stand->number[i]);
    stand->target = open_target(api->context, stand->xrcd);
    api_connect(api, stand->a.qp, stand->target->qp_num);
    api_connect(api, stand->target, stand->a.qp->qp_num);
    for (size_t i = 0; i < 4000; i++)
        stand->a.buffer[i] = (uint8_t)(i + i / 255 + 1);
}

static void stand_close(struct stand *stand)
{
    if (stand->target != NULL)
        assert_int_equal(ibv_destroy_qp(stand->target), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ibv_destroy_srq(stand->srq[i]), 0);
    assert_int_equal(ibv_destroy_cq(stand->cq), 0);
    assert_int_equal(ibv_close_xrcd(stand->xrcd), 0);
    api_side_close(&stand->a);
}

static struct ibv_send_wr request(const struct stand *stand, enum ibv_wr_opcode opcode,
                                  struct ibv_sge *sge, int srq)
{
    struct ibv_send_wr wr = api_send(opcode, sge);

    wr.qp_type.xrc.remote_srqn = stand->number[srq];
    wr.wr.rdma.remote_addr = (uintptr_t)stand->a.buffer + 4000;
    wr.wr.rdma.rkey = stand->a.mr->rkey;
    return wr;
}

/* ---- domains ------------------------------------------------------------------ */

static int temporary(void)
{
    int fd = memfd_create("xrcd", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void open_xrcd__wrong_arguments__has_the_errno_of_the_kernel(void **state)
{
    const struct api *api = *state;
    struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };

    errno = 0;
    assert_null(ibv_open_xrcd(api->context, &init));
    assert_int_equal(errno, EINVAL);
    init.comp_mask = 7;
    errno = 0;
    assert_null(ibv_open_xrcd(api->context, &init));
    assert_int_equal(errno, EOPNOTSUPP);

    int fd = temporary();
    assert_null(open_domain(api->context, fd, 0)); /* the inode has no domain yet */
    assert_int_equal(errno, EAGAIN);
    struct ibv_xrcd *xrcd = open_domain(api->context, fd, O_CREAT | O_EXCL);
    assert_non_null(xrcd);
    assert_null(open_domain(api->context, fd, O_CREAT | O_EXCL));
    assert_int_equal(errno, EINVAL);
    assert_null(open_domain(api->context, fd, O_EXCL));
    assert_int_equal(errno, EINVAL);
    int other = temporary(); /* another inode, which has another domain */
    struct ibv_xrcd *second = open_domain(api->context, other, O_CREAT | O_EXCL);
    assert_non_null(second);
    assert_int_equal(ibv_close_xrcd(second), 0);
    close(other);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    assert_null(open_domain(api->context, fd, 0)); /* the last close ended the domain */
    assert_int_equal(errno, EAGAIN);
    close(fd);
    assert_null(open_domain(api->context, fd, O_CREAT));
    assert_int_equal(errno, EBADF);
}

static void xrcd__in_use__is_busy(void **state)
{
    const struct api *api = *state;
    struct ibv_xrcd *xrcd = open_domain(api->context, -1, O_CREAT);
    struct ibv_cq *cq = api_cq(api, 4);
    uint32_t number;
    struct ibv_srq *srq = open_srq(api, xrcd, cq, &number);

    assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
    assert_int_equal(ibv_destroy_cq(cq), EBUSY);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    struct ibv_qp *qp = open_target(api->context, xrcd);
    assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

/* ---- refused calls -------------------------------------------------------------- */

static void xrc_srq__without_pd_domain_or_cq__is_einval(void **state)
{
    static const uint32_t needed[] = { IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD,
                                       IBV_SRQ_INIT_ATTR_CQ };
    const struct api *api = *state;
    struct ibv_xrcd *xrcd = open_domain(api->context, -1, O_CREAT);
    struct ibv_cq *cq = api_cq(api, 4);

    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++) {
        struct ibv_srq_init_attr_ex init = srq_attr(api, xrcd, cq);
        init.comp_mask &= ~needed[i];
        errno = 0;
        assert_null(ibv_create_srq_ex(api->context, &init));
        assert_int_equal(errno, EINVAL);
    }
    struct ibv_srq_init_attr_ex init = srq_attr(api, xrcd, NULL);
    errno = 0;
    assert_null(ibv_create_srq_ex(api->context, &init));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

static void create_qp__with_queues_that_the_type_lacks__ignored_or_einval(void **state)
{
    struct stand stand;

    stand_open(&stand, *state);
    struct ibv_qp_init_attr sender = api_qp_attr(stand.cq);
    sender.qp_type = IBV_QPT_XRC_SEND;
    sender.srq = stand.srq[0];
    struct ibv_qp *qp = ibv_create_qp(stand.api->pd, &sender);
    assert_non_null(qp); /* this type receives nothing, so the member is ignored */
    assert_null(qp->srq);
    assert_null(qp->recv_cq);
    assert_int_equal(sender.cap.max_recv_wr, 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    sender.qp_type = IBV_QPT_RC; /* RC supports only basic SRQs */
    errno = 0;
    assert_null(ibv_create_qp(stand.api->pd, &sender));
    assert_int_equal(errno, EINVAL);
    struct ibv_qp_init_attr_ex target = target_attr(NULL);
    errno = 0;
    assert_null(ibv_create_qp_ex(stand.api->context, &target));
    assert_int_equal(errno, EINVAL);
    target = target_attr(stand.xrcd);
    target.qp_type = IBV_QPT_RC; /* RC has no domain */
    target.comp_mask |= IBV_QP_INIT_ATTR_PD;
    target.pd = stand.api->pd;
    target.send_cq = target.recv_cq = stand.cq;
    errno = 0;
    assert_null(ibv_create_qp_ex(stand.api->context, &target));
    assert_int_equal(errno, EINVAL);
    stand_close(&stand);
}

static void xrc_target__post_or_query__has_no_queues(void **state)
{
    struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv = NULL;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct stand stand;

    stand_open(&stand, *state);
    struct ibv_sge sge = api_sge(&stand.a, 0, 8);
    struct ibv_send_wr send = request(&stand, IBV_WR_SEND, &sge, 0), *bad_send = NULL;
    assert_int_equal(ibv_post_send(stand.target, &send, &bad_send), EINVAL);
    assert_ptr_equal(bad_send, &send);
    assert_int_equal(ibv_post_recv(stand.target, &recv, &bad_recv), EINVAL);
    assert_ptr_equal(bad_recv, &recv);
    assert_int_equal(ibv_post_recv(stand.a.qp, &recv, &bad_recv), EINVAL);
    send.qp_type.xrc.remote_srqn = 0x1000000;
    assert_int_equal(api_post_send(&stand.a, &send), EINVAL);

    assert_int_equal(ibv_query_qp(stand.target, &attr, -1, &init), 0);
    assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
    assert_null(init.send_cq);
    assert_null(init.recv_cq);
    assert_null(stand.target->pd);
    assert_int_equal(attr.cap.max_send_wr, 0);
    assert_int_equal(attr.cap.max_recv_wr, 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.dest_qp_num, stand.a.qp->qp_num);
    stand_close(&stand);
}

static void create__with_objects_of_another_context__is_einval(void **state)
{
    struct stand stand;

    stand_open(&stand, *state);
    struct ibv_context *context = ibv_open_device(stand.api->device);
    struct ibv_srq_init_attr_ex srq = srq_attr(stand.api, stand.xrcd, stand.cq);
    errno = 0;
    assert_null(ibv_create_srq_ex(context, &srq));
    assert_int_equal(errno, EINVAL);
    struct ibv_qp_init_attr_ex target = target_attr(stand.xrcd);
    errno = 0;
    assert_null(ibv_create_qp_ex(context, &target));
    assert_int_equal(errno, EINVAL);
    expect_not_open(context, open_attr(stand.xrcd, stand.target->qp_num), EINVAL);

    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    struct ibv_srq_init_attr basic = { .attr = { .max_wr = 1, .max_sge = 1 } };
    struct ibv_srq *shared = ibv_create_srq(stand.api->pd, &basic);
    struct ibv_qp_init_attr init = api_qp_attr(cq);
    init.srq = shared;
    errno = 0;
    assert_null(ibv_create_qp(pd, &init));
    assert_int_equal(errno, EINVAL);
    init.srq = NULL;
    init.recv_cq = stand.cq;
    errno = 0;
    assert_null(ibv_create_qp(pd, &init));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_destroy_srq(shared), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
    stand_close(&stand);
}

/* ---- traffic ------------------------------------------------------------------- */

static void xrc_send__to_one_of_two_srqs__arrives_in_this_srq(void **state)
{
    struct stand stand;

    stand_open(&stand, *state);
    struct ibv_sge from = api_sge(&stand.a, 0, 3000);
    for (int srq = 1; srq >= 0; srq--) {
        struct ibv_sge to = api_sge(&stand.a, 4000, 3000);
        memset(stand.a.buffer + 4000, 0, 3000);
        assert_int_equal(api_post_srq(stand.srq[srq], 20 + (uint64_t)srq, &to), 0);
        struct ibv_send_wr wr = request(&stand, IBV_WR_SEND_WITH_IMM, &from, srq);
        wr.imm_data = 77;
        assert_int_equal(api_post_send(&stand.a, &wr), 0);
        struct ibv_wc wc = api_wait(stand.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, 20 + srq);
        assert_int_equal(wc.byte_len, 3000);
        assert_int_equal(wc.qp_num, stand.target->qp_num);
        assert_int_equal(wc.imm_data, 77);
        assert_memory_equal(stand.a.buffer + 4000, stand.a.buffer, 3000);
        api_expect(stand.a.cq, 1, IBV_WC_SUCCESS);
    }
    stand_close(&stand);
}

static void xrc_write_read_atomic__to_a_target__reach_memory_of_the_srqs_pd(void **state)
{
    struct stand stand;

    stand_open(&stand, *state);
    struct ibv_sge from = api_sge(&stand.a, 0, 2500), back = api_sge(&stand.a, 1000, 8);
    struct ibv_send_wr wr = request(&stand, IBV_WR_RDMA_WRITE_WITH_IMM, &from, 0);
    assert_int_equal(api_post_srq(stand.srq[0], 5, NULL), 0);
    assert_int_equal(api_post_send(&stand.a, &wr), 0);
    assert_int_equal(api_wait(stand.cq).opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    api_expect(stand.a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(stand.a.buffer + 4000, stand.a.buffer, 2500);

    wr = request(&stand, IBV_WR_RDMA_READ, &back, 1);
    assert_int_equal(api_post_send(&stand.a, &wr), 0);
    api_expect(stand.a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(stand.a.buffer + 1000, stand.a.buffer, 8);

    uint64_t value = 40;
    memcpy(stand.a.buffer + 4000, &value, sizeof value);
    wr = request(&stand, IBV_WR_ATOMIC_FETCH_AND_ADD, &back, 1);
    wr.wr.atomic.remote_addr = (uintptr_t)stand.a.buffer + 4000;
    wr.wr.atomic.rkey = stand.a.mr->rkey;
    wr.wr.atomic.compare_add = 2;
    assert_int_equal(wr.wr.atomic.remote_addr % 8, 0);
    assert_int_equal(api_post_send(&stand.a, &wr), 0);
    api_expect(stand.a.cq, 1, IBV_WC_SUCCESS);
    memcpy(&value, stand.a.buffer + 4000, sizeof value);
    assert_int_equal(value, 42);
    stand_close(&stand);
}

static void send__to_a_queue_of_another_domain__fails(void **state)
{
    const struct api *api = *state;
    struct ibv_xrcd *other = open_domain(api->context, -1, O_CREAT);
    struct stand stand;

    stand_open(&stand, api);
    uint32_t number;
    struct ibv_srq *srq = open_srq(api, other, stand.cq, &number);
    assert_int_equal(api_post_srq(srq, 1, NULL), 0);
    struct ibv_send_wr wr = request(&stand, IBV_WR_SEND, NULL, 0);
    wr.qp_type.xrc.remote_srqn = number;
    assert_int_equal(api_post_send(&stand.a, &wr), 0);
    api_expect(stand.a.cq, 1, IBV_WC_REM_INV_REQ_ERR);
    api_expect_async(api, IBV_EVENT_QP_REQ_ERR, stand.target);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    stand_close(&stand);
    assert_int_equal(ibv_close_xrcd(other), 0);
}

/* ---- several handles ------------------------------------------------------------ */

static void open_qp__wrong_attribute__is_refused(void **state)
{
    const struct api *api = *state;
    struct stand stand;

    stand_open(&stand, api);
    struct ibv_qp_open_attr good = open_attr(stand.xrcd, stand.target->qp_num), attr = good;
    attr.qp_num = stand.a.qp->qp_num;
    expect_not_open(api->context, attr, EINVAL);
    attr = good;
    attr.qp_type = IBV_QPT_RC;
    expect_not_open(api->context, attr, EINVAL);
    attr = good;
    attr.comp_mask &= ~(uint32_t)IBV_QP_OPEN_ATTR_XRCD;
    expect_not_open(api->context, attr, EINVAL);
    attr = good;
    attr.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED;
    expect_not_open(api->context, attr, EOPNOTSUPP);
    struct ibv_xrcd *other = open_domain(api->context, -1, O_CREAT);
    attr = good;
    attr.xrcd = other;
    expect_not_open(api->context, attr, EINVAL);
    assert_int_equal(ibv_close_xrcd(other), 0);
    stand_close(&stand);
}

/* rule XRC.HANDLES: a program that opened the domain through its inode, in another context, keeps
 * the queue pair until it frees its handle. Both handles get the events of the queue pair. */
static void open_qp__in_another_context__is_the_same_queue_pair(void **state)
{
    const struct api *api = *state;
    struct ibv_context *context = ibv_open_device(api->device);
    struct api other = { .device = api->device, .context = context };
    int fd = temporary();
    struct ibv_xrcd *here = open_domain(api->context, fd, O_CREAT);
    struct ibv_xrcd *there = open_domain(context, fd, 0);
    struct ibv_qp *first = open_target(api->context, here);
    struct ibv_qp_open_attr attr = open_attr(there, first->qp_num);
    attr.comp_mask |= IBV_QP_OPEN_ATTR_CONTEXT;
    attr.qp_context = &other;
    struct ibv_qp *second = ibv_open_qp(context, &attr);

    assert_non_null(second);
    assert_int_equal(second->qp_num, first->qp_num);
    assert_int_equal(second->qp_type, IBV_QPT_XRC_RECV);
    assert_ptr_equal(second->qp_context, &other);
    api_connect(&other, second, 0x123456);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr got;
    assert_int_equal(ibv_query_qp(first, &got, -1, &init), 0);
    assert_int_equal(got.qp_state, IBV_QPS_RTS);
    assert_int_equal(got.ah_attr.is_global, 1);
    assert_int_equal(api_go(api, first, IBV_QPS_SQD, 0), 0);
    api_expect_async(api, IBV_EVENT_SQ_DRAINED, first);
    api_expect_async(&other, IBV_EVENT_SQ_DRAINED, second);

    assert_int_equal(ibv_close_xrcd(there), EBUSY);
    assert_int_equal(ibv_destroy_qp(first), 0);
    assert_int_equal(ibv_query_qp(second, &got, -1, &init), 0);
    assert_int_equal(got.qp_state, IBV_QPS_SQD);
    assert_int_equal(ibv_destroy_qp(second), 0);
    errno = 0;
    assert_null(ibv_open_qp(context, &attr)); /* the queue pair was destroyed with the last
                                                 handle */
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_close_xrcd(here), 0);
    assert_int_equal(ibv_close_xrcd(there), 0);
    close(fd);
    assert_int_equal(ibv_close_device(context), 0);
}

static void close_device__with_xrc_objects_left__objects_can_be_destroyed(void **state)
{
    const struct api *api = *state;
    struct api own = { .device = api->device, .context = ibv_open_device(api->device) };
    struct stand stand;

    own.pd = ibv_alloc_pd(own.context);
    stand_open(&stand, &own);
    assert_int_equal(api_post_srq(stand.srq[0], 1, NULL), 0);
    assert_int_equal(ibv_close_device(own.context), 0);
    stand_close(&stand);
    assert_int_equal(ibv_dealloc_pd(own.pd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(open_xrcd__wrong_arguments__has_the_errno_of_the_kernel),
        API_TEST(xrcd__in_use__is_busy),
        API_TEST(xrc_srq__without_pd_domain_or_cq__is_einval),
        API_TEST(create_qp__with_queues_that_the_type_lacks__ignored_or_einval),
        API_TEST(create__with_objects_of_another_context__is_einval),
        API_TEST(xrc_target__post_or_query__has_no_queues),
        API_TEST(xrc_send__to_one_of_two_srqs__arrives_in_this_srq),
        API_TEST(xrc_write_read_atomic__to_a_target__reach_memory_of_the_srqs_pd),
        API_TEST(send__to_a_queue_of_another_domain__fails),
        API_TEST(open_qp__wrong_attribute__is_refused),
        API_TEST(open_qp__in_another_context__is_the_same_queue_pair),
        API_TEST(close_device__with_xrc_objects_left__objects_can_be_destroyed),
    };
    return API_RUN(tests);
}
