/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - draws the plan of a run: first each struct from its table, then the members that depend
 * on several fields; see plan.h.
 *
 * Each struct has its own sequence of random numbers. So a new field of one struct does not change
 * the other structs.
 */
#include "sim/plan/plan.h"

#include <inttypes.h>
#include <string.h>

#include "sim/oracle/model.h"
#include "sim/plan/fields.h"

#define TWO_OF_TEN    6u /* number of runs in ten that have two hosts */
#define STARS_ONE_IN  3u /* one run in three links the first host to all others */
#define EXTRA_MAX     2u /* links beyond those that connect all hosts */
#define CLEAN_ONE_IN  8u /* one run in eight has only clean links */
#define MIXED_ONE_IN  2u /* one run in two may have clean links beside faulty ones */
#define SPARED_ONE_IN 3u /* one link in three of such a run is clean */
/* Maximum number of objects of a link in a run with several links. */
#define CQS_MAX     2u
#define PARTIES_MAX 3u
#define SHARED_MAX  256u /* receives of a shared queue: still more than all connections send */
/* Maximum shared receive queues of a host on one link, basic and XRC. */
#define BASIC_MAX     2u
#define XRC_MAX       3u
#define SELF_ONE_IN   6u  /* one connection in six has both ends on one host */
#define ROUNDED_MAX   64u /* a message may be this much shorter than a multiple of the MTU, bytes */
#define RETRY_MAX     7u
#define ATTACKED_WAIT URO_MS(1000) /* time for the last messages after an attack */
/* Time limit until an address that was not found is resolved. */
#define NEIGHBOUR_WAIT  URO_MS(9000)
#define PS_PER_NS       1000u
#define TRIES           8u  /* assumed tries of a last attempt that is rejected */
#define MRA_EXPONENT    24u /* exponent of the service timeout in an MRA */
#define EXPONENT_OF_MS  8u  /* 4.096 us * 2^8 is 1 ms, as in Linux */
#define MESSAGES_OF_ONE 24u /* maximum CM messages in flight for one caller */
#define FOREVER         7u  /* value of retry_cnt and rnr_retry for unlimited retries */

/* The parts that are faults of a link, and those that are faults of a host. */
#define LINK_FAULTS                                                                                \
    (SIM_PLAN_PART(LOSE) | SIM_PLAN_PART(DUPLICATE) | SIM_PLAN_PART(CORRUPT) |                     \
     SIM_PLAN_PART(TRUNCATE) | SIM_PLAN_PART(LATE) | SIM_PLAN_PART(JITTER) | SIM_PLAN_PART(CE) |   \
     SIM_PLAN_PART(QUEUE) | SIM_PLAN_PART(PARTITION) | SIM_PLAN_PART(DOZE) |                       \
     SIM_PLAN_PART(TIGHT) | SIM_PLAN_PART(ATTACKER) | SIM_PLAN_PART(ATTACKED) |                    \
     SIM_PLAN_PART(UNNAMED))
#define HOST_FAULTS                                                                                \
    (SIM_PLAN_PART(RING) | SIM_PLAN_PART(STALL) | SIM_PLAN_PART(THREADS) | SIM_PLAN_PART(UNNAMED))

/* Each kind of struct has a sequence of random numbers: SIM_FIELDS_LINK and so on. The sequences
 * here are for decisions about several structs. */
enum { NUMBERS_NET = SIM_FIELDS_KINDS, NUMBERS_LINK, NUMBERS_HOST };

static struct uro_rng numbers(uint64_t seed, unsigned kind, uint32_t index)
{
    struct uro_rng rng;

    uro_rng_init_number(&rng, seed * UINT64_C(0x9e3779b97f4a7c15) + kind * 256 + index);
    return rng;
}

static bool one_in(struct uro_rng *rng, uint32_t count)
{
    return uro_rng_below(rng, count) == 0;
}

/* ---- every struct of a link ------------------------------------------------------------------ */

