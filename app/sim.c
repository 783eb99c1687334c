/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.c - `uroce sim --seed N`: runs a simulated network with faults, reproducible from its
 * seed. */
#define _GNU_SOURCE /* getopt_long */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "io/pcap/pcap_write.h"
#include "output.h"
#include "sim/sim.h"
#include "usage.h"

#define KEPT     (1 << 30) /* freed memory that malloc keeps for the next seed, bytes */
#define LESS_MAX 31u

struct settings {
    uint64_t seed;
    uint64_t count;
    uint64_t less;
    uint32_t without;
    const char *without_text;
    const char *pcap;
    bool trace;
    bool quiet;
};

static int help(void)
{
    (void)printf(
        "Usage: uroce sim --seed N [ OPTIONS ]\n"
        "       uroce sim --parts\n"
        "\n"
        "Runs 2 to 8 engines over a simulated network that loses, duplicates, reorders and "
        "damages\n"
        "frames, and checks every completion, byte and frame. A seed always gives the same run.\n"
        "\n"
        "OPTIONS:\n"
        "  --seed N          the first seed\n"
        "  --count K         run K seeds, one after the other; 1 by default\n"
        "  --pcap FILE       write all frames of the last run to a capture file\n"
        "  --trace           print every event\n"
        "  --quiet           print only failures\n"
        "  --without PARTS   leave out kinds of faults and work, separated by commas\n"
        "  --less N          halve the work N times\n"
        "  --parts           print the names of all parts\n"
        "  -h, --help        print this help\n"
        "\n"
        "Exit status: 0 every run passed, 1 a run failed, 2 wrong option or no capture file.\n");
    return 0;
}

static bool number(const char *text, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0' && text[0] != '-';
}

/* Reads the value of an option, a number from @least to @most. Returns false after a message. */
static bool take_number(const char *option, const char *text, uint64_t least, uint64_t most,
                        uint64_t *value)
{
    if (number(text, value) && *value >= least && *value <= most)
        return true;
    (void)uro_usage_error("sim", "%s %s: must be a number from %" PRIu64 " to %" PRIu64, option,
                          text, least, most);
    return false;
}

/* Reads the parts of --without. Returns false after a message. */
static bool take_parts(const char *text, uint32_t *parts)
{
    while (*text != '\0') {
        size_t length = strcspn(text, ",");
        if (!sim_part(text, length, parts)) {
            (void)uro_usage_error("sim",
                                  "--without %.*s: no part has this name; `uroce sim --parts` "
                                  "lists the names",
                                  (int)length, text);
            return false;
        }
        text += length + (text[length] == ',');
    }
    return true;
}

/* Creates the file of --pcap before anything runs. Returns false after a message. */
static bool can_write(const char *path)
{
    struct uro_pcap_write *writer;
    const int error = uro_pcap_write_open(path, "sim", 0, &writer);

    if (error == 0)
        uro_pcap_write_close(writer);
    else
        (void)fprintf(stderr, "uroce sim: --pcap %s: the file cannot be written: %s\n", path,
                      error == -EINVAL ? "not a regular file" : strerror(-error));
    return error == 0;
}

static int print_parts(void)
{
    for (size_t i = 0; sim_part_name(i) != NULL; i++)
        (void)printf("%s\n", sim_part_name(i));
    return 0;
}

