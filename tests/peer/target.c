/* SPDX-License-Identifier: BSD-3-Clause */
/* target.c - the endpoint of scripts. It is an ordinary rdma_cm program for any machine with
 * librdmacm. It follows the parameters of plan.h, and serves any number of connections until it is
 * killed.
 *
 *     cc -o target target.c -lrdmacm -libverbs
 *     ./target [PORT [ADDRESS]]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"

#define PORT    7471
#define BACKLOG 16
#define GROUPS  0xefc00000u /* 239.192.0.0 */
#define ALL_RIGHTS                                                                                 \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC)

struct target {
    struct target *next;
    struct rdma_cm_id *id;
    struct plan plan;
    struct ibv_pd *pd, *other_pd;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    struct ibv_ah *back; /* address of the peer that requested datagrams */
    int member;          /* socket that joined the group; -1: none */
    struct ibv_mr *all, *read_only, *other, *work;
    uint8_t *region, *buffers;
    int64_t late; /* time in ms at which one more receive is posted; 0: none */
};

static struct target *targets;
static struct ibv_comp_channel *completions; /* channel of all echoing queue pairs */
static struct in_addr group_address; /* address of the interface on which groups are joined */

static int64_t now_ms(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int fail(const char *what)
{
    (void)fprintf(stderr, "target: %s: %s\n", what, strerror(errno));
    return -1;
}

static union ibv_gid group_of(const struct target *t)
{
    const uint32_t group = htonl(GROUPS | t->plan.group);
    union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };

    memcpy(&gid.raw[12], &group, sizeof group);
    return gid;
}

static void leave(struct target *t)
{
    const union ibv_gid gid = group_of(t);

    (void)ibv_detach_mcast(t->id->qp, &gid, 0);
    (void)close(t->member);
}

/* Attaches the queue pair to the group. Joins the IP group, because Linux rxe leaves that to the
 * program. If no kernel interface has the address, the device joins in ibv_attach_mcast(). */
static int join(struct target *t)
{
    const struct ip_mreq request = { .imr_multiaddr = { htonl(GROUPS | t->plan.group) },
                                     .imr_interface = group_address };
    const union ibv_gid gid = group_of(t);

    t->member = socket(AF_INET, SOCK_DGRAM, 0);
    (void)setsockopt(t->member, IPPROTO_IP, IP_ADD_MEMBERSHIP, &request, sizeof request);
    return ibv_attach_mcast(t->id->qp, &gid, 0) != 0 ? fail("ibv_attach_mcast") : 0;
}

static void destroy(struct target *t)
{
    struct target **at = &targets;
    struct ibv_mr *const mrs[] = { t->all, t->read_only, t->other, t->work };

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    if (t->member >= 0)
        leave(t);
    if (t->id->qp != NULL)
        rdma_destroy_qp(t->id);
    if (t->srq != NULL)
        (void)ibv_destroy_srq(t->srq);
    for (size_t i = 0; i < sizeof mrs / sizeof mrs[0]; i++)
        if (mrs[i] != NULL)
            (void)ibv_dereg_mr(mrs[i]);
    if (t->back != NULL)
        (void)ibv_destroy_ah(t->back);
    if (t->cq != NULL)
        (void)ibv_destroy_cq(t->cq);
    if (t->other_pd != NULL)
        (void)ibv_dealloc_pd(t->other_pd);
    if (t->pd != NULL)
        (void)ibv_dealloc_pd(t->pd);
    (void)rdma_destroy_id(t->id);
    free(t->region);
    free(t->buffers);
    free(t);
}

static int post_recv(struct target *t)
{
    struct ibv_sge sge = { (uintptr_t)t->buffers, t->plan.size, t->work->lkey };
    struct ibv_recv_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };
    struct ibv_recv_wr *bad;

    return t->srq != NULL ? ibv_post_srq_recv(t->srq, &wr, &bad)
                          : ibv_post_recv(t->id->qp, &wr, &bad);
}

static void post(struct target *t, enum ibv_wr_opcode opcode, uint32_t length)
{
    struct ibv_sge sge = { (uintptr_t)t->buffers, length, t->work->lkey };
    struct ibv_send_wr wr = {
        .wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED
    };
    struct ibv_send_wr *bad;

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = PLAN_REMOTE_VA;
        wr.wr.atomic.rkey = PLAN_REMOTE_RKEY;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = PLAN_REMOTE_VA;
        wr.wr.rdma.rkey = PLAN_REMOTE_RKEY;
    }
    if (ibv_post_send(t->id->qp, &wr, &bad) != 0)
        (void)fail("ibv_post_send");
}

