/* SPDX-License-Identifier: BSD-3-Clause */
/* sysfs.c - see sysfs.h.
 *
 * Several processes may refresh a file at the same time. A lock is held from the reading of the
 * counters until the rename, so that no older value replaces a newer value.
 */
#include "stats/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/directory.h"
#include "stats/kernel_names.h"
#include "stats/link_rate.h"
#include "stats/reader.h"

#define PATH_SIZE 512u
#define NAME_SIZE 64u
#define TEXT_SIZE 64u
/* Most GID indexes of a device: with RoCE v1, each GID has two. */
#define GID_INDEXES (URO_STATS_GIDS * 2u)
#define GUID_TEXT   "%4x:%4x:%4x:%4x"

static const char *const directories[] = {
    "ports",        "ports/1",           "ports/1/counters",        "ports/1/hw_counters",
    "ports/1/gids", "ports/1/gid_attrs", "ports/1/gid_attrs/types", "ports/1/gid_attrs/ndevs"
};

/* A port whose files are written. */
struct port_files {
    int tree;         /* descriptor of the tree, for temporary files */
    int port;         /* descriptor of DEVICE/ports/1 */
    int lock;         /* descriptor of the file with the lock */
    const char *path; /* the file or directory that is wanted; "": all */
    char temporary[NAME_SIZE];
    int error; /* 0, or -errno of the first file that could not be written */
};

/* ---- which files ------------------------------------------------------------------ */

/* Returns whether @name is @path or is below it. */
static bool is_below(const char *name, const char *path)
{
    const size_t length = strlen(path);

    return length == 0 ||
           (strncmp(name, path, length) == 0 && (name[length] == '\0' || name[length] == '/'));
}

static const char *const state_files[] = { "state", "phys_state", "rate" };
static const char *const gid_directories[] = { "gids", "gid_attrs/types", "gid_attrs/ndevs" };

bool uro_sysfs_changes(const char *path)
{
    char name[NAME_SIZE];

    for (uint32_t i = 0; i < uro_kernel_counter_count; i++)
        if (is_below(uro_kernel_counters[i].name, path))
            return true;
    for (size_t i = 0; i < URO_ARRAY_LEN(state_files); i++)
        if (is_below(state_files[i], path))
            return true;
    for (size_t i = 0; i < URO_ARRAY_LEN(gid_directories) * GID_INDEXES; i++) {
        (void)snprintf(name, sizeof name, "%s/%zu", gid_directories[i / GID_INDEXES],
                       i % GID_INDEXES);
        if (is_below(name, path))
            return true;
    }
    return false;
}

/* ---- writing ------------------------------------------------------------------------ */

