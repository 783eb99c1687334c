/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.c - the functions of uroce/objects.h that create, change and destroy objects, and
 * poll. */
#include <uroce/objects.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "embed/embed.h"

#define ACCESS                                                                                     \
    (UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |             \
     UROCE_ACCESS_REMOTE_ATOMIC)
#define ATTRIBUTES                                                                                 \
    (UROCE_ATTR_STATE | UROCE_ATTR_ACCESS | UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT |              \
     UROCE_ATTR_QKEY | UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU | UROCE_ATTR_TIMEOUT |                  \
     UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY | UROCE_ATTR_RQ_PSN | UROCE_ATTR_MAX_RD_ATOMIC |  \
     UROCE_ATTR_MIN_RNR_TIMER | UROCE_ATTR_SQ_PSN | UROCE_ATTR_MAX_DEST_RD_ATOMIC |                \
     UROCE_ATTR_DEST_QPN)
#define HOP_LIMIT  64u
#define POLL_BURST 16u

UROCE_SAME(UROCE_ACCESS_REMOTE_ATOMIC, URO_ACCESS_REMOTE_ATOMIC);
UROCE_SAME(UROCE_ACCESS_LOCAL_WRITE, URO_ACCESS_LOCAL_WRITE);
UROCE_SAME(UROCE_GENERAL_ERR, URO_WC_GENERAL_ERR);
UROCE_SAME(UROCE_RNR_RETRY_EXC_ERR, URO_WC_RNR_RETRY_EXC_ERR);
UROCE_SAME(UROCE_COMPLETION_WITH_IMM, URO_WC_WITH_IMM);
UROCE_SAME(UROCE_COMPLETION_GRH, URO_WC_GRH);
UROCE_SAME(UROCE_UD, URO_QPT_UD);
UROCE_SAME(UROCE_UC, URO_QPT_UC);
UROCE_SAME(UROCE_ERR, URO_QPS_ERR);
UROCE_SAME(UROCE_ATTR_DEST_QPN, URO_ATTR_DEST_QPN);
UROCE_SAME(UROCE_ATTR_MAX_DEST_RD_ATOMIC, URO_ATTR_DEST_RD);
UROCE_SAME(UROCE_ATTR_MAX_RD_ATOMIC, URO_ATTR_RD_ATOMIC);
UROCE_SAME(UROCE_ATTR_MIN_RNR_TIMER, URO_ATTR_MIN_RNR);

static struct uro_shard *shard_of(const struct uroce_engine *engine)
{
    return uro_engine_shard(engine->engine);
}

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

/* ---- memory regions ----------------------------------------------------- */

int uroce_mr_create(struct uroce_pd *pd, void *memory, size_t length, unsigned access,
                    struct uroce_mr **mr)
{
    const bool remote_writes =
        (access & (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC)) != 0;

    if (pd == NULL || memory == NULL || mr == NULL || length == 0 ||
        length > UINTPTR_MAX - (uintptr_t)memory || (access & ~ACCESS) != 0 ||
        (remote_writes && !(access & UROCE_ACCESS_LOCAL_WRITE)))
        return -EINVAL;
    struct uroce_mr *made = uro_embed_memory(sizeof *made);
    if (made == NULL)
        return -ENOMEM;
    made->pd = pd;
    made->key = (struct uro_key){ .pd = pd->number,
                                  .access = access,
                                  .base = (uintptr_t)memory,
                                  .length = length,
                                  .memory = memory };
    uro_key_register(shard_of(pd->engine), &made->key);
    pd->users++;
    *mr = made;
    return 0;
}

int uroce_mr_destroy(struct uroce_mr *mr)
{
    if (mr == NULL)
        return -EINVAL;
    uro_key_expel(shard_of(mr->pd->engine), &mr->key);
    mr->pd->users--;
    free(mr);
    return 0;
}

uint32_t uroce_mr_key(const struct uroce_mr *mr)
{
    return mr != NULL ? uro_key_number(&mr->key) : 0;
}

/* ---- completion queues -------------------------------------------------- */

int uroce_cq_create(struct uroce_engine *engine, uint32_t capacity, void *user,
                    struct uroce_cq **cq)
{
    if (engine == NULL || cq == NULL || capacity == 0 || capacity > URO_CQ_CAPACITY_MAX)
        return -EINVAL;
    struct uroce_cq *made = uro_embed_memory(sizeof *made);
    void *memory = made != NULL ? uro_embed_memory(uro_cq_size(capacity)) : NULL;
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
    free(cq->core);
    free(cq);
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
                                     .source_qpn = from->source_qpn };
}

