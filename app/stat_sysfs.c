/* SPDX-License-Identifier: BSD-3-Clause */
/* stat_sysfs.c - `uroce stat --sysfs`: writes a copy of /sys with uroce's devices, for programs
 * that a preloaded library cannot redirect, for example static Go programs.
 *
 * The file MARK shows that uroce made the directory. The process has a lock on this file.
 */
#define _GNU_SOURCE /* nftw */
#include "stat.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/config.h"
#include "output.h"
#include "stats/reader.h"
#include "tree.h"

#define MARK        ".uroce-stat-sysfs"
#define INTERVAL_NS 1000000000L
#define DEPTH       16

static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

struct copy {
    struct uro_tree tree; /* after an error, tree.path is the path of the first error */
    char path[PATH_MAX];  /* path of the directory, with symbolic links resolved */
    bool made;            /* true if this process made the directory */
    int mark;             /* descriptor of MARK, which this process has locked; -1: none */
    struct {
        char name[URO_STATS_NAME_MAX];
        uint64_t guid;
        int error; /* error of the last refresh, which was printed */
    } devices[URO_CONFIG_DEVICES_MAX];
    uint32_t count;
    bool other_version, other_guid, too_many; /* whether the message was printed */
    int error;                                /* error of the last read, which was printed */
};

/* ---- the directory ------------------------------------------------------------- */

static bool is_empty(const char *path)
{
    DIR *list = opendir(path);
    bool empty = list != NULL;

    if (list == NULL)
        return false;
    for (const struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list))
        empty &= strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    (void)closedir(list);
    return empty;
}

static int remove_entry(const char *path, const struct stat *is, int kind, struct FTW *where)
{
    (void)is, (void)kind;
    if (where->level > 0 && strcmp(path + where->base, MARK) != 0)
        (void)remove(path);
    return 0;
}

static void remove_files(const struct copy *copy)
{
    (void)nftw(copy->path, remove_entry, DEPTH, FTW_DEPTH | FTW_PHYS);
}

/* Finds the full name of @directory, and makes it if it is missing. Returns NULL, or the reason why
 * it cannot be used. */
static const char *find_directory(struct copy *copy, const char *directory)
{
    static char problem[192];
    char inside[PATH_MAX + sizeof "/" MARK];

    copy->made = mkdir(directory, 0700) == 0;
    if (!copy->made && errno != EEXIST)
        return strerror(errno);
    copy->tree.fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy->tree.fd < 0 || realpath(directory, copy->path) == NULL)
        return strerror(errno);
    (void)snprintf(inside, sizeof inside, "%s/" MARK, copy->path);
    memcpy(copy->tree.path, copy->path, sizeof copy->path);
    return uro_config_check_path(inside, problem, sizeof problem);
}

