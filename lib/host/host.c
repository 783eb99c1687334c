/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c - the devices of this process, and the handlers of their events. The configuration is read
 * once. Programs may add and remove devices. */
#define _GNU_SOURCE /* secure_getenv */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/defaults.h"
#include "host/device.h"
#include "host/fork.h"

#define GUID_MIDDLE 24 /* position of the two bytes that an EUI-64 inserts into a MAC, in bits */

static struct uro_config config;

/* A list of devices. A list is never changed: a new list replaces it. A list is never freed,
 * because readers take no lock and may still use it. */
struct list {
    struct list *older;
    struct uro_device *devices[]; /* NULL-terminated */
};

static struct uro_device *configured[URO_CONFIG_DEVICES_MAX + 1];
static struct uro_device **_Atomic devices = configured;
static struct list *newest; /* current list, protected by list_lock; NULL: `configured` */
static const struct uro_device_config *entries[URO_CONFIG_DEVICES_MAX + 2];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_once_t printed = PTHREAD_ONCE_INIT;
/* Linked list of removed devices. Programs may still have contexts of these devices. */
static struct uro_device *removed;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* held to change the list */

static struct uro_device *make_engine(const struct uro_device_config *from)
{
    struct uro_device *device = aligned_alloc(64, (sizeof *device + 63) & ~(size_t)63);

    if (device == NULL)
        return NULL;
    *device = (struct uro_device){ .config = *from,
                                   .generation = uro_fork_generation(),
                                   .wake_fd = -1,
                                   .waiter_fd = -1,
                                   .signal_fd = -1,
                                   .stats = { .fd = -1 } };
    (void)pthread_mutex_init(&device->start_lock, NULL);
    (void)pthread_cond_init(&device->start_done, NULL);
    (void)pthread_mutex_init(&device->mutex, NULL);
    device->first_engine = device;
    return device;
}

/* Frees all engines of a device that no list has yet. */
static void discard(struct uro_device *device)
{
    while (device != NULL) {
        struct uro_device *next = device->next_engine;
        free(device);
        device = next;
    }
}

/* Makes a device with all its engines. Returns NULL when out of memory. */
static struct uro_device *make(const struct uro_device_config *from)
{
    struct uro_device *first = make_engine(from);
    struct uro_device *last = first;

    for (uint32_t i = 1; first != NULL && i < from->engines; i++) {
        last->next_engine = make_engine(from);
        if (last->next_engine == NULL) {
            discard(first);
            return NULL;
        }
        last = last->next_engine;
        last->first_engine = first;
        last->engine_index = i;
        if (from->cpu >= 0)
            last->config.cpu = from->cpu + (int)i;
    }
    return first;
}

/* Returns the GUID that is made from the MAC address. With like=, it has the vendor prefix of the
 * card. */
static uint64_t first_guid(const struct uro_device_config *entry)
{
    const uint64_t own = uro_guid_from_mac(&entry->mac);

    return uro_card_knows(&entry->card, URO_CARD_GUID_PREFIX)
               ? entry->card.numbers[URO_CARD_GUID_PREFIX] << 24 | (own & 0xffffff)
               : own;
}

static bool guid_taken(uint64_t guid, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (config.entries[i].config.guid == guid)
            return true;
    return false;
}

/* Chooses a GUID that no earlier device has, because librdmacm identifies devices by GUID. Several
 * devices may have the same MAC, if they are on VLANs or addresses of one interface. */
static void choose_guid(uint32_t index)
{
    struct uro_device_config *entry = &config.entries[index].config;

    entry->guid = first_guid(entry);
    while (guid_taken(entry->guid, index))
        entry->guid += UINT64_C(1) << GUID_MIDDLE;
}

static void lock_list(void)
{
    (void)pthread_mutex_lock(&list_lock);
}

static void unlock_list(void)
{
    (void)pthread_mutex_unlock(&list_lock);
}

