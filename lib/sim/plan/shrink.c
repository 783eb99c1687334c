/* SPDX-License-Identifier: BSD-3-Clause */
/* shrink.c - leaves parts out of a plan, and halves its work; see plan.h. */
#include <string.h>

#include "sim/plan/plan.h"

static const char *const names[] = {
#define NAME(part, name) name,
    SIM_PLAN_PARTS(NAME)
#undef NAME
};

bool sim_plan_part(const char *name, size_t length, uint32_t *parts)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++) {
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) {
            *parts |= 1u << i;
            return true;
        }
    }
    return false;
}

const char *sim_plan_part_name(size_t number)
{
    return number < URO_ARRAY_LEN(names) ? names[number] : NULL;
}

static void clear_cable(struct sim_cable_config *cable, uint32_t parts)
{
    if (parts & SIM_PLAN_PART(QUIRKS))
        cable->quirks = 0;
    if (parts & SIM_PLAN_PART(LOSE))
        cable->loss_probability = 0;
    if (parts & SIM_PLAN_PART(DUPLICATE))
        cable->duplicate_probability = 0;
    if (parts & SIM_PLAN_PART(CORRUPT))
        cable->corrupt_probability = 0;
    if (parts & SIM_PLAN_PART(TRUNCATE))
        cable->truncate_probability = 0;
    if (parts & SIM_PLAN_PART(LATE))
        cable->keep_order = true;
    if (parts & SIM_PLAN_PART(JITTER))
        cable->jitter = 0;
    if (parts & SIM_PLAN_PART(CE))
        cable->ce_probability = 0;
    if (parts & SIM_PLAN_PART(QUEUE))
        cable->queue_octets = 0;
    if (parts & SIM_PLAN_PART(PARTITION))
        cable->partition_every = 0;
}

static void clear_host(struct sim_host_config *host, uint32_t parts)
{
    if (parts & SIM_PLAN_PART(RING))
        host->rx_ring = UINT32_MAX;
    if (parts & SIM_PLAN_PART(GAP))
        host->tx_gap_max = 0;
    if (parts & SIM_PLAN_PART(STALL))
        host->tx_stall_probability = 0;
    if (parts & SIM_PLAN_PART(THREADS))
        host->threads = false;
}

static void clear_shared(struct sim_plan *plan)
{
    plan->srq_count[0] = plan->srq_count[1] = 0;
    for (uint32_t i = 0; i < plan->pair_count; i++) {
        plan->pairs[i].xrc = false;
        plan->pairs[i].ends[0].srq = plan->pairs[i].ends[1].srq = SIM_PLAN_NO_SRQ;
    }
    for (uint32_t i = 0; i < plan->uc_count; i++)
        plan->ucs[i].ends[0].srq = plan->ucs[i].ends[1].srq = SIM_PLAN_NO_SRQ;
    for (uint32_t i = 0; i < plan->party_count; i++)
        plan->parties[i].ends[0].srq = SIM_PLAN_NO_SRQ;
}

static void clear_injections(struct sim_plan *plan)
{
    for (uint32_t i = 0; i < plan->pair_count; i++)
        plan->pairs[i].inject_probability = 0;
    for (uint32_t i = 0; i < plan->uc_count; i++)
        plan->ucs[i].inject_probability = 0;
    for (uint32_t i = 0; i < plan->party_count; i++)
        plan->parties[i].inject_probability = 0;
}

void sim_plan_without(struct sim_plan *plan, uint32_t parts)
{
    if (parts & SIM_PLAN_PART(PAIRS))
        plan->pair_count = 0;
    if (parts & SIM_PLAN_PART(UC))
        plan->uc_count = 0;
    if (parts & SIM_PLAN_PART(GROUPS))
        plan->groups = false;
    if (parts & SIM_PLAN_PART(UD))
        plan->party_count = 0;
    if (parts & SIM_PLAN_PART(CM))
        plan->cm.callers[0] = plan->cm.callers[1] = 0;
    if (parts & SIM_PLAN_PART(SRQ))
        clear_shared(plan);
    if (parts & SIM_PLAN_PART(INJECT))
        clear_injections(plan);
    if (parts & SIM_PLAN_PART(REVOKE))
        plan->revokes = false;
    if (parts & SIM_PLAN_PART(PAUSE))
        plan->pauses = false;
    if (parts & SIM_PLAN_PART(DOWN))
        plan->faults.down_wait_max = 0;
    if (parts & SIM_PLAN_PART(ATTACKER))
        plan->attacker.wait_max = 0;
    if (parts & SIM_PLAN_PART(ATTACKED))
        plan->attacked.wait_max = 0;
    if (parts & SIM_PLAN_PART(JUMP))
        plan->faults.jump_wait_max = 0;
    if (parts & SIM_PLAN_PART(DOZE))
        plan->faults.doze_probability = 0;
    if (parts & SIM_PLAN_PART(TIGHT))
        plan->cq_tight = plan->cq_tight_all = 0;
    if (parts & SIM_PLAN_PART(RESIZE))
        plan->resize_probability = 0;
    for (unsigned side = 0; side < 2; side++) {
        clear_cable(&plan->cables[side], parts);
        clear_host(&plan->hosts[side], parts);
    }
}

static uint32_t half(uint32_t number, uint32_t times)
{
    return number >> times > 0 || number == 0 ? number >> times : 1;
}

void sim_plan_less(struct sim_plan *plan, uint32_t times)
{
    plan->pair_count = half(plan->pair_count, times);
    plan->uc_count = half(plan->uc_count, times);
    plan->cm.attempts = half(plan->cm.attempts, times);
    for (uint32_t i = 0; i < plan->pair_count; i++) {
        struct sim_plan_pair *pair = &plan->pairs[i];
        pair->lives = half(pair->lives, times);
        for (unsigned j = 0; j < 2; j++)
            pair->ends[j].sends = half(pair->ends[j].sends, times);
    }
    for (uint32_t i = 0; i < plan->uc_count; i++)
        plan->ucs[i].ends[0].sends = plan->ucs[i].ends[1].sends =
            half(plan->ucs[i].ends[0].sends, times);
    for (uint32_t i = 0; i < plan->party_count; i++)
        plan->parties[i].ends[0].sends = half(plan->parties[i].ends[0].sends, times);
    plan->calm_at = SIM_PLAN_START + (plan->calm_at - SIM_PLAN_START) / (times + 1);
}
