/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests verbs that <infiniband/verbs.h> of older rdma-core releases does not declare. The test
 * imports them like a program that was built with rdma-core 65. */
#include "api/api.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Imported under other names, because newer headers declare the verbs with types that older headers
 * lack. */
#define IMPORT(name) __asm__(#name)
void *alloc_buf(struct ibv_pd *pd, size_t size, void **buf) IMPORT(ibv_alloc_buf);
void free_buf(void *buf) IMPORT(ibv_free_buf);
struct ibv_mr *reg_buf_mr(struct ibv_pd *pd, void *buf, void *addr, size_t length, int access)
    IMPORT(ibv_reg_buf_mr);
int export_buf(void *buf) IMPORT(ibv_export_buf_dmabuf_fd);
struct ibv_mr *reg_mr_ex(struct ibv_pd *pd, void *attr) IMPORT(ibv_reg_mr_ex);
int query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
    IMPORT(ibv_query_port_speed);
int query_counter_caps(struct ibv_context *context, void *caps, size_t size)
    IMPORT(_ibv_query_comp_cntr_caps);
void *create_counter(struct ibv_context *context, void *attr) IMPORT(ibv_create_comp_cntr);
int destroy_counter(void *counter) IMPORT(ibv_destroy_comp_cntr);
int set_counter(void *counter, uint64_t value) IMPORT(ibv_set_comp_cntr);
int set_err_counter(void *counter, uint64_t value) IMPORT(ibv_set_err_comp_cntr);
int inc_counter(void *counter, uint64_t amount) IMPORT(ibv_inc_comp_cntr);
int inc_err_counter(void *counter, uint64_t amount) IMPORT(ibv_inc_err_comp_cntr);
int read_counter(void *counter, uint64_t *value) IMPORT(ibv_read_comp_cntr);
int read_err_counter(void *counter, uint64_t *value) IMPORT(ibv_read_err_comp_cntr);
int attach_counter(struct ibv_qp *qp, void *counter, void *attr) IMPORT(ibv_qp_attach_comp_cntr);

/* struct ibv_mr_init_attr of rdma-core 65, and its mask. */
enum { IOVA = 1, ADDR = 2, FD = 4, FD_OFFSET = 8, DMAH = 16, BUF = 32, UNKNOWN = 64 };
struct mr_attr {
    size_t length;
    int access;
    uint64_t comp_mask;
    uint64_t iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
    void *dmah;
    void *buf;
};

#define ALLOW_UNPROTECTED (1u << 2) /* bit of the comp_mask of a parent domain, rdma-core 64 */

static uint8_t memory[4096];

#define REFUSED(call, error)                                                                       \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_null(call);                                                                         \
        assert_int_equal(errno, error);                                                            \
    } while (0)

#define FAILS(call, error)                                                                         \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal(call, error);                                                             \
        assert_int_equal(errno, error);                                                            \
    } while (0)

/* ---- buffers ------------------------------------------------------------- */

static void alloc_buffer__any_size__has_separate_zeroed_pages(void **state)
{
    const struct api *api = *state;
    void *one, *two;
    uint8_t *at = alloc_buf(api->pd, 5000, &one), *other = alloc_buf(api->pd, 1, &two);

    assert_non_null(at);
    assert_non_null(other);
    assert_int_equal((uintptr_t)at % (uintptr_t)sysconf(_SC_PAGESIZE), 0);
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(at[i], 0);
    memset(at, 1, 5000);
    assert_int_equal(other[0], 0);
    free_buf(one);
    free_buf(two);
    REFUSED(alloc_buf(api->pd, 0, &one), EINVAL);
    REFUSED(alloc_buf(api->pd, SIZE_MAX, &one), ENOMEM);
}

/* Data that a queue pair writes through the region of a buffer is in the buffer. */
static void buffer__registered__carries_data(void **state)
{
    const struct api *api = *state;
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct pair pair;
    void *buf;

    uint8_t *at = alloc_buf(api->pd, 8192, &buf);
    struct ibv_mr *mr = reg_buf_mr(api->pd, buf, at + 100, 64, access);
    assert_non_null(mr);
    assert_ptr_equal(mr->addr, at + 100);
    assert_int_equal(mr->length, 64);
    api_pair_open(api, &pair, NULL);
    memset(pair.a.buffer, 7, 64);
    struct ibv_sge from = { (uintptr_t)pair.a.buffer, 64, pair.a.mr->lkey };
    struct ibv_send_wr *bad, wr = { .sg_list = &from,
                                    .num_sge = 1,
                                    .opcode = IBV_WR_RDMA_WRITE,
                                    .send_flags = IBV_SEND_SIGNALED,
                                    .wr.rdma = { (uintptr_t)(at + 100), mr->rkey } };
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    api_expect(pair.a.cq, 0, IBV_WC_SUCCESS);
    assert_memory_equal(at + 100, pair.a.buffer, 64);
    assert_int_equal(at[99] + at[164], 0);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    free_buf(buf);
}

