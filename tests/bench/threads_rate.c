/* SPDX-License-Identifier: BSD-3-Clause */
/* threads_rate.c - the rate of WRITEs of 64 bytes of several threads, each with its own queue pairs
 * and completion queue.
 *
 *     threads_rate THREADS SECONDS DEVICE [DEVICE...]    entries of UROCE_DEVICES
 *
 * Each DEVICE belongs to a process, which has THREADS threads. A thread writes from one queue pair
 * to another queue pair of the same device. The program prints one line of JSON: the sum of the
 * WRITEs per second of all threads, and the smallest rate of a thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "one.h"

#define LENGTH      64u
#define WINDOW      128u /* WRITEs outstanding of a thread */
#define BATCH       32
#define THREADS_MAX 64u /* of all processes together */
#define GRACE       60  /* seconds, after which a process that hangs ends */

/* All processes share this memory. */
struct board {
    pthread_barrier_t start;
    double seconds;
    double per_s[THREADS_MAX];
};

struct writer {
    struct board *board;
    unsigned place; /* index in board->per_s */
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t memory[2 * LENGTH];
    pthread_t thread;
};

static struct board *new_board(unsigned threads, double seconds)
{
    pthread_barrierattr_t shared;
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ONE_MUST(board != MAP_FAILED);
    ONE_MUST(pthread_barrierattr_init(&shared) == 0);
    ONE_MUST(pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED) == 0);
    ONE_MUST(pthread_barrier_init(&board->start, &shared, threads) == 0);
    board->seconds = seconds;
    return board;
}

static void prepare(struct writer *writer, struct ibv_context *context)
{
    union ibv_gid gid;
    struct ibv_pd *pd = ibv_alloc_pd(context);

    ONE_MUST(pd != NULL);
    writer->cq = ibv_create_cq(context, WINDOW + 1, NULL, NULL, 0);
    ONE_MUST(writer->cq != NULL);
    writer->qp = one_qp(pd, writer->cq, WINDOW);
    struct ibv_qp *target = one_qp(pd, writer->cq, 1);
    writer->mr = ibv_reg_mr(pd, writer->memory, sizeof writer->memory,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ONE_MUST(writer->mr != NULL);
    ONE_MUST(ibv_query_gid(context, ONE_PORT, ONE_GID, &gid) == 0);
    one_connect(writer->qp, &gid, target->qp_num);
    one_connect(target, &gid, writer->qp->qp_num);
}

static void post(const struct writer *writer)
{
    struct ibv_sge sge = { (uintptr_t)writer->memory, LENGTH, writer->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;

    wr.wr.rdma.remote_addr = (uintptr_t)writer->memory + LENGTH;
    wr.wr.rdma.rkey = writer->mr->rkey;
    ONE_MUST(ibv_post_send(writer->qp, &wr, &bad) == 0);
}

static void *write_on(void *argument)
{
    struct writer *writer = argument;
    struct ibv_wc wcs[BATCH];
    uint64_t done = 0;
    unsigned outstanding = 0;

    (void)pthread_barrier_wait(&writer->board->start);
    int64_t start = one_now_ns(), now = start;
    int64_t end = start + (int64_t)(writer->board->seconds * 1e9);
    for (; now < end; now = one_now_ns()) {
        for (; outstanding < WINDOW; outstanding++)
            post(writer);
        int count = ibv_poll_cq(writer->cq, BATCH, wcs);
        ONE_MUST(count >= 0);
        for (int i = 0; i < count; i++)
            ONE_MUST(wcs[i].status == IBV_WC_SUCCESS);
        done += (unsigned)count;
        outstanding -= (unsigned)count;
    }
    writer->board->per_s[writer->place] = (double)done * 1e9 / (double)(now - start);
    return NULL;
}

/* Runs the threads of one process, whose results begin at @place. */
static void run(struct board *board, const char *device, unsigned place, unsigned threads)
{
    struct writer *writers = calloc(threads, sizeof *writers);

    ONE_MUST(writers != NULL);
    ONE_MUST(setenv("UROCE_DEVICES", device, 1) == 0);
    (void)alarm((unsigned)board->seconds + GRACE);
    struct ibv_context *context = one_open();
    for (unsigned i = 0; i < threads; i++) {
        writers[i].board = board;
        writers[i].place = place + i;
        prepare(&writers[i], context);
    }
    for (unsigned i = 0; i < threads; i++)
        ONE_MUST(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]) == 0);
    for (unsigned i = 0; i < threads; i++)
        ONE_MUST(pthread_join(writers[i].thread, NULL) == 0);
}

int main(int argc, char **argv)
{
    double sum = 0;

    if (argc < 4) {
        (void)fprintf(stderr, "usage: threads_rate THREADS SECONDS DEVICE [DEVICE...]\n");
        return 2;
    }
    unsigned threads = (unsigned)strtoul(argv[1], NULL, 0), processes = (unsigned)argc - 3;
    ONE_MUST(threads > 0 && threads <= THREADS_MAX / processes);
    struct board *board = new_board(threads * processes, strtod(argv[2], NULL));
    (void)alarm((unsigned)board->seconds + GRACE); /* also when a process fails before it starts */
    for (unsigned i = 0; i < processes; i++) {
        pid_t child = fork();
        ONE_MUST(child >= 0);
        if (child > 0)
            continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(board, argv[3 + i], i * threads, threads);
        _exit(0);
    }
    for (unsigned i = 0; i < processes; i++) {
        int status;
        ONE_MUST(wait(&status) > 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            return 1; /* the process has printed the cause */
    }
    double least = board->per_s[0];
    for (unsigned i = 0; i < threads * processes; i++) {
        sum += board->per_s[i];
        least = board->per_s[i] < least ? board->per_s[i] : least;
    }
    printf("{\"per_s\": %.0f, \"least_per_s\": %.0f}\n", sum, least);
    return 0;
}
