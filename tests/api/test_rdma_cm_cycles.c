/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm_cycles.c - two processes connect, transfer and disconnect again and again, without
 * leaking descriptors or memory. UROCE_CM_CYCLES sets the number of cycles. Both sides print their
 * measurements.
 */
#include "support/check.h"
#include "support/patience.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define CYCLES  300
#define WARM_UP 50
#define PER     16 /* accepted growth of the heap in a cycle, bytes; a leaked object is larger */
#define PORT    7471
#define WAIT_MS 60000 /* a guard against hanging */
#define PATIENT 60    /* time limit, seconds, plus a second for each hundred cycles */
#define WORD    "a word"

/* Ends a child with an exit status if the condition fails. cmocka's assertions work only in the
 * parent. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            perror(#condition);                                                                    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static unsigned cycles(void)
{
    const char *text = getenv("UROCE_CM_CYCLES");

    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : CYCLES;
}

struct footprint {
    unsigned descriptors;
    size_t heap;   /* allocated memory, bytes */
    long resident; /* KiB */
};

static struct footprint look(void)
{
    struct footprint now = { .heap = mallinfo2().uordblks };
    FILE *file = fopen("/proc/self/statm", "r");
    DIR *dir = opendir("/proc/self/fd");
    long size;

    MUST(file != NULL && dir != NULL && fscanf(file, "%ld %ld", &size, &now.resident) == 2);
    now.resident *= sysconf(_SC_PAGESIZE) / 1024;
    fclose(file);
    while (readdir(dir) != NULL)
        now.descriptors++;
    closedir(dir);
    return now;
}

static void compare(const char *who, const struct footprint *before)
{
    const struct footprint after = look();

    fprintf(stderr,
            "# %s: %u cycles; descriptors %u, %u; heap %zu, %zu bytes; resident %ld, %ld KiB\n",
            who, cycles(), before->descriptors, after.descriptors, before->heap, after.heap,
            before->resident, after.resident);
    MUST(after.descriptors == before->descriptors);
    MUST(after.heap <= before->heap + (size_t)cycles() * PER);
}

static struct sockaddr_in server_address(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };

    MUST(inet_pton(AF_INET, "10.0.0.1", &address.sin_addr) == 1);
    return address;
}

/* ---- one connection -------------------------------------------------------------------------- */

static struct ibv_mr *prepare(struct rdma_cm_id *id, char buffer[static sizeof WORD])
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
        .sq_sig_all = 1
    };

    MUST(rdma_create_qp(id, NULL, &attr) == 0);
    struct ibv_mr *mr = rdma_reg_msgs(id, buffer, sizeof WORD);
    MUST(mr != NULL);
    return mr;
}

static void end(struct rdma_cm_id *id, struct ibv_mr *mr)
{
    MUST(rdma_disconnect(id) == 0);
    MUST(rdma_dereg_mr(mr) == 0);
    rdma_destroy_qp(id);
    MUST(rdma_destroy_id(id) == 0);
}

static void serve_one(struct rdma_cm_id *listener)
{
    struct rdma_cm_id *id;
    struct ibv_wc wc;
    char buffer[sizeof WORD];

    MUST(rdma_get_request(listener, &id) == 0);
    struct ibv_mr *mr = prepare(id, buffer);
    MUST(rdma_post_recv(id, NULL, buffer, sizeof buffer, mr) == 0);
    MUST(rdma_accept(id, NULL) == 0);
    MUST(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    MUST(strcmp(buffer, WORD) == 0);
    end(id, mr);
}

static void ask_one(void)
{
    struct sockaddr_in address = server_address();
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
    struct rdma_cm_id *id;
    struct ibv_wc wc;
    char buffer[sizeof WORD] = WORD;

    MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, WAIT_MS) == 0);
    MUST(rdma_resolve_route(id, WAIT_MS) == 0);
    struct ibv_mr *mr = prepare(id, buffer);
    MUST(rdma_connect(id, &param) == 0);
    MUST(rdma_post_send(id, NULL, buffer, sizeof buffer, mr, 0) == 0);
    MUST(rdma_get_send_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
    end(id, mr);
}

/* ---- two processes --------------------------------------------------------------------------- */

static void serve(int ready)
{
    struct sockaddr_in address = server_address();
    struct rdma_cm_id *listener;

    MUST(rdma_create_id(NULL, &listener, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0);
    MUST(rdma_listen(listener, 4) == 0);
    MUST(write(ready, "x", 1) == 1);
    for (unsigned i = 0; i < WARM_UP; i++)
        serve_one(listener);
    const struct footprint before = look();
    for (unsigned i = 0; i < cycles(); i++)
        serve_one(listener);
    compare("server", &before);
    MUST(rdma_destroy_id(listener) == 0);
}

static void ask(int ready)
{
    char octet;

    MUST(read(ready, &octet, 1) == 1);
    for (unsigned i = 0; i < WARM_UP; i++)
        ask_one();
    const struct footprint before = look();
    for (unsigned i = 0; i < cycles(); i++)
        ask_one();
    compare("client", &before);
}

static pid_t start(const char *role, const char *folder, const char *address, void (*play)(int),
                   int pipe_end)
{
    char device[256];

    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child != 0)
        return child;
    (void)snprintf(device, sizeof device, "uroce0:net_memif0,role=%s,socket=%s/link.sock;ip=%s/24",
                   role, folder, address);
    (void)alarm(patience(PATIENT) + cycles() / 100); /* ends this side if the other failed */
    MUST(setenv("UROCE_DEVICES", device, 1) == 0);
    MUST(ibv_fork_init() == 0); /* also keeps libibverbs linked */
    play(pipe_end);
    exit(0);
}

static void two_processes__connect_and_disconnect_often__neither_grows(void **state)
{
    char folder[] = "/tmp/uroce_cycles_XXXXXX";
    int ready[2], status;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(pipe(ready), 0);
    pid_t server = start("server", folder, "10.0.0.1", serve, ready[1]);
    pid_t client = start("client", folder, "10.0.0.2", ask, ready[0]);
    (void)close(ready[0]);
    (void)close(ready[1]);
    assert_int_equal(waitpid(client, &status, 0), client);
    assert_int_equal(status, 0);
    assert_int_equal(waitpid(server, &status, 0), server);
    assert_int_equal(status, 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_processes__connect_and_disconnect_often__neither_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
