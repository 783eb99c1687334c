/* SPDX-License-Identifier: BSD-3-Clause */
/* uc.c - unreliable connections: two ends that send each other what may be lost; see endpoint.h. */
#include "sim/work/endpoint.h"

#include "core/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/workload.h"

#define ADDRESS_SPACE UINT64_C(0x400000000000) /* beyond those of reliable connections */
#define ADDRESS_STEP  UINT64_C(0x1000000000)
#define LIFE_STEP     UINT64_C(0x10000000)
#define PD_FIRST      2000u
#define PORT          1u
#define NAME_ROOM     8u /* bytes that tell one message from another */

static const struct sim_plan_pair *plan_of(const struct sim_endpoint *endpoint)
{
    return endpoint->life->plan;
}

/* ---- lives ------------------------------------------------------------------------------------- */

static void begin(struct sim_endpoint *endpoint)
{
    struct uro_rng *rng = &endpoint->rng;

    endpoint->sends_left = sim_world_between(rng, 1, endpoint->plan->sends);
    endpoint->wire_psn = uro_rng_below(rng, 2) == 0 ? URO_PSN_MASK - uro_rng_below(rng, 20)
                                                    : uro_rng_below(rng, URO_PSN_MASK + 1);
}

static void make_memory(struct sim_endpoint *endpoint)
{
    const struct sim_plan_end *plan = endpoint->plan;
    uint32_t message_max = plan_of(endpoint)->message_max;
    uint32_t message = sim_memory_room(message_max, plan->send_sges);
    uint32_t window = (message_max + 2 * SIM_MEMORY_GUARD + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity, message },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity, message },
        [SIM_MEMORY_WINDOWS] = { SIM_REQUESTS_MAX, window },
    };
    struct uro_shard *shard = sim_endpoint_shard(endpoint);

    sim_memory_init(&endpoint->memory, sizes,
                    ADDRESS_SPACE + endpoint->number * ADDRESS_STEP +
                        endpoint->life->life * LIFE_STEP,
                    &endpoint->rng);
    sim_memory_register(&endpoint->memory, shard, SIM_MEMORY_SENDS, endpoint->pd, 0);
    sim_memory_register(&endpoint->memory, shard, SIM_MEMORY_RECVS, endpoint->pd,
                        URO_ACCESS_LOCAL_WRITE);
    sim_memory_register(&endpoint->memory, shard, SIM_MEMORY_WINDOWS, endpoint->pd,
                        URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE);
}

static void make(struct sim_endpoint *endpoint)
{
    make_memory(endpoint);
    if (endpoint->qp == NULL)
        sim_endpoint_create_unreliable(endpoint);
}

static void connect(struct sim_endpoint *endpoint)
{
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = PORT,
                                .access = URO_ACCESS_REMOTE_WRITE };

    sim_endpoint_modify(endpoint, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    attr = (struct uro_qp_attr){
        .state = URO_QPS_RTR,
        .path_mtu = plan_of(endpoint)->path_mtu,
        .rq_psn = endpoint->peer->wire_psn,
        .dest_qpn = endpoint->peer->qpn,
        .address = sim_endpoint_address(endpoint->peer, plan_of(endpoint)->v6),
    };
    sim_endpoint_modify(endpoint, &attr,
                        URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN);
}

static void start(struct sim_endpoint *endpoint)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_RTS, .sq_psn = endpoint->wire_psn };

    sim_endpoint_modify(endpoint, &attr, URO_ATTR_SQ_PSN);
}

static bool worked(const struct sim_endpoint *endpoint)
{
    const struct uro_wq *send = uro_qp_send_queue(endpoint->qp);

    return endpoint->sends_left == 0 && endpoint->messages_sent == endpoint->peer->messages_taken &&
           endpoint->signalled <= endpoint->confirmed && uro_wq_head(send) == uro_wq_tail(send);
}

static void on_progress(struct sim_endpoint *endpoint)
{
    sim_life_on_progress(endpoint->life);
}

static void stop(struct sim_endpoint *endpoint)
{
    (void)endpoint;
}

/* ---- what to ask for --------------------------------------------------------------------------- */

/* In the last life nothing is sent that would find no receive. */
static bool can_send(const struct sim_endpoint *endpoint)
{
    return !endpoint->life->last_life || endpoint->messages_sent < endpoint->peer->recv_posted;
}