static void buffer__range_outside_or_another_domain__is_einval(void **state)
{
    const struct api *api = *state;
    struct ibv_pd *other = ibv_alloc_pd(api->context);
    void *buf;
    uint8_t *at = alloc_buf(api->pd, 8192, &buf);

    REFUSED(reg_buf_mr(other, buf, at, 8192, 0), EINVAL);
    REFUSED(reg_buf_mr(api->pd, buf, at, 8193, 0), EINVAL);
    REFUSED(reg_buf_mr(api->pd, buf, at + 8192, 1, 0), EINVAL);
    REFUSED(reg_buf_mr(api->pd, buf, at + 1, SIZE_MAX, 0), EINVAL);
    REFUSED(reg_buf_mr(api->pd, buf, at - 1, 8, 0), EINVAL);
    REFUSED(reg_buf_mr(api->pd, buf, memory, 8, 0), EINVAL);
    REFUSED(reg_buf_mr(api->pd, NULL, at, 8, 0), EINVAL);
    REFUSED(reg_buf_mr(api->pd, buf, at, 8, IBV_ACCESS_REMOTE_WRITE), EINVAL);
    free_buf(buf);
    assert_int_equal(ibv_dealloc_pd(other), 0);
}

static void buffer__of_a_parent_domain__is_registered_only_there(void **state)
{
    const struct api *api = *state;
    struct ibv_parent_domain_init_attr attr = { .pd = api->pd, .comp_mask = ALLOW_UNPROTECTED };
    struct ibv_pd *parent = ibv_alloc_parent_domain(api->context, &attr);
    void *buf;

    assert_non_null(parent);
    uint8_t *at = alloc_buf(parent, 100, &buf);
    REFUSED(reg_buf_mr(api->pd, buf, at, 100, 0), EINVAL);
    struct ibv_mr *mr = reg_buf_mr(parent, buf, at, 100, 0);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    free_buf(buf);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void buffer__exported__is_no_dmabuf(void **state)
{
    const struct api *api = *state;
    void *buf;

    assert_non_null(alloc_buf(api->pd, 100, &buf));
    errno = 0;
    assert_int_equal(export_buf(buf), -1);
    assert_int_equal(errno, ENODATA);
    free_buf(buf);
}

/* ---- regions by attributes ----------------------------------------------- */

static void attributes__address__act_as_reg_mr(void **state)
{
    const struct api *api = *state;
    struct mr_attr attr = { .length = 100, .comp_mask = ADDR, .addr = memory, .iova = 5 };
    struct ibv_mr *mr = reg_mr_ex(api->pd, &attr);

    assert_non_null(mr);
    assert_ptr_equal(mr->addr, memory);
    assert_int_equal(mr->length, 100);
    assert_ptr_equal(mr->pd, api->pd);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    attr.access = IBV_ACCESS_REMOTE_WRITE; /* without LOCAL_WRITE */
    REFUSED(reg_mr_ex(api->pd, &attr), EINVAL);
}

/* A peer addresses the memory by the IOVA. */
static void attributes__iova__is_the_address_for_peers(void **state)
{
    const struct api *api = *state;
    struct mr_attr attr = { .length = 100,
                            .access = IBV_ACCESS_REMOTE_READ,
                            .comp_mask = ADDR | IOVA,
                            .iova = 0x1000,
                            .addr = memory };
    struct ibv_mr *mr = reg_mr_ex(api->pd, &attr);
    struct pair pair;

    assert_non_null(mr);
    assert_ptr_equal(mr->addr, memory);
    memory[8] = 42;
    api_pair_open(api, &pair, NULL);
    struct ibv_sge to = { (uintptr_t)pair.a.buffer, 1, pair.a.mr->lkey };
    struct ibv_send_wr *bad, wr = { .sg_list = &to,
                                    .num_sge = 1,
                                    .opcode = IBV_WR_RDMA_READ,
                                    .send_flags = IBV_SEND_SIGNALED,
                                    .wr.rdma = { 0x1008, mr->rkey } };
    assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
    api_expect(pair.a.cq, 0, IBV_WC_SUCCESS);
    assert_int_equal(pair.a.buffer[0], 42);
    api_pair_close(&pair);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void attributes__buffer__act_as_reg_buf_mr(void **state)
{
    const struct api *api = *state;
    void *buf;
    struct mr_attr attr = { .length = 100, .comp_mask = BUF | ADDR };

    attr.addr = alloc_buf(api->pd, 100, &buf);
    attr.buf = buf;
    const struct mr_attr before = attr;
    struct ibv_mr *mr = reg_mr_ex(api->pd, &attr);
    assert_non_null(mr);
    assert_memory_equal(&attr, &before, sizeof attr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    attr.comp_mask = BUF;
    REFUSED(reg_mr_ex(api->pd, &attr), EINVAL);
    attr.comp_mask = BUF | ADDR | FD;
    REFUSED(reg_mr_ex(api->pd, &attr), EINVAL);
    attr.comp_mask = BUF | ADDR | FD_OFFSET;
    REFUSED(reg_mr_ex(api->pd, &attr), EINVAL);
    free_buf(buf);
}

static void attributes__unsupported__is_refused(void **state)
{
    const struct api *api = *state;
    struct mr_attr attr = { .length = 100, .addr = memory, .fd = 0 };
    static const struct {
        uint64_t mask;
        int error;
    } rows[] = { { 0, EINVAL },
                 { IOVA, EINVAL },
                 { ADDR | FD, EINVAL },
                 { FD | FD_OFFSET | IOVA, EOPNOTSUPP },
                 { ADDR | DMAH, EOPNOTSUPP },
                 { ADDR | UNKNOWN, EOPNOTSUPP } };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        attr.comp_mask = rows[i].mask;
        REFUSED(reg_mr_ex(api->pd, &attr), rows[i].error);
    }
}

/* In programs of rdma-core 59, the struct is shorter. The memory after it must not be read. */
static void attributes__of_an_older_program__later_fields_are_not_read(void **state)
{
    const struct api *api = *state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = offsetof(struct mr_attr, buf);
    uint8_t *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const struct mr_attr attr = { .length = 100, .comp_mask = ADDR, .addr = memory };

    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    void *older = memcpy(pages + page - size, &attr, size);
    struct ibv_mr *mr = reg_mr_ex(api->pd, older);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(munmap(pages, 2 * page), 0);
}

/* ---- the rest ------------------------------------------------------------ */

static void query_port_speed__any_port__is_that_of_query_port(void **state)
{
    const struct api *api = *state;
    struct ibv_port_attr port;
    uint64_t speed = 0;

    assert_int_equal(ibv_query_port(api->context, API_PORT, &port), 0);
    assert_true(port.active_width == 2 && port.active_speed == 32); /* 4X EDR */
    assert_int_equal(query_port_speed(api->context, API_PORT, &speed), 0);
    assert_int_equal(speed, 1000);
    FAILS(query_port_speed(api->context, API_PORT + 1, &speed), EINVAL);
    FAILS(query_port_speed(api->context, 256 + API_PORT, &speed), EINVAL);
}

static void completion_counters__created__is_eopnotsupp(void **state)
{
    const struct api *api = *state;
    struct ibv_context *stranger =
        api->context; /* placeholder for a counter object, which does not exist */
    uint64_t room[4] = { 0 };

    FAILS(query_counter_caps(api->context, room, sizeof room), EOPNOTSUPP);
    REFUSED(create_counter(api->context, room), EOPNOTSUPP);
    FAILS(destroy_counter(stranger), EOPNOTSUPP);
    FAILS(set_counter(stranger, 1), EOPNOTSUPP);
    FAILS(set_err_counter(stranger, 1), EOPNOTSUPP);
    FAILS(inc_counter(stranger, 1), EOPNOTSUPP);
    FAILS(inc_err_counter(stranger, 1), EOPNOTSUPP);
    FAILS(read_counter(stranger, room), EOPNOTSUPP);
    FAILS(read_err_counter(stranger, room), EOPNOTSUPP);
    FAILS(attach_counter(NULL, stranger, room), EOPNOTSUPP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        API_TEST(alloc_buffer__any_size__has_separate_zeroed_pages),
        API_TEST(buffer__registered__carries_data),
        API_TEST(buffer__range_outside_or_another_domain__is_einval),
        API_TEST(buffer__of_a_parent_domain__is_registered_only_there),
        API_TEST(buffer__exported__is_no_dmabuf),
        API_TEST(attributes__address__act_as_reg_mr),
        API_TEST(attributes__iova__is_the_address_for_peers),
        API_TEST(attributes__buffer__act_as_reg_buf_mr),
        API_TEST(attributes__unsupported__is_refused),
        API_TEST(attributes__of_an_older_program__later_fields_are_not_read),
        API_TEST(query_port_speed__any_port__is_that_of_query_port),
        API_TEST(completion_counters__created__is_eopnotsupp),
    };

    return API_RUN(tests);
}
