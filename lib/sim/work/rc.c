/* SPDX-License-Identifier: BSD-3-Clause */
/* rc.c - reliable connections: their lives, their memory windows, and the choice of requests; see
 * rc.h. */
#include "sim/work/rc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/inside.h"
#include "sim/oracle/model.h"
#include "sim/work/workload.h"

#define WORDS_SIZE    64u
#define REVOKED_MAX   URO_US(1000)
#define NO_OPERATION  12u /* a value that is not an opcode */
#define ATOMIC_LENGTH 8u
/* Factor of the probability that a request about a memory window is wrong. */
#define MW_FACTOR 4u
#define LOW_BYTE  0xffu
/* Factor of the probability that a window in use is invalidated, since there are few occasions. */
#define RUDE_FACTOR 8u

/* ---- memory windows ----------------------------------------------------------------------------
 *
 * A memory window (MW) of type 2 opens a part of one slot of its owner's SIM_MEMORY_WINDOWS to the
 * peer. The last slots of that section are for memory windows. Each end sees the completions of the
 * other end at once, as if the two programs exchanged messages. BIND_MW also binds windows of type
 * 1, even while they are bound. A window of type 1 is not invalidated, but bound to zero bytes.
 */

/* Returns the slot of which the memory window opens a part. */
static uint32_t window_of(const struct sim_endpoint *owner, const struct sim_rc_mw *mw)
{
    return owner->peer->plan->send_capacity + 8 + (uint32_t)(mw - owner->rc->mws);
}

static void begin_windows(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        struct sim_rc_mw *mw = &end->rc->mws[i];
        *mw = (struct sim_rc_mw){ .first_type = (end->life->life + i) % 2 != 0 };
        sim_must(
            uroce_mw_create(end->pd, mw->first_type ? UROCE_MW_TYPE_1 : UROCE_MW_TYPE_2, &mw->mw));
        mw->rkey = uroce_mw_key(mw->mw);
    }
}

static bool has_bound_window(const struct sim_endpoint *end)
{
    bool bound = false;

    for (uint32_t i = 0; i < SIM_RC_MWS; i++)
        bound |= uroce_mw_is_bound(end->rc->mws[i].mw) != 0;
    return bound;
}

static void destroy_windows(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        if (end->rc->mws[i].mw != NULL)
            (void)!uroce_mw_destroy(end->rc->mws[i].mw);
        end->rc->mws[i].mw = NULL;
    }
}

/* Ends the windows of a life. A region cannot be deregistered before its windows. */
static void end_windows(struct sim_endpoint *end)
{
    struct sim_memory_region *region = &end->memory.regions[SIM_MEMORY_WINDOWS];

    if (has_bound_window(end) && uroce_mr_destroy(region->mr) == 0) {
        region->mr = NULL;
        sim_world_fail(end->world, "a region was deregistered under a window");
    }
    destroy_windows(end);
}

/* Returns a window of @owner in @state that no request uses now, or NULL. */
static struct sim_rc_mw *find(struct sim_endpoint *owner, enum sim_rc_mw_state state)
{
    uint32_t first = uro_rng_below(&owner->rng, SIM_RC_MWS);

    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        struct sim_rc_mw *mw = &owner->rc->mws[(first + i) % SIM_RC_MWS];
        if (mw->state == state && owner->peer->rc->windows[window_of(owner, mw)].users == 0)
            return mw;
    }
    return NULL;
}