static void read_all(void)
{
    static const struct uro_fork_part list = { lock_list, unlock_list, unlock_list };
    uint32_t count = 0;

    uro_fork_watch(configured); /* before make(), which uses the generation */
    uro_fork_join(URO_FORK_OUTER, &list);
    uro_config_read(&config, secure_getenv("UROCE_DEVICES"), secure_getenv("UROCE_CONFIG"));
    uro_quota_set_process(config.process.config.most);
    for (uint32_t i = 0; i < config.count; i++) {
        const struct uro_device_config *entry = &config.entries[i].config;
        choose_guid(i);
        entries[i] = entry;
        if (entry->problem[0] != '\0')
            continue;
        configured[count] = make(entry);
        if (configured[count] != NULL)
            count++;
    }
}

struct uro_device *uro_host_make_for_child(struct uro_device *device)
{
    struct uro_device *child = make(&device->config);

    if (child == NULL)
        return device;
    child->parent_device = device;
    return child;
}

/* Prints warnings about settings whose effect the user may not expect. */
static void warn(const struct uro_device_config *entry)
{
    char loopback[URO_DEFAULTS_LOOPBACK_MAX], left_out[URO_DEFAULTS_LEFT_OUT_MAX];

    if (entry->loopback)
        fprintf(stderr, "uroce: %s\n", uro_defaults_loopback_text(entry, loopback));
    if (entry->left_out && entry->problem[0] == '\0')
        fprintf(stderr, "uroce: %s\n", uro_defaults_left_out_text(entry, left_out));
}

/* ---- adding and removing ------------------------------------------------- */

static uint32_t count_devices(struct uro_device *const *list)
{
    uint32_t count = 0;

    while (list[count] != NULL)
        count++;
    return count;
}

static struct uro_device *find(const char *name)
{
    for (struct uro_device *const *device = uro_host_known(); *device != NULL; device++)
        if (strcmp((*device)->config.name, name) == 0)
            return *device;
    return NULL;
}

/* Replaces the list by a copy without the device @without and with the device @with at its end.
 * Each may be NULL. The list is locked. Returns 0 or -ENOMEM. */
static int replace(const struct uro_device *without, struct uro_device *with)
{
    struct uro_device *const *old = uro_host_known();
    struct list *list =
        malloc(sizeof *list + (count_devices(old) + 2) * sizeof(struct uro_device *));
    uint32_t count = 0;

    if (list == NULL)
        return -ENOMEM;
    for (; *old != NULL; old++)
        if (*old != without)
            list->devices[count++] = *old;
    if (with != NULL)
        list->devices[count++] = with;
    list->devices[count] = NULL;
    list->older = newest;
    newest = list;
    atomic_store(&devices, list->devices);
    uro_fork_watch_list(list->devices);
    return 0;
}

static bool guid_known(uint64_t guid)
{
    for (struct uro_device *const *device = uro_host_known(); *device != NULL; device++)
        if ((*device)->config.guid == guid)
            return true;
    for (const struct uro_device *gone = removed; gone != NULL; gone = gone->next_removed)
        if (gone->config.guid == guid)
            return true;
    return false;
}

/* Chooses a GUID that no device has or had, because librdmacm identifies devices by GUID even after
 * they were removed. */
static void choose_other_guid(struct uro_device_config *entry)
{
    entry->guid = first_guid(entry);
    while (guid_known(entry->guid))
        entry->guid += UINT64_C(1) << GUID_MIDDLE;
}

/* Adds a device at the end of the list. The list is locked. */
static int append(struct uro_device_config *entry, char *problem, size_t size)
{
    const uint32_t count = count_devices(uro_host_known());

    if (find(entry->name) != NULL) {
        (void)snprintf(problem, size, "%s: another device has this name; choose a different one",
                       entry->name);
        return -EEXIST;
    }
    if (count == URO_CONFIG_DEVICES_MAX) {
        (void)snprintf(problem, size,
                       "%s: the process has %u devices already, the most there can be; remove one",
                       entry->name, count);
        return -ENOSPC;
    }
    choose_other_guid(entry);
    struct uro_device *device = make(entry);
    int error = device != NULL ? replace(NULL, device) : -ENOMEM;
    if (error != 0) {
        (void)snprintf(problem, size, "%s: out of memory", entry->name);
        discard(device);
    }
    return error;
}

