/* SPDX-License-Identifier: BSD-3-Clause */
/* event_rdma.c - the server and the client of event_server over RC connections of rdma_cm. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "event_side.h"

#define BATCH        32
#define RESOLVE_MS   5000
#define SIGNAL_EVERY 16u /* one in 16 sends is signalled */
#define SEND_DEPTH   (4 * SIGNAL_EVERY)
#define CQ_DEPTH     (4 * EVENT_CLIENTS_MAX)
#define LAST         UINT64_MAX /* number of the message before the connection is closed */

struct conn {
    struct rdma_cm_id *id;
    struct ibv_mr *mr;
    uint8_t *memory; /* buffer of the received message, then buffer of the sent message */
    uint32_t bytes;  /* length of a message */
    uint32_t place;  /* index in the table of connections */
    uint32_t unsignaled;
    bool open;       /* true while a completion with an error is a failure */
    uint64_t number; /* number of the last request */
    int64_t sent_ns;
};

struct rdma {
    const struct event_plan *plan;
    struct event_meter *meter;
    int epoll;
    struct rdma_event_channel *cm;
    struct ibv_context *verbs; /* the device, known with the first connection */
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct conn *conns[EVENT_CLIENTS_MAX]; /* a slot is used only once */
    unsigned count, live,
        busy;       /* used slots; open connections; connections that still send requests */
    bool last_sent; /* the message LAST was sent, or has arrived */
};

static _Noreturn void die(const struct rdma *rdma, const char *what, const char *todo)
{
    event_fail("%s, %s port %s: %s. %s", what, rdma->plan->address, rdma->plan->port,
               strerror(errno), todo);
}

