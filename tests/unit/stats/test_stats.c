/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the files of devices, from which other processes read data about running, ended and killed
 * processes. */
#include "stats/reader.h"
#include "stats/writer.h"

#include "support/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char directory[] = "/tmp/uroce-test-stats-XXXXXX";
static char problem[URO_STATS_PROBLEM_MAX];
static const struct uro_gid gids[2] = { { { 0xfe, 0x80 } }, { { 0 } } };
static const struct uro_stats_device device = {
    .name = "uroce0", .link = "net_udp0", .guid = 0x1122, .gids = gids, .gid_count = 2
};

static int make_directory(void **state)
{
    (void)state;
    memcpy(directory + sizeof directory - 7, "XXXXXX", 6);
    if (mkdtemp(directory) == NULL)
        return -1;
    return setenv("UROCE_STATE_DIR", directory, 1);
}

static void each_file(void (*visit)(const char *path))
{
    DIR *list = opendir(directory);
    char path[512];

    assert_non_null(list);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.')
            visit(path);
    }
    (void)closedir(list);
}

static void remove_file(const char *path)
{
    assert_int_equal(unlink(path), 0);
}

static int remove_directory(void **state)
{
    (void)state;
    (void)chmod(directory, 0700);
    each_file(remove_file);
    return rmdir(directory);
}

static unsigned files;

static void count_file(const char *path)
{
    (void)path;
    files++;
}

static unsigned count_files(void)
{
    files = 0;
    each_file(count_file);
    return files;
}

static uint64_t sum_of(enum uro_counter counter)
{
    struct uro_counters sum;

    assert_int_equal(uro_stats_sum(geteuid(), "uroce0", 0x1122, &sum), 0);
    return sum.value[counter];
}

static void open_file(struct uro_stats_writer *writer, uint64_t completions)
{
    static uint64_t starts;
    struct uro_stats_device opened = device;

    opened.started = ++starts;
    assert_int_equal(uro_stats_open(writer, &opened, problem), 0);
    assert_string_equal(problem, "");
    writer->page->record.counters.value[URO_COUNT_COMPLETIONS] = completions;
}

static void close_file(struct uro_stats_writer *writer)
{
    uro_stats_end(writer);
    uro_stats_unmap(writer);
}

/* ---- sums ---------------------------------------------------------------- */

static void counters__no_process__are_zero(void **state)
{
    (void)state;
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 0);
}

static void counters__two_processes__are_added_during_and_after_their_run(void **state)
{
    struct uro_stats_writer first, second;

    (void)state;
    open_file(&first, 5);
    open_file(&second, 7);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 12);
    close_file(&first);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 12);
    close_file(&second);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 12);
    assert_int_equal(count_files(), 1); /* the total */
}

static char moved[600], kept[600]; /* path of the total, and a path to keep it at */

static void find_total(const char *path)
{
    if (strstr(path, ".total") != NULL && moved[0] == '\0') {
        (void)snprintf(moved, sizeof moved, "%s", path);
        (void)snprintf(kept, sizeof kept, "%s-kept", path);
    }
}

/* The total is behind a symbolic link, which uroce does not follow. */
static void counters__total_cannot_be_read__are_kept(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    open_file(&writer, 5);
    close_file(&writer);
    moved[0] = '\0';
    each_file(find_total);
    assert_int_equal(rename(moved, kept), 0);
    assert_int_equal(symlink(kept, moved), 0);
    open_file(&writer, 7);
    close_file(&writer);
    assert_int_equal(rename(kept, moved), 0);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 12);
    assert_int_equal(count_files(), 1); /* the total */
}

static void counters__device_with_another_address__have_a_separate_sum(void **state)
{
    struct uro_stats_device other = device;
    struct uro_stats_writer first, second;

    (void)state;
    other.guid = 0x3344;
    open_file(&first, 5);
    assert_int_equal(uro_stats_open(&second, &other, problem), 0);
    second.page->record.counters.value[URO_COUNT_COMPLETIONS] = 100;
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 5);
    close_file(&second);
    close_file(&first);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 5);
}

