/* SPDX-License-Identifier: BSD-3-Clause */
/* test_engines_link.c - tests two devices with three engines each. The engines of a device share
 * one port. The argument is the link: memif, af_packet or af_xdp.
 */
#include "api/engines.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEVICES  2
#define MAC      "02:00:00:00:00:77" /* of both devices over memif, as on two ipvlan interfaces */
#define WRITES   1500u               /* of each thread */
#define WINDOW   16u
#define PIECE    4000u /* bytes of a WRITE */
#define EXCHANGE 300u  /* messages each way between two threads that sleep */

static struct api api[DEVICES];

static int open_devices(void **state)
{
    (void)state;
    api[0] = api_open_device("uroce0");
    api[1] = api_open_device("uroce1");
    return 0;
}

static int close_devices(void **state)
{
    (void)state;
    api_close_device(&api[0]);
    api_close_device(&api[1]);
    return 0;
}

#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, open_devices, close_devices)

/* Returns the attributes of a queue pair of device @from that is connected to a queue pair of the
 * other device. */
static struct ibv_qp_attr attr_between(int from, uint32_t peer)
{
    struct ibv_qp_attr attr = api_attr(&api[from], peer);

    assert_int_equal(
        ibv_query_gid(api[1 - from].context, API_PORT, API_GID, &attr.ah_attr.grh.dgid), 0);
    return attr;
}

/* Connects an RC queue pair of device @from. */
static void connect_from(int from, struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr attr = attr_between(from, peer);

    attr.qp_state = IBV_QPS_INIT;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_INIT), 0);
    attr.qp_state = IBV_QPS_RTR;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTR), 0);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTS), 0);
}

/* Opens sides on engine @one of the first device and engine @other of the second. */
static void open_pair(struct pair *pair, int one, int other, enum ibv_qp_type type)
{
    struct ibv_cq *cqs[DEVICES] = { engines_cq_of(&api[0], one), engines_cq_of(&api[1], other) };

    api_side_open_with(&api[0], &pair->a, cqs[0], cqs[0], type, NULL);
    api_side_open_with(&api[1], &pair->b, cqs[1], cqs[1], type, NULL);
    assert_int_equal(engines_prefix_of(pair->a.qp), one + 1);
    assert_int_equal(engines_prefix_of(pair->b.qp), other + 1);
    if (type != IBV_QPT_RC)
        return;
    connect_from(0, pair->a.qp, pair->b.qp->qp_num);
    connect_from(1, pair->b.qp, pair->a.qp->qp_num);
}

static void close_pair(struct pair *pair)
{
    engines_close_side(&pair->a);
    engines_close_side(&pair->b);
    engines_destroy_cq(pair->a.cq);
    engines_destroy_cq(pair->b.cq);
}

static void queue_pairs__of_any_two_engines__exchange_data(void **state)
{
    static struct pair pair;

    (void)state;
    for (int i = 0; i < ENGINES * ENGINES; i++) {
        open_pair(&pair, i / ENGINES, i % ENGINES, IBV_QPT_RC);
        engines_send_once(&pair.a, pair.a.cq, &pair.b, (uint8_t)(0x10 + i));
        engines_send_once(&pair.b, pair.b.cq, &pair.a, (uint8_t)(0x20 + i));
        engines_write_to(&pair.a, pair.b.mr);
        engines_move(&pair.b, IBV_WR_RDMA_READ, pair.a.mr, IBV_WC_SUCCESS);
        close_pair(&pair);
    }
}

