/* SPDX-License-Identifier: BSD-3-Clause */
/* threads_rate.c - measures the rate of WRITEs of 64 bytes of several threads.
 *
 *     threads_rate own|shared THREADS SECONDS DEVICE [DEVICE...]    entries of UROCE_DEVICES
 *
 * Each DEVICE belongs to a process, which has THREADS threads. A thread writes from one queue pair
 * to another queue pair of the same device. `own`: each thread has its own queue pairs and CQ.
 * `shared`: all threads of a process use the same queue pairs and CQ. The program prints one line
 * of JSON: the sum of the WRITEs per second of all threads, the smallest rate of a thread, and the
 * WRITEs per second of processor time.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "one.h"

#define LENGTH      64u
#define WINDOW      128u /* outstanding WRITEs of a queue pair */
#define BATCH       32
#define THREADS_MAX 64u /* of all processes together */
#define GRACE       60  /* time limit beyond the run time, seconds */

/* All processes share this memory. */
struct board {
    pthread_barrier_t start;
    double seconds;
    double per_s[THREADS_MAX];
    double processor_s[THREADS_MAX]; /* of each process, at the place of its first thread */
};

#define APART 128u /* so that no cache line, nor its neighbour, belongs to two threads */

/* A queue pair with its CQ and its memory. */
struct queue {
    _Alignas(APART) struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t memory[2 * LENGTH];
    atomic_uint outstanding;
};

struct writer {
    struct board *board;
    unsigned place; /* index in board->per_s */
    struct queue *queue;
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

static void prepare(struct queue *queue, struct ibv_context *context, unsigned number)
{
    union ibv_gid gid;
    struct ibv_pd *pd = ibv_alloc_pd(context);

    ONE_MUST(pd != NULL);
    queue->cq =
        ibv_create_cq(context, WINDOW + 1, NULL, NULL, (int)number % context->num_comp_vectors);
    ONE_MUST(queue->cq != NULL);
    queue->qp = one_qp(pd, queue->cq, WINDOW);
    struct ibv_qp *target = one_qp(pd, queue->cq, 1);
    queue->mr = ibv_reg_mr(pd, queue->memory, sizeof queue->memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ONE_MUST(queue->mr != NULL);
    ONE_MUST(ibv_query_gid(context, ONE_PORT, ONE_GID, &gid) == 0);
    one_connect(queue->qp, &gid, target->qp_num);
    one_connect(target, &gid, queue->qp->qp_num);
}

static void post(const struct queue *queue)
{
    struct ibv_sge sge = { (uintptr_t)queue->memory, LENGTH, queue->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *bad;

    wr.wr.rdma.remote_addr = (uintptr_t)queue->memory + LENGTH;
    wr.wr.rdma.rkey = queue->mr->rkey;
    ONE_MUST(ibv_post_send(queue->qp, &wr, &bad) == 0);
}

/* Posts until WINDOW WRITEs are outstanding. */
static void fill(struct queue *queue)
{
    while (atomic_fetch_add(&queue->outstanding, 1) < WINDOW)
        post(queue);
    atomic_fetch_sub(&queue->outstanding, 1);
}

static void *write_on(void *argument)
{
    struct writer *writer = argument;
    struct queue *queue = writer->queue;
    struct ibv_wc wcs[BATCH];
    uint64_t done = 0;

    (void)pthread_barrier_wait(&writer->board->start);
    int64_t start = one_now_ns(), now = start;
    int64_t end = start + (int64_t)(writer->board->seconds * 1e9);
    for (; now < end; now = one_now_ns()) {
        fill(queue);
        int count = ibv_poll_cq(queue->cq, BATCH, wcs);
        ONE_MUST(count >= 0);
        for (int i = 0; i < count; i++)
            ONE_MUST(wcs[i].status == IBV_WC_SUCCESS);
        done += (unsigned)count;
        atomic_fetch_sub(&queue->outstanding, (unsigned)count);
    }
    writer->board->per_s[writer->place] = (double)done * 1e9 / (double)(now - start);
    return NULL;
}

static double processor_s(void)
{
    struct rusage used;

    ONE_MUST(getrusage(RUSAGE_SELF, &used) == 0);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* Runs the threads of one process, whose results begin at @place. */
static void run(struct board *board, const char *device, unsigned place, unsigned threads,
                bool shared)
{
    struct writer *writers = calloc(threads, sizeof *writers);
    struct queue *queues = aligned_alloc(APART, threads * sizeof *queues);

    ONE_MUST(writers != NULL && queues != NULL);
    memset(queues, 0, threads * sizeof *queues);
    ONE_MUST(setenv("UROCE_DEVICES", device, 1) == 0);
    (void)alarm((unsigned)board->seconds + GRACE);
    struct ibv_context *context = one_open();
    for (unsigned i = 0; i < threads; i++) {
        writers[i].board = board;
        writers[i].place = place + i;
        writers[i].queue = &queues[shared ? 0 : i];
    }
    for (unsigned i = 0; i < (shared ? 1 : threads); i++)
        prepare(&queues[i], context, i);
    const double before = processor_s();
    for (unsigned i = 0; i < threads; i++)
        ONE_MUST(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]) == 0);
    for (unsigned i = 0; i < threads; i++)
        ONE_MUST(pthread_join(writers[i].thread, NULL) == 0);
    board->processor_s[place] = processor_s() - before;
}

static void print(const struct board *board, unsigned threads)
{
    double sum = 0, used = 0, least = board->per_s[0];

    for (unsigned i = 0; i < threads; i++) {
        sum += board->per_s[i];
        used += board->processor_s[i];
        least = board->per_s[i] < least ? board->per_s[i] : least;
    }
    printf("{\"per_s\": %.0f, \"least_per_s\": %.0f, \"per_processor_s\": %.0f}\n", sum, least,
           sum * board->seconds / used);
}

int main(int argc, char **argv)
{
    const bool shared = argc > 1 && strcmp(argv[1], "shared") == 0;

    if (argc < 5 || (!shared && strcmp(argv[1], "own") != 0)) {
        (void)fprintf(stderr,
                      "usage: threads_rate own|shared THREADS SECONDS DEVICE [DEVICE...]\n");
        return 2;
    }
    unsigned threads = (unsigned)strtoul(argv[2], NULL, 0), processes = (unsigned)argc - 4;
    ONE_MUST(threads > 0 && threads <= THREADS_MAX / processes);
    struct board *board = new_board(threads * processes, strtod(argv[3], NULL));
    (void)alarm((unsigned)board->seconds +
                GRACE); /* ends this process, and so its children, if one of them hangs */
    for (unsigned i = 0; i < processes; i++) {
        pid_t child = fork();
        ONE_MUST(child >= 0);
        if (child > 0)
            continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        run(board, argv[4 + i], i * threads, threads, shared);
        _exit(0);
    }
    for (unsigned i = 0; i < processes; i++) {
        int status;
        ONE_MUST(wait(&status) > 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            return 1; /* a failed ONE_MUST has printed the cause */
    }
    print(board, threads * processes);
    return 0;
}
