/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL_REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static uint8_t memory[16384];

static void reg_mr__any_range__has_the_range_and_keys(void **state)
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

/* rule KEY.LOCAL.WRITE */
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

/* rule KEY.PERSISTENT */
/* The rights are IBV_ACCESS_FLUSH_GLOBAL and IBV_ACCESS_FLUSH_PERSISTENT, which older headers lack.
 * uroce has no persistent memory. */
static void reg_mr__flush_rights__global_is_granted_and_persistent_refused(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 8, 1 << 8 | IBV_ACCESS_LOCAL_WRITE);

    assert_non_null(mr);
    ibv_dereg_mr(mr);
    expect_refusal(api, memory, 8, 1 << 9, EOPNOTSUPP);
    expect_refusal(api, memory, 8, 1 << 8 | 1 << 9, EOPNOTSUPP);
}

static void memory__not_mapped__is_efault(void **state)
{
    const struct api *api = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_int_equal(munmap(at + page, page), 0);
    expect_refusal(api, at, 3 * page, IBV_ACCESS_LOCAL_WRITE, EFAULT);
    expect_refusal(api, NULL, 4096, 0, EFAULT);
    struct ibv_mr *mr = ibv_reg_mr(api->pd, at, page, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(mr);
    ibv_dereg_mr(mr);
    munmap(at, page);
    munmap(at + 2 * page, page);
}

static void reg_mr__read_only_memory__is_efault_only_with_local_write(void **state)
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

static void reg_mr__zero_length__succeeds(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 0, IBV_ACCESS_LOCAL_WRITE);

    assert_non_null(mr);
    assert_int_equal(mr->length, 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* rule KEY.REREG */
/* A new key would have to be sent to the peers, so the key changes only with the range. */
static void rereg_mr__of_each_part__only_a_new_range_changes_the_key(void **state)
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

static void rereg_mr__wrong_arguments__leaves_the_old_region_valid(void **state)
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
    errno = 0;
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EINVAL);
    errno = 0;
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 64,
                     IBV_ACCESS_LOCAL_WRITE), /* a flag of CHANGE_ACCESS, which is not set */
        IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_rereg_mr(mr, 1 << 3, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 9),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(mr->lkey, key);
    assert_ptr_equal(mr->addr, memory);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* ---- data ----------------------------------------------------------------------------------- */

static enum ibv_wc_status write_to(struct pair *pair, uint64_t address, uint32_t rkey,
                                   uint32_t length)
{
    struct ibv_sge from = api_sge(&pair->a, 0, length);
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &from), *bad;

    memset(pair->a.buffer, 0x77, length);
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    assert_int_equal(ibv_post_send(pair->a.qp, &wr, &bad), 0);
    return api_wait(pair->a.cq).status;
}

static void expect_written(uint32_t from, uint32_t length)
{
    for (uint32_t i = 0; i < sizeof memory; i++)
        assert_int_equal(memory[i], i - from < length ? 0x77 : 0);
    memset(memory, 0, sizeof memory);
}

static void region__with_an_iova__is_accessed_by_the_iova(void **state)
{
    const struct api *api = *state;
    struct pair pair;
    struct ibv_mr *mrs[3] = {
        ibv_reg_mr(api->pd, memory + 64, 64,
                   IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE),
        ibv_reg_mr_iova(api->pd, memory + 64, 64, 0, IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE),
        ibv_reg_mr_iova2(api->pd, memory + 64, 64, UINT64_MAX - 64,
                         IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE),
    };

    api_pair_open(api, &pair, NULL);
    memset(memory, 0, sizeof memory);
    for (int i = 0; i < 3; i++) {
        uint64_t base = i < 2 ? 0 : UINT64_MAX - 64;
        assert_int_equal(write_to(&pair, base, mrs[i]->rkey, 64), IBV_WC_SUCCESS);
        expect_written(64, 64);
        assert_int_equal(write_to(&pair, base + 63, mrs[i]->rkey, 1), IBV_WC_SUCCESS);
        expect_written(127, 1);
    }
    assert_int_equal(write_to(&pair, UINT64_MAX - 63, mrs[2]->rkey, 64), IBV_WC_REM_ACCESS_ERR);
    expect_written(0, 0);
    api_pair_close(&pair);
    for (int i = 0; i < 3; i++)
        ibv_dereg_mr(mrs[i]);
}

static void rereg_mr__to_other_memory__the_old_key_and_memory_are_out_of_reach(void **state)
{
    const struct api *api = *state;
    struct pair pair;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 64, IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE);
    uint32_t before = mr->rkey;

    api_pair_open(api, &pair, NULL);
    memset(memory, 0, sizeof memory);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory + 4096, 64, 0),
                     0);
    assert_int_equal(write_to(&pair, (uintptr_t)memory + 4096, mr->rkey, 64), IBV_WC_SUCCESS);
    expect_written(4096, 64);
    assert_int_equal(write_to(&pair, (uintptr_t)memory, before, 1), IBV_WC_REM_ACCESS_ERR);
    expect_written(0, 0);
    api_pair_close(&pair);
    ibv_dereg_mr(mr);
}

