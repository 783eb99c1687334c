/* SPDX-License-Identifier: BSD-3-Clause */
/* rc.c - the lives of reliable connections: memory, queue pairs, and how they connect; see rc.h. */
#include "sim/work/rc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/net/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/workload.h"

#define WORDS_SIZE   64u
#define REVOKED_MAX  URO_US(1000)
#define NO_OPERATION 12u /* a value that is not an opcode */

static bool receives_itself(const struct sim_endpoint *end)
{
    return end->type == UROCE_RC && end->srq == NULL;
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
    const uint32_t local = UROCE_ACCESS_LOCAL_WRITE;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity,
                               sim_memory_slot_size(message_max, plan->send_sges), local },
        [SIM_MEMORY_RECVS] = { receives_itself(end) ? plan->recv_capacity : 0,
                               sim_memory_slot_size(message_max, plan->recv_sges), local },
        [SIM_MEMORY_WINDOWS] = { peer->send_capacity + 8 + SIM_RC_MWS, window,
                                 local | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |
                                     UROCE_ACCESS_MW_BIND | UROCE_ACCESS_FLUSH_GLOBAL |
                                     UROCE_ACCESS_FLUSH_PERSISTENT },
        [SIM_MEMORY_WORDS] = { 1, WORDS_SIZE,
                               local | UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_REMOTE_WRITE },
        [SIM_MEMORY_PRIVATE] = { 1, window, local },
    };

    sim_endpoint_make_memory(end, 0, sizes);
    sim_rc_window_begin(end);

    struct sim_shared_word *shared = &end->workload->shared[end->side];
    int result = uroce_mr_create_at(end->pd, shared->word, sizeof *shared->word, SIM_RC_SHARED,
                                    sizes[SIM_MEMORY_WORDS].access, &end->rc->shared_word);
    URO_ASSERT(result == 0);
    end->rc->shared_key = uroce_mr_key(end->rc->shared_word);
}

static void begin(struct sim_endpoint *end)
{
    struct sim_rc_state *rc = end->rc;

    end->sends_left = end->type == UROCE_XRC_TGT ? 0 : end->plan->sends;
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

static void fill(struct sim_endpoint *end, const struct sim_request *request,
                 struct uroce_send *send)
{
    send->compare_add = request->compare_add;
    send->swap = request->swap;
    if (request->opcode == UROCE_FLUSH) {
        send->flush_length = request->length;
        send->flush_placement = request->flush.placement;
        send->flush_selectivity = request->flush.selectivity;
    }
    if (sim_model_is(request->opcode, SIM_LOCAL) || request->opcode == UROCE_SEND_WITH_INV)
        sim_rc_window_fill(end, request, send);
    if (end->type == UROCE_XRC_INI)
        send->remote_srqn = request->srqn;
}

/* ---- a life ends ---- */

/* Stops an XRC target. Its receives complete in a CQ of other queue pairs, and stay there when the
 * target is destroyed. So the completions are polled first. */
static void stop_target(struct sim_endpoint *end)
{
    struct sim_workload *workload = end->workload;

    for (uint32_t i = 0; i < workload->plan->cq_count; i++)
        sim_cq_poll(&workload->cqs[end->side][i]);
    if (workload->plan->cq_tight_all)
        sim_cq_poll(&workload->tight[end->side]);
    for (uint32_t i = 0; i < workload->plan->srq_count[end->side]; i++)
        if (workload->srqs[end->side][i].plan->xrc)
            workload->srqs[end->side][i].lost_max++;
}

static void stop(struct sim_endpoint *end)
{
    if (end->type == UROCE_XRC_TGT)
        stop_target(end);
    for (; end->confirmed < end->posted; end->confirmed++)
        sim_rc_uncertain(end, sim_request_of(end, end->confirmed));
}

/* Checks the value that atomics left in the peer's word. If some atomics may have been lost, each
 * value that is possible without them is accepted, too. */
static void check_word(struct sim_endpoint *end)
{
    const struct sim_rc_state *rc = end->rc;

    if (end->peer == NULL || end->peer->memory.memory == NULL)
        return; /* the other side of a connection of cm.h has ended */
    uint64_t value = *word_of(end->peer);
    bool known = value == rc->word;

    for (uint32_t i = 0; i < rc->word_maybes; i++)
        known |= value == rc->word_maybe[i];
    if (!known)
        sim_world_fail(end->workload->world,
                       "pair %u: atomics left 0x%016" PRIx64 ", should be 0x%016" PRIx64,
                       end->life->number, value, rc->word);
}

static void release(struct sim_endpoint *end)
{
    sim_rc_window_release(end);
    if (end->rc->shared_word != NULL)
        (void)!uroce_mr_destroy(end->rc->shared_word);
    end->rc->shared_word = NULL;
}

static void bury(struct sim_endpoint *end)
{
    sim_rc_window_end(end);
    sim_endpoint_bury(end);
    release(end);
}

/* Deregisters memory that is in use, or registers it again with another key. */
static void revoke(struct sim_life *life)
{
    static const enum sim_memory_section sections[] = { SIM_MEMORY_SENDS, SIM_MEMORY_RECVS,
                                                        SIM_MEMORY_WINDOWS, SIM_MEMORY_WORDS };
    struct sim_endpoint *end = &life->ends[uro_rng_below(life->rng, 2)];
    enum sim_memory_section section = sections[uro_rng_below(life->rng, URO_ARRAY_LEN(sections))];

    life->revoked = true;
    life->control.due = life->workload->world->now + uro_rng_below(life->rng, REVOKED_MAX);
    if (section == SIM_MEMORY_WINDOWS && sim_rc_window_bound(end))
        return;
    life->may_fail = true;
    end->rc->revoked[section] = true;
    end->rc->renewed = UINT64_MAX;
    if (uro_rng_below(life->rng, 2) == 0) {
        sim_memory_deregister(&end->memory, section);
    } else {
        sim_memory_register_again(&end->memory, section);
        end->rc->renewed = section == SIM_MEMORY_SENDS ? end->posted : end->peer->posted;
    }
    sim_world_note(life->workload->world, "pair %u: section %d of %c is %s", life->number,
                   (int)section, end->host->config.name,
                   end->rc->renewed == UINT64_MAX ? "deregistered" : "registered again");
}

/* The queue pair must be in the protection domain of its receives. */
static void init(struct sim_endpoint *end, unsigned index)
{
    const struct sim_life *life = end->life;
    const struct sim_workload *workload = end->workload;

    end->number = 1 + (life->number - workload->number * SIM_RC_FAMILY) * 2 + index;
    end->rc = calloc(1, sizeof *end->rc);
    URO_ASSERT(end->rc != NULL);
    end->type = UROCE_RC;
    end->pd = sim_host_pd(end->host, workload->pds + end->number);
    if (life->plan->xrc)
        end->type = index == life->plan->xrc_target ? UROCE_XRC_TGT : UROCE_XRC_INI;
    for (uint32_t j = 0; end->type == UROCE_XRC_TGT && j < workload->plan->srq_count[end->side];
         j++)
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
    .release = release,
    .revoke = revoke,
    .choose = sim_rc_choose,
    .fill = fill,
    .spoil = sim_rc_window_spoil_posted,
    .confirm = sim_rc_confirm,
    .expected = sim_rc_expected,
    .on_error = sim_rc_on_error,
    .on_progress = sim_life_on_progress,
    .take = sim_rc_take,
    .wire = sim_rc_wire,
    .recv_expected = sim_rc_recv_expected,
};
