/* SPDX-License-Identifier: BSD-3-Clause */
/* hello.c - a connection by rdma_cm, step by step: the client sends a word, and the server replies
 * with another word.
 *
 *     hello                  the server, for one client
 *     hello 10.0.0.1         the client of the server at 10.0.0.1
 *
 * The program runs on any RDMA device. It contains nothing that is special to uroce.
 *
 *     cc hello.c -lrdmacm -libverbs
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

#define PORT    "7471"
#define WAIT_MS 2000

/* The objects of one side, valid after it has resolved or accepted its peer. */
struct side {
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    char buffer[2][64]; /* buffer to send from, buffer to receive into */
};

enum { OUT, IN };

static void must(int holds, const char *what)
{
    if (holds)
        return;
    perror(what);
    exit(1);
}

/* Waits for the next event, which must be @wanted. Returns the identifier of the event. */
static struct rdma_cm_id *expect(struct rdma_event_channel *events, enum rdma_cm_event_type wanted)
{
    struct rdma_cm_event *event;

    must(rdma_get_cm_event(events, &event) == 0, "rdma_get_cm_event");
    struct rdma_cm_id *id = event->id;
    if (event->event != wanted) {
        fprintf(stderr, "%s (%d) instead of %s\n", rdma_event_str(event->event), event->status,
                rdma_event_str(wanted));
        exit(1);
    }
    must(rdma_ack_cm_event(event) == 0, "rdma_ack_cm_event");
    return id;
}

/* Creates the PD, CQ, queue pair and memory region on the device of the identifier. */
static void prepare(struct side *side)
{
    struct ibv_context *device = side->id->verbs;

    side->pd = ibv_alloc_pd(device);
    must(side->pd != NULL, "ibv_alloc_pd");
    side->completions = ibv_create_comp_channel(device);
    must(side->completions != NULL, "ibv_create_comp_channel");
    side->cq = ibv_create_cq(device, 2, NULL, side->completions, 0);
    must(side->cq != NULL && ibv_req_notify_cq(side->cq, 0) == 0, "ibv_create_cq");

    struct ibv_qp_init_attr attr = {
        .send_cq = side->cq,
        .recv_cq = side->cq,
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
    };
    must(rdma_create_qp(side->id, side->pd, &attr) == 0, "rdma_create_qp");
    side->mr = ibv_reg_mr(side->pd, side->buffer, sizeof side->buffer, IBV_ACCESS_LOCAL_WRITE);
    must(side->mr != NULL, "ibv_reg_mr");
}

static void post_receive(struct side *side)
{
    struct ibv_sge room = { (uintptr_t)side->buffer[IN], sizeof side->buffer[IN], side->mr->lkey };
    struct ibv_recv_wr receive = { .wr_id = IN, .sg_list = &room, .num_sge = 1 }, *bad;

    must(ibv_post_recv(side->id->qp, &receive, &bad) == 0, "ibv_post_recv");
}

static void post_send(struct side *side, const char *text)
{
    struct ibv_sge word = { (uintptr_t)side->buffer[OUT], 0, side->mr->lkey };
    struct ibv_send_wr send = { .wr_id = OUT,
                                .sg_list = &word,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad;

    word.length = 1 + (uint32_t)snprintf(side->buffer[OUT], sizeof side->buffer[OUT], "%s", text);
    must(ibv_post_send(side->id->qp, &send, &bad) == 0, "ibv_post_send");
}

/* Waits for @count completions. The next event is requested before the CQ is polled. Otherwise a
 * completion that arrives between the two would cause no event. */
static void wait_for_completions(struct side *side, int count)
{
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *context;

    while (count > 0) {
        must(ibv_get_cq_event(side->completions, &cq, &context) == 0, "ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
        must(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
        while (ibv_poll_cq(cq, 1, &wc) > 0) {
            if (wc.status != IBV_WC_SUCCESS) {
                fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
                exit(1);
            }
            count--;
        }
    }
}

static void clean_up(struct side *side)
{
    rdma_destroy_qp(side->id);
    ibv_dereg_mr(side->mr);
    ibv_destroy_cq(side->cq);
    ibv_destroy_comp_channel(side->completions);
    ibv_dealloc_pd(side->pd);
    rdma_destroy_id(side->id);
}

static void serve(struct rdma_event_channel *events)
{
    struct rdma_conn_param param = { .rnr_retry_count = 7 };
    struct rdma_cm_id *listener;
    struct addrinfo hints = { .ai_family = AF_INET6, .ai_flags = AI_PASSIVE }, *any;
    struct side side = { 0 };

    must(getaddrinfo(NULL, PORT, &hints, &any) == 0, "getaddrinfo");
    must(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_bind_addr(listener, any->ai_addr) == 0, "rdma_bind_addr");
    must(rdma_listen(listener, 1) == 0, "rdma_listen");

    side.id = expect(events, RDMA_CM_EVENT_CONNECT_REQUEST);
    prepare(&side);
    post_receive(&side);
    must(rdma_accept(side.id, &param) == 0, "rdma_accept"); /* after the receive was posted */
    expect(events, RDMA_CM_EVENT_ESTABLISHED);

    wait_for_completions(&side, 1);
    printf("server: got \"%.*s\"\n", (int)sizeof side.buffer[IN], side.buffer[IN]);
    post_send(&side, "welcome");
    wait_for_completions(&side, 1);
    expect(events, RDMA_CM_EVENT_DISCONNECTED);
    rdma_disconnect(side.id);
    clean_up(&side);
    rdma_destroy_id(listener);
    freeaddrinfo(any);
}

static void ask(struct rdma_event_channel *events, const char *server)
{
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
    struct addrinfo *address;
    struct side side = { 0 };

    must(getaddrinfo(server, PORT, NULL, &address) == 0, "getaddrinfo");
    must(rdma_create_id(events, &side.id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_resolve_addr(side.id, NULL, address->ai_addr, WAIT_MS) == 0, "rdma_resolve_addr");
    expect(events, RDMA_CM_EVENT_ADDR_RESOLVED);
    must(rdma_resolve_route(side.id, WAIT_MS) == 0, "rdma_resolve_route");
    expect(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
    prepare(&side);
    post_receive(&side);
    must(rdma_connect(side.id, &param) == 0, "rdma_connect");
    expect(events, RDMA_CM_EVENT_ESTABLISHED);

    post_send(&side, "hello");
    wait_for_completions(&side, 2); /* the word was sent, and the reply arrived */
    printf("client: got \"%.*s\"\n", (int)sizeof side.buffer[IN], side.buffer[IN]);
    must(rdma_disconnect(side.id) == 0, "rdma_disconnect");
    expect(events, RDMA_CM_EVENT_DISCONNECTED);
    clean_up(&side);
    freeaddrinfo(address);
}

int main(int argc, char **argv)
{
    struct rdma_event_channel *events = rdma_create_event_channel();

    must(events != NULL, "rdma_create_event_channel");
    if (argc > 1)
        ask(events, argv[1]);
    else
        serve(events);
    rdma_destroy_event_channel(events);
    return 0;
}
