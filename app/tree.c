/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.c - chooses the directory of the tree, makes the tree, and removes old trees.
 *
 * The program and its children inherit a descriptor with a shared lock through exec. The kernel
 * releases the lock when the last of them ends, for whatever reason. A process that makes a tree
 * first removes the user's old trees in the same directory: those that no process has locked.
 */
#define _GNU_SOURCE /* nftw, secure_getenv, vdprintf */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/config.h"
#include "config/netdev.h"
#include "paths/path_map.h"

#define PREFIX_LENGTH (sizeof URO_TREE_IN_RUNTIME - sizeof "XXXXXX")
#define ATTEMPTS      8   /* another process may remove a new tree before it is locked */
#define FD_FROM       100 /* high, because some programs assume small numbers for their own files */
#define DEPTH         8

/* ---- filling -------------------------------------------------------------------------------- */

static void fail(struct uro_tree *tree, const char *path)
{
    tree->error = -errno;
    size_t length = strlen(tree->path);
    (void)snprintf(tree->path + length, sizeof tree->path - length, "/%s", path);
}

/* Makes the directories of @path up to its last slash. */
static void make_parents(struct uro_tree *tree, const char *path)
{
    char parent[PATH_MAX];

    for (const char *slash = strchr(path, '/'); slash != NULL && tree->error == 0;
         slash = strchr(slash + 1, '/')) {
        (void)snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
        if (mkdirat(tree->fd, parent, tree->mode) != 0 && errno != EEXIST)
            fail(tree, parent);
    }
}

void uro_tree_directory(struct uro_tree *tree, const char *path)
{
    make_parents(tree, path);
    if (tree->error == 0 && mkdirat(tree->fd, path, tree->mode) != 0 && errno != EEXIST)
        fail(tree, path);
}

