/* SPDX-License-Identifier: BSD-3-Clause */
/* uc.c - lives of unreliable connections; see uc.h. */
#include "sim/work/uc.h"

#include <stdlib.h>
#include <string.h>

#include "core/psn.h"
#include "sim/work/tight.h"

#define ADDRESS_SPACE  UINT64_C(0x400000000000) /* beyond every RC pair's */
#define ADDRESS_STEP   UINT64_C(0x1000000000)
#define LIFE_STEP      UINT64_C(0x10000000)
#define PD_FIRST       2000u
#define HOP_LIMIT      64u
#define PORT           1u
#define QP_ALIGNMENT   64u
#define NS_PER_US      1000u
#define END_WAIT_MAX   URO_US(200)
#define DRAIN_WAIT     URO_US(20)
#define BIRTH_WAIT_MAX URO_US(500)
#define NEIGHBOUR_WAIT URO_MS(1500) /* as in rc_control.c */
#define LATE_POSTS_MAX 4u

static uint32_t pd_of(const struct sim_uc_end *end)
{
    const struct sim_plan_uc *plan = end->uc->plan;

    return plan->shared ? end->uc->load->srqs[end->side][plan->srq].pd
                        : end->uc->load->pds + PD_FIRST + end->number;
}

/* ---- queue pairs ------------------------------------------------------------------------------- */

static void make_memory(struct sim_uc_end *end)
{
    const struct sim_plan_uc *plan = end->uc->plan;
    uint32_t message = sim_memory_room(plan->message_max, plan->sges);
    uint32_t window = (plan->message_max + 2 * SIM_MEMORY_GUARD + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity, message },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity, message },
        [SIM_MEMORY_WINDOWS] = { SIM_UC_OPS_MAX, window },
    };
    struct uro_shard *shard = uro_engine_shard(end->host->engine);

    sim_memory_init(&end->memory, sizes,
                    ADDRESS_SPACE + end->number * ADDRESS_STEP + end->uc->life * LIFE_STEP,
                    &end->rng);
    sim_memory_register(&end->memory, shard, SIM_MEMORY_SENDS, pd_of(end), 0);
    sim_memory_register(&end->memory, shard, SIM_MEMORY_RECVS, pd_of(end), URO_ACCESS_LOCAL_WRITE);
    sim_memory_register(&end->memory, shard, SIM_MEMORY_WINDOWS, pd_of(end),
                        URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE);
}

static void make_qp(struct sim_uc_end *end)
{
    const struct sim_plan_uc *plan = end->uc->plan;

    end->owner.send_cq = end->owner.recv_cq = end->cq.cq;
    if (!end->uc->last_life)
        sim_tight_choose_loose(end->uc->load, &end->owner, &end->rng);
    const struct uro_qp_init init = { .type = URO_QPT_UC,
                                      .pd = pd_of(end),
                                      .send_cq = end->owner.send_cq,
                                      .recv_cq = end->owner.recv_cq,
                                      .srq = end->srq != NULL ? end->srq->srq : NULL,
                                      .send_capacity = plan->send_capacity,
                                      .recv_capacity = end->srq != NULL ? 0 : plan->recv_capacity,
                                      .send_sge_max = plan->sges,
                                      .recv_sge_max = plan->sges,
                                      .inline_max = plan->inline_max,
                                      .signal_all = plan->signal_all,
                                      .user = &end->owner };
    size_t size = (uro_qp_size(&init) + QP_ALIGNMENT - 1) / QP_ALIGNMENT * QP_ALIGNMENT;

    end->qp_memory = aligned_alloc(QP_ALIGNMENT, size);
    URO_ASSERT(end->qp_memory != NULL);
    memset(end->qp_memory, 0xa5, size);
    end->qp = uro_qp_create(uro_engine_shard(end->host->engine), &init, end->qp_memory);
    end->qpn = uro_qp_number(end->qp);
}

static void modify(struct sim_uc_end *end, const struct uro_qp_attr *attr, unsigned mask)
{
    struct sim_world *world = end->uc->load->world;
    int result =
        uro_engine_qp_modify(end->host->engine, end->qp, attr, mask | URO_ATTR_STATE, world->now);

    sim_journal_note(world->journal, world->now, "UC qp 0x%06x to state %d", end->qpn,
                     (int)attr->state);
    if (result != 0)
        sim_world_fail(world, "UC qp 0x%06x: modify to state %d returned %d", end->qpn,
                       (int)attr->state, result);
}

