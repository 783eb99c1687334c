/* SPDX-License-Identifier: BSD-3-Clause */
/* ud_group.c - groups that the parties of datagrams join and leave; see ud.h. */
#include "sim/work/ud.h"

#define HOP_LIMIT 64u

struct uro_address sim_ud_group(const struct sim_ud *ud, bool v6)
{
    uint8_t number = (uint8_t)ud->load->number;
    const uint8_t ipv4[4] = { 239, 1, 2, (uint8_t)(3 + number) };
    const struct uro_gid ipv6 = { { 0xff, 0x15, [15] = (uint8_t)(0x77 + number) } };

    return (struct uro_address){ .dest = v6 ? ipv6 : uro_gid_from_ipv4(ipv4),
                                 .sgid_index = v6 ? 0 : 1,
                                 .hop_limit = HOP_LIMIT };
}

static void join(struct sim_ud_party *party, bool v6)
{
    struct sim_workload *load = party->ud->load;
    const struct uro_gid group = sim_ud_group(party->ud, v6).dest;

    if (uro_mcast_attach(uro_engine_shard(party->host->engine), &party->memberships[v6], party->qp,
                         &group) &&
        uro_engine_join(party->host->engine, &group, load->world->now) != 0)
        sim_world_fail(load->world, "UD party %u: a group could not be joined", party->number);
    party->is_member[v6] = true;
    sim_journal_note(load->world->journal, load->world->now, "UD qp 0x%06x joins the IPv%c group",
                     party->qpn, v6 ? '6' : '4');
}

void sim_ud_group_begin(struct sim_ud_party *party)
{
    struct sim_workload *load = party->ud->load;

    for (unsigned v6 = 0; v6 < 2 && load->plan->groups; v6++) {
        const struct uro_address address = sim_ud_group(party->ud, v6 != 0);
        if (uro_engine_ah_create(party->host->engine, &party->group_handles[v6], sim_ud_pd(party),
                                 &address, load->world->now) != 0)
            sim_world_fail(load->world, "an address handle for a group could not be made");
        if (uro_rng_below(&party->rng, 3) > 0)
            join(party, v6 != 0);
    }
}

void sim_ud_group_end(struct sim_ud_party *party)
{
    struct uro_engine *engine = party->host->engine;

    for (unsigned v6 = 0; v6 < 2 && party->ud->load->plan->groups; v6++) {
        const struct uro_gid group = sim_ud_group(party->ud, v6 != 0).dest;
        uro_engine_ah_destroy(engine, &party->group_handles[v6]);
        if (party->is_member[v6] &&
            uro_mcast_detach(uro_engine_shard(engine), &party->memberships[v6]))
            uro_engine_leave(engine, &group, party->ud->load->world->now);
        party->is_member[v6] = false;
    }
}

bool sim_ud_group_ready(const struct sim_ud *ud, bool v6)
{
    for (uint32_t i = 0; i < ud->count; i++) {
        const struct sim_ud_party *party = &ud->parties[i];
        if (!party->last_life || !party->alive || party->ended ||
            (party->is_member[v6] && party->expected >= party->recv_posted))
            return false;
    }
    return true;
}

void sim_ud_group_expect(struct sim_ud *ud, bool v6)
{
    for (uint32_t i = 0; i < ud->count; i++)
        ud->parties[i].expected += ud->parties[i].is_member[v6];
}
