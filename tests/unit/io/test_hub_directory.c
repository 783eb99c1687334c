/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the directory of the hub's socket. All processes of a user that share an address use this
 * directory. Another user cannot create it first, and no process blocks there. */
#define _GNU_SOURCE /* unshare */
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "io/udp/share.h"
#include "support/must.h"
#include "support/own_runtime.h"

static struct uro_hub_directory directory;
static struct uro_gid address;
static char folder[64];

static int start(void **state)
{
    (void)state;
    assert_true(uro_gid_parse("127.77.0.5", &address));
    (void)snprintf(folder, sizeof folder, "%s/uroce", own_runtime);
    assert_int_equal(uro_hub_directory_find(&directory, 0, true), 0);
    return 0;
}

static int stop(void **state)
{
    char path[URO_HUB_DIRECTORY_PATH_MAX];

    (void)state;
    if (uro_hub_directory_path(&directory, "hub", &address, "", path))
        (void)unlink(path);
    (void)unlink(folder);
    (void)rmdir(folder);
    return chmod(own_runtime, 0700);
}

/* ---- the directory ------------------------------------------------------ */

static void directory__created__is_accessible_to_the_user_only(void **state)
{
    struct stat is;

    (void)state;
    assert_string_equal(directory.directory, folder);
    assert_int_equal(stat(folder, &is), 0);
    assert_int_equal(is.st_mode & 0777, 0700);
}

static void directory__not_created__is_absent(void **state)
{
    (void)state;
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(uro_hub_directory_find(&directory, 0, false), -ENOENT);
}

static void directory__accessible_to_others__is_refused(void **state)
{
    (void)state;
    for (mode_t others = 1; others <= 0070; others = others == 7 ? 0010 : others + 1) {
        assert_int_equal(chmod(folder, 0700 | others), 0);
        assert_int_equal(uro_hub_directory_find(&directory, 0, true), -EPERM);
        assert_string_equal(directory.directory, folder);
    }
}

static void directory__symbolic_link__is_refused(void **state)
{
    char other[64];

    (void)state;
    (void)snprintf(other, sizeof other, "%s/other", own_runtime);
    assert_int_equal(rename(folder, other), 0);
    assert_int_equal(symlink(other, folder), 0);
    assert_int_equal(uro_hub_directory_find(&directory, 0, true), -EPERM);
    assert_int_equal(rmdir(other), 0);
}

static void directory__parent_writable_by_others__is_not_used(void **state)
{
    (void)state;
    assert_int_equal(chmod(own_runtime, 0770), 0);
    assert_int_equal(uro_hub_directory_find(&directory, 0, true), -ENOENT);
    assert_int_equal(chmod(own_runtime, 01777), 0); /* sticky, like /tmp */
    assert_int_equal(uro_hub_directory_find(&directory, 0, true), 0);
}

static void look_from_another_net(void)
{
    char here[URO_HUB_DIRECTORY_PATH_MAX], there[URO_HUB_DIRECTORY_PATH_MAX];

    MUST(uro_hub_directory_find(&directory, 0, false) == 0 &&
         uro_hub_directory_path(&directory, "hub", &address, "", here));
    if (unshare(CLONE_NEWNET) != 0)
        exit(77);
    MUST(uro_hub_directory_find(&directory, 0, false) == 0 &&
         uro_hub_directory_path(&directory, "hub", &address, "", there));
    MUST(strcmp(here, there) != 0);
}

static void path__in_another_network_namespace__differs(void **state)
{
    (void)state;
    int status = must_status(look_from_another_net);
    if (status == 77)
        skip(); /* needs CAP_SYS_ADMIN */
    assert_int_equal(status, 0);
}

/* ---- locks -------------------------------------------------------------- */

static void lock__held_by_another__fails_at_once_until_released(void **state)
{
    char path[URO_HUB_DIRECTORY_PATH_MAX];

    (void)state;
    assert_true(uro_hub_directory_path(&directory, "listen", &address, "-1", path));
    int fd = uro_hub_directory_lock(path, false);
    assert_true(fd >= 0);
    assert_int_equal(uro_hub_directory_lock(path, false), -EWOULDBLOCK);
    assert_int_equal(uro_hub_directory_lock(path, true), -EWOULDBLOCK);
    uro_hub_directory_unlock(fd, path);
    assert_int_equal(access(path, F_OK), -1);
    int first = uro_hub_directory_lock(path, true), second = uro_hub_directory_lock(path, true);
    assert_true(first >= 0 && second >= 0);
    (void)close(first);
    uro_hub_directory_unlock(second, path);
}

