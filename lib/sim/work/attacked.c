/* SPDX-License-Identifier: BSD-3-Clause */
/* attacked.c - the endpoints under attack: their lives, requests and completions; see attacked.h. */
#include "sim/work/attacked.h"

#include <stdlib.h>
#include <string.h>

#include "core/psn.h"
#include "sim/oracle/model.h"
#include "wire/frame.h"

#define ADDRESS_SPACE UINT64_C(0xa00000000000)
#define ADDRESS_STEP  UINT64_C(0x10000000000)
#define LIFE_STEP     UINT64_C(0x10000000)
#define PD            (SIM_WORKLOAD_PDS - 4u) /* of a workload; for two endpoints, and a third domain */
#define ANSWER_MAX    URO_MS(100)
#define TIME_MAX      URO_MS(12) /* of the whole attack: each frame costs time */
#define LAST_SENDS    2u         /* of each end, in a life that begins after the attack */
#define LAST_TIMEOUT  16u        /* longer than any frame is on its way */
#define OPENED        0x11u      /* first content of memory that a peer may read */
#define ACCESS_REMOTE                                                                              \
    (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC |                 \
     URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT)

/* Returns whether no peer and no attacker can make the queue pair fail: UC and UD. */
static bool is_robust(const struct sim_endpoint *end)
{
    return !end->ops->reliable;
}

static bool is_asked(const struct sim_endpoint *end)
{
    return end->load->attacked->asked;
}

/* ---- lives ------------------------------------------------------------------------------------- */

static void begin(struct sim_endpoint *end)
{
    struct sim_attacked *attacked = end->load->attacked;
    bool last = end->life->last_life;
    uint32_t sends = attacked->over ? 0 : UINT32_MAX;

    end->wire_psn = uro_rng_below(&end->rng, URO_PSN_MASK + 1);
    end->life->may_fail = !last && !is_robust(end);
    end->sends_left = end->type == URO_QPT_XRC_TGT ? 0 : last ? LAST_SENDS : sends;
    attacked->asked |= last;
    attacked->asked_at = end->load->world->now;
}

/* Makes one range of each kind of rights: the rights of the sections, no right at all between them. */
static void make_memory(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    uint32_t room = sim_memory_room(SIM_GRH + end->life->plan->message_max, URO_SGE_MAX);
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity, room },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity, room },
        [SIM_MEMORY_WINDOWS] = { 1, SIM_ATTACKED_RANGE },
        [SIM_MEMORY_WORDS] = { 1, SIM_ATTACKED_RANGE },
        [SIM_MEMORY_FILLED] = { 1, SIM_ATTACKED_RANGE },
        [SIM_MEMORY_PRIVATE] = { 1, SIM_ATTACKED_RANGE },
    };
    static const uint32_t access[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = URO_ACCESS_LOCAL_WRITE,
        [SIM_MEMORY_RECVS] = URO_ACCESS_LOCAL_WRITE,
        [SIM_MEMORY_WINDOWS] = URO_ACCESS_LOCAL_WRITE | ACCESS_REMOTE,
        [SIM_MEMORY_WORDS] = URO_ACCESS_REMOTE_READ,
        [SIM_MEMORY_FILLED] = URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE,
        [SIM_MEMORY_PRIVATE] = URO_ACCESS_LOCAL_WRITE | ACCESS_REMOTE,
    };
    struct sim_memory *memory = &end->memory;

    sim_memory_init(memory, sizes,
                    ADDRESS_SPACE + end->number * ADDRESS_STEP + end->life->life * LIFE_STEP,
                    &end->rng);
    memset(sim_memory_slot(memory, SIM_MEMORY_WINDOWS, 0), OPENED, SIM_ATTACKED_RANGE);
    memset(sim_memory_slot(memory, SIM_MEMORY_WORDS, 0), OPENED, SIM_ATTACKED_RANGE);
    memset(sim_memory_slot(memory, SIM_MEMORY_FILLED, 0), SIM_MEMORY_UNZEROED, SIM_ATTACKED_RANGE);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++) {
        bool other = i == SIM_MEMORY_PRIVATE; /* all rights, but in another protection domain */
        uint32_t pd = other ? end->load->pds + PD + 2 : end->pd;
        sim_memory_register(memory, sim_endpoint_shard(end), i, pd, access[i]);
    }
}

