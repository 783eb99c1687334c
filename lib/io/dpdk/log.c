/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - captures DPDK's log: keeps errors for our own messages, and prints the log when
 * verbose. */
#define _GNU_SOURCE
#include "io/dpdk/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_log.h>

#define LINE_MAX_OCTETS 160

static struct {
    pthread_mutex_t lock;
    FILE *stream;
    bool shown;
    char complaint[LINE_MAX_OCTETS];
} log_state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void keep_complaint(const char *line, size_t length)
{
    if (log_state.complaint[0] != '\0')
        return; /* the first error is the cause; later errors are its consequences */
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == ' '))
        length--;
    if (length >= sizeof log_state.complaint)
        length = sizeof log_state.complaint - 1;
    memcpy(log_state.complaint, line, length);
    log_state.complaint[length] = '\0';
}

static ssize_t take_line(void *cookie, const char *line, size_t length)
{
    (void)cookie;
    pthread_mutex_lock(&log_state.lock);
    if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_ERR)
        keep_complaint(line, length);
    if (log_state.shown && write(STDERR_FILENO, line, length) < 0)
        log_state.shown = false;
    pthread_mutex_unlock(&log_state.lock);
    return (ssize_t)length;
}

void uro_log_capture(void)
{
    if (log_state.stream != NULL)
        return;
    log_state.stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = take_line });
    if (log_state.stream != NULL)
        rte_openlog_stream(log_state.stream);
}

void uro_log_show(void)
{
    pthread_mutex_lock(&log_state.lock);
    log_state.shown = true;
    pthread_mutex_unlock(&log_state.lock);
}

void uro_log_forget(void)
{
    pthread_mutex_lock(&log_state.lock);
    log_state.complaint[0] = '\0';
    pthread_mutex_unlock(&log_state.lock);
}

void uro_log_complaint(char *out, size_t size)
{
    pthread_mutex_lock(&log_state.lock);
    snprintf(out, size, "%s", log_state.complaint);
    pthread_mutex_unlock(&log_state.lock);
}