/* Each engine resolves the next hop itself. */
static void datagrams__of_any_two_engines__arrive(void **state)
{
    const struct ibv_qp_attr peer = attr_between(0, 0);
    struct ibv_ah_attr ah_attr = peer.ah_attr;
    struct ibv_ah *ah = ibv_create_ah(api[0].pd, &ah_attr);
    static struct pair pair;

    (void)state;
    assert_non_null(ah);
    for (int i = 0; i < ENGINES * ENGINES; i++) {
        open_pair(&pair, i / ENGINES, i % ENGINES, IBV_QPT_UD);
        assert_int_equal(api_go(&api[0], pair.a.qp, IBV_QPS_INIT, 0), 0);
        assert_int_equal(api_go(&api[0], pair.a.qp, IBV_QPS_RTR, 0), 0);
        assert_int_equal(api_go(&api[0], pair.a.qp, IBV_QPS_RTS, 0), 0);
        assert_int_equal(api_go(&api[1], pair.b.qp, IBV_QPS_INIT, 0), 0);
        assert_int_equal(api_go(&api[1], pair.b.qp, IBV_QPS_RTR, 0), 0);
        struct ibv_sge source = api_sge(&pair.a, 0, 100), target = api_sge(&pair.b, 0, 200);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = pair.b.qp->qp_num;
        wr.wr.ud.remote_qkey = API_QKEY;
        memset(pair.a.buffer, 0x30 + i, 100);
        assert_int_equal(api_post_recv(&pair.b, 2, &target), 0);
        assert_int_equal(api_post_send(&pair.a, &wr), 0);
        api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
        api_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
        assert_int_equal(pair.b.buffer[139], 0x30 + i);
        close_pair(&pair);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* ---- groups ------------------------------------------------------------------ */

static const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };

static void join_group(int device, struct ibv_qp *qp)
{
    assert_int_equal(api_go(&api[device], qp, IBV_QPS_INIT, 0), 0);
    assert_int_equal(api_go(&api[device], qp, IBV_QPS_RTR, 0), 0);
    assert_int_equal(api_go(&api[device], qp, IBV_QPS_RTS, 0), 0);
    assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
}

/* The sender is a member, too. */
static void datagram_to_a_group__members_on_all_engines__each_gets_it_once(void **state)
{
    static struct pair pairs[ENGINES];
    struct ibv_ah_attr ah_attr = attr_between(0, 0).ah_attr;
    struct ibv_wc none;

    (void)state;
    ah_attr.grh.dgid = group;
    struct ibv_ah *ah = ibv_create_ah(api[0].pd, &ah_attr);
    assert_non_null(ah);
    for (int i = 0; i < ENGINES; i++) {
        open_pair(&pairs[i], i, i, IBV_QPT_UD);
        join_group(0, pairs[i].a.qp);
        join_group(1, pairs[i].b.qp);
    }
    for (int from = 0; from < ENGINES; from++) {
        struct ibv_sge source = api_sge(&pairs[from].a, 4096, 100);
        struct ibv_send_wr wr = api_send(IBV_WR_SEND, &source);
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = 0xffffff;
        wr.wr.ud.remote_qkey = API_QKEY;
        for (int i = 0; i < ENGINES; i++) {
            struct ibv_sge a = api_sge(&pairs[i].a, 0, 200), b = api_sge(&pairs[i].b, 0, 200);
            assert_int_equal(api_post_recv(&pairs[i].a, 2, &a), 0);
            assert_int_equal(api_post_recv(&pairs[i].b, 2, &b), 0);
        }
        assert_int_equal(api_post_send(&pairs[from].a, &wr), 0);
        api_expect(pairs[from].b.cq, 2, IBV_WC_SUCCESS);
        for (int i = 0; i < ENGINES; i++) {
            if (i != from) {
                api_expect(pairs[i].a.cq, 2, IBV_WC_SUCCESS);
                api_expect(pairs[i].b.cq, 2, IBV_WC_SUCCESS);
            }
            assert_int_equal(ibv_poll_cq(pairs[i].b.cq, 1, &none), 0);
        }
        struct ibv_wc one = api_wait(pairs[from].a.cq), two = api_wait(pairs[from].a.cq);
        assert_int_equal(one.status, IBV_WC_SUCCESS);
        assert_int_equal(two.status, IBV_WC_SUCCESS);
        assert_int_equal(one.wr_id + two.wr_id, 3);
    }
    for (int i = 0; i < ENGINES; i++) {
        assert_int_equal(ibv_detach_mcast(pairs[i].a.qp, &group, 0), 0);
        assert_int_equal(ibv_detach_mcast(pairs[i].b.qp, &group, 0), 0);
        close_pair(&pairs[i]);
    }
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* ---- threads ----------------------------------------------------------------- */

struct writer {
    struct pair pair;
    unsigned failed;
};

/* Writes alternately to both halves of the peer's buffer. */
static void *write_all(void *argument)
{
    struct writer *writer = argument;
    struct side *from = &writer->pair.a;
    unsigned posted = 0, done = 0;

    while (done < WRITES) {
        while (posted < WRITES && posted - done < WINDOW) {
            struct ibv_sge sge = api_sge(from, posted % 2 * 4096, PIECE);
            struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &sge), *bad;
            wr.wr.rdma.remote_addr = (uintptr_t)writer->pair.b.buffer + posted % 2 * 4096;
            wr.wr.rdma.rkey = writer->pair.b.mr->rkey;
            writer->failed += ibv_post_send(from->qp, &wr, &bad) != 0;
            posted++;
        }
        struct ibv_wc wc;
        if (ibv_poll_cq(from->cq, 1, &wc) != 1) {
            (void)sched_yield();
            continue;
        }
        writer->failed += wc.status != IBV_WC_SUCCESS;
        done++;
    }
    return NULL;
}

/* Engine i writes to engine 2 - i, so that most frames are for another engine than the first. */
static void threads__each_writes_from_its_engine__all_data_arrives(void **state)
{
    static struct writer writers[ENGINES];
    pthread_t threads[ENGINES];

    (void)state;
    for (int i = 0; i < ENGINES; i++) {
        open_pair(&writers[i].pair, i, ENGINES - 1 - i, IBV_QPT_RC);
        memset(writers[i].pair.a.buffer, 0x50 + i, API_BUFFER);
        writers[i].failed = 0;
    }
    for (int i = 0; i < ENGINES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_all, &writers[i]), 0);
    for (int i = 0; i < ENGINES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(writers[i].failed, 0);
        assert_memory_equal(writers[i].pair.b.buffer, writers[i].pair.a.buffer, PIECE);
        assert_memory_equal(writers[i].pair.b.buffer + 4096, writers[i].pair.a.buffer, PIECE);
        close_pair(&writers[i].pair);
    }
}

