/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_work.c - calls of programs with queue pairs and completion queues. See fuzz_objects.h. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_objects.h"

#define REQUESTS    4u
#define ELEMENTS    3u
#define POLL        8u
#define QKEY        0x11111111u
#define PSN         0xfffffeu
#define GROUPS      4u
#define TO_INIT     (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define TO_RTR      (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define TO_SERVE    (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_ASK      (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)
#define WC_STATUSES (IBV_WC_TM_RNDV_INCOMPLETE + 1)

static struct ibv_qp *pick_qp(void)
{
    struct object *object = fuzz_pick(QP);

    return object != NULL ? object->qp : NULL;
}

/* ---- modifying ----------------------------------------------------------- */

static struct ibv_qp_attr attributes(const struct ibv_qp *peer)
{
    const uint8_t how = fuzz_next();
    struct ibv_qp_attr attr = {
        .port_num = 1,
        .qp_access_flags = 0x10e,
        .path_mtu = IBV_MTU_256 + (how & 1) * 2,
        .qkey = QKEY,
        .dest_qp_num = peer->qp_num,
        .rq_psn = PSN,
        .sq_psn = PSN,
        .max_rd_atomic = how >> 1 & 3,
        .max_dest_rd_atomic = how >> 1 & 3,
        .min_rnr_timer = 1,
        .timeout = how & 8 ? 1 : 8,
        .retry_cnt = how >> 4 & 7,
        .rnr_retry = how >> 4 & 7,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } },
    };

    if (how & 0x80)
        attr.ah_attr.grh.sgid_index = 2;
    (void)ibv_query_gid(peer->context, 1, attr.ah_attr.grh.sgid_index, &attr.ah_attr.grh.dgid);
    return attr;
}

static int mask_to_rtr(enum ibv_qp_type type)
{
    if (type == IBV_QPT_UD)
        return IBV_QP_STATE;
    return type == IBV_QPT_UC ? TO_RTR : TO_RTR | TO_SERVE;
}

static int mask_to_rts(enum ibv_qp_type type)
{
    const int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    return type == IBV_QPT_UD || type == IBV_QPT_UC ? mask : mask | TO_ASK;
}