static void counters__process_killed__are_kept(void **state)
{
    struct uro_stats_writer writer;
    int ready[2];
    char octet;

    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (uro_stats_open(&writer, &device, problem) != 0)
            _exit(1);
        writer.page->record.counters.value[URO_COUNT_COMPLETIONS] = 9;
        (void)!write(ready[1], "x", 1);
        (void)pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &octet, 1), 1);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 9);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 9);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 9);
    assert_int_equal(count_files(), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void counters__process_killed_between_adding_and_removing__are_added_once(void **state)
{
    struct uro_stats_writer writer;
    char before[512], after[512];

    (void)state;
    open_file(&writer, 4);
    (void)snprintf(before, sizeof before, "%s/uroce0-0000000000001122.%d", directory,
                   (int)getpid());
    (void)snprintf(after, sizeof after, "%s/kept", directory);
    assert_int_equal(link(before, after), 0);
    close_file(&writer);
    assert_int_equal(rename(after, before),
                     0); /* the file exists again, as after a crash before its removal */
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 4);
    assert_int_equal(count_files(), 1);
}

static void process__forked_child_runs_on__parent_counts_as_ended(void **state)
{
    struct uro_stats_writer writer;
    int go[2];
    char octet;

    (void)state;
    open_file(&writer, 3);
    assert_int_equal(pipe(go), 0);
    pid_t child = fork();
    if (child == 0) {
        uro_stats_abandon(&writer);
        (void)close(go[1]);
        _exit(read(go[0], &octet, 1) == 0 ? 0 : 1);
    }
    close_file(&writer);
    assert_int_equal(count_files(), 1);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 3);
    (void)close(go[0]);
    (void)close(go[1]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void process__reader_is_stopped__is_not_delayed(void **state)
{
    struct uro_stats_writer writer;
    int fd = open(directory, O_RDONLY | O_DIRECTORY);

    (void)state;
    assert_int_equal(flock(fd, LOCK_EX), 0);
    open_file(&writer, 2);
    close_file(&writer);
    (void)close(fd);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 2);
}

static void devices__more_than_are_kept__the_oldest_total_is_removed(void **state)
{
    struct uro_stats_device other = device;
    struct uro_stats_writer writer;

    (void)state;
    open_file(&writer, 5);
    close_file(&writer);
    for (unsigned i = 0; i < 260; i++) {
        other.guid = 0x10000 + i;
        assert_int_equal(uro_stats_open(&writer, &other, problem), 0);
        close_file(&writer);
    }
    assert_int_equal(count_files(), 256);
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 0);
}

/* ---- the data that a reader gets ----------------------------------------- */

struct seen {
    struct uro_stats_file file;
    struct uro_stats_page page;
    unsigned count;
};

static void see(void *context, const struct uro_stats_file *file)
{
    struct seen *seen = context;

    seen->file = *file;
    memcpy(&seen->page, file->page, sizeof seen->page);
    seen->count++;
}

static struct seen *look(void)
{
    static struct seen seen;

    memset(&seen, 0, sizeof seen);
    (void)!uro_stats_read(geteuid(), see, &seen);
    return &seen;
}

static void record__of_a_running_process__has_pid_and_program(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    open_file(&writer, 1);
    atomic_store(&writer.page->header.state, URO_STATS_RUNNING);
    const struct seen *seen = look();
    assert_int_equal(seen->count, 1);
    assert_int_equal(seen->file.error, 0);
    assert_true(seen->file.alive);
    assert_int_equal(seen->file.kind, URO_STATS_PROCESS);
    assert_int_equal(seen->page.header.pid, getpid());
    assert_string_equal(seen->page.device, "uroce0");
    assert_string_equal(seen->page.link, "net_udp0");
    assert_string_equal(seen->page.header.version, URO_VERSION);
    assert_int_equal(seen->page.gid_count, 2);
    assert_memory_equal(seen->page.gids, gids, sizeof gids);
    close_file(&writer);
}

