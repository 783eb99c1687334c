/* SPDX-License-Identifier: BSD-3-Clause */
/* test_memory.c - makes each allocation fail once in public functions that allocate memory.
 * Such a call must return -ENOMEM and leak nothing.
 *
 * The allocators below replace those of the C library, also in liburoce.
 */
#include "support/check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <uroce/connection.h>
#include <uroce/objects.h>
#include <uroce/uroce.h>

#include "embed/side.h"

#define SIZE 64
#define SEEN __attribute__((visibility("default")))

/* Other names of the C library's allocators in glibc. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static _Thread_local long allowed =
    -1; /* number of allocations that succeed before the first failure; -1: none fails */

static bool is_refused(void)
{
    if (allowed == 0) {
        errno = ENOMEM;
        return true;
    }
    allowed -= allowed > 0;
    return false;
}

SEEN void *malloc(size_t size)
{
    return is_refused() ? NULL : __libc_malloc(size);
}

SEEN void *calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __libc_calloc(count, size);
}

SEEN void *aligned_alloc(size_t alignment, size_t size)
{
    return is_refused() ? NULL : __libc_memalign(alignment, size);
}

SEEN void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (is_refused())
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

/* Repeats @call until it succeeds. Each time, one more allocation succeeds. @holds must be true
 * after each failure. */
#define UNTIL_IT_WORKS(call, holds)                                                                \
    do {                                                                                           \
        int result = -ENOMEM;                                                                      \
        for (long most = 0; result != 0; most++) {                                                 \
            allowed = most;                                                                        \
            result = (call);                                                                       \
            const bool failed_once = most > 0 || result != 0;                                      \
            allowed = -1;                                                                          \
            assert_true(failed_once);                                                              \
            assert_true(result == 0 || result == -ENOMEM);                                         \
            assert_true(result == 0 || (holds));                                                   \
        }                                                                                          \
    } while (0)

static void devices__memory_runs_out__the_list_is_as_before(void **state)
{
    static const char one[] = "one:cable,name=c0;ip=10.0.0.1/24";
    char error[UROCE_ERROR_MAX] = "";

    (void)state;
    assert_int_equal(side_device_count(), 0); /* reads the configuration */
    UNTIL_IT_WORKS(uroce_device_add(one, error, sizeof error),
                   side_device_count() == 0 && strstr(error, "out of memory") != NULL);
    assert_int_equal(side_device_count(), 1);
    UNTIL_IT_WORKS(uroce_device_remove("one"), side_device_count() == 1);
    assert_int_equal(side_device_count(), 0);
}

/* An object that a failed call leaves behind would make uroce_engine_destroy() fail. */
static void engine__memory_runs_out__no_leak(void **state)
{
    struct uroce_engine_config config = {
        .size = sizeof config, .mac = { 2 }, .mtu = 1500, .address_count = 1
    };
    struct uroce_qp_config wanted = { .size = sizeof wanted, .send_capacity = 2 };
    struct uroce_address address = { .sgid_index = 1 };
    struct uroce_engine *engine = NULL;
    struct uroce_pd *pd = NULL;
    struct uroce_cq *cq = NULL;
    struct uroce_mr *mr = NULL;
    struct uroce_ah *ah = NULL;
    struct uroce_qp *qp = NULL;
    static char memory[SIZE];

    (void)state;
    config.addresses[0].prefix = 24;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    assert_int_equal(uroce_gid_parse("10.0.0.2", address.gid), 0);
    UNTIL_IT_WORKS(uroce_engine_create(&config, 0, &engine), engine == NULL);
    UNTIL_IT_WORKS(uroce_pd_create(engine, &pd), pd == NULL);
    UNTIL_IT_WORKS(uroce_cq_create(engine, 4, NULL, &cq), cq == NULL);
    UNTIL_IT_WORKS(uroce_mr_create(pd, memory, SIZE, 0, &mr), mr == NULL);
    UNTIL_IT_WORKS(uroce_ah_create(pd, &address, 0, &ah), ah == NULL);
    wanted.send_cq = wanted.recv_cq = cq;
    UNTIL_IT_WORKS(uroce_qp_create(pd, &wanted, &qp), qp == NULL);

    assert_int_equal(uroce_qp_destroy(qp), 0);
    assert_int_equal(uroce_ah_destroy(ah), 0);
    assert_int_equal(uroce_mr_destroy(mr), 0);
    assert_int_equal(uroce_cq_destroy(cq), 0);
    assert_int_equal(uroce_pd_destroy(pd), 0);
    assert_int_equal(uroce_engine_destroy(engine), 0);
}