/* Sends in response to each message, and sleeps until the next message. @first: sends first. */
struct sleeper {
    struct side *side;
    struct ibv_comp_channel *channel;
    bool first;
    unsigned failed;
};

static void send_again(struct sleeper *sleeper)
{
    struct ibv_sge sge = api_sge(sleeper->side, 0, 64);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &sge), *bad;

    sleeper->failed += ibv_post_send(sleeper->side->qp, &wr, &bad) != 0;
}

static void receive_again(struct sleeper *sleeper)
{
    struct ibv_sge sge = api_sge(sleeper->side, 4096, 64);
    struct ibv_recv_wr wr = { .wr_id = 2, .sg_list = &sge, .num_sge = 1 }, *bad;

    sleeper->failed += ibv_post_recv(sleeper->side->qp, &wr, &bad) != 0;
}

static void *exchange(void *argument)
{
    struct sleeper *sleeper = argument;
    unsigned sent = 0, received = 0, completed = 0;

    if (sleeper->first) {
        send_again(sleeper);
        sent++;
    }
    while (received < EXCHANGE || completed < EXCHANGE) {
        struct ibv_wc wc;
        struct ibv_cq *cq;
        void *context;
        (void)ibv_req_notify_cq(sleeper->side->cq, 0);
        int count = ibv_poll_cq(sleeper->side->cq, 1, &wc);
        if (count == 0) {
            sleeper->failed += ibv_get_cq_event(sleeper->channel, &cq, &context) != 0;
            ibv_ack_cq_events(cq, 1);
            continue;
        }
        sleeper->failed += count != 1 || wc.status != IBV_WC_SUCCESS;
        completed += wc.wr_id == 1;
        if (wc.wr_id != 2)
            continue;
        received++;
        receive_again(sleeper);
        if (sent < EXCHANGE) {
            send_again(sleeper);
            sent++;
        }
    }
    return NULL;
}

