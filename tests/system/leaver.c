/* SPDX-License-Identifier: BSD-3-Clause */
/* leaver.c - a server that ends as soon as it has polled its last message, and its client, which
 * checks that every message is acknowledged. In the mode "answer", the server sends an answer to
 * each request of the client. The ACK of a request must arrive before its answer.
 *
 *     leaver server PORT HOW      receives MESSAGES, ends by HOW: _exit, exec, abort, kill, destroy
 *     leaver client PORT HOW      sends the messages one by one; status 1 if a message has no ACK
 *     leaver server PORT answer   answers TRIPS requests
 *     leaver client PORT answer   status 1 if an answer arrived before its request completed
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "support/patience.h"

#define MESSAGES 3u
#define TRIPS    300u
#define RECEIVES 16u
#define PSN      100u
#define OCTETS   8u
#define SECONDS  60u /* time limit of the program */

struct info {
    uint32_t qpn;
    union ibv_gid gid;
};

static struct ibv_qp *qp;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint8_t memory[2 * OCTETS];
static int peer;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    printf("FAILED: %s\n", what);
    exit(2);
}
#define MUST(holds) must((holds), #holds)

static void meet(bool server, uint16_t port)
{
    const struct sockaddr_in at = { .sin_family = AF_INET,
                                    .sin_port = htons(port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

    peer = fd;
    if (!server) {
        MUST(connect(fd, (const struct sockaddr *)&at, sizeof at) == 0);
        return;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    MUST(bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0);
    peer = accept(fd, NULL, NULL);
    MUST(peer >= 0);
}

static void swap(const void *mine, void *theirs, size_t size)
{
    MUST(write(peer, mine, size) == (ssize_t)size);
    MUST(recv(peer, theirs, size, MSG_WAITALL) == (ssize_t)size);
}

static void to_rts(const struct info *to)
{
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
    struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = to->qpn,
                               .rq_psn = PSN,
                               .min_rnr_timer = 1,
                               .ah_attr = {
                                   .is_global = 1,
                                   .port_num = 1,
                                   .grh = { .dgid = to->gid, .sgid_index = 1, .hop_limit = 64 } } };
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS, .sq_psn = PSN, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7
    };

    MUST(ibv_modify_qp(qp, &init,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    MUST(ibv_modify_qp(qp, &rtr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    MUST(ibv_modify_qp(qp, &rts,
                       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void post_receive(void)
{
    struct ibv_sge sge = { (uintptr_t)memory, OCTETS, mr->lkey };
    struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad;

    MUST(ibv_post_recv(qp, &receive, &bad) == 0);
}

static void post_send(void)
{
    struct ibv_sge sge = { (uintptr_t)memory + OCTETS, OCTETS, mr->lkey };
    struct ibv_send_wr send = { .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad;

    MUST(ibv_post_send(qp, &send, &bad) == 0);
}

static void open_all(bool server, uint16_t port)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct info mine = { 0 }, theirs;
    char ready = 0;

    MUST(devices != NULL && devices[0] != NULL);
    struct ibv_context *context = ibv_open_device(devices[0]);
    MUST(context != NULL);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    MUST(pd != NULL);
    mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    cq = ibv_create_cq(context, 4 * RECEIVES, NULL, NULL, 0);
    MUST(mr != NULL && cq != NULL);
    struct ibv_qp_init_attr wanted = { .send_cq = cq,
                                       .recv_cq = cq,
                                       .qp_type = IBV_QPT_RC,
                                       .cap = { .max_send_wr = RECEIVES,
                                                .max_recv_wr = RECEIVES,
                                                .max_send_sge = 1,
                                                .max_recv_sge = 1 } };
    qp = ibv_create_qp(pd, &wanted);
    MUST(qp != NULL && ibv_query_gid(context, 1, 1, &mine.gid) == 0);
    mine.qpn = qp->qp_num;
    meet(server, port);
    swap(&mine, &theirs, sizeof mine);
    to_rts(&theirs);
    for (uint32_t i = 0; i < RECEIVES; i++)
        post_receive();
    swap(&ready, &ready, sizeof ready);
}

static struct ibv_wc next(void)
{
    struct ibv_wc wc;
    int count;

    while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
        ;
    MUST(count == 1);
    return wc;
}

/* Ends the process. Only "destroy" calls the library before that. */
static void leave(const char *how)
{
    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "kill") == 0)
        (void)kill(getpid(), SIGKILL);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "exec") == 0)
        (void)execl("/bin/true", "true", NULL);
    MUST(strcmp(how, "destroy") == 0 && ibv_destroy_qp(qp) == 0);
    _exit(0);
}

static void take_and_leave(const char *how)
{
    for (uint32_t i = 0; i < MESSAGES; i++)
        MUST(next().status == IBV_WC_SUCCESS);
    leave(how);
}

static int send_all(void)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        post_send();
        struct ibv_wc wc = next();
        if (wc.status != IBV_WC_SUCCESS) {
            printf("message %u: %s\n", i, ibv_wc_status_str(wc.status));
            return 1;
        }
    }
    return 0;
}

static void answer_all(void)
{
    for (uint32_t answered = 0; answered < TRIPS;) {
        struct ibv_wc wc = next();
        MUST(wc.status == IBV_WC_SUCCESS);
        if (wc.opcode != IBV_WC_RECV)
            continue;
        post_receive();
        post_send();
        answered++;
    }
}

static int ask_all(void)
{
    uint32_t early = 0;

    for (uint32_t i = 0; i < TRIPS; i++) {
        post_send();
        struct ibv_wc first = next(), second = next();
        MUST(first.status == IBV_WC_SUCCESS && second.status == IBV_WC_SUCCESS);
        early += first.opcode == IBV_WC_RECV;
        post_receive();
    }
    printf("%u of %u answers came before the completion of the question\n", early, TRIPS);
    return early != 0;
}

int main(int argc, char **argv)
{
    MUST(argc == 4);
    bool server = strcmp(argv[1], "server") == 0, answers = strcmp(argv[3], "answer") == 0;
    char done = 0;

    (void)alarm(patience(SECONDS));
    open_all(server, (uint16_t)strtoul(argv[2], NULL, 10));
    if (server && !answers)
        take_and_leave(argv[3]);
    if (!server)
        return answers ? ask_all() : send_all();
    answer_all();
    (void)!read(peer, &done, 1); /* until the client has its last answer */
    return 0;
}
