/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static uint8_t memory[16384];

static void mr__says_what_was_registered(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 1000, IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE);

    assert_non_null(mr);
    assert_ptr_equal(mr->addr, memory);
    assert_int_equal(mr->length, 1000);
    assert_ptr_equal(mr->pd, api->pd);
    assert_ptr_equal(mr->context, api->context);
    assert_true(mr->lkey != 0 && mr->rkey != 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void mrs__over_the_same_memory__have_keys_of_their_own(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *one = ibv_reg_mr(api->pd, memory, sizeof memory, 0);
    struct ibv_mr *two = ibv_reg_mr(api->pd, memory, sizeof memory, 0);

    assert_int_not_equal(one->lkey, two->lkey);
    ibv_dereg_mr(one);
    ibv_dereg_mr(two);
}

static void expect_refusal(const struct api *api, void *at, size_t length, unsigned access,
                           int error)
{
    errno = 0;
    assert_null(ibv_reg_mr(api->pd, at, length, access));
    assert_int_equal(errno, error);
}

static void remote_writing__without_local_writing__is_einval(void **state)
{
    const struct api *api = *state;

    expect_refusal(api, memory, 8, IBV_ACCESS_REMOTE_WRITE, EINVAL);
    expect_refusal(api, memory, 8, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
    expect_refusal(api, memory, 8, ALL_REMOTE, EINVAL);
}

static void access_bits__unknown__are_einval_and_optional_ones_ignored(void **state)
{
    const struct api *api = *state;

    expect_refusal(api, memory, 8, 1 << 10, EINVAL);
    expect_refusal(api, memory, 8, 1 << 30, EINVAL);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 8, IBV_ACCESS_RELAXED_ORDERING);
    assert_non_null(mr);
    ibv_dereg_mr(mr);
    mr = ibv_reg_mr_iova2(api->pd, memory, 8, 0, IBV_ACCESS_OPTIONAL_RANGE);
    assert_non_null(mr);
    ibv_dereg_mr(mr);
}

static void memory__that_is_not_there__is_efault(void **state)
{
    const struct api *api = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_int_equal(munmap(at + page, page), 0);
    expect_refusal(api, at, 3 * page, IBV_ACCESS_LOCAL_WRITE, EFAULT);
    expect_refusal(api, NULL, 4096, 0, EFAULT);
    expect_refusal(api, at, 3 * page, IBV_ACCESS_ON_DEMAND, EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, at, page, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    ibv_dereg_mr(mr);
    munmap(at, page);
    munmap(at + 2 * page, page);
}

static void read_only_memory__is_efault_only_with_local_write(void **state)
{
    const struct api *api = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    expect_refusal(api, at, page, IBV_ACCESS_LOCAL_WRITE, EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, at, page, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    ibv_dereg_mr(mr);
    munmap(at, page);
}

static void ranges__that_wrap__are_einval(void **state)
{
    const struct api *api = *state;

    expect_refusal(api, memory, SIZE_MAX, 0, EINVAL);
    errno = 0;
    assert_null(ibv_reg_mr_iova(api->pd, memory, 4096, UINT64_MAX - 100, 0));
    assert_int_equal(errno, EINVAL);
}

static void nothing__can_be_registered(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 0, IBV_ACCESS_LOCAL_WRITE);

    assert_non_null(mr);
    assert_int_equal(mr->length, 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Whoever has the key of the same range goes on with it: peers are not told of new rights. */
static void rereg_mr__of_each_part__only_another_range_has_another_key(void **state)
{
    const struct api *api = *state;
    struct ibv_pd *pd = ibv_alloc_pd(api->context);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 64, 0);
    uint32_t key = mr->rkey;

    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + 64, 128, 0),
                     0);
    assert_ptr_equal(mr->addr, memory + 64);
    assert_int_equal(mr->length, 128);
    assert_int_not_equal(mr->rkey, key);
    key = mr->rkey;
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
    assert_ptr_equal(mr->pd, pd);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                                  IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE),
                     0);
    assert_int_equal(mr->rkey, key);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void rereg_mr__asked_wrongly__leaves_the_old_region_valid(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 64, 0);
    uint32_t key = mr->lkey;

    errno = 0;
    assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
        IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(mr->lkey, key);
    assert_ptr_equal(mr->addr, memory);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(mr__says_what_was_registered),
        API_TEST(mrs__over_the_same_memory__have_keys_of_their_own),
        API_TEST(remote_writing__without_local_writing__is_einval),
        API_TEST(access_bits__unknown__are_einval_and_optional_ones_ignored),
        API_TEST(memory__that_is_not_there__is_efault),
        API_TEST(read_only_memory__is_efault_only_with_local_write),
        API_TEST(ranges__that_wrap__are_einval),
        API_TEST(nothing__can_be_registered),
        API_TEST(rereg_mr__of_each_part__only_another_range_has_another_key),
        API_TEST(rereg_mr__asked_wrongly__leaves_the_old_region_valid),
    };
    return API_RUN(tests);
}
