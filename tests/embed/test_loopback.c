/* SPDX-License-Identifier: BSD-3-Clause */
/* test_loopback.c - a machine whose only address is that of loopback: a device that is added with ip=auto says so. */
#include "support/check.h"

#include <string.h>

#include <uroce/uroce.h>

#include "support/own_net.h"
#include "support/said.h"

static void add__only_loopback_has_an_address__stderr_warns(void **state)
{
    char error[UROCE_ERROR_MAX] = "";

    (void)state;
    const struct said said = said_begin();
    assert_int_equal(uroce_device_add("chosen:udp,ip=auto", error, sizeof error), 0);
    assert_non_null(strstr(said_words(said), "chosen has the address 127.0.0.1"));
    said_end(said);
    assert_int_equal(uroce_device_remove("chosen"), 0);
}

static void add__loopback_is_asked_for__says_nothing(void **state)
{
    char error[UROCE_ERROR_MAX] = "";

    (void)state;
    const struct said said = said_begin();
    assert_int_equal(uroce_device_add("meant:udp,ip=127.0.0.1", error, sizeof error), 0);
    assert_string_equal(said_words(said), "");
    said_end(said);
    assert_int_equal(uroce_device_remove("meant"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add__only_loopback_has_an_address__stderr_warns),
        cmocka_unit_test(add__loopback_is_asked_for__says_nothing),
    };

    if (!own_net_enter())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
