/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_memory.c - reregisters regions, copies device memory, makes parent domains, and checks that
 * no object remains. See fuzz_objects.h. */
#include "fuzz_objects.h"

#include <errno.h>
#include <string.h>

#include "host/device.h"
#include "verbs/objects.h"

#define FLAGS_MAX   0xfu /* the valid flags and an invalid flag */
#define FLAGS_KNOWN 0x7u
#define NOWHERE     ((void *)(uintptr_t)16) /* fuzz_objects.c registers it, too */
#define NEEDS_LOCAL (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

#define DOMAIN_KNOWN                                                                               \
    (uint32_t)(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT |   \
               1u << 2) /* IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC */

struct change {
    unsigned flags, access;
    struct ibv_pd *pd;
    void *memory;
    size_t length;
};

/* Returns whether the region may be changed. Device memory and the null region, which have no
 * address, may not. */
static bool may_change(const struct ibv_mr *mr, const struct change *change)
{
    if (mr->addr == NULL || change->flags == 0 || (change->flags & ~FLAGS_KNOWN) != 0)
        return false;
    if ((change->flags & IBV_REREG_MR_CHANGE_PD) && change->pd->context != mr->context)
        return false;
    if ((change->flags & IBV_REREG_MR_CHANGE_TRANSLATION) && change->length == 0)
        return false;
    if (change->access != 0 && !(change->flags & IBV_REREG_MR_CHANGE_ACCESS))
        return false;
    return !(change->flags & IBV_REREG_MR_CHANGE_ACCESS) || !(change->access & NEEDS_LOCAL) ||
           (change->access & IBV_ACCESS_LOCAL_WRITE);
}

/* Checks that a new range has a new key, and that all other attributes are unchanged. */
static void check_changed(const struct ibv_mr *now, const struct ibv_mr *before,
                          const struct change *change)
{
    const bool moved = change->flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    const bool given = change->flags & IBV_REREG_MR_CHANGE_PD;

    fuzz_demand(now->pd == (given ? change->pd : before->pd));
    fuzz_demand(now->addr == (moved ? change->memory : before->addr));
    fuzz_demand(now->length == (moved ? change->length : before->length));
    fuzz_demand((now->rkey != before->rkey) == moved && now->lkey == now->rkey);
}

/* Reregisters a region. The new range is not secret from now on, even if the call fails. */
void fuzz_change_mr(void)
{
    struct object *mr = fuzz_pick(MR);
    struct object *pd = fuzz_pick(PD);
    struct change change = { .flags = fuzz_next() & FLAGS_MAX, .access = fuzz_next() };
    uint32_t length;

    change.memory = fuzz_choose_range(&length);
    change.length = length;
    if (mr == NULL || pd == NULL)
        return;
    change.pd = pd->pd;
    const struct ibv_mr before = *mr->mr;
    const bool held = uro_ibv_mr(mr->mr)->key.windows > 0;
    const bool may = may_change(&before, &change) && !held;
    errno = 0;
    int result = ibv_rereg_mr(mr->mr, (int)change.flags, change.pd, change.memory, change.length,
                              (int)change.access);
    if (result == 0) {
        fuzz_demand(may);
        check_changed(mr->mr, &before, &change);
        return;
    }
    fuzz_demand(result == IBV_REREG_MR_ERR_INPUT && errno != 0);
    fuzz_demand(!may || before.addr == NOWHERE);
    fuzz_demand(memcmp(mr->mr, &before, sizeof before) == 0);
}

/* Reregisters a region whose context was closed, which must fail: its key is invalid. */
void fuzz_change_nothing(struct ibv_mr *mr)
{
    fuzz_demand(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
                             IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_INPUT);
}

/* Copies to and from device memory. The bytes must be where they were written and nowhere else.
 * Offsets and lengths that are not multiples of four are refused. */
void fuzz_copy_dm(void)
{
    static uint8_t turn;
    struct object *dm = fuzz_pick(DM);
    uint64_t offset = fuzz_next() * 8u;
    uint32_t length = fuzz_next() * 8u;
    const uint8_t more = fuzz_next();
    uint8_t from[256 * 8], all[FUZZ_DM], back[256 * 8];

    offset += more & 7;
    length += more >> 3 & 7;
    if (dm == NULL)
        return;
    for (uint32_t i = 0; i < length; i++)
        from[i] = (uint8_t)(turn + i * 7);
    turn += 13;
    const bool fits = offset + length <= FUZZ_DM && offset % 4 == 0 && length % 4 == 0;
    fuzz_demand(ibv_memcpy_from_dm(all, dm->dm, 0, FUZZ_DM) == 0);
    fuzz_demand((ibv_memcpy_to_dm(dm->dm, offset, from, length) == 0) == fits);
    fuzz_demand((ibv_memcpy_from_dm(back, dm->dm, offset, length) == 0) == fits);
    if (fits) {
        fuzz_demand(memcmp(back, from, length) == 0);
        memcpy(all + offset, from, length);
    }
    fuzz_demand(ibv_memcpy_from_dm(back, dm->dm, 0, FUZZ_DM) == 0);
    fuzz_demand(memcmp(back, all, FUZZ_DM) == 0);
}

/* Makes a parent domain of another domain, with or without a thread domain. This must fail unless
 * all of them are of the same context and comp_mask is valid. */
void fuzz_make_domain(void)
{
    struct object *pd = fuzz_pick(PD);
    const uint8_t how = fuzz_next();

    if (pd == NULL)
        return;
    const uint8_t side = how & 1 ? pd->side : (uint8_t)!pd->side;
    const uint8_t td_side = how & 4 ? (uint8_t)!side : side;
    struct ibv_td_init_attr nothing = { 0 };
    struct ibv_td *td = how & 2 ? ibv_alloc_td(fuzz_context(td_side), &nothing) : NULL;
    struct ibv_parent_domain_init_attr attr = { .pd = pd->pd, .td = td, .comp_mask = how >> 4 };
    const bool may = side == pd->side && (td == NULL || td_side == side) &&
                     (attr.comp_mask & ~DOMAIN_KNOWN) == 0;
    errno = 0;
    struct ibv_pd *made = ibv_alloc_parent_domain(fuzz_context(side), &attr);

    fuzz_demand((made != NULL) == may && (made != NULL || errno == EINVAL));
    if (made != NULL) /* the parent domain uses the other domain, which cannot be freed */
        fuzz_demand(made->handle == pd->pd->handle && ibv_dealloc_pd(pd->pd) == EBUSY);
    if (td != NULL && made != NULL) { /* the parent domain uses the thread domain */
        fuzz_demand(ibv_dealloc_td(td) == EBUSY);
        fuzz_demand(ibv_dealloc_pd(made) == 0 && ibv_dealloc_td(td) == 0);
    } else if (td != NULL) {
        fuzz_demand(ibv_dealloc_td(td) == 0);
    } else if (made != NULL &&
               !fuzz_keep((struct object){ .kind = PD, .side = side, .pd = made })) {
        fuzz_demand(ibv_dealloc_pd(made) == 0);
    }
}

/* Checks that no object remains in the counters. */
void fuzz_check_unused(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    fuzz_demand(list != NULL);
    for (uint32_t i = 0; i < FUZZ_DEVICES; i++) {
        struct uro_device *device = fuzz_host_devices()[i];
        for (unsigned quota = 0; quota < URO_QUOTA_COUNT; quota++)
            fuzz_demand(atomic_load(&device->quota_use.used[quota]) == 0);
        fuzz_demand(atomic_load(&uro_ibv_device(list[i])->dm_used) == 0);
    }
    ibv_free_device_list(list);
}
