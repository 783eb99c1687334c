/* SPDX-License-Identifier: BSD-3-Clause */
/* eal.c - starts DPDK at most once per process, without side effects on the program.
 *
 * By default DPDK pins its caller, handles signals in its own threads, reserves hugepages, leaves
 * files for other processes, and logs to syslog. The arguments here turn all of that off, so that
 * any verbs program, run by any user, works as before.
 */
#define _GNU_SOURCE
#include "io/dpdk/dpdk.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#define ARGS_MAX       16
#define HUGEPAGE_BYTES (2u << 20)

/* Memory without hugepages is reserved, but not touched: only pages that packets use are
 * allocated. */
#define MEMORY_MIB_DEFAULT 256u
#define MEMORY_MIB_SPARE   64u /* memory for DPDK's own structures */
#define MEMORY_MIB_MAX     65536u

struct arguments {
    int count;
    char *list[ARGS_MAX + 1];
    char arguments[ARGS_MAX][64];
    char lcores[CPU_SETSIZE * 5];
};

static void add(struct arguments *args, const char *word)
{
    URO_ASSERT(args->count < ARGS_MAX);
    char *slot = args->arguments[args->count];

    snprintf(slot, sizeof args->arguments[0], "%s", word);
    args->list[args->count++] = slot;
}

/* Adds one logical core that may run on every CPU of this thread's affinity, so nothing is
 * pinned. */
static void add_lcores(struct arguments *args, const cpu_set_t *cpus)
{
    size_t used = (size_t)snprintf(args->lcores, sizeof args->lcores, "0@(");

    for (unsigned cpu = 0; cpu < CPU_SETSIZE && used < sizeof args->lcores - 8; cpu++)
        if (CPU_ISSET(cpu, cpus))
            used += (size_t)snprintf(args->lcores + used, sizeof args->lcores - used, "%u,", cpu);
    args->lcores[used - 1] = ')';

    add(args, "--lcores");
    URO_ASSERT(args->count < ARGS_MAX);
    args->list[args->count++] = args->lcores;
}

static uint32_t memory_mib(const struct uro_port_config *config)
{
    uint32_t mib = config->memory_mib == 0 ? MEMORY_MIB_DEFAULT : config->memory_mib;

    return (mib < MEMORY_MIB_MAX ? mib : MEMORY_MIB_MAX) + MEMORY_MIB_SPARE;
}

/* Returns whether @mib of hugepages are free. This is tested first, because DPDK cannot be started
 * again after a failure. */
static bool hugepages_free(uint32_t mib)
{
    size_t bytes = (size_t)mib << 20;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | (21 << MAP_HUGE_SHIFT), -1, 0);

    if (memory == MAP_FAILED)
        return false;
    munmap(memory, bytes);
    return true;
}

static void fill(struct arguments *args, const struct uro_port_config *config,
                 const cpu_set_t *cpus, bool pci)
{
    uint32_t mib = memory_mib(config);
    char word[64];

    add(args, "uroce");
    add_lcores(args, cpus);
    snprintf(word, sizeof word, "--file-prefix=uroce-%ld", (long)getpid());
    add(args, word);
    add(args, config->telemetry ? "--telemetry" : "--no-telemetry");
    add(args, config->verbose ? "--log-level=*:info" : "--log-level=*:error");
    /* Use no shared files, so that nothing remains after the process. --in-memory means that for
     * hugepages, and DPDK refuses it together with --no-huge. */
    if (hugepages_free(mib)) {
        add(args, "--in-memory");
    } else {
        add(args, "--no-huge");
        add(args, "--no-shconf");
        snprintf(word, sizeof word, "-m%u", mib);
        add(args, word);
    }
    if (!pci) {
        add(args, "--no-pci");
        add(args, "--iova-mode=va");
    }
}

static int start(const struct uro_port_config *config, bool pci)
{
    struct arguments *args = calloc(1, sizeof *args);
    cpu_set_t cpus;
    sigset_t all, before;

    if (args == NULL || pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) != 0) {
        free(args);
        return -1;
    }
    fill(args, config, &cpus, pci);

    /* DPDK's threads inherit the signal mask, so that they receive none of the program's
     * signals. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = rte_eal_init(args->count, args->list);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);

    if (status >= 0)
        rmdir(rte_eal_get_runtime_dir()); /* empty, since nothing is shared */
    free(args);
    return status < 0 ? -1 : 0;
}

int uro_eal_start(const struct uro_port_config *config, bool pci,
                  char error[static URO_PORT_ERROR_MAX])
{
    static enum { NOT_YET, STARTED, FAILED } state;
    static bool has_pci;
    char reason[128];

    uro_log_capture();
    if (config->verbose)
        uro_log_show();
    if (state == NOT_YET) {
        uro_log_forget();
        state = start(config, pci) == 0 ? STARTED : FAILED;
        has_pci = pci;
    }
    if (state == FAILED) {
        uro_log_complaint(reason, sizeof reason);
        snprintf(error, URO_PORT_ERROR_MAX,
                 "DPDK does not start: %s%s; fix that and start the program again: DPDK "
                 "starts only once in a process",
                 reason[0] != '\0' ? reason : rte_strerror(rte_errno),
                 config->verbose ? "" : " (verbose=yes shows its log)");
        return -1;
    }
    if (pci && !has_pci) {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "DPDK was started for a virtual device, without PCI; use the PCI device first, "
                 "before the others");
        return -1;
    }
    return 0;
}

/* ---- DPDK's log -------------------------------------------------------- */

/* Errors of DPDK are kept for our own messages, and the log is printed when verbose. */

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
