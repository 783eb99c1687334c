/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that a program with liburoce-paths.so reads the current value from a file of a port,
 * whatever function opens the file. UROCE_TREE (meson.build) is the directory with the files. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include "stats/sysfs.h"
#include "stats/writer.h"

#include "support/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT    "/sys/class/infiniband/live0/ports/1"
#define COUNTER PORT "/counters/port_rcv_packets"
#define SHORT   "port_rcv_packets"

int __open_2(const char *name, int flags);
int __open64_2(const char *name, int flags);
int __openat_2(int at, const char *name, int flags);
int __openat64_2(int at, const char *name, int flags);

static struct uro_stats_writer writer;
static uint64_t counted;

static void in_tree(char path[static 512], const char *name)
{
    (void)snprintf(path, 512, "%s%s", getenv("UROCE_TREE"), name);
}

static int remove_entry(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is, (void)kind, (void)where;
    return remove(path);
}

/* Makes the files of UROCE_TREE. Runs in a process without UROCE_TREE, because the library would
 * refresh the files while they are made. */
static int make(const char *tree)
{
    static const char *const directories[] = { "",
                                               "/states",
                                               "/class",
                                               "/class/infiniband",
                                               "/devices",
                                               "/devices/virtual",
                                               "/" URO_SYSFS_DEVICES,
                                               "/" URO_SYSFS_DEVICES "/live0" };
    static const struct uro_sysfs_port port = { .up = true };
    char path[512];

    (void)nftw(tree, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < URO_ARRAY_LEN(directories); i++) {
        (void)snprintf(path, sizeof path, "%s%s", tree, directories[i]);
        if (mkdir(path, 0700) != 0)
            return 1;
    }
    (void)snprintf(path, sizeof path, "%s/class/infiniband/live0", tree);
    if (symlink("../../" URO_SYSFS_DEVICES "/live0", path) != 0)
        return 1;
    (void)snprintf(path, sizeof path, "%s/" URO_SYSFS_DEVICES "/live0/node_guid", tree);
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs("0000:0000:0000:0077\n", file) < 0 || fclose(file) != 0)
        return 1;
    return uro_sysfs_make(tree, "live0", &port) == 0 ? 0 : 1;
}

/* Runs this program with two arguments. Returns the wait status. */
static int run_child(const char *task, const char *argument)
{
    int status;

    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        if (strcmp(task, "make") == 0)
            (void)unsetenv("UROCE_TREE");
        (void)execl("/proc/self/exe", "child", task, argument, (char *)NULL);
        _exit(3);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int tree_make(void **state)
{
    static const struct uro_gid gid = { { 0xfe, 0x80 } };
    const struct uro_stats_device device = {
        .name = "live0", .link = "udp", .guid = 0x77, .gids = &gid, .gid_count = 1
    };
    char path[512], problem[URO_STATS_PROBLEM_MAX];

    (void)state;
    assert_int_equal(run_child("make", getenv("UROCE_TREE")), 0);
    in_tree(path, "/states");
    assert_int_equal(setenv("UROCE_STATE_DIR", path, 1), 0);
    assert_int_equal(uro_stats_open(&writer, &device, problem), 0);
    return 0;
}

static int tree_end(void **state)
{
    (void)state;
    uro_stats_end(&writer);
    uro_stats_unmap(&writer);
    return 0;
}

/* Counts one more packet, as the engine does. */
static void count(void)
{
    writer.page->record.counters.value[URO_COUNT_RX_ROCE] = ++counted;
}

static void expect_current(int fd)
{
    char text[32] = "";

    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_int_equal(strtoull(text, NULL, 10), counted);
    assert_int_equal(close(fd), 0);
}

#define EXPECT_CURRENT(call) (count(), expect_current(call))

static void open__all_forms__current_value(void **state)
{
    (void)state;
    EXPECT_CURRENT(open(COUNTER, O_RDONLY));
    EXPECT_CURRENT(open64(COUNTER, O_RDONLY));
    EXPECT_CURRENT(__open_2(COUNTER, O_RDONLY));
    EXPECT_CURRENT(__open64_2(COUNTER, O_RDONLY));
    EXPECT_CURRENT(openat(AT_FDCWD, COUNTER, O_RDONLY));
    EXPECT_CURRENT(openat64(-1, COUNTER, O_RDONLY));
    EXPECT_CURRENT(__openat_2(AT_FDCWD, COUNTER, O_RDONLY));
    EXPECT_CURRENT(__openat64_2(AT_FDCWD, COUNTER, O_RDONLY));
}

static void fopen__both_forms__current_value(void **state)
{
    FILE *(*const calls[])(const char *, const char *) = { fopen, fopen64 };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(calls); i++) {
        count();
        FILE *file = calls[i](COUNTER, "re");
        assert_non_null(file);
        expect_current(dup(fileno(file)));
        assert_int_equal(fclose(file), 0);
    }
}

