/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_end.c - one end of a connection of verify: its TCP connection and its verbs objects. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meet.h"
#include "verify.h"

/* First PSNs. In each direction, the PSN soon passes a value at which PSN arithmetic can fail. */
#define CLIENT_PSN 0xfffff0u
#define SERVER_PSN 0x7ffff0u

#define OPERATION_NAME_MAX 32

/* The message that the ends exchange. It is in host byte order, because both ends have the same
 * byte order. */
struct hello {
    uint8_t gid[16];
    uint64_t target;
    uint32_t key;
    uint32_t qpn;
    uint32_t psn;
    uint32_t mtu;
    uint32_t rounds;
    uint32_t seed;
    uint32_t largest;
    uint32_t zero_read;
    char only[OPERATION_NAME_MAX];
};

void verify_end_barrier(struct verify_end *end)
{
    meet_barrier(end->peer);
}

/* ---- verbs ---- */

static struct ibv_mr *area(struct ibv_pd *pd, int access, uint8_t **memory)
{
    struct ibv_mr *mr;

    *memory = aligned_alloc(4096, VERIFY_AREA);
    if (*memory == NULL)
        meet_die("no memory");
    memset(*memory, 0, VERIFY_AREA);
    mr = (ibv_reg_mr)(pd, *memory, VERIFY_AREA, access); /* not the macro, which causes a warning */
    if (mr == NULL)
        meet_die("ibv_reg_mr: %s", strerror(errno));
    return mr;
}

static void make_objects(struct verify_end *end)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = VERIFY_DEPTH,
                 .max_recv_wr = VERIFY_DEPTH,
                 .max_send_sge = 2,
                 .max_recv_sge = 2,
                 .max_inline_data = 64 },
    };

    end->pd = ibv_alloc_pd(end->context);
    if (end->pd == NULL)
        meet_die("ibv_alloc_pd: %s", strerror(errno));
    end->cq = ibv_create_cq(end->context, 2 * VERIFY_DEPTH, NULL, NULL, 0);
    if (end->cq == NULL)
        meet_die("ibv_create_cq: %s", strerror(errno));
    attr.send_cq = attr.recv_cq = end->cq;
    end->qp = ibv_create_qp(end->pd, &attr);
    if (end->qp == NULL)
        meet_die("ibv_create_qp: %s", strerror(errno));
    end->local_mr = area(end->pd, IBV_ACCESS_LOCAL_WRITE, &end->local);
    end->target_mr = area(end->pd,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
                          &end->target);
}

static void modify(struct verify_end *end, struct ibv_qp_attr *attr, int mask, const char *state)
{
    int error = ibv_modify_qp(end->qp, attr, mask);

    if (error != 0)
        meet_die("ibv_modify_qp to %s: %s", state, strerror(error));
}

static void to_init(struct verify_end *end)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = 1,
        .qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    };

    modify(end, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
           "INIT");
}

static void to_rts(struct verify_end *end, const struct verify_options *options,
                   const struct hello *mine, const struct hello *theirs)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = meet_mtu(options->meet.mtu),
        .dest_qp_num = theirs->qpn,
        .rq_psn = theirs->psn,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12, /* 0.64 ms */
        .ah_attr = { .is_global = 1,
                     .port_num = 1,
                     .grh = { .hop_limit = 64, .sgid_index = options->meet.gid_index } },
    };

    memcpy(attr.ah_attr.grh.dgid.raw, theirs->gid, sizeof theirs->gid);
    modify(end, &attr,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
           "RTR");
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .sq_psn = mine->psn,
        .timeout = options->timeout,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .max_rd_atomic = 4,
    };
    modify(end, &attr,
           IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
               IBV_QP_MAX_QP_RD_ATOMIC,
           "RTS");
}

void verify_end_open(struct verify_end *end, struct verify_options *options)
{
    struct hello mine = { 0 };
    static struct hello theirs; /* static, because options->only may point into it */
    union ibv_gid gid;
    bool client = options->meet.host != NULL;

    end->context = meet_open_device(options->meet.device);
    make_objects(end);
    if (ibv_query_gid(end->context, 1, options->meet.gid_index, &gid) != 0)
        meet_die("no GID %u", options->meet.gid_index);
    to_init(end);

    end->peer = meet_peer(options->meet.host, options->meet.port);
    memcpy(mine.gid, gid.raw, sizeof mine.gid);
    mine.target = (uintptr_t)end->target;
    mine.key = end->target_mr->rkey;
    mine.qpn = end->qp->qp_num;
    mine.psn = client ? CLIENT_PSN : SERVER_PSN;
    mine.mtu = options->meet.mtu;
    mine.rounds = options->rounds;
    mine.seed = options->seed;
    mine.largest = options->largest;
    mine.zero_read = options->zero_read;
    if (options->only != NULL)
        snprintf(mine.only, sizeof mine.only, "%s", options->only);
    meet_send(end->peer, &mine, sizeof mine);
    meet_receive(end->peer, &theirs, sizeof theirs);
    if (!client) {
        options->meet.mtu = theirs.mtu;
        options->rounds = theirs.rounds;
        options->seed = theirs.seed;
        options->largest = theirs.largest;
        options->zero_read = theirs.zero_read;
        theirs.only[OPERATION_NAME_MAX - 1] = '\0';
        options->only = theirs.only[0] != '\0' ? theirs.only : NULL;
    }
    end->remote_target = theirs.target;
    end->remote_key = theirs.key;
    to_rts(end, options, &mine, &theirs);
    verify_end_barrier(end);
}

void verify_end_close(struct verify_end *end)
{
    /* Both ends have finished, so no end destroys objects that the other end still needs. */
    verify_end_barrier(end);
    if (ibv_destroy_qp(end->qp) != 0 || ibv_destroy_cq(end->cq) != 0 ||
        ibv_dereg_mr(end->local_mr) != 0 || ibv_dereg_mr(end->target_mr) != 0 ||
        ibv_dealloc_pd(end->pd) != 0 || ibv_close_device(end->context) != 0)
        meet_die("cannot destroy the verbs objects");
    free(end->local);
    free(end->target);
    close(end->peer);
}
