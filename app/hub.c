/* SPDX-License-Identifier: BSD-3-Clause */
/* hub.c - `uroce hub`: runs the broker of a shared address (io/udp/broker.h). */
#define _GNU_SOURCE /* O_CLOEXEC */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "io/udp/broker.h"
#include "run.h"
#include "usage.h"

#define STATUS_USAGE 2
#define GO_ON        (-1)

struct options {
    struct uro_gid address;
    bool has_address;
    bool background;
    int idle_ms; /* longest time without members; -1: no limit */
};

static void help(void)
{
    (void)printf(
        "Usage: uroce hub --address ADDRESS [ --idle SECONDS ] [ --background ]\n"
        "\n"
        "Lets up to %u processes of one user share an address of this machine over UDP.\n"
        "`uroce run` starts a hub when it needs one.\n"
        "\n"
        "  -a, --address ADDRESS   the address to share, as in the link udp,ip=ADDRESS; auto: the\n"
        "                          first address that `uroce run` uses without a device\n"
        "  -i, --idle SECONDS      end when no process has used the address for this time and no\n"
        "                          program of `uroce run` uses it\n"
        "  -b, --background        continue in the background as soon as the hub is ready\n"
        "  -h, --help              print this help\n"
        "\n"
        "Exit status: 0 success, or a hub serves the address already; 1 failure; 2 wrong option.\n",
        URO_BROKER_MEMBERS);
}

static int refuse(const char *option, const char *value, const char *right)
{
    (void)fprintf(stderr, "uroce hub: %s %s: %s\n", option, value, right);
    return STATUS_USAGE;
}

/* Reads the value of --address. Returns GO_ON, or the exit status after a message. */
static int parse_address(const char *text, struct uro_gid *address)
{
    if (strcmp(text, "auto") != 0)
        return uro_gid_parse(text, address)
                   ? GO_ON
                   : refuse("--address", text, "must be an address such as 192.168.1.7, or auto");
    (void)unsetenv("UROCE_DEVICES");
    (void)unsetenv("UROCE_CONFIG");
    (void)uro_run_choose_default();
    const struct uro_device_config *config = *uro_host_config();
    if (config->problem[0] != '\0')
        return refuse("--address", text, uro_run_default_problem(config));
    *address = config->gids[1];
    return GO_ON;
}

static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = { { "address", required_argument, NULL, 'a' },
                                           { "idle", required_argument, NULL, 'i' },
                                           { "background", no_argument, NULL, 'b' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int option;

    *options = (struct options){ .idle_ms = -1 };
    while ((option = uro_usage_option(argc, argv, "a:i:bh", known)) != -1) {
        char *end = NULL;
        long seconds = option == 'i' ? strtol(optarg, &end, 10) : 0;
        if (option == 'h') {
            help();
            return 0;
        }
        if (option == '?')
            return STATUS_USAGE;
        const int status = option == 'a' ? parse_address(optarg, &options->address) : GO_ON;
        if (status != GO_ON)
            return status;
        if (option == 'i' && (*end != '\0' || seconds < 1 || seconds > 86400))
            return refuse("--idle", optarg, "must be a number of seconds from 1 to 86400");
        options->has_address |= option == 'a';
        options->background |= option == 'b';
        if (option == 'i')
            options->idle_ms = (int)seconds * 1000;
    }
    if (!uro_usage_no_words(argc, argv))
        return STATUS_USAGE;
    return options->has_address ? GO_ON
                                : uro_usage_error(argv[0], "no address is given; name it with "
                                                           "--address ADDRESS");
}

/* Forks, and returns the result of fork(). The child runs the broker. The caller has prepared
 * everything before. */
static pid_t go_to_background(void)
{
    pid_t child = fork();

    if (child != 0)
        return child;
    (void)setsid();
    (void)chdir("/");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && null >= 0; fd++)
        (void)dup2(null, fd);
    return 0;
}

/* Raises the limit of file descriptors. The broker needs a descriptor for each QPN prefix, for each
 * process, and a few more. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* Closes inherited descriptors. A broker lives longer than the process that started it, so it must
 * not keep that process's files open. */
static void close_inherited(void)
{
    enum { FIRST = 3, MOST = 65536 };

#ifdef SYS_close_range
    if (syscall(SYS_close_range, FIRST, ~0u, 0u) == 0)
        return;
#endif
    for (int fd = FIRST; fd < MOST; fd++) /* fallback for Linux before 5.9 */
        (void)close(fd);
}

static int64_t clock_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

int uro_app_hub(int argc, char **argv)
{
    static struct uro_broker broker;
    struct options options;
    char error[URO_PORT_ERROR_MAX];
    int status = parse(argc, argv, &options);

    if (status != GO_ON)
        return status;
    if (options.background)
        close_inherited();
    (void)prctl(PR_SET_NAME, "uroce-hub"); /* messages about a port in use show this name */
    raise_limit();
    const int opened = uro_broker_open(&broker, &options.address, clock_s, error);
    if (opened == 0 && !options.background)
        (void)fprintf(stderr,
                      "uroce hub: another hub serves this address already, so this one ends\n");
    if (opened < 0)
        (void)fprintf(stderr, "uroce hub: %s\n", error);
    pid_t child = opened == 1 && options.background ? go_to_background() : 0;
    if (child > 0)
        return 0;
    if (child < 0)
        (void)fprintf(stderr, "uroce hub: cannot continue in the background: fork: %s\n",
                      strerror(errno));
    else if (opened == 1)
        uro_broker_serve(&broker, options.idle_ms);
    uro_broker_close(&broker);
    return opened >= 0 && child == 0 ? 0 : 1;
}
