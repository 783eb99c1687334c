/* SPDX-License-Identifier: BSD-3-Clause */
/* forker.c - a program that forks while it uses RDMA; test_fork.py runs it over each link.
 *
 *     forker keeps MS        the child prints the device's descriptors and mappings that it
 *                            inherited, and sleeps for MS
 *     forker hands-over      the child kills its parent, then uses the device
 *     forker outlives        the child opens the device and kills its parent, then uses the device
 *                            and continues until it is killed
 *     forker uses WHEN       the child uses the device; WHEN is the state in which the parent
 *                            forks: first, listed, opened, used, closed, thread
 *     forker twice           two children, one after the other, and a grandchild use the device
 *     forker cm              the child connects to itself by rdma_cm, after its parent did
 *     forker clone           a child that was created without the handlers of fork() gets an error
 *
 * The process sends to the first address of its own device. No other device has this address, so
 * the process receives everything that it sends.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "forker.h"
#include "support/patience.h"

#define GID    1
#define PORT   1
#define OCTETS FORKER_BYTES
#define WAIT_S (FORKER_WAIT_MS / 1000)
#define FDS    256

const char *forker_role = "parent";
const char *forker_address = "127.0.0.1";

/* ---- verbs --------------------------------------------------------------- */

struct user {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qps[2];
    struct ibv_mr *mr;
    uint8_t octets[2 * OCTETS];
};

static struct ibv_context *open_first(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    MUST(list != NULL && list[0] != NULL);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    return context;
}