/* A change of each struct of a link. */
struct change {
    bool draws;       /* true: draws all fields; false: changes fields that were drawn */
    uint32_t without; /* parts to turn off */
    uint32_t count;   /* divisor of numbers of objects, unless it draws */
    uint32_t work;    /* divisor of the work of an object, unless it draws */
};

static void change_object(const struct sim_plan *plan, const struct change *change,
                          enum sim_fields_kind kind, uint32_t index, void *object)
{
    struct uro_rng rng = numbers(plan->seed, kind, index);

    if (change->draws) {
        sim_fields_draw(kind, object, &rng, change->without);
        return;
    }
    sim_fields_clear(kind, object, change->without);
    sim_fields_divide(kind, object, change->count, change->work);
}

static void change_pairs(const struct sim_plan *plan, const struct change *change,
                         struct sim_plan_pair *pairs, uint32_t count, enum sim_fields_kind end,
                         uint32_t from)
{
    for (uint32_t i = 0; i < count; i++) {
        change_object(plan, change, SIM_FIELDS_PAIR, from + i, &pairs[i]);
        for (uint32_t j = 0; j < 2; j++)
            change_object(plan, change, end, (from + i) * 2 + j, &pairs[i].ends[j]);
    }
}

static void change_all(struct sim_plan *plan, const struct change *change)
{
    change_object(plan, change, SIM_FIELDS_LINK, 0, plan);
    for (uint32_t side = 0; side < 2; side++) {
        change_object(plan, change, SIM_FIELDS_CABLE, side, &plan->cables[side]);
        for (uint32_t i = 0; i < SIM_PLAN_SRQS_MAX; i++)
            change_object(plan, change, SIM_FIELDS_SRQ, side * SIM_PLAN_SRQS_MAX + i,
                          &plan->srqs[side][i]);
    }
    change_pairs(plan, change, plan->pairs, SIM_PLAN_PAIRS_MAX, SIM_FIELDS_END, 0);
    change_pairs(plan, change, plan->ucs, SIM_PLAN_UCS_MAX, SIM_FIELDS_UNRELIABLE, 16);
    change_pairs(plan, change, plan->parties, SIM_PLAN_PARTIES_MAX, SIM_FIELDS_UNRELIABLE, 32);
    change_object(plan, change, SIM_FIELDS_CM, 0, &plan->cm);
    change_object(plan, change, SIM_FIELDS_ATTACKED, 0, &plan->attacked);
}

/* ---- members that depend on several fields --------------------------------------------------- */

static uint32_t draw_size(struct uro_rng *rng, uint32_t mtu, uint32_t packets)
{
    return mtu * sim_world_between(rng, 1, packets) - uro_rng_below(rng, ROUNDED_MAX);
}

static void draw_srqs(struct sim_plan *plan, unsigned side, struct uro_rng *rng)
{
    uint32_t basic = plan->shared ? sim_world_between(rng, 1, BASIC_MAX) : 0;
    uint32_t count = basic + (plan->xrc ? sim_world_between(rng, 1, XRC_MAX) : 0);

    plan->srq_count[side] = count;
    for (uint32_t i = 0; i < count; i++) {
        struct sim_plan_srq *srq = &plan->srqs[side][i];
        srq->xrc = i >= basic;
        srq->capacity =
            plan->clean ? srq->capacity_max : sim_world_between(rng, 1, srq->capacity_max);
        srq->wild = srq->wild && !srq->xrc;
        if (i == basic) /* this XRC queue is not replaced, since the last life needs it */
            srq->replace_probability = 0;
    }
    for (uint32_t i = 0; i < plan->pair_count; i++)
        for (unsigned j = 0; j < 2; j++)
            if (plan->pairs[i].sides[j] == side && (plan->pairs[i].xrc || basic == 0))
                plan->pairs[i].ends[j].srq = SIM_PLAN_NO_SRQ;
            else if (plan->pairs[i].sides[j] == side &&
                     plan->pairs[i].ends[j].srq != SIM_PLAN_NO_SRQ)
                plan->pairs[i].ends[j].srq %= basic;
}

