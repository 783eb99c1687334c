/* SPDX-License-Identifier: BSD-3-Clause */
/* rc.c - the lives of reliable connections: memory, queue pairs, and how they connect; see rc.h. */
#include "sim/work/rc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/tight.h"
#include "sim/work/workload.h"

#define LIFE_SPACE   UINT64_C(0x10000000) /* addresses between the memory of two lives */
#define END_SPACE    UINT64_C(0x1000000000)
#define WORDS_ROOM   64u
#define PAGE         4096u
#define PORT         1u
#define REVOKED_MAX  URO_US(1000)
#define NO_OPERATION 12u /* a value of no work request */
#define FAMILY_MAX   100u
#define ACCESS_REMOTE                                                                              \
    (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC |                 \
     URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT)

static bool receives_itself(const struct sim_endpoint *endpoint)
{
    return endpoint->type == URO_QPT_RC && endpoint->srq == NULL;
}

static uint64_t *word_of(const struct sim_endpoint *endpoint)
{
    return (uint64_t *)(void *)sim_memory_slot(&endpoint->memory, SIM_MEMORY_WORDS, 0);
}

/* ---- a life begins ----------------------------------------------------------------------------- */

static void make_memory(struct sim_endpoint *endpoint)
{
    const struct sim_plan_end *plan = endpoint->plan;
    const struct sim_life *life = endpoint->life;
    uint32_t message_max = life->plan->message_max;
    uint32_t window = (message_max + 2 * SIM_MEMORY_GUARD + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity, sim_memory_room(message_max, plan->send_sges) },
        [SIM_MEMORY_RECVS] = { receives_itself(endpoint) ? plan->recv_capacity : 0,
                               sim_memory_room(message_max, plan->recv_sges) },
        [SIM_MEMORY_WINDOWS] = { endpoint->peer->plan->send_capacity + 8 + SIM_RC_MWS, window },
        [SIM_MEMORY_WORDS] = { 1, WORDS_ROOM },
        [SIM_MEMORY_PRIVATE] = { 1, window },
    };
    static const uint32_t access[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = URO_ACCESS_LOCAL_WRITE,
        [SIM_MEMORY_RECVS] = URO_ACCESS_LOCAL_WRITE,
        [SIM_MEMORY_WINDOWS] = URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE |
                               URO_ACCESS_REMOTE_READ | URO_ACCESS_MW_BIND |
                               URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT,
        [SIM_MEMORY_WORDS] =
            URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_ATOMIC | URO_ACCESS_REMOTE_WRITE,
        [SIM_MEMORY_PRIVATE] = URO_ACCESS_LOCAL_WRITE,
    };
    struct uro_shard *shard = sim_endpoint_shard(endpoint);
    uint64_t base = (uint64_t)endpoint->number * END_SPACE + life->life * LIFE_SPACE +
                    (uint64_t)uro_rng_below(&endpoint->rng, 256) * PAGE;

    sim_memory_init(&endpoint->memory, sizes, base, &endpoint->rng);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_register(&endpoint->memory, shard, i, endpoint->pd, access[i]);
    sim_rc_window_begin(endpoint);

    struct sim_shared_word *shared = &endpoint->load->shared[endpoint->side];
    endpoint->rc->shared_key = (struct uro_key){ .pd = endpoint->pd,
                                                 .access = access[SIM_MEMORY_WORDS],
                                                 .base = END_SPACE / 2,
                                                 .length = sizeof *shared->word,
                                                 .memory = (uint8_t *)shared->word };
    uro_key_register(shard, &endpoint->rc->shared_key);
}

