/* SPDX-License-Identifier: BSD-3-Clause */
/* stat.c - `uroce stat`: shows the devices, processes and queue pairs that run over uroce. */
#define _GNU_SOURCE /* geteuid, nanosleep */
#include "stat.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "output.h"
#include "usage.h"

#define RATE_NS     250000000L /* time between the two surveys from which rates are computed, ns */
#define WATCH_LEAST 0.1        /* shortest interval of --watch, s */
#define WATCH_MOST  86400.0    /* longest interval of --watch, s */

enum format { TEXT, JSON, PROMETHEUS };

struct options {
    struct uro_stat_filter filter;
    enum format format;
    unsigned sections;
    const char *sysfs; /* directory for a copy of files below /sys, or NULL */
    double watch;      /* interval of the output, seconds; 0: print once */
};

static int help(void)
{
    (void)printf(
        "Usage: uroce stat [ OPTIONS ] [ DEVICE ]\n"
        "\n"
        "Shows the devices, processes and queue pairs that run over uroce now. Root sees the\n"
        "processes of all users. Other users see only their own processes. TX/s and RX/s are\n"
        "packets per second. SENT/WIN is the number of packets in flight, and the limit that\n"
        "congestion control sets. RETRY counts retransmissions. RNR counts received RNR NAKs.\n"
        "\n"
        "  DEVICE                only this device\n"
        "  -p, --pid PID         only this process\n"
        "      --qps             all queue pairs, in detail\n"
        "      --cqs             all completion queues\n"
        "      --mrs             all memory regions and windows\n"
        "  -c, --counters        all counters\n"
        "  -j, --json            print one line of JSON\n"
        "      --prometheus      print in the text format of Prometheus\n"
        "      --sysfs DIRECTORY write the files that /sys would have for all devices to a new or\n"
        "                        empty DIRECTORY, and refresh them each second until interrupted\n"
        "  -w, --watch[=SECONDS] print again every SECONDS (default: 1)\n"
        "  -h, --help            print this help\n"
        "\n"
        "Exit status: 0 shown, 1 nothing runs or something cannot be read, 2 wrong option.\n");
    return 0;
}

/* ---- options ---------------------------------------------------------------------- */

enum { QPS = 256, CQS, MRS, PROM, SYSFS };

static const struct option long_options[] = { { "pid", required_argument, NULL, 'p' },
                                              { "qps", no_argument, NULL, QPS },
                                              { "cqs", no_argument, NULL, CQS },
                                              { "mrs", no_argument, NULL, MRS },
                                              { "counters", no_argument, NULL, 'c' },
                                              { "json", no_argument, NULL, 'j' },
                                              { "prometheus", no_argument, NULL, PROM },
                                              { "watch", optional_argument, NULL, 'w' },
                                              { "sysfs", required_argument, NULL, SYSFS },
                                              { "help", no_argument, NULL, 'h' },
                                              { NULL, 0, NULL, 0 } };

static bool read_seconds(const char *text, double *seconds)
{
    char *end = NULL;

    *seconds = text != NULL ? strtod(text, &end) : 1;
    if ((text == NULL || (end != text && *end == '\0')) && *seconds >= WATCH_LEAST &&
        *seconds <= WATCH_MOST)
        return true;
    (void)fprintf(stderr, "uroce stat: --watch=%s: a number from 0.1 to 86400 is expected\n", text);
    return false;
}

static bool apply(struct options *options, int option, const char *argument)
{
    switch (option) {
    case 'p':
        return uro_usage_pid("stat", "--pid ", argument, &options->filter.pid);
    case 'w':
        return read_seconds(argument, &options->watch);
    case 'c':
        options->sections |= URO_STAT_COUNTERS;
        return true;
    case QPS:
        options->sections |= URO_STAT_QPS;
        return true;
    case CQS:
        options->sections |= URO_STAT_CQS;
        return true;
    case MRS:
        options->sections |= URO_STAT_MRS;
        return true;
    case SYSFS:
        options->sysfs = argument;
        return true;
    case 'j':
    case PROM:
        if (options->format == (option == 'j' ? PROMETHEUS : JSON)) {
            (void)uro_usage_error("stat", "--json and --prometheus exclude each other");
            return false;
        }
        options->format = option == 'j' ? JSON : PROMETHEUS;
        return true;
    default:
        return false;
    }
}

