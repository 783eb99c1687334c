/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests which names are mapped to the tree of UROCE_TREE (meson.build), and which are not
 * changed. */
#include "paths/path_map.h"

#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const directories[] = { "",
                                           "/class",
                                           "/class/infiniband",
                                           "/class/infiniband/ours0",
                                           "/class/infiniband_verbs",
                                           "/class/infiniband_verbs/uverbs0",
                                           "/devices",
                                           "/devices/virtual",
                                           "/devices/virtual/infiniband",
                                           "/devices/virtual/infiniband/linked0",
                                           "/dev",
                                           "/dev/infiniband" };
static const struct {
    const char *path, *target;
} links[] = {
    { "/dev/infiniband/uverbs0", "/dev/null" },
    { "/dev/infiniband/uverbs7", "/dev/infiniband/uverbs7" },
    { "/class/infiniband/linked0", "../../devices/virtual/infiniband/linked0" },
    { "/devices/virtual/infiniband/rxe0", "/sys/devices/virtual/infiniband/rxe0" },
    { "/class/infiniband/mlx5_0", "/sys/class/infiniband/mlx5_0" },
};

static void below(char *path, size_t size, const char *name)
{
    assert_in_range(snprintf(path, size, "%s%s", getenv("UROCE_TREE"), name), 1, size - 1);
}

static int tree_make(void **state)
{
    char path[512];

    (void)state;
    if (getenv("UROCE_TREE") == NULL) {
        print_error("UROCE_TREE is not set: run this test with meson\n");
        return -1;
    }
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        below(path, sizeof path, directories[i]);
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    }
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        below(path, sizeof path, links[i].path);
        assert_true(symlink(links[i].target, path) == 0 || errno == EEXIST);
    }
    return 0;
}

/* Checks that @name is mapped to @wanted below the tree. */
static void expect_in_tree(const char *name, const char *wanted)
{
    struct uro_paths_buffer buffer;
    char path[512];

    below(path, sizeof path, wanted);
    errno = EXDEV;
    assert_string_equal(uro_paths_map(name, &buffer), path);
    assert_int_equal(errno, EXDEV);
}

static void expect_as_it_is(const char *name)
{
    struct uro_paths_buffer buffer;

    errno = EXDEV;
    assert_ptr_equal(uro_paths_map(name, &buffer), name);
    assert_int_equal(errno, EXDEV);
}

static void expect_outside(const char *name, const char *wanted)
{
    struct uro_paths_buffer buffer;

    errno = EXDEV;
    assert_string_equal(uro_paths_map(name, &buffer), wanted);
    assert_int_equal(errno, EXDEV);
}

static void map__directories__are_those_of_the_tree(void **state)
{
    (void)state;
    expect_in_tree("/sys/class/infiniband", "/class/infiniband");
    expect_in_tree("/sys/class/infiniband/", "/class/infiniband/");
    expect_in_tree("/sys/class/infiniband_verbs", "/class/infiniband_verbs");
    expect_in_tree("/dev/infiniband", "/dev/infiniband");
}

static void map__device_of_uroce__is_in_the_tree_with_all_files_below(void **state)
{
    (void)state;
    expect_in_tree("/sys/class/infiniband/ours0", "/class/infiniband/ours0");
    expect_in_tree("/sys/class/infiniband//ours0/", "/class/infiniband//ours0/");
    expect_in_tree("/sys/class/infiniband/ours0/ports/1/gids/0",
                   "/class/infiniband/ours0/ports/1/gids/0");
    expect_in_tree("/sys/class/infiniband_verbs/uverbs0/ibdev",
                   "/class/infiniband_verbs/uverbs0/ibdev");
    expect_in_tree("/dev/infiniband/uverbs0", "/dev/infiniband/uverbs0");
}

static void map__device_of_the_kernel__is_not_mapped(void **state)
{
    (void)state;
    expect_as_it_is("/sys/class/infiniband/mlx5_0");
    expect_as_it_is("/sys/class/infiniband/mlx5_0/node_guid");
    expect_as_it_is("/dev/infiniband/uverbs7");
}

static void map__name_not_in_the_tree__is_not_mapped(void **state)
{
    (void)state;
    expect_as_it_is("/sys/class/infiniband/later0");
    expect_as_it_is("/sys/class/infiniband_verbs/uverbs1");
    expect_as_it_is("/dev/infiniband/rdma_cm");
}

static void map__other_names__are_not_mapped(void **state)
{
    (void)state;
    expect_as_it_is(NULL);
    expect_as_it_is("");
    expect_as_it_is("/");
    expect_as_it_is("/sys/class/net");
    expect_as_it_is("/sys/class/infinibandx/ours0");
    expect_as_it_is("/sys/class/infiniban");
    expect_as_it_is("sys/class/infiniband/ours0");
    expect_as_it_is("/devinfiniband");
    expect_as_it_is("/dev/null");
}

static void map__path_out_of_the_tree__is_that_of_the_machine(void **state)
{
    (void)state;
    expect_outside("/sys/class/infiniband/..", "/sys/class");
    expect_outside("/sys/class/infiniband/../net", "/sys/class/net");
    expect_outside("/sys/class/infiniband//..//net/", "/sys/class//net/");
    expect_outside("/sys/class/infiniband/ours0/../../../../etc/passwd",
                   "/sys/class/../../etc/passwd");
    expect_outside("/dev/infiniband/./..", "/dev");
    expect_as_it_is("/sys/class/infiniband/nothing/../..");
}

