/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the tables of objects: a request, its answer, and forged files. */
#include "stats/survey.h"
#include "stats/table_writer.h"

#include "support/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cq.h"
#include "core/key.h"
#include "core/qp_state.h"

#define QPS 3u

static char directory[] = "/tmp/uroce-test-table-XXXXXX";
static char problem[URO_STATS_PROBLEM_MAX];
static const struct uro_gid gids[1] = { { { 0xfe, 0x80 } } };
static const struct uro_stats_device device = {
    .name = "uroce0", .link = "net_udp0", .guid = 0x1122, .gids = gids, .gid_count = 1
};
static struct uro_stats_writer writer;
static struct uro_stats_table_writer table;
static struct uro_snapshot snapshot;
static struct uro_stats_question question;
static struct uro_stats_rows rows;

static int open_file(void **state)
{
    (void)state;
    memcpy(directory + sizeof directory - 7, "XXXXXX", 6);
    if (mkdtemp(directory) == NULL)
        return -1;
    table = (struct uro_stats_table_writer){ 0 };
    return setenv("UROCE_STATE_DIR", directory, 1) == 0 ? uro_stats_open(&writer, &device, problem)
                                                        : -1;
}

static void remove_files(void)
{
    DIR *list = opendir(directory);
    char path[512];

    assert_non_null(list);
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] != '.')
            (void)unlink(path);
    }
    (void)closedir(list);
}

static int close_file(void **state)
{
    (void)state;
    uro_stats_table_unmap(&table);
    uro_stats_abandon(&writer);
    uro_stats_unmap(&writer);
    uro_stats_table_free(&rows);
    remove_files();
    return rmdir(directory);
}

static int ask_as(uid_t uid)
{
    char name[URO_STATS_FILE_MAX], path[URO_STATS_PATH_MAX];
    const int fd = uro_stats_directory(geteuid(), 0, false, path);

    (void)snprintf(name, sizeof name, "uroce0-0000000000001122.%d", (int)getpid());
    const int error = uro_stats_table_ask(fd, name, uid, &question);
    (void)close(fd);
    return error;
}

static void ask(void)
{
    assert_int_equal(ask_as(geteuid()), 0);
}

/* Writes rows as a process with @qps queue pairs, and one object of each other kind. */
static struct uro_snapshot_rows begin(uint32_t qps)
{
    const uint32_t wanted[URO_SNAPSHOT_KINDS] = { qps, 1, 1, 1, 1 };
    struct uro_snapshot_rows to;

    assert_int_equal(uro_stats_table_begin(&table, &writer, wanted, &to), 0);
    snapshot = (struct uro_snapshot){ .count = { qps, 1, 1, 1, 1 } };
    for (uint32_t i = 0; i < qps; i++)
        to.qps[i] = (struct uro_snapshot_qp){ .qpn = 100 + i };
    to.cqs[0] = (struct uro_snapshot_cq){ .number = 1, .capacity = 10, .waiting = 4 };
    to.keys[0] = (struct uro_snapshot_key){ .key = 0x300, .length = 77 };
    to.srqs[0] = (struct uro_snapshot_srq){ .number = 6, .capacity = 8, .posted = 3 };
    to.ids[0] = (struct uro_snapshot_id){ .number = 9, .source_version = 4, .source_port = 4000 };
    return to;
}

static void end(void)
{
    uro_stats_table_end(&table, &writer, &snapshot, 5000);
}

static int answer(void)
{
    uro_stats_table_free(&rows);
    return uro_stats_table_read(&question, &rows);
}

static int answer_last(void)
{
    const int error = answer();

    uro_stats_table_forget(&question);
    return error;
}

/* ---- question and answer --------------------------------------------------- */

static void table__no_request__is_not_wanted(void **state)
{
    (void)state;
    assert_false(uro_stats_table_wanted(&table, writer.page));
    ask();
    assert_true(uro_stats_table_wanted(&table, writer.page));
    (void)begin(QPS);
    end();
    assert_false(uro_stats_table_wanted(&table, writer.page));
    uro_stats_table_forget(&question);
}

