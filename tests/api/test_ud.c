/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests datagrams: address handles, the 40 bytes before the message, Q_Keys, and datagrams that
 * cannot be delivered. */
#include "api/api.h"

#include <string.h>

#define GRH    40u
#define IPV6   2 /* index of the IPv6 address */
#define LENGTH 100u

/* Two UD queue pairs, and an address handle whose destination is this device. */
struct stand {
    const struct api *api;
    struct pair pair;
    struct ibv_ah *ah;
    struct ibv_sge from, to;
    struct ibv_send_wr wr; /* request that sends from a to b */
};

static struct ibv_ah_attr address(const struct api *api, int index)
{
    struct ibv_ah_attr attr = api_attr(api, 0).ah_attr;

    attr.grh.sgid_index = (uint8_t)index;
    assert_int_equal(ibv_query_gid(api->context, API_PORT, index, &attr.grh.dgid), 0);
    return attr;
}

static struct ibv_ah *handle(const struct api *api, struct ibv_pd *pd, int index)
{
    struct ibv_ah_attr attr = address(api, index);
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);

    assert_non_null(ah);
    return ah;
}

static void stand_open(struct stand *stand, const struct api *api, int index)
{
    *stand = (struct stand){ .api = api };
    api_side_open(api, &stand->pair.a, NULL, IBV_QPT_UD, NULL);
    api_side_open(api, &stand->pair.b, NULL, IBV_QPT_UD, NULL);
    api_pair_join(api, &stand->pair);
    for (size_t i = 0; i < LENGTH; i++)
        stand->pair.a.buffer[i] = (uint8_t)(i + 1);
    stand->ah = handle(api, api->pd, index);
    stand->from = api_sge(&stand->pair.a, 0, LENGTH);
    stand->to = api_sge(&stand->pair.b, 0, GRH + LENGTH);
    stand->wr = api_send(IBV_WR_SEND, &stand->from);
    stand->wr.wr.ud.ah = stand->ah;
    stand->wr.wr.ud.remote_qpn = stand->pair.b.qp->qp_num;
    stand->wr.wr.ud.remote_qkey = API_QKEY;
}

static void stand_close(struct stand *stand)
{
    if (stand->ah != NULL)
        assert_int_equal(ibv_destroy_ah(stand->ah), 0);
    api_pair_close(&stand->pair);
}

static void send(struct stand *stand)
{
    assert_int_equal(api_post_send(&stand->pair.a, &stand->wr), 0);
    api_expect(stand->pair.a.cq, 1, IBV_WC_SUCCESS);
}

/* Posts a receive, sends, and returns the receive completion. */
static struct ibv_wc exchange(struct stand *stand)
{
    assert_int_equal(api_post_recv(&stand->pair.b, 7, &stand->to), 0);
    send(stand);
    struct ibv_wc wc = api_wait(stand->pair.b.cq);
    assert_int_equal(wc.wr_id, 7);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    return wc;
}

static void datagram__received__follows_the_grh(void **state)
{
    static const int indices[] = { API_GID, IPV6, 0 };
    const struct api *api = *state;

    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        bool v4 = indices[i] == API_GID;
        struct stand stand;
        stand_open(&stand, api, indices[i]);
        struct ibv_wc wc = exchange(&stand);
        const uint8_t *area = stand.pair.b.buffer;
        assert_int_equal(wc.byte_len, GRH + LENGTH);
        assert_int_equal(wc.src_qp, stand.pair.a.qp->qp_num);
        assert_int_equal(wc.wc_flags, IBV_WC_GRH);
        assert_int_equal(wc.sl & 7, v4 ? 2 : 1); /* UCX reads these bits */
        assert_int_equal(area[0] >> 4, v4 ? 0 : 6);
        assert_int_equal(area[20] >> 4, v4 ? 4 : area[20] >> 4);
        if (!v4)
            assert_memory_equal(area + 8, address(api, indices[i]).grh.dgid.raw, 16);
        assert_memory_equal(area + GRH, stand.pair.a.buffer, LENGTH);
        stand_close(&stand);
    }
}

static void datagram__with_immediate__arrives(void **state)
{
    struct stand stand;

    stand_open(&stand, *state, API_GID);
    stand.wr.opcode = IBV_WR_SEND_WITH_IMM;
    stand.wr.imm_data = 0x01020304;
    struct ibv_wc wc = exchange(&stand);
    assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, 0x01020304);
    stand_close(&stand);
}