static void choose_fault(struct sim_endpoint *endpoint, struct sim_request *request)
{
    static const enum sim_fault faults[] = { SIM_FAULT_BAD_RKEY, SIM_FAULT_BAD_LKEY,
                                             SIM_FAULT_UNSUPPORTED };

    if (endpoint->life->last_life ||
        !sim_world_chance(&endpoint->rng, plan_of(endpoint)->inject_share))
        return;
    request->fault = faults[uro_rng_below(&endpoint->rng, URO_ARRAY_LEN(faults))];
    if (request->fault == SIM_FAULT_BAD_RKEY && request->opcode != URO_WR_RDMA_WRITE)
        request->opcode = URO_WR_RDMA_WRITE_WITH_IMM;
}

static void aim(const struct sim_endpoint *endpoint, struct sim_request *request)
{
    const struct sim_memory *there = &endpoint->peer->memory;

    request->window = (uint32_t)request->number;
    request->remote_address =
        sim_memory_address(there, SIM_MEMORY_WINDOWS, request->window) + request->at;
    request->rkey = uro_key_number(&there->keys[SIM_MEMORY_WINDOWS]);
    if (request->fault == SIM_FAULT_BAD_RKEY)
        request->rkey ^= SIM_BAD_KEY;
}

static bool choose(struct sim_endpoint *endpoint, struct sim_request *request)
{
    static const uint8_t opcodes[] = { URO_WR_SEND, URO_WR_SEND_WITH_IMM, URO_WR_RDMA_WRITE,
                                       URO_WR_RDMA_WRITE_WITH_IMM };
    const struct sim_plan_pair *plan = plan_of(endpoint);
    struct uro_rng *rng = &endpoint->rng;

    request->opcode = opcodes[uro_rng_below(rng, 4)];
    request->length = uro_rng_below(rng, plan->message_max + 1);
    request->imm = uro_rng_u32(rng);
    request->seed = uro_rng_u64(rng);
    if (uro_rng_below(rng, 4) == 0)
        request->length =
            plan->path_mtu * uro_rng_below(rng, plan->message_max / plan->path_mtu + 1);
    choose_fault(endpoint, request);
    if (request->length < NAME_ROOM && request->opcode == URO_WR_SEND && plan->inject_share > 0)
        request->length = NAME_ROOM; /* or nobody could say which one was flushed */
    if (request->length == 0 && request->fault != SIM_FAULT_UNSUPPORTED)
        request->fault = SIM_FAULT_NONE;
    request->at = uro_rng_below(rng, SIM_MEMORY_GUARD);
    sim_post_choose_flags(endpoint, request, request->fault == SIM_FAULT_NONE);
    sim_memory_scatter(&request->layout, request->length, endpoint->plan->send_sges, rng);
    aim(endpoint, request);
    endpoint->messages_sent += sim_model_is_message(request->opcode);
    return true;
}

/* ---- frames ------------------------------------------------------------------------------------ */

static uint32_t packets_of(const struct sim_endpoint *endpoint, const struct sim_request *request)
{
    return sim_model_packets(request->length, plan_of(endpoint)->path_mtu);
}

/* Whether the frame is packet @index of the request. */
static bool is_packet(const struct sim_endpoint *endpoint, const struct sim_request *request,
                      uint32_t index, const struct uro_frame *frame)
{
    uint32_t mtu = plan_of(endpoint)->path_mtu;
    uint32_t packets = packets_of(endpoint, request);
    uint32_t left = request->length - index * mtu;
    bool imm = index + 1 == packets && sim_model_has_imm(request->opcode);

    if (frame->op->verb != sim_model_operation(request->opcode) ||
        frame->op->place != sim_model_place(index, packets) ||
        !(frame->op->ext & URO_EXT_IMM) != !imm || (imm && frame->imm != request->imm))
        return false;
    if (frame->op->ext & URO_EXT_RETH &&
        (frame->reth.length != request->length || frame->reth.va != request->remote_address))
        return false;
    return sim_model_carries(frame, index * mtu, left < mtu ? left : mtu, request->seed);
}

