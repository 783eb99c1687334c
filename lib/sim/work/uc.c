/* SPDX-License-Identifier: BSD-3-Clause */
/* uc.c - unreliable connections; see endpoint.h. A message arrives whole or not at all. The last
 * life has no faults: all its messages must arrive.
 */
#include "sim/work/endpoint.h"

#include "sim/oracle/model.h"
#include "sim/work/workload.h"

#define PD_FIRST  2000u
#define NAME_SIZE 8u /* first bytes of a message, which identify the message */

/* ---- lives ---- */

static void begin(struct sim_endpoint *end)
{
    struct uro_rng *rng = &end->rng;

    end->sends_left = sim_world_between(rng, 1, end->plan->sends);
    end->wire_psn = uro_rng_below(rng, 2) == 0 ? SIM_PSN_MASK - uro_rng_below(rng, 20)
                                               : uro_rng_below(rng, SIM_PSN_MASK + 1);
}

static void make(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    uint32_t message_max = end->life->plan->message_max;
    uint32_t window = (message_max + 2 * SIM_MEMORY_GUARD + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity,
                               sim_memory_slot_size(message_max, plan->send_sges), 0 },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity,
                               sim_memory_slot_size(message_max, plan->recv_sges),
                               UROCE_ACCESS_LOCAL_WRITE },
        [SIM_MEMORY_WINDOWS] = { SIM_REQUESTS_MAX, window,
                                 UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE },
    };

    sim_endpoint_make_memory(end, 2, sizes);
    sim_endpoint_create(end);
}

/* ---- requests ---- */

/* Returns whether the endpoint may send. In the last life every message must find a receive. */
static bool can_send(const struct sim_endpoint *end)
{
    return !end->life->last_life || end->messages_sent < end->peer->recv_posted;
}

static void choose_fault(struct sim_endpoint *end, struct sim_request *request)
{
    static const enum sim_fault faults[] = { SIM_FAULT_BAD_RKEY, SIM_FAULT_BAD_LKEY,
                                             SIM_FAULT_UNSUPPORTED };

    if (end->life->last_life || !sim_world_chance(&end->rng, end->life->plan->inject_probability))
        return;
    request->fault = faults[uro_rng_below(&end->rng, URO_ARRAY_LEN(faults))];
    if (request->fault == SIM_FAULT_BAD_RKEY && request->opcode != UROCE_RDMA_WRITE)
        request->opcode = UROCE_RDMA_WRITE_WITH_IMM;
}

static void aim(const struct sim_endpoint *end, struct sim_request *request)
{
    const struct sim_memory *there = &end->peer->memory;

    request->window = (uint32_t)request->number;
    request->remote_address =
        sim_memory_address(there, SIM_MEMORY_WINDOWS, request->window) + request->offset;
    request->rkey = sim_memory_key(there, SIM_MEMORY_WINDOWS);
    if (request->fault == SIM_FAULT_BAD_RKEY)
        request->rkey ^= SIM_BAD_KEY;
}

static bool choose(struct sim_endpoint *end, struct sim_request *request)
{
    static const uint8_t opcodes[] = { UROCE_SEND, UROCE_SEND_WITH_IMM, UROCE_RDMA_WRITE,
                                       UROCE_RDMA_WRITE_WITH_IMM };
    const struct sim_plan_pair *plan = end->life->plan;
    struct uro_rng *rng = &end->rng;

    request->opcode = opcodes[uro_rng_below(rng, 4)];
    request->length = sim_post_choose_length(end);
    request->imm = uro_rng_u32(rng);
    request->seed = uro_rng_u64(rng);
    choose_fault(end, request);
    if (request->length < NAME_SIZE && request->opcode == UROCE_SEND &&
        plan->inject_probability > 0)
        request->length = NAME_SIZE; /* identifies the message after a flush */
    if (request->length == 0 && request->fault != SIM_FAULT_UNSUPPORTED)
        request->fault = SIM_FAULT_NONE;
    request->offset = uro_rng_below(rng, SIM_MEMORY_GUARD);
    sim_post_choose_flags(end, request, request->fault == SIM_FAULT_NONE);
    sim_buffer_scatter(&request->buffer, request->length, end->plan->send_sges, rng);
    aim(end, request);
    end->messages_sent += sim_model_is(request->opcode, SIM_MESSAGE);
    return true;
}

/* ---- frames ---- */

static uint32_t packets_of(const struct sim_endpoint *end, const struct sim_request *request)
{
    return sim_model_packets(request->length, end->life->plan->path_mtu);
}