static void watch(const struct rdma *rdma, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        epoll_ctl(rdma->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        die(rdma, "epoll_ctl", "Check the limit of open files (ulimit -n)");
}

/* Creates the objects that all connections share, if this is the first connection. */
static void use_device(struct rdma *rdma, struct ibv_context *verbs)
{
    if (rdma->verbs == verbs)
        return;
    if (rdma->verbs != NULL)
        event_fail("a client connects through a second device: give the server one ADDRESS");
    rdma->verbs = verbs;
    rdma->pd = ibv_alloc_pd(verbs);
    rdma->channel = ibv_create_comp_channel(verbs);
    if (rdma->pd == NULL || rdma->channel == NULL)
        die(rdma, "protection domain or completion channel", "Check the limits of the device");
    rdma->cq = ibv_create_cq(verbs, CQ_DEPTH, NULL, rdma->channel, 0);
    if (rdma->cq == NULL || ibv_req_notify_cq(rdma->cq, 0) != 0)
        die(rdma, "completion queue", "Check max_cqe of the device (ibv_devinfo -v)");
    if (!rdma->plan->wait)
        watch(rdma, rdma->channel->fd);
}

static void post_receive(const struct rdma *rdma, struct conn *conn)
{
    struct ibv_sge sge = { (uintptr_t)conn->memory, conn->bytes, conn->mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = 2 * conn->place, .sg_list = &sge, .num_sge = 1 }, *bad;

    errno = ibv_post_recv(conn->id->qp, &wr, &bad);
    if (errno != 0)
        die(rdma, "ibv_post_recv", "This is a bug of event_server");
}

static void post_send(const struct rdma *rdma, struct conn *conn)
{
    uint8_t *message = conn->memory + conn->bytes;
    struct ibv_sge sge = { (uintptr_t)message, conn->bytes, conn->mr->lkey };
    struct ibv_send_wr wr = { .wr_id = 2 * conn->place + 1,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_SEND },
                       *bad;

    memcpy(message, &conn->number, sizeof conn->number);
    if (++conn->unsignaled == SIGNAL_EVERY || conn->number == LAST) {
        conn->unsignaled = 0;
        wr.send_flags = IBV_SEND_SIGNALED;
    }
    errno = ibv_post_send(conn->id->qp, &wr, &bad);
    if (errno != 0)
        die(rdma, "ibv_post_send", "ENOMEM: the peer acknowledges too late");
}

/* Creates the queue pair of a connection, with a receive posted. */
static void open_conn(struct rdma *rdma, struct rdma_cm_id *id, uint32_t bytes)
{
    struct conn *conn = event_take(sizeof *conn);

    if (rdma->count == EVENT_CLIENTS_MAX)
        event_fail("more than %u connections: start the server again", EVENT_CLIENTS_MAX);
    use_device(rdma, id->verbs);
    struct ibv_qp_init_attr attr = { .send_cq = rdma->cq,
                                     .recv_cq = rdma->cq,
                                     .cap = { SEND_DEPTH, 2, 1, 1, 0 },
                                     .qp_type = IBV_QPT_RC };
    if (rdma_create_qp(id, rdma->pd, &attr) != 0)
        die(rdma, "rdma_create_qp", "Check max_qp and max_qp_wr of the device (ibv_devinfo -v)");
    conn->id = id;
    conn->bytes = bytes;
    conn->place = rdma->count;
    conn->open = true;
    conn->memory = event_take(2ull * bytes);
    conn->mr = ibv_reg_mr(rdma->pd, conn->memory, 2ull * bytes, IBV_ACCESS_LOCAL_WRITE);
    if (conn->mr == NULL)
        die(rdma, "ibv_reg_mr", "Check the limit of locked memory (ulimit -l)");
    id->context = conn;
    rdma->conns[rdma->count++] = conn;
    post_receive(rdma, conn);
}

static void close_conn(struct rdma *rdma, struct conn *conn)
{
    conn->open = false;
    rdma_destroy_qp(conn->id);
    (void)ibv_dereg_mr(conn->mr);
    free(conn->memory);
    (void)rdma_destroy_id(conn->id);
    rdma->live--;
}

static void ask(const struct rdma *rdma, struct conn *conn)
{
    conn->number++;
    conn->sent_ns = event_now_ns();
    post_send(rdma, conn);
}

static void take_message(struct rdma *rdma, struct conn *conn)
{
    uint64_t number;

    memcpy(&number, conn->memory, sizeof number);
    if (number == LAST) {
        rdma->last_sent = true;
        return;
    }
    post_receive(rdma, conn);
    if (rdma->plan->server) {
        event_meter_served(rdma->meter);
        conn->number = number;
        post_send(rdma, conn);
        return;
    }
    if (number != conn->number)
        event_fail("the answer has number %llu, its request has %llu: the peer is not event_server",
                   (unsigned long long)number, (unsigned long long)conn->number);
    if (event_meter_answered(rdma->meter, conn->sent_ns))
        ask(rdma, conn);
    else
        rdma->busy--;
}

static void complete(struct rdma *rdma, const struct ibv_wc *wc)
{
    struct conn *conn = rdma->conns[wc->wr_id / 2];
    bool sent = wc->wr_id % 2 == 1;

    if (!conn->open)
        return; /* flushed */
    if (wc->status == IBV_WC_WR_FLUSH_ERR && rdma->plan->server) {
        conn->open = false; /* the event of rdma_cm follows */
        return;
    }
    if (wc->status != IBV_WC_SUCCESS)
        event_fail("connection %u, %s: %s, vendor error 0x%x. See the message of the peer",
                   conn->place, sent ? "send" : "receive", ibv_wc_status_str(wc->status),
                   wc->vendor_err);
    if (!sent && wc->byte_len != conn->bytes)
        event_fail("connection %u: a message has %u bytes instead of %u: the peer is not "
                   "event_server",
                   conn->place, wc->byte_len, conn->bytes);
    if (!sent)
        take_message(rdma, conn);
    else if (conn->number == LAST)
        rdma->last_sent = true;
}

/* Takes one event of the completion channel and all completions. In the mode "wait" this blocks. */
static void take_completions(struct rdma *rdma)
{
    struct ibv_wc wcs[BATCH];
    struct ibv_cq *cq;
    void *context;
    int count;

    if (ibv_get_cq_event(rdma->channel, &cq, &context) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            die(rdma, "ibv_get_cq_event", "The device may have been removed");
        return;
    }
    ibv_ack_cq_events(cq, 1);
    if (ibv_req_notify_cq(cq, 0) != 0)
        die(rdma, "ibv_req_notify_cq", "The device may have been removed");
    while ((count = ibv_poll_cq(cq, BATCH, wcs)) > 0)
        for (int i = 0; i < count; i++)
            complete(rdma, &wcs[i]);
    if (count < 0)
        event_fail("ibv_poll_cq: the completion queue has failed or is too short");
}

static struct rdma_conn_param parameters(const uint32_t *hello)
{
    return (struct rdma_conn_param){ .private_data = hello,
                                     .private_data_len = hello != NULL ? sizeof *hello : 0,
                                     .responder_resources = 1,
                                     .initiator_depth = 1,
                                     .retry_count = 7,
                                     .rnr_retry_count = 7 };
}

static void accept_conn(struct rdma *rdma, struct rdma_cm_id *id, uint32_t bytes)
{
    struct rdma_conn_param parameter = parameters(NULL);

    if (bytes < EVENT_BYTES_MIN || bytes > EVENT_BYTES_MAX) {
        (void)rdma_reject(id, NULL, 0);
        (void)rdma_destroy_id(id);
        return;
    }
    open_conn(rdma, id, bytes);
    rdma->live++;
    if (rdma_accept(id, &parameter) != 0)
        die(rdma, "rdma_accept", "The client may have gone");
}

static void connect_conn(struct rdma *rdma, struct rdma_cm_id *id)
{
    uint32_t hello = htonl(rdma->plan->bytes);
    struct rdma_conn_param parameter = parameters(&hello);

    open_conn(rdma, id, rdma->plan->bytes);
    if (rdma_connect(id, &parameter) != 0)
        die(rdma, "rdma_connect", "Start the server first");
}

static void disconnected(struct rdma *rdma, struct rdma_cm_id *id)
{
    if (rdma->plan->server) {
        event_meter_stop(rdma->meter);
        (void)rdma_disconnect(id);
    } else if (rdma->busy > 0) /* the client itself closes when no request is outstanding */
        event_fail("the server closed a connection: see its message");
    close_conn(rdma, id->context);
}

static _Noreturn void refused(const struct rdma *rdma, const char *event, int status)
{
    event_fail(
        "%s with status %d, %s port %s. Start the server first, and check that a device has a "
        "route to this address",
        event, status, rdma->plan->address, rdma->plan->port);
}

/* Takes one event of rdma_cm. In the mode "wait" this blocks. */
static void take_cm_event(struct rdma *rdma)
{
    struct rdma_cm_event *event;
    uint32_t hello = 0;

    if (rdma_get_cm_event(rdma->cm, &event) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            die(rdma, "rdma_get_cm_event", "The device may have been removed");
        return;
    }
    enum rdma_cm_event_type type = event->event;
    struct rdma_cm_id *id = event->id;
    int status = event->status;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST && event->param.conn.private_data_len >= sizeof hello)
        memcpy(&hello, event->param.conn.private_data, sizeof hello);
    (void)rdma_ack_cm_event(event);
    switch ((int)type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(id, RESOLVE_MS) != 0)
            die(rdma, "rdma_resolve_route", "Check the address of the server");
        return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        connect_conn(rdma, id);
        return;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        accept_conn(rdma, id, ntohl(hello));
        return;
    case RDMA_CM_EVENT_ESTABLISHED:
        rdma->live += !rdma->plan->server;
        return;
    case RDMA_CM_EVENT_DISCONNECTED:
        disconnected(rdma, id);
        return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return;
    default:
        refused(rdma, rdma_event_str(type), status);
    }
}

