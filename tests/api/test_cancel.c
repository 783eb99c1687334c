/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cancel.c - tests pthread_cancel() of threads that call verbs while messages flow between two
 * devices of this process.
 *
 * The first argument names the link between the devices. A cancelled thread must end at a
 * cancellation point of the test, or in a wait for events, but in no other call. The messages must
 * continue. If a thread ends in another call, the test prints the call and aborts.
 */
#include "api/cancel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sched.h>
#include <unistd.h>

#define CAPACITY    64
#define OUTSTANDING 8u
#define OCTETS      256u
#define VETH                                                                                       \
    "ip link set lo up && ip link add one type veth peer name other && "                           \
    "ip link set one mtu %u up && ip link set other mtu %u up"

struct cancel_devices cancel_devices;
_Thread_local const char *volatile cancel_inside;

static struct {
    struct ibv_comp_channel *channel; /* completion channel of the receiver */
    struct ibv_cq *cqs[2];
    struct ibv_qp *qps[2];
    struct ibv_mr *mrs[2];
    uint8_t buffers[2][OCTETS];
    pthread_mutex_t posting; /* held to post a receive and then its send */
    unsigned posted;
    atomic_uint sent, arrived;
} traffic = { .posting = PTHREAD_MUTEX_INITIALIZER };

/* An extended queue pair that writes to the receiver's memory, and its completion queue. */
static struct {
    struct ibv_cq_ex *cq;
    struct ibv_qp_ex *qp;
    struct ibv_qp *peer;
    unsigned open;
} ex;

/* ---- messages ------------------------------------------------------------ */

static void take(int side)
{
    struct ibv_wc wc[4];
    int count = CANCEL_CALL(ibv_poll_cq(traffic.cqs[side], 4, wc));

    CANCEL_MUST(count >= 0);
    for (int i = 0; i < count; i++) {
        CANCEL_MUST(wc[i].status == IBV_WC_SUCCESS);
        atomic_fetch_add(side == 0 ? &traffic.sent : &traffic.arrived, 1);
    }
}

static void post_message(void)
{
    struct ibv_sge from = { (uintptr_t)traffic.buffers[0], OCTETS, traffic.mrs[0]->lkey };
    struct ibv_sge to = { (uintptr_t)traffic.buffers[1], OCTETS, traffic.mrs[1]->lkey };
    struct ibv_recv_wr recv = { .sg_list = &to, .num_sge = 1 }, *bad_recv;
    struct ibv_send_wr send = { .sg_list = &from,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED },
                       *bad_send;

    CANCEL_MUST(CANCEL_CALL(ibv_post_recv(traffic.qps[1], &recv, &bad_recv)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_post_send(traffic.qps[0], &send, &bad_send)) == 0);
}

static void post_one(void)
{
    (void)pthread_mutex_lock(&traffic.posting);
    const bool room = traffic.posted - atomic_load(&traffic.sent) < OUTSTANDING &&
                      traffic.posted - atomic_load(&traffic.arrived) < OUTSTANDING;
    if (room) {
        post_message();
        traffic.posted++;
    }
    (void)pthread_mutex_unlock(&traffic.posting);
}

/* ---- what the threads do ------------------------------------------------- */

static void poll_both(void)
{
    take(0);
    take(1);
}

/* Sends one more message in this thread, and waits until this message and all earlier messages have
 * arrived. */
static void exchange(void)
{
    for (unsigned before = traffic.posted; traffic.posted == before; poll_both())
        post_one();
    while (atomic_load(&traffic.sent) != traffic.posted ||
           atomic_load(&traffic.arrived) != traffic.posted)
        poll_both();
}

static void post_and_poll(void)
{
    post_one();
    poll_both();
}

static void post_extended(void)
{
    struct ibv_poll_cq_attr none = { 0 };

    CANCEL_CALL((ibv_wr_start(ex.qp), 0));
    ex.qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex.qp, traffic.mrs[1]->rkey, (uintptr_t)traffic.buffers[1]);
    ibv_wr_set_sge(ex.qp, traffic.mrs[0]->lkey, (uintptr_t)traffic.buffers[0], OCTETS);
    CANCEL_MUST(CANCEL_CALL(ibv_wr_complete(ex.qp)) == 0);
    while (CANCEL_CALL(ibv_start_poll(ex.cq, &none)) != 0)
        ;
    CANCEL_MUST(ex.cq->status == IBV_WC_SUCCESS);
    CANCEL_CALL((ibv_end_poll(ex.cq), 0));
}

