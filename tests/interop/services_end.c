/* SPDX-License-Identifier: BSD-3-Clause */
/* services_end.c - one end of the services tests: its objects, posting, completions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "services.h"
#include "support/patience.h"

#define SECONDS 60

static void must(int error, const char *what)
{
    if (error != 0)
        meet_die("%s: %s", what, strerror(error > 0 ? error : errno));
}

static void *made(void *object, const char *what)
{
    if (object == NULL)
        meet_die("%s: %s", what, strerror(errno));
    return object;
}

/* Creates a queue pair for ibv_wr_*(). */
static struct ibv_qp *create_ex(struct services_end *end, const struct ibv_qp_init_attr *plain)
{
    struct ibv_qp_init_attr_ex init = {
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .qp_type = plain->qp_type,
        .send_cq = plain->send_cq,
        .recv_cq = plain->recv_cq,
        .cap = plain->cap,
        .pd = end->pd,
        .send_ops_flags = end->operations,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(end->context, &init);

    if (qp == NULL && (end->operations & SERVICES_WITH_FLUSH) != 0) {
        end->flush_unknown = true;
        init.send_ops_flags &= ~(uint64_t)SERVICES_WITH_FLUSH;
        qp = ibv_create_qp_ex(end->context, &init);
    }
    return qp;
}

static void make_qp(struct services_end *end, enum ibv_qp_type type, uint32_t i)
{
    struct ibv_qp_init_attr init = {
        .qp_type = type,
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .srq = end->srq,
        .cap = { .max_send_wr = SERVICES_DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
    };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = SERVICES_QKEY };
    bool datagrams = type == IBV_QPT_UD;
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

    if (end->srq == NULL)
        init.cap.max_recv_wr = SERVICES_DEPTH;
    end->qps[i] = made(end->operations != 0 ? create_ex(end, &init) : ibv_create_qp(end->pd, &init),
                       "ibv_create_qp");
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | end->access;
    if (type == IBV_QPT_RC)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ;
    mask |= datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    must(ibv_modify_qp(end->qps[i], &attr, mask), "to INIT");
}

static void connect_qp(struct services_end *end, enum ibv_qp_type type, uint32_t i)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = meet_mtu(end->options->meet.mtu),
        .dest_qp_num = end->theirs.qpn[i],
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .max_rd_atomic = 1,
        .ah_attr = { .is_global = 1,
                     .port_num = 1,
                     .grh = { .hop_limit = 64, .sgid_index = end->options->meet.gid_index } },
    };
    int to_rtr = IBV_QP_STATE;
    int to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN;

    memcpy(attr.ah_attr.grh.dgid.raw, end->theirs.gid, sizeof end->theirs.gid);
    if (type != IBV_QPT_UD)
        to_rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (type == IBV_QPT_RC) {
        to_rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        to_rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    must(ibv_modify_qp(end->qps[i], &attr, to_rtr), "to RTR");
    attr.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(end->qps[i], &attr, to_rts), "to RTS");
}

void services_open(struct services_end *end, enum ibv_qp_type type, uint32_t qp_count, bool srq)
{
    struct services_hello mine = { 0 };
    struct ibv_srq_init_attr shared = { .attr = { .max_wr = SERVICES_DEPTH, .max_sge = 1 } };

    end->context = meet_open_device(end->options->meet.device);
    end->pd = made(ibv_alloc_pd(end->context), "ibv_alloc_pd");
    end->cq = made(ibv_create_cq(end->context, 4 * SERVICES_DEPTH, NULL, NULL, 0), "ibv_create_cq");
    if (srq)
        end->srq = made(ibv_create_srq(end->pd, &shared), "ibv_create_srq");
    end->memory = made(aligned_alloc(4096, (size_t)2 * SERVICES_ROOM), "memory");
    memset(end->memory, 0, (size_t)2 * SERVICES_ROOM);
    end->mr = made((ibv_reg_mr)(end->pd, end->memory, (size_t)2 * SERVICES_ROOM,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND | (int)end->access),
                   "ibv_reg_mr");
    end->qp_count = qp_count;
    for (uint32_t i = 0; i < qp_count; i++) {
        make_qp(end, type, i);
        mine.qpn[i] = end->qps[i]->qp_num;
    }
    must(ibv_query_gid(end->context, 1, end->options->meet.gid_index, &end->gid), "ibv_query_gid");

    end->peer = meet_peer(end->options->meet.host, end->options->meet.port);
    memcpy(mine.gid, end->gid.raw, sizeof mine.gid);
    mine.address = (uintptr_t)end->memory;
    mine.rkey = end->mr->rkey;
    meet_send(end->peer, &mine, sizeof mine);
    meet_receive(end->peer, &end->theirs, sizeof end->theirs);
    for (uint32_t i = 0; i < qp_count; i++)
        connect_qp(end, type, i);
    meet_barrier(end->peer);
}