int uroce_cq_poll(struct uroce_cq *cq, struct uroce_completion *completions, uint32_t room)
{
    struct uro_cqe cqes[POLL_BURST];
    uint32_t done = 0, found;

    if (cq == NULL || completions == NULL)
        return -EINVAL;
    if (room > URO_CQ_CAPACITY_MAX)
        room = URO_CQ_CAPACITY_MAX;
    do {
        found = uro_cq_poll(cq->core, cqes, room - done < POLL_BURST ? room - done : POLL_BURST);
        for (uint32_t i = 0; i < found; i++)
            translate(&cqes[i], &completions[done++]);
    } while (found == POLL_BURST && done < room);
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

static struct uro_address address_of(const struct uroce_address *from)
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
    const struct uro_address wanted = address_of(address);
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

/* ---- queue pairs -------------------------------------------------------- */

static bool fits(const struct uroce_pd *pd, const struct uroce_qp_config *config)
{
    return (unsigned)config->type <= UROCE_UD && config->send_cq != NULL &&
           config->recv_cq != NULL && config->send_cq->engine == pd->engine &&
           config->recv_cq->engine == pd->engine;
}

static int build(struct uroce_pd *pd, const struct uroce_qp_config *config, struct uroce_qp **out)
{
    const struct uro_qp_init init = { .type = (enum uro_qp_type)config->type,
                                      .pd = pd->number,
                                      .send_cq = config->send_cq->core,
                                      .recv_cq = config->recv_cq->core,
                                      .send_capacity = config->send_capacity,
                                      .recv_capacity = config->recv_capacity,
                                      .send_sge_max = config->send_sge_max,
                                      .recv_sge_max = config->recv_sge_max,
                                      .inline_max = config->inline_max,
                                      .signal_all = config->signal_all != 0,
                                      .user = config->user };
    const size_t size = uro_qp_size(&init);

    if (size == 0)
        return -EINVAL;
    struct uroce_qp *qp = uro_embed_memory(sizeof *qp);
    void *memory = qp != NULL ? uro_embed_memory(size) : NULL;
    if (memory == NULL) {
        free(qp);
        return -ENOMEM;
    }
    qp->pd = pd;
    qp->type = config->type;
    qp->send_cq = config->send_cq;
    qp->recv_cq = config->recv_cq;
    qp->shard = shard_of(pd->engine);
    qp->core = uro_qp_create(qp->shard, &init, memory);
    pd->users++;
    qp->send_cq->users++;
    qp->recv_cq->users++;
    *out = qp;
    return 0;
}

int uroce_qp_create(struct uroce_pd *pd, const struct uroce_qp_config *from, struct uroce_qp **qp)
{
    struct uroce_qp_config config;

    if (pd == NULL || from == NULL || qp == NULL)
        return -EINVAL;
    int error = uro_embed_take(&config, sizeof config, from, sizeof config);
    if (error != 0)
        return error;
    return fits(pd, &config) ? build(pd, &config, qp) : -EINVAL;
}

int uroce_qp_destroy(struct uroce_qp *qp)
{
    if (qp == NULL)
        return -EINVAL;
    const uint32_t qpn = uro_qp_number(qp->core);
    uro_engine_qp_destroy(qp->pd->engine->engine, qp->core);
    uro_cq_forget(qp->send_cq->core, qpn);
    uro_cq_forget(qp->recv_cq->core, qpn);
    qp->send_cq->users--;
    qp->recv_cq->users--;
    qp->pd->users--;
    free(qp->core);
    free(qp);
    return 0;
}

uint32_t uroce_qp_number(const struct uroce_qp *qp)
{
    return qp != NULL ? uro_qp_number(qp->core) : 0;
}

static bool is_clear(const struct uroce_qp_attr *attr)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(attr->reserved); i++)
        if (attr->reserved[i] != 0)
            return false;
    return true;
}

int uroce_qp_modify(struct uroce_qp *qp, const struct uroce_qp_attr *attr, unsigned mask,
                    uint64_t now)
{
    if (qp == NULL || attr == NULL || (mask & ~ATTRIBUTES) != 0 || !is_clear(attr) ||
        (unsigned)attr->state > UROCE_ERR ||
        ((mask & UROCE_ATTR_ACCESS) && (attr->access & ~ACCESS)) ||
        !uro_embed_time_goes_on(qp->pd->engine, now))
        return -EINVAL;
    const struct uro_qp_attr wanted = { .state = (enum uro_qp_state)attr->state,
                                        .access = attr->access,
                                        .path_mtu = attr->path_mtu,
                                        .dest_qpn = attr->dest_qpn,
                                        .qkey = attr->qkey,
                                        .rq_psn = attr->rq_psn,
                                        .sq_psn = attr->sq_psn,
                                        .address = address_of(&attr->address),
                                        .port = attr->port,
                                        .pkey_index = attr->pkey_index,
                                        .max_rd_atomic = attr->max_rd_atomic,
                                        .max_dest_rd_atomic = attr->max_dest_rd_atomic,
                                        .min_rnr_timer = attr->min_rnr_timer,
                                        .timeout = attr->timeout,
                                        .retry_count = attr->retry_cnt,
                                        .rnr_retry = attr->rnr_retry };
    return uro_engine_qp_modify(qp->pd->engine->engine, qp->core, &wanted, mask, now);
}

enum uroce_qp_state uroce_qp_state(const struct uroce_qp *qp)
{
    return qp != NULL ? (enum uroce_qp_state)uro_qp_state_now(qp->core) : UROCE_RESET;
}

uint32_t uroce_qp_reason(const struct uroce_qp *qp)
{
    return qp != NULL ? (uint32_t)uro_qp_failure(qp->core) : 0;
}
