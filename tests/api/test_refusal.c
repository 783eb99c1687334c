/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that each refused call reports which argument is wrong, in `uroce why` and on stderr. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api/refusals.h"

static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void begin(const struct api *api, enum ibv_qp_state state)
{
    cq = api_cq(api, 16);
    qp = api_qp(api, cq);
    for (unsigned to = IBV_QPS_INIT; to <= (unsigned)state; to++)
        assert_int_equal(api_go(api, qp, (enum ibv_qp_state)to, qp->qp_num), 0);
}

static void end(void)
{
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void refuse_modify(struct ibv_qp_attr *attr, int mask, const char *wanted)
{
    assert_int_equal(ibv_modify_qp(qp, attr, mask), EINVAL);
    refusals_expect("ibv_modify_qp", EINVAL, wanted);
}

static void modify__to_rtr__reports_which_attribute_is_wrong(void **state)
{
    const struct api *api = *state;

    begin(api, IBV_QPS_INIT);
    const struct ibv_qp_attr good = api_attr(api, qp->qp_num);
    struct ibv_qp_attr attr = good;
    attr.qp_state = IBV_QPS_RTR;

    attr.path_mtu = IBV_MTU_4096;
    refuse_modify(
        &attr, API_TO_RTR,
        "path_mtu 4096 is more than active_mtu 1024 of the port, whose link carries 1500");
    attr.path_mtu = (enum ibv_mtu)9;
    refuse_modify(&attr, API_TO_RTR, "path_mtu 9 is not in enum ibv_mtu");
    attr.path_mtu = good.path_mtu;

    attr.ah_attr.grh.sgid_index = 99;
    refuse_modify(&attr, API_TO_RTR, "sgid_index 99 has no GID: the device has 3, 0 to 2");
    attr.ah_attr.grh.sgid_index = good.ah_attr.grh.sgid_index;

    attr.ah_attr.is_global = 0;
    refuse_modify(&attr, API_TO_RTR, "has no GRH");
    attr.ah_attr.is_global = 1;

    attr.ah_attr.port_num = 2;
    refuse_modify(&attr, API_TO_RTR, "ah_attr.port_num is 2; the only port is 1");
    attr.ah_attr.port_num = 1;

    assert_int_equal(inet_pton(AF_INET6, "fd00::2", attr.ah_attr.grh.dgid.raw), 1);
    refuse_modify(&attr, API_TO_RTR,
                  "the peer's GID fd00::2 is IPv6, but sgid_index 1 is 10.0.0.1");
    memset(attr.ah_attr.grh.dgid.raw, 0, 16);
    refuse_modify(&attr, API_TO_RTR, "dgid is zero");
    attr.ah_attr = good.ah_attr;

    assert_int_equal(inet_pton(AF_INET6, "::ffff:10.9.9.9", attr.ah_attr.grh.dgid.raw), 1);
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), ENETUNREACH);
    refusals_expect("ibv_modify_qp", ENETUNREACH, "the peer's GID 10.9.9.9 is in no subnet");
    attr.ah_attr = good.ah_attr;

    attr.min_rnr_timer = 32;
    refuse_modify(&attr, API_TO_RTR, "min_rnr_timer is 32; it must be at most 31");
    attr.min_rnr_timer = good.min_rnr_timer;
    attr.dest_qp_num = 1u << 24;
    refuse_modify(&attr, API_TO_RTR, "dest_qp_num is 16777216");
    attr.dest_qp_num = good.dest_qp_num;

    refuse_modify(&attr, API_TO_RTR & ~(IBV_QP_MIN_RNR_TIMER | IBV_QP_AV),
                  "INIT to RTR lacks IBV_QP_AV, IBV_QP_MIN_RNR_TIMER in the mask");
    refuse_modify(&attr, API_TO_RTR | IBV_QP_TIMEOUT,
                  "INIT to RTR does not take IBV_QP_TIMEOUT in the mask");
    end();
}