static void draw_weights(struct sim_plan_end *end, struct uro_rng *rng, const struct sim_plan *plan,
                         uint32_t unused)
{
    for (unsigned i = 0; i < SIM_PLAN_KINDS; i++) {
        end->weights[i] = one_in(rng, 2) && !(unused & 1u << i) ? sim_world_between(rng, 1, 10) : 0;
        if (plan->clean && (i == SIM_PLAN_SEND_IMM || i == SIM_PLAN_WRITE_IMM))
            end->weights[i] = 0;
    }
    for (unsigned i = 0; i < SIM_PLAN_FLUSH; i++)
        if (end->weights[i] > 0)
            return;
    end->weights[SIM_PLAN_SEND] = 1;
}

/* Draws RC and XRC connections. */
static void draw_pairs(struct sim_plan *plan, struct uro_rng *rng)
{
    const uint32_t newer = 1u << SIM_PLAN_FLUSH | 1u << SIM_PLAN_ATOMIC_WRITE;
    const uint32_t windows = UINT32_MAX << SIM_PLAN_BIND;
    uint32_t unused = (one_in(rng, 2) ? newer : 0) | (one_in(rng, 2) ? windows : 0);

    for (uint32_t i = 0; i < plan->pair_count; i++) {
        struct sim_plan_pair *pair = &plan->pairs[i];
        pair->xrc = pair->xrc && plan->xrc;
        pair->message_max = pair->path_mtu * sim_world_between(rng, 1, 5);
        if (one_in(rng, 2))
            pair->message_max -= uro_rng_below(rng, pair->path_mtu / 2);
        pair->sides[1] = 1;
        if (one_in(rng, SELF_ONE_IN))
            pair->sides[0] = pair->sides[1] = uro_rng_below(rng, 2);
        if (plan->cq_tight > 0 && pair->lives < 2)
            pair->lives = 2; /* the last life does not use the tight queue */
        for (unsigned j = 0; j < 2; j++) {
            struct sim_plan_end *end = &pair->ends[j];
            if (plan->forever)
                end->retry_count = end->rnr_retry = FOREVER;
            end->first_psn = one_in(rng, 2) ? SIM_PSN_MASK - uro_rng_below(rng, 200)
                                            : uro_rng_below(rng, SIM_PSN_MASK + 1);
            draw_weights(end, rng, plan, pair->xrc ? unused | windows : unused);
        }
    }
}

static void draw_unreliable(struct sim_plan *plan, struct uro_rng *rng)
{
    for (uint32_t i = 0; i < plan->uc_count; i++) {
        struct sim_plan_pair *uc = &plan->ucs[i];
        uc->seed = uro_rng_u64(rng);
        uc->life_max /= 2;
        uc->inject_probability *= 2;
        uc->message_max = draw_size(rng, uc->path_mtu, 4);
        uc->sides[0] = uro_rng_below(rng, 2);
        uc->sides[1] = one_in(rng, 4) ? uc->sides[0] : !uc->sides[0];
        if (!plan->shared)
            uc->ends[0].srq = SIM_PLAN_NO_SRQ;
        uc->ends[1] = uc->ends[0];
    }
    for (uint32_t i = 0; i < plan->party_count; i++) {
        struct sim_plan_pair *party = &plan->parties[i];
        party->seed = uro_rng_u64(rng);
        party->life_max /= 2;
        party->inject_probability *= 2;
        party->message_max = one_in(rng, 2) ? 256 : UROCE_PATH_MTU_MAX;
        party->sides[0] = i < 2 ? i : uro_rng_below(rng, 2);
        if (!plan->shared)
            party->ends[0].srq = SIM_PLAN_NO_SRQ;
    }
}

static void draw_attacked(struct sim_plan_attacked *attacked, struct sim_plan_srq *srq,
                          struct uro_rng *rng)
{
    static const enum uroce_qp_type types[] = { UROCE_RC, UROCE_UC, UROCE_UD, UROCE_XRC_INI };
    struct sim_plan_pair *pair = &attacked->pair;
    struct sim_plan_end *end = &pair->ends[0];

