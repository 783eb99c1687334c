/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint.c - creates, modifies and destroys queue pairs of any type; see endpoint.h. */
#include "sim/work/endpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/workload.h"

#define HOP_LIMIT      64u
#define PORT           1u
#define PAGE           4096u
#define FAMILY_STEP    UINT64_C(0x200000000000) /* between addresses of two families */
#define ENDPOINT_STEP  UINT64_C(0x1000000000)
#define LIFE_STEP      UINT64_C(0x10000000)
#define DRAINS_MAX     3u /* in a life */
#define DRAIN_WAIT_MAX URO_MS(2)
#define DRAIN_REST_MAX URO_US(300)

bool sim_endpoint_fail(const struct sim_endpoint *end, const char *kind, uint64_t number,
                       const char *what)
{
    sim_world_fail(end->load->world, "%s %u qp 0x%06x %s %" PRIu64 ": %s", end->ops->family,
                   end->life->number, end->qpn, kind, number, what);
    return false;
}

struct uro_shard *sim_endpoint_shard(const struct sim_endpoint *end)
{
    return uro_engine_shard(end->host->engine);
}

struct uro_address sim_endpoint_address(const struct sim_endpoint *end, bool v6)
{
    return (struct uro_address){ .dest = end->host->config.engine.addresses[v6 ? 0 : 1].gid,
                                 .sgid_index = v6 ? 0 : 1,
                                 .hop_limit = HOP_LIMIT };
}

void sim_endpoint_init(struct sim_endpoint *end)
{
    end->next = end->load->endpoints;
    end->load->endpoints = end;
    end->ended = true;
    end->drain.at = URO_TIME_NEVER;
    end->requests = calloc(SIM_REQUESTS_MAX, sizeof *end->requests);
    end->recvs = calloc(SIM_REQUESTS_MAX, sizeof *end->recvs);
    URO_ASSERT(end->requests != NULL && end->recvs != NULL);
}

void sim_endpoint_unlist(struct sim_endpoint *end)
{
    struct sim_endpoint **at = &end->load->endpoints;

    while (*at != end)
        at = &(*at)->next;
    *at = end->next;
}

void sim_endpoint_fini(struct sim_endpoint *end)
{
    free(end->qp_memory);
    free(end->requests);
    free(end->recvs);
    free(end->rc);
    free(end->ud);
    sim_memory_fini(&end->memory);
    sim_cq_fini(&end->cq);
}

void sim_endpoint_make_memory(struct sim_endpoint *end, unsigned family,
                              const struct sim_memory_section_size *sizes, const uint32_t *access)
{
    uint64_t base = family * FAMILY_STEP + end->number * ENDPOINT_STEP +
                    end->life->life * LIFE_STEP + (uint64_t)uro_rng_below(&end->rng, 256) * PAGE;

    sim_memory_init(&end->memory, sizes, base, &end->rng);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        if (sizes[i].slots > 0)
            sim_memory_register(&end->memory, sim_endpoint_shard(end), i, end->pd, access[i]);
}

static void choose_cqs(struct sim_endpoint *end)
{
    const struct sim_workload *load = end->load;
    struct sim_cq *cqs = end->load->cqs[end->side];
    bool tight = !end->ops->own_cq || load->plan->cq_tight_all;

    end->send_cq = end->recv_cq = end->cq.cq;
    if (!end->ops->own_cq) {
        end->send_cq = cqs[uro_rng_below(&end->rng, load->plan->cq_count)].cq;
        end->recv_cq = cqs[uro_rng_below(&end->rng, load->plan->cq_count)].cq;
    }
    if (!end->life->last_life && tight && !end->ops->forged)
        sim_tight_choose(end, end->ops->own_cq || end->srq != NULL);
    if (end->type == URO_QPT_XRC_TGT)
        end->send_cq = NULL;
    if (end->type == URO_QPT_XRC_TGT || end->type == URO_QPT_XRC_INI)
        end->recv_cq = NULL;
}