/* If a wake-up is lost, meson's timeout ends the test. */
static void two_threads_that_sleep__on_other_engines_than_the_first__exchange_messages(void **state)
{
    static struct pair pair;
    struct sleeper sleepers[DEVICES] = { { .side = &pair.a, .first = true }, { .side = &pair.b } };
    pthread_t threads[DEVICES];

    (void)state;
    for (int i = 0; i < DEVICES; i++) {
        sleepers[i].channel = ibv_create_comp_channel(api[i].context);
        assert_non_null(sleepers[i].channel);
        struct ibv_cq *cq = ibv_create_cq(api[i].context, 64, NULL, sleepers[i].channel, 2 - i);
        assert_non_null(cq);
        api_side_open_with(&api[i], sleepers[i].side, cq, cq, IBV_QPT_RC, NULL);
    }
    for (int i = 0; i < DEVICES; i++) {
        connect_from(i, sleepers[i].side->qp, sleepers[1 - i].side->qp->qp_num);
        receive_again(&sleepers[i]);
        receive_again(&sleepers[i]);
    }
    for (int i = 0; i < DEVICES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, &sleepers[i]), 0);
    for (int i = 0; i < DEVICES; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(sleepers[i].failed, 0);
    }
    for (int i = 0; i < DEVICES; i++) {
        engines_close_side(sleepers[i].side);
        engines_destroy_cq(sleepers[i].side->cq);
        assert_int_equal(ibv_destroy_comp_channel(sleepers[i].channel), 0);
    }
}

/* ---- the devices ------------------------------------------------------------- */

/* Sets UROCE_DEVICES. Returns false if this machine does not support the link. */
static bool name_devices(const char *link)
{
    char text[256];

    if (strcmp(link, "memif") == 0)
        (void)snprintf(
            text, sizeof text,
            "uroce0:net_memif0,role=server,socket=@engines-%u;ip=10.1.0.1/24;engines=%u;"
            "mac=" MAC
            " uroce1:net_memif1,role=client,socket=@engines-%u;ip=10.1.0.2/24;engines=%u;"
            "mac=" MAC,
            (unsigned)getpid(), ENGINES, (unsigned)getpid(), ENGINES);
    else
        (void)snprintf(text, sizeof text,
                       "uroce0:net_%s0,iface=one;ip=10.1.0.1/24;engines=%u "
                       "uroce1:net_%s1,iface=other;ip=10.1.0.2/24;engines=%u",
                       link, ENGINES, link, ENGINES);
    (void)setenv("UROCE_DEVICES", text, 1);
    if (strcmp(link, "memif") == 0)
        return true;
    if (geteuid() == 0 && unshare(CLONE_NEWNET) == 0 &&
        system("ip link add one mtu 1500 type veth peer name other mtu 1500 && "
               "ip link set one up && ip link set other up") == 0)
        return true;
    puts("NOT TESTED: creating a network namespace with interfaces needs root and ip");
    return false;
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        LINK_TEST(queue_pairs__of_any_two_engines__exchange_data),
        LINK_TEST(datagrams__of_any_two_engines__arrive),
        LINK_TEST(datagram_to_a_group__members_on_all_engines__each_gets_it_once),
        LINK_TEST(threads__each_writes_from_its_engine__all_data_arrives),
        LINK_TEST(two_threads_that_sleep__on_other_engines_than_the_first__exchange_messages),
    };

    if (!name_devices(count > 1 ? words[1] : "memif"))
        return API_SKIPPED;
    return cmocka_run_group_tests_name(words[0], tests, NULL, NULL);
}
