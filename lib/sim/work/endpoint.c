/* SPDX-License-Identifier: BSD-3-Clause */
/* endpoint.c - creates, modifies and destroys queue pairs of any type; see endpoint.h. */
#include "sim/work/endpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/work/tight.h"
#include "sim/work/workload.h"

#define QP_ALIGNMENT   64u
#define HOP_LIMIT      64u
#define DRAINS_MAX     3u /* in a life */
#define DRAIN_WAIT_MAX URO_MS(2)
#define DRAIN_REST_MAX URO_US(300)

bool sim_endpoint_fail(const struct sim_endpoint *endpoint, const char *kind, uint64_t number,
                       const char *what)
{
    uint32_t family_number = endpoint->life != NULL ? endpoint->life->number : endpoint->number;

    sim_world_fail(endpoint->load->world, "%s %u qp 0x%06x %s %" PRIu64 ": %s",
                   endpoint->ops->family, family_number, endpoint->qpn, kind, number, what);
    return false;
}

struct uro_shard *sim_endpoint_shard(const struct sim_endpoint *endpoint)
{
    return uro_engine_shard(endpoint->host->engine);
}

struct uro_address sim_endpoint_address(const struct sim_endpoint *endpoint, bool v6)
{
    return (struct uro_address){ .dest = endpoint->host->config.engine.addresses[v6 ? 0 : 1].gid,
                                 .sgid_index = v6 ? 0 : 1,
                                 .hop_limit = HOP_LIMIT };
}

void sim_endpoint_init(struct sim_endpoint *endpoint)
{
    endpoint->next = endpoint->load->endpoints;
    endpoint->load->endpoints = endpoint;
    endpoint->ended = true;
}

void sim_endpoint_fini(struct sim_endpoint *endpoint)
{
    free(endpoint->qp_memory);
    free(endpoint->requests);
    free(endpoint->recvs);
    free(endpoint->rc);
    free(endpoint->ud);
    sim_memory_fini(&endpoint->memory);
    sim_cq_fini(&endpoint->cq);
}

void sim_endpoint_create(struct sim_endpoint *endpoint, const struct uro_qp_init *init)
{
    size_t size = uro_qp_size(init);

    URO_ASSERT(size > 0);
    size = (size + QP_ALIGNMENT - 1) / QP_ALIGNMENT * QP_ALIGNMENT;
    endpoint->qp_memory = aligned_alloc(QP_ALIGNMENT, size);
    URO_ASSERT(endpoint->qp_memory != NULL);
    memset(endpoint->qp_memory, 0xa5, size);
    endpoint->qp = uro_qp_create(sim_endpoint_shard(endpoint), init, endpoint->qp_memory);
    endpoint->qpn = uro_qp_number(endpoint->qp);
}

void sim_endpoint_create_unreliable(struct sim_endpoint *endpoint)
{
    const struct sim_plan_end *plan = endpoint->plan;
    bool shared = endpoint->srq != NULL;

    endpoint->send_cq = endpoint->recv_cq = endpoint->cq.cq;
    if (!endpoint->life->last_life && endpoint->load->plan->cq_tight_all)
        sim_tight_choose(endpoint, true);
    const struct uro_qp_init init = { .type = endpoint->type,
                                      .pd = endpoint->pd,
                                      .send_cq = endpoint->send_cq,
                                      .recv_cq = endpoint->recv_cq,
                                      .srq = shared ? endpoint->srq->srq : NULL,
                                      .send_capacity = plan->send_capacity,
                                      .recv_capacity = shared ? 0 : plan->recv_capacity,
                                      .send_sge_max = plan->send_sges,
                                      .recv_sge_max = plan->recv_sges,
                                      .inline_max = plan->inline_max,
                                      .signal_all = plan->signal_all,
                                      .user = endpoint };
    sim_endpoint_create(endpoint, &init);
}

void sim_endpoint_modify(struct sim_endpoint *endpoint, const struct uro_qp_attr *attr,
                         unsigned mask)
{
    struct sim_world *world = endpoint->load->world;
    int result = uro_engine_qp_modify(endpoint->host->engine, endpoint->qp, attr,
                                      mask | URO_ATTR_STATE, world->now);

    sim_journal_note(world->journal, world->now, "qp 0x%06x to state %d", endpoint->qpn,
                     (int)attr->state);
    if (result != 0)
        sim_world_fail(world, "%s qp 0x%06x: modify to state %d returned %d", endpoint->ops->family,
                       endpoint->qpn, (int)attr->state, result);
}

void sim_endpoint_destroy(struct sim_endpoint *endpoint)
{
    uro_engine_qp_destroy(endpoint->host->engine, endpoint->qp);
    free(endpoint->qp_memory);
    endpoint->qp = NULL;
    endpoint->qp_memory = NULL;
    endpoint->send_cq = endpoint->recv_cq = NULL;
}

