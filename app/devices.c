/* SPDX-License-Identifier: BSD-3-Clause */
/* devices.c - `uroce devices`: lists the configured devices, with GIDs, state and configuration
 * errors.
 */
#include <stdio.h>
#include <string.h>

#include "app.h"
#include "base/utf8.h"
#include "config/defaults.h"
#include "config/netdev.h"
#include "config/plugin.h"
#include "core/limits.h"
#include "host/host.h"
#include "io/common/link_options.h"
#include "run.h"
#include "stats/link_rate.h"
#include "usage.h"

#define QP_MAX     1048560u /* the default quotas of config/entry_keys.c */
#define OBJECT_MAX 1048576u

static void help(void)
{
    (void)printf(
        "Usage: uroce devices [ --probe ]\n"
        "       uroce devices --links\n"
        "       uroce devices --cards\n"
        "       uroce devices --card NAME\n"
        "\n"
        "Prints each configured device with its link, MAC address, MTU and GIDs.\n"
        "\n"
        "  -p, --probe   also open each link, and print its state or why it cannot be opened\n"
        "  -l, --links   instead print the kinds of links with their options\n"
        "  -c, --cards   instead print the built-in cards that like= imitates\n"
        "  -C, --card NAME  instead print the file of a built-in card, to make another card of it\n"
        "  -h, --help    print this help\n"
        "\n"
        "Exit status: 0 every device can be used, 1 a device cannot be used or none is named,\n"
        "2 wrong option.\n");
}

static void show_driver(const struct uro_port_driver *driver)
{
    char name[64], expects[URO_LINK_OPTIONS_EXPECTS];

    (void)snprintf(name, sizeof name, "%s%s", driver->prefix,
                   uro_port_driver_has(driver, URO_DRIVER_NUMBERED) ? "0" : "");
    (void)printf("%-16s  %s\n", name, driver->text);
    for (uint32_t i = 0; i < driver->option_count; i++) {
        const struct uro_link_option *option = &driver->options[i];
        (void)snprintf(name, sizeof name, "%s=", option->name);
        if (option->kind == URO_OPTION_TEXT)
            (void)printf("  %-17s%s\n", name, option->text);
        else
            (void)printf("  %-17s%s (%s)\n", name, option->text,
                         uro_link_options_expects(option, expects));
    }
}

static void show_links(void)
{
    const struct uro_port_driver *drivers[URO_PLUGIN_DRIVERS_MAX];
    const uint32_t count = uro_plugin_list(drivers);

    for (uint32_t i = 0; i < count; i++)
        show_driver(drivers[i]);
}

static void show_cards(void)
{
    char error[URO_CARD_ERROR_MAX];
    struct uro_card card;

    for (unsigned i = 0; i < uro_card_text_count; i++)
        if (uro_card_read(&card, uro_card_texts[i].name, error) == NULL)
            (void)printf("%-10s  %s\n", card.name, card.title);
}

static int show_card(const char *name)
{
    const struct uro_card_text *card = uro_card_text_find(name);

    if (card != NULL) {
        (void)fputs(card->text, stdout);
        return 0;
    }
    (void)fprintf(stderr, "uroce devices: no such card: %s; see `uroce devices --cards`\n", name);
    return 2;
}

/* Prints the limits of the card that are higher than uroce's limits. Programs see uroce's limits
 * instead. */
static void print_lowered(const struct uro_card *card)
{
    static const struct {
        enum uro_card_number number;
        uint64_t own;
    } limits[] = {
        { URO_CARD_MAX_QP, QP_MAX },
        { URO_CARD_MAX_QP_WR, URO_WR_MAX },
        { URO_CARD_MAX_SEND_SGE, URO_SGE_MAX },
        { URO_CARD_MAX_RECV_SGE, URO_SGE_MAX },
        { URO_CARD_MAX_SGE_RD, URO_SGE_MAX },
        { URO_CARD_MAX_INLINE, URO_INLINE_MAX },
        { URO_CARD_MAX_CQ, OBJECT_MAX },
        { URO_CARD_MAX_CQE, URO_CQ_CAPACITY_MAX },
        { URO_CARD_MAX_MR, OBJECT_MAX },
        { URO_CARD_MAX_MW, OBJECT_MAX },
        { URO_CARD_MAX_PD, OBJECT_MAX },
        { URO_CARD_MAX_AH, OBJECT_MAX },
        { URO_CARD_MAX_SRQ, OBJECT_MAX },
        { URO_CARD_MAX_SRQ_WR, URO_WR_MAX },
        { URO_CARD_MAX_SRQ_SGE, URO_SGE_MAX },
        { URO_CARD_MAX_QP_RD_ATOM, URO_RD_ATOMIC_MAX },
        { URO_CARD_MAX_QP_INIT_RD_ATOM, URO_RD_ATOMIC_MAX },
        { URO_CARD_MAX_MCAST_GRP, URO_MCAST_GROUPS_MAX },
        { URO_CARD_MAX_MCAST_QP_ATTACH, URO_MCAST_MEMBERS_MAX },
        { URO_CARD_MAX_MSG_SZ, URO_MESSAGE_MAX },
    };

    for (size_t i = 0; i < URO_ARRAY_LEN(limits); i++) {
        const uint64_t wanted = uro_card_value(card, limits[i].number, 0);
        if (wanted > limits[i].own)
            (void)printf("        %s is %llu, which is uroce's limit; the card has %llu\n",
                         uro_card_key(limits[i].number), (unsigned long long)limits[i].own,
                         (unsigned long long)wanted);
    }
}

