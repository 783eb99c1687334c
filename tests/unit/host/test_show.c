/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that a device writes its objects for a reader that requests them, in short steps. */
#include "support/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/shard.h"
#include "fake_port.h"
#include "host/device.h"
#include "host/limits.h"
#include "stats/table_reader.h"
#include "support/must.h"

#define QPS 10000u

static char directory[] = "/tmp/uroce-test-show-XXXXXX";
static struct uro_stats_question question;
static struct uro_stats_rows rows;
static uint8_t *memory; /* memory of all objects */

static struct uro_device *start(void)
{
    fake.link_up = true;
    MUST(setenv("UROCE_DEVICES", "one:fake0;ip=10.0.0.1/24", 1) == 0);
    MUST(setenv("UROCE_STATE_DIR", directory, 1) == 0);
    struct uro_device *device = uro_host_devices()[0];
    MUST(device != NULL && uro_device_start(device) == 0);
    uro_device_lock(device);
    MUST(device->stats.page != NULL);
    return device;
}

static void ask(const struct uro_device *device)
{
    char path[URO_STATS_PATH_MAX], name[96];
    const int fd = uro_stats_directory(geteuid(), 0, false, path);

    (void)snprintf(name, sizeof name, "one-%016llx.%d",
                   (unsigned long long)device->stats.page->guid, (int)getpid());
    MUST(uro_stats_table_ask(fd, name, geteuid(), &question) == 0);
    (void)close(fd);
}

static void create_qps(struct uro_device *device)
{
    struct uro_shard *shard = uro_engine_shard(device->engine);
    struct uro_qp_init init = {
        .type = URO_QPT_RC, .send_capacity = 1, .recv_capacity = 1, .lends_resources = true
    };
    const size_t size = (uro_qp_size(&init) + 63) & ~(size_t)63;
    const size_t cq_size = (uro_cq_size(1) + 63) & ~(size_t)63;

    memory = aligned_alloc(64, QPS * (size + cq_size));
    MUST(memory != NULL);
    for (uint32_t i = 0; i < QPS; i++) {
        init.send_cq = init.recv_cq = uro_cq_init(memory + i * cq_size, 1, NULL);
        uro_snapshot_add_cq(shard, init.send_cq);
        (void)uro_qp_create(shard, &init, memory + QPS * cq_size + i * size);
    }
}

/* Returns the processor time of this thread. Other threads do not affect it. */
static uint64_t used_us(void)
{
    struct timespec used;

    MUST(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
    return (uint64_t)used.tv_sec * 1000000 + (uint64_t)used.tv_nsec / 1000;
}

/* Runs rounds until the rows are complete. Returns their number. */
static unsigned answer(struct uro_device *device)
{
    uro_time now = uro_device_now();
    uint64_t longest = 0;
    uint32_t received;
    unsigned rounds = 0;
    int error = -EAGAIN;

    while ((error == -EAGAIN || error == -EINPROGRESS) && rounds < 1000) {
        now += rounds == 0 ? URO_LINK_CHECK_INTERVAL : URO_SHOW_INTERVAL;
        const uint64_t before = used_us();
        (void)uro_round_run(device, false, now, &received);
        const uint64_t taken = used_us() - before;
        longest = taken > longest ? taken : longest;
        rounds++;
        error = uro_stats_table_read(&question, &rows);
    }
    MUST(error == 0);
    uro_stats_table_forget(&question);
    printf("# %u rounds, the longest took %llu us\n", rounds, (unsigned long long)longest);
    return rounds;
}

static void shows_ten_thousand(void)
{
    struct uro_device *device = start();
    const uro_time checked = device->link_checked_at;
    uint32_t received;

    create_qps(device);
    for (unsigned times = 0; times < 2; times++) { /* the file grows only in the first pass */
        ask(device);
        const unsigned rounds = answer(device);
        MUST(rounds >= 2 * QPS / URO_SHOW_ROWS && rounds < 100);
        MUST(rows.count[URO_SNAPSHOT_QPS] == QPS && rows.count[URO_SNAPSHOT_CQS] == QPS);
        MUST(!rows.incomplete);
        uro_stats_table_free(&rows);
    }
    MUST(device->link_checked_at > checked);
    /* There is no request, so the next check is later. */
    const uro_time last = device->link_checked_at;
    (void)uro_round_run(device, false, last + URO_SHOW_INTERVAL, &received);
    MUST(device->link_checked_at == last);
    uro_device_unlock(device);
}

static void ends_while_it_is_read(void)
{
    struct uro_device *device = start();
    uint32_t received;

    create_qps(device);
    ask(device);
    (void)uro_round_run(device, false, uro_device_now() + URO_LINK_CHECK_INTERVAL, &received);
    MUST(uro_stats_table_read(&question, &rows) == -EINPROGRESS);
    uro_device_unlock(device);
}

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    char command[sizeof directory + 16];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command);
}

static void show__ten_thousand_queue_pairs__are_shown_in_several_rounds(void **state)
{
    (void)state;
    assert_int_equal(must_status(shows_ten_thousand), 0);
}

static void show__process_ends_meanwhile__no_crash(void **state)
{
    (void)state;
    assert_int_equal(must_status(ends_while_it_is_read), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(show__ten_thousand_queue_pairs__are_shown_in_several_rounds),
        cmocka_unit_test(show__process_ends_meanwhile__no_crash),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
