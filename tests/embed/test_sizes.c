/* SPDX-License-Identifier: BSD-3-Clause */
/* test_sizes.c - tests the largest possible numbers as arguments of uroce/engine.h and
 * uroce/objects.h. */
#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <uroce/objects.h>

#define NEXT_HOPS 32768u /* docs/CONFIGURATION.md, limits */

static struct uroce_engine_config config_of_engine(void)
{
    struct uroce_engine_config config = {
        .size = sizeof config, .mac = { 2 }, .mtu = 1500, .address_count = 1
    };

    config.addresses[0].prefix = 8;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    return config;
}

/* The struct is at the start of four readable pages, and the next page cannot be read. */
static void engine_create__size_of_garbage__refused_without_reading_on(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = 4 * page;
    char *memory =
        mmap(NULL, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uroce_engine_config *config = (void *)memory;
    struct uroce_engine *engine = NULL;

    (void)state;
    assert_true(memory != MAP_FAILED && mprotect(memory + pages, page, PROT_NONE) == 0);
    *config = config_of_engine();
    config->size = SIZE_MAX;
    assert_int_equal(uroce_engine_create(config, 0, &engine), -E2BIG);
    assert_null(engine);
    assert_int_equal(munmap(memory, pages + page), 0);
}

static void cq_poll__more_than_a_cq_holds__takes_nothing(void **state)
{
    const struct uroce_engine_config config = config_of_engine();
    struct uroce_completion completion;
    struct uroce_engine *engine;
    struct uroce_cq *cq;

    (void)state;
    assert_int_equal(uroce_engine_create(&config, 0, &engine), 0);
    assert_int_equal(uroce_cq_create(engine, 4, NULL, &cq), 0);
    assert_int_equal(uroce_cq_poll(cq, &completion, UINT32_MAX), 0);
    assert_int_equal(uroce_cq_destroy(cq), 0);
    assert_int_equal(uroce_engine_destroy(engine), 0);
}

/* Returns an address handle's attributes for host 10.1.0.0 + @number. */
static struct uroce_address address_of(uint32_t number)
{
    struct uroce_address address = { .gid = { [10] = 0xff, [11] = 0xff }, .sgid_index = 1 };
    const uint32_t octets = htonl(0x0a010000u + number);

    memcpy(address.gid + 12, &octets, sizeof octets);
    return address;
}

static void modify__all_next_hops_are_in_use__enomem_and_state_unchanged(void **state)
{
    const struct uroce_engine_config config = config_of_engine();
    struct uroce_ah **ahs = calloc(NEXT_HOPS, sizeof(struct uroce_ah *));
    struct uroce_engine *engine;
    struct uroce_pd *pd;
    struct uroce_cq *cq;
    struct uroce_qp *qp;

    (void)state;
    assert_non_null(ahs);
    assert_int_equal(uroce_engine_create(&config, 0, &engine), 0);
    assert_int_equal(uroce_pd_create(engine, &pd), 0);
    assert_int_equal(uroce_cq_create(engine, 4, NULL, &cq), 0);
    const struct uroce_qp_config wanted = {
        .size = sizeof wanted, .type = UROCE_UC, .send_cq = cq, .recv_cq = cq
    };
    assert_int_equal(uroce_qp_create(pd, &wanted, &qp), 0);
    struct uroce_qp_attr attr = { .state = UROCE_INIT, .port = 1 };
    assert_int_equal(uroce_qp_modify(qp, &attr,
                                     UROCE_ATTR_STATE | UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT |
                                         UROCE_ATTR_ACCESS,
                                     0),
                     0);
    for (uint32_t i = 0; i < NEXT_HOPS; i++) {
        const struct uroce_address address = address_of(i);
        assert_int_equal(uroce_ah_create(pd, &address, 0, &ahs[i]), 0);
    }
    attr = (struct uroce_qp_attr){ .state = UROCE_RTR,
                                   .path_mtu = 1024,
                                   .address = address_of(NEXT_HOPS) };
    const unsigned to_rtr = UROCE_ATTR_STATE | UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU |
                            UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN;
    assert_int_equal(uroce_qp_modify(qp, &attr, to_rtr, 0), -ENOMEM);
    assert_int_equal(uroce_qp_state(qp), UROCE_INIT);
    assert_int_equal(uroce_ah_destroy(ahs[0]), 0);
    assert_int_equal(uroce_qp_modify(qp, &attr, to_rtr, 0), 0);
    for (uint32_t i = 1; i < NEXT_HOPS; i++)
        assert_int_equal(uroce_ah_destroy(ahs[i]), 0);
    assert_int_equal(uroce_qp_destroy(qp), 0);
    assert_int_equal(uroce_cq_destroy(cq), 0);
    assert_int_equal(uroce_pd_destroy(pd), 0);
    assert_int_equal(uroce_engine_destroy(engine), 0);
    free(ahs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_create__size_of_garbage__refused_without_reading_on),
        cmocka_unit_test(cq_poll__more_than_a_cq_holds__takes_nothing),
        cmocka_unit_test(modify__all_next_hops_are_in_use__enomem_and_state_unchanged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
