/* SPDX-License-Identifier: BSD-3-Clause */
/* draw_work.c - draws the work of two hosts: queue pairs of all types, shared receive queues, and connections that
 * messages make; see draw.h.
 */
#include "core/limits.h"
#include "core/psn.h"
#include "sim/plan/draw.h"

#define RNR_FOREVER           7u
#define RETRY_MAX             7u
#define BASIC_MAX             2u
#define XRC_MAX               3u
#define CLEAN_CAPACITY        1024u /* more than all pairs ever send: no RNR */
#define LIVES_OF_ALL          64u   /* a receive may be lost with each */
#define WRONG_PROBABILITY_MAX 2000u
#define SELF_ONE_IN           6u
#define CALLERS_MAX           3u
#define EXPONENT_OF_MS        8u /* 4.096 us * 2^8 is 1 ms, as Linux counts it */
#define RETRIES_MAX           15u
#define NS_PER_US             1000u

/* ---- reliable connections ---------------------------------------------------------------------- */

static void draw_weights(uint32_t weights[SIM_PLAN_KINDS], struct uro_rng *rng, bool clean)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < SIM_PLAN_FLUSH; i++) {
        weights[i] = sim_draw_often(rng) ? sim_world_between(rng, 1, 10) : 0;
        if (clean && (i == SIM_PLAN_SEND_IMM || i == SIM_PLAN_WRITE_IMM))
            weights[i] = 0;
        sum += weights[i];
    }
    if (sum == 0)
        weights[SIM_PLAN_SEND] = 1;
}

static void draw_end(struct sim_plan_end *end, struct uro_rng *rng, const struct sim_plan *plan)
{
    bool clean = plan->clean;

    *end = (struct sim_plan_end){
        .send_capacity = sim_draw_skewed(rng, 1, 48),
        .recv_capacity = clean ? 64 : sim_draw_skewed(rng, 1, 32),
        .send_sges = sim_draw_skewed(rng, 1, sim_draw_one_in(rng, 4) ? URO_SGE_MAX : 6),
        .recv_sges = sim_draw_skewed(rng, 1, sim_draw_one_in(rng, 4) ? URO_SGE_MAX : 6),
        .inline_max = sim_draw_often(rng) ? sim_draw_skewed(rng, 1, URO_INLINE_MAX) : 0,
        .signal_all = sim_draw_one_in(rng, 4),
        .signal_probability = uro_rng_below(rng, 65537),
        .inline_probability = uro_rng_below(rng, 65537),
        .fence_probability = sim_draw_one_in(rng, 4) ? uro_rng_below(rng, 65537) : 0,
        .solicit_probability = sim_draw_often(rng) ? uro_rng_below(rng, 65537) : 0,
        .batch_max = sim_draw_skewed(rng, 1, 16),
        .recv_batch_max = clean ? 64 : sim_draw_skewed(rng, 1, 16),
        .post_wait_max = sim_draw_often(rng) ? 0 : sim_draw_skewed(rng, 0, 50000),
        .recv_wait_max = clean || sim_draw_often(rng) ? 0 : sim_draw_skewed(rng, 0, 200000),
        .first_psn = sim_draw_often(rng) ? URO_PSN_MASK - uro_rng_below(rng, 200)
                                         : uro_rng_below(rng, URO_PSN_MASK + 1),
        .sends = sim_world_between(rng, 8, 60),
        .srq = SIM_PLAN_NO_SRQ,
        .rd_atomic = (uint8_t)sim_draw_skewed(rng, 1, 16),
        .min_rnr_timer = (uint8_t)sim_world_between(rng, 1, 10),
        .retry_count = (uint8_t)(plan->forever ? RETRY_MAX : sim_world_between(rng, 3, RETRY_MAX)),
        .rnr_retry =
            (uint8_t)(plan->forever || sim_draw_often(rng) ? RNR_FOREVER : uro_rng_below(rng, 7)),
    };
    draw_weights(end->weights, rng, clean);
}

