/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests further handles of devices, PDs and MRs, and parent and thread domains. */
#include "api/api.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static uint8_t memory[4096];

static struct ibv_context *import(const struct api *api)
{
    struct ibv_context *context = ibv_import_device(dup(api->context->cmd_fd));

    assert_non_null(context);
    assert_ptr_equal(context->device, api->device);
    return context;
}

static void import_device__fd_is_no_context__is_refused(void **state)
{
    int other = memfd_create("other", MFD_CLOEXEC);

    (void)state;
    errno = 0;
    assert_null(ibv_import_device(-1));
    assert_int_equal(errno, EBADF);
    assert_null(ibv_import_device(other));
    assert_int_equal(errno, ENODEV);
    assert_int_equal(close(other), 0); /* the program still owns the descriptor */
}

static void import_device__closed__closes_the_descriptor(void **state)
{
    const struct api *api = *state;
    int copy = dup(api->context->cmd_fd);
    struct ibv_context *context = ibv_import_device(copy);

    assert_int_equal(context->cmd_fd, copy);
    assert_int_not_equal(context->async_fd, api->context->async_fd);
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(close(copy), -1);
    assert_int_equal(errno, EBADF);
}

static void import_pd__of_a_context_that_is_not_shared__is_enoent(void **state)
{
    const struct api *api = *state;
    struct ibv_context *context = import(api), *stranger = ibv_open_device(api->device);
    struct ibv_pd *pd = ibv_alloc_pd(stranger);

    errno = 0;
    assert_null(ibv_import_pd(context, pd->handle));
    assert_int_equal(errno, ENOENT);
    errno = 0;
    assert_null(ibv_import_pd(context, UINT32_MAX));
    assert_int_equal(errno, ENOENT);
    assert_null(ibv_import_pd(stranger, api->pd->handle));
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(stranger), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void import_mr__that_is_not_of_the_pd__is_enoent(void **state)
{
    const struct api *api = *state;
    struct ibv_context *context = import(api);
    struct ibv_pd *pd = ibv_import_pd(context, api->pd->handle),
                  *other = ibv_alloc_pd(api->context);
    struct ibv_mr *mr = ibv_reg_mr(other, memory, sizeof memory, RIGHTS);

    errno = 0;
    assert_null(ibv_import_mr(pd, mr->handle));
    assert_int_equal(errno, ENOENT);
    assert_null(ibv_import_mr(pd, 0));
    assert_null(ibv_import_mr(other, mr->handle ^ 1));
    uint32_t handle = mr->handle;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_null(ibv_import_mr(other, handle));
    assert_int_equal(ibv_dealloc_pd(other), 0);
    ibv_unimport_pd(pd);
    assert_int_equal(ibv_close_device(context), 0);
}

/* A queue pair of the imported PD uses a region that was registered in the first context. */
static void import__pd_and_mr__are_the_same_domain_and_region(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory, RIGHTS);
    struct api there = { .device = api->device, .context = import(api) };
    struct pair pair;

    there.pd = ibv_import_pd(there.context, api->pd->handle);
    assert_non_null(there.pd);
    assert_int_equal(there.pd->handle, api->pd->handle);
    assert_ptr_equal(there.pd->context, there.context);
    struct ibv_mr *imported = ibv_import_mr(there.pd, mr->handle);
    assert_null(imported->addr);
    assert_int_equal(imported->length, sizeof memory);
    assert_int_equal(imported->lkey, mr->lkey);
    assert_int_equal(imported->rkey, mr->rkey);
    assert_int_equal(ibv_rereg_mr(imported, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIGHTS),
                     IBV_REREG_MR_ERR_INPUT);

    api_pair_open(&there, &pair, NULL);
    struct ibv_sge local = { (uintptr_t)memory, 100, imported->lkey };
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &local), *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 2048;
    wr.wr.rdma.rkey = imported->rkey;
    memset(memory, 0x21, 100);
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(memory + 2048, memory, 100);

    ibv_unimport_mr(imported);
    memset(memory, 0x22, 100); /* the region still exists */
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(memory + 2048, memory, 100);
    api_pair_close(&pair);
    ibv_unimport_pd(there.pd);
    assert_int_equal(ibv_close_device(there.context), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Deregistering any handle ends the region; the other handles are only freed. */
static void dereg_mr__of_an_imported_mr__ends_the_region(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory, RIGHTS);
    struct ibv_context *context = import(api);
    struct ibv_pd *pd = ibv_import_pd(context, api->pd->handle);
    struct ibv_mr *imported = ibv_import_mr(pd, mr->handle);
    struct ibv_sge local;
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    assert_int_equal(ibv_dereg_mr(imported), 0);
    local = api_sge(&pair.a, 0, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &local), *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory;
    wr.wr.rdma.rkey = mr->rkey;
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    api_expect(pair.a.cq, 1, IBV_WC_REM_ACCESS_ERR);
    assert_null(ibv_import_mr(pd, mr->handle));
    ibv_unimport_mr(mr);
    api_pair_close(&pair);
    ibv_unimport_pd(pd);
    assert_int_equal(ibv_close_device(context), 0);
}