static void refusal__modify_qp_other_transition__has_the_reason(void **state)
{
    const struct api *api = *state;

    begin(api, IBV_QPS_RESET);
    struct ibv_qp_attr attr = api_attr(api, qp->qp_num);
    attr.qp_state = IBV_QPS_RTS;
    refuse_modify(&attr, API_TO_RTS, "no transition leads from RESET to RTS");
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 2;
    refuse_modify(&attr, API_TO_INIT, "port_num is 2; the only port is 1");
    attr.port_num = 1;
    attr.pkey_index = 1;
    refuse_modify(&attr, API_TO_INIT, "pkey_index is 1; it must be at most 0");
    attr.pkey_index = 0;
    attr.qp_access_flags = 1 << 30;
    refuse_modify(&attr, API_TO_INIT, "unknown bit in qp_access_flags 0x40000000");
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, qp->qp_num), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, qp->qp_num), 0);
    attr = api_attr(api, qp->qp_num);
    attr.qp_state = IBV_QPS_RTS;
    attr.cur_qp_state = IBV_QPS_INIT;
    refuse_modify(&attr, API_TO_RTS | IBV_QP_CUR_STATE,
                  "cur_qp_state is INIT, but the state is RTR");
    attr.retry_cnt = 8;
    refuse_modify(&attr, API_TO_RTS, "retry_cnt is 8; it must be at most 7");
    end();
}

static void refuse_send(struct ibv_send_wr *wr, const char *wanted)
{
    struct ibv_send_wr *bad;

    assert_int_equal(ibv_post_send(qp, wr, &bad), EINVAL);
    refusals_expect("ibv_post_send", EINVAL, wanted);
}

static void refusal__post_send_or_recv__has_the_fault_of_the_request(void **state)
{
    const struct api *api = *state;
    struct ibv_sge sges[5] = { { .length = 4 } };
    struct ibv_send_wr wr = { .sg_list = sges, .num_sge = 1, .opcode = IBV_WR_SEND };
    struct ibv_recv_wr recv = { .sg_list = sges, .num_sge = 5 }, *bad;

    begin(api, IBV_QPS_RTR);
    refuse_send(&wr, "the queue pair is in RTR: sends need RTS");
    assert_int_equal(api_go(api, qp, IBV_QPS_RTS, qp->qp_num), 0);
    wr.num_sge = 5;
    refuse_send(&wr, "num_sge is 5, but the queue pair has max_send_sge 4");
    wr.num_sge = 1;
    wr.opcode = (enum ibv_wr_opcode)77;
    refuse_send(&wr, "opcode 77 is unknown");
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    refuse_send(&wr, "an atomic needs a buffer of 8 bytes, not of 4");
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_INLINE;
    sges[0].length = 1000;
    refuse_send(&wr, "IBV_SEND_INLINE with 1000 bytes, but the queue pair has max_inline_data");
    wr.send_flags = 1u << 20;
    refuse_send(&wr, "send_flags 0x100000 is not possible");
    assert_int_equal(ibv_post_recv(qp, &recv, &bad), EINVAL);
    refusals_expect("ibv_post_recv", EINVAL, "num_sge is 5; the queue accepts at most 4");
    end();
}

/* A full queue is not an error of the program, because programs post until the queue is full. */
static void post__to_a_full_queue__is_not_recorded(void **state)
{
    const struct api *api = *state;
    struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;
    int error;

    begin(api, IBV_QPS_RESET);
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
    refusals_expect("ibv_post_recv", EINVAL, "the queue pair is in RESET: receives need INIT");
    const uint64_t number = refusals_last.number;
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, qp->qp_num), 0);
    while ((error = ibv_post_recv(qp, &wr, &bad)) == 0)
        ;
    assert_int_equal(error, ENOMEM);
    refusals_expect("ibv_post_recv", EINVAL, "the queue pair is in RESET");
    assert_int_equal(refusals_last.number, number);
    end();
}