    attacked->type = types[uro_rng_below(rng, URO_ARRAY_LEN(types))];
    attacked->seed = uro_rng_u64(rng);
    pair->seed = uro_rng_u64(rng);
    pair->sides[1] = 1;
    pair->lives = UINT32_MAX;
    pair->life_max = 5000;
    end->batch_max = 1;
    end->recv_batch_max = 8;
    end->post_wait_max = URO_US(100);
    end->srq = SIM_PLAN_NO_SRQ;
    end->rd_atomic = 4;
    end->min_rnr_timer = 1;
    end->timeout = 8;
    end->retry_count = end->rnr_retry = 3;
    end->signal_probability = end->solicit_probability = 32768;
    pair->ends[1] = *end;
    *srq = (struct sim_plan_srq){
        .xrc = true, .capacity = 8, .capacity_max = 8, .spare = 8, .sges = 4, .batch_max = 8
    };
}

/* Draws the plan of one link, whose fields @seed, @clean and @hosts are set. */
static void draw_link(struct sim_plan *plan)
{
    const struct change draw = { .draws = true, .without = plan->clean ? LINK_FAULTS : 0 };
    struct uro_rng rng = numbers(plan->seed, NUMBERS_LINK, 0);

    change_all(plan, &draw);
    plan->calm_at = SIM_PLAN_START + URO_MS(1) + URO_US(sim_fields_skewed(&rng, 100, 60000));
    for (unsigned side = 0; side < 2 && plan->clean; side++)
        plan->cables[side].quirks &= ~SIM_QUIRK_LOSSY;
    if (plan->cq_tight_all && plan->cq_tight == 0)
        plan->cq_tight = sim_world_between(&rng, 1, 12);
    draw_pairs(plan, &rng);
    draw_unreliable(plan, &rng);
    for (unsigned side = 0; side < 2; side++)
        draw_srqs(plan, side, &rng);
    plan->attacker.seed = uro_rng_u64(&rng);
    draw_attacked(&plan->attacked, &plan->srqs[1][SIM_PLAN_SRQS_MAX], &rng);
    plan->cm.seed = uro_rng_u64(&rng);
    plan->cm.message_max = draw_size(&rng, plan->cm.path_mtu, 4);
    if (plan->cm.callers[0] == 0)
        plan->cm.callers[1] = 0;
}

/* Divides the work of a link, so that all links together have about as much work as the only link
 * of a run with two hosts. */
static void thin(struct sim_plan *plan, uint32_t links)
{
    const struct change divide = { .count = links, .work = links > 2 ? 4 : 2 };
    uint32_t parties = links > 3 ? PARTIES_MAX - 1 : PARTIES_MAX;

    change_all(plan, &divide);
    plan->party_count = plan->party_count > parties ? parties : plan->party_count;
    plan->cq_count = plan->cq_count > CQS_MAX ? CQS_MAX : plan->cq_count;
    for (unsigned side = 0; side < 2; side++) {
        plan->cm.callers[side] = plan->cm.callers[side] > 0;
        for (uint32_t i = 0; i < plan->srq_count[side]; i++) {
            struct sim_plan_srq *srq = &plan->srqs[side][i];
            if (srq->capacity > SHARED_MAX)
                srq->capacity = srq->capacity_max = srq->batch_max = SHARED_MAX;
        }
    }
    /* Checking the memory of long messages takes more time than sending their packets. */
    for (uint32_t i = 0; i < plan->pair_count; i++) {
        uint32_t longest = 2 * plan->pairs[i].path_mtu + plan->pairs[i].path_mtu / 2;
        if (plan->pairs[i].message_max > longest)
            plan->pairs[i].message_max = longest;
    }
}

/* ---- time limits ----------------------------------------------------------------------------- */

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static const struct sim_host_config *host_of(const struct sim_plan *plan, unsigned side)
{
    return &plan->net->hosts[plan->hosts[side]];
}

