/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests calls that fail on purpose (fail=). Each device of the test has its own rules. Calls
 * without a rule succeed. */
#include "api/api.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MESSAGE 64u

/* Calls the verb three times. Only the second call fails, as the rule of the device says. */
#define SECOND_FAILS(type, create, destroy, wanted)                                                \
    do {                                                                                           \
        type first = create;                                                                       \
        assert_non_null(first);                                                                    \
        errno = 0;                                                                                 \
        assert_null(create);                                                                       \
        assert_int_equal(errno, wanted);                                                           \
        type third = create;                                                                       \
        assert_non_null(third);                                                                    \
        assert_int_equal(destroy(first), 0);                                                       \
        assert_int_equal(destroy(third), 0);                                                       \
    } while (0)

static void objects__second_creation__fails_with_the_error_of_the_rule(void **state)
{
    struct api api = api_open_device("objects");
    struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = API_GID } };
    struct ibv_alloc_dm_attr dm = { .length = 64 };
    static uint8_t memory[64];

    (void)state;
    assert_int_equal(ibv_query_gid(api.context, 1, API_GID, &ah.grh.dgid), 0);
    SECOND_FAILS(struct ibv_mr *, ibv_reg_mr(api.pd, memory, sizeof memory, 0), ibv_dereg_mr,
                 ENOSPC);
    SECOND_FAILS(struct ibv_comp_channel *, ibv_create_comp_channel(api.context),
                 ibv_destroy_comp_channel, EMFILE);
    SECOND_FAILS(struct ibv_cq *, ibv_create_cq(api.context, 4, NULL, NULL, 0), ibv_destroy_cq,
                 ENOMEM);
    SECOND_FAILS(struct ibv_srq *, ibv_create_srq(api.pd, &srq), ibv_destroy_srq, EPERM);
    SECOND_FAILS(struct ibv_ah *, ibv_create_ah(api.pd, &ah), ibv_destroy_ah, ENETUNREACH);
    SECOND_FAILS(struct ibv_mw *, ibv_alloc_mw(api.pd, IBV_MW_TYPE_1), ibv_dealloc_mw, EOPNOTSUPP);
    SECOND_FAILS(struct ibv_dm *, ibv_alloc_dm(api.context, &dm), ibv_free_dm, ENOMEM);
    struct ibv_cq *cq = ibv_create_cq(api.context, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr qp = api_qp_attr(cq);
    SECOND_FAILS(struct ibv_qp *, ibv_create_qp(api.pd, &qp), ibv_destroy_qp, EAGAIN);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    /* This is the second PD; api_open_device() allocated the first. */
    assert_null(ibv_alloc_pd(api.context));
    assert_int_equal(errno, ENOMEM);
    assert_null(api_open_device("objects").context);
    assert_int_equal(errno, EIO);
    api_close_device(&api);
}

static void inject__verb_that_returns_an_error_number__returns_the_error_of_the_rule(void **state)
{
    struct api api = api_open_device("numbers");
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
    struct ibv_qp_init_attr init;

    (void)state;
    assert_int_equal(ibv_query_device(api.context, &device), EIO);
    assert_int_equal(errno, EIO);
    assert_int_equal(ibv_query_device(api.context, &device), 0);
    assert_int_equal(ibv_query_port(api.context, 1, &port), EBUSY);
    struct ibv_cq *cq = api_cq(&api, 16);
    assert_int_equal(ibv_resize_cq(cq, 32), EFAULT);
    assert_int_equal(ibv_req_notify_cq(cq, 0), ENODEV);
    struct ibv_qp *qp = api_qp(&api, cq);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), ETIMEDOUT);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), EINVAL);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    api_close_device(&api);
}

static void posts__refused__are_given_back_and_change_nothing(void **state)
{
    struct api api = api_open_device("posts");
    struct ibv_wc wc;
    struct pair pair;

    (void)state;
    api_pair_open(&api, &pair, NULL);
    struct ibv_sge from = api_sge(&pair.a, 0, MESSAGE), to = api_sge(&pair.b, 0, MESSAGE);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    assert_int_equal(api_post_recv(&pair.b, 1, &to), ENOMEM);
    assert_int_equal(api_post_recv(&pair.b, 2, &to), 0);
    wr.wr_id = 7;
    assert_int_equal(api_post_send(&pair.a, &wr), EAGAIN);
    wr.wr_id = 8;
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    assert_int_equal(ibv_poll_cq(pair.a.cq, 1, &wc), -EIO);
    api_expect(pair.a.cq, 8, IBV_WC_SUCCESS);
    api_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
    api_pair_close(&pair);
    api_close_device(&api);
}

