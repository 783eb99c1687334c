/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_memory.c - regions that become others, device memory, domains of domains; see fuzz_objects.h. */
#include "fuzz_objects.h"

#include <errno.h>
#include <string.h>

#define FLAGS_MAX 0xfu /* one more than there are */

/* The range is not secret from now on, whether it is taken or not. */
void fuzz_change_mr(void)
{
    struct object *mr = fuzz_pick(MR);
    struct object *pd = fuzz_pick(PD);
    const uint8_t flags = fuzz_next(), access = fuzz_next();
    uint32_t length;
    uint8_t *memory = fuzz_choose_range(&length);

    if (mr == NULL || pd == NULL)
        return;
    const uint32_t lkey = mr->mr->lkey;
    int result = ibv_rereg_mr(mr->mr, flags & FLAGS_MAX, pd->pd, memory, length, access);
    fuzz_demand(result == 0 || (result == IBV_REREG_MR_ERR_INPUT && errno != 0));
    fuzz_demand(result == 0 || mr->mr->lkey == lkey);
}

/* What is written inside can be read there, and nothing else can be. */
void fuzz_copy_dm(void)
{
    struct object *dm = fuzz_pick(DM);
    const uint64_t offset = fuzz_next() * 8u;
    const uint32_t length = fuzz_next() * 8u;
    uint8_t back[255 * 8];

    if (dm == NULL || length > FUZZ_INLINE)
        return;
    const bool inside = offset + length <= FUZZ_DM;
    fuzz_demand((ibv_memcpy_to_dm(dm->dm, offset, fuzz_inline, length) == 0) == inside);
    fuzz_demand((ibv_memcpy_from_dm(back, dm->dm, offset, length) == 0) == inside);
    fuzz_demand(!inside || memcmp(back, fuzz_inline, length) == 0);
}

/* A protection domain on top of another one, with a thread domain or not. */
void fuzz_make_domain(void)
{
    struct object *pd = fuzz_pick(PD);
    const uint8_t how = fuzz_next();

    if (pd == NULL)
        return;
    const uint8_t side = how & 1 ? pd->side : (uint8_t)!pd->side;
    struct ibv_td_init_attr nothing = { 0 };
    struct ibv_td *td = how & 2 ? ibv_alloc_td(fuzz_context(side), &nothing) : NULL;
    struct ibv_parent_domain_init_attr attr = { .pd = pd->pd, .td = td, .comp_mask = how >> 4 };
    struct ibv_pd *made = ibv_alloc_parent_domain(fuzz_context(side), &attr);

    fuzz_demand(made != NULL || errno != 0);
    if (td != NULL && made != NULL) { /* it is used, then it is not */
        fuzz_demand(ibv_dealloc_td(td) == EBUSY);
        fuzz_demand(ibv_dealloc_pd(made) == 0 && ibv_dealloc_td(td) == 0);
    } else if (td != NULL) {
        fuzz_demand(ibv_dealloc_td(td) == 0);
    } else if (made != NULL &&
               !fuzz_keep((struct object){ .kind = PD, .side = side, .pd = made })) {
        fuzz_demand(ibv_dealloc_pd(made) == 0);
    }
}