static bool bind(struct sim_endpoint *end, struct sim_request *request)
{
    struct sim_rc_mw *mw = find(end, SIM_RC_MW_FREE);
    struct sim_rc_mw *bound = find(end, SIM_RC_MW_BOUND);
    struct uro_rng *rng = &end->rng;
    uint32_t size = end->memory.sizes[SIM_MEMORY_WINDOWS].slot_size;

    if (mw == NULL && bound != NULL && bound->first_type)
        mw = bound;
    if (mw == NULL)
        return false;
    request->mw = mw;
    request->inv_rkey = mw->rkey;
    request->rkey = mw->rkey ^ sim_world_between(rng, 1, LOW_BYTE);
    mw->offset = uro_rng_below(rng, size);
    mw->length = 1 + uro_rng_below(rng, size - mw->offset);
    mw->access = sim_world_between(rng, 1, 3) * UROCE_ACCESS_REMOTE_WRITE; /* WRITE, READ or both */
    if (uro_rng_below(rng, 2) == 0 && !mw->first_type)
        mw->access |= UROCE_ACCESS_ZERO_BASED;
    mw->base =
        sim_memory_address(&end->memory, SIM_MEMORY_WINDOWS, window_of(end, mw)) + mw->offset;
    mw->state = SIM_RC_MW_BINDING;
    return true;
}

/* Returns a window to invalidate although the peer uses it, or NULL. */
static struct sim_rc_mw *find_in_use(struct sim_endpoint *owner)
{
    if (owner->life->last_life || owner->workload->calm ||
        !sim_world_chance(&owner->rng, RUDE_FACTOR * owner->life->plan->inject_probability))
        return NULL;
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        struct sim_rc_mw *mw = &owner->rc->mws[i];
        struct sim_rc_window *window = &owner->peer->rc->windows[window_of(owner, mw)];
        if (mw->state != SIM_RC_MW_BOUND || window->users == 0)
            continue;
        window->revoked = true;
        owner->life->may_fail = true;
        return mw;
    }
    return NULL;
}

static bool invalidate(struct sim_endpoint *owner, struct sim_request *request)
{
    struct sim_rc_mw *mw = request->opcode == UROCE_LOCAL_INV ? find_in_use(owner) : NULL;

    if (mw == NULL)
        mw = find(owner, SIM_RC_MW_BOUND);
    if (mw == NULL || (mw->first_type && request->opcode != UROCE_LOCAL_INV))
        return false;
    request->mw = mw;
    request->inv_rkey = request->mw->rkey;
    request->mw->state = SIM_RC_MW_DYING;
    if (request->mw->first_type) {
        request->opcode = UROCE_BIND_MW;
        request->rkey = request->mw->rkey ^ sim_world_between(&owner->rng, 1, LOW_BYTE);
    }
    return true;
}

/* Chooses a WRITE or READ of some bytes through a window. */
static bool use(struct sim_endpoint *end, struct sim_request *request)
{
    struct sim_rc_mw *mw = find(end->peer, SIM_RC_MW_BOUND);
    uint32_t right =
        request->opcode == UROCE_RDMA_READ ? UROCE_ACCESS_REMOTE_READ : UROCE_ACCESS_REMOTE_WRITE;

    if (mw == NULL || !(mw->access & right))
        return false;
    if (request->length > mw->length)
        request->length = mw->length;
    request->mw = mw;
    request->window = window_of(end->peer, mw);
    request->offset = mw->offset + uro_rng_below(&end->rng, mw->length - request->length + 1);
    request->rkey = mw->rkey;
    request->remote_address =
        (mw->access & UROCE_ACCESS_ZERO_BASED ? 0 : mw->base) + (request->offset - mw->offset);
    return true;
}

static bool choose_window_request(struct sim_endpoint *end, struct sim_request *request,
                                  enum sim_plan_kind kind)
{
    switch ((unsigned)kind) {
    case SIM_PLAN_BIND:
        return bind(end, request);
    case SIM_PLAN_LOCAL_INV:
        return invalidate(end, request);
    case SIM_PLAN_SEND_INV:
        return invalidate(end->peer, request);
    default:
        return use(end, request);
    }
}

static uint32_t stale_key(const struct sim_endpoint *owner)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++)
        if (owner->rc->mws[i].state == SIM_RC_MW_FREE)
            return owner->rc->mws[i].rkey;
    return uroce_mw_key(owner->rc->mws[0].mw) ^ SIM_BAD_KEY;
}

