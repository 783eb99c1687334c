/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_life.c - queue pairs and their memory: made, connected, ended; see workload.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/psn.h"
#include "sim/work/tight.h"

#define LIFE_SPACE   UINT64_C(0x10000000) /* addresses between the memories of two lives */
#define END_SPACE    UINT64_C(0x1000000000)
#define WORDS_ROOM   64u
#define HOP_LIMIT    64u
#define QP_ALIGNMENT 64u
#define PAGE         4096u
#define PORT         1u
#define ACCESS_REMOTE                                                                              \
    (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC |                 \
     URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT)

static bool receives_itself(const struct sim_rc_end *end)
{
    return end->type == URO_QPT_RC && end->srq == NULL;
}

static void make_memory(struct sim_rc_end *end)
{
    const struct sim_plan_end *plan = end->plan;
    const struct sim_rc *pair = end->pair;
    uint32_t message_max = pair->plan->message_max;
    uint32_t window = (message_max + 2 * SIM_MEMORY_GUARD + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity, sim_memory_room(message_max, plan->send_sges) },
        [SIM_MEMORY_RECVS] = { receives_itself(end) ? plan->recv_capacity : 0,
                               sim_memory_room(message_max, plan->recv_sges) },
        [SIM_MEMORY_WINDOWS] = { end->peer->plan->send_capacity + 8 + SIM_RC_MWS, window },
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
    struct uro_shard *shard = uro_engine_shard(end->host->engine);
    uint64_t base = (uint64_t)end->number * END_SPACE + pair->life * LIFE_SPACE +
                    (uint64_t)uro_rng_below(&end->rng, 256) * PAGE;

    sim_memory_init(&end->memory, sizes, base, &end->rng);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_register(&end->memory, shard, i, end->pd, access[i]);

    sim_rc_window_begin(end);

    struct sim_shared_shared *shared = &end->load->shared[end->side];
    end->shared_key = (struct uro_key){ .pd = end->pd,
                                        .access = access[SIM_MEMORY_WORDS],
                                        .base = END_SPACE / 2,
                                        .length = sizeof *shared->word,
                                        .memory = (uint8_t *)shared->word };
    uro_key_register(shard, &end->shared_key);
}

static void make_qp(struct sim_rc_end *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool receives = receives_itself(end);
    bool sends = end->type != URO_QPT_XRC_TGT;
    uint32_t cq_count = end->load->plan->cq_count;
    struct sim_cq *cqs = end->load->cqs[end->side];

    end->owner.send_cq = cqs[uro_rng_below(&end->rng, cq_count)].cq;
    end->owner.recv_cq = cqs[uro_rng_below(&end->rng, cq_count)].cq;
    if (!end->pair->last_life)
        sim_tight_choose(end->load, &end->owner, &end->rng, end->srq != NULL);
    if (!sends)
        end->owner.send_cq = NULL;
    if (end->type != URO_QPT_RC)
        end->owner.recv_cq = NULL;
    const struct uro_qp_init init = { .type = end->type,
                                      .xrcd =
                                          sends ? 0 : SIM_WORKLOAD_XRC_DOMAIN + end->load->number,
                                      .srq = end->srq != NULL ? end->srq->srq : NULL,
                                      .pd = sends ? end->pd : 0,
                                      .send_cq = end->owner.send_cq,
                                      .recv_cq = end->owner.recv_cq,
                                      .send_capacity = sends ? plan->send_capacity : 0,
                                      .recv_capacity = receives ? plan->recv_capacity : 0,
                                      .send_sge_max = sends ? plan->send_sges : 0,
                                      .recv_sge_max = receives ? plan->recv_sges : 0,
                                      .inline_max = sends ? plan->inline_max : 0,
                                      .signal_all = plan->signal_all,
                                      .user = &end->owner };
    size_t size = uro_qp_size(&init);
    URO_ASSERT(size > 0);
    size = (size + QP_ALIGNMENT - 1) / QP_ALIGNMENT * QP_ALIGNMENT;
    end->qp_memory = aligned_alloc(QP_ALIGNMENT, size);
    URO_ASSERT(end->qp_memory != NULL);
    memset(end->qp_memory, 0xa5, size);
    end->qp = uro_qp_create(uro_engine_shard(end->host->engine), &init, end->qp_memory);
}

