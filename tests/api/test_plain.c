/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests functions that need no device: texts, rates, files, conversions of structs, and an empty
 * device list. */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

/* Private functions of rdma-core. */
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, struct ibv_sa_path_rec *src);

static void get_device_list__no_configuration__is_empty_without_error(void **state)
{
    int count = 7;

    (void)state;
    errno = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    assert_non_null(list);
    assert_null(list[0]);
    assert_int_equal(count, 0);
    assert_int_equal(errno, 0);
    ibv_free_device_list(list);
}

static void strings__of_every_enumerator__exist_and_differ(void **state)
{
    (void)state;
    for (int i = IBV_WC_SUCCESS; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
        for (int j = i + 1; j <= IBV_WC_TM_RNDV_INCOMPLETE + 1; j++)
            assert_string_not_equal(ibv_wc_status_str((enum ibv_wc_status)i),
                                    ibv_wc_status_str((enum ibv_wc_status)j));
    for (int i = IBV_EVENT_CQ_ERR; i <= IBV_EVENT_WQ_FATAL; i++)
        for (int j = i + 1; j <= IBV_EVENT_WQ_FATAL + 1; j++)
            assert_string_not_equal(ibv_event_type_str((enum ibv_event_type)i),
                                    ibv_event_type_str((enum ibv_event_type)j));
    for (int i = IBV_PORT_NOP; i <= IBV_PORT_ACTIVE_DEFER; i++)
        assert_string_not_equal(ibv_port_state_str((enum ibv_port_state)i), "unknown");
    for (int i = IBV_NODE_CA; i <= IBV_NODE_UNSPECIFIED; i++)
        assert_string_not_equal(ibv_node_type_str((enum ibv_node_type)i), "unknown");
    assert_string_equal(ibv_wc_status_str((enum ibv_wc_status) - 1), "unknown");
    assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
    assert_string_equal(ibv_port_state_str((enum ibv_port_state)99), "unknown");
}

/* A rate converts to a number and back. Every rate has a number in Mbit/s, and some rates also have
 * a multiple of 2.5 Gbit/s. The number in Mbit/s is at most 7 % higher than the multiple. */
static void rate__to_mult_and_back__is_the_same(void **state)
{
    int known = 0;

    (void)state;
    for (int rate = 1; rate < 64; rate++) {
        int mbps = ibv_rate_to_mbps((enum ibv_rate)rate);
        int multiple = ibv_rate_to_mult((enum ibv_rate)rate);
        if (mbps > 0) {
            assert_int_equal(mbps_to_ibv_rate(mbps), rate);
            known++;
        }
        if (multiple > 0) {
            assert_int_equal(mult_to_ibv_rate(multiple), rate);
            assert_true(mbps >= multiple * 2500 && mbps <= multiple * 2500 * 107 / 100);
        }
    }
    assert_int_equal(known, 23);
    assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
    assert_int_equal(ibv_rate_to_mult((enum ibv_rate) - 1), -1);
    assert_int_equal(mbps_to_ibv_rate(12345), IBV_RATE_MAX);
    assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
    assert_int_equal(mbps_to_ibv_rate(0), IBV_RATE_MAX);
}

/* A link has 1, 2, 4, 8 or 12 lanes of one of these speeds. The API rounds rates down to Mbit/s. */
static void rate__in_mbps__is_lanes_times_lane_speed(void **state)
{
    static const double lane[] = { 2500, 5000, 10000, 14062.5, 25781.25, 53125, 106250 };
    static const int lanes[] = { 1, 2, 4, 8, 12 };

    (void)state;
    for (int rate = 1; rate < 64; rate++) {
        int mbps = ibv_rate_to_mbps((enum ibv_rate)rate);
        bool found = mbps < 0;
        for (size_t i = 0; i < sizeof lane / sizeof lane[0]; i++)
            for (size_t j = 0; j < sizeof lanes / sizeof lanes[0]; j++)
                found |= (int)(lane[i] * lanes[j]) == mbps;
        assert_true(found);
    }
}

static void read_sysfs_file__text_with_newline__is_read_without_the_newline(void **state)
{
    char directory[] = "/tmp/uroce-sysfs-XXXXXX", path[64], text[16];
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/rate", directory);
    assert_non_null(file = fopen(path, "w"));
    fputs("10 Gb/sec\n", file);
    fclose(file);
    assert_int_equal(ibv_read_sysfs_file(directory, "rate", text, sizeof text), 9);
    assert_string_equal(text, "10 Gb/sec");
    assert_int_equal(ibv_read_sysfs_file(directory, "rate", text, 3), 3);
    assert_memory_equal(text, "10 ", 3);
    errno = 0;
    assert_int_equal(ibv_read_sysfs_file(directory, "none", text, sizeof text), -1);
    assert_int_equal(errno, ENOENT);
    unlink(path);
    rmdir(directory);
}

static void sysfs_path__environment_unset__is_sys(void **state)
{
    (void)state;
    unsetenv("SYSFS_PATH");
    assert_string_equal(ibv_get_sysfs_path(), "/sys");
    setenv("SYSFS_PATH", "/tmp/elsewhere", 1);
    assert_string_equal(ibv_get_sysfs_path(), "/tmp/elsewhere");
    unsetenv("SYSFS_PATH");
}

static void kernel_abi__attributes__are_converted_field_by_field(void **state)
{
    struct ib_uverbs_qp_attr kernel = {
        .qp_state = 3,
        .path_mtu = 4,
        .qkey = 0x11111111,
        .rq_psn = 0x222222,
        .sq_psn = 0x333333,
        .dest_qp_num = 0x444444,
        .qp_access_flags = 7,
        .ah_attr = { .grh = { .dgid = { 0xfe, [15] = 9 },
                              .flow_label = 0x55555,
                              .sgid_index = 3,
                              .hop_limit = 64,
                              .traffic_class = 0x68 },
                     .dlid = 5,
                     .sl = 6,
                     .is_global = 1,
                     .port_num = 1 },
        .max_send_wr = 10,
        .max_recv_sge = 11,
        .pkey_index = 12,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 6,
        .min_rnr_timer = 13,
        .max_rd_atomic = 2,
        .max_dest_rd_atomic = 3,
        .alt_timeout = 15,
    };
    struct ibv_qp_attr attr;

    (void)state;
    memset(&attr, 0xff, sizeof attr);
    ibv_copy_qp_attr_from_kern(&attr, &kernel);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.path_mtu, IBV_MTU_2048);
    assert_int_equal(attr.qkey, 0x11111111);
    assert_int_equal(attr.rq_psn, 0x222222);
    assert_int_equal(attr.sq_psn, 0x333333);
    assert_int_equal(attr.dest_qp_num, 0x444444);
    assert_int_equal(attr.ah_attr.grh.dgid.raw[0], 0xfe);
    assert_int_equal(attr.ah_attr.grh.dgid.raw[15], 9);
    assert_int_equal(attr.ah_attr.grh.flow_label, 0x55555);
    assert_int_equal(attr.ah_attr.grh.sgid_index, 3);
    assert_int_equal(attr.ah_attr.grh.traffic_class, 0x68);
    assert_int_equal(attr.ah_attr.sl, 6);
    assert_int_equal(attr.ah_attr.is_global, 1);
    assert_int_equal(attr.cap.max_send_wr, 10);
    assert_int_equal(attr.cap.max_recv_sge, 11);
    assert_int_equal(attr.timeout, 14);
    assert_int_equal(attr.min_rnr_timer, 13);
    assert_int_equal(attr.max_dest_rd_atomic, 3);
    assert_int_equal(attr.alt_timeout, 15);
}

