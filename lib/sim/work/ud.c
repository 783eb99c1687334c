/* SPDX-License-Identifier: BSD-3-Clause */
/* ud.c - queue pairs that send datagrams to each other and to groups; see endpoint.h.
 *
 * A datagram is kept until the end of the run, since it may arrive after both queue pairs are gone.
 * The last life of all queue pairs begins after faults have stopped. Datagrams that are sent then
 * arrive exactly once.
 */
#include "sim/work/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "core/datagram.h"
#include "core/limits.h"
#include "core/path.h"
#include "sim/net/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/workload.h"

#define PD_FIRST   3000u
#define NAME_ROOM  8u /* bytes that identify a datagram */
#define PRIVILEGED 0x80000000u
#define QKEY_MASK  0x7fffffffu
#define HOP_LIMIT  64u
#define ROOM_MAX   (5u * URO_PATH_MTU_MAX) /* of a receive, shared ones included */

struct sim_datagram {
    uint32_t from_qpn;
    uint32_t to_qpn;
    uint32_t qkey;
    uint32_t from; /* number of the queue pair */
    uint32_t to;
    bool group; /* to the group of its IP version: each member receives it */
    bool v6;
    bool deliverable;
    bool has_imm;
    uint32_t imm;
    uint32_t length;
    uint64_t seed;
    uint32_t taken[SIM_PLAN_PARTIES_MAX]; /* by each queue pair */
};

struct sim_ud_state {
    struct uro_ah handles[SIM_PLAN_PARTIES_MAX][2]; /* to each queue pair, IPv4 and IPv6 */
    struct uro_ah group_handles[2];
    struct uro_mcast memberships[2];
    bool is_member[2];
    uint32_t expected; /* datagrams that must arrive in this life */
};

static uint32_t party_count(const struct sim_endpoint *end)
{
    return end->load->plan->party_count;
}

static struct sim_endpoint *member(const struct sim_endpoint *end, uint32_t number)
{
    return &end->load->parties[number].ends[0];
}

/* The address of the workload's group. */
static struct uro_address group_of(const struct sim_workload *load, bool v6)
{
    uint8_t number = (uint8_t)load->number;
    const uint8_t ipv4[4] = { 239, 1, 2, (uint8_t)(3 + number) };
    const struct uro_gid ipv6 = { { 0xff, 0x15, [15] = (uint8_t)(0x77 + number) } };

    return (struct uro_address){ .dest = v6 ? ipv6 : uro_gid_from_ipv4(ipv4),
                                 .sgid_index = v6 ? 0 : 1,
                                 .hop_limit = HOP_LIMIT };
}

static struct sim_datagram *datagram_of(const struct sim_endpoint *end,
                                        const struct sim_request *request)
{
    return &end->load->datagrams[request->message];
}

static struct uro_gid dest_of(const struct sim_endpoint *end, const struct sim_datagram *datagram)
{
    return datagram->group ? group_of(end->load, datagram->v6).dest
                           : sim_endpoint_address(member(end, datagram->to), datagram->v6).dest;
}

/* ---- groups ---- */

static void join(struct sim_endpoint *end, bool v6)
{
    struct sim_world *world = end->load->world;
    const struct uro_gid group = group_of(end->load, v6).dest;

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
        const struct uro_address address = group_of(end->load, v6 != 0);
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
        const struct uro_gid group = group_of(end->load, v6 != 0).dest;
        uro_engine_ah_destroy(engine, &ud->group_handles[v6]);
        if (ud->is_member[v6] && uro_mcast_detach(sim_endpoint_shard(end), &ud->memberships[v6]))
            uro_engine_leave(engine, &group, end->load->world->now);
        ud->is_member[v6] = false;
    }
}

