/* SPDX-License-Identifier: BSD-3-Clause */
/* rc.c - the lives of reliable connections: memory, queue pairs, and how they connect; see rc.h. */
#include "sim/work/rc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/net/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/workload.h"

#define END_SPACE    UINT64_C(0x1000000000)
#define WORDS_ROOM   64u
#define REVOKED_MAX  URO_US(1000)
#define NO_OPERATION 12u /* a value of no work request */

static bool receives_itself(const struct sim_endpoint *end)
{
    return end->type == URO_QPT_RC && end->srq == NULL;
}

static uint64_t *word_of(const struct sim_endpoint *end)
{
    return (uint64_t *)(void *)sim_memory_slot(&end->memory, SIM_MEMORY_WORDS, 0);
}

/* ---- a life begins ---- */

static void make_memory(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    const struct sim_life *life = end->life;
    const struct sim_plan_end *peer = &life->plan->ends[plan == life->plan->ends];
    uint32_t message_max = life->plan->message_max;
    uint32_t window = (message_max + 2 * SIM_MEMORY_GUARD + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity, sim_memory_room(message_max, plan->send_sges) },
        [SIM_MEMORY_RECVS] = { receives_itself(end) ? plan->recv_capacity : 0,
                               sim_memory_room(message_max, plan->recv_sges) },
        [SIM_MEMORY_WINDOWS] = { peer->send_capacity + 8 + SIM_RC_MWS, window },
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
    struct uro_shard *shard = sim_endpoint_shard(end);

    sim_endpoint_make_memory(end, 0, sizes, access);
    sim_rc_window_begin(end);

    struct sim_shared_word *shared = &end->load->shared[end->side];
    end->rc->shared_key = (struct uro_key){ .pd = end->pd,
                                            .access = access[SIM_MEMORY_WORDS],
                                            .base = END_SPACE / 2,
                                            .length = sizeof *shared->word,
                                            .memory = (uint8_t *)shared->word };
    uro_key_register(shard, &end->rc->shared_key);
}

static void begin(struct sim_endpoint *end)
{
    struct sim_rc_state *rc = end->rc;

    end->sends_left = end->type == URO_QPT_XRC_TGT ? 0 : end->plan->sends;
    rc->remote = 0;
    rc->msn_sent = 0;
    rc->read_parts = 0;
    rc->word_maybes = 0;
    memset(rc->revoked, 0, sizeof rc->revoked);
    memset(rc->windows, 0, sizeof rc->windows);
}

static void make(struct sim_endpoint *end)
{
    make_memory(end);
    sim_endpoint_create(end);
    end->wire_psn =
        end->life->life == 0 ? end->plan->first_psn : uro_rng_below(&end->rng, SIM_PSN_MASK + 1);
    end->rc->psn = end->wire_psn;
}

static void connect(struct sim_endpoint *end)
{
    end->rc->word = uro_rng_u64(&end->rng);
    if (end->peer->memory.memory != NULL)
        *word_of(end->peer) = end->rc->word;
}

void sim_rc_meet(struct sim_endpoint *a, struct sim_endpoint *b)
{
    a->peer = b;
    b->peer = a;
    connect(a);
    connect(b);
}

static void fill(struct sim_endpoint *end, const struct sim_request *request, struct uro_wqe *wqe)
{
    wqe->compare_add = request->compare_add;
    wqe->swap = request->swap;
    if (request->opcode == URO_WR_FLUSH)
        wqe->flush = request->flush;
    if (sim_model_is_local(request->opcode) || request->opcode == URO_WR_SEND_WITH_INV)
        sim_rc_window_fill(end, request, wqe);
    if (end->type == URO_QPT_XRC_INI)
        wqe->xrc_srqn = request->srqn;
}

/* ---- a life ends ---- */

/* Stops an XRC target. Its receives complete in a CQ of other queue pairs, and stay there when the
 * target is destroyed. So they are polled before. */
static void stop_target(struct sim_endpoint *end)
{
    struct sim_workload *load = end->load;

    for (uint32_t i = 0; i < load->plan->cq_count; i++)
        sim_cq_poll(&load->cqs[end->side][i]);
    if (load->plan->cq_tight_all)
        sim_cq_poll(&load->tight[end->side]);
    for (uint32_t i = 0; i < load->plan->srq_count[end->side]; i++)
        if (load->srqs[end->side][i].plan->xrc)
            load->srqs[end->side][i].lost_max++;
}