static void datagram__inline_and_to_oneself__arrives(void **state)
{
    struct stand stand;

    stand_open(&stand, *state, API_GID);
    stand.wr.send_flags |= IBV_SEND_INLINE;
    stand.from.length = 33;
    stand.wr.wr.ud.remote_qpn = stand.pair.a.qp->qp_num;
    struct ibv_sge to = api_sge(&stand.pair.a, 1000, 200);
    assert_int_equal(api_post_recv(&stand.pair.a, 7, &to), 0);
    assert_int_equal(api_post_send(&stand.pair.a, &stand.wr), 0);
    uint32_t length = 0;
    for (int i = 0; i < 2; i++) { /* the send and the receive, in any order */
        struct ibv_wc wc = api_wait(stand.pair.a.cq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        length = wc.wr_id == 7 ? wc.byte_len : length;
    }
    assert_int_equal(length, GRH + 33);
    assert_memory_equal(stand.pair.a.buffer + 1000 + GRH, stand.pair.a.buffer, 33);
    stand_close(&stand);
}

static void reply__to_the_address_of_a_completion__arrives(void **state)
{
    const struct api *api = *state;

    for (int index = API_GID; index <= IPV6; index++) {
        struct stand stand;
        stand_open(&stand, api, index);
        struct ibv_wc wc = exchange(&stand);
        struct ibv_ah *back = ibv_create_ah_from_wc(
            api->pd, &wc, (struct ibv_grh *)(void *)stand.pair.b.buffer, API_PORT);
        assert_non_null(back);
        struct ibv_sge from = api_sge(&stand.pair.b, GRH, 10), to = api_sge(&stand.pair.a, 500, 60);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
        wr.wr.ud.ah = back;
        wr.wr.ud.remote_qpn = wc.src_qp;
        wr.wr.ud.remote_qkey = API_QKEY;
        assert_int_equal(api_post_recv(&stand.pair.a, 8, &to), 0);
        assert_int_equal(api_post_send(&stand.pair.b, &wr), 0);
        api_expect(stand.pair.a.cq, 8, IBV_WC_SUCCESS);
        assert_memory_equal(stand.pair.a.buffer + 500 + GRH, stand.pair.a.buffer, 10);
        api_expect(stand.pair.b.cq, 1, IBV_WC_SUCCESS);
        assert_int_equal(ibv_destroy_ah(back), 0);
        stand_close(&stand);
    }
}

static void ah_from_wc__completion_of_a_datagram__has_the_address_of_the_sender(void **state)
{
    const struct api *api = *state;
    struct ibv_ah_attr attr;
    struct stand stand;

    stand_open(&stand, api, IPV6);
    struct ibv_wc wc = exchange(&stand);
    struct ibv_grh *grh = (struct ibv_grh *)(void *)stand.pair.b.buffer;
    memset(&attr, 0xff, sizeof attr);
    assert_int_equal(ibv_init_ah_from_wc(api->context, API_PORT, &wc, grh, &attr), 0);
    assert_int_equal(attr.is_global, 1);
    assert_int_equal(attr.port_num, API_PORT);
    assert_int_equal(attr.grh.sgid_index, IPV6);
    assert_int_equal(attr.grh.hop_limit, 0xff);
    assert_int_equal(attr.sl, 0);
    assert_memory_equal(&attr.grh.dgid, &grh->sgid, 16);

    grh->dgid.raw[15] ^= 1; /* not an address of this device */
    errno = 0;
    assert_int_equal(ibv_init_ah_from_wc(api->context, API_PORT, &wc, grh, &attr), -1);
    assert_int_equal(errno, EINVAL);
    static const uint8_t group[16] = { 0xff, 0x02, [15] = 9 };
    /* For a group address, the source is the first own address of the IP version. */
    memcpy(grh->dgid.raw, group, sizeof group);
    assert_int_equal(ibv_init_ah_from_wc(api->context, API_PORT, &wc, grh, &attr), 0);
    assert_int_equal(attr.grh.sgid_index, 0);
    stand_close(&stand);
}

static void address_of_a_completion__without_a_valid_grh__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_grh grh = { 0 };
    struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
    struct ibv_ah_attr attr;

    errno = 0;
    assert_int_equal(ibv_init_ah_from_wc(api->context, API_PORT, &wc, &grh, &attr), -1);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(ibv_init_ah_from_wc(api->context, API_PORT, &wc, NULL, &attr), -1);
    assert_int_equal(errno, EINVAL);
    struct stand stand;
    stand_open(&stand, api, API_GID);
    wc = exchange(&stand);
    struct ibv_grh *good = (struct ibv_grh *)(void *)stand.pair.b.buffer;
    assert_int_equal(ibv_init_ah_from_wc(api->context, 2, &wc, good, &attr), -1);
    wc.wc_flags = 0;
    assert_int_equal(ibv_init_ah_from_wc(api->context, API_PORT, &wc, good, &attr), -1);
    errno = 0;
    assert_null(ibv_create_ah_from_wc(api->pd, &wc, good, API_PORT));
    assert_int_equal(errno, EINVAL);
    stand_close(&stand);
}