static void draw_pair(struct sim_plan_pair *pair, struct uro_rng *rng, const struct sim_plan *plan)
{
    *pair = (struct sim_plan_pair){
        .path_mtu = 256u << uro_rng_below(rng, 5),
        .lives = plan->clean ? 1 : sim_draw_skewed(rng, 1, 5),
        .inject_probability = !plan->clean && sim_draw_often(rng) ? uro_rng_below(rng, 4000) : 0,
        .v6 = sim_draw_often(rng),
    };
    pair->message_max = pair->path_mtu * sim_world_between(rng, 1, 5);
    if (sim_draw_often(rng))
        pair->message_max -= uro_rng_below(rng, pair->path_mtu / 2);
    pair->life_max = sim_world_between(rng, 100, 20000);
    for (unsigned i = 0; i < 2; i++)
        draw_end(&pair->ends[i], rng, plan);
}

void sim_draw_pairs(struct sim_plan *plan, struct uro_rng *rng)
{
    for (uint32_t i = 0; i < plan->pair_count; i++)
        draw_pair(&plan->pairs[i], rng, plan);
}

/* ---- unreliable connections and datagrams ------------------------------------------------------ */

/* Draws the ends of a connection: both are the same. */
static void draw_ends(struct sim_plan_pair *pair, struct uro_rng *rng, bool clean, bool datagrams)
{
    struct sim_plan_end *end = &pair->ends[0];
    uint32_t capacity = datagrams ? 12 : 16;

    *end = (struct sim_plan_end){ .srq = SIM_PLAN_NO_SRQ };
    end->send_capacity = sim_world_between(rng, 1, capacity);
    end->recv_capacity = clean ? 64 : sim_world_between(rng, 1, capacity);
    end->send_sges = end->recv_sges = sim_world_between(rng, 1, 5);
    end->inline_max = sim_draw_often(rng) ? sim_world_between(rng, 1, URO_INLINE_MAX) : 0;
    end->signal_all = uro_rng_below(rng, 4) == 0;
    if (!datagrams)
        pair->v6 = sim_draw_often(rng);
    end->sends = sim_world_between(rng, 4, 40);
    end->batch_max = end->recv_batch_max = sim_world_between(rng, 1, 8);
    end->post_wait_max = sim_draw_often(rng) ? 0 : uro_rng_below(rng, 50000);
    end->recv_wait_max = sim_draw_often(rng) ? 0 : uro_rng_below(rng, 50000);
    end->resume_wait_max = uro_rng_below(rng, 50000);
    pair->life_max = sim_world_between(rng, datagrams ? 200 : 100, 10000);
    pair->inject_probability = sim_draw_often(rng) ? uro_rng_below(rng, 8000) : 0;
    pair->ends[1] = *end;
}

static void draw_uc(struct sim_plan_pair *uc, struct uro_rng *rng, bool clean)
{
    uc->seed = uro_rng_u64(rng);
    uc->path_mtu = 256u << uro_rng_below(rng, 5);
    draw_ends(uc, rng, clean, false);
    uc->message_max = uc->path_mtu * sim_world_between(rng, 1, 4);
    uc->message_max -= uro_rng_below(rng, 64);
    uc->sides[0] = uro_rng_below(rng, 2);
    uc->sides[1] = uro_rng_below(rng, 4) == 0 ? uc->sides[0] : !uc->sides[0];
}

static void draw_datagrams(struct sim_plan_pair *party, struct uro_rng *rng, bool clean)
{
    party->seed = uro_rng_u64(rng);
    party->sides[0] = uro_rng_below(rng, 2);
    party->message_max = sim_draw_often(rng) ? 256 : URO_PATH_MTU_MAX;
    draw_ends(party, rng, clean, true);
}

void sim_draw_unreliable(struct sim_plan *plan)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x6c6f6f7365));
    plan->uc_count = sim_draw_often(&rng) ? sim_world_between(&rng, 1, SIM_PLAN_UCS_MAX) : 0;
    for (uint32_t i = 0; i < plan->uc_count; i++)
        draw_uc(&plan->ucs[i], &rng, plan->clean);
    plan->party_count = sim_draw_often(&rng) ? sim_world_between(&rng, 1, SIM_PLAN_PARTIES_MAX) : 0;
    for (uint32_t i = 0; i < plan->party_count; i++)
        draw_datagrams(&plan->parties[i], &rng, plan->clean);
    for (uint32_t i = 0; i < 2 && i < plan->party_count; i++)
        plan->parties[i].sides[0] = i;
    plan->pauses = uro_rng_below(&rng, 3) == 0;
    plan->revokes = sim_draw_often(&rng);
    plan->groups = !plan->clean && sim_draw_often(&rng);
}

