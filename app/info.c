/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c - `uroce info`: shows this installation, the properties of the kernel, the rights of the
 * user and the default device, and checks the links. */
#define _GNU_SOURCE /* uname, connect */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "app.h"
#include "base/utf8.h"
#include "config/config.h"
#include "config/netdev.h"
#include "config/plugin.h"
#include "escape.h"
#include "host/host.h"
#include "info.h"
#include "library.h"
#include "run.h"
#include "usage.h"

#define FAR_ADDRESS                                                                                \
    "192.0.2.1" /* address for documentation (RFC 5737), which only the default route matches */

struct info {
    struct utsname kernel;
    struct uro_library verbs;
    bool has_verbs;
    char problem[URO_LIBRARY_ERROR_MAX]; /* reason why libibverbs.so.1 was not found, or "" */
    const struct uro_port_driver *drivers[URO_PLUGIN_DRIVERS_MAX];
    uint32_t driver_count;
    struct uro_info_fact facts[URO_INFO_FACTS_MAX];
    uint32_t fact_count;
    const struct uro_device_config *udp; /* uroce0:udp,ip=auto */
    char device[URO_INFO_TEXT_MAX];      /* the device that `uroce run` would use */
    char reason[URO_INFO_TEXT_MAX];      /* reason why `uroce run` would use this device */
    bool usable;
    struct uro_info_check checks[URO_PLUGIN_DRIVERS_MAX];
    uint32_t check_count;
};

static int help(void)
{
    (void)printf(
        "Usage: uroce info [ --check ] [ --json ]\n"
        "\n"
        "Prints the version, the kinds of links of this installation, what the kernel and the\n"
        "rights of this user allow, and the device that `uroce run` uses by default.\n"
        "\n"
        "  -c, --check   also move a megabyte over each kind of link that should work here, and\n"
        "                print why the other kinds do not work\n"
        "  -j, --json    print one JSON object\n"
        "  -h, --help    print this help\n"
        "\n"
        "Exit status: 0 everything works; 1 the default device or a link that should work does\n"
        "not work, or a library is missing; 2 wrong option.\n");
    return 0;
}

/* ---- the default device ---------------------------------------------------------------------- */

/* Returns whether @address is the source address of IPv4 packets that take the default route. */
static bool is_source(const struct uro_gid *address)
{
    struct sockaddr_in to = { .sin_family = AF_INET }, from;
    socklen_t length = sizeof from;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct uro_gid gid;

    if (fd < 0)
        return false;
    (void)inet_pton(AF_INET, FAR_ADDRESS, &to.sin_addr);
    const bool good = connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
                      getsockname(fd, (struct sockaddr *)&from, &length) == 0 &&
                      uro_netdev_gid((const struct sockaddr *)&from, &gid) &&
                      uro_gid_equal(&gid, address);
    (void)close(fd);
    return good;
}

/* Reads the device that `uroce run` uses if none is configured. */
static void read_udp(struct info *info)
{
    static struct uro_config config;
    char text[] = "uroce0:udp,ip=auto";

    uro_config_read_one(&config, "", text);
    info->udp = &config.entries[0].config;
}

static void describe_default(struct info *info)
{
    const struct uro_device_config *udp = info->udp;
    char text[URO_GID_TEXT_MAX], name[IF_NAMESIZE];

    (void)snprintf(info->device, sizeof info->device, "uroce0:udp,ip=auto");
    info->usable = udp->problem[0] == '\0';
    if (!info->usable) {
        (void)snprintf(info->reason, sizeof info->reason, "%s", uro_run_default_problem(udp));
        return;
    }
    const struct uro_gid *address = &udp->gids[1];
    (void)snprintf(info->device, sizeof info->device, "uroce0:udp,ip=%s",
                   uro_gid_text(address, text));
    (void)snprintf(info->reason, sizeof info->reason, "no device is configured, and %s is %s", text,
                   udp->loopback        ? "the only address of this machine"
                   : is_source(address) ? "the address that the default route sends from"
                                        : "the only global address of this machine");
    if (uro_netdev_name(udp, 1, name))
        (void)snprintf(info->reason + strlen(info->reason),
                       sizeof info->reason - strlen(info->reason), " (%s)", name);
}

/* Describes the first configured device. If the configuration has an error, describes the first
 * error. */
static void describe_configured(struct info *info)
{
    const struct uro_device_config *const *list = uro_host_config();
    const char *source = uro_run_source();
    uint32_t count = 0;

    for (info->usable = true; list[count] != NULL; count++)
        info->usable &= list[count]->problem[0] == '\0';
    if (count == 0) {
        (void)snprintf(info->reason, sizeof info->reason, "%s names no device", source);
        info->usable = false;
        return;
    }
    (void)snprintf(info->device, sizeof info->device, "%s:%s", list[0]->name, list[0]->link);
    (void)uro_utf8_mask(info->device);
    for (uint32_t i = 0; i < count && !info->usable; i++)
        if (list[i]->problem[0] != '\0') {
            (void)snprintf(info->reason, sizeof info->reason, "%s", list[i]->problem);
            return;
        }
    (void)snprintf(info->reason, sizeof info->reason, "%s configures this device%s", source,
                   count > 1 ? ", as the first of several" : "");
}

/* ---- collecting ------------------------------------------------------------------------------ */

static void collect(struct info *info)
{
    (void)uname(&info->kernel);
    info->verbs = (struct uro_library){ .name = "libibverbs.so.1", .in_build = "../lib/abi" };
    info->has_verbs = uro_library_find(&info->verbs, info->problem);
    info->driver_count = uro_plugin_list(info->drivers);
    info->fact_count = uro_info_facts(info->facts);
    read_udp(info);
    if (uro_run_choose_default())
        describe_default(info);
    else
        describe_configured(info);
}