/* Reads @text, overwrites it, and adds the device. */
static int add(struct uro_config *one, const char *where, char *text, char *problem, size_t size)
{
    struct uro_device_config *entry = &one->entries[0].config;

    uro_config_read_one(one, where, text);
    if (entry->problem[0] != '\0') {
        (void)snprintf(problem, size, "%s", entry->problem);
        return -EINVAL;
    }
    lock_list();
    const int error = append(entry, problem, size);
    unlock_list();
    if (error == 0)
        warn(entry);
    return error;
}

int uro_host_add(const char *where, const char *text, char *problem, size_t size)
{
    struct uro_config *one = calloc(1, sizeof *one);
    char *copy = strdup(text);
    int error = -ENOMEM;

    (void)uro_host_devices();
    if (one != NULL && copy != NULL)
        error = add(one, where, copy, problem, size);
    else
        (void)snprintf(problem, size, "%s: out of memory", where);
    free(copy);
    free(one);
    return error;
}

int uro_host_remove(const char *name)
{
    int error;

    (void)uro_host_devices();
    lock_list();
    struct uro_device *device = find(name);
    if (device == NULL)
        error = -ENODEV;
    else if (uro_quota_in_use(device))
        error = -EBUSY;
    else
        error = replace(device, NULL);
    if (error == 0) {
        device->next_removed = removed;
        removed = device;
    }
    unlock_list();
    if (error == 0)
        uro_device_end(device);
    return error;
}

struct uro_device *uro_host_find(const char *name)
{
    (void)uro_host_devices();
    return find(name);
}

/* Prints problems and warnings when a program first lists its devices. `uroce devices` shows them
 * itself. */
static void print_problems(void)
{
    (void)pthread_once(&once, read_all);
    for (const struct uro_device_config *const *entry = entries; *entry != NULL; entry++) {
        if ((*entry)->problem[0] != '\0')
            fprintf(stderr, "uroce: %s\n", (*entry)->problem);
        warn(*entry);
    }
}

struct uro_device *const *uro_host_devices(void)
{
    (void)pthread_once(&printed, print_problems);
    return uro_host_known();
}

struct uro_device *const *uro_host_known(void)
{
    return atomic_load_explicit(&devices, memory_order_acquire);
}

const struct uro_device_config *const *uro_host_config(void)
{
    (void)pthread_once(&once, read_all);
    return entries;
}

/* ---- event handlers --------------------------------------------------------- */

static void ignore_engine(struct uro_device *device, const struct uro_event *event)
{
    (void)device;
    (void)event;
}

static void ignore_port(struct uro_device *device, enum uro_port_event event)
{
    (void)device;
    (void)event;
}

static const struct uro_event_handlers ignore_all = { ignore_engine, ignore_port };
static const struct uro_event_handlers *_Atomic event_handlers = &ignore_all;

void uro_host_set_event_handlers(const struct uro_event_handlers *handlers)
{
    atomic_store(&event_handlers, handlers != NULL ? handlers : &ignore_all);
}

const struct uro_event_handlers *uro_host_event_handlers(void)
{
    return atomic_load_explicit(&event_handlers, memory_order_acquire);
}

static const struct uro_conn_handlers *_Atomic conn_handlers;

void uro_host_set_conn_handlers(const struct uro_conn_handlers *handlers)
{
    atomic_store(&conn_handlers, handlers);
}

const struct uro_conn_handlers *uro_host_conn_handlers(void)
{
    return atomic_load_explicit(&conn_handlers, memory_order_acquire);
}