static void refusal__create__has_the_exceeded_limit(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 0, .max_sge = 1 } };

    begin(api, IBV_QPS_RESET);
    struct ibv_qp_init_attr attr = api_qp_attr(cq);
    attr.cap.max_send_sge = 33;
    assert_null(ibv_create_qp(api->pd, &attr));
    refusals_expect("ibv_create_qp", EINVAL, "max_send_sge is 33; the limit max_sge is 32");
    attr = api_qp_attr(NULL);
    assert_null(ibv_create_qp(api->pd, &attr));
    refusals_expect("ibv_create_qp", EINVAL, "send_cq is NULL");
    attr = api_qp_attr(cq);
    attr.qp_type = IBV_QPT_RAW_PACKET; /* not recorded, because programs probe for this type */
    assert_null(ibv_create_qp(api->pd, &attr));
    attr = api_qp_attr(cq);
    attr.cap.max_inline_data = 1u << 20;
    assert_null(ibv_create_qp(api->pd, &attr));
    refusals_expect("ibv_create_qp", EINVAL, "send_cq is NULL");
    assert_null(ibv_create_cq(api->context, 0, NULL, NULL, 0));
    refusals_expect("ibv_create_cq", EINVAL, "cqe is 0; it must be from 1 to max_cqe");
    assert_null(ibv_create_cq(api->context, 8, NULL, NULL, 3));
    refusals_expect("ibv_create_cq", EINVAL,
                    "comp_vector is 3; it must be from 0 to num_comp_vectors - 1, which is 0");
    assert_null(ibv_create_srq(api->pd, &srq));
    refusals_expect("ibv_create_srq", EINVAL, "max_wr is 0");
    struct ibv_ah_attr ah = api_attr(api, 1).ah_attr;
    ah.is_global = 0;
    assert_null(ibv_create_ah(api->pd, &ah));
    refusals_expect("ibv_create_ah", EINVAL, "has no GRH");
    end();
}

/* A program mixes the objects of two contexts of the same device. */
static void refusal__object_of_another_context__is_named(void **state)
{
    const struct api *api = *state;
    struct api other = api_open_device("uroce0");
    struct ibv_cq *other_cq = api_cq(&other, 1);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(other.context);
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 1, .max_sge = 1 } };
    struct ibv_srq *srq = ibv_create_srq(other.pd, &init);

    begin(api, IBV_QPS_RESET);
    assert_null(ibv_create_cq(api->context, 8, NULL, channel, 0));
    refusals_expect("ibv_create_cq", EINVAL, "the completion channel is of another context");
    struct ibv_qp_init_attr attr = api_qp_attr(cq);
    attr.send_cq = other_cq;
    assert_null(ibv_create_qp(api->pd, &attr));
    refusals_expect("ibv_create_qp", EINVAL, "the send CQ is of another context");
    attr = api_qp_attr(cq);
    attr.recv_cq = other_cq;
    assert_null(ibv_create_qp(api->pd, &attr));
    refusals_expect("ibv_create_qp", EINVAL, "the receive CQ is of another context");
    attr = api_qp_attr(cq);
    attr.srq = srq;
    attr.cap.max_recv_wr = UINT32_MAX; /* ignored */
    assert_null(ibv_create_qp(api->pd, &attr));
    refusals_expect("ibv_create_qp", EINVAL, "the SRQ is of another context");
    struct ibv_qp_init_attr_ex ex = { .qp_type = IBV_QPT_RC,
                                      .send_cq = cq,
                                      .recv_cq = cq,
                                      .pd = api->pd,
                                      .comp_mask =
                                          IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
                                      .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB };
    assert_null(ibv_create_qp_ex(api->context, &ex));
    refusals_expect("ibv_create_qp", EINVAL,
                    "create_flags 0x2 are only for queue pairs of type IBV_QPT_UD");
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_destroy_comp_channel(channel), 0);
    assert_int_equal(ibv_destroy_cq(other_cq), 0);
    api_close_device(&other);
    end();
}

