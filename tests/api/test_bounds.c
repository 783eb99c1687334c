/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bounds.c - tests limits that no configuration key sets. At such a limit, the program gets an
 * errno, and stderr gets one line.
 */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/stderr_text.h"

#define GROUPS     8192u
#define UDP_GROUPS 256u
#define MEMBERS    56u
#define HOPS       32768u
#define ALL_DM     ((size_t)64 * 1024 * 1024)
#define GID_IPV4   1u

static uint32_t count_of(const char *words, const char *what)
{
    uint32_t count = 0;

    for (const char *at = words; (at = strstr(at, what)) != NULL; at += strlen(what))
        count++;
    return count;
}

/* Expects the line @what once. stderr may also contain a line about a group that the kernel
 * refused. */
static void expect_line(struct stderr_capture capture, const char *what)
{
    const char *words = capture_stderr_text(capture);

    if (count_of(words, what) != 1) {
        capture_stderr_end(capture);
        fail_msg("expected one line with \"%s\", not: %s", what, words);
    }
    capture_stderr_end(capture);
}

static union ibv_gid group_of(uint32_t number)
{
    union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, [12] = 239, [13] = 77 } };

    group.raw[14] = (uint8_t)(number >> 8);
    group.raw[15] = (uint8_t)number;
    return group;
}

static struct ibv_qp *ud_qp(const struct api *api, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = api_qp_attr(cq);

    attr.qp_type = IBV_QPT_UD;
    struct ibv_qp *qp = ibv_create_qp(api->pd, &attr);
    assert_non_null(qp);
    return qp;
}

