/* SPDX-License-Identifier: BSD-3-Clause */
/* srq.c - shared receive queues and XRC domains of uroce/objects.h. */
#include <errno.h>
#include <stdlib.h>

#include "core/limits.h"
#include "embed/embed.h"

/* ---- XRC domains -------------------------------------------------------- */

int uroce_xrcd_create(struct uroce_engine *engine, struct uroce_xrcd **xrcd)
{
    if (engine == NULL || xrcd == NULL)
        return -EINVAL;
    struct uroce_xrcd *made = uro_embed_memory(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    made->engine = engine;
    made->number = ++engine->last_xrcd;
    engine->users++;
    *xrcd = made;
    return 0;
}

int uroce_xrcd_destroy(struct uroce_xrcd *xrcd)
{
    if (xrcd == NULL)
        return -EINVAL;
    if (xrcd->users > 0)
        return -EBUSY;
    xrcd->engine->users--;
    free(xrcd);
    return 0;
}

/* ---- shared receive queues ---------------------------------------------- */

static bool capacity_is_valid(uint32_t capacity)
{
    return capacity >= 1 && capacity <= URO_WR_MAX;
}

static bool is_valid(const struct uroce_pd *pd, const struct uroce_srq_config *config)
{
    if (!capacity_is_valid(config->capacity) || config->sge_max > URO_SGE_MAX)
        return false;
    if (config->xrcd == NULL)
        return config->cq == NULL;
    return config->cq != NULL && config->xrcd->engine == pd->engine &&
           config->cq->engine == pd->engine;
}

/* Adds @by, 1 or -1, to the users of the objects that the SRQ uses. */
static void count_users(struct uroce_srq *srq, uint32_t by)
{
    srq->pd->users += by;
    if (srq->xrcd == NULL)
        return;
    srq->xrcd->users += by;
    srq->cq->users += by;
}

static int build(struct uroce_pd *pd, const struct uroce_srq_config *config, struct uroce_srq **out)
{
    const struct uro_srq_init init = { .pd = pd->number,
                                       .capacity = config->capacity,
                                       .sge_max = config->sge_max,
                                       .xrcd = config->xrcd != NULL ? config->xrcd->number : 0,
                                       .cq = config->cq != NULL ? config->cq->core : NULL,
                                       .user = config->user };
    struct uroce_srq *srq = uro_embed_memory(sizeof *srq);

    if (srq == NULL)
        return -ENOMEM;
    srq->slots = uro_embed_core_memory(uro_srq_slots_size(config->capacity, config->sge_max));
    if (srq->slots == NULL) {
        free(srq);
        return -ENOMEM;
    }
    srq->pd = pd;
    srq->xrcd = config->xrcd;
    srq->cq = config->cq;
    uro_srq_create(uro_embed_shard(pd->engine), &srq->core, &init, srq->slots);
    count_users(srq, 1);
    *out = srq;
    return 0;
}

int uroce_srq_create(struct uroce_pd *pd, const struct uroce_srq_config *from,
                     struct uroce_srq **srq)
{
    struct uroce_srq_config config;

    if (pd == NULL || from == NULL || srq == NULL)
        return -EINVAL;
    int error = uro_embed_take(&config, sizeof config, from, sizeof config);
    if (error != 0)
        return error;
    return is_valid(pd, &config) ? build(pd, &config, srq) : -EINVAL;
}

int uroce_srq_destroy(struct uroce_srq *srq)
{
    if (srq == NULL)
        return -EINVAL;
    if (srq->users > 0)
        return -EBUSY;
    uro_srq_destroy(uro_embed_shard(srq->pd->engine), &srq->core);
    count_users(srq, UINT32_MAX);
    free(srq->slots);
    free(srq);
    return 0;
}

uint32_t uroce_srq_number(const struct uroce_srq *srq)
{
    return srq != NULL ? uro_srq_number(&srq->core) : 0;
}

int uroce_srq_arm(struct uroce_srq *srq, uint32_t limit)
{
    return srq != NULL ? uro_srq_arm(&srq->core, limit) : -EINVAL;
}

int uroce_srq_resize(struct uroce_srq *srq, uint32_t capacity)
{
    if (srq == NULL || !capacity_is_valid(capacity))
        return -EINVAL;
    void *slots = uro_embed_core_memory(uro_srq_slots_size(capacity, srq->core.wq.sge_max));
    if (slots == NULL)
        return -ENOMEM;
    const int error = uro_srq_resize(&srq->core, capacity, slots);
    if (error != 0) {
        free(slots);
        return error;
    }
    free(srq->slots);
    srq->slots = slots;
    return 0;
}

uint32_t uroce_srq_waiting(const struct uroce_srq *srq)
{
    return srq != NULL ? uro_wq_tail(&srq->core.wq) - uro_wq_head(&srq->core.wq) : 0;
}