/* Checks each kind of link. Returns false if a link that should work on this machine failed. */
static bool check_links(struct info *info)
{
    const struct uro_gid *address = info->udp->problem[0] == '\0' ? &info->udp->gids[1] : NULL;
    const struct uro_info_fact *packets =
        uro_info_fact_of(info->facts, info->fact_count, "packet_sockets");
    const struct uro_info_means means = { .packet_sockets = packets != NULL && packets->good,
                                          .udp = address,
                                          .no_udp = uro_run_default_problem(info->udp) };
    bool good = true;

    if (address != NULL)
        uro_run_broker(address);
    for (uint32_t i = 0; i < info->driver_count; i++) {
        struct uro_info_check *check = &info->checks[info->check_count++];
        uro_info_check(info->drivers[i], &means, check);
        good &= check->result != URO_INFO_FAILED;
    }
    return good;
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *result_text(enum uro_info_result result)
{
    switch (result) {
    case URO_INFO_OK:
        return "ok";
    case URO_INFO_FAILED:
        return "failed";
    case URO_INFO_NOT_TRIED:
        return "not tried";
    }
    return "";
}

static void print_text(const struct info *info)
{
    (void)printf("uroce %s\n", URO_VERSION);
    if (info->has_verbs)
        (void)printf("  libraries       %s\n", info->verbs.directory);
    else
        (void)printf("  libraries       %s\n", info->problem);
    (void)printf("  kernel          %s %s, %s\n", info->kernel.sysname, info->kernel.release,
                 info->kernel.machine);
    (void)printf("  user            %ld\n", (long)geteuid());
    (void)printf("\nLinks\n");
    for (uint32_t i = 0; i < info->driver_count; i++)
        (void)printf("  %-15s %s\n", info->drivers[i]->prefix, info->drivers[i]->text);
    if (info->driver_count == 0)
        (void)printf("  none: the directory of the libraries has no plug-in (liburoce-*.so); "
                     "reinstall uroce\n");
    (void)printf("\nThis kernel and user\n");
    for (uint32_t i = 0; i < info->fact_count; i++)
        (void)printf("  %-15s %s\n", info->facts[i].title, info->facts[i].text);
    (void)printf("\nDefault device\n");
    (void)printf("  %s\n", info->device[0] != '\0' ? info->device : "none");
    (void)printf("  %s%s\n", info->usable ? "" : "not usable: ", info->reason);
    if (info->check_count > 0)
        (void)printf("\nCheck\n");
    for (uint32_t i = 0; i < info->check_count; i++)
        (void)printf("  %-15s %s: %s\n", info->checks[i].link, result_text(info->checks[i].result),
                     info->checks[i].text);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Prints ,"NAME":"TEXT". */
static void print_field(const char *name, const char *text)
{
    (void)printf(",\"%s\":", name);
    uro_escape_json(stdout, text);
}

static void print_json(const struct info *info)
{
    (void)printf("{\"version\":\"%s\"", URO_VERSION);
    print_field("libraries", info->has_verbs ? info->verbs.directory : "");
    print_field("problem", info->has_verbs ? "" : info->problem);
    print_field("kernel", info->kernel.release);
    print_field("machine", info->kernel.machine);
    (void)printf(",\"uid\":%ld,\"links\":[", (long)geteuid());
    for (uint32_t i = 0; i < info->driver_count; i++) {
        (void)printf("%s{\"name\":\"%s\"", i > 0 ? "," : "", info->drivers[i]->prefix);
        print_field("text", info->drivers[i]->text);
        (void)printf("}");
    }
    (void)printf("],\"system\":{");
    for (uint32_t i = 0; i < info->fact_count; i++) {
        (void)printf("%s\"%s\":{\"ok\":%s", i > 0 ? "," : "", info->facts[i].key,
                     info->facts[i].good ? "true" : "false");
        print_field("text", info->facts[i].text);
        (void)printf("}");
    }
    (void)printf("},\"default\":{\"usable\":%s", info->usable ? "true" : "false");
    print_field("device", info->device);
    print_field("reason", info->reason);
    (void)printf("},\"check\":[");
    for (uint32_t i = 0; i < info->check_count; i++) {
        (void)printf("%s{\"link\":\"%s\"", i > 0 ? "," : "", info->checks[i].link);
        print_field("result", result_text(info->checks[i].result));
        print_field("text", info->checks[i].text);
        (void)printf("}");
    }
    (void)printf("]}\n");
}

int uro_app_info(int argc, char **argv)
{
    static const struct option options[] = { { "check", no_argument, NULL, 'c' },
                                             { "json", no_argument, NULL, 'j' },
                                             { "help", no_argument, NULL, 'h' },
                                             { NULL, 0, NULL, 0 } };
    static struct info info;
    bool check = false, json = false;
    int option;

    while ((option = uro_usage_option(argc, argv, "cjh", options)) != -1) {
        if (option == 'h')
            return help();
        if (option == '?')
            return URO_USAGE_STATUS;
        check |= option == 'c';
        json |= option == 'j';
    }
    if (!uro_usage_no_words(argc, argv))
        return URO_USAGE_STATUS;
    collect(&info);
    bool good = info.has_verbs && info.usable && info.driver_count > 0;
    if (check)
        good &= check_links(&info);
    if (json)
        print_json(&info);
    else
        print_text(&info);
    return good ? 0 : 1;
}