static void refusal__reg_mr__has_the_fault_of_the_memory_or_the_rights(void **state)
{
    const struct api *api = *state;
    static char memory[8];
    struct ibv_cq *start = api_cq(api, 1);

    assert_null(ibv_reg_mr(api->pd, memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE));
    refusals_expect("ibv_reg_mr", EINVAL,
                    "access 0x2 has IBV_ACCESS_REMOTE_WRITE without IBV_ACCESS_LOCAL_WRITE, which "
                    "it needs");
    assert_null(ibv_reg_mr(api->pd, memory, sizeof memory, IBV_ACCESS_REMOTE_ATOMIC));
    refusals_expect("ibv_reg_mr", EINVAL, "access 0x8 has IBV_ACCESS_REMOTE_ATOMIC without");
    assert_null(ibv_reg_mr(api->pd, memory, sizeof memory, 1 << 19));
    refusals_expect("ibv_reg_mr", EINVAL, "access 0x80000 has unknown bits: 0x80000");
    char *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(nothing, MAP_FAILED);
    assert_int_equal(munmap(nothing, 4096), 0);
    assert_null(ibv_reg_mr(api->pd, nothing, 4096, IBV_ACCESS_LOCAL_WRITE));
    refusals_expect("ibv_reg_mr", EFAULT, "not all of the 4096 bytes");
    assert_int_equal(ibv_destroy_cq(start), 0);
}

/* ---- ibv_wr_*() ------------------------------------------------------------------------- */

static struct ibv_qp_ex *extended(const struct api *api, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr_ex init = {
        .qp_type = type,
        .send_cq = cq,
        .recv_cq = cq,
        .pd = api->pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_inline_data = 16 },
        .send_ops_flags = IBV_QP_EX_WITH_SEND
    };

    if (type == IBV_QPT_RC)
        init.send_ops_flags |=
            IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW;
    qp = ibv_create_qp_ex(api->context, &init);
    assert_non_null(qp);
    return ibv_qp_to_qp_ex(qp);
}

static void refuse_batch(struct ibv_qp_ex *ex, const char *wanted)
{
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    refusals_expect("ibv_wr_complete", EINVAL, wanted);
    ex->wr_flags = 0;
    ibv_wr_start(ex);
}

static void refusal__wr_complete__has_the_wrong_request(void **state)
{
    const struct api *api = *state;
    struct ibv_sge sges[3] = { { .length = 4 } };
    const struct ibv_mw_bind_info info = { 0 };
    char data[4096] = { 0 };

    cq = api_cq(api, 16);
    struct ibv_qp_ex *ex = extended(api, IBV_QPT_RC);
    ibv_wr_start(ex);
    refuse_batch(ex, "the queue pair is in RESET: sends need RTS");
    ibv_wr_abort(ex);
    api_connect(api, qp, qp->qp_num);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_sge(ex, 0, 0, 0);
    ibv_wr_send(ex);
    ibv_wr_set_sge_list(ex, 3, sges);
    refuse_batch(ex, "request 2 since ibv_wr_start: the buffer has too many elements");
    ex->wr_flags = 1u << 20;
    ibv_wr_send(ex);
    refuse_batch(ex, "request 1 since ibv_wr_start: wr_flags has a bit");
    ibv_wr_set_sge(ex, 0, 0, 0);
    refuse_batch(ex, "request 1 since ibv_wr_start: a setter such as ibv_wr_set_sge was called "
                     "before");
    ibv_wr_rdma_read(ex, 0, 0);
    ibv_wr_set_inline_data(ex, data, 4);
    refuse_batch(ex, "request 1 since ibv_wr_start: a READ or an atomic writes its buffer");
    ibv_wr_send(ex);
    ibv_wr_set_inline_data(ex, data, sizeof data);
    refuse_batch(ex, "request 1 since ibv_wr_start: there are too many bytes of inline data");
    ibv_wr_atomic_fetch_add(ex, 0, 0, 1);
    ibv_wr_set_sge(ex, 0, 0, 4);
    refuse_batch(ex, "request 1 since ibv_wr_start: an atomic needs a buffer of 8 bytes");
    ibv_wr_bind_mw(ex, NULL, 5, &info);
    refuse_batch(ex, "request 1 since ibv_wr_start: ibv_wr_bind_mw needs a window of type 2");
    ibv_wr_abort(ex);
    end();
}