void sim_endpoint_to_error(struct sim_endpoint *endpoint)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_ERR };

    endpoint->ended = true;
    sim_endpoint_modify(endpoint, &attr, 0);
    sim_host_events(endpoint->host);
}

void sim_endpoint_stop(struct sim_endpoint *endpoint, bool reuse)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RESET };

    endpoint->ended = true;
    endpoint->ops->stop(endpoint);
    sim_drain_end(&endpoint->drain);
    if (endpoint->srq != NULL)
        sim_srq_on_stop(endpoint->srq, endpoint->recv_cq, endpoint->qpn);
    if (reuse)
        sim_endpoint_modify(endpoint, &attr, 0);
    else
        sim_endpoint_destroy(endpoint);
    endpoint->alive = false;
    if (endpoint->ops->stopped != NULL)
        endpoint->ops->stopped(endpoint);
    sim_host_events(endpoint->host);
}

bool sim_endpoint_in_error(const struct sim_endpoint *endpoint)
{
    return endpoint->ended || endpoint->recv_failed ||
           (endpoint->ops->reliable ? endpoint->send_failed : endpoint->fatal);
}

/* Keeps memory that nobody may write to any more until the end of the run. */
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

void sim_endpoint_bury(struct sim_endpoint *endpoint)
{
    size_t at;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(&endpoint->memory, sim_endpoint_shard(endpoint), i);
    if (!sim_memory_check_guards(&endpoint->memory, &at))
        sim_world_fail(endpoint->load->world, "%s %u: octet %zu outside every range changed",
                       endpoint->ops->family, endpoint->number, at);
    keep(endpoint->load, &endpoint->memory);
}

/* ---- draining ---------------------------------------------------------------------------------- */

static struct sim_drain *drain_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_drain, node);
}

static uro_time drain_next(const struct sim_node *node)
{
    const struct sim_drain *drain = drain_of(node);

    return drain->qp != NULL ? drain->at : URO_TIME_NEVER;
}

static void drain_modify(struct sim_drain *drain, enum uro_qp_state state)
{
    struct sim_world *world = drain->load->world;
    const struct uro_qp_attr attr = { .state = state, .sqd_notify = true };
    unsigned mask = state == URO_QPS_SQD ? URO_ATTR_STATE | URO_ATTR_SQD_NOTIFY : URO_ATTR_STATE;
    int result = uro_engine_qp_modify(drain->host->engine, drain->qp, &attr, mask, world->now);

    sim_journal_note(world->journal, world->now, "qp 0x%06x %s", uro_qp_number(drain->qp),
                     state == URO_QPS_SQD ? "is to drain" : "goes on");
    if (result != 0)
        sim_world_fail(world, "qp 0x%06x: modify to state %d returned %d", uro_qp_number(drain->qp),
                       (int)state, result);
    sim_host_events(drain->host);
}

static void drain_run(struct sim_node *node)
{
    struct sim_drain *drain = drain_of(node);
    enum uro_qp_state state = uro_qp_state_now(drain->qp);
    uro_time now = drain->load->world->now;

    drain->at = URO_TIME_NEVER;
    if (state == URO_QPS_SQD && drain->drained) {
        drain->drained = drain->draining = false;
        drain_modify(drain, URO_QPS_RTS);
        if (drain->left > 0)
            drain->at = now + uro_rng_below(&drain->rng, DRAIN_WAIT_MAX);
    } else if (state == URO_QPS_RTS) {
        drain->left--;
        drain->draining = true;
        drain_modify(drain, URO_QPS_SQD);
    }
}

void sim_drain_on_drained(struct sim_drain *drain)
{
    if (!drain->draining || drain->drained) {
        sim_world_fail(drain->load->world, "a send queue was drained that was not to be");
        return;
    }
    drain->drained = true;
    drain->at = drain->load->world->now + uro_rng_below(&drain->rng, DRAIN_REST_MAX);
}

void sim_drain_begin(struct sim_drain *drain, struct uro_qp *qp)
{
    drain->qp = qp;
    drain->draining = drain->drained = false;
    drain->at = URO_TIME_NEVER;
    drain->left = drain->load->plan->pauses ? uro_rng_below(&drain->rng, DRAINS_MAX + 1) : 0;
    if (drain->left > 0)
        drain->at = drain->load->world->now + uro_rng_below(&drain->rng, DRAIN_WAIT_MAX);
}

void sim_drain_end(struct sim_drain *drain)
{
    drain->qp = NULL;
}

void sim_drain_init(struct sim_drain *drain, struct sim_workload *load, struct sim_host *host)
{
    *drain =
        (struct sim_drain){ .node = { NULL, drain_next, drain_run }, .load = load, .host = host };
    uro_rng_init_number(&drain->rng, load->plan->seed ^ (uint64_t)++load->drain_count << 48);
    sim_world_add(load->world, &drain->node);
}