/* Waits for events of both channels once. Only the client has a time limit. */
static void turn(struct rdma *rdma)
{
    struct epoll_event events[2];
    int count = epoll_wait(rdma->epoll, events, 2, rdma->plan->server ? -1 : EVENT_SILENCE_MS);

    if (count < 0 && errno != EINTR)
        die(rdma, "epoll_wait", "Run both sides again");
    if (count == 0)
        event_fail("no event for %d s: %u of %u connections are up, %u have no answer. The server "
                   "hangs, or an event was lost",
                   EVENT_SILENCE_MS / 1000, rdma->live, rdma->plan->clients, rdma->busy);
    rdma->meter->waits++;
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd == rdma->cm->fd)
            take_cm_event(rdma);
        else
            take_completions(rdma);
    }
}

static void take_connection_event(struct rdma *rdma)
{
    if (rdma->plan->wait)
        take_cm_event(rdma);
    else
        turn(rdma);
}

static void take_work(struct rdma *rdma)
{
    if (!rdma->plan->wait) {
        turn(rdma);
        return;
    }
    rdma->meter->waits++;
    take_completions(rdma);
}

static struct rdma_cm_id *new_id(const struct rdma *rdma)
{
    struct rdma_cm_id *id;

    if (rdma_create_id(rdma->cm, &id, NULL, RDMA_PS_TCP) != 0)
        die(rdma, "rdma_create_id", "Check the limit of open files (ulimit -n)");
    return id;
}

