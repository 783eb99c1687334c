/* SPDX-License-Identifier: BSD-3-Clause */
/* qp.c - the functions of uroce/objects.h that create, change and destroy queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "embed/embed.h"

#define ATTRIBUTES                                                                                 \
    (UROCE_ATTR_STATE | UROCE_ATTR_CUR_STATE | UROCE_ATTR_SQD_NOTIFY | UROCE_ATTR_ACCESS |         \
     UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT | UROCE_ATTR_QKEY | UROCE_ATTR_AV |                   \
     UROCE_ATTR_PATH_MTU | UROCE_ATTR_TIMEOUT | UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY |      \
     UROCE_ATTR_RQ_PSN | UROCE_ATTR_MAX_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER | UROCE_ATTR_SQ_PSN | \
     UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_DEST_QPN)
#define ACCESS                                                                                     \
    (UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |             \
     UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_MW_BIND | UROCE_ACCESS_FLUSH_GLOBAL |               \
     UROCE_ACCESS_FLUSH_PERSISTENT)

UROCE_SAME(UROCE_SGE_MAX, URO_SGE_MAX);
UROCE_SAME(UROCE_INLINE_MAX, URO_INLINE_MAX);
UROCE_SAME(UROCE_PATH_MTU_MAX, URO_PATH_MTU_MAX);
UROCE_SAME(UROCE_UD, URO_QPT_UD);
UROCE_SAME(UROCE_UC, URO_QPT_UC);
UROCE_SAME(UROCE_XRC_INI, URO_QPT_XRC_INI);
UROCE_SAME(UROCE_XRC_TGT, URO_QPT_XRC_TGT);
UROCE_SAME(UROCE_ERR, URO_QPS_ERR);
UROCE_SAME(UROCE_ATTR_SQD_NOTIFY, URO_ATTR_SQD_NOTIFY);
UROCE_SAME(UROCE_ATTR_DEST_QPN, URO_ATTR_DEST_QPN);
UROCE_SAME(UROCE_ATTR_MAX_DEST_RD_ATOMIC, URO_ATTR_DEST_RD);
UROCE_SAME(UROCE_ATTR_MAX_RD_ATOMIC, URO_ATTR_RD_ATOMIC);
UROCE_SAME(UROCE_ATTR_MIN_RNR_TIMER, URO_ATTR_MIN_RNR);

/* ---- creating, destroying ----------------------------------------------- */

/* The queues and the domain of each queue pair type (man 3 ibv_create_qp). */
static const struct {
    bool sends, receives, xrc_domain;
} types[] = {
    [UROCE_RC] = { .sends = true, .receives = true },
    [UROCE_UC] = { .sends = true, .receives = true },
    [UROCE_UD] = { .sends = true, .receives = true },
    [UROCE_XRC_INI] = { .sends = true },
    [UROCE_XRC_TGT] = { .xrc_domain = true },
};

static bool cq_fits(const struct uroce_pd *pd, const struct uroce_cq *cq, bool needed)
{
    return needed ? cq != NULL && cq->engine == pd->engine : cq == NULL;
}

static bool fits(const struct uroce_pd *pd, const struct uroce_qp_config *config)
{
    if ((unsigned)config->type >= URO_ARRAY_LEN(types))
        return false;
    const bool sends = types[config->type].sends, receives = types[config->type].receives;
    if (!cq_fits(pd, config->send_cq, sends) || !cq_fits(pd, config->recv_cq, receives) ||
        (!sends && config->send_capacity > 0) || (!receives && config->recv_capacity > 0) ||
        (config->block_self_multicast != 0 && config->type != UROCE_UD))
        return false;
    if (config->srq != NULL &&
        (!receives || config->srq->xrcd != NULL || config->srq->pd->engine != pd->engine))
        return false;
    return types[config->type].xrc_domain
               ? config->xrcd != NULL && config->xrcd->engine == pd->engine
               : config->xrcd == NULL;
}

/* Adds @by, 1 or -1, to the users of the objects that the queue pair uses. */
static void count_users(struct uroce_qp *qp, uint32_t by)
{
    qp->pd->users += by;
    if (qp->send_cq != NULL)
        qp->send_cq->users += by;
    if (qp->recv_cq != NULL)
        qp->recv_cq->users += by;
    if (qp->srq != NULL)
        qp->srq->users += by;
    if (qp->xrcd != NULL)
        qp->xrcd->users += by;
}

static struct uro_qp_init init_of(const struct uroce_pd *pd, const struct uroce_qp_config *config)
{
    return (struct uro_qp_init){ .type = (enum uro_qp_type)config->type,
                                 .pd = config->xrcd != NULL ? 0 : pd->number,
                                 .xrcd = config->xrcd != NULL ? config->xrcd->number : 0,
                                 .send_cq = config->send_cq != NULL ? config->send_cq->core : NULL,
                                 .recv_cq = config->recv_cq != NULL ? config->recv_cq->core : NULL,
                                 .srq = config->srq != NULL ? &config->srq->core : NULL,
                                 .send_capacity = config->send_capacity,
                                 .recv_capacity = config->recv_capacity,
                                 .send_sge_max = config->send_sge_max,
                                 .recv_sge_max = config->recv_sge_max,
                                 .inline_max = config->inline_max,
                                 .signal_all = config->signal_all != 0,
                                 .block_self_multicast = config->block_self_multicast != 0,
                                 .user = config->user };
}

