/* SPDX-License-Identifier: BSD-3-Clause */
/* test_address.c - tests that a device over UDP works while the kernel removes and restores its
 * interface and its address. Both sides are in this process. The process has its own network
 * namespace with a pair of interfaces: "one" has the address that is removed, "other" has the
 * peer's address.
 */
#include "api/api.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>

#define SIDES 2
#define CABLE                                                                                      \
    "ip link add one type veth peer name other && ip address add 10.1.0.1/24 dev one && "          \
    "ip address add 10.2.0.1/24 dev other && ip link set one up && ip link set other up"

struct stage {
    struct api sides[SIDES]; /* devices on "one" and on "other" */
    struct pair pair;        /* a belongs to the first device, b to the second */
};

static void run(const char *command)
{
    assert_int_equal(system(command), 0);
}

/* ---- two devices --------------------------------------------------------- */

static void open_side(struct api *api, struct ibv_device *device)
{
    api->device = device;
    api->context = ibv_open_device(device);
    assert_non_null(api->context);
    api->pd = ibv_alloc_pd(api->context);
    assert_non_null(api->pd);
}

static int open_stage(void **state)
{
    struct stage *stage = test_calloc(1, sizeof *stage);
    struct ibv_device **list = ibv_get_device_list(NULL);

    assert_non_null(list);
    for (int i = 0; i < SIDES; i++) {
        assert_non_null(list[i]);
        open_side(&stage->sides[i], list[i]);
    }
    ibv_free_device_list(list);
    api_side_open(&stage->sides[0], &stage->pair.a, NULL, IBV_QPT_RC, NULL);
    api_side_open(&stage->sides[1], &stage->pair.b, NULL, IBV_QPT_RC, NULL);
    *state = stage;
    return 0;
}

static int close_stage(void **state)
{
    struct stage *stage = *state;

    api_side_close(&stage->pair.a);
    api_side_close(&stage->pair.b);
    for (int i = 0; i < SIDES; i++) {
        assert_int_equal(ibv_dealloc_pd(stage->sides[i].pd), 0);
        assert_int_equal(ibv_close_device(stage->sides[i].context), 0);
    }
    test_free(stage);
    return 0;
}

#define LONG  18 /* ACK timeout of 1 s with 7 retries, because the machine may be busy */
#define SHORT 11 /* ACK timeout of 8 ms */

static void enter(const struct api *peer, struct ibv_qp *qp, uint32_t number, uint8_t timeout)
{
    struct ibv_qp_attr attr = api_attr(peer, number);

    assert_int_equal(api_go(peer, qp, IBV_QPS_INIT, number), 0);
    assert_int_equal(api_go(peer, qp, IBV_QPS_RTR, number), 0);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = timeout;
    assert_int_equal(ibv_modify_qp(qp, &attr, API_TO_RTS), 0);
}

/* Resets and connects both queue pairs, whatever their state. */
static void join(struct stage *stage, uint8_t timeout)
{
    struct ibv_qp *a = stage->pair.a.qp, *b = stage->pair.b.qp;

    assert_int_equal(api_go(&stage->sides[1], a, IBV_QPS_RESET, 0), 0);
    assert_int_equal(api_go(&stage->sides[0], b, IBV_QPS_RESET, 0), 0);
    enter(&stage->sides[0], b, a->qp_num, timeout);
    enter(&stage->sides[1], a, b->qp_num, timeout);
}

static enum ibv_wc_status send_from(struct side *from, struct side *to)
{
    struct ibv_sge source = api_sge(from, 0, 4096), sink = api_sge(to, 4096, 4096);
    struct ibv_send_wr send = api_send(IBV_WR_SEND, &source);

    assert_int_equal(api_post_recv(to, 2, &sink), 0);
    assert_int_equal(api_post_send(from, &send), 0);
    enum ibv_wc_status status = api_wait(from->cq).status;
    if (status == IBV_WC_SUCCESS)
        api_expect(to->cq, 2, IBV_WC_SUCCESS);
    return status;
}

