/* SPDX-License-Identifier: BSD-3-Clause */
/* ud.c - the lives of datagram queue pairs, and their requests; see ud.h. */
#include "sim/work/ud.h"

#include <stdlib.h>

#include "core/limits.h"
#include "core/psn.h"
#include "sim/work/workload.h"

#define ADDRESS_SPACE UINT64_C(0x600000000000)
#define ADDRESS_STEP  UINT64_C(0x1000000000)
#define LIFE_STEP     UINT64_C(0x10000000)
#define PD_FIRST      3000u
#define NAME_ROOM     8u /* bytes that identify a datagram */
#define PRIVILEGED    0x80000000u
#define QKEY_MASK     0x7fffffffu

static struct sim_endpoint *member(const struct sim_endpoint *end, uint32_t number)
{
    return &end->load->ud->lives[number].ends[0];
}

/* ---- groups ------------------------------------------------------------------------------------ */

static void join(struct sim_endpoint *end, bool v6)
{
    struct sim_world *world = end->load->world;
    const struct uro_gid group = sim_ud_group(end->load, v6).dest;

    if (uro_mcast_attach(sim_endpoint_shard(end), &end->ud->memberships[v6], end->qp, &group) &&
        uro_engine_join(end->host->engine, &group, world->now) != 0)
        sim_world_fail(world, "UD party %u: a group could not be joined", end->number);
    end->ud->is_member[v6] = true;
    sim_journal_note(world->journal, world->now, "UD qp 0x%06x joins the IPv%c group", end->qpn,
                     v6 ? '6' : '4');
}

static void make_handle(struct sim_endpoint *end, struct uro_ah *handle,
                        const struct uro_address *address)
{
    struct sim_world *world = end->load->world;
    int result = uro_engine_ah_create(end->host->engine, handle, end->pd, address, world->now);

    if (result != 0)
        sim_world_fail(world, "no address handle can be made: %d", result);
}

static void begin_groups(struct sim_endpoint *end)
{
    for (unsigned v6 = 0; v6 < 2 && end->load->plan->groups; v6++) {
        const struct uro_address address = sim_ud_group(end->load, v6 != 0);
        make_handle(end, &end->ud->group_handles[v6], &address);
        if (uro_rng_below(&end->rng, 3) > 0)
            join(end, v6 != 0);
    }
}

/* Leaves the groups. */
static void stop(struct sim_endpoint *end)
{
    struct uro_engine *engine = end->host->engine;
    struct sim_ud_state *ud = end->ud;

    for (unsigned v6 = 0; v6 < 2 && end->load->plan->groups; v6++) {
        const struct uro_gid group = sim_ud_group(end->load, v6 != 0).dest;
        uro_engine_ah_destroy(engine, &ud->group_handles[v6]);
        if (ud->is_member[v6] && uro_mcast_detach(sim_endpoint_shard(end), &ud->memberships[v6]))
            uro_engine_leave(engine, &group, end->load->world->now);
        ud->is_member[v6] = false;
    }
}

/* Returns whether, in the last life, every member of the group exists and has a free receive. */
static bool group_is_ready(const struct sim_ud *ud, bool v6)
{
    for (uint32_t i = 0; i < ud->count; i++) {
        const struct sim_endpoint *other = &ud->lives[i].ends[0];
        if (!other->life->last_life || !other->alive || other->ended ||
            (other->ud->is_member[v6] && other->ud->expected >= other->recv_posted))
            return false;
    }
    return true;
}

/* ---- lives ------------------------------------------------------------------------------------- */

static void begin(struct sim_endpoint *end)
{
    end->sends_left = sim_world_between(&end->rng, 1, end->plan->sends);
    end->wire_psn = uro_rng_below(&end->rng, URO_PSN_MASK + 1);
    end->ud->expected = 0;
}

static void make_memory(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    struct uro_shard *shard = sim_endpoint_shard(end);
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity,
                               sim_memory_room(URO_PATH_MTU_MAX + 1, plan->send_sges) },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity,
                               sim_memory_room(SIM_GRH + URO_PATH_MTU_MAX, plan->recv_sges) },
    };

    sim_memory_init(&end->memory, sizes,
                    ADDRESS_SPACE + end->number * ADDRESS_STEP + end->life->life * LIFE_STEP,
                    &end->rng);
    sim_memory_register(&end->memory, shard, SIM_MEMORY_SENDS, end->pd, 0);
    sim_memory_register(&end->memory, shard, SIM_MEMORY_RECVS, end->pd, URO_ACCESS_LOCAL_WRITE);
}

static void make(struct sim_endpoint *end)
{
    make_memory(end);
    /* Datagrams to the number it had may still arrive, but not when all must find their receive. */
    if (end->qp != NULL && end->life->last_life)
        sim_endpoint_destroy(end);
    if (end->qp == NULL)
        sim_endpoint_create_unreliable(end);
    for (uint32_t i = 0; i < end->load->ud->count; i++) {
        for (unsigned v6 = 0; v6 < 2; v6++) {
            const struct uro_address address = sim_endpoint_address(member(end, i), v6 != 0);
            make_handle(end, &end->ud->handles[i][v6], &address);
        }
    }
    begin_groups(end);
}

