/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests attach and detach of multicast groups. The link never delivers a frame, so all datagrams
 * come from the device itself. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#define QKEY      0x11111111u
#define GRH       40u
#define GID_IPV6  0 /* the link-local address */
#define MULTICAST 0xffffffu

static const union ibv_gid group4 = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
static const union ibv_gid group6 = { .raw = { 0xff, 0x0e, [13] = 1, [15] = 2 } };

static struct ibv_qp *ud_qp(const struct api *api, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = api_qp_attr(cq);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = API_PORT, .qkey = QKEY };

    init.qp_type = IBV_QPT_UD;
    struct ibv_qp *qp = ibv_create_qp(api->pd, &init);
    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), 0);
    attr.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
    return qp;
}

/* ---- arguments ---------------------------------------------------------- */

static void attach__not_ud_or_not_a_group__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *rc = api_qp(api, cq), *ud = ud_qp(api, cq);
    union ibv_gid own;

    assert_int_equal(ibv_query_gid(api->context, API_PORT, API_GID, &own), 0);
    assert_int_equal(ibv_attach_mcast(rc, &group4, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(rc, &group4, 0), EINVAL);
    assert_int_equal(ibv_attach_mcast(ud, &own, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(ud, &own, 0), EINVAL);
    assert_int_equal(ibv_destroy_qp(rc), 0);
    assert_int_equal(ibv_destroy_qp(ud), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* rule MCAST.ATTACH */
static void attach__twice__is_attached_once(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = ud_qp(api, cq);

    assert_int_equal(ibv_detach_mcast(qp, &group4, 0), EINVAL);
    assert_int_equal(ibv_attach_mcast(qp, &group4, 0), 0);
    assert_int_equal(ibv_attach_mcast(qp, &group4, 0xc001), 0); /* there are no LIDs */
    assert_int_equal(ibv_detach_mcast(qp, &group6, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(qp, &group4, 0), 0);
    assert_int_equal(ibv_detach_mcast(qp, &group4, 0), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* rule MCAST.ATTACH */
static void destroy_qp__attached__is_ebusy(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = ud_qp(api, cq);

    assert_int_equal(ibv_attach_mcast(qp, &group4, 0), 0);
    assert_int_equal(ibv_attach_mcast(qp, &group6, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), EBUSY);
    assert_int_equal(ibv_detach_mcast(qp, &group4, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), EBUSY);
    assert_int_equal(ibv_detach_mcast(qp, &group6, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static union ibv_gid numbered(uint32_t i)
{
    union ibv_gid group = group6;

    group.raw[14] = (uint8_t)(i >> 8);
    group.raw[15] = (uint8_t)i;
    return group;
}

/* rule MCAST.ATTACH */
static void attach__up_to_the_device_limit__then_fails(void **state)
{
    const struct api *api = *state;
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_device_attr attr;
    struct ibv_qp *qps[57];

    assert_int_equal(ibv_query_device(api->context, &attr), 0);
    assert_int_equal(attr.max_mcast_qp_attach, 56);
    for (int i = 0; i < 57; i++) {
        qps[i] = ud_qp(api, cq);
        assert_int_equal(ibv_attach_mcast(qps[i], &group4, 0), i < 56 ? 0 : ENOMEM);
    }
    assert_int_equal(ibv_detach_mcast(qps[56], &group4, 0), EINVAL);
    assert_int_equal(ibv_detach_mcast(qps[20], &group4, 0), 0);
    assert_int_equal(ibv_attach_mcast(qps[56], &group4, 0), 0);

    for (int i = 0; i < attr.max_mcast_grp - 1; i++) {
        const union ibv_gid group = numbered((uint32_t)i);
        assert_int_equal(ibv_attach_mcast(qps[i % 2], &group, 0), 0);
    }
    const union ibv_gid more = numbered(0xffff);
    assert_int_equal(ibv_attach_mcast(qps[0], &more, 0), ENOMEM);
    assert_int_equal(ibv_detach_mcast(qps[0], &more, 0), EINVAL);
    for (int i = 0; i < attr.max_mcast_grp - 1; i++) {
        const union ibv_gid group = numbered((uint32_t)i);
        assert_int_equal(ibv_detach_mcast(qps[i % 2], &group, 0), 0);
    }
    for (int i = 0; i < 57; i++) {
        assert_int_equal(ibv_detach_mcast(qps[i], &group4, 0), i == 20 ? EINVAL : 0);
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    }
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* If a program closes its device without detaching, its membership in the group must end. */
static void close_device__still_attached__leaves_the_group(void **state)
{
    const struct api *api = *state;
    struct api other = { .context = ibv_open_device(api->device) };

    assert_non_null(other.context);
    other.pd = ibv_alloc_pd(other.context);
    struct ibv_cq *cq = api_cq(&other, 4);
    struct ibv_qp *qps[56];
    for (int i = 0; i < 56; i++) {
        qps[i] = ud_qp(&other, cq);
        assert_int_equal(ibv_attach_mcast(qps[i], &group4, 0), 0);
    }
    assert_int_equal(ibv_close_device(other.context), 0);

    struct ibv_cq *again = api_cq(api, 4);
    struct ibv_qp *qp = ud_qp(api, again);
    assert_int_equal(ibv_attach_mcast(qp, &group4, 0), 0);
    assert_int_equal(ibv_detach_mcast(qp, &group4, 0), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(again), 0);
    for (int i = 0; i < 56; i++)
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_dealloc_pd(other.pd), 0);
}

/* ---- delivery ----------------------------------------------------------- */

static struct ibv_ah *handle(const struct api *api, const union ibv_gid *group, uint8_t index)
{
    struct ibv_ah_attr attr = { .is_global = 1,
                                .port_num = API_PORT,
                                .grh = { .dgid = *group, .sgid_index = index, .hop_limit = 1 } };

    return ibv_create_ah(api->pd, &attr);
}

static void ah__group_of_another_ip_version_than_its_source__is_einval(void **state)
{
    const struct api *api = *state;

    assert_null(handle(api, &group4, GID_IPV6));
    assert_int_equal(errno, EINVAL);
    assert_null(handle(api, &group6, API_GID));
    assert_int_equal(errno, EINVAL);
}

struct member {
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t buffer[4096];
};

static void open_member(const struct api *api, struct member *m)
{
    m->cq = api_cq(api, 64);
    m->qp = ud_qp(api, m->cq);
    m->mr = ibv_reg_mr(api->pd, m->buffer, sizeof m->buffer, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(m->mr);
    memset(m->buffer, 0, sizeof m->buffer);
}

static void close_member(struct member *m)
{
    assert_int_equal(ibv_destroy_qp(m->qp), 0);
    assert_int_equal(ibv_destroy_cq(m->cq), 0);
    assert_int_equal(ibv_dereg_mr(m->mr), 0);
}

static void post_recv(struct member *m, uint64_t id)
{
    struct ibv_sge sge = { (uintptr_t)m->buffer + 1024 * id, 1024, m->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

    assert_int_equal(ibv_post_recv(m->qp, &wr, &bad), 0);
}

static void send_to(struct member *m, struct ibv_ah *ah, uint32_t qpn, uint8_t fill)
{
    struct ibv_sge sge = { (uintptr_t)m->buffer + 3072, 600, m->mr->lkey };
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &sge), *bad;

    memset(m->buffer + 3072, fill, 600);
    wr.wr_id = 100;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = QKEY;
    assert_int_equal(ibv_post_send(m->qp, &wr, &bad), 0);
}

static void expect_recv(struct member *m, uint64_t id, uint32_t from, uint8_t fill)
{
    struct ibv_wc wc = api_wait(m->cq);

    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wr_id, id);
    assert_int_equal(wc.byte_len, GRH + 600);
    assert_int_equal(wc.src_qp, from);
    for (uint32_t i = 0; i < 600; i++)
        assert_int_equal(m->buffer[1024 * id + GRH + i], fill);
}

/* Expects the send completion and the datagram at a sender that is a member. */
static void expect_both(struct member *m, uint64_t id, uint8_t fill)
{
    struct ibv_wc wc[2];

    wc[0] = api_wait(m->cq);
    wc[1] = api_wait(m->cq);
    const int sent = wc[0].wr_id == 100 ? 0 : 1;
    assert_int_equal(wc[sent].wr_id, 100);
    assert_int_equal(wc[sent].status, IBV_WC_SUCCESS);
    assert_int_equal(wc[!sent].wr_id, id);
    assert_int_equal(wc[!sent].byte_len, GRH + 600);
    assert_int_equal(m->buffer[1024 * id + GRH], fill);
}

static void send__to_a_group__every_member_and_the_sender_get_one_copy(void **state)
{
    static const struct {
        const union ibv_gid *group;
        uint8_t index;
    } cases[] = { { &group4, API_GID }, { &group6, GID_IPV6 } };
    const struct api *api = *state;
    struct member *m = test_calloc(3, sizeof *m);
    struct ibv_wc wc;

    for (int i = 0; i < 3; i++)
        open_member(api, &m[i]);
    for (int i = 0; i < 2; i++) {
        struct ibv_ah *ah = handle(api, cases[i].group, cases[i].index);
        assert_non_null(ah);
        assert_int_equal(ibv_attach_mcast(m[0].qp, cases[i].group, 0), 0);
        assert_int_equal(ibv_attach_mcast(m[1].qp, cases[i].group, 0), 0);
        for (int k = 0; k < 3; k++)
            for (uint64_t id = 0; id < 2; id++)
                post_recv(&m[k], id);
        send_to(&m[0], ah, MULTICAST, 0x5a);
        expect_both(&m[0], 0, 0x5a);
        expect_recv(&m[1], 0, m[0].qp->qp_num, 0x5a);
        send_to(&m[2], ah, MULTICAST, 0xa5); /* the sender is not a member */
        expect_recv(&m[0], 1, m[2].qp->qp_num, 0xa5);
        expect_recv(&m[1], 1, m[2].qp->qp_num, 0xa5);
        api_expect(m[2].cq, 100, IBV_WC_SUCCESS);

        assert_int_equal(ibv_detach_mcast(m[0].qp, cases[i].group, 0), 0);
        post_recv(&m[0], 0);
        post_recv(&m[1], 0);
        send_to(&m[2], ah, MULTICAST, 0x33);
        expect_recv(&m[1], 0, m[2].qp->qp_num, 0x33);
        api_expect(m[2].cq, 100, IBV_WC_SUCCESS);
        for (int k = 0; k < 3; k++)
            assert_int_equal(ibv_poll_cq(m[k].cq, 1, &wc), 0);
        assert_int_equal(ibv_detach_mcast(m[1].qp, cases[i].group, 0), 0);
        for (int k = 0; k < 3; k++) { /* unused receives would be used in the next case */
            close_member(&m[k]);
            open_member(api, &m[k]);
        }
        assert_int_equal(ibv_destroy_ah(ah), 0);
    }
    for (int k = 0; k < 3; k++)
        close_member(&m[k]);
    test_free(m);
}

static void send__sender_blocks_own_packets__only_others_get_a_copy(void **state)
{
    const struct api *api = *state;
    struct member *m = test_calloc(2, sizeof *m);

    for (int i = 0; i < 2; i++)
        open_member(api, &m[i]);
    struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_UD,
                                        .comp_mask =
                                            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
                                        .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB,
                                        .cap = { 16, 16, 4, 4, 0 },
                                        .send_cq = m[0].cq,
                                        .recv_cq = m[0].cq,
                                        .pd = api->pd };
    assert_int_equal(ibv_destroy_qp(m[0].qp), 0);
    m[0].qp = ibv_create_qp_ex(api->context, &init);
    assert_non_null(m[0].qp);
    api_connect(api, m[0].qp, 0);
    struct ibv_ah *ah = handle(api, &group4, API_GID);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_attach_mcast(m[i].qp, &group4, 0), 0);
        post_recv(&m[i], 0);
    }
    send_to(&m[0], ah, MULTICAST, 0x5a);
    api_expect(m[0].cq, 100, IBV_WC_SUCCESS);
    expect_recv(&m[1], 0, m[0].qp->qp_num, 0x5a);
    send_to(&m[1], ah, MULTICAST, 0xa5); /* the receive of m[0] is still unused */
    expect_recv(&m[0], 0, m[1].qp->qp_num, 0xa5);
    api_expect(m[1].cq, 100, IBV_WC_SUCCESS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_detach_mcast(m[i].qp, &group4, 0), 0);
        close_member(&m[i]);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
    test_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(attach__not_ud_or_not_a_group__is_einval),
        API_TEST(attach__twice__is_attached_once),
        API_TEST(destroy_qp__attached__is_ebusy),
        API_TEST(attach__up_to_the_device_limit__then_fails),
        API_TEST(close_device__still_attached__leaves_the_group),
        API_TEST(ah__group_of_another_ip_version_than_its_source__is_einval),
        API_TEST(send__to_a_group__every_member_and_the_sender_get_one_copy),
        API_TEST(send__sender_blocks_own_packets__only_others_get_a_copy),
    };
    return API_RUN(tests);
}
