/* SPDX-License-Identifier: BSD-3-Clause */
/* load_ud_group.c - groups that the parties of datagrams join and leave; see load_ud.h. */
#include "io/sim/load_ud.h"

#define HOP_LIMIT 64u

struct uro_address uro_load_ud_group(const struct uro_load_ud *ud, bool v6)
{
    uint8_t number = (uint8_t)ud->load->number;
    const uint8_t ipv4[4] = { 239, 1, 2, (uint8_t)(3 + number) };
    const struct uro_gid ipv6 = { { 0xff, 0x15, [15] = (uint8_t)(0x77 + number) } };

    return (struct uro_address){ .dest = v6 ? ipv6 : uro_gid_from_ipv4(ipv4),
                                 .sgid_index = v6 ? 0 : 1,
                                 .hop_limit = HOP_LIMIT };
}

static void join(struct uro_load_ud_party *party, bool v6)
{
    struct uro_load *load = party->ud->load;
    const struct uro_gid group = uro_load_ud_group(party->ud, v6).dest;

    if (uro_mcast_attach(uro_engine_shard(party->station->engine), &party->memberships[v6],
                         party->qp, &group) &&
        uro_engine_join(party->station->engine, &group, load->world->now) != 0)
        uro_world_fail(load->world, "UD party %u: a group could not be joined", party->number);
    party->is_member[v6] = true;
    uro_journal_note(load->world->journal, load->world->now, "UD qp 0x%06x joins the IPv%c group",
                     party->qpn, v6 ? '6' : '4');
}

void uro_load_ud_group_begin(struct uro_load_ud_party *party)
{
    struct uro_load *load = party->ud->load;

    for (unsigned v6 = 0; v6 < 2 && load->swarm->groups; v6++) {
        const struct uro_address address = uro_load_ud_group(party->ud, v6 != 0);
        if (uro_engine_ah_create(party->station->engine, &party->group_handles[v6],
                                 uro_load_ud_pd(party), &address, load->world->now) != 0)
            uro_world_fail(load->world, "an address handle for a group could not be made");
        if (uro_rng_below(&party->rng, 3) > 0)
            join(party, v6 != 0);
    }
}

void uro_load_ud_group_end(struct uro_load_ud_party *party)
{
    struct uro_engine *engine = party->station->engine;

    for (unsigned v6 = 0; v6 < 2 && party->ud->load->swarm->groups; v6++) {
        const struct uro_gid group = uro_load_ud_group(party->ud, v6 != 0).dest;
        uro_engine_ah_destroy(engine, &party->group_handles[v6]);
        if (party->is_member[v6] &&
            uro_mcast_detach(uro_engine_shard(engine), &party->memberships[v6]))
            uro_engine_leave(engine, &group, party->ud->load->world->now);
        party->is_member[v6] = false;
    }
}

bool uro_load_ud_group_ready(const struct uro_load_ud *ud, bool v6)
{
    for (uint32_t i = 0; i < ud->count; i++) {
        const struct uro_load_ud_party *party = &ud->parties[i];
        if (!party->last_life || !party->alive || party->ended ||
            (party->is_member[v6] && party->expected >= party->recv_posted))
            return false;
    }
    return true;
}

void uro_load_ud_group_expect(struct uro_load_ud *ud, bool v6)
{
    for (uint32_t i = 0; i < ud->count; i++)
        ud->parties[i].expected += ud->parties[i].is_member[v6];
}
