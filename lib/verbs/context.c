/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c - contexts, and the lifetime of their objects.
 *
 * Closing a context detaches its remaining objects from the engine, as the kernel does when the
 * descriptor is closed. No packet touches the program's memory afterwards. The structs of these
 * objects stay allocated, so that a program may destroy them later.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/fork.h"
#include "verbs/inject.h"
#include "verbs/newer.h"

/* Fills in the operations that programs call through the context. For a NULL entry, verbs.h returns
 * EOPNOTSUPP. */
static void fill_operations(struct verbs_context *verbs, const struct uro_device *device)
{
    verbs->create_cq_ex = uro_ibv_create_cq_ex;
    verbs->create_qp_ex = uro_ibv_create_qp_ex;
    verbs->open_qp = uro_ibv_open_qp;
    verbs->create_srq_ex = uro_ibv_create_srq_ex;
    verbs->open_xrcd = uro_ibv_open_xrcd;
    verbs->alloc_null_mr = uro_ibv_alloc_null_mr;
    verbs->alloc_dm = uro_ibv_alloc_dm;
    verbs->reg_dm_mr = uro_ibv_reg_dm_mr;
    verbs->alloc_td = uro_ibv_alloc_td;
    verbs->alloc_parent_domain = uro_ibv_alloc_parent_domain;
    uro_errors_fill(verbs, device);
    verbs->sz = sizeof *verbs;
    verbs->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    verbs->context.ops.alloc_mw = uro_ibv_alloc_mw;
}

static void listen_to_port(struct uro_ibv_context *context, struct uro_ibv_device *device)
{
    context->port_active =
        (struct uro_event_node){ .queue = &context->events, .type = IBV_EVENT_PORT_ACTIVE };
    context->port_err =
        (struct uro_event_node){ .queue = &context->events, .type = IBV_EVENT_PORT_ERR };
    context->speed_change =
        (struct uro_event_node){ .queue = &context->events, .type = URO_NEWER_EVENT_SPEED_CHANGE };
    context->gid_change =
        (struct uro_event_node){ .queue = &context->events, .type = IBV_EVENT_GID_CHANGE };
    context->device_fatal =
        (struct uro_event_node){ .queue = &context->events, .type = IBV_EVENT_DEVICE_FATAL };
    uro_ibv_contexts_lock();
    uro_list_append(&device->contexts, &context->link);
    uro_ibv_contexts_unlock();
}

struct ibv_context *uro_ibv_context_open(struct ibv_device *ibv, int cmd_fd)
{
    struct uro_ibv_device *device = uro_ibv_device(ibv);
    struct uro_ibv_context *context = NULL;
    struct stat status;

    if (uro_device_refusal(device->host) != 0)
        errno = EIO;
    else
        context = calloc(1, sizeof *context); /* sets errno to ENOMEM */
    if (context == NULL)
        return NULL;
    int error = fstat(cmd_fd, &status) != 0 ? -errno : uro_events_open(&context->events);
    if (error != 0) {
        free(context);
        errno = -error;
        return NULL;
    }

    struct ibv_context *opened = &context->verbs.context;
    fill_operations(&context->verbs, device->host);
    opened->device = ibv;
    opened->cmd_fd = cmd_fd;
    opened->async_fd = context->events.fd;
    opened->num_comp_vectors = (int)uro_device_config(device->host)->engines;
    pthread_mutex_init(&opened->mutex, NULL);
    pthread_mutex_init(&context->lock, NULL);
    uro_list_init(&context->objects);
    uro_list_init(&context->blocks);
    uro_list_init(&context->full_blocks);
    context->device = device->host;
    context->inode = status.st_ino;
    context->references = 1;
    listen_to_port(context, device);
    return opened;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    if (uro_inject_device(uro_ibv_device(device)->host, URO_INJECT_CALL_OPEN_DEVICE) != 0)
        return NULL;

    /* Programs pass the descriptor to other functions and compare it, so each context has its own
     * inode. */
    int cmd_fd = memfd_create(device->name, MFD_CLOEXEC);
    struct ibv_context *context = cmd_fd >= 0 ? uro_ibv_context_open(device, cmd_fd) : NULL;

    if (context == NULL && cmd_fd >= 0) {
        int error = errno;
        close(cmd_fd);
        errno = error;
    }
    return context;
}

/* Replaces the locks of dead contexts. A thread of the parent may have held such a lock at
 * fork(). */
static pthread_mutex_t dead_lock = PTHREAD_MUTEX_INITIALIZER;

void uro_ibv_renew_dead_lock(void)
{
    pthread_mutex_init(&dead_lock, NULL);
}

static pthread_mutex_t *lock_of(struct uro_ibv_context *context)
{
    return uro_device_dead(context->device) ? &dead_lock : &context->lock;
}