static void make_qp(struct sim_endpoint *endpoint)
{
    const struct sim_plan_end *plan = endpoint->plan;
    bool receives = receives_itself(endpoint);
    bool sends = endpoint->type != URO_QPT_XRC_TGT;
    uint32_t cq_count = endpoint->load->plan->cq_count;
    struct sim_cq *cqs = endpoint->load->cqs[endpoint->side];

    endpoint->send_cq = cqs[uro_rng_below(&endpoint->rng, cq_count)].cq;
    endpoint->recv_cq = cqs[uro_rng_below(&endpoint->rng, cq_count)].cq;
    if (!endpoint->life->last_life)
        sim_tight_choose(endpoint, endpoint->srq != NULL);
    if (!sends)
        endpoint->send_cq = NULL;
    if (endpoint->type != URO_QPT_RC)
        endpoint->recv_cq = NULL;
    const struct uro_qp_init init = { .type = endpoint->type,
                                      .xrcd = sends ? 0 : SIM_XRC_DOMAIN + endpoint->load->number,
                                      .srq = endpoint->srq != NULL ? endpoint->srq->srq : NULL,
                                      .pd = sends ? endpoint->pd : 0,
                                      .send_cq = endpoint->send_cq,
                                      .recv_cq = endpoint->recv_cq,
                                      .send_capacity = sends ? plan->send_capacity : 0,
                                      .recv_capacity = receives ? plan->recv_capacity : 0,
                                      .send_sge_max = sends ? plan->send_sges : 0,
                                      .recv_sge_max = receives ? plan->recv_sges : 0,
                                      .inline_max = sends ? plan->inline_max : 0,
                                      .signal_all = plan->signal_all,
                                      .user = endpoint };
    sim_endpoint_create(endpoint, &init);
}

static void begin(struct sim_endpoint *endpoint)
{
    struct sim_rc_state *rc = endpoint->rc;

    endpoint->sends_left = endpoint->type == URO_QPT_XRC_TGT ? 0 : endpoint->plan->sends;
    rc->remote = rc->messages_base = 0;
    rc->msn_sent = 0;
    rc->word_maybes = 0;
    memset(rc->revoked, 0, sizeof rc->revoked);
    memset(rc->windows, 0, sizeof rc->windows);
}

static void make(struct sim_endpoint *endpoint)
{
    make_memory(endpoint);
    if (endpoint->qp == NULL)
        make_qp(endpoint);
    endpoint->wire_psn = endpoint->life->life == 0
                             ? endpoint->plan->first_psn
                             : uro_rng_below(&endpoint->rng, URO_PSN_MASK + 1);
    endpoint->rc->psn = endpoint->wire_psn;
}

static void connect(struct sim_endpoint *endpoint)
{
    const struct sim_plan_pair *plan = endpoint->life->plan;
    struct uro_qp_attr attr = { .state = URO_QPS_INIT, .port = PORT, .access = ACCESS_REMOTE };

    endpoint->rc->word = uro_rng_u64(&endpoint->rng);
    *word_of(endpoint->peer) = endpoint->rc->word;
    sim_endpoint_modify(endpoint, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    attr = (struct uro_qp_attr){
        .state = URO_QPS_RTR,
        .path_mtu = plan->path_mtu,
        .rq_psn = endpoint->peer->wire_psn,
        .dest_qpn = endpoint->peer->qpn,
        .max_dest_rd_atomic = endpoint->peer->plan->rd_atomic,
        .min_rnr_timer = endpoint->plan->min_rnr_timer,
        .address = sim_endpoint_address(endpoint->peer, plan->v6),
    };
    attr.address.flow_label = plan->v6 ? uro_rng_below(&endpoint->rng, 1u << 20) : 0;
    sim_endpoint_modify(
        endpoint, &attr,
        URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
            (endpoint->type == URO_QPT_XRC_INI ? 0 : URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR));
}

static void start(struct sim_endpoint *endpoint)
{
    const struct sim_plan_end *plan = endpoint->plan;
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS,
                                      .timeout = plan->timeout,
                                      .retry_count = plan->retry_count,
                                      .rnr_retry = endpoint->life->last_life ? 7 : plan->rnr_retry,
                                      .sq_psn = endpoint->wire_psn,
                                      .max_rd_atomic = plan->rd_atomic };

    sim_endpoint_modify(endpoint, &attr,
                        URO_ATTR_TIMEOUT | URO_ATTR_SQ_PSN |
                            (endpoint->type == URO_QPT_XRC_TGT
                                 ? 0
                                 : URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC));
}

