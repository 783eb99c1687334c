/* SPDX-License-Identifier: BSD-3-Clause */
/* impair.c - impair= and trace= of a device: reads its plan of faults, and writes the fates of its
 * packets. */
#define _GNU_SOURCE /* secure_getenv, program_invocation_short_name */
#include "host/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/fork.h"
#include "host/report/pcap.h"
#include "io/impair/port.h"
#include "stats/impair_page.h"

static_assert(URO_STATS_IMPAIR_MAX == URO_IMPAIR_TEXT_MAX, "a plan fits the page");
static_assert(URO_STATS_IMPAIR_COUNTS >= URO_IMPAIR_COUNTS, "the counters fit the page");

/* ---- the plan -------------------------------------------------------------- */

/* Reads a whole file to @text. Returns NULL, or the problem. */
static const char *read_file(const char *path, char text[static URO_IMPAIR_TEXT_MAX])
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status;
    size_t used = 0;
    ssize_t got = 1;

    if (fd < 0)
        return strerror(errno);
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        (void)close(fd);
        return "is not a regular file";
    }
    while (got > 0 && used < URO_IMPAIR_TEXT_MAX) {
        got = read(fd, text + used, URO_IMPAIR_TEXT_MAX - used);
        used += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    if (got < 0)
        return strerror(errno);
    if (used == URO_IMPAIR_TEXT_MAX)
        return "is too long; a plan has at most 4095 characters";
    text[used] = '\0';
    return NULL;
}

/* Reads the plan of the device, and stores its text in device->impair_text. */
static int read_plan(struct uro_device *device, struct uro_impair_plan *plan)
{
    const char *value = device->config.impair, *path = uro_impair_plan_file(value);
    char error[URO_IMPAIR_ERROR_MAX];
    char *text = device->impair_text;
    const char *wrong = NULL;

    if (uro_impair_plan_replay(value) != NULL) {
        uro_impair_plan_init(plan);
        (void)snprintf(text, URO_IMPAIR_TEXT_MAX, "%s", value);
        return 0;
    }
    if (path != NULL)
        wrong = read_file(path, text);
    else
        (void)snprintf(text, URO_IMPAIR_TEXT_MAX, "%s", value);
    if (wrong == NULL && uro_impair_plan_parse(plan, text, error) != 0)
        wrong = error;
    if (wrong == NULL)
        return 0;
    (void)snprintf(device->problem, sizeof device->problem, "impair=%.24s: %.200s", value, wrong);
    return -EINVAL;
}

/* ---- traces ---------------------------------------------------------------- */

static struct uro_impair_trace_header header_of(const struct uro_device *device)
{
    struct uro_impair_trace_header header = { .version = URO_IMPAIR_TRACE_VERSION };

    (void)snprintf(header.program, sizeof header.program, "%s", program_invocation_short_name);
    (void)snprintf(header.device, sizeof header.device, "%s", device->config.name);
    return header;
}

static bool same_header(const struct uro_impair_trace_header *a,
                        const struct uro_impair_trace_header *b)
{
    char left[URO_IMPAIR_TRACE_LINE], right[URO_IMPAIR_TRACE_LINE];

    return strcmp(uro_impair_trace_print_header(a, left),
                  uro_impair_trace_print_header(b, right)) == 0;
}

/* Loads the trace in UROCE_REPLAY, if it is a trace of this program and device. `uroce shrink` sets
 * the variable for all processes of a command. Returns 0, or -EINVAL with the reason in
 * device->problem. */
static int load_variable(struct uro_device *device, struct uro_impair_port_config *config)
{
    const char *path = secure_getenv("UROCE_REPLAY");
    const struct uro_impair_trace_header own = header_of(device);
    char error[URO_IMPAIR_FILE_ERROR_MAX];

    if (path == NULL || path[0] == '\0')
        return 0;
    if (uro_impair_trace_load(&config->replay, path, error) != 0) {
        (void)snprintf(device->problem, sizeof device->problem, "UROCE_REPLAY=%.230s", error);
        return -EINVAL;
    }
    config->replays = same_header(&own, &config->replay.header);
    if (!config->replays)
        uro_impair_trace_free(&config->replay);
    return 0;
}

