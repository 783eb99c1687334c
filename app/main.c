/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - `uroce SUBCOMMAND ...`. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "app.h"
#include "output.h"

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} subcommands[] = {
    { "run", uro_app_run, "run an RDMA program over uroce" },
    { "devices", uro_app_devices,
      "list the configured devices, or all kinds of links and their options" },
    { "info", uro_app_info,
      "show what this installation, kernel and user can do, and check the links" },
    { "stat", uro_app_stat, "show the running devices, processes and queue pairs" },
    { "top", uro_app_top, "show the same live in a terminal" },
    { "hub", uro_app_hub, "share one UDP address between processes; `uroce run` starts it" },
    { "impair", uro_app_impair, "show or change the faults of a running device" },
    { "shrink", uro_app_shrink, "find the fewest faults with which a command still fails" },
    { "dump", uro_app_dump, "print the packets of a capture file, one per line" },
    { "judge", uro_app_judge, "name the packets of a capture file that break a rule of RoCEv2" },
    { "why", uro_app_why, "print why queue pairs failed and calls were refused" },
    { "peer", uro_app_peer, "run conformance packet scripts against a RoCEv2 endpoint" },
    { "sim", uro_app_sim, "test the protocol engine in a simulated network with faults" },
};

static void help(FILE *out)
{
    (void)fprintf(out, "Usage: uroce COMMAND [ OPTIONS ]\n"
                       "       uroce COMMAND --help\n"
                       "\n"
                       "COMMAND is one of:\n");
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        (void)fprintf(out, "  %-8s  %s\n", subcommands[i].name, subcommands[i].text);
    (void)fprintf(out, "  %-8s  %s\n", "version", "print the version");
    (void)fprintf(
        out,
        "\n"
        "The device description after --device, and the variables UROCE_DEVICES and UROCE_CONFIG,\n"
        "are explained in docs/CONFIGURATION.md.\n"
        "The exit status is 2 if the output cannot be written.\n");
}

/* Refuses a word that the command does not take. Returns the exit status. */
static int refuse_word(const char *word)
{
    (void)fprintf(stderr, "uroce: \"%s\": no more words can be given; see `uroce --help`\n", word);
    return 2;
}

/* Runs a subcommand, whose name is argv[0]. Returns the exit status. */
static int run(int argc, char **argv)
{
    if (strcmp(argv[0], "version") == 0 || strcmp(argv[0], "--version") == 0) {
        if (argc > 1)
            return refuse_word(argv[1]);
        (void)printf("uroce %s\n", URO_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (strcmp(subcommands[i].name, argv[0]) == 0)
            return subcommands[i].run(argc, argv);
    (void)fprintf(stderr, "uroce: there is no command \"%s\"; see `uroce --help`\n", argv[0]);
    return 2;
}

/* Prints the help of uroce, or of the subcommand in argv[1]. Returns the exit status. */
static int run_help(int argc, char **argv)
{
    static char option[] = "--help";
    char *words[] = { argc > 1 ? argv[1] : NULL, option, NULL };

    if (argc > 2)
        return refuse_word(argv[2]);
    if (argc == 2 && strcmp(argv[1], "version") != 0)
        return run(2, words);
    help(stdout);
    return 0;
}

static bool is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    return uro_output_end(is_help(argv[1]) ? run_help(argc - 1, argv + 1)
                                           : run(argc - 1, argv + 1));
}