static void connect(struct sim_endpoint *end)
{
    const struct uro_qp_attr attr = { .qkey = end->ud->qkey };

    sim_endpoint_to_rtr(end, &attr);
}

static void start(struct sim_endpoint *end)
{
    const struct uro_qp_attr attr = { .sq_psn = end->wire_psn };

    sim_endpoint_to_rts(end, &attr);
}

static void stopped(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < end->load->ud->count; i++)
        for (unsigned v6 = 0; v6 < 2; v6++)
            uro_engine_ah_destroy(end->host->engine, &end->ud->handles[i][v6]);
}

bool sim_ud_quiet(const struct sim_ud *ud)
{
    for (uint32_t i = 0; i < ud->count; i++) {
        const struct sim_endpoint *end = &ud->lives[i].ends[0];
        const struct uro_wq *send = end->alive ? uro_qp_send_queue(end->qp) : NULL;
        if (!ud->lives[i].last_life || send == NULL || end->sends_left > 0 ||
            end->signalled > end->confirmed || end->messages_taken < end->ud->expected ||
            uro_wq_head(send) != uro_wq_tail(send))
            return false;
    }
    return true;
}

/* ---- what to send ------------------------------------------------------------------------------ */

/* Returns a queue pair to send to, or NULL. In the last life the queue pair must have a free receive. */
static struct sim_endpoint *addressee(const struct sim_endpoint *end, uint32_t first)
{
    const struct sim_ud *ud = end->load->ud;

    for (uint32_t i = 0; i < ud->count; i++) {
        struct sim_endpoint *other = member(end, (first + i) % ud->count);
        bool ready =
            other->life->last_life && other->alive && other->ud->expected < other->recv_posted;
        if (!end->life->last_life ? other->qpn != 0 : ready)
            return other;
    }
    return NULL;
}

static bool can_send(const struct sim_endpoint *end)
{
    return addressee(end, 0) != NULL;
}

static struct sim_datagram *new_datagram(struct sim_ud *ud)
{
    if (ud->datagram_count == ud->datagram_room) {
        ud->datagram_room = ud->datagram_room * 2 + 256;
        ud->datagrams = realloc(ud->datagrams, ud->datagram_room * sizeof *ud->datagrams);
        URO_ASSERT(ud->datagrams != NULL);
    }
    return &ud->datagrams[ud->datagram_count++];
}

static uint32_t choose_length(struct sim_endpoint *end, enum sim_fault fault)
{
    const struct sim_plan_pair *plan = end->life->plan;
    struct uro_rng *rng = &end->rng;

    if (fault == SIM_FAULT_TOO_LONG)
        return URO_PATH_MTU_MAX + 1;
    if (uro_rng_below(rng, 8) == 0)
        return URO_PATH_MTU_MAX;
    if (uro_rng_below(rng, 8) == 0)
        return plan->inject_probability == 0 ? 0 : NAME_ROOM;
    return sim_world_between(rng, NAME_ROOM, plan->message_max);
}

static enum sim_fault choose_fault(struct sim_endpoint *end)
{
    static const enum sim_fault faults[] = { SIM_FAULT_BAD_QKEY, SIM_FAULT_BAD_LKEY,
                                             SIM_FAULT_UNSUPPORTED, SIM_FAULT_NO_HANDLE,
                                             SIM_FAULT_TOO_LONG };

    if (end->life->last_life || !sim_world_chance(&end->rng, end->life->plan->inject_probability))
        return SIM_FAULT_NONE;
    return faults[uro_rng_below(&end->rng, URO_ARRAY_LEN(faults))];
}

/* In the last life, adds the datagram to the expected datagrams of each receiver. */
static void expect(struct sim_endpoint *end, const struct sim_datagram *datagram)
{
    if (!end->life->last_life)
        return;
    for (uint32_t i = 0; i < end->load->ud->count && datagram->group; i++)
        member(end, i)->ud->expected += member(end, i)->ud->is_member[datagram->v6];
    if (!datagram->group && !sim_endpoint_in_error(end))
        member(end, datagram->to)->ud->expected++;
}

