/* SPDX-License-Identifier: BSD-3-Clause */
/* attacked.c - the endpoints under attack: their lives, requests and completions; the frames of the
 * attacker; see attacked.h. */
#include "sim/work/attacked.h"

#include <stdlib.h>
#include <string.h>

#include "sim/oracle/model.h"
#include "wire/bytes.h"
#include "wire/frame.h"

/* First of three PDs: one for each endpoint, and one that no endpoint uses. */
#define PD           (SIM_WORKLOAD_PDS - 4u)
#define ANSWER_MAX   URO_MS(100)
#define TIME_MAX     URO_MS(12) /* longest attack, since each frame takes time to simulate */
#define LAST_SENDS   2u         /* sends of each end in a life that begins after the attack */
#define LAST_TIMEOUT 16u        /* ACK timeout, longer than any frame is in flight */
#define OPENED       0x11u      /* first content of memory that a peer may read */
#define OPCODES      32u        /* opcodes of a transport service */
#define AHEAD        5u         /* most forged PSNs are at most this far ahead of the last PSN */
#define BEHIND       4u
#define ASIDE        24u   /* limit of the distance of wrong addresses before a range, bytes */
#define FORGED_LOW   0x30u /* lowest value of forged bytes, which differ from the canary */
#define FORGED_ALL   0x40u /* number of values of forged bytes */
#define LENGTH_HUGE  0x80000000u
#define DATAGRAM     1500u /* limit of the size of most datagrams, bytes */
#define DATAGRAM_MAX 4200u /* more than any path takes */
#define BTH_FLAGS    4u    /* bytes of the BTH before the word with the destination QPN */
#define BTH_REST     8u    /* offset in the BTH of the word after the destination QPN */

/* Returns whether no peer and no attacker can make the queue pair fail: UC and UD. */
static bool is_robust(const struct sim_endpoint *end)
{
    return !end->ops->reliable;
}

/* Returns the attacker's copy of the numbers of the endpoint. */
static struct sim_attacked_end *known_of(const struct sim_endpoint *end)
{
    struct sim_attacked *attacked = end->workload->attacked;

    return &attacked->ends[end == &attacked->life.ends[1]];
}

static bool is_finishing(const struct sim_endpoint *end)
{
    return end->workload->attacked->finishing;
}

/* ---- lives ---- */

static void begin(struct sim_endpoint *end)
{
    struct sim_attacked *attacked = end->workload->attacked;
    bool last = end->life->last_life;
    uint32_t sends = attacked->over ? 0 : UINT32_MAX;

    end->wire_psn = uro_rng_below(&end->rng, SIM_PSN_MASK + 1);
    end->life->may_fail = !last && !is_robust(end);
    if (last) { /* its timeout is longer than the delay of slow frames */
        attacked->last_plan = *end->plan;
        attacked->last_plan.timeout = LAST_TIMEOUT;
        attacked->last_plan.retry_count = 7;
        end->plan = &attacked->last_plan;
    }
    end->sends_left = end->type == UROCE_XRC_TGT ? 0 : last ? LAST_SENDS : sends;
    attacked->finishing |= last;
    attacked->finishing_since = end->world->now;
}

/* Registers a range for each set of rights. The memory between the ranges has no key. */
static void make(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    uint32_t size = sim_memory_slot_size(SIM_GRH + end->life->plan->message_max, UROCE_SGE_MAX);
    const uint32_t local = UROCE_ACCESS_LOCAL_WRITE;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity, size, local },
        [SIM_MEMORY_RECVS] = { plan->recv_capacity, size, local },
        [SIM_MEMORY_WINDOWS] = { 1, SIM_ATTACKED_RANGE, local | SIM_ACCESS_REMOTE },
        [SIM_MEMORY_WORDS] = { 1, SIM_ATTACKED_RANGE, UROCE_ACCESS_REMOTE_READ },
        [SIM_MEMORY_FILLED] = { 1, SIM_ATTACKED_RANGE, local | UROCE_ACCESS_REMOTE_WRITE },
        [SIM_MEMORY_PRIVATE] = { 1, SIM_ATTACKED_RANGE, local | SIM_ACCESS_REMOTE },
    };
    struct sim_memory *memory = &end->memory;

    sim_endpoint_make_memory(end, 5, sizes);
    sim_memory_deregister(memory, SIM_MEMORY_PRIVATE);
    sim_memory_register(memory, SIM_MEMORY_PRIVATE,
                        sim_host_pd(end->host, end->workload->pds + PD + 2));
    memset(sim_memory_slot(memory, SIM_MEMORY_WINDOWS, 0), OPENED, SIM_ATTACKED_RANGE);
    memset(sim_memory_slot(memory, SIM_MEMORY_WORDS, 0), OPENED, SIM_ATTACKED_RANGE);
    memset(sim_memory_slot(memory, SIM_MEMORY_FILLED, 0), SIM_MEMORY_UNZEROED, SIM_ATTACKED_RANGE);
    sim_endpoint_create(end);
}