static uint64_t cm_frames(const struct sim_plan *plan)
{
    const struct sim_plan_cm *cm = &plan->cm;
    uint32_t callers = cm->callers[0] + cm->callers[1];

    if (callers == 0)
        return 0;
    return 2 * callers *
           (MESSAGES_OF_ONE + cm->message_count * (cm->message_max / cm->path_mtu + UINT64_C(2)));
}

/* Returns the most requests and answers that may be in flight from a host because of one link. */
static uint64_t link_frames(const struct sim_plan *plan, unsigned side)
{
    uint32_t window = host_of(plan, side)->engine.window;
    if (window == 0)
        window = UROCE_WINDOW_DEFAULT;
    uint64_t frames = (uint64_t)window * plan->pair_count * 2; /* requests and READ responses */

    for (uint32_t i = 0; i < plan->uc_count; i++) {
        const struct sim_plan_pair *uc = &plan->ucs[i];
        frames += 4 * (uc->ends[0].sends * (uc->message_max / uc->path_mtu + 1));
    }
    for (uint32_t i = 0; i < plan->party_count; i++)
        frames += 2 * plan->parties[i].ends[0].sends;
    return frames + cm_frames(plan);
}

static uint32_t largest_frame(const struct sim_plan *plan)
{
    uint32_t mtu = plan->cm.path_mtu;

    for (uint32_t i = 0; i < plan->uc_count; i++)
        mtu = larger(mtu, plan->ucs[i].path_mtu);
    for (uint32_t i = 0; i < plan->pair_count; i++)
        mtu = larger(mtu, plan->pairs[i].path_mtu);
    if (plan->party_count > 0 || plan->net->link_count > 1)
        mtu = UROCE_PATH_MTU_MAX;
    return mtu + SIM_PLAN_OVERHEAD;
}

/* Returns the most frames that may be in flight from a host, over all its links. */
static uint64_t host_frames(const struct sim_net_plan *net, unsigned host)
{
    uint64_t frames = 0;

    for (uint32_t i = 0; i < net->link_count; i++)
        for (unsigned side = 0; side < 2; side++)
            if (net->links[i].hosts[side] == host)
                frames += link_frames(&net->links[i], side);
    return frames;
}

/* Returns the longest time that a frame of the link can be in flight. The frames of all other links
 * of the two hosts may be sent before it. */
static uro_time compute_flight(const struct sim_plan *plan)
{
    uint32_t largest = largest_frame(plan);
    uro_time longest = 0;

    for (unsigned side = 0; side < 2; side++) {
        const struct sim_cable_config *cable = &plan->cables[side];
        uint64_t frames = host_frames(plan->net, plan->hosts[side]);
        uro_time time = cable->one_way_delay + cable->jitter + cable->late_max +
                        frames * largest * cable->ps_per_byte / PS_PER_NS +
                        frames * host_of(plan, side)->tx_gap_max +
                        (host_of(plan, side)->threads ? SIM_THREADS_USUAL : 0) +
                        (host_of(plan, !side)->threads ? SIM_THREADS_USUAL : 0);
        longest = time > longest ? time : longest;
    }
    return longest;
}

uro_time sim_plan_cm_time(uint32_t exponent)
{
    return URO_MS(1) << (exponent < EXPONENT_OF_MS ? 0 : exponent - EXPONENT_OF_MS);
}

/* Returns the time limit for CM users after the faults stop. It includes the connections that are
 * open then, the last attempts of each caller with some rejections, and MRAs. */
static uro_time cm_patience(const struct sim_plan *plan)
{
    const struct sim_plan_cm *cm = &plan->cm;
    uint32_t callers = cm->callers[0] + cm->callers[1];
    uro_time asking =
        (SIM_PLAN_CM_PATIENT_RETRIES + UINT64_C(1)) *
        (2 * sim_plan_cm_time(cm->ack_timeout) + sim_plan_cm_time(SIM_PLAN_CM_PATIENT_TIMEOUT));
    uro_time one = 3 * asking + 2 * sim_plan_cm_time(MRA_EXPONENT) + 4 * cm->turn_wait_max +
                   cm->call_wait_max + URO_US(cm->stay_max) + SIM_PLAN_CM_SLOW +
                   SIM_PLAN_CM_STAY_LONG + cm->message_count * 4 * plan->flight_max;

    return callers == 0 ? 0 : 2 * one + callers * TRIES * one;
}

