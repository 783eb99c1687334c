/* SPDX-License-Identifier: BSD-3-Clause */
/* eal.c - starts DPDK at most once per process, without side effects on the program; see
 * eal_args.c. */
#define _GNU_SOURCE
#include "io/dpdk/dpdk.h"
#include "io/dpdk/eal_args.h"

#include <fcntl.h>
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

#define HUGEPAGE_BYTES (2u << 20)
#define LCORES_MAX     (CPU_SETSIZE * 5)

/* Memory without hugepages is reserved, but not touched: only pages that packets use are
 * allocated. */
#define MEMORY_MIB_DEFAULT 256u
#define MEMORY_MIB_SPARE   64u /* memory for DPDK's own structures */
#define MEMORY_MIB_MAX     65536u

/* File descriptors that DPDK opens while it starts, for a device without hardware. */
#define DESCRIPTORS_NEEDED 4

/* Writes one logical core that may run on every CPU of @cpus, so nothing is pinned. */
static void write_lcores(char text[static LCORES_MAX], const cpu_set_t *cpus)
{
    size_t used = (size_t)snprintf(text, LCORES_MAX, "0@(");

    for (unsigned cpu = 0; cpu < CPU_SETSIZE && used < LCORES_MAX - 8; cpu++)
        if (CPU_ISSET(cpu, cpus))
            used += (size_t)snprintf(text + used, LCORES_MAX - used, "%u,", cpu);
    text[used - 1] = ')';
}

/* Returns whether DPDK can find a CPU of @cpus. Without a CPU, rte_eal_init() prints its usage. */
static bool finds_cpu(const cpu_set_t *cpus)
{
    char path[sizeof "/sys/devices/system/cpu/cpu/topology/core_id" + 10];

    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/core_id", cpu);
        if (CPU_ISSET(cpu, cpus) && access(path, F_OK) == 0)
            return true;
    }
    return false;
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

/* Returns whether DESCRIPTORS_NEEDED file descriptors are free. Without a descriptor, DPDK's
 * interrupt thread ends the process by rte_panic(). */
static bool descriptors_free(void)
{
    int opened[DESCRIPTORS_NEEDED];
    int count = 0;

    while (count < DESCRIPTORS_NEEDED &&
           (opened[count] = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(opened[i]);
    return count == DESCRIPTORS_NEEDED;
}

static int fill(struct uro_eal_args *args, const struct uro_port_config *config,
                const cpu_set_t *cpus, const char *card, char error[static URO_PORT_ERROR_MAX])
{
    const uint32_t mib = memory_mib(config);
    char lcores[LCORES_MAX];

    write_lcores(lcores, cpus);
    const struct uro_eal_machine machine = {
        .lcores = lcores,
        .pid = (long)getpid(),
        .memory_mib = mib,
        .hugepages = config->hugepages != URO_HUGEPAGES_NO && hugepages_free(mib),
        .card = card,
    };
    return uro_eal_args_fill(args, config, &machine, error);
}

static bool has_argument(const struct uro_eal_args *args, const char *word)
{
    for (int i = 1; i < args->count; i++)
        if (strcmp(args->list[i], word) == 0)
            return true;
    return false;
}

/* Starts DPDK. Returns 0, or a negative status. DPDK's threads inherit the signal mask, so that
 * they receive none of the program's signals. */
static int start(struct uro_eal_args *args, const cpu_set_t *cpus)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int status = rte_eal_init(args->count, args->list);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_setaffinity_np(pthread_self(), sizeof *cpus, cpus);
    /* The directory is empty, because DPDK shares nothing with other processes. */
    if (status >= 0)
        rmdir(rte_eal_get_runtime_dir());
    return status < 0 ? -1 : 0;
}

/* The state of DPDK, and the arguments that it was started with. */
static struct {
    enum { NOT_YET, STARTED, FAILED } state;
    bool has_pci;
    char eal[URO_PORT_EAL_MAX];
} eal;

static const char *wanted_eal(const struct uro_port_config *config)
{
    return config->eal != NULL ? config->eal : "";
}

static int start_once(const struct uro_port_config *config, const char *card,
                      char error[static URO_PORT_ERROR_MAX])
{
    struct uro_eal_args *args = malloc(sizeof *args);
    cpu_set_t cpus;
    int status;

    if (args == NULL || pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus) != 0) {
        free(args);
        snprintf(error, URO_PORT_ERROR_MAX, "DPDK does not start: out of memory");
        return -1;
    }
    if (!finds_cpu(&cpus)) {
        free(args);
        snprintf(error, URO_PORT_ERROR_MAX,
                 "DPDK does not start: /sys/devices/system/cpu has no processor of this process; "
                 "mount sysfs at /sys, or use a link without DPDK, such as udp");
        return -1;
    }
    if (!descriptors_free()) {
        free(args);
        snprintf(error, URO_PORT_ERROR_MAX,
                 "DPDK does not start: too few file descriptors are free; raise `ulimit -n`");
        return -1;
    }
    status = fill(args, config, &cpus, card, error);
    if (status == 0) {
        uro_log_forget();
        eal.has_pci = !has_argument(args, "--no-pci");
        eal.state = start(args, &cpus) == 0 ? STARTED : FAILED;
        snprintf(eal.eal, sizeof eal.eal, "%s", wanted_eal(config));
    }
    free(args);
    return status;
}

int uro_eal_start(const struct uro_port_config *config, const char *card,
                  char error[static URO_PORT_ERROR_MAX])
{
    char reason[128];

    uro_log_capture();
    if (config->verbose)
        uro_log_show();
    if (eal.state == NOT_YET && start_once(config, card, error) != 0)
        return -1;
    if (eal.state == FAILED) {
        uro_log_complaint(reason, sizeof reason);
        snprintf(error, URO_PORT_ERROR_MAX,
                 "DPDK does not start: %s%s; fix that and start the program again: DPDK "
                 "starts only once in a process",
                 reason[0] != '\0' ? reason : rte_strerror(rte_errno),
                 config->verbose ? "" : " (verbose=yes shows its log)");
        return -1;
    }
    if (strcmp(wanted_eal(config), eal.eal) != 0) {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "eal=%.80s: DPDK was started with %s%.80s for another device of this process, and "
                 "starts only once; write the same eal= for all of them",
                 wanted_eal(config), eal.eal[0] != '\0' ? "eal=" : "no eal=", eal.eal);
        return -1;
    }
    if (card != NULL && !eal.has_pci) {
        snprintf(error, URO_PORT_ERROR_MAX,
                 "DPDK was started without PCI, for a virtual device; use the PCI device first, "
                 "before the others");
        return -1;
    }
    return 0;
}

/* ---- DPDK's log -------------------------------------------------------- */

/* Errors of DPDK are kept for our own messages, and the log is printed when verbose. */

#define LINE_MAX_BYTES 160

static struct {
    pthread_mutex_t lock;
    FILE *stream;
    bool shown;
    char complaint[LINE_MAX_BYTES];
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
