/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c - `uroce run`: sets up the environment that an unmodified verbs program needs, then starts
 * the program.
 *
 * Both variables are needed: LD_LIBRARY_PATH for programs that dlopen libibverbs by name,
 * LD_PRELOAD for programs whose own RPATH would have priority. A second library is preloaded for
 * programs that search for devices in /sys and /dev. UROCE_TREE has the path of its files.
 */
#define _GNU_SOURCE /* asprintf, execvp */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "chaos.h"
#include "device_options.h"
#include "library.h"
#include "run.h"
#include "tree.h"
#include "usage.h"

#define LIBRARY           "libibverbs.so.1"
#define PATHS             "liburoce-paths.so"
#define STATUS_USAGE      2
#define STATUS_NO_EXEC    126
#define STATUS_NO_FILE    127
#define CHAOS_SECONDS_MAX 100000u

static void help(void)
{
    (void)printf(
        "Usage: uroce run [ OPTIONS ] [--] PROGRAM [ ARGUMENTS ]\n"
        "\n"
        "Runs PROGRAM, which uses verbs or rdma_cm, over uroce instead of an RDMA network card.\n"
        "\n"
        "OPTIONS:\n"
        "  -d, --device SPEC   device NAME:LINK[;KEY=VALUE]...; repeat for more devices\n"
        "  -c, --config FILE   read the devices from an ini file\n"
        "  -q, --quiet         do not print which device was chosen; warnings are still printed\n"
        "      --chaos[=SECONDS]  run PROGRAM without faults and with twenty plans of faults, and\n"
        "                      print what it did; SECONDS limits each run\n"
        "      --no-paths      do not show the devices in /sys/class/infiniband and "
        "/dev/infiniband\n"
        "  -h, --help          print this help\n"
        "\n"
        "Without -d and -c, the variable UROCE_DEVICES or UROCE_CONFIG names the devices. Without\n"
        "them the device is uroce0, over UDP, at the address that this machine sends from.\n"
        "\n"
        "Examples:\n"
        "  uroce run ibv_rc_pingpong -g 0\n"
        "  uroce run -d rxe_0:udp,iface=eth0 ib_write_bw -d rxe_0\n"
        "\n"
        "Exit status: that of PROGRAM; 126 it cannot be started, 127 not found, 2 wrong option.\n"
        "With --chaos: 0 no plan made PROGRAM hang or crash, 1 a plan did, 2 PROGRAM fails\n"
        "without faults or cannot be started.\n");
}

/* Finds the library, or prints the reason for failure. */
static bool find_library(struct uro_library *library)
{
    char error[URO_LIBRARY_ERROR_MAX];

    if (!uro_library_find(library, error)) {
        (void)fprintf(stderr, "uroce run: %s\n", error);
        return false;
    }
    if (strpbrk(library->directory, " :") != NULL) {
        (void)fprintf(stderr,
                      "uroce run: cannot use the directory %s, because LD_PRELOAD allows no space "
                      "and no colon in a path; move uroce to another directory\n",
                      library->directory);
        return false;
    }
    return true;
}

/* Puts @value before the present value of the environment variable @name. */
static void prepend(const char *name, const char *value, char separator)
{
    const char *before = getenv(name);
    char *both = NULL;

    if (before == NULL || before[0] == '\0') {
        (void)setenv(name, value, 1);
        return;
    }
    if (asprintf(&both, "%s%c%s", value, separator, before) >= 0)
        (void)setenv(name, both, 1);
    free(both);
}

struct settings {
    struct uro_device_options devices;
    bool paths, quiet;
    bool chaos;
    unsigned chaos_timeout_s; /* time limit of each run, seconds; 0: chosen after the first run */
};

static void load_verbs(const struct uro_library *library)
{
    prepend("LD_LIBRARY_PATH", library->directory, ':');
    prepend("LD_PRELOAD", library->path, ' ');
}

/* Loads the library that shows devices in /sys and /dev. If its files cannot be written, only
 * prints a warning, because most programs do not need them. Returns false after a message if the
 * library is missing. */
