/* SPDX-License-Identifier: BSD-3-Clause */
/* services.c - the main program: parses the command line. */
#include "services.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void parse(int argc, char **argv, struct services_options *options)
{
    int opt;

    while ((opt = getopt(argc, argv, MEET_OPTIONS "k:g:")) != -1) {
        if (meet_option(&options->meet, opt, optarg))
            continue;
        switch (opt) {
        case 'k':
            options->kind = optarg;
            break;
        case 'g':
            options->group = optarg;
            break;
        default:
            meet_die("usage: services -k kind [-p port] [-d device] [-x gid] [-m mtu] [-g group] "
                     "[host]");
        }
    }
    if (optind < argc)
        options->meet.host = argv[optind];
}

int main(int argc, char **argv)
{
    struct services_options options = { .meet = MEET_DEFAULTS, .kind = "", .group = "224.0.0.1" };

    setvbuf(stdout, NULL, _IOLBF, 0);
    parse(argc, argv, &options);
    for (unsigned i = 0; i < services_kind_count; i++) {
        struct services_end end = { .options = &options, .client = options.meet.host != NULL };
        if (strcmp(options.kind, services_kinds[i].name) != 0)
            continue;
        services_kinds[i].run(&end);
        printf("verified\n");
        return 0;
    }
    meet_die("no such kind: %s", options.kind);
}