static void address_handle__other_subnet_without_gateway__is_enetunreach(void **state)
{
    const struct api *api = *state;
    struct ibv_ah_attr attr = address(api, API_GID);

    attr.grh.dgid.raw[12] = 11;
    errno = 0;
    assert_null(ibv_create_ah(api->pd, &attr));
    assert_int_equal(errno, ENETUNREACH);
    attr = address(api, API_GID);
    attr.grh.sgid_index = IPV6; /* source and destination have different IP versions */
    errno = 0;
    assert_null(ibv_create_ah(api->pd, &attr));
    assert_int_equal(errno, EINVAL);
}

static void request__unsupported_by_ud__einval_when_posted(void **state)
{
    static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE,
                                                  IBV_WR_RDMA_READ,
                                                  IBV_WR_ATOMIC_FETCH_AND_ADD,
                                                  IBV_WR_SEND_WITH_INV,
                                                  IBV_WR_LOCAL_INV,
                                                  IBV_WR_BIND_MW,
                                                  IBV_WR_TSO };
    const struct api *api = *state;
    struct ibv_pd *pd = ibv_alloc_pd(api->context);
    struct ibv_ah *foreign = handle(api, pd, API_GID);
    struct stand stand;

    stand_open(&stand, api, API_GID);
    for (size_t i = 0; i < sizeof opcodes / sizeof opcodes[0]; i++) {
        stand.wr.opcode = opcodes[i];
        assert_int_equal(api_post_send(&stand.pair.a, &stand.wr), EINVAL);
    }
    stand.wr.opcode = IBV_WR_SEND;
    stand.wr.wr.ud.ah = NULL;
    assert_int_equal(api_post_send(&stand.pair.a, &stand.wr), EINVAL);
    stand.wr.wr.ud.ah = foreign;
    assert_int_equal(api_post_send(&stand.pair.a, &stand.wr), EINVAL);
    stand.wr.wr.ud.ah = stand.ah;
    stand.wr.wr.ud.remote_qpn = 0x1000000;
    assert_int_equal(api_post_send(&stand.pair.a, &stand.wr), EINVAL);
    stand_close(&stand);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_destroy_ah(foreign), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* rule POST.DATAGRAM: the port's active MTU is the maximum length of a message. */
static void datagram__longer_than_the_active_mtu__is_einval_when_posted(void **state)
{
    const struct api *api = *state;
    struct ibv_port_attr port;
    struct stand stand;

    assert_int_equal(ibv_query_port(api->context, API_PORT, &port), 0);
    uint32_t longest = 128u << port.active_mtu;
    stand_open(&stand, api, API_GID);
    stand.from.length = longest + 1;
    assert_int_equal(api_post_send(&stand.pair.a, &stand.wr), EINVAL);
    stand.from.length = longest;
    stand.to.length = GRH + longest;
    assert_int_equal(exchange(&stand).byte_len, GRH + longest);
    stand_close(&stand);
}

