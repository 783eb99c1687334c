/* SPDX-License-Identifier: BSD-3-Clause */
/* peer.c - `uroce peer SCRIPT...`: runs packet scripts against a RoCE endpoint, and reports whether
 * the endpoint sent the expected packets. docs/PEER.md is the manual.
 */
#define _GNU_SOURCE /* getopt_long, getrandom */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "app.h"
#include "base/utf8.h"
#include "device_options.h"
#include "host/host.h"
#include "output.h"
#include "peer_link.h"
#include "usage.h"

#define STATUS_HELD     0
#define STATUS_DEVIATED 1
#define STATUS_USAGE    2
#define STATUS_NO_LINK  77
#define GO_ON           (-1)

#define PORT_DEFAULT 7471u
#define SETS_MAX     32u
#define FILE_MAX     (256u * 1024)
#define LINK_WAIT    URO_MS(10000)
#define TITLE_SHOWN  200u

struct set {
    const char *name;
    size_t length;
    uint64_t value;
    bool used;
};

struct settings {
    struct uro_device_options devices;
    const char *peer;
    const char *pcap;
    uint16_t port;
    bool tap;
    bool quiet;
    bool check;
    struct set sets[SETS_MAX];
    uint32_t set_count;
};

struct file {
    const char *path;
    char *text;
    struct uro_script script;
};

static int help(void)
{
    (void)printf(
        "Usage: uroce peer [ OPTIONS ] --peer ADDRESS SCRIPT...\n"
        "       uroce peer --check SCRIPT...\n"
        "\n"
        "Sends the packets of each SCRIPT to the RoCEv2 endpoint at ADDRESS and checks its\n"
        "answers. docs/PEER.md explains the script language.\n"
        "\n"
        "OPTIONS:\n"
        "  -d, --device SPEC    device NAME:LINK[;KEY=VALUE]..., as for `uroce run`\n"
        "  -c, --config FILE    use the first device of an ini file\n"
        "  -a, --peer ADDRESS   IPv4 or IPv6 address of the endpoint\n"
        "  -p, --port PORT      value of $port in the scripts; 7471 by default\n"
        "  -s, --set NAME=N     set the variable $NAME of the scripts; repeat for more variables\n"
        "      --pcap FILE      write all frames to a capture file\n"
        "      --tap            print the results in TAP format\n"
        "  -q, --quiet          print only the results and the deviations\n"
        "      --check          check the syntax of the scripts, and send nothing\n"
        "  -h, --help           print this help\n"
        "\n"
        "Exit status: 0 the endpoint met every script, 1 it deviated from one, 2 wrong option or\n"
        "wrong script, 77 the link did not come up or no host has the address.\n");
    return STATUS_HELD;
}

/* ---- the command line ------------------------------------------------------------------------ */

static bool number(const char *text, uint64_t most, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 0);
    return errno == 0 && end != text && *end == '\0' && text[0] != '-' && *value <= most;
}

static bool add_set(struct settings *settings, const char *text)
{
    const char *equals = strchr(text, '=');
    struct set *set = &settings->sets[settings->set_count];

    if (equals == NULL || equals == text || settings->set_count == SETS_MAX ||
        !number(equals + 1, UINT64_MAX, &set->value))
        return false;
    set->name = text;
    set->length = (size_t)(equals - text);
    settings->set_count++;
    return true;
}

static bool take_option(struct settings *settings, int option, const char *argument)
{
    uint64_t value;

    switch (option) {
    case 'd':
        return uro_device_options_add(&settings->devices, argument);
    case 'c':
        settings->devices.config = argument;
        return true;
    case 'a':
        settings->peer = argument;
        return true;
    case 'p':
        if (!number(argument, UINT16_MAX, &value))
            return false;
        settings->port = (uint16_t)value;
        return true;
    case 's':
        return add_set(settings, argument);
    case 'P':
        settings->pcap = argument;
        return true;
    case 't':
        return settings->tap = true;
    case 'q':
        return settings->quiet = true;
    default:
        return settings->check = true;
    }
}

static int parse(int argc, char **argv, struct settings *settings)
{
    static const struct option options[] = {
        { "device", required_argument, NULL, 'd' },
        { "config", required_argument, NULL, 'c' },
        { "peer", required_argument, NULL, 'a' },
        { "port", required_argument, NULL, 'p' },
        { "set", required_argument, NULL, 's' },
        { "pcap", required_argument, NULL, 'P' },
        { "tap", no_argument, NULL, 't' },
        { "quiet", no_argument, NULL, 'q' },
        { "check", no_argument, NULL, 'C' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = uro_usage_option(argc, argv, "d:c:a:p:s:qh", options)) != -1) {
        if (option == 'h')
            return help();
        if (option == '?')
            return STATUS_USAGE;
        if (!take_option(settings, option, optarg)) {
            if (option != 'd')
                (void)fprintf(stderr, "uroce peer: %s\n",
                              option == 'p' ? "--port must be a number from 0 to 65535"
                                            : "--set must be NAME=NUMBER, at most 32 times");
            return STATUS_USAGE;
        }
    }
    if (optind == argc) {
        (void)uro_usage_error(argv[0], "no script is given; name one or more SCRIPT files");
        return STATUS_USAGE;
    }
    if (settings->peer == NULL && !settings->check) {
        (void)uro_usage_error(argv[0], "no endpoint is given; name it with --peer ADDRESS");
        return STATUS_USAGE;
    }
    return uro_device_options_apply(&settings->devices) ? GO_ON : STATUS_USAGE;
}