static void table__answered__reader_has_the_rows(void **state)
{
    (void)state;
    ask();
    assert_int_equal(answer(), -EAGAIN);
    (void)begin(QPS);
    assert_int_equal(answer(), -EINPROGRESS);
    end();
    assert_int_equal(answer_last(), 0);
    assert_int_equal(rows.count[URO_SNAPSHOT_QPS], QPS);
    assert_int_equal(rows.qps[2].qpn, 102);
    assert_int_equal(rows.cqs[0].waiting, 4);
    assert_int_equal(rows.keys[0].length, 77);
    assert_int_equal(rows.srqs[0].number, 6);
    assert_int_equal(rows.ids[0].number, 9);
    assert_int_equal(rows.ids[0].source_port, 4000);
    assert_int_equal(rows.time, 5000);
    assert_false(rows.incomplete);
}

static void table__of_an_earlier_request__is_no_answer(void **state)
{
    (void)state;
    ask();
    (void)begin(QPS);
    end();
    assert_int_equal(answer_last(), 0);
    ask();
    assert_int_equal(answer_last(), -EAGAIN);
}

static void table__grows__with_the_number_of_objects(void **state)
{
    (void)state;
    ask();
    (void)begin(1);
    end();
    assert_int_equal(answer_last(), 0);
    ask();
    (void)begin(10000);
    end();
    assert_int_equal(answer_last(), 0);
    assert_int_equal(rows.count[URO_SNAPSHOT_QPS], 10000);
    assert_int_equal(rows.qps[9999].qpn, 100 + 9999);
    assert_int_equal(rows.keys[0].length, 77);
}

static void table__file_cannot_grow__reader_gets_the_reason(void **state)
{
    const uint32_t wanted[URO_SNAPSHOT_KINDS] = { 100000, 1, 1 };
    struct uro_snapshot_rows to;
    struct rlimit old, small = { .rlim_cur = 2u << 20 };

    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    ask();
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(uro_stats_table_begin(&table, &writer, wanted, &to), -EFBIG);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(answer_last(), -EFBIG);
    assert_false(uro_stats_table_wanted(&table, writer.page));
    ask(); /* the next request may be answered */
    (void)begin(QPS);
    end();
    assert_int_equal(answer_last(), 0);
}

static void survey__process_that_runs_no_rounds__has_counters_only(void **state)
{
    struct uro_survey survey;

    (void)state;
    writer.page->record.counters.value[URO_COUNT_COMPLETIONS] = 6;
    uro_survey_take(&survey, URO_SURVEY_ROWS);
    assert_int_equal(survey.error, 0);
    assert_int_equal(survey.count, 1);
    assert_true(survey.files[0].alive);
    assert_int_equal(survey.files[0].rows_error, -ETIMEDOUT);
    assert_int_equal(survey.files[0].page->record.counters.value[URO_COUNT_COMPLETIONS], 6);
    uro_survey_free(&survey);
    assert_int_equal(survey.count, 0);
}

static void survey__without_request__has_no_rows(void **state)
{
    struct uro_survey survey;

    (void)state;
    uro_survey_take(&survey, URO_SURVEY_ALL_USERS);
    assert_int_equal(survey.count, 1);
    assert_int_equal(survey.files[0].rows_error, 1);
    assert_false(uro_stats_table_wanted(&table, writer.page));
    uro_survey_free(&survey);
}

/* ---- hostile files ---------------------------------------------------------- */

static void request__file_of_another_user__is_refused(void **state)
{
    (void)state;
    assert_int_equal(ask_as(geteuid() + 1), -EACCES);
}

static void request__file_with_a_hard_link__is_refused(void **state)
{
    char name[512], other[512];

    (void)state;
    (void)snprintf(name, sizeof name, "%s/uroce0-0000000000001122.%d", directory, (int)getpid());
    (void)snprintf(other, sizeof other, "%s/other", directory);
    assert_int_equal(link(name, other), 0);
    assert_int_equal(ask_as(geteuid()), -EACCES);
}

static void request__symbolic_link_or_pipe__is_refused(void **state)
{
    char name[512];

    (void)state;
    (void)snprintf(name, sizeof name, "%s/uroce0-0000000000001122.%d", directory, (int)getpid());
    assert_int_equal(unlink(name), 0);
    assert_int_equal(symlink("/etc/passwd", name), 0);
    assert_int_equal(ask_as(geteuid()), -EACCES);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkfifo(name, 0600), 0);
    assert_int_equal(ask_as(geteuid()), -EACCES);
}

static void request__file_of_another_version__is_not_written(void **state)
{
    (void)state;
    writer.page->header.layout++;
    assert_int_equal(ask_as(geteuid()), -EPROTO);
    assert_false(uro_stats_table_wanted(&table, writer.page));
}