static void path_record__to_the_kernels_form_and_back__is_the_same(void **state)
{
    struct ibv_sa_path_rec path = { .dgid = { .raw = { 1, [15] = 2 } },
                                    .sgid = { .raw = { 3, [15] = 4 } },
                                    .dlid = 5,
                                    .slid = 6,
                                    .raw_traffic = 1,
                                    .flow_label = 7,
                                    .hop_limit = 8,
                                    .traffic_class = 9,
                                    .reversible = 1,
                                    .numb_path = 10,
                                    .pkey = 11,
                                    .sl = 12,
                                    .mtu_selector = 2,
                                    .mtu = 3,
                                    .rate_selector = 2,
                                    .rate = 13,
                                    .packet_life_time_selector = 2,
                                    .packet_life_time = 14,
                                    .preference = 15 };
    struct ibv_sa_path_rec back;
    struct ib_user_path_rec kernel;

    (void)state;
    memset(&back, 0, sizeof back);
    ibv_copy_path_rec_to_kern(&kernel, &path);
    assert_int_equal(kernel.mtu, 3);
    assert_int_equal(kernel.preference, 15);
    ibv_copy_path_rec_from_kern(&back, &kernel);
    assert_memory_equal(&back, &path, sizeof path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(get_device_list__no_configuration__is_empty_without_error),
        cmocka_unit_test(strings__of_every_enumerator__exist_and_differ),
        cmocka_unit_test(rate__to_mult_and_back__is_the_same),
        cmocka_unit_test(rate__in_mbps__is_lanes_times_lane_speed),
        cmocka_unit_test(read_sysfs_file__text_with_newline__is_read_without_the_newline),
        cmocka_unit_test(sysfs_path__environment_unset__is_sys),
        cmocka_unit_test(kernel_abi__attributes__are_converted_field_by_field),
        cmocka_unit_test(path_record__to_the_kernels_form_and_back__is_the_same),
    };
    unsetenv("UROCE_CONFIG");
    unsetenv("UROCE_DEVICES");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