/* Makes the request use a wrong key, or access one byte beyond the window. */
static bool spoil_window(struct sim_endpoint *end, struct sim_request *request)
{
    const struct sim_rc_mw *mw = request->mw;
    bool local = request->opcode == UROCE_BIND_MW || request->opcode == UROCE_LOCAL_INV;

    if (request->opcode == UROCE_BIND_MW) {
        request->inv_rkey ^= SIM_BAD_KEY;
        return true;
    }
    if (local || request->opcode == UROCE_SEND_WITH_INV) {
        request->inv_rkey = local ? stale_key(end) : stale_key(end->peer);
        return true;
    }
    if (request->length == 0 || uro_rng_below(&end->rng, 2) == 0)
        return false;
    if (uro_rng_below(&end->rng, 2) == 0)
        request->rkey ^= 1; /* perhaps the key of an earlier bind */
    else
        request->remote_address +=
            mw->length - (request->offset - mw->offset) - request->length + 1;
    return true;
}

/* Returns the length that a BIND_MW gives to its window. */
static uint64_t length_of(const struct sim_request *request)
{
    return request->mw->state == SIM_RC_MW_DYING ? 0 : request->mw->length;
}

static void spoil_bind(struct sim_endpoint *end, const struct sim_request *request)
{
    const bool revoked = end->memory.regions[SIM_MEMORY_WINDOWS].mr == NULL;

    if (request->opcode == UROCE_BIND_MW && (request->fault == SIM_FAULT_BAD_WINDOW || revoked))
        sim_inside_set_bind(end->qp, request->inv_rkey,
                            sim_memory_key(&end->memory, SIM_MEMORY_WINDOWS), length_of(request));
}

void sim_rc_window_done(struct sim_endpoint *end, const struct sim_request *request)
{
    struct sim_rc_mw *mw = request->mw;
    bool bound = request->opcode == UROCE_BIND_MW && mw->state == SIM_RC_MW_BINDING;

    if (request->opcode == UROCE_BIND_MW) {
        mw->rkey = request->rkey;
        mw->state = bound ? SIM_RC_MW_BOUND : SIM_RC_MW_FREE;
    } else if (request->opcode == UROCE_LOCAL_INV) {
        mw->state = SIM_RC_MW_FREE;
    } else {
        return;
    }
    if ((uroce_mw_is_bound(mw->mw) != 0) != bound || uroce_mw_key(mw->mw) != mw->rkey)
        sim_world_fail(end->world,
                       "the engine's window differs from the work request that bound it");
}

void sim_rc_window_invalidated(struct sim_endpoint *end, uint32_t rkey)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        struct sim_rc_mw *mw = &end->rc->mws[i];
        if (mw->rkey != rkey)
            continue;
        if (uroce_mw_is_bound(mw->mw))
            sim_world_fail(end->world, "a window is open after it was invalidated");
        mw->state = SIM_RC_MW_FREE;
        return;
    }
}

/* ---- requests ---- */

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

/* Takes a free slot of the peer, or the slot of a memory window. The slot of a READ or FLUSH is
 * filled with the payload, the slot of a WRITE with the canary value. */
