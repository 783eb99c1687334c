/* SPDX-License-Identifier: BSD-3-Clause */
/* ud.c - queue pairs that send datagrams to each other and to groups; see endpoint.h.
 *
 * A datagram is kept until the end of the run, since it may arrive after both queue pairs are gone.
 * The last life of a queue pair has no faults: they have stopped, or its link is clean. Datagrams
 * that are sent then arrive exactly once.
 */
#include "sim/work/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/oracle/model.h"
#include "sim/work/workload.h"

#define PD_FIRST   3000u
#define NAME_SIZE  8u /* first bytes of a datagram, which identify the datagram */
#define PRIVILEGED 0x80000000u
#define QKEY_MASK  0x7fffffffu
#define HOP_LIMIT  64u
#define ROOM_MAX   (5u * UROCE_PATH_MTU_MAX) /* largest receive, also of a shared queue */

struct sim_datagram {
    uint32_t from_qpn;
    uint32_t to_qpn;
    uint32_t qkey;
    uint32_t from; /* number of the queue pair */
    uint32_t to;
    bool group; /* sent to the group of its IP version, whose members all receive it */
    bool v6;
    bool deliverable;
    bool has_imm;
    uint32_t imm;
    uint32_t length;
    uint64_t seed;
    uint32_t taken[SIM_PLAN_PARTIES_MAX]; /* number of times that each queue pair received it */
};

struct sim_ud_state {
    /* Address handles for each queue pair, IPv4 and IPv6. */
    struct uroce_ah *handles[SIM_PLAN_PARTIES_MAX][2];
    struct uroce_ah *group_handles[2];
    bool is_member[2];
    uint32_t expected; /* datagrams that must arrive in this life */
};

static uint32_t party_count(const struct sim_endpoint *end)
{
    return end->workload->plan->party_count;
}

static struct sim_endpoint *member(const struct sim_endpoint *end, uint32_t number)
{
    return &end->workload->parties[number].ends[0];
}

/* Returns the workload's group. */
static struct uro_gid group_of(const struct sim_workload *workload, bool v6)
{
    uint8_t number = (uint8_t)workload->number;
    const uint8_t ipv4[4] = { 239, 1, 2, (uint8_t)(3 + number) };
    const struct uro_gid ipv6 = { { 0xff, 0x15, [15] = (uint8_t)(0x77 + number) } };

    return v6 ? ipv6 : uro_gid_from_ipv4(ipv4);
}

static struct sim_datagram *datagram_of(const struct sim_endpoint *end,
                                        const struct sim_request *request)
{
    return &end->workload->datagrams[request->message];
}

static struct uro_gid dest_of(const struct sim_endpoint *end, const struct sim_datagram *datagram)
{
    return datagram->group ? group_of(end->workload, datagram->v6)
                           : member(end, datagram->to)->host->gids[datagram->v6 ? 0 : 1];
}

/* ---- groups ---- */

static void make_handle(struct sim_endpoint *end, struct uroce_ah **handle,
                        const struct uroce_address *address)
{
    struct sim_world *world = end->world;
    int result = uroce_ah_create(end->pd, address, world->now, handle);

    if (result != 0)
        sim_world_fail(world, "no address handle can be made: %d", result);
}

static void destroy_handle(struct uroce_ah **handle)
{
    if (*handle != NULL)
        (void)!uroce_ah_destroy(*handle);
    *handle = NULL;
}

static void begin_groups(struct sim_endpoint *end)
{
    for (unsigned v6 = 0; v6 < 2 && end->workload->plan->groups; v6++) {
        const struct uro_gid group = group_of(end->workload, v6 != 0);
        struct uroce_address address = { .sgid_index = v6 ? 0 : 1, .hop_limit = HOP_LIMIT };
        memcpy(address.gid, group.octets, sizeof address.gid);
        make_handle(end, &end->ud->group_handles[v6], &address);
        if (uro_rng_below(&end->rng, 3) == 0)
            continue;
        if (uroce_qp_attach(end->qp, group.octets, end->world->now) != 0)
            sim_world_fail(end->world, "UD party %u: a group could not be joined", end->number);
        end->ud->is_member[v6] = true;
        sim_world_note(end->world, "UD qp 0x%06x joins the IPv%c group", end->qpn, v6 ? '6' : '4');
    }
}

