/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the functions of liburoce-paths.so that take a path. Paths of a device of uroce are looked
 * up in the tree of UROCE_TREE (meson.build), and other paths at their usual place. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "support/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define OURS   "/sys/class/infiniband/paths0/fw_ver"
#define NODE   "/dev/infiniband/uverbs3"
#define LIST   "/sys/class/infiniband"
#define ABSENT "/sys/class/infiniband/paths1/fw_ver"
#define OTHER  "/proc/self/cmdline"
#define SAYS   "7.8.9"

int __open_2(const char *name, int flags);
int __open64_2(const char *name, int flags);
int __openat_2(int at, const char *name, int flags);
int __openat64_2(int at, const char *name, int flags);
int __xstat(int version, const char *name, struct stat *out);
int __xstat64(int version, const char *name, struct stat64 *out);
int __lxstat(int version, const char *name, struct stat *out);
int __lxstat64(int version, const char *name, struct stat64 *out);
int __fxstatat(int version, int at, const char *name, struct stat *out, int flags);
int __fxstatat64(int version, int at, const char *name, struct stat64 *out, int flags);
ssize_t __readlink_chk(const char *name, char *out, size_t size, size_t limit);
ssize_t __readlinkat_chk(int at, const char *name, char *out, size_t size, size_t limit);
char *__realpath_chk(const char *name, char *out, size_t size);

/* The version argument that programs of an old C library pass to __xstat() on this processor. */
#ifdef __x86_64__
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

/* Runs before the constructors of all libraries, when the environment may not be set up yet. Some
 * allocators open files as early as this. */
static int before_constructors = -1;
static void open_early(void)
{
    before_constructors = open(OTHER, O_RDONLY);
}
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = open_early;

static int tree_make(void **state)
{
    static const char *const directories[] = {
        "", "/class", "/class/infiniband", "/class/infiniband/paths0", "/dev", "/dev/infiniband"
    };
    char path[512];

    (void)state;
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", getenv("UROCE_TREE"), directories[i]);
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    }
    (void)snprintf(path, sizeof path, "%s/class/infiniband/paths0/fw_ver", getenv("UROCE_TREE"));
    int fd = creat(path, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, SAYS, strlen(SAYS)), strlen(SAYS));
    assert_int_equal(close(fd), 0);
    (void)snprintf(path, sizeof path, "%s/dev/infiniband/uverbs3", getenv("UROCE_TREE"));
    assert_true(symlink("/dev/null", path) == 0 || errno == EEXIST);
    return 0;
}

static void expect_ours(int fd)
{
    char text[16] = "";

    assert_true(fd >= 0);
    assert_int_equal(read(fd, text, sizeof text - 1), strlen(SAYS));
    assert_string_equal(text, SAYS);
    assert_int_equal(close(fd), 0);
}

static void expect_opened(int fd)
{
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
}

#define EXPECT_ABSENT(call, failed)                                                                \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_true((call) == (failed));                                                           \
        assert_int_equal(errno, ENOENT);                                                           \
    } while (0)

static void open__all_forms__read_the_tree(void **state)
{
    (void)state;
    expect_ours(open(OURS, O_RDONLY));
    expect_ours(open64(OURS, O_RDONLY));
    expect_ours(__open_2(OURS, O_RDONLY));
    expect_ours(__open64_2(OURS, O_RDONLY));
    expect_opened(open(OTHER, O_RDONLY));
    expect_opened(open64(OTHER, O_RDONLY));
    expect_opened(__open_2(OTHER, O_RDONLY));
    expect_opened(__open64_2(OTHER, O_RDONLY));
    EXPECT_ABSENT(open(ABSENT, O_RDONLY), -1);
}

static void openat__all_forms__read_the_tree(void **state)
{
    (void)state;
    expect_ours(openat(AT_FDCWD, OURS, O_RDONLY));
    expect_ours(
        openat64(-1, OURS, O_RDONLY)); /* the descriptor is ignored, because the path is absolute */
    expect_ours(__openat_2(AT_FDCWD, OURS, O_RDONLY));
    expect_ours(__openat64_2(AT_FDCWD, OURS, O_RDONLY));
    expect_opened(openat(AT_FDCWD, OTHER, O_RDONLY));
    expect_opened(openat64(AT_FDCWD, OTHER, O_RDONLY));
    EXPECT_ABSENT(openat(AT_FDCWD, ABSENT, O_RDONLY), -1);
}