static union ibv_gid gid_of(const struct sockaddr *address)
{
    union ibv_gid gid = { .raw = { [10] = 0xff, [11] = 0xff } };
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (address->sa_family == AF_INET6) {
        memcpy(&v6, address, sizeof v6);
        memcpy(gid.raw, &v6.sin6_addr, sizeof gid.raw);
    } else {
        memcpy(&v4, address, sizeof v4);
        memcpy(&gid.raw[12], &v4.sin_addr, sizeof v4.sin_addr);
    }
    return gid;
}

/* Returns an address handle to the peer. Its source is the address that received the request, even
 * if a datagram went to a group. */
static struct ibv_ah *way_back(struct target *t)
{
    const union ibv_gid own = gid_of(rdma_get_local_addr(t->id));
    struct ibv_ah_attr attr = { .grh = { .dgid = gid_of(rdma_get_peer_addr(t->id)),
                                         .hop_limit = 64 },
                                .is_global = 1,
                                .port_num = t->id->port_num };
    union ibv_gid gid;

    for (int i = 0; i < UINT8_MAX; i++)
        if (ibv_query_gid(t->id->verbs, t->id->port_num, i, &gid) == 0 &&
            memcmp(&gid, &own, sizeof own) == 0)
            attr.grh.sgid_index = (uint8_t)i;
    return ibv_create_ah(t->pd, &attr);
}

/* Sends back the data of a receive. */
static void echo(struct target *t, const struct ibv_wc *wc)
{
    const bool written = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    const bool with_imm = (wc->wc_flags & IBV_WC_WITH_IMM) != 0;
    uint8_t *from = written ? t->region : t->buffers + t->plan.skip;
    struct ibv_sge sge = { (uintptr_t)from, plan_echo(&t->plan, wc->byte_len, written),
                           written ? t->all->lkey : t->work->lkey };
    struct ibv_send_wr wr = { .wr_id = 3,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = with_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
                              .imm_data = wc->imm_data,
                              .send_flags = IBV_SEND_SIGNALED };
    struct ibv_send_wr *bad;

    if (t->id->qp_type == IBV_QPT_UD) {
        if (t->back == NULL)
            t->back = way_back(t);
        wr.wr.ud.ah = t->back;
        wr.wr.ud.remote_qpn = wc->src_qp;
        wr.wr.ud.remote_qkey = t->plan.qkey;
        if (t->back == NULL) {
            (void)fail("ibv_create_ah");
            return;
        }
    }
    if (ibv_post_send(t->id->qp, &wr, &bad) != 0)
        (void)fail("ibv_post_send");
}

static void completed(struct ibv_comp_channel *channel)
{
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *t;

    while (ibv_get_cq_event(channel, &cq, &t) == 0) {
        ibv_ack_cq_events(cq, 1);
        (void)ibv_req_notify_cq(cq, 0);
        while (ibv_poll_cq(cq, 1, &wc) == 1)
            if (wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV) != 0)
                echo(t, &wc);
    }
}

static int make_memory(struct target *t)
{
    t->region = aligned_alloc(4096, PLAN_REGION);
    t->buffers = aligned_alloc(4096, PLAN_BYTES);
    t->pd = ibv_alloc_pd(t->id->verbs);
    t->other_pd = ibv_alloc_pd(t->id->verbs);
    if (t->region == NULL || t->buffers == NULL || t->pd == NULL || t->other_pd == NULL)
        return fail("memory and protection domains");
    for (uint32_t i = 0; i < PLAN_REGION; i++)
        t->region[i] = t->buffers[i] = plan_byte(i);
    t->all = ibv_reg_mr(t->pd, t->region, PLAN_REGION, ALL_RIGHTS);
    t->read_only = ibv_reg_mr(t->pd, t->region, PLAN_REGION, IBV_ACCESS_REMOTE_READ);
    t->other = ibv_reg_mr(t->other_pd, t->region, PLAN_REGION, ALL_RIGHTS);
    t->work = ibv_reg_mr(t->pd, t->buffers, PLAN_BYTES, ALL_RIGHTS);
    if (t->all == NULL || t->read_only == NULL || t->other == NULL || t->work == NULL)
        return fail("ibv_reg_mr");
    return 0;
}