static void connect(struct sim_endpoint *end)
{
    struct sim_attacked_end *known = known_of(end);
    const struct uroce_address address = sim_endpoint_address(end->peer, end->life->plan->v6);

    known->seen[URO_REQUEST] = end->peer->wire_psn;
    known->seen[URO_RESPONSE] = end->wire_psn;
    if (end->type == UROCE_UD &&
        uroce_ah_create(end->pd, &address, end->world->now, &known->ah) != 0)
        sim_world_fail(end->world, "an address handle of an attacked queue pair could not be made");
}

/* The completions of an XRC target stay in their CQ when the target is destroyed. */
static void stop(struct sim_endpoint *end)
{
    if (end->type == UROCE_XRC_TGT)
        sim_cq_poll(sim_srq_at(end, SIM_ATTACKED_SRQ)->cq);
}

static void release(struct sim_endpoint *end)
{
    struct sim_attacked_end *known = known_of(end);

    if (known->ah != NULL)
        (void)!uroce_ah_destroy(known->ah);
    known->ah = NULL;
}

static void stopped(struct sim_endpoint *end)
{
    release(end);
    if (end->type == UROCE_XRC_TGT)
        sim_srq_forget(sim_srq_at(end, SIM_ATTACKED_SRQ));
}

/* Keeps a deregistered key for the attacker. No peer may access the range of this key any more. */
static void bury(struct sim_endpoint *end)
{
    struct sim_attacked_end *known = known_of(end);
    struct sim_memory *memory = &end->memory;

    for (uint32_t i = 0; i < SIM_ATTACKED_RANGE; i++)
        if (sim_memory_slot(memory, SIM_MEMORY_WORDS, 0)[i] != OPENED)
            sim_endpoint_fail(end, "byte", i, "of the range that peers may only read has changed");
    known->gone_key = sim_memory_key(memory, SIM_MEMORY_WINDOWS);
    known->gone_range = sim_memory_address(memory, SIM_MEMORY_WINDOWS, 0);
    memset(sim_memory_slot(memory, SIM_MEMORY_WINDOWS, 0), SIM_MEMORY_UNZEROED, SIM_ATTACKED_RANGE);
    sim_endpoint_bury(end);
}

static bool worked(const struct sim_endpoint *end)
{
    return is_finishing(end) && sim_endpoint_worked(end);
}

/* ---- requests ---- */

/* UC supports the first four, UD the first two. */
static const uint8_t opcodes[] = { UROCE_SEND,       UROCE_SEND_WITH_IMM,
                                   UROCE_RDMA_WRITE, UROCE_RDMA_WRITE_WITH_IMM,
                                   UROCE_RDMA_READ,  UROCE_COMPARE_SWAP,
                                   UROCE_FETCH_ADD };

static uint32_t header_of(const struct sim_endpoint *end)
{
    return end->type == UROCE_UD ? SIM_GRH : 0;
}

/* Returns the size of a new receive in bytes. It is random while the attack runs. */
static uint32_t recv_size(struct sim_endpoint *end)
{
    uint32_t most = end->life->plan->message_max;

    return header_of(end) +
           (end->workload->attacked->over ? most : uro_rng_below(&end->rng, most + 1));
}

