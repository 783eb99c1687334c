/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint.c - creates, modifies and destroys queue pairs of any type; see endpoint.h. */
#include "sim/work/endpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/work/workload.h"

#define HOP_LIMIT      64u
#define PORT           1u
#define PAGE           4096u
#define FAMILY_STEP    UINT64_C(0x200000000000) /* distance between addresses of two families */
#define ENDPOINT_STEP  UINT64_C(0x1000000000)
#define LIFE_STEP      UINT64_C(0x10000000)
#define DRAINS_MAX     3u /* drains in a life */
#define DRAIN_WAIT_MAX URO_MS(2)
#define DRAIN_REST_MAX URO_US(300)

bool sim_endpoint_fail(const struct sim_endpoint *end, const char *kind, uint64_t number,
                       const char *problem)
{
    sim_world_fail(end->workload->world, "%s %u qp 0x%06x %s %" PRIu64 ": %s", end->ops->family,
                   end->life->number, end->qpn, kind, number, problem);
    return false;
}

struct uroce_address sim_endpoint_address(const struct sim_endpoint *end, bool v6)
{
    struct uroce_address address = { .sgid_index = v6 ? 0 : 1, .hop_limit = HOP_LIMIT };

    memcpy(address.gid, end->host->gids[address.sgid_index].octets, sizeof address.gid);
    return address;
}

void sim_endpoint_init(struct sim_endpoint *end)
{
    end->next = end->workload->endpoints;
    end->workload->endpoints = end;
    end->ended = true;
    end->drain.due = URO_TIME_NEVER;
    end->requests = calloc(SIM_REQUESTS_MAX, sizeof *end->requests);
    end->recvs = calloc(SIM_REQUESTS_MAX, sizeof *end->recvs);
    URO_ASSERT(end->requests != NULL && end->recvs != NULL);
}

void sim_endpoint_unlist(struct sim_endpoint *end)
{
    struct sim_endpoint **link = &end->workload->endpoints;

    while (*link != end)
        link = &(*link)->next;
    *link = end->next;
}

void sim_endpoint_fini(struct sim_endpoint *end)
{
    if (end->qp != NULL)
        sim_endpoint_destroy(end);
    if (end->ops->release != NULL)
        end->ops->release(end);
    free(end->requests);
    free(end->recvs);
    free(end->rc);
    free(end->ud);
    sim_memory_fini(&end->memory);
    sim_cq_fini(&end->cq);
}

void sim_endpoint_make_memory(struct sim_endpoint *end, unsigned family,
                              const struct sim_memory_section_size *sizes)
{
    uint64_t base = family * FAMILY_STEP + end->number * ENDPOINT_STEP +
                    end->life->life * LIFE_STEP + (uint64_t)uro_rng_below(&end->rng, 256) * PAGE;

    sim_memory_init(&end->memory, sizes, base, &end->rng);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        if (sizes[i].slots > 0)
            sim_memory_register(&end->memory, i, end->pd);
}

static void choose_cqs(struct sim_endpoint *end)
{
    const struct sim_workload *workload = end->workload;
    struct sim_cq *cqs = end->workload->cqs[end->side];
    bool tight = !end->ops->own_cq || workload->plan->cq_tight_all;

    end->send_cq = end->recv_cq = end->cq.cq;
    if (!end->ops->own_cq) {
        end->send_cq = cqs[uro_rng_below(&end->rng, workload->plan->cq_count)].cq;
        end->recv_cq = cqs[uro_rng_below(&end->rng, workload->plan->cq_count)].cq;
    }
    if (!end->life->last_life && tight && !end->ops->forged)
        sim_tight_choose(end, end->ops->own_cq || end->srq != NULL);
    if (end->type == UROCE_XRC_TGT)
        end->send_cq = NULL;
    if (end->type == UROCE_XRC_TGT || end->type == UROCE_XRC_INI)
        end->recv_cq = NULL;
}