static void go(struct ibv_qp *qp, struct ibv_qp_attr attr)
{
    const bool ud = qp->qp_type == IBV_QPT_UD;

    attr.qp_state = IBV_QPS_RESET;
    fuzz_demand(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    attr.qp_state = IBV_QPS_INIT;
    fuzz_demand(ibv_modify_qp(qp, &attr, TO_INIT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0);
    attr.qp_state = IBV_QPS_RTR;
    int error = ibv_modify_qp(qp, &attr, mask_to_rtr(qp->qp_type));
    attr.qp_state = IBV_QPS_RTS;
    if (error == 0)
        fuzz_demand(ibv_modify_qp(qp, &attr, mask_to_rts(qp->qp_type)) == 0);
}

/* Moves two queue pairs to RTS, connected to each other. */
void fuzz_connect(void)
{
    struct ibv_qp *qp = pick_qp();
    struct ibv_qp *peer = pick_qp();

    if (qp == NULL || peer == NULL)
        return;
    go(qp, attributes(peer));
    go(peer, attributes(qp));
}

static int next24(void)
{
    int value = fuzz_next();

    value = value << 8 | fuzz_next();
    return value << 8 | fuzz_next();
}

void fuzz_modify(void)
{
    struct ibv_qp *qp = pick_qp();
    struct ibv_qp *peer = pick_qp();

    if (qp == NULL || peer == NULL)
        return;
    struct ibv_qp_attr attr = attributes(peer);
    const uint8_t what = fuzz_next();
    int mask = IBV_QP_STATE;
    attr.qp_state = (enum ibv_qp_state)(what & 7);
    attr.cur_qp_state = (enum ibv_qp_state)(what >> 3 & 7);
    if (what & 0x40)
        mask = next24();
    if (what & 0x80) {
        const uint32_t where = fuzz_next();
        ((uint8_t *)&attr)[where % sizeof attr] = fuzz_next();
    }
    int error = ibv_modify_qp(qp, &attr, mask);
    fuzz_demand(error >= 0);
}

/* ---- posting ------------------------------------------------------------- */

/* Returns an element in a region, or a little beyond it. */
static struct ibv_sge element(bool inline_data)
{
    struct object *object = fuzz_pick(MR);
    const uint32_t offset = fuzz_next() * 16u, length = fuzz_next() * 16u;

    if (inline_data)
        return (struct ibv_sge){ .addr = (uintptr_t)fuzz_inline,
                                 .length = length < FUZZ_INLINE ? length : FUZZ_INLINE };
    if (object == NULL)
        return (struct ibv_sge){ .addr = offset, .length = length, .lkey = 0x100 };
    return (struct ibv_sge){ .addr = (uintptr_t)object->mr->addr + offset,
                             .length = length,
                             .lkey = object->mr->lkey };
}

static uint32_t remote_key(void)
{
    const bool window = fuzz_next() & 1;
    struct object *object = fuzz_pick(window ? MW : MR);

    if (object == NULL)
        return 0x100;
    return window ? object->mw->rkey : object->mr->rkey;
}

static struct ibv_mw_bind_info bind_info(void)
{
    struct object *object = fuzz_pick(MR);
    const uint32_t offset = fuzz_next() * 16u;

    const uint32_t length = fuzz_next() * 16u;
    const uint8_t access = fuzz_next();

    return (struct ibv_mw_bind_info){
        .mr = object != NULL ? object->mr : NULL,
        .addr = (object != NULL ? (uintptr_t)object->mr->addr : 0) + offset,
        .length = length,
        .mw_access_flags = access,
    };
}

static void fill_datagram(struct ibv_send_wr *wr)
{
    struct object *ah = fuzz_pick(AH);
    struct ibv_qp *to = pick_qp();

    wr->wr.ud.ah = ah != NULL ? ah->ah : NULL;
    wr->wr.ud.remote_qpn = to != NULL ? to->qp_num : 0xffffff;
    wr->wr.ud.remote_qkey = QKEY;
}

static void fill_request(const struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct object *mw, *srq;

    if (qp->qp_type == IBV_QPT_UD) {
        fill_datagram(wr);
        return;
    }
    if (qp->qp_type == IBV_QPT_XRC_SEND && (srq = fuzz_pick(SRQ)) != NULL)
        (void)ibv_get_srq_num(srq->srq, &wr->qp_type.xrc.remote_srqn);
    if (wr->opcode == IBV_WR_BIND_MW) {
        mw = fuzz_pick(MW);
        wr->bind_mw.mw = mw != NULL ? mw->mw : NULL;
        wr->bind_mw.rkey = mw != NULL ? ibv_inc_rkey(mw->mw->rkey) : 0;
        wr->bind_mw.bind_info = bind_info();
        return;
    }
    const struct ibv_sge there = element(false);
    const bool atomic =
        wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    if (wr->opcode == IBV_WR_SEND_WITH_INV || wr->opcode == IBV_WR_LOCAL_INV) {
        wr->invalidate_rkey = remote_key();
    } else if (atomic) {
        wr->wr.atomic.remote_addr = there.addr;
        wr->wr.atomic.compare_add = fuzz_next();
        wr->wr.atomic.rkey = remote_key();
    } else {
        wr->wr.rdma.remote_addr = there.addr;
        wr->wr.rdma.rkey = remote_key();
    }
}

void fuzz_post_send(void)
{
    struct ibv_qp *qp = pick_qp();
    struct ibv_send_wr requests[REQUESTS] = { 0 }, *bad = NULL;
    struct ibv_sge elements[REQUESTS][ELEMENTS];
    const uint32_t count = 1 + fuzz_next() % REQUESTS;

    if (qp == NULL)
        return;
    for (uint32_t i = 0; i < count; i++) {
        struct ibv_send_wr *wr = &requests[i];
        const uint8_t what = fuzz_next(), how = fuzz_next();
        wr->wr_id = what;
        wr->opcode = (enum ibv_wr_opcode)(what & 15);
        wr->send_flags = how & 0x1f;
        wr->num_sge = how >> 5 < ELEMENTS ? how >> 5 : how >> 5 == 7 ? -1 : 1;
        wr->sg_list = elements[i];
        wr->next = i + 1 < count ? &requests[i + 1] : NULL;
        for (int k = 0; k < wr->num_sge; k++)
            elements[i][k] = element(how & IBV_SEND_INLINE);
        fill_request(qp, wr);
    }
    int error = ibv_post_send(qp, requests, &bad);
    fuzz_demand(error == 0 || (bad >= requests && bad < requests + count));
}

static int post_receives(struct ibv_recv_wr *requests, struct ibv_recv_wr **bad)
{
    struct object *srq = fuzz_next() & 1 ? fuzz_pick(SRQ) : NULL;
    struct ibv_qp *qp = pick_qp();

    *bad = requests;
    if (srq != NULL)
        return ibv_post_srq_recv(srq->srq, requests, bad);
    return qp != NULL ? ibv_post_recv(qp, requests, bad) : EINVAL;
}

void fuzz_post_recv(void)
{
    struct ibv_recv_wr requests[REQUESTS] = { 0 }, *bad = NULL;
    struct ibv_sge elements[REQUESTS][ELEMENTS];
    const uint32_t count = 1 + fuzz_next() % REQUESTS;

    for (uint32_t i = 0; i < count; i++) {
        struct ibv_recv_wr *wr = &requests[i];
        const uint8_t how = fuzz_next();
        wr->wr_id = 1000 + how;
        wr->num_sge = how % ELEMENTS;
        wr->sg_list = elements[i];
        wr->next = i + 1 < count ? &requests[i + 1] : NULL;
        for (int k = 0; k < wr->num_sge; k++)
            elements[i][k] = element(false);
    }
    int error = post_receives(requests, &bad);
    fuzz_demand(error == 0 || (bad >= requests && bad < requests + count));
}

void fuzz_bind(void)
{
    struct ibv_qp *qp = pick_qp();
    struct object *mw = fuzz_pick(MW);
    struct ibv_mw_bind bind = { .wr_id = 5,
                                .send_flags = IBV_SEND_SIGNALED,
                                .bind_info = bind_info() };

    if (qp != NULL && mw != NULL)
        (void)ibv_bind_mw(qp, mw->mw, &bind);
}

/* ---- ibv_wr_*() ---------------------------------------------------------- */

static void set_buffer(struct ibv_qp_ex *ex, uint8_t how)
{
    const struct ibv_sge at = element(how & 1);
    struct ibv_sge list[2] = { at, at };
    struct ibv_data_buf buffers[2] = { { fuzz_inline, at.length }, { fuzz_inline, 8 } };

    if (how & 1 && how & 2)
        ibv_wr_set_inline_data_list(ex, 2, buffers);
    else if (how & 1)
        ibv_wr_set_inline_data(ex, fuzz_inline, at.length);
    else if (how & 2)
        ibv_wr_set_sge_list(ex, how & 4 ? 2 : 40, list);
    else
        ibv_wr_set_sge(ex, at.lkey, at.addr, at.length);
}

/* Builds one request, or a SEND if the queue pair lacks the builder of the request. */
static void build(struct ibv_qp_ex *ex, uint8_t what)
{
    const struct ibv_sge there = element(false);
    const uint32_t key = remote_key();
    struct object *mw = fuzz_pick(MW);
    const struct ibv_mw_bind_info info = bind_info();

    if ((what & 15) == 0 && ex->wr_rdma_write != NULL)
        ibv_wr_rdma_write(ex, key, there.addr);
    else if ((what & 15) == 1 && ex->wr_rdma_write_imm != NULL)
        ibv_wr_rdma_write_imm(ex, key, there.addr, what);
    else if ((what & 15) == 2 && ex->wr_send_imm != NULL)
        ibv_wr_send_imm(ex, what);
    else if ((what & 15) == 3 && ex->wr_rdma_read != NULL)
        ibv_wr_rdma_read(ex, key, there.addr);
    else if ((what & 15) == 4 && ex->wr_atomic_cmp_swp != NULL)
        ibv_wr_atomic_cmp_swp(ex, key, there.addr, 0, what);
    else if ((what & 15) == 5 && ex->wr_atomic_fetch_add != NULL)
        ibv_wr_atomic_fetch_add(ex, key, there.addr, what);
    else if ((what & 15) == 6 && ex->wr_local_inv != NULL)
        ibv_wr_local_inv(ex, key);
    else if ((what & 15) == 7 && ex->wr_bind_mw != NULL && mw != NULL)
        ibv_wr_bind_mw(ex, mw->mw, ibv_inc_rkey(mw->mw->rkey), &info);
    else if ((what & 15) == 8 && ex->wr_send_inv != NULL)
        ibv_wr_send_inv(ex, key);
    else if (ex->wr_send != NULL)
        ibv_wr_send(ex);
}

static void address(struct ibv_qp_ex *ex)
{
    struct ibv_send_wr wr = { 0 };

    fill_datagram(&wr);
    if (ex->qp_base.qp_type == IBV_QPT_UD)
        ibv_wr_set_ud_addr(ex, wr.wr.ud.ah, wr.wr.ud.remote_qpn, wr.wr.ud.remote_qkey);
    else
        ibv_wr_set_xrc_srqn(ex, fuzz_next());
}

void fuzz_post_ex(void)
{
    struct ibv_qp *qp = pick_qp();
    struct ibv_qp_ex *ex = qp != NULL ? ibv_qp_to_qp_ex(qp) : NULL;
    const uint8_t how = fuzz_next();

    if (ex == NULL)
        return;
    ibv_wr_start(ex);
    for (uint32_t i = how & 3; i-- > 0;) {
        const uint8_t what = fuzz_next();
        ex->wr_id = what;
        ex->wr_flags = what >> 4;
        build(ex, what);
        if (what & 0x80)
            address(ex);
        if (what & 0x40)
            set_buffer(ex, fuzz_next());
    }
    if (how & 0x80)
        ibv_wr_abort(ex);
    else
        fuzz_demand(ibv_wr_complete(ex) >= 0);
}

/* ---- completions and events ---------------------------------------------- */

void fuzz_poll(void)
{
    struct ibv_cq *cq = fuzz_pick_cq();
    struct ibv_wc wc[POLL];
    const int room = fuzz_next() % (POLL + 1);

    if (cq == NULL)
        return;
    int count = ibv_poll_cq(cq, room, wc);
    fuzz_demand(count >= -1 && count <= room);
    for (int i = 0; i < count; i++)
        fuzz_demand((unsigned)wc[i].status < WC_STATUSES);
}

void fuzz_poll_ex(void)
{
    struct object *object = fuzz_pick(CQ_EX);
    struct ibv_poll_cq_attr attr = { 0 };

    if (object == NULL)
        return;
    struct ibv_cq_ex *cq = object->cq_ex;
    if (ibv_start_poll(cq, &attr) != 0)
        return;
    for (uint32_t i = fuzz_next() & 7; i > 0; i--) {
        fuzz_demand((unsigned)cq->status < WC_STATUSES);
        (void)ibv_wc_read_opcode(cq);
        (void)ibv_wc_read_byte_len(cq);
        (void)ibv_wc_read_wc_flags(cq);
        (void)ibv_wc_read_completion_wallclock_ns(cq);
        if (ibv_next_poll(cq) != 0)
            break;
    }
    ibv_end_poll(cq);
}

static bool readable(int fd)
{
    struct pollfd now = { .fd = fd, .events = POLLIN };

    return poll(&now, 1, 0) == 1;
}

/* Gets and acknowledges all waiting asynchronous events and those of one channel. Otherwise
 * destroying an object would wait for ever. */
void fuzz_events(void)
{
    struct object *channel = fuzz_pick(CHANNEL);
    struct ibv_async_event event;
    struct ibv_cq *cq;
    void *context;

    for (uint8_t side = 0; side < FUZZ_DEVICES; side++)
        while (readable(fuzz_context(side)->async_fd)) {
            fuzz_demand(ibv_get_async_event(fuzz_context(side), &event) == 0);
            ibv_ack_async_event(&event);
        }
    while (channel != NULL && readable(channel->channel->fd)) {
        fuzz_demand(ibv_get_cq_event(channel->channel, &cq, &context) == 0);
        ibv_ack_cq_events(cq, 1);
    }
    cq = fuzz_pick_cq();
    if (cq != NULL)
        fuzz_demand(ibv_req_notify_cq(cq, fuzz_next() & 1) == 0);
}

/* ---- the rest ------------------------------------------------------------ */

void fuzz_query(void)
{
    const uint8_t side = fuzz_next();
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ibv_srq_attr limits;
    union ibv_gid gid;
    struct ibv_qp *qp = pick_qp();
    struct object *srq = fuzz_pick(SRQ);

    fuzz_demand(ibv_query_device(fuzz_context(side), &device) == 0);
    (void)ibv_query_port(fuzz_context(side), fuzz_next() & 3, &port);
    (void)ibv_query_gid(fuzz_context(side), 1, fuzz_next(), &gid);
    if (qp != NULL)
        fuzz_demand(ibv_query_qp(qp, &attr, 0x1fffff, &init) == 0);
    if (srq != NULL)
        fuzz_demand(ibv_query_srq(srq->srq, &limits) == 0);
}

static union ibv_gid group_of(uint8_t which)
{
    union ibv_gid gid = { .raw = { 0xff, 0x0e } };

    gid.raw[15] = which % GROUPS;
    return gid;
}

void fuzz_group(void)
{
    struct ibv_qp *qp = pick_qp();
    const uint8_t what = fuzz_next();
    const union ibv_gid gid = group_of(what);

    if (qp == NULL)
        return;
    if (what & 0x80)
        (void)ibv_detach_mcast(qp, &gid, 0);
    else
        (void)ibv_attach_mcast(qp, &gid, 0);
}

void fuzz_leave_groups(struct ibv_qp *qp)
{
    for (uint8_t i = 0; i < GROUPS; i++) {
        const union ibv_gid gid = group_of(i);
        if (qp->qp_type == IBV_QPT_UD)
            (void)ibv_detach_mcast(qp, &gid, 0);
    }
}

void fuzz_resize(void)
{
    struct ibv_cq *cq = fuzz_pick_cq();
    struct object *srq = fuzz_pick(SRQ);
    const uint8_t what = fuzz_next(), size = fuzz_next();
    struct ibv_srq_attr attr = { .max_wr = size & 0x3f, .srq_limit = size >> 4 };

    if (cq != NULL && what & 4)
        fuzz_demand(ibv_resize_cq(cq, what) >= 0);
    if (srq != NULL)
        fuzz_demand(ibv_modify_srq(srq->srq, &attr, what & 3) >= 0);
}
