/* SPDX-License-Identifier: BSD-3-Clause */
/* swarm_less.c - takes parts out of what a seed drew, and work; see swarm.h. */
#include <string.h>

#include "io/sim/swarm.h"

static const char *const names[] = {
#define NAME(part, name) name,
    URO_SWARM_PARTS(NAME)
#undef NAME
};

bool uro_swarm_part(const char *name, size_t length, uint32_t *parts)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            *parts |= 1u << i;
            return true;
        }
    }
    return false;
}

const char *uro_swarm_part_name(size_t number)
{
    return number < URO_ARRAY_LEN(names) ? names[number] : NULL;
}

static void clear_cable(struct uro_cable_config *cable, uint32_t parts)
{
    if (parts & URO_SWARM_PART(FOREIGN))
        cable->foreign = 0;
    if (parts & URO_SWARM_PART(LOSE))
        cable->lose = 0;
    if (parts & URO_SWARM_PART(DUPLICATE))
        cable->duplicate = 0;
    if (parts & URO_SWARM_PART(CORRUPT))
        cable->corrupt = 0;
    if (parts & URO_SWARM_PART(TRUNCATE))
        cable->truncate = 0;
    if (parts & URO_SWARM_PART(LATE))
        cable->keep_order = true;
    if (parts & URO_SWARM_PART(JITTER))
        cable->jitter = 0;
    if (parts & URO_SWARM_PART(CE))
        cable->mark_ce = 0;
    if (parts & URO_SWARM_PART(QUEUE))
        cable->queue_octets = 0;
    if (parts & URO_SWARM_PART(PARTITION))
        cable->partition_every = 0;
}

static void clear_station(struct uro_station_config *station, uint32_t parts)
{
    if (parts & URO_SWARM_PART(RING))
        station->rx_ring = UINT32_MAX;
    if (parts & URO_SWARM_PART(GAP))
        station->tx_gap_max = 0;
    if (parts & URO_SWARM_PART(STALL))
        station->tx_stall_share = 0;
}

static void clear_shared(struct uro_swarm *swarm)
{
    swarm->srq_count[0] = swarm->srq_count[1] = 0;
    for (uint32_t i = 0; i < swarm->pair_count; i++) {
        swarm->pairs[i].xrc = false;
        swarm->pairs[i].ends[0].srq = swarm->pairs[i].ends[1].srq = URO_SWARM_NO_SRQ;
    }
    for (uint32_t i = 0; i < swarm->uc_count; i++)
        swarm->ucs[i].shared = false;
    for (uint32_t i = 0; i < swarm->party_count; i++)
        swarm->parties[i].shared = false;
}

static void clear_injections(struct uro_swarm *swarm)
{
    for (uint32_t i = 0; i < swarm->pair_count; i++)
        swarm->pairs[i].inject_share = 0;
    for (uint32_t i = 0; i < swarm->uc_count; i++)
        swarm->ucs[i].inject_share = 0;
    for (uint32_t i = 0; i < swarm->party_count; i++)
        swarm->parties[i].inject_share = 0;
}

void uro_swarm_without(struct uro_swarm *swarm, uint32_t parts)
{
    if (parts & URO_SWARM_PART(PAIRS))
        swarm->pair_count = 0;
    if (parts & URO_SWARM_PART(UC))
        swarm->uc_count = 0;
    if (parts & URO_SWARM_PART(GROUPS))
        swarm->groups = false;
    if (parts & URO_SWARM_PART(UD))
        swarm->party_count = 0;
    if (parts & URO_SWARM_PART(CM))
        swarm->cm.callers[0] = swarm->cm.callers[1] = 0;
    if (parts & URO_SWARM_PART(SRQ))
        clear_shared(swarm);
    if (parts & URO_SWARM_PART(INJECT))
        clear_injections(swarm);
    if (parts & URO_SWARM_PART(REVOKE))
        swarm->revokes = false;
    if (parts & URO_SWARM_PART(PAUSE))
        swarm->pauses = false;
    if (parts & URO_SWARM_PART(DOWN))
        swarm->trouble.down_wait_max = 0;
    if (parts & URO_SWARM_PART(HOSTILE))
        swarm->hostile.wait_max = 0;
    if (parts & URO_SWARM_PART(VICTIM))
        swarm->victim.wait_max = 0;
    if (parts & URO_SWARM_PART(JUMP))
        swarm->trouble.jump_wait_max = 0;
    if (parts & URO_SWARM_PART(DOZE))
        swarm->trouble.doze_share = 0;
    if (parts & URO_SWARM_PART(TIGHT))
        swarm->cq_tight = swarm->cq_tight_all = 0;
    if (parts & URO_SWARM_PART(RESIZE))
        swarm->resize_share = 0;
    for (unsigned side = 0; side < 2; side++) {
        clear_cable(&swarm->cables[side], parts);
        clear_station(&swarm->stations[side], parts);
    }
}

static uint32_t half(uint32_t number, uint32_t times)
{
    return number >> times > 0 || number == 0 ? number >> times : 1;
}

void uro_swarm_less(struct uro_swarm *swarm, uint32_t times)
{
    swarm->pair_count = half(swarm->pair_count, times);
    swarm->uc_count = half(swarm->uc_count, times);
    swarm->cm.attempts = half(swarm->cm.attempts, times);
    for (uint32_t i = 0; i < swarm->pair_count; i++) {
        struct uro_swarm_pair *pair = &swarm->pairs[i];
        pair->lives = half(pair->lives, times);
        for (unsigned j = 0; j < 2; j++)
            pair->ends[j].sends = half(pair->ends[j].sends, times);
    }
    for (uint32_t i = 0; i < swarm->uc_count; i++)
        swarm->ucs[i].sends = half(swarm->ucs[i].sends, times);
    for (uint32_t i = 0; i < swarm->party_count; i++)
        swarm->parties[i].sends = half(swarm->parties[i].sends, times);
    swarm->calm_at = URO_SWARM_START + (swarm->calm_at - URO_SWARM_START) / (times + 1);
}
