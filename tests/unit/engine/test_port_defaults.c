/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_defaults.c - tests the defaults for operations that a driver omits from struct
 * uro_port_ops. */
#include "engine/port.h"
#include "support/check.h"

static const struct uro_port_ops least = { .datapath = { 0 } };
static struct uro_port port = { .ops = &least };

static void tx_free_count__no_operation__a_whole_burst(void **state)
{
    (void)state;
    assert_int_equal(uro_port_tx_free_count(&port), URO_PORT_BURST);
}

static void wait_fds__no_operation__no_descriptors(void **state)
{
    int fds[URO_PORT_FDS_MAX];

    (void)state;
    assert_int_equal(uro_port_wait_fds(&port, fds), 0);
}

/* False would mean that frames wait, so the service thread would never sleep. */
static void arm__no_operation__sleep_is_allowed(void **state)
{
    (void)state;
    assert_true(uro_port_arm(&port));
    uro_port_disarm(&port);
}

/* Any other time would wake the service thread again and again. */
static void next__no_operation__never(void **state)
{
    (void)state;
    assert_true(uro_port_next(&port) == URO_TIME_NEVER);
}

static void link_up__no_operation__always_up(void **state)
{
    (void)state;
    assert_true(uro_port_link_up(&port));
}

/* If uro_port_gone() returned true, the device would stop. */
static void gone__no_operation__is_false(void **state)
{
    (void)state;
    assert_false(uro_port_gone(&port));
}

static void lock_service__port_without_operation__succeeds(void **state)
{
    (void)state;
    assert_int_equal(uro_port_lock_service(&port, NULL), 0);
    uro_port_unlock_service(&port, NULL);
}

static void route_mtu__no_operation__is_not_known(void **state)
{
    (void)state;
    assert_int_equal(uro_port_route_mtu(&port, NULL, NULL), 0);
    assert_false(uro_port_lost_broker(&port));
}

/* The host then calls uro_port_multicast(), and allocates no list of services. */
static void groups_and_services__no_operation__not_wanted(void **state)
{
    (void)state;
    assert_false(uro_port_takes_groups(&port));
    assert_false(uro_port_takes_services(&port));
    uro_port_groups(&port, NULL, 0);
    uro_port_services(&port, NULL, 0);
}

static void release_multicast_forked__no_operation__do_nothing(void **state)
{
    (void)state;
    uro_port_release(&port, NULL, 0);
    uro_port_multicast(&port, NULL, 0);
    uro_port_forked(&port);
}

static void flags__some_set__only_these_are_reported(void **state)
{
    (void)state;
    const struct uro_port memif = { .flags = URO_PORT_AWAITS_PEER | URO_PORT_WAKES_DOWN };

    assert_true(uro_port_has(&memif, URO_PORT_AWAITS_PEER));
    assert_false(uro_port_has(&memif, URO_PORT_CALL_PER_SEND));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tx_free_count__no_operation__a_whole_burst),
        cmocka_unit_test(wait_fds__no_operation__no_descriptors),
        cmocka_unit_test(arm__no_operation__sleep_is_allowed),
        cmocka_unit_test(next__no_operation__never),
        cmocka_unit_test(link_up__no_operation__always_up),
        cmocka_unit_test(gone__no_operation__is_false),
        cmocka_unit_test(lock_service__port_without_operation__succeeds),
        cmocka_unit_test(route_mtu__no_operation__is_not_known),
        cmocka_unit_test(groups_and_services__no_operation__not_wanted),
        cmocka_unit_test(release_multicast_forked__no_operation__do_nothing),
        cmocka_unit_test(flags__some_set__only_these_are_reported),
    };
    return cmocka_run_group_tests_name("engine/port_defaults", tests, NULL, NULL);
}