static void make(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool target = end->type == URO_QPT_XRC_TGT;
    bool receives = !target && end->type != URO_QPT_XRC_INI;
    struct uro_cq *cq = end->cq.cq;
    const struct uro_qp_init init = {
        .type = end->type,
        .pd = target ? 0 : end->pd,
        .xrcd = target ? sim_srq_domain(end->load, SIM_ATTACKED_SRQ) : 0,
        .send_cq = target ? NULL : cq,
        .recv_cq = receives ? cq : NULL,
        .send_capacity = target ? 0 : plan->send_capacity,
        .recv_capacity = receives ? plan->recv_capacity : 0,
        .send_sge_max = target ? 0 : plan->send_sges,
        .recv_sge_max = receives ? plan->recv_sges : 0,
        .user = end,
    };

    make_memory(end);
    if (end->qp != NULL)
        return;
    end->send_cq = init.send_cq;
    end->recv_cq = init.recv_cq;
    sim_endpoint_create(end, &init);
}

static void connect(struct sim_endpoint *end)
{
    const struct sim_plan_pair *plan = end->life->plan;
    struct sim_attacked_end *known = sim_attacked_end(end);
    struct sim_world *world = end->load->world;
    const struct uro_qp_attr attr = { .access = ACCESS_REMOTE,
                                      .qkey = SIM_ATTACKED_QKEY,
                                      .path_mtu = plan->path_mtu,
                                      .rq_psn = end->peer->wire_psn,
                                      .dest_qpn = end->peer->qpn,
                                      .max_dest_rd_atomic = end->plan->rd_atomic,
                                      .min_rnr_timer = end->plan->min_rnr_timer,
                                      .address = sim_endpoint_address(end->peer, plan->v6) };

    known->heard[URO_REQUEST] = end->peer->wire_psn;
    known->heard[URO_RESPONSE] = end->wire_psn;
    sim_endpoint_to_rtr(end, &attr);
    if (end->type == URO_QPT_UD && uro_engine_ah_create(end->host->engine, &known->ah, end->pd,
                                                        &attr.address, world->now) != 0)
        sim_world_fail(world, "an address handle of an attacked queue pair could not be made");
}

static void start(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    bool last = end->life->last_life;
    const struct uro_qp_attr attr = { .timeout = last ? LAST_TIMEOUT : plan->timeout,
                                      .retry_count = last ? 7 : plan->retry_count,
                                      .rnr_retry = last ? 7 : plan->rnr_retry,
                                      .sq_psn = end->wire_psn,
                                      .max_rd_atomic = plan->rd_atomic };

    sim_endpoint_to_rts(end, &attr);
}

/* The completions of an XRC target stay in their CQ when the target is destroyed. */
static void stop(struct sim_endpoint *end)
{
    if (end->type == URO_QPT_XRC_TGT)
        sim_cq_poll(sim_srq_at(end, SIM_ATTACKED_SRQ)->cq);
}

static void stopped(struct sim_endpoint *end)
{
    if (end->type == URO_QPT_UD)
        uro_engine_ah_destroy(end->host->engine, &sim_attacked_end(end)->ah);
    if (end->type == URO_QPT_XRC_TGT)
        sim_srq_forget(sim_srq_at(end, SIM_ATTACKED_SRQ));
}

/* Keeps a key for the attacker whose range nobody may access any more. */
static void bury(struct sim_endpoint *end)
{
    struct sim_attacked_end *known = sim_attacked_end(end);
    struct sim_memory *memory = &end->memory;

    for (uint32_t i = 0; i < SIM_ATTACKED_RANGE; i++)
        if (sim_memory_slot(memory, SIM_MEMORY_WORDS, 0)[i] != OPENED)
            sim_endpoint_fail(end, "octet", i,
                              "of the range to read changed, which nobody may write");
    known->gone_key = uro_key_number(&memory->keys[SIM_MEMORY_WINDOWS]);
    known->gone_range = sim_memory_address(memory, SIM_MEMORY_WINDOWS, 0);
    memset(sim_memory_slot(memory, SIM_MEMORY_WINDOWS, 0), SIM_MEMORY_UNZEROED, SIM_ATTACKED_RANGE);
    sim_endpoint_bury(end);
}