static uro_time unreliable_patience(const struct sim_plan *plan, const struct sim_plan_end *end)
{
    return URO_MS(100) + 2 * end->sends *
                             (2 * plan->flight_max + 2 * plan->poll_wait_max + end->post_wait_max +
                              end->recv_wait_max);
}

/* Returns the time limit for the work of a link after the faults stop. It is generous: the
 * simulator looks for work that never ends, not for slow work. */
static uro_time link_patience(const struct sim_plan *plan)
{
    uro_time sum = NEIGHBOUR_WAIT;
    uro_time flight = plan->flight_max;

    for (uint32_t i = 0; i < plan->pair_count; i++) {
        const struct sim_plan_pair *pair = &plan->pairs[i];
        for (unsigned side = 0; side < 2; side++) {
            const struct sim_plan_end *end = &pair->ends[side];
            const struct sim_plan_end *peer = &pair->ends[!side];
            uro_time each = 2 * flight + end->post_wait_max + 2 * plan->poll_wait_max +
                            peer->recv_wait_max + URO_MS(2); /* one or two RNR waits */
            if (peer->srq != SIM_PLAN_NO_SRQ || pair->xrc)
                each *= 2 * plan->pair_count; /* other queue pairs may take the receives first */
            sum += (pair->lives + 1) * (URO_US(pair->life_max) + end->sends * each +
                                        (RETRY_MAX + 2) * SIM_PLAN_ACK_TIMEOUT(end->timeout) * 2);
        }
    }
    for (uint32_t i = 0; i < plan->uc_count; i++)
        sum += unreliable_patience(plan, &plan->ucs[i].ends[0]);
    for (uint32_t i = 0; i < plan->party_count; i++)
        sum += unreliable_patience(plan, &plan->parties[i].ends[0]);
    return sum + cm_patience(plan) + (plan->attacked.wait_max > 0 ? ATTACKED_WAIT : 0);
}

uro_time sim_net_plan_patience(const struct sim_net_plan *net)
{
    uro_time sum = 0;

    for (uint32_t i = 0; i < net->link_count; i++)
        sum += link_patience(&net->links[i]);
    return sum;
}

uro_time sim_plan_faults_max(const struct sim_plan *plan, uint32_t occasions)
{
    uro_time stall = 0;

    for (unsigned side = 0; side < 2; side++)
        if (host_of(plan, side)->tx_stall_max > stall)
            stall = host_of(plan, side)->tx_stall_max;
    for (unsigned side = 0; side < 2; side++)
        stall += host_of(plan, side)->threads ? SIM_THREADS_LATE : 0;
    return stall * occasions + SIM_PLAN_JUMPS_MAX * URO_US(plan->net->faults.jump_max);
}

/* ---- all links and hosts --------------------------------------------------------------------- */

static bool is_end(const struct sim_plan *plan, unsigned host)
{
    return plan->hosts[0] == host || plan->hosts[1] == host;
}

static void add_link(struct sim_net_plan *net, unsigned a, unsigned b)
{
    for (uint32_t i = 0; i < net->link_count; i++)
        if (is_end(&net->links[i], a) && is_end(&net->links[i], b))
            return;
    if (a == b || net->link_count == SIM_NET_LINKS_MAX)
        return;
    net->links[net->link_count].hosts[0] = a;
    net->links[net->link_count++].hosts[1] = b;
}

/* Links each host to an earlier host, and some hosts to further hosts. */
static void draw_links(struct sim_net_plan *net, struct uro_rng *rng)
{
    bool star = one_in(rng, STARS_ONE_IN);

    for (unsigned i = 1; i < net->host_count; i++)
        add_link(net, star ? 0 : uro_rng_below(rng, i), i);
    for (uint32_t i = uro_rng_below(rng, EXTRA_MAX + 1); i > 0 && net->host_count > 2; i--) {
        unsigned other = uro_rng_below(rng, net->host_count);
        add_link(net, uro_rng_below(rng, net->host_count), other);
    }
}