static void refresh__other_names_of_the_file__value_is_current(void **state)
{
    char path[512];

    (void)state;
    EXPECT_CURRENT(open("/sys/class/infiniband//live0/./ports//1/counters/" SHORT, O_RDONLY));
    EXPECT_CURRENT(open("/sys/" URO_SYSFS_DEVICES "/live0/ports/1/counters/" SHORT, O_RDONLY));
    in_tree(path, "/" URO_SYSFS_DEVICES "/live0/ports/1/counters/" SHORT);
    EXPECT_CURRENT(open(path, O_RDONLY));
}

static void relative_name__in_an_open_directory__current_value(void **state)
{
    const int directory = open(PORT, O_RDONLY | O_DIRECTORY);

    (void)state;
    assert_true(directory >= 0);
    EXPECT_CURRENT(openat(directory, "counters/" SHORT, O_RDONLY));
    assert_int_equal(close(directory), 0);
}

static void relative_name__in_the_working_directory__current_value(void **state)
{
    const int before = open(".", O_RDONLY | O_DIRECTORY);
    char value[32];

    (void)state;
    assert_int_equal(chdir(PORT "/counters"), 0);
    EXPECT_CURRENT(open(SHORT, O_RDONLY));
    count();
    (void)snprintf(value, sizeof value, "%llu", (unsigned long long)counted);
    assert_int_equal(run_child("read", value), 0); /* a process that starts in the directory */
    assert_int_equal(fchdir(before), 0);
    assert_int_equal(close(before), 0);
}

static void list__of_a_directory__makes_its_files_current(void **state)
{
    char path[512];
    struct stat is;

    (void)state;
    in_tree(path, "/" URO_SYSFS_DEVICES "/live0/ports/1/counters/" SHORT);
    counted = 1000000;
    count();
    DIR *list = opendir(PORT "/counters");
    assert_non_null(list);
    assert_int_equal(closedir(list), 0);
    assert_int_equal(stat(path, &is), 0);
    assert_int_equal(is.st_size, strlen("1000001\n"));
}

static void refresh__open_succeeds__errno_is_unchanged(void **state)
{
    (void)state;
    count();
    errno = EXDEV;
    const int fd = open(COUNTER, O_RDONLY);
    assert_int_equal(errno, EXDEV);
    expect_current(fd);
}

static void refresh__state_directory_has_the_wrong_mode__last_value_is_read(void **state)
{
    char path[512];

    (void)state;
    EXPECT_CURRENT(open(COUNTER, O_RDONLY));
    in_tree(path, "/states");
    assert_int_equal(chmod(path, 0755), 0);
    writer.page->record.counters.value[URO_COUNT_RX_ROCE] = 5;
    expect_current(open(COUNTER, O_RDONLY));
    assert_int_equal(chmod(path, 0700), 0);
}

static int read_short(const char *wanted)
{
    char text[32] = "";
    const int fd = open(SHORT, O_RDONLY);

    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return 1;
    return strtoull(text, NULL, 10) == strtoull(wanted, NULL, 10) ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open__all_forms__current_value),
        cmocka_unit_test(fopen__both_forms__current_value),
        cmocka_unit_test(refresh__other_names_of_the_file__value_is_current),
        cmocka_unit_test(relative_name__in_an_open_directory__current_value),
        cmocka_unit_test(relative_name__in_the_working_directory__current_value),
        cmocka_unit_test(list__of_a_directory__makes_its_files_current),
        cmocka_unit_test(refresh__open_succeeds__errno_is_unchanged),
        cmocka_unit_test(refresh__state_directory_has_the_wrong_mode__last_value_is_read),
    };

    if (argc == 3)
        return strcmp(argv[1], "make") == 0 ? make(argv[2]) : read_short(argv[2]);
    return cmocka_run_group_tests(tests, tree_make, tree_end);
}
