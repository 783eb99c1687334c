/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exit.c - tests exit() while other threads post and poll. The devices are destroyed one after
 * the other while the threads continue. The threads must not access freed memory. Only
 * AddressSanitizer and valgrind detect such an access. */
#include "api/api.h"

#include "support/must.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <sched.h>

#define DEVICES 2

static struct {
    struct api api;
    struct side side;
    atomic_uint turns;
} ends[DEVICES];

static void *post_for_ever(void *argument)
{
    const unsigned at = (unsigned)(uintptr_t)argument;
    struct side *side = &ends[at].side;
    struct ibv_wc wc;

    for (;; atomic_fetch_add(&ends[at].turns, 1)) {
        struct ibv_sge sge = { (uintptr_t)side->buffer, 64, side->mr->lkey };
        struct ibv_send_wr send = { .sg_list = &sge,
                                    .num_sge = 1,
                                    .opcode = IBV_WR_RDMA_WRITE,
                                    .send_flags = IBV_SEND_SIGNALED },
                           *bad;
        struct ibv_port_attr port;

        send.wr.rdma.remote_addr = (uintptr_t)ends[!at].side.buffer;
        send.wr.rdma.rkey = ends[!at].side.mr->rkey;
        (void)ibv_post_send(side->qp, &send, &bad);
        (void)ibv_poll_cq(side->cq, 1, &wc);
        (void)ibv_query_port(ends[at].api.context, API_PORT, &port);
        (void)sched_yield();
    }
    return NULL;
}

static void leave_in_the_middle(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    pthread_t threads[DEVICES];

    for (unsigned i = 0; i < DEVICES; i++) {
        ends[i].api.context = ibv_open_device(list[i]);
        ends[i].api.pd = ibv_alloc_pd(ends[i].api.context);
        api_side_open(&ends[i].api, &ends[i].side, NULL, IBV_QPT_RC, NULL);
    }
    ibv_free_device_list(list);
    for (unsigned i = 0; i < DEVICES; i++)
        api_connect(&ends[!i].api, ends[i].side.qp, ends[!i].side.qp->qp_num);
    for (unsigned i = 0; i < DEVICES; i++)
        MUST(pthread_create(&threads[i], NULL, post_for_ever, (void *)(uintptr_t)i) == 0);
    for (unsigned i = 0; i < DEVICES; i++)
        while (atomic_load(&ends[i].turns) < 100)
            (void)sched_yield();
    exit(0);
}

/* The test does not fork, because valgrind watches only this process. */
int main(void)
{
    char line[256], one[API_ADDRESS], other[API_ADDRESS];

    (void)snprintf(line, sizeof line, "uroce0:udp,ip=%s,hub=no uroce1:udp,ip=%s,hub=no",
                   api_own_address(0, one), api_own_address(1, other));
    MUST(setenv("UROCE_DEVICES", line, 1) == 0);
    leave_in_the_middle();
}
