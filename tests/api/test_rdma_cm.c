/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdma_cm.c - tests the system's librdmacm over liburoce with the connection of the rdma_cm
 * tutorial. Both sides are in one process, each with its own event channel.
 */
#include "api/api.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#define WAIT_MS       60000 /* a guard against hanging */
#define CYCLES        1000
#define WARM_UP       10
#define THREADS       4
#define TEXT          "hello over rdma_cm"
#define REQ_ROOM      56 /* private data of a REQ that a program can use, bytes, as on Linux */
#define REP_ROOM      196
#define REJ_ROOM      148
#define SIDR_REQ_ROOM 180
#define SIDR_REP_ROOM 136

struct half {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    char buffer[64];
};

struct talk {
    struct half server, client;
    struct rdma_cm_id *listener;
    struct sockaddr_in address;
};

/* Returns the next event, which must have @type and @status. */
static struct rdma_cm_event expect(struct half *half, enum rdma_cm_event_type type, int status)
{
    struct rdma_cm_event *event, copy;

    assert_int_equal(rdma_get_cm_event(half->channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    assert_int_equal(event->status, status);
    copy = *event;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    return copy;
}

static void listen_in(struct talk *talk, enum rdma_port_space space, const char *text)
{
    talk->address = (struct sockaddr_in){ .sin_family = AF_INET };
    assert_int_equal(inet_pton(AF_INET, text, &talk->address.sin_addr), 1);
    talk->server.channel = rdma_create_event_channel();
    assert_non_null(talk->server.channel);
    assert_int_equal(rdma_create_id(talk->server.channel, &talk->listener, talk, space), 0);
    assert_int_equal(rdma_bind_addr(talk->listener, (struct sockaddr *)&talk->address), 0);
    assert_int_equal(rdma_listen(talk->listener, 4), 0);
    talk->address.sin_port = rdma_get_src_port(talk->listener);
    assert_int_not_equal(talk->address.sin_port, 0);
}

static void listen_at(struct talk *talk, const char *text)
{
    listen_in(talk, RDMA_PS_TCP, text);
}

static void resolve_in(struct talk *talk, enum rdma_port_space space)
{
    struct half *client = &talk->client;

    client->channel = rdma_create_event_channel();
    assert_non_null(client->channel);
    assert_int_equal(rdma_create_id(client->channel, &client->id, client, space), 0);
    assert_int_equal(
        rdma_resolve_addr(client->id, NULL, (struct sockaddr *)&talk->address, WAIT_MS), 0);
    expect(client, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_non_null(client->id->verbs);
    assert_int_equal(rdma_resolve_route(client->id, WAIT_MS), 0);
    expect(client, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

static void resolve(struct talk *talk)
{
    resolve_in(talk, RDMA_PS_TCP);
}

static void make_queue_pair(struct half *half)
{
    half->cq = ibv_create_cq(half->id->verbs, 4, NULL, NULL, 0);
    assert_non_null(half->cq);
    struct ibv_qp_init_attr attr = {
        .send_cq = half->cq,
        .recv_cq = half->cq,
        .qp_type = half->id->qp_type,
        .cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 }
    };
    assert_int_equal(rdma_create_qp(half->id, NULL, &attr), 0);
    half->mr = ibv_reg_mr(half->id->pd, half->buffer, sizeof half->buffer, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(half->mr);
}

static void establish(struct talk *talk)
{
    struct rdma_conn_param wanted = { .private_data = "question",
                                      .private_data_len = 9,
                                      .responder_resources = 2,
                                      .initiator_depth = 3,
                                      .retry_count = 200, /* the field has only three bits */
                                      .rnr_retry_count = 8 };
    struct rdma_conn_param granted = { .private_data = "answer",
                                       .private_data_len = 7,
                                       .responder_resources = 3,
                                       .initiator_depth = 2,
                                       .rnr_retry_count = 6 };

    make_queue_pair(&talk->client);
    assert_int_equal(rdma_connect(talk->client.id, &wanted), 0);
    struct rdma_cm_event request = expect(&talk->server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    assert_ptr_equal(request.listen_id, talk->listener);
    assert_int_equal(request.param.conn.private_data_len, REQ_ROOM);
    assert_int_equal(request.param.conn.responder_resources, 3);
    assert_int_equal(request.param.conn.initiator_depth, 2);
    assert_int_equal(request.param.conn.retry_count, 7);
    assert_int_equal(request.param.conn.rnr_retry_count, 7);
    talk->server.id = request.id;
    assert_non_null(request.id->verbs);
    make_queue_pair(&talk->server);
    assert_int_equal(rdma_accept(talk->server.id, &granted), 0);
    struct rdma_cm_event done = expect(&talk->client, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_int_equal(done.param.conn.private_data_len, REP_ROOM);
    expect(&talk->server, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void transfer(struct half *from, struct half *to)
{
    struct ibv_sge into = { (uintptr_t)to->buffer, sizeof to->buffer, to->mr->lkey };
    struct ibv_sge out = { (uintptr_t)from->buffer, sizeof TEXT, from->mr->lkey };
    struct ibv_recv_wr recv = { .wr_id = 1, .sg_list = &into, .num_sge = 1 }, *bad_recv;
    struct ibv_send_wr send = { .wr_id = 2,
                                .sg_list = &out,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad_send;

    memcpy(from->buffer, TEXT, sizeof TEXT);
    assert_int_equal(ibv_post_recv(to->id->qp, &recv, &bad_recv), 0);
    assert_int_equal(ibv_post_send(from->id->qp, &send, &bad_send), 0);
    assert_int_equal(api_wait(to->cq).status, IBV_WC_SUCCESS);
    assert_int_equal(api_wait(from->cq).status, IBV_WC_SUCCESS);
    assert_string_equal(to->buffer, TEXT);
}

static void drop(struct half *half)
{
    if (half->cq != NULL) {
        rdma_destroy_qp(half->id);
        assert_int_equal(ibv_dereg_mr(half->mr), 0);
        assert_int_equal(ibv_destroy_cq(half->cq), 0);
    }
    if (half->id != NULL)
        assert_int_equal(rdma_destroy_id(half->id), 0);
}

static void finish(struct talk *talk)
{
    drop(&talk->client);
    drop(&talk->server);
    assert_int_equal(rdma_destroy_id(talk->listener), 0);
    rdma_destroy_event_channel(talk->server.channel);
    if (talk->client.channel != NULL)
        rdma_destroy_event_channel(talk->client.channel);
}

static void disconnect(struct talk *talk)
{
    assert_int_equal(rdma_disconnect(talk->client.id), 0);
    expect(&talk->server, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect(&talk->client, RDMA_CM_EVENT_DISCONNECTED, 0);
    assert_int_equal(rdma_disconnect(talk->server.id), 0);
}

static void rdma_cm__steps_of_the_tutorial__connect_transfer_and_disconnect(void **state)
{
    struct talk talk = { 0 };
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    (void)state;
    listen_at(&talk, "10.0.0.1");
    resolve(&talk);
    establish(&talk);
    assert_int_equal(ibv_query_qp(talk.client.id->qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.max_rd_atomic, 3);
    assert_int_equal(attr.max_dest_rd_atomic, 2);
    assert_int_equal(attr.rnr_retry, 6);
    transfer(&talk.client, &talk.server);
    transfer(&talk.server, &talk.client);
    disconnect(&talk);
    finish(&talk);
}

/* Connects with the ACK timeout @wanted, and returns the timeout of the client's queue pair. */
static uint8_t timeout_with(uint8_t wanted)
{
    struct talk talk = { 0 };
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    listen_at(&talk, "10.0.0.1");
    resolve(&talk);
    assert_int_equal(rdma_set_option(talk.client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
                                     &wanted, sizeof wanted),
                     0);
    establish(&talk);
    assert_int_equal(ibv_query_qp(talk.client.id->qp, &attr, IBV_QP_TIMEOUT, &init), 0);
    disconnect(&talk);
    finish(&talk);
    return attr.timeout;
}

static void ack_timeout__set_on_the_id__is_that_of_the_queue_pair(void **state)
{
    (void)state;
    assert_int_equal(timeout_with(9), 9);
}

static void ack_timeout__of_0__disables_the_timer(void **state)
{
    (void)state;
    assert_int_equal(timeout_with(0), 0);
}

static void notify__connection_already_established__is_eisconn(void **state)
{
    struct talk talk = { 0 };

    (void)state;
    listen_at(&talk, "10.0.0.1");
    resolve(&talk);
    establish(&talk);
    errno = 0;
    assert_int_equal(rdma_notify(talk.server.id, IBV_EVENT_COMM_EST), -1);
    assert_int_equal(errno, EISCONN);
    disconnect(&talk);
    finish(&talk);
}

static unsigned descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        count++;
    closedir(dir);
    return count;
}

static void cycle(void)
{
    struct talk talk = { 0 };

    listen_at(&talk, "10.0.0.1");
    resolve(&talk);
    establish(&talk);
    transfer(&talk.client, &talk.server);
    disconnect(&talk);
    finish(&talk);
}

static void connections__many__leave_no_descriptor_and_no_memory(void **state)
{
    (void)state;
    for (unsigned i = 0; i < WARM_UP; i++)
        cycle();
    unsigned before = descriptors();
    size_t used = mallinfo2().uordblks;
    for (unsigned i = 0; i < CYCLES; i++)
        cycle();
    assert_int_equal(descriptors(), before);
    /* Heap overhead may grow by less than one small object for each cycle. */
    assert_in_range(mallinfo2().uordblks, 0, used + CYCLES * 8);
}

static void *connect_often(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < CYCLES / 10; i++)
        cycle();
    return NULL;
}

static void threads__each_with_its_channels__connect_at_once(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, connect_often, NULL), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void connect__no_listener__event_is_rejected(void **state)
{
    struct talk talk = { 0 };
    struct rdma_conn_param wanted = { .retry_count = 1 };

    (void)state;
    listen_at(&talk, "10.0.0.1");
    assert_int_equal(rdma_destroy_id(talk.listener), 0);
    resolve(&talk);
    make_queue_pair(&talk.client);
    assert_int_equal(rdma_connect(talk.client.id, &wanted), 0);
    expect(&talk.client, RDMA_CM_EVENT_REJECTED, 8);
    assert_int_equal(rdma_create_id(talk.server.channel, &talk.listener, NULL, RDMA_PS_TCP), 0);
    finish(&talk);
}

static void reject__with_private_data__data_arrives(void **state)
{
    struct talk talk = { 0 };
    struct rdma_conn_param wanted = { .retry_count = 1 };
    struct rdma_cm_event *event;
    char data[REJ_ROOM + 1] = "no";

    (void)state;
    listen_at(&talk, "10.0.0.1");
    resolve(&talk);
    make_queue_pair(&talk.client);
    assert_int_equal(rdma_connect(talk.client.id, &wanted), 0);
    talk.server.id = expect(&talk.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0).id;
    errno = 0;
    assert_int_equal(rdma_reject(talk.server.id, data, REJ_ROOM + 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_reject(talk.server.id, data, REJ_ROOM), 0);
    assert_int_equal(rdma_get_cm_event(talk.client.channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(event->status, 28);
    assert_string_equal(event->param.conn.private_data, "no");
    rdma_ack_cm_event(event);
    finish(&talk);
}

static void datagrams__service_resolved__datagrams_reach_its_qp(void **state)
{
    struct talk talk = { 0 };
    uint8_t data[SIDR_REQ_ROOM + 1] = "where?";
    struct rdma_conn_param param = { .private_data = data, .private_data_len = sizeof data };

    (void)state;
    listen_in(&talk, RDMA_PS_UDP, "10.0.0.1");
    resolve_in(&talk, RDMA_PS_UDP);
    make_queue_pair(&talk.client);
    errno = 0;
    assert_int_equal(rdma_connect(talk.client.id, &param), -1);
    assert_int_equal(errno, EINVAL);
    param.private_data_len = SIDR_REQ_ROOM;
    assert_int_equal(rdma_connect(talk.client.id, &param), 0);
    struct rdma_cm_event request = expect(&talk.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    assert_int_equal(request.param.ud.private_data_len, SIDR_REQ_ROOM);
    talk.server.id = request.id;
    make_queue_pair(&talk.server);
    param = (struct rdma_conn_param){ .private_data = data,
                                      .private_data_len = SIDR_REP_ROOM + 1,
                                      .qp_num = talk.server.id->qp->qp_num };
    errno = 0;
    assert_int_equal(rdma_accept(talk.server.id, &param), -1);
    assert_int_equal(errno, EINVAL);
    param.private_data_len = SIDR_REP_ROOM;
    assert_int_equal(rdma_accept(talk.server.id, &param), 0);
    struct rdma_cm_event answer = expect(&talk.client, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_int_equal(answer.param.ud.qp_num, talk.server.id->qp->qp_num);
    assert_int_equal(answer.param.ud.qkey, 0x01234567);
    struct ibv_ah *ah = ibv_create_ah(talk.client.id->pd, &answer.param.ud.ah_attr);
    assert_non_null(ah);
    ibv_destroy_ah(ah);
    finish(&talk);
}

static void datagrams__service_rejects__private_data_arrives(void **state)
{
    struct talk talk = { 0 };
    struct rdma_conn_param param = { 0 };
    struct rdma_cm_event *event;
    char data[SIDR_REP_ROOM] = "full up";

    (void)state;
    listen_in(&talk, RDMA_PS_UDP, "10.0.0.1");
    resolve_in(&talk, RDMA_PS_UDP);
    assert_int_equal(rdma_connect(talk.client.id, &param), 0);
    talk.server.id = expect(&talk.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0).id;
    assert_int_equal(rdma_reject(talk.server.id, data, sizeof data), 0);
    assert_int_equal(rdma_get_cm_event(talk.client.channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_UNREACHABLE);
    assert_int_equal(event->status, 2); /* rejected */
    assert_int_equal(event->param.ud.private_data_len, sizeof data);
    assert_string_equal(event->param.ud.private_data, data);
    rdma_ack_cm_event(event);
    finish(&talk);
}

/* A descriptor is readable if, and only if, its channel has an event. */
static void channel__is_polled_like_a_descriptor__and_may_be_nonblocking(void **state)
{
    struct talk talk = { 0 };
    struct rdma_cm_event *event;

    (void)state;
    listen_at(&talk, "10.0.0.1");
    int fd = talk.server.channel->fd;
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
    assert_int_equal(poll(&ready, 1, 0), 0);
    errno = 0;
    assert_int_equal(rdma_get_cm_event(talk.server.channel, &event), -1);
    assert_int_equal(errno, EAGAIN);
    resolve(&talk);
    make_queue_pair(&talk.client);
    struct rdma_conn_param wanted = { .retry_count = 1 };
    assert_int_equal(rdma_connect(talk.client.id, &wanted), 0);
    assert_int_equal(poll(&ready, 1, -1), 1);
    talk.server.id = expect(&talk.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0).id;
    assert_int_equal(poll(&ready, 1, 0), 0);
    finish(&talk);
}

static void migrate_id__unfetched_events__move_to_the_new_channel(void **state)
{
    struct talk talk = { 0 };
    struct rdma_conn_param wanted = { .retry_count = 1 };
    struct rdma_event_channel *other = rdma_create_event_channel();
    struct pollfd ready = { .events = POLLIN };

    (void)state;
    listen_at(&talk, "10.0.0.1");
    resolve(&talk);
    make_queue_pair(&talk.client);
    assert_int_equal(rdma_connect(talk.client.id, &wanted), 0);
    ready.fd = talk.server.channel->fd;
    assert_int_equal(poll(&ready, 1, -1), 1);
    assert_int_equal(rdma_migrate_id(talk.listener, other), 0);
    assert_int_equal(poll(&ready, 1, 0), 0);
    rdma_destroy_event_channel(talk.server.channel);
    talk.server.channel = other;
    talk.server.id = expect(&talk.server, RDMA_CM_EVENT_CONNECT_REQUEST, 0).id;
    assert_ptr_equal(talk.server.id->channel, other);
    finish(&talk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rdma_cm__steps_of_the_tutorial__connect_transfer_and_disconnect),
        cmocka_unit_test(ack_timeout__set_on_the_id__is_that_of_the_queue_pair),
        cmocka_unit_test(ack_timeout__of_0__disables_the_timer),
        cmocka_unit_test(notify__connection_already_established__is_eisconn),
        cmocka_unit_test(connections__many__leave_no_descriptor_and_no_memory),
        cmocka_unit_test(threads__each_with_its_channels__connect_at_once),
        cmocka_unit_test(connect__no_listener__event_is_rejected),
        cmocka_unit_test(reject__with_private_data__data_arrives),
        cmocka_unit_test(datagrams__service_resolved__datagrams_reach_its_qp),
        cmocka_unit_test(datagrams__service_rejects__private_data_arrives),
        cmocka_unit_test(channel__is_polled_like_a_descriptor__and_may_be_nonblocking),
        cmocka_unit_test(migrate_id__unfetched_events__move_to_the_new_channel),
    };
    return API_RUN(tests);
}
