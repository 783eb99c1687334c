/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.c - protection domains, completion queues and address handles of uroce/objects.h. */
#include <uroce/objects.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "embed/embed.h"

#define HOP_LIMIT  64u
#define POLL_BURST 16u

UROCE_SAME(UROCE_GENERAL_ERR, URO_WC_GENERAL_ERR);
UROCE_SAME(UROCE_RNR_RETRY_EXC_ERR, URO_WC_RNR_RETRY_EXC_ERR);
UROCE_SAME(UROCE_COMPLETION_WITH_IMM, URO_WC_WITH_IMM);
UROCE_SAME(UROCE_COMPLETION_GRH, URO_WC_GRH);
UROCE_SAME(UROCE_MW_BIND_ERR, URO_WC_MW_BIND_ERR);
UROCE_SAME(UROCE_COMPLETION_WITH_INV, URO_WC_WITH_INV);
UROCE_SAME(UROCE_DONE_ATOMIC_WRITE, URO_WC_ATOMIC_WRITE);
UROCE_SAME(UROCE_DONE_LOCAL_INV, URO_WC_LOCAL_INV);
UROCE_SAME(UROCE_DONE_RECV_RDMA_WITH_IMM, URO_WC_RECV_RDMA_WITH_IMM);

/* ---- protection domains ------------------------------------------------- */

int uroce_pd_create(struct uroce_engine *engine, struct uroce_pd **pd)
{
    if (engine == NULL || pd == NULL)
        return -EINVAL;
    struct uroce_pd *made = uro_embed_memory(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    made->engine = engine;
    made->number = ++engine->last_pd;
    engine->users++;
    *pd = made;
    return 0;
}

int uroce_pd_destroy(struct uroce_pd *pd)
{
    if (pd == NULL)
        return -EINVAL;
    if (pd->users > 0)
        return -EBUSY;
    pd->engine->users--;
    free(pd);
    return 0;
}

/* ---- completion queues -------------------------------------------------- */

int uroce_cq_create(struct uroce_engine *engine, uint32_t capacity, void *user,
                    struct uroce_cq **cq)
{
    if (engine == NULL || cq == NULL || capacity == 0 || capacity > URO_CQ_CAPACITY_MAX)
        return -EINVAL;
    struct uroce_cq *made = uro_embed_memory(sizeof *made);
    void *memory = made != NULL ? uro_embed_core_memory(uro_cq_size(capacity)) : NULL;
    if (memory == NULL) {
        free(made);
        return -ENOMEM;
    }
    made->engine = engine;
    made->core = uro_cq_init(memory, capacity, user);
    engine->users++;
    *cq = made;
    return 0;
}

int uroce_cq_destroy(struct uroce_cq *cq)
{
    if (cq == NULL)
        return -EINVAL;
    if (cq->users > 0)
        return -EBUSY;
    uro_cq_fini(cq->core);
    cq->engine->users--;
    free(cq->ring);
    free(cq->core);
    free(cq);
    return 0;
}

int uroce_cq_resize(struct uroce_cq *cq, uint32_t capacity)
{
    if (cq == NULL || capacity == 0 || capacity > URO_CQ_CAPACITY_MAX)
        return -EINVAL;
    void *ring = uro_embed_core_memory(uro_cq_ring_size(capacity));
    if (ring == NULL)
        return -ENOMEM;
    if (!uro_cq_move(cq->core, ring, capacity)) {
        free(ring);
        return -EINVAL;
    }
    free(cq->ring);
    cq->ring = ring;
    return 0;
}

static void translate(const struct uro_cqe *from, struct uroce_completion *to)
{
    *to = (struct uroce_completion){ .wr_id = from->wr_id,
                                     .status = from->status,
                                     .opcode = from->opcode,
                                     .flags = from->flags,
                                     .reason =
                                         from->status != URO_WC_SUCCESS ? from->vendor_error : 0,
                                     .length = from->byte_len,
                                     .imm = from->imm,
                                     .qpn = from->qpn,
                                     .source_qpn = from->source_qpn,
                                     .time = from->timestamp,
                                     .service_level = from->service_level };
}

int uroce_cq_poll(struct uroce_cq *cq, struct uroce_completion *completions, uint32_t max)
{
    struct uro_cqe cqes[POLL_BURST];
    uint32_t done = 0, found;

    if (cq == NULL || completions == NULL)
        return -EINVAL;
    if (max > URO_CQ_CAPACITY_MAX)
        max = URO_CQ_CAPACITY_MAX;
    do {
        found = uro_cq_poll(cq->core, cqes, max - done < POLL_BURST ? max - done : POLL_BURST);
        for (uint32_t i = 0; i < found; i++)
            translate(&cqes[i], &completions[done++]);
    } while (found == POLL_BURST && done < max);
    return (int)done;
}

int uroce_cq_arm(struct uroce_cq *cq, int solicited_only)
{
    if (cq == NULL)
        return -EINVAL;
    uro_cq_arm(cq->core, solicited_only != 0);
    return 0;
}

/* ---- addresses ---------------------------------------------------------- */

struct uro_address uro_embed_address(const struct uroce_address *from)
{
    struct uro_address to = { .sgid_index = from->sgid_index,
                              .hop_limit = from->hop_limit != 0 ? from->hop_limit : HOP_LIMIT,
                              .traffic_class = from->traffic_class,
                              .service_level = from->service_level,
                              .flow_label = from->flow_label };

    memcpy(to.dest.octets, from->gid, sizeof to.dest.octets);
    return to;
}

int uroce_ah_create(struct uroce_pd *pd, const struct uroce_address *address, uint64_t now,
                    struct uroce_ah **ah)
{
    if (pd == NULL || address == NULL || ah == NULL || !uro_embed_time_goes_on(pd->engine, now))
        return -EINVAL;
    struct uroce_ah *made = uro_embed_memory(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    const struct uro_address wanted = uro_embed_address(address);
    int error = uro_engine_ah_create(pd->engine->engine, &made->core, pd->number, &wanted, now);
    if (error != 0) {
        free(made);
        return error;
    }
    made->pd = pd;
    pd->users++;
    *ah = made;
    return 0;
}

int uroce_ah_destroy(struct uroce_ah *ah)
{
    if (ah == NULL)
        return -EINVAL;
    uro_engine_ah_destroy(ah->pd->engine->engine, &ah->core);
    ah->pd->users--;
    free(ah);
    return 0;
}
