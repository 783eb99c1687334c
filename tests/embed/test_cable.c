/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cable.c - two devices of this process with a cable between them: what it does to packets, what is counted, and what
 * a queue pair that failed says. */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <uroce/uroce.h>

#include "support/must.h"

#define SIZE 64

static char error[UROCE_ERROR_MAX];

/* One end: a device, and a queue pair that is connected to the other one. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char buffer[SIZE];
};

static struct ibv_context *open_device(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;

    for (int i = 0; list[i] != NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

static void open_end(struct end *end, const char *name)
{
    memset(end, 0, sizeof *end);
    end->context = open_device(name);
    end->pd = ibv_alloc_pd(end->context);
    end->cq = ibv_create_cq(end->context, 16, NULL, NULL, 0);
    assert_non_null(end->cq);
    struct ibv_qp_init_attr init = {
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 }
    };
    end->qp = ibv_create_qp(end->pd, &init);
    end->mr =
        ibv_reg_mr(end->pd, end->buffer, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(end->qp);
    assert_non_null(end->mr);
}

/* A lost packet is sent again after 17 ms, up to seven times. */
static void connect_to(struct end *end, const struct end *peer)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

    assert_int_equal(
        ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qp->qp_num,
        .ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 1 } }
    };
    assert_int_equal(ibv_query_gid(peer->context, 1, 1, &attr.ah_attr.grh.dgid), 0);
    assert_int_equal(ibv_modify_qp(end->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER),
                     0);
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 6, .rnr_retry = 7
    };
    assert_int_equal(ibv_modify_qp(end->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_MAX_QP_RD_ATOMIC),
                     0);
}

static void close_end(struct end *end)
{
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
    assert_int_equal(ibv_dereg_mr(end->mr), 0);
    assert_int_equal(ibv_destroy_cq(end->cq), 0);
    assert_int_equal(ibv_dealloc_pd(end->pd), 0);
    assert_int_equal(ibv_close_device(end->context), 0);
}

struct stage {
    struct end one, two;
};

/* @faults are those of the first end. */
static void open_stage(struct stage *stage, const char *faults)
{
    char text[160];

    (void)snprintf(text, sizeof text, "one:cable,name=c0%s;ip=10.0.0.1/24", faults);
    assert_int_equal(uroce_device_add(text, error, sizeof error), 0);
    assert_int_equal(uroce_device_add("two:cable,name=c0;ip=10.0.0.2/24", error, sizeof error), 0);
    open_end(&stage->one, "one");
    open_end(&stage->two, "two");
    connect_to(&stage->one, &stage->two);
    connect_to(&stage->two, &stage->one);
}

static void close_stage(struct stage *stage)
{
    close_end(&stage->one);
    close_end(&stage->two);
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

/* The completion of a WRITE; both ends poll, as their programs would. */
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

static void cable__faults_set_while_running__hold_from_then_on(void **state)
{
    struct stage stage;

    (void)state;
    assert_int_equal(uroce_cable_set("one", "loss=1", error, sizeof error), -ENODEV);
    assert_non_null(strstr(error, "does not run"));
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

static void qp__wrong_key__both_sides_say_why(void **state)
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

/* The child has a cable of its own between devices of the same names; the parent's goes on. */
static void write_in_child(void)
{
    struct stage stage;

    open_end(&stage.one, "one");
    open_end(&stage.two, "two");
    connect_to(&stage.one, &stage.two);
    connect_to(&stage.two, &stage.one);
    MUST(write_to(&stage, stage.two.mr->rkey).status == IBV_WC_SUCCESS);
    MUST(counter("one", "cable_sent") > 0);
    close_end(&stage.one);
    close_end(&stage.two);
    MUST(uroce_device_remove("one") == 0 && uroce_device_remove("two") == 0);
}

static void fork__while_the_cable_runs__the_child_has_its_own(void **state)
{
    struct stage stage;

    (void)state;
    open_stage(&stage, "");
    assert_int_equal(write_to(&stage, stage.two.mr->rkey).status, IBV_WC_SUCCESS);
    assert_int_equal(must_status(write_in_child), 0);
    assert_int_equal(write_to(&stage, stage.two.mr->rkey).status, IBV_WC_SUCCESS);
    close_stage(&stage);
}

static void counters__by_enumeration__each_has_its_own_name(void **state)
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
        cmocka_unit_test(cable__faults_set_while_running__hold_from_then_on),
        cmocka_unit_test(qp__wrong_key__both_sides_say_why),
        cmocka_unit_test(fork__while_the_cable_runs__the_child_has_its_own),
        cmocka_unit_test(counters__by_enumeration__each_has_its_own_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
