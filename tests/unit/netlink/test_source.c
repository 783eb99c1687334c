/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the devices that are read from a tree like /sys, and the counters from the files of
 * processes. */
#include "netlink/source.h"
#include "stats/writer.h"

#include "support/check.h"

#include <fcntl.h>
#include <ftw.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char scratch[] = "/tmp/uroce-test-source-XXXXXX";
static char tree[sizeof scratch + 8];

static void make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

static void put(const char *name, const char *text)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/class/%s", tree, name);
    make_directories(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void put_link(const char *name, const char *target)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/class/%s", tree, name);
    make_directories(path);
    assert_int_equal(symlink(target, path), 0);
}

static int make_tree(void **state)
{
    (void)state;
    memcpy(scratch + sizeof scratch - 7, "XXXXXX", 6);
    if (mkdtemp(scratch) == NULL)
        return -1;
    (void)snprintf(tree, sizeof tree, "%s/tree", scratch);
    put("infiniband_verbs/uverbs0/ibdev", "first\n");
    put("infiniband_verbs/uverbs1/ibdev", "second\n");
    put_link("infiniband_verbs/uverbs2", "/sys/class/infiniband_verbs/uverbs2");
    put("infiniband_verbs/uverbs3/ibdev", "beyond\n");
    put("infiniband/first/node_guid", "0102:0304:a506:0708\n");
    put("infiniband/first/sys_image_guid", "ffff:0304:a506:0709\n");
    put("infiniband/first/fw_ver", "4.5.6\n");
    put("infiniband/first/node_type", "1: CA\n");
    put("infiniband/first/ports/1/state", "4: ACTIVE\n");
    put("infiniband/first/ports/1/phys_state", "5: LinkUp\n");
    put("infiniband/first/ports/1/cap_mask", "0x04010000\n");
    put("infiniband/first/ports/1/gid_attrs/ndevs/0", "no-such-if\n");
    put("infiniband/first/ports/1/gid_attrs/ndevs/2", "lo\n");
    char state_directory[sizeof scratch + 8];
    (void)snprintf(state_directory, sizeof state_directory, "%s/state", scratch);
    return setenv("UROCE_STATE_DIR", state_directory, 1);
}

static int remove_entry(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is, (void)kind, (void)where;
    return remove(path);
}