void sim_endpoint_create(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool target = end->type == URO_QPT_XRC_TGT;
    bool receives = !target && end->type != URO_QPT_XRC_INI;
    bool own = receives && end->srq == NULL;
    uint32_t queue = end->ops->forged ? SIM_PLAN_SRQS_MAX : 0;

    if (end->qp != NULL)
        return;
    choose_cqs(end);
    const struct uro_qp_init init = { .type = end->type,
                                      .xrcd = target ? sim_srq_domain(end->load, queue) : 0,
                                      .srq = end->srq != NULL ? end->srq->srq : NULL,
                                      .pd = target ? 0 : end->pd,
                                      .send_cq = end->send_cq,
                                      .recv_cq = end->recv_cq,
                                      .send_capacity = target ? 0 : plan->send_capacity,
                                      .recv_capacity = own ? plan->recv_capacity : 0,
                                      .send_sge_max = target ? 0 : plan->send_sges,
                                      .recv_sge_max = own ? plan->recv_sges : 0,
                                      .inline_max = target ? 0 : plan->inline_max,
                                      .signal_all = plan->signal_all,
                                      .user = end };
    size_t size = uro_qp_size(&init);

    URO_ASSERT(size > 0);
    end->qp_memory = sim_memory_unzeroed(size);
    end->qp = uro_qp_create(sim_endpoint_shard(end), &init, end->qp_memory);
    end->qpn = uro_qp_number(end->qp);
}

bool sim_endpoint_worked(const struct sim_endpoint *end)
{
    const struct uro_wq *send = end->qp != NULL ? uro_qp_send_queue(end->qp) : NULL;

    if (send != NULL && end->type != URO_QPT_XRC_TGT && uro_wq_head(send) != uro_wq_tail(send))
        return false;
    return end->sends_left == 0 && end->signalled <= end->confirmed &&
           (end->peer == NULL || end->messages_sent == end->peer->messages_taken);
}

void sim_endpoint_modify(struct sim_endpoint *end, const struct uro_qp_attr *attr, unsigned mask)
{
    struct sim_world *world = end->load->world;
    int result =
        uro_engine_qp_modify(end->host->engine, end->qp, attr, mask | URO_ATTR_STATE, world->now);

    sim_journal_note(world->journal, world->now, "qp 0x%06x to state %d", end->qpn,
                     (int)attr->state);
    if (result != 0)
        sim_world_fail(world, "%s qp 0x%06x: modify to state %d returned %d", end->ops->family,
                       end->qpn, (int)attr->state, result);
}

void sim_endpoint_to_rtr(struct sim_endpoint *end)
{
    const struct sim_plan_pair *plan = end->life->plan;
    const struct sim_endpoint *peer = end->peer;
    bool datagrams = end->type == URO_QPT_UD;
    bool responds = end->type != URO_QPT_UC && end->type != URO_QPT_XRC_INI;
    struct uro_qp_attr attr = {
        .state = URO_QPS_INIT, .port = PORT, .qkey = end->qkey, .access = SIM_ACCESS_REMOTE
    };

    sim_endpoint_modify(end, &attr,
                        URO_ATTR_PKEY_INDEX | URO_ATTR_PORT |
                            (datagrams ? URO_ATTR_QKEY : URO_ATTR_ACCESS));
    attr.state = URO_QPS_RTR;
    if (!datagrams) {
        attr.path_mtu = plan->path_mtu;
        attr.rq_psn = peer->wire_psn;
        attr.dest_qpn = peer->qpn;
        attr.max_dest_rd_atomic = peer->plan->rd_atomic;
        attr.min_rnr_timer = end->plan->min_rnr_timer;
        attr.address = sim_endpoint_address(peer, plan->v6);
        attr.address.flow_label = plan->v6 ? uro_rng_below(&end->rng, 1u << 20) : 0;
    }
    sim_endpoint_modify(end, &attr,
                        datagrams ? 0
                                  : URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN |
                                        URO_ATTR_RQ_PSN |
                                        (responds ? URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR : 0));
}

void sim_endpoint_to_rts(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool requests = end->ops->reliable && end->type != URO_QPT_XRC_TGT;
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS,
                                      .timeout = plan->timeout,
                                      .retry_count = plan->retry_count,
                                      .rnr_retry = end->life->last_life ? 7 : plan->rnr_retry,
                                      .sq_psn = end->wire_psn,
                                      .max_rd_atomic = plan->rd_atomic };

    sim_endpoint_modify(
        end, &attr,
        URO_ATTR_SQ_PSN | (end->ops->reliable ? URO_ATTR_TIMEOUT : 0) |
            (requests ? URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC : 0));
}