static bool worked(const struct sim_endpoint *end)
{
    const struct uro_wq *send = uro_qp_send_queue(end->qp);

    return is_asked(end) && end->sends_left == 0 &&
           end->messages_sent == end->peer->messages_taken && end->signalled <= end->confirmed &&
           uro_wq_head(send) == uro_wq_tail(send);
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* UC offers the first four, UD the first two. */
static const uint8_t opcodes[] = { URO_WR_SEND,
                                   URO_WR_SEND_WITH_IMM,
                                   URO_WR_RDMA_WRITE,
                                   URO_WR_RDMA_WRITE_WITH_IMM,
                                   URO_WR_RDMA_READ,
                                   URO_WR_ATOMIC_CMP_AND_SWP,
                                   URO_WR_ATOMIC_FETCH_AND_ADD };

static uint32_t opcode_count(const struct sim_endpoint *end)
{
    return end->type == URO_QPT_UD ? 2 : end->type == URO_QPT_UC ? 4 : URO_ARRAY_LEN(opcodes);
}

static uint32_t header_of(const struct sim_endpoint *end)
{
    return end->type == URO_QPT_UD ? SIM_GRH : 0;
}

/* Returns the bytes of a new receive: any number while the attack runs. */
static uint32_t recv_room(struct sim_endpoint *end)
{
    uint32_t most = end->life->plan->message_max;

    return header_of(end) + (end->load->attacked->over ? most : uro_rng_below(&end->rng, most + 1));
}

/* A last message must find a receive. */
static bool can_send(const struct sim_endpoint *end)
{
    const struct sim_endpoint *peer = end->peer;

    return !is_asked(end) || !is_robust(end) ||
           (peer->recv_posted > peer->recv_done && end->messages_sent == peer->messages_taken);
}

static bool choose(struct sim_endpoint *end, struct sim_request *request)
{
    const struct sim_memory *there = &end->peer->memory;
    struct uro_rng *rng = &end->rng;

    request->opcode = is_asked(end) ? URO_WR_SEND : opcodes[uro_rng_below(rng, opcode_count(end))];
    request->length = uro_rng_below(rng, end->life->plan->message_max + 1);
    if (sim_model_is_atomic(request->opcode))
        request->length = 8;
    if (is_asked(end) && is_robust(end) &&
        !sim_endpoint_in_error(end)) { /* it fits the receive that it will find */
        uint32_t room = end->peer->recvs[end->peer->recv_done % SIM_REQUESTS_MAX].room;
        request->length = uro_rng_below(rng, room - header_of(end) + 1);
    }
    request->imm = uro_rng_u32(rng);
    request->seed = uro_rng_u64(rng);
    request->at = uro_rng_below(rng, SIM_ATTACKED_RANGE - request->length + 1) & ~7u;
    request->remote_address = sim_memory_address(there, SIM_MEMORY_WINDOWS, 0) + request->at;
    request->rkey = uro_key_number(&there->keys[SIM_MEMORY_WINDOWS]);
    sim_post_choose_flags(end, request, false);
    sim_memory_scatter(&request->layout, request->length, end->plan->send_sges, rng);
    end->messages_sent += is_asked(end);
    return true;
}

static void fill(struct sim_endpoint *end, const struct sim_request *request, struct uro_wqe *wqe)
{
    wqe->compare_add = wqe->swap = request->seed;
    if (end->type == URO_QPT_XRC_INI)
        wqe->xrc_srqn = uro_srq_number(sim_srq_at(end->peer, SIM_ATTACKED_SRQ)->srq);
    if (end->type == URO_QPT_UD) {
        wqe->to.ah = uro_ah_number(&sim_attacked_end(end)->ah);
        wqe->to.qpn = end->peer->qpn;
        wqe->qkey = SIM_ATTACKED_QKEY;
    }
}

/* ---- completions ------------------------------------------------------------------------------- */

static void on_error(struct sim_endpoint *end, const struct sim_request *request, uint8_t status)
{
    (void)request;
    (void)status;
    sim_life_on_failure(end->life);
}

static void on_progress(struct sim_endpoint *end)
{
    sim_life_on_progress(end->life);
}

/* Checks a message after the attack: the next message that the peer sent. */
static void take_last(struct sim_endpoint *end, const struct sim_place *place,
                      const struct uro_cqe *cqe)
{
    const struct sim_endpoint *peer = end->peer;
    const struct sim_request *request =
        sim_request_of(peer, peer->posted - peer->messages_sent + end->messages_taken);
    uint8_t octets[SIM_GRH + SIM_ATTACKED_RANGE];

    URO_ASSERT(place->recv->room <= sizeof octets);
    sim_memory_gather(place->memory, SIM_MEMORY_RECVS, place->slot, &place->recv->layout, octets);
    if (end->messages_taken == peer->messages_sent ||
        cqe->byte_len != header_of(end) + request->length ||
        !sim_model_holds(octets + header_of(end), request->length, request->seed))
        sim_endpoint_fail(end, "receive", place->number,
                          "after the attack: the message is not what was sent");
    end->messages_taken++;
}

/* Checks a receive. Its content may be forged, but must be possible. */
static void take(struct sim_endpoint *end, const struct sim_place *place, const struct uro_cqe *cqe)
{
    bool write = cqe->opcode == URO_WC_RECV_RDMA_WITH_IMM;

    if (write ? end->type == URO_QPT_UD : cqe->opcode != URO_WC_RECV)
        sim_endpoint_fail(end, "receive", place->number, "completed as another kind of request");
    if (!write && cqe->byte_len > place->recv->room)
        sim_endpoint_fail(end, "receive", place->number, "is longer than the receive that took it");
    if (end->type == URO_QPT_UD && (cqe->byte_len < SIM_GRH || !(cqe->flags & URO_WC_GRH) ||
                                    cqe->source_qpn > URO_QPN_MULTICAST))
        sim_endpoint_fail(end, "receive", place->number, "does not look like a datagram");
    if (is_asked(end))
        take_last(end, place, cqe);
}

/* ---- the attack -------------------------------------------------------------------------------- */

void sim_attacked_calm(struct sim_attacked *attacked)
{
    if (attacked == NULL || attacked->over)
        return;
    attacked->over = true;
    struct sim_life *life = &attacked->life;
    if (life->state != SIM_LIFE_RUNNING || !is_robust(&life->ends[0]))
        return;
    life->last_life = true;
    life->due = URO_TIME_NEVER;
    life->ends[0].sends_left = life->ends[1].sends_left = 0;
}

static bool is_alive(const struct sim_attacked *attacked)
{
    return attacked->life.ends[0].alive && attacked->life.ends[1].alive;
}

/* Returns the longest time of the last messages. */
static uro_time answer_max(const struct sim_attacked *attacked)
{
    return 2 * sim_plan_flight_max(attacked->load->plan) + ANSWER_MAX;
}

static uro_time attacker_next(const struct sim_node *node)
{
    const struct sim_attacked *attacked = URO_CONTAINER_OF(node, struct sim_attacked, attacker);
    const struct sim_life *life = &attacked->life;

    if (!attacked->over)
        return is_alive(attacked) ? attacked->forge_at : SIM_PLAN_START + TIME_MAX;
    if (!attacked->load->calm || !life->last_life || life->state != SIM_LIFE_RUNNING ||
        !is_robust(&life->ends[0]))
        return URO_TIME_NEVER;
    return attacked->asked ? attacked->asked_at + answer_max(attacked)
                           : attacked->load->calm_since + SIM_LIFE_NEIGHBOUR_WAIT;
}

/* Sends one more message after the attack. Wrong state after the attack would change or lose this message. */
static void ask(struct sim_attacked *attacked)
{
    if (attacked->asked) {
        sim_world_fail(attacked->load->world, "a message after an attack did not come");
        return;
    }
    attacked->asked = true;
    attacked->asked_at = attacked->load->world->now;
    for (unsigned i = 0; i < 2; i++) {
        struct sim_endpoint *end = &attacked->life.ends[i];
        end->messages_sent = end->messages_taken = 0;
        end->sends_left = 1;
    }
}

static void attacker_run(struct sim_node *node)
{
    struct sim_attacked *attacked = URO_CONTAINER_OF(node, struct sim_attacked, attacker);
    uro_time now = attacked->load->world->now;

    if (attacked->over) {
        ask(attacked);
    } else if (now >= SIM_PLAN_START + TIME_MAX) {
        sim_attacked_calm(attacked);
    } else {
        sim_attacked_forge(attacked);
        attacked->forge_at =
            now + URO_US(1 + uro_rng_below(&attacked->rng, attacked->plan->wait_max));
    }
}

bool sim_attacked_wire(struct sim_attacked *attacked, const struct sim_host *host,
                       const struct uro_frame *frame)
{
    for (unsigned i = 0; attacked != NULL && i < 2; i++) {
        const struct sim_endpoint *end = &attacked->life.ends[i];
        if (!end->peer->alive || end->peer->host != host || end->qpn != frame->bth.dest_qpn)
            continue;
        attacked->ends[i].heard[frame->op->role] = frame->bth.psn;
        sim_attacked_remember(attacked, end, frame);
        return true;
    }
    return false;
}

static void init(struct sim_endpoint *end, unsigned index)
{
    const struct sim_workload *load = end->load;
    enum uro_qp_type type = load->attacked->plan->type;

    end->type = type == URO_QPT_XRC_INI && index == 1 ? URO_QPT_XRC_TGT : type;
    end->number = index;
    end->pd =
        end->type == URO_QPT_XRC_TGT ? load->srqs[1][SIM_ATTACKED_SRQ].pd : load->pds + PD + index;
}

#define OPS                                                                                        \
    .family = "attacked", .own_cq = true, .forged = true, .init = init, .begin = begin,            \
    .make = make, .connect = connect, .start = start, .worked = worked, .stop = stop,              \
    .stopped = stopped, .bury = bury, .can_send = can_send, .choose = choose, .fill = fill,        \
    .on_error = on_error, .on_progress = on_progress, .recv_room = recv_room, .take = take

static const struct sim_endpoint_ops ops[2] = { { OPS }, { OPS, .reliable = true } };

struct sim_attacked *sim_attacked_make(struct sim_workload *load)
{
    const struct sim_plan_attacked *plan = &load->plan->attacked;

    if (plan->wait_max == 0)
        return NULL;
    struct sim_attacked *attacked = calloc(1, sizeof *attacked);
    URO_ASSERT(attacked != NULL);
    load->attacked = attacked;
    attacked->attacker = (struct sim_node){ NULL, attacker_next, attacker_run };
    attacked->load = load;
    attacked->plan = plan;
    uro_rng_init_number(&attacked->rng, plan->seed);
    if (plan->type == URO_QPT_XRC_INI)
        sim_srq_init(&load->srqs[1][SIM_ATTACKED_SRQ], load, 1, SIM_ATTACKED_SRQ);
    sim_life_init(&attacked->life, load, &ops[plan->type != URO_QPT_UC && plan->type != URO_QPT_UD],
                  &plan->pair, 0);
    sim_world_add(load->world, &attacked->attacker);
    return attacked;
}

void sim_attacked_check(struct sim_attacked *attacked)
{
    if (attacked != NULL && attacked->plan->type == URO_QPT_XRC_INI)
        sim_srq_check(&attacked->load->srqs[1][SIM_ATTACKED_SRQ]);
}

void sim_attacked_free(struct sim_attacked *attacked)
{
    if (attacked == NULL)
        return;
    sim_srq_fini(&attacked->load->srqs[1][SIM_ATTACKED_SRQ]);
    free(attacked);
}