/* Returns whether the endpoint may send. The peer must have a receive for a last message of UC or
 * UD. */
static bool can_send(const struct sim_endpoint *end)
{
    const struct sim_endpoint *peer = end->peer;

    return !is_finishing(end) || !is_robust(end) ||
           (peer->recv_posted > peer->recv_done && end->messages_sent == peer->messages_taken);
}

static bool choose(struct sim_endpoint *end, struct sim_request *request)
{
    const struct sim_memory *there = &end->peer->memory;
    struct uro_rng *rng = &end->rng;
    uint32_t count = end->type == UROCE_UD ? 2 : end->type == UROCE_UC ? 4 : URO_ARRAY_LEN(opcodes);

    request->opcode = is_finishing(end) ? UROCE_SEND : opcodes[uro_rng_below(rng, count)];
    request->length = uro_rng_below(rng, end->life->plan->message_max + 1);
    if (sim_model_is(request->opcode, SIM_ATOMIC))
        request->length = 8;
    if (is_finishing(end) && is_robust(end) &&
        !sim_endpoint_in_error(end)) { /* the message fits the receive that it will find */
        uint32_t size = end->peer->recvs[end->peer->recv_done % SIM_REQUESTS_MAX].size;
        request->length = uro_rng_below(rng, size - header_of(end) + 1);
    }
    request->imm = uro_rng_u32(rng);
    request->seed = uro_rng_u64(rng);
    request->offset = uro_rng_below(rng, SIM_ATTACKED_RANGE - request->length + 1) & ~7u;
    request->remote_address = sim_memory_address(there, SIM_MEMORY_WINDOWS, 0) + request->offset;
    request->rkey = sim_memory_key(there, SIM_MEMORY_WINDOWS);
    sim_post_choose_flags(end, request, false);
    sim_buffer_scatter(&request->buffer, request->length, end->plan->send_sges, rng);
    end->messages_sent += is_finishing(end);
    return true;
}

static void fill(struct sim_endpoint *end, const struct sim_request *request,
                 struct uroce_send *send)
{
    send->compare_add = send->swap = request->seed;
    if (end->type == UROCE_XRC_INI)
        send->remote_srqn = uroce_srq_number(sim_srq_at(end->peer, SIM_ATTACKED_SRQ)->srq);
    if (end->type == UROCE_UD) {
        send->ah = known_of(end)->ah;
        send->remote_qpn = end->peer->qpn;
        send->remote_qkey = SIM_ATTACKED_QKEY;
    }
}

/* ---- completions ---- */

static void on_error(struct sim_endpoint *end, const struct sim_request *request, uint32_t status)
{
    (void)request;
    (void)status;
    sim_life_on_failure(end->life);
}

/* Checks that a message after the attack is the next message that the peer sent. */
static void take_last(struct sim_endpoint *end, const struct sim_receive *receive)
{
    const struct uroce_completion *cqe = receive->cqe;
    const struct sim_endpoint *peer = end->peer;
    const struct sim_request *request =
        sim_request_of(peer, peer->posted - peer->messages_sent + end->messages_taken);
    uint8_t bytes[SIM_GRH + SIM_ATTACKED_RANGE];

    URO_ASSERT(receive->recv->size <= sizeof bytes);
    sim_buffer_gather(&receive->recv->buffer, bytes);
    if (end->messages_taken == peer->messages_sent ||
        cqe->length != header_of(end) + request->length ||
        !sim_model_holds(bytes + header_of(end), request->length, request->seed))
        sim_receive_fail(end, receive, "after the attack: the message is not what was sent");
    end->messages_taken++;
}

/* Checks a receive. Its content may be forged, but its length and kind must be valid. */
static void take(struct sim_endpoint *end, const struct sim_receive *receive)
{
    const struct uroce_completion *cqe = receive->cqe;
    bool write = cqe->opcode == UROCE_DONE_RECV_RDMA_WITH_IMM;

    if (write ? end->type == UROCE_UD : cqe->opcode != UROCE_DONE_RECV)
        sim_receive_fail(end, receive, "completed as another kind of request");
    if (!write && cqe->length > receive->recv->size)
        sim_receive_fail(end, receive, "is longer than the receive that took it");
    if (end->type == UROCE_UD && (cqe->length < SIM_GRH || !(cqe->flags & UROCE_COMPLETION_GRH) ||
                                  cqe->source_qpn > URO_QPN_MULTICAST))
        sim_receive_fail(end, receive, "does not look like a datagram");
    if (is_finishing(end))
        take_last(end, receive);
}

