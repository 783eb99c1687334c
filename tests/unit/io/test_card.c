/* SPDX-License-Identifier: BSD-3-Clause */
/* test_card.c - tests the reasons why DPDK cannot use a card. A directory of the test has the files
 * of sysfs and /dev. */
#define _GNU_SOURCE
#include "support/check.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/dpdk/card_problem.h"

#define CARD "0000:00:05.0"

static char root[] = "/tmp/uroce-card-XXXXXX";
static char text[512];

/* Makes the directories of @path in the root, and the last component if it ends with a slash. */
static const char *make(const char *path)
{
    static char full[512];

    (void)snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + sizeof root, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    return full;
}

static void make_file(const char *path)
{
    FILE *file = fopen(make(path), "w");

    assert_non_null(file);
    (void)fclose(file);
}

static void make_link(const char *path, const char *target)
{
    assert_int_equal(symlink(target, make(path)), 0);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static int set_up(void **state)
{
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *problem(const char *link)
{
    text[0] = '\0';
    return uro_card_problem(root, link, text, sizeof text) ? text : "none";
}

static void bind_to(const char *driver)
{
    char target[128];

    (void)snprintf(target, sizeof target, "../../../bus/pci/drivers/%s", driver);
    make_link("/sys/bus/pci/devices/" CARD "/driver", target);
}

static void card__absent__lspci_is_named(void **state)
{
    (void)state;
    make("/sys/bus/pci/devices/");
    assert_string_equal(problem("00:05.0,some=option"),
                        "this machine has no PCI device 0000:00:05.0; `lspci -D` lists them");
    assert_string_equal(problem("0001:00:05.0"),
                        "this machine has no PCI device 0001:00:05.0; `lspci -D` lists them");
}

static void card__without_a_driver__message_says_to_bind_it(void **state)
{
    (void)state;
    make("/sys/bus/pci/devices/" CARD "/");
    assert_string_equal(problem("00:05.0"), "no driver is bound to it; give it to DPDK: "
                                            "`dpdk-devbind.py -b vfio-pci 0000:00:05.0`");
}

static void card__of_the_kernel__driver_and_interface_are_named(void **state)
{
    (void)state;
    bind_to("e1000e");
    assert_string_equal(problem(CARD),
                        "the kernel's driver e1000e uses the card; give the card to DPDK: "
                        "`dpdk-devbind.py -b vfio-pci 0000:00:05.0`");
    make("/sys/bus/pci/devices/" CARD "/net/ens5/");
    assert_string_equal(
        problem(CARD),
        "the kernel's driver e1000e uses the card as ens5; give the card to DPDK: `ip link set "
        "ens5 down` and `dpdk-devbind.py -b vfio-pci 0000:00:05.0`");
}

static void card__of_virtio__interface_is_found_in_the_subdirectory(void **state)
{
    (void)state;
    bind_to("virtio-pci");
    make("/sys/bus/pci/devices/" CARD "/virtio3/net/eth0/");
    assert_non_null(
        strstr(problem(CARD), "the kernel's driver virtio-pci uses the card as eth0; "));
}

static void card__of_a_driver_that_dpdk_shares__nothing_is_wrong(void **state)
{
    (void)state;
    bind_to("mlx5_core");
    assert_string_equal(problem(CARD), "none");
}

static void card__of_vfio__message_has_the_missing_parts(void **state)
{
    (void)state;
    bind_to("vfio-pci");
    assert_string_equal(problem(CARD), "/dev/vfio/vfio is missing; load the kernel's module "
                                       "vfio-pci, and pass /dev/vfio to a container");
    make_file("/dev/vfio/vfio");
    assert_string_equal(problem(CARD),
                        "it has no IOMMU; turn it on with intel_iommu=on, or load vfio with "
                        "enable_unsafe_noiommu_mode=1, which is unsafe, and bind the card again");
    make_link("/sys/bus/pci/devices/" CARD "/iommu_group", "../../../kernel/iommu_groups/12");
    assert_string_equal(problem(CARD), "/dev/vfio/12, its IOMMU group, is missing; pass /dev/vfio "
                                       "to the container");
    make_file("/dev/vfio/noiommu-12");
    assert_string_equal(problem(CARD), "none");
    make_file("/dev/vfio/12");
    assert_string_equal(problem(CARD), "none");
}

static void card__of_another_users_group__message_has_the_remedy(void **state)
{
    (void)state;
    bind_to("vfio-pci");
    make_file("/dev/vfio/vfio");
    make_link("/sys/bus/pci/devices/" CARD "/iommu_group", "../../../kernel/iommu_groups/3");
    make_file("/dev/vfio/3");
    assert_int_equal(chmod(make("/dev/vfio/3"), 0), 0);
    if (geteuid() == 0)
        assert_string_equal(problem(CARD), "none"); /* root may open it */
    else
        assert_non_null(strstr(problem(CARD), "/dev/vfio/3, its IOMMU group: Permission denied; "
                                              "as root, `chown "));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(card__absent__lspci_is_named),
        TEST(card__without_a_driver__message_says_to_bind_it),
        TEST(card__of_the_kernel__driver_and_interface_are_named),
        TEST(card__of_virtio__interface_is_found_in_the_subdirectory),
        TEST(card__of_a_driver_that_dpdk_shares__nothing_is_wrong),
        TEST(card__of_vfio__message_has_the_missing_parts),
        TEST(card__of_another_users_group__message_has_the_remedy),
    };

    return cmocka_run_group_tests_name("io/card", tests, NULL, NULL);
}