/* Loads the trace of impair=replay:FILE. */
static int load_replay(struct uro_device *device, struct uro_impair_port_config *config)
{
    const char *path = uro_impair_plan_replay(device->config.impair);
    const struct uro_impair_trace_header own = header_of(device);
    char error[URO_IMPAIR_FILE_ERROR_MAX];

    if (path == NULL || config->replays)
        return 0;
    if (uro_impair_trace_load(&config->replay, path, error) != 0) {
        (void)snprintf(device->problem, sizeof device->problem, "impair=replay:%.230s", error);
        return -EINVAL;
    }
    if (!same_header(&own, &config->replay.header)) {
        (void)snprintf(
            device->problem, sizeof device->problem,
            "impair=replay:%.40s: is a trace of %.31s on %.31s, not of %.31s on %.31s; record "
            "another",
            path, config->replay.header.program, config->replay.header.device, own.program,
            own.device);
        uro_impair_trace_free(&config->replay);
        return -EINVAL;
    }
    config->replays = true;
    return 0;
}

/* Creates the file of trace=, but not if UROCE_REPLAY replaces a plan. */
static int create_trace(struct uro_device *device, struct uro_impair_port_config *config)
{
    const struct uro_impair_trace_header header = header_of(device);
    const char *path = device->config.trace;
    char error[URO_IMPAIR_FILE_ERROR_MAX], own[sizeof device->config.trace + 16];

    if (path[0] == '\0' ||
        (config->replays && uro_impair_plan_replay(device->config.impair) == NULL))
        return 0;
    if (uro_fork_generation() > 1) /* the parent writes the file */
        (void)snprintf(own, sizeof own, "%s.%d", path, (int)getpid());
    else
        (void)snprintf(own, sizeof own, "%s", path);
    config->trace = uro_impair_trace_create(own, &header, error);
    if (config->trace != NULL)
        return 0;
    (void)snprintf(device->problem, sizeof device->problem, "trace=%.240s", error);
    return -EINVAL;
}

/* ---- the port -------------------------------------------------------------- */

/* Reads a plan that another process has written. Returns whether there is a new, correct plan. */
static bool take_change(void *context, struct uro_impair_plan *plan)
{
    struct uro_device *device = context;
    struct uro_stats_page *page = device->stats.page;
    char error[URO_IMPAIR_ERROR_MAX];

    if (page == NULL || !uro_stats_impair_changed(&page->impair, device->impair_seen) ||
        !uro_stats_impair_read(&page->impair, &device->impair_seen, device->impair_text))
        return false;
    const bool is_right = uro_impair_plan_parse(plan, device->impair_text, error) == 0;
    atomic_store(&page->impair.applied, device->impair_seen);
    return is_right;
}

int uro_impair_open(struct uro_device *device)
{
    struct uro_impair_port_config config = {
        .now = uro_device_now, .changed = take_change, .lost = uro_pcap_lost, .context = device
    };
    struct uro_impair_plan plan;

    if (device->config.impair[0] == '\0')
        return 0;
    int error = read_plan(device, &plan);
    config.plan = &plan;
    if (error == 0)
        error = load_variable(device, &config);
    if (error == 0)
        error = load_replay(device, &config);
    if (error == 0)
        error = create_trace(device, &config);
    if (error == 0) {
        struct uro_port *port = uro_impair_port_open(device->port, &config);
        if (port != NULL) {
            device->port = port;
            device->impaired = true;
            return 0;
        }
        (void)snprintf(device->problem, sizeof device->problem, "impair=: out of memory");
        error = -ENOMEM;
    }
    uro_impair_trace_close(config.trace);
    uro_impair_trace_free(&config.replay);
    return error;
}

void uro_impair_show(struct uro_device *device)
{
    if (!device->impaired || device->stats.page == NULL)
        return;
    uro_stats_impair_begin(&device->stats.page->impair, device->impair_text);
    device->impair_seen = device->stats.page->impair.sequence;
}

void uro_impair_update(struct uro_device *device)
{
    if (!device->impaired)
        return;
    const int error = uro_impair_port_trace_error(device->port);
    if (error != 0)
        fprintf(stderr, "uroce: %s: cannot write to trace=%s: %s; the trace is not complete\n",
                device->config.name, device->config.trace, strerror(error));
    if (device->stats.page == NULL)
        return;
    const uint64_t *counts = uro_impair_port_counts(device->port);
    for (unsigned i = 0; i < URO_IMPAIR_COUNTS; i++)
        atomic_store_explicit(&device->stats.page->impair.counts[i], counts[i],
                              memory_order_relaxed);
}