/* Leaves the groups. */
static void stop(struct sim_endpoint *end)
{
    struct sim_ud_state *ud = end->ud;

    for (unsigned v6 = 0; v6 < 2 && end->workload->plan->groups; v6++) {
        const struct uro_gid group = group_of(end->workload, v6 != 0);
        destroy_handle(&ud->group_handles[v6]);
        if (ud->is_member[v6] && uroce_qp_detach(end->qp, group.octets, end->world->now) != 0)
            sim_world_fail(end->world, "UD party %u: a group could not be left", end->number);
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

static void make(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity,
                               sim_memory_slot_size(UROCE_PATH_MTU_MAX + 1, plan->send_sges), 0 },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity,
                               sim_memory_slot_size(SIM_GRH + UROCE_PATH_MTU_MAX, plan->recv_sges),
                               UROCE_ACCESS_LOCAL_WRITE },
    };

    sim_endpoint_make_memory(end, 3, sizes);
    /* Datagrams to the old QPN may still arrive, and would take receives that the last life
     * needs. */
    if (end->qp != NULL && end->life->last_life)
        sim_endpoint_destroy(end);
    sim_endpoint_create(end);
    for (uint32_t i = 0; i < party_count(end); i++) {
        for (unsigned v6 = 0; v6 < 2; v6++) {
            const struct uroce_address address = sim_endpoint_address(member(end, i), v6 != 0);
            make_handle(end, &end->ud->handles[i][v6], &address);
        }
    }
    begin_groups(end);
}

static void stopped(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < party_count(end); i++)
        for (unsigned v6 = 0; v6 < 2; v6++)
            destroy_handle(&end->ud->handles[i][v6]);
}

static void release(struct sim_endpoint *end)
{
    stopped(end);
    destroy_handle(&end->ud->group_handles[0]);
    destroy_handle(&end->ud->group_handles[1]);
}

static bool worked(const struct sim_endpoint *end)
{
    return sim_endpoint_worked(end) && end->messages_taken >= end->ud->expected;
}

/* ---- what to send ---- */

/* Returns a destination for a datagram, or NULL. In the last life, a destination must have a free
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

static struct sim_datagram *new_datagram(struct sim_workload *workload)
{
    if (workload->datagram_count == workload->datagram_capacity) {
        workload->datagram_capacity = workload->datagram_capacity * 2 + 256;
        workload->datagrams = sim_realloc(workload->datagrams, workload->datagram_capacity *
                                                                   sizeof *workload->datagrams);
    }
    return &workload->datagrams[workload->datagram_count++];
}

static uint32_t choose_length(struct sim_endpoint *end, enum sim_fault fault)
{
    const struct sim_plan_pair *plan = end->life->plan;
    struct uro_rng *rng = &end->rng;

    if (fault == SIM_FAULT_TOO_LONG)
        return UROCE_PATH_MTU_MAX + 1;
    if (uro_rng_below(rng, 8) == 0)
        return UROCE_PATH_MTU_MAX;
    if (uro_rng_below(rng, 8) == 0)
        return plan->inject_probability == 0 ? 0 : NAME_SIZE;
    return sim_world_between(rng, NAME_SIZE, plan->message_max);
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
    struct sim_workload *workload = end->workload;
    struct uro_rng *rng = &end->rng;
    struct sim_endpoint *to = addressee(end, uro_rng_below(rng, party_count(end)));
    bool v6 = uro_rng_below(rng, 2) == 0;
    bool group = workload->plan->groups && !sim_endpoint_in_error(end) &&
                 uro_rng_below(rng, 3) == 0 && (!end->life->last_life || group_is_ready(end, v6));

    if (to == NULL) /* a late request, flushed in ERR */
        to = end;
    request->message = workload->datagram_count;
    request->fault = choose_fault(end);
    struct sim_datagram *datagram = new_datagram(workload);
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
    request->opcode = datagram->has_imm ? UROCE_SEND_WITH_IMM : UROCE_SEND;
    request->imm = datagram->imm;
    request->length = datagram->length;
    request->seed = datagram->seed;
    sim_post_choose_flags(end, request, request->fault != SIM_FAULT_BAD_LKEY);
    sim_buffer_scatter(&request->buffer, request->length, end->plan->send_sges, rng);
    return true;
}

