/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cable.c - tests two devices of this process with a cable between them: the faults and the
 * counters of the cable, and the failure reason of a queue pair. */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <uroce/uroce.h>

#include "embed/side.h"
#include "support/must.h"

#define SIZE 64

static char error[UROCE_ERROR_MAX];

struct stage {
    struct side one, two;
};

/* Opens both ends. @faults: faults of the first end. */
static void open_stage(struct stage *stage, const char *faults)
{
    char text[160];

    (void)snprintf(text, sizeof text, "one:cable,name=c0%s;ip=10.0.0.1/24", faults);
    assert_int_equal(uroce_device_add(text, error, sizeof error), 0);
    assert_int_equal(uroce_device_add("two:cable,name=c0;ip=10.0.0.2/24", error, sizeof error), 0);
    side_open(&stage->one, "one", IBV_QPT_RC);
    side_open(&stage->two, "two", IBV_QPT_RC);
    side_connect(&stage->one, &stage->two);
    side_connect(&stage->two, &stage->one);
}

static void close_stage(struct stage *stage)
{
    side_close(&stage->one);
    side_close(&stage->two);
    assert_int_equal(uroce_device_remove("one"), 0);
    assert_int_equal(uroce_device_remove("two"), 0);
}

static void post_write(struct stage *stage, uint32_t rkey)
{
    struct ibv_sge sge = { (uintptr_t)stage->one.buffer, SIZE, stage->one.mr->lkey };
    struct ibv_send_wr write = { .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE,
                                 .send_flags = IBV_SEND_SIGNALED },
                       *bad;

    write.wr.rdma.remote_addr = (uintptr_t)stage->two.buffer;
    write.wr.rdma.rkey = rkey;
    assert_int_equal(ibv_post_send(stage->one.qp, &write, &bad), 0);
}

/* Posts a WRITE and returns its completion. Both ends poll, as their programs would. */
static struct ibv_wc write_to(struct stage *stage, uint32_t rkey)
{
    struct ibv_wc wc, other;

    post_write(stage, rkey);
    while (ibv_poll_cq(stage->one.cq, 1, &wc) == 0)
        assert_int_equal(ibv_poll_cq(stage->two.cq, 1, &other), 0);
    return wc;
}

static uint64_t counter(const char *device, const char *name)
{
    uint64_t value = UINT64_MAX;

    assert_int_equal(uroce_device_counter(device, name, &value), 0);
    return value;
}

static void cable__loses_a_fifth__every_write_arrives(void **state)
{
    struct stage stage;

    (void)state;
    open_stage(&stage, ",loss=0.2,reorder=0.1,duplicate=0.1,seed=3");
    for (int i = 1; i <= 50; i++) {
        memset(stage.one.buffer, i, SIZE);
        assert_int_equal(write_to(&stage, stage.two.mr->rkey).status, IBV_WC_SUCCESS);
        assert_memory_equal(stage.one.buffer, stage.two.buffer, SIZE);
    }
    assert_true(counter("one", "cable_lost") > 0);
    assert_true(counter("one", "tx_roce") > 50);
    assert_int_equal(counter("two", "cable_lost"), 0);
    assert_true(counter("two", "rx_roce") >= 50);
    close_stage(&stage);
}

static void cable__faults_set_while_running__apply_from_then_on(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(uroce_cable_set("one", "loss=1", error, sizeof error), -ENODEV);
    assert_non_null(strstr(error, "has no open cable"));
    assert_int_equal(uroce_cable_set(NULL, "loss=1", NULL, 0), -EINVAL);
    open_stage(&stage, "");
    assert_int_equal(uroce_cable_set("one", NULL, NULL, 0), -EINVAL);
    assert_int_equal(uroce_cable_set("one", "lose=1", error, sizeof error), -EINVAL);
    assert_non_null(strstr(error, "loss="));
    assert_int_equal(write_to(&stage, stage.two.mr->rkey).status, IBV_WC_SUCCESS);
    assert_null(uroce_qp_failure(stage.one.qp));

    assert_int_equal(uroce_cable_set("one", "loss=1", error, sizeof error), 0);
    struct ibv_wc wc = write_to(&stage, stage.two.mr->rkey);
    assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
    assert_non_null(strstr(uroce_failure_text(wc.vendor_err), "did not answer"));
    assert_string_equal(uroce_qp_failure(stage.one.qp), uroce_failure_text(wc.vendor_err));
    assert_null(uroce_qp_failure(stage.two.qp));
    close_stage(&stage);
}

