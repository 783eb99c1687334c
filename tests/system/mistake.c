/* SPDX-License-Identifier: BSD-3-Clause */
/* mistake.c - a program that makes one mistake with queue pairs of one device, and prints the
 * results.
 *
 *     mistake none        a SEND that arrives
 *     mistake rkey        an RDMA WRITE with a wrong key
 *     mistake qpn         a SEND to a queue pair that does not exist
 *     mistake closed      a SEND to 127.0.0.9, where no process has the port
 *     mistake rnr         a SEND to a queue pair without receives, until a receive is posted
 *     mistake mtu         a path MTU that the link does not carry
 *     mistake killed      the mistake of rkey, then the process kills itself
 *     mistake many        the mistake of qpn, with 10000 queue pairs at the same time
 */
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MANY 10000u

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[4096];

static void check(bool good, const char *what)
{
    if (good)
        return;
    perror(what);
    exit(1);
}

static struct ibv_qp *make_qp(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
        .qp_type = IBV_QPT_RC
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);

    check(qp != NULL, "ibv_create_qp");
    return qp;
}

/* Connects @qp to the queue pair @number at @address. NULL is the address of this process. Returns
 * the error of the transition to RTR. */
static int connect_qp(struct ibv_qp *qp, const char *address, uint32_t number, enum ibv_mtu mtu)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

    check(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
          "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = mtu;
    attr.dest_qp_num = number;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr =
        (struct ibv_ah_attr){ .is_global = 1, .port_num = 1, .grh = { .hop_limit = 64 } };
    check(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) == 0, "ibv_query_gid");
    if (address != NULL)
        check(inet_pton(AF_INET, address, &attr.ah_attr.grh.dgid.raw[12]) == 1, address);
    const int error =
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (error != 0)
        return error;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 12;
    attr.retry_cnt = 2;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    check(ibv_modify_qp(qp, &attr,
                        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "RTS");
    return 0;
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t rkey)
{
    struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey };
    struct ibv_send_wr wr = { .wr_id = 7,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = opcode,
                              .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = { .remote_addr = (uintptr_t)memory, .rkey = rkey } };
    struct ibv_send_wr *bad;

    check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

static void post_receive(struct ibv_qp *qp)
{
    struct ibv_sge sge = { .addr = (uintptr_t)memory + 2048, .length = 64, .lkey = mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 }, *bad;

    check(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

static struct ibv_wc wait_for(uint64_t id)
{
    struct ibv_wc wc = { 0 };

    do
        check(ibv_poll_cq(cq, 1, &wc) >= 0, "ibv_poll_cq");
    while (wc.wr_id != id);
    return wc;
}

/* Polls for six seconds without a completion. uroce reports the waiting request within this
 * time. */
static void wait_in_vain(void)
{
    struct ibv_wc wc;

    for (const time_t end = time(NULL) + 6; time(NULL) < end;)
        check(ibv_poll_cq(cq, 1, &wc) == 0, "a completion without a receive");
}

/* A number that no queue pair has, because no process has the last QPN prefix. A random number
 * could be that of one of the 10000 queue pairs. */
#define NEVER_A_QPN 0xfffffeu

static void fail_many(void)
{
    for (uint32_t i = 0; i < MANY; i++) {
        struct ibv_qp *qp = make_qp();
        check(connect_qp(qp, NULL, NEVER_A_QPN, IBV_MTU_512) == 0, "RTR");
        post(qp, IBV_WR_SEND, 0);
    }
    for (uint32_t i = 0; i < MANY; i++)
        check(wait_for(7).status == IBV_WC_RETRY_EXC_ERR, "another status");
    (void)printf("%u\n", MANY);
}

int main(int argc, char **argv)
{
    const char *mistake = argc > 1 ? argv[1] : "none";
    const char *address = strcmp(mistake, "closed") == 0 ? "127.0.0.9" : NULL;
    const bool key = strcmp(mistake, "rkey") == 0 || strcmp(mistake, "killed") == 0;
    struct ibv_device **list = ibv_get_device_list(NULL);

    check(list != NULL && list[0] != NULL, "no device");
    context = ibv_open_device(list[0]);
    check(context != NULL, "ibv_open_device");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 4 * (int)MANY, NULL, NULL, 0);
    mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    check(cq != NULL && mr != NULL, "objects");
    if (strcmp(mistake, "many") == 0) {
        fail_many();
        return 0;
    }
    struct ibv_qp *a = make_qp(), *b = make_qp();
    const uint32_t number = strcmp(mistake, "qpn") == 0 ? b->qp_num ^ 0x8000u : b->qp_num;
    const bool narrow = strcmp(mistake, "mtu") == 0;
    const int error = connect_qp(a, address, number, narrow ? IBV_MTU_4096 : IBV_MTU_512);
    (void)printf("%d\n", error);
    if (error != 0)
        return 0;
    check(connect_qp(b, NULL, a->qp_num, IBV_MTU_512) == 0, "RTR");
    if (strcmp(mistake, "none") == 0)
        post_receive(b);
    post(a, key ? IBV_WR_RDMA_WRITE : IBV_WR_SEND, 0x777);
    if (strcmp(mistake, "rnr") == 0) {
        wait_in_vain();
        post_receive(b);
    }
    (void)printf("%d\n", wait_for(7).status);
    (void)fflush(stdout);
    if (strcmp(mistake, "killed") == 0)
        (void)kill(getpid(), SIGKILL);
    return 0;
}
