/* SPDX-License-Identifier: BSD-3-Clause */
/* ud.c - lives of the parties that write datagrams; see ud.h. */
#include "sim/work/ud.h"

#include <stdlib.h>
#include <string.h>

#include "core/limits.h"
#include "core/psn.h"
#include "sim/work/tight.h"

#define ADDRESS_SPACE  UINT64_C(0x600000000000)
#define ADDRESS_STEP   UINT64_C(0x1000000000)
#define LIFE_STEP      UINT64_C(0x10000000)
#define PD_FIRST       3000u
#define HOP_LIMIT      64u
#define PORT           1u
#define QP_ALIGNMENT   64u
#define NS_PER_US      1000u
#define DRAIN_WAIT     URO_US(20)
#define BIRTH_WAIT_MAX URO_US(500)
#define NEIGHBOUR_WAIT URO_MS(1500) /* as in rc_control.c */
#define LATE_POSTS_MAX 4u

uint32_t sim_ud_pd(const struct sim_ud_party *party)
{
    const struct sim_plan_party *plan = party->plan;

    return plan->shared ? party->ud->load->srqs[plan->side][plan->srq].pd
                        : party->ud->load->pds + PD_FIRST + party->number;
}

struct uro_address sim_ud_address(const struct sim_ud_party *other, bool v6)
{
    return (struct uro_address){ .dest = other->host->config.engine.addresses[v6 ? 0 : 1].gid,
                                 .sgid_index = v6 ? 0 : 1,
                                 .hop_limit = HOP_LIMIT };
}

/* ---- queue pairs ------------------------------------------------------------------------------- */

static void make_memory(struct sim_ud_party *party)
{
    const struct sim_plan_party *plan = party->plan;
    struct uro_shard *shard = uro_engine_shard(party->host->engine);
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity,
                               sim_memory_room(URO_PATH_MTU_MAX + 1, plan->sges) },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity,
                               sim_memory_room(SIM_UD_GRH + URO_PATH_MTU_MAX, plan->sges) },
    };

    sim_memory_init(&party->memory, sizes,
                    ADDRESS_SPACE + party->number * ADDRESS_STEP + party->life * LIFE_STEP,
                    &party->rng);
    sim_memory_register(&party->memory, shard, SIM_MEMORY_SENDS, sim_ud_pd(party), 0);
    sim_memory_register(&party->memory, shard, SIM_MEMORY_RECVS, sim_ud_pd(party),
                        URO_ACCESS_LOCAL_WRITE);
}

static void make_qp(struct sim_ud_party *party)
{
    const struct sim_plan_party *plan = party->plan;

    party->owner.send_cq = party->owner.recv_cq = party->cq.cq;
    if (!party->last_life)
        sim_tight_choose_loose(party->ud->load, &party->owner, &party->rng);
    const struct uro_qp_init init = { .type = URO_QPT_UD,
                                      .pd = sim_ud_pd(party),
                                      .send_cq = party->owner.send_cq,
                                      .recv_cq = party->owner.recv_cq,
                                      .srq = party->srq != NULL ? party->srq->srq : NULL,
                                      .send_capacity = plan->send_capacity,
                                      .recv_capacity = party->srq != NULL ? 0 : plan->recv_capacity,
                                      .send_sge_max = plan->sges,
                                      .recv_sge_max = plan->sges,
                                      .inline_max = plan->inline_max,
                                      .signal_all = plan->signal_all,
                                      .user = &party->owner };
    size_t size = (uro_qp_size(&init) + QP_ALIGNMENT - 1) / QP_ALIGNMENT * QP_ALIGNMENT;

    party->qp_memory = aligned_alloc(QP_ALIGNMENT, size);
    URO_ASSERT(party->qp_memory != NULL);
    memset(party->qp_memory, 0xa5, size);
    party->qp = uro_qp_create(uro_engine_shard(party->host->engine), &init, party->qp_memory);
    party->qpn = uro_qp_number(party->qp);
}