static void map__directory_of_a_virtual_device__is_in_the_tree(void **state)
{
    (void)state;
    expect_in_tree("/sys/devices/virtual/infiniband", "/devices/virtual/infiniband");
    expect_in_tree("/sys/devices/virtual/infiniband/linked0/node_guid",
                   "/devices/virtual/infiniband/linked0/node_guid");
    expect_as_it_is("/sys/devices/virtual/infiniband/rxe0");
    expect_as_it_is("/sys/devices/virtual/infiniband/later0");
    expect_as_it_is("/sys/devices/virtual/net");
    expect_outside("/sys/devices/virtual/infiniband/../net", "/sys/devices/virtual/net");
}

/* As in the kernel, `..` of a link is the parent of its target. */
static void map__parent_of_a_link__is_the_parent_of_the_target(void **state)
{
    (void)state;
    expect_in_tree("/sys/class/infiniband/linked0/..", "/class/infiniband/linked0/..");
    expect_outside("/sys/class/infiniband/linked0/../..", "/sys/devices/virtual");
    expect_outside("/sys/class/infiniband/linked0/../../net/lo", "/sys/devices/virtual/net/lo");
    expect_in_tree("/sys/class/infiniband/linked0/../../infiniband/linked0",
                   "/devices/virtual/infiniband/linked0");
}

static void map__signs_of_gpu_memory__exist_nowhere(void **state)
{
    static const char *const names[] = { "/sys/module/nvidia_peermem/version",
                                         "/sys/module/nvidia_peermem",
                                         "/sys/module/nv_peer_mem/version",
                                         "/sys/kernel/mm/memory_peers/nv_mem/version",
                                         "/sys/memory_peers/amdkfd/version" };
    struct uro_paths_buffer buffer;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_string_not_equal(uro_paths_map(names[i], &buffer), names[i]);
        assert_int_equal(access(uro_paths_map(names[i], &buffer), F_OK), -1);
        assert_int_equal(errno, ENOENT);
    }
    expect_as_it_is("/sys/module/nvidia_peermem2");
    expect_as_it_is("/sys/module/nvidia");
}

/* Programs that list a directory also open its entries `.` and `..`. */
static void map__dots_inside__are_resolved_in_the_tree(void **state)
{
    (void)state;
    expect_in_tree("/sys/class/infiniband/.", "/class/infiniband/.");
    expect_in_tree("/sys/class/infiniband/ours0/..", "/class/infiniband/ours0/..");
    expect_in_tree("/sys/class/infiniband/ours0/./../ours0", "/class/infiniband/ours0/./../ours0");
    expect_in_tree("/sys/class/infiniband/../infiniband/ours0", "/class/infiniband/ours0");
    expect_in_tree("/dev/infiniband/.", "/dev/infiniband/.");
    expect_as_it_is("/sys/class/infiniband/.hidden");
}

static void map__name_longer_than_the_limit__is_not_mapped(void **state)
{
    static const char start[] = "/sys/class/infiniband/ours0/";
    char name[URO_PATHS_NAME_MAX + sizeof "/sys"];

    (void)state;
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    memcpy(name, start, sizeof start - 1);
    expect_as_it_is(name);
    name[sizeof name - 2] = '\0';
    expect_in_tree(name, name + strlen("/sys"));
}

static void map__environment_changed_later__has_no_effect(void **state)
{
    char before[512];

    (void)state;
    below(before, sizeof before, "");
    assert_int_equal(setenv("UROCE_TREE", "/nowhere", 1), 0);
    struct uro_paths_buffer buffer;
    const char *now = uro_paths_map("/dev/infiniband", &buffer);
    assert_int_equal(setenv("UROCE_TREE", before, 1), 0);
    assert_memory_equal(now, before, strlen(before));
}

static void map__tree_that_others_can_write_to__is_not_used(void **state)
{
    char tree[512];

    (void)state;
    below(tree, sizeof tree, "");
    assert_int_equal(chmod(tree, 0720), 0);
    expect_as_it_is("/dev/infiniband");
    assert_null(uro_paths_trusted_tree());
    assert_string_equal(uro_paths_tree(), tree);
    assert_int_equal(chmod(tree, 0702), 0);
    expect_as_it_is("/dev/infiniband");
    assert_int_equal(chmod(tree, 0700), 0);
    assert_string_equal(uro_paths_trusted_tree(), tree);
    expect_in_tree("/dev/infiniband", "/dev/infiniband");
}

static void map__tree_of_another_user__is_not_used(void **state)
{
    char tree[512];

    (void)state;
    if (geteuid() != 0)
        skip();
    below(tree, sizeof tree, "");
    assert_int_equal(chown(tree, 65534, 65534), 0);
    expect_as_it_is("/dev/infiniband");
    assert_int_equal(chown(tree, 0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map__directories__are_those_of_the_tree),
        cmocka_unit_test(map__device_of_uroce__is_in_the_tree_with_all_files_below),
        cmocka_unit_test(map__device_of_the_kernel__is_not_mapped),
        cmocka_unit_test(map__name_not_in_the_tree__is_not_mapped),
        cmocka_unit_test(map__other_names__are_not_mapped),
        cmocka_unit_test(map__path_out_of_the_tree__is_that_of_the_machine),
        cmocka_unit_test(map__dots_inside__are_resolved_in_the_tree),
        cmocka_unit_test(map__name_longer_than_the_limit__is_not_mapped),
        cmocka_unit_test(map__environment_changed_later__has_no_effect),
        cmocka_unit_test(map__directory_of_a_virtual_device__is_in_the_tree),
        cmocka_unit_test(map__parent_of_a_link__is_the_parent_of_the_target),
        cmocka_unit_test(map__signs_of_gpu_memory__exist_nowhere),
        cmocka_unit_test(map__tree_that_others_can_write_to__is_not_used),
        cmocka_unit_test(map__tree_of_another_user__is_not_used),
    };

    return cmocka_run_group_tests(tests, tree_make, NULL);
}