/* ---- the frames of the attacker ---- */

static uint32_t below(struct sim_attacked *attacked, uint32_t bound)
{
    return uro_rng_below(&attacked->rng, bound);
}

static uint32_t psn_near(struct sim_attacked *attacked, uint32_t seen)
{
    if (below(attacked, 16) == 0)
        return below(attacked, SIM_PSN_MASK + 1);
    return (seen + below(attacked, AHEAD + BEHIND) - BEHIND + 1) & SIM_PSN_MASK;
}

/* A range of memory with a valid or an old key. */
struct range {
    uint32_t key;
    uint64_t address;
    uint32_t length;
};

static struct range choose_range(struct sim_attacked *attacked, const struct sim_endpoint *target)
{
    const struct sim_attacked_end *known = known_of(target);
    unsigned section = below(attacked, SIM_MEMORY_SECTIONS + 1);

    if (section == SIM_MEMORY_SECTIONS)
        return (struct range){ known->gone_key, known->gone_range, SIM_ATTACKED_RANGE };
    return (struct range){ sim_memory_key(&target->memory, section),
                           sim_memory_address(&target->memory, section, 0),
                           target->memory.sizes[section].slots *
                               target->memory.sizes[section].slot_size };
}

/* Chooses a key and an address. Mostly, the key is valid and the address is inside its range. */
static void aim(struct sim_attacked *attacked, const struct sim_endpoint *target, uint32_t length,
                uint32_t *rkey, uint64_t *va)
{
    const struct range range = choose_range(attacked, target);
    const struct range other = choose_range(attacked, target);
    uint32_t size = length < range.length ? range.length - length : 0;

    *rkey = below(attacked, 8) == 0 ? other.key : range.key;
    if (below(attacked, 16) == 0)
        *rkey ^= 1u << below(attacked, 32);
    *va = range.address;
    if (below(attacked, 4) == 0)
        *va += size + below(attacked, 2 * ASIDE);
    else if (below(attacked, 4) == 0)
        *va -= 1 + below(attacked, ASIDE);
    else
        *va += below(attacked, size + 1);
}

/* Chooses an XRC SRQ number: of the attacked target, of another queue, or a random number. */
static uint32_t choose_srqn(struct sim_attacked *attacked, const struct sim_endpoint *target)
{
    const struct sim_workload *workload = attacked->workload;
    uint32_t other = below(attacked, 8 * (SIM_PLAN_SRQS_MAX + 1));

    if (other < workload->plan->srq_count[target->side])
        return uroce_srq_number(workload->srqs[target->side][other].srq);
    if (other == SIM_PLAN_SRQS_MAX || attacked->plan->type != UROCE_XRC_INI)
        return below(attacked, SIM_PSN_MASK + 1);
    return uroce_srq_number(workload->srqs[1][SIM_ATTACKED_SRQ].srq);
}

static void put_deth(struct sim_attacked *attacked, const struct sim_endpoint *target, uint8_t *out)
{
    struct uro_deth deth = { .qkey = SIM_ATTACKED_QKEY, .source_qpn = target->peer->qpn };

    if (below(attacked, 8) == 0)
        deth.qkey ^= 1u << below(attacked, 32);
    if (below(attacked, 4) == 0)
        deth.source_qpn = below(attacked, SIM_PSN_MASK + 1);
    uro_deth_encode(out, &deth);
}

