/* SPDX-License-Identifier: BSD-3-Clause */
/* test_quota_process.c - tests two devices that share a limit of three PDs, three CQs and 1 MiB of
 * registered memory. The second device also has its own limit of two CQs.
 */
#include "api/api.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MEBIBYTE 1048576u

static uint8_t memory[MEBIBYTE];
static char said[1024];

/* Opens the second device. The fixture has objects only on the first device. */
static struct ibv_context *open_second(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    assert_non_null(list);
    assert_string_equal(ibv_get_device_name(list[1]), "uroce1");
    struct ibv_context *context = ibv_open_device(list[1]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

/* Returns the text that @act writes to stderr. */
static const char *stderr_of(void (*act)(struct ibv_context *context), struct ibv_context *context)
{
    int ends[2], before = dup(STDERR_FILENO);

    assert_true(before >= 0 && pipe2(ends, O_NONBLOCK) == 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    act(context);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    ssize_t length = read(ends[0], said, sizeof said - 1);
    said[length < 0 ? 0 : length] = '\0';
    (void)close(before);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return said;
}

static void fail_to_make_pd(struct ibv_context *context)
{
    errno = 0;
    assert_null(ibv_alloc_pd(context));
    assert_int_equal(errno, ENOMEM);
}

static void devices__together_at_their_limit__is_enomem_and_message_names_limit(void **state)
{
    const struct api *api = *state; /* has a PD already */
    struct ibv_context *second = open_second();

    struct ibv_pd *pds[2] = { ibv_alloc_pd(second), ibv_alloc_pd(api->context) };
    assert_true(pds[0] != NULL && pds[1] != NULL);
    assert_string_equal(
        stderr_of(fail_to_make_pd, second),
        "uroce: *: the limit of 3 protection domains of all devices together is reached, so "
        "requests for more fail (ENOMEM); destroy some in the program, or raise max_pd= of *\n");
    assert_string_equal(stderr_of(fail_to_make_pd, api->context), ""); /* printed once */

    /* The other device may create an object after one device has freed an object. */
    assert_int_equal(ibv_dealloc_pd(pds[0]), 0);
    assert_non_null(pds[0] = ibv_alloc_pd(api->context));
    fail_to_make_pd(second);
    assert_int_equal(ibv_dealloc_pd(pds[0]), 0);
    assert_int_equal(ibv_dealloc_pd(pds[1]), 0);
    assert_int_equal(ibv_close_device(second), 0);
}

static void fail_to_make_cq(struct ibv_context *context)
{
    errno = 0;
    assert_null(ibv_create_cq(context, 4, NULL, NULL, 0));
    assert_int_equal(errno, ENOMEM);
}

/* A refused creation does not count against the limit that the devices share. */
static void device__at_its_own_limit__message_names_limit(void **state)
{
    const struct api *api = *state;
    struct ibv_context *second = open_second();
    struct ibv_cq *cqs[3];

    for (unsigned i = 0; i < 2; i++)
        assert_non_null(cqs[i] = ibv_create_cq(second, 4, NULL, NULL, 0));
    assert_string_equal(
        stderr_of(fail_to_make_cq, second),
        "uroce: uroce1: the limit of 2 completion queues is reached, so requests for more fail "
        "(ENOMEM); destroy some in the program, or raise max_cq= of the device\n");
    for (unsigned i = 0; i < 5; i++)
        fail_to_make_cq(second);
    assert_non_null(cqs[2] = api_cq(api, 4));
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(ibv_destroy_cq(cqs[i]), 0);
    assert_int_equal(ibv_close_device(second), 0);
}

static void memory__more_than_all_may_register__is_enomem(void **state)
{
    const struct api *api = *state;
    struct ibv_context *second = open_second();
    struct ibv_pd *pd = ibv_alloc_pd(second);

    assert_non_null(pd);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, MEBIBYTE / 2, 0);
    assert_non_null(mr);
    assert_null(ibv_reg_mr(pd, memory, MEBIBYTE / 2 + 1, 0));
    assert_int_equal(errno, ENOMEM);
    struct ibv_mr *other = ibv_reg_mr(pd, memory, MEBIBYTE / 2, 0);
    assert_non_null(other);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dereg_mr(other), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(second), 0);
}

static void device__queried__reports_the_lower_limit(void **state)
{
    const struct api *api = *state;
    struct ibv_context *second = open_second();
    struct ibv_device_attr attr;

    assert_int_equal(ibv_query_device(api->context, &attr), 0);
    assert_true(attr.max_cq == 3 && attr.max_pd == 3 && attr.max_qp == 1048560);
    assert_int_equal(ibv_query_device(second, &attr), 0);
    assert_true(attr.max_cq == 2 && attr.max_pd == 3);
    assert_int_equal(ibv_close_device(second), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(devices__together_at_their_limit__is_enomem_and_message_names_limit),
        API_TEST(device__at_its_own_limit__message_names_limit),
        API_TEST(memory__more_than_all_may_register__is_enomem),
        API_TEST(device__queried__reports_the_lower_limit),
    };
    return API_RUN(tests);
}