/* ---- shared receive queues, and the newer operations -------------------------------------------- */

static void draw_srq(struct sim_plan_srq *srq, struct uro_rng *rng, bool clean)
{
    uint32_t most = sim_draw_often(rng) ? 8 : 64;

    *srq = (struct sim_plan_srq){
        .wild = !clean && uro_rng_below(rng, 4) == 0,
        .capacity_max = sim_world_between(rng, 1, most),
        .spare = LIVES_OF_ALL + uro_rng_below(rng, 32),
        .sges = sim_world_between(rng, 1, 6),
        .batch_max = sim_world_between(rng, 1, 16),
        .wait_max = sim_draw_often(rng) ? 0 : uro_rng_below(rng, 100000),
        .limit_probability = sim_draw_often(rng) ? uro_rng_below(rng, 65537) : 0,
        .resize_probability = !clean && sim_draw_often(rng) ? uro_rng_below(rng, 20000) : 0,
        .wrong_probability = 1 + uro_rng_below(rng, WRONG_PROBABILITY_MAX),
    };
    srq->capacity = sim_world_between(rng, 1, srq->capacity_max);
    if (!clean)
        return;
    srq->capacity = srq->capacity_max = srq->batch_max = CLEAN_CAPACITY;
    srq->wait_max = 0;
}

static void add_srq(struct sim_plan *plan, unsigned side, struct uro_rng *rng, bool xrc)
{
    bool is_first = plan->srq_count[side] == 0 || !plan->srqs[side][plan->srq_count[side] - 1].xrc;
    struct sim_plan_srq *srq = &plan->srqs[side][plan->srq_count[side]++];

    draw_srq(srq, rng, plan->clean);
    srq->xrc = xrc;
    if (!xrc)
        srq->replace_probability = srq->resize_probability; /* drawn once: as often */
    if (!xrc)
        return;
    srq->wild = false;
    /* One queue is never replaced, for lives that must not fail. */
    if (!plan->clean && !is_first && uro_rng_below(rng, 2) == 0)
        srq->replace_probability = uro_rng_below(rng, 20000);
}

/* Draws the weights of FLUSH, ATOMIC_WRITE and memory windows. */
static void draw_newer_weights(struct sim_plan *plan, struct uro_rng *rng)
{
    bool words = sim_draw_often(rng);
    bool windows = sim_draw_often(rng);

    for (uint32_t i = 0; i < 2 * plan->pair_count; i++) {
        struct sim_plan_pair *pair = &plan->pairs[i / 2];
        uint32_t *weights = pair->ends[i % 2].weights;
        if (words) {
            weights[SIM_PLAN_FLUSH] = uro_rng_below(rng, 8);
            weights[SIM_PLAN_ATOMIC_WRITE] = uro_rng_below(rng, 8);
        }
        for (unsigned k = SIM_PLAN_BIND; windows && k < SIM_PLAN_KINDS; k++)
            weights[k] = pair->xrc ? 0 : uro_rng_below(rng, 12);
    }
}

