/* SPDX-License-Identifier: BSD-3-Clause */
/* shrink.c - `uroce shrink`: finds a smallest trace with which a command still fails.
 *
 * A fault in a trace is an effect. A line may have several effects. The search is delta debugging
 * (ddmin of Zeller and Hildebrandt). It tries parts of the effects, and all effects but a part,
 * with smaller and smaller parts. Unless --runs ends the search early, no single effect can be left
 * out of the result.
 */
#define _GNU_SOURCE /* realpath */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app.h"
#include "command.h"
#include "io/impair/trace_file.h"
#include "usage.h"

#define RUNS_DEFAULT 1000u
#define NUMBER_MAX   1000000u

static void help(void)
{
    (void)printf(
        "Usage: uroce shrink --trace FILE [ --output FILE ] [ --timeout SECONDS ] [ --runs N ]\n"
        "                    [ --repeat N ] [ --verbose ] [ -- ] COMMAND [ ARGUMENT... ]\n"
        "\n"
        "Finds the fewest faults of a trace with which a command still fails. The command runs\n"
        "uroce with the device that wrote the trace (trace=FILE), and ends with a status other\n"
        "than 0 when it fails. It runs many times. Each time the device replays a part of the\n"
        "trace, which the variable UROCE_REPLAY names, instead of its impair= and trace=.\n"
        "\n"
        "  -t, --trace FILE        the trace of a run that failed\n"
        "  -o, --output FILE       file for the result; default: the name of the trace with .min\n"
        "  -T, --timeout SECONDS   kill a run that takes longer, and count it as failed\n"
        "  -n, --runs N            end the search after N runs; default: 1000\n"
        "  -r, --repeat N          try each part up to N times, until it fails; default: 1. For a\n"
        "                          failure that depends on time\n"
        "  -v, --verbose           show the output of the command\n"
        "  -h, --help              print this help\n"
        "\n"
        "Exit status: 0 shrunk, 1 the command does not fail, or fails without faults, 2 wrong\n"
        "option or trace.\n");
}

struct search {
    struct uro_impair_trace_header header;
    struct uro_impair_trace_line
        *effects; /* one effect each; the command fails with the first `count` of them */
    struct uro_impair_trace_line *tried;
    size_t count;
    char attempt[PATH_MAX]; /* file of the part that is tried */
    const char *output;
    char *const *command;
    unsigned timeout_s, runs, runs_max, repeats;
    bool verbose, broken;
};

/* ---- runs --------------------------------------------------------------------------------- */

/* Writes effects to a file. */
static bool store(struct search *search, const struct uro_impair_trace_line *effects, size_t count,
                  const char *path)
{
    struct uro_impair_trace trace = { .header = search->header,
                                      .lines = calloc(count + 1, sizeof *trace.lines) };
    int error = -ENOMEM;

    if (trace.lines != NULL) {
        if (count > 0)
            memcpy(trace.lines, effects, count * sizeof *effects);
        trace.count = uro_impair_trace_merge(trace.lines, count);
        error = uro_impair_trace_store(&trace, path);
    }
    free(trace.lines);
    if (error != 0)
        (void)fprintf(stderr, "uroce shrink: %s: %s\n", path, strerror(-error));
    search->broken = search->broken || error != 0;
    return error == 0;
}

/* Runs the command once with the @count effects in the file search->attempt. Returns whether it
 * fails. */
static bool run_fails(struct search *search, size_t count)
{
    search->runs++;
    const int null = search->verbose ? -1 : open("/dev/null", O_WRONLY | O_CLOEXEC);
    const struct uro_command command = { .words = search->command,
                                         .variable = "UROCE_REPLAY",
                                         .value = search->attempt,
                                         .timeout_s = search->timeout_s,
                                         .output = null };
    const struct uro_command_end end = uro_command_run(&command);
    if (null >= 0)
        (void)close(null);
    search->broken = end.error != 0;
    if (search->broken) {
        (void)fprintf(stderr, "uroce shrink: cannot run %s: %s\n", search->command[0],
                      strerror(end.error));
        return false;
    }
    const bool failed = !WIFEXITED(end.status) || WEXITSTATUS(end.status) != 0;
    (void)fprintf(stderr, "uroce shrink: run %u with %zu of %zu effects %s\n", search->runs, count,
                  search->count, failed ? "fails" : "passes");
    return failed;
}

