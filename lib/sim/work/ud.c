/* SPDX-License-Identifier: BSD-3-Clause */
/* ud.c - lives of datagram queue pairs, and what they send; see ud.h. */
#include "sim/work/ud.h"

#include <stdlib.h>

#include "core/limits.h"
#include "core/psn.h"
#include "sim/work/workload.h"

#define ADDRESS_SPACE UINT64_C(0x600000000000)
#define ADDRESS_STEP  UINT64_C(0x1000000000)
#define LIFE_STEP     UINT64_C(0x10000000)
#define PD_FIRST      3000u
#define PORT          1u
#define NAME_ROOM     8u /* bytes that tell one datagram from another */
#define PRIVILEGED    0x80000000u
#define QKEY_MASK     0x7fffffffu

static struct sim_endpoint *member(const struct sim_endpoint *endpoint, uint32_t number)
{
    return &endpoint->load->ud->lives[number].ends[0];
}

/* ---- groups ------------------------------------------------------------------------------------ */

static void join(struct sim_endpoint *endpoint, bool v6)
{
    struct sim_world *world = endpoint->load->world;
    const struct uro_gid group = sim_ud_group(endpoint->load, v6).dest;

    if (uro_mcast_attach(sim_endpoint_shard(endpoint), &endpoint->ud->memberships[v6], endpoint->qp,
                         &group) &&
        uro_engine_join(endpoint->host->engine, &group, world->now) != 0)
        sim_world_fail(world, "UD party %u: a group could not be joined", endpoint->number);
    endpoint->ud->is_member[v6] = true;
    sim_journal_note(world->journal, world->now, "UD qp 0x%06x joins the IPv%c group",
                     endpoint->qpn, v6 ? '6' : '4');
}

static void make_handle(struct sim_endpoint *endpoint, struct uro_ah *handle,
                        const struct uro_address *address)
{
    struct sim_world *world = endpoint->load->world;
    int result =
        uro_engine_ah_create(endpoint->host->engine, handle, endpoint->pd, address, world->now);

    if (result != 0)
        sim_world_fail(world, "no address handle can be made: %d", result);
}

static void begin_groups(struct sim_endpoint *endpoint)
{
    for (unsigned v6 = 0; v6 < 2 && endpoint->load->plan->groups; v6++) {
        const struct uro_address address = sim_ud_group(endpoint->load, v6 != 0);
        make_handle(endpoint, &endpoint->ud->group_handles[v6], &address);
        if (uro_rng_below(&endpoint->rng, 3) > 0)
            join(endpoint, v6 != 0);
    }
}

/* Leaves the groups. */
static void stop(struct sim_endpoint *endpoint)
{
    struct uro_engine *engine = endpoint->host->engine;
    struct sim_ud_state *ud = endpoint->ud;

    for (unsigned v6 = 0; v6 < 2 && endpoint->load->plan->groups; v6++) {
        const struct uro_gid group = sim_ud_group(endpoint->load, v6 != 0).dest;
        uro_engine_ah_destroy(engine, &ud->group_handles[v6]);
        if (ud->is_member[v6] &&
            uro_mcast_detach(sim_endpoint_shard(endpoint), &ud->memberships[v6]))
            uro_engine_leave(engine, &group, endpoint->load->world->now);
        ud->is_member[v6] = false;
    }
}

/* In the last life: everybody is there and has a receive for one more. */
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

static void begin(struct sim_endpoint *endpoint)
{
    endpoint->sends_left = sim_world_between(&endpoint->rng, 1, endpoint->plan->sends);
    endpoint->wire_psn = uro_rng_below(&endpoint->rng, URO_PSN_MASK + 1);
    endpoint->ud->expected = 0;
}

static void make_memory(struct sim_endpoint *endpoint)
{
    const struct sim_plan_end *plan = endpoint->plan;
    struct uro_shard *shard = sim_endpoint_shard(endpoint);
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity,
                               sim_memory_room(URO_PATH_MTU_MAX + 1, plan->send_sges) },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity,
                               sim_memory_room(SIM_GRH + URO_PATH_MTU_MAX, plan->recv_sges) },
    };

    sim_memory_init(&endpoint->memory, sizes,
                    ADDRESS_SPACE + endpoint->number * ADDRESS_STEP +
                        endpoint->life->life * LIFE_STEP,
                    &endpoint->rng);
    sim_memory_register(&endpoint->memory, shard, SIM_MEMORY_SENDS, endpoint->pd, 0);
    sim_memory_register(&endpoint->memory, shard, SIM_MEMORY_RECVS, endpoint->pd,
                        URO_ACCESS_LOCAL_WRITE);
}

