/* SPDX-License-Identifier: BSD-3-Clause */
/* device_options.c - see device_options.h. */
#define _GNU_SOURCE /* asprintf */
#include "device_options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"
#include "usage.h"

#define SOURCE "UROCE_DEVICES, device " /* begins the problem of a device from UROCE_DEVICES */

bool uro_device_options_add(struct uro_device_options *options, const char *spec)
{
    static const char blanks[] = " \t\r\n";
    const char *before = options->devices;
    const char *begin = spec + strspn(spec, blanks);
    const size_t length = strcspn(begin, blanks);
    char *more = NULL;

    if (begin[length + strspn(begin + length, blanks)] != '\0') {
        (void)uro_usage_error(
            options->command,
            "--device '%s': a space separates devices, so a description has none; "
            "repeat --device for each device",
            spec);
        return false;
    }
    if (asprintf(&more, "%s%s%.*s", before != NULL ? before : "", before != NULL ? " " : "",
                 (int)length, begin) < 0)
        abort();
    free(options->devices);
    options->devices = more;
    return true;
}

/* Sets UROCE_CONFIG to the absolute path, because the program may change its directory. A symbolic
 * link as the last component is not resolved: the reader of the file refuses it. */
static bool use_config(const struct uro_device_options *options)
{
    const char *file = options->config;
    char directory[PATH_MAX], path[2 * PATH_MAX];
    const char *slash = strrchr(file, '/');
    const char *last = slash == NULL ? file : slash + 1;

    (void)snprintf(path, sizeof path, "%.*s", slash == NULL ? 1 : (int)(last - file),
                   slash == NULL ? "." : file);
    if (access(file, R_OK) != 0 || realpath(path, directory) == NULL) {
        (void)fprintf(stderr, "uroce %s: --config %s: %s\n", options->command, file,
                      strerror(errno));
        return false;
    }
    (void)snprintf(path, sizeof path, "%s/%s", directory, last);
    (void)setenv("UROCE_CONFIG", path, 1);
    (void)unsetenv("UROCE_DEVICES");
    return true;
}

bool uro_device_options_apply(struct uro_device_options *options)
{
    if (options->devices != NULL && options->config != NULL) {
        (void)uro_usage_error(options->command, "--device and --config exclude each other");
        return false;
    }
    if (options->devices != NULL)
        (void)setenv("UROCE_DEVICES", options->devices, 1);
    return options->config == NULL || use_config(options);
}

bool uro_device_options_check(const struct uro_device_options *options)
{
    bool good = true;

    uro_run_warn_no_device(options->command);
    if (options->devices == NULL)
        return true;
    for (const struct uro_device_config *const *next = uro_host_config(); *next != NULL; next++) {
        const char *problem = (*next)->problem;
        if (problem[0] == '\0' || (*next)->problem_may_end)
            continue;
        if (strncmp(problem, SOURCE, sizeof SOURCE - 1) == 0)
            problem += sizeof SOURCE - 1;
        (void)fprintf(stderr, "uroce %s: --device %s\n", options->command, problem);
        good = false;
    }
    return good;
}
