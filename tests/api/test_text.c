/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that texts and rates of enumerators equal those of the system's libibverbs. Scripts match
 * these texts, and people search for them. The test calls both libraries with the same numbers. */
#include "support/check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <infiniband/verbs.h>

#define LEAST   (-2)
#define MOST    40
#define MBPS    3000000
#define SKIPPED 77

static void *theirs;

/* Looks up the function @name of the system's library. */
static void find(const char *name, void *function)
{
    void *found = dlsym(theirs, name);

    assert_non_null(found);
    memcpy(function, &found, sizeof found);
}

static void assert_same_words(const char *name, const char *(*ours)(int))
{
    const char *(*system)(int);

    find(name, &system);
    assert_ptr_not_equal(ours, system);
    for (int i = LEAST; i <= MOST; i++)
        if (strcmp(ours(i), system(i)) != 0)
            fail_msg("%s(%d) is \"%s\", the system's \"%s\"", name, i, ours(i), system(i));
}

static void assert_same_numbers(const char *name, int (*ours)(int), int least, int most)
{
    int (*system)(int);

    find(name, &system);
    for (int i = least; i <= most; i++)
        if (ours(i) != system(i))
            fail_msg("%s(%d) is %d, the system's %d", name, i, ours(i), system(i));
}

/* Defines a function that calls ours with a number, which need not be an enumerator. */
#define WORDS(name, type)                                                                          \
    static const char *our_##name(int number)                                                      \
    {                                                                                              \
        return ibv_##name((enum type)number);                                                      \
    }
WORDS(wc_status_str, ibv_wc_status)
WORDS(event_type_str, ibv_event_type)
WORDS(node_type_str, ibv_node_type)
WORDS(port_state_str, ibv_port_state)

static int our_rate_to_mult(int number)
{
    return ibv_rate_to_mult((enum ibv_rate)number);
}

static int our_rate_to_mbps(int number)
{
    return ibv_rate_to_mbps((enum ibv_rate)number);
}

static int our_mult_to_rate(int number)
{
    return (int)mult_to_ibv_rate(number);
}

static int our_mbps_to_rate(int number)
{
    return (int)mbps_to_ibv_rate(number);
}

static void wc_status_str__of_every_status__is_that_of_the_system(void **state)
{
    (void)state;
    assert_same_words("ibv_wc_status_str", our_wc_status_str);
}

static void event_type_str__of_every_event__is_that_of_the_system(void **state)
{
    (void)state;
    assert_same_words("ibv_event_type_str", our_event_type_str);
}

static void node_type_str__of_every_type__is_that_of_the_system(void **state)
{
    (void)state;
    assert_same_words("ibv_node_type_str", our_node_type_str);
}

static void port_state_str__of_every_state__is_that_of_the_system(void **state)
{
    (void)state;
    assert_same_words("ibv_port_state_str", our_port_state_str);
}

static void rates__of_every_rate__are_those_of_the_system(void **state)
{
    (void)state;
    assert_same_numbers("ibv_rate_to_mult", our_rate_to_mult, LEAST, MOST);
    assert_same_numbers("ibv_rate_to_mbps", our_rate_to_mbps, LEAST, MOST);
    assert_same_numbers("mult_to_ibv_rate", our_mult_to_rate, LEAST, 1000);
    assert_same_numbers("mbps_to_ibv_rate", our_mbps_to_rate, LEAST, MBPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wc_status_str__of_every_status__is_that_of_the_system),
        cmocka_unit_test(event_type_str__of_every_event__is_that_of_the_system),
        cmocka_unit_test(node_type_str__of_every_type__is_that_of_the_system),
        cmocka_unit_test(port_state_str__of_every_state__is_that_of_the_system),
        cmocka_unit_test(rates__of_every_rate__are_those_of_the_system),
    };

    theirs = dlopen(API_SYSTEM_IBVERBS, RTLD_NOW | RTLD_LOCAL);
    if (theirs == NULL) {
        printf("%s is not there (libibverbs1)\n", API_SYSTEM_IBVERBS);
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