static void openat__in_a_directory_of_the_tree__finds_entries(void **state)
{
    int directory = open(LIST, O_RDONLY | O_DIRECTORY);

    (void)state;
    assert_true(directory >= 0);
    expect_ours(openat(directory, "paths0/fw_ver", O_RDONLY));
    assert_int_equal(close(directory), 0);
}

static void open__that_creates_a_file__sets_its_mode(void **state)
{
    char path[512];
    struct stat is;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/made", getenv("UROCE_TREE"));
    (void)unlink(path);
    expect_opened(open(path, O_WRONLY | O_CREAT | O_EXCL, 0640));
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_mode & 0777, 0640 & ~022);
    assert_int_equal(unlink(path), 0);
    int fd = openat64(AT_FDCWD, getenv("UROCE_TREE"), O_WRONLY | O_TMPFILE, 0400);
    assert_true(fd >= 0 || errno == EOPNOTSUPP);
    if (fd >= 0) {
        assert_int_equal(fstat(fd, &is), 0);
        assert_int_equal(is.st_mode & 0777, 0400);
        assert_int_equal(close(fd), 0);
    }
}

static void open__before_constructors_ran__works(void **state)
{
    (void)state;
    expect_opened(before_constructors);
}

static void fopen__both_forms__read_the_tree(void **state)
{
    FILE *(*const calls[])(const char *, const char *) = { fopen, fopen64 };
    char text[16];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        FILE *file = calls[i](OURS, "re");
        assert_non_null(file);
        assert_non_null(fgets(text, sizeof text, file));
        assert_string_equal(text, SAYS);
        assert_int_equal(fclose(file), 0);
        file = calls[i](OTHER, "r");
        assert_non_null(file);
        assert_int_equal(fclose(file), 0);
        EXPECT_ABSENT(calls[i](ABSENT, "r"), NULL);
    }
}

/* Checks stat() of a file of uroce, of a device node, of another file, and of a missing file. */
#define EXPECT_STAT(kind, is, ours, node, other, absent)                                           \
    do {                                                                                           \
        struct kind is;                                                                            \
        assert_int_equal(ours, 0);                                                                 \
        assert_true(S_ISREG(is.st_mode));                                                          \
        assert_int_equal(is.st_size, strlen(SAYS));                                                \
        assert_int_equal(node, 0);                                                                 \
        assert_true(S_ISCHR(is.st_mode) || S_ISLNK(is.st_mode));                                   \
        assert_int_equal(other, 0);                                                                \
        assert_true(S_ISREG(is.st_mode));                                                          \
        EXPECT_ABSENT(absent, -1);                                                                 \
    } while (0)

static void stat__all_forms__see_the_tree(void **state)
{
    (void)state;
    EXPECT_STAT(stat, is, stat(OURS, &is), stat(NODE, &is), stat(OTHER, &is), stat(ABSENT, &is));
    EXPECT_STAT(stat64, is, stat64(OURS, &is), stat64(NODE, &is), stat64(OTHER, &is),
                stat64(ABSENT, &is));
    EXPECT_STAT(stat, is, lstat(OURS, &is), lstat(NODE, &is), lstat(OTHER, &is),
                lstat(ABSENT, &is));
    EXPECT_STAT(stat64, is, lstat64(OURS, &is), lstat64(NODE, &is), lstat64(OTHER, &is),
                lstat64(ABSENT, &is));
}

static void fstatat__both_forms__see_the_tree(void **state)
{
    const int at = AT_FDCWD;

    (void)state;
    EXPECT_STAT(stat, is, fstatat(at, OURS, &is, 0), fstatat(at, NODE, &is, 0),
                fstatat(at, OTHER, &is, 0), fstatat(at, ABSENT, &is, 0));
    EXPECT_STAT(stat64, is, fstatat64(at, OURS, &is, 0), fstatat64(at, NODE, &is, 0),
                fstatat64(at, OTHER, &is, 0), fstatat64(at, ABSENT, &is, 0));
}

