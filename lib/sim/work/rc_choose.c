/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_choose.c - chooses the next request of a reliable connection; see rc.h. */
#include "sim/net/psn.h"
#include "sim/oracle/model.h"
#include "sim/work/rc.h"
#include "sim/work/workload.h"

#define ATOMIC_LENGTH 8u
/* Factor of the probability that a request about a memory window is wrong. */
#define MW_FACTOR 4u

static const uint8_t opcodes[SIM_PLAN_KINDS] = {
    [SIM_PLAN_SEND] = UROCE_SEND,
    [SIM_PLAN_SEND_IMM] = UROCE_SEND_WITH_IMM,
    [SIM_PLAN_WRITE] = UROCE_RDMA_WRITE,
    [SIM_PLAN_WRITE_IMM] = UROCE_RDMA_WRITE_WITH_IMM,
    [SIM_PLAN_READ] = UROCE_RDMA_READ,
    [SIM_PLAN_CMP_SWAP] = UROCE_COMPARE_SWAP,
    [SIM_PLAN_FETCH_ADD] = UROCE_FETCH_ADD,
    [SIM_PLAN_SHARED_ADD] = UROCE_FETCH_ADD,
    [SIM_PLAN_READ_BACK] = UROCE_RDMA_READ,
    [SIM_PLAN_OVERWRITE] = UROCE_RDMA_WRITE,
    [SIM_PLAN_FLUSH] = UROCE_FLUSH,
    [SIM_PLAN_ATOMIC_WRITE] = UROCE_ATOMIC_WRITE,
    [SIM_PLAN_BIND] = UROCE_BIND_MW,
    [SIM_PLAN_LOCAL_INV] = UROCE_LOCAL_INV,
    [SIM_PLAN_SEND_INV] = UROCE_SEND_WITH_INV,
    [SIM_PLAN_MW_WRITE] = UROCE_RDMA_WRITE,
    [SIM_PLAN_MW_READ] = UROCE_RDMA_READ,
};

static enum sim_plan_kind choose_kind(struct sim_endpoint *end)
{
    const uint32_t *weights = end->plan->weights;
    uint32_t sum = 0;
    unsigned kind = 0;

    for (unsigned i = 0; i < SIM_PLAN_KINDS; i++)
        sum += weights[i];
    uint32_t pick = uro_rng_below(&end->rng, sum);
    while (pick >= weights[kind])
        pick -= weights[kind++];
    return kind;
}

static const struct sim_request *previous(const struct sim_endpoint *end)
{
    return end->posted > 0 ? sim_request_of(end, end->posted - 1) : NULL;
}

static uint32_t free_window(const struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < end->plan->send_capacity + 8; i++)
        if (end->rc->windows[i].users == 0)
            return i;
    return SIM_NO_WINDOW;
}

/* Takes a free slot of the peer. The slot of a READ is filled with the payload, the slot of a WRITE
 * with the canary value. */
static bool take_window(struct sim_endpoint *end, struct sim_request *request, bool read)
{
    uint32_t size = end->peer->memory.sizes[SIM_MEMORY_WINDOWS].slot_size;

    if (request->mw == NULL) {
        request->window = free_window(end);
        if (request->window == SIM_NO_WINDOW)
            return false;
        request->offset = uro_rng_below(&end->rng, size - request->length + 1);
    }
    struct sim_rc_window *window = &end->rc->windows[request->window];
    *window = (struct sim_rc_window){ .seed = request->seed,
                                      .offset = request->offset,
                                      .length = request->length };
    const struct sim_buffer buffer = sim_endpoint_window(end->peer, request);
    sim_buffer_fill(&buffer, read ? request->length : 0, request->seed);
    return true;
}

/* Uses the slot of the previous request: reads back its WRITE, or overwrites what its READ reads.
 */
static bool share_window(struct sim_endpoint *end, struct sim_request *request, bool read)
{
    const struct sim_request *before = previous(end);
    uint8_t wanted = read ? UROCE_RDMA_WRITE : UROCE_RDMA_READ;

    if (before == NULL || before->opcode != wanted || before->fault != SIM_FAULT_NONE ||
        before->number < end->confirmed)
        return false;
    request->window = before->window;
    request->offset = before->offset;
    request->length = before->length;
    if (read)
        request->seed = before->seed;
    else
        request->flags |= UROCE_FENCE; /* or the WRITE may overtake a READ that is retried */
    return true;
}

static bool place_remote(struct sim_endpoint *end, struct sim_request *request,
                         enum sim_plan_kind kind)
{
    bool read = request->opcode == UROCE_RDMA_READ || request->opcode == UROCE_FLUSH;
    bool shares =
        (kind == SIM_PLAN_READ_BACK || kind == SIM_PLAN_OVERWRITE || kind == SIM_PLAN_FLUSH) &&
        share_window(end, request, read);

    if (!shares && !take_window(end, request, read))
        return false;
    struct sim_rc_window *window = &end->rc->windows[request->window];
    window->users++;
    if (!read) {
        window->writers++;
        window->seed = request->seed;
    }
    request->writers = window->writers;
    if (request->mw != NULL)
        return true;
    request->remote_address =
        sim_memory_address(&end->peer->memory, SIM_MEMORY_WINDOWS, request->window) +
        request->offset;
    request->rkey = sim_memory_key(&end->peer->memory, SIM_MEMORY_WINDOWS);
    return true;
}

