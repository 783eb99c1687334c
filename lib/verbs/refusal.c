/* SPDX-License-Identifier: BSD-3-Clause */
/* refusal.c - see refusal.h. */
#include "verbs/refusal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "host/log.h"
#include "stats/layout.h"

int uro_refuse(struct uro_device *device, int error, const char *call, const char *format, ...)
{
    char text[URO_STATS_REFUSAL_MAX];
    const int kept = errno;
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    uro_log_refusal(device, error, call, text);
    errno = kept;
    return error;
}