void sim_endpoint_create(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool target = end->type == UROCE_XRC_TGT;
    bool receives = !target && end->type != UROCE_XRC_INI;
    bool own = receives && end->srq == NULL;
    uint32_t queue = end->ops->forged ? SIM_PLAN_SRQS_MAX : 0;

    if (end->qp != NULL)
        return;
    choose_cqs(end);
    const struct uroce_qp_config config = {
        .size = sizeof config,
        .type = end->type,
        .xrcd = target ? sim_srq_domain(end->workload, end->side, queue) : NULL,
        .srq = end->srq != NULL ? end->srq->srq : NULL,
        .send_cq = end->send_cq,
        .recv_cq = end->recv_cq,
        .send_capacity = target ? 0 : plan->send_capacity,
        .recv_capacity = own ? plan->recv_capacity : 0,
        .send_sge_max = target ? 0 : plan->send_sges,
        .recv_sge_max = own ? plan->recv_sges : 0,
        .inline_max = target ? 0 : plan->inline_max,
        .signal_all = plan->signal_all,
        .user = end
    };
    int result = uroce_qp_create(end->pd, &config, &end->qp);

    URO_ASSERT(result == 0);
    end->qpn = uroce_qp_number(end->qp);
}

bool sim_endpoint_worked(const struct sim_endpoint *end)
{
    if (end->qp != NULL && sim_inside_sends(end->qp) > 0)
        return false;
    return end->sends_left == 0 && end->signalled <= end->confirmed &&
           (end->peer == NULL || end->messages_sent == end->peer->messages_taken);
}

void sim_endpoint_modify(struct sim_endpoint *end, const struct uroce_qp_attr *attr, unsigned mask)
{
    struct sim_world *world = end->workload->world;
    int result = uroce_qp_modify(end->qp, attr, mask | UROCE_ATTR_STATE, world->now);

    sim_world_note(world, "qp 0x%06x to state %d", end->qpn, (int)attr->state);
    if (result != 0)
        sim_world_fail(world, "%s qp 0x%06x: modify to state %d returned %d", end->ops->family,
                       end->qpn, (int)attr->state, result);
}

void sim_endpoint_to_rtr(struct sim_endpoint *end)
{
    const struct sim_plan_pair *plan = end->life->plan;
    const struct sim_endpoint *peer = end->peer;
    bool datagrams = end->type == UROCE_UD;
    bool responds = end->type != UROCE_UC && end->type != UROCE_XRC_INI;
    struct uroce_qp_attr attr = {
        .state = UROCE_INIT, .port = PORT, .qkey = end->qkey, .access = SIM_ACCESS_REMOTE
    };

    sim_endpoint_modify(end, &attr,
                        UROCE_ATTR_PKEY_INDEX | UROCE_ATTR_PORT |
                            (datagrams ? UROCE_ATTR_QKEY : UROCE_ATTR_ACCESS));
    attr.state = UROCE_RTR;
    if (!datagrams) {
        attr.path_mtu = plan->path_mtu;
        attr.rq_psn = peer->wire_psn;
        attr.dest_qpn = peer->qpn;
        attr.max_dest_rd_atomic = peer->plan->rd_atomic;
        attr.min_rnr_timer = end->plan->min_rnr_timer;
        attr.address = sim_endpoint_address(peer, plan->v6);
        attr.address.flow_label = plan->v6 ? uro_rng_below(&end->rng, 1u << 20) : 0;
    }
    sim_endpoint_modify(
        end, &attr,
        datagrams ? 0
                  : UROCE_ATTR_AV | UROCE_ATTR_PATH_MTU | UROCE_ATTR_DEST_QPN | UROCE_ATTR_RQ_PSN |
                        (responds ? UROCE_ATTR_MAX_DEST_RD_ATOMIC | UROCE_ATTR_MIN_RNR_TIMER : 0));
}

