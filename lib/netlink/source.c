/* SPDX-License-Identifier: BSD-3-Clause */
/* source.c - see source.h. */
#include "netlink/source.h"

#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "netlink/objects.h"
#include "stats/survey.h"

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

/* Reads a file in the directory of the device. */
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

/* Reads the interface of the first GID that has an interface. */
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

static struct uro_nldev_device *find(struct uro_nldev_view *view, const struct uro_stats_page *page)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (view->devices[i].node_guid == page->guid &&
            strcmp(view->devices[i].name, page->device) == 0)
            return &view->devices[i];
    return NULL;
}

/* Adds a process as a context of its device. */
static void add_context(struct uro_nldev_device *device, uint32_t pid)
{
    struct uro_nldev_object *context = uro_nldev_add_object(device, URO_NLDEV_CTX);

    if (context == NULL)
        return;
    uro_nldev_add_field(context, RDMA_NLDEV_ATTR_RES_CTXN, sizeof pid, pid);
    uro_nldev_add_field(context, RDMA_NLDEV_ATTR_RES_PID, sizeof pid, pid);
}

/* Adds the counters of a file, and the objects of the process if it lives. */
static void add_file(struct uro_nldev_view *view, const struct uro_survey_file *file)
{
    struct uro_nldev_device *device =
        file->error == 0 && file->kind != URO_STATS_KEPT ? find(view, file->page) : NULL;

    if (device == NULL)
        return;
    for (uint32_t i = 0; i < URO_COUNTER_COUNT; i++)
        device->counters.value[i] += file->page->record.counters.value[i];
    if (!file->alive)
        return;
    add_context(device, (uint32_t)file->page->header.pid);
    if (file->rows_error == 0)
        uro_nldev_add_rows(device, (uint32_t)file->page->header.pid, &file->rows);
    else
        uro_nldev_set_rows_known(device, false);
}

/* ---- both --------------------------------------------------------------------------- */

struct uro_nldev_view *uro_nldev_read(const char *tree, bool objects)
{
    struct uro_nldev_view *view = calloc(1, sizeof *view);
    struct uro_survey survey;

    if (view == NULL)
        return NULL;
    while (view->count < URO_NLDEV_DEVICES_MAX &&
           read_device(tree, view->count, &view->devices[view->count]))
        view->count++;
    for (uint32_t i = 0; i < view->count; i++) {
        view->devices[i].objects[URO_NLDEV_CTX].known = true;
        uro_nldev_set_rows_known(&view->devices[i], objects);
    }
    uro_survey_take(&survey, objects ? URO_SURVEY_ROWS : 0);
    for (uint32_t i = 0; i < survey.count; i++)
        add_file(view, &survey.files[i]);
    uro_survey_free(&survey);
    for (uint32_t i = 0; i < view->count; i++)
        uro_nldev_sort_objects(&view->devices[i]);
    return view;
}

void uro_nldev_free(struct uro_nldev_view *view)
{
    if (view == NULL)
        return;
    for (uint32_t i = 0; i < view->count; i++)
        uro_nldev_free_objects(&view->devices[i]);
    free(view);
}