static void make(struct sim_endpoint *endpoint)
{
    make_memory(endpoint);
    /* Datagrams to the number it had may still arrive, but not when all must find their receive. */
    if (endpoint->qp != NULL && endpoint->life->last_life)
        sim_endpoint_destroy(endpoint);
    if (endpoint->qp == NULL)
        sim_endpoint_create_unreliable(endpoint);
    for (uint32_t i = 0; i < endpoint->load->ud->count; i++) {
        for (unsigned v6 = 0; v6 < 2; v6++) {
            const struct uro_address address = sim_endpoint_address(member(endpoint, i), v6 != 0);
            make_handle(endpoint, &endpoint->ud->handles[i][v6], &address);
        }
    }
    begin_groups(endpoint);
}

static void connect(struct sim_endpoint *endpoint)
{
    struct uro_qp_attr attr = { .state = URO_QPS_INIT, .port = PORT, .qkey = endpoint->ud->qkey };

    sim_endpoint_modify(endpoint, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_QKEY);
    attr.state = URO_QPS_RTR;
    sim_endpoint_modify(endpoint, &attr, 0);
}

static void start(struct sim_endpoint *endpoint)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS, .sq_psn = endpoint->wire_psn };

    sim_endpoint_modify(endpoint, &attr, URO_ATTR_SQ_PSN);
}

static void stopped(struct sim_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->load->ud->count; i++)
        for (unsigned v6 = 0; v6 < 2; v6++)
            uro_engine_ah_destroy(endpoint->host->engine, &endpoint->ud->handles[i][v6]);
}

bool sim_ud_quiet(const struct sim_ud *ud)
{
    for (uint32_t i = 0; i < ud->count; i++) {
        const struct sim_endpoint *endpoint = &ud->lives[i].ends[0];
        const struct uro_wq *send = endpoint->alive ? uro_qp_send_queue(endpoint->qp) : NULL;
        if (!ud->lives[i].last_life || send == NULL || endpoint->sends_left > 0 ||
            endpoint->signalled > endpoint->confirmed ||
            endpoint->messages_taken < endpoint->ud->expected ||
            uro_wq_head(send) != uro_wq_tail(send))
            return false;
    }
    return true;
}

/* ---- what to send ------------------------------------------------------------------------------ */

/* A queue pair to send to; in the last life only one that has a receive for it. NULL: none now. */
static struct sim_endpoint *addressee(const struct sim_endpoint *endpoint, uint32_t first)
{
    const struct sim_ud *ud = endpoint->load->ud;

    for (uint32_t i = 0; i < ud->count; i++) {
        struct sim_endpoint *other = member(endpoint, (first + i) % ud->count);
        bool ready =
            other->life->last_life && other->alive && other->ud->expected < other->recv_posted;
        if (!endpoint->life->last_life ? other->qpn != 0 : ready)
            return other;
    }
    return NULL;
}