/* Locks the directory for this process. Returns NULL, or the reason why it cannot be used. */
static const char *take(struct copy *copy, const char *directory)
{
    const char *problem = find_directory(copy, directory);

    copy->mark = -1;
    if (problem != NULL)
        return problem;
    if (is_empty(copy->path))
        copy->mark = openat(copy->tree.fd, MARK, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    else if (faccessat(copy->tree.fd, MARK, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return "the directory is not empty; name a new or an empty directory";
    else
        copy->mark = openat(copy->tree.fd, MARK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (copy->mark < 0)
        return strerror(errno);
    if (flock(copy->mark, LOCK_EX | LOCK_NB) != 0)
        return "another `uroce stat --sysfs` uses the directory; name a different directory";
    return NULL;
}

/* Makes links to the machine's own entries of /sys. */
static void link_to_sys(struct uro_tree *tree)
{
    uro_tree_directory(tree, "class/infiniband");
    uro_tree_directory(tree, "class/infiniband_verbs");
    uro_tree_directory(tree, URO_SYSFS_DEVICES);
    uro_tree_directory(tree, "dev/infiniband");
    uro_tree_link_all(tree, "/sys/class/infiniband", "class/infiniband");
    uro_tree_link_all(tree, "/sys/class/infiniband_verbs", "class/infiniband_verbs");
    uro_tree_link_all(tree, "/sys/" URO_SYSFS_DEVICES, URO_SYSFS_DEVICES);
    uro_tree_link_all(tree, "/sys/devices/virtual", "devices/virtual");
    uro_tree_link_all(tree, "/sys/devices", "devices");
    uro_tree_link_all(tree, "/sys/class", "class");
    uro_tree_link_all(tree, "/sys/dev", "dev");
    uro_tree_link_all(tree, "/sys", ".");
}

/* ---- devices ------------------------------------------------------------------- */

/* Returns whether a configuration can have this device name. A file may have any content. */
static bool is_name(const char *name)
{
    if (!isalpha((unsigned char)name[0]))
        return false;
    for (; *name != '\0'; name++)
        if (!isalnum((unsigned char)*name) && *name != '_' && *name != '-')
            return false;
    return true;
}

/* Returns the card that a device is like, as far as its page shows it. The page lacks the card's
 * name. The name "given" only shows that there is a card. */
static struct uro_card card_of(const struct uro_stats_card *shown)
{
    struct uro_card card = { .name = "" };

    if (shown->given == 0)
        return card;
    (void)snprintf(card.name, sizeof card.name, "given");
    (void)snprintf(card.fw_ver, sizeof card.fw_ver, "%s", shown->fw_ver);
    (void)snprintf(card.hca_type, sizeof card.hca_type, "%s", shown->hca_type);
    (void)snprintf(card.board_id, sizeof card.board_id, "%s", shown->board_id);
    if (shown->hw_ver_known != 0)
        card.known = UINT64_C(1) << URO_CARD_HW_VER;
    card.numbers[URO_CARD_HW_VER] = shown->hw_ver;
    return card;
}

static void add_device(struct copy *copy, const struct uro_stats_page *page)
{
    struct uro_sysfs_port port = { .up = true,
                                   .speed = atomic_load(&page->speed),
                                   .gid_count = page->gid_count,
                                   .roce_v1 = page->roce_v1 != 0 };
    const struct uro_card card = card_of(&page->card);

    memcpy(port.gids, page->gids, sizeof port.gids);
    memcpy(port.ndevs, page->ndevs, sizeof port.ndevs);
    for (uint32_t i = 0; i < URO_STATS_GIDS; i++)
        if (strchr(port.ndevs[i], '/') != NULL)
            port.ndevs[i][0] = '\0';
    (void)snprintf(copy->devices[copy->count].name, URO_STATS_NAME_MAX, "%s", page->device);
    copy->devices[copy->count].guid = page->guid;
    uro_tree_device(&copy->tree, page->device, page->guid, &port, &card, copy->count);
    copy->count++;
}

static void report(bool *reported, const char *text, const char *name)
{
    if (!*reported)
        (void)fprintf(stderr, text, name);
    *reported = true;
}

/* Adds the device of the file if it is new. */
static void see(void *context, const struct uro_stats_file *file)
{
    struct copy *copy = context;

    if (file->error == -EPROTO && file->alive)
        report(&copy->other_version,
               "uroce stat: %s: the process runs another version of uroce, so its counters are "
               "missing; use the `uroce` of that version\n",
               file->name);
    if (file->error != 0 || file->kind == URO_STATS_KEPT || !is_name(file->page->device))
        return;
    for (uint32_t i = 0; i < copy->count; i++) {
        if (strcmp(copy->devices[i].name, file->page->device) != 0)
            continue;
        if (copy->devices[i].guid != file->page->guid)
            report(&copy->other_guid,
                   "uroce stat: two devices are called %s and have different addresses; only one "
                   "of them is shown. Give the other one another name\n",
                   file->page->device);
        return;
    }
    if (copy->count == URO_ARRAY_LEN(copy->devices))
        report(&copy->too_many,
               "uroce stat: %s and further devices are not shown, because at most 64 devices are "
               "shown\n",
               file->page->device);
    else
        add_device(copy, file->page);
}

static void see_living(void *context, const struct uro_stats_file *file)
{
    if (file->alive)
        see(context, file);
}

/* Brings all files up to date. Each new error is printed once. */
static void refresh(struct copy *copy)
{
    int error = uro_stats_read(geteuid(), see_living,
                               copy); /* first, because the number of devices is limited */

    if (error == 0)
        error = uro_stats_read(geteuid(), see, copy);
    if (error != copy->error && error != 0 && error != -ENOENT)
        (void)fprintf(stderr,
                      "uroce stat: cannot read the states of devices: %s; see UROCE_STATE_DIR in "
                      "docs/CONFIGURATION.md\n",
                      strerror(-error));
    copy->error = error;
    for (uint32_t i = 0; i < copy->count; i++) {
        error = uro_sysfs_refresh(copy->path, copy->devices[i].name, "");
        if (error != copy->devices[i].error && error != 0)
            (void)fprintf(stderr, "uroce stat: the files of %s keep their last values: %s\n",
                          copy->devices[i].name, strerror(-error));
        copy->devices[i].error = error;
    }
}

/* ---- the command ---------------------------------------------------------------- */

static void keep_current(struct copy *copy)
{
    const struct timespec nap = { .tv_sec = INTERVAL_NS / 1000000000L };

    refresh(copy);
    (void)printf("uroce stat: files of the devices are in %s until this command is interrupted\n",
                 copy->path);
    (void)uro_output_flush();
    while (!interrupted && copy->tree.error == 0) {
        (void)nanosleep(&nap, NULL);
        refresh(copy);
    }
}

int uro_stat_sysfs(const char *directory)
{
    static struct copy copy;
    const struct sigaction action = { .sa_handler = interrupt };
    const char *problem = take(&copy, directory);

    if (problem != NULL) {
        (void)fprintf(stderr, "uroce stat: --sysfs %s: %s\n", directory, problem);
        return 1;
    }
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    copy.tree.mode = 0755; /* the user chooses with the directory itself who can read the files */
    remove_files(&copy);   /* removes the files of a process that was killed */
    link_to_sys(&copy.tree);
    if (copy.tree.error == 0)
        keep_current(&copy);
    if (copy.tree.error != 0)
        (void)fprintf(stderr, "uroce stat: --sysfs %s: cannot write the files: %s\n",
                      copy.tree.path, strerror(-copy.tree.error));
    remove_files(&copy);
    (void)unlinkat(copy.tree.fd, MARK, 0);
    if (copy.made)
        (void)rmdir(directory);
    return copy.tree.error == 0 ? 0 : 1;
}