static void refusal__wr_complete_datagram__has_the_missing_part_of_the_destination(void **state)
{
    const struct api *api = *state;

    cq = api_cq(api, 16);
    struct ibv_qp_ex *ex = extended(api, IBV_QPT_UD);
    for (unsigned to = IBV_QPS_INIT; to <= (unsigned)IBV_QPS_RTS; to++)
        assert_int_equal(api_go(api, qp, (enum ibv_qp_state)to, 0), 0);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_sge(ex, 0, 0, 0);
    refuse_batch(ex, "the destination is missing: UD needs ibv_wr_set_ud_addr");
    ibv_wr_send(ex);
    ibv_wr_set_ud_addr(ex, NULL, 1, 2);
    refuse_batch(ex, "ibv_wr_set_ud_addr needs a queue pair of type UD, an address handle");
    ibv_wr_send(ex);
    ibv_wr_set_xrc_srqn(ex, 7);
    refuse_batch(ex, "ibv_wr_set_xrc_srqn needs a queue pair of type IBV_QPT_XRC_SEND");
    ibv_wr_abort(ex);
    end();
}

/* ---- objects ---------------------------------------------------------------------------- */

static void refusal__multicast__has_the_reason(void **state)
{
    const struct api *api = *state;
    const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 2 } };
    union ibv_gid own;

    begin(api, IBV_QPS_INIT);
    assert_int_equal(ibv_query_gid(api->context, API_PORT, API_GID, &own), 0);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), EINVAL);
    refusals_expect("ibv_attach_mcast", EINVAL, "only queue pairs of type IBV_QPT_UD");
    end();
    cq = api_cq(api, 16);
    struct ibv_qp_init_attr init = api_qp_attr(cq);
    init.qp_type = IBV_QPT_UD;
    qp = ibv_create_qp(api->pd, &init);
    assert_non_null(qp);
    assert_int_equal(ibv_attach_mcast(qp, &own, 0), EINVAL);
    refusals_expect("ibv_attach_mcast", EINVAL, "10.0.0.1 is not a multicast address");
    assert_int_equal(ibv_detach_mcast(qp, &group, 0), EINVAL);
    refusals_expect("ibv_detach_mcast", EINVAL, "the queue pair is not attached to ff0e::2");
    end();
}

static void refusal__memory_window__has_the_reason(void **state)
{
    const struct api *api = *state;
    struct ibv_mw *first, *second;
    struct ibv_mw_bind bind = { .bind_info = { .length = 8 } };

    begin(api, IBV_QPS_RTR);
    first = ibv_alloc_mw(api->pd, IBV_MW_TYPE_1);
    second = ibv_alloc_mw(api->pd, IBV_MW_TYPE_2);
    assert_non_null(first);
    assert_non_null(second);
    assert_null(ibv_alloc_mw(api->pd, (enum ibv_mw_type)9));
    refusals_expect("ibv_alloc_mw", EINVAL, "type is 9: use IBV_MW_TYPE_1 or IBV_MW_TYPE_2");
    bind.bind_info.length = 0;
    assert_int_equal(ibv_bind_mw(qp, first, &bind), EINVAL);
    refusals_expect("ibv_bind_mw", EINVAL, "the queue pair is in RTR: sends need RTS");
    assert_int_equal(api_go(api, qp, IBV_QPS_RTS, qp->qp_num), 0);
    bind.send_flags = 1u << 20;
    assert_int_equal(ibv_bind_mw(qp, first, &bind), EINVAL);
    refusals_expect("ibv_bind_mw", EINVAL, "send_flags 0x100000 has a bit");
    struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .bind_mw = { .mw = first } };
    refuse_send(&wr, "the window has type 1: ibv_bind_mw binds type 1");
    wr.bind_mw.mw = second;
    wr.bind_mw.bind_info.length = 8;
    refuse_send(&wr, "bind_info.mr is NULL with length 8");
    assert_int_equal(ibv_dealloc_mw(second), 0);
    assert_int_equal(ibv_dealloc_mw(first), 0);
    end();
}

