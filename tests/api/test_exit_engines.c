/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exit_engines.c - tests exit() in a signal handler that interrupts a round of an engine. The
 * round holds the lock of the port of all engines of its device. The process must end, although the
 * other engines cannot use the port any more.
 */
#include "api/api.h"

#include "support/must.h"
#include "support/patience.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENGINES  3
#define DEVICES  2
#define PAGE     4096u
#define STATUS   7
#define TIME_MAX 8 /* seconds; exit() waits at most some hundred milliseconds for each device */

static struct end {
    struct api api;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    void *page;
} ends[DEVICES];

static void leave(int number)
{
    (void)number;
    exit(STATUS);
}

/* Vector 0 chooses the first engine, which receives frames from the port itself. */
static void open_end(struct end *end, const char *name)
{
    end->api = api_open_device(name);
    MUST(end->api.pd != NULL);
    end->cq = ibv_create_cq(end->api.context, 16, NULL, NULL, 0);
    MUST(end->cq != NULL);
    end->qp = api_qp(&end->api, end->cq);
    end->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(end->page != MAP_FAILED);
    end->mr =
        ibv_reg_mr(end->api.pd, end->page, PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    MUST(end->mr != NULL);
}

static void connect_end(struct end *end, const struct end *peer)
{
    struct ibv_qp_attr attr = api_attr(&end->api, peer->qp->qp_num);

    MUST(ibv_query_gid(peer->api.context, API_PORT, API_GID, &attr.ah_attr.grh.dgid) == 0);
    attr.qp_state = IBV_QPS_INIT;
    MUST(ibv_modify_qp(end->qp, &attr, API_TO_INIT) == 0);
    attr.qp_state = IBV_QPS_RTR;
    MUST(ibv_modify_qp(end->qp, &attr, API_TO_RTR) == 0);
    attr.qp_state = IBV_QPS_RTS;
    MUST(ibv_modify_qp(end->qp, &attr, API_TO_RTS) == 0);
}

static void write_page(const struct end *end, const struct end *peer)
{
    struct ibv_sge sge = { (uintptr_t)end->page, 64, end->mr->lkey };
    struct ibv_send_wr send = { .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad;

    send.wr.rdma.remote_addr = (uintptr_t)peer->page;
    send.wr.rdma.rkey = peer->mr->rkey;
    MUST(ibv_post_send(end->qp, &send, &bad) == 0);
}

/* The second WRITE is to a page that cannot be written. The engine that executes it gets SIGSEGV,
 * and the handler of the program ends the process. */
static void leave_in_a_round(void)
{
    struct ibv_wc wc;

    MUST(signal(SIGSEGV, leave) != SIG_ERR);
    (void)alarm(patience(TIME_MAX));
    open_end(&ends[0], "uroce0");
    open_end(&ends[1], "uroce1");
    connect_end(&ends[0], &ends[1]);
    connect_end(&ends[1], &ends[0]);
    write_page(&ends[0], &ends[1]);
    while (ibv_poll_cq(ends[0].cq, 1, &wc) == 0)
        ;
    MUST(wc.status == IBV_WC_SUCCESS);
    MUST(mprotect(ends[1].page, PAGE, PROT_READ) == 0);
    write_page(&ends[0], &ends[1]);
    for (;;)
        (void)ibv_poll_cq(ends[1].cq, 1, &wc);
}

int main(void)
{
    char devices[256];
    int status;

    (void)snprintf(devices, sizeof devices,
                   "uroce0:net_memif0,role=server,socket=@exit-%u;ip=10.1.0.1/24;engines=%u "
                   "uroce1:net_memif1,role=client,socket=@exit-%u;ip=10.1.0.2/24;engines=%u",
                   (unsigned)getpid(), ENGINES, (unsigned)getpid(), ENGINES);
    MUST(setenv("UROCE_DEVICES", devices, 1) == 0);
    const pid_t child = fork();
    MUST(child >= 0);
    if (child == 0)
        leave_in_a_round();
    MUST(waitpid(child, &status, 0) == child);
    if (WIFSIGNALED(status))
        (void)fprintf(stderr, "exit() did not end the process: signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == STATUS ? 0 : 1;
}