/* bug B20: only the datagram is dropped, and the receive waits for the next datagram. */
static void datagram__too_long_or_wrong_q_key__only_this_datagram_is_dropped(void **state)
{
    struct stand stand;

    stand_open(&stand, *state, API_GID);
    stand.to.length = GRH + LENGTH - 1;
    assert_int_equal(api_post_recv(&stand.pair.b, 7, &stand.to), 0);
    send(&stand);
    stand.from.length = LENGTH - 1;
    stand.wr.wr.ud.remote_qkey = API_QKEY + 1;
    send(&stand);
    stand.wr.wr.ud.remote_qkey = API_QKEY;
    stand.from.length = 5;
    send(&stand);
    assert_int_equal(api_wait(stand.pair.b.cq).byte_len, GRH + 5);
    stand_close(&stand);
}

/* bug B22: if the top bit of the request's Q_Key is set, the datagram has the Q_Key of the queue
 * pair. */
static void q_key__privileged__is_the_q_key_of_the_qp(void **state)
{
    struct stand stand;

    stand_open(&stand, *state, API_GID);
    stand.wr.wr.ud.remote_qkey = 0x80000000;
    assert_int_equal(exchange(&stand).byte_len, GRH + LENGTH);
    stand_close(&stand);
}

static void handle__destroyed_before_the_send__is_an_error_completion(void **state)
{
    const struct api *api = *state;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };
    struct stand stand;

    stand_open(&stand, api, API_GID);
    assert_int_equal(api_go(api, stand.pair.a.qp, IBV_QPS_SQD, 0), 0);
    api_expect_async(api, IBV_EVENT_SQ_DRAINED, stand.pair.a.qp);
    assert_int_equal(api_post_send(&stand.pair.a, &stand.wr), 0);
    assert_int_equal(ibv_destroy_ah(stand.ah), 0);
    stand.ah = NULL;
    assert_int_equal(ibv_modify_qp(stand.pair.a.qp, &attr, IBV_QP_STATE), 0);
    api_expect(stand.pair.a.cq, 1, IBV_WC_LOC_QP_OP_ERR);

    stand.ah = stand.wr.wr.ud.ah = handle(api, api->pd, API_GID);
    assert_int_equal(ibv_modify_qp(stand.pair.a.qp, &attr, IBV_QP_STATE),
                     0); /* transition from SQE */
    assert_int_equal(exchange(&stand).byte_len, GRH + LENGTH);
    stand_close(&stand);
}

static void query_qp__after_modify__has_the_attributes_that_were_set(void **state)
{
    const struct api *api = *state;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct side side;

    api_side_open(api, &side, NULL, IBV_QPT_UD, NULL);
    api_connect(api, side.qp, 0);
    assert_int_equal(ibv_query_qp(side.qp, &attr, -1, &init), 0);
    assert_int_equal(init.qp_type, IBV_QPT_UD);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.qkey, API_QKEY);
    assert_int_equal(attr.sq_psn, 0x123456);
    assert_int_equal(attr.port_num, API_PORT);
    attr.qkey = 5;
    assert_int_equal(ibv_modify_qp(side.qp, &attr, IBV_QP_QKEY), 0);
    assert_int_equal(ibv_query_qp(side.qp, &attr, -1, &init), 0);
    assert_int_equal(attr.qkey, 5);
    assert_int_equal(ibv_modify_qp(side.qp, &attr, IBV_QP_AV), EINVAL);
    assert_int_equal(ibv_modify_qp(side.qp, &attr, IBV_QP_DEST_QPN), EINVAL);
    api_side_close(&side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(datagram__received__follows_the_grh),
        API_TEST(datagram__with_immediate__arrives),
        API_TEST(datagram__inline_and_to_oneself__arrives),
        API_TEST(reply__to_the_address_of_a_completion__arrives),
        API_TEST(ah_from_wc__completion_of_a_datagram__has_the_address_of_the_sender),
        API_TEST(address_of_a_completion__without_a_valid_grh__is_einval),
        API_TEST(address_handle__other_subnet_without_gateway__is_enetunreach),
        API_TEST(request__unsupported_by_ud__einval_when_posted),
        API_TEST(datagram__longer_than_the_active_mtu__is_einval_when_posted),
        API_TEST(datagram__too_long_or_wrong_q_key__only_this_datagram_is_dropped),
        API_TEST(q_key__privileged__is_the_q_key_of_the_qp),
        API_TEST(handle__destroyed_before_the_send__is_an_error_completion),
        API_TEST(query_qp__after_modify__has_the_attributes_that_were_set),
    };
    return API_RUN(tests);
}