static uint32_t ib_mtu(uint32_t mtu)
{
    uint32_t size = 256;

    while (size * 2 + 80 <= mtu && size < 4096)
        size *= 2;
    return size;
}

static void print_config(const struct uro_device_config *config, const char *state)
{
    char text[URO_GID_TEXT_MAX], warning[URO_DEFAULTS_LOOPBACK_MAX];
    const uint8_t *mac = config->mac.octets;
    char link[sizeof config->link];

    memcpy(link, config->link, sizeof link);
    (void)printf("%s  %s\n", config->name, state);
    (void)printf("  link  %s\n", uro_utf8_mask(link));
    (void)printf("  mac   %02x:%02x:%02x:%02x:%02x:%02x\n", mac[0], mac[1], mac[2], mac[3], mac[4],
                 mac[5]);
    (void)printf("  mtu   %u, IB MTU %u\n", config->mtu, ib_mtu(config->mtu));
    (void)printf("  rate  %s\n", uro_link_rate_of(uro_netdev_speed(config))->text);
    if (config->vlan != 0)
        (void)printf("  vlan  %u\n", config->vlan);
    if (uro_card_given(&config->card)) {
        (void)printf("  like  %s%s%s\n", config->card.name,
                     config->card.title[0] != '\0' ? ", " : "", config->card.title);
        print_lowered(&config->card);
    }
    for (uint32_t i = 0; i < uro_gid_index_count(config); i++) {
        const uint32_t own = uro_gid_index_own(config, i);
        (void)printf("  gid %-2u  %s/%u%s\n", i, uro_gid_text(&config->gids[own], text),
                     config->prefix[own],
                     uro_gid_index_is_v1(config, i) ? "  RoCE v1, not usable" : "");
    }
    if (config->loopback)
        (void)printf("  %s\n", uro_defaults_loopback_text(config, warning));
    if (config->left_out)
        (void)printf("  %s\n", uro_defaults_left_out_text(config, warning));
}

static struct uro_device *device_named(const char *name)
{
    for (struct uro_device *const *device = uro_host_devices(); *device != NULL; device++)
        if (strcmp(uro_device_config(*device)->name, name) == 0)
            return *device;
    return NULL;
}

static bool is_lone_default; /* no device is configured, so the default device is shown */

/* Prints the device. Returns whether it is usable. */
static bool show(const struct uro_device_config *config, bool probe)
{
    if (config->problem[0] != '\0') {
        (void)printf("%s  not usable: %s\n", config->name,
                     is_lone_default ? uro_run_default_problem(config) : config->problem);
        return false;
    }
    struct uro_device *device = probe ? device_named(config->name) : NULL;
    if (device == NULL) {
        print_config(config, "configured");
        return true;
    }
    if (uro_device_start(device) != 0) {
        (void)printf("%s  not usable: %s\n", config->name, uro_device_problem(device));
        return false;
    }
    print_config(config, uro_device_link_up(device) ? "link up" : "link down");
    return true;
}

/* Prints the configured devices. Returns the exit status. */
static int show_all(bool probe)
{
    bool usable = true;

    is_lone_default = uro_run_choose_default();
    if (is_lone_default)
        (void)printf("No device is configured. `uroce run` uses this default:\n");
    if (uro_run_warn_no_device("devices"))
        return 1;
    for (const struct uro_device_config *const *config = uro_host_config(); *config != NULL;
         config++)
        usable &= show(*config, probe);
    return usable ? 0 : 1;
}

int uro_app_devices(int argc, char **argv)
{
    static const struct option options[] = {
        { "probe", no_argument, NULL, 'p' }, { "links", no_argument, NULL, 'l' },
        { "cards", no_argument, NULL, 'c' }, { "card", required_argument, NULL, 'C' },
        { "help", no_argument, NULL, 'h' },  { NULL, 0, NULL, 0 }
    };
    const char *card = NULL;
    int option, chosen = 0;

    while ((option = uro_usage_option(argc, argv, "plcC:h", options)) != -1) {
        if (option == '?')
            return URO_USAGE_STATUS;
        if (option == 'h') {
            help();
            return 0;
        }
        if (chosen != 0 && chosen != option)
            return uro_usage_error(argv[0],
                                   "--probe, --links, --cards and --card exclude each other");
        chosen = option;
        if (option == 'C')
            card = optarg;
    }
    if (!uro_usage_no_words(argc, argv))
        return URO_USAGE_STATUS;
    if (chosen == 'C')
        return show_card(card);
    if (chosen != 'l' && chosen != 'c')
        return show_all(chosen == 'p');
    if (chosen == 'l')
        show_links();
    else
        show_cards();
    return 0;
}
