/* SPDX-License-Identifier: BSD-3-Clause */
/* credits.c - a program with a bug that a network without losses does not show. Its first device
 * sends numbers to its second device, and waits for a credit before each number. The second device
 * sends a credit for each number that it received. But it posts the next receive only when the send
 * of this credit is complete. If ACKs of credits are lost, the first device has credits, but the
 * receives do not exist. The program forbids retries after an RNR NAK, so its connection fails.
 *
 *     cc credits.c -libverbs && uroce run --device a:... --device b:... ./a.out
 *
 * docs/TEST-YOUR-PROGRAM.md finds the bug. With the argument "right" the program posts the receive
 * before it sends the credit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#define MESSAGES 2000u
#define CREDITS  8u
#define RECEIVES (2 * CREDITS) /* so that credits and messages can cross */
#define SENDS    128u          /* outstanding sends; some lost ACKs do not exhaust them */
#define PSN      1u

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    union ibv_gid gid;
    uint32_t buffers[RECEIVES];
};

static struct side a, b;

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "FAILED: %s\n", what);
    exit(2);
}
#define MUST(condition) must(condition, #condition)

static void open_side(struct side *side, struct ibv_device *device)
{
    MUST((side->context = ibv_open_device(device)) != NULL);
    MUST((side->pd = ibv_alloc_pd(side->context)) != NULL);
    MUST((side->cq = ibv_create_cq(side->context, SENDS + RECEIVES, NULL, NULL, 0)) != NULL);
    MUST((side->mr = ibv_reg_mr(side->pd, side->buffers, sizeof side->buffers,
                                IBV_ACCESS_LOCAL_WRITE)) != NULL);
    struct ibv_qp_init_attr init = { .send_cq = side->cq,
                                     .recv_cq = side->cq,
                                     .cap = { .max_send_wr = SENDS,
                                              .max_recv_wr = RECEIVES,
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1,
                                              .max_inline_data = sizeof(uint32_t) },
                                     .qp_type = IBV_QPT_RC,
                                     .sq_sig_all = 1 };
    MUST((side->qp = ibv_create_qp(side->pd, &init)) != NULL);
    MUST(ibv_query_gid(side->context, 1, 0, &side->gid) == 0);
}

static void connect_side(struct side *side, const struct side *peer)
{
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qp->qp_num,
        .rq_psn = PSN,
        .min_rnr_timer = 12,
        .max_dest_rd_atomic = 1,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = peer->gid, .hop_limit = 64 } }
    };
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
                               .timeout = 14,
                               .retry_cnt = 7,
                               .rnr_retry = 0 /* relies on the credits */,
                               .sq_psn = PSN,
                               .max_rd_atomic = 1 };

    MUST(ibv_modify_qp(side->qp, &init,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    MUST(ibv_modify_qp(side->qp, &rtr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    MUST(ibv_modify_qp(side->qp, &rts,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void receive(struct side *side, uint32_t slot)
{
    struct ibv_sge sge = { (uintptr_t)&side->buffers[slot], sizeof side->buffers[slot],
                           side->mr->lkey };
    struct ibv_recv_wr recv = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 }, *bad;

    MUST(ibv_post_recv(side->qp, &recv, &bad) == 0);
}

/* Sends a number inline, so that its buffer can be reused at once. */
static void send_number(struct side *side, uint32_t number, uint64_t id)
{
    struct ibv_sge sge = { (uintptr_t)&number, sizeof number, 0 };
    struct ibv_send_wr send = { .wr_id = id,
                                .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_INLINE };
    struct ibv_send_wr *bad;

    MUST(ibv_post_send(side->qp, &send, &bad) == 0);
}

int main(int argc, char **argv)
{
    const int right = argc > 1 && strcmp(argv[1], "right") == 0;
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    uint32_t sent = 0, received = 0, credits = CREDITS;
    struct ibv_wc wc;

    MUST(list != NULL && count >= 2);
    open_side(&a, list[0]);
    open_side(&b, list[1]);
    connect_side(&a, &b);
    connect_side(&b, &a);
    for (uint32_t slot = 0; slot < RECEIVES; slot++) {
        receive(&a, slot);
        receive(&b, slot);
    }
    while (received < MESSAGES) {
        while (ibv_poll_cq(a.cq, 1, &wc) > 0) {
            must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
            if (wc.opcode == IBV_WC_RECV) {
                receive(&a, (uint32_t)wc.wr_id);
                credits++;
            }
        }
        for (; credits > 0 && sent < MESSAGES; credits--)
            send_number(&a, sent++, 0);
        while (ibv_poll_cq(b.cq, 1, &wc) > 0) {
            must(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
            if (wc.opcode == IBV_WC_RECV) {
                MUST(b.buffers[wc.wr_id] == received);
                received++;
                if (right)
                    receive(&b, (uint32_t)wc.wr_id);
                send_number(&b, 1, wc.wr_id);
            } else if (!right) {
                receive(&b, (uint32_t)wc.wr_id); /* the bug: the credit was sent before */
            }
        }
    }
    printf("%u messages\n", MESSAGES);
    return 0;
}