static void unimport_mr__of_the_first_handle__leaves_the_region_to_the_second(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory, RIGHTS);
    struct ibv_context *context = import(api);
    struct ibv_pd *pd = ibv_import_pd(context, api->pd->handle);
    struct ibv_mr *imported = ibv_import_mr(pd, mr->handle);

    ibv_unimport_mr(mr);
    struct ibv_mr *third = ibv_import_mr(pd, imported->handle);
    assert_non_null(third);
    ibv_unimport_mr(third);
    assert_int_equal(ibv_dereg_mr(imported), 0);
    ibv_unimport_pd(pd);
    assert_int_equal(ibv_close_device(context), 0);
}

/* The context in which the region was registered is closed. After that, the region is imported
 * again, and another region is registered in the same PD. */
static void region__used_by_an_imported_handle__outlives_its_context(void **state)
{
    const struct api *api = *state;
    struct ibv_context *first = ibv_open_device(api->device);
    struct ibv_pd *before = ibv_alloc_pd(first);
    struct ibv_mr *mr = ibv_reg_mr(before, memory, sizeof memory, RIGHTS);
    struct ibv_context *second = ibv_import_device(dup(first->cmd_fd));
    struct ibv_pd *pd = ibv_import_pd(second, before->handle);
    struct ibv_mr *imported = ibv_import_mr(pd, mr->handle);

    assert_non_null(imported);
    ibv_unimport_mr(mr);
    ibv_unimport_pd(before);
    assert_int_equal(ibv_close_device(first), 0);
    struct ibv_mr *third = ibv_import_mr(pd, imported->handle);
    assert_non_null(third);
    assert_int_equal(third->rkey, imported->rkey);
    struct ibv_mr *other = ibv_reg_mr(pd, memory, sizeof memory, RIGHTS);
    assert_non_null(other);
    assert_int_not_equal(other->rkey, imported->rkey);
    assert_int_equal(ibv_dereg_mr(other), 0);
    ibv_unimport_mr(third);
    assert_int_equal(ibv_dereg_mr(imported), 0);
    ibv_unimport_pd(pd);
    assert_int_equal(ibv_close_device(second), 0);
}

static void unimport_mr__of_the_only_handle__ends_the_region(void **state)
{
    const struct api *api = *state;
    struct ibv_mr *mr = ibv_reg_mr(api->pd, memory, sizeof memory, RIGHTS);
    uint32_t rkey = mr->rkey;
    struct ibv_sge local;
    struct pair pair;

    api_pair_open(api, &pair, NULL);
    ibv_unimport_mr(mr);
    local = api_sge(&pair.a, 0, 8);
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &local), *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory;
    wr.wr.rdma.rkey = rkey;
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    api_expect(pair.a.cq, 1, IBV_WC_REM_ACCESS_ERR);
    api_pair_close(&pair);
}

static void unimport_pd__in_use__remains(void **state)
{
    const struct api *api = *state;
    struct ibv_context *context = import(api);
    struct ibv_pd *pd = ibv_import_pd(context, api->pd->handle);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, 0);

    ibv_unimport_pd(pd);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_dealloc_pd(api->pd), EBUSY); /* because the imported handle is in use */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    ibv_unimport_pd(pd);
    assert_int_equal(ibv_close_device(context), 0);
}

/* ---- parent and thread domains ------------------------------------------- */

static void td__wrong_arguments__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_td_init_attr attr = { .comp_mask = 1 };

    errno = 0;
    assert_null(ibv_alloc_td(api->context, &attr));
    assert_int_equal(errno, EINVAL);
}