static void place_atomic(struct sim_endpoint *end, struct sim_request *request)
{
    request->length = ATOMIC_LENGTH;
    request->original = end->rc->word;
    if (request->opcode == UROCE_ATOMIC_WRITE) {
        sim_memory_message((uint8_t *)&request->swap, 0, ATOMIC_LENGTH, request->seed);
        request->remote_address = sim_memory_address(&end->peer->memory, SIM_MEMORY_WORDS, 0);
        request->rkey = sim_memory_key(&end->peer->memory, SIM_MEMORY_WORDS);
        return;
    }
    request->compare_add = uro_rng_u64(&end->rng);
    request->swap = uro_rng_u64(&end->rng);
    if (request->shared_word) {
        request->compare_add = 1 + uro_rng_below(&end->rng, 1u << 20);
        request->remote_address = SIM_RC_SHARED;
        request->rkey = end->peer->rc->shared_key;
        return;
    }
    if (request->opcode == UROCE_COMPARE_SWAP && uro_rng_below(&end->rng, 2) == 0)
        request->compare_add = request->original;
    request->remote_address = sim_memory_address(&end->peer->memory, SIM_MEMORY_WORDS, 0);
    request->rkey = sim_memory_key(&end->peer->memory, SIM_MEMORY_WORDS);
}

/* Computes the peer's word after a correct atomic. */
static void follow_word(struct sim_endpoint *end, const struct sim_request *request)
{
    if (request->shared_word || request->fault != SIM_FAULT_NONE)
        return;
    if (request->opcode == UROCE_ATOMIC_WRITE)
        end->rc->word = request->swap;
    else if (request->opcode == UROCE_FETCH_ADD)
        end->rc->word += request->compare_add;
    else if (request->compare_add == end->rc->word)
        end->rc->word = request->swap;
}

/* Returns a key that is registered at the peer's host, but for another protection domain; if
 * possible, of another workload. */
static uint32_t other_pd_key(const struct sim_endpoint *end)
{
    const struct sim_host_workloads *host_workloads =
        end->workload->host_workloads[end->peer->side];
    uint32_t found = 0;

    for (uint32_t i = 0; i < host_workloads->count; i++) {
        const struct sim_workload *workload = host_workloads->list[i].workload;
        if (found != 0 && workload == end->workload)
            continue;
        for (uint32_t j = 0; j < 2 * workload->plan->pair_count; j++) {
            const struct sim_endpoint *other = &workload->connections[j / 2].ends[j % 2];
            if (other->host != host_workloads->host || other->pd == end->peer->pd || !other->alive)
                continue;
            found = sim_memory_key(&other->memory, SIM_MEMORY_WINDOWS);
            break;
        }
    }
    return found;
}

/* Adds an error that is possible for this kind of request. Leaves the request unchanged if none is
 * possible. */
static void spoil(struct sim_endpoint *end, struct sim_request *request)
{
    const struct sim_memory *memory = &end->peer->memory;
    bool remote = request->opcode != UROCE_SEND && request->opcode != UROCE_SEND_WITH_IMM;
    bool atomic = request->length == ATOMIC_LENGTH && request->window == SIM_NO_WINDOW && remote;
    enum sim_fault way = 1 + uro_rng_below(&end->rng, SIM_FAULT_BAD_WINDOW - 1);

    if (request->mw != NULL) {
        if (sim_rc_window_spoil(end, request)) {
            request->fault = SIM_FAULT_BAD_WINDOW;
            end->life->may_fail = true;
        }
        return;
    }
    request->flush.selectivity = 0; /* FLUSH of the whole region has no range to exceed */
    if (request->opcode == UROCE_FLUSH && way == SIM_FAULT_BAD_LKEY)
        return;
    if (request->length == 0)
        return; /* keys and addresses of zero bytes are not checked */
    if (way == SIM_FAULT_BAD_LKEY) {
        request->flags &= (uint8_t)~UROCE_INLINE;
    } else if (way == SIM_FAULT_UNSUPPORTED) {
        request->flags &= (uint8_t)~UROCE_INLINE; /* a request with this fault is not inline */
    } else if (!remote || (way == SIM_FAULT_MISALIGNED && !atomic)) {
        return;
    } else if (way == SIM_FAULT_BAD_RKEY) {
        request->rkey = uro_rng_below(&end->rng, 2) == 0 ? request->rkey ^ 0x5a5a5a5a
                                                         : sim_rc_window_stale(end->peer);
    } else if (way == SIM_FAULT_OTHER_PD) {
        request->rkey = other_pd_key(end);
    } else if (way == SIM_FAULT_BEYOND && atomic) {
        request->remote_address -= 8;
    } else if (way == SIM_FAULT_BEYOND) {
        const struct sim_memory_section_size *size = &memory->sizes[SIM_MEMORY_WINDOWS];
        request->remote_address = sim_memory_address(memory, SIM_MEMORY_WINDOWS, 0) +
                                  (uint64_t)size->slots * size->slot_size - request->length + 1;
    } else if (way == SIM_FAULT_NO_RIGHT) {
        request->rkey = sim_memory_key(memory, SIM_MEMORY_PRIVATE);
        request->remote_address = (sim_memory_address(memory, SIM_MEMORY_PRIVATE, 0) + 7) / 8 * 8;
    } else {
        request->remote_address += 4;
    }
    request->fault = way;
    end->life->may_fail = true;
}