void uro_ibv_context_lock(struct uro_ibv_context *context)
{
    if (!uro_host_cloned())
        pthread_mutex_lock(lock_of(context));
}

void uro_ibv_context_unlock(struct uro_ibv_context *context)
{
    if (!uro_host_cloned())
        pthread_mutex_unlock(lock_of(context));
}

void uro_ibv_reset_context(struct uro_ibv_context *context, struct uro_device *device)
{
    uro_events_reset(&context->events);
    pthread_mutex_init(&context->lock, NULL);
    uro_list_init(&context->objects);
    uro_list_init(&context->blocks);
    uro_list_init(&context->full_blocks);
    context->regions = 0;
    context->device = device;
    listen_to_port(context, uro_ibv_device(context->verbs.context.device));
}

void uro_ibv_context_release(struct uro_ibv_context *context)
{
    bool last = --context->references == 0;

    uro_ibv_context_unlock(context);
    if (!last)
        return;
    pthread_mutex_destroy(&context->lock);
    pthread_mutex_destroy(&context->verbs.context.mutex);
    free(context);
}

bool uro_object_charge(struct uro_object *object, struct ibv_context *context, enum uro_quota quota)
{
    if (!uro_quota_take(uro_ibv_host(context), quota, 1))
        return false;
    object->charged = uro_ibv_host(context);
    object->quota = quota;
    return true;
}

void uro_object_refund(struct uro_object *object)
{
    if (object->charged == NULL)
        return;
    uro_quota_give(object->charged, object->quota, 1);
    object->charged = NULL;
}

/* Detaches the newest objects first, since they may use older objects. Detaches the regions
 * last. */
static void detach_all(struct uro_ibv_context *context)
{
    while (!uro_list_empty(&context->objects)) {
        struct uro_object *object =
            URO_CONTAINER_OF(context->objects.head.prev, struct uro_object, link);
        uro_list_remove(&object->link);
        object->detached = true;
        if (object->detach != NULL)
            object->detach(object);
        uro_object_refund(object);
    }
    uro_regions_detach(context);
}

int ibv_close_device(struct ibv_context *ibv)
{
    struct uro_ibv_context *context = uro_ibv_context(ibv);

    if (!uro_host_cloned()) {
        uro_ibv_contexts_lock();
        uro_list_remove(&context->link);
        uro_ibv_contexts_unlock();
    }
    uro_ibv_context_lock(context);
    if (!uro_ibv_context_dead(ibv))
        detach_all(context);
    close(ibv->cmd_fd);
    uro_events_close(&context->events);
    uro_ibv_context_release(context);
    return 0;
}

void *uro_ibv_new(struct ibv_context *context, size_t size)
{
    return uro_ibv_new_aligned(context, size, sizeof(void *));
}

void *uro_ibv_new_aligned(struct ibv_context *context, size_t size, size_t alignment)
{
    void *memory;

    if (uro_device_refusal(uro_ibv_host(context)) != 0) {
        errno = EIO;
        return NULL;
    }
    if (posix_memalign(&memory, alignment, size) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    return memset(memory, 0, size);
}

bool uro_ibv_start(struct ibv_context *context)
{
    int error = uro_device_start(uro_ibv_host(context));

    if (error != 0)
        errno = -error;
    return error == 0;
}

bool uro_ibv_start_for(struct ibv_pd *pd)
{
    if (uro_device_refusal(uro_ibv_pd(pd)->object.device) != 0) {
        errno = EIO;
        return false;
    }
    return uro_ibv_start(pd->context);
}

void uro_object_add(struct uro_object *object, struct ibv_context *ibv,
                    void (*detach)(struct uro_object *object))
{
    uro_object_add_on(object, ibv, uro_ibv_host(ibv), detach);
}

void uro_object_add_on(struct uro_object *object, struct ibv_context *ibv,
                       struct uro_device *engine, void (*detach)(struct uro_object *object))
{
    struct uro_ibv_context *context = uro_ibv_context(ibv);

    object->context = context;
    object->device = engine;
    object->detach = detach;
    uro_ibv_context_lock(context);
    uro_list_append(&context->objects, &object->link);
    context->references++;
    uro_ibv_context_unlock(context);
}

bool uro_object_detach(struct uro_object *object)
{
    struct uro_ibv_context *context = object->context;
    const bool dead = uro_object_dead(object);

    uro_ibv_context_lock(context);
    bool here = !object->detached && !dead;
    object->detached = true;
    if (!dead) /* the list of a dead context may be inconsistent */
        uro_list_remove(&object->link);
    uro_ibv_context_unlock(context);

    if (here && object->detach != NULL)
        object->detach(object);
    if (here)
        uro_object_refund(object);
    return here;
}

void uro_object_drop(struct uro_object *object)
{
    uro_ibv_context_lock(object->context);
    uro_ibv_context_release(object->context);
}