/* The loop of rping, which many programs copy. */
static void wait_for_completion(void)
{
    struct ibv_cq *cq;
    void *context;

    CANCEL_MUST(CANCEL_WAIT(ibv_get_cq_event(traffic.channel, &cq, &context)) == 0 &&
                cq == traffic.cqs[1]);
    CANCEL_MUST(CANCEL_CALL(ibv_req_notify_cq(cq, 0)) == 0);
    for (unsigned before = atomic_load(&traffic.arrived) - 1;
         before != atomic_load(&traffic.arrived);) {
        before = atomic_load(&traffic.arrived);
        take(1);
    }
    CANCEL_CALL((ibv_ack_cq_events(cq, 1), 0));
}

static void wait_for_async_event(void)
{
    struct ibv_async_event event;

    CANCEL_MUST(CANCEL_WAIT(ibv_get_async_event(cancel_devices.contexts[1], &event)) ==
                0); /* few links raise asynchronous events */
    CANCEL_CALL((ibv_ack_async_event(&event), 0));
}

static void make_queue_pair(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
    struct ibv_qp_init_attr init = { .send_cq = cq,
                                     .recv_cq = cq,
                                     .srq = srq,
                                     .cap = { .max_send_wr = 4, .max_send_sge = 1 },
                                     .qp_type = IBV_QPT_RC };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = API_PORT };
    struct ibv_qp *qp = CANCEL_CALL(ibv_create_qp(pd, &init));

    CANCEL_MUST(qp != NULL);
    CANCEL_MUST(CANCEL_CALL(ibv_modify_qp(qp, &attr, API_TO_INIT)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)) == 0);
    attr.qp_state = IBV_QPS_ERR;
    CANCEL_MUST(CANCEL_CALL(ibv_modify_qp(qp, &attr, IBV_QP_STATE)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_destroy_qp(qp)) == 0);
}

static void make_memory(struct ibv_context *context, struct ibv_pd *pd)
{
    struct ibv_alloc_dm_attr wanted = { .length = 64 };
    uint8_t octets[64];
    struct ibv_mr *mr = CANCEL_CALL(ibv_reg_mr(pd, octets, sizeof octets, IBV_ACCESS_LOCAL_WRITE));
    struct ibv_mw *mw = CANCEL_CALL(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
    struct ibv_dm *dm = CANCEL_CALL(ibv_alloc_dm(context, &wanted));

    CANCEL_MUST(mr != NULL && mw != NULL && dm != NULL);
    CANCEL_MUST(CANCEL_CALL(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_free_dm(dm)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_dealloc_mw(mw)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_dereg_mr(mr)) == 0);
}

static void make_and_destroy(void)
{
    struct ibv_context *context = cancel_devices.contexts[0];
    struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_comp_channel *channel = CANCEL_CALL(ibv_create_comp_channel(context));
    struct ibv_pd *pd = CANCEL_CALL(ibv_alloc_pd(context));
    struct ibv_cq *cq = CANCEL_CALL(ibv_create_cq(context, 4, NULL, channel, 0));
    struct ibv_srq *srq = CANCEL_CALL(ibv_create_srq(pd, &init));
    struct ibv_ah_attr way = cancel_devices.way.ah_attr;
    struct ibv_ah *ah = CANCEL_CALL(ibv_create_ah(pd, &way));

    CANCEL_MUST(channel != NULL && pd != NULL && cq != NULL && srq != NULL && ah != NULL);
    make_memory(context, pd);
    make_queue_pair(pd, cq, srq);
    CANCEL_MUST(CANCEL_CALL(ibv_resize_cq(cq, 16)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_destroy_ah(ah)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_destroy_srq(srq)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_destroy_cq(cq)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_dealloc_pd(pd)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_destroy_comp_channel(channel)) == 0);
}

static void open_and_close(void)
{
    struct ibv_device **list = CANCEL_CALL(ibv_get_device_list(NULL));
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    union ibv_gid gid;

    CANCEL_MUST(list != NULL);
    struct ibv_context *context = CANCEL_CALL(ibv_open_device(list[1]));
    CANCEL_MUST(context != NULL);
    CANCEL_MUST(CANCEL_CALL(ibv_query_device(context, &device)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_query_port(context, API_PORT, &port)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_query_gid(context, API_PORT, API_GID, &gid)) == 0);
    CANCEL_MUST(CANCEL_CALL(ibv_close_device(context)) == 0);
    CANCEL_CALL((ibv_free_device_list(list), 0));
}

/* ---- the tests ----------------------------------------------------------- */

static unsigned rounds(void)
{
    const char *asked = getenv("UROCE_CANCEL_ROUNDS");

    return asked != NULL ? (unsigned)strtoul(asked, NULL, 10) : 250;
}

static void cancel_often(void (*turn)(void))
{
    for (unsigned i = 0; i < rounds(); i++) {
        struct cancel_victim victim;

        cancel_start(&victim, turn);
        while (atomic_load(&victim.turns) < i % 5) {
            post_one();
            poll_both();
        }
        cancel_end(&victim);
        exchange();
    }
}

static void cancel__of_a_thread_that_polls__others_continue(void **state)
{
    (void)state;
    cancel_often(poll_both);
}

static void cancel__of_a_thread_that_posts__others_continue(void **state)
{
    (void)state;
    cancel_often(post_and_poll);
}

static void cancel__of_a_thread_that_posts_extended__others_continue(void **state)
{
    (void)state;
    cancel_often(post_extended);
}

static void cancel__of_a_thread_that_creates_objects__others_continue(void **state)
{
    (void)state;
    cancel_often(make_and_destroy);
}

static void cancel__of_a_thread_that_opens_devices__others_continue(void **state)
{
    (void)state;
    cancel_often(open_and_close);
}

static void cancel__of_a_thread_that_connects__others_continue(void **state)
{
    (void)state;
    cancel_often(cancel_cm_turn);
}

static void cancel__of_a_thread_that_waits_for_connections__others_continue(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds(); i++) {
        struct cancel_victim victim;

        cancel_start(&victim, cancel_cm_wait);
        for (unsigned events = 0; events < 1 + i % 3; events++)
            cancel_cm_raise();
        while (atomic_load(&victim.turns) < i % 3)
            exchange();
        cancel_end(&victim);
        exchange();
    }
    cancel_cm_take_rest();
}