static void modify(struct sim_ud_party *party, const struct uro_qp_attr *attr, unsigned mask)
{
    struct sim_world *world = party->ud->load->world;
    int result = uro_engine_qp_modify(party->host->engine, party->qp, attr, mask | URO_ATTR_STATE,
                                      world->now);

    sim_journal_note(world->journal, world->now, "UD qp 0x%06x to state %d", party->qpn,
                     (int)attr->state);
    if (result != 0)
        sim_world_fail(world, "UD qp 0x%06x: modify to state %d returned %d", party->qpn,
                       (int)attr->state, result);
}

static void start(struct sim_ud_party *party)
{
    struct uro_qp_attr attr = { .state = URO_QPS_INIT, .port = PORT, .qkey = party->qkey };

    modify(party, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_QKEY);
    attr.state = URO_QPS_RTR;
    modify(party, &attr, 0);
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTS, .sq_psn = party->wire_psn };
    modify(party, &attr, URO_ATTR_SQ_PSN);
    party->alive = true;
    sim_drain_begin(&party->pause, party->qp);
}

static void make_handles(struct sim_ud_party *party)
{
    struct sim_workload *load = party->ud->load;

    for (uint32_t i = 0; i < party->ud->count; i++) {
        for (unsigned v6 = 0; v6 < 2; v6++) {
            const struct uro_address address = sim_ud_address(&party->ud->parties[i], v6 != 0);
            int result = uro_engine_ah_create(party->host->engine, &party->handles[i][v6],
                                              sim_ud_pd(party), &address, load->world->now);
            if (result != 0)
                sim_world_fail(load->world, "an address handle could not be made: %d", result);
        }
    }
    sim_ud_group_begin(party);
}

static void drop_handles(struct sim_ud_party *party)
{
    for (uint32_t i = 0; i < party->ud->count; i++)
        for (unsigned v6 = 0; v6 < 2; v6++)
            uro_engine_ah_destroy(party->host->engine, &party->handles[i][v6]);
}

static void destroy(struct sim_ud_party *party)
{
    uro_engine_qp_destroy(party->host->engine, party->qp);
    free(party->qp_memory);
    party->qp = NULL;
    party->qp_memory = NULL;
    party->owner.send_cq = party->owner.recv_cq = NULL;
}

static void clear(struct sim_ud_party *party)
{
    uro_time now = party->ud->load->world->now;

    party->ended = party->recv_failed = party->stopped = false;
    party->flush_until = 0;
    party->late_posts = 0;
    party->sends = sim_world_between(&party->rng, 1, party->plan->sends);
    party->posted = party->confirmed = party->signalled = party->wire_op = 0;
    party->wire_psn = uro_rng_below(&party->rng, URO_PSN_MASK + 1);
    memset(party->ops, 0, sizeof party->ops);
    party->expected = party->taken = 0;
    /* Others take from a shared queue too: nobody can say that all will find a receive. */
    party->srq = party->plan->shared && !party->last_life
                     ? &party->ud->load->srqs[party->plan->side][party->plan->srq]
                     : NULL;
    party->shared_next = 0;
    party->last_wqe = party->owner.fatal = false;
    party->recv_posted = party->recv_done = 0;
    party->post_at = now + uro_rng_below(&party->rng, party->plan->post_wait_max + 1);
    party->receive_at = now + uro_rng_below(&party->rng, party->plan->recv_wait_max + 1);
}

static void begin_life(struct sim_ud_party *party)
{
    struct sim_workload *load = party->ud->load;

    party->last_life = load->calm || load->plan->clean;
    party->state = SIM_LIFE_RUNNING;
    party->due = URO_TIME_NEVER;
    if (!party->last_life)
        party->due = load->world->now +
                     (uro_time)uro_rng_below(&party->rng, party->plan->life_max) * NS_PER_US;
    clear(party);
    make_memory(party);
    /* Letters to the number it had may still come, but not when all must find their receive. */
    if (party->qp != NULL && party->last_life)
        destroy(party);
    if (party->qp == NULL)
        make_qp(party);
    make_handles(party);
    start(party);
    party->life++;
    load->lives++;
}