static bool load_paths(void)
{
    struct uro_library library = { .name = PATHS, .in_build = "../lib/paths" };
    struct uro_tree tree;

    if (*uro_host_config() == NULL)
        return true;
    if (!find_library(&library))
        return false;
    int error = uro_tree_make(&tree);
    if (error != 0) {
        (void)fprintf(stderr,
                      "uroce run: %s: cannot write files of the devices: %s; the program finds no "
                      "devices in /sys/class/infiniband. Set TMPDIR to a directory of your own\n",
                      tree.path, strerror(-error));
        return true;
    }
    (void)setenv("UROCE_TREE", tree.path, 1);
    prepend("LD_PRELOAD", library.path, ' ');
    return true;
}

static int execute(char **argv, const struct settings *settings)
{
    struct uro_library verbs = { .name = LIBRARY, .in_build = "../lib/abi" };

    (void)unsetenv("UROCE_TREE"); /* set by an outer `uroce run` */
    if (!find_library(&verbs))    /* before the devices, whose plug-ins are next to this library */
        return STATUS_NO_EXEC;
    if (!uro_run_default_device(settings->quiet) || !uro_device_options_check(&settings->devices))
        return STATUS_USAGE;
    uro_run_brokers();
    load_verbs(&verbs);
    if (settings->paths && !load_paths())
        return STATUS_NO_EXEC;
    uro_run_check_program(argv[0]);
    if (settings->chaos)
        return uro_chaos(argv, settings->chaos_timeout_s);
    (void)execvp(argv[0], argv);
    int status = errno == ENOENT ? STATUS_NO_FILE : STATUS_NO_EXEC;
    (void)fprintf(stderr, "uroce run: %s: %s\n", argv[0],
                  errno == ENOENT && strchr(argv[0], '/') == NULL
                      ? "there is no such program in PATH"
                      : strerror(errno));
    return status;
}

/* Reads the argument of --chaos, which may be NULL. Returns false after a message. */
static bool read_chaos(struct settings *settings, const char *seconds)
{
    char *end = NULL;
    const unsigned long number = seconds != NULL ? strtoul(seconds, &end, 10) : 0;

    settings->chaos = true;
    settings->chaos_timeout_s = (unsigned)number;
    if (seconds == NULL || (seconds[0] >= '0' && seconds[0] <= '9' && *end == '\0' && number >= 1 &&
                            number <= CHAOS_SECONDS_MAX))
        return true;
    (void)fprintf(stderr, "uroce run: --chaos=%s: must be a number of seconds from 1 to 100000\n",
                  seconds);
    return false;
}

#define GO_ON (-1)

/* Reads the options. Returns GO_ON, or the exit status. */
static int parse(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = { { "device", required_argument, NULL, 'd' },
                                             { "config", required_argument, NULL, 'c' },
                                             { "quiet", no_argument, NULL, 'q' },
                                             { "no-paths", no_argument, NULL, 'n' },
                                             { "chaos", optional_argument, NULL, 'C' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    int option;

    while ((option = uro_usage_option(argc, argv, "+d:c:qh", options)) != -1) {
        if (option == 'h') {
            help();
            return 0;
        }
        if (option == 'd' && !uro_device_options_add(&settings->devices, optarg))
            return STATUS_USAGE;
        if (option == 'c')
            settings->devices.config = optarg;
        if (option == 'C' && !read_chaos(settings, optarg))
            return STATUS_USAGE;
        if (option == 'n')
            settings->paths = false;
        if (option == 'q')
            settings->quiet = true;
        if (option == '?')
            return STATUS_USAGE;
    }
    return GO_ON;
}

int uro_app_run(int argc, char **argv)
{
    struct settings settings = { .devices = { .command = "run" }, .paths = true };
    int status = parse(argc, argv, &settings);

    if (status == GO_ON && optind == argc)
        status = uro_usage_error(argv[0], "no program is given; name the PROGRAM to run");
    if (status == GO_ON && !uro_device_options_apply(&settings.devices))
        status = STATUS_USAGE;
    if (status == GO_ON)
        status = execute(argv + optind, &settings);
    free(settings.devices.devices);
    return status;
}
