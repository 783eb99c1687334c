/* SPDX-License-Identifier: BSD-3-Clause */
/* inprocess.c - a server and a client in one process, with a cable between their devices that loses and reorders frames.
 *
 * Each side is a thread that could be a separate program. The thread connects by rdma_cm and uses plain verbs. Only main()
 * calls uroce. A test of an RDMA application can do the same, and needs no network.
 *
 *     cc inprocess.c $(pkg-config --cflags --libs uroce) -pthread
 *
 * The file is also a C++ program.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <uroce/uroce.h>

#define SERVER  "10.0.0.1"
#define CLIENT  "10.0.0.2"
#define PORT    7471
#define WAIT_MS 5000
#define ROUNDS  200
#define SIZE    8192

/* The objects of one side, valid after it has resolved or accepted its peer. */
struct side {
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    char *buffer; /* SIZE bytes to send, and SIZE bytes to receive */
};

static void must(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address;

    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    must(inet_pton(AF_INET, text, &address.sin_addr) == 1, text);
    return address;
}

/* Waits for the next event, which must be @wanted. Returns the identifier of the event. */
static struct rdma_cm_id *expect(struct rdma_event_channel *events, enum rdma_cm_event_type wanted)
{
    struct rdma_cm_event *event;

    must(rdma_get_cm_event(events, &event) == 0, "rdma_get_cm_event");
    struct rdma_cm_id *id = event->id;
    must(event->event == wanted, rdma_event_str(event->event));
    must(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
    return id;
}

static void prepare(struct side *side)
{
    uint8_t timeout = 17; /* 4.096 us * 2^17, 0.5 s: enough on a busy machine */
    struct ibv_qp_init_attr attr;

    must(rdma_set_option(side->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                         sizeof timeout) == 0,
         "rdma_set_option");
    side->pd = ibv_alloc_pd(side->id->verbs);
    must(side->pd != NULL, "ibv_alloc_pd");
    side->cq = ibv_create_cq(side->id->verbs, 4, NULL, NULL, 0);
    must(side->cq != NULL, "ibv_create_cq");
    memset(&attr, 0, sizeof attr);
    attr.send_cq = attr.recv_cq = side->cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    must(rdma_create_qp(side->id, side->pd, &attr) == 0, "rdma_create_qp");
    side->buffer = (char *)calloc(2, SIZE);
    must(side->buffer != NULL, "calloc");
    side->mr = ibv_reg_mr(side->pd, side->buffer, (size_t)2 * SIZE, IBV_ACCESS_LOCAL_WRITE);
    must(side->mr != NULL, "ibv_reg_mr");
}

enum { OUT, IN };

static struct ibv_sge half(const struct side *side, int which)
{
    struct ibv_sge sge;

