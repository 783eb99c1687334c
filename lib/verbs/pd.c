/* SPDX-License-Identifier: BSD-3-Clause */
/* pd.c - protection domains: a number that keys and queue pairs share.
 *
 * Several handles may have the same number: the allocated PD, its imports (import.c) and its parent
 * domains. An object of a parent domain behaves like an object of the base. The thread domain and
 * the allocators of a parent domain have no effect: uroce needs neither.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "verbs/card.h"
#include "verbs/fork.h"
#include "verbs/inject.h"

/* IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC of rdma-core 64: the program permits
 * memory that a confidential machine does not protect. uroce allocates no such memory. */
#define ALLOW_UNPROTECTED (1u << 2)

/* Numbers are never reused, so that an old key is not valid in a new domain. */
static atomic_uint last_number;

static struct uro_list all = { { &all.head, &all.head } };
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

/* In a child that was created without the handlers of fork(), the lock may stay held for ever. */
void uro_ibv_pds_lock(void)
{
    if (!uro_host_cloned())
        pthread_mutex_lock(&all_lock);
}

void uro_ibv_pds_unlock(void)
{
    if (!uro_host_cloned())
        pthread_mutex_unlock(&all_lock);
}

void uro_ibv_keep_pd(struct ibv_pd *pd)
{
    uro_ibv_pd(pd)->kept = true;
}

void uro_ibv_reset_pds(void)
{
    for (struct uro_link *link = all.head.next; link != &all.head; link = link->next) {
        struct uro_ibv_pd *pd = URO_CONTAINER_OF(link, struct uro_ibv_pd, link);
        struct uro_ibv_context *context = uro_ibv_context(pd->ibv.context);
        if (!pd->kept || !uro_object_dead(&pd->object) || uro_device_dead(context->device))
            continue;
        pd->object.device = context->device;
        pd->object.charged = NULL;
        pd->object.link = (struct uro_link){ 0 };
        uro_list_append(&context->objects, &pd->object.link);
    }
}

static void begin(struct uro_ibv_pd *pd)
{
    uro_ibv_pds_lock();
    uro_list_append(&all, &pd->link);
    uro_ibv_pds_unlock();
    uro_object_add(&pd->object, pd->ibv.context, NULL);
}

static struct uro_ibv_pd *new_handle(struct ibv_context *context, uint32_t number)
{
    struct uro_ibv_pd *pd = uro_ibv_new(context, sizeof *pd);

    if (pd == NULL)
        return NULL;
    if (!uro_object_charge(&pd->object, context, URO_QUOTA_PD)) {
        free(pd);
        return NULL;
    }
    pd->ibv.context = context;
    pd->ibv.handle = number;
    return pd;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    if (uro_inject(context, URO_INJECT_CALL_ALLOC_PD) != 0)
        return NULL;

    struct uro_ibv_pd *pd = new_handle(context, atomic_fetch_add(&last_number, 1) + 1);

    if (pd == NULL)
        return NULL;
    begin(pd);
    return &pd->ibv;
}

/* Returns whether @context, or a context with the same inode, has a PD with the number. */
static bool exists(struct ibv_context *context, uint32_t number)
{
    uint64_t inode = uro_ibv_context(context)->inode;
    bool found = false;

    uro_ibv_pds_lock();
    for (struct uro_link *link = all.head.next; link != &all.head; link = link->next) {
        struct uro_ibv_pd *pd = URO_CONTAINER_OF(link, struct uro_ibv_pd, link);
        if (pd->ibv.handle == number && !uro_object_dead(&pd->object) &&
            uro_ibv_context(pd->ibv.context)->inode == inode)
            found = true;
    }
    uro_ibv_pds_unlock();
    return found;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
    struct uro_ibv_pd *pd = new_handle(context, pd_handle);

    if (pd == NULL)
        return NULL;
    if (!exists(context, pd_handle)) {
        uro_object_refund(&pd->object);
        free(pd);
        errno = ENOENT;
        return NULL;
    }
    begin(pd);
    return &pd->ibv;
}

