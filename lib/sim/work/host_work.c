/* SPDX-License-Identifier: BSD-3-Clause */
/* host_work.c - see host_work.h for the contract. */
#include "sim/work/host_work.h"

#include "sim/work/cm.h"
#include "sim/work/tight.h"
#include "wire/frame.h"

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
    struct sim_qp_owner *owner = event->user;
    owner->on_event(owner, event->kind);
}

static void after_round(void *user, struct sim_host *host)
{
    struct sim_host_work *at_host = user;

    URO_ASSERT(host == at_host->host);
    for (uint32_t i = 0; i < at_host->tie_count; i++)
        sim_workload_after_round(at_host->ties[i].load, at_host->ties[i].side);
    sim_cm_hear(at_host);
}

/* Numbers of queue pairs are those of a host: only the address says whose they are. */
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

/* Some load must have asked for it. Messages are of every load that they may be of. */
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
            known |= sim_rc_wire(at_host->ties[i].load, host, &frame);
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
