/* SPDX-License-Identifier: BSD-3-Clause */
/* eal_args.c - see eal_args.h.
 *
 * By default DPDK pins its caller, needs hugepages, leaves files for other processes, and logs to
 * syslog. The arguments here turn all of that off, so that any verbs program, run by any user,
 * works as before.
 */
#define _GNU_SOURCE /* strsep */
#include "io/dpdk/eal_args.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WORDS_MAX 512u

/* Arguments for one purpose: those of the user replace ours. */
enum purpose {
    CORES = 1 << 0,
    FILES = 1 << 1,
    LOG = 1 << 2,
    TELEMETRY = 1 << 3,
    MEMORY = 1 << 4,
    AMOUNT = 1 << 5,
    BUSES = 1 << 6,
    IOVA = 1 << 7,
    SHARED = 1 << 8,
};

static const struct argument {
    const char *name;
    char letter; /* letter of the short form, or 0 */
    enum { NO_VALUE, VALUE, MAYBE_VALUE } value;
    unsigned purpose;   /* set of enum purpose */
    const char *refuse; /* reason why uroce cannot pass the argument on, or NULL */
} arguments[] = {
    /* clang-format off */
    { "allow",                   'a', VALUE,       BUSES,          NULL },
    { "base-virtaddr",           0,   VALUE,       0,              NULL },
    { "block",                   'b', VALUE,       BUSES,          NULL },
    { "coremask",                'c', VALUE,       CORES,          NULL },
    { "corelist",                'l', VALUE,       CORES,          NULL },
    { "create-uio-dev",          0,   NO_VALUE,    0,              NULL },
    { "driver-path",             'd', VALUE,       0,
      "the drivers are part of liburoce-dpdk.so, and a second copy of DPDK would come with a shared one" },
    { "file-prefix",             0,   VALUE,       FILES,          NULL },
    { "force-max-simd-bitwidth", 0,   VALUE,       0,              NULL },
    { "help",                    'h', NO_VALUE,    0,              "DPDK would end the program" },
    { "huge-dir",                0,   VALUE,       MEMORY,         NULL },
    { "huge-unlink",             0,   MAYBE_VALUE, MEMORY,         NULL },
    { "huge-worker-stack",       0,   MAYBE_VALUE, 0,              NULL },
    { "in-memory",               0,   NO_VALUE,    MEMORY,         NULL },
    { "iova-mode",               0,   VALUE,       IOVA,           NULL },
    { "lcores",                  0,   VALUE,       CORES,          NULL },
    { "legacy-mem",              0,   NO_VALUE,    MEMORY,         NULL },
    { "log-color",               0,   MAYBE_VALUE, 0,              NULL },
    { "log-level",               0,   VALUE,       LOG,            NULL },
    { "log-timestamp",           0,   MAYBE_VALUE, 0,              NULL },
    { "main-lcore",              0,   VALUE,       0,              NULL },
    { "match-allocations",       0,   NO_VALUE,    0,              NULL },
    { "mbuf-pool-ops-name",      0,   VALUE,       0,              NULL },
    { "memory",                  'm', VALUE,       AMOUNT,         NULL },
    { "memory-channels",         'n', VALUE,       0,              NULL },
    { "memory-ranks",            'r', VALUE,       0,              NULL },
    { "no-hpet",                 0,   NO_VALUE,    0,              NULL },
    { "no-huge",                 0,   NO_VALUE,    MEMORY,         NULL },
    { "no-pci",                  0,   NO_VALUE,    BUSES,          NULL },
    { "no-shconf",               0,   NO_VALUE,    SHARED,         NULL },
    { "no-telemetry",            0,   NO_VALUE,    TELEMETRY,      NULL },
    { "proc-type",               0,   VALUE,       0,
      "a uroce process is always a primary process of its own" },
    { "service-corelist",        'S', VALUE,       0,
      "uroce has a service thread of its own; see progress= and cpu=" },
    { "service-coremask",        's', VALUE,       0,
      "uroce has a service thread of its own; see progress= and cpu=" },
    { "single-file-segments",    0,   NO_VALUE,    MEMORY,         NULL },
    { "socket-limit",            0,   VALUE,       0,              NULL },
    { "socket-mem",              0,   VALUE,       AMOUNT,         NULL },
    { "syslog",                  0,   MAYBE_VALUE, 0,
      "the log would go to syslog; verbose=yes writes it to stderr" },
    { "telemetry",               0,   NO_VALUE,    TELEMETRY,      NULL },
    { "trace",                   0,   VALUE,       0,              NULL },
    { "trace-bufsz",             0,   VALUE,       0,              NULL },
    { "trace-dir",               0,   VALUE,       0,              NULL },
    { "trace-mode",              0,   VALUE,       0,              NULL },
    { "vdev",                    0,   VALUE,       0,              NULL },
    { "version",                 'v', NO_VALUE,    0,              "it is only for DPDK's own programs" },
    { "vfio-intr",               0,   VALUE,       0,              NULL },
    { "vfio-vf-token",           0,   VALUE,       0,              NULL },
    /* clang-format on */
};

/* Returns whether DPDK has the letter, but not the name. */
static bool is_only_letter(const struct argument *argument)
{
    return argument->letter != 0 && strchr("clmnrsSvd", argument->letter) != NULL;
}

URO_PRINTF(2) static int complain(char *error, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    (void)vsnprintf(error, URO_PORT_ERROR_MAX, format, values);
    va_end(values);
    return -1;
}