static void cancel__of_a_thread_that_waits_for_async_events__others_continue(void **state)
{
    (void)state;
    for (unsigned i = 0; i < rounds(); i++) {
        struct cancel_victim victim;

        cancel_start(&victim, wait_for_async_event);
        exchange();
        cancel_end(&victim);
    }
    exchange();
}

/* No other thread takes the events, and a thread arms the CQ only after it got an event. So the
 * test would hang after a lost event. */
static void cancel__of_a_thread_that_waits_for_completions__loses_no_event(void **state)
{
    struct cancel_victim victim;

    (void)state;
    exchange();
    assert_int_equal(ibv_req_notify_cq(traffic.cqs[1], 0), 0);
    for (unsigned i = 0; i < 4 * rounds(); i++) {
        const unsigned arrived = atomic_load(&traffic.arrived);

        cancel_start(&victim, wait_for_completion);
        while (atomic_load(&traffic.arrived) - arrived < i % 5) {
            post_one();
            take(0);
        }
        cancel_end(&victim);
    }
    cancel_start(&victim, wait_for_completion);
    while (atomic_load(&traffic.arrived) != traffic.posted ||
           atomic_load(&traffic.sent) != traffic.posted)
        take(0);
    cancel_end(&victim);
}

/* ---- set-up -------------------------------------------------------------- */

static struct ibv_qp_ex *make_extended(const struct api *api)
{
    struct ibv_qp_init_attr_ex attr = { .send_cq = ibv_cq_ex_to_cq(ex.cq),
                                        .recv_cq = ibv_cq_ex_to_cq(ex.cq),
                                        .cap = { .max_send_wr = 16, .max_send_sge = 1 },
                                        .qp_type = IBV_QPT_RC,
                                        .comp_mask =
                                            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                        .pd = api->pd,
                                        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE };
    struct ibv_qp *qp = ibv_create_qp_ex(api->context, &attr);

    assert_non_null(qp);
    return ibv_qp_to_qp_ex(qp);
}

static void enter(const struct api *peer, struct ibv_qp *qp, uint32_t number)
{
    struct ibv_qp_attr attr = api_attr(peer, number);

    assert_int_equal(api_go(peer, qp, IBV_QPS_INIT, number), 0);
    assert_int_equal(api_go(peer, qp, IBV_QPS_RTR, number), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 18; /* 1 s with 7 retries, because the machine may be busy */
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTS), 0);
}

static void wait_until_up(struct ibv_context *context)
{
    struct ibv_port_attr port;

    do
        assert_int_equal(ibv_query_port(context, API_PORT, &port), 0);
    while (port.state != IBV_PORT_ACTIVE);
}

