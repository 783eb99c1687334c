/* SPDX-License-Identifier: BSD-3-Clause */
/* idle_wake.c - measures two idle connected processes, and how fast one of them wakes up.
 *
 *   idle_wake DEVICE PEER SECONDS MESSAGES
 *
 * DEVICE and PEER are entries of UROCE_DEVICES. SECONDS is the time of each measurement of an idle
 * process.
 *
 * Prints one line of JSON:
 *   - the share of a processor that the busier process uses while both sleep after they have
 *     requested an event
 *   - the same share while both sleep without having requested an event
 *   - the time from the post of a SEND in one process to its completion in the other process, which
 *     waits for it: median and 99 %
 *   - the median of the same time through a pipe
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <time.h>
#include <unistd.h>

#include "one.h"

#define PAUSE_MS 20 /* pause between messages, after which both sides sleep */
#define PATIENT  60 /* time limit of the whole run, seconds */

struct said {
    uint32_t qpn;
    union ibv_gid gid;
};

struct end {
    int from_other, to_other;
    double seconds;
    unsigned messages;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
};

static int64_t stamp; /* the message: the time at which it was posted */

static void send_to_other(const struct end *end, const void *what, size_t length)
{
    ONE_MUST(write(end->to_other, what, length) == (ssize_t)length);
}

static void receive_from_other(const struct end *end, void *what, size_t length)
{
    ONE_MUST(read(end->from_other, what, length) == (ssize_t)length);
}

static void meet(const struct end *end)
{
    char octet = 0;

    send_to_other(end, &octet, 1);
    receive_from_other(end, &octet, 1);
}

static void connect_to_peer(struct end *end)
{
    struct said said;
    struct ibv_context *context = one_open();
    struct ibv_pd *pd = ibv_alloc_pd(context);

    ONE_MUST(pd != NULL);
    end->channel = ibv_create_comp_channel(context);
    ONE_MUST(end->channel != NULL);
    end->cq = ibv_create_cq(context, 16, NULL, end->channel, 0);
    ONE_MUST(end->cq != NULL);
    end->qp = one_qp(pd, end->cq, 4);
    end->mr = ibv_reg_mr(pd, &stamp, sizeof stamp, IBV_ACCESS_LOCAL_WRITE);
    ONE_MUST(end->mr != NULL);
    said.qpn = end->qp->qp_num;
    ONE_MUST(ibv_query_gid(context, ONE_PORT, ONE_GID, &said.gid) == 0);
    send_to_other(end, &said, sizeof said);
    receive_from_other(end, &said, sizeof said);
    one_connect(end->qp, &said.gid, said.qpn);
}

/* Takes one completion. Waits for events while there is none. The CQ must be armed. */
static void wait_one(const struct end *end)
{
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *user;
    int count;

    while ((count = ibv_poll_cq(end->cq, 1, &wc)) == 0) {
        ONE_MUST(ibv_get_cq_event(end->channel, &cq, &user) == 0);
        ibv_ack_cq_events(cq, 1);
        ONE_MUST(ibv_req_notify_cq(end->cq, 0) == 0);
    }
    ONE_MUST(count == 1 && wc.status == IBV_WC_SUCCESS);
}

static void post_receive(const struct end *end)
{
    struct ibv_sge sge = { (uintptr_t)&stamp, sizeof stamp, end->mr->lkey };
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    ONE_MUST(ibv_post_recv(end->qp, &wr, &bad) == 0);
}