static uint8_t *put_ext(struct sim_attacked *attacked, const struct sim_endpoint *target,
                        unsigned one, uint32_t length, uint8_t *out)
{
    struct uro_reth reth = { .length = length };
    struct uro_atomic_eth atomic = { .swap_add = below(attacked, 256), .compare = 0 };
    const struct uro_feth feth = { (uint8_t)below(attacked, 4), (uint8_t)below(attacked, 3) };
    const struct uro_aeth aeth = { .kind = (enum uro_aeth_kind)below(attacked, 4),
                                   .value = (uint8_t)below(attacked, 32),
                                   .msn = below(attacked, SIM_PSN_MASK + 1) };
    uint32_t rkey;

    if (below(attacked, 4) == 0)
        reth.length = below(attacked, 4) == 0 ? LENGTH_HUGE : below(attacked, SIM_ATTACKED_RANGE);
    aim(attacked, target, one == URO_EXT_ATOMIC ? 8 : reth.length, &reth.rkey, &reth.va);
    atomic.rkey = rkey = reth.rkey;
    atomic.va = reth.va & ~UINT64_C(7);
    if (one == URO_EXT_FETH)
        uro_feth_encode(out, &feth);
    else if (one == URO_EXT_RETH)
        uro_reth_encode(out, &reth);
    else if (one == URO_EXT_ATOMIC)
        uro_atomic_eth_encode(out, &atomic);
    else if (one == URO_EXT_AETH)
        uro_aeth_encode(out, &aeth);
    else if (one == URO_EXT_XRCETH)
        uro_put_be32(out, choose_srqn(attacked, target));
    else if (one == URO_EXT_DETH)
        put_deth(attacked, target, out);
    else if (one == URO_EXT_ATOMIC_ACK)
        uro_put_be64(out, FORGED_LOW);
    else
        uro_put_be32(out, rkey);
    return out + uro_ext_length(one);
}

static uint32_t payload_of(struct sim_attacked *attacked, const struct uro_opcode *op)
{
    uint32_t mtu = attacked->plan->pair.path_mtu;

    if (!op->payload)
        return 0;
    if (op->operation == URO_ATOMIC_WRITE)
        return 8;
    if (op->service == URO_UD)
        return below(attacked, 8) == 0 ? below(attacked, DATAGRAM_MAX) : below(attacked, DATAGRAM);
    if (op->service == URO_UC && below(attacked, 16) == 0)
        return below(attacked, 2 * mtu); /* often longer than the path takes */
    if (below(attacked, 8) > 0 && !uro_position_ends(op->position))
        return mtu;
    return below(attacked, mtu + 1);
}

/* The first opcode of each service. */
static const uint8_t first_opcodes[] = {
    [UROCE_RC] = 0x00,
    [UROCE_UC] = 0x20,
    [UROCE_UD] = 0x60,
    [UROCE_XRC_INI] = 0xa0,
};

static uint8_t choose_opcode(struct sim_attacked *attacked)
{
    uint8_t first = first_opcodes[attacked->plan->type];
    bool any = first != 0 && below(attacked, 16) == 0;
    uint8_t opcode;

    do
        opcode = (uint8_t)(any ? below(attacked, 256) : first + below(attacked, OPCODES));
    while (uro_opcodes[opcode].name == NULL);
    return opcode;
}

static void forge_packet(struct sim_attacked *attacked, struct sim_endpoint *target, bool cut)
{
    struct sim_forged forged;
    uint8_t opcode = choose_opcode(attacked);
    const struct uro_opcode *op = &uro_opcodes[opcode];
    uint32_t length = payload_of(attacked, op);

    sim_forger_begin(&forged, target->peer->host, target->host, attacked->plan->pair.v6 ? 0 : 1);
    forged.bth.opcode = opcode;
    forged.bth.solicited = below(attacked, 2) == 0;
    forged.bth.dest_qpn = target->qpn;
    forged.bth.ack_req = below(attacked, 2) == 0;
    forged.bth.psn = psn_near(attacked, known_of(target)->seen[op->role]);
    size_t headers = forged.length;
    for (unsigned i = 0; i < URO_EXT_COUNT; i++)
        if (op->ext & 1u << i)
            forged.length =
                (size_t)(put_ext(attacked, target, 1u << i, length, forged.bytes + forged.length) -
                         forged.bytes);
    for (uint32_t i = 0; i < length; i++)
        forged.bytes[forged.length++] = (uint8_t)(FORGED_LOW + below(attacked, FORGED_ALL));
    sim_forger_pad(&forged, length);
    if (cut) {
        forged.length = headers + below(attacked, (uint32_t)(forged.length - headers) + 1);
        forged.bth.pad_count = (uint8_t)below(attacked, 4);
    }
    /* The next frame may continue this message. */
    if (op->service == URO_UC && below(attacked, 2) == 0)
        known_of(target)->seen[op->role] = forged.bth.psn;
    sim_forger_deliver(&forged, target->host, (uint16_t)(0xc000u | below(attacked, 0x4000)));
}

