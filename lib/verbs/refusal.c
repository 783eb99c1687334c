/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal.c - see refusal.h. */
#include "verbs/refusal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "stats/layout.h"

static void report(struct uro_device *device, bool probe, int error, const char *call,
                   const char *format, va_list arguments)
{
    char text[URO_STATS_REFUSAL_MAX];
    const int kept = errno;

    (void)vsnprintf(text, sizeof text, format, arguments);
    uro_log_refusal(device, probe, error, call, text);
    errno = kept;
}

int uro_refuse(struct uro_device *device, int error, const char *call, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    report(device, false, error, call, format, arguments);
    va_end(arguments);
    return error;
}

int uro_refuse_probe(struct uro_device *device, int error, const char *call, const char *format,
                     ...)
{
    va_list arguments;

    va_start(arguments, format);
    report(device, true, error, call, format, arguments);
    va_end(arguments);
    return error;
}
