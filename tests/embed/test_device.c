/* SPDX-License-Identifier: BSD-3-Clause */
/* test_device.c - tests a program that links liburoce and adds and removes devices. Without an
 * argument, liburoce comes before libibverbs in the link order. With the argument "behind", another
 * libibverbs comes first, and uroce must refuse to work. */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <uroce/uroce.h>

#include "embed/side.h"

static char error[UROCE_ERROR_MAX];

static int add(const char *device)
{
    memset(error, 0, sizeof error);
    return uroce_device_add(device, error, sizeof error);
}

/* Returns the description of a memif server without a client, whose link stays down. */
static const char *lonely(const char *name)
{
    static char text[160];

    (void)snprintf(text, sizeof text,
                   "%s:net_memif0,role=server,socket=uroce-embed-%s-%d;ip=10.0.0.1/24", name, name,
                   (int)getpid());
    return text;
}

static void add__wrong_description__error_has_a_sentence_and_no_device_is_added(void **state)
{
    (void)state;
    assert_int_equal(add(NULL), -EINVAL);
    assert_non_null(strstr(error, "description is missing"));
    assert_int_equal(add("uroce0"), -EINVAL);
    assert_non_null(strstr(error, "NAME:LINK"));
    assert_int_equal(add("uroce0:nothing;ip=10.0.0.1/24"), -EINVAL);
    assert_non_null(strstr(error, "no such kind of link"));
    assert_int_equal(add("*;max_qp=3"), -EINVAL);
    assert_int_equal(add("a:udp b:udp"), -EINVAL);
    assert_non_null(strstr(error, "remove the space"));
    assert_int_equal(uroce_device_add("uroce0", NULL, 0), -EINVAL);
    assert_int_equal(side_device_count(), 0);
}

static void add__name_twice__refused(void **state)
{
    (void)state;
    assert_int_equal(add(lonely("uroce0")), 0);
    assert_string_equal(error, "");
    assert_int_equal(add(lonely("uroce0")), -EEXIST);
    assert_non_null(strstr(error, "has this name"));
    assert_int_equal(side_device_count(), 1);
    assert_int_equal(uroce_device_remove("uroce0"), 0);
    assert_int_equal(side_device_count(), 0);
}

static void add__more_than_64__refused(void **state)
{
    char name[16];

    (void)state;
    for (int i = 0; i < 64; i++) {
        (void)snprintf(name, sizeof name, "many%d", i);
        assert_int_equal(add(lonely(name)), 0);
    }
    assert_int_equal(add(lonely("last")), -ENOSPC);
    assert_int_equal(side_device_count(), 64);
    for (int i = 63; i >= 0; i--) {
        (void)snprintf(name, sizeof name, "many%d", i);
        assert_int_equal(uroce_device_remove(name), 0);
    }
    assert_int_equal(side_device_count(), 0);
}

static void remove__unknown_name__refused(void **state)
{
    (void)state;
    assert_int_equal(uroce_device_remove(NULL), -EINVAL);
    assert_int_equal(uroce_device_remove("uroce7"), -ENODEV);
}

/* Contexts that librdmacm keeps open do not prevent the removal. Objects of the engine do. */
static void remove__running_device__contexts_and_domains_may_stay(void **state)
{
    struct ibv_async_event event;

    (void)state;
    assert_int_equal(add(lonely("uroce0")), 0);
    struct ibv_context *context = side_open_device("uroce0");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    assert_non_null(pd);
    assert_non_null(cq);
    assert_int_equal(uroce_device_remove("uroce0"), -EBUSY);
    assert_int_equal(side_device_count(), 1);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(uroce_device_remove("uroce0"), 0);

    assert_int_equal(ibv_get_async_event(context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
    assert_null(ibv_create_cq(context, 4, NULL, NULL, 0));
    assert_int_equal(errno, EIO);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void add__name_of_a_removed_device__a_new_device(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(add(lonely("uroce0")), 0);
        struct ibv_context *context = side_open_device("uroce0");
        struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
        assert_non_null(cq);
        assert_int_equal(ibv_destroy_cq(cq), 0);
        assert_int_equal(uroce_device_remove("uroce0"), 0);
        assert_int_equal(ibv_close_device(context), 0);
    }
    assert_int_equal(side_device_count(), 0);
}

/* Makes a queue pair on the engine of @vector, and polls the completion of a flushed receive. */
static void complete_on(struct ibv_pd *pd, int vector)
{
    struct ibv_cq *cq = ibv_create_cq(pd->context, 4, NULL, NULL, vector);
    struct ibv_qp_init_attr init = { .send_cq = cq,
                                     .recv_cq = cq,
                                     .qp_type = IBV_QPT_RC,
                                     .cap = { .max_send_wr = 1, .max_recv_wr = 1 } };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
    struct ibv_wc wc;

    assert_non_null(qp);
    assert_int_equal(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        0);
    assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
    attr.qp_state = IBV_QPS_ERR;
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void counter__device_with_two_engines__is_the_sum(void **state)
{
    char text[200];
    uint64_t value = 1;

    (void)state;
    (void)snprintf(text, sizeof text, "%s;engines=2", lonely("uroce0"));
    assert_int_equal(add(text), 0);
    assert_int_equal(uroce_device_counter("uroce0", "completions", &value), 0);
    assert_int_equal(value, 0); /* the device was not started */
    struct ibv_context *context = side_open_device("uroce0");
    struct ibv_pd *pd = ibv_alloc_pd(context);
    assert_non_null(pd);
    assert_int_equal(context->num_comp_vectors, 2);
    complete_on(pd, 0);
    complete_on(pd, 1);
    complete_on(pd, 1);
    assert_int_equal(uroce_device_counter("uroce0", "completions", &value), 0);
    assert_int_equal(value, 3);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(uroce_device_remove("uroce0"), 0);
}

static void add__another_libibverbs_comes_first__refused(void **state)
{
    (void)state;
    assert_int_equal(add(lonely("uroce0")), -ELIBACC);
    assert_non_null(strstr(error, "-luroce in front"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add__wrong_description__error_has_a_sentence_and_no_device_is_added),
        cmocka_unit_test(add__name_twice__refused),
        cmocka_unit_test(add__more_than_64__refused),
        cmocka_unit_test(remove__unknown_name__refused),
        cmocka_unit_test(remove__running_device__contexts_and_domains_may_stay),
        cmocka_unit_test(add__name_of_a_removed_device__a_new_device),
        cmocka_unit_test(counter__device_with_two_engines__is_the_sum),
    };
    const struct CMUnitTest behind[] = {
        cmocka_unit_test(add__another_libibverbs_comes_first__refused),
    };

    (void)argv;
    return argc > 1 ? cmocka_run_group_tests(behind, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
