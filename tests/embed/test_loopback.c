/* SPDX-License-Identifier: BSD-3-Clause */
/* test_loopback.c - tests a machine whose only address is that of the loopback interface. Adding a
 * device with ip=auto must print a warning. */
#include "support/check.h"

#include <string.h>

#include <uroce/uroce.h>

#include "support/own_net.h"
#include "support/stderr_text.h"

static void add__only_loopback_has_an_address__stderr_warns(void **state)
{
    char error[UROCE_ERROR_MAX] = "";

    (void)state;
    const struct stderr_capture capture = capture_stderr_begin();
    assert_int_equal(uroce_device_add("chosen:udp,ip=auto", error, sizeof error), 0);
    assert_non_null(strstr(capture_stderr_text(capture), "chosen has the address 127.0.0.1"));
    capture_stderr_end(capture);
    assert_int_equal(uroce_device_remove("chosen"), 0);
}

static void add__loopback_requested__prints_nothing(void **state)
{
    char error[UROCE_ERROR_MAX] = "";

    (void)state;
    const struct stderr_capture capture = capture_stderr_begin();
    assert_int_equal(uroce_device_add("meant:udp,ip=127.0.0.1", error, sizeof error), 0);
    assert_string_equal(capture_stderr_text(capture), "");
    capture_stderr_end(capture);
    assert_int_equal(uroce_device_remove("meant"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add__only_loopback_has_an_address__stderr_warns),
        cmocka_unit_test(add__loopback_requested__prints_nothing),
    };

    if (!own_net_enter())
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