static void connect(struct sim_uc_end *end)
{
    bool v6 = end->uc->plan->v6;
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = PORT,
                                .access = URO_ACCESS_REMOTE_WRITE };

    modify(end, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    attr = (struct uro_qp_attr){
        .state = URO_QPS_RTR,
        .path_mtu = end->uc->plan->path_mtu,
        .rq_psn = end->peer->wire_psn,
        .dest_qpn = end->peer->qpn,
        .address = { .dest = end->peer->host->config.engine.addresses[v6 ? 0 : 1].gid,
                     .sgid_index = v6 ? 0 : 1,
                     .hop_limit = HOP_LIMIT },
    };
    modify(end, &attr, URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN);
}

static void start(struct sim_uc_end *end)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS, .sq_psn = end->wire_psn };

    modify(end, &attr, URO_ATTR_SQ_PSN);
    end->alive = true;
    sim_drain_begin(&end->pause, end->qp);
}

static void clear(struct sim_uc_end *end)
{
    uro_time now = end->uc->load->world->now;

    end->ended = end->recv_failed = end->stopped = false;
    end->flush_until = 0;
    end->late_posts = 0;
    end->sends = sim_world_between(&end->rng, 1, end->uc->plan->sends);
    end->posted = end->confirmed = end->signalled = end->takes = end->wire_op = 0;
    end->wire_psn = uro_rng_below(&end->rng, 2) == 0 ? URO_PSN_MASK - uro_rng_below(&end->rng, 20)
                                                     : uro_rng_below(&end->rng, URO_PSN_MASK + 1);
    memset(end->ops, 0, sizeof end->ops);
    end->taken = end->taken_last = 0;
    /* Others take from a shared queue too: nobody can say that all will find a receive. */
    end->srq = end->uc->plan->shared && !end->uc->last_life
                   ? &end->uc->load->srqs[end->side][end->uc->plan->srq]
                   : NULL;
    end->shared_next = 0;
    end->last_wqe = end->owner.fatal = false;
    end->recv_posted = end->recv_done = 0;
    end->post_at = now + uro_rng_below(&end->rng, end->uc->plan->post_wait_max + 1);
    end->receive_at = now + uro_rng_below(&end->rng, end->uc->plan->recv_wait_max + 1);
}

static void begin_life(struct sim_uc *uc)
{
    struct sim_workload *load = uc->load;

    uc->last_life = load->calm || load->plan->clean;
    uc->state = SIM_LIFE_RUNNING;
    uc->due = URO_TIME_NEVER;
    if (!uc->last_life)
        uc->due =
            load->world->now + (uro_time)uro_rng_below(&uc->rng, uc->plan->life_max) * NS_PER_US;
    for (unsigned i = 0; i < 2; i++) {
        clear(&uc->ends[i]);
        make_memory(&uc->ends[i]);
        if (uc->ends[i].qp == NULL)
            make_qp(&uc->ends[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        connect(&uc->ends[i]);
    for (unsigned i = 0; i < 2; i++)
        start(&uc->ends[i]);
    uc->life++;
    load->lives++;
}

/* ---- the end of a life ------------------------------------------------------------------------- */

static void stop(struct sim_uc_end *end)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RESET };

    end->ended = true;
    sim_drain_end(&end->pause);
    if (end->srq != NULL)
        sim_srq_on_stop(end->srq, end->owner.recv_cq, end->qpn);
    if (end->uc->reuse) {
        modify(end, &attr, 0);
    } else {
        uro_engine_qp_destroy(end->host->engine, end->qp);
        free(end->qp_memory);
        end->qp = NULL;
        end->qp_memory = NULL;
        end->owner.send_cq = end->owner.recv_cq = NULL;
    }
    end->alive = false;
    sim_host_events(end->host);
}

static void to_error(struct sim_uc_end *end)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_ERR };

    end->ended = true;
    modify(end, &attr, 0);
    sim_host_events(end->host);
}

