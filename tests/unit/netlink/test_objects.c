/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests how the objects of processes appear as objects of the kernel. */
#include "netlink/objects.h"

#include "core/key.h"
#include "core/qp_state.h"
#include "support/check.h"

#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <stdlib.h>
#include <string.h>

static struct uro_nldev_device device;

/* ---- memory ------------------------------------------------------------------------ */

static unsigned refused; /* the number of this call of malloc() fails; 0: none */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return refused != 0 && --refused == 0 ? NULL : __real_malloc(size);
}

static int no_objects(void **state)
{
    (void)state;
    uro_nldev_free_objects(&device);
    device = (struct uro_nldev_device){ .index = 0 };
    return 0;
}

static bool has(enum uro_nldev_kind kind, uint32_t index, uint16_t attr)
{
    const struct uro_nldev_object *object = &device.objects[kind].list[index];

    assert_true(index < device.objects[kind].count);
    for (uint32_t i = 0; i < object->field_count; i++)
        if (object->fields[i].attr == attr)
            return true;
    return false;
}

static uint64_t field(enum uro_nldev_kind kind, uint32_t index, uint16_t attr)
{
    const struct uro_nldev_object *object = &device.objects[kind].list[index];

    assert_true(has(kind, index, attr));
    for (uint32_t i = 0; i < object->field_count; i++)
        if (object->fields[i].attr == attr)
            return object->fields[i].value;
    return 0;
}

static void objects__queue_pair__has_state_and_peer(void **state)
{
    struct uro_snapshot_qp qp = { .qpn = 70,
                                  .peer_qpn = 80,
                                  .type = URO_QPT_RC,
                                  .pd = 5,
                                  .state = URO_QPS_RTS,
                                  .expected_psn = 90,
                                  .next_psn = 100 };
    const struct uro_stats_rows rows = { .count = { 1, 0, 0 }, .qps = &qp };

    (void)state;
    uro_nldev_add_rows(&device, 1234, &rows);
    assert_int_equal(device.objects[URO_NLDEV_QP].count, 1);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_RES_LQPN), 70);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_RES_RQPN), 80);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_RES_RQ_PSN), 90);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_RES_SQ_PSN), 100);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_RES_TYPE), 2);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_RES_STATE), 3);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_RES_PDN), 5);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_RES_PID), 1234);
    assert_int_equal(field(URO_NLDEV_QP, 0, RDMA_NLDEV_ATTR_PORT_INDEX), 1);
}

static void objects__qp_types__are_those_of_verbs(void **state)
{
    static const uint8_t wanted[] = { 2, 3, 4, 9, 10, UINT8_MAX };

    (void)state;
    for (uint8_t type = 0; type <= URO_QPT_COUNT; type++) {
        struct uro_snapshot_qp qp = { .qpn = type, .type = type };
        const struct uro_stats_rows rows = { .count = { 1, 0, 0 }, .qps = &qp };
        uro_nldev_add_rows(&device, 1, &rows);
        assert_int_equal(field(URO_NLDEV_QP, type, RDMA_NLDEV_ATTR_RES_TYPE), wanted[type]);
        assert_int_equal(has(URO_NLDEV_QP, type, RDMA_NLDEV_ATTR_RES_RQPN), type != URO_QPT_UD);
        assert_int_equal(has(URO_NLDEV_QP, type, RDMA_NLDEV_ATTR_RES_PDN), type != URO_QPT_XRC_TGT);
    }
}