/* Returns the number of a handle that was destroyed or belongs to another protection domain. */
static uint32_t no_handle(struct sim_endpoint *end)
{
    const struct sim_endpoint *other = member(end, uro_rng_below(&end->rng, party_count(end)));

    if (other->pd != end->pd && other->alive && other->host == end->host)
        return sim_inside_ah_number(other->ud->handles[0][0]);

    const struct uroce_address address = sim_endpoint_address(end, true);
    struct uroce_ah *handle;

    make_handle(end, &handle, &address);
    uint32_t number = sim_inside_ah_number(handle);
    destroy_handle(&handle);
    return number;
}

static void fill(struct sim_endpoint *end, const struct sim_request *request,
                 struct uroce_send *send)
{
    const struct sim_datagram *datagram = &end->workload->datagrams[request->message];
    struct sim_ud_state *ud = end->ud;
    bool own = datagram->qkey == end->qkey && uro_rng_below(&end->rng, 2) == 0;

    send->ah =
        datagram->group ? ud->group_handles[datagram->v6] : ud->handles[datagram->to][datagram->v6];
    send->remote_qpn = datagram->to_qpn;
    send->remote_qkey = own ? PRIVILEGED | uro_rng_u32(&end->rng) : datagram->qkey;
}

static void spoil(struct sim_endpoint *end, const struct sim_request *request)
{
    if (request->fault == SIM_FAULT_NO_HANDLE)
        sim_inside_set_ah(end->qp, no_handle(end));
}

static uint32_t recv_size(struct sim_endpoint *end)
{
    (void)end;
    return SIM_GRH + UROCE_PATH_MTU_MAX;
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
            /* The datagram was not sent over the cable, or was flushed. Its completion must have
             * the matching status. */
            continue;
        request->sent = 1;
        if (request->flushed)
            sim_endpoint_fail(end, "send", request->number, "is sent after it was flushed");
        if (!frame->bth.solicited != !(request->flags & UROCE_SOLICITED) || frame->bth.ack_req)
            sim_endpoint_fail(end, "frame", frame->bth.psn,
                              "has a wrong solicited event bit, or requests an ACK");
        end->wire_next++;
        return;
    }
    sim_endpoint_fail(end, "frame", frame->bth.psn, "is not the next packet of a posted request");
}

/* ---- sends ---- */

static void confirm(struct sim_endpoint *end, const struct sim_request *request)
{
    const struct sim_datagram *datagram = datagram_of(end, request);
    bool local = !datagram->group && member(end, datagram->to)->host == end->host;

    if (request->sent == 0 && !local && !sim_host_swallows(end->host))
        sim_endpoint_fail(end, "send", request->number, "succeeded but was not sent");
}

/* ---- receives ---- */