    memset(&sge, 0, sizeof sge);
    sge.addr = (uintptr_t)side->buffer + (uintptr_t)which * SIZE;
    sge.length = SIZE;
    sge.lkey = side->mr->lkey;
    return sge;
}

static void post_receive(struct side *side)
{
    struct ibv_sge sge = half(side, IN);
    struct ibv_recv_wr receive, *bad;

    memset(&receive, 0, sizeof receive);
    receive.sg_list = &sge;
    receive.num_sge = 1;
    must(ibv_post_recv(side->id->qp, &receive, &bad) == 0, "ibv_post_recv");
}

static void post_send(struct side *side)
{
    struct ibv_sge sge = half(side, OUT);
    struct ibv_send_wr send, *bad;

    memset(&send, 0, sizeof send);
    send.sg_list = &sge;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    must(ibv_post_send(side->id->qp, &send, &bad) == 0, "ibv_post_send");
}

static void wait_for_completions(struct side *side, int count)
{
    struct ibv_wc wc;

    while (count > 0) {
        int found = ibv_poll_cq(side->cq, 1, &wc);
        must(found >= 0 && (found == 0 || wc.status == IBV_WC_SUCCESS), "completion");
        count -= found;
    }
}

static void clean_up(struct side *side)
{
    rdma_destroy_qp(side->id);
    ibv_dereg_mr(side->mr);
    ibv_destroy_cq(side->cq);
    ibv_dealloc_pd(side->pd);
    rdma_destroy_id(side->id);
    free(side->buffer);
}

/* Sends each message back, with its first byte increased by 1. */
static void *serve(void *argument)
{
    struct rdma_cm_id *listener = (struct rdma_cm_id *)argument;
    struct rdma_event_channel *events = listener->channel;
    struct rdma_conn_param param;
    struct side side;

    memset(&param, 0, sizeof param);
    param.retry_count = param.rnr_retry_count = 7;
    side.id = expect(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    prepare(&side);
    post_receive(&side);
    must(rdma_accept(side.id, &param) == 0, "rdma_accept");
    expect(events, RDMA_CM_EVENT_ESTABLISHED);
    for (int i = 0; i < ROUNDS; i++) {
        /* The first time, only a receive completes. Later, the previous reply completes, too. */
        wait_for_completions(&side, i == 0 ? 1 : 2);
        side.buffer[0] = (char)(side.buffer[SIZE] + 1);
        post_receive(&side);
        post_send(&side);
    }
    expect(events, RDMA_CM_EVENT_DISCONNECTED);
    clean_up(&side);
    return NULL;
}

static void ask(void)
{
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct sockaddr_in from = address_of(CLIENT, 0), to = address_of(SERVER, PORT);
    struct rdma_conn_param param;
    struct side side;

    memset(&param, 0, sizeof param);
    param.retry_count = param.rnr_retry_count = 7;
    must(events != NULL, "rdma_create_event_channel");
    must(rdma_create_id(events, &side.id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    /* The source address chooses the device. Without it rdma_cm would choose the server's device. */
    must(rdma_resolve_addr(side.id, (struct sockaddr *)&from, (struct sockaddr *)&to, WAIT_MS) == 0,
         "rdma_resolve_addr");
    expect(events, RDMA_CM_EVENT_ADDR_RESOLVED);
    must(rdma_resolve_route(side.id, WAIT_MS) == 0, "rdma_resolve_route");
    expect(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
    prepare(&side);
    must(rdma_connect(side.id, &param) == 0, "rdma_connect");
    expect(events, RDMA_CM_EVENT_ESTABLISHED);
    for (int i = 0; i < ROUNDS; i++) {
        side.buffer[0] = (char)i;
        post_receive(&side);
        post_send(&side);
        wait_for_completions(&side, 2); /* the message was sent, and the reply arrived */
        must(side.buffer[SIZE] == (char)(i + 1), "the answer");
    }
    must(rdma_disconnect(side.id) == 0, "rdma_disconnect");
    expect(events, RDMA_CM_EVENT_DISCONNECTED);
    clean_up(&side);
    rdma_destroy_event_channel(events);
}

static void add_device(const char *device)
{
    char error[UROCE_ERROR_MAX];

    if (uroce_device_add(device, error, sizeof error) == 0)
        return;
    fprintf(stderr, "%s\n", error);
    exit(1);
}

int main(void)
{
    struct sockaddr_in address = address_of(SERVER, PORT);
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener;
    pthread_t server;

    add_device("server:cable,name=c0,loss=0.02,reorder=0.02,seed=1;ip=" SERVER "/24");
    add_device("client:cable,name=c0,loss=0.02,duplicate=0.02,delay_us=20,seed=2;ip=" CLIENT "/24");

    events = rdma_create_event_channel(); /* fails while there is no device */
    must(events != NULL, "rdma_create_event_channel");
    must(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_bind_addr(listener, (struct sockaddr *)&address) == 0, "rdma_bind_addr");
    must(rdma_listen(listener, 1) == 0, "rdma_listen");
    must(pthread_create(&server, NULL, serve, listener) == 0, "pthread_create");
    ask();
    pthread_join(server, NULL);
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(events);

    must(uroce_device_remove("client") == 0 && uroce_device_remove("server") == 0,
         "uroce_device_remove");
    printf("%d messages of %d bytes there and back\n", ROUNDS, SIZE);
    return 0;
}