static void talk(struct stage *stage)
{
    join(stage, LONG);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(send_from(&stage->pair.a, &stage->pair.b), IBV_WC_SUCCESS);
        assert_int_equal(send_from(&stage->pair.b, &stage->pair.a), IBV_WC_SUCCESS);
    }
}

/* ---- events of the program ----------------------------------------------- */

static enum ibv_port_state port_state(const struct api *api)
{
    struct ibv_port_attr attr;

    assert_int_equal(ibv_query_port(api->context, API_PORT, &attr), 0);
    return attr.state;
}

static void expect_port(const struct stage *stage, enum ibv_event_type type)
{
    const struct api *api = &stage->sides[0];
    struct ibv_async_event event;

    assert_int_equal(ibv_get_async_event(api->context, &event), 0);
    assert_string_equal(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
    assert_int_equal(event.element.port_num, API_PORT);
    ibv_ack_async_event(&event);
    assert_int_equal(port_state(api),
                     type == IBV_EVENT_PORT_ACTIVE ? IBV_PORT_ACTIVE : IBV_PORT_DOWN);
}

/* ---- the cases ----------------------------------------------------------- */

static void address__removed__requests_fail_until_the_address_is_back(void **state)
{
    struct stage *stage = *state;

    talk(stage);
    join(stage, SHORT);
    run("ip address del 10.1.0.1/24 dev one");
    expect_port(stage, IBV_EVENT_PORT_ERR);
    assert_int_equal(send_from(&stage->pair.a, &stage->pair.b), IBV_WC_RETRY_EXC_ERR);
    run("ip address add 10.1.0.1/24 dev one");
    expect_port(stage, IBV_EVENT_PORT_ACTIVE);
    talk(stage);
}

static void address__back_before_requests_fail__requests_succeed(void **state)
{
    struct stage *stage = *state;
    struct ibv_sge source = api_sge(&stage->pair.a, 0, 4096);
    struct ibv_sge sink = api_sge(&stage->pair.b, 4096, 4096);
    struct ibv_send_wr send = api_send(IBV_WR_SEND, &source);

    join(stage, LONG);
    assert_int_equal(api_post_recv(&stage->pair.b, 2, &sink), 0);
    run("ip address del 10.1.0.1/24 dev one");
    expect_port(stage, IBV_EVENT_PORT_ERR);
    assert_int_equal(api_post_send(&stage->pair.a, &send), 0);
    run("ip address add 10.1.0.1/24 dev one");
    expect_port(stage, IBV_EVENT_PORT_ACTIVE);
    api_expect(stage->pair.a.cq, 1, IBV_WC_SUCCESS);
    api_expect(stage->pair.b.cq, 2, IBV_WC_SUCCESS);
}

static void interface__down_and_up__raises_port_events(void **state)
{
    struct stage *stage = *state;

    talk(stage);
    run("ip link set one down");
    expect_port(stage, IBV_EVENT_PORT_ERR);
    run("ip link set one up");
    expect_port(stage, IBV_EVENT_PORT_ACTIVE);
    run("ip link set other down"); /* the cable is unplugged */
    expect_port(stage, IBV_EVENT_PORT_ERR);
    run("ip link set other up");
    expect_port(stage, IBV_EVENT_PORT_ACTIVE);
    talk(stage);
}

static void interface__renamed__is_followed(void **state)
{
    struct stage *stage = *state;

    talk(stage);
    run("ip link set one down");
    expect_port(stage, IBV_EVENT_PORT_ERR);
    run("ip link set one name three && ip link set three up");
    expect_port(stage, IBV_EVENT_PORT_ACTIVE);
    talk(stage);
}

/* ---- a group ------------------------------------------------------------- */

static const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 9, 8, 7 } };

static struct ibv_qp *datagram_qp(const struct api *api, struct side *side)
{
    api_side_open(api, side, NULL, IBV_QPT_UD, NULL);
    api_connect(api, side->qp, 0);
    return side->qp;
}