static void refusal__device_memory__has_the_reason(void **state)
{
    const struct api *api = *state;
    const unsigned zero = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
    struct ibv_alloc_dm_attr attr = { .length = 0 };
    char data[8];

    begin(api, IBV_QPS_RESET);
    assert_null(ibv_alloc_dm(api->context, &attr));
    refusals_expect("ibv_alloc_dm", EINVAL, "length is 0; it must be at least 1");
    attr.length = 64;
    struct ibv_dm *dm = ibv_alloc_dm(api->context, &attr);
    assert_non_null(dm);
    assert_int_equal(ibv_memcpy_to_dm(dm, 60, data, 8), EFAULT);
    refusals_expect("ibv_memcpy_to_dm", EFAULT, "offset 60 and length 8 exceed the 64 bytes");
    assert_int_equal(ibv_memcpy_from_dm(data, dm, 2, 4), EINVAL);
    refusals_expect("ibv_memcpy_from_dm", EINVAL, "offset 2 and length 4 must be multiples of 4");
    assert_null(ibv_reg_dm_mr(api->pd, dm, 0, 8, IBV_ACCESS_LOCAL_WRITE));
    refusals_expect("ibv_reg_dm_mr", EINVAL, "access 0x1 lacks IBV_ACCESS_ZERO_BASED");
    assert_null(ibv_reg_dm_mr(api->pd, dm, 60, 8, zero));
    refusals_expect("ibv_reg_dm_mr", EINVAL, "offset 60 and length 8 exceed the 64 bytes");
    assert_null(ibv_reg_dm_mr(api->pd, dm, 0, 8, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE));
    refusals_expect("ibv_reg_dm_mr", EINVAL,
                    "has IBV_ACCESS_REMOTE_WRITE without IBV_ACCESS_LOCAL_WRITE");
    struct ibv_mr *mr = ibv_reg_dm_mr(api->pd, dm, 0, 8, zero);
    assert_non_null(mr);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    refusals_expect("ibv_free_dm", EBUSY, "1 regions still use the device memory");
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
    end();
}

static struct ibv_xrcd *open_xrcd(const struct api *api, uint32_t mask, int fd, int flags)
{
    struct ibv_xrcd_init_attr attr = { .comp_mask = mask, .fd = fd, .oflags = flags };

    return ibv_open_xrcd(api->context, &attr);
}