/* XRC: chooses one of the peer's shared receive queues in its domain. */
static uint32_t choose_srq(struct sim_endpoint *end)
{
    uint32_t count = end->workload->plan->srq_count[end->peer->side];
    uint32_t index;

    do
        index = uro_rng_below(&end->rng, count);
    while (!sim_srq_at(end->peer, index)->plan->xrc ||
           (end->life->last_life && sim_srq_at(end->peer, index)->plan->replace_probability > 0));
    return index;
}

static void give_psns(struct sim_endpoint *end, struct sim_request *request)
{
    bool local = sim_model_is(request->opcode, SIM_LOCAL);
    bool one = sim_model_is(request->opcode, SIM_ANSWERED) && request->opcode != UROCE_RDMA_READ;
    uint32_t packets = one ? 1 : sim_model_packets(request->length, end->life->plan->path_mtu);

    request->psn = end->rc->psn;
    request->psns = local ? 0 : packets;
    request->remote_number = end->rc->remote;
    end->rc->remote += !local;
    end->rc->psn = (end->rc->psn + request->psns) & SIM_PSN_MASK;
}

/* Chooses a request about a memory window; a WRITE when no window fits. */
static void choose_window(struct sim_endpoint *end, struct sim_request *request,
                          enum sim_plan_kind *kind)
{
    if (*kind < SIM_PLAN_BIND)
        return;
    if (!sim_rc_window_choose(end, request, *kind)) {
        *kind = SIM_PLAN_WRITE;
        request->opcode = UROCE_RDMA_WRITE;
    }
    if (sim_model_is(request->opcode, SIM_LOCAL))
        request->length = 0;
}

bool sim_rc_choose(struct sim_endpoint *end, struct sim_request *request)
{
    /* In the workload of cm.h, the peer has no memory after its program left the connection. */
    enum sim_plan_kind kind = end->peer->memory.memory != NULL ? choose_kind(end) : SIM_PLAN_SEND;
    bool has_imm = kind == SIM_PLAN_SEND_IMM || kind == SIM_PLAN_WRITE_IMM;
    bool atomic = kind == SIM_PLAN_CMP_SWAP || kind == SIM_PLAN_FETCH_ADD ||
                  kind == SIM_PLAN_SHARED_ADD || kind == SIM_PLAN_ATOMIC_WRITE;

    request->opcode = opcodes[kind];
    request->shared_word = kind == SIM_PLAN_SHARED_ADD;
    request->length = sim_post_choose_length(end);
    request->imm = has_imm ? uro_rng_u32(&end->rng) : 0;
    request->seed = uro_rng_u64(&end->rng);
    if (end->type == UROCE_XRC_INI) {
        request->srq = choose_srq(end);
        request->srqn = uroce_srq_number(sim_srq_at(end->peer, request->srq)->srq);
        request->srq_generation = sim_srq_at(end->peer, request->srq)->generation;
    }
    choose_window(end, request, &kind);
    bool sends = kind == SIM_PLAN_SEND || kind == SIM_PLAN_SEND_IMM || kind == SIM_PLAN_SEND_INV;
    if (kind == SIM_PLAN_FLUSH)
        request->flush = (struct sim_flush){
            .placement = (uint8_t)sim_world_between(&end->rng, 1, 3),
            .selectivity = (uint8_t)uro_rng_below(&end->rng, 2),
        };
    if (atomic)
        place_atomic(end, request);
    else if (!sends && !sim_model_is(request->opcode, SIM_LOCAL) &&
             !place_remote(end, request, kind))
        return false;
    sim_post_choose_flags(end, request, sim_model_is(request->opcode, SIM_DATA));
    if (!end->life->last_life && !end->workload->calm &&
        sim_world_chance(&end->rng, end->life->plan->inject_probability *
                                        (request->mw != NULL ? MW_FACTOR : 1)))
        spoil(end, request);
    if (atomic)
        follow_word(end, request);
    give_psns(end, request);
    if (sim_model_is(request->opcode, SIM_MESSAGE))
        request->message = end->messages_sent++;
    if (request->opcode == UROCE_RDMA_WRITE_WITH_IMM)
        end->rc->windows[request->window].users++; /* the peer's completion ends this use */
    if (sim_model_is(request->opcode, SIM_LOCAL) || request->opcode == UROCE_FLUSH)
        return true; /* the request uses no local memory */
    sim_buffer_scatter(&request->buffer, request->length,
                       (atomic && request->opcode != UROCE_ATOMIC_WRITE) ||
                               end->plan->send_sges == 0
                           ? 1
                           : end->plan->send_sges,
                       &end->rng);
    return true;
}
