/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exit_twice.c - tests two threads that call exit() at the same time, as in rping. The second
 * exit() must wait until the first exit() has shut down the devices. Otherwise the process ends too
 * early: its peers are not disconnected, and its capture and its counters are lost.
 */
#include "api/api.h"

#include "support/must.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/wait.h>
#include <unistd.h>

#define RUNS 40

static pthread_barrier_t both;

static void *leave(void *unused)
{
    (void)unused;
    (void)pthread_barrier_wait(&both);
    exit(0);
}

/* Sends a packet. The shutdown of the device then takes at least 50 ms. */
static void send_a_packet(struct ibv_context *context)
{
    struct api api = { .context = context, .pd = ibv_alloc_pd(context) };
    struct side side;

    api_side_open(&api, &side, NULL, IBV_QPT_RC, NULL);
    api_connect(&api, side.qp, side.qp->qp_num);
    struct ibv_sge sge = { (uintptr_t)side.buffer, 64, side.mr->lkey };
    struct ibv_send_wr send = { .sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad;
    struct ibv_wc wc;

    send.wr.rdma.remote_addr = (uintptr_t)side.buffer;
    send.wr.rdma.rkey = side.mr->rkey;
    MUST(ibv_post_send(side.qp, &send, &bad) == 0);
    while (ibv_poll_cq(side.cq, 1, &wc) == 0)
        ;
    MUST(wc.status == IBV_WC_SUCCESS);
}

static void leave_twice(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    pthread_t other;

    MUST(context != NULL);
    send_a_packet(context);
    MUST(pthread_barrier_init(&both, NULL, 2) == 0);
    MUST(pthread_create(&other, NULL, leave, NULL) == 0);
    (void)leave(NULL);
}

/* Runs leave_twice() in a child. Returns whether the child printed its counters, which the shutdown
 * of the device does last. */
static bool child_prints_counters(void)
{
    char text[4096];
    size_t length = 0;
    int ends[2], status;

    MUST(pipe(ends) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        MUST(dup2(ends[1], STDERR_FILENO) >= 0);
        (void)close(ends[0]);
        leave_twice();
    }
    (void)close(ends[1]);
    for (ssize_t got; length < sizeof text - 1 &&
                      (got = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)got;
    text[length] = '\0';
    (void)close(ends[0]);
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return strstr(text, "tx_roce ") != NULL;
}

int main(void)
{
    char line[256], own[API_ADDRESS];

    (void)snprintf(line, sizeof line, "uroce0:udp,ip=%s,hub=no;verbose=yes",
                   api_own_address(0, own));
    MUST(setenv("UROCE_DEVICES", line, 1) == 0);
    for (unsigned i = 0; i < RUNS; i++)
        MUST(child_prints_counters());
    return 0;
}