static bool may_go_on(const struct search *search)
{
    return !search->broken && search->runs < search->runs_max;
}

/* Runs the command with these effects until it fails, at most as often as --repeat says, and at
 * least once. Returns whether it fails. */
static bool fails(struct search *search, const struct uro_impair_trace_line *effects, size_t count)
{
    bool failed = false;

    if (search->broken || !store(search, effects, count, search->attempt))
        return false;
    for (unsigned i = 0; i < search->repeats && !failed && (i == 0 || may_go_on(search)); i++)
        failed = run_fails(search, count);
    return failed;
}

/* ---- delta debugging ---------------------------------------------------------------------- */

/* Keeps the first @count effects of search->tried. */
static void keep(struct search *search, size_t count)
{
    memcpy(search->effects, search->tried, count * sizeof *search->effects);
    search->count = count;
    (void)store(search, search->effects, count, search->output);
}

/* Copies the part @from to @end, or all but that part, to search->tried. Returns the number of
 * effects. */
static size_t choose(const struct search *search, size_t from, size_t end, bool all_but)
{
    size_t count = 0;

    for (size_t i = 0; i < search->count; i++)
        if ((i >= from && i < end) != all_but)
            search->tried[count++] = search->effects[i];
    return count;
}

/* Tries @parts parts of the effects, or all effects but each part. Keeps the first part with which
 * the command fails. */
static bool reduce(struct search *search, size_t parts, bool all_but)
{
    for (size_t part = 0; part < parts && may_go_on(search); part++) {
        const size_t from = search->count * part / parts, end = search->count * (part + 1) / parts;
        const size_t count = choose(search, from, end, all_but);
        if (count > 0 && fails(search, search->tried, count)) {
            keep(search, count);
            return true;
        }
    }
    return false;
}

static void shrink(struct search *search)
{
    size_t parts = 2;

    while (search->count >= 2 && may_go_on(search)) {
        if (reduce(search, parts, false))
            parts = 2;
        else if (parts > 2 && reduce(search, parts, true))
            parts = parts - 1 < search->count ? parts - 1 : search->count;
        else if (parts < search->count)
            parts = 2 * parts < search->count ? 2 * parts : search->count;
        else
            break;
        parts = parts < 2 ? 2 : parts;
    }
}

/* ---- the command -------------------------------------------------------------------------- */

/* Splits the lines of the trace into effects. */
static bool split(struct search *search, const struct uro_impair_trace *trace)
{
    const size_t most = trace->count * URO_IMPAIR_EFFECTS + 1;

    search->effects = calloc(most, sizeof *search->effects);
    search->tried = calloc(most, sizeof *search->tried);
    if (search->effects == NULL || search->tried == NULL) {
        (void)fprintf(stderr, "uroce shrink: out of memory\n");
        return false;
    }
    for (size_t i = 0; i < trace->count; i++)
        for (unsigned k = 0; k < URO_IMPAIR_EFFECTS; k++) {
            const enum uro_impair_effect effect = (enum uro_impair_effect)k;
            if (!uro_impair_fate_has(&trace->lines[i].fate, effect))
                continue;
            struct uro_impair_trace_line *line = &search->effects[search->count++];
            *line = trace->lines[i];
            line->fate = uro_impair_fate_only(&trace->lines[i].fate, effect);
        }
    return true;
}

static int report(const struct search *search, size_t before)
{
    char text[URO_IMPAIR_TRACE_LINE];

    if (search->broken)
        return 2;
    (void)printf("%zu of %zu effects make the command fail, after %u runs%s:\n", search->count,
                 before, search->runs, may_go_on(search) ? "" : "; --runs ended the search early");
    for (size_t i = 0; i < search->count; i++)
        (void)printf("  %s", uro_impair_trace_print(&search->effects[i], text));
    (void)printf("The trace is in %s.\n", search->output);
    return 0;
}