static bool choose(struct sim_endpoint *end, struct sim_request *request)
{
    struct sim_ud *ud = end->load->ud;
    struct uro_rng *rng = &end->rng;
    struct sim_endpoint *to = addressee(end, uro_rng_below(rng, ud->count));
    bool v6 = uro_rng_below(rng, 2) == 0;
    bool group = end->load->plan->groups && !sim_endpoint_in_error(end) &&
                 uro_rng_below(rng, 3) == 0 && (!end->life->last_life || group_is_ready(ud, v6));

    if (to == NULL) /* late, into ERR */
        to = end;
    request->message = ud->datagram_count;
    request->fault = choose_fault(end);
    struct sim_datagram *datagram = new_datagram(ud);
    *datagram = (struct sim_datagram){
        .from = end->number,
        .from_qpn = end->qpn,
        .to = to->number,
        .to_qpn = group ? URO_QPN_MULTICAST : to->qpn,
        .group = group,
        .qkey = request->fault == SIM_FAULT_BAD_QKEY ? to->ud->qkey ^ 1 : to->ud->qkey,
        .v6 = v6,
        .deliverable = request->fault == SIM_FAULT_NONE,
    };
    datagram->has_imm = uro_rng_below(rng, 2) == 0;
    datagram->imm = uro_rng_u32(rng);
    datagram->length = choose_length(end, request->fault);
    datagram->seed = uro_rng_u64(rng);
    expect(end, datagram);
    request->opcode = datagram->has_imm ? URO_WR_SEND_WITH_IMM : URO_WR_SEND;
    request->imm = datagram->imm;
    request->length = datagram->length;
    request->seed = datagram->seed;
    sim_post_choose_flags(end, request, request->fault != SIM_FAULT_BAD_LKEY);
    sim_memory_scatter(&request->layout, request->length, end->plan->send_sges, rng);
    return true;
}

/* Returns the number of a handle that was destroyed or belongs to another protection domain. */
static uint32_t no_handle(struct sim_endpoint *end)
{
    const struct sim_endpoint *other = member(end, uro_rng_below(&end->rng, end->load->ud->count));

    if (other->pd != end->pd && other->alive && other->host == end->host)
        return uro_ah_number(&other->ud->handles[0][0]);

    const struct uro_address address = sim_endpoint_address(end, true);
    struct uro_ah handle;

    make_handle(end, &handle, &address);
    uint32_t number = uro_ah_number(&handle);
    uro_engine_ah_destroy(end->host->engine, &handle);
    return number;
}

static void fill(struct sim_endpoint *end, const struct sim_request *request, struct uro_wqe *wqe)
{
    const struct sim_datagram *datagram = &end->load->ud->datagrams[request->message];
    struct sim_ud_state *ud = end->ud;
    bool own = datagram->qkey == ud->qkey && uro_rng_below(&end->rng, 2) == 0;

    wqe->to.ah = uro_ah_number(datagram->group ? &ud->group_handles[datagram->v6]
                                               : &ud->handles[datagram->to][datagram->v6]);
    wqe->to.qpn = datagram->to_qpn;
    wqe->qkey = own ? PRIVILEGED | uro_rng_u32(&end->rng) : datagram->qkey;
    if (request->fault == SIM_FAULT_NO_HANDLE)
        wqe->to.ah = no_handle(end);
}

static uint32_t recv_room(struct sim_endpoint *end)
{
    (void)end;
    return SIM_GRH + URO_PATH_MTU_MAX;
}

static const struct sim_endpoint_ops ops = {
    .family = "UD party",
    .unsupported = URO_WR_RDMA_WRITE,
    .begin = begin,
    .make = make,
    .connect = connect,
    .start = start,
    .stop = stop,
    .stopped = stopped,
    .can_send = can_send,
    .choose = choose,
    .fill = fill,
    .confirm = sim_ud_confirm,
    .expected = sim_ud_expected,
    .on_error = sim_judge_stop_queue,
    .take = sim_ud_take,
    .recv_room = recv_room,
    .recv_expected = sim_judge_bad_lkey,
};

static void init_one(struct sim_workload *load, struct sim_ud *ud, uint32_t number)
{
    struct sim_life *life = &ud->lives[number];
    struct sim_endpoint *end = &life->ends[0];

    life->load = load;
    life->plan = &load->plan->parties[number];
    life->number = number;
    life->count = 1;
    life->rng = &end->rng;
    end->ops = &ops;
    end->type = URO_QPT_UD;
    end->life = life;
    end->load = load;
    end->side = life->plan->sides[0];
    end->host = load->hosts[end->side];
    end->plan = &life->plan->ends[0];
    end->number = number;
    end->pd = load->pds + PD_FIRST + number;
    end->ud = aligned_alloc(_Alignof(struct sim_ud_state), sizeof *end->ud);
    URO_ASSERT(end->ud != NULL);
    *end->ud = (struct sim_ud_state){ 0 };
    uro_rng_init_number(&end->rng, life->plan->seed);
    end->ud->qkey = uro_rng_u32(&end->rng) & QKEY_MASK;
    if (load->plan->groups) /* or a group could not be sent to */
        end->ud->qkey = (uint32_t)load->plan->seed & QKEY_MASK;
    sim_post_init_unreliable(end);
    sim_life_init(life, load);
}

struct sim_ud *sim_ud_make(struct sim_workload *load)
{
    struct sim_ud *ud = calloc(1, sizeof *ud);

    URO_ASSERT(ud != NULL);
    ud->count = load->plan->party_count;
    for (uint32_t i = 0; i < ud->count; i++)
        init_one(load, ud, i);
    return ud;
}

void sim_ud_free(struct sim_ud *ud)
{
    for (uint32_t i = 0; i < ud->count; i++)
        sim_endpoint_fini(&ud->lives[i].ends[0]);
    free(ud->datagrams);
    free(ud);
}