static int remove_tree(void **state)
{
    (void)state;
    return nftw(scratch, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void read__tree_with_a_kernel_device__has_the_devices_before_it(void **state)
{
    struct uro_nldev_view *view = uro_nldev_read(tree, false);

    (void)state;
    assert_non_null(view);
    assert_int_equal(view->count, 2);
    const struct uro_nldev_device *device = &view->devices[0];
    assert_string_equal(device->name, "first");
    assert_string_equal(device->firmware, "4.5.6");
    assert_int_equal(device->index, 0);
    assert_int_equal(device->node_guid, 0x01020304a5060708);
    assert_true(device->sys_image_guid == UINT64_C(0xffff0304a5060709));
    assert_int_equal(device->node_type, 1);
    assert_int_equal(device->port_state, 4);
    assert_int_equal(device->port_phys_state, 5);
    assert_int_equal(device->port_cap_mask, 0x04010000);
    assert_string_equal(device->ndev_name, "lo");
    assert_true(device->ndev_index > 0);
    assert_string_equal(view->devices[1].name, "second"); /* has no files of its own */
    assert_int_equal(view->devices[1].node_guid, 0);
    assert_int_equal(view->devices[1].ndev_index, 0);
    uro_nldev_free(view);
}

static void read__missing_tree__has_no_devices(void **state)
{
    (void)state;
    struct uro_nldev_view *view = uro_nldev_read("/nowhere", true);
    assert_non_null(view);
    assert_int_equal(view->count, 0);
    uro_nldev_free(view);
    uro_nldev_free(NULL);
}

static uint64_t field(const struct uro_nldev_object *object, uint16_t attr)
{
    for (uint32_t i = 0; i < object->field_count; i++)
        if (object->fields[i].attr == attr)
            return object->fields[i].value;
    fail_msg("no field %u", attr);
    return 0;
}

static void read__processes_of_a_device__are_contexts_and_counters_are_added(void **state)
{
    static const struct uro_gid gid;
    struct uro_stats_device shown = { .name = "first",
                                      .link = "x",
                                      .guid = 0x01020304a5060708,
                                      .gids = &gid,
                                      .gid_count = 1,
                                      .started = 1 };
    char problem[URO_STATS_PROBLEM_MAX];
    struct uro_stats_writer ended, living, other;

    (void)state;
    assert_int_equal(uro_stats_open(&ended, &shown, problem), 0);
    ended.page->record.counters.value[URO_COUNT_TX_ROCE] = 30;
    uro_stats_end(&ended);
    uro_stats_unmap(&ended);
    shown.started = 2;
    assert_int_equal(uro_stats_open(&living, &shown, problem), 0);
    living.page->record.counters.value[URO_COUNT_TX_ROCE] = 4;
    shown.guid++; /* another device of the same name */
    assert_int_equal(uro_stats_open(&other, &shown, problem), 0);
    other.page->record.counters.value[URO_COUNT_TX_ROCE] = 1000;

    struct uro_nldev_view *view = uro_nldev_read(tree, false);
    assert_non_null(view);
    const struct uro_nldev_device *device = &view->devices[0];
    assert_int_equal(device->counters.value[URO_COUNT_TX_ROCE], 34);
    assert_true(device->objects[URO_NLDEV_CTX].known);
    assert_int_equal(device->objects[URO_NLDEV_CTX].count, 1);
    assert_int_equal(field(&device->objects[URO_NLDEV_CTX].list[0], RDMA_NLDEV_ATTR_RES_PID),
                     getpid());
    assert_false(device->objects[URO_NLDEV_QP].known);
    assert_int_equal(view->devices[1].objects[URO_NLDEV_CTX].count, 0);
    uro_nldev_free(view);
    uro_stats_end(&living);
    uro_stats_unmap(&living);
    uro_stats_end(&other);
    uro_stats_unmap(&other);
}

/* This process runs no engine, so nothing answers the request for its objects. */
static void read__process_does_not_answer__object_counts_are_unknown(void **state)
{
    static const struct uro_gid gid;
    const struct uro_stats_device shown = {
        .name = "first", .link = "x", .gids = &gid, .guid = 0x01020304a5060708, .gid_count = 1
    };
    char problem[URO_STATS_PROBLEM_MAX];
    struct uro_stats_writer living;

    (void)state;
    assert_int_equal(uro_stats_open(&living, &shown, problem), 0);
    struct uro_nldev_view *view = uro_nldev_read(tree, true);
    assert_non_null(view);
    assert_false(view->devices[0].objects[URO_NLDEV_QP].known);
    assert_false(view->devices[0].objects[URO_NLDEV_MR].known);
    assert_int_equal(view->devices[0].objects[URO_NLDEV_CTX].count, 1);
    assert_true(view->devices[1].objects[URO_NLDEV_QP].known);
    assert_int_equal(view->devices[1].objects[URO_NLDEV_QP].count, 0);
    assert_true(view->devices[1].objects[URO_NLDEV_SRQ].known);
    assert_true(view->devices[1].objects[URO_NLDEV_CM_ID].known);
    uro_nldev_free(view);
    uro_stats_end(&living);
    uro_stats_unmap(&living);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, make_tree, remove_tree)
    const struct CMUnitTest tests[] = {
        CASE(read__tree_with_a_kernel_device__has_the_devices_before_it),
        CASE(read__missing_tree__has_no_devices),
        CASE(read__processes_of_a_device__are_contexts_and_counters_are_added),
        CASE(read__process_does_not_answer__object_counts_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
