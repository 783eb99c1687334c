/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - lines on stderr about failures of queue pairs and refused calls: log=none|errors|all. A
 * process prints at most URO_LOG_LINES lines in a second, and each of the first URO_LOG_TEXTS texts
 * once. `uroce why` shows the rest.
 *
 * The state belongs to the process and consists of atomics. So no thread waits for another thread,
 * and a forked child can use the state at once. */
#include "host/device.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "core/cq.h"
#include "core/shard.h"
#include "host/limits.h"
#include "host/report/pcap.h"
#include "stats/failure_text.h"

#define LINE_MAX 640u

static atomic_uint_least64_t period;               /* start of the current period */
static atomic_uint lines;                          /* lines of this period, printed or not */
static atomic_uint left_out;                       /* lines left out since the last line */
static atomic_uint_least64_t texts[URO_LOG_TEXTS]; /* hashes of the printed texts; 0: free */

/* Returns the FNV-1a hash, but never 0. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash | 1;
}

/* Returns whether the text is new, and remembers it. */
static bool is_new(const char *text)
{
    const uint64_t hash = hash_of(text);

    for (unsigned i = 0; i < URO_LOG_TEXTS; i++) {
        uint_least64_t known = 0;
        if (atomic_compare_exchange_strong(&texts[i], &known, hash))
            return true;
        if (known == hash)
            return false;
    }
    return true;
}

static bool rate_allows(uro_time now)
{
    uint_least64_t began = atomic_load(&period);

    if ((began == 0 || now - began >= URO_LOG_PERIOD) &&
        atomic_compare_exchange_strong(&period, &began, now))
        atomic_store(&lines, 0);
    return atomic_fetch_add(&lines, 1) < URO_LOG_LINES;
}

void uro_log_line(const struct uro_device *device, const char *format, ...)
{
    char line[LINE_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (device->config.log == URO_LOG_NONE || !is_new(line))
        return;
    if (!rate_allows(uro_device_now())) {
        (void)atomic_fetch_add(&left_out, 1);
        return;
    }
    uro_log_end(device);
    fprintf(stderr, "uroce: %s: %s\n", device->config.name, line);
}

void uro_log_end(const struct uro_device *device)
{
    const unsigned count = atomic_exchange(&left_out, 0);

    if (count > 0)
        fprintf(stderr, "uroce: %s: %u more lines were left out; see `uroce why %d`\n",
                device->config.name, count, (int)getpid());
}

void uro_log_refusal(struct uro_device *device, bool probe, int error, const char *call,
                     const char *text)
{
    const bool quiet = probe && device->config.log != URO_LOG_ALL;

    if (quiet && !uro_card_given(&device->config.card))
        return;
    if (uro_device_started(device) && device->stats.page != NULL)
        uro_stats_refuse(device->stats.page, uro_host_wall_clock(), error, call, text);
    if (!quiet)
        uro_log_line(device, "%s: %s", call, text);
}

void uro_log_late_failure(struct uro_device *device, bool print, int error, const char *call,
                          const char *text)
{
    if (uro_device_started(device) && device->stats.page != NULL)
        uro_stats_refuse(device->stats.page, uro_host_wall_clock(), error, call, text);
    if (print || device->config.log == URO_LOG_ALL)
        uro_log_line(device, "%s: %s", call, text);
}

/* Adds what only the host and the port know about a silent peer, also in @record: how long the own
 * link has been down, whether the broker has ended, and the MTU of the route. */
static void complete(struct uro_device *device, struct uro_record *record,
                     struct uro_failure *failure)
{
    if (failure->reason != URO_FAIL_NO_ANSWER)
        return;
    if (!device->link_up && device->port != NULL) {
        const uint64_t ms = (uro_device_now() - device->link_down_since) / URO_MS(1);
        failure->link_down_ms = ms == 0 ? 1 : ms > UINT32_MAX ? UINT32_MAX : (uint32_t)ms;
        failure->hub_ended = uro_port_lost_broker(device->port);
    }
    if (!uro_gid_is_zero(&failure->peer))
        failure->route_mtu = uro_device_route_mtu(device, &failure->address, &failure->peer);
    uro_record_complete(record, failure);
}

void uro_log_failures(struct uro_device *device)
{
    struct uro_record *record = uro_record_of(uro_engine_shard(device->engine)->counters);
    char text[URO_FAILURE_TEXT_MAX];
    struct uro_failure failure;

    for (uint64_t number = device->failures_seen.recorded + 1; number <= record->recorded;
         number++) {
        if (!uro_record_get(record, number, &failure))
            continue;
        complete(device, record, &failure);
        uro_pcap_failure(device, &failure);
        uro_log_line(device, "QP 0x%x: %s; %s; see `uroce why %d`", failure.qpn,
                     uro_failure_text(&failure, text), uro_failure_mend(&failure), (int)getpid());
    }
    const uint64_t recorded = record->recorded - device->failures_seen.recorded;
    const uint64_t failed = record->failure_count - device->failures_seen.count;
    if (failed > recorded)
        (void)atomic_fetch_add(&left_out, (unsigned)(failed - recorded));
    device->failures_seen.recorded = record->recorded;
    device->failures_seen.count = record->failure_count;
}
