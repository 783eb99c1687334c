/* SPDX-License-Identifier: BSD-3-Clause */
/* card_problem.c - see card_problem.h. Sources: Documentation/driver-api/vfio.rst of Linux, and
 * "Linux Drivers" in DPDK's guide. */
#define _DEFAULT_SOURCE /* readlink */
#include "io/dpdk/card_problem.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NAME_CHARS 64
#define PATH_CHARS 512

#define MEMLOCK_LEAST (UINT64_C(64) << 20) /* bytes of memory that a user must be able to lock */

static bool exists(const char *root, const char *path)
{
    char full[PATH_CHARS];

    (void)snprintf(full, sizeof full, "%s%s", root, path);
    return access(full, F_OK) == 0;
}

/* Copies the last component of the symbolic link, such as the name of the kernel's driver. */
static bool read_link(const char *root, const char *path, char name[static NAME_CHARS])
{
    char full[PATH_CHARS], target[PATH_MAX];

    (void)snprintf(full, sizeof full, "%s%s", root, path);
    const ssize_t length = readlink(full, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    const char *slash = strrchr(target, '/');
    (void)snprintf(name, NAME_CHARS, "%.63s", slash != NULL ? slash + 1 : target);
    return true;
}

/* Completes the address with domain 0000, and cuts off options. */
static void read_address(const char *link, char address[static NAME_CHARS])
{
    const int length = (int)strcspn(link, ",");
    const char *colon = memchr(link, ':', (size_t)length);
    const bool has_domain =
        colon != NULL && memchr(colon + 1, ':', (size_t)(link + length - colon - 1)) != NULL;

    (void)snprintf(address, NAME_CHARS, "%s%.*s", has_domain ? "" : "0000:", length, link);
}

/* Finds the first entry of a directory that begins with @start. */
static bool find_entry(const char *path, const char *start, char name[static NAME_CHARS])
{
    struct dirent *entry;
    bool found = false;
    DIR *dir = opendir(path);

    if (dir == NULL)
        return false;
    while (!found && (entry = readdir(dir)) != NULL) {
        found = entry->d_name[0] != '.' && strncmp(entry->d_name, start, strlen(start)) == 0;
        if (found)
            (void)snprintf(name, NAME_CHARS, "%.63s", entry->d_name);
    }
    (void)closedir(dir);
    return found;
}

/* Finds the first interface of the kernel that the card has, such as eth0. A virtio card has its
 * interfaces one directory deeper. */
static bool find_interface(const char *root, const char *address, char name[static NAME_CHARS])
{
    char path[PATH_CHARS], deeper[PATH_CHARS + NAME_CHARS + 8], virtio[NAME_CHARS];

    (void)snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", root, address);
    if (find_entry(path, "virtio", virtio))
        (void)snprintf(deeper, sizeof deeper, "%s/%s/net", path, virtio);
    else
        (void)snprintf(deeper, sizeof deeper, "%s/net", path);
    return find_entry(deeper, "", name);
}

/* Writes that the kernel's driver has the card, and how to give the card to DPDK. */
static void explain_driver(const char *root, const char *address, const char *driver, char *text,
                           size_t size)
{
    char interface[NAME_CHARS];

    if (find_interface(root, address, interface))
        (void)snprintf(
            text, size,
            "the kernel's driver %s uses the card as %s; give the card to DPDK: `ip link set %s "
            "down` and `dpdk-devbind.py -b vfio-pci %s`",
            driver, interface, interface, address);
    else
        (void)snprintf(
            text, size,
            "the kernel's driver %s uses the card; give the card to DPDK: `dpdk-devbind.py -b "
            "vfio-pci %s`",
            driver, address);
}

/* Finds the node of the IOMMU group, and writes its path. */
static bool find_group_node(const char *root, const char *group, char path[static PATH_CHARS])
{
    static const char *const before[] = { "", "noiommu-" };

    for (size_t i = 0; i < URO_ARRAY_LEN(before); i++) {
        (void)snprintf(path, PATH_CHARS, "/dev/vfio/%s%s", before[i], group);
        if (exists(root, path))
            return true;
    }
    return false;
}

/* Returns whether the limit of locked memory is too low. vfio locks all memory that a card uses. */
static bool memlock_problem(char *text, size_t size)
{
    struct rlimit limit;

    if (geteuid() == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
        limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= MEMLOCK_LEAST)
        return false;
    (void)snprintf(
        text, size,
        "this user may lock only %llu kB of memory, and vfio locks all memory that the card "
        "uses; raise memlock in /etc/security/limits.conf, or LimitMEMLOCK= of systemd",
        (unsigned long long)limit.rlim_cur / 1024);
    return true;
}

/* Called when vfio-pci has the card. Returns whether this user cannot use the card. */
static bool vfio_problem(const char *root, const char *address, char *text, size_t size)
{
    char path[PATH_CHARS], full[PATH_CHARS], group[NAME_CHARS];

    if (!exists(root, "/dev/vfio/vfio")) {
        (void)snprintf(text, size,
                       "/dev/vfio/vfio is missing; load the kernel's module vfio-pci, and pass "
                       "/dev/vfio to a container");
        return true;
    }
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/iommu_group", address);
    if (!read_link(root, path, group)) {
        (void)snprintf(text, size,
                       "it has no IOMMU; turn it on with intel_iommu=on, or load vfio with "
                       "enable_unsafe_noiommu_mode=1, which is unsafe, and bind the card again");
        return true;
    }
    if (!find_group_node(root, group, path)) {
        (void)snprintf(text, size,
                       "/dev/vfio/%s, its IOMMU group, is missing; pass /dev/vfio to the container",
                       group);
        return true;
    }
    if (snprintf(full, sizeof full, "%s%s", root, path) < PATH_CHARS &&
        access(full, R_OK | W_OK) != 0) {
        (void)snprintf(text, size, "%s, its IOMMU group: %s; as root, `chown %u %s`", path,
                       strerror(errno), (unsigned)geteuid(), path);
        return true;
    }
    return memlock_problem(text, size);
}

bool uro_card_problem(const char *root, const char *link, char *text, size_t size)
{
    static const char *const of_dpdk[] = { "uio_pci_generic", "igb_uio", "mlx4_core", "mlx5_core",
                                           "uio_hv_generic" };
    char address[NAME_CHARS], path[PATH_CHARS], driver[NAME_CHARS];

    read_address(link, address);
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s", address);
    if (!exists(root, path)) {
        (void)snprintf(text, size, "this machine has no PCI device %s; `lspci -D` lists them",
                       address);
        return true;
    }
    (void)snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/driver", address);
    if (!read_link(root, path, driver)) {
        (void)snprintf(
            text, size,
            "no driver is bound to it; give it to DPDK: `dpdk-devbind.py -b vfio-pci %s`", address);
        return true;
    }
    if (strcmp(driver, "vfio-pci") == 0)
        return vfio_problem(root, address, text, size);
    for (size_t i = 0; i < URO_ARRAY_LEN(of_dpdk); i++)
        if (strcmp(driver, of_dpdk[i]) == 0)
            return false;
    explain_driver(root, address, driver, text, size);
    return true;
}