void sim_endpoint_destroy(struct sim_endpoint *end)
{
    uro_engine_qp_destroy(end->host->engine, end->qp);
    free(end->qp_memory);
    end->qp = NULL;
    end->qp_memory = NULL;
    end->send_cq = end->recv_cq = NULL;
}

void sim_endpoint_to_error(struct sim_endpoint *end)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_ERR };

    end->ended = true;
    sim_endpoint_modify(end, &attr, 0);
    sim_host_events(end->host);
}

void sim_endpoint_stop(struct sim_endpoint *end, bool reuse)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RESET };

    end->ended = true;
    if (end->ops->stop != NULL)
        end->ops->stop(end);
    end->drain.at = URO_TIME_NEVER;
    if (end->srq != NULL)
        sim_srq_on_stop(end->srq, end->recv_cq, end->qpn);
    if (reuse)
        sim_endpoint_modify(end, &attr, 0);
    else
        sim_endpoint_destroy(end);
    end->alive = false;
    if (end->ops->stopped != NULL)
        end->ops->stopped(end);
    sim_host_events(end->host);
}

/* Keeps memory until the end of the run, to check that it is not written any more. */
static void keep(struct sim_workload *load, struct sim_memory *memory)
{
    struct sim_buried *buried = malloc(sizeof *buried);

    URO_ASSERT(buried != NULL);
    *buried = (struct sim_buried){ .next = load->buried,
                                   .memory = *memory,
                                   .sum = sim_memory_sum(memory) };
    load->buried = buried;
    memset(memory, 0, sizeof *memory);
}

void sim_endpoint_bury(struct sim_endpoint *end)
{
    size_t at;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(&end->memory, sim_endpoint_shard(end), i);
    if (!sim_memory_check_guards(&end->memory, &at))
        sim_world_fail(end->load->world, "%s %u: octet %zu outside every range changed",
                       end->ops->family, end->number, at);
    keep(end->load, &end->memory);
}

/* ---- draining ---- */

static void drain_modify(struct sim_endpoint *end, enum uro_qp_state state)
{
    const struct uro_qp_attr attr = { .state = state, .sqd_notify = true };

    sim_endpoint_modify(end, &attr, state == URO_QPS_SQD ? URO_ATTR_SQD_NOTIFY : 0);
    sim_host_events(end->host);
}

void sim_drain_run(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;
    enum uro_qp_state state = uro_qp_state_now(end->qp);

    drain->at = URO_TIME_NEVER;
    if (state == URO_QPS_SQD && drain->drained) {
        drain->drained = drain->draining = false;
        drain_modify(end, URO_QPS_RTS);
        if (drain->left > 0)
            drain->at = end->load->world->now + uro_rng_below(&drain->rng, DRAIN_WAIT_MAX);
    } else if (state == URO_QPS_RTS) {
        drain->left--;
        drain->draining = true;
        drain_modify(end, URO_QPS_SQD);
    }
}

void sim_drain_on_drained(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;

    if (!drain->draining || drain->drained) {
        sim_world_fail(end->load->world, "a send queue was drained that was not to be");
        return;
    }
    drain->drained = true;
    drain->at = end->load->world->now + uro_rng_below(&drain->rng, DRAIN_REST_MAX);
}

void sim_drain_begin(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;

    drain->draining = drain->drained = false;
    drain->at = URO_TIME_NEVER;
    drain->left = end->load->plan->pauses ? uro_rng_below(&drain->rng, DRAINS_MAX + 1) : 0;
    if (drain->left > 0)
        drain->at = end->load->world->now + uro_rng_below(&drain->rng, DRAIN_WAIT_MAX);
}

void sim_drain_init(struct sim_endpoint *end)
{
    struct sim_workload *load = end->load;

    uro_rng_init_number(&end->drain.rng, load->plan->seed ^ (uint64_t)++load->drain_count << 48);
}