/* Sends datagrams until one arrives, because lost datagrams are not reported. */
static void send_until_received(const struct api *api, struct side *from, struct side *to)
{
    struct ibv_ah_attr way = { .is_global = 1,
                               .port_num = API_PORT,
                               .grh = { .dgid = group, .sgid_index = API_GID, .hop_limit = 1 } };
    struct ibv_ah *ah = ibv_create_ah(api->pd, &way);
    struct ibv_sge source = api_sge(from, 0, 64), sink = api_sge(to, 1024, 1024);
    struct ibv_send_wr send = api_send(IBV_WR_SEND, &source);
    struct ibv_wc wc;

    assert_non_null(ah);
    send.wr.ud.ah = ah;
    send.wr.ud.remote_qpn = 0xffffff;
    send.wr.ud.remote_qkey = API_QKEY;
    assert_int_equal(api_post_recv(to, 2, &sink), 0);
    do {
        assert_int_equal(api_post_send(from, &send), 0);
        api_expect(from->cq, 1, IBV_WC_SUCCESS);
    } while (ibv_poll_cq(to->cq, 1, &wc) == 0);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void interface__deleted_and_made_again__works_again_and_receives_its_groups(void **state)
{
    struct stage *stage = *state;
    struct side from, to;

    talk(stage);
    datagram_qp(&stage->sides[1], &from);
    assert_int_equal(ibv_attach_mcast(datagram_qp(&stage->sides[0], &to), &group, 0), 0);
    send_until_received(&stage->sides[1], &from, &to);
    run("ip link del other");
    expect_port(stage, IBV_EVENT_PORT_ERR);
    run(CABLE);
    expect_port(stage, IBV_EVENT_PORT_ACTIVE);
    talk(stage);
    send_until_received(&stage->sides[1], &from, &to);
    run("ip link del other && " CABLE); /* usually before uroce notices the loss */
    talk(stage);
    send_until_received(&stage->sides[1], &from, &to);
    assert_int_equal(ibv_detach_mcast(to.qp, &group, 0), 0);
    api_side_close(&from);
    api_side_close(&to);
}

static uint32_t interface_of(const struct api *api, uint32_t index)
{
    struct ibv_gid_entry entry;

    assert_int_equal(ibv_query_gid_ex(api->context, API_PORT, index, &entry, 0), 0);
    return entry.ndev_ifindex;
}

static void gid__over_udp__names_the_interface_with_its_address(void **state)
{
    const struct stage *stage = *state;
    struct ibv_gid_entry entries[4];

    for (uint32_t i = 0; i <= API_GID; i++) {
        assert_int_equal(interface_of(&stage->sides[0], i), if_nametoindex("one"));
        assert_int_equal(interface_of(&stage->sides[1], i), if_nametoindex("other"));
    }
    assert_int_equal(ibv_query_gid_table(stage->sides[1].context, entries, 4, 0), 2);
    assert_int_equal(entries[API_GID].ndev_ifindex, if_nametoindex("other"));
    run("ip link set one down && ip link set one name three && ip link set three up");
    assert_int_equal(interface_of(&stage->sides[0], API_GID), if_nametoindex("three"));
    run("ip address del 10.1.0.1/24 dev three");
    assert_int_equal(interface_of(&stage->sides[0], API_GID), 0);
    run("ip address add 10.1.0.1/24 dev three && ip link set three down && "
        "ip link set three name one && ip link set one up");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define STAGED(name) cmocka_unit_test_setup_teardown(name, open_stage, close_stage)
        STAGED(address__removed__requests_fail_until_the_address_is_back),
        STAGED(address__back_before_requests_fail__requests_succeed),
        STAGED(interface__down_and_up__raises_port_events),
        STAGED(interface__renamed__is_followed),
        STAGED(interface__deleted_and_made_again__works_again_and_receives_its_groups),
        /* The last test, because its port events may come after its end. */
        STAGED(gid__over_udp__names_the_interface_with_its_address),
    };

    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        puts("NOT TESTED: a network namespace of our own needs root");
        return API_SKIPPED;
    }
    if (system("ip link set lo up && cd /proc/sys/net/ipv4/conf && echo 1 >all/accept_local && "
               "echo 0 >all/rp_filter && echo 0 >default/rp_filter && " CABLE) != 0) {
        puts("NOT TESTED: interfaces cannot be made here");
        return API_SKIPPED;
    }
    return API_RUN(tests);
}