static void stop(struct sim_endpoint *end)
{
    if (end->type == URO_QPT_XRC_TGT)
        stop_target(end);
    for (; end->confirmed < end->posted; end->confirmed++)
        sim_rc_uncertain(end, sim_request_of(end, end->confirmed));
}

/* Checks that the peer's word has the value after all atomics, or after some of them. */
static void check_word(struct sim_endpoint *end)
{
    const struct sim_rc_state *rc = end->rc;

    if (end->peer == NULL || end->peer->memory.memory == NULL)
        return; /* a connection of cm.h whose other side is gone */
    uint64_t value = *word_of(end->peer);
    bool known = value == rc->word;

    for (uint32_t i = 0; i < rc->word_maybes; i++)
        known |= value == rc->word_maybe[i];
    if (!known)
        sim_world_fail(end->load->world,
                       "pair %u: atomics left 0x%016" PRIx64 ", should be 0x%016" PRIx64,
                       end->life->number, value, rc->word);
}

static void bury(struct sim_endpoint *end)
{
    sim_rc_window_end(end);
    sim_endpoint_bury(end);
    uro_key_deregister(sim_endpoint_shard(end), &end->rc->shared_key);
}

/* Deregisters memory that is in use, or registers it again with another key. */
static void revoke(struct sim_life *life)
{
    static const enum sim_memory_section sections[] = { SIM_MEMORY_SENDS, SIM_MEMORY_RECVS,
                                                        SIM_MEMORY_WINDOWS, SIM_MEMORY_WORDS };
    struct sim_endpoint *end = &life->ends[uro_rng_below(life->rng, 2)];
    enum sim_memory_section section = sections[uro_rng_below(life->rng, URO_ARRAY_LEN(sections))];
    struct uro_shard *shard = sim_endpoint_shard(end);

    life->revoked = true;
    life->due = life->load->world->now + uro_rng_below(life->rng, REVOKED_MAX);
    if (section == SIM_MEMORY_WINDOWS && sim_rc_window_bound(end))
        return;
    life->may_fail = true;
    end->rc->revoked[section] = true;
    end->rc->renewed = UINT64_MAX;
    if (uro_rng_below(life->rng, 2) == 0) {
        sim_memory_deregister(&end->memory, shard, section);
    } else {
        sim_memory_register_again(&end->memory, shard, section);
        end->rc->renewed = section == SIM_MEMORY_SENDS ? end->posted : end->peer->posted;
    }
    sim_journal_note(life->load->world->journal, life->load->world->now,
                     "pair %u: section %d of %c is %s", life->number, (int)section,
                     end->host->config.name,
                     end->rc->renewed == UINT64_MAX ? "deregistered" : "registered again");
}

/* A queue pair is of the protection domain of its receives. */
static void init(struct sim_endpoint *end, unsigned index)
{
    const struct sim_life *life = end->life;
    const struct sim_workload *load = end->load;

    end->number = 1 + (life->number - load->number * SIM_RC_FAMILY) * 2 + index;
    end->rc = calloc(1, sizeof *end->rc);
    URO_ASSERT(end->rc != NULL);
    end->type = URO_QPT_RC;
    end->pd = load->pds + end->number;
    if (life->plan->xrc)
        end->type = index == life->plan->xrc_target ? URO_QPT_XRC_TGT : URO_QPT_XRC_INI;
    for (uint32_t j = 0; end->type == URO_QPT_XRC_TGT && j < load->plan->srq_count[end->side]; j++)
        if (sim_srq_at(end, j)->plan->xrc)
            end->pd = sim_srq_at(end, j)->pd;
}

const struct sim_endpoint_ops sim_rc_ops = {
    .family = "pair",
    .reliable = true,
    .unsupported = NO_OPERATION,
    .init = init,
    .begin = begin,
    .make = make,
    .connect = connect,
    .worked = sim_endpoint_worked,
    .stop = stop,
    .check_memory = check_word,
    .bury = bury,
    .revoke = revoke,
    .choose = sim_rc_choose,
    .fill = fill,
    .confirm = sim_rc_confirm,
    .expected = sim_rc_expected,
    .on_error = sim_rc_on_error,
    .on_progress = sim_life_on_progress,
    .take = sim_rc_take,
    .wire = sim_rc_wire,
    .recv_expected = sim_rc_recv_expected,
};