static void check_frame(struct sim_endpoint *end, const struct uro_frame *frame)
{
    if (sim_host_swallows(end->host))
        return;
    if (frame->bth.psn != end->wire_psn || frame->bth.ack_req) {
        sim_endpoint_fail(end, "frame", frame->bth.psn,
                          "does not have the next PSN, or requests an ACK");
        return;
    }
    if (end->drain.drained)
        sim_endpoint_fail(end, "frame", frame->bth.psn, "is sent in SQD after SQ_DRAINED");
    end->wire_psn = (end->wire_psn + 1) & SIM_PSN_MASK;
    for (; end->wire_next < end->posted; end->wire_next++) {
        struct sim_request *request = sim_request_of(end, end->wire_next);
        if (!sim_judge_stops(request) &&
            sim_judge_packet(request, request->sent, end->life->plan->path_mtu, frame) == NULL) {
            bool last = ++request->sent == packets_of(end, request);
            if (request->flushed)
                sim_endpoint_fail(end, "send", request->number, "is sent after it was flushed");
            end->wire_next += last;
            return;
        }
        if (request->sent > 0)
            break;
    }
    sim_endpoint_fail(end, "frame", frame->bth.psn, "is not the next packet of a posted request");
}

/* ---- completions ---- */

static void confirm(struct sim_endpoint *end, const struct sim_request *request)
{
    if (!sim_host_swallows(end->host) && request->sent != packets_of(end, request))
        sim_endpoint_fail(end, "send", request->number, "succeeded but was not sent");
}

static const struct sim_cable_config *cable_to(const struct sim_endpoint *end)
{
    return end->host == end->peer->host ? NULL : &end->workload->plan->cables[end->peer->side];
}

static bool could_be(const struct sim_endpoint *end, const struct sim_request *request,
                     const struct sim_receive *receive)
{
    bool copied = cable_to(end) != NULL && cable_to(end)->duplicate_probability > 0;

    return request->fault == SIM_FAULT_NONE && sim_model_is(request->opcode, SIM_MESSAGE) &&
           request->taken < (copied ? 2 : 1) && sim_judge_message(request, receive) == NULL &&
           (sim_model_is(request->opcode, SIM_WRITE) ||
            sim_buffer_holds(&receive->recv->buffer, request->length, request->seed));
}

static void take(struct sim_endpoint *end, const struct sim_receive *receive)
{
    bool in_order = cable_to(end) == NULL || cable_to(end)->keep_order;

    for (uint64_t i = in_order ? end->taken_last : 0; i < end->peer->posted; i++) {
        struct sim_request *request = sim_request_of(end->peer, i);
        if (!could_be(end, request, receive))
            continue;
        if (sim_model_is(request->opcode, SIM_WRITE) && !sim_judge_window(end, request))
            sim_receive_fail(end, receive, "completed before its bytes arrived");
        request->taken++;
        end->messages_taken++;
        end->taken_last = i;
        return;
    }
    sim_receive_fail(end, receive, "is not a message that was sent and can arrive now");
}

/* ---- memory ---- */

/* Returns whether each byte of the slot is the old byte or that of the request. Bytes outside the
 * request must be old. */
static bool is_mixture(struct sim_endpoint *end, const struct sim_request *request)
{
    const struct sim_buffer buffer = sim_endpoint_window(end, request);
    const uint8_t *there =
        sim_memory_slot(&end->memory, SIM_MEMORY_WINDOWS, request->window) + request->offset;
    uint8_t *whole = end->memory.scratch;

    if (!sim_buffer_check_around(&buffer))
        return false;
    sim_memory_message(whole, 0, request->length, request->seed);
    for (uint32_t i = 0; i < request->length; i++)
        if (there[i] != whole[i] && there[i] != SIM_MEMORY_CANARY)
            return false;
    return true;
}

static void check_memory(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < SIM_REQUESTS_MAX; i++) {
        const struct sim_request *request = sim_request_of(end->peer, i);
        const struct sim_buffer window = sim_buffer_at(&end->memory, SIM_MEMORY_WINDOWS, i);
        bool written = i < end->peer->posted && sim_model_is(request->opcode, SIM_WRITE) &&
                       request->fault == SIM_FAULT_NONE;
        bool whole = written && (end->life->last_life || request->taken > 0) && !request->flushed;
        if (written ? !is_mixture(end, request) : !sim_buffer_check(&window, 0, 0))
            sim_endpoint_fail(end, "window", i, "has neither the written nor the old bytes");
        else if (whole && !sim_judge_window(end, request))
            sim_endpoint_fail(end, "window", i, "differs from the written data");
    }
}

static void init(struct sim_endpoint *end, unsigned index)
{
    end->type = UROCE_UC;
    end->number = end->life->number * 2 + index;
    end->pd = sim_host_pd(end->host, end->workload->pds + PD_FIRST + end->number);
}

const struct sim_endpoint_ops sim_uc_ops = {
    .family = "UC",
    .own_cq = true,
    .unsupported = UROCE_RDMA_READ,
    .init = init,
    .begin = begin,
    .make = make,
    .worked = sim_endpoint_worked,
    .check_memory = check_memory,
    .can_send = can_send,
    .choose = choose,
    .confirm = confirm,
    .expected = sim_judge_expected,
    .on_error = sim_judge_stop_queue,
    .on_progress = sim_life_on_progress,
    .take = take,
    .wire = check_frame,
    .recv_expected = sim_judge_bad_lkey,
};