bool sim_net_plan_is_calm(const struct sim_net_plan *net, unsigned host)
{
    for (uint32_t i = 0; i < net->link_count; i++)
        if (net->links[i].clean && is_end(&net->links[i], host))
            return true;
    return false;
}

/* Draws a host and the configuration of its engine. The links of the host must be drawn already. */
static void draw_host(struct sim_net_plan *net, unsigned number, uint64_t seed)
{
    struct sim_host_config *host = &net->hosts[number];
    struct uroce_engine_config *engine = &host->engine;
    const uint8_t ipv4[4] = { 10, 0, 0, (uint8_t)(number + 1) };
    const struct uro_gid gid = uro_gid_from_ipv4(ipv4);
    struct uro_rng rng = numbers(seed, NUMBERS_HOST, number);
    bool calm = sim_net_plan_is_calm(net, number);

    sim_fields_draw(SIM_FIELDS_HOST, host, &rng, calm ? HOST_FAULTS : 0);
    host->name = (char)('A' + (char)number);
    engine->size = sizeof *engine;
    engine->mac[0] = 0x02;
    engine->mac[sizeof engine->mac - 1] = (uint8_t)(number + 1);
    engine->address_count = 1;
    engine->addresses[0].prefix = 24;
    memcpy(engine->addresses[0].gid, gid.octets, sizeof gid.octets);
    host->thread_seed = uro_rng_u64(&rng);
    for (size_t i = 0; i < sizeof engine->seed; i++)
        engine->seed[i] = (uint8_t)uro_rng_u32(&rng);
    for (uint32_t i = 0; i < net->link_count; i++) {
        const struct sim_plan *plan = &net->links[i];
        if (!is_end(plan, number))
            continue;
        engine->retry_7_forever |= plan->forever;
        engine->connections += plan->cm.connections;
    }
    if (calm)
        engine->connections = SIM_PLAN_CALM_CONNECTIONS;
}

/* Removes attackers and attacked queue pairs from hosts with a clean link. Leaves at most one
 * attacker in the run. */
static void join_attackers(struct sim_net_plan *net)
{
    bool has_attacker = false;

    for (uint32_t i = 0; i < net->link_count; i++) {
        struct sim_plan *plan = &net->links[i];
        bool calm =
            sim_net_plan_is_calm(net, plan->hosts[0]) || sim_net_plan_is_calm(net, plan->hosts[1]);
        if (calm)
            plan->attacked.wait_max = 0;
        if (calm || has_attacker)
            plan->attacker.wait_max = 0;
        has_attacker |= plan->attacker.wait_max > 0;
    }
}

static void add_timeouts(struct sim_plan *plan)
{
    uro_time flight = compute_flight(plan);
    uint32_t least = 6; /* exponent of the smallest timeout that is longer than a slow round trip */

    while (SIM_PLAN_ACK_TIMEOUT(least) < 3 * flight)
        least++;
    least += plan->clean ? 2 : 0;
    for (uint32_t i = 0; i < 2 * plan->pair_count; i++)
        plan->pairs[i / 2].ends[i % 2].timeout =
            (uint8_t)(plan->pairs[i / 2].ends[i % 2].timeout + least);
    plan->cm.ack_timeout = (uint8_t)(plan->cm.ack_timeout + least);
}

/* Turns off the parts @without, and halves the work @less times. */
static void shrink(struct sim_plan *plan, uint32_t without, uint32_t less)
{
    const struct change change = { .without = without, .count = 1u << less, .work = 1u << less };

    change_all(plan, &change);
    if (without & SIM_PLAN_PART(SRQ))
        plan->srq_count[0] = plan->srq_count[1] = 0;
    plan->calm_at = SIM_PLAN_START + (plan->calm_at - SIM_PLAN_START) / (less + 1);
}

