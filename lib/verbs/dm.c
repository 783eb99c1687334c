/* SPDX-License-Identifier: BSD-3-Clause */
/* dm.c - device memory. Network cards have their own memory. Here, device memory is memory of the
 * process, zeroed at allocation.
 *
 * As on network cards, offset and length of a copy are multiples of four bytes. The handle that
 * allocated the memory is the origin of all handles that import it. The origin's struct stays
 * allocated as long as a handle exists.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/card.h"
#include "verbs/fork.h"
#include "verbs/inject.h"
#include "verbs/refusal.h"

#define UNIT            4u
#define LOG_ALIGN_LEAST 6u /* a cache line */

static atomic_uint last_handle;

static struct uro_list all = { { &all.head, &all.head } }; /* origins in use */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

/* In a child that was created without the handlers of fork(), the lock may stay held for ever. */
void uro_ibv_dms_lock(void)
{
    if (!uro_host_cloned())
        pthread_mutex_lock(&all_lock);
}

void uro_ibv_dms_unlock(void)
{
    if (!uro_host_cloned())
        pthread_mutex_unlock(&all_lock);
}

static bool inside(const struct uro_ibv_dm *origin, uint64_t offset, uint64_t length)
{
    return offset <= origin->length && length <= origin->length - offset;
}

static int copy_refusal(const struct uro_ibv_dm *origin, uint64_t offset, size_t length)
{
    if (!inside(origin, offset, length))
        return EFAULT;
    return offset % UNIT == 0 && length % UNIT == 0 ? 0 : EINVAL;
}

static int copy_to(struct ibv_dm *ibv, uint64_t offset, const void *from, size_t length)
{
    struct uro_ibv_dm *origin = uro_ibv_dm(ibv)->origin;
    int error = copy_refusal(origin, offset, length);

    if (error == 0 && length > 0)
        memcpy(origin->octets + offset, from, length);
    return uro_errors_keep(
        uro_refuse_dm_copy(uro_ibv_dm(ibv), "ibv_memcpy_to_dm", offset, length, error));
}

static int copy_from(void *to, struct ibv_dm *ibv, uint64_t offset, size_t length)
{
    const struct uro_ibv_dm *origin = uro_ibv_dm(ibv)->origin;
    int error = copy_refusal(origin, offset, length);

    if (error == 0 && length > 0)
        memcpy(to, origin->octets + offset, length);
    return uro_errors_keep(
        uro_refuse_dm_copy(uro_ibv_dm(ibv), "ibv_memcpy_from_dm", offset, length, error));
}

/* ---- handles -------------------------------------------------------------------------------- */

static struct ibv_dm *begin(struct uro_ibv_dm *dm, struct ibv_context *context, uint32_t handle)
{
    dm->ibv.context = context;
    dm->ibv.memcpy_to_dm = copy_to;
    dm->ibv.memcpy_from_dm = copy_from;
    dm->ibv.handle = handle;
    uro_object_add(&dm->object, context, NULL);
    return &dm->ibv;
}

/* Charges @length bytes of device memory. Returns false when fewer bytes are left. */
static bool charge(struct uro_ibv_dm *dm, struct ibv_context *context, size_t length)
{
    if (length <= URO_DM_MAX) {
        if (atomic_fetch_add(&dm->device->dm_used, length) <= URO_DM_MAX - length)
            return true;
        atomic_fetch_sub(&dm->device->dm_used, length);
    }
    uro_quota_warn_bound(uro_ibv_host(context), URO_BOUND_DEVICE_MEMORY, URO_DM_MAX);
    return false;
}

/* Allocates the bytes of @dm. Returns false when the device or the process has too few bytes left.
 */
static bool take(struct uro_ibv_dm *dm, struct ibv_context *context,
                 const struct ibv_alloc_dm_attr *attr)
{
    uint32_t log_align =
        attr->log_align_req > LOG_ALIGN_LEAST ? attr->log_align_req : LOG_ALIGN_LEAST;
    void *octets = NULL;

    if (!charge(dm, context, attr->length))
        return false;
    if (posix_memalign(&octets, (size_t)1 << log_align, attr->length) != 0) {
        atomic_fetch_sub(&dm->device->dm_used, attr->length);
        return false;
    }
    memset(octets, 0, attr->length);
    dm->octets = octets;
    dm->length = attr->length;
    return true;
}

struct ibv_dm *uro_ibv_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
    struct uro_ibv_dm *dm;

    if (uro_inject(context, URO_INJECT_CALL_ALLOC_DM) != 0)
        return NULL;
    if (uro_card_lacks(uro_ibv_host(context), URO_CARD_NO_DM, "ibv_alloc_dm"))
        return NULL;
    if (attr->comp_mask != 0 || attr->length == 0 || attr->log_align_req > URO_DM_LOG_ALIGN_MAX) {
        errno = uro_refuse_dm(context, attr);
        return NULL;
    }
    dm = uro_ibv_new(context, sizeof *dm);
    if (dm == NULL)
        return NULL;
    dm->device = uro_ibv_device(context->device);
    if (!take(dm, context, attr)) {
        free(dm);
        errno = ENOMEM;
        return NULL;
    }
    dm->origin = dm;
    dm->handles = 1;
    dm->inode = uro_ibv_context(context)->inode;
    uro_ibv_dms_lock();
    uro_list_append(&all, &dm->link);
    uro_ibv_dms_unlock();
    return begin(dm, context, atomic_fetch_add(&last_handle, 1) + 1);
}

