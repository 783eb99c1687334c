/* SPDX-License-Identifier: BSD-3-Clause */
/* source.c - see source.h for the contract. */
#include "netlink/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/reader.h"

/* ---- the tree ---------------------------------------------------------------------- */

/* Reads the first line of a file. Returns false if it cannot be read. */
static bool read_line(const char *tree, const char *name, char text[static URO_NLDEV_NAME_MAX])
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/class/%s", tree, name) >= (int)sizeof path)
        return false;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t length = read(fd, text, URO_NLDEV_NAME_MAX - 1);
    (void)close(fd);
    if (length <= 0)
        return false;
    text[length] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return true;
}

/* Returns whether the entry is a link to the machine's /sys. */
static bool is_kernels(const char *tree, const char *name)
{
    char path[PATH_MAX], target[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/class/%s", tree, name) >= (int)sizeof path)
        return true;
    const ssize_t length = readlink(path, target, sizeof target);
    return length >= 5 && memcmp(target, "/sys/", 5) == 0;
}

/* Reads a file of the device, whose other files are in the same directory. */
static bool read_file(const char *tree, const struct uro_nldev_device *device, const char *file,
                      char text[static URO_NLDEV_NAME_MAX])
{
    char name[3 * URO_NLDEV_NAME_MAX];

    (void)snprintf(name, sizeof name, "infiniband/%s/%s", device->name, file);
    if (!read_line(tree, name, text))
        text[0] = '\0';
    return text[0] != '\0';
}

/* Reads a number in front of other text, such as "4: ACTIVE". Returns 0 if there is none. */
static uint32_t read_number(const char *tree, const struct uro_nldev_device *device,
                            const char *file)
{
    char text[URO_NLDEV_NAME_MAX];

    return read_file(tree, device, file, text) ? (uint32_t)strtoul(text, NULL, 0) : 0;
}

/* Reads four groups of four digits, with colons between. */
static uint64_t read_guid(const char *tree, const struct uro_nldev_device *device, const char *file)
{
    char text[URO_NLDEV_NAME_MAX], *pos = text;
    uint64_t guid = 0;

    (void)read_file(tree, device, file, text);
    for (int i = 0; i < 4; i++) {
        guid = guid << 16 | (strtoul(pos, &pos, 16) & 0xffff);
        pos += *pos == ':';
    }
    return guid;
}

/* Reads the first interface of a GID. */
static void read_interface(const char *tree, struct uro_nldev_device *device)
{
    char file[URO_NLDEV_NAME_MAX];

    for (unsigned i = 0; i < URO_STATS_GIDS && device->ndev_index == 0; i++) {
        (void)snprintf(file, sizeof file, "ports/1/gid_attrs/ndevs/%u", i);
        if (read_file(tree, device, file, device->ndev_name))
            device->ndev_index = if_nametoindex(device->ndev_name);
    }
}

/* Reads the device with that index. Returns false if there is none. */
static bool read_device(const char *tree, uint32_t index, struct uro_nldev_device *device)
{
    char name[URO_NLDEV_NAME_MAX];

    (void)snprintf(name, sizeof name, "infiniband_verbs/uverbs%u", index);
    if (is_kernels(tree, name))
        return false;
    (void)snprintf(name, sizeof name, "infiniband_verbs/uverbs%u/ibdev", index);
    if (!read_line(tree, name, device->name))
        return false;
    device->index = index;
    (void)read_file(tree, device, "fw_ver", device->firmware);
    device->node_guid = read_guid(tree, device, "node_guid");
    device->sys_image_guid = read_guid(tree, device, "sys_image_guid");
    device->node_type = (uint8_t)read_number(tree, device, "node_type");
    device->port_state = (uint8_t)read_number(tree, device, "ports/1/state");
    device->port_phys_state = (uint8_t)read_number(tree, device, "ports/1/phys_state");
    device->port_cap_mask = read_number(tree, device, "ports/1/cap_mask");
    read_interface(tree, device);
    return true;
}

/* ---- the processes ------------------------------------------------------------------ */

/* Appends an object. Returns NULL without memory. */
static struct uro_nldev_object *add_object(struct uro_nldev_objects *objects)
{
    struct uro_nldev_object *more =
        realloc(objects->list, (objects->count + 1) * sizeof *objects->list);

    if (more == NULL)
        return NULL;
    objects->list = more;
    memset(&more[objects->count], 0, sizeof *more);
    return &more[objects->count++];
}

static struct uro_nldev_device *find(struct uro_nldev_view *view, const struct uro_stats_page *page)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (view->devices[i].node_guid == page->guid &&
            strcmp(view->devices[i].name, page->device) == 0)
            return &view->devices[i];
    return NULL;
}

/* Adds the counters of a file, and the process as a context of its device. */
static void add_file(void *context, const struct uro_stats_file *file)
{
    struct uro_nldev_device *device =
        file->error == 0 && file->kind != URO_STATS_KEPT ? find(context, file->page) : NULL;
    struct uro_nldev_object *process;

    if (device == NULL)
        return;
    for (uint32_t i = 0; i < URO_COUNTER_COUNT; i++)
        device->counters.value[i] += file->page->record.counters.value[i];
    if (!file->alive || (process = add_object(&device->objects[URO_NLDEV_CTX])) == NULL)
        return;
    const uint32_t pid = (uint32_t)file->page->header.pid;
    uro_nldev_add_field(process, RDMA_NLDEV_ATTR_RES_CTXN, sizeof pid, pid);
    uro_nldev_add_field(process, RDMA_NLDEV_ATTR_RES_PID, sizeof pid, pid);
}

/* ---- both --------------------------------------------------------------------------- */

struct uro_nldev_view *uro_nldev_read(const char *tree)
{
    struct uro_nldev_view *view = calloc(1, sizeof *view);

    if (view == NULL)
        return NULL;
    while (view->count < URO_NLDEV_DEVICES_MAX &&
           read_device(tree, view->count, &view->devices[view->count]))
        view->count++;
    for (uint32_t i = 0; i < view->count; i++)
        view->devices[i].objects[URO_NLDEV_CTX].known = true;
    /* Without these files, which is no error, no program has used a device. */
    (void)!uro_stats_read(geteuid(), add_file, view);
    return view;
}

void uro_nldev_free(struct uro_nldev_view *view)
{
    if (view == NULL)
        return;
    for (uint32_t i = 0; i < view->count; i++)
        for (uint32_t kind = 0; kind < URO_NLDEV_KINDS; kind++)
            free(view->devices[i].objects[kind].list);
    free(view);
}