/* ---- the end of a life ------------------------------------------------------------------------- */

static void bury(struct sim_ud_party *party)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RESET };
    struct sim_workload *load = party->ud->load;
    struct uro_shard *shard = uro_engine_shard(party->host->engine);
    bool reuse = !party->last_life && uro_rng_below(&party->rng, 3) == 0 &&
                 !sim_tight_uses(load, &party->owner);
    size_t at;

    party->ended = true;
    sim_drain_end(&party->pause);
    sim_ud_group_end(party);
    if (party->srq != NULL)
        sim_srq_on_stop(party->srq, party->owner.recv_cq, party->qpn);
    if (reuse)
        modify(party, &attr, 0);
    else
        destroy(party);
    party->alive = false;
    drop_handles(party);
    sim_host_events(party->host);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(&party->memory, shard, i);
    if (!sim_memory_check_guards(&party->memory, &at))
        sim_world_fail(load->world, "UD party %u: octet %zu outside every range changed",
                       party->number, at);
    sim_workload_bury_arena(load, &party->memory);
    party->state = party->last_life ? SIM_LIFE_OVER : SIM_LIFE_WAITING;
    party->due = party->last_life ? URO_TIME_NEVER
                                  : load->world->now + uro_rng_below(&party->rng, BIRTH_WAIT_MAX);
}

/* Everything posted has completed. */
static bool drained(struct sim_ud_party *party)
{
    const struct uro_wq *send = uro_qp_send_queue(party->qp);
    const struct sim_workload *load = party->ud->load;

    if ((party->recv_done != party->recv_posted && !sim_tight_lost(load, party->owner.recv_cq)) ||
        uro_wq_head(send) != uro_wq_tail(send) || !sim_cq_empty(party->owner.send_cq) ||
        !sim_cq_empty(party->owner.recv_cq) || (party->srq != NULL && !party->last_wqe))
        return false;
    if (!sim_tight_lost(load, party->owner.send_cq))
        sim_ud_judge_silent(party);
    return true;
}

static void begin_ending(struct sim_ud_party *party)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_ERR };

    party->abrupt = !party->last_life && uro_rng_below(&party->rng, 2) == 0;
    if (party->abrupt) {
        bury(party);
        return;
    }
    party->late_posts = uro_rng_below(&party->rng, LATE_POSTS_MAX + 1);
    party->ended = true;
    modify(party, &attr, 0);
    sim_host_events(party->host);
    party->state = SIM_LIFE_ENDING;
    party->due = party->ud->load->world->now + DRAIN_WAIT;
}

/* ---- control ----------------------------------------------------------------------------------- */

static struct sim_ud_party *party_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_ud_party, control);
}

static uro_time control_next(const struct sim_node *node)
{
    return party_of(node)->due;
}

static void control_run(struct sim_node *node)
{
    struct sim_ud_party *party = party_of(node);
    const struct sim_workload *load = party->ud->load;

    switch (party->state) {
    case SIM_LIFE_RUNNING:
    case SIM_LIFE_QUIET:
        begin_ending(party);
        break;
    case SIM_LIFE_ENDING:
        if (drained(party))
            bury(party);
        else
            party->due = load->world->now + DRAIN_WAIT;
        break;
    case SIM_LIFE_WAITING:
        if (load->calm && load->world->now < load->calm_since + NEIGHBOUR_WAIT)
            party->due = load->calm_since + NEIGHBOUR_WAIT;
        else
            begin_life(party);
        break;
    case SIM_LIFE_OVER:
        party->due = URO_TIME_NEVER;
        break;
    }
}

void sim_ud_calm(struct sim_ud *ud)
{
    for (uint32_t i = 0; i < ud->count; i++)
        if (ud->parties[i].state == SIM_LIFE_RUNNING && !ud->parties[i].last_life)
            ud->parties[i].due = ud->load->world->now;
}