void services_close(struct services_end *end)
{
    meet_barrier(end->peer);
    for (uint32_t i = 0; i < end->qp_count; i++)
        must(ibv_destroy_qp(end->qps[i]), "ibv_destroy_qp");
    if (end->srq != NULL)
        must(ibv_destroy_srq(end->srq), "ibv_destroy_srq");
    must(ibv_destroy_cq(end->cq), "ibv_destroy_cq");
    must(ibv_dereg_mr(end->mr), "ibv_dereg_mr");
    must(ibv_dealloc_pd(end->pd), "ibv_dealloc_pd");
    must(ibv_close_device(end->context), "ibv_close_device");
    free(end->memory);
    close(end->peer);
}

void services_post_recv(struct services_end *end, uint32_t qp, uint64_t id, uint32_t at,
                        uint32_t length)
{
    struct ibv_sge sge = { (uintptr_t)end->memory + SERVICES_ROOM + at, length, end->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

    must(end->srq != NULL ? ibv_post_srq_recv(end->srq, &wr, &bad)
                          : ibv_post_recv(end->qps[qp], &wr, &bad),
         "post receive");
}

void services_post_send(struct services_end *end, uint32_t qp, struct ibv_send_wr *wr, uint32_t at,
                        uint32_t length)
{
    struct ibv_sge sge = { (uintptr_t)end->memory + at, length, end->mr->lkey };
    struct ibv_send_wr *bad;

    wr->sg_list = &sge;
    wr->num_sge = length > 0 ? 1 : 0;
    wr->send_flags |= IBV_SEND_SIGNALED;
    must(ibv_post_send(end->qps[qp], wr, &bad), "ibv_post_send");
}

void services_wait(struct services_end *end, struct ibv_wc *wc)
{
    time_t until = time(NULL) + patience(SECONDS);
    int taken;

    while ((taken = ibv_poll_cq(end->cq, 1, wc)) == 0)
        if (time(NULL) > until)
            meet_die("no completion for %u s", SECONDS);
    if (taken < 0)
        meet_die("ibv_poll_cq: %d", taken);
}

void services_expect(struct services_end *end, uint64_t id, struct ibv_wc *wc)
{
    services_wait(end, wc);
    if (wc->status != IBV_WC_SUCCESS || wc->wr_id != id)
        meet_die("completion of %llu: %s, vendor %u, expected a success of %llu",
                 (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status), wc->vendor_err,
                 (unsigned long long)id);
}

static uint8_t octet(uint32_t at, uint32_t number)
{
    return (uint8_t)(at * 7 + at / 256 + number * 13 + 1);
}

void services_fill(uint8_t *at, uint32_t length, uint32_t number)
{
    for (uint32_t i = 0; i < length; i++)
        at[i] = octet(i, number);
}

void services_compare(const uint8_t *at, uint32_t length, uint32_t number)
{
    for (uint32_t i = 0; i < length; i++)
        if (at[i] != octet(i, number))
            meet_die("message %u of %u octets differs at octet %u", number, length, i);
}