static bool can_send(const struct sim_endpoint *endpoint)
{
    return addressee(endpoint, 0) != NULL;
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

static uint32_t choose_length(struct sim_endpoint *endpoint, enum sim_fault fault)
{
    const struct sim_plan_pair *plan = endpoint->life->plan;
    struct uro_rng *rng = &endpoint->rng;

    if (fault == SIM_FAULT_TOO_LONG)
        return URO_PATH_MTU_MAX + 1;
    if (uro_rng_below(rng, 8) == 0)
        return URO_PATH_MTU_MAX;
    if (uro_rng_below(rng, 8) == 0)
        return plan->inject_share == 0 ? 0 : NAME_ROOM;
    return sim_world_between(rng, NAME_ROOM, plan->message_max);
}

static enum sim_fault choose_fault(struct sim_endpoint *endpoint)
{
    static const enum sim_fault faults[] = { SIM_FAULT_BAD_QKEY, SIM_FAULT_BAD_LKEY,
                                             SIM_FAULT_UNSUPPORTED, SIM_FAULT_NO_HANDLE,
                                             SIM_FAULT_TOO_LONG };

    if (endpoint->life->last_life ||
        !sim_world_chance(&endpoint->rng, endpoint->life->plan->inject_share))
        return SIM_FAULT_NONE;
    return faults[uro_rng_below(&endpoint->rng, URO_ARRAY_LEN(faults))];
}

/* In the last life whoever must receive the datagram expects it. */
static void expect(struct sim_endpoint *endpoint, const struct sim_datagram *datagram)
{
    if (!endpoint->life->last_life)
        return;
    for (uint32_t i = 0; i < endpoint->load->ud->count && datagram->group; i++)
        member(endpoint, i)->ud->expected += member(endpoint, i)->ud->is_member[datagram->v6];
    if (!datagram->group && !sim_endpoint_in_error(endpoint))
        member(endpoint, datagram->to)->ud->expected++;
}

static bool choose(struct sim_endpoint *endpoint, struct sim_request *request)
{
    struct sim_ud *ud = endpoint->load->ud;
    struct uro_rng *rng = &endpoint->rng;
    struct sim_endpoint *to = addressee(endpoint, uro_rng_below(rng, ud->count));
    bool v6 = uro_rng_below(rng, 2) == 0;
    bool group = endpoint->load->plan->groups && !sim_endpoint_in_error(endpoint) &&
                 uro_rng_below(rng, 3) == 0 &&
                 (!endpoint->life->last_life || group_is_ready(ud, v6));

    if (to == NULL) /* late, into ERR */
        to = endpoint;
    request->message = ud->datagram_count;
    request->fault = choose_fault(endpoint);
    struct sim_datagram *datagram = new_datagram(ud);
    *datagram = (struct sim_datagram){
        .from = endpoint->number,
        .from_qpn = endpoint->qpn,
        .to = to->number,
        .to_qpn = group ? URO_QPN_MULTICAST : to->qpn,
        .group = group,
        .qkey = request->fault == SIM_FAULT_BAD_QKEY ? to->ud->qkey ^ 1 : to->ud->qkey,
        .v6 = v6,
        .deliverable = request->fault == SIM_FAULT_NONE,
    };
    datagram->has_imm = uro_rng_below(rng, 2) == 0;
    datagram->imm = uro_rng_u32(rng);
    datagram->length = choose_length(endpoint, request->fault);
    datagram->seed = uro_rng_u64(rng);
    expect(endpoint, datagram);
    request->opcode = datagram->has_imm ? URO_WR_SEND_WITH_IMM : URO_WR_SEND;
    request->imm = datagram->imm;
    request->length = datagram->length;
    request->seed = datagram->seed;
    sim_post_choose_flags(endpoint, request, request->fault != SIM_FAULT_BAD_LKEY);
    sim_memory_scatter(&request->layout, request->length, endpoint->plan->send_sges, rng);
    return true;
}

/* The number of a handle of another protection domain, or of one that was destroyed. */
static uint32_t no_handle(struct sim_endpoint *endpoint)
{
    const struct sim_endpoint *other =
        member(endpoint, uro_rng_below(&endpoint->rng, endpoint->load->ud->count));

    if (other->pd != endpoint->pd && other->alive && other->host == endpoint->host)
        return uro_ah_number(&other->ud->handles[0][0]);

    const struct uro_address address = sim_endpoint_address(endpoint, true);
    struct uro_ah handle;

    make_handle(endpoint, &handle, &address);
    uint32_t number = uro_ah_number(&handle);
    uro_engine_ah_destroy(endpoint->host->engine, &handle);
    return number;
}

static void fill(struct sim_endpoint *endpoint, const struct sim_request *request,
                 struct uro_wqe *wqe)
{
    const struct sim_datagram *datagram = &endpoint->load->ud->datagrams[request->message];
    struct sim_ud_state *ud = endpoint->ud;
    bool own = datagram->qkey == ud->qkey && uro_rng_below(&endpoint->rng, 2) == 0;

    wqe->to.ah = uro_ah_number(datagram->group ? &ud->group_handles[datagram->v6]
                                               : &ud->handles[datagram->to][datagram->v6]);
    wqe->to.qpn = datagram->to_qpn;
    wqe->qkey = own ? PRIVILEGED | uro_rng_u32(&endpoint->rng) : datagram->qkey;
    if (request->fault == SIM_FAULT_NO_HANDLE)
        wqe->to.ah = no_handle(endpoint);
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
    .recv_expected = sim_judge_bad_lkey,
};

static void init_one(struct sim_workload *load, struct sim_ud *ud, uint32_t number)
{
    struct sim_life *life = &ud->lives[number];
    struct sim_endpoint *endpoint = &life->ends[0];

    life->load = load;
    life->plan = &load->plan->parties[number];
    life->number = number;
    life->count = 1;
    life->rng = &endpoint->rng;
    endpoint->ops = &ops;
    endpoint->type = URO_QPT_UD;
    endpoint->life = life;
    endpoint->load = load;
    endpoint->side = life->plan->sides[0];
    endpoint->host = load->hosts[endpoint->side];
    endpoint->plan = &life->plan->ends[0];
    endpoint->number = number;
    endpoint->pd = load->pds + PD_FIRST + number;
    endpoint->ud = aligned_alloc(_Alignof(struct sim_ud_state), sizeof *endpoint->ud);
    URO_ASSERT(endpoint->ud != NULL);
    *endpoint->ud = (struct sim_ud_state){ 0 };
    uro_rng_init_number(&endpoint->rng, life->plan->seed);
    endpoint->ud->qkey = uro_rng_u32(&endpoint->rng) & QKEY_MASK;
    if (load->plan->groups) /* or a group could not be sent to */
        endpoint->ud->qkey = (uint32_t)load->plan->seed & QKEY_MASK;
    sim_post_init_unreliable(endpoint);
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
