/* SPDX-License-Identifier: BSD-3-Clause */
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ucma/plt_hook.h"

/* got_library.c is linked with -z now and -z relro, as Debian links librdmacm. */
long got_library_pid(void);
long got_library_uid(void);

static const void *library(void)
{
    return (const void *)(uintptr_t)got_library_pid;
}

static long forty_two(void)
{
    return 42;
}

static const struct uro_plt_hook pid = { { "not_called", "getpid" }, (void (*)(void))forty_two };
static const struct uro_plt_hook absent = { { "not_called" }, (void (*)(void))forty_two };
static const struct uro_plt_hook uid = { { "getuid" }, (void (*)(void))forty_two };

static void plt_hook_object__any_address_inside__has_the_path_of_the_object(void **state)
{
    (void)state;
    assert_non_null(strstr(uro_plt_hook_object(library()), "got_library"));
    assert_null(uro_plt_hook_object((const void *)16));
}

static void hook__one_function_is_missing__changes_nothing(void **state)
{
    const struct uro_plt_hook changes[] = { uid, absent };

    (void)state;
    assert_int_equal(uro_plt_hook_install(library(), changes, 2), -ENOENT);
    assert_int_equal(got_library_uid(), getuid());
    assert_int_equal(uro_plt_hook_install((const void *)16, &uid, 1), -ENOENT);
}

/* Returns the number of writable mappings of the library. A page that stays writable adds a
 * mapping. */
static unsigned writable_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        count += strstr(line, "got_library") != NULL && strstr(line, " rw-p ") != NULL;
    fclose(maps);
    return count;
}

static unsigned refused; /* the number of this call of mprotect() fails; 0: none */

int __wrap_mprotect(void *start, size_t length, int protection);
int __wrap_mprotect(void *start, size_t length, int protection)
{
    if (refused != 0 && --refused == 0) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_mprotect, start, length, protection);
}

static void plt_hook__a_page_stays_read_only__no_call_is_redirected(void **state)
{
    const struct uro_plt_hook changes[] = { uid, pid };
    const unsigned before = writable_mappings();

    (void)state;
    for (unsigned number = 1; number <= 2; number++) {
        refused = number;
        assert_int_equal(uro_plt_hook_install(library(), changes, 2), -EACCES);
        assert_int_equal(refused, 0);
        assert_int_equal(got_library_uid(), getuid());
        assert_int_equal(got_library_pid(), getpid());
        assert_int_equal(writable_mappings(), before);
    }
}

/* After the calls are redirected, a page that cannot become read-only again is no failure. */
static void plt_hook__a_page_stays_writable__all_calls_are_redirected(void **state)
{
    (void)state;
    refused = 2;
    assert_int_equal(uro_plt_hook_install(library(), &pid, 1), 0);
    assert_int_equal(refused, 0);
    assert_int_equal(got_library_pid(), 42);
}

static void plt_hook__installed__redirects_calls_of_the_library_only(void **state)
{
    (void)state;
    assert_int_equal(got_library_pid(), getpid());
    assert_int_equal(uro_plt_hook_install(library(), &pid, 1), 0);
    assert_int_equal(got_library_pid(), 42);
    assert_int_not_equal(getpid(), 42);
    assert_int_equal(got_library_uid(), getuid());
}

static void plt_hook__installed_twice__changes_nothing_and_table_is_read_only(void **state)
{
    unsigned before = writable_mappings();

    (void)state;
    assert_int_equal(uro_plt_hook_install(library(), &pid, 1), 0);
    assert_int_equal(got_library_pid(), 42);
    assert_int_equal(writable_mappings(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plt_hook_object__any_address_inside__has_the_path_of_the_object),
        cmocka_unit_test(hook__one_function_is_missing__changes_nothing),
        cmocka_unit_test(plt_hook__a_page_stays_read_only__no_call_is_redirected),
        cmocka_unit_test(plt_hook__installed__redirects_calls_of_the_library_only),
        cmocka_unit_test(plt_hook__installed_twice__changes_nothing_and_table_is_read_only),
        cmocka_unit_test(plt_hook__a_page_stays_writable__all_calls_are_redirected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