static void check_frame(struct sim_endpoint *endpoint, const struct uro_frame *frame)
{
    if (frame->bth.psn != endpoint->wire_psn || frame->bth.ack_req) {
        sim_endpoint_fail(endpoint, "frame", frame->bth.psn,
                          "has another PSN than is due, or asks for an answer");
        return;
    }
    if (endpoint->drain.drained)
        sim_endpoint_fail(endpoint, "frame", frame->bth.psn, "is sent in SQD after SQ_DRAINED");
    endpoint->wire_psn = (endpoint->wire_psn + 1) & URO_PSN_MASK;
    for (; endpoint->wire_next < endpoint->posted; endpoint->wire_next++) {
        struct sim_request *request = sim_request_of(endpoint, endpoint->wire_next);
        if (!sim_judge_stops(request) && is_packet(endpoint, request, request->sent, frame)) {
            bool last = ++request->sent == packets_of(endpoint, request);
            bool solicits = last && sim_model_is_message(request->opcode) &&
                            (request->flags & URO_SEND_SOLICITED);
            if (frame->bth.solicited != solicits)
                sim_endpoint_fail(endpoint, "frame", frame->bth.psn,
                                  "has the wrong solicited event bit");
            if (request->flushed)
                sim_endpoint_fail(endpoint, "send", request->number,
                                  "was flushed and is sent after that");
            endpoint->wire_next += last;
            return;
        }
        if (request->sent > 0)
            break;
    }
    sim_endpoint_fail(endpoint, "frame", frame->bth.psn, "is not the next of what was asked for");
}

bool sim_uc_wire(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame)
{
    for (uint32_t i = 0; i < 2 * load->plan->uc_count; i++) {
        struct sim_endpoint *endpoint = &load->ucs[i / 2].ends[i % 2];
        if (!endpoint->alive || endpoint->host != host ||
            endpoint->peer->qpn != frame->bth.dest_qpn)
            continue;
        if (!sim_host_swallows(host))
            check_frame(endpoint, frame);
        return true;
    }
    return false;
}

/* ---- completions ------------------------------------------------------------------------------- */

static void confirm(struct sim_endpoint *endpoint, const struct sim_request *request)
{
    if (!sim_host_swallows(endpoint->host) && request->sent != packets_of(endpoint, request))
        sim_endpoint_fail(endpoint, "send", request->number, "succeeded and was not sent");
}

static bool expected(const struct sim_endpoint *endpoint, const struct sim_request *request,
                     uint8_t status)
{
    (void)endpoint;
    return sim_judge_stops(request) && status == sim_judge_status(request);
}

static const struct sim_cable_config *cable_to(const struct sim_endpoint *endpoint)
{
    return endpoint->host == endpoint->peer->host
               ? NULL
               : &endpoint->load->plan->cables[endpoint->peer->side];
}

/* How often a message may arrive: as often as the network makes copies of it. */
static uint32_t copies(const struct sim_endpoint *endpoint)
{
    return cable_to(endpoint) != NULL && cable_to(endpoint)->duplicate > 0 ? 2 : 1;
}

static bool could_be(const struct sim_endpoint *endpoint, const struct sim_request *request,
                     const struct sim_place *place, const struct uro_cqe *cqe)
{
    bool writes = sim_model_is_write(request->opcode);
    bool has_imm = sim_model_has_imm(request->opcode);

    if (request->fault != SIM_FAULT_NONE || !sim_model_is_message(request->opcode) ||
        request->taken >= copies(endpoint) || cqe->byte_len != request->length ||
        !(cqe->flags & URO_WC_WITH_IMM) != !has_imm ||
        cqe->opcode != (writes ? URO_WC_RECV_RDMA_WITH_IMM : URO_WC_RECV) ||
        (has_imm && cqe->imm != request->imm) || (!writes && place->recv->room < request->length))
        return false;
    return writes || sim_memory_holds(place->memory, SIM_MEMORY_RECVS, place->slot,
                                      &place->recv->layout, request->length, request->seed);
}

static bool window_holds(struct sim_endpoint *endpoint, const struct sim_request *request)
{
    const struct sim_memory_layout layout = { .count = 1,
                                              .pieces = { { request->at, request->length } } };
    uint32_t at;

    return sim_memory_check(&endpoint->memory, SIM_MEMORY_WINDOWS, request->window, &layout,
                            request->length, request->seed, &at);
}