/* Finds the origin in contexts with the inode of @context, and adds a handle to the origin. Returns
 * NULL if there is none. */
static struct uro_ibv_dm *find_origin(struct ibv_context *context, uint32_t handle)
{
    uint64_t inode = uro_ibv_context(context)->inode;
    struct uro_ibv_dm *found = NULL;

    uro_ibv_dms_lock();
    for (struct uro_link *link = all.head.next; link != &all.head && found == NULL;
         link = link->next) {
        struct uro_ibv_dm *origin = URO_CONTAINER_OF(link, struct uro_ibv_dm, link);
        if (origin->ibv.handle == handle && origin->inode == inode &&
            !uro_object_dead(&origin->object)) {
            found = origin;
            origin->handles++;
        }
    }
    uro_ibv_dms_unlock();
    return found;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
    struct uro_ibv_dm *dm = uro_ibv_new(context, sizeof *dm);

    if (dm == NULL)
        return NULL;
    dm->origin = find_origin(context, dm_handle);
    if (dm->origin == NULL) {
        free(dm);
        errno = ENOENT;
        return NULL;
    }
    return begin(dm, context, dm_handle);
}

/* Frees a handle. The memory is freed with the last handle. */
static void drop(struct uro_ibv_dm *dm)
{
    struct uro_ibv_dm *origin = dm->origin;
    const bool dead = uro_object_dead(&origin->object);

    uro_object_remove(&dm->object);
    if (dm != origin)
        free(dm);
    uro_ibv_dms_lock();
    bool last = --origin->handles == 0;
    if (last)
        uro_list_remove(&origin->link);
    uro_ibv_dms_unlock();
    if (!last)
        return;
    if (!dead)
        atomic_fetch_sub(&origin->device->dm_used, origin->length);
    free(origin->octets);
    free(origin);
}

int uro_ibv_free_dm(struct ibv_dm *ibv)
{
    struct uro_ibv_dm *dm = uro_ibv_dm(ibv);

    const unsigned users = atomic_load(&dm->origin->users);
    if (users != 0)
        return uro_refuse_busy(dm->object.device, "ibv_free_dm", "device memory", users, "regions");
    uro_ibv_dms_lock();
    uro_list_remove(&dm->origin->link); /* the origin cannot be imported any more */
    uro_ibv_dms_unlock();
    drop(dm);
    return 0;
}

/* Does nothing while regions use the memory. */
void ibv_unimport_dm(struct ibv_dm *ibv)
{
    struct uro_ibv_dm *dm = uro_ibv_dm(ibv);

    if (atomic_load(&dm->origin->users) == 0)
        drop(dm);
}

/* Device memory that has a region is always in the list. */
void uro_ibv_dm_leave(uint32_t handle)
{
    uro_ibv_dms_lock();
    for (struct uro_link *link = all.head.next; link != &all.head; link = link->next) {
        struct uro_ibv_dm *origin = URO_CONTAINER_OF(link, struct uro_ibv_dm, link);
        if (origin->ibv.handle == handle)
            atomic_fetch_sub(&origin->users, 1);
    }
    uro_ibv_dms_unlock();
}

/* ---- regions -------------------------------------------------------------------------------- */

struct ibv_mr *uro_ibv_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset,
                                 size_t length, unsigned access)
{
    struct uro_ibv_dm *origin = uro_ibv_dm(ibv)->origin;
    int error = uro_ibv_access_refusal(access);

    /* Addresses in such a region are offsets, and accesses never fault. */
    if (error == 0 && (!(access & URO_ACCESS_ZERO_BASED) || (access & URO_ACCESS_ON_DEMAND)))
        error = EINVAL;
    if (error == 0 && (pd->context != ibv->context || !inside(origin, offset, length)))
        error = EINVAL;
    if (error == 0 && uro_object_dead(&uro_ibv_dm(ibv)->object))
        error = EIO;
    if (error != 0) {
        errno = uro_refuse_dm_region(pd, uro_ibv_dm(ibv), offset, length, access, error);
        return NULL;
    }
    const struct uro_key key = { .kind = URO_KEY_REGION,
                                 .pd = pd->handle,
                                 .access = access & ~URO_ACCESS_OPTIONAL,
                                 .length = length,
                                 .memory = origin->octets + offset };
    struct ibv_mr *mr = uro_ibv_mr_register(pd, &key, NULL);
    if (mr == NULL)
        return NULL;
    uro_ibv_mr(mr)->dm = origin->ibv.handle;
    atomic_fetch_add(&origin->users, 1);
    return mr;
}