static void fill(struct sim_endpoint *endpoint, const struct sim_request *request,
                 struct uro_wqe *wqe)
{
    wqe->compare_add = request->compare_add;
    wqe->swap = request->swap;
    if (request->opcode == URO_WR_FLUSH)
        wqe->flush = request->flush;
    if (sim_model_is_local(request->opcode) || request->opcode == URO_WR_SEND_WITH_INV)
        sim_rc_window_fill(endpoint, request, wqe);
    if (endpoint->type == URO_QPT_XRC_INI)
        wqe->xrc_srqn = request->srqn;
}

/* ---- a life ends ------------------------------------------------------------------------------- */

static bool worked(const struct sim_endpoint *endpoint)
{
    return endpoint->sends_left == 0 && endpoint->confirmed == endpoint->posted &&
           endpoint->messages_sent == endpoint->peer->messages_taken;
}

static void on_progress(struct sim_endpoint *endpoint)
{
    sim_life_on_progress(endpoint->life);
}

/* What an XRC target took completes where other queue pairs' receives do. Its completions are not forgotten
 * with it, and are polled before. */
static void stop_target(struct sim_endpoint *endpoint)
{
    struct sim_workload *load = endpoint->load;

    for (uint32_t i = 0; i < load->plan->cq_count; i++)
        sim_cq_poll(&load->cqs[endpoint->side][i]);
    if (load->plan->cq_tight_all)
        sim_cq_poll(&load->tight[endpoint->side]);
    for (uint32_t i = 0; i < load->plan->srq_count[endpoint->side]; i++)
        if (load->srqs[endpoint->side][i].plan->xrc)
            load->srqs[endpoint->side][i].lost_max++;
}

static void stop(struct sim_endpoint *endpoint)
{
    if (endpoint->type == URO_QPT_XRC_TGT)
        stop_target(endpoint);
    for (; endpoint->confirmed < endpoint->posted; endpoint->confirmed++)
        sim_rc_uncertain(endpoint, sim_request_of(endpoint, endpoint->confirmed));
}

/* The peer's word has the value after all atomics, or one on the way to it. */
static void check_word(struct sim_endpoint *endpoint)
{
    const struct sim_rc_state *rc = endpoint->rc;
    uint64_t value = *word_of(endpoint->peer);
    bool known = value == rc->word;

    for (uint32_t i = 0; i < rc->word_maybes; i++)
        known |= value == rc->word_maybe[i];
    if (!known)
        sim_world_fail(endpoint->load->world,
                       "pair %u: atomics left 0x%016" PRIx64 ", should be 0x%016" PRIx64,
                       endpoint->life->number, value, rc->word);
}

static void bury(struct sim_endpoint *endpoint)
{
    sim_rc_window_end(endpoint);
    sim_endpoint_bury(endpoint);
    uro_key_deregister(sim_endpoint_shard(endpoint), &endpoint->rc->shared_key);
}