static int make_cq(struct target *t)
{
    if (t->plan.echo > 0 && completions == NULL) {
        completions = ibv_create_comp_channel(t->id->verbs);
        if (completions == NULL)
            return fail("ibv_create_comp_channel");
        (void)fcntl(completions->fd, F_SETFL, O_NONBLOCK);
    }
    t->cq = ibv_create_cq(t->id->verbs, 256, t, t->plan.echo > 0 ? completions : NULL, 0);
    if (t->cq == NULL)
        return fail("ibv_create_cq");
    if (t->plan.echo > 0 && ibv_req_notify_cq(t->cq, 0) != 0)
        return fail("ibv_req_notify_cq");
    return 0;
}

static int make_srq(struct target *t)
{
    struct ibv_srq_init_attr init = { .attr = { .max_wr = PLAN_RECV_MAX + 1, .max_sge = 1 } };

    t->srq = ibv_create_srq(t->pd, &init);
    return t->srq == NULL ? fail("ibv_create_srq") : 0;
}

static int make_qp(struct target *t)
{
    struct ibv_qp_init_attr init = { .qp_type = t->id->qp_type,
                                     .cap = { .max_send_wr = 64,
                                              .max_recv_wr = PLAN_RECV_MAX + 1,
                                              .max_send_sge = 1,
                                              .max_recv_sge = 1 } };

    if (make_cq(t) != 0 || (t->plan.srq != 0 && make_srq(t) != 0))
        return -1;
    init.srq = t->srq;
    init.send_cq = init.recv_cq = t->cq;
    if (rdma_create_qp(t->id, t->pd, &init) != 0)
        return fail("rdma_create_qp");
    for (uint32_t i = 0; i < t->plan.recv; i++)
        if (post_recv(t) != 0)
            return fail("ibv_post_recv");
    return t->plan.group != 0 ? join(t) : 0;
}

static int answer(struct target *t)
{
    char words[192];
    const uint32_t keys[3] = { t->all->rkey, t->read_only->rkey, t->other->rkey };
    struct rdma_conn_param param = {
        .private_data = words, .responder_resources = 4, .initiator_depth = 4, .rnr_retry_count = 7
    };

    if (t->id->qp_type != IBV_QPT_UD)
        param.private_data_len =
            (uint8_t)plan_answer(words, sizeof words, (uintptr_t)t->region, keys);
    param.qp_num = t->id->qp->qp_num;
    return rdma_accept(t->id, &param) != 0 ? fail("rdma_accept") : 0;
}

/* Ends the datagram service. SIDR has no message for the end of a service, so the next request ends
 * the previous service. */
static void end_datagrams(void)
{
    for (struct target *t = targets, *next; t != NULL; t = next) {
        next = t->next;
        if (t->id->qp_type == IBV_QPT_UD)
            destroy(t);
    }
}

/* Handles a connection request. Returns the target to destroy after the event was acknowledged, or
 * NULL. */
static struct target *requested(struct rdma_cm_event *event)
{
    struct target *t = calloc(1, sizeof *t);
    const bool datagram = event->id->qp_type == IBV_QPT_UD;
    const char *words = datagram ? event->param.ud.private_data : event->param.conn.private_data;

    if (t == NULL)
        abort();
    if (datagram)
        end_datagrams();
    t->id = event->id;
    t->member = -1;
    t->id->context = t;
    t->next = targets;
    targets = t;
    plan_read(&t->plan, words == NULL ? "" : words,
              words == NULL ? 0
              : datagram    ? event->param.ud.private_data_len
                            : event->param.conn.private_data_len);
    if (make_memory(t) != 0 || make_qp(t) != 0 || answer(t) != 0) {
        (void)rdma_reject(t->id, NULL, 0);
        return t;
    }
    if (t->plan.late > 0)
        t->late = now_ms() + t->plan.late;
    return NULL;
}