/* Records a frame for the attacker. */
static void record(struct sim_attacked *attacked, const struct sim_endpoint *to,
                   const struct uro_frame *frame)
{
    struct sim_attacked_frame *kept =
        &attacked->frames[attacked->frame_count++ % SIM_ATTACKED_FRAMES];
    const uint8_t *from = frame->network - URO_ETHER_LEN;
    size_t length = (size_t)(frame->body - from) + frame->body_length;

    kept->length = 0;
    if (length > sizeof kept->bytes)
        return;
    memcpy(kept->bytes, from, length);
    kept->length = (uint32_t)length;
    kept->to = to;
}

/* Chooses a byte to change, never in the destination QPN: no other queue pair is attacked. */
static uint32_t choose_byte(struct sim_attacked *attacked, uint32_t bth, uint32_t length)
{
    if (below(attacked, 4) == 0)
        return bth + below(attacked, BTH_FLAGS);
    return bth + BTH_REST + below(attacked, length - URO_ICRC_LEN - bth - BTH_REST);
}

/* Replays a frame that the attacker read, sometimes with a changed byte or cut off. */
static void repeat(struct sim_attacked *attacked, bool change, bool cut)
{
    const struct sim_attacked_frame *kept = &attacked->frames[below(attacked, SIM_ATTACKED_FRAMES)];
    uint32_t headers = URO_ETHER_LEN + URO_UDP_LEN;
    uint8_t bytes[SIM_ATTACKED_FRAME];
    uint32_t length = kept->length;

    if (length == 0)
        return;
    memcpy(bytes, kept->bytes, length);
    headers += bytes[URO_ETHER_LEN] >> 4 == 6 ? URO_IPV6_LEN : URO_IPV4_LEN;
    if (change) {
        bytes[choose_byte(attacked, headers, length)] ^= (uint8_t)(1u << below(attacked, 8));
        sim_forger_sum(bytes, length);
    }
    if (cut)
        length = 1 + below(attacked, length);
    sim_forger_raw(kept->to->host, bytes, length);
}

/* Sends one frame to one end. Both ends must be alive. */
static void forge(struct sim_attacked *attacked)
{
    struct sim_endpoint *target = &attacked->life.ends[below(attacked, 2)];
    uint32_t way = attacked->plan->type == UROCE_RC ? 0 : below(attacked, 8);

    if (way < 5)
        forge_packet(attacked, target, way == 4);
    else
        repeat(attacked, way == 6, way == 7);
}

/* ---- the attack ---- */

void sim_attacked_calm(struct sim_attacked *attacked)
{
    if (attacked == NULL || attacked->over)
        return;
    attacked->over = true;
    struct sim_life *life = &attacked->life;
    if (life->state != SIM_LIFE_RUNNING || !is_robust(&life->ends[0]))
        return;
    life->last_life = true;
    life->control.due = URO_TIME_NEVER;
    life->ends[0].sends_left = life->ends[1].sends_left = 0;
}

static uro_time attacker_next(const struct sim_node *node)
{
    const struct sim_attacked *attacked = URO_CONTAINER_OF(node, struct sim_attacked, attacker);
    const struct sim_life *life = &attacked->life;
    bool alive = life->ends[0].alive && life->ends[1].alive;
    /* The time limit for the last messages. */
    uro_time answer_max = 2 * attacked->workload->plan->flight_max + ANSWER_MAX;

    if (!attacked->over)
        return alive ? attacked->forge_at : SIM_PLAN_START + TIME_MAX;
    if (!attacked->workload->calm || !life->last_life || life->state != SIM_LIFE_RUNNING ||
        !is_robust(&life->ends[0]))
        return URO_TIME_NEVER;
    return attacked->finishing ? attacked->finishing_since + answer_max
                               : attacked->workload->calm_since + SIM_LIFE_NEIGHBOUR_WAIT;
}