static void make_ready(struct user *user, int which)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT };

    MUST(ibv_modify_qp(user->qps[which], &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = user->qps[!which]->qp_num,
        .ah_attr = { .is_global = 1,
                     .port_num = PORT,
                     .grh = { .sgid_index = GID, .hop_limit = 64 } },
    };
    MUST(ibv_query_gid(user->context, PORT, GID, &attr.ah_attr.grh.dgid) == 0);
    MUST(ibv_modify_qp(user->qps[which], &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7
    };
    MUST(ibv_modify_qp(user->qps[which], &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static struct user *begin(void)
{
    struct user *user = calloc(1, sizeof *user);
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
    };

    MUST(user != NULL && (user->context = open_first()) != NULL);
    MUST((user->pd = ibv_alloc_pd(user->context)) != NULL);
    MUST((user->cq = ibv_create_cq(user->context, 16, NULL, NULL, 0)) != NULL);
    init.send_cq = init.recv_cq = user->cq;
    for (int i = 0; i < 2; i++)
        MUST((user->qps[i] = ibv_create_qp(user->pd, &init)) != NULL);
    for (int i = 0; i < 2; i++)
        make_ready(user, i);
    user->mr = ibv_reg_mr(user->pd, user->octets, sizeof user->octets, IBV_ACCESS_LOCAL_WRITE);
    MUST(user->mr != NULL);
    return user;
}

static void expect_done(struct ibv_cq *cq, int count)
{
    struct ibv_wc wc;
    int found;

    while (count-- > 0) {
        while ((found = ibv_poll_cq(cq, 1, &wc)) == 0)
            ;
        MUST(found == 1);
        if (wc.status != IBV_WC_SUCCESS)
            (void)fprintf(stderr, "%s: %s\n", forker_role, ibv_wc_status_str(wc.status));
        MUST(wc.status == IBV_WC_SUCCESS);
    }
}

/* Sends a message from the first queue pair to the second. */
static void move(struct user *user)
{
    struct ibv_sge to = { (uintptr_t)user->octets + OCTETS, OCTETS, user->mr->lkey };
    struct ibv_sge from = { (uintptr_t)user->octets, OCTETS, user->mr->lkey };
    struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 }, *bad_recv;
    struct ibv_send_wr send = { .sg_list = &from,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad_send;

    memset(user->octets, (int)getpid() | 1, OCTETS);
    memset(user->octets + OCTETS, 0, OCTETS);
    MUST(ibv_post_recv(user->qps[1], &recv, &bad_recv) == 0);
    MUST(ibv_post_send(user->qps[0], &send, &bad_send) == 0);
    expect_done(user->cq, 2);
    MUST(memcmp(user->octets, user->octets + OCTETS, OCTETS) == 0);
}

static void end(struct user *user)
{
    MUST(ibv_dereg_mr(user->mr) == 0);
    for (int i = 0; i < 2; i++)
        MUST(ibv_destroy_qp(user->qps[i]) == 0);
    MUST(ibv_destroy_cq(user->cq) == 0 && ibv_dealloc_pd(user->pd) == 0);
    MUST(ibv_close_device(user->context) == 0);
    free(user);
}

/* Checks that calls with objects of the parent fail. */
static void expect_dead(struct user *user)
{
    struct ibv_sge sge = { (uintptr_t)user->octets, OCTETS, user->mr->lkey };
    struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
    struct ibv_device_attr attr;
    struct ibv_wc wc;

    MUST(ibv_post_send(user->qps[0], &send, &bad) == EIO && bad == &send);
    MUST(ibv_poll_cq(user->cq, 1, &wc) < 0);
    MUST(ibv_query_device(user->context, &attr) == EIO);
    errno = 0;
    MUST(ibv_reg_mr(user->pd, user->octets, OCTETS, 0) == NULL && errno == EIO);
    errno = 0;
    MUST(ibv_create_cq(user->context, 1, NULL, NULL, 0) == NULL && errno == EIO);
}

/* ---- processes ----------------------------------------------------------- */

static struct user *parents; /* or NULL */

static void uses(void)
{
    struct user *own = begin();

    if (parents != NULL)
        expect_dead(parents);
    move(own);
    if (parents != NULL)
        end(parents);
    move(own);
    end(own);
}

/* Runs @body in a child, which then exits with 0. Returns the child's PID. */
pid_t forker_start(void (*body)(void))
{
    pid_t child;

    (void)fflush(NULL);
    MUST((child = fork()) >= 0);
    if (child > 0)
        return child;
    forker_role = "child";
    (void)alarm(patience(WAIT_S));
    body();
    exit(0);
}

void forker_expect_end(pid_t child)
{
    int status;

    MUST(waitpid(child, &status, 0) == child);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void *in_thread(void *unused)
{
    forker_expect_end(forker_start(uses));
    return unused;
}

static void fork_when(const char *when)
{
    struct user *own = NULL;
    pthread_t thread;

    if (strcmp(when, "first") != 0)
        (void)ibv_get_device_list(NULL);
    if (strcmp(when, "opened") == 0)
        MUST(open_first() != NULL);
    if (strcmp(when, "used") == 0 || strcmp(when, "closed") == 0 || strcmp(when, "thread") == 0) {
        own = begin();
        move(own);
    }
    if (strcmp(when, "closed") == 0) {
        end(own);
        own = NULL;
    }
    parents = own;
    if (strcmp(when, "thread") == 0) {
        MUST(pthread_create(&thread, NULL, in_thread, NULL) == 0);
        while (pthread_tryjoin_np(thread, NULL) != 0) /* until the thread has ended */
            move(own);
    } else {
        forker_expect_end(forker_start(uses));
    }
    if (own == NULL)
        own = begin();
    move(own);
    end(own);
}

static void uses_and_forks(void)
{
    uses();
    parents = begin();
    move(parents);
    forker_expect_end(forker_start(uses));
    move(parents);
    end(parents);
}

static void fork_twice(void)
{
    struct user *own = parents = begin();

    move(own);
    pid_t one = forker_start(uses), two = forker_start(uses_and_forks);
    move(own);
    forker_expect_end(one);
    forker_expect_end(two);
    move(own);
    end(own);
}

/* ---- descriptors --------------------------------------------------------- */

static bool is_open(const char *fd, char what[static 128])
{
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%s", fd);
    const ssize_t length = readlink(path, what, 127);
    what[length > 0 ? length : 0] = '\0';
    return length > 0;
}

static bool had[FDS];

static void note_descriptors(void)
{
    char what[128], fd[16];

    for (int i = 0; i < FDS; i++) {
        (void)snprintf(fd, sizeof fd, "%d", i);
        had[i] = is_open(fd, what);
    }
}

/* Prints a line for each descriptor that was not open at the start of the program, and for each
 * mapping of a memif or of a packet socket. */
static void print_resources(void)
{
    char what[256], fd[16];
    FILE *maps = fopen("/proc/self/maps", "re");

    MUST(maps != NULL);
    while (fgets(what, sizeof what, maps) != NULL)
        if (strstr(what, "memfd:uroce-memif") != NULL || strstr(what, "socket:") != NULL)
            printf("%s has mapping %s", forker_role, what);
    (void)fclose(maps);
    for (int i = 0; i < FDS; i++) {
        (void)snprintf(fd, sizeof fd, "%d", i);
        if (!had[i] && is_open(fd, what))
            printf("%s has descriptor %d %s\n", forker_role, i, what);
    }
    (void)fflush(stdout);
}

static unsigned long idle_ms;

static void prints_and_sleeps(void)
{
    (void)alarm(patience(0));
    MUST(prctl(PR_SET_PDEATHSIG, 0) == 0);
    print_resources();
    printf("child %d sleeps\n", (int)getpid());
    (void)fflush(stdout);
    (void)usleep((useconds_t)idle_ms * 1000);
}

/* Prints the two descriptors of the context, which belong to the program, and forks. */
static void fork_and_continue(unsigned long ms)
{
    idle_ms = ms;
    note_descriptors();
    struct user *own = begin();
    printf("program has %d\nprogram has %d\n", own->context->cmd_fd, own->context->async_fd);
    move(own);
    print_resources();
    (void)forker_start(prints_and_sleeps);
    for (;;) { /* until it is killed */
        move(own);
        (void)usleep(1000);
    }
}

static pid_t older;

static void takes_over(void)
{
    MUST(kill(older, SIGKILL) == 0);
    MUST(prctl(PR_SET_PDEATHSIG, 0) == 0);
    uses();
    printf("took over\n");
}

static void outlives(void)
{
    struct user *own = begin();

    MUST(kill(older, SIGKILL) == 0);
    (void)alarm(patience(0));
    printf("child %d sleeps\n", (int)getpid());
    (void)fflush(stdout);
    move(own);
    for (;;)
        (void)pause();
}

static void hand_over(void (*to)(void))
{
    older = getpid();
    parents = begin();
    move(parents);
    (void)forker_start(to);
    for (;;)
        (void)pause();
}

/* ---- without handlers ---------------------------------------------------- */

static void clone_without_handlers(void)
{
    struct user *own = begin();

    move(own);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        forker_role = "clone";
        expect_dead(own);
        errno = 0;
        MUST(open_first() == NULL && errno == EIO);
        end(own);
        exit(0);
    }
    forker_expect_end(child);
    move(own);
    end(own);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    (void)alarm(patience(WAIT_S));
    if (getenv("FORKER_ADDRESS") != NULL)
        forker_address = getenv("FORKER_ADDRESS");
    if (strcmp(what, "keeps") == 0 && argc == 3)
        fork_and_continue(strtoul(argv[2], NULL, 10));
    else if (strcmp(what, "hands-over") == 0)
        hand_over(takes_over);
    else if (strcmp(what, "outlives") == 0)
        hand_over(outlives);
    else if (strcmp(what, "uses") == 0 && argc == 3)
        fork_when(argv[2]);
    else if (strcmp(what, "twice") == 0)
        fork_twice();
    else if (strcmp(what, "cm") == 0)
        forker_cm();
    else if (strcmp(what, "clone") == 0)
        clone_without_handlers();
    else
        return 2;
    return 0;
}