static void xstat__of_old_programs__works(void **state)
{
    const int v = STAT_VERSION, at = AT_FDCWD;

    (void)state;
    EXPECT_STAT(stat, is, __xstat(v, OURS, &is), __xstat(v, NODE, &is), __xstat(v, OTHER, &is),
                __xstat(v, ABSENT, &is));
    EXPECT_STAT(stat64, is, __xstat64(v, OURS, &is), __xstat64(v, NODE, &is),
                __xstat64(v, OTHER, &is), __xstat64(v, ABSENT, &is));
    EXPECT_STAT(stat, is, __lxstat(v, OURS, &is), __lxstat(v, NODE, &is), __lxstat(v, OTHER, &is),
                __lxstat(v, ABSENT, &is));
    EXPECT_STAT(stat64, is, __lxstat64(v, OURS, &is), __lxstat64(v, NODE, &is),
                __lxstat64(v, OTHER, &is), __lxstat64(v, ABSENT, &is));
    EXPECT_STAT(stat, is, __fxstatat(v, at, OURS, &is, 0), __fxstatat(v, at, NODE, &is, 0),
                __fxstatat(v, at, OTHER, &is, 0), __fxstatat(v, at, ABSENT, &is, 0));
    EXPECT_STAT(stat64, is, __fxstatat64(v, at, OURS, &is, 0), __fxstatat64(v, at, NODE, &is, 0),
                __fxstatat64(v, at, OTHER, &is, 0), __fxstatat64(v, at, ABSENT, &is, 0));
}

static void statx__with_the_flags_of_ls__works(void **state)
{
    struct statx is;

    (void)state;
    assert_int_equal(statx(AT_FDCWD, OURS, AT_SYMLINK_NOFOLLOW, STATX_SIZE, &is), 0);
    assert_int_equal(is.stx_size, strlen(SAYS));
    assert_int_equal(statx(AT_FDCWD, NODE, 0, STATX_TYPE, &is), 0);
    assert_true(S_ISCHR(is.stx_mode));
    assert_int_equal(statx(AT_FDCWD, OTHER, 0, STATX_TYPE, &is), 0);
    EXPECT_ABSENT(statx(AT_FDCWD, ABSENT, 0, STATX_TYPE, &is), -1);
}

static void access__all_forms__see_the_tree(void **state)
{
    int (*const calls[])(const char *, int) = { access, euidaccess, eaccess };

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(calls[i](OURS, R_OK), 0);
        assert_int_equal(calls[i](NODE, R_OK | W_OK), 0);
        assert_int_equal(calls[i](OTHER, R_OK), 0);
        EXPECT_ABSENT(calls[i](ABSENT, F_OK), -1);
    }
    assert_int_equal(faccessat(AT_FDCWD, NODE, R_OK | W_OK, AT_EACCESS), 0);
    assert_int_equal(faccessat(AT_FDCWD, OTHER, R_OK, 0), 0);
    EXPECT_ABSENT(faccessat(AT_FDCWD, ABSENT, F_OK, 0), -1);
}

static void opendir__class_infiniband__lists_the_device_of_uroce(void **state)
{
    bool there = false;
    DIR *list = opendir(LIST);

    (void)state;
    assert_non_null(list);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list))
        there |= strcmp(entry->d_name, "paths0") == 0;
    assert_true(there);
    assert_int_equal(closedir(list), 0);
    list = opendir("/proc/self");
    assert_non_null(list);
    assert_int_equal(closedir(list), 0);
    EXPECT_ABSENT(opendir(ABSENT), NULL);
}

static int only_ours(const struct dirent *entry)
{
    return strcmp(entry->d_name, "paths0") == 0;
}

static int only_ours64(const struct dirent64 *entry)
{
    return strcmp(entry->d_name, "paths0") == 0;
}

static void scandir__both_forms__list_the_tree(void **state)
{
    struct dirent **list;
    struct dirent64 **list64;

    (void)state;
    assert_int_equal(scandir(LIST, &list, only_ours, alphasort), 1);
    free(list[0]);
    free(list);
    assert_int_equal(scandir64(LIST, &list64, only_ours64, alphasort64), 1);
    free(list64[0]);
    free(list64);
    EXPECT_ABSENT(scandir(ABSENT, &list, only_ours, alphasort), -1);
}