bool sim_ud_quiet(const struct sim_ud *ud)
{
    for (uint32_t i = 0; i < ud->count; i++) {
        const struct sim_ud_party *party = &ud->parties[i];
        const struct uro_wq *send = party->alive ? uro_qp_send_queue(party->qp) : NULL;
        if (!party->last_life || send == NULL || party->posted < party->sends ||
            party->signalled > party->confirmed || party->taken < party->expected ||
            uro_wq_head(send) != uro_wq_tail(send))
            return false;
    }
    return true;
}

void sim_ud_finish(struct sim_ud *ud)
{
    for (uint32_t i = 0; i < ud->count; i++)
        ud->parties[i].due = ud->load->world->now;
}

bool sim_ud_over(const struct sim_ud *ud)
{
    for (uint32_t i = 0; i < ud->count; i++)
        if (ud->parties[i].state != SIM_LIFE_OVER)
            return false;
    return true;
}

static void on_event(struct sim_qp_owner *owner, enum uro_event_kind kind)
{
    struct sim_ud_party *party = URO_CONTAINER_OF(owner, struct sim_ud_party, owner);

    if (party->alive && kind == URO_EVENT_QP_FATAL)
        sim_tight_on_fatal(party->ud->load, owner, party->qp);
    else if (party->alive && kind == URO_EVENT_SQ_DRAINED)
        sim_drain_on_drained(&party->pause);
    else if (party->alive && kind == URO_EVENT_LAST_WQE && party->srq != NULL && !party->last_wqe)
        party->last_wqe = true;
    else
        sim_world_fail(party->ud->load->world, "UD qp 0x%06x: event %d", party->qpn, (int)kind);
}

static const char *problem(const struct sim_qp_owner *owner)
{
    const struct sim_ud_party *party = URO_CONTAINER_OF(owner, struct sim_ud_party, owner);

    return party->alive ? uro_qp_problem(party->qp) : NULL;
}

static void take(struct sim_cq *cq, const struct uro_cqe *cqe)
{
    sim_ud_judge(cq->owner, cq->cq, cqe);
}

static void init_party(struct sim_ud *ud, uint32_t number)
{
    struct sim_ud_party *party = &ud->parties[number];
    struct sim_workload *load = ud->load;

    party->ud = ud;
    party->plan = &load->plan->parties[number];
    party->number = number;
    party->host = load->hosts[party->plan->side];
    party->state = SIM_LIFE_WAITING;
    party->due = load->world->now;
    party->control = (struct sim_node){ NULL, control_next, control_run };
    uro_rng_init_number(&party->rng, party->plan->seed);
    party->qkey = uro_rng_u32(&party->rng) & 0x7fffffff;
    if (load->plan->groups) /* or a group could not be written to */
        party->qkey = (uint32_t)load->plan->seed & 0x7fffffff;
    sim_workload_own(load, &party->owner, party->host, on_event, problem);
    uint32_t receives = party->plan->recv_capacity;
    if (party->plan->shared)
        receives += load->srqs[party->plan->side][party->plan->srq].slot_count;
    sim_cq_init(&party->cq, load, party->host, party->plan->send_capacity + receives);
    party->cq.take = take;
    party->cq.owner = party;
    sim_ud_post_init(party);
    sim_drain_init(&party->pause, load, party->host);
    sim_world_add(load->world, &party->control);
}

struct sim_ud *sim_ud_make(struct sim_workload *load)
{
    struct sim_ud *ud = calloc(1, sizeof *ud);

    URO_ASSERT(ud != NULL);
    ud->load = load;
    ud->count = load->plan->party_count;
    for (uint32_t i = 0; i < ud->count; i++)
        init_party(ud, i);
    return ud;
}

void sim_ud_free(struct sim_ud *ud)
{
    for (uint32_t i = 0; i < ud->count; i++) {
        free(ud->parties[i].qp_memory);
        sim_memory_fini(&ud->parties[i].memory);
        sim_cq_fini(&ud->parties[i].cq);
    }
    free(ud->letters);
    free(ud);
}