/* Tests the other objects, and calls that allocate memory after the creation of an object. */
static void objects__memory_runs_out__no_leak(void **state)
{
    struct uroce_engine_config config = {
        .size = sizeof config, .mac = { 2 }, .mtu = 1500, .address_count = 1, .connections = 4
    };
    struct uroce_srq_config srq_wanted = { .size = sizeof srq_wanted, .capacity = 4 };
    struct uroce_qp_config qp_wanted = { .size = sizeof qp_wanted, .type = UROCE_UD };
    const struct uroce_conn_param param = { .type = UROCE_RC };
    struct uroce_conn_target target = { .address = { .sgid_index = 1 }, .path_mtu = 1024 };
    uint8_t group[UROCE_GID_SIZE];
    struct uroce_engine *engine;
    struct uroce_pd *pd;
    struct uroce_cq *cq;
    struct uroce_qp *qp;
    struct uroce_mw *mw = NULL;
    struct uroce_xrcd *xrcd = NULL;
    struct uroce_srq *srq = NULL;
    struct uroce_listener *listener = NULL;
    struct uroce_conn *conn = NULL;
    struct uroce_conn_event event;

    (void)state;
    config.addresses[0].prefix = 24;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    assert_int_equal(uroce_gid_parse("10.0.0.2", target.address.gid), 0);
    assert_int_equal(uroce_gid_parse("239.1.2.3", group), 0);
    assert_int_equal(uroce_engine_create(&config, 0, &engine), 0);
    assert_int_equal(uroce_pd_create(engine, &pd), 0);
    assert_int_equal(uroce_cq_create(engine, 4, NULL, &cq), 0);
    qp_wanted.send_cq = qp_wanted.recv_cq = cq;
    assert_int_equal(uroce_qp_create(pd, &qp_wanted, &qp), 0);
    UNTIL_IT_WORKS(uroce_cq_resize(cq, 100), true);
    UNTIL_IT_WORKS(uroce_mw_create(pd, UROCE_MW_TYPE_1, &mw), mw == NULL);
    UNTIL_IT_WORKS(uroce_xrcd_create(engine, &xrcd), xrcd == NULL);
    UNTIL_IT_WORKS(uroce_srq_create(pd, &srq_wanted, &srq), srq == NULL);
    UNTIL_IT_WORKS(uroce_srq_resize(srq, 100), true);
    UNTIL_IT_WORKS(uroce_qp_attach(qp, group, 0), uroce_qp_detach(qp, group, 0) == -EINVAL);
    UNTIL_IT_WORKS(uroce_listener_create(engine, 1, -1, 1, NULL, &listener), listener == NULL);
    UNTIL_IT_WORKS(uroce_conn_connect(engine, &target, &param, NULL, 0, &conn), conn == NULL);
    UNTIL_IT_WORKS(uroce_conn_event(engine, &event), true);

    assert_int_equal(uroce_conn_close(conn, 0), 0);
    assert_int_equal(uroce_listener_destroy(listener), 0);
    assert_int_equal(uroce_srq_destroy(srq), 0);
    assert_int_equal(uroce_xrcd_destroy(xrcd), 0);
    assert_int_equal(uroce_mw_destroy(mw), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0);
    assert_int_equal(uroce_cq_destroy(cq), 0);
    assert_int_equal(uroce_pd_destroy(pd), 0);
    assert_int_equal(uroce_engine_destroy(engine), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices__memory_runs_out__the_list_is_as_before),
        cmocka_unit_test(engine__memory_runs_out__no_leak),
        cmocka_unit_test(objects__memory_runs_out__no_leak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