static int build(struct uroce_pd *pd, const struct uroce_qp_config *config, struct uroce_qp **out)
{
    const struct uro_qp_init init = init_of(pd, config);
    const size_t size = uro_qp_size(&init);
    struct uro_shard *shard = uro_embed_shard(pd->engine);

    if (size == 0)
        return -EINVAL;
    if (shard->qps.count >= uro_qp_most(shard))
        return -ENOMEM;
    struct uroce_qp *qp = uro_embed_memory(sizeof *qp);
    void *memory = qp != NULL ? uro_embed_core_memory(size) : NULL;
    if (memory == NULL) {
        free(qp);
        return -ENOMEM;
    }
    qp->pd = pd;
    qp->type = config->type;
    qp->send_cq = config->send_cq;
    qp->recv_cq = config->recv_cq;
    qp->srq = config->srq;
    qp->xrcd = config->xrcd;
    qp->shard = shard;
    qp->core = uro_qp_create(shard, &init, memory);
    count_users(qp, 1);
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

static void forget(struct uroce_cq *cq, uint32_t qpn)
{
    if (cq != NULL)
        uro_cq_forget(cq->core, qpn);
}

int uroce_qp_destroy(struct uroce_qp *qp)
{
    if (qp == NULL)
        return -EINVAL;
    const uint32_t qpn = uro_qp_number(qp->core);
    uro_embed_detach_all(qp);
    uro_engine_qp_destroy(qp->pd->engine->engine, qp->core);
    forget(qp->send_cq, qpn);
    forget(qp->recv_cq, qpn);
    count_users(qp, UINT32_MAX);
    free(qp->core);
    free(qp);
    return 0;
}

/* ---- attributes --------------------------------------------------------- */

uint32_t uroce_qp_number(const struct uroce_qp *qp)
{
    return qp != NULL ? uro_qp_number(qp->core) : 0;
}

static bool is_clear(const struct uroce_qp_attr *attr)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(attr->reserved); i++)
        if (attr->reserved[i] != 0)
            return false;
    return attr->reserved_byte == 0;
}

int uroce_qp_modify(struct uroce_qp *qp, const struct uroce_qp_attr *attr, unsigned mask,
                    uint64_t now)
{
    if (qp == NULL || attr == NULL || (mask & ~ATTRIBUTES) != 0 || !is_clear(attr) ||
        (unsigned)attr->state > UROCE_ERR || attr->current_state > UROCE_ERR ||
        ((mask & UROCE_ATTR_ACCESS) && (attr->access & ~ACCESS)) ||
        !uro_embed_time_goes_on(qp->pd->engine, now))
        return -EINVAL;
    const struct uro_qp_attr wanted = { .state = (enum uro_qp_state)attr->state,
                                        .current_state = (enum uro_qp_state)attr->current_state,
                                        .access = attr->access,
                                        .path_mtu = attr->path_mtu,
                                        .dest_qpn = attr->dest_qpn,
                                        .qkey = attr->qkey,
                                        .rq_psn = attr->rq_psn,
                                        .sq_psn = attr->sq_psn,
                                        .address = uro_embed_address(&attr->address),
                                        .port = attr->port,
                                        .pkey_index = attr->pkey_index,
                                        .max_rd_atomic = attr->max_rd_atomic,
                                        .max_dest_rd_atomic = attr->max_dest_rd_atomic,
                                        .min_rnr_timer = attr->min_rnr_timer,
                                        .timeout = attr->timeout,
                                        .retry_count = attr->retry_cnt,
                                        .rnr_retry = attr->rnr_retry,
                                        .sqd_notify = attr->sqd_notify != 0 };
    return uro_engine_qp_modify(qp->pd->engine->engine, qp->core, &wanted, mask, now);
}

void uro_embed_attr(const struct uro_qp_attr *from, struct uroce_qp_attr *to)
{
    *to = (struct uroce_qp_attr){ .state = (enum uroce_qp_state)from->state,
                                  .current_state = (uint8_t)from->current_state,
                                  .access = from->access,
                                  .path_mtu = from->path_mtu,
                                  .dest_qpn = from->dest_qpn,
                                  .qkey = from->qkey,
                                  .rq_psn = from->rq_psn,
                                  .sq_psn = from->sq_psn,
                                  .port = from->port,
                                  .pkey_index = (uint8_t)from->pkey_index,
                                  .max_rd_atomic = from->max_rd_atomic,
                                  .max_dest_rd_atomic = from->max_dest_rd_atomic,
                                  .min_rnr_timer = from->min_rnr_timer,
                                  .timeout = from->timeout,
                                  .retry_cnt = from->retry_count,
                                  .rnr_retry = from->rnr_retry,
                                  .sqd_notify = from->sqd_notify,
                                  .sq_draining = from->sq_draining,
                                  .address = { .sgid_index = from->address.sgid_index,
                                               .hop_limit = from->address.hop_limit,
                                               .traffic_class = from->address.traffic_class,
                                               .service_level = from->address.service_level,
                                               .flow_label = from->address.flow_label } };
    memcpy(to->address.gid, from->address.dest.octets, sizeof to->address.gid);
}

int uroce_qp_query(const struct uroce_qp *qp, struct uroce_qp_attr *attr)
{
    struct uro_qp_attr found;

    if (qp == NULL || attr == NULL)
        return -EINVAL;
    uro_qp_query(qp->core, &found);
    uro_embed_attr(&found, attr);
    return 0;
}

enum uroce_qp_state uroce_qp_state(const struct uroce_qp *qp)
{
    return qp != NULL ? (enum uroce_qp_state)uro_qp_state_now(qp->core) : UROCE_RESET;
}

uint32_t uroce_qp_reason(const struct uroce_qp *qp)
{
    return qp != NULL ? (uint32_t)uro_qp_failure(qp->core) : 0;
}

const char *uroce_qp_problem(const struct uroce_qp *qp)
{
    return qp != NULL ? uro_qp_problem(qp->core) : NULL;
}
