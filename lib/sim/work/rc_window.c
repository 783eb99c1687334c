/* SPDX-License-Identifier: BSD-3-Clause */
/* rc_window.c - memory windows: bound by their owner, used and invalidated by either end; see rc.h.
 *
 * A memory window (MW) of type 2 opens a part of one slot of its owner's SIM_MEMORY_WINDOWS to the
 * peer. The last slots of that section are for memory windows. Owner and peer use each other's
 * completions at once, as if they exchanged messages. The same request binds a window of type 1,
 * also while the window is bound. Instead of invalidation, a window of type 1 is bound to zero
 * bytes.
 */
#include "sim/oracle/model.h"
#include "sim/work/rc.h"
#include "sim/work/workload.h"

#define LOW_OCTET   0xffu
#define RUDE_FACTOR 8u /* to other wrongs: it has few occasions */

/* The slot that a memory window opens a part of. */
static uint32_t window_of(const struct sim_endpoint *owner, const struct sim_rc_mw *mw)
{
    return owner->peer->plan->send_capacity + 8 + (uint32_t)(mw - owner->rc->mws);
}

static struct uro_shard *shard_of(const struct sim_endpoint *end)
{
    return uro_engine_shard(end->host->engine);
}

void sim_rc_window_begin(struct sim_endpoint *end)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        struct sim_rc_mw *mw = &end->rc->mws[i];
        bool second = (end->life->life + i) % 2 == 0;
        *mw = (struct sim_rc_mw){ .key = { .kind = second ? (uint8_t)URO_KEY_WINDOW_2
                                                          : (uint8_t)URO_KEY_WINDOW_1,
                                           .pd = end->pd } };
        uro_key_register(shard_of(end), &mw->key);
        mw->rkey = uro_key_number(&mw->key);
    }
}

bool sim_rc_window_bound(const struct sim_endpoint *end)
{
    bool bound = false;

    for (uint32_t i = 0; i < SIM_RC_MWS; i++)
        bound |= end->rc->mws[i].key.bound;
    return bound;
}

/* Ends the windows of a life. A region cannot be deregistered before its windows. */
void sim_rc_window_end(struct sim_endpoint *end)
{
    if (sim_rc_window_bound(end) &&
        uro_key_deregister(shard_of(end), &end->memory.keys[SIM_MEMORY_WINDOWS]) == 0)
        sim_world_fail(end->load->world, "a region was deregistered under a window");
    for (uint32_t i = 0; i < SIM_RC_MWS; i++)
        (void)uro_key_deregister(shard_of(end), &end->rc->mws[i].key);
}

static bool is_first_type(const struct sim_rc_mw *mw)
{
    return mw->key.kind == URO_KEY_WINDOW_1;
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
    uint32_t room = end->memory.sizes[SIM_MEMORY_WINDOWS].room;

    if (mw == NULL && bound != NULL && is_first_type(bound))
        mw = bound;
    if (mw == NULL)
        return false;
    request->mw = mw;
    request->inv_rkey = mw->rkey;
    request->rkey = mw->rkey ^ sim_world_between(rng, 1, LOW_OCTET);
    mw->at = uro_rng_below(rng, room);
    mw->length = 1 + uro_rng_below(rng, room - mw->at);
    mw->access = sim_world_between(rng, 1, 3) * URO_ACCESS_REMOTE_WRITE; /* or READ, or both */
    if (uro_rng_below(rng, 2) == 0 && !is_first_type(mw))
        mw->access |= URO_ACCESS_ZERO_BASED;
    mw->base = sim_memory_address(&end->memory, SIM_MEMORY_WINDOWS, window_of(end, mw)) + mw->at;
    mw->state = SIM_RC_MW_BINDING;
    return true;
}

