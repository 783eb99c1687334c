/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests locks of a process at an address that it shares with other processes. */
#define _GNU_SOURCE /* struct mmsghdr, of udp.h */
#include "support/check.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/udp/udp.h"
#include "support/own_runtime.h"

static struct uro_udp_port first, second; /* ports of two processes */
static struct uro_listened what;
static struct uro_gid own;

static void fill(struct uro_udp_port *udp)
{
    *udp = (struct uro_udp_port){ .sock_count = 2 };
    udp->socks[0].address = own;
    udp->socks[1].address = what.address;
    udp->socks[1].share = &udp->shares[1];
    assert_int_equal(uro_hub_directory_find(&udp->shares[1].directory, 0, true), 0);
}

static int start(void **state)
{
    (void)state;
    assert_true(uro_gid_parse("127.77.0.5", &own));
    assert_true(uro_gid_parse("fd77:1234:5678:9abc:def0:1234:5678:9abc", &what.address));
    what.id = UINT64_C(0xffffffff00000000) +
              (uint64_t)getpid(); /* other tests may run at the same time */
    fill(&first);
    fill(&second);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    uro_service_lock_close(&first.service_locks);
    uro_service_lock_close(&second.service_locks);
    return 0;
}

static void lock__held_by_another_port__fails_until_released(void **state)
{
    (void)state;
    assert_int_equal(uro_service_lock_take(&first.port, &what), 0);
    assert_int_equal(uro_service_lock_take(&second.port, &what), -EADDRINUSE);
    assert_int_equal(second.service_locks.count, 0);
    uro_service_lock_release(&second.port, &what); /* the port has not locked this service */
    assert_int_equal(uro_service_lock_take(&second.port, &what), -EADDRINUSE);
    uro_service_lock_release(&first.port, &what);
    assert_int_equal(uro_service_lock_take(&second.port, &what), 0);
}

static void locks__of_several_services__are_released_separately(void **state)
{
    struct uro_listened all[3] = { what, what, what };

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        all[i].id += (uint64_t)i << 32;
        assert_int_equal(uro_service_lock_take(&first.port, &all[i]), 0);
    }
    uro_service_lock_release(&first.port, &all[1]);
    assert_int_equal(uro_service_lock_take(&second.port, &all[0]), -EADDRINUSE);
    assert_int_equal(uro_service_lock_take(&second.port, &all[1]), 0);
    assert_int_equal(uro_service_lock_take(&second.port, &all[2]), -EADDRINUSE);
    uro_service_lock_release(&first.port, &all[0]);
    assert_int_equal(uro_service_lock_take(&second.port, &all[0]), 0);
    assert_int_equal(uro_service_lock_take(&second.port, &all[2]), -EADDRINUSE);
}

static void lock__address_not_shared__needs_no_lock(void **state)
{
    (void)state;
    what.address = own;
    assert_int_equal(uro_service_lock_take(&first.port, &what), 0);
    assert_int_equal(uro_service_lock_take(&second.port, &what), 0);
    assert_int_equal(first.service_locks.count, 0);
    uro_service_lock_release(&first.port, &what);
}

static void locks__of_a_closed_port__are_released(void **state)
{
    (void)state;
    assert_int_equal(uro_service_lock_take(&first.port, &what), 0);
    uro_service_lock_close(&first.service_locks);
    assert_int_equal(uro_service_lock_take(&second.port, &what), 0);
}

static void service_lock__no_file_descriptor_left__error_has_the_reason(void **state)
{
    struct rlimit before, none;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){ 0, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int error = uro_service_lock_take(&first.port, &what);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(error, -EMFILE);
    assert_int_equal(uro_service_lock_take(&first.port, &what), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lock__held_by_another_port__fails_until_released, start,
                                        stop),
        cmocka_unit_test_setup_teardown(locks__of_several_services__are_released_separately, start,
                                        stop),
        cmocka_unit_test_setup_teardown(lock__address_not_shared__needs_no_lock, start, stop),
        cmocka_unit_test_setup_teardown(locks__of_a_closed_port__are_released, start, stop),
        cmocka_unit_test_setup_teardown(service_lock__no_file_descriptor_left__error_has_the_reason,
                                        start, stop),
    };

    return cmocka_run_group_tests_name("io/service_lock", tests, own_runtime_make,
                                       own_runtime_remove);
}