static void rereg_mr__of_access__takes_effect_at_once(void **state)
{
    const struct api *api = *state;
    struct pair pair;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, 64, IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE);

    api_pair_open(api, &pair, NULL);
    memset(memory, 0, sizeof memory);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                                  IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE | IBV_ACCESS_ZERO_BASED),
                     0);
    assert_int_equal(write_to(&pair, 10, mr->rkey, 5), IBV_WC_SUCCESS);
    expect_written(10, 5);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                                  IBV_ACCESS_LOCAL_WRITE | ALL_REMOTE),
                     0);
    assert_int_equal(write_to(&pair, (uintptr_t)memory + 10, mr->rkey, 5), IBV_WC_SUCCESS);
    expect_written(10, 5);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
                     0);
    assert_int_equal(write_to(&pair, (uintptr_t)memory, mr->rkey, 1), IBV_WC_REM_ACCESS_ERR);
    expect_written(0, 0);
    api_pair_close(&pair);
    ibv_dereg_mr(mr);
}

/* ---- the null MR ---------------------------------------------------------------------------- */

static void null_mr__sent_from_and_received_into__zeros_are_sent_and_data_discarded(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *null = ibv_alloc_null_mr(api->pd);
    struct pair pair;

    assert_non_null(null);
    assert_null(null->addr);
    assert_int_equal(null->length, SIZE_MAX);
    api_pair_open(api, &pair, NULL);
    for (int i = 0; i < 3; i++) {
        /* Sends 100 bytes, 6000 bytes of a null region, and 100 bytes. */
        struct ibv_sge from[3] = { api_sge(&pair.a, 0, 100),
                                   { 0x1234, 6000, null->lkey },
                                   api_sge(&pair.a, 100, 100) };
        struct ibv_sge to[3] = { api_sge(&pair.b, 0, i == 1 ? 50 : 6200) };
        struct ibv_recv_wr recv = { .wr_id = 2, .sg_list = to, .num_sge = 1 }, *bad_recv;
        struct ibv_send_wr send = api_send(IBV_WR_SEND, from), *bad;
        send.num_sge = 3;
        if (i == 1) { /* the null region discards all bytes but the ends */
            to[1] = (struct ibv_sge){ UINT64_MAX - 7000, 6100, null->lkey };
            to[2] = api_sge(&pair.b, 6150, 50);
            recv.num_sge = 3;
        }
        memset(pair.a.buffer, 0x55, 200);
        memset(pair.b.buffer, 0xcc, sizeof pair.b.buffer);
        assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad_recv), 0);
        assert_int_equal(ibv_post_send(pair.a.qp, &send, &bad), 0);
        api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
        api_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
        for (uint32_t at = 0; at < 6200; at++) {
            int want = at < 100 || at >= 6100 ? 0x55 : 0;
            if (i == 1 && at >= 50 && at < 6150)
                want = 0xcc;
            assert_int_equal(pair.b.buffer[at], want);
        }
    }
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(null), 0);
}

static void null_mr__of_a_peer_or_changed__is_refused(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *null = ibv_alloc_null_mr(api->pd);
    struct pair pair;

    assert_int_equal(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 64, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(errno, EINVAL);
    api_pair_open(api, &pair, NULL);
    assert_int_equal(write_to(&pair, 0, null->rkey, 1), IBV_WC_REM_ACCESS_ERR);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(null), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(reg_mr__any_range__has_the_range_and_keys),
        API_TEST(mrs__over_the_same_memory__have_keys_of_their_own),
        API_TEST(remote_writing__without_local_writing__is_einval),
        API_TEST(access_bits__unknown__are_einval_and_optional_ones_ignored),
        API_TEST(reg_mr__flush_rights__global_is_granted_and_persistent_refused),
        API_TEST(memory__not_mapped__is_efault),
        API_TEST(reg_mr__read_only_memory__is_efault_only_with_local_write),
        API_TEST(ranges__that_wrap__are_einval),
        API_TEST(reg_mr__zero_length__succeeds),
        API_TEST(rereg_mr__of_each_part__only_a_new_range_changes_the_key),
        API_TEST(rereg_mr__wrong_arguments__leaves_the_old_region_valid),
        API_TEST(region__with_an_iova__is_accessed_by_the_iova),
        API_TEST(rereg_mr__to_other_memory__the_old_key_and_memory_are_out_of_reach),
        API_TEST(rereg_mr__of_access__takes_effect_at_once),
        API_TEST(null_mr__sent_from_and_received_into__zeros_are_sent_and_data_discarded),
        API_TEST(null_mr__of_a_peer_or_changed__is_refused),
    };
    return API_RUN(tests);
}