static void modify(struct sim_rc_end *end, const struct uro_qp_attr *attr, unsigned mask)
{
    struct sim_workload *load = end->load;
    int result = uro_engine_qp_modify(end->host->engine, end->qp, attr, mask | URO_ATTR_STATE,
                                      load->world->now);
    if (result != 0)
        sim_world_fail(load->world, "qp 0x%06x: modify to state %d returned %d",
                       uro_qp_number(end->qp), (int)attr->state, result);
}

static void to_rtr(struct sim_rc_end *end, uint32_t rq_psn)
{
    bool v6 = end->pair->plan->v6;
    const struct uro_engine_config *peer = &end->peer->host->config.engine;
    struct uro_qp_attr attr = { .state = URO_QPS_INIT, .port = PORT, .access = ACCESS_REMOTE };

    modify(end, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    attr = (struct uro_qp_attr){
        .state = URO_QPS_RTR,
        .path_mtu = end->pair->plan->path_mtu,
        .rq_psn = rq_psn,
        .dest_qpn = uro_qp_number(end->peer->qp),
        .max_dest_rd_atomic = end->peer->plan->rd_atomic,
        .min_rnr_timer = end->plan->min_rnr_timer,
        .address = { .dest = peer->addresses[v6 ? 0 : 1].gid,
                     .sgid_index = v6 ? 0 : 1,
                     .hop_limit = HOP_LIMIT,
                     .flow_label = v6 ? uro_rng_below(&end->rng, 1u << 20) : 0 },
    };
    modify(end, &attr,
           URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
               (end->type == URO_QPT_XRC_INI ? 0 : URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR));
}

static void to_rts(struct sim_rc_end *end, uint32_t sq_psn)
{
    const struct sim_plan_end *plan = end->plan;
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS,
                                      .timeout = plan->timeout,
                                      .retry_count = plan->retry_count,
                                      .rnr_retry = end->pair->last_life ? 7 : plan->rnr_retry,
                                      .sq_psn = sq_psn,
                                      .max_rd_atomic = plan->rd_atomic };

    modify(end, &attr,
           URO_ATTR_TIMEOUT | URO_ATTR_SQ_PSN |
               (end->type == URO_QPT_XRC_TGT
                    ? 0
                    : URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC));
}

static uint64_t *word_of(const struct sim_rc_end *end)
{
    return (uint64_t *)(void *)sim_memory_slot(&end->memory, SIM_MEMORY_WORDS, 0);
}

static void clear(struct sim_rc_end *end)
{
    uro_time now = end->load->world->now;

    end->cause_known = end->lost_answer = false;
    end->ended = end->send_failed = end->recv_failed = end->blocked = false;
    memset(end->recv_failed_of, 0, sizeof end->recv_failed_of);
    end->sends_left = end->type == URO_QPT_XRC_TGT ? 0 : end->plan->sends;
    end->posted = end->remote = end->confirmed = end->signalled = 0;
    end->messages_sent = end->messages_base = end->messages_taken = 0;
    end->last_wqe = end->owner.fatal = false;
    memset(end->shared_next, 0, sizeof end->shared_next);
    end->recv_posted = end->recv_done = 0;
    end->late_posts = 0;
    end->msn_sent = 0;
    memset(end->revoked, 0, sizeof end->revoked);
    end->word_maybes = 0;
    memset(end->windows, 0, sizeof end->windows);
    end->post_at = now + uro_rng_below(&end->rng, end->plan->post_wait_max + 1);
    end->receive_at = now + uro_rng_below(&end->rng, end->plan->recv_wait_max + 1);
}

