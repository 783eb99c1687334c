/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests device memory: its bounds, its contents, and memory regions in it. */
#include "api/api.h"

#include <string.h>
#include <unistd.h>

#define ALL                                                                                        \
    (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |                    \
     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define LENGTH 1000u

static uint64_t most(const struct api *api)
{
    struct ibv_device_attr_ex attr;

    assert_int_equal(ibv_query_device_ex(api->context, NULL, &attr), 0);
    return attr.max_dm_size;
}

static struct ibv_dm *alloc(const struct api *api, size_t length)
{
    struct ibv_alloc_dm_attr attr = { .length = length };
    struct ibv_dm *dm = ibv_alloc_dm(api->context, &attr);

    assert_non_null(dm);
    assert_ptr_equal(dm->context, api->context);
    return dm;
}

static void dm__wrong_arguments__is_einval_and_too_large_enomem(void **state)
{
    const struct api *api = *state;
    const struct {
        struct ibv_alloc_dm_attr attr;
        int error;
    } wrong[] = {
        { { .length = 0 }, EINVAL },
        { { .length = 64, .comp_mask = 1 }, EINVAL },
        { { .length = 64, .log_align_req = 22 }, EINVAL },
        { { .length = 64, .log_align_req = 64 }, EINVAL },
        { { .length = most(api) + 1 }, ENOMEM },
        { { .length = SIZE_MAX }, ENOMEM },
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct ibv_alloc_dm_attr attr = wrong[i].attr;
        errno = 0;
        assert_null(ibv_alloc_dm(api->context, &attr));
        assert_int_equal(errno, wrong[i].error);
    }
}

static void dm__all_at_once__allocated_and_one_byte_more_refused(void **state)
{
    const struct api *api = *state;
    struct ibv_alloc_dm_attr one = { .length = 1 };

    for (int i = 0; i < 2; i++) { /* freed memory can be allocated again */
        struct ibv_dm *all = alloc(api, most(api));
        errno = 0;
        assert_null(ibv_alloc_dm(api->context, &one));
        assert_int_equal(errno, ENOMEM);
        assert_int_equal(ibv_free_dm(all), 0);
    }
}

static void dm__memcpy__is_accepted_only_within_the_bounds(void **state)
{
    static const struct {
        uint64_t offset;
        size_t length;
        int error;
    } copies[] = {
        { 0, LENGTH, 0 },          { LENGTH, 0, 0 },          { LENGTH - 4, 4, 0 },
        { 1, 4, EINVAL },          { 4, 5, EINVAL },          { 0, LENGTH + 4, EFAULT },
        { LENGTH, 1, EFAULT },     { LENGTH + 1, 0, EFAULT }, { 1, SIZE_MAX, EFAULT },
        { UINT64_MAX, 2, EFAULT },
    };
    const struct api *api = *state;
    struct ibv_dm *dm = alloc(api, LENGTH);
    uint8_t octets[LENGTH];

    memset(octets, 0xcc, sizeof octets);
    assert_int_equal(ibv_memcpy_from_dm(octets, dm, 0, LENGTH), 0);
    for (uint32_t i = 0; i < LENGTH; i++)
        assert_int_equal(octets[i], 0);
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        assert_int_equal(ibv_memcpy_to_dm(dm, copies[i].offset, octets, copies[i].length),
                         copies[i].error);
        assert_int_equal(ibv_memcpy_from_dm(octets, dm, copies[i].offset, copies[i].length),
                         copies[i].error);
    }
    assert_int_equal(ibv_free_dm(dm), 0);
}

/* Memory that one user wrote must not be visible to the next user. */
static void dm__freed_and_allocated_again__reads_zero(void **state)
{
    static const size_t lengths[] = { 64, LENGTH, 65536, 1 << 20 };
    const struct api *api = *state;
    uint8_t *octets = test_malloc(1 << 20);

    for (size_t i = 0; i < 3 * sizeof lengths / sizeof lengths[0]; i++) {
        size_t length = lengths[i / 3];
        struct ibv_dm *dm = alloc(api, length);
        assert_int_equal(ibv_memcpy_from_dm(octets, dm, 0, length), 0);
        for (size_t k = 0; k < length; k++)
            assert_int_equal(octets[k], 0);
        memset(octets, 0xcc, length);
        assert_int_equal(ibv_memcpy_to_dm(dm, 0, octets, length), 0);
        assert_int_equal(ibv_free_dm(dm), 0);
    }
    test_free(octets);
}