void uro_tree_file(struct uro_tree *tree, const char *path, const char *format, ...)
{
    va_list arguments;

    make_parents(tree, path);
    if (tree->error != 0)
        return;
    int fd = openat(tree->fd, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    if (fd < 0) {
        fail(tree, path);
        return;
    }
    va_start(arguments, format);
    if (vdprintf(fd, format, arguments) < 0)
        fail(tree, path);
    va_end(arguments);
    (void)close(fd);
}

void uro_tree_link(struct uro_tree *tree, const char *path, const char *target)
{
    make_parents(tree, path);
    if (tree->error == 0 && symlinkat(target, tree->fd, path) != 0 && errno != EEXIST)
        fail(tree, path);
}

void uro_tree_port(struct uro_tree *tree, const char *device, const struct uro_sysfs_port *port)
{
    char path[URO_PATHS_NAME_MAX];

    (void)snprintf(path, sizeof path, URO_SYSFS_DEVICES "/%s", device);
    uro_tree_directory(tree, path);
    if (tree->error != 0)
        return;
    int error = uro_sysfs_make(tree->path, device, port);
    if (error == 0)
        return;
    errno = -error;
    fail(tree, path);
}

/* Opens @directory by a system call, because this program may itself run under `uroce run`, which
 * redirects functions of the C library to a tree. */
void uro_tree_link_all(struct uro_tree *tree, const char *directory, const char *path)
{
    char name[PATH_MAX], target[PATH_MAX];
    long fd = syscall(SYS_openat, AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir((int)fd);

    uro_tree_directory(tree, path);
    if (list == NULL)
        return;
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        (void)snprintf(target, sizeof target, "%s/%s", directory, entry->d_name);
        uro_tree_link(tree, name, target);
    }
    (void)closedir(list);
}

/* Writes the files of a configured device, whose state is not known yet. */
static void add_device(struct uro_tree *tree, const struct uro_device_config *config,
                       unsigned int index)
{
    struct uro_sysfs_port port = { .up = true,
                                   .speed = uro_netdev_speed(config),
                                   .gid_count = config->gid_count,
                                   .roce_v1 = config->card.roce_v1 };

    static_assert(URO_ENGINE_ADDRESSES_MAX == URO_STATS_GIDS, "all GIDs are shown");
    static_assert(IF_NAMESIZE == URO_STATS_NDEV_MAX, "the name of an interface fits");
    memcpy(port.gids, config->gids, sizeof port.gids);
    for (uint32_t i = 0; i < config->gid_count; i++)
        if (!uro_netdev_name(config, i, port.ndevs[i]))
            port.ndevs[i][0] = '\0';
    uro_tree_device(tree, config->name, config->guid, &port, &config->card, index);
}

static void fill(struct uro_tree *tree)
{
    unsigned int index = 0;

    for (const struct uro_device_config *const *config = uro_host_config(); *config != NULL;
         config++)
        if ((*config)->problem[0] == '\0')
            add_device(tree, *config, index++);
    uro_tree_link_all(tree, "/sys/class/infiniband", "class/infiniband");
    uro_tree_link_all(tree, "/sys/" URO_SYSFS_DEVICES, URO_SYSFS_DEVICES);
    uro_tree_link_all(tree, "/sys/class/infiniband_verbs", "class/infiniband_verbs");
    uro_tree_link_all(tree, "/dev/infiniband", "dev/infiniband");
}

/* ---- directory and lifetime ----------------------------------------------------------------- */

/* Returns whether no other user can replace the directory, or remove or replace this user's files
 * in it. */
static bool is_safe(const char *path)
{
    char inside[URO_PATHS_TREE_MAX + PATH_MAX], problem[192];
    struct stat is;

    if (path == NULL || path[0] != '/' ||
        strlen(path) + sizeof "/" URO_TREE_IN_RUNTIME > URO_PATHS_TREE_MAX)
        return false;
    if (stat(path, &is) != 0 || !S_ISDIR(is.st_mode) || access(path, W_OK | X_OK) != 0)
        return false;
    (void)snprintf(inside, sizeof inside, "%s/" URO_TREE_IN_RUNTIME, path);
    return uro_config_check_path(inside, problem, sizeof problem) == NULL;
}

/* Returns the directory for the tree, or NULL if there is no safe directory. */
static const char *runtime_directory(void)
{
    const char *directories[] = { secure_getenv("XDG_RUNTIME_DIR"), secure_getenv("TMPDIR"),
                                  "/tmp" };

    for (size_t i = 0; i < URO_ARRAY_LEN(directories); i++)
        if (is_safe(directories[i]))
            return directories[i];
    return NULL;
}

/* Opens the directory at @path, which must belong to this user. Returns its descriptor, or -1. */
static int open_own(const char *path)
{
    struct stat is;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0 && (fstat(fd, &is) != 0 || is.st_uid != geteuid())) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int remove_entry(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is, (void)kind, (void)where;
    (void)remove(path);
    return 0;
}

static void remove_forgotten(const char *directory)
{
    char path[PATH_MAX];
    DIR *list = opendir(directory);

    if (list == NULL)
        return;
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        if (strncmp(entry->d_name, URO_TREE_IN_RUNTIME, PREFIX_LENGTH) != 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        int fd = open_own(path);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            (void)nftw(path, remove_entry, DEPTH, FTW_DEPTH | FTW_PHYS);
        if (fd >= 0)
            (void)close(fd);
    }
    (void)closedir(list);
}

/* Makes a new directory and locks it. Returns 0 or -errno. Returns -EAGAIN if another process
 * removed the directory before it was locked. */
static int make_locked(struct uro_tree *tree, const char *directory)
{
    struct stat is;

    (void)snprintf(tree->path, sizeof tree->path, "%s/" URO_TREE_IN_RUNTIME, directory);
    if (mkdtemp(tree->path) == NULL)
        return -errno;
    int fd = open_own(tree->path);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) != 0 || fstat(fd, &is) != 0 || is.st_nlink == 0) {
        (void)close(fd);
        return -EAGAIN;
    }
    tree->fd = fcntl(fd, F_DUPFD, FD_FROM);
    if (tree->fd < 0) /* the limit of open files is below FD_FROM */
        tree->fd = fcntl(fd, F_DUPFD, 0);
    (void)close(fd);
    return tree->fd < 0 ? -errno : 0;
}

int uro_tree_make(struct uro_tree *tree)
{
    const char *directory = runtime_directory();
    int result = -EAGAIN;

    tree->error = 0;
    tree->mode = 0700;
    if (directory == NULL) {
        (void)snprintf(tree->path, sizeof tree->path, "XDG_RUNTIME_DIR, TMPDIR and /tmp");
        return -EACCES;
    }
    remove_forgotten(directory);
    for (int i = 0; result == -EAGAIN && i < ATTEMPTS; i++)
        result = make_locked(tree, directory);
    if (result == 0)
        fill(tree);
    return result != 0 ? result : tree->error;
}