void sim_rc_life_begin(struct sim_rc *pair)
{
    uint32_t psn[2];

    for (unsigned i = 0; i < 2; i++) {
        struct sim_rc_end *end = &pair->ends[i];
        clear(end);
        make_memory(end);
        if (end->qp == NULL)
            make_qp(end);
        psn[i] =
            pair->life == 0 ? end->plan->first_psn : uro_rng_below(&end->rng, URO_PSN_MASK + 1);
    }
    for (unsigned i = 0; i < 2; i++) {
        struct sim_rc_end *end = &pair->ends[i];
        end->word = uro_rng_u64(&end->rng);
        *word_of(end->peer) = end->word;
        to_rtr(end, psn[!i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        to_rts(&pair->ends[i], psn[i]);
        pair->ends[i].alive = true;
        if (pair->ends[i].type != URO_QPT_XRC_TGT)
            sim_drain_begin(&pair->ends[i].pause, pair->ends[i].qp);
        pair->ends[i].qpn = uro_qp_number(pair->ends[i].qp);
        pair->ends[i].psn = pair->ends[i].wire_psn = psn[i];
    }
    pair->load->lives++;
    sim_journal_note(pair->load->world->journal, pair->load->world->now,
                     "pair %u life %u: %c qp 0x%06x psn %u, %c qp 0x%06x psn %u, mtu %u%s",
                     pair->number, pair->life, pair->ends[0].host->config.name, pair->ends[0].qpn,
                     psn[0], pair->ends[1].host->config.name, pair->ends[1].qpn, psn[1],
                     pair->plan->path_mtu, pair->last_life ? ", the last" : "");
}

void sim_rc_life_to_error(struct sim_rc_end *end)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_ERR };

    sim_journal_note(end->load->world->journal, end->load->world->now, "qp 0x%06x to ERR",
                     uro_qp_number(end->qp));
    end->ended = true;
    modify(end, &attr, 0);
    sim_host_events(end->host);
}

/* What it took from shared queues. Those of XRC complete where other queue pairs' do: they are not
 * forgotten with it, and polled before. */
static void let_receives_go(struct sim_rc_end *end)
{
    struct sim_workload *load = end->load;

    if (end->srq != NULL) {
        sim_srq_on_stop(end->srq, end->owner.recv_cq, end->qpn);
    }
    for (uint32_t i = 0; end->type == URO_QPT_XRC_TGT && i < load->plan->srq_count[end->side]; i++)
        if (sim_srq_of(end, i)->plan->xrc)
            sim_srq_of(end, i)->lost_max++;
}

void sim_rc_life_stop(struct sim_rc_end *end)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RESET };
    bool reuse = end->pair->reuse;

    sim_journal_note(end->load->world->journal, end->load->world->now, "qp 0x%06x %s",
                     uro_qp_number(end->qp), reuse ? "to RESET" : "destroyed");
    end->ended = true;
    for (uint32_t i = 0; end->type == URO_QPT_XRC_TGT && i < end->load->plan->cq_count; i++)
        sim_cq_now(&end->load->cqs[end->side][i]);
    if (end->type == URO_QPT_XRC_TGT && end->load->plan->cq_tight_all)
        sim_cq_now(&end->load->tight[end->side]);
    end->alive = false;
    for (uint64_t i = end->confirmed; i < end->posted; i++)
        sim_rc_judge_uncertain(end, &end->ops[i % SIM_WORKLOAD_OPS_MAX]);
    end->confirmed = end->posted;
    let_receives_go(end);
    sim_drain_end(&end->pause);
    if (reuse) {
        modify(end, &attr, 0);
    } else {
        uro_engine_qp_destroy(end->host->engine, end->qp);
        free(end->qp_memory);
        end->qp = NULL;
        end->qp_memory = NULL;
        end->owner.send_cq = end->owner.recv_cq = NULL;
    }
    sim_host_events(end->host);
}

/* The word the peer worked on: the value after all that was done, or one on the way to it. */
static void check_word(const struct sim_rc_end *end)
{
    uint64_t value = *word_of(end->peer);
    bool known = value == end->word;

    for (uint32_t i = 0; i < end->word_maybes; i++)
        known |= value == end->word_maybe[i];
    if (!known)
        sim_world_fail(end->load->world,
                       "pair %u: atomics left 0x%016" PRIx64 ", should be 0x%016" PRIx64,
                       end->pair->number, value, end->word);
}

static void bury(struct sim_rc_end *end)
{
    struct sim_workload *load = end->load;
    struct uro_shard *shard = uro_engine_shard(end->host->engine);
    size_t at;

    sim_rc_window_end(end);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(&end->memory, shard, i);
    uro_key_deregister(shard, &end->shared_key);
    if (!sim_memory_check_guards(&end->memory, &at))
        sim_world_fail(load->world, "pair %u: octet %zu outside every registered range changed",
                       end->pair->number, at);

    sim_workload_bury_arena(load, &end->memory);
}

void sim_rc_life_bury(struct sim_rc *pair)
{
    for (unsigned i = 0; i < 2; i++)
        check_word(&pair->ends[i]);
    for (unsigned i = 0; i < 2; i++)
        bury(&pair->ends[i]);
}