/* Removes the handle from the list unless it is in use. With @everywhere, no other handle of its
 * domain may be in use either. Returns whether the handle was removed. */
static bool unlist(struct uro_ibv_pd *pd, bool everywhere)
{
    bool used = atomic_load(&pd->users) != 0;

    uro_ibv_pds_lock();
    for (struct uro_link *link = all.head.next; everywhere && link != &all.head;
         link = link->next) {
        struct uro_ibv_pd *other = URO_CONTAINER_OF(link, struct uro_ibv_pd, link);
        if (other->ibv.handle == pd->ibv.handle && atomic_load(&other->users) != 0)
            used = true;
    }
    if (!used)
        uro_list_remove(&pd->link);
    uro_ibv_pds_unlock();
    return !used;
}

static void end(struct uro_ibv_pd *pd)
{
    uro_object_remove(&pd->object);
    if (pd->base != NULL)
        atomic_fetch_sub(&pd->base->users, 1);
    if (pd->td != NULL)
        atomic_fetch_sub(&pd->td->users, 1);
    free(pd);
}

int uro_ibv_dealloc_pd(struct ibv_pd *ibv)
{
    struct uro_ibv_pd *pd = uro_ibv_pd(ibv);

    if (!unlist(pd, pd->base == NULL))
        return EBUSY;
    end(pd);
    return 0;
}

/* Does nothing while objects use the handle. */
void ibv_unimport_pd(struct ibv_pd *ibv)
{
    struct uro_ibv_pd *pd = uro_ibv_pd(ibv);

    if (unlist(pd, false))
        end(pd);
}

/* ---- thread and parent domains ------------------------------------------------------- */

struct ibv_td *uro_ibv_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    struct uro_ibv_td *td;

    if (attr->comp_mask != 0) {
        errno = EINVAL;
        return NULL;
    }
    if (uro_card_lacks(uro_ibv_host(context), URO_CARD_NO_TD, "ibv_alloc_td"))
        return NULL;
    td = uro_ibv_new(context, sizeof *td);
    if (td == NULL)
        return NULL;
    td->ibv.context = context;
    uro_object_add(&td->object, context, NULL);
    return &td->ibv;
}

int uro_ibv_dealloc_td(struct ibv_td *ibv)
{
    struct uro_ibv_td *td = uro_ibv_td(ibv);

    if (atomic_load(&td->users) != 0)
        return EBUSY;
    uro_object_remove(&td->object);
    free(td);
    return 0;
}

static bool parent_valid(const struct ibv_context *context,
                         const struct ibv_parent_domain_init_attr *attr)
{
    const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
                           IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | ALLOW_UNPROTECTED;

    return attr->pd != NULL && attr->pd->context == context && (attr->comp_mask & ~known) == 0 &&
           (attr->td == NULL || attr->td->context == context);
}

struct ibv_pd *uro_ibv_alloc_parent_domain(struct ibv_context *context,
                                           struct ibv_parent_domain_init_attr *attr)
{
    struct uro_ibv_pd *pd;

    if (!parent_valid(context, attr)) {
        errno = EINVAL;
        return NULL;
    }
    if (uro_object_dead(&uro_ibv_pd(attr->pd)->object) ||
        (attr->td != NULL && uro_object_dead(&uro_ibv_td(attr->td)->object))) {
        errno = EIO;
        return NULL;
    }
    pd = new_handle(context, attr->pd->handle);
    if (pd == NULL)
        return NULL;
    pd->base = uro_ibv_pd(attr->pd);
    atomic_fetch_add(&pd->base->users, 1);
    if (attr->td != NULL) {
        pd->td = uro_ibv_td(attr->td);
        atomic_fetch_add(&pd->td->users, 1);
    }
    begin(pd);
    return &pd->ibv;
}
