/* SPDX-License-Identifier: BSD-3-Clause */
/* entry_keys.c - parses the values of keys; entry_keys.h has the grammar. There is one table of
 * keys, and a function for each kind of value. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "config/entry_keys.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "config/plugin.h"
#include "core/limits.h"
#include "impair/plan.h"
#include "io/common/link_options.h"
#include "stats/link_rate.h"

#define CPU_MAX             1023u
#define MEMORY_MAX          1048576u
#define VALUE_MAX           1024u
#define QP_MAX              1048560u /* the value of Linux rxe */
#define OBJECT_MAX          1048576u
#define CONN_DEFAULT        100000u
#define MEBIBYTE            1048576u
#define PREFIX_IPV4_DEFAULT 24u
#define PREFIX_IPV6_DEFAULT 64u

/* Reads @value into @config. Returns NULL, or the rule that the value violates. */
typedef const char *set_fn(struct uro_device_config *config, const char *value);

void uro_entry_refuse(struct uro_entry *entry, const char *where, const char *format, ...)
{
    struct uro_device_config *config = &entry->config;
    if (config->problem[0] != '\0')
        return;

    int used = snprintf(config->problem, sizeof config->problem, "%s (%s): ", where, config->name);
    if (used < 0 || (size_t)used >= sizeof config->problem)
        return;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(config->problem + used, sizeof config->problem - (size_t)used, format,
                    arguments);
    va_end(arguments);
    (void)uro_utf8_mask(config->problem);
}

/* ---- pieces of text ------------------------------------------------------- */

char *uro_entry_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Returns whether @text is a device name: a letter, then letters, digits, _ and -, with fewer than
 * @size characters. */
static bool is_name(const char *text, size_t size)
{
    if (!isalpha((unsigned char)text[0]) || strlen(text) >= size)
        return false;
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && *text != '_' && *text != '-')
            return false;
    return true;
}

/* Parses @text as a decimal number, or with 0x as a hexadecimal number. */
static bool parse_number(const char *text, uint64_t *number)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    char *end;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    *number = strtoull(text, &end, hex ? 16 : 10);
    return errno == 0 && *end == '\0' && end > text + (hex ? 2 : 0);
}