void sim_endpoint_to_rts(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool requests = end->ops->reliable && end->type != UROCE_XRC_TGT;
    const struct uroce_qp_attr attr = { .state = UROCE_RTS,
                                        .timeout = plan->timeout,
                                        .retry_cnt = plan->retry_count,
                                        .rnr_retry = end->life->last_life ? 7 : plan->rnr_retry,
                                        .sq_psn = end->wire_psn,
                                        .max_rd_atomic = plan->rd_atomic };

    sim_endpoint_modify(
        end, &attr,
        UROCE_ATTR_SQ_PSN | (end->ops->reliable ? UROCE_ATTR_TIMEOUT : 0) |
            (requests ? UROCE_ATTR_RETRY_CNT | UROCE_ATTR_RNR_RETRY | UROCE_ATTR_MAX_RD_ATOMIC
                      : 0));
}

void sim_endpoint_destroy(struct sim_endpoint *end)
{
    (void)!uroce_qp_destroy(end->qp);
    end->qp = NULL;
    end->send_cq = end->recv_cq = NULL;
}

void sim_endpoint_to_error(struct sim_endpoint *end)
{
    const struct uroce_qp_attr attr = { .state = UROCE_ERR };

    end->ended = true;
    sim_endpoint_modify(end, &attr, 0);
    sim_host_events(end->host);
}

void sim_endpoint_stop(struct sim_endpoint *end, bool reuse)
{
    const struct uroce_qp_attr attr = { .state = UROCE_RESET };

    end->ended = true;
    if (end->ops->stop != NULL)
        end->ops->stop(end);
    end->drain.due = URO_TIME_NEVER;
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
static void keep(struct sim_workload *workload, struct sim_memory *memory)
{
    struct sim_buried *buried = malloc(sizeof *buried);

    URO_ASSERT(buried != NULL);
    *buried = (struct sim_buried){ .next = workload->buried,
                                   .memory = *memory,
                                   .sum = sim_memory_sum(memory) };
    workload->buried = buried;
    memset(memory, 0, sizeof *memory);
}

void sim_endpoint_bury(struct sim_endpoint *end)
{
    size_t offset;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(&end->memory, i);
    if (!sim_memory_check_guards(&end->memory, &offset))
        sim_world_fail(end->workload->world, "%s %u: byte %zu outside every range changed",
                       end->ops->family, end->number, offset);
    keep(end->workload, &end->memory);
}

/* ---- draining ---- */

static void drain_modify(struct sim_endpoint *end, enum uroce_qp_state state)
{
    const struct uroce_qp_attr attr = { .state = state, .sqd_notify = true };

    sim_endpoint_modify(end, &attr, state == UROCE_SQD ? UROCE_ATTR_SQD_NOTIFY : 0);
    sim_host_events(end->host);
}

void sim_drain_run(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;
    enum uroce_qp_state state = uroce_qp_state(end->qp);

    drain->due = URO_TIME_NEVER;
    if (state == UROCE_SQD && drain->drained) {
        drain->drained = drain->draining = false;
        drain_modify(end, UROCE_RTS);
        if (drain->left > 0)
            drain->due = end->workload->world->now + uro_rng_below(&drain->rng, DRAIN_WAIT_MAX);
    } else if (state == UROCE_RTS) {
        drain->left--;
        drain->draining = true;
        drain_modify(end, UROCE_SQD);
    }
}

void sim_drain_on_drained(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;

    if (!drain->draining || drain->drained) {
        sim_world_fail(end->workload->world,
                       "a send queue was reported drained, but no drain was requested");
        return;
    }
    drain->drained = true;
    drain->due = end->workload->world->now + uro_rng_below(&drain->rng, DRAIN_REST_MAX);
}

void sim_drain_begin(struct sim_endpoint *end)
{
    struct sim_drain *drain = &end->drain;

    drain->draining = drain->drained = false;
    drain->due = URO_TIME_NEVER;
    drain->left = end->workload->plan->pauses ? uro_rng_below(&drain->rng, DRAINS_MAX + 1) : 0;
    if (drain->left > 0)
        drain->due = end->workload->world->now + uro_rng_below(&drain->rng, DRAIN_WAIT_MAX);
}

void sim_drain_init(struct sim_endpoint *end)
{
    struct sim_workload *workload = end->workload;

    uro_rng_init_number(&end->drain.rng,
                        workload->plan->seed ^ (uint64_t)++workload->drain_count << 48);
}