void sim_draw_shared(struct sim_plan *plan)
{
    struct uro_rng rng;
    uint32_t basic[2] = { 0 };

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x73686172));
    bool srqs = sim_draw_often(&rng);
    bool xrc = sim_draw_often(&rng);
    for (unsigned side = 0; side < 2; side++) {
        if (srqs)
            basic[side] = sim_world_between(&rng, 1, BASIC_MAX);
        for (uint32_t i = 0; i < basic[side]; i++)
            add_srq(plan, side, &rng, false);
        for (uint32_t i = xrc ? sim_world_between(&rng, 1, XRC_MAX) : 0; i > 0; i--)
            add_srq(plan, side, &rng, true);
    }
    for (uint32_t i = 0; i < plan->pair_count; i++) {
        struct sim_plan_pair *pair = &plan->pairs[i];
        pair->xrc = xrc && sim_draw_often(&rng);
        pair->xrc_target = uro_rng_below(&rng, 2);
        pair->sides[0] = 0;
        pair->sides[1] = 1;
        if (uro_rng_below(&rng, SELF_ONE_IN) == 0)
            pair->sides[0] = pair->sides[1] = uro_rng_below(&rng, 2);
        for (unsigned j = 0; j < 2 && srqs && !pair->xrc; j++)
            if (uro_rng_below(&rng, 3) > 0)
                pair->ends[j].srq = uro_rng_below(&rng, basic[pair->sides[j]]);
    }
    draw_newer_weights(plan, &rng);
    /* Unacknowledged messages may find no shared receive: not on perfect cables. */
    for (uint32_t i = 0; i < plan->uc_count && srqs && !plan->clean; i++)
        if (sim_draw_often(&rng))
            plan->ucs[i].ends[0].srq = plan->ucs[i].ends[1].srq = 0;
    for (uint32_t i = 0; i < plan->party_count && srqs && !plan->clean; i++)
        if (sim_draw_often(&rng))
            plan->parties[i].ends[0].srq = 0;
}

/* ---- connections that messages make -------------------------------------------------------------- */

static uint32_t sometimes(struct uro_rng *rng, uint32_t most)
{
    return sim_draw_often(rng) ? 1 + uro_rng_below(rng, most) : 0;
}

void sim_draw_cm(struct sim_plan *plan)
{
    struct sim_plan_cm *cm = &plan->cm;
    struct uro_rng rng;

    uro_rng_init_number(&rng, plan->seed ^ UINT64_C(0x636d));
    *cm = (struct sim_plan_cm){ .seed = uro_rng_u64(&rng) };
    if (!sim_draw_often(&rng))
        return;
    cm->callers[0] = sim_world_between(&rng, 1, CALLERS_MAX);
    cm->callers[1] = uro_rng_below(&rng, CALLERS_MAX + 1);
    cm->connections = sim_draw_often(&rng) ? sim_world_between(&rng, 4, 12) : 64;
    cm->backlog = sim_draw_often(&rng) ? sim_world_between(&rng, 1, 3) : 16;
    cm->notices = sim_draw_often(&rng);
    cm->v6 = sim_draw_often(&rng);
    cm->path_mtu = 256u << uro_rng_below(&rng, 5);
    cm->message_max = cm->path_mtu * sim_world_between(&rng, 1, 4) - uro_rng_below(&rng, 64);
    cm->message_count = uro_rng_below(&rng, 9);
    cm->call_wait_max = NS_PER_US * sim_world_between(&rng, 1, 3000);
    cm->turn_wait_max = NS_PER_US * sim_world_between(&rng, 1, 2000);
    cm->stay_max = sim_world_between(&rng, 100, 30000);
    cm->query_probability = sometimes(&rng, 40000);
    cm->self_probability = sometimes(&rng, 20000);
    cm->response_timeout = (uint8_t)sim_world_between(&rng, EXPONENT_OF_MS, EXPONENT_OF_MS + 3);
    cm->retries = (uint8_t)sim_world_between(&rng, 3, RETRIES_MAX);
    cm->ack_more = (uint8_t)uro_rng_below(&rng, 3);
    if (!plan->clean) {
        cm->attempts = sim_world_between(&rng, 1, 12);
        cm->shut_wait_max = sometimes(&rng, 20000);
        cm->leave_probability = sometimes(&rng, 40000);
        cm->reject_probability = sometimes(&rng, 20000);
        cm->nobody_probability = sometimes(&rng, 10000);
        cm->absent_probability = sometimes(&rng, 10000) * uro_rng_below(&rng, 2);
        cm->patient_probability = sim_draw_often(&rng) ? uro_rng_below(&rng, 65537) : 0;
        cm->slow_probability = sometimes(&rng, 30000);
    }
    for (unsigned side = 0; side < 2; side++)
        plan->hosts[side].engine.connections =
            plan->clean ? SIM_PLAN_CALM_CONNECTIONS : cm->connections;
}