/* Returns whether, in the last life, every member of the group exists and has a free receive. */
static bool group_is_ready(const struct sim_endpoint *end, bool v6)
{
    for (uint32_t i = 0; i < party_count(end); i++) {
        const struct sim_endpoint *other = member(end, i);
        if (!other->life->last_life || !other->alive || other->ended ||
            (other->ud->is_member[v6] && other->ud->expected >= other->recv_posted))
            return false;
    }
    return true;
}

/* ---- lives ---- */

static void begin(struct sim_endpoint *end)
{
    end->sends_left = sim_world_between(&end->rng, 1, end->plan->sends);
    end->wire_psn = uro_rng_below(&end->rng, SIM_PSN_MASK + 1);
    end->ud->expected = 0;
}

static void make_memory(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    static const uint32_t access[SIM_MEMORY_SECTIONS] = { [SIM_MEMORY_RECVS] =
                                                              URO_ACCESS_LOCAL_WRITE };
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity,
                               sim_memory_room(URO_PATH_MTU_MAX + 1, plan->send_sges) },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity,
                               sim_memory_room(SIM_GRH + URO_PATH_MTU_MAX, plan->recv_sges) },
    };

    sim_endpoint_make_memory(end, 3, sizes, access);
}

static void make(struct sim_endpoint *end)
{
    make_memory(end);
    /* Datagrams to the number it had may still arrive, but not when all must find their receive. */
    if (end->qp != NULL && end->life->last_life)
        sim_endpoint_destroy(end);
    sim_endpoint_create(end);
    for (uint32_t i = 0; i < party_count(end); i++) {
        for (unsigned v6 = 0; v6 < 2; v6++) {
            const struct uro_address address = sim_endpoint_address(member(end, i), v6 != 0);
            make_handle(end, &end->ud->handles[i][v6], &address);
        }
    }
    begin_groups(end);
}

static void stopped(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < party_count(end); i++)
        for (unsigned v6 = 0; v6 < 2; v6++)
            uro_engine_ah_destroy(end->host->engine, &end->ud->handles[i][v6]);
}

static bool worked(const struct sim_endpoint *end)
{
    return sim_endpoint_worked(end) && end->messages_taken >= end->ud->expected;
}

/* ---- what to send ---- */

/* Returns a queue pair to send to, or NULL. In the last life the queue pair must have a free
 * receive. */
