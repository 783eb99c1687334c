/* SPDX-License-Identifier: BSD-3-Clause */
/* devices.c - the list of devices of this process, read once. */
#define _GNU_SOURCE /* secure_getenv */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/config.h"
#include "host/device.h"
#include "host/fork.h"
#include "host/local.h"

#define GUID_MIDDLE 24 /* bits below the octets that an EUI-64 has between those of a MAC */

static struct uro_config config;
static struct uro_device *devices[URO_CONFIG_DEVICES_MAX + 1];
static const struct uro_device_config *entries[URO_CONFIG_DEVICES_MAX + 2];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_once_t complained = PTHREAD_ONCE_INIT;

static struct uro_device *make(const struct uro_device_config *from)
{
    struct uro_device *device = aligned_alloc(64, (sizeof *device + 63) & ~(size_t)63);

    if (device == NULL)
        return NULL;
    *device =
        (struct uro_device){ .config = *from, .generation = uro_fork_generation(), .doorbell = -1 };
    (void)pthread_mutex_init(&device->start_lock, NULL);
    (void)pthread_cond_init(&device->start_done, NULL);
    (void)pthread_mutex_init(&device->mutex, NULL);
    return device;
}

static bool guid_taken(uint64_t guid, uint32_t before)
{
    for (uint32_t i = 0; i < before; i++)
        if (config.entries[i].config.guid == guid)
            return true;
    return false;
}

/* Programs, and librdmacm for them, tell devices apart by their GUID. Devices may have one MAC: on several VLANs of an
 * interface, or on several addresses of it. */
static void choose_guid(uint32_t index)
{
    struct uro_device_config *entry = &config.entries[index].config;

    entry->guid = uro_guid_from_mac(&entry->mac);
    while (guid_taken(entry->guid, index))
        entry->guid += UINT64_C(1) << GUID_MIDDLE;
}

static void read_all(void)
{
    uint32_t count = 0;

    uro_fork_watch(devices); /* first: a device has a generation */
    uro_config_read(&config, secure_getenv("UROCE_DEVICES"), secure_getenv("UROCE_CONFIG"));
    uro_quota_set_process(config.process.config.most);
    for (uint32_t i = 0; i < config.count; i++) {
        const struct uro_device_config *entry = &config.entries[i].config;
        choose_guid(i);
        entries[i] = entry;
        if (entry->problem[0] != '\0')
            continue;
        devices[count] = make(entry);
        if (devices[count] != NULL)
            count++;
    }
}

struct uro_device *uro_device_again(struct uro_device *device)
{
    struct uro_device *again = make(&device->config);

    if (again == NULL)
        return device;
    again->before = device;
    return again;
}

/* To those who use devices; `uroce devices` shows problems itself. */
static void complain(void)
{
    char text[URO_HOST_LOOPBACK_MAX];

    (void)pthread_once(&once, read_all);
    for (const struct uro_device_config *const *entry = entries; *entry != NULL; entry++) {
        if ((*entry)->problem[0] != '\0')
            fprintf(stderr, "uroce: %s\n", (*entry)->problem);
        if ((*entry)->loopback)
            fprintf(stderr, "uroce: %s\n", uro_host_loopback_text(*entry, text));
        if ((*entry)->left_out && (*entry)->problem[0] == '\0')
            fprintf(stderr, "uroce: %s\n", uro_host_left_out_text(*entry, text));
    }
}

char *uro_host_loopback_text(const struct uro_device_config *entry,
                             char text[static URO_HOST_LOOPBACK_MAX])
{
    char address[URO_GID_TEXT_MAX];

    (void)snprintf(
        text, URO_HOST_LOOPBACK_MAX,
        "WARNING: %s has the address %s and reaches nothing but this machine, because no "
        "interface but lo has a usable address; give one an address, or write ip=%s to "
        "mean it",
        entry->name, uro_gid_text(&entry->gids[1], address), address);
    return text;
}

char *uro_host_left_out_text(const struct uro_device_config *entry,
                             char text[static URO_HOST_LEFT_OUT_MAX])
{
    (void)snprintf(text, URO_HOST_LEFT_OUT_MAX,
                   "WARNING: %s does not have all addresses of the machine or the interface: a "
                   "device has at most %u, and the machine's first %u are looked at; name those "
                   "that you need, ip=ADDRESS",
                   entry->name, URO_ENGINE_ADDRESSES_MAX - 1, URO_LOCAL_MAX);
    return text;
}

struct uro_device *const *uro_host_devices(void)
{
    (void)pthread_once(&complained, complain);
    return devices;
}

struct uro_device *const *uro_host_known(void)
{
    return devices;
}

const struct uro_device_config *const *uro_host_config(void)
{
    (void)pthread_once(&once, read_all);
    return entries;
}

uint32_t uro_device_interface(const struct uro_device *device)
{
    const char *at = strstr(device->config.link, ",iface=");
    char name[IF_NAMESIZE] = "";

    if (at == NULL || sscanf(at, ",iface=%15[^,]", name) != 1)
        return 0;
    return if_nametoindex(name);
}