/* Lets each end send one more message after the attack. If the attack damaged the state of a queue
 * pair, a message is lost or changed. The second call reports a lost message. */
static void ask(struct sim_attacked *attacked)
{
    if (attacked->finishing) {
        sim_world_fail(attacked->workload->world, "a message sent after the attack did not arrive");
        return;
    }
    attacked->finishing = true;
    attacked->finishing_since = attacked->workload->world->now;
    for (unsigned i = 0; i < 2; i++) {
        struct sim_endpoint *end = &attacked->life.ends[i];
        end->messages_sent = end->messages_taken = 0;
        end->sends_left = 1;
    }
}

static void attacker_run(struct sim_node *node)
{
    struct sim_attacked *attacked = URO_CONTAINER_OF(node, struct sim_attacked, attacker);
    uro_time now = attacked->workload->world->now;

    if (attacked->over) {
        ask(attacked);
    } else if (now >= SIM_PLAN_START + TIME_MAX) {
        sim_attacked_calm(attacked);
    } else {
        forge(attacked);
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
        attacked->ends[i].seen[frame->op->role] = frame->bth.psn;
        record(attacked, end, frame);
        return true;
    }
    return false;
}

static void init(struct sim_endpoint *end, unsigned index)
{
    const struct sim_workload *workload = end->workload;
    enum uroce_qp_type type = workload->attacked->plan->type;

    end->type = type == UROCE_XRC_INI && index == 1 ? UROCE_XRC_TGT : type;
    end->number = index;
    end->qkey = SIM_ATTACKED_QKEY;
    end->pd = end->type == UROCE_XRC_TGT ? workload->srqs[1][SIM_ATTACKED_SRQ].pd
                                         : sim_host_pd(end->host, workload->pds + PD + index);
}

#define OPS                                                                                        \
    .family = "attacked", .own_cq = true, .forged = true, .init = init, .begin = begin,            \
    .make = make, .connect = connect, .worked = worked, .stop = stop, .stopped = stopped,          \
    .release = release, .bury = bury, .can_send = can_send, .choose = choose, .fill = fill,        \
    .on_error = on_error, .on_progress = sim_life_on_progress, .recv_size = recv_size,             \
    .take = take

static const struct sim_endpoint_ops ops[2] = { { OPS }, { OPS, .reliable = true } };

struct sim_attacked *sim_attacked_make(struct sim_workload *workload)
{
    const struct sim_plan_attacked *plan = &workload->plan->attacked;

    if (plan->wait_max == 0)
        return NULL;
    struct sim_attacked *attacked = sim_alloc(sizeof *attacked);
    workload->attacked = attacked;
    attacked->workload = workload;
    attacked->plan = plan;
    uro_rng_init_number(&attacked->rng, plan->seed);
    if (plan->type == UROCE_XRC_INI)
        sim_srq_init(&workload->srqs[1][SIM_ATTACKED_SRQ], workload, 1, SIM_ATTACKED_SRQ);
    sim_life_init(&attacked->life, workload, &ops[plan->type != UROCE_UC && plan->type != UROCE_UD],
                  &plan->pair, 0);
    sim_world_add(workload->world, &attacked->attacker, attacker_next, attacker_run);
    return attacked;
}

void sim_attacked_check(struct sim_attacked *attacked)
{
    if (attacked != NULL && attacked->plan->type == UROCE_XRC_INI)
        sim_srq_check(&attacked->workload->srqs[1][SIM_ATTACKED_SRQ]);
}

void sim_attacked_free(struct sim_attacked *attacked)
{
    if (attacked == NULL)
        return;
    sim_srq_fini(&attacked->workload->srqs[1][SIM_ATTACKED_SRQ]);
    free(attacked);
}
