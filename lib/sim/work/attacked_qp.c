/* SPDX-License-Identifier: BSD-3-Clause */
/* attacked_qp.c - queue pairs under attack: their lives, requests and completions; see attacked.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/work/attacked.h"
#include "wire/grh.h"

#define TIMEOUT    8u
#define RETRIES    3u
#define RNR_TIMER  1u
#define RD_ATOMIC  4u
#define XRC_DOMAIN 5000u /* and those after it: a workload has one */
#define VALUE      0x11u /* operand of atomics, and content of memory that is sent */
#define KINDS      URO_ARRAY_LEN(opcodes)
#define KINDS_UC   4u
#define KINDS_UD   2u
#define QPN_MAX    0xffffffu

bool sim_attacked_loose(const struct sim_attacked_end *end)
{
    return end->endpoint.type == URO_QPT_UC || end->endpoint.type == URO_QPT_UD;
}

static uint32_t domain_of(const struct sim_attacked_end *end)
{
    return XRC_DOMAIN + end->attacked->load->number;
}

static void make_srq(struct sim_attacked_end *end)
{
    const struct uro_srq_init init = { .pd = end->keys[0].pd,
                                       .capacity = SIM_ATTACKED_RECVS,
                                       .sge_max = 1,
                                       .xrcd = domain_of(end),
                                       .cq = end->endpoint.cq.cq,
                                       .user = end };

    end->srq_slots = sim_memory_unzeroed(uro_srq_slots_size(init.capacity, init.sge_max));
    uro_srq_create(sim_endpoint_shard(&end->endpoint), &end->srq, &init, end->srq_slots);
}

void sim_attacked_make_qp(struct sim_attacked_end *end)
{
    bool target = end->endpoint.type == URO_QPT_XRC_TGT;
    bool receives = !target && end->endpoint.type != URO_QPT_XRC_INI;
    const struct uro_qp_init init = { .type = end->endpoint.type,
                                      .pd = target ? 0 : end->keys[0].pd,
                                      .xrcd = target ? domain_of(end) : 0,
                                      .send_cq = target ? NULL : end->endpoint.cq.cq,
                                      .recv_cq = receives ? end->endpoint.cq.cq : NULL,
                                      .send_capacity = target ? 0 : SIM_ATTACKED_SENDS,
                                      .recv_capacity = receives ? SIM_ATTACKED_RECVS : 0,
                                      .send_sge_max = !target,
                                      .recv_sge_max = receives,
                                      .signal_all = true,
                                      .user = &end->endpoint };

    if (target)
        make_srq(end);
    sim_endpoint_create(&end->endpoint, &init);
    end->endpoint.alive = true;
    end->endpoint.posted = end->endpoint.confirmed = end->endpoint.recv_posted =
        end->endpoint.recv_done = 0;
}

void sim_attacked_connect(struct sim_attacked_end *end)
{
    const struct sim_plan_attacked *plan = end->attacked->plan;
    struct sim_world *world = end->endpoint.load->world;
    struct uro_qp_attr attr = { .access = SIM_ATTACKED_ACCESS,
                                .qkey = SIM_ATTACKED_QKEY,
                                .path_mtu = plan->path_mtu,
                                .rq_psn = end->heard[URO_REQUEST],
                                .dest_qpn = end->peer->endpoint.qpn,
                                .max_dest_rd_atomic = RD_ATOMIC,
                                .min_rnr_timer = RNR_TIMER,
                                .address = sim_endpoint_address(&end->peer->endpoint, plan->v6) };

    sim_endpoint_to_rtr(&end->endpoint, &attr);
    bool datagrams = end->endpoint.type == URO_QPT_UD;
    attr = (struct uro_qp_attr){ .timeout = TIMEOUT,
                                 .retry_count = RETRIES,
                                 .rnr_retry = RETRIES,
                                 .sq_psn = datagrams ? 0 : end->peer->heard[URO_REQUEST],
                                 .max_rd_atomic = RD_ATOMIC,
                                 .address = attr.address };
    sim_endpoint_to_rts(&end->endpoint, &attr);
    if (datagrams && uro_engine_ah_create(end->endpoint.host->engine, &end->ah, end->keys[0].pd,
                                          &attr.address, world->now) != 0)
        sim_world_fail(world, "an address handle of a victim could not be made");
}

void sim_attacked_destroy(struct sim_attacked_end *end)
{
    /* Completions of an XRC shared queue are not forgotten with the queue pair. */
    if (end->srq_slots != NULL)
        sim_cq_poll(&end->endpoint.cq);
    sim_endpoint_destroy(&end->endpoint);
    end->endpoint.alive = false;
    sim_host_events(end->endpoint.host); /* doorbells of other queue pairs were served meanwhile */
    if (end->endpoint.type == URO_QPT_UD)
        uro_engine_ah_destroy(end->endpoint.host->engine, &end->ah);
    if (end->srq_slots == NULL)
        return;
    uro_srq_destroy(sim_endpoint_shard(&end->endpoint), &end->srq);
    free(end->srq_slots);
    end->srq_slots = NULL;
}