static void established(struct target *t)
{
    for (uint32_t i = 0; i < t->plan.send; i++)
        post(t, IBV_WR_SEND, t->plan.bytes);
    for (uint32_t i = 0; i < t->plan.write; i++)
        post(t, IBV_WR_RDMA_WRITE, t->plan.bytes);
    for (uint32_t i = 0; i < t->plan.read; i++)
        post(t, IBV_WR_RDMA_READ, t->plan.bytes);
    for (uint32_t i = 0; i < t->plan.faa; i++)
        post(t, IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
}

/* Handles an event. Acknowledges the event of a connection before it destroys the connection. */
static void take(struct rdma_cm_event *event)
{
    const enum rdma_cm_event_type type = event->event;
    struct target *t = event->id->context, *failed = NULL;

    if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
        failed = requested(event);
    (void)rdma_ack_cm_event(event);
    if (failed != NULL)
        destroy(failed);
    if (t == NULL)
        return;
    if (type == RDMA_CM_EVENT_ESTABLISHED && t->id->qp_type != IBV_QPT_UD)
        established(t);
    if (type == RDMA_CM_EVENT_DISCONNECTED)
        (void)rdma_disconnect(t->id);
    if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_REJECTED ||
        type == RDMA_CM_EVENT_UNREACHABLE || type == RDMA_CM_EVENT_CONNECT_ERROR)
        destroy(t);
}

/* Posts the late receives that are due. Returns the longest time to wait in ms, or -1 for no
 * limit. */
static int post_late(void)
{
    int64_t wait = -1;

    for (struct target *t = targets; t != NULL; t = t->next) {
        if (t->late == 0)
            continue;
        int64_t left = t->late - now_ms();
        if (left <= 0) {
            t->late = 0;
            (void)post_recv(t);
        } else if (wait < 0 || left < wait) {
            wait = left;
        }
    }
    return (int)wait;
}

static int listen_on(struct rdma_event_channel *channel, enum rdma_port_space space,
                     struct sockaddr *address)
{
    struct rdma_cm_id *id;

    if (rdma_create_id(channel, &id, NULL, space) != 0)
        return fail("rdma_create_id");
    if (rdma_bind_addr(id, address) != 0)
        return fail("rdma_bind_addr");
    return rdma_listen(id, BACKLOG) != 0 ? fail("rdma_listen") : 0;
}

/* Listens for UC. There is no port space for UC, so its requests use RDMA_PS_IB. */
static int listen_uc(struct rdma_event_channel *channel, struct sockaddr *address, socklen_t length)
{
    struct rdma_addrinfo info = { .ai_flags = RAI_PASSIVE,
                                  .ai_family = address->sa_family,
                                  .ai_qp_type = IBV_QPT_UC,
                                  .ai_port_space = RDMA_PS_IB,
                                  .ai_src_len = length,
                                  .ai_src_addr = address };
    struct rdma_cm_id *id;

    if (rdma_create_ep(&id, &info, NULL, NULL) != 0)
        return fail("rdma_create_ep");
    if (rdma_migrate_id(id, channel) != 0)
        return fail("rdma_migrate_id");
    return rdma_listen(id, BACKLOG) != 0 ? fail("rdma_listen") : 0;
}

int main(int argc, char **argv)
{
    const uint16_t port = htons((uint16_t)(argc > 1 ? strtoul(argv[1], NULL, 10) : PORT));
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = port };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = port };
    struct sockaddr *address = (struct sockaddr *)&v4;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_event *event;

    if (argc > 2 && inet_pton(AF_INET6, argv[2], &v6.sin6_addr) == 1)
        address = (struct sockaddr *)&v6;
    else if (argc > 2 && inet_pton(AF_INET, argv[2], &v4.sin_addr) != 1) {
        (void)fprintf(stderr, "target: \"%s\" is not an address\n", argv[2]);
        return 2;
    }
    if (channel == NULL)
        return -fail("rdma_create_event_channel");
    group_address = v4.sin_addr;
    if (listen_on(channel, RDMA_PS_TCP, address) != 0 ||
        listen_on(channel, RDMA_PS_UDP, address) != 0 ||
        listen_uc(channel, address, address == (struct sockaddr *)&v4 ? sizeof v4 : sizeof v6) != 0)
        return 1;
    (void)fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    (void)printf("target: listens\n");
    (void)fflush(stdout);
    for (;;) {
        struct pollfd fds[2] = { { .fd = channel->fd, .events = POLLIN },
                                 { .fd = completions != NULL ? completions->fd : -1,
                                   .events = POLLIN } };
        (void)poll(fds, 2, post_late());
        while (rdma_get_cm_event(channel, &event) == 0)
            take(event);
        if (completions != NULL)
            completed(completions);
    }
}