static void dm_mr__wrong_arguments__is_refused(void **state)
{
    const struct api *api = *state;
    const struct {
        uint64_t offset;
        size_t length;
        unsigned access;
        int error;
    } wrong[] = {
        { 0, LENGTH, IBV_ACCESS_LOCAL_WRITE, EINVAL }, /* not zero-based */
        { 1, LENGTH, ALL, EINVAL },
        { LENGTH + 1, 0, ALL, EINVAL },
        { UINT64_MAX, 2, ALL, EINVAL },
        { 0, LENGTH, ALL | 1 << 10, EINVAL },
        { 0, LENGTH, ALL | IBV_ACCESS_ON_DEMAND, EINVAL },
        { 0, LENGTH, ALL | 1 << 9, EOPNOTSUPP }, /* a flush to persistent memory */
        { 0, LENGTH, ALL & ~(unsigned)IBV_ACCESS_LOCAL_WRITE, EINVAL },
    };
    struct ibv_dm *dm = alloc(api, LENGTH);
    struct ibv_context *context = ibv_open_device(api->device);
    struct ibv_pd *pd = ibv_alloc_pd(context);

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        errno = 0;
        assert_null(ibv_reg_dm_mr(api->pd, dm, wrong[i].offset, wrong[i].length, wrong[i].access));
        assert_int_equal(errno, wrong[i].error);
    }
    assert_null(ibv_reg_dm_mr(pd, dm, 0, LENGTH, ALL));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static void dm__with_an_mr__is_busy(void **state)
{
    const struct api *api = *state;
    struct ibv_dm *dm = alloc(api, LENGTH);
    struct ibv_mr *mr = ibv_reg_dm_mr(api->pd, dm, 0, LENGTH, ALL);

    assert_non_null(mr);
    assert_int_equal(mr->length, LENGTH);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static enum ibv_wc_status transfer(struct pair *pair, enum ibv_wr_opcode opcode, uint64_t address,
                                   uint32_t length, const struct ibv_mr *mr)
{
    struct ibv_sge local = api_sge(&pair->a, 0, length);
    struct ibv_send_wr wr = api_send(opcode, &local), *bad;

    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = mr->rkey;
    assert_int_equal(ibv_post_send(pair->a.qp, &wr, &bad), 0);
    return api_wait(pair->a.cq).status;
}

/* The addresses of an MR of device memory are offsets from the start of the MR. */
static void dm_mr__accessed_by_offset__only_its_part_is_accessible(void **state)
{
    const struct api *api = *state;
    struct ibv_dm *dm = alloc(api, LENGTH);
    struct ibv_mr *mr = ibv_reg_dm_mr(api->pd, dm, 100, 200, ALL);
    uint8_t octets[LENGTH];
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    memset(octets, 0xcc, sizeof octets);
    assert_int_equal(ibv_memcpy_to_dm(dm, 0, octets, LENGTH), 0);
    memset(pair.a.buffer, 0x77, 200);
    assert_int_equal(transfer(&pair, IBV_WR_RDMA_WRITE, 0, 200, mr), IBV_WC_SUCCESS);
    assert_int_equal(ibv_memcpy_from_dm(octets, dm, 0, LENGTH), 0);
    for (uint32_t i = 0; i < LENGTH; i++)
        assert_int_equal(octets[i], i >= 100 && i < 300 ? 0x77 : 0xcc);
    octets[3] = 0x12;
    assert_int_equal(ibv_memcpy_to_dm(dm, 296, octets, 4), 0);
    assert_int_equal(transfer(&pair, IBV_WR_RDMA_READ, 199, 1, mr), IBV_WC_SUCCESS);
    assert_int_equal(pair.a.buffer[0], 0x12);
    assert_int_equal(transfer(&pair, IBV_WR_RDMA_READ, 199, 2, mr), IBV_WC_REM_ACCESS_ERR);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static void dm__as_a_send_buffer__is_sent(void **state)
{
    const struct api *api = *state;
    struct ibv_dm *dm = alloc(api, LENGTH);
    struct ibv_mr *mr = ibv_reg_dm_mr(api->pd, dm, 0, LENGTH, ALL);
    struct ibv_sge from = { 12, 5, mr->lkey }, to;
    struct ibv_send_wr wr = api_send(IBV_WR_SEND, &from), *bad;
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    assert_int_equal(ibv_memcpy_to_dm(dm, 12, "hello...", 8), 0);
    to = api_sge(&pair.b, 0, 64);
    assert_int_equal(api_post_recv(&pair.b, 2, &to), 0);
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    api_expect(pair.b.cq, 2, IBV_WC_SUCCESS);
    assert_memory_equal(pair.b.buffer, "hello", 5);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
}

static void import_dm__handle_of_another_context__has_the_same_memory(void **state)
{
    const struct api *api = *state;
    struct ibv_dm *dm = alloc(api, LENGTH);
    struct ibv_context *context = ibv_import_device(dup(api->context->cmd_fd));
    struct ibv_context *stranger = ibv_open_device(api->device);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    uint8_t octets[8] = { 0 };

    errno = 0;
    assert_null(ibv_import_dm(stranger, dm->handle));
    assert_int_equal(errno, ENOENT);
    assert_null(ibv_import_dm(context, 0));
    struct ibv_dm *imported = ibv_import_dm(context, dm->handle);
    assert_non_null(imported);
    assert_int_equal(ibv_memcpy_to_dm(dm, LENGTH - 8, "12345678", 8), 0);
    assert_int_equal(ibv_memcpy_from_dm(octets, imported, LENGTH - 8, 8), 0);
    assert_memory_equal(octets, "12345678", 8);
    assert_int_equal(ibv_memcpy_from_dm(octets, imported, LENGTH - 4, 8), EFAULT);

    struct ibv_mr *mr = ibv_reg_dm_mr(pd, imported, 0, LENGTH, ALL);
    assert_non_null(mr);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    ibv_unimport_dm(imported); /* does not free the memory, because an MR uses it */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
    assert_null(ibv_import_dm(context, imported->handle));
    ibv_unimport_dm(imported);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(ibv_close_device(stranger), 0);
    ibv_free_dm(alloc(api, most(api))); /* all device memory is free again */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(dm__wrong_arguments__is_einval_and_too_large_enomem),
        API_TEST(dm__all_at_once__allocated_and_one_byte_more_refused),
        API_TEST(dm__memcpy__is_accepted_only_within_the_bounds),
        API_TEST(dm__freed_and_allocated_again__reads_zero),
        API_TEST(dm_mr__wrong_arguments__is_refused),
        API_TEST(dm__with_an_mr__is_busy),
        API_TEST(dm_mr__accessed_by_offset__only_its_part_is_accessible),
        API_TEST(dm__as_a_send_buffer__is_sent),
        API_TEST(import_dm__handle_of_another_context__has_the_same_memory),
    };
    return API_RUN(tests);
}
