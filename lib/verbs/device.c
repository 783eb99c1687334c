/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - the list of devices: what is configured, as struct ibv_device, without starting it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/caller.h"
#include "verbs/fork.h"
#include "verbs/objects.h"
#include "wire/bytes.h"

static struct uro_ibv_device *devices; /* made once; pointers stay good for the process's life */
static int device_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;

static const char ops_of_ours[] = "uroce"; /* its address says: no provider's device */

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
    device->ops = ops_of_ours;
    device->reference_count = 1;
    device->host = host;
    uro_list_init(&device->contexts);
}

static void make_devices(void)
{
    struct uro_device *const *hosts = uro_host_devices();
    int count = 0;

    while (hosts[count] != NULL)
        count++;
    devices = calloc((size_t)count + 1, sizeof *devices);
    if (devices == NULL)
        return;
    for (int i = 0; i < count; i++)
        describe(&devices[i], hosts[i], i);
    device_count = count;
    uro_host_set_sink(&uro_ibv_sink);
    uro_ibv_watch_forks();
}

/* Of a device that had not started: a thread that is not here may hold them. */
static void renew_locks(struct uro_ibv_device *device)
{
    for (struct uro_link *at = device->contexts.head.next; at != &device->contexts.head;
         at = at->next)
        (void)pthread_mutex_init(&URO_CONTAINER_OF(at, struct uro_ibv_context, link)->lock, NULL);
}

/* The contexts of the device that was the parent's. One that was not closed stays the program's, and dead. */
static void again(struct uro_ibv_device *device, struct uro_device *host)
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
            uro_ibv_context_again(context, host);
    }
}

void uro_ibv_devices_again(void)
{
    struct uro_device *const *hosts = uro_host_known();

    for (int i = 0; i < device_count; i++)
        if (devices[i].host != hosts[i])
            again(&devices[i], hosts[i]);
        else
            renew_locks(&devices[i]);
}

struct uro_ibv_device *uro_ibv_device_of(const struct uro_device *device)
{
    for (int i = 0; i < device_count; i++)
        if (devices[i].host == device)
            return &devices[i];
    return NULL;
}

void uro_ibv_contexts_lock(void)
{
    pthread_mutex_lock(&contexts_lock);
}

void uro_ibv_contexts_unlock(void)
{
    pthread_mutex_unlock(&contexts_lock);
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
    pthread_once(&once, make_devices);
    uro_ibv_called_from(__builtin_return_address(0));

    struct ibv_device **list = calloc((size_t)device_count + 1, sizeof *list);
    if (list == NULL)
        errno = ENOMEM;
    for (int i = 0; list != NULL && i < device_count; i++)
        list[i] = &devices[i].ibv;
    if (num_devices != NULL)
        *num_devices = list != NULL ? device_count : 0;
    return list;
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
    return -1; /* the kernel knows no such device: netlink would confirm none */
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
