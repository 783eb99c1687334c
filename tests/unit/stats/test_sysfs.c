/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the files of a port in a tree like /sys: the values that a monitor reads while processes
 * start and end. */
#include "stats/directory.h"
#include "stats/sysfs.h"
#include "stats/writer.h"

#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE  "uroce0"
#define GUID    UINT64_C(0x0200aabbccdd0001)
#define RECEIVE "counters/port_rcv_packets"
#define SENT    "counters/port_xmit_packets"

static char directory[64], tree[80], states[80];
static char problem[URO_STATS_PROBLEM_MAX];
static const struct uro_gid gids[2] = {
    { { 0xfe, 0x80, [15] = 1 } },
    { { [10] = 0xff, 0xff, 10, 0, 0, 1 } },
};
static char ndevs[2][URO_STATS_NDEV_MAX] = { "eth0", "" };

static void path_of(char path[static 512], const char *name)
{
    (void)snprintf(path, 512, "%s/" URO_SYSFS_DEVICES "/" DEVICE "/%s", tree, name);
}

static void write_guid(const char *text)
{
    char path[512];

    path_of(path, "node_guid");
    (void)unlink(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const struct uro_sysfs_port idle = {
    .up = true, .speed = 100000, .gid_count = 1, .gids = { { { 0xfe, 0x80, [15] = 1 } } }
};

static int make_tree(void **state)
{
    static const char *const parts[] = { "", "/devices", "/devices/virtual", "/" URO_SYSFS_DEVICES,
                                         "/" URO_SYSFS_DEVICES "/" DEVICE };
    char path[512];

    (void)state;
    (void)snprintf(directory, sizeof directory, "/tmp/uroce-test-sysfs-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    (void)snprintf(tree, sizeof tree, "%s/tree", directory);
    (void)snprintf(states, sizeof states, "%s/states", directory);
    for (size_t i = 0; i < URO_ARRAY_LEN(parts); i++) {
        (void)snprintf(path, sizeof path, "%s%s", tree, parts[i]);
        if (mkdir(path, 0700) != 0)
            return -1;
    }
    write_guid("0200:aabb:ccdd:0001\n");
    if (uro_sysfs_make(tree, DEVICE, &idle) != 0)
        return -1;
    return setenv("UROCE_STATE_DIR", states, 1);
}

static int remove_entry(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is, (void)kind, (void)where;
    return remove(path);
}

static int remove_tree(void **state)
{
    (void)state;
    (void)chmod(states, 0700);
    return nftw(directory, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Reads a file of the port as it is, without its newline. */
static const char *text_of(const char *name)
{
    static char text[80];
    char path[512], file[128];

    (void)snprintf(file, sizeof file, "ports/1/%s", name);
    path_of(path, file);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return "absent";
    const ssize_t length = read(fd, text, sizeof text - 1);
    assert_true(length > 0 && text[length - 1] == '\n');
    text[length - 1] = '\0';
    (void)close(fd);
    return text;
}

static const char *fresh(const char *name)
{
    assert_int_equal(uro_sysfs_refresh(tree, DEVICE, name), 0);
    return text_of(name);
}

static void start_process(struct uro_stats_writer *writer, uint32_t gid_count)
{
    static uint64_t starts;
    const struct uro_stats_device device = { .name = DEVICE,
                                             .link = "udp",
                                             .guid = GUID,
                                             .gids = gids,
                                             .ndevs = ndevs,
                                             .gid_count = gid_count,
                                             .started = ++starts };

    assert_int_equal(uro_stats_open(writer, &device, problem), 0);
    atomic_store(&writer->page->link_up, 1);
    atomic_store(&writer->page->header.state, URO_STATS_RUNNING);
}

static void end_process(struct uro_stats_writer *writer)
{
    uro_stats_end(writer);
    uro_stats_unmap(writer);
}

static void count(struct uro_stats_writer *writer, enum uro_counter counter, uint64_t value)
{
    writer->page->record.counters.value[counter] = value;
}

/* ---- files --------------------------------------------------------------------- */

static void sysfs__new_tree__has_all_files_of_an_idle_port(void **state)
{
    (void)state;
    assert_string_equal(text_of("state"), "4: ACTIVE");
    assert_string_equal(text_of("phys_state"), "5: LinkUp");
    assert_string_equal(text_of("rate"), "100 Gb/sec (4X EDR)");
    assert_string_equal(text_of("gids/0"), "fe80:0000:0000:0000:0000:0000:0000:0001");
    assert_string_equal(text_of("gids/15"), "0000:0000:0000:0000:0000:0000:0000:0000");
    assert_string_equal(text_of("gid_attrs/types/0"), "RoCE v2");
    assert_string_equal(text_of("gid_attrs/types/1"), "absent");
    assert_string_equal(text_of("gid_attrs/ndevs/0"), "absent");
    assert_string_equal(text_of("counters/symbol_error"), "0");
    assert_string_equal(text_of("hw_counters/lifespan"), "10");
}

static void sysfs_changes__name_of_a_file__is_true_for_changing_files_and_directories(void **state)
{
    static const char *const yes[] = { "",
                                       "counters",
                                       "counters/port_rcv_data",
                                       "gids",
                                       "hw_counters",
                                       "hw_counters/rx_write_requests",
                                       "state",
                                       "rate",
                                       "phys_state",
                                       "gids/15",
                                       "gids/31", /* RoCE v1 doubles the GIDs */
                                       "gid_attrs/types/16",
                                       "gid_attrs/ndevs/31",
                                       "gid_attrs",
                                       "gid_attrs/ndevs/0",
                                       "gid_attrs/types" };
    static const char *const no[] = {
        "link_layer", "counters/port_rcv_dat", "counters/port_rcv_data/x", "gids/32", "pkeys/0",
        "stat"
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(yes); i++)
        assert_true(uro_sysfs_changes(yes[i]));
    for (size_t i = 0; i < URO_ARRAY_LEN(no); i++)
        assert_false(uro_sysfs_changes(no[i]));
}

/* ---- counters --------------------------------------------------------------------- */

static void sysfs__counters_of_two_processes__are_added_and_kept_at_their_end(void **state)
{
    struct uro_stats_writer first, second;

    (void)state;
    start_process(&first, 1);
    start_process(&second, 1);
    count(&first, URO_COUNT_RX_ROCE, 5);
    count(&second, URO_COUNT_RX_ROCE, 7);
    assert_string_equal(fresh(RECEIVE), "12");
    end_process(&first);
    assert_string_equal(fresh(RECEIVE), "12");
    end_process(&second);
    assert_string_equal(fresh(RECEIVE), "12");
}

static void sysfs__one_file_refreshed__other_files_are_unchanged(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    start_process(&writer, 1);
    count(&writer, URO_COUNT_RX_ROCE, 5);
    count(&writer, URO_COUNT_TX_ROCE, 6);
    assert_string_equal(fresh(RECEIVE), "5");
    assert_string_equal(text_of(SENT), "0");
    assert_int_equal(uro_sysfs_refresh(tree, DEVICE, "counters"), 0);
    assert_string_equal(text_of(SENT), "6");
    assert_string_equal(text_of("hw_counters/sent_pkts"), "0");
    assert_int_equal(uro_sysfs_refresh(tree, DEVICE, ""), 0);
    assert_string_equal(text_of("hw_counters/sent_pkts"), "6");
    end_process(&writer);
}

static void sysfs__device_with_another_address__is_not_counted(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    start_process(&writer, 1);
    count(&writer, URO_COUNT_RX_ROCE, 5);
    write_guid("0200:aabb:ccdd:0002\n");
    assert_string_equal(fresh(RECEIVE), "0");
    end_process(&writer);
}

#define READS 300

/* Counts packets until the parent kills this process. */
static void count_on(const int ready)
{
    struct uro_stats_writer writer;

    start_process(&writer, 1);
    for (uint64_t i = 1;; i++) {
        count(&writer, URO_COUNT_RX_ROCE, i);
        if (i == 1)
            (void)!write(ready, "x", 1);
    }
}

static pid_t start_counting(void)
{
    int ready[2];
    char octet;

    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0)
        count_on(ready[1]);
    assert_int_equal(read(ready[0], &octet, 1), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return child;
}

/* Reads the counter as a monitor does, and exits with 1 when it goes backwards. */
static void monitor(void)
{
    unsigned long long last = 0;

    for (int i = 0; i < READS; i++) {
        if (uro_sysfs_refresh(tree, DEVICE, RECEIVE) != 0)
            continue; /* on a slow machine, the last value stays */
        const unsigned long long now = strtoull(text_of(RECEIVE), NULL, 10);
        if (now < last)
            _exit(1);
        last = now;
    }
    _exit(last > 0 ? 0 : 2);
}

static void sysfs__processes_are_killed__no_counter_decreases(void **state)
{
    pid_t monitors[2];
    int status;

    (void)state;
    pid_t counting = start_counting();
    for (size_t i = 0; i < URO_ARRAY_LEN(monitors); i++)
        if ((monitors[i] = fork()) == 0)
            monitor();
    for (size_t i = 0; i < URO_ARRAY_LEN(monitors); i++) {
        while (waitpid(monitors[i], &status, WNOHANG) == 0) {
            assert_int_equal(kill(counting, SIGKILL), 0);
            assert_int_equal(waitpid(counting, NULL, 0), counting);
            counting = start_counting();
        }
        assert_int_equal(status, 0);
    }
    assert_int_equal(kill(counting, SIGKILL), 0);
    assert_int_equal(waitpid(counting, NULL, 0), counting);
}

/* ---- state --------------------------------------------------------------------- */

static void sysfs__link_down__is_shown_until_the_process_ends(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    start_process(&writer, 1);
    atomic_store(&writer.page->link_up, 0);
    assert_string_equal(fresh("state"), "1: DOWN");
    assert_string_equal(fresh("phys_state"), "2: Polling");
    end_process(&writer);
    assert_string_equal(fresh("state"), "4: ACTIVE");
}

static void sysfs__process_is_starting__port_state_is_unchanged(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    start_process(&writer, 2);
    atomic_store(&writer.page->link_up, 0);
    atomic_store(&writer.page->header.state, URO_STATS_STARTING);
    assert_string_equal(fresh("state"), "4: ACTIVE");
    assert_string_equal(fresh("gids/1"), "0000:0000:0000:0000:0000:0000:0000:0000");
    end_process(&writer);
}

static void sysfs__several_processes__gids_and_rate_are_those_of_the_last(void **state)
{
    struct uro_stats_writer first, second;

    (void)state;
    start_process(&first, 2);
    atomic_store(&first.page->speed, 10000);
    assert_string_equal(fresh("gids/1"), "0000:0000:0000:0000:0000:ffff:0a00:0001");
    assert_string_equal(fresh("gid_attrs/ndevs/0"), "eth0");
    assert_string_equal(fresh("rate"), "10 Gb/sec (1X QDR)");
    start_process(&second, 1);
    assert_int_equal(uro_sysfs_refresh(tree, DEVICE, "gid_attrs"), 0);
    assert_string_equal(text_of("gid_attrs/types/1"), "absent");
    assert_string_equal(fresh("gids/1"), "0000:0000:0000:0000:0000:0000:0000:0000");
    end_process(&second);
    end_process(&first);
    assert_string_equal(fresh("rate"), "10 Gb/sec (1X QDR)");
}

/* ---- errors ----------------------------------------------------------------------- */

static void sysfs__stopped_process_has_the_lock__last_value_is_kept(void **state)
{
    char path[512];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/.lock-" DEVICE, tree);
    const int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(uro_sysfs_refresh(tree, DEVICE, RECEIVE), -EBUSY);
    assert_string_equal(text_of(RECEIVE), "0");
    (void)close(fd);
}

static void sysfs__stopped_process_has_the_state_lock__last_value_is_kept(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    start_process(&writer, 1);
    count(&writer, URO_COUNT_RX_ROCE, 5);
    const int fd = open(states, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(uro_sysfs_refresh(tree, DEVICE, RECEIVE), -EBUSY);
    assert_string_equal(text_of(RECEIVE), "0");
    (void)close(fd);
    end_process(&writer);
}

static void sysfs__states_readable_by_others__last_value_is_kept(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    start_process(&writer, 1);
    count(&writer, URO_COUNT_RX_ROCE, 5);
    assert_string_equal(fresh(RECEIVE), "5");
    count(&writer, URO_COUNT_RX_ROCE, 6);
    assert_int_equal(chmod(states, 0755), 0);
    assert_int_equal(uro_sysfs_refresh(tree, DEVICE, RECEIVE), -EACCES);
    assert_string_equal(text_of(RECEIVE), "5");
    assert_int_equal(chmod(states, 0700), 0);
    end_process(&writer);
}

static void sysfs__file_of_another_version__is_not_counted(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    start_process(&writer, 1);
    count(&writer, URO_COUNT_RX_ROCE, 5);
    writer.page->header.layout++;
    atomic_store(&writer.page->link_up, 0);
    assert_string_equal(fresh(RECEIVE), "0");
    assert_string_equal(fresh("state"), "4: ACTIVE");
    writer.page->header.layout--;
    end_process(&writer);
}

static void sysfs__hostile_content__is_truncated_and_cleaned(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    start_process(&writer, 2);
    writer.page->gid_count = UINT32_MAX;
    memset(writer.page->ndevs, 'x', sizeof writer.page->ndevs);
    memcpy(writer.page->ndevs[1], "a\nb", 4);
    atomic_store(&writer.page->speed, UINT32_MAX);
    assert_string_equal(fresh("gid_attrs/ndevs/0"), "xxxxxxxxxxxxxxx");
    assert_string_equal(fresh("gid_attrs/ndevs/1"), "a?b");
    assert_string_equal(fresh("rate"), "800 Gb/sec (8X NDR)");
    end_process(&writer);
}

static void sysfs__directory_with_the_name_of_a_process__is_not_counted(void **state)
{
    struct uro_stats_writer writer;
    char path[512];

    (void)state;
    start_process(&writer, 1);
    count(&writer, URO_COUNT_RX_ROCE, 5);
    (void)snprintf(path, sizeof path, "%s/" DEVICE "-%016" PRIx64 ".1", states, GUID);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_string_equal(fresh(RECEIVE), "5");
    end_process(&writer);
    assert_string_equal(fresh(RECEIVE), "5");
}

static void sysfs__invalid_guid__is_an_error(void **state)
{
    (void)state;
    write_guid("what\n");
    assert_int_equal(uro_sysfs_refresh(tree, DEVICE, ""), -EINVAL);
}

static void sysfs__missing_device__is_an_error(void **state)
{
    (void)state;
    assert_int_equal(uro_sysfs_refresh(tree, "other0", ""), -ENOENT);
    assert_int_equal(uro_sysfs_make(tree, "other0", &idle), -ENOENT);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, make_tree, remove_tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_TREE(sysfs__new_tree__has_all_files_of_an_idle_port),
        IN_TREE(sysfs_changes__name_of_a_file__is_true_for_changing_files_and_directories),
        IN_TREE(sysfs__counters_of_two_processes__are_added_and_kept_at_their_end),
        IN_TREE(sysfs__one_file_refreshed__other_files_are_unchanged),
        IN_TREE(sysfs__device_with_another_address__is_not_counted),
        IN_TREE(sysfs__processes_are_killed__no_counter_decreases),
        IN_TREE(sysfs__link_down__is_shown_until_the_process_ends),
        IN_TREE(sysfs__process_is_starting__port_state_is_unchanged),
        IN_TREE(sysfs__several_processes__gids_and_rate_are_those_of_the_last),
        IN_TREE(sysfs__stopped_process_has_the_lock__last_value_is_kept),
        IN_TREE(sysfs__stopped_process_has_the_state_lock__last_value_is_kept),
        IN_TREE(sysfs__states_readable_by_others__last_value_is_kept),
        IN_TREE(sysfs__file_of_another_version__is_not_counted),
        IN_TREE(sysfs__hostile_content__is_truncated_and_cleaned),
        IN_TREE(sysfs__directory_with_the_name_of_a_process__is_not_counted),
        IN_TREE(sysfs__invalid_guid__is_an_error),
        IN_TREE(sysfs__missing_device__is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