/* Returns a window to invalidate while the peer uses it, on purpose; NULL: none. */
static struct sim_rc_mw *find_in_use(struct sim_endpoint *owner)
{
    if (owner->life->last_life || owner->load->calm ||
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
    struct sim_rc_mw *mw = request->opcode == URO_WR_LOCAL_INV ? find_in_use(owner) : NULL;

    if (mw == NULL)
        mw = find(owner, SIM_RC_MW_BOUND);
    if (mw == NULL || (is_first_type(mw) && request->opcode != URO_WR_LOCAL_INV))
        return false;
    request->mw = mw;
    request->inv_rkey = request->mw->rkey;
    request->mw->state = SIM_RC_MW_DYING;
    if (is_first_type(request->mw)) {
        request->opcode = URO_WR_BIND_MW;
        request->rkey = request->mw->rkey ^ sim_world_between(&owner->rng, 1, LOW_OCTET);
    }
    return true;
}

/* Chooses a WRITE or READ of some bytes through a window. */
static bool use(struct sim_endpoint *end, struct sim_request *request)
{
    struct sim_rc_mw *mw = find(end->peer, SIM_RC_MW_BOUND);
    uint32_t right =
        request->opcode == URO_WR_RDMA_READ ? URO_ACCESS_REMOTE_READ : URO_ACCESS_REMOTE_WRITE;

    if (mw == NULL || !(mw->access & right))
        return false;
    if (request->length > mw->length)
        request->length = mw->length;
    request->mw = mw;
    request->window = window_of(end->peer, mw);
    request->at = mw->at + uro_rng_below(&end->rng, mw->length - request->length + 1);
    request->rkey = mw->rkey;
    request->remote_address =
        (mw->access & URO_ACCESS_ZERO_BASED ? 0 : mw->base) + (request->at - mw->at);
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
    return uro_key_number(&owner->rc->mws[0].key) ^ SIM_BAD_KEY;
}

/* Makes the request go one byte beyond the window, or use an old key. */
bool sim_rc_window_spoil(struct sim_endpoint *end, struct sim_request *request)
{
    const struct sim_rc_mw *mw = request->mw;
    bool local = request->opcode == URO_WR_BIND_MW || request->opcode == URO_WR_LOCAL_INV;

    if (request->opcode == URO_WR_BIND_MW) {
        request->inv_rkey ^= SIM_BAD_KEY;
        return true;
    }
    if (local || request->opcode == URO_WR_SEND_WITH_INV) {
        request->inv_rkey = local ? sim_rc_window_stale(end) : sim_rc_window_stale(end->peer);
        return true;
    }
    if (request->length == 0 || uro_rng_below(&end->rng, 2) == 0)
        return false;
    if (uro_rng_below(&end->rng, 2) == 0)
        request->rkey ^= 1; /* perhaps the key of an earlier bind */
    else
        request->remote_address += mw->length - (request->at - mw->at) - request->length + 1;
    return true;
}

void sim_rc_window_fill(const struct sim_endpoint *end, const struct sim_request *request,
                        struct uro_wqe *wqe)
{
    wqe->imm = request->inv_rkey;
    if (request->opcode != URO_WR_BIND_MW)
        return;
    wqe->remote_address = request->mw->base;
    wqe->window_length = request->mw->state == SIM_RC_MW_DYING ? 0 : request->mw->length;
    wqe->bind.lkey = uro_key_number(&end->memory.keys[SIM_MEMORY_WINDOWS]);
    wqe->bind.access = request->mw->access;
}

void sim_rc_window_done(struct sim_endpoint *end, const struct sim_request *request)
{
    struct sim_rc_mw *mw = request->mw;
    bool bound = request->opcode == URO_WR_BIND_MW && mw->state == SIM_RC_MW_BINDING;

    if (request->opcode == URO_WR_BIND_MW) {
        mw->rkey = request->rkey;
        mw->state = bound ? SIM_RC_MW_BOUND : SIM_RC_MW_FREE;
    } else if (request->opcode == URO_WR_LOCAL_INV) {
        mw->state = SIM_RC_MW_FREE;
    } else {
        return;
    }
    if (mw->key.bound != bound || uro_key_number(&mw->key) != mw->rkey)
        sim_world_fail(end->load->world, "a window is not as the work request says");
}

void sim_rc_window_invalidated(struct sim_endpoint *end, uint32_t rkey)
{
    for (uint32_t i = 0; i < SIM_RC_MWS; i++) {
        struct sim_rc_mw *mw = &end->rc->mws[i];
        if (mw->rkey != rkey)
            continue;
        if (mw->key.bound)
            sim_world_fail(end->load->world, "a window is open after it was invalidated");
        mw->state = SIM_RC_MW_FREE;
        return;
    }
}
