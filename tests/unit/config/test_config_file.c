/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the parser of configuration files: the devices, the line number of each error, and which
 * files are trusted. */
#include "support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"

static struct uro_config config;
static char directory[] = "/tmp/uroce-config-XXXXXX";
static char path[64];

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0644), 0);
}

static void read_text(const char *text)
{
    write_file(text);
    uro_config_read(&config, NULL, path);
}

static const struct uro_device_config *entry(uint32_t index)
{
    assert_true(index < config.count);
    return &config.entries[index].config;
}

static void check_problem(uint32_t index, unsigned line, const char *rest)
{
    char expected[256];

    (void)snprintf(expected, sizeof expected, "%s:%u%s", path, line, rest);
    assert_string_equal(entry(index)->problem, expected);
}

static void file__sections__are_devices_in_order(void **state)
{
    (void)state;
    read_text("; two ends\n"
              "[left]\n"
              "link = net_memif0,role=server,socket=/tmp/x.sock\n"
              "ip = 10.0.0.1/24, fd00::1/64 ; both versions\n"
              "\n"
              "# the other one\n"
              "[right]\n"
              "link=net_memif0,role=client,socket=/tmp/x.sock\n"
              "mtu=2048\n");

    assert_int_equal(config.count, 2);
    assert_string_equal(entry(0)->problem, "");
    assert_string_equal(entry(0)->name, "left");
    assert_string_equal(entry(0)->link, "net_memif0,role=server,socket=/tmp/x.sock");
    assert_int_equal(entry(0)->gid_count, 3);
    assert_string_equal(entry(1)->problem, "");
    assert_string_equal(entry(1)->name, "right");
    assert_int_equal(entry(1)->mtu, 2048);
}

/* libinih alone would read the second key as a continuation of the first one's value. */
static void file__indented_keys__are_keys(void **state)
{
    (void)state;
    read_text("[a]\n  link = net_null0\n\tmtu = 2048\n\t; a comment\n  ip = 10.0.0.1/24\n");

    assert_int_equal(config.count, 1);
    assert_string_equal(entry(0)->problem, "");
    assert_int_equal(entry(0)->mtu, 2048);
    assert_int_equal(entry(0)->gid_count, 2);
}

static void file__mistake__message_has_the_line(void **state)
{
    (void)state;
    read_text("[a]\nlink=net_null0\n\nmtu=12\n[b]\nlink=net_null1\n");

    assert_int_equal(config.count, 2);
    check_problem(0, 4, " (a): mtu=12: must be a number from 576 to 9600");
    assert_string_equal(entry(1)->problem, "");
}

static void file__section_without_link__has_the_line_of_the_section(void **state)
{
    (void)state;
    read_text("[a]\n[b]\nip=10.0.0.1/24\n");

    assert_int_equal(config.count, 2);
    check_problem(0, 1, " (a): the link is missing; add one such as link=udp");
    check_problem(1, 2, " (b): the link is missing; add one such as link=udp");
}

static void file__same_section_twice__the_first_one_counts(void **state)
{
    (void)state;
    read_text("[a]\nlink=net_null0\n[a]\nlink=net_null1\n");

    assert_int_equal(config.count, 2);
    assert_string_equal(entry(0)->problem, "");
    assert_string_equal(entry(0)->link, "net_null0");
    check_problem(1, 3, " (a): another device has this name; choose a different one");
}

static void file__key_before_any_section__one_message(void **state)
{
    (void)state;
    read_text("link=net_null0\nmtu=1500\n[a]\nlink=net_null0\n");

    assert_int_equal(config.count, 2);
    check_problem(0, 1, ": a line [NAME] must come before \"link=net_null0\"");
    assert_string_equal(entry(1)->problem, "");
}

static void file__neither_key_nor_section__is_refused(void **state)
{
    (void)state;
    read_text("[a]\nlink=net_null0\nverbose\n[b\nlink=net_null1\n");

    assert_int_equal(config.count, 2);
    check_problem(0, 3, " (a): \"verbose\" must be key = value");
    check_problem(1, 4, " (b): the section name \"[b\" has no closing ]");
}

static void file__line_too_long__is_refused_and_the_next_one_is_read(void **state)
{
    char text[1024] = "[a]\nlink=net_null0,";

    (void)state;
    memset(text + strlen(text), 'x', 400);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), "\n[b]\nlink=net_null1\n");
    read_text(text);

    assert_int_equal(config.count, 2);
    assert_non_null(strstr(entry(0)->problem, ":2 (a): the line has more than "));
    assert_string_equal(entry(1)->problem, "");
    assert_string_equal(entry(1)->link, "net_null1");
}

static void file__no_newline_at_the_end__last_line_counts(void **state)
{
    (void)state;
    read_text("[a]\nlink=net_null0\nmtu=2048");
    assert_int_equal(entry(0)->mtu, 2048);
}

static void file__windows_line_ends__do_not_matter(void **state)
{
    (void)state;
    read_text("[a]\r\nlink=net_null0\r\nmtu=2048\r\n");
    assert_int_equal(config.count, 1);
    assert_string_equal(entry(0)->problem, "");
    assert_string_equal(entry(0)->link, "net_null0");
}

