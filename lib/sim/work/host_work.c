/* SPDX-License-Identifier: BSD-3-Clause */
/* host_work.c - see workload.h for the contract. */
#include "sim/work/workload.h"

#include "sim/work/attacked.h"
#include "sim/work/cm.h"
#include "sim/work/rc.h"
#include "sim/work/ud.h"
#include "wire/frame.h"

/* ---- events ------------------------------------------------------------------------------------ */

static void on_last_wqe(struct sim_endpoint *end)
{
    if (end->srq == NULL || end->last_wqe || uro_qp_state_now(end->qp) != URO_QPS_ERR)
        sim_world_fail(end->load->world, "qp 0x%06x: LAST_WQE out of place", end->qpn);
    end->last_wqe = true;
    end->last_wqe_at = end->load->world->now;
}

static void on_endpoint_event(struct sim_endpoint *end, enum uro_event_kind kind)
{
    struct sim_world *world = end->load->world;
    bool refused = kind == URO_EVENT_QP_REQ_ERR || kind == URO_EVENT_QP_ACCESS_ERR;

    if (end->ops->on_event != NULL)
        end->ops->on_event(end, kind);
    else if (!end->alive)
        sim_world_fail(world, "event %d of a queue pair that is no more", (int)kind);
    else if (kind == URO_EVENT_QP_FATAL)
        sim_tight_on_fatal(end);
    else if (kind == URO_EVENT_SQ_DRAINED)
        sim_drain_on_drained(&end->drain);
    else if (kind == URO_EVENT_LAST_WQE)
        on_last_wqe(end);
    else if (refused && end->ops->reliable && end->life->may_fail)
        sim_life_on_failure(end->life);
    else if (kind != URO_EVENT_COMM_EST || end->type == URO_QPT_UD)
        sim_world_fail(world, "%s qp 0x%06x: event %d without cause", end->ops->family, end->qpn,
                       (int)kind);
}

static void on_event(void *user, const struct uro_event *event)
{
    struct sim_host_work *at_host = user;
    struct sim_world *world = at_host->host->world;

    if (event->kind == URO_EVENT_COMPLETION) {
        struct sim_cq *cq = event->user;
        if (!cq->armed || cq->told)
            sim_world_fail(world, "an event of a completion queue that was not armed");
        cq->told = true;
        return;
    }
    if (event->kind == URO_EVENT_CQ_ERR) {
        sim_tight_on_overflow(event->user);
        return;
    }
    if (event->kind == URO_EVENT_SRQ_LIMIT) {
        sim_srq_on_limit(event->user);
        return;
    }
    on_endpoint_event(event->user, event->kind);
}

/* ---- rounds ------------------------------------------------------------------------------------ */

static void check_workload(struct sim_workload *load, unsigned side)
{
    const struct sim_host *host = load->hosts[side];

    for (const struct sim_endpoint *end = load->endpoints; end != NULL; end = end->next) {
        const char *problem = end->host == host && end->alive ? uro_qp_problem(end->qp) : NULL;
        if (problem != NULL)
            sim_world_fail(load->world, "a queue pair of %c: %s", host->config.name, problem);
    }
    for (uint32_t i = 0; i < load->plan->srq_count[side]; i++)
        sim_srq_after_round(&load->srqs[side][i]);
    for (const struct sim_endpoint *end = load->endpoints;
         end != NULL && load->tight[side].overflowed; end = end->next)
        sim_judge_lost(end);
}

static void after_round(void *user, struct sim_host *host)
{
    struct sim_host_work *at_host = user;

    URO_ASSERT(host == at_host->host);
    for (uint32_t i = 0; i < at_host->tie_count; i++)
        check_workload(at_host->ties[i].load, at_host->ties[i].side);
    sim_cm_hear(at_host);
}

/* ---- frames ------------------------------------------------------------------------------------ */

/* Checks a CNP; ignores its queue pair. */
static bool check_notice(const struct sim_workload *load, const struct sim_host *host,
                         const struct uro_frame *frame)
{
    if (load->plan->clean || !frame->bth.becn || frame->bth.psn != 0 || frame->bth.ack_req)
        sim_world_fail(load->world, "%c tells qp 0x%06x of congestion: %s", host->config.name,
                       frame->bth.dest_qpn,
                       load->plan->clean ? "nothing was marked" : "not as it is told");
    return true;
}

/* Returns whether the frame belongs to the workload. */
static bool is_of(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame)
{
    if (frame->op->service == URO_CNP)
        return check_notice(load, host, frame);
    if (sim_cm_wire(load->cm, host, frame))
        return true;
    if (frame->op->service == URO_UD)
        return sim_ud_wire(load, host, frame) || sim_attacked_wire(load->attacked, host, frame);
    if (frame->op->service == URO_UC && sim_uc_wire(load, host, frame))
        return true;
    return sim_rc_wire(load, host, frame) || sim_attacked_wire(load->attacked, host, frame);
}

/* Returns whether the frame is between hosts of the workload. A QPN is only unique within a host. */
static bool concerns(const struct sim_workload *load, const struct uro_gid *dest)
{
    for (unsigned side = 0; side < 2; side++) {
        const struct uro_engine_config *engine = &load->hosts[side]->config.engine;
        for (uint32_t i = 0; i < engine->address_count; i++)
            if (uro_gid_equal(&engine->addresses[i].gid, dest))
                return true;
    }
    return false;
}

/* Checks a frame: a workload must have asked for it. A management datagram is passed to every workload that it may belong to. */
static void sent(void *user, struct sim_host *host, const struct sim_world_frame *octets)
{
    struct sim_host_work *at_host = user;
    struct uro_frame frame;
    uint32_t concerned = 0;
    bool known = false;

    if (uro_frame_network(octets->octets, octets->length, &frame) != URO_FRAME_OK ||
        uro_frame_roce(&frame) != URO_FRAME_OK)
        return; /* the host has said so */
    for (uint32_t i = 0; i < at_host->tie_count; i++)
        if (concerns(at_host->ties[i].load, &frame.ip.dest))
            concerned |= 1u << i;
    bool message = frame.bth.dest_qpn == URO_CM_MAD_QPN && frame.op->service == URO_UD;
    for (uint32_t i = 0; i < at_host->tie_count && (message || !known); i++)
        if (concerned == 0 || concerned & 1u << i)
            known |= is_of(at_host->ties[i].load, host, &frame);
    if (known)
        return;
    if (frame.op->service == URO_UD)
        sim_world_fail(host->world, "%c sent a datagram of qp 0x%06x, which is no more",
                       host->config.name, frame.deth.source_qpn);
    else
        sim_world_fail(host->world, "%c sent %s to qp 0x%06x, which nobody is connected to",
                       host->config.name, frame.op->name, frame.bth.dest_qpn);
}

void sim_host_work_init(struct sim_host_work *at_host, struct sim_host *host)
{
    *at_host = (struct sim_host_work){ .host = host };
    host->event = on_event;
    host->after_round = after_round;
    host->sent = sent;
    host->user = at_host;
}

void sim_host_work_tie(struct sim_host_work *at_host, struct sim_workload *load, unsigned side)
{
    URO_ASSERT(at_host->tie_count < SIM_HOST_WORK_TIES_MAX);
    at_host->ties[at_host->tie_count++] = (struct sim_host_tie){ load, side };
}
