/* SPDX-License-Identifier: BSD-3-Clause */
/* victim.c - one end of idle connections that are attacked. The connections are idle, so the
 * outcome of an attack does not depend on timing. The program executes commands from a socket, one
 * a line.
 *
 *     victim -s SOCKET -p PORT -a OWN-ADDRESS     listens
 *     victim -s SOCKET -p PORT PEER-ADDRESS       connects
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "victim.h"

#define PAGE    4096u
#define MESSAGE 64u /* maximum bytes of a receive */
#define BACKLOG 8
#define WORDS   6u

/* Peers have access to the page OFFERED. The page FOREIGN has a key of another protection domain.
 * The other pages are not registered. */
static uint8_t memory[5 * PAGE] __attribute__((aligned(PAGE)));
static uint8_t messages[2 * PAGE];
#define OFFERED (memory + PAGE)
#define FOREIGN (memory + 3 * PAGE)
#define LANDING (messages + PAGE) /* buffer for the results of READs and atomics */

static struct ibv_pd *pd;
static struct ibv_mr *offered, *foreign, *message_region;
static struct link links[VICTIM_LINKS];
static unsigned link_count;
static uint8_t pattern;

struct ibv_pd *victim_domain(struct ibv_context *device)
{
    unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                      IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

    if (pd != NULL)
        return pd;
    pd = ibv_alloc_pd(device);
    struct ibv_pd *other = ibv_alloc_pd(device);
    if (pd == NULL || other == NULL)
        meet_die("ibv_alloc_pd: %s", strerror(errno));
    offered = ibv_reg_mr(pd, OFFERED, PAGE, access);
    message_region = ibv_reg_mr(pd, messages, sizeof messages, IBV_ACCESS_LOCAL_WRITE);
    foreign = ibv_reg_mr(other, FOREIGN, PAGE, access);
    if (offered == NULL || message_region == NULL || foreign == NULL)
        meet_die("ibv_reg_mr: %s", strerror(errno));
    return pd;
}

struct link *victim_link(struct rdma_cm_id *id)
{
    if (link_count == VICTIM_LINKS)
        meet_die("more than %u connections", VICTIM_LINKS);
    struct link *link = &links[link_count++];
    link->id = id;
    link->cq = victim_queue_pair(id);
    return link;
}

void victim_post(struct rdma_cm_id *id)
{
    struct ibv_sge sge = { (uintptr_t)messages, MESSAGE, message_region->lkey };
    struct ibv_recv_wr wr = { .wr_id = VICTIM_RECEIVE, .sg_list = &sge, .num_sge = 1 }, *bad;

    if (ibv_post_recv(id->qp, &wr, &bad) != 0)
        meet_die("ibv_post_recv");
}

/* ---- commands
 * --------------------------------------------------------------------------------- */

static struct link *named(const char *word)
{
    uint32_t index = meet_number(word, VICTIM_LINKS - 1);

    if (index >= link_count)
        meet_die("no connection %u", index);
    return &links[index];
}

static void tell_link(FILE *out, const struct link *link)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (ibv_query_qp(link->id->qp, &attr, IBV_QP_RQ_PSN, &init) != 0)
        meet_die("ibv_query_qp");
    (void)fprintf(out, "%u %u %u %u\n", (unsigned)(link - links), link->id->qp->qp_num, attr.rq_psn,
                  attr.sq_psn);
}

static void tell_keys(FILE *out)
{
    (void)fprintf(out, "%" PRIuPTR " %u %" PRIuPTR " %u %u\n", (uintptr_t)OFFERED, offered->rkey,
                  (uintptr_t)FOREIGN, foreign->rkey, PAGE);
}

/* Prints "same", or the offset of the first changed byte from OFFERED. */
static void tell_memory(FILE *out)
{
    for (size_t i = 0; i < sizeof memory; i++) {
        if (memory[i] != pattern) {
            (void)fprintf(out, "%td\n", memory + i - OFFERED);
            return;
        }
    }
    (void)fprintf(out, "same\n");
}

static void tell_landing(FILE *out)
{
    bool same = LANDING[0] == 'r' && memcmp(LANDING, LANDING + 1, PAGE - 1) == 0;

    (void)fprintf(out, "%s\n", same ? "same" : "read");
}

static void tell_state(FILE *out, const struct link *link)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (ibv_query_qp(link->id->qp, &attr, IBV_QP_STATE, &init) != 0)
        meet_die("ibv_query_qp");
    (void)fprintf(out, "%s\n", attr.qp_state == IBV_QPS_RTS ? "connected" : "error");
}

static bool take(struct link *link, struct ibv_wc *wc, uint32_t wait_ms)
{
    struct timespec now, until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    for (;;) {
        if (ibv_poll_cq(link->cq, 1, wc) > 0)
            return true;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (wait_ms == 0 || now.tv_sec > until.tv_sec)
            return false;
    }
}

static void tell_completion(FILE *out, struct link *link, uint32_t wait_ms)
{
    struct ibv_wc wc;

    if (!take(link, &wc, wait_ms)) {
        (void)fprintf(out, "none\n");
        return;
    }
    bool message = wc.wr_id == VICTIM_RECEIVE && wc.status == IBV_WC_SUCCESS;
    (void)fprintf(out, "%s %d %.8s\n", wc.wr_id == VICTIM_RECEIVE ? "receive" : "request",
                  (int)wc.status, message ? (const char *)messages : "-");
}

/* Binds a type 2 window to all memory that is open to peers, for the queue pair of this
 * connection. */