/* Everything posted has completed. */
static bool drained(struct sim_uc_end *end)
{
    const struct uro_wq *send = uro_qp_send_queue(end->qp);
    const struct sim_workload *load = end->uc->load;

    if ((end->recv_done != end->recv_posted && !sim_tight_lost(load, end->owner.recv_cq)) ||
        uro_wq_head(send) != uro_wq_tail(send) || !sim_cq_empty(end->owner.send_cq) ||
        !sim_cq_empty(end->owner.recv_cq) || (end->srq != NULL && !end->last_wqe))
        return false;
    if (!sim_tight_lost(load, end->owner.send_cq))
        sim_uc_judge_silent(end);
    return true;
}

static void bury_one(struct sim_uc_end *end)
{
    struct uro_shard *shard = uro_engine_shard(end->host->engine);
    size_t at;

    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(&end->memory, shard, i);
    if (!sim_memory_check_guards(&end->memory, &at))
        sim_world_fail(end->uc->load->world, "UC %u: octet %zu outside every range changed",
                       end->uc->number, at);
    sim_workload_bury_arena(end->uc->load, &end->memory);
}

static void bury(struct sim_uc *uc)
{
    struct sim_workload *load = uc->load;

    for (unsigned i = 0; i < 2; i++)
        if (uc->ends[i].alive)
            stop(&uc->ends[i]);
    for (unsigned i = 0; i < 2; i++)
        sim_uc_judge_memory(&uc->ends[i]);
    for (unsigned i = 0; i < 2; i++)
        bury_one(&uc->ends[i]);
    uc->due = URO_TIME_NEVER;
    uc->state = uc->last_life ? SIM_LIFE_OVER : SIM_LIFE_WAITING;
    if (uc->last_life)
        return;
    uc->due = load->world->now + uro_rng_below(&uc->rng, BIRTH_WAIT_MAX);
    if (uc->reuse) /* what is still under way to these queue pairs must have arrived */
        uc->due += sim_plan_flight_max(load->plan);
}

static void begin_ending(struct sim_uc *uc)
{
    uc->abrupt = !uc->last_life && uro_rng_below(&uc->rng, 2) == 0;
    uc->reuse = !uc->last_life && uro_rng_below(&uc->rng, 3) == 0 && !uc->plan->shared &&
                !sim_tight_uses(uc->load, &uc->ends[0].owner) &&
                !sim_tight_uses(uc->load, &uc->ends[1].owner);
    uc->state = SIM_LIFE_ENDING;
    uc->first = uro_rng_below(&uc->rng, 2);
    uc->due = uc->load->world->now;
    for (unsigned i = 0; i < 2; i++)
        uc->ends[i].late_posts = uro_rng_below(&uc->rng, LATE_POSTS_MAX + 1);
}

static void end_on(struct sim_uc *uc)
{
    for (unsigned i = 0; i < 2; i++) {
        struct sim_uc_end *end = &uc->ends[i ^ uc->first];
        if (end->ended)
            continue;
        if (uc->abrupt)
            stop(end);
        else
            to_error(end);
        uc->due = uc->load->world->now + uro_rng_below(&uc->rng, END_WAIT_MAX);
        return;
    }
    if (uc->abrupt || (drained(&uc->ends[0]) && drained(&uc->ends[1])))
        bury(uc);
    else
        uc->due = uc->load->world->now + DRAIN_WAIT;
}

/* ---- control ----------------------------------------------------------------------------------- */

static struct sim_uc *uc_of(const struct sim_node *node)
{
    return URO_CONTAINER_OF(node, struct sim_uc, control);
}

static uro_time control_next(const struct sim_node *node)
{
    return uc_of(node)->due;
}

static void control_run(struct sim_node *node)
{
    struct sim_uc *uc = uc_of(node);
    const struct sim_workload *load = uc->load;

    switch (uc->state) {
    case SIM_LIFE_RUNNING:
    case SIM_LIFE_QUIET:
        begin_ending(uc);
        break;
    case SIM_LIFE_ENDING:
        end_on(uc);
        break;
    case SIM_LIFE_WAITING:
        if (load->calm && load->world->now < load->calm_since + NEIGHBOUR_WAIT)
            uc->due = load->calm_since + NEIGHBOUR_WAIT;
        else if (uc->reuse && load->world->now < sim_workload_arrived_at(load))
            uc->due = sim_workload_arrived_at(load);
        else
            begin_life(uc);
        break;
    case SIM_LIFE_OVER:
        uc->due = URO_TIME_NEVER;
        break;
    }
}