static struct addrinfo *resolve(const struct rdma *rdma)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
    int problem = getaddrinfo(rdma->plan->address, rdma->plan->port, &hints, &found);

    if (problem != 0)
        event_fail("address %s port %s: %s. Give an address and a port number", rdma->plan->address,
                   rdma->plan->port, gai_strerror(problem));
    return found;
}

static void run_server(struct rdma *rdma, const struct addrinfo *own)
{
    struct rdma_cm_id *listener = new_id(rdma);

    if (rdma_bind_addr(listener, own->ai_addr) != 0 ||
        rdma_listen(listener, EVENT_CLIENTS_MAX) != 0)
        die(rdma, "rdma_listen", "Choose an address of an RDMA device and a free port");
    printf("ready\n");
    (void)fflush(stdout);
    while (rdma->count == 0)
        take_connection_event(rdma);
    while (rdma->plan->wait && !rdma->last_sent)
        take_work(rdma);
    while (rdma->live > 0)
        take_connection_event(rdma);
    (void)rdma_destroy_id(listener);
}

static void end_silent(int signal)
{
    static const char cause[] = "event_server: no answer for 10 s after the measured time: the "
                                "server hangs, or an event was lost\n";

    (void)signal;
    (void)!write(STDERR_FILENO, cause, sizeof cause - 1);
    _exit(1);
}

static void run_client(struct rdma *rdma, const struct addrinfo *peer)
{
    if (rdma->plan->wait) { /* no call that blocks has a time limit */
        (void)signal(SIGALRM, end_silent);
        (void)alarm((unsigned)(rdma->plan->seconds * 1.1) + 1 + EVENT_SILENCE_MS / 1000);
    }
    for (unsigned i = 0; i < rdma->plan->clients; i++)
        if (rdma_resolve_addr(new_id(rdma), NULL, peer->ai_addr, RESOLVE_MS) != 0)
            die(rdma, "rdma_resolve_addr", "Check that an RDMA device has a route to it");
    while (rdma->live < rdma->plan->clients)
        take_connection_event(rdma);
    rdma->busy = rdma->plan->clients;
    event_meter_begin(rdma->meter, rdma->plan->seconds);
    for (unsigned i = 0; i < rdma->plan->clients; i++)
        ask(rdma, rdma->conns[i]);
    while (rdma->busy > 0)
        take_work(rdma);
    if (rdma->plan->wait) {
        rdma->conns[0]->number = LAST;
        post_send(rdma, rdma->conns[0]);
        while (!rdma->last_sent)
            take_work(rdma);
    }
    for (unsigned i = 0; i < rdma->plan->clients; i++) {
        rdma->conns[i]->open = false;
        (void)rdma_disconnect(rdma->conns[i]->id);
    }
    while (rdma->live > 0)
        take_connection_event(rdma);
}

void event_rdma_run(const struct event_plan *plan, struct event_meter *meter)
{
    struct rdma *rdma = event_take(sizeof *rdma);

    rdma->plan = plan;
    rdma->meter = meter;
    rdma->epoll = epoll_create1(EPOLL_CLOEXEC);
    rdma->cm = rdma_create_event_channel();
    if (rdma->epoll < 0 || rdma->cm == NULL)
        die(rdma, "rdma_create_event_channel", "Check that rdma_cm works (ucmatose)");
    if (!plan->wait)
        watch(rdma, rdma->cm->fd);
    struct addrinfo *address = resolve(rdma);
    if (plan->server)
        run_server(rdma, address);
    else
        run_client(rdma, address);
    freeaddrinfo(address);
    for (unsigned i = 0; i < rdma->count; i++)
        free(rdma->conns[i]);
    if (rdma->verbs != NULL) {
        (void)ibv_destroy_cq(rdma->cq);
        (void)ibv_destroy_comp_channel(rdma->channel);
        (void)ibv_dealloc_pd(rdma->pd);
    }
    rdma_destroy_event_channel(rdma->cm);
    (void)close(rdma->epoll);
    free(rdma);
}