static int search_and_report(struct search *search)
{
    const size_t before = search->count;

    if (!fails(search, search->effects, search->count)) {
        if (!search->broken)
            (void)fprintf(stderr,
                          "uroce shrink: the command does not fail with the whole trace, so "
                          "there is nothing to shrink; its failure may depend on time%s\n",
                          search->repeats > 1 ? "" : ": try --repeat 10");
        return search->broken ? 2 : 1;
    }
    if (fails(search, NULL, 0)) {
        (void)fprintf(stderr, "uroce shrink: the command also fails without any fault of the "
                              "trace; check the command\n");
        return 1;
    }
    if (!search->broken && store(search, search->effects, search->count, search->output))
        shrink(search);
    return report(search, before);
}

static int run(struct search *search, const char *path)
{
    struct uro_impair_trace trace;
    char error[URO_IMPAIR_FILE_ERROR_MAX], whole[PATH_MAX];
    int status = 2;

    if (uro_impair_trace_load(&trace, path, error) != 0) {
        (void)fprintf(stderr, "uroce shrink: %s\n", error);
        return 2;
    }
    char *output = NULL;
    if (search->output == NULL && asprintf(&output, "%s.min", path) > 0)
        search->output = output;
    search->header = trace.header;
    const bool has_path =
        realpath(path, whole) != NULL &&
        snprintf(search->attempt, sizeof search->attempt, "%s.try", whole) < PATH_MAX;
    if (!has_path || search->output == NULL)
        (void)fprintf(stderr, "uroce shrink: the name of the trace is too long\n");
    else if (split(search, &trace))
        status = search_and_report(search);
    if (has_path)
        (void)unlink(search->attempt);
    free(search->effects);
    free(search->tried);
    free(output);
    uro_impair_trace_free(&trace);
    return status;
}

/* Reads the number of an option. Returns false after a message. */
static bool read_number(const char *name, const char *text, unsigned *number)
{
    char *end;
    const unsigned long found = strtoul(text, &end, 10);

    *number = (unsigned)found;
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && found >= 1 && found <= NUMBER_MAX)
        return true;
    (void)fprintf(stderr, "uroce shrink: --%s must be a number from 1 to 1000000\n", name);
    return false;
}

int uro_app_shrink(int argc, char **argv)
{
    static const struct option options[] = {
        { "trace", required_argument, NULL, 't' },   { "output", required_argument, NULL, 'o' },
        { "timeout", required_argument, NULL, 'T' }, { "runs", required_argument, NULL, 'n' },
        { "repeat", required_argument, NULL, 'r' },  { "verbose", no_argument, NULL, 'v' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 }
    };
    static struct search search = { .runs_max = RUNS_DEFAULT, .repeats = 1 };
    const char *trace = NULL;
    int option;

    while ((option = uro_usage_option(argc, argv, "+t:o:T:n:r:vh", options)) != -1) {
        switch (option) {
        case 't':
            trace = optarg;
            break;
        case 'o':
            search.output = optarg;
            break;
        case 'T':
            if (!read_number("timeout", optarg, &search.timeout_s))
                return 2;
            break;
        case 'n':
            if (!read_number("runs", optarg, &search.runs_max))
                return 2;
            break;
        case 'r':
            if (!read_number("repeat", optarg, &search.repeats))
                return 2;
            break;
        case 'v':
            search.verbose = true;
            break;
        case 'h':
            help();
            return 0;
        default:
            return URO_USAGE_STATUS;
        }
    }
    search.command = argv + optind;
    if (trace == NULL || search.command[0] == NULL)
        return uro_usage_error(argv[0], trace == NULL ? "--trace FILE is missing"
                                                      : "the command is missing");
    return run(&search, trace);
}