static bool worked(const struct sim_uc_end *end)
{
    const struct uro_wq *send = uro_qp_send_queue(end->qp);

    return end->posted == end->sends && end->takes == end->peer->taken &&
           end->signalled <= end->confirmed && uro_wq_head(send) == uro_wq_tail(send);
}

void sim_uc_on_progress(struct sim_uc *uc)
{
    bool done = uc->state == SIM_LIFE_RUNNING && worked(&uc->ends[0]) && worked(&uc->ends[1]);

    if (!uc->last_life || !done)
        return;
    uc->state = SIM_LIFE_QUIET;
    uc->due = URO_TIME_NEVER;
}

void sim_uc_calm(struct sim_uc *uc)
{
    /* Lossless ones would never end by themselves. */
    if (uc->state == SIM_LIFE_RUNNING && !uc->last_life)
        uc->due = uc->load->world->now;
}

void sim_uc_finish(struct sim_uc *uc)
{
    URO_ASSERT(uc->state == SIM_LIFE_QUIET);
    uc->due = uc->load->world->now;
}

static void on_event(struct sim_qp_owner *owner, enum uro_event_kind kind)
{
    struct sim_uc_end *end = URO_CONTAINER_OF(owner, struct sim_uc_end, owner);

    if (end->alive && kind == URO_EVENT_QP_FATAL)
        sim_tight_on_fatal(end->uc->load, owner, end->qp);
    else if (end->alive && kind == URO_EVENT_SQ_DRAINED)
        sim_drain_on_drained(&end->pause);
    else if (end->alive && kind == URO_EVENT_LAST_WQE && end->srq != NULL && !end->last_wqe)
        end->last_wqe = true;
    else if (!end->alive || kind != URO_EVENT_COMM_EST)
        sim_world_fail(end->uc->load->world, "UC qp 0x%06x: event %d out of place", end->qpn,
                       (int)kind);
}

static const char *problem(const struct sim_qp_owner *owner)
{
    const struct sim_uc_end *end = URO_CONTAINER_OF(owner, struct sim_uc_end, owner);

    return end->alive ? uro_qp_problem(end->qp) : NULL;
}

static void take(struct sim_cq *cq, const struct uro_cqe *cqe)
{
    sim_uc_judge(cq->owner, cq->cq, cqe);
}

static void init_end(struct sim_uc *uc, unsigned i)
{
    struct sim_uc_end *end = &uc->ends[i];
    const struct sim_plan_uc *plan = uc->plan;

    end->uc = uc;
    end->peer = &uc->ends[!i];
    end->side = plan->sides[i];
    end->host = uc->load->hosts[end->side];
    end->number = uc->number * 2 + i;
    end->ended = true;
    uro_rng_init_number(&end->rng, uro_rng_u64(&uc->rng));
    sim_workload_own(uc->load, &end->owner, end->host, on_event, problem);
    uint32_t receives = plan->recv_capacity;
    if (plan->shared)
        receives += uc->load->srqs[end->side][plan->srq].slot_count;
    sim_cq_init(&end->cq, uc->load, end->host, plan->send_capacity + receives);
    end->cq.take = take;
    end->cq.owner = end;
    sim_uc_post_init(end);
    sim_drain_init(&end->pause, uc->load, end->host);
}

void sim_uc_init(struct sim_uc *uc, struct sim_workload *load, uint32_t number)
{
    *uc = (struct sim_uc){ .load = load,
                           .plan = &load->plan->ucs[number],
                           .number = number,
                           .state = SIM_LIFE_WAITING,
                           .due = load->world->now,
                           .control = { NULL, control_next, control_run } };
    uro_rng_init_number(&uc->rng, uc->plan->seed);
    for (unsigned i = 0; i < 2; i++)
        init_end(uc, i);
    sim_world_add(load->world, &uc->control);
}

void sim_uc_fini(struct sim_uc *uc)
{
    for (unsigned i = 0; i < 2; i++) {
        free(uc->ends[i].qp_memory);
        sim_memory_fini(&uc->ends[i].memory);
        sim_cq_fini(&uc->ends[i].cq);
    }
}
