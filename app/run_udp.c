/* SPDX-License-Identifier: BSD-3-Clause */
/* run_udp.c - the device over UDP that `uroce run` chooses if no device is configured. */
#define _DEFAULT_SOURCE /* setenv */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/defaults.h"
#include "host/host.h"
#include "run.h"

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[strspn(value, " \t\n")] != '\0';
}

bool uro_run_choose_default(void)
{
    if (is_set("UROCE_DEVICES") || is_set("UROCE_CONFIG"))
        return false;
    (void)setenv("UROCE_DEVICES", "uroce0:udp,ip=auto", 1);
    return true;
}

const char *uro_run_source(void)
{
    return is_set("UROCE_DEVICES") ? "UROCE_DEVICES" : "UROCE_CONFIG";
}

bool uro_run_warn_no_device(const char *command)
{
    if (*uro_host_config() != NULL)
        return false;
    (void)fprintf(stderr, "uroce %s: %s names no device; see docs/CONFIGURATION.md\n", command,
                  uro_run_source());
    return true;
}

/* Replaces ip=auto by the loopback address. The program reads the configuration again, and must not
 * print the warning a second time. */
static void settle_loopback(const struct uro_device_config *config)
{
    char text[URO_GID_TEXT_MAX], devices[URO_GID_TEXT_MAX + sizeof "uroce0:udp,ip="];

    (void)snprintf(devices, sizeof devices, "uroce0:udp,ip=%s",
                   uro_gid_text(&config->gids[1], text));
    (void)setenv("UROCE_DEVICES", devices, 1);
}

const char *uro_run_default_problem(const struct uro_device_config *config)
{
    const char *sentence = strstr(config->problem, "ip=auto: ");

    return sentence != NULL ? sentence + strlen("ip=auto: ") : config->problem;
}

bool uro_run_default_device(bool quiet)
{
    char text[URO_GID_TEXT_MAX], warning[URO_DEFAULTS_LOOPBACK_MAX];

    if (!uro_run_choose_default())
        return true;
    const struct uro_device_config *config = *uro_host_config();
    if (config->problem[0] != '\0') {
        (void)fprintf(stderr,
                      "uroce run: no device is configured, and none can be chosen: %s. Example: "
                      "uroce run --device uroce0:udp,ip=ADDRESS PROGRAM\n",
                      uro_run_default_problem(config));
        return false;
    }
    if (!quiet)
        (void)fprintf(stderr,
                      "uroce run: no device is configured, so uroce0 is %s over UDP. Choose "
                      "another device with --device; -q hides this line\n",
                      uro_gid_text(&config->gids[1], text));
    if (config->loopback) {
        (void)fprintf(stderr, "uroce run: %s\n", uro_defaults_loopback_text(config, warning));
        settle_loopback(config);
    }
    return true;
}