static void parent_domain__wrong_arguments__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_context *stranger = ibv_open_device(api->device);
    struct ibv_td_init_attr td_attr = { 0 };
    struct ibv_td *td = ibv_alloc_td(stranger, &td_attr);
    struct ibv_pd *pd = ibv_alloc_pd(stranger);
    const struct ibv_parent_domain_init_attr wrong[] = {
        { .pd = NULL },
        { .pd = pd },
        { .pd = api->pd, .td = td },
        { .pd = api->pd, .comp_mask = 1 << 3 }, /* 1 << 2 is known since rdma-core 64 */
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct ibv_parent_domain_init_attr attr = wrong[i];
        errno = 0;
        assert_null(ibv_alloc_parent_domain(api->context, &attr));
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(ibv_dealloc_td(td), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(stranger), 0);
}

static void parent_domain__exists__pd_and_td_cannot_be_freed(void **state)
{
    const struct api *api = *state;
    struct ibv_td_init_attr td_attr = { 0 };
    struct ibv_td *td = ibv_alloc_td(api->context, &td_attr);
    struct ibv_pd *base = ibv_alloc_pd(api->context);
    struct ibv_parent_domain_init_attr attr = {
        .pd = base, .td = td, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT
    };
    struct ibv_pd *parent = ibv_alloc_parent_domain(api->context, &attr);

    assert_non_null(parent);
    assert_int_equal(ibv_dealloc_pd(base), EBUSY);
    assert_int_equal(ibv_dealloc_td(td), EBUSY);
    struct ibv_mr *mr = ibv_reg_mr(parent, memory, sizeof memory, 0);
    assert_ptr_equal(mr->pd, parent);
    assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    struct ibv_cq_init_attr_ex cq_attr = { .cqe = 4,
                                           .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
                                           .parent_domain = parent };
    struct ibv_cq_ex *cq = ibv_create_cq_ex(api->context, &cq_attr);
    assert_non_null(cq);
    assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
    assert_int_equal(ibv_dealloc_pd(base), 0);
}

/* Queue pairs of @api write from a region of @pd to the same region. */
static void use_region(const struct api *api, struct ibv_pd *pd, uint8_t value)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, RIGHTS);
    struct pair pair;

    assert_non_null(mr);
    api_pair_open(api, &pair, NULL);
    struct ibv_sge local = { (uintptr_t)memory, 100, mr->lkey };
    struct ibv_send_wr wr = api_send(IBV_WR_RDMA_WRITE, &local), *bad;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 1024;
    wr.wr.rdma.rkey = mr->rkey;
    memset(memory, value, 100);
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    api_expect(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_memory_equal(memory + 1024, memory, 100);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Queue pairs of the parent domain use a region of its base PD, and the other way round. */
static void parent_domain__for_keys_and_queue_pairs__acts_as_the_base_pd(void **state)
{
    const struct api *api = *state;
    struct ibv_parent_domain_init_attr attr = { .pd = api->pd };
    struct api child = *api;

    child.pd = ibv_alloc_parent_domain(api->context, &attr);
    assert_non_null(child.pd);
    struct ibv_ah_attr address = api_attr(api, 0).ah_attr;
    struct ibv_ah *ah = ibv_create_ah(child.pd, &address);
    assert_non_null(ah);
    use_region(&child, api->pd, 0x23);
    use_region(api, child.pd, 0x24);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_dealloc_pd(child.pd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(import_device__fd_is_no_context__is_refused),
        API_TEST(import_device__closed__closes_the_descriptor),
        API_TEST(import_pd__of_a_context_that_is_not_shared__is_enoent),
        API_TEST(import_mr__that_is_not_of_the_pd__is_enoent),
        API_TEST(import__pd_and_mr__are_the_same_domain_and_region),
        API_TEST(dereg_mr__of_an_imported_mr__ends_the_region),
        API_TEST(unimport_mr__of_the_first_handle__leaves_the_region_to_the_second),
        API_TEST(region__used_by_an_imported_handle__outlives_its_context),
        API_TEST(unimport_mr__of_the_only_handle__ends_the_region),
        API_TEST(unimport_pd__in_use__remains),
        API_TEST(td__wrong_arguments__is_einval),
        API_TEST(parent_domain__wrong_arguments__is_einval),
        API_TEST(parent_domain__exists__pd_and_td_cannot_be_freed),
        API_TEST(parent_domain__for_keys_and_queue_pairs__acts_as_the_base_pd),
    };
    return API_RUN(tests);
}
