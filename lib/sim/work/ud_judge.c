/* SPDX-License-Identifier: BSD-3-Clause */
/* ud_judge.c - frames and receives of datagrams against what was sent; see ud.h. */
#include <string.h>

#include "core/limits.h"
#include "core/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/ud.h"
#include "sim/work/workload.h"

#define HOP_LIMIT 64u
#define ROOM_MAX  (5u * URO_PATH_MTU_MAX) /* of a receive, shared ones included */

struct uro_address sim_ud_group(const struct sim_workload *load, bool v6)
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
    return &end->load->ud->datagrams[request->message];
}

static const struct sim_endpoint *member(const struct sim_endpoint *end, uint32_t number)
{
    return &end->load->ud->lives[number].ends[0];
}

static struct uro_gid dest_of(const struct sim_endpoint *end, const struct sim_datagram *datagram)
{
    return datagram->group ? sim_ud_group(end->load, datagram->v6).dest
                           : sim_endpoint_address(member(end, datagram->to), datagram->v6).dest;
}

/* ---- frames ------------------------------------------------------------------------------------ */

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
    if (uro_psn_diff(uro_psn_make(frame->bth.psn), uro_psn_make(end->wire_psn)) < 0)
        sim_endpoint_fail(end, "frame", frame->bth.psn, "has a PSN that was used");
    end->wire_psn = (frame->bth.psn + 1) & URO_PSN_MASK;
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

bool sim_ud_wire(struct sim_workload *load, struct sim_host *host, const struct uro_frame *frame)
{
    if (uro_gid_equal(&frame->ip.source, &frame->ip.dest))
        return true; /* within one host: out of order with what goes over the cable */
    for (uint32_t i = 0; i < load->ud->count; i++) {
        struct sim_endpoint *end = &load->ud->lives[i].ends[0];
        if (end->host != host || !end->alive || end->qpn != frame->deth.source_qpn)
            continue;
        check_frame(end, frame);
        return true;
    }
    return false;
}

/* ---- sends ------------------------------------------------------------------------------------- */

void sim_ud_confirm(struct sim_endpoint *end, const struct sim_request *request)
{
    const struct sim_datagram *datagram = datagram_of(end, request);
    bool local = !datagram->group && member(end, datagram->to)->host == end->host;

    if (request->sent == 0 && !local && !sim_host_swallows(end->host))
        sim_endpoint_fail(end, "send", request->number, "succeeded and was not sent");
}

bool sim_ud_expected(const struct sim_endpoint *end, const struct sim_request *request,
                     uint8_t status)
{
    (void)end;
    return sim_judge_stops(request) && status == sim_judge_status(request);
}

/* ---- receives ---------------------------------------------------------------------------------- */

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

void sim_ud_take(struct sim_endpoint *end, const struct sim_place *place, const struct uro_cqe *cqe)
{
    const struct sim_recv *recv = place->recv;
    struct sim_ud *ud = end->load->ud;
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
    for (uint32_t i = ud->datagram_count; i-- > 0;) {
        if (!could_be(end, &ud->datagrams[i], cqe, octets))
            continue;
        ud->datagrams[i].taken[end->number]++;
        end->messages_taken++;
        return;
    }
    sim_endpoint_fail(end, "receive", place->number,
                      "is none of what was written and can come now");
}
