/* SPDX-License-Identifier: BSD-3-Clause */
/* run_hub.c - what `uroce run` does so that more than one process can have an address over UDP: it
 * starts the broker of each address, and keeps it.
 *
 * A descriptor with a shared lock goes through exec into the program and its children; the kernel
 * lets go of the lock when the last of them ends. A broker does not end while somebody has the
 * lock.
 */
#define _GNU_SOURCE /* posix_spawn, struct ucred */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "io/udp/hub_directory.h"
#include "run.h"

#define IDLE_SECONDS "10" /* longer than it takes to start the second process of a test */
#define FD_FROM      100  /* out of the way of programs that count on small numbers */
#define HELD_MAX     64u

extern char **environ;

/* Locks; they are closed by exec until all brokers have been started, which must not inherit
 * them. */
struct held {
    int fds[HELD_MAX];
    unsigned count;
};

/* Whether the link says hub=no. */
static bool is_alone(const char *link)
{
    for (const char *word = strchr(link, ','); word != NULL; word = strchr(word + 1, ','))
        if (strncmp(word, ",hub=no", 7) == 0 && (word[7] == '\0' || word[7] == ','))
            return true;
    return false;
}

/* The broker says why when it cannot be; the program is then alone, or says why it cannot be. */
static void start_broker(const struct uro_gid *address)
{
    char text[URO_GID_TEXT_MAX];
    char *argv[] = { (char[]){ "uroce" },         (char[]){ "hub" },
                     (char[]){ "--background" },  (char[]){ "--idle" },
                     (char[]){ IDLE_SECONDS },    (char[]){ "--address" },
                     uro_gid_text(address, text), NULL };
    pid_t child;

    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, argv, environ) == 0)
        (void)waitpid(child, NULL, 0);
}

/* Keeps the broker that was found in @directory. */
static void hold_there(const struct uro_hub_directory *directory, const struct uro_gid *address,
                       struct held *held)
{
    char path[URO_HUB_DIRECTORY_PATH_MAX];
    int fd = uro_hub_directory_path(directory, "users", address, "", path)
                 ? uro_hub_directory_lock(path, true)
                 : -ENOENT;

    if (fd >= 0)
        held->fds[held->count++] = fd;
}

static void hold_broker(const struct uro_gid *address, struct held *held)
{
    for (unsigned number = 0; number < URO_HUB_DIRECTORY_PLACES && held->count < HELD_MAX;
         number++) {
        struct uro_hub_directory directory;
        char path[URO_HUB_DIRECTORY_PATH_MAX];
        if (uro_hub_directory_find(&directory, number, false) != 0 ||
            !uro_hub_directory_path(&directory, "hub", address, ".lock", path))
            continue;
        int lock = uro_hub_directory_lock(path, false);
        if (lock == -EWOULDBLOCK) {
            hold_there(&directory, address, held);
            return;
        }
        if (lock >= 0)
            uro_hub_directory_unlock(lock, path);
    }
}

static void pass_on(struct held *held)
{
    while (held->count > 0) {
        int fd = held->fds[--held->count];
        (void)fcntl(fd, F_DUPFD, FD_FROM);
        (void)close(fd);
    }
}

void uro_run_brokers(void)
{
    struct held held = { .count = 0 };

    for (const struct uro_device_config *const *at = uro_host_config(); *at != NULL; at++) {
        const struct uro_device_config *config = *at;
        if (config->problem[0] != '\0' ||
            !uro_port_driver_has(config->driver, URO_DRIVER_KERNEL_ADDRESSES) ||
            is_alone(config->link))
            continue;
        for (uint32_t i = 1; i < config->gid_count; i++) {
            start_broker(&config->gids[i]);
            hold_broker(&config->gids[i], &held);
        }
    }
    pass_on(&held);
}
