/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the lines on stderr about failures of queue pairs: their text and their number. */
#include "stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/cq.h"
#include "core/qp_private.h"
#include "core/shard.h"
#include "host/device.h"
#include "host/limits.h"

static struct uro_qp *qp;
static char printed[65536];
static FILE *kept; /* text on stderr */

static void begin(const char *devices)
{
    stage_start(devices);
    qp = stage_make_qp();
    assert_true(uro_gid_parse("10.0.0.2", &qp->path.dest));
    assert_true(uro_gid_parse("10.0.0.1", &qp->path.source));
    qp->attr.path_mtu = 1024;
    kept = tmpfile();
    assert_non_null(kept);
    assert_true(dup2(fileno(kept), STDERR_FILENO) >= 0);
}

static void break_qp(uint32_t count)
{
    const struct uro_record_cause cause = { .reason = URO_FAIL_NO_ANSWER,
                                            .failed_wqe = URO_QP_NO_WQE };

    uro_device_lock(device);
    uro_device_shard(device)->now = uro_device_now();
    for (uint32_t i = 0; i < count; i++) {
        qp->attr.dest_qpn++;
        qp->fail_reason = URO_FAIL_NONE;
        uro_record_failure(qp, &cause);
    }
    uro_log_failures(device);
    uro_device_unlock(device);
}

/* Returns the number of lines that were printed, and reads them into `printed`. */
static unsigned lines(void)
{
    unsigned count = 0;

    (void)fflush(stderr);
    const ssize_t length = pread(fileno(kept), printed, sizeof printed - 1, 0);
    assert_true(length >= 0);
    printed[length] = '\0';
    for (const char *at = printed; *at != '\0'; at++)
        count += *at == '\n';
    return count;
}

static void failure__of_a_queue_pair__is_one_line(void **state)
{
    char wanted[160];

    (void)state;
    begin("a:fake0" IP);
    break_qp(1);
    assert_int_equal(lines(), 1);
    (void)snprintf(wanted, sizeof wanted, "uroce: a: QP 0x%x: no answer from 10.0.0.2 (QP 0x1) in ",
                   uro_qp_qpn(qp));
    assert_memory_equal(printed, wanted, strlen(wanted));
    (void)snprintf(wanted, sizeof wanted, "; see `uroce why %d`\n", (int)getpid());
    assert_non_null(strstr(printed, wanted));
    uro_device_lock(device);
    uro_log_failures(device);
    uro_device_unlock(device);
    assert_int_equal(lines(), 1);
}

static void failure__behind_a_narrow_route__reports_the_mtu(void **state)
{
    (void)state;
    begin("a:fake0" IP);
    fake.carries = 1000;
    break_qp(1);
    (void)lines();
    assert_non_null(strstr(printed, "path MTU 1024 does not pass the route, which carries 1000"));
}

/* Another process copies the record while the host adds its fields. The first part of the copy is
 * older than the change, and the rest is newer. */
static void failure__completed_during_a_copy__copy_is_torn(void **state)
{
    static struct uro_failure copied[URO_RECORD_FAILURES];
    static struct uro_record torn;
    struct uro_failure failure;

    (void)state;
    begin("a:fake0" IP);
    fake.carries = 1000;
    uro_device_lock(device);
    const struct uro_record_cause cause = { .reason = URO_FAIL_NO_ANSWER,
                                            .failed_wqe = URO_QP_NO_WQE };
    const struct uro_record *record = uro_record_of(uro_device_shard(device)->counters);
    uro_record_failure(qp, &cause);
    memcpy(copied, record->failures, sizeof copied);
    uro_log_failures(device);
    memcpy(torn.failures, record->failures, sizeof torn.failures);
    memcpy(&torn.failures[1], &copied[1], offsetof(struct uro_failure, route_mtu));
    assert_false(uro_record_get(&torn, 1, &failure));
    assert_true(uro_record_get(record, 1, &failure));
    uro_device_unlock(device);
    assert_int_equal(failure.number, 1);
    assert_int_equal(failure.route_mtu, 1000);
}

static void failure__while_the_link_is_down__begins_with_the_link(void **state)
{
    (void)state;
    begin("a:fake0" IP);
    stage_stop_clock();
    uro_device_lock(device);
    device->link_up = false;
    device->link_down_since = uro_device_now();
    uro_device_unlock(device);
    stage_pass(URO_MS(2000));
    break_qp(1);
    (void)lines();
    assert_non_null(strstr(printed, ": the link of this device has been down for 2"));
}

static void failures__thousands__are_a_few_lines_and_a_count(void **state)
{
    (void)state;
    begin("a:fake0" IP);
    stage_stop_clock();
    break_qp(10000);
    assert_int_equal(lines(), URO_LOG_LINES);
    stage_pass(URO_LOG_PERIOD);
    break_qp(1);
    assert_int_equal(lines(), URO_LOG_LINES + 2);
    assert_non_null(strstr(printed, "uroce: a: 9992 more lines were left out; see `uroce why "));
}

static void failures__with_log_none__print_nothing(void **state)
{
    (void)state;
    begin("a:fake0;log=none" IP);
    break_qp(1);
    assert_int_equal(lines(), 0);
}

static void line__printed_before__is_not_printed_again(void **state)
{
    (void)state;
    begin("a:fake0" IP);
    stage_stop_clock();
    for (unsigned i = 0; i < 3; i++)
        uro_log_line(device, "%s", "the same");
    assert_int_equal(lines(), 1);
    for (unsigned i = 0; i < 2 * URO_LOG_TEXTS; i++) {
        stage_pass(URO_LOG_PERIOD);
        uro_log_line(device, "%u", i);
    }
    assert_int_equal(lines(), 1 + 2 * URO_LOG_TEXTS);
}

static void probe__each_log_level__is_printed_with_log_all_only(void **state)
{
    (void)state;
    begin("a:fake0" IP);
    uro_log_refusal(device, true, EOPNOTSUPP, "ibv_create_qp", "not supported");
    assert_int_equal(lines(), 0);
    uro_log_refusal(device, false, EINVAL, "ibv_create_qp", "no CQ");
    assert_int_equal(lines(), 1);
    assert_string_equal(printed, "uroce: a: ibv_create_qp: no CQ\n");
}

static void probe__with_log_all__is_printed(void **state)
{
    (void)state;
    begin("a:fake0;log=all" IP);
    uro_log_refusal(device, true, EOPNOTSUPP, "ibv_create_qp", "not supported");
    assert_int_equal(lines(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failure__of_a_queue_pair__is_one_line),
        cmocka_unit_test(failure__behind_a_narrow_route__reports_the_mtu),
        cmocka_unit_test(failure__completed_during_a_copy__copy_is_torn),
        cmocka_unit_test(failure__while_the_link_is_down__begins_with_the_link),
        cmocka_unit_test(failures__thousands__are_a_few_lines_and_a_count),
        cmocka_unit_test(failures__with_log_none__print_nothing),
        cmocka_unit_test(probe__each_log_level__is_printed_with_log_all_only),
        cmocka_unit_test(probe__with_log_all__is_printed),
        cmocka_unit_test(line__printed_before__is_not_printed_again),
    };
    return stage_run("log", tests, sizeof tests / sizeof tests[0]);
}