/* The former owner of a lock may remove the lock file only if it is still the same file. */
static void lock__file_was_replaced__keeps_the_new_file(void **state)
{
    char path[URO_HUB_DIRECTORY_PATH_MAX];

    (void)state;
    assert_true(uro_hub_directory_path(&directory, "listen", &address, "-1", path));
    int first = uro_hub_directory_lock(path, false);
    assert_int_equal(unlink(path), 0);
    int second = uro_hub_directory_lock(path, false);
    assert_true(first >= 0 && second >= 0);
    uro_hub_directory_unlock(first, path);
    assert_int_equal(uro_hub_directory_lock(path, false), -EWOULDBLOCK);
    uro_hub_directory_unlock(second, path);
}

/* ---- a broker that does not answer -------------------------------------- */

/* Listens at the broker's address. */
static int listen_there(void)
{
    struct sockaddr_un name;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(uro_hub_address(&directory, &address, &name));
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(fd, 0), 0);
    return fd;
}

static void broker__silent__caller_does_not_wait(void **state)
{
    struct uro_share share = { .fd = -1 };
    char error[URO_PORT_ERROR_MAX] = "";
    int listener = listen_there(), sock;

    (void)state;
    assert_int_equal(uro_share_ask(&share, &address, 0, 0, error), URO_SHARE_ASKED);
    assert_int_equal(uro_share_answer(&share, 0, &sock, error), URO_SHARE_ASKED);
    assert_true(share.pending);
    (void)close(listener); /* also closes the connection that was not accepted */
    assert_int_equal(uro_share_answer(&share, 0, &sock, error), URO_SHARE_REFUSED);
    assert_int_equal(share.fd, -1);
    assert_false(share.pending);
}

static void broker__accepts_no_more_connections__caller_does_not_wait(void **state)
{
    struct uro_share shares[4];
    char error[URO_PORT_ERROR_MAX] = "";
    int listener = listen_there();
    unsigned asked = 0;

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(shares); i++) {
        shares[i] = (struct uro_share){ .fd = -1 };
        asked += uro_share_ask(&shares[i], &address, 0, 0, error) == URO_SHARE_ASKED;
    }
    assert_in_range(asked, 1, URO_ARRAY_LEN(shares) - 1);
    assert_non_null(strstr(error, "cannot be reached"));
    for (unsigned i = 0; i < URO_ARRAY_LEN(shares); i++)
        uro_share_leave(&shares[i]);
    (void)close(listener);
}

static void broker__killed__is_reported_as_absent(void **state)
{
    struct uro_share share = { .fd = -1 };
    char error[URO_PORT_ERROR_MAX] = "";

    (void)state;
    (void)close(listen_there());
    assert_int_equal(uro_share_ask(&share, &address, 0, 0, error), URO_SHARE_NO_BROKER);
}

static void broker__no_file_descriptor_left__error_has_the_reason(void **state)
{
    struct uro_share share = { .fd = -1 };
    struct rlimit before, none;
    char error[URO_PORT_ERROR_MAX] = "";
    int listener = listen_there();

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){ 0, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum uro_share_result result = uro_share_ask(&share, &address, 0, 0, error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(result, URO_SHARE_REFUSED);
    assert_non_null(strstr(error, "EMFILE"));
    (void)close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(directory__created__is_accessible_to_the_user_only, start,
                                        stop),
        cmocka_unit_test_setup_teardown(directory__not_created__is_absent, start, stop),
        cmocka_unit_test_setup_teardown(directory__accessible_to_others__is_refused, start, stop),
        cmocka_unit_test_setup_teardown(directory__symbolic_link__is_refused, start, stop),
        cmocka_unit_test_setup_teardown(directory__parent_writable_by_others__is_not_used, start,
                                        stop),
        cmocka_unit_test_setup_teardown(path__in_another_network_namespace__differs, start, stop),
        cmocka_unit_test_setup_teardown(lock__held_by_another__fails_at_once_until_released, start,
                                        stop),
        cmocka_unit_test_setup_teardown(lock__file_was_replaced__keeps_the_new_file, start, stop),
        cmocka_unit_test_setup_teardown(broker__silent__caller_does_not_wait, start, stop),
        cmocka_unit_test_setup_teardown(broker__accepts_no_more_connections__caller_does_not_wait,
                                        start, stop),
        cmocka_unit_test_setup_teardown(broker__killed__is_reported_as_absent, start, stop),
        cmocka_unit_test_setup_teardown(broker__no_file_descriptor_left__error_has_the_reason,
                                        start, stop),
    };

    return cmocka_run_group_tests_name("io/meet", tests, own_runtime_make, own_runtime_remove);
}