static void refusal__xrc__has_the_reason(void **state)
{
    const struct api *api = *state;
    const uint32_t all = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    FILE *file = tmpfile();

    begin(api, IBV_QPS_RESET);
    assert_non_null(file);
    assert_null(open_xrcd(api, IBV_XRCD_INIT_ATTR_FD, -1, O_CREAT));
    refusals_expect("ibv_open_xrcd", EINVAL, "comp_mask is 0x1: both");
    assert_null(open_xrcd(api, all, 99999, O_CREAT));
    refusals_expect("ibv_open_xrcd", EBADF, "fd 99999 is not an open file");
    assert_null(open_xrcd(api, all, fileno(file), 0));
    refusals_expect("ibv_open_xrcd", EAGAIN, "this process has no domain of that file");
    struct ibv_xrcd *xrcd = open_xrcd(api, all, fileno(file), O_CREAT);
    assert_non_null(xrcd);
    assert_null(open_xrcd(api, all, fileno(file), O_CREAT | O_EXCL));
    refusals_expect("ibv_open_xrcd", EINVAL, "O_EXCL is set");

    struct ibv_srq_init_attr_ex init = { .attr = { .max_wr = 4, .max_sge = 1 },
                                         .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
                                         .srq_type = IBV_SRQT_XRC };
    assert_null(ibv_create_srq_ex(api->context, &init));
    refusals_expect("ibv_create_srq_ex", EINVAL, "there is no PD");
    init.pd = api->pd;
    init.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    assert_null(ibv_create_srq_ex(api->context, &init));
    refusals_expect("ibv_create_srq_ex", EINVAL, "IBV_SRQT_XRC needs an XRC domain");
    init.xrcd = xrcd;
    init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
    assert_null(ibv_create_srq_ex(api->context, &init));
    refusals_expect("ibv_create_srq_ex", EINVAL, "IBV_SRQT_XRC needs a CQ");
    init.cq = cq;
    init.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    struct ibv_srq *srq = ibv_create_srq_ex(api->context, &init);
    assert_non_null(srq);
    assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
    refusals_expect("ibv_close_xrcd", EBUSY, "1 SRQs or queue pairs still use the XRC domain");
    assert_int_equal(ibv_destroy_srq(srq), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    (void)fclose(file);
    end();
}

static void refusal__srq__has_the_reason(void **state)
{
    const struct api *api = *state;
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_srq_attr attr = { .max_wr = 0 };
    uint32_t number;

    begin(api, IBV_QPS_RESET);
    struct ibv_srq *srq = ibv_create_srq(api->pd, &init);
    assert_non_null(srq);
    assert_int_equal(ibv_modify_srq(srq, &attr, 1 << 9), EINVAL);
    refusals_expect("ibv_modify_srq", EINVAL, "the mask 0x200 has more than");
    assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    refusals_expect("ibv_modify_srq", EINVAL, "max_wr is 0 (1 to max_srq_wr");
    assert_int_equal(ibv_get_srq_num(srq, &number), EINVAL);
    refusals_expect("ibv_get_srq_num", EINVAL, "only an SRQ of type IBV_SRQT_XRC has a number");
    struct ibv_qp_init_attr with = api_qp_attr(cq);
    with.srq = srq;
    struct ibv_qp *user = ibv_create_qp(api->pd, &with);
    assert_non_null(user);
    assert_int_equal(ibv_destroy_srq(srq), EBUSY);
    refusals_expect("ibv_destroy_srq", EBUSY, "1 queue pairs still use the SRQ");
    assert_int_equal(ibv_destroy_qp(user), 0);
    assert_int_equal(ibv_destroy_srq(srq), 0);
    end();
}

/* The same wrong call in a loop prints one line and takes one entry in the record. So the refusal
 * before it stays in the record. */
static void refusal__repeated__is_one_line(void **state)
{
    const struct api *api = *state;
    static char printed[4096];
    FILE *kept = tmpfile();
    const int before = dup(STDERR_FILENO);
    unsigned lines = 0;

    begin(api, IBV_QPS_RESET);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQE };
    struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), EINVAL);
    assert_non_null(kept);
    assert_true(dup2(fileno(kept), STDERR_FILENO) >= 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    (void)fflush(stderr);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_true(pread(fileno(kept), printed, sizeof printed - 1, 0) > 0);
    for (const char *at = printed; *at != '\0'; at++)
        lines += *at == '\n';
    assert_int_equal(lines, 1);
    assert_non_null(strstr(printed, "uroce: uroce0: ibv_modify_qp: no transition leads from RESET "
                                    "to SQE"));
    refusals_expect("ibv_modify_qp", EINVAL, "no transition leads from RESET to SQE");
    assert_int_equal(refusals_last.repeats, 999);
    assert_string_equal(refusals_previous.call, "ibv_post_recv");
    assert_int_equal(refusals_previous.number, refusals_last.number - 1);
    (void)close(before);
    (void)fclose(kept);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(refusal__repeated__is_one_line),
        API_TEST(modify__to_rtr__reports_which_attribute_is_wrong),
        API_TEST(refusal__modify_qp_other_transition__has_the_reason),
        API_TEST(refusal__post_send_or_recv__has_the_fault_of_the_request),
        API_TEST(post__to_a_full_queue__is_not_recorded),
        API_TEST(refusal__create__has_the_exceeded_limit),
        API_TEST(refusal__object_of_another_context__is_named),
        API_TEST(refusal__reg_mr__has_the_fault_of_the_memory_or_the_rights),
        API_TEST(refusal__wr_complete__has_the_wrong_request),
        API_TEST(refusal__wr_complete_datagram__has_the_missing_part_of_the_destination),
        API_TEST(refusal__multicast__has_the_reason),
        API_TEST(refusal__memory_window__has_the_reason),
        API_TEST(refusal__device_memory__has_the_reason),
        API_TEST(refusal__xrc__has_the_reason),
        API_TEST(refusal__srq__has_the_reason),
    };

    return refusals_run(__FILE__, tests, sizeof tests / sizeof tests[0]);
}
