/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - the list of configured devices as struct ibv_device. Listing starts no device. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/fork.h"
#include "verbs/objects.h"
#include "wire/bytes.h"

/* All devices that were ever listed. Programs and librdmacm keep pointers to removed devices. So no
 * device is freed, and the list only grows at its head. */
static struct uro_ibv_device *_Atomic devices;
static int device_count; /* protected by the contexts lock, as additions to the list are */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

static const char our_ops[] =
    "uroce"; /* the address of this string differs from the `ops` of all other providers */

static_assert(offsetof(struct uro_ibv_device, ops) == sizeof(struct ibv_device),
              "providers read the word behind struct ibv_device");

static void describe(struct uro_ibv_device *device, struct uro_device *host, int index)
{
    struct ibv_device *ibv = &device->ibv;

    ibv->node_type = IBV_NODE_CA;
    ibv->transport_type = IBV_TRANSPORT_IB;
    snprintf(ibv->name, sizeof ibv->name, "%s", uro_device_config(host)->name);
    snprintf(ibv->dev_name, sizeof ibv->dev_name, "uverbs%d", index);
    snprintf(ibv->dev_path, sizeof ibv->dev_path, "/sys/class/infiniband_verbs/%s", ibv->dev_name);
    snprintf(ibv->ibdev_path, sizeof ibv->ibdev_path, "/sys/class/infiniband/%s", ibv->name);
    device->ops = our_ops;
    device->reference_count = 1;
    device->host = host;
    uro_list_init(&device->contexts);
}

static void begin(void)
{
    (void)uro_host_devices();
    uro_host_set_event_handlers(&uro_ibv_event_handlers);
    uro_ibv_watch_fork();
}

static struct uro_ibv_device *first(void)
{
    return atomic_load_explicit(&devices, memory_order_acquire);
}

/* Returns the verbs device of @host, and creates it at the first call. Returns NULL when out of
 * memory. */
static struct uro_ibv_device *list(struct uro_device *host)
{
    uro_ibv_contexts_lock();
    struct uro_ibv_device *device = uro_ibv_device_of(host);
    if (device == NULL && (device = calloc(1, sizeof *device)) != NULL) {
        describe(device, host, device_count++);
        device->next = first();
        atomic_store_explicit(&devices, device, memory_order_release);
    }
    uro_ibv_contexts_unlock();
    return device;
}

/* Initializes the context locks of a device that had not started, because a thread of the parent
 * may have held them at the fork. */
static void renew_locks(struct uro_ibv_device *device)
{
    for (struct uro_link *link = device->contexts.head.next; link != &device->contexts.head;
         link = link->next)
        (void)pthread_mutex_init(&URO_CONTAINER_OF(link, struct uro_ibv_context, link)->lock, NULL);
}

/* Attaches the device to its replacement @host. Kept contexts are reset. The program can only
 * close the other contexts. */
static void replace_host(struct uro_ibv_device *device, struct uro_device *host)
{
    struct uro_list contexts;
    struct uro_link *link;

    uro_list_init(&contexts);
    while ((link = uro_list_pop(&device->contexts)) != NULL)
        uro_list_append(&contexts, link);
    device->host = host;
    atomic_store(&device->dm_used, 0);
    while ((link = uro_list_pop(&contexts)) != NULL) {
        struct uro_ibv_context *context = URO_CONTAINER_OF(link, struct uro_ibv_context, link);
        if (context->kept)
            uro_ibv_reset_context(context, host);
    }
}

/* Returns the device that replaces @before in a forked child, or @before. */
static struct uro_device *replacement(struct uro_device *before)
{
    for (struct uro_device *const *host = uro_host_known(); *host != NULL; host++)
        if (uro_device_of_parent(*host) == before)
            return *host;
    return before;
}

void uro_ibv_replace_devices(void)
{
    for (struct uro_ibv_device *device = first(); device != NULL; device = device->next) {
        struct uro_device *host = replacement(device->host);
        if (host != device->host)
            replace_host(device, host);
        else
            renew_locks(device);
    }
}

struct uro_ibv_device *uro_ibv_device_of(const struct uro_device *device)
{
    struct uro_ibv_device *ibv = first();

    while (ibv != NULL && ibv->host != device)
        ibv = ibv->next;
    return ibv;
}

void uro_ibv_contexts_lock(void)
{
    pthread_mutex_lock(&contexts_lock);
}

void uro_ibv_contexts_unlock(void)
{
    pthread_mutex_unlock(&contexts_lock);
}

static void (*call_observer)(const void *caller);

void uro_ibv_set_call_observer(void (*observer)(const void *caller))
{
    call_observer = observer;
}

void uro_ibv_report_call(const void *caller)
{
    if (call_observer != NULL)
        call_observer(caller);
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    pthread_once(&once, begin);
    uro_ibv_report_call(__builtin_return_address(0));

    struct ibv_device **all = calloc(URO_CONFIG_DEVICES_MAX + 1u, sizeof(struct ibv_device *));
    int count = 0;
    if (all == NULL)
        errno = ENOMEM;
    for (struct uro_device *const *host = uro_host_known(); all != NULL && *host != NULL; host++) {
        struct uro_ibv_device *device = count < (int)URO_CONFIG_DEVICES_MAX ? list(*host) : NULL;
        if (device != NULL)
            all[count++] = &device->ibv;
    }
    if (num_devices != NULL)
        *num_devices = count;
    return all;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int ibv_get_device_index(struct ibv_device *device)
{
    (void)device;
    return -1; /* the kernel does not have this device */
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
    const struct uro_device_config *config = uro_device_config(uro_ibv_device(device)->host);
    uint8_t octets[8];
    __be64 guid;

    uro_put_be64(octets, config->guid);
    memcpy(&guid, octets, sizeof guid);
    return guid;
}