/* Finds @text in the NULL-terminated @choices. */
static bool find_choice(const char *text, const char *const *choices, uint32_t *index)
{
    for (uint32_t i = 0; choices[i] != NULL; i++) {
        if (strcmp(text, choices[i]) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* Parses a unicast address, IPv4 or IPv6. */
static bool parse_address(const char *text, struct uro_gid *gid)
{
    static const uint8_t any[4];

    if (!uro_gid_parse(text, gid) || uro_gid_is_zero(gid) || uro_gid_is_multicast(gid))
        return false;
    const uint8_t *v4 = &gid->octets[12];
    return !uro_gid_is_ipv4(gid) || (memcmp(v4, any, sizeof any) != 0 && v4[0] < 240);
}

/* Parses "10.0.0.1/24" or "fd00::1/64"; the default length is 24 or 64. Returns NULL, or the
 * problem. */
static const char *parse_subnet(const char *text, struct uro_gid *gid, uint8_t *prefix)
{
    char address[URO_GID_TEXT_MAX];
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
    uint64_t bits;

    if (length >= sizeof address)
        return "must be an address such as 10.0.0.1/24 or fd00::1/64";
    memcpy(address, text, length);
    address[length] = '\0';
    if (!parse_address(address, gid))
        return "must be an address such as 10.0.0.1/24 or fd00::1/64";
    bool v4 = uro_gid_is_ipv4(gid);
    bits = v4 ? PREFIX_IPV4_DEFAULT : PREFIX_IPV6_DEFAULT;
    if (slash != NULL && (!parse_number(slash + 1, &bits) || bits == 0 || bits > (v4 ? 32u : 128u)))
        return v4 ? "the prefix length must be from 1 to 32"
                  : "the prefix length must be from 1 to 128";
    *prefix = (uint8_t)bits;
    return NULL;
}

const char *uro_entry_expand(const char *text, char *out, size_t size)
{
    size_t used = 0;

    while (*text != '\0') {
        const char *piece = text;
        size_t length = 1;
        char name[64];
        if (text[0] == '%' && text[1] == '{') {
            const char *end = strchr(text, '}');
            if (end == NULL || (size_t)(end - text) - 2 >= sizeof name)
                return "%{ without a } that closes it";
            memcpy(name, text + 2, (size_t)(end - text) - 2);
            name[end - text - 2] = '\0';
            piece = getenv(name);
            if (piece == NULL)
                return "names an environment variable that is not set";
            length = strlen(piece);
            text = end;
        }
        if (used + length >= size)
            return "is too long";
        memcpy(out + used, piece, length);
        used += length;
        text++;
    }
    out[used] = '\0';
    return NULL;
}

/* ---- values of keys ------------------------------------------------------- */

static const char *set_text(char *out, size_t size, const char *value)
{
    if (value[0] == '\0')
        return "must not be empty";
    if (strlen(value) >= size)
        return "must be at most 255 characters";
    memcpy(out, value, strlen(value) + 1);
    return NULL;
}

static const char *set_link(struct uro_device_config *config, const char *value)
{
    if (value[0] == ',')
        return "must begin with a driver, such as net_memif0,role=server,socket=/run/a.sock";
    return set_text(config->link, sizeof config->link, value);
}

/* Returns whether @text is a net such as 10.44.0.0/24: no bit after the prefix is set. */
static bool is_net(const char *text, const struct uro_gid *gid, unsigned prefix)
{
    const unsigned bits = prefix + (uro_gid_is_ipv4(gid) ? 96u : 0u);

    if (strchr(text, '/') == NULL || bits == 128)
        return false;
    for (unsigned bit = bits; bit < 128; bit++)
        if ((gid->octets[bit / 8] >> (7 - bit % 8) & 1) != 0)
            return false;
    return true;
}

static const char *add_address(struct uro_device_config *config, const char *text)
{
    struct uro_gid gid;
    uint8_t prefix;

    const char *wrong = parse_subnet(text, &gid, &prefix);
    if (wrong != NULL)
        return wrong;
    for (uint32_t i = 1; i < config->gid_count; i++)
        if (uro_gid_equal(&gid, &config->gids[i]))
            return "the same address is given twice";
    if (config->gid_count == URO_ENGINE_ADDRESSES_MAX)
        return "a device has at most 15 addresses";
    config->gids[config->gid_count] = gid;
    config->prefix[config->gid_count] = prefix;
    if (is_net(text, &gid, prefix))
        config->ip_nets |= UINT32_C(1) << config->gid_count;
    config->gid_count++;
    return NULL;
}

static const char *set_ip(struct uro_device_config *config, const char *value)
{
    char copy[VALUE_MAX];
    char *rest = copy, *item;

    (void)snprintf(copy, sizeof copy, "%s", value);
    while ((item = strsep(&rest, ",")) != NULL) {
        item = uro_entry_trim(item);
        config->ip_auto |= strcmp(item, "auto") == 0;
        const char *wrong = strcmp(item, "auto") == 0 ? NULL : add_address(config, item);
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static const char *set_gateway(struct uro_device_config *config, const char *value)
{
    if (!parse_address(value, &config->gateway4) || !uro_gid_is_ipv4(&config->gateway4))
        return "must be an IPv4 address such as 10.0.0.254";
    return NULL;
}

static const char *set_gateway6(struct uro_device_config *config, const char *value)
{
    if (!parse_address(value, &config->gateway6) || uro_gid_is_ipv4(&config->gateway6))
        return "must be an IPv6 address such as 2001:db8::1";
    return NULL;
}

static const char *set_mac(struct uro_device_config *config, const char *value)
{
    static const struct uro_mac zero;

    if (!uro_mac_parse(value, &config->mac) || (config->mac.octets[0] & 1) != 0 ||
        memcmp(&config->mac, &zero, sizeof zero) == 0)
        return "must be a unicast address such as 02:00:00:00:00:01";
    return NULL;
}

static const char *set_number(uint32_t *out, const char *value, uint32_t min, uint32_t max,
                              const char *rule)
{
    uint64_t number;

    if (!parse_number(value, &number) || number < min || number > max)
        return rule;
    *out = (uint32_t)number;
    return NULL;
}

static const char *set_mtu(struct uro_device_config *config, const char *value)
{
    return set_number(&config->mtu, value, URO_PORT_MTU_MIN, URO_PORT_MTU_MAX,
                      "must be a number from 576 to 9600");
}

static const char *set_rate(struct uro_device_config *config, const char *value)
{
    const struct uro_link_rate *rate = uro_link_rate_parse(value);

    if (rate == NULL)
        return "must be a number of Gb/s: 2.5, 5, 10, 20, 25, 40, 50, 56, 100, 200, 400 or 800";
    config->speed = rate->speed;
    return NULL;
}

static const char *set_vlan(struct uro_device_config *config, const char *value)
{
    return set_number(&config->vlan, value, 1, URO_VLAN_MAX, "must be a number from 1 to 4094");
}

static const char *set_vendor_part_id(struct uro_device_config *config, const char *value)
{
    return set_number(&config->vendor_part_id, value, 0, UINT32_MAX,
                      "must be a number of at most 32 bits, such as 4119");
}

static const char *set_window(struct uro_device_config *config, const char *value)
{
    return set_number(&config->window, value, 1, URO_WINDOW_MAX,
                      "must be a number of packets from 1 to 65536");
}

/* Returns the number of processors that this process may use, at most URO_ENGINES_MAX. */
static uint32_t processors(void)
{
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;

    return count < (int)URO_ENGINES_MAX ? (uint32_t)count : URO_ENGINES_MAX;
}

static const char *set_engines(struct uro_device_config *config, const char *value)
{
    config->engines_auto = strcmp(value, "auto") == 0;
    config->engines = processors();
    return config->engines_auto ? NULL
                                : set_number(&config->engines, value, 1, URO_ENGINES_MAX,
                                             "must be auto or a number from 1 to 16");
}

static const char *set_retry_7(struct uro_device_config *config, const char *value)
{
    static const char *const choices[] = { "seven", "forever", NULL };
    uint32_t index;

    if (!find_choice(value, choices, &index))
        return "must be forever or seven";
    config->retry_7_forever = index == 1;
    return NULL;
}

static const char *set_progress(struct uro_device_config *config, const char *value)
{
    static const char *const choices[] = { [URO_PROGRESS_HYBRID] = "hybrid",
                                           [URO_PROGRESS_THREAD] = "thread",
                                           [URO_PROGRESS_CALLER] = "caller",
                                           NULL };
    uint32_t index;

    if (!find_choice(value, choices, &index))
        return "must be hybrid, thread or caller";
    config->progress = (enum uro_progress_mode)index;
    return NULL;
}

static const char *set_cpu(struct uro_device_config *config, const char *value)
{
    uint32_t cpu;

    const char *wrong =
        set_number(&cpu, value, 0, CPU_MAX, "must be the number of a CPU, from 0 to 1023");
    if (wrong == NULL)
        config->cpu = (int)cpu;
    return wrong;
}

static const char *set_pcap(struct uro_device_config *config, const char *value)
{
    return set_text(config->pcap, sizeof config->pcap, value);
}

static const char *set_impair(struct uro_device_config *config, const char *value)
{
    static _Thread_local char text[URO_IMPAIR_ERROR_MAX];
    const char *wrong = value[0] == '\0' ? "must not be empty; write off for a link without faults"
                        : strlen(value) >= sizeof config->impair
                            ? "is too long; write a longer plan to a file, and impair=@FILE"
                            : uro_impair_plan_check(value, text);

    if (wrong == NULL)
        memcpy(config->impair, value, strlen(value) + 1);
    return wrong;
}

static const char *set_fail(struct uro_device_config *config, const char *value)
{
    static _Thread_local char error[URO_INJECT_ERROR_MAX];

    return uro_inject_parse(&config->fail, value, error);
}

static const char *set_trace(struct uro_device_config *config, const char *value)
{
    return set_text(config->trace, sizeof config->trace, value);
}

static const char *set_like(struct uro_device_config *config, const char *value)
{
    static _Thread_local char error[URO_CARD_ERROR_MAX];

    return uro_card_read(&config->card, value, error);
}

static const char *set_seed(struct uro_device_config *config, const char *value)
{
    if (!parse_number(value, &config->seed) || config->seed == 0)
        return "must be a number of at most 64 bits, not 0";
    return NULL;
}

static const char *set_memory(struct uro_device_config *config, const char *value)
{
    return set_number(&config->memory_mib, value, 1, MEMORY_MAX,
                      "must be a number of mebibytes from 1 to 1048576");
}

static const char *set_yes(bool *out, const char *value)
{
    static const char *const choices[] = { "no", "yes", "0", "1", NULL };
    uint32_t index;

    if (!find_choice(value, choices, &index))
        return "must be yes or no";
    *out = index % 2 == 1;
    return NULL;
}

static const char *set_verbose(struct uro_device_config *config, const char *value)
{
    return set_yes(&config->verbose, value);
}

static const char *set_telemetry(struct uro_device_config *config, const char *value)
{
    return set_yes(&config->telemetry, value);
}

/* Adds arguments for DPDK's EAL. The key may be repeated, because a word of UROCE_DEVICES has no
 * spaces. */
static const char *set_eal(struct uro_device_config *config, const char *value)
{
    const size_t used = strlen(config->eal);

    if (value[0] == '\0')
        return "must not be empty";
    if (used + 1 + strlen(value) >= sizeof config->eal)
        return "all arguments together must have less than 511 characters";
    (void)snprintf(config->eal + used, sizeof config->eal - used, "%s%s", used > 0 ? " " : "",
                   value);
    return NULL;
}

static const char *set_hugepages(struct uro_device_config *config, const char *value)
{
    static const char *const choices[] = {
        [URO_HUGEPAGES_AUTO] = "auto", [URO_HUGEPAGES_YES] = "yes", [URO_HUGEPAGES_NO] = "no", NULL
    };
    uint32_t index;

    if (!find_choice(value, choices, &index))
        return "must be auto, yes or no";
    config->hugepages = (enum uro_port_hugepages)index;
    return NULL;
}

static const char *set_log(struct uro_device_config *config, const char *value)
{
    static const char *const choices[] = {
        [URO_LOG_NONE] = "none", [URO_LOG_ERRORS] = "errors", [URO_LOG_ALL] = "all", NULL
    };
    uint32_t index;

    if (!find_choice(value, choices, &index))
        return "must be none, errors or all";
    config->log = (enum uro_log_level)index;
    return NULL;
}

static const char *set_quota(struct uro_device_config *config, enum uro_quota quota,
                             const char *value)
{
    uint64_t number;

    if (quota == URO_QUOTA_MEMORY) {
        if (!parse_number(value, &number) || number > UINT64_MAX / MEBIBYTE)
            return "must be a number of mebibytes";
        config->most[quota] = number * MEBIBYTE;
        return NULL;
    }
    uint32_t most = quota == URO_QUOTA_QP ? QP_MAX : OBJECT_MAX;
    if (!parse_number(value, &number) || number > most)
        return quota == URO_QUOTA_QP ? "must be a number from 0 to 1048560"
                                     : "must be a number from 0 to 1048576";
    config->most[quota] = number;
    return NULL;
}

/* Sets the default quotas of a device. */
static void set_default_quotas(struct uro_device_config *config)
{
    for (unsigned quota = 0; quota < URO_QUOTA_COUNT; quota++)
        config->most[quota] = OBJECT_MAX;
    config->most[URO_QUOTA_QP] = QP_MAX;
    config->most[URO_QUOTA_CONN] = CONN_DEFAULT;
    config->most[URO_QUOTA_MEMORY] = UINT64_MAX;
}

static const struct key {
    const char *name;
    set_fn *set; /* NULL: set_quota() */
    bool repeats;
    enum uro_quota quota;
} keys[] = { { "link", set_link, .repeats = false },
             { "ip", set_ip, .repeats = true },
             { "gateway", set_gateway, .repeats = false },
             { "gateway6", set_gateway6, .repeats = false },
             { "mac", set_mac, .repeats = false },
             { "mtu", set_mtu, .repeats = false },
             { "rate", set_rate, .repeats = false },
             { "vlan", set_vlan, .repeats = false },
             { "vendor_part_id", set_vendor_part_id, .repeats = false },
             { "window", set_window, .repeats = false },
             { "engines", set_engines, .repeats = false },
             { "retry_7", set_retry_7, .repeats = false },
             { "progress", set_progress, .repeats = false },
             { "cpu", set_cpu, .repeats = false },
             { "pcap", set_pcap, .repeats = false },
             { "impair", set_impair, .repeats = false },
             { "trace", set_trace, .repeats = false },
             { "fail", set_fail, .repeats = false },
             { "like", set_like, .repeats = false },
             { "seed", set_seed, .repeats = false },
             { "memory", set_memory, .repeats = false },
             { "verbose", set_verbose, .repeats = false },
             { "telemetry", set_telemetry, .repeats = false },
             { "eal", set_eal, .repeats = true },
             { "hugepages", set_hugepages, .repeats = false },
             { "log", set_log, .repeats = false },
#define X(id, key, text) { key, .quota = URO_QUOTA_##id },
             URO_QUOTAS(X)
#undef X
};
static_assert(URO_ARRAY_LEN(keys) <= 64, "entry.given has a bit for each key");

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(keys); i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

/* Returns whether the entry may have the key: "*" has only quotas. */
static bool is_known(const struct uro_entry *entry, const struct key *key)
{
    return key->set == NULL || !entry->process;
}

static void refuse_unknown_key(struct uro_entry *entry, const char *where, const char *name)
{
    char known[400] = "";

    for (size_t i = 0; i < URO_ARRAY_LEN(keys); i++) {
        size_t used = strlen(known);
        if (is_known(entry, &keys[i]))
            (void)snprintf(known + used, sizeof known - used, " %s", keys[i].name);
    }
    uro_entry_refuse(entry, where, "unknown key \"%.40s\"; known:%s", name, known);
}

void uro_entry_begin(struct uro_entry *entry, const char *where, const char *name)
{
    *entry = (struct uro_entry){
        .config = { .cpu = -1, .gid_count = 1, .engines = 1, .log = URO_LOG_ERRORS }
    };
    (void)snprintf(entry->where, sizeof entry->where, "%s", where);
    (void)snprintf(entry->config.name, sizeof entry->config.name, "%s", name);
    entry->config.prefix[0] = 64;
    set_default_quotas(&entry->config);
    if (is_name(name, sizeof entry->config.name))
        return;
    uro_entry_refuse(entry, where,
                     "the name \"%.40s\" must be 1 to 31 letters, digits, _ or -, and begin "
                     "with a letter; write NAME:LINK[;key=value]..., for example uroce0:udp",
                     name);
    (void)uro_utf8_mask(entry->config.name);
}

void uro_entry_begin_process(struct uro_entry *entry)
{
    *entry = (struct uro_entry){ .config = { .name = "*" }, .process = true };
    for (unsigned quota = 0; quota < URO_QUOTA_COUNT; quota++)
        entry->config.most[quota] = UINT64_MAX;
}

void uro_entry_set(struct uro_entry *entry, const char *where, const char *key, const char *value)
{
    char expanded[VALUE_MAX];

    if (entry->config.problem[0] != '\0')
        return;
    const struct key *k = find_key(key);
    if (k == NULL || !is_known(entry, k)) {
        refuse_unknown_key(entry, where, key);
        return;
    }
    uint64_t bit = UINT64_C(1) << (k - keys);
    if ((entry->given & bit) != 0 && !k->repeats) {
        uro_entry_refuse(entry, where, "%s= is given twice", key);
        return;
    }
    entry->given |= bit;
    const char *wrong = uro_entry_expand(value, expanded, sizeof expanded);
    if (wrong == NULL)
        wrong = k->set != NULL ? k->set(&entry->config, expanded)
                               : set_quota(&entry->config, k->quota, expanded);
    if (wrong != NULL)
        uro_entry_refuse(entry, where, "%s=%.80s: %s", key, value, wrong);
}

static bool in_a_subnet(const struct uro_device_config *config, const struct uro_gid *gateway)
{
    if (uro_gid_is_zero(gateway) || uro_gid_is_link_local(gateway))
        return true;
    for (uint32_t i = 1; i < config->gid_count; i++) {
        unsigned bits = config->prefix[i] + (uro_gid_is_ipv4(&config->gids[i]) ? 96u : 0u);
        if (uro_gid_same_subnet(gateway, &config->gids[i], bits))
            return true;
    }
    return false;
}

/* Refuses the keys of DPDK in the entry of another link. */
static void check_dpdk_keys(struct uro_entry *entry)
{
    const struct uro_device_config *config = &entry->config;
    const char *key = config->eal[0] != '\0'                    ? "eal"
                      : config->hugepages != URO_HUGEPAGES_AUTO ? "hugepages"
                      : config->telemetry                       ? "telemetry"
                                                                : NULL;

    if (key != NULL && config->driver != NULL &&
        !uro_port_driver_has(config->driver, URO_DRIVER_DPDK))
        uro_entry_refuse(entry, entry->where, "%s=: only for DPDK links, and %s is not one", key,
                         config->driver->prefix);
}

/* Returns why the device can have only one engine, or NULL. */
static const char *one_engine_reason(const struct uro_device_config *config)
{
    const char *hub = strstr(config->link, ",hub=no");

    /* Such engines copy frames for each other, which is slower for most programs. */
    if (config->engines_auto && config->driver != NULL &&
        !uro_port_driver_has(config->driver, URO_DRIVER_ENGINES))
        return "the engines have one port";
    if (hub != NULL && (hub[7] == '\0' || hub[7] == ','))
        return "several engines share the address, which hub=no forbids";
    if (config->progress == URO_PROGRESS_CALLER)
        return "each engine needs its service thread, which progress=caller forbids";
    if (config->pcap[0] != '\0')
        return "pcap= captures only one engine";
    if (config->impair[0] != '\0')
        return "impair= works with only one engine";
    for (uint32_t i = 0; i < config->fail.count; i++)
        if (config->fail.rules[i].call == URO_INJECT_CALL_RNR)
            return "fail=rnr counts the messages of only one engine";
    return NULL;
}

static void check_engines(struct uro_entry *entry)
{
    struct uro_device_config *config = &entry->config;
    const char *reason = config->engines > 1 ? one_engine_reason(config) : NULL;

    if (reason != NULL && config->engines_auto)
        config->engines = 1;
    else if (reason != NULL)
        uro_entry_refuse(entry, entry->where, "engines=%u: %s; use engines=1", config->engines,
                         reason);
}

/* Finds the driver of the link, and checks the link's options by the table of the driver. */
static void find_driver(struct uro_entry *entry)
{
    struct uro_device_config *config = &entry->config;
    char error[URO_PORT_ERROR_MAX];

    if (config->link[0] == '\0') {
        uro_entry_refuse(entry, entry->where, "the link is missing; add one such as link=udp");
        return;
    }
    config->driver = uro_plugin_find(config->link, error);
    if (config->driver == NULL ||
        uro_link_options_read(config->driver, config->link, NULL, NULL, error) != 0)
        uro_entry_refuse(entry, entry->where, "%s", error);
}

/* Lowers the quotas to the limits of the card. Sets its rate and part number unless the entry has
 * them. */
static void apply_card(struct uro_device_config *config)
{
    static const struct {
        enum uro_quota quota;
        enum uro_card_number number;
    } limits[] = {
        { URO_QUOTA_QP, URO_CARD_MAX_QP },   { URO_QUOTA_CQ, URO_CARD_MAX_CQ },
        { URO_QUOTA_SRQ, URO_CARD_MAX_SRQ }, { URO_QUOTA_MR, URO_CARD_MAX_MR },
        { URO_QUOTA_MW, URO_CARD_MAX_MW },   { URO_QUOTA_PD, URO_CARD_MAX_PD },
        { URO_QUOTA_AH, URO_CARD_MAX_AH },
    };
    const struct uro_card *card = &config->card;

    for (size_t i = 0; i < URO_ARRAY_LEN(limits); i++) {
        uint64_t *most = &config->most[limits[i].quota];
        *most = uro_card_limit(card, limits[i].number, *most);
    }
    if (config->speed == 0)
        config->speed = card->speed;
    if (config->vendor_part_id == 0)
        config->vendor_part_id = (uint32_t)uro_card_value(card, URO_CARD_VENDOR_PART_ID, 0);
}

void uro_entry_finish(struct uro_entry *entry)
{
    const struct uro_device_config *config = &entry->config;
    const struct uro_gid *gateways[] = { &config->gateway4, &config->gateway6 };
    char text[URO_GID_TEXT_MAX];

    find_driver(entry);
    check_dpdk_keys(entry);
    check_engines(entry);
    apply_card(&entry->config);
    if (config->trace[0] != '\0' && config->impair[0] == '\0')
        uro_entry_refuse(entry, entry->where,
                         "trace=%.80s: needs impair=, whose fates it records; add impair=off to "
                         "record a link without faults",
                         config->trace);
    const bool of_kernel =
        config->driver != NULL && uro_port_driver_has(config->driver, URO_DRIVER_KERNEL_ADDRESSES);
    if (config->ip_auto && !of_kernel)
        uro_entry_refuse(entry, entry->where,
                         "ip=auto: works only with link=udp; write an address");
    if (config->vlan != 0 && of_kernel)
        uro_entry_refuse(entry, entry->where,
                         "vlan=%u: not for a link over UDP; use an address of the kernel's "
                         "interface for that VLAN",
                         config->vlan);
    for (size_t i = 0; i < URO_ARRAY_LEN(gateways); i++)
        if (!uro_gid_is_zero(gateways[i]) && of_kernel)
            uro_entry_refuse(entry, entry->where,
                             "gateway%s=%s: not for a link over UDP, which uses the kernel's "
                             "routes; see `ip route`",
                             i == 0 ? "" : "6", uro_gid_text(gateways[i], text));
    if (config->vlan != 0 && config->gid_count < 2)
        uro_entry_refuse(
            entry, entry->where,
            "vlan=%u: needs ip=, because the interface's own addresses are not in the VLAN",
            config->vlan);
    for (size_t i = 0; i < URO_ARRAY_LEN(gateways); i++)
        if (config->gid_count > 1 && !in_a_subnet(config, gateways[i]))
            uro_entry_refuse(entry, entry->where,
                             "gateway%s=%s: must be in the subnet of an ip=", i == 0 ? "" : "6",
                             uro_gid_text(gateways[i], text));
}
