/* SPDX-License-Identifier: BSD-3-Clause */
/* forker_cm.c - a process that connects to itself by rdma_cm, and a child that does so again. */
#include <arpa/inet.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "forker.h"

#define SERVICE 7471

static struct rdma_event_channel *channel;

static struct rdma_cm_id *expect(enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;

    MUST(rdma_get_cm_event(channel, &event) == 0);
    if (event->event != type)
        (void)fprintf(stderr, "%s: %s, status %d\n", forker_role, rdma_event_str(event->event),
                      event->status);
    MUST(event->event == type);
    struct rdma_cm_id *id = event->id;
    MUST(rdma_ack_cm_event(event) == 0);
    return id;
}

static struct sockaddr_in own_address(uint16_t port)
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(port) };

    MUST(inet_pton(AF_INET, forker_address, &own.sin_addr) == 1);
    return own;
}

struct call {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *caller, *called;
};

/* Creates a queue pair with librdmacm's own PD and CQs. */
static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init = {
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
    };

    MUST(rdma_create_qp(id, NULL, &init) == 0);
}

static struct call connect_with_itself(uint16_t port)
{
    struct call call = { .channel = rdma_create_event_channel() };
    struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
    struct sockaddr_in own = own_address(port);

    MUST((channel = call.channel) != NULL);
    MUST(rdma_create_id(channel, &call.listener, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_bind_addr(call.listener, (struct sockaddr *)&own) == 0);
    MUST(rdma_listen(call.listener, 4) == 0);
    MUST(rdma_create_id(channel, &call.caller, NULL, RDMA_PS_TCP) == 0);
    MUST(rdma_resolve_addr(call.caller, NULL, (struct sockaddr *)&own, FORKER_WAIT_MS) == 0);
    (void)expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    MUST(rdma_resolve_route(call.caller, FORKER_WAIT_MS) == 0);
    (void)expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    make_qp(call.caller);
    MUST(rdma_connect(call.caller, &param) == 0);
    call.called = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    make_qp(call.called);
    MUST(rdma_accept(call.called, &param) == 0);
    (void)expect(RDMA_CM_EVENT_ESTABLISHED);
    (void)expect(RDMA_CM_EVENT_ESTABLISHED);
    return call;
}

static void talk(struct call *call)
{
    static uint8_t octets[2 * FORKER_BYTES];
    struct ibv_mr *mr = ibv_reg_mr(call->caller->pd, octets, sizeof octets, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_wc wc;
    int found;

    MUST(mr != NULL);
    struct ibv_sge to = { (uintptr_t)octets + FORKER_BYTES, FORKER_BYTES, mr->lkey };
    struct ibv_sge from = { (uintptr_t)octets, FORKER_BYTES, mr->lkey };
    struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 }, *bad_recv;
    struct ibv_send_wr send = { .sg_list = &from,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad_send;
    MUST(ibv_post_recv(call->called->qp, &recv, &bad_recv) == 0);
    MUST(ibv_post_send(call->caller->qp, &send, &bad_send) == 0);
    while ((found = ibv_poll_cq(call->called->recv_cq, 1, &wc)) == 0)
        ;
    MUST(found == 1 && wc.status == IBV_WC_SUCCESS);
    while ((found = ibv_poll_cq(call->caller->send_cq, 1, &wc)) == 0)
        ;
    MUST(found == 1 && wc.status == IBV_WC_SUCCESS);
    MUST(ibv_dereg_mr(mr) == 0);
}

static void hang_up(struct call *call)
{
    rdma_destroy_qp(call->caller);
    rdma_destroy_qp(call->called);
    MUST(rdma_destroy_id(call->caller) == 0 && rdma_destroy_id(call->called) == 0);
    MUST(rdma_destroy_id(call->listener) == 0);
    rdma_destroy_event_channel(call->channel);
}

static struct call parents_call;

static void connects(void)
{
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;
    struct rdma_conn_param param = { 0 };
    struct call own = connect_with_itself(SERVICE + 1);

    errno = 0;
    MUST(rdma_get_cm_event(parents_call.channel, &event) == -1 && errno == EIO);
    errno = 0;
    MUST(rdma_connect(parents_call.caller, &param) == -1 && errno == EIO);
    errno = 0;
    MUST(rdma_create_id(parents_call.channel, &id, NULL, RDMA_PS_TCP) == -1 && errno == EIO);
    talk(&own);
    hang_up(&parents_call);
    talk(&own);
    hang_up(&own);
}

void forker_cm(void)
{
    parents_call = connect_with_itself(SERVICE);
    talk(&parents_call);
    forker_expect_end(forker_start(connects));
    talk(&parents_call);
    forker_expect_end(forker_start(connects));
    hang_up(&parents_call);
}