static void group__more_queue_pairs_than_allowed__enomem_and_one_line(void **state)
{
    const struct api *api = *state;
    const union ibv_gid group = group_of(1);
    struct ibv_qp *qps[MEMBERS + 1];
    struct ibv_cq *cq = api_cq(api, 4);

    for (uint32_t i = 0; i <= MEMBERS; i++)
        qps[i] = ud_qp(api, cq);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(ibv_attach_mcast(qps[i], &group, 0), 0);
    struct stderr_capture capture = capture_stderr_begin();
    int errors[2] = { ibv_attach_mcast(qps[MEMBERS], &group, 0),
                      ibv_attach_mcast(qps[MEMBERS], &group, 0) };
    expect_line(capture, "uroce0: 56 queue pairs are attached to one multicast group");
    assert_true(errors[0] == ENOMEM && errors[1] == ENOMEM);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(ibv_detach_mcast(qps[i], &group, 0), 0);
    for (uint32_t i = 0; i <= MEMBERS; i++)
        assert_int_equal(ibv_destroy_qp(qps[i]), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* Joins the maximum number of groups, @most, and then tries one more group twice. */
static void join_too_many(const struct api *api, uint32_t most, const char *line)
{
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = ud_qp(api, cq);
    struct ibv_device_attr attr;

    assert_int_equal(ibv_query_device(api->context, &attr), 0);
    assert_int_equal(attr.max_mcast_grp, most);
    for (uint32_t i = 0; i < most; i++) {
        const union ibv_gid group = group_of(i);
        assert_int_equal(ibv_attach_mcast(qp, &group, 0), 0);
    }
    const union ibv_gid more = group_of(most);
    struct stderr_capture capture = capture_stderr_begin();
    int errors[2] = { ibv_attach_mcast(qp, &more, 0), ibv_attach_mcast(qp, &more, 0) };
    expect_line(capture, line);
    assert_true(errors[0] == ENOMEM && errors[1] == ENOMEM);
    for (uint32_t i = 0; i < most; i++) {
        const union ibv_gid group = group_of(i);
        assert_int_equal(ibv_detach_mcast(qp, &group, 0), 0);
    }
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void groups__more_than_allowed__enomem_and_one_line(void **state)
{
    join_too_many(*state, GROUPS, "uroce0: 8192 multicast groups are joined");
}

/* The limit is low, because a port over UDP has a socket for each group. */
static void groups_over_udp__more_than_allowed__enomem_and_one_line(void **state)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct api udp = { .device = list[1] };

    (void)state;
    udp.context = ibv_open_device(udp.device);
    ibv_free_device_list(list);
    assert_non_null(udp.context);
    udp.pd = ibv_alloc_pd(udp.context);
    assert_non_null(udp.pd);
    join_too_many(&udp, UDP_GROUPS, "uroce1: 256 multicast groups are joined");
    assert_int_equal(ibv_dealloc_pd(udp.pd), 0);
    assert_int_equal(ibv_close_device(udp.context), 0);
}

static void device_memory__one_byte_too_many__enomem_and_one_line(void **state)
{
    const struct api *api = *state;
    struct ibv_alloc_dm_attr all = { .length = ALL_DM }, one = { .length = 1 };
    struct ibv_dm *dm = ibv_alloc_dm(api->context, &all);
    int errors = 0;

    assert_non_null(dm);
    struct stderr_capture capture = capture_stderr_begin();
    for (int turn = 0; turn < 2; turn++)
        errors += ibv_alloc_dm(api->context, &one) == NULL && errno == ENOMEM;
    expect_line(capture, "uroce0: the device has 67108864 bytes of device memory");
    assert_int_equal(errors, 2);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static struct ibv_ah *handle(const struct api *api, uint32_t number)
{
    struct ibv_ah_attr attr = { .is_global = 1,
                                .port_num = API_PORT,
                                .grh = { .sgid_index = GID_IPV4, .hop_limit = 1 } };
    uint8_t *octets = attr.grh.dgid.raw;

    octets[10] = octets[11] = 0xff;
    octets[12] = 10;
    octets[13] = (uint8_t)(1 + (number >> 16));
    octets[14] = (uint8_t)(number >> 8);
    octets[15] = (uint8_t)number;
    return ibv_create_ah(api->pd, &attr);
}

static void next_hops__more_than_allowed__enomem_and_one_line(void **state)
{
    const struct api *api = *state;
    struct ibv_ah **handles = calloc(HOPS, sizeof(struct ibv_ah *));
    struct ibv_cq *cq = api_cq(api, 4);
    struct ibv_qp *qp = api_qp(api, cq);
    int errors = 0;

    assert_non_null(handles);
    assert_int_equal(api_go(api, qp, IBV_QPS_INIT, 0), 0);
    for (uint32_t i = 0; i < HOPS; i++)
        assert_non_null(handles[i] = handle(api, i));
    struct stderr_capture capture = capture_stderr_begin();
    for (int turn = 0; turn < 2; turn++)
        errors += handle(api, HOPS) == NULL && errno == ENOMEM;
    expect_line(capture, "uroce0: 32768 next hops");
    assert_int_equal(errors, 2);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, qp->qp_num), ENOMEM);
    for (uint32_t i = 0; i < HOPS; i++)
        assert_int_equal(ibv_destroy_ah(handles[i]), 0);
    assert_int_equal(api_go(api, qp, IBV_QPS_RTR, qp->qp_num), 0);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    struct ibv_ah *again = handle(api, HOPS);
    assert_non_null(again);
    assert_int_equal(ibv_destroy_ah(again), 0);
    free(handles);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(group__more_queue_pairs_than_allowed__enomem_and_one_line),
        API_TEST(groups__more_than_allowed__enomem_and_one_line),
        API_TEST(groups_over_udp__more_than_allowed__enomem_and_one_line),
        API_TEST(device_memory__one_byte_too_many__enomem_and_one_line),
        API_TEST(next_hops__more_than_allowed__enomem_and_one_line),
    };
    char line[128], address[API_ADDRESS];

    (void)snprintf(line, sizeof line,
                   "uroce0:net_null0,no-rx=1;ip=10.0.0.1/8 uroce1:udp,ip=%s,hub=no",
                   api_own_address(0, address));
    assert_int_equal(setenv("UROCE_DEVICES", line, 1), 0);
    return API_RUN(tests);
}