/* ---- scripts --------------------------------------------------------------------------------- */

static bool load(struct file *file)
{
    struct uro_script_problem problem;
    FILE *in = fopen(file->path, "r");

    file->text = in != NULL ? malloc(FILE_MAX) : NULL;
    if (file->text == NULL) {
        (void)fprintf(stderr, "uroce peer: %s: %s\n", file->path, strerror(errno));
        if (in != NULL)
            (void)fclose(in);
        return false;
    }
    const size_t length = fread(file->text, 1, FILE_MAX, in);
    (void)fclose(in);
    if (length == FILE_MAX) {
        (void)fprintf(stderr,
                      "uroce peer: %s: the file is too long; a script has at most 256 KiB\n",
                      file->path);
        return false;
    }
    if (uro_script_read(&file->script, file->text, length, &problem))
        return true;
    (void)fprintf(stderr, "%s:%" PRIu32 ":%" PRIu32 ": %s\n", file->path, problem.line,
                  problem.column, problem.text);
    return false;
}

static bool has_name(const struct uro_script *script, const struct set *set)
{
    for (uint32_t i = 0; i < script->name_count; i++)
        if (script->names[i].length == set->length &&
            memcmp(script->names[i].start, set->name, set->length) == 0)
            return true;
    return false;
}

/* Loads all scripts before any of them is played. */
static bool load_all(struct settings *settings, struct file *files, uint32_t count)
{
    bool good = true;

    for (uint32_t i = 0; i < count; i++) {
        good &= load(&files[i]);
        for (uint32_t s = 0; s < settings->set_count; s++)
            settings->sets[s].used |= has_name(&files[i].script, &settings->sets[s]);
    }
    for (uint32_t s = 0; good && s < settings->set_count; s++)
        if (!settings->sets[s].used) {
            (void)fprintf(stderr, "uroce peer: --set %s: no script uses the variable $%.*s\n",
                          settings->sets[s].name, (int)settings->sets[s].length,
                          settings->sets[s].name);
            good = false;
        }
    return good;
}

/* ---- playing --------------------------------------------------------------------------------- */

static const struct uro_device_config *first_device(const struct settings *settings)
{
    const struct uro_device_config *config = *uro_host_config();

    if (config == NULL && getenv("UROCE_DEVICES") == NULL && getenv("UROCE_CONFIG") == NULL)
        (void)fprintf(stderr, "uroce peer: no device is configured; describe one with --device "
                              "(docs/CONFIGURATION.md)\n");
    else if (!uro_device_options_check(&settings->devices) || config == NULL)
        return NULL;
    else if (config->problem[0] != '\0')
        (void)fprintf(stderr, "uroce peer: %s\n", config->problem);
    else
        return config;
    return NULL;
}

/* Chooses an own address of the endpoint's kind (IP version, link-local or not): the first address
 * in the endpoint's subnet, else the first address. */
static bool choose_address(const struct uro_device_config *device, struct uro_play_config *play)
{
    bool found = false;

    for (uint32_t i = 0; i < device->gid_count; i++) {
        const struct uro_gid *gid = &device->gids[i];
        const unsigned prefix = device->prefix[i] + (uro_gid_is_ipv4(gid) ? 96u : 0);
        const bool near = uro_gid_same_subnet(gid, &play->peer, prefix);
        if (uro_gid_is_ipv4(gid) != uro_gid_is_ipv4(&play->peer) ||
            uro_gid_is_link_local(gid) != uro_gid_is_link_local(&play->peer) || (found && !near))
            continue;
        play->address = *gid;
        play->sgid_index = (uint8_t)i;
        found = true;
        if (near)
            break;
    }
    return found;
}

static void print_line(void *user, const char *line)
{
    const struct settings *settings = user;

    if (!settings->quiet || strstr(line, "  line ") != NULL ||
        strstr(line, "  at the end: ") != NULL)
        (void)printf("%s%s\n", settings->tap ? "# " : "", line);
}

static const char *const results[] = { [URO_PLAY_RUNNING] = "NOT PLAYED",
                                       [URO_PLAY_HELD] = "held",
                                       [URO_PLAY_DEVIATED] = "DEVIATED",
                                       [URO_PLAY_UNREACHED] = "NO HOST HAS THE ADDRESS" };

static void print_result(const struct settings *settings, uint32_t number, const struct file *file,
                         enum uro_play_result result)
{
    const char *slash = strrchr(file->path, '/');
    const char *name = slash != NULL ? slash + 1 : file->path;