static void take(struct sim_endpoint *endpoint, const struct sim_place *place,
                 const struct uro_cqe *cqe)
{
    bool in_order = cable_to(endpoint) == NULL || cable_to(endpoint)->keep_order;

    for (uint64_t i = in_order ? endpoint->taken_last : 0; i < endpoint->peer->posted; i++) {
        struct sim_request *request = sim_request_of(endpoint->peer, i);
        if (!could_be(endpoint, request, place, cqe))
            continue;
        if (sim_model_is_write(request->opcode) && !window_holds(endpoint, request))
            sim_endpoint_fail(endpoint, "receive", place->number, "came before its octets");
        request->taken++;
        endpoint->messages_taken++;
        endpoint->taken_last = i;
        return;
    }
    sim_endpoint_fail(endpoint, "receive", place->number,
                      "is none of what was sent and can come now");
}

/* ---- memory ------------------------------------------------------------------------------------ */

/* Bytes are as they were or as they were written; nothing beside them changed. */
static bool is_mixture(struct sim_endpoint *endpoint, const struct sim_request *request)
{
    const struct sim_memory_layout layout = { .count = 1,
                                              .pieces = { { request->at, request->length } } };
    const uint8_t *there =
        sim_memory_slot(&endpoint->memory, SIM_MEMORY_WINDOWS, request->window) + request->at;
    uint8_t octet;
    uint32_t at;

    if (!sim_memory_check_around(&endpoint->memory, SIM_MEMORY_WINDOWS, request->window, &layout,
                                 &at))
        return false;
    for (uint32_t i = 0; i < request->length; i++) {
        sim_memory_message(&octet, i, 1, request->seed);
        if (there[i] != octet && there[i] != SIM_MEMORY_CANARY)
            return false;
    }
    return true;
}

static bool is_untouched(struct sim_endpoint *endpoint, uint32_t window)
{
    const struct sim_memory_layout nothing = { .count = 0 };
    uint32_t at;

    return sim_memory_check(&endpoint->memory, SIM_MEMORY_WINDOWS, window, &nothing, 0, 0, &at);
}

static void check_memory(struct sim_endpoint *endpoint)
{
    for (uint32_t i = 0; i < SIM_REQUESTS_MAX; i++) {
        const struct sim_request *request = sim_request_of(endpoint->peer, i);
        bool written = i < endpoint->peer->posted && sim_model_is_write(request->opcode) &&
                       request->fault == SIM_FAULT_NONE;
        bool whole =
            written && (endpoint->life->last_life || request->taken > 0) && !request->flushed;
        if (written ? !is_mixture(endpoint, request) : !is_untouched(endpoint, i))
            sim_endpoint_fail(endpoint, "window", i, "is not what was written, nor what was there");
        else if (whole && !window_holds(endpoint, request))
            sim_endpoint_fail(endpoint, "window", i, "is not what was written");
    }
}

static const struct sim_endpoint_ops ops = {
    .family = "UC",
    .unsupported = URO_WR_RDMA_READ,
    .begin = begin,
    .make = make,
    .connect = connect,
    .start = start,
    .worked = worked,
    .stop = stop,
    .check_memory = check_memory,
    .can_send = can_send,
    .choose = choose,
    .confirm = confirm,
    .expected = expected,
    .on_error = sim_judge_stop_queue,
    .on_progress = on_progress,
    .take = take,
    .recv_expected = sim_judge_bad_lkey,
};

void sim_uc_init(struct sim_life *life, struct sim_workload *load, uint32_t number)
{
    life->load = load;
    life->plan = &load->plan->ucs[number];
    life->number = number;
    life->count = 2;
    life->rng = &life->own_rng;
    uro_rng_init_number(life->rng, life->plan->seed);
    for (unsigned i = 0; i < 2; i++) {
        struct sim_endpoint *endpoint = &life->ends[i];
        endpoint->ops = &ops;
        endpoint->type = URO_QPT_UC;
        endpoint->life = life;
        endpoint->peer = &life->ends[!i];
        endpoint->load = load;
        endpoint->side = life->plan->sides[i];
        endpoint->host = load->hosts[endpoint->side];
        endpoint->plan = &life->plan->ends[i];
        endpoint->number = number * 2 + i;
        endpoint->pd = load->pds + PD_FIRST + endpoint->number;
        uro_rng_init_number(&endpoint->rng, uro_rng_u64(life->rng));
        sim_post_init_unreliable(endpoint);
    }
    sim_life_init(life, load);
}