/* ---- what they ask for ------------------------------------------------------------------------- */

/* UC offers the first four, UD the first two. */
static const uint8_t opcodes[] = { URO_WR_SEND,
                                   URO_WR_SEND_WITH_IMM,
                                   URO_WR_RDMA_WRITE,
                                   URO_WR_RDMA_WRITE_WITH_IMM,
                                   URO_WR_RDMA_READ,
                                   URO_WR_ATOMIC_CMP_AND_SWP,
                                   URO_WR_ATOMIC_FETCH_AND_ADD };

/* Returns an element inside one of the endpoint's own ranges. */
static struct uro_sge piece(struct sim_attacked_end *end, enum sim_attacked_range range,
                            uint32_t length)
{
    uint32_t at = uro_rng_below(&end->attacked->rng, SIM_ATTACKED_RANGE - length + 1);

    return (struct uro_sge){ .address = sim_attacked_address(end, range) + at,
                             .length = length,
                             .lkey = uro_key_number(&end->keys[range]) };
}

static struct uro_wq *recv_queue(struct sim_attacked_end *end)
{
    return end->srq_slots != NULL ? &end->srq.wq : uro_qp_recv_queue(end->endpoint.qp);
}

static void post_receives(struct sim_attacked_end *end)
{
    struct uro_wq *queue = recv_queue(end);
    uint32_t count = 0;

    if (end->endpoint.type == URO_QPT_XRC_INI)
        return;

    while (end->endpoint.recv_posted - end->endpoint.recv_done < SIM_ATTACKED_RECVS) {
        struct uro_rqe *rqe = uro_wq_reserve(queue, count);
        if (rqe == NULL)
            break;
        rqe->length = uro_rng_below(&end->attacked->rng, SIM_ATTACKED_RANGE);
        end->rooms[end->endpoint.recv_posted % SIM_ATTACKED_RECVS] = rqe->length;
        rqe->wr_id = SIM_RECV_BIT | end->endpoint.recv_posted++;
        rqe->sge_count = 1;
        rqe->sges[0] = piece(end, SIM_ATTACKED_TAKEN, rqe->length);
        end->places[(end->endpoint.recv_posted - 1) % SIM_ATTACKED_RECVS] = rqe->sges[0].address;
        count++;
    }
    uro_wq_publish(queue, count);
}

static uint32_t kinds(const struct sim_attacked_end *end)
{
    if (end->endpoint.type == URO_QPT_UC)
        return KINDS_UC;
    return end->endpoint.type == URO_QPT_UD ? KINDS_UD : KINDS;
}

static void fill(struct sim_attacked_end *end, struct uro_wqe *wqe)
{
    struct sim_attacked *attacked = end->attacked;
    uint8_t opcode = opcodes[uro_rng_below(&attacked->rng, kinds(end))];
    bool atomic = opcode == URO_WR_ATOMIC_CMP_AND_SWP || opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
    bool answered = atomic || opcode == URO_WR_RDMA_READ;
    uint32_t length = atomic ? 8 : uro_rng_below(&attacked->rng, SIM_ATTACKED_RANGE / 2);
    uint32_t at = uro_rng_below(&attacked->rng, SIM_ATTACKED_RANGE - length + 1);

    wqe->wr_id = end->endpoint.posted++;
    wqe->remote_address = (sim_attacked_address(end->peer, SIM_ATTACKED_OPEN) + at) & ~UINT64_C(7);
    wqe->compare_add = wqe->swap = VALUE;
    wqe->rkey = uro_key_number(&end->peer->keys[SIM_ATTACKED_OPEN]);
    wqe->imm = 0;
    wqe->length = length;
    wqe->opcode = opcode;
    wqe->flags = 0;
    wqe->psn_count = 0;
    wqe->status = 0;
    if (end->endpoint.type == URO_QPT_XRC_INI)
        wqe->xrc_srqn = uro_srq_number(&end->peer->srq);
    if (end->endpoint.type == URO_QPT_UD) {
        wqe->to.ah = uro_ah_number(&end->ah);
        wqe->to.qpn = uro_qp_number(end->peer->endpoint.qp);
        wqe->qkey = SIM_ATTACKED_QKEY;
    }
    wqe->sge_count = 1;
    wqe->sges[0] = piece(end, answered ? SIM_ATTACKED_TAKEN : SIM_ATTACKED_SENT, length);
}