static void page__of_another_version__only_the_header_is_read(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    open_file(&writer, 1);
    (void)snprintf(writer.page->header.version, sizeof writer.page->header.version, "9.9\033[2J");
    const struct seen *seen = look();
    assert_int_equal(seen->file.error, -EPROTO);
    assert_string_equal(seen->page.header.version, "9.9?[2J");
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 0);
    close_file(&writer);
}

static void page__strings_without_nul__are_terminated_and_counts_limited(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    open_file(&writer, 1);
    memset(writer.page->program, 'x', sizeof writer.page->program);
    writer.page->gid_count = 4000000000u;
    const struct seen *seen = look();
    assert_int_equal(seen->file.error, 0);
    assert_int_equal(strlen(seen->page.program), sizeof writer.page->program - 1);
    assert_int_equal(seen->page.gid_count, URO_STATS_GIDS);
    close_file(&writer);
}

static void page__truncated__is_refused(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    open_file(&writer, 1);
    assert_int_equal(ftruncate(writer.fd, 100), 0);
    assert_int_equal(look()->file.error, -EINVAL);
    uro_stats_abandon(
        &writer); /* not end(), which would write to pages that do not exist any more */
    uro_stats_unmap(&writer);
}

/* ---- directories that are not safe ---------------------------------------- */

static void directory__writable_by_others__is_not_used(void **state)
{
    struct uro_stats_writer writer;

    (void)state;
    assert_int_equal(chmod(directory, 0770), 0);
    assert_int_equal(uro_stats_open(&writer, &device, problem), -EACCES);
    assert_null(writer.page);
    assert_non_null(strstr(problem, directory));
    assert_int_equal(uro_stats_read(geteuid(), see, look()), -EACCES);
}

/* Starts and ends a process. @fails: one of its queue pairs fails. @refuses: one of its calls is
 * refused. */
static void run_process(bool fails, bool refuses)
{
    struct uro_stats_writer writer;

    open_file(&writer, 1);
    writer.page->record.recorded = fails;
    if (refuses)
        uro_stats_refuse(writer.page, 5, EINVAL, "ibv_modify_qp", "no GRH");
    close_file(&writer);
}

static void file__of_an_ended_process__is_kept_after_a_failure(void **state)
{
    (void)state;
    run_process(false, false);
    assert_int_equal(count_files(), 1); /* the total */
    run_process(true, false);
    assert_int_equal(count_files(), 2);
    run_process(false, true);
    assert_int_equal(count_files(),
                     2); /* the newer of two records with the same process ID stays */
    assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), 3);
}

/* Writes a file of a process @pid that was killed. */
static void leave_killed(int pid)
{
    struct uro_stats_writer writer;
    char from[512], to[512];

    open_file(&writer, 1);
    writer.page->record.recorded = 1;
    writer.page->header.pid = pid;
    (void)snprintf(from, sizeof from, "%s/uroce0-0000000000001122.%d", directory, (int)getpid());
    (void)snprintf(to, sizeof to, "%s/uroce0-0000000000001122.%d", directory, pid);
    assert_int_equal(rename(from, to), 0);
    uro_stats_abandon(&writer);
    uro_stats_unmap(&writer);
}

static void files__of_ended_processes__newest_16_are_kept(void **state)
{
    char name[512];

    (void)state;
    for (int pid = 1; pid <= 20; pid++) {
        leave_killed(100000000 + pid);
        assert_int_equal(sum_of(URO_COUNT_COMPLETIONS), pid);
    }
    assert_int_equal(count_files(), 1 + 16);
    (void)snprintf(name, sizeof name, "%s/uroce0-0000000000001122.100000004.ended", directory);
    assert_int_equal(access(name, F_OK), -1);
    (void)snprintf(name, sizeof name, "%s/uroce0-0000000000001122.100000005.ended", directory);
    assert_int_equal(access(name, F_OK), 0);
}