URO_PRINTF(2) static void add(struct uro_eal_args *args, const char *format, ...)
{
    char *word = args->text + args->used;
    va_list values;

    URO_ASSERT(args->count < (int)URO_EAL_ARGS_MAX);
    va_start(values, format);
    const int length = vsnprintf(word, sizeof args->text - args->used, format, values);
    va_end(values);
    URO_ASSERT(length >= 0 && args->used + (size_t)length < sizeof args->text);
    args->used += (size_t)length + 1;
    args->list[args->count++] = word;
    args->list[args->count] = NULL;
}

/* ---- the arguments of the user ------------------------------------------------ */

/* Finds the argument that @word begins with. @value: what follows its name in the word, or NULL. */
static const struct argument *find(const char *word, const char **value)
{
    const bool is_long = strncmp(word, "--", 2) == 0;

    *value = NULL;
    if (word[0] != '-' || word[1] == '\0')
        return NULL;
    for (size_t i = 0; i < URO_ARRAY_LEN(arguments); i++) {
        const struct argument *argument = &arguments[i];
        const size_t length = strlen(argument->name);
        if (!is_long && argument->letter == word[1]) {
            *value = word[2] != '\0' ? word + 2 : NULL;
            return argument;
        }
        if (is_long && (!is_only_letter(argument) || argument->refuse != NULL) &&
            strncmp(word + 2, argument->name, length) == 0 &&
            (word[2 + length] == '\0' || word[2 + length] == '=')) {
            *value = word[2 + length] == '=' ? word + 3 + length : NULL;
            return argument;
        }
    }
    return NULL;
}

/* Adds the user's arguments to @args, and their purposes to *@purposes. */
static int add_words(struct uro_eal_args *args, const char *text, unsigned *purposes, char *error)
{
    char words[WORDS_MAX], *rest = words, *word;
    const char *value;

    (void)snprintf(words, sizeof words, "%s", text);
    while ((word = strsep(&rest, " \t")) != NULL) {
        if (word[0] == '\0')
            continue;
        if (args->count + 10 > (int)URO_EAL_ARGS_MAX)
            return complain(error, "eal=: more than %u arguments", URO_EAL_ARGS_MAX - 10);
        const struct argument *argument = find(word, &value);
        if (argument == NULL)
            return complain(error,
                            "eal=%.80s: DPDK's EAL has no such argument; its guide \"EAL "
                            "parameters\" lists them",
                            word);
        if (argument->refuse != NULL)
            return complain(error,
                            "eal=%.80s: uroce does not pass this argument on: %s; leave it out",
                            word, argument->refuse);
        if (argument->value == NO_VALUE && value != NULL)
            return complain(error, "eal=%.80s: this argument has no value", word);
        *purposes |= argument->purpose;
        add(args, "%s", word);
        if (argument->value != VALUE || value != NULL)
            continue;
        do
            word = strsep(&rest, " \t");
        while (word != NULL && word[0] == '\0');
        if (word == NULL || word[0] == '-')
            return complain(error, "eal=%s: the value is missing", args->list[args->count - 1]);
        add(args, "%s", word);
    }
    return 0;
}

/* ---- the arguments of uroce ----------------------------------------------------- */

/* No shared files may remain after the process. With hugepages, --in-memory has this effect; DPDK
 * refuses --in-memory together with --no-huge. */
static void add_memory(struct uro_eal_args *args, const struct uro_eal_machine *machine,
                       bool hugepages, unsigned given)
{
    if (hugepages) {
        add(args, "--in-memory");
        return;
    }
    add(args, "--no-huge");
    if ((given & SHARED) == 0)
        add(args, "--no-shconf");
    if ((given & AMOUNT) == 0)
        add(args, "-m%u", machine->memory_mib);
}

static int want_hugepages(const struct uro_port_config *config,
                          const struct uro_eal_machine *machine, bool *use, char *error)
{
    *use = config->hugepages != URO_HUGEPAGES_NO && machine->hugepages;
    if (config->hugepages != URO_HUGEPAGES_YES || machine->hugepages)
        return 0;
    return complain(error,
                    "hugepages=yes: %u MiB of hugepages are not free; reserve them as root with "
                    "`sysctl vm.nr_hugepages=%u`, or leave out hugepages=",
                    machine->memory_mib, machine->memory_mib / 2);
}

int uro_eal_args_fill(struct uro_eal_args *args, const struct uro_port_config *config,
                      const struct uro_eal_machine *machine, char error[static URO_PORT_ERROR_MAX])
{
    unsigned given = 0;
    bool hugepages;

    *args = (struct uro_eal_args){ 0 };
    add(args, "uroce");
    if (config->eal != NULL && add_words(args, config->eal, &given, error) != 0)
        return -1;
    if ((given & CORES) == 0)
        add(args, "--lcores=%s", machine->lcores);
    if ((given & FILES) == 0)
        add(args, "--file-prefix=uroce-%ld", machine->pid);
    if ((given & TELEMETRY) == 0)
        add(args, config->telemetry ? "--telemetry" : "--no-telemetry");
    if ((given & LOG) == 0)
        add(args, config->verbose ? "--log-level=*:info" : "--log-level=*:error");
    if ((given & MEMORY) == 0) {
        if (want_hugepages(config, machine, &hugepages, error) != 0)
            return -1;
        add_memory(args, machine, hugepages, given);
    }
    if ((given & BUSES) != 0)
        return 0;
    if (machine->card != NULL) { /* without --allow, DPDK takes every card that it can use */
        add(args, "--allow=%s", machine->card);
        return 0;
    }
    add(args, "--no-pci");
    if ((given & IOVA) == 0)
        add(args, "--iova-mode=va");
    return 0;
}
