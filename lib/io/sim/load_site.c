/* SPDX-License-Identifier: BSD-3-Clause */
/* load_site.c - see load_site.h for the contract. */
#include "io/sim/load_site.h"

#include "io/sim/load_cm.h"
#include "io/sim/load_tight.h"
#include "wire/frame.h"

static void on_event(void *user, const struct uro_event *event)
{
    struct uro_load_site *site = user;
    struct uro_world *world = site->station->world;

    if (event->kind == URO_EVENT_COMPLETION) {
        struct uro_load_cq *cq = event->user;
        if (!cq->armed || cq->told)
            uro_world_fail(world, "an event of a completion queue that was not armed");
        cq->told = true;
        return;
    }
    if (event->kind == URO_EVENT_CQ_ERR) {
        uro_load_tight_on_overflow(event->user);
        return;
    }
    if (event->kind == URO_EVENT_SRQ_LIMIT) {
        uro_load_srq_on_limit(event->user);
        return;
    }
    struct uro_load_owner *owner = event->user;
    owner->on_event(owner, event->kind);
}

static void after_round(void *user, struct uro_station *station)
{
    struct uro_load_site *site = user;

    URO_ASSERT(station == site->station);
    for (uint32_t i = 0; i < site->tie_count; i++)
        uro_load_after_round(site->ties[i].load, site->ties[i].side);
    uro_load_cm_hear(site);
}

/* Numbers of queue pairs are those of a station: only the address says whose they are. */
static bool concerns(const struct uro_load *load, const struct uro_gid *dest)
{
    for (unsigned side = 0; side < 2; side++) {
        const struct uro_engine_config *engine = &load->stations[side]->config.engine;
        for (uint32_t i = 0; i < engine->address_count; i++)
            if (uro_gid_equal(&engine->addresses[i].gid, dest))
                return true;
    }
    return false;
}

/* Some load must have asked for it. Messages are of every load that they may be of. */
static void sent(void *user, struct uro_station *station, const struct uro_world_frame *octets)
{
    struct uro_load_site *site = user;
    struct uro_frame frame;
    uint32_t concerned = 0;
    bool known = false;

    if (uro_frame_network(octets->octets, octets->length, &frame) != URO_FRAME_OK ||
        uro_frame_roce(&frame) != URO_FRAME_OK)
        return; /* the station has said so */
    for (uint32_t i = 0; i < site->tie_count; i++)
        if (concerns(site->ties[i].load, &frame.ip.dest))
            concerned |= 1u << i;
    bool message = frame.bth.dest_qpn == URO_CM_MAD_QPN && frame.op->service == URO_UD;
    for (uint32_t i = 0; i < site->tie_count && (message || !known); i++)
        if (concerned == 0 || concerned & 1u << i)
            known |= uro_load_wire(site->ties[i].load, station, &frame);
    if (known)
        return;
    if (frame.op->service == URO_UD)
        uro_world_fail(station->world, "%c sent a datagram of qp 0x%06x, which is no more",
                       station->config.name, frame.deth.source_qpn);
    else
        uro_world_fail(station->world, "%c sent %s to qp 0x%06x, which nobody is connected to",
                       station->config.name, frame.op->name, frame.bth.dest_qpn);
}

void uro_load_site_init(struct uro_load_site *site, struct uro_station *station)
{
    *site = (struct uro_load_site){ .station = station };
    station->event = on_event;
    station->after_round = after_round;
    station->sent = sent;
    station->user = site;
}

void uro_load_site_tie(struct uro_load_site *site, struct uro_load *load, unsigned side)
{
    URO_ASSERT(site->tie_count < URO_LOAD_SITE_TIES_MAX);
    site->ties[site->tie_count++] = (struct uro_load_tie){ load, side };
}