static void tell_window(FILE *out, struct link *link)
{
    struct ibv_mw *window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    struct ibv_wc wc;

    if (window == NULL)
        meet_die("ibv_alloc_mw: %s", strerror(errno));
    struct ibv_send_wr wr = { .wr_id = VICTIM_REQUEST,
                              .opcode = IBV_WR_BIND_MW,
                              .send_flags = IBV_SEND_SIGNALED,
                              .bind_mw = { .mw = window,
                                           .rkey = ibv_inc_rkey(window->rkey),
                                           .bind_info = { .mr = offered,
                                                          .addr = (uintptr_t)OFFERED,
                                                          .length = PAGE,
                                                          .mw_access_flags =
                                                              IBV_ACCESS_REMOTE_WRITE |
                                                              IBV_ACCESS_REMOTE_READ } } },
                       *bad;
    if (ibv_post_send(link->id->qp, &wr, &bad) != 0 || !take(link, &wc, VICTIM_WAIT_MS) ||
        wc.status != IBV_WC_SUCCESS)
        meet_die("the window is not bound");
    (void)fprintf(out, "%u\n", wr.bind_mw.rkey);
}

/* Posts a request. @words: kind, address, key, length. The data of a SEND or WRITE is at OFFERED.
 * The result of a READ or FETCH_ADD goes to LANDING. */
static void request(struct link *link, char *const *words)
{
    uint64_t address = strtoull(words[1], NULL, 10);
    uint32_t key = meet_number(words[2], UINT32_MAX);
    struct ibv_sge sge = { (uintptr_t)OFFERED, meet_number(words[3], PAGE), offered->lkey };
    struct ibv_send_wr wr = { .wr_id = VICTIM_REQUEST,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .send_flags = IBV_SEND_SIGNALED },
                       *bad;

    if (strcmp(words[0], "fetch_add") == 0 || strcmp(words[0], "read") == 0) {
        memset(LANDING, 'r', PAGE);
        sge.addr = (uintptr_t)LANDING;
        sge.lkey = message_region->lkey;
    }
    if (strcmp(words[0], "fetch_add") == 0) {
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = key;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.opcode = strcmp(words[0], "read") == 0    ? IBV_WR_RDMA_READ
                    : strcmp(words[0], "write") == 0 ? IBV_WR_RDMA_WRITE
                                                     : IBV_WR_SEND;
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = key;
    }
    if (ibv_post_send(link->id->qp, &wr, &bad) != 0)
        meet_die("ibv_post_send");
}

/* Executes a command. Returns false for an unknown command, which ends the program. */
static bool obey(FILE *in, FILE *out, char *const *words, unsigned count)
{
    const char *verb = words[0];

    if (strcmp(verb, "connect") == 0 || strcmp(verb, "accept") == 0) {
        const char *why = NULL;
        const struct link *link = verb[0] == 'c' ? victim_connect(&why) : victim_accept();
        if (link != NULL)
            tell_link(out, link);
        else
            (void)fprintf(out, "refused %s\n", why);
    } else if (strcmp(verb, "serve") == 0) {
        victim_serve(fileno(in), out);
    } else if (strcmp(verb, "keys") == 0) {
        tell_keys(out);
    } else if (strcmp(verb, "memory") == 0) {
        tell_memory(out);
    } else if (strcmp(verb, "landing") == 0) {
        tell_landing(out);
    } else if (strcmp(verb, "state") == 0 && count > 1) {
        tell_state(out, named(words[1]));
    } else if (strcmp(verb, "left") == 0 && count > 1) {
        (void)fprintf(out, "%s\n", victim_left(named(words[1])->id));
    } else if (strcmp(verb, "completion") == 0 && count > 2) {
        tell_completion(out, named(words[1]), meet_number(words[2], VICTIM_WAIT_MS));
    } else if (strcmp(verb, "window") == 0 && count > 1) {
        tell_window(out, named(words[1]));
    } else if (strcmp(verb, "post") == 0 && count > 1) {
        victim_post(named(words[1])->id);
        (void)fprintf(out, "posted\n");
    } else if (strcmp(verb, "request") == 0 && count > 5) {
        request(named(words[1]), words + 2);
        (void)fprintf(out, "posted\n");
    } else {
        return false;
    }
    return true;
}

static void obey_all(const char *path)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    char line[256];

    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0)
        meet_die("%s: %s", path, strerror(errno));
    int caller = accept(listener, NULL, NULL);
    FILE *in = fdopen(caller, "r"), *out = fdopen(dup(caller), "w");
    if (in == NULL || out == NULL)
        meet_die("accept: %s", strerror(errno));
    (void)setvbuf(in, NULL, _IONBF, 0);
    while (fgets(line, sizeof line, in) != NULL) {
        char *words[WORDS] = { line }, *rest = line;
        unsigned count = 0;
        while (count < WORDS && (words[count] = strtok_r(rest, " \n", &rest)) != NULL)
            count++;
        if (count == 0 || !obey(in, out, words, count))
            return;
        (void)fflush(out);
    }
}

int main(int argc, char **argv)
{
    const char *own = NULL, *path = NULL;
    uint16_t port = 18515;
    int opt;

    while ((opt = getopt(argc, argv, "a:p:s:")) != -1) {
        if (opt == 'a')
            own = optarg;
        else if (opt == 's')
            path = optarg;
        else if (opt == 'p')
            port = (uint16_t)meet_number(optarg, 65535);
        else
            meet_die("usage: victim -s socket [-p port] -a own-address | peer-address");
    }
    if (path == NULL || (own == NULL && optind == argc))
        meet_die("usage: victim -s socket [-p port] -a own-address | peer-address");
    pattern = own != NULL ? 0x5a : 'c';
    memset(memory, pattern, sizeof memory);
    victim_meet(own, own == NULL ? argv[optind] : NULL, port, BACKLOG);
    obey_all(path);
    return 0;
}