static void objects__cqs_and_domains__have_the_number_of_users(void **state)
{
    struct uro_snapshot_qp qps[] = {
        { .qpn = 1, .type = URO_QPT_RC, .pd = 7, .send_cq = 2, .recv_cq = 2 },
        { .qpn = 2, .type = URO_QPT_RC, .pd = 3, .send_cq = 2, .recv_cq = 4 },
        { .qpn = 3, .type = URO_QPT_XRC_TGT, .pd = 99 },
    };
    struct uro_snapshot_cq cqs[] = { { .number = 4, .capacity = 40 },
                                     { .number = 2, .capacity = 20 },
                                     { .number = 9 } };
    struct uro_snapshot_key keys[] = {
        { .key = 0x1234, .kind = URO_KEY_REGION, .pd = 7, .address = 0x5000, .length = 4096 },
        { .key = 0x2200, .kind = URO_KEY_NULL, .pd = 8 },
        { .key = 0x3300, .kind = URO_KEY_WINDOW_1, .pd = 10 },
        { .key = 0x4400, .kind = URO_KEY_WINDOW_2, .pd = 10 },
    };
    const struct uro_stats_rows rows = {
        .count = { 3, 3, 4 }, .qps = qps, .cqs = cqs, .keys = keys
    };

    (void)state;
    uro_nldev_add_rows(&device, 11, &rows);
    uro_nldev_sort_objects(&device);
    static const struct {
        enum uro_nldev_kind kind;
        uint16_t attr;
        uint32_t count;
        struct {
            uint64_t number, users;
        } objects[3];
    } wanted[] = {
        { URO_NLDEV_CQ, RDMA_NLDEV_ATTR_RES_CQN, 3, { { 2, 2 }, { 4, 1 }, { 9, 0 } } },
        { URO_NLDEV_PD, RDMA_NLDEV_ATTR_RES_PDN, 3, { { 3, 1 }, { 7, 2 }, { 8, 1 } } },
    };
    for (size_t i = 0; i < URO_ARRAY_LEN(wanted); i++) {
        assert_int_equal(device.objects[wanted[i].kind].count, wanted[i].count);
        for (uint32_t j = 0; j < wanted[i].count; j++) {
            assert_int_equal(field(wanted[i].kind, j, wanted[i].attr), wanted[i].objects[j].number);
            assert_int_equal(field(wanted[i].kind, j, RDMA_NLDEV_ATTR_RES_USECNT),
                             wanted[i].objects[j].users);
        }
    }
    assert_int_equal(field(URO_NLDEV_CQ, 0, RDMA_NLDEV_ATTR_RES_CQE), 20);
    assert_int_equal(device.objects[URO_NLDEV_MR].count, 2);
    assert_int_equal(field(URO_NLDEV_MR, 0, RDMA_NLDEV_ATTR_RES_MRN), 0x12);
    assert_int_equal(field(URO_NLDEV_MR, 0, RDMA_NLDEV_ATTR_RES_RKEY), 0x1234);
    assert_int_equal(field(URO_NLDEV_MR, 0, RDMA_NLDEV_ATTR_RES_LKEY), 0x1234);
    assert_int_equal(field(URO_NLDEV_MR, 0, RDMA_NLDEV_ATTR_RES_IOVA), 0x5000);
    assert_int_equal(field(URO_NLDEV_MR, 0, RDMA_NLDEV_ATTR_RES_MRLEN), 4096);
    assert_int_equal(field(URO_NLDEV_MR, 1, RDMA_NLDEV_ATTR_RES_MRN), 0x22);
}

/* Returns the attribute @type of a list of @left bytes. */
static struct uro_netlink_attr attribute(const uint8_t *bytes, size_t left, uint16_t type)
{
    struct uro_netlink_attr attr;

    while (uro_netlink_next(&bytes, &left, &attr) > 0)
        if (attr.type == type)
            return attr;
    fail_msg("there is no attribute %u", type);
    return attr;
}

