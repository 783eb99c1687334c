/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - `uroce SUBCOMMAND ...`. */
#include <stdio.h>
#include <string.h>

#include "app.h"

static const struct subcommand {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *text;
} subcommands[] = {
    { "run", uro_app_run, "run a verbs program over uroce" },
    { "devices", uro_app_devices, "what is configured, and why a device is not usable" },
    { "hub", uro_app_hub, "lets several processes share an address over UDP" },
    { "dump", uro_app_dump, "the frames of a capture, and what is wrong with them" },
    { "peer", uro_app_peer, "scripts of packets against a RoCE endpoint, for who builds one" },
    { "sim", uro_app_sim, "a simulated network with faults, repeatable from its seed" },
};

static void help(FILE *out)
{
    (void)fprintf(out, "usage: uroce SUBCOMMAND [options]\n\n");
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        (void)fprintf(out, "  %-8s  %s\n", subcommands[i].name, subcommands[i].text);
    (void)fprintf(out, "  %-8s  %s\n", "version", "the version of uroce");
    (void)fprintf(out, "\n`uroce SUBCOMMAND --help` says more. Devices are configured with\n"
                       "UROCE_DEVICES or UROCE_CONFIG: see docs/CONFIGURATION.md.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";

    if (strcmp(name, "version") == 0 || strcmp(name, "--version") == 0) {
        (void)printf("uroce %s\n", URO_VERSION);
        return 0;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        help(stdout);
        return 0;
    }
    for (size_t i = 0; i < sizeof subcommands / sizeof subcommands[0]; i++)
        if (strcmp(subcommands[i].name, name) == 0)
            return subcommands[i].run(argc - 1, argv + 1);
    if (name[0] != '\0')
        (void)fprintf(stderr, "uroce: there is no subcommand \"%s\"\n", name);
    help(stderr);
    return 2;
}