static void refusals__repeated_and_too_many__newest_are_kept(void **state)
{
    struct uro_stats_writer writer;
    struct uro_stats_refusal refusal;
    char text[400];

    (void)state;
    open_file(&writer, 0);
    assert_false(uro_stats_refusal(writer.page, 0, &refusal));
    for (unsigned i = 0; i < 3; i++)
        uro_stats_refuse(writer.page, i, EINVAL, "ibv_post_send", "the same");
    assert_int_equal(writer.page->refusal_count, 1);
    assert_true(uro_stats_refusal(writer.page, 1, &refusal));
    assert_int_equal(refusal.repeats, 2);
    assert_int_equal(refusal.time, 2);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    for (unsigned i = 0; i < URO_STATS_REFUSALS; i++) {
        text[0] = (char)('0' + i);
        uro_stats_refuse(writer.page, i, EINVAL, "ibv_post_send", text);
    }
    assert_false(uro_stats_refusal(writer.page, 1, &refusal));
    assert_true(uro_stats_refusal(writer.page, 1 + URO_STATS_REFUSALS, &refusal));
    assert_int_equal(strlen(refusal.text), URO_STATS_REFUSAL_MAX - 1);
    writer.page->refusals[1].number_again = 0; /* a torn copy */
    assert_false(uro_stats_refusal(writer.page, 1 + URO_STATS_REFUSALS, &refusal));
    close_file(&writer);
}

static void directory__symbolic_link__is_not_used(void **state)
{
    struct uro_stats_writer writer;
    char name[512];

    (void)state;
    (void)snprintf(name, sizeof name, "%s/link", directory);
    assert_int_equal(symlink("/", name), 0);
    assert_int_equal(setenv("UROCE_STATE_DIR", name, 1), 0);
    assert_int_equal(uro_stats_open(&writer, &device, problem), -EACCES);
}

/* The hub has its sockets in uroce-UID, so the files must be in another directory. */
static void directories__of_a_user__differ_from_the_directories_of_the_hub(void **state)
{
    char path[URO_STATS_PATH_MAX], wanted[64];

    (void)state;
    assert_int_equal(unsetenv("UROCE_STATE_DIR"), 0);
    assert_int_equal(uro_stats_directory(12345, 2, false, path), -ENOENT);
    (void)snprintf(wanted, sizeof wanted, "/tmp/uroce-stats-%d", 12345);
    assert_string_equal(path, wanted);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", "/nowhere", 1), 0);
    assert_int_equal(uro_stats_directory(geteuid(), 1, false, path), -ENOENT);
    assert_string_equal(path, "/nowhere/uroce-stats");
}

#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(counters__no_process__are_zero),
        IN_DIRECTORY(counters__two_processes__are_added_during_and_after_their_run),
        IN_DIRECTORY(counters__total_cannot_be_read__are_kept),
        IN_DIRECTORY(counters__device_with_another_address__have_a_separate_sum),
        IN_DIRECTORY(counters__process_killed__are_kept),
        IN_DIRECTORY(counters__process_killed_between_adding_and_removing__are_added_once),
        IN_DIRECTORY(process__forked_child_runs_on__parent_counts_as_ended),
        IN_DIRECTORY(process__reader_is_stopped__is_not_delayed),
        IN_DIRECTORY(devices__more_than_are_kept__the_oldest_total_is_removed),
        IN_DIRECTORY(record__of_a_running_process__has_pid_and_program),
        IN_DIRECTORY(page__of_another_version__only_the_header_is_read),
        IN_DIRECTORY(page__strings_without_nul__are_terminated_and_counts_limited),
        IN_DIRECTORY(page__truncated__is_refused),
        IN_DIRECTORY(directory__writable_by_others__is_not_used),
        IN_DIRECTORY(directory__symbolic_link__is_not_used),
        cmocka_unit_test(directories__of_a_user__differ_from_the_directories_of_the_hub),
        IN_DIRECTORY(file__of_an_ended_process__is_kept_after_a_failure),
        IN_DIRECTORY(files__of_ended_processes__newest_16_are_kept),
        IN_DIRECTORY(refusals__repeated_and_too_many__newest_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