/* impair= works for every link, also for a cable. Its faults do not affect ARP. */
static void impair__on_a_cable__plan_applies_too(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(uroce_device_add("one:cable,name=c0;impair=loss:101%", error, sizeof error),
                     -EINVAL);
    assert_non_null(strstr(error, "\"loss:101%\""));
    open_stage(&stage, ",delay_us=10;impair=tx,only:requests,drop:2/tx,only:repeats,loss:100%");
    assert_int_equal(write_to(&stage, stage.two.mr->rkey).status, IBV_WC_SUCCESS);
    assert_int_equal(write_to(&stage, stage.two.mr->rkey).status, IBV_WC_RETRY_EXC_ERR);
    close_stage(&stage);
}

static void qp__wrong_key__both_sides_report_the_reason(void **state)
{
    struct stage stage;

    (void)state;
    open_stage(&stage, "");
    struct ibv_wc wc = write_to(&stage, stage.two.mr->rkey + 1);
    assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
    assert_non_null(strstr(uroce_failure_text(wc.vendor_err), "peer refused the remote key"));
    assert_non_null(strstr(uroce_qp_failure(stage.one.qp), "peer refused the remote key"));
    assert_non_null(strstr(uroce_qp_failure(stage.two.qp), "peer used a wrong remote key"));
    assert_null(uroce_qp_failure(NULL));
    assert_string_equal(uroce_failure_text(UINT32_MAX), "unknown reason");
    close_stage(&stage);
}

/* Writes in the child over its own cable between devices of the same names. The cable of the
 * parent stays open. */
static void write_in_child(void)
{
    struct stage stage;

    side_open(&stage.one, "one", IBV_QPT_RC);
    side_open(&stage.two, "two", IBV_QPT_RC);
    side_connect(&stage.one, &stage.two);
    side_connect(&stage.two, &stage.one);
    MUST(write_to(&stage, stage.two.mr->rkey).status == IBV_WC_SUCCESS);
    MUST(counter("one", "cable_sent") > 0);
    side_close(&stage.one);
    side_close(&stage.two);
    MUST(uroce_device_remove("one") == 0 && uroce_device_remove("two") == 0);
}

static void fork__while_the_cable_runs__child_has_a_separate_cable(void **state)
{
    struct stage stage;

    (void)state;
    open_stage(&stage, "");
    assert_int_equal(write_to(&stage, stage.two.mr->rkey).status, IBV_WC_SUCCESS);
    assert_int_equal(must_status(write_in_child), 0);
    assert_int_equal(write_to(&stage, stage.two.mr->rkey).status, IBV_WC_SUCCESS);
    close_stage(&stage);
}

static void counters__by_enumeration__each_has_a_unique_name(void **state)
{
    uint64_t value;
    unsigned count = 0;

    (void)state;
    assert_int_equal(uroce_device_add("one:cable,name=c0;ip=10.0.0.1/24", NULL, 0), 0);
    for (; uroce_counter_name(count) != NULL; count++) {
        assert_non_null(uroce_counter_text(count));
        assert_int_equal(counter("one", uroce_counter_name(count)), 0);
        for (unsigned i = 0; i < count; i++)
            assert_string_not_equal(uroce_counter_name(i), uroce_counter_name(count));
    }
    assert_true(count > 20);
    assert_null(uroce_counter_text(count));
    assert_int_equal(uroce_device_counter("one", "no_such_counter", &value), -ENOENT);
    assert_int_equal(uroce_device_counter("none", "tx_roce", &value), -ENODEV);
    assert_int_equal(uroce_device_counter(NULL, "tx_roce", &value), -EINVAL);
    assert_int_equal(uroce_device_counter("one", NULL, &value), -EINVAL);
    assert_int_equal(uroce_device_counter("one", "tx_roce", NULL), -EINVAL);
    assert_int_equal(uroce_device_remove("one"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cable__loses_a_fifth__every_write_arrives),
        cmocka_unit_test(cable__faults_set_while_running__apply_from_then_on),
        cmocka_unit_test(impair__on_a_cable__plan_applies_too),
        cmocka_unit_test(qp__wrong_key__both_sides_report_the_reason),
        cmocka_unit_test(fork__while_the_cable_runs__child_has_a_separate_cable),
        cmocka_unit_test(counters__by_enumeration__each_has_a_unique_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