/* Deregisters memory that is in use, or registers it again with another key. */
static void revoke(struct sim_life *life)
{
    static const enum sim_memory_section sections[] = { SIM_MEMORY_SENDS, SIM_MEMORY_RECVS,
                                                        SIM_MEMORY_WINDOWS, SIM_MEMORY_WORDS };
    struct sim_endpoint *endpoint = &life->ends[uro_rng_below(life->rng, 2)];
    enum sim_memory_section section = sections[uro_rng_below(life->rng, URO_ARRAY_LEN(sections))];
    struct uro_shard *shard = sim_endpoint_shard(endpoint);

    life->revoked = true;
    life->due = life->load->world->now + uro_rng_below(life->rng, REVOKED_MAX);
    if (section == SIM_MEMORY_WINDOWS && sim_rc_window_bound(endpoint))
        return;
    life->may_fail = true;
    endpoint->rc->revoked[section] = true;
    endpoint->rc->renewed = UINT64_MAX;
    if (uro_rng_below(life->rng, 2) == 0) {
        sim_memory_deregister(&endpoint->memory, shard, section);
    } else {
        sim_memory_register_again(&endpoint->memory, shard, section);
        endpoint->rc->renewed =
            section == SIM_MEMORY_SENDS ? endpoint->posted : endpoint->peer->posted;
    }
    sim_journal_note(life->load->world->journal, life->load->world->now,
                     "pair %u: section %d of %c is %s", life->number, (int)section,
                     endpoint->host->config.name,
                     endpoint->rc->renewed == UINT64_MAX ? "deregistered" : "registered again");
}

static const struct sim_endpoint_ops ops = {
    .family = "pair",
    .reliable = true,
    .unsupported = NO_OPERATION,
    .begin = begin,
    .make = make,
    .connect = connect,
    .start = start,
    .worked = worked,
    .stop = stop,
    .check_memory = check_word,
    .bury = bury,
    .revoke = revoke,
    .choose = sim_rc_choose,
    .fill = fill,
    .confirm = sim_rc_confirm,
    .expected = sim_rc_expected,
    .on_error = sim_rc_on_error,
    .on_progress = on_progress,
    .take = sim_rc_take,
    .recv_expected = sim_rc_recv_expected,
};

/* A queue pair is of the protection domain of its receives. */
static void choose_type(struct sim_endpoint *endpoint)
{
    const struct sim_life *life = endpoint->life;
    const struct sim_workload *load = endpoint->load;
    unsigned i = endpoint == &life->ends[1];

    endpoint->type = URO_QPT_RC;
    endpoint->pd = load->pds + endpoint->number;
    if (life->plan->xrc)
        endpoint->type = i == life->plan->xrc_target ? URO_QPT_XRC_TGT : URO_QPT_XRC_INI;
    else if (endpoint->plan->srq != SIM_PLAN_NO_SRQ)
        endpoint->pd = sim_srq_at(endpoint, endpoint->plan->srq)->pd;
    for (uint32_t j = 0;
         endpoint->type == URO_QPT_XRC_TGT && j < load->plan->srq_count[endpoint->side]; j++)
        if (sim_srq_at(endpoint, j)->plan->xrc)
            endpoint->pd = sim_srq_at(endpoint, j)->pd;
}

void sim_rc_init(struct sim_life *life, struct sim_workload *load, uint32_t number)
{
    life->load = load;
    life->plan = &load->plan->pairs[number];
    life->number = load->number * FAMILY_MAX + number;
    life->count = 2;
    life->rng = &life->own_rng;
    uro_rng_init_number(life->rng, uro_rng_u64(&load->rng));
    for (unsigned i = 0; i < 2; i++) {
        struct sim_endpoint *endpoint = &life->ends[i];
        endpoint->ops = &ops;
        endpoint->life = life;
        endpoint->peer = &life->ends[!i];
        endpoint->load = load;
        endpoint->side = life->plan->sides[i];
        endpoint->host = load->hosts[endpoint->side];
        endpoint->plan = &life->plan->ends[i];
        endpoint->number = 1 + number * 2 + i;
        endpoint->rc = calloc(1, sizeof *endpoint->rc);
        URO_ASSERT(endpoint->rc != NULL);
        choose_type(endpoint);
        sim_endpoint_init(endpoint);
        uro_rng_init_number(&endpoint->rng, uro_rng_u64(&load->rng));
        sim_post_init(endpoint);
    }
    sim_life_init(life, load);
}