static void readlink__all_forms__read_links_of_the_tree(void **state)
{
    char target[64];
    const size_t room = sizeof target, null = strlen("/dev/null");

    (void)state;
    assert_int_equal(readlink(NODE, target, room), null);
    assert_memory_equal(target, "/dev/null", null);
    assert_int_equal(readlinkat(AT_FDCWD, NODE, target, room), null);
    assert_int_equal(__readlink_chk(NODE, target, room, room), null);
    assert_int_equal(__readlinkat_chk(AT_FDCWD, NODE, target, room, room), null);
    assert_true(readlink("/proc/self", target, room) > 0);
    EXPECT_ABSENT(readlink(ABSENT, target, room), -1);
}

static void expect_real(const char *path, char *freed)
{
    char real[PATH_MAX];

    assert_non_null(path);
    assert_non_null(realpath(getenv("UROCE_TREE"), real));
    assert_memory_equal(path, real, strlen(real));
    assert_string_equal(path + strlen(real), "/class/infiniband/paths0");
    free(freed);
}

static void realpath__all_forms__resolve(void **state)
{
    char out[PATH_MAX];
    char *made;

    (void)state;
    expect_real(realpath(LIST "/paths0", out), NULL);
    expect_real(__realpath_chk(LIST "/paths0", out, sizeof out), NULL);
    made = realpath(LIST "/paths0", NULL);
    expect_real(made, made);
    made = canonicalize_file_name(LIST "/paths0");
    expect_real(made, made);
    assert_string_equal(realpath("/dev/../dev/null", out), "/dev/null");
    EXPECT_ABSENT(realpath(ABSENT, out), NULL);
}

static void getxattr__both_forms__find_the_file(void **state)
{
    char value[16];

    (void)state;
    assert_int_equal(getxattr(OURS, "user.none", value, sizeof value), -1);
    assert_int_not_equal(errno, ENOENT);
    assert_int_equal(lgetxattr(OURS, "user.none", value, sizeof value), -1);
    assert_int_not_equal(errno, ENOENT);
    EXPECT_ABSENT(getxattr(ABSENT, "user.none", value, sizeof value), -1);
}

static void chdir__then_relative_names__find_files_of_the_tree(void **state)
{
    int before = open(".", O_RDONLY | O_DIRECTORY);

    (void)state;
    assert_true(before >= 0);
    assert_int_equal(chdir(LIST "/paths0"), 0);
    expect_ours(open("fw_ver", O_RDONLY));
    assert_int_equal(chdir("/proc/self"), 0);
    expect_opened(open("cmdline", O_RDONLY));
    EXPECT_ABSENT(chdir(ABSENT), -1);
    assert_int_equal(fchdir(before), 0);
    assert_int_equal(close(before), 0);
}

static void call__that_succeeds__leaves_errno(void **state)
{
    (void)state;
    errno = EXDEV;
    expect_ours(open(OURS, O_RDONLY));
    assert_int_equal(access(NODE, R_OK), 0);
    assert_int_equal(errno, EXDEV);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__all_forms__read_the_tree),
        cmocka_unit_test(openat__all_forms__read_the_tree),
        cmocka_unit_test(openat__in_a_directory_of_the_tree__finds_entries),
        cmocka_unit_test(open__that_creates_a_file__sets_its_mode),
        cmocka_unit_test(open__before_constructors_ran__works),
        cmocka_unit_test(fopen__both_forms__read_the_tree),
        cmocka_unit_test(stat__all_forms__see_the_tree),
        cmocka_unit_test(fstatat__both_forms__see_the_tree),
        cmocka_unit_test(xstat__of_old_programs__works),
        cmocka_unit_test(statx__with_the_flags_of_ls__works),
        cmocka_unit_test(access__all_forms__see_the_tree),
        cmocka_unit_test(opendir__class_infiniband__lists_the_device_of_uroce),
        cmocka_unit_test(scandir__both_forms__list_the_tree),
        cmocka_unit_test(readlink__all_forms__read_links_of_the_tree),
        cmocka_unit_test(realpath__all_forms__resolve),
        cmocka_unit_test(getxattr__both_forms__find_the_file),
        cmocka_unit_test(chdir__then_relative_names__find_files_of_the_tree),
        cmocka_unit_test(call__that_succeeds__leaves_errno),
    };

    (void)umask(022);
    return cmocka_run_group_tests(tests, tree_make, NULL);
}