static struct sim_endpoint *addressee(const struct sim_endpoint *end, uint32_t first)
{
    for (uint32_t i = 0; i < party_count(end); i++) {
        struct sim_endpoint *other = member(end, (first + i) % party_count(end));
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

static struct sim_datagram *new_datagram(struct sim_workload *load)
{
    if (load->datagram_count == load->datagram_room) {
        load->datagram_room = load->datagram_room * 2 + 256;
        load->datagrams = realloc(load->datagrams, load->datagram_room * sizeof *load->datagrams);
        URO_ASSERT(load->datagrams != NULL);
    }
    return &load->datagrams[load->datagram_count++];
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
    for (uint32_t i = 0; i < party_count(end) && datagram->group; i++)
        member(end, i)->ud->expected += member(end, i)->ud->is_member[datagram->v6];
    if (!datagram->group && !sim_endpoint_in_error(end))
        member(end, datagram->to)->ud->expected++;
}

static bool choose(struct sim_endpoint *end, struct sim_request *request)
{
    struct sim_workload *load = end->load;
    struct uro_rng *rng = &end->rng;
    struct sim_endpoint *to = addressee(end, uro_rng_below(rng, party_count(end)));
    bool v6 = uro_rng_below(rng, 2) == 0;
    bool group = load->plan->groups && !sim_endpoint_in_error(end) && uro_rng_below(rng, 3) == 0 &&
                 (!end->life->last_life || group_is_ready(end, v6));

    if (to == NULL) /* late, into ERR */
        to = end;
    request->message = load->datagram_count;
    request->fault = choose_fault(end);
    struct sim_datagram *datagram = new_datagram(load);
    *datagram = (struct sim_datagram){
        .from = end->number,
        .from_qpn = end->qpn,
        .to = to->number,
        .to_qpn = group ? URO_QPN_MULTICAST : to->qpn,
        .group = group,
        .qkey = request->fault == SIM_FAULT_BAD_QKEY ? to->qkey ^ 1 : to->qkey,
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
    const struct sim_endpoint *other = member(end, uro_rng_below(&end->rng, party_count(end)));

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
    const struct sim_datagram *datagram = &end->load->datagrams[request->message];
    struct sim_ud_state *ud = end->ud;
    bool own = datagram->qkey == end->qkey && uro_rng_below(&end->rng, 2) == 0;

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

/* ---- frames ---- */

static bool is_frame(const struct sim_endpoint *end, const struct sim_request *request,
                     const struct uro_frame *frame)
{
    const struct sim_datagram *datagram = datagram_of(end, request);
    const struct uro_gid dest = dest_of(end, datagram);

    return frame->bth.dest_qpn == datagram->to_qpn && frame->deth.qkey == datagram->qkey &&
           uro_gid_equal(&frame->ip.dest, &dest) &&
           !(frame->op->ext & URO_EXT_IMM) == !datagram->has_imm &&
           (!datagram->has_imm || frame->imm == datagram->imm) &&
           sim_model_carries(frame, 0, datagram->length, datagram->seed);
}

static void check_frame(struct sim_endpoint *end, const struct uro_frame *frame)
{
    if (sim_psn_diff(frame->bth.psn, end->wire_psn) < 0)
        sim_endpoint_fail(end, "frame", frame->bth.psn, "has a PSN that was used");
    end->wire_psn = (frame->bth.psn + 1) & SIM_PSN_MASK;
    if (end->drain.drained)
        sim_endpoint_fail(end, "frame", frame->bth.psn, "is sent in SQD after SQ_DRAINED");
    for (; end->wire_next < end->posted; end->wire_next++) {
        struct sim_request *request = sim_request_of(end, end->wire_next);
        if (sim_judge_stops(request) || !is_frame(end, request, frame))
            continue; /* it stayed at the host, or it was flushed: then it must complete so */
        request->sent = 1;
        if (request->flushed)
            sim_endpoint_fail(end, "send", request->number, "was flushed and is sent after that");
        if (!frame->bth.solicited != !(request->flags & URO_SEND_SOLICITED) || frame->bth.ack_req)
            sim_endpoint_fail(end, "frame", frame->bth.psn, "has wrong bits");
        end->wire_next++;
        return;
    }
    sim_endpoint_fail(end, "frame", frame->bth.psn, "is not the next of what was asked for");
}

/* ---- sends ---- */

static void confirm(struct sim_endpoint *end, const struct sim_request *request)
{
    const struct sim_datagram *datagram = datagram_of(end, request);
    bool local = !datagram->group && member(end, datagram->to)->host == end->host;

    if (request->sent == 0 && !local && !sim_host_swallows(end->host))
        sim_endpoint_fail(end, "send", request->number, "succeeded and was not sent");
}

/* ---- receives ---- */

/* How often a datagram may arrive: as often as the network makes copies of it. */
static uint32_t copies(const struct sim_endpoint *to, const struct sim_datagram *datagram)
{
    const struct sim_endpoint *from = member(to, datagram->from);

    return from->host != to->host && to->load->plan->cables[from->side].duplicate_probability > 0
               ? 2
               : 1;
}

static bool is_to(const struct sim_datagram *datagram, const struct sim_endpoint *end)
{
    if (datagram->group)
        return end->ud->is_member[datagram->v6];
    return datagram->to_qpn == end->qpn && datagram->to == end->number;
}

/* Returns whether the GRH is the received IP header; an IPv4 header is in the second half. */
static bool is_grh(const struct sim_endpoint *end, const struct sim_datagram *datagram,
                   const uint8_t *grh)
{
    const struct uro_gid from =
        sim_endpoint_address(member(end, datagram->from), datagram->v6).dest;
    const struct uro_gid to = dest_of(end, datagram);

    if (datagram->v6)
        return grh[0] >> 4 == 6 && memcmp(grh + 8, from.octets, sizeof from.octets) == 0 &&
               memcmp(grh + 24, to.octets, sizeof to.octets) == 0;
    return grh[20] == 0x45 && memcmp(grh + 32, from.octets + 12, 4) == 0 &&
           memcmp(grh + 36, to.octets + 12, 4) == 0;
}

static bool could_be(const struct sim_endpoint *end, const struct sim_datagram *datagram,
                     const struct uro_cqe *cqe, const uint8_t *octets)
{
    return datagram->deliverable && datagram->from_qpn == cqe->source_qpn && is_to(datagram, end) &&
           datagram->taken[end->number] < copies(end, datagram) &&
           cqe->byte_len == SIM_GRH + datagram->length &&
           !(cqe->flags & URO_WC_WITH_IMM) == !datagram->has_imm &&
           (!datagram->has_imm || cqe->imm == datagram->imm) && is_grh(end, datagram, octets) &&
           sim_model_holds(octets + SIM_GRH, datagram->length, datagram->seed);
}

static void take(struct sim_endpoint *end, const struct sim_receive *place,
                 const struct uro_cqe *cqe)
{
    const struct sim_recv *recv = place->recv;
    struct sim_workload *load = end->load;
    uint8_t octets[ROOM_MAX];

    if (cqe->opcode != URO_WC_RECV || !(cqe->flags & URO_WC_GRH) || cqe->byte_len > recv->room ||
        cqe->byte_len < SIM_GRH) {
        sim_endpoint_fail(end, "receive", place->number, "does not look like a datagram");
        return;
    }
    URO_ASSERT(recv->room <= sizeof octets);
    sim_memory_gather(place->memory, SIM_MEMORY_RECVS, place->slot, &recv->layout, octets);
    for (uint32_t i = cqe->byte_len; i < recv->room; i++)
        if (octets[i] != SIM_MEMORY_CANARY)
            sim_endpoint_fail(end, "receive", place->number, "was written to behind the datagram");
    for (uint32_t i = load->datagram_count; i-- > 0;) {
        if (!could_be(end, &load->datagrams[i], cqe, octets))
            continue;
        load->datagrams[i].taken[end->number]++;
        end->messages_taken++;
        return;
    }
    sim_endpoint_fail(end, "receive", place->number,
                      "is none of what was written and can come now");
}

/* ---- the family ---- */

static void init(struct sim_endpoint *end, unsigned index)
{
    const struct sim_workload *load = end->load;

    URO_ASSERT(index == 0);
    end->type = URO_QPT_UD;
    end->number = end->life->number;
    end->pd = load->pds + PD_FIRST + end->number;
    end->ud = aligned_alloc(_Alignof(struct sim_ud_state), sizeof *end->ud);
    URO_ASSERT(end->ud != NULL);
    *end->ud = (struct sim_ud_state){ 0 };
    end->qkey = uro_rng_u32(&end->rng) & QKEY_MASK;
    if (load->plan->groups) /* or a group could not be sent to */
        end->qkey = (uint32_t)load->plan->seed & QKEY_MASK;
}

const struct sim_endpoint_ops sim_ud_ops = {
    .family = "UD party",
    .own_cq = true,
    .alone = true,
    .unsupported = URO_WR_RDMA_WRITE,
    .init = init,
    .begin = begin,
    .make = make,
    .worked = worked,
    .stop = stop,
    .stopped = stopped,
    .can_send = can_send,
    .choose = choose,
    .fill = fill,
    .confirm = confirm,
    .expected = sim_judge_expected,
    .on_error = sim_judge_stop_queue,
    .on_progress = sim_life_on_progress,
    .take = take,
    .wire = check_frame,
    .recv_room = recv_room,
    .recv_expected = sim_judge_bad_lkey,
};
