/* SPDX-License-Identifier: BSD-3-Clause */
/* run_udp.c - what `uroce run` does for links over UDP: a device when none is configured, and the broker of
 * each address, so that more than one process can have it. */
#define _GNU_SOURCE /* strchrnul */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "host/defaults_udp.h"
#include "host/host.h"
#include "host/plugin.h"
#include "run.h"

#define IDLE_SECONDS "10" /* longer than it takes to start the second process of a test */

extern char **environ;

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[strspn(value, " \t\n")] != '\0';
}

void uro_run_default_device(void)
{
    char text[URO_GID_TEXT_MAX];

    if (is_set("UROCE_DEVICES") || is_set("UROCE_CONFIG"))
        return;
    (void)setenv("UROCE_DEVICES",
                 uro_defaults_udp_routed() ? "uroce0:udp,ip=auto" : "uroce0:udp,ip=127.0.0.1", 1);
    const struct uro_device_config *const *config = uro_host_config();
    (void)fprintf(
        stderr, "uroce run: no device is configured: uroce0 is %s, over UDP; others by --device\n",
        uro_gid_text(&(*config)->gids[1], text));
}

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

void uro_run_brokers(void)
{
    for (const struct uro_device_config *const *at = uro_host_config(); *at != NULL; at++) {
        const struct uro_device_config *config = *at;
        if (config->problem[0] != '\0' || !uro_plugin_is_udp(config->link) ||
            is_alone(config->link))
            continue;
        for (uint32_t i = 1; i < config->gid_count; i++)
            start_broker(&config->gids[i]);
    }
}