    if (settings->tap)
        (void)printf("%sok %" PRIu32 " - %s%s\n", result == URO_PLAY_HELD ? "" : "not ", number,
                     name, result == URO_PLAY_UNREACHED ? " # no host has the address" : "");
    else
        (void)printf("%s: %s\n", name, results[result]);
    (void)uro_output_flush();
}

static void print_title(const struct file *file)
{
    const struct uro_script_text *title = &file->script.title;
    char text[TITLE_SHOWN];

    (void)snprintf(text, sizeof text, "%.*s", (int)title->length,
                   title->length > 0 ? title->start : "");
    (void)printf("%s: %s\n", file->path, uro_utf8_mask(text));
}

static enum uro_play_result play_one(struct uro_peer_link *link, const struct settings *settings,
                                     const struct file *file, struct uro_play_config *config)
{
    struct uro_play *play = malloc(sizeof *play);

    if (play == NULL ||
        getrandom(&config->seed, sizeof config->seed, 0) != (ssize_t)sizeof config->seed)
        abort();
    if (!settings->quiet && !settings->tap)
        print_title(file);
    const int error = uro_play_init(play, &file->script, config, uro_device_now());
    enum uro_play_result result = URO_PLAY_UNREACHED;
    if (error == 0) {
        for (uint32_t i = 0; i < settings->set_count; i++)
            (void)uro_play_set(play, settings->sets[i].name, settings->sets[i].length,
                               settings->sets[i].value);
        uro_peer_link_play(link, play);
        result = play->result;
        uro_play_fini(play);
    } else {
        (void)fprintf(stderr,
                      "uroce peer: no route to %s: %s; give the device an address in its subnet, "
                      "or a gateway=\n",
                      settings->peer, strerror(-error));
    }
    free(play);
    return result;
}

static int play_all(struct uro_peer_link *link, struct settings *settings, const struct file *files,
                    uint32_t count, struct uro_play_config *config)
{
    int status = STATUS_HELD;

    config->engine = link->engine;
    config->mac = link->port->mac;
    config->port = settings->port;
    config->print = print_line;
    config->user = settings;
    if (!uro_peer_link_wait(link, LINK_WAIT)) {
        (void)fprintf(stderr, "uroce peer: the link did not come up\n");
        return STATUS_NO_LINK;
    }
    if (settings->tap)
        (void)printf("1..%" PRIu32 "\n", count);
    for (uint32_t i = 0; i < count && status != STATUS_NO_LINK; i++) {
        const enum uro_play_result result = play_one(link, settings, &files[i], config);
        print_result(settings, i + 1, &files[i], result);
        if (result == URO_PLAY_UNREACHED)
            status = STATUS_NO_LINK;
        else if (result != URO_PLAY_HELD)
            status = STATUS_DEVIATED;
    }
    return status;
}

static int play_on(struct settings *settings, const struct file *files, uint32_t count)
{
    static struct uro_peer_link link;
    const struct uro_device_config *device = first_device(settings);
    struct uro_play_config config = { 0 };
    char error[URO_PORT_ERROR_MAX] = "";

    if (device == NULL)
        return STATUS_USAGE;
    if (!uro_gid_parse(settings->peer, &config.peer) || !choose_address(device, &config)) {
        (void)fprintf(stderr,
                      "uroce peer: --peer %s: not an IP address, or %s has no address of the same "
                      "kind; add one with ip=\n",
                      settings->peer, device->name);
        return STATUS_USAGE;
    }
    if (uro_port_driver_has(device->driver, URO_DRIVER_KERNEL_ADDRESSES)) {
        (void)fprintf(
            stderr,
            "uroce peer: %s: a link over UDP cannot carry the frames of scripts, because the "
            "kernel writes the headers; use net_af_packet, net_tap, net_memif or a network card\n",
            device->name);
        return STATUS_USAGE;
    }
    if (device->vlan != 0) {
        (void)fprintf(stderr,
                      "uroce peer: %s: the frames of scripts have no VLAN tag; leave out vlan=%u\n",
                      device->name, device->vlan);
        return STATUS_USAGE;
    }
    if (!uro_peer_link_open(&link, device, settings->pcap, error)) {
        (void)fprintf(stderr, "uroce peer: %s: %s\n", device->name, error);
        return STATUS_NO_LINK;
    }
    const int status = play_all(&link, settings, files, count, &config);
    uro_peer_link_close(&link);
    return status;
}

int uro_app_peer(int argc, char **argv)
{
    struct settings settings = { .devices = { .command = "peer" }, .port = PORT_DEFAULT };
    int status = parse(argc, argv, &settings);

    if (status != GO_ON) {
        free(settings.devices.devices);
        return status;
    }
    const uint32_t count = (uint32_t)(argc - optind);
    struct file *files = calloc(count, sizeof *files);
    if (files == NULL)
        abort();
    for (uint32_t i = 0; i < count; i++)
        files[i].path = argv[optind + (int)i];
    if (!load_all(&settings, files, count))
        status = STATUS_USAGE;
    else
        status = settings.check ? STATUS_HELD : play_on(&settings, files, count);
    for (uint32_t i = 0; i < count; i++)
        free(files[i].text);
    free(files);
    free(settings.devices.devices);
    return status;
}
