/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_window.c - memory windows: bound by their owner, used and invalidated by either end; see rc.h.
 *
 * A memory window (MW) of type 2 opens a part of one slot of its owner's SIM_MEMORY_WINDOWS to the
 * peer. The last slots of that section are for memory windows. Each end sees the completions of the
 * other end at once, as if the two programs exchanged messages. BIND_MW also binds windows of type
 * 1, even while they are bound. A window of type 1 is not invalidated, but bound to zero bytes.
 */
#include "sim/inside.h"
#include "sim/oracle/model.h"
#include "sim/work/rc.h"
#include "sim/work/workload.h"

#define LOW_BYTE    0xffu
#define RUDE_FACTOR 8u /* factor of the probability, since there are few occasions */

/* Returns the slot of which the memory window opens a part. */
static uint32_t window_of(const struct sim_endpoint *owner, const struct sim_rc_mw *mw)
{
    return owner->peer->plan->send_capacity + 8 + (uint32_t)(mw - owner->rc->mws);
}

void sim_rc_window_begin(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        struct sim_rc_mw *mw = &end->rc->mws[i];
        *mw = (struct sim_rc_mw){ .first_type = (end->life->life + i) % 2 != 0 };
        int result =
            uroce_mw_create(end->pd, mw->first_type ? UROCE_MW_TYPE_1 : UROCE_MW_TYPE_2, &mw->mw);
        URO_ASSERT(result == 0);
        mw->rkey = uroce_mw_key(mw->mw);
    }
}

bool sim_rc_window_bound(const struct sim_endpoint *end)
{
    bool bound = false;

    for (uint32_t i = 0; i < SIM_RC_MWS; i++)
        bound |= uroce_mw_is_bound(end->rc->mws[i].mw) != 0;
    return bound;
}

/* Ends the windows of a life. A region cannot be deregistered before its windows. */
void sim_rc_window_end(struct sim_endpoint *end)
{
    struct sim_memory_region *region = &end->memory.regions[SIM_MEMORY_WINDOWS];

    if (sim_rc_window_bound(end) && uroce_mr_destroy(region->mr) == 0) {
        region->mr = NULL;
        sim_world_fail(end->workload->world, "a region was deregistered under a window");
    }
    sim_rc_window_release(end);
}

void sim_rc_window_release(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        if (end->rc->mws[i].mw != NULL)
            (void)!uroce_mw_destroy(end->rc->mws[i].mw);
        end->rc->mws[i].mw = NULL;
    }
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

bool sim_rc_window_choose(struct sim_endpoint *end, struct sim_request *request,
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

uint32_t sim_rc_window_stale(const struct sim_endpoint *owner)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++)
        if (owner->rc->mws[i].state == SIM_RC_MW_FREE)
            return owner->rc->mws[i].rkey;
    return uroce_mw_key(owner->rc->mws[0].mw) ^ SIM_BAD_KEY;
}

/* Makes the request access one byte beyond the window, or use an old key. */
bool sim_rc_window_spoil(struct sim_endpoint *end, struct sim_request *request)
{
    const struct sim_rc_mw *mw = request->mw;
    bool local = request->opcode == UROCE_BIND_MW || request->opcode == UROCE_LOCAL_INV;

    if (request->opcode == UROCE_BIND_MW) {
        request->inv_rkey ^= SIM_BAD_KEY;
        return true;
    }
    if (local || request->opcode == UROCE_SEND_WITH_INV) {
        request->inv_rkey = local ? sim_rc_window_stale(end) : sim_rc_window_stale(end->peer);
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

void sim_rc_window_fill(const struct sim_endpoint *end, const struct sim_request *request,
                        struct uroce_send *send)
{
    send->imm = request->inv_rkey;
    if (request->opcode != UROCE_BIND_MW)
        return;
    send->mw = request->mw->mw;
    send->mr = end->memory.regions[SIM_MEMORY_WINDOWS].mr;
    send->remote_address = request->mw->base;
    send->bind_length = send->mr != NULL ? length_of(request) : 0;
    send->bind_access = request->mw->access;
}

void sim_rc_window_spoil_posted(struct sim_endpoint *end, const struct sim_request *request)
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
        sim_world_fail(end->workload->world,
                       "the engine's window differs from the work request that bound it");
}

void sim_rc_window_invalidated(struct sim_endpoint *end, uint32_t rkey)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        struct sim_rc_mw *mw = &end->rc->mws[i];
        if (mw->rkey != rkey)
            continue;
        if (uroce_mw_is_bound(mw->mw))
            sim_world_fail(end->workload->world, "a window is open after it was invalidated");
        mw->state = SIM_RC_MW_FREE;
        return;
    }
}