/* Reads the options. Returns -1 to continue, or the exit status. */
static int parse(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {
        { "seed", required_argument, NULL, 's' }, { "count", required_argument, NULL, 'n' },
        { "pcap", required_argument, NULL, 'p' }, { "trace", no_argument, NULL, 't' },
        { "quiet", no_argument, NULL, 'q' },      { "without", required_argument, NULL, 'w' },
        { "less", required_argument, NULL, 'l' }, { "parts", no_argument, NULL, 'P' },
        { "help", no_argument, NULL, 'h' },       { NULL, 0, NULL, 0 },
    };
    bool has_seed = false;
    int option;

    while ((option = uro_usage_option(argc, argv, "h", options)) != -1) {
        bool good = true;
        if (option == 's')
            good = has_seed = take_number("--seed", optarg, 0, UINT64_MAX, &settings->seed);
        else if (option == 'n')
            good = take_number("--count", optarg, 1, UINT64_MAX, &settings->count);
        else if (option == 'l')
            good = take_number("--less", optarg, 0, LESS_MAX, &settings->less);
        else if (option == 'w')
            good = take_parts(settings->without_text = optarg, &settings->without);
        else if (option == 'P')
            return print_parts();
        else if (option == 'p')
            settings->pcap = optarg;
        else if (option == 't')
            settings->trace = true;
        else if (option == 'q')
            settings->quiet = true;
        else
            return option == 'h' ? help() : URO_USAGE_STATUS;
        if (!good)
            return URO_USAGE_STATUS;
    }
    if (!uro_usage_no_words(argc, argv))
        return URO_USAGE_STATUS;
    if (!has_seed)
        return uro_usage_error(argv[0], "no seed is given; name it with --seed N");
    return settings->pcap == NULL || can_write(settings->pcap) ? -1 : URO_USAGE_STATUS;
}

static void print_line(const char *line)
{
    (void)printf("%s\n", line);
}

/* The seed and the settings that are printed when an assertion fails, so that the run can be
 * repeated. */
static uint64_t seed_running;
static const struct settings *settings_running;

static void print_again(const struct settings *settings, uint64_t seed)
{
    (void)printf("again: uroce sim --seed %" PRIu64, seed);
    if (settings->without_text != NULL)
        (void)printf(" --without %s", settings->without_text);
    if (settings->less > 0)
        (void)printf(" --less %" PRIu64, settings->less);
    (void)printf(" --trace --pcap sim.pcap\n");
}

static void on_abort(int signal_number)
{
    (void)signal(signal_number, SIG_DFL);
    sim_crashed();
    (void)printf("seed %" PRIu64 ": FAILED: an assertion, see above\n", seed_running);
    print_again(settings_running, seed_running);
    (void)uro_output_flush();
}

static void print_result(const struct settings *settings, uint64_t seed,
                         const struct sim_result *result)
{
    if (!result->passed) {
        (void)printf("seed %" PRIu64 ": FAILED: %s\n  %s\n", seed, result->failure,
                     result->setting);
        print_again(settings, seed);
    } else if (!settings->quiet) {
        (void)printf("seed %" PRIu64 ": passed, digest %016" PRIx64 ", %" PRIu64 " frames, %" PRIu64
                     " operations, %" PRIu64 " lives of queue pairs, %" PRIu64 " errors, %" PRIu64
                     " ms, all done %" PRIu64 " ms after the faults ended\n",
                     seed, result->digest, result->frames, result->operations, result->lives,
                     result->failures, result->duration / 1000000, result->patience_used / 1000000);
    }
    (void)uro_output_flush();
}

int uro_app_sim(int argc, char **argv)
{
    static struct settings settings = { .count = 1 }; /* static, because on_abort() reads it */
    uint64_t failed = 0;

    int status = parse(argc, argv, &settings);
    if (status >= 0)
        return status;
    (void)mallopt(M_MMAP_THRESHOLD, KEPT);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT);
    settings_running = &settings;
    (void)signal(SIGABRT, on_abort);
    for (uint64_t i = 0; i < settings.count; i++) {
        struct sim_result result;
        const struct sim_options options = { .seed = settings.seed + i,
                                             .without = settings.without,
                                             .less = (uint32_t)settings.less,
                                             .pcap = settings.pcap,
                                             .trace = settings.trace ? print_line : NULL,
                                             .print = settings.trace ? NULL : print_line };
        seed_running = options.seed;
        failed += !sim_run(&options, &result);
        print_result(&settings, options.seed, &result);
    }
    if (settings.count > 1)
        (void)printf("%" PRIu64 " seeds, %" PRIu64 " failed\n", settings.count, failed);
    return failed > 0;
}