static bool take_window(struct sim_endpoint *end, struct sim_request *request, bool read)
{
    uint32_t size = end->peer->memory.sizes[SIM_MEMORY_WINDOWS].slot_size;

    if (request->mw == NULL) {
        request->window = 0;
        while (end->rc->windows[request->window].users > 0)
            if (++request->window == end->plan->send_capacity + 8)
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

/* Uses the slot of the previous request: reads back or flushes its WRITE, or overwrites what its
 * READ reads. */
static bool share_window(struct sim_endpoint *end, struct sim_request *request, bool read)
{
    const struct sim_request *before =
        end->posted > 0 ? sim_request_of(end, end->posted - 1) : NULL;
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
    request->remote_address = sim_memory_address(&end->peer->memory, SIM_MEMORY_WORDS, 0);
    request->rkey = sim_memory_key(&end->peer->memory, SIM_MEMORY_WORDS);
    if (request->opcode == UROCE_ATOMIC_WRITE) {
        sim_memory_message((uint8_t *)&request->swap, 0, ATOMIC_LENGTH, request->seed);
        return;
    }
    request->compare_add = uro_rng_u64(&end->rng);
    request->swap = uro_rng_u64(&end->rng);
    if (request->shared_word) {
        request->compare_add = 1 + uro_rng_below(&end->rng, 1u << 20);
        request->remote_address = SIM_RC_SHARED;
        request->rkey = end->peer->rc->shared_key;
    } else if (request->opcode == UROCE_COMPARE_SWAP && uro_rng_below(&end->rng, 2) == 0) {
        request->compare_add = request->original;
    }
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
 * possible, of another workload. Returns 0 if there is none. */
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

/* Draws an error, and adds it to the request if this kind of request can have it. */
static void spoil(struct sim_endpoint *end, struct sim_request *request)
{
    const struct sim_memory *memory = &end->peer->memory;
    bool remote = request->opcode != UROCE_SEND && request->opcode != UROCE_SEND_WITH_IMM;
    bool atomic = request->length == ATOMIC_LENGTH && request->window == SIM_NO_WINDOW && remote;
    enum sim_fault way = 1 + uro_rng_below(&end->rng, SIM_FAULT_BAD_WINDOW - 1);

    if (request->mw != NULL) {
        if (spoil_window(end, request)) {
            request->fault = SIM_FAULT_BAD_WINDOW;
            end->life->may_fail = true;
        }
        return;
    }
    request->flush.selectivity = 0; /* FLUSH of a range: only a range can be too long */
    if (request->length == 0 || (request->opcode == UROCE_FLUSH && way == SIM_FAULT_BAD_LKEY))
        return; /* zero bytes: keys and addresses are not checked; FLUSH: there is no lkey */
    if (way == SIM_FAULT_BAD_LKEY || way == SIM_FAULT_UNSUPPORTED) {
        request->flags &= (uint8_t)~UROCE_INLINE; /* a request with these faults is not inline */
    } else if (!remote || (way == SIM_FAULT_MISALIGNED && !atomic)) {
        return;
    } else if (way == SIM_FAULT_BAD_RKEY) {
        request->rkey =
            uro_rng_below(&end->rng, 2) == 0 ? request->rkey ^ 0x5a5a5a5a : stale_key(end->peer);
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
    if (!choose_window_request(end, request, *kind)) {
        *kind = SIM_PLAN_WRITE;
        request->opcode = UROCE_RDMA_WRITE;
    }
    if (sim_model_is(request->opcode, SIM_LOCAL))
        request->length = 0;
}

static bool choose(struct sim_endpoint *end, struct sim_request *request)
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

static uint64_t *word_of(const struct sim_endpoint *end)
{
    return (uint64_t *)(void *)sim_memory_slot(&end->memory, SIM_MEMORY_WORDS, 0);
}

/* ---- a life begins ---- */

static void make(struct sim_endpoint *end)
{
    const struct sim_plan_end *plan = end->plan;
    const struct sim_life *life = end->life;
    const struct sim_plan_end *peer = &life->plan->ends[plan == life->plan->ends];
    uint32_t message_max = life->plan->message_max;
    uint32_t window = (message_max + 2 * SIM_MEMORY_GUARD + 7) / 8 * 8;
    const uint32_t local = UROCE_ACCESS_LOCAL_WRITE;
    bool own = end->type == UROCE_RC && end->srq == NULL; /* has its own receive queue */
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { plan->send_capacity,
                               sim_memory_slot_size(message_max, plan->send_sges), local },
        [SIM_MEMORY_RECVS] = { own ? plan->recv_capacity : 0,
                               sim_memory_slot_size(message_max, plan->recv_sges), local },
        [SIM_MEMORY_WINDOWS] = { peer->send_capacity + 8 + SIM_RC_MWS, window,
                                 local | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |
                                     UROCE_ACCESS_MW_BIND | UROCE_ACCESS_FLUSH_GLOBAL |
                                     UROCE_ACCESS_FLUSH_PERSISTENT },
        [SIM_MEMORY_WORDS] = { 1, WORDS_SIZE,
                               local | UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_REMOTE_WRITE },
        [SIM_MEMORY_PRIVATE] = { 1, window, local },
    };

    sim_endpoint_make_memory(end, 0, sizes);
    begin_windows(end);

    struct sim_shared_word *shared = &end->workload->shared[end->side];
    sim_must(uroce_mr_create_at(end->pd, shared->word, sizeof *shared->word, SIM_RC_SHARED,
                                sizes[SIM_MEMORY_WORDS].access, &end->rc->shared_word));
    end->rc->shared_key = uroce_mr_key(end->rc->shared_word);
    sim_endpoint_create(end);
    end->wire_psn = life->life == 0 ? plan->first_psn : uro_rng_below(&end->rng, SIM_PSN_MASK + 1);
    end->rc->psn = end->wire_psn;
}

static void begin(struct sim_endpoint *end)
{
    struct sim_rc_state *rc = end->rc;

    end->sends_left = end->type == UROCE_XRC_TGT ? 0 : end->plan->sends;
    rc->remote = 0;
    rc->msn_sent = 0;
    rc->read_parts = 0;
    rc->word_maybes = 0;
    memset(rc->revoked, 0, sizeof rc->revoked);
    memset(rc->windows, 0, sizeof rc->windows);
}

static void connect(struct sim_endpoint *end)
{
    end->rc->word = uro_rng_u64(&end->rng);
    if (end->peer->memory.memory != NULL)
        *word_of(end->peer) = end->rc->word;
}

void sim_rc_meet(struct sim_endpoint *a, struct sim_endpoint *b)
{
    a->peer = b;
    b->peer = a;
    connect(a);
    connect(b);
}

static void fill(struct sim_endpoint *end, const struct sim_request *request,
                 struct uroce_send *send)
{
    send->compare_add = request->compare_add;
    send->swap = request->swap;
    if (request->opcode == UROCE_FLUSH) {
        send->flush_length = request->length;
        send->flush_placement = request->flush.placement;
        send->flush_selectivity = request->flush.selectivity;
    }
    if (sim_model_is(request->opcode, SIM_LOCAL) || request->opcode == UROCE_SEND_WITH_INV)
        send->imm = request->inv_rkey;
    if (request->opcode == UROCE_BIND_MW) {
        send->mw = request->mw->mw;
        send->mr = end->memory.regions[SIM_MEMORY_WINDOWS].mr;
        send->remote_address = request->mw->base;
        send->bind_length = send->mr != NULL ? length_of(request) : 0;
        send->bind_access = request->mw->access;
    }
    if (end->type == UROCE_XRC_INI)
        send->remote_srqn = request->srqn;
}

/* ---- a life ends ---- */

/* Stops an XRC target. Its receives complete in a CQ of other queue pairs, and stay there when the
 * target is destroyed. So the completions are polled first. */
static void stop_target(struct sim_endpoint *end)
{
    struct sim_workload *workload = end->workload;

    for (uint32_t i = 0; i < workload->plan->cq_count; i++)
        sim_cq_poll(&workload->cqs[end->side][i]);
    if (workload->plan->cq_tight_all)
        sim_cq_poll(&workload->tight[end->side]);
    for (uint32_t i = 0; i < workload->plan->srq_count[end->side]; i++)
        if (workload->srqs[end->side][i].plan->xrc)
            workload->srqs[end->side][i].lost_max++;
}

static void stop(struct sim_endpoint *end)
{
    if (end->type == UROCE_XRC_TGT)
        stop_target(end);
    for (; end->confirmed < end->posted; end->confirmed++)
        sim_rc_uncertain(end, sim_request_of(end, end->confirmed));
}

/* Checks the value that atomics left in the peer's word. If some atomics may have been lost, each
 * value that is possible without them is accepted, too. */
static void check_word(struct sim_endpoint *end)
{
    const struct sim_rc_state *rc = end->rc;

    if (end->peer == NULL || end->peer->memory.memory == NULL)
        return; /* the other side of a connection of cm.h has ended */
    uint64_t value = *word_of(end->peer);
    bool known = value == rc->word;

    for (uint32_t i = 0; i < rc->word_maybes; i++)
        known |= value == rc->word_maybe[i];
    if (!known)
        sim_world_fail(end->world,
                       "pair %u: atomics left 0x%016" PRIx64 ", should be 0x%016" PRIx64,
                       end->life->number, value, rc->word);
}

static void release(struct sim_endpoint *end)
{
    destroy_windows(end);
    if (end->rc->shared_word != NULL)
        (void)!uroce_mr_destroy(end->rc->shared_word);
    end->rc->shared_word = NULL;
}

static void bury(struct sim_endpoint *end)
{
    end_windows(end);
    sim_endpoint_bury(end);
    release(end);
}

/* Deregisters memory that is in use, or registers it again with another key. */
static void revoke(struct sim_life *life)
{
    static const enum sim_memory_section sections[] = { SIM_MEMORY_SENDS, SIM_MEMORY_RECVS,
                                                        SIM_MEMORY_WINDOWS, SIM_MEMORY_WORDS };
    struct sim_endpoint *end = &life->ends[uro_rng_below(life->rng, 2)];
    enum sim_memory_section section = sections[uro_rng_below(life->rng, URO_ARRAY_LEN(sections))];

    life->revoked = true;
    life->control.due = life->world->now + uro_rng_below(life->rng, REVOKED_MAX);
    if (section == SIM_MEMORY_WINDOWS && has_bound_window(end))
        return;
    life->may_fail = true;
    end->rc->revoked[section] = true;
    end->rc->renewed = UINT64_MAX;
    if (uro_rng_below(life->rng, 2) == 0) {
        sim_memory_deregister(&end->memory, section);
    } else {
        sim_memory_register_again(&end->memory, section);
        end->rc->renewed = section == SIM_MEMORY_SENDS ? end->posted : end->peer->posted;
    }
    sim_world_note(life->world, "pair %u: section %d of %c is %s", life->number, (int)section,
                   end->host->config.name,
                   end->rc->renewed == UINT64_MAX ? "deregistered" : "registered again");
}

/* Sets the number, the type and the protection domain (PD) of an end. An XRC target has the PD of
 * its SRQs, because its receives use that PD. */
static void init(struct sim_endpoint *end, unsigned index)
{
    const struct sim_life *life = end->life;
    const struct sim_workload *workload = end->workload;

    end->number = 1 + (life->number - workload->number * SIM_RC_FAMILY) * 2 + index;
    end->rc = sim_alloc(sizeof *end->rc);
    end->type = UROCE_RC;
    end->pd = sim_host_pd(end->host, workload->pds + end->number);
    if (life->plan->xrc)
        end->type = index == life->plan->xrc_target ? UROCE_XRC_TGT : UROCE_XRC_INI;
    for (uint32_t j = 0; end->type == UROCE_XRC_TGT && j < workload->plan->srq_count[end->side];
         j++)
        if (sim_srq_at(end, j)->plan->xrc)
            end->pd = sim_srq_at(end, j)->pd;
}

const struct sim_endpoint_ops sim_rc_ops = {
    .family = "pair",
    .reliable = true,
    .unsupported = NO_OPERATION,
    .init = init,
    .begin = begin,
    .make = make,
    .connect = connect,
    .worked = sim_endpoint_worked,
    .stop = stop,
    .check_memory = check_word,
    .bury = bury,
    .release = release,
    .revoke = revoke,
    .choose = choose,
    .fill = fill,
    .spoil = spoil_bind,
    .confirm = sim_rc_confirm,
    .expected = sim_rc_expected,
    .on_error = sim_rc_on_error,
    .on_progress = sim_life_on_progress,
    .take = sim_rc_take,
    .wire = sim_rc_wire,
    .recv_expected = sim_rc_recv_expected,
};