static void file__star__sets_limits_of_all_devices(void **state)
{
    (void)state;
    write_file("[*]\nmax_mr = 9\n[a]\nlink=net_null0\n");
    uro_config_read(&config, NULL, path);
    assert_int_equal(config.count, 1);
    assert_string_equal(entry(0)->problem, "");
    assert_int_equal(config.process.config.most[URO_QUOTA_MR], 9);
    write_file("[a]\nlink=net_null0\n[*]\nlink=net_null1\n");
    uro_config_read(&config, NULL, path);
    assert_int_equal(config.count, 1);
    assert_non_null(strstr(entry(0)->problem, ":4 (*): unknown key \"link\"; known: max_qp"));
}

static void file__uroce_devices_is_set_too__uroce_devices_is_used(void **state)
{
    (void)state;
    write_file("[a]\nlink=net_null0\n");
    uro_config_read(&config, "b:net_null1", path);
    assert_int_equal(config.count, 1);
    assert_string_equal(entry(0)->name, "b");
}

static void check_refused(const char *why)
{
    char expected[256];

    uro_config_read(&config, NULL, path);
    assert_int_equal(config.count, 1);
    assert_string_equal(entry(0)->name, "UROCE_CONFIG");
    (void)snprintf(expected, sizeof expected, "UROCE_CONFIG=%s: %s", path, why);
    assert_string_equal(entry(0)->problem, expected);
}

static void permissions__writable_by_others__file_is_refused(void **state)
{
    (void)state;
    write_file("[a]\nlink=net_null0\n");
    assert_int_equal(chmod(path, 0664), 0);
    check_refused("can be written by others; chmod go-w it");
    assert_int_equal(chmod(path, 0646), 0);
    check_refused("can be written by others; chmod go-w it");
    assert_int_equal(chmod(path, 0600), 0);
    uro_config_read(&config, NULL, path);
    assert_string_equal(entry(0)->problem, "");
}

static void permissions__owned_by_another_user__file_is_refused(void **state)
{
    (void)state;
    write_file("[a]\nlink=net_null0\n");
    if (chown(path, 12345, 12345) != 0) {
        print_message("# not root: cannot give a file away\n");
        skip();
    }
    check_refused("belongs to another user; it must be yours or root's");
    assert_int_equal(unlink(path), 0);
}

static void permissions__directory_writable_by_others__file_is_refused(void **state)
{
    (void)state;
    char problem[160];

    write_file("[a]\nlink=net_null0\n");
    (void)snprintf(problem, sizeof problem,
                   "its directory %s can be written by others; chmod go-w it", directory);
    assert_int_equal(chmod(directory, 0777), 0);
    check_refused(problem);
    assert_int_equal(chmod(directory, 01777),
                     0); /* sticky like /tmp, so other users cannot replace files of this user */
    uro_config_read(&config, NULL, path);
    assert_string_equal(entry(0)->problem, "");
    assert_int_equal(chmod(directory, 0700), 0);
}

static void permissions__directory_of_another_user__is_refused(void **state)
{
    (void)state;
    char problem[160];

    if (geteuid() != 0)
        skip();
    write_file("[a]\nlink=net_null0\n");
    (void)snprintf(problem, sizeof problem,
                   "its directory %s belongs to another user; it must be yours or root's",
                   directory);
    assert_int_equal(chown(directory, 65534, 65534), 0);
    check_refused(problem);
    assert_int_equal(chown(directory, 0, 0), 0);
}

static void permissions__symbolic_link__file_is_refused(void **state)
{
    char target[80];

    (void)state;
    write_file("[a]\nlink=net_null0\n");
    (void)snprintf(target, sizeof target, "%s.real", path);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink(target, path), 0);
    check_refused("is a symbolic link; name the file itself");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(target), 0);
}

/* Opening a FIFO without a writer would hang for ever. */
static void permissions__not_a_regular_file__file_is_refused(void **state)
{
    (void)state;
    (void)unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_refused("is not a regular file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    check_refused("is not a regular file");
    assert_int_equal(rmdir(path), 0);
}

static void permissions__file_absent__prints_message(void **state)
{
    (void)state;
    (void)unlink(path);
    check_refused("No such file or directory");
}

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    (void)snprintf(path, sizeof path, "%s/uroce.ini", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file__sections__are_devices_in_order),
        cmocka_unit_test(file__indented_keys__are_keys),
        cmocka_unit_test(file__mistake__message_has_the_line),
        cmocka_unit_test(file__section_without_link__has_the_line_of_the_section),
        cmocka_unit_test(file__same_section_twice__the_first_one_counts),
        cmocka_unit_test(file__key_before_any_section__one_message),
        cmocka_unit_test(file__neither_key_nor_section__is_refused),
        cmocka_unit_test(file__line_too_long__is_refused_and_the_next_one_is_read),
        cmocka_unit_test(file__no_newline_at_the_end__last_line_counts),
        cmocka_unit_test(file__windows_line_ends__do_not_matter),
        cmocka_unit_test(file__star__sets_limits_of_all_devices),
        cmocka_unit_test(file__uroce_devices_is_set_too__uroce_devices_is_used),
        cmocka_unit_test(permissions__writable_by_others__file_is_refused),
        cmocka_unit_test(permissions__owned_by_another_user__file_is_refused),
        cmocka_unit_test(permissions__directory_writable_by_others__file_is_refused),
        cmocka_unit_test(permissions__directory_of_another_user__is_refused),
        cmocka_unit_test(permissions__symbolic_link__file_is_refused),
        cmocka_unit_test(permissions__not_a_regular_file__file_is_refused),
        cmocka_unit_test(permissions__file_absent__prints_message),
    };
    return cmocka_run_group_tests_name("config/config_file", tests, make_directory,
                                       remove_directory);
}