static bool has_text(const struct port_files *files, const char *name, const char *text)
{
    char content[TEXT_SIZE + 1];
    const int fd = openat(files->port, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return false;
    const ssize_t length = read(fd, content, sizeof content);
    (void)close(fd);
    return length == (ssize_t)strlen(text) && memcmp(content, text, (size_t)length) == 0;
}

/* Replaces the file @name by the temporary file. Some file systems write a file to the disk when
 * rename() replaces another file by it, but not when the two files change places. */
static bool replace(const struct port_files *files, const char *name)
{
    const char *temporary = files->temporary;

    if (renameat2(files->tree, temporary, files->port, name, RENAME_EXCHANGE) == 0) {
        (void)unlinkat(files->tree, temporary, 0);
        return true;
    }
    return renameat(files->tree, temporary, files->port, name) == 0;
}

/* Replaces the file @name, if it is wanted and has other content. */
static void put(struct port_files *files, const char *name, const char *text)
{
    const size_t length = strlen(text);

    if (!is_below(name, files->path) || has_text(files, name, text))
        return;
    (void)unlinkat(files->tree, files->temporary, 0);
    const int fd = openat(files->tree, files->temporary,
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    const bool good = fd >= 0 && write(fd, text, length) == (ssize_t)length;
    if (fd >= 0)
        (void)close(fd);
    if ((good && replace(files, name)) || files->error != 0)
        return;
    files->error = errno != 0 ? -errno : -EIO;
    (void)unlinkat(files->tree, files->temporary, 0);
}

static void put_counters(struct port_files *files, const struct uro_counters *counters)
{
    char text[TEXT_SIZE];

    for (uint32_t i = 0; i < uro_kernel_counter_count; i++) {
        const struct uro_kernel_counter *counter = &uro_kernel_counters[i];
        (void)snprintf(text, sizeof text, "%" PRIu64 "\n",
                       uro_kernel_counter_value(counter, counters));
        put(files, counter->name, text);
    }
    (void)snprintf(text, sizeof text, "%u\n", URO_KERNEL_LIFESPAN);
    put(files, "hw_counters/lifespan", text);
}

static void put_state(struct port_files *files, bool up)
{
    put(files, "state", up ? "4: ACTIVE\n" : "1: DOWN\n");
    put(files, "phys_state", up ? "5: LinkUp\n" : "2: Polling\n");
}

static void put_rate(struct port_files *files, uint32_t speed)
{
    char text[TEXT_SIZE];

    (void)snprintf(text, sizeof text, "%s\n", uro_link_rate_of(speed)->text);
    put(files, "rate", text);
}

static void put_gid(struct port_files *files, uint32_t index, const struct uro_gid *gid)
{
    char name[NAME_SIZE], text[TEXT_SIZE];
    size_t used = 0;

    for (size_t i = 0; i < sizeof gid->octets; i += 2)
        used += (size_t)snprintf(text + used, sizeof text - used, "%02x%02x%s", gid->octets[i],
                                 gid->octets[i + 1], i + 2 < sizeof gid->octets ? ":" : "\n");
    (void)snprintf(name, sizeof name, "gids/%" PRIu32, index);
    put(files, name, text);
}

/* Writes the type or the interface of a GID. A GID without a type or an interface has no file:
 * programs cannot read the kernel's file of an empty GID either. */
static void put_attribute(struct port_files *files, const char *kind, uint32_t index,
                          const char *value)
{
    char name[NAME_SIZE], text[TEXT_SIZE];

    (void)snprintf(name, sizeof name, "gid_attrs/%s/%" PRIu32, kind, index);
    (void)snprintf(text, sizeof text, "%.32s\n", value);
    if (value[0] != '\0')
        put(files, name, text);
    else if (is_below(name, files->path))
        (void)unlinkat(files->port, name, 0);
}

static void put_gids(struct port_files *files, const struct uro_sysfs_port *port)
{
    static const struct uro_gid none;
    const uint32_t kinds = port->roce_v1 ? 2 : 1;
    const uint32_t indexes = port->roce_v1 ? GID_INDEXES : URO_STATS_GIDS;

    for (uint32_t i = 0; i < indexes; i++) {
        const bool used = i / kinds < port->gid_count;
        const bool v1 = port->roce_v1 && i % 2 == 0;
        put_gid(files, i, used ? &port->gids[i / kinds] : &none);
        put_attribute(files, "types", i, !used ? "" : v1 ? "IB/RoCE v1" : "RoCE v2");
        put_attribute(files, "ndevs", i, used ? port->ndevs[i / kinds] : "");
    }
}

/* ---- reading ------------------------------------------------------------------------- */

/* State and counters of a device, over all of its processes. */
struct view {
    const char *device;
    uint64_t guid;
    struct uro_counters counters;
    bool running;               /* whether a process runs the device */
    uint64_t started;           /* when the last of these processes started */
    struct uro_sysfs_port port; /* valid while `running` */
};

static void see(void *context, const struct uro_stats_file *file)
{
    struct view *view = context;
    const struct uro_stats_page *page = file->page;

    if (!uro_stats_add(file, view->device, view->guid, &view->counters) || !file->alive ||
        atomic_load(&page->header.state) != URO_STATS_RUNNING)
        return;
    view->port.up |= atomic_load(&page->link_up) != 0;
    if (!view->running || page->started >= view->started) {
        view->started = page->started;
        view->port.speed = atomic_load(&page->speed);
        view->port.gid_count = page->gid_count;
        view->port.roce_v1 = page->roce_v1 != 0;
        memcpy(view->port.gids, page->gids, sizeof page->gids);
        memcpy(view->port.ndevs, page->ndevs, sizeof page->ndevs);
    }
    view->running = true;
}

static int read_view(struct view *view)
{
    const int error = uro_stats_read_device(geteuid(), view->device, view->guid, see, view);

    if (!view->running)
        view->port.up = true;
    return error == -ENOENT ? 0 : error;
}

/* ---- a port ---------------------------------------------------------------------------- */

static void leave(struct port_files *files)
{
    const int fds[] = { files->lock, files->port, files->tree };

    for (size_t i = 0; i < URO_ARRAY_LEN(fds); i++)
        if (fds[i] >= 0)
            (void)close(fds[i]); /* releases the lock */
}

/* Opens the port and takes its lock. Returns 0, or -errno and nothing is open. */
static int enter(struct port_files *files, const char *tree, const char *device)
{
    char path[PATH_SIZE];

    *files = (struct port_files){ .tree = -1, .port = -1, .lock = -1, .path = "" };
    files->tree = open(tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(files->temporary, sizeof files->temporary, ".new-%.32s", device);
    (void)snprintf(path, sizeof path, ".lock-%.32s", device);
    if (files->tree >= 0)
        files->lock = openat(files->tree, path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    (void)snprintf(path, sizeof path, URO_SYSFS_DEVICES "/%.32s/ports/1", device);
    if (files->lock >= 0)
        files->port = openat(files->tree, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = files->port < 0 ? -errno : 0;
    if (error == 0 && !uro_stats_lock(files->lock, LOCK_EX))
        error = -EBUSY;
    if (error != 0)
        leave(files);
    return error;
}

/* Reads DEVICE/node_guid. */
static int read_guid(const struct port_files *files, uint64_t *guid)
{
    const int fd = openat(files->port, "../../node_guid", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char text[TEXT_SIZE];
    unsigned part[4];

    if (fd < 0)
        return -errno;
    const ssize_t length = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[length > 0 ? length : 0] = '\0';
    if (sscanf(text, GUID_TEXT, &part[0], &part[1], &part[2], &part[3]) != 4)
        return -EINVAL;
    *guid = (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 | (uint64_t)part[2] << 16 | part[3];
    return 0;
}

int uro_sysfs_refresh(const char *tree, const char *device, const char *path)
{
    struct port_files files;
    struct view view = { .device = device };
    int error = enter(&files, tree, device);

    if (error != 0)
        return error;
    files.path = path;
    error = read_guid(&files, &view.guid);
    if (error == 0)
        error = read_view(&view);
    if (error == 0) {
        put_counters(&files, &view.counters);
        put_state(&files, view.port.up);
        if (view.port.speed != 0)
            put_rate(&files, view.port.speed);
        if (view.running)
            put_gids(&files, &view.port);
        error = files.error;
    }
    leave(&files);
    return error;
}

/* Makes the directories that are missing. */
static int make_directories(const char *tree, const char *device)
{
    char path[PATH_SIZE];

    for (size_t i = 0; i < URO_ARRAY_LEN(directories); i++) {
        const int length = snprintf(path, sizeof path, "%s/" URO_SYSFS_DEVICES "/%.32s/%s", tree,
                                    device, directories[i]);
        if (length >= (int)sizeof path)
            return -ENAMETOOLONG;
        if (mkdir(path, 0755) != 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

int uro_sysfs_make(const char *tree, const char *device, const struct uro_sysfs_port *port)
{
    static const struct uro_counters none;
    struct port_files files;
    int error = make_directories(tree, device);

    if (error == 0)
        error = enter(&files, tree, device);
    if (error != 0)
        return error;
    put_counters(&files, &none);
    put_state(&files, port->up);
    put_rate(&files, port->speed);
    put_gids(&files, port);
    leave(&files);
    return files.error;
}