static void send_stamp(const struct end *end)
{
    struct ibv_sge sge = { (uintptr_t)&stamp, sizeof stamp, end->mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;

    stamp = one_now_ns();
    ONE_MUST(ibv_post_send(end->qp, &wr, &bad) == 0);
    wait_one(end);
}

static double used(void)
{
    struct rusage usage;

    ONE_MUST(getrusage(RUSAGE_SELF, &usage) == 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void sleep_for(double seconds)
{
    struct timespec time = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

    (void)nanosleep(&time, NULL);
}

/* Measures the processor share of both sides. The side that receives the other's value returns the
 * larger. */
static double share(const struct end *end, bool asks)
{
    double mine, other;

    sleep_for(0.5); /* earlier work has ended */
    meet(end);
    double before = used(), start = (double)one_now_ns();
    sleep_for(end->seconds);
    mine = (used() - before) / (((double)one_now_ns() - start) * 1e-9);
    if (!asks)
        send_to_other(end, &mine, sizeof mine);
    else
        receive_from_other(end, &other, sizeof other);
    return asks && other > mine ? other : mine;
}

static int by_value(const void *one, const void *other)
{
    const int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

    return (a > b) - (a < b);
}

static double nth_us(int64_t *took, unsigned count, unsigned per_cent)
{
    qsort(took, count, sizeof *took, by_value);
    return (double)took[(uint64_t)(count - 1) * per_cent / 100] * 1e-3;
}

/* Measures the time of a message through a kernel pipe, the lower limit of a wake-up. */
static void wake_by_pipe(const struct end *end, bool asks, int64_t *took)
{
    int64_t sent;

    for (unsigned i = 0; i < end->messages; i++) {
        meet(end);
        if (asks) {
            receive_from_other(end, &sent, sizeof sent);
            took[i] = one_now_ns() - sent;
            continue;
        }
        sleep_for(PAUSE_MS * 1e-3);
        sent = one_now_ns();
        send_to_other(end, &sent, sizeof sent);
    }
}

static void wake_by_message(const struct end *end, bool asks, int64_t *took)
{
    for (unsigned i = 0; i < end->messages; i++) {
        meet(end); /* until the peer has posted a receive */
        if (!asks) {
            sleep_for(PAUSE_MS * 1e-3);
            send_stamp(end);
            continue;
        }
        wait_one(end);
        took[i] = one_now_ns() - stamp;
        post_receive(end);
    }
}

static void play(struct end *end, bool asks)
{
    int64_t *took = calloc(end->messages, sizeof *took);

    ONE_MUST(took != NULL);
    connect_to_peer(end);
    if (asks)
        post_receive(end);
    meet(end);
    double unasked = share(end, asks);
    ONE_MUST(ibv_req_notify_cq(end->cq, 0) == 0);
    double asked = share(end, asks);
    wake_by_pipe(end, asks, took);
    double pipe_median = nth_us(took, end->messages, 50);
    wake_by_message(end, asks, took);
    meet(end);
    if (!asks)
        return;
    printf("{\"waiting\": %.5f, \"sleeping\": %.5f, \"pipe_us\": %.1f, \"wake_us\": %.1f, "
           "\"wake_p99_us\": %.1f}\n",
           asked, unasked, pipe_median, nth_us(took, end->messages, 50),
           nth_us(took, end->messages, 99));
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    int there[2], back[2];

    if (argc != 5) {
        (void)fprintf(stderr, "usage: idle_wake DEVICE PEER SECONDS MESSAGES\n");
        return 2;
    }
    ONE_MUST(pipe(there) == 0 && pipe(back) == 0);
    pid_t child = fork();
    ONE_MUST(child >= 0);
    (void)alarm(PATIENT);
    bool asks = child != 0;
    if (!asks)
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct end end = { .from_other = asks ? back[0] : there[0],
                       .to_other = asks ? there[1] : back[1],
                       .seconds = strtod(argv[3], NULL),
                       .messages = (unsigned)strtoul(argv[4], NULL, 0) };
    ONE_MUST(end.messages > 0);
    (void)close(asks ? there[0] : back[0]); /* lets each side detect that the other has gone */
    (void)close(asks ? back[1] : there[1]);
    ONE_MUST(setenv("UROCE_DEVICES", argv[asks ? 1 : 2], 1) == 0);
    play(&end, asks);
    if (asks)
        (void)waitpid(child, NULL, 0);
    _exit(0);
}