static void join(const struct api api[2])
{
    for (int i = 0; i < 2; i++)
        wait_until_up(api[i].context);
    for (int i = 0; i < 2; i++)
        enter(&api[!i], traffic.qps[i], traffic.qps[!i]->qp_num);
    enter(&api[0], ex.peer, ex.qp->qp_base.qp_num);
    enter(&api[1], &ex.qp->qp_base, ex.peer->qp_num);
    cancel_devices.way = api_attr(&api[1], 0);
}

static int open_all(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct api api[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        api[i] = (struct api){ .device = list[i], .context = ibv_open_device(list[i]) };
        api[i].pd = ibv_alloc_pd(api[i].context);
        cancel_devices.contexts[i] = api[i].context;
        traffic.mrs[i] = ibv_reg_mr(api[i].pd, traffic.buffers[i], OCTETS,
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        assert_non_null(traffic.mrs[i]);
        if (i == 1)
            traffic.channel = ibv_create_comp_channel(api[i].context);
        traffic.cqs[i] =
            ibv_create_cq(api[i].context, CAPACITY, NULL, i == 1 ? traffic.channel : NULL, 0);
        assert_non_null(traffic.cqs[i]);
        traffic.qps[i] = api_qp(&api[i], traffic.cqs[i]);
    }
    ibv_free_device_list(list);
    ex.cq = api_cq_ex(&api[0], CAPACITY, 0);
    ex.qp = make_extended(&api[0]);
    ex.peer = api_qp(&api[1], traffic.cqs[1]);
    join(api);
    cancel_cm_open();
    return 0;
}

static bool own_net(unsigned mtu)
{
    char interfaces[256];

    (void)snprintf(interfaces, sizeof interfaces, VETH, mtu, mtu);
    if (geteuid() == 0 && unshare(CLONE_NEWNET) == 0 && system(interfaces) == 0)
        return true;
    puts("NOT TESTED: creating a network namespace with interfaces needs root and ip");
    return false;
}

/* Sets UROCE_DEVICES. Returns false if this machine does not support the link. */
static bool name_devices(const char *link)
{
    char line[512], one[API_ADDRESS], other[API_ADDRESS];
    const unsigned pid = (unsigned)getpid();

    if (strcmp(link, "udp") == 0)
        (void)snprintf(line, sizeof line, "uroce0:udp,ip=%s,hub=no uroce1:udp,ip=%s,hub=no",
                       api_own_address(0, one), api_own_address(1, other));
    else if (strcmp(link, "memif") == 0)
        (void)snprintf(line, sizeof line,
                       "uroce0:net_memif0,role=server,socket=@cancel-%u;ip=10.1.0.1/24 "
                       "uroce1:net_memif1,role=client,socket=@cancel-%u;ip=10.1.0.2/24",
                       pid, pid);
    else
        (void)snprintf(
            line, sizeof line,
            "uroce0:net_%s0,iface=one;ip=10.1.0.1/24 uroce1:net_%s1,iface=other;ip=10.1.0.2/24",
            link, link);
    assert_int_equal(setenv("UROCE_DEVICES", line, 1), 0);
    return strncmp(link, "af_", 3) != 0 || own_net(strcmp(link, "af_xdp") == 0 ? 1500 : 4200);
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancel__of_a_thread_that_polls__others_continue),
        cmocka_unit_test(cancel__of_a_thread_that_posts__others_continue),
        cmocka_unit_test(cancel__of_a_thread_that_posts_extended__others_continue),
        cmocka_unit_test(cancel__of_a_thread_that_creates_objects__others_continue),
        cmocka_unit_test(cancel__of_a_thread_that_opens_devices__others_continue),
        cmocka_unit_test(cancel__of_a_thread_that_connects__others_continue),
        cmocka_unit_test(cancel__of_a_thread_that_waits_for_connections__others_continue),
        cmocka_unit_test(cancel__of_a_thread_that_waits_for_async_events__others_continue),
        cmocka_unit_test(cancel__of_a_thread_that_waits_for_completions__loses_no_event),
    };
    const char *problem;

    if (!name_devices(count > 1 ? words[1] : "udp"))
        return API_SKIPPED;
    problem = api_start_problem();
    if (problem[0] != '\0') {
        printf("NOT TESTED: the device does not start: %s\n", problem);
        return API_SKIPPED;
    }
    return cmocka_run_group_tests(tests, open_all, NULL);
}