static void post_send(struct sim_attacked_end *end)
{
    if (end->endpoint.posted - end->endpoint.confirmed >= SIM_ATTACKED_SENDS ||
        end->endpoint.type == URO_QPT_XRC_TGT)
        return;
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(end->endpoint.qp), 0);
    if (wqe == NULL)
        return;
    fill(end, wqe);
    uro_wq_publish(uro_qp_send_queue(end->endpoint.qp), 1);
    uro_qp_ring(sim_endpoint_shard(&end->endpoint), end->endpoint.qp);
}

void sim_attacked_post(struct sim_attacked_end *end)
{
    post_receives(end);
    post_send(end);
}

static void fail(const struct sim_attacked_end *end, const char *what)
{
    sim_world_fail(end->endpoint.host->world, "the victim at %c: %s",
                   end->endpoint.host->config.name, what);
}

static uint32_t header_of(const struct sim_attacked_end *end)
{
    return end->endpoint.type == URO_QPT_UD ? URO_GRH_LEN : 0;
}

/* Posts the last message, which fits the receive that it will find. */
void sim_attacked_ask(struct sim_attacked_end *end)
{
    struct sim_attacked_end *peer = end->peer;
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(end->endpoint.qp), 0);

    post_receives(peer);
    uint32_t room = peer->rooms[peer->endpoint.recv_done % SIM_ATTACKED_RECVS];
    if (end->endpoint.confirmed != end->endpoint.posted || wqe == NULL) {
        fail(end, "a request never completed");
        return;
    }
    if (room < header_of(peer))
        return;
    uint32_t length = room - header_of(peer);
    if (length > SIM_ATTACKED_RANGE / 2)
        length = SIM_ATTACKED_RANGE / 2;
    fill(end, wqe);
    wqe->opcode = URO_WR_SEND;
    wqe->length = length;
    wqe->sges[0] = piece(end, SIM_ATTACKED_SENT, length);
    peer->awaits = true;
    peer->awaited = length;
    uro_wq_publish(uro_qp_send_queue(end->endpoint.qp), 1);
    uro_qp_ring(sim_endpoint_shard(&end->endpoint), end->endpoint.qp);
}

static void judge_last(struct sim_attacked_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id & ~SIM_RECV_BIT;
    uint64_t place = end->places[number % SIM_ATTACKED_RECVS] + header_of(end);
    const uint8_t *there = end->memory + (place - end->base);
    bool good = end->awaits && cqe->byte_len == end->awaited + header_of(end);

    for (uint32_t i = 0; i < end->awaited && good; i++)
        good = there[i] == VALUE;
    if (!good)
        fail(end, "the message after the attack is not what was sent");
    end->awaits = false;
}

/* Checks a receive. Its content may be forged, but must be possible. */
static void judge_receive(const struct sim_attacked_end *end, const struct uro_cqe *cqe)
{
    uint64_t number = cqe->wr_id & ~SIM_RECV_BIT;
    bool write = cqe->opcode == URO_WC_RECV_RDMA_WITH_IMM;

    if (write ? end->endpoint.type == URO_QPT_UD : cqe->opcode != URO_WC_RECV)
        fail(end, "a receive completed as another kind of request");
    if (!write && cqe->byte_len > end->rooms[number % SIM_ATTACKED_RECVS])
        fail(end, "a message is longer than the receive that took it");
    if (end->endpoint.type == URO_QPT_UD &&
        (cqe->byte_len < URO_GRH_LEN || !(cqe->flags & URO_WC_GRH) || cqe->source_qpn > QPN_MAX))
        fail(end, "what arrived does not look like a datagram");
}

/* Checks that requests complete in order, once, and only if posted. */
void sim_attacked_judge(struct sim_endpoint *endpoint, const struct uro_cqe *cqe)
{
    struct sim_attacked_end *end = URO_CONTAINER_OF(endpoint, struct sim_attacked_end, endpoint);
    bool receive = cqe->wr_id & SIM_RECV_BIT;
    uint64_t number = cqe->wr_id & ~SIM_RECV_BIT;
    uint64_t *done = receive ? &end->endpoint.recv_done : &end->endpoint.confirmed;

    if (number != *done || number >= (receive ? end->endpoint.recv_posted : end->endpoint.posted))
        fail(end, "a request completed out of turn");
    ++*done;
    if (cqe->status != URO_WC_SUCCESS && sim_attacked_loose(end))
        fail(end, "failed without cause: its peer cannot do that");
    else if (receive && cqe->status == URO_WC_SUCCESS)
        judge_receive(end, cqe);
    if (receive && end->attacked->asked)
        judge_last(end, cqe);
    end->attacked->failed |= cqe->status != URO_WC_SUCCESS;
}