/* Returns how often a datagram may arrive: the network may copy it. */
static uint32_t copies(const struct sim_endpoint *to, const struct sim_datagram *datagram)
{
    const struct sim_endpoint *from = member(to, datagram->from);

    return from->host != to->host &&
                   to->workload->plan->cables[from->side].duplicate_probability > 0
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
    const struct uro_gid from = member(end, datagram->from)->host->gids[datagram->v6 ? 0 : 1];
    const struct uro_gid to = dest_of(end, datagram);

    if (datagram->v6)
        return grh[0] >> 4 == 6 && memcmp(grh + 8, from.octets, sizeof from.octets) == 0 &&
               memcmp(grh + 24, to.octets, sizeof to.octets) == 0;
    return grh[20] == 0x45 && memcmp(grh + 32, from.octets + 12, 4) == 0 &&
           memcmp(grh + 36, to.octets + 12, 4) == 0;
}

static bool could_be(const struct sim_endpoint *end, const struct sim_datagram *datagram,
                     const struct uroce_completion *cqe, const uint8_t *bytes)
{
    return datagram->deliverable && datagram->from_qpn == cqe->source_qpn && is_to(datagram, end) &&
           datagram->taken[end->number] < copies(end, datagram) &&
           cqe->length == SIM_GRH + datagram->length &&
           !(cqe->flags & UROCE_COMPLETION_WITH_IMM) == !datagram->has_imm &&
           (!datagram->has_imm || cqe->imm == datagram->imm) && is_grh(end, datagram, bytes) &&
           sim_model_holds(bytes + SIM_GRH, datagram->length, datagram->seed);
}

static void take(struct sim_endpoint *end, const struct sim_receive *receive)
{
    const struct uroce_completion *cqe = receive->cqe;
    const struct sim_recv *recv = receive->recv;
    struct sim_workload *workload = end->workload;
    uint8_t bytes[ROOM_MAX];

    if (cqe->opcode != UROCE_DONE_RECV || !(cqe->flags & UROCE_COMPLETION_GRH) ||
        cqe->length > recv->size || cqe->length < SIM_GRH) {
        sim_receive_fail(end, receive, "does not look like a datagram");
        return;
    }
    URO_ASSERT(recv->size <= sizeof bytes);
    sim_buffer_gather(&recv->buffer, bytes);
    for (uint32_t i = cqe->length; i < recv->size; i++)
        if (bytes[i] != SIM_MEMORY_CANARY)
            sim_receive_fail(end, receive, "has data after the end of the datagram");
    for (uint32_t i = workload->datagram_count; i-- > 0;) {
        if (!could_be(end, &workload->datagrams[i], cqe, bytes))
            continue;
        workload->datagrams[i].taken[end->number]++;
        end->messages_taken++;
        return;
    }
    sim_receive_fail(end, receive, "is not a datagram that was sent and can arrive now");
}

/* ---- the family ---- */

static void init(struct sim_endpoint *end, unsigned index)
{
    const struct sim_workload *workload = end->workload;

    URO_ASSERT(index == 0);
    end->type = UROCE_UD;
    end->number = end->life->number;
    end->pd = sim_host_pd(end->host, workload->pds + PD_FIRST + end->number);
    end->ud = sim_alloc(sizeof *end->ud);
    end->qkey = uro_rng_u32(&end->rng) & QKEY_MASK;
    if (workload->plan->groups) /* all members of a group need the same Q_Key */
        end->qkey = (uint32_t)workload->plan->seed & QKEY_MASK;
}

const struct sim_endpoint_ops sim_ud_ops = {
    .family = "UD party",
    .own_cq = true,
    .alone = true,
    .unsupported = UROCE_RDMA_WRITE,
    .init = init,
    .begin = begin,
    .make = make,
    .worked = worked,
    .stop = stop,
    .stopped = stopped,
    .release = release,
    .can_send = can_send,
    .choose = choose,
    .fill = fill,
    .spoil = spoil,
    .confirm = confirm,
    .expected = sim_judge_expected,
    .on_error = sim_judge_stop_queue,
    .on_progress = sim_life_on_progress,
    .take = take,
    .wire = check_frame,
    .recv_size = recv_size,
    .recv_expected = sim_judge_bad_lkey,
};