static void objects__srq__has_its_queue_pairs_as_ranges(void **state)
{
    struct uro_snapshot_qp qps[] = {
        { .qpn = 30, .srq = 5 }, { .qpn = 12, .srq = 5 }, { .qpn = 11, .srq = 5 },
        { .qpn = 13, .srq = 6 }, { .qpn = 10, .srq = 5 }, { .qpn = 14 },
    };
    struct uro_snapshot_srq srqs[] = { { .number = 5, .pd = 3 },
                                       { .number = 6, .pd = 4, .is_xrc = 1, .cq = 8 } };
    const struct uro_stats_rows rows = {
        .count = { [URO_SNAPSHOT_QPS] = 6, [URO_SNAPSHOT_SRQS] = 2 }, .qps = qps, .srqs = srqs
    };
    static const struct {
        uint16_t type;
        uint32_t number;
    } wanted[] = { { RDMA_NLDEV_ATTR_MIN_RANGE, 10 },
                   { RDMA_NLDEV_ATTR_MAX_RANGE, 12 },
                   { RDMA_NLDEV_ATTR_RES_LQPN, 30 } };
    struct uro_netlink_attr entry, value;
    unsigned found = 0;

    (void)state;
    uro_nldev_add_rows(&device, 7, &rows);
    assert_int_equal(device.objects[URO_NLDEV_SRQ].count, 2);
    assert_int_equal(field(URO_NLDEV_SRQ, 0, RDMA_NLDEV_ATTR_RES_SRQN), 5);
    assert_int_equal(field(URO_NLDEV_SRQ, 0, RDMA_NLDEV_ATTR_RES_TYPE), 0);
    assert_int_equal(field(URO_NLDEV_SRQ, 0, RDMA_NLDEV_ATTR_RES_PDN), 3);
    assert_int_equal(field(URO_NLDEV_SRQ, 0, RDMA_NLDEV_ATTR_RES_PID), 7);
    assert_false(has(URO_NLDEV_SRQ, 0, RDMA_NLDEV_ATTR_RES_CQN));
    assert_int_equal(field(URO_NLDEV_SRQ, 1, RDMA_NLDEV_ATTR_RES_TYPE), 1);
    assert_int_equal(field(URO_NLDEV_SRQ, 1, RDMA_NLDEV_ATTR_RES_CQN), 8);
    const struct uro_nldev_object *object = &device.objects[URO_NLDEV_SRQ].list[0];
    struct uro_netlink_attr all =
        attribute(object->more, object->more_length, RDMA_NLDEV_ATTR_RES_QP);
    while (uro_netlink_next(&all.value, &all.length, &entry) > 0) {
        assert_int_equal(entry.type, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
        while (uro_netlink_next(&entry.value, &entry.length, &value) > 0) {
            uint32_t number = 0;
            assert_true(found < URO_ARRAY_LEN(wanted));
            assert_true(uro_netlink_get_u32(&value, &number));
            assert_int_equal(value.type, wanted[found].type);
            assert_int_equal(number, wanted[found++].number);
        }
    }
    assert_int_equal(found, URO_ARRAY_LEN(wanted));
}

/* A message has at most a page. Queue pairs that do not fit are left out. */
static void srq__of_many_queue_pairs__fits_into_a_message(void **state)
{
    enum { MANY = 1000 };
    static struct uro_snapshot_qp qps[MANY];
    struct uro_snapshot_srq srq = { .number = 5 };
    const struct uro_stats_rows rows = {
        .count = { [URO_SNAPSHOT_QPS] = MANY, [URO_SNAPSHOT_SRQS] = 1 }, .qps = qps, .srqs = &srq
    };

    (void)state;
    for (uint32_t i = 0; i < MANY; i++)
        qps[i] = (struct uro_snapshot_qp){ .qpn = 10 * i, .srq = 5 };
    uro_nldev_add_rows(&device, 7, &rows);
    assert_in_range(device.objects[URO_NLDEV_SRQ].list[0].more_length, 1000, URO_NLDEV_MORE_MAX);
}

static void objects__identifier__has_its_addresses(void **state)
{
    struct uro_snapshot_id ids[] = {
        { .number = 0,
          .source = { { [10] = 0xff, 0xff, 10, 0, 0, 1 } },
          .dest = { { [0] = 0xfd, [15] = 2 } },
          .source_version = 4,
          .dest_version = 6,
          .source_port = 4000,
          .dest_port = 5000,
          .qpn = 17,
          .qp_type = 2,
          .port_space = 0x106,
          .state = URO_SNAPSHOT_ID_CONNECT },
        { .number = 1 },
    };
    const struct uro_stats_rows rows = { .count = { [URO_SNAPSHOT_IDS] = 2 }, .ids = ids };
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    (void)state;
    uro_nldev_add_rows(&device, 9, &rows);
    assert_int_equal(device.objects[URO_NLDEV_CM_ID].count, 2);
    assert_int_equal(field(URO_NLDEV_CM_ID, 0, RDMA_NLDEV_ATTR_RES_CM_IDN), 0);
    assert_int_equal(field(URO_NLDEV_CM_ID, 0, RDMA_NLDEV_ATTR_RES_LQPN), 17);
    assert_int_equal(field(URO_NLDEV_CM_ID, 0, RDMA_NLDEV_ATTR_RES_TYPE), 2);
    assert_int_equal(field(URO_NLDEV_CM_ID, 0, RDMA_NLDEV_ATTR_RES_PS), 0x106);
    assert_int_equal(field(URO_NLDEV_CM_ID, 0, RDMA_NLDEV_ATTR_RES_STATE), 5);
    assert_int_equal(field(URO_NLDEV_CM_ID, 0, RDMA_NLDEV_ATTR_RES_PID), 9);
    const struct uro_nldev_object *object = &device.objects[URO_NLDEV_CM_ID].list[0];
    struct uro_netlink_attr attr =
        attribute(object->more, object->more_length, RDMA_NLDEV_ATTR_RES_SRC_ADDR);
    assert_int_equal(attr.length, sizeof(struct sockaddr_storage));
    memcpy(&v4, attr.value, sizeof v4);
    assert_int_equal(v4.sin_family, AF_INET);
    assert_int_equal(ntohs(v4.sin_port), 4000);
    assert_int_equal(ntohl(v4.sin_addr.s_addr), 0x0a000001);
    attr = attribute(object->more, object->more_length, RDMA_NLDEV_ATTR_RES_DST_ADDR);
    memcpy(&v6, attr.value, sizeof v6);
    assert_int_equal(v6.sin6_family, AF_INET6);
    assert_int_equal(ntohs(v6.sin6_port), 5000);
    assert_memory_equal(&v6.sin6_addr, &ids[0].dest, 16);
    assert_false(has(URO_NLDEV_CM_ID, 1, RDMA_NLDEV_ATTR_RES_LQPN));
    assert_int_equal(device.objects[URO_NLDEV_CM_ID].list[1].more_length, 0);
}

static void objects__of_two_processes__are_sorted_together(void **state)
{
    enum { EACH = 100 };
    struct uro_snapshot_qp qps[EACH];
    const struct uro_stats_rows rows = { .count = { EACH, 0, 0 }, .qps = qps };

    (void)state;
    for (uint32_t process = 0; process < 2; process++) {
        for (uint32_t i = 0; i < EACH; i++)
            qps[i] = (struct uro_snapshot_qp){ .qpn = 2 * (EACH - i) + process };
        uro_nldev_add_rows(&device, process, &rows);
    }
    uro_nldev_sort_objects(&device);
    assert_int_equal(device.objects[URO_NLDEV_QP].count, 2 * EACH);
    for (uint32_t i = 0; i < 2 * EACH; i++)
        assert_int_equal(field(URO_NLDEV_QP, i, RDMA_NLDEV_ATTR_RES_LQPN), i + 2);
}

static void set_all_known(void)
{
    for (uint32_t kind = 0; kind < URO_NLDEV_KINDS; kind++)
        device.objects[kind].known = true;
}

/* The lists of domains and CQs have two allocations. The third is the list of users of SRQs. */
static void objects__memory_runs_out__counts_are_unknown(void **state)
{
    struct uro_snapshot_qp qp = { .qpn = 1, .type = URO_QPT_RC };
    struct uro_snapshot_cq cq = { .number = 1 };
    struct uro_snapshot_key key = { .key = 0x100, .kind = URO_KEY_REGION };
    const struct uro_stats_rows rows = {
        .count = { 1, 1, 1 }, .qps = &qp, .cqs = &cq, .keys = &key
    };

    (void)state;
    for (unsigned number = 1; number <= 4; number++) {
        set_all_known();
        refused = number;
        uro_nldev_add_rows(&device, 1, &rows);
        refused = 0;
        const bool known = number > 2;
        assert_int_equal(device.objects[URO_NLDEV_QP].known, known);
        assert_int_equal(device.objects[URO_NLDEV_CQ].known, known);
        assert_int_equal(device.objects[URO_NLDEV_PD].known, known);
        assert_int_equal(device.objects[URO_NLDEV_MR].known, known);
        assert_int_equal(device.objects[URO_NLDEV_SRQ].known, number > 3);
    }
}

static void objects__more_than_rows__counts_are_unknown(void **state)
{
    const struct uro_stats_rows rows = { .incomplete = true };

    (void)state;
    set_all_known();
    uro_nldev_add_rows(&device, 1, &rows);
    assert_false(device.objects[URO_NLDEV_QP].known);
    assert_false(device.objects[URO_NLDEV_CM_ID].known);
    assert_true(device.objects[URO_NLDEV_CTX].known);
}

static void objects__of_a_process_without_objects__are_none(void **state)
{
    const struct uro_stats_rows rows = { .incomplete = false };

    (void)state;
    uro_nldev_add_rows(&device, 1, &rows);
    uro_nldev_sort_objects(&device);
    for (uint32_t kind = 0; kind < URO_NLDEV_KINDS; kind++)
        assert_int_equal(device.objects[kind].count, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, no_objects, no_objects)
    const struct CMUnitTest tests[] = {
        CASE(objects__queue_pair__has_state_and_peer),
        CASE(objects__qp_types__are_those_of_verbs),
        CASE(objects__cqs_and_domains__have_the_number_of_users),
        CASE(objects__srq__has_its_queue_pairs_as_ranges),
        CASE(srq__of_many_queue_pairs__fits_into_a_message),
        CASE(objects__identifier__has_its_addresses),
        CASE(objects__of_two_processes__are_sorted_together),
        CASE(objects__memory_runs_out__counts_are_unknown),
        CASE(objects__more_than_rows__counts_are_unknown),
        CASE(objects__of_a_process_without_objects__are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