static void draw_net(struct sim_net_plan *net, uint64_t seed, bool two)
{
    struct uro_rng rng = numbers(seed, NUMBERS_NET, 0);
    struct uro_rng faults = numbers(seed, SIM_FIELDS_FAULTS, 0);

    net->host_count = sim_world_between(&rng, 3, sim_world_between(&rng, 3, SIM_NET_HOSTS_MAX));
    if (uro_rng_below(&rng, 10) < TWO_OF_TEN || two)
        net->host_count = 2;
    bool clean = one_in(&rng, CLEAN_ONE_IN);
    bool mixed = one_in(&rng, MIXED_ONE_IN) && net->host_count > 2;
    bool any_clean = false;
    draw_links(net, &rng);
    net->clean = true;
    for (uint32_t i = 0; i < net->link_count; i++) {
        struct sim_plan *plan = &net->links[i];
        plan->net = net;
        plan->seed = i == 0 ? seed : uro_rng_u64(&rng);
        plan->clean = clean || (mixed && one_in(&rng, SPARED_ONE_IN));
        net->clean &= plan->clean;
        any_clean |= plan->clean;
        draw_link(plan);
        if (net->host_count > 2)
            thin(plan, net->link_count);
    }
    join_attackers(net);
    for (unsigned i = 0; i < net->host_count; i++)
        draw_host(net, i, seed);
    net->faults.seed = uro_rng_u64(&faults);
    sim_fields_draw(SIM_FIELDS_FAULTS, &net->faults, &faults, any_clean ? SIM_PLAN_PART(JUMP) : 0);
    for (uint32_t i = 0; i < net->link_count; i++)
        add_timeouts(&net->links[i]);
}

void sim_net_plan_draw(struct sim_net_plan *net, uint64_t seed, uint32_t without, uint32_t less)
{
    memset(net, 0, sizeof *net);
    draw_net(net, seed, without & SIM_PLAN_PART(HOSTS));
    sim_fields_clear(SIM_FIELDS_FAULTS, &net->faults, without);
    for (unsigned i = 0; i < net->host_count; i++)
        sim_fields_clear(SIM_FIELDS_HOST, &net->hosts[i], without);
    for (uint32_t i = 0; i < net->link_count; i++) {
        shrink(&net->links[i], without, less);
        if (net->links[i].calm_at > net->calm_at)
            net->calm_at = net->links[i].calm_at;
    }
    for (uint32_t i = 0; i < net->link_count; i++)
        net->links[i].flight_max = compute_flight(&net->links[i]);
}

/* ---- text ------------------------------------------------------------------------------------ */

void sim_net_plan_text(const struct sim_net_plan *net, char *text, size_t size)
{
    text[0] = '\0';
    sim_world_append(text, size, "%u hosts, calm at %" PRIu64 " us:", net->host_count,
                     net->calm_at / 1000);
    sim_fields_text(SIM_FIELDS_FAULTS, &net->faults, text, size);
    for (unsigned i = 0; i < net->host_count; i++) {
        sim_world_append(text, size, "\n  %c:", net->hosts[i].name);
        sim_fields_text(SIM_FIELDS_HOST, &net->hosts[i], text, size);
    }
    for (uint32_t i = 0; i < net->link_count; i++) {
        const struct sim_plan *plan = &net->links[i];
        char ends[2] = { net->hosts[plan->hosts[0]].name, net->hosts[plan->hosts[1]].name };
        sim_world_append(text, size, "\n  %c-%c: %s,", ends[0], ends[1],
                         plan->clean ? "clean" : "faulty");
        sim_fields_text(SIM_FIELDS_LINK, plan, text, size);
        for (unsigned side = 0; side < 2; side++) {
            sim_world_append(text, size, "\n    %c>%c:", ends[side], ends[!side]);
            sim_fields_text(SIM_FIELDS_CABLE, &plan->cables[side], text, size);
        }
    }
    URO_ASSERT(strlen(text) + 1 < size);
}