/* Damages a correct table in way number @which. */
static void damage_table(unsigned which, struct uro_stats_table *shown)
{
    switch (which) {
    case 0:
        shown->count[URO_SNAPSHOT_QPS] = UINT32_MAX;
        break;
    case 1:
        shown->count[URO_SNAPSHOT_KEYS] = shown->capacity[URO_SNAPSHOT_KEYS] = 1u << 31;
        break;
    case 2: /* more rows than the file has */
        shown->count[URO_SNAPSHOT_QPS] = shown->capacity[URO_SNAPSHOT_QPS] =
            URO_STATS_TABLE_ROWS_MAX;
        break;
    case 3:
        shown->error = 7;
        break;
    case 4:
        shown->error = INT32_MIN;
        break;
    default:
        shown->incomplete = 77;
        break;
    }
}
#define TABLE_DAMAGES 6u

/* Damages a row in way number @which. Returns false if there is no such way. */
static bool damage_row(unsigned which, struct uro_snapshot_rows *to)
{
    unsigned i = 0;

#define DAMAGE(field, bad)                                                                         \
    if (which == i++) {                                                                            \
        to->field = bad;                                                                           \
        return true;                                                                               \
    }
    DAMAGE(qps[1].type, URO_QPT_COUNT)
    DAMAGE(qps[1].state, 200)
    DAMAGE(qps[1].fail_reason, URO_FAIL_REASON_COUNT)
    DAMAGE(qps[1].qpn, 1u << 24)
    DAMAGE(qps[1].peer_qpn, UINT32_MAX)
    DAMAGE(qps[1].expected_psn, 1u << 24)
    DAMAGE(cqs[0].waiting, 11)
    DAMAGE(cqs[0].overrun, 2)
    DAMAGE(keys[0].kind, 9)
    DAMAGE(srqs[0].posted, 9)
    DAMAGE(srqs[0].limit, 9)
    DAMAGE(srqs[0].is_xrc, 2)
    DAMAGE(ids[0].state, URO_SNAPSHOT_ID_STATES)
    DAMAGE(ids[0].dest_version, 5)
    DAMAGE(ids[0].qpn, 1u << 24)
#undef DAMAGE
    return false;
}

static void read__damaged_rows__are_refused(void **state)
{
    (void)state;
    bool damaged = true;

    for (unsigned which = 0; damaged; which++) {
        ask();
        struct uro_snapshot_rows to = begin(QPS);
        end();
        assert_int_equal(answer(), 0);
        if (which < TABLE_DAMAGES)
            damage_table(which, &writer.page->table);
        else
            damaged = damage_row(which - TABLE_DAMAGES, &to);
        if (!damaged)
            break;
        assert_int_equal(answer_last(), -EINVAL);
        assert_null(rows.qps);
    }
}

static void read__file_cut_off__is_refused(void **state)
{
    (void)state;
    ask();
    (void)begin(QPS);
    end();
    assert_int_equal(ftruncate(writer.fd, URO_STATS_TABLE_OFFSET), 0);
    assert_int_equal(answer(), -EINVAL);
    assert_int_equal(ftruncate(writer.fd, 100), 0);
    assert_int_equal(answer_last(), -EINVAL);
}

static void read__written_meanwhile__is_not_taken(void **state)
{
    (void)state;
    ask();
    (void)begin(QPS);
    end();
    atomic_fetch_add(&writer.page->table.version, 1); /* as if killed while it writes a table */
    assert_int_equal(answer_last(), -EINPROGRESS);
}

int main(void)
{
#define IN_FILE(name) cmocka_unit_test_setup_teardown(name, open_file, close_file)
    const struct CMUnitTest tests[] = {
        IN_FILE(table__no_request__is_not_wanted),
        IN_FILE(table__answered__reader_has_the_rows),
        IN_FILE(table__of_an_earlier_request__is_no_answer),
        IN_FILE(table__grows__with_the_number_of_objects),
        IN_FILE(table__file_cannot_grow__reader_gets_the_reason),
        IN_FILE(survey__process_that_runs_no_rounds__has_counters_only),
        IN_FILE(survey__without_request__has_no_rows),
        IN_FILE(request__file_of_another_user__is_refused),
        IN_FILE(request__file_with_a_hard_link__is_refused),
        IN_FILE(request__symbolic_link_or_pipe__is_refused),
        IN_FILE(request__file_of_another_version__is_not_written),
        IN_FILE(read__damaged_rows__are_refused),
        IN_FILE(read__file_cut_off__is_refused),
        IN_FILE(read__written_meanwhile__is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