/* Reads the options. Returns -1 to continue, or the exit status. */
static int read_options(int argc, char **argv, struct options *options)
{
    int option;

    while ((option = uro_usage_option(argc, argv, "p:cjw::h", long_options)) != -1) {
        if (option == 'h')
            return help();
        if (option == '?')
            return URO_USAGE_STATUS;
        if (!apply(options, option, optarg))
            return 2;
    }
    /* In `--watch 2` the seconds are a separate argument. A number is not a device name. */
    if (options->watch > 0 && optind < argc && argv[optind][0] >= '0' && argv[optind][0] <= '9' &&
        !read_seconds(argv[optind++], &options->watch))
        return 2;
    if (optind < argc)
        options->filter.device = argv[optind++];
    if (optind < argc) {
        (void)fprintf(stderr, "uroce stat: \"%s\": only one device can be named\n", argv[optind]);
        return 2;
    }
    if (options->sysfs != NULL &&
        (options->filter.device != NULL || options->filter.pid != 0 || options->sections != 0 ||
         options->watch > 0 || options->format != TEXT)) {
        (void)fprintf(stderr,
                      "uroce stat: --sysfs allows no other option and no device, because it "
                      "writes the files of all devices\n");
        return 2;
    }
    if (options->watch > 0 && options->format == PROMETHEUS) {
        (void)fprintf(stderr,
                      "uroce stat: --watch does not work with --prometheus, because a collector "
                      "repeats the command itself\n");
        return 2;
    }
    return -1;
}

/* ---- output ------------------------------------------------------------------------ */

static void nap(double seconds)
{
    struct timespec rest = { .tv_sec = (time_t)seconds,
                             .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds)) };

    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}

/* Prints on stderr which data the view lacks. Returns whether the view is complete. */
static bool print_problems(const struct uro_stat_view *view)
{
    char text[URO_STAT_REASON_MAX];
    bool complete = view->now.error == 0;

    if (!complete)
        (void)fprintf(stderr, "uroce stat: %s\n", uro_stat_survey_problem(&view->now, text));
    for (uint32_t i = 0; i < view->now.count; i++)
        if (uro_stat_unreadable(&view->now.files[i])) {
            (void)fprintf(stderr, "uroce stat: %s\n",
                          uro_stat_file_problem(&view->now.files[i], text));
            complete = false;
        }
    return complete;
}

static void print_view(const struct uro_stat_view *view, const struct options *options)
{
    if (options->format == JSON)
        uro_stat_print_json(view, options->sections);
    else if (options->format == PROMETHEUS)
        uro_stat_print_prometheus(view, options->sections);
    else
        uro_stat_print_text(view, options->sections);
}

/* Prints the devices and processes. Takes two surveys for the rates, except for Prometheus. Returns
 * the exit status. */
static int show(const struct options *options)
{
    struct uro_stat_view view = { .filter = options->filter };
    struct uro_stat_device device = { 0 };
    char text[URO_STAT_REASON_MAX];

    uro_stat_take(&view, true);
    if (options->format != PROMETHEUS && view.now.count > 0) {
        nap(RATE_NS / 1e9);
        uro_stat_take(&view, true);
    }
    bool good = uro_stat_next_device(&view, &device);
    if (!good && options->format == TEXT)
        (void)fprintf(stderr, "uroce stat: %s\n", uro_stat_nothing(&view.filter, text));
    else
        good = true; /* JSON and Prometheus print an empty document */
    if (good && options->watch > 0 && options->format == TEXT && isatty(STDOUT_FILENO))
        (void)printf("\033[H\033[2J");
    if (good)
        print_view(&view, options);
    (void)uro_output_flush();
    good &= print_problems(&view);
    uro_stat_free(&view);
    return good ? 0 : 1;
}

int uro_app_stat(int argc, char **argv)
{
    struct options options = { .format = TEXT };
    int status = read_options(argc, argv, &options);

    if (status >= 0)
        return status;
    if (options.sysfs != NULL)
        return uro_stat_sysfs(options.sysfs);
    status = show(&options);
    while (options.watch > 0 && ferror(stdout) == 0) {
        nap(options.watch);
        if (options.format == TEXT && !isatty(STDOUT_FILENO))
            (void)putchar('\n');
        status = show(&options);
    }
    return status;
}
