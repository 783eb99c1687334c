/* SPDX-License-Identifier: BSD-3-Clause */
/* run_hub.c - lets several processes share an address over UDP: starts the broker of each address
 * for `uroce run`, and keeps it running.
 *
 * The program and its children inherit a descriptor with a shared lock through exec. The kernel
 * releases the lock when the last of them ends. A broker does not end while any process has the
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
#include "io/udp/hub.h"
#include "run.h"

#define IDLE_SECONDS "10" /* a broker without processes ends after this time */
#define FD_FROM      100  /* high, because some programs assume small numbers for their own files */
#define HELD_MAX     64u

extern char **environ;

/* Locks. They are close-on-exec until all brokers have been started, because a broker must not
 * inherit them. */
struct held {
    int fds[HELD_MAX];
    unsigned count;
};

/* Returns whether the link has hub=no. */
static bool is_alone(const char *link)
{
    for (const char *word = strchr(link, ','); word != NULL; word = strchr(word + 1, ','))
        if (strncmp(word, ",hub=no", 7) == 0 && (word[7] == '\0' || word[7] == ','))
            return true;
    return false;
}

/* If this fails, the program later tries to use the address without a broker. */
void uro_run_broker(const struct uro_gid *address)
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

/* Keeps the broker in @directory running. */
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

    for (const struct uro_device_config *const *next = uro_host_config(); *next != NULL; next++) {
        const struct uro_device_config *config = *next;
        if (config->problem[0] != '\0' ||
            !uro_port_driver_has(config->driver, URO_DRIVER_KERNEL_ADDRESSES) ||
            is_alone(config->link))
            continue;
        for (uint32_t i = 1; i < config->gid_count; i++) {
            uro_run_broker(&config->gids[i]);
            hold_broker(&config->gids[i], &held);
        }
    }
    pass_on(&held);
}
