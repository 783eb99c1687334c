/* SPDX-License-Identifier: BSD-3-Clause */
/* event_side.c - the measurements of event_server: requests, latencies, processor time, and how
 * often the process went to sleep. */
#include "event_side.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define FIRST_ROOM 65536u

void event_fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)fprintf(stderr, "event_server: ");
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

void *event_take(uint64_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL)
        event_fail("no memory for %llu bytes: use fewer clients or shorter messages",
                   (unsigned long long)size);
    return memory;
}

int64_t event_now_ns(void)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

void event_meter_begin(struct event_meter *meter, double seconds)
{
    meter->warm_ns = event_now_ns() + (int64_t)(seconds * 1e8);
    meter->end_ns = meter->warm_ns + (int64_t)(seconds * 1e9);
}

static void start(struct event_meter *meter)
{
    meter->running = true;
    meter->waits = 0;
    (void)getrusage(RUSAGE_SELF, &meter->used);
    meter->began_ns = event_now_ns();
}

static void keep(struct event_meter *meter, int64_t took)
{
    if (meter->requests == meter->room) {
        meter->room = meter->room == 0 ? FIRST_ROOM : 2 * meter->room;
        meter->each_ns = realloc(meter->each_ns, meter->room * sizeof *meter->each_ns);
        if (meter->each_ns == NULL)
            event_fail("no memory for %llu latencies: measure fewer seconds",
                       (unsigned long long)meter->room);
    }
    meter->each_ns[meter->requests] = took > UINT32_MAX ? UINT32_MAX : (uint32_t)took;
}

bool event_meter_answered(struct event_meter *meter, int64_t sent_ns)
{
    int64_t now = event_now_ns();

    if (meter->stopped)
        return false;
    if (!meter->running) {
        if (now >= meter->warm_ns)
            start(meter);
        return true;
    }
    keep(meter, now - sent_ns);
    meter->requests++;
    if (now >= meter->end_ns)
        event_meter_stop(meter);
    return !meter->stopped;
}

void event_meter_served(struct event_meter *meter)
{
    if (!meter->running)
        start(meter);
    if (!meter->stopped)
        meter->requests++;
}

static double seconds(const struct rusage *used)
{
    return (double)(used->ru_utime.tv_sec + used->ru_stime.tv_sec) +
           (double)(used->ru_utime.tv_usec + used->ru_stime.tv_usec) * 1e-6;
}

/* Replaces the snapshot in meter->used by the usage since the snapshot. The user time then includes
 * all processor time. */
void event_meter_stop(struct event_meter *meter)
{
    struct rusage now;

    if (meter->stopped || !meter->running)
        return;
    meter->stopped = true;
    meter->took_ns = event_now_ns() - meter->began_ns;
    (void)getrusage(RUSAGE_SELF, &now);
    double used = seconds(&now) - seconds(&meter->used);
    meter->used.ru_nvcsw = now.ru_nvcsw - meter->used.ru_nvcsw;
    meter->used.ru_utime.tv_sec = (time_t)used;
    meter->used.ru_utime.tv_usec = (suseconds_t)((used - (double)(time_t)used) * 1e6);
    meter->used.ru_stime = (struct timeval){ 0, 0 };
}

static int later(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

    return (a > b) - (a < b);
}

void event_meter_print(struct event_meter *meter, const struct event_plan *plan)
{
    uint64_t count = meter->requests;

    event_meter_stop(meter);
    if (count == 0)
        event_fail(plan->server ? "the last connection was closed before the first request came"
                                : "no request was answered in the measured time: raise SECONDS");
    printf("{\"requests\": %llu, ", (unsigned long long)count);
    if (!plan->server) {
        qsort(meter->each_ns, count, sizeof *meter->each_ns, later);
        printf("\"per_s\": %.0f, \"median_us\": %.2f, \"p99_us\": %.2f, ",
               (double)count * 1e9 / (double)meter->took_ns,
               (double)meter->each_ns[count / 2] * 1e-3,
               (double)meter->each_ns[(count - 1) * 99 / 100] * 1e-3);
    }
    printf("\"switches\": %.3f, \"waits\": %.3f, \"cpu_us\": %.2f}\n",
           (double)meter->used.ru_nvcsw / (double)count, (double)meter->waits / (double)count,
           seconds(&meter->used) * 1e6 / (double)count);
    (void)fflush(stdout);
}