/* The responder has receives, but every second message finds none at first. */
static void rnr__every_second_message__arrives_after_an_rnr_nak(void **state)
{
    struct api api = api_open_device("rnr");
    struct pair pair;

    (void)state;
    api_pair_open(&api, &pair, NULL);
    struct ibv_sge from = api_sge(&pair.a, 0, MESSAGE), to = api_sge(&pair.b, 0, MESSAGE);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    for (uint64_t id = 0; id < 8; id++) {
        assert_int_equal(api_post_recv(&pair.b, id, &to), 0);
        wr.wr_id = id;
        assert_int_equal(api_post_send(&pair.a, &wr), 0);
    }
    for (uint64_t id = 0; id < 8; id++) {
        api_expect(pair.a.cq, id, IBV_WC_SUCCESS);
        api_expect(pair.b.cq, id, IBV_WC_SUCCESS);
    }
    api_pair_close(&pair);
    api_close_device(&api);
}

/* With rnr:1+, no message ever finds a receive. */
static void rnr__always__the_sender_runs_out_of_retries(void **state)
{
    struct api api = api_open_device("never");
    struct pair pair;

    (void)state;
    api_side_open(&api, &pair.a, NULL, IBV_QPT_RC, NULL);
    api_side_open(&api, &pair.b, NULL, IBV_QPT_RC, NULL);
    struct side *sides[2] = { &pair.a, &pair.b };
    for (unsigned i = 0; i < 2; i++) {
        struct ibv_qp_attr attr = api_attr(&api, sides[1 - i]->qp->qp_num);
        attr.rnr_retry = 1;
        attr.min_rnr_timer = 1;
        attr.qp_state = IBV_QPS_INIT;
        assert_int_equal(ibv_modify_qp(sides[i]->qp, &attr, API_TO_INIT), 0);
        attr.qp_state = IBV_QPS_RTR;
        assert_int_equal(ibv_modify_qp(sides[i]->qp, &attr, API_TO_RTR), 0);
        attr.qp_state = IBV_QPS_RTS;
        assert_int_equal(ibv_modify_qp(sides[i]->qp, &attr, API_TO_RTS), 0);
    }
    struct ibv_sge from = api_sge(&pair.a, 0, MESSAGE), to = api_sge(&pair.b, 0, MESSAGE);
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from);
    assert_int_equal(api_post_recv(&pair.b, 1, &to), 0);
    wr.wr_id = 5;
    assert_int_equal(api_post_send(&pair.a, &wr), 0);
    api_expect(pair.a.cq, 5, IBV_WC_RNR_RETRY_EXC_ERR);
    api_side_close(&pair.a);
    api_side_close(&pair.b);
    api_close_device(&api);
}

static void inject__events_of_rules__are_raised_for_the_objects(void **state)
{
    struct api api = api_open_device("events");
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    struct ibv_wc wc;
    struct pair pair;

    (void)state;
    api_pair_open(&api, &pair, NULL);
    struct ibv_sge to = api_sge(&pair.b, 0, MESSAGE);
    (void)ibv_query_device(api.context, &(struct ibv_device_attr){ 0 });
    struct ibv_async_event event;
    assert_int_equal(ibv_get_async_event(api.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_GID_CHANGE);
    assert_int_equal(event.element.port_num, API_PORT);
    ibv_ack_async_event(&event);
    assert_int_equal(api_post_recv(&pair.b, 1, &to), 0);
    api_expect_async(&api, IBV_EVENT_QP_FATAL, pair.b.qp);
    assert_int_equal(ibv_query_qp(pair.b.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    assert_in_range(ibv_poll_cq(pair.a.cq, 1, &wc), 0, 1);
    api_expect_async(&api, IBV_EVENT_CQ_ERR, pair.a.cq);
    api_pair_close(&pair);
    api_close_device(&api);
}

static void signal__of_a_rule__ends_the_process(void **state)
{
    int status;
    const pid_t child = fork();

    (void)state;
    if (child == 0) {
        struct api api = api_open_device("signal");
        (void)ibv_alloc_pd(api.context);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects__second_creation__fails_with_the_error_of_the_rule),
        cmocka_unit_test(inject__verb_that_returns_an_error_number__returns_the_error_of_the_rule),
        cmocka_unit_test(posts__refused__are_given_back_and_change_nothing),
        cmocka_unit_test(rnr__every_second_message__arrives_after_an_rnr_nak),
        cmocka_unit_test(rnr__always__the_sender_runs_out_of_retries),
        cmocka_unit_test(inject__events_of_rules__are_raised_for_the_objects),
        cmocka_unit_test(signal__of_a_rule__ends_the_process),
    };

    if (api_start_problem()[0] != '\0') {
        print_message("skipped: %s\n", api_start_problem());
        return API_SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
