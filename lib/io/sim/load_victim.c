/* SPDX-License-Identifier: BSD-3-Clause */
/* load_victim.c - see load_victim.h for the contract. */
#include "io/sim/load_victim.h"

#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"

#define GUARD        256u
#define STEP         (URO_LOAD_VICTIM_RANGE + GUARD)
#define SIZE         (GUARD + URO_LOAD_VICTIM_RANGES * STEP)
#define SECRET       0xa5u /* what a station may never send */
#define SENT         0x11u
#define ADDRESS      UINT64_C(0xa00000000000)
#define ADDRESS_STEP UINT64_C(0x10000000000)
#define PD           (URO_LOAD_PDS - 4u) /* of a load's own; two ends, and the domain of nobody */
#define PORT         1u
#define HOP_LIMIT    64u
#define QP_ALIGNMENT 64u
#define TIMEOUT      8u
#define RETRIES      3u
#define RNR_TIMER    1u
#define RD_ATOMIC    4u
#define LIFE_MAX     URO_US(5000)
#define POST_MAX     URO_US(100)
#define TIME_MAX     URO_MS(12) /* of it all: each frame takes its time */
#define KINDS        URO_ARRAY_LEN(opcodes)

static const uint8_t opcodes[] = { URO_WR_SEND,
                                   URO_WR_SEND_WITH_IMM,
                                   URO_WR_RDMA_WRITE,
                                   URO_WR_RDMA_WRITE_WITH_IMM,
                                   URO_WR_RDMA_READ,
                                   URO_WR_ATOMIC_CMP_AND_SWP,
                                   URO_WR_ATOMIC_FETCH_AND_ADD };

#define ALL_REMOTE                                                                                 \
    (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC |                 \
     URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT)

static const uint32_t access_of[URO_LOAD_VICTIM_RANGES] = {
    [URO_LOAD_VICTIM_TAKEN] = URO_ACCESS_LOCAL_WRITE,
    [URO_LOAD_VICTIM_OPEN] = URO_ACCESS_LOCAL_WRITE | ALL_REMOTE,
    [URO_LOAD_VICTIM_SHOWN] = URO_ACCESS_REMOTE_READ,
    [URO_LOAD_VICTIM_FILLED] = URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE,
    [URO_LOAD_VICTIM_FOREIGN] = URO_ACCESS_LOCAL_WRITE | ALL_REMOTE,
    [URO_LOAD_VICTIM_GONE] = URO_ACCESS_LOCAL_WRITE | ALL_REMOTE,
};

static uint32_t offset_of(enum uro_load_victim_range range)
{
    return GUARD + range * STEP;
}

uint64_t uro_load_victim_address(const struct uro_load_victim_end *end,
                                 enum uro_load_victim_range range)
{
    return end->base + offset_of(range);
}

static bool may_change(uint32_t range)
{
    return range == URO_LOAD_VICTIM_TAKEN || range == URO_LOAD_VICTIM_OPEN ||
           range == URO_LOAD_VICTIM_FILLED;
}

static struct uro_shard *shard_of(const struct uro_load_victim_end *end)
{
    return uro_engine_shard(end->station->engine);
}

/* ---- memory ------------------------------------------------------------------------------------ */

static void make_memory(struct uro_load_victim_end *end, unsigned side)
{
    end->base = ADDRESS + side * ADDRESS_STEP;
    end->memory = malloc(SIZE);
    end->before = malloc(SIZE);
    end->after = malloc(SIZE);
    URO_ASSERT(end->memory != NULL && end->before != NULL && end->after != NULL);
    memset(end->memory, SECRET, SIZE);
    for (uint32_t i = 0; i <= URO_LOAD_VICTIM_SHOWN; i++)
        memset(end->memory + offset_of(i), (int)(SENT + i), URO_LOAD_VICTIM_RANGE);
    memcpy(end->before, end->memory, SIZE);
}

static void register_all(struct uro_load_victim_end *end)
{
    uint32_t pd = end->victim->load->pds + PD + (end == &end->victim->ends[1]);

    for (uint32_t i = 0; i < URO_LOAD_VICTIM_RANGES; i++) {
        end->keys[i] = (struct uro_key){ .pd = i == URO_LOAD_VICTIM_FOREIGN ? pd + 2 : pd,
                                         .access = access_of[i],
                                         .base = uro_load_victim_address(end, i),
                                         .length = URO_LOAD_VICTIM_RANGE,
                                         .memory = end->memory + offset_of(i) };
        uro_key_register(shard_of(end), &end->keys[i]);
    }
    (void)uro_key_deregister(shard_of(end), &end->keys[URO_LOAD_VICTIM_GONE]);
}

static void check_part(const struct uro_load_victim_end *end, uint32_t from, uint32_t to)
{
    if (memcmp(end->memory + from, end->before + from, to - from) == 0)
        return;
    while (end->memory[from] == end->before[from])
        from++;
    uro_world_fail(end->station->world,
                   "octet %u of the victim at %c changed, which nobody may write", from,
                   end->station->config.name);
}

static void check_memory(const struct uro_load_victim_end *end)
{
    uint32_t from = 0;

    for (uint32_t range = 0; range < URO_LOAD_VICTIM_RANGES; range++) {
        if (!may_change(range))
            continue;
        check_part(end, from, offset_of(range));
        from = offset_of(range) + URO_LOAD_VICTIM_RANGE;
    }
    check_part(end, from, SIZE);
}

static void deregister_all(struct uro_load_victim_end *end)
{
    for (uint32_t i = 0; i < URO_LOAD_VICTIM_GONE; i++)
        (void)uro_key_deregister(shard_of(end), &end->keys[i]);
    check_memory(end);
    memcpy(end->after, end->memory, SIZE);
}

/* ---- queue pairs ------------------------------------------------------------------------------- */

static void modify(struct uro_load_victim_end *end, const struct uro_qp_attr *attr, unsigned mask)
{
    struct uro_world *world = end->station->world;
    int result = uro_engine_qp_modify(end->station->engine, end->qp, attr, mask | URO_ATTR_STATE,
                                      world->now);

    if (result != 0)
        uro_world_fail(world, "victim qp 0x%06x: modify to state %d returned %d",
                       uro_qp_number(end->qp), (int)attr->state, result);
}

static void make_qp(struct uro_load_victim_end *end)
{
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = end->keys[0].pd,
                                      .send_cq = end->cq.cq,
                                      .recv_cq = end->cq.cq,
                                      .send_capacity = URO_LOAD_VICTIM_SENDS,
                                      .recv_capacity = URO_LOAD_VICTIM_RECVS,
                                      .send_sge_max = 1,
                                      .recv_sge_max = 1,
                                      .signal_all = true,
                                      .user = &end->owner };
    size_t size = (uro_qp_size(&init) + QP_ALIGNMENT - 1) / QP_ALIGNMENT * QP_ALIGNMENT;

    end->qp_memory = aligned_alloc(QP_ALIGNMENT, size);
    URO_ASSERT(end->qp_memory != NULL);
    memset(end->qp_memory, SECRET, size);
    end->qp = uro_qp_create(shard_of(end), &init, end->qp_memory);
    end->posted = end->done = end->recv_posted = end->recv_done = 0;
}

static void connect(struct uro_load_victim_end *end)
{
    const struct uro_swarm_victim *plan = end->victim->plan;
    const struct uro_engine_config *peer = &end->peer->station->config.engine;
    struct uro_qp_attr attr = { .state = URO_QPS_INIT, .port = PORT, .access = ALL_REMOTE };

    modify(end, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTR,
                                 .path_mtu = plan->path_mtu,
                                 .rq_psn = end->heard[URO_REQUEST],
                                 .dest_qpn = uro_qp_number(end->peer->qp),
                                 .max_dest_rd_atomic = RD_ATOMIC,
                                 .min_rnr_timer = RNR_TIMER,
                                 .address = { .dest = peer->addresses[plan->v6 ? 0 : 1].gid,
                                              .sgid_index = plan->v6 ? 0 : 1,
                                              .hop_limit = HOP_LIMIT } };
    modify(end, &attr,
           URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
               URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR);
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTS,
                                 .timeout = TIMEOUT,
                                 .retry_count = RETRIES,
                                 .rnr_retry = RETRIES,
                                 .sq_psn = end->peer->heard[URO_REQUEST],
                                 .max_rd_atomic = RD_ATOMIC };
    modify(end, &attr,
           URO_ATTR_TIMEOUT | URO_ATTR_SQ_PSN | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY |
               URO_ATTR_RD_ATOMIC);
}

static void begin_life(struct uro_load_victim *victim)
{
    for (unsigned i = 0; i < 2; i++) {
        struct uro_load_victim_end *end = &victim->ends[i];
        register_all(end);
        make_qp(end);
        end->heard[URO_REQUEST] = end->heard[URO_RESPONSE] = uro_rng_below(&victim->rng, 1u << 24);
    }
    for (unsigned i = 0; i < 2; i++)
        connect(&victim->ends[i]);
    victim->failed = false;
    victim->end_at = victim->load->world->now + uro_rng_below(&victim->rng, LIFE_MAX);
}

static void end_life(struct uro_load_victim *victim)
{
    for (unsigned i = 0; i < 2; i++) {
        struct uro_load_victim_end *end = &victim->ends[i];
        uro_engine_qp_destroy(end->station->engine, end->qp);
        free(end->qp_memory);
        end->qp = NULL;
        end->qp_memory = NULL;
        deregister_all(end);
    }
}

/* ---- work -------------------------------------------------------------------------------------- */

/* A piece of one of its own ranges. */
static struct uro_sge piece(struct uro_load_victim_end *end, enum uro_load_victim_range range,
                            uint32_t length)
{
    uint32_t at = uro_rng_below(&end->victim->rng, URO_LOAD_VICTIM_RANGE - length + 1);

    return (struct uro_sge){ .address = uro_load_victim_address(end, range) + at,
                             .length = length,
                             .lkey = uro_key_number(&end->keys[range]) };
}

static void post_receives(struct uro_load_victim_end *end)
{
    uint32_t count = 0;

    while (end->recv_posted - end->recv_done < URO_LOAD_VICTIM_RECVS) {
        struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(end->qp), count);
        if (rqe == NULL)
            break;
        rqe->wr_id = URO_LOAD_RECV_BIT | end->recv_posted++;
        rqe->length = uro_rng_below(&end->victim->rng, URO_LOAD_VICTIM_RANGE);
        rqe->sge_count = 1;
        rqe->sges[0] = piece(end, URO_LOAD_VICTIM_TAKEN, rqe->length);
        count++;
    }
    uro_wq_publish(uro_qp_recv_queue(end->qp), count);
}

static void fill(struct uro_load_victim_end *end, struct uro_wqe *wqe)
{
    struct uro_load_victim *victim = end->victim;
    uint8_t opcode = opcodes[uro_rng_below(&victim->rng, KINDS)];
    bool atomic = opcode == URO_WR_ATOMIC_CMP_AND_SWP || opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
    bool answered = atomic || opcode == URO_WR_RDMA_READ;
    uint32_t length = atomic ? 8 : uro_rng_below(&victim->rng, URO_LOAD_VICTIM_RANGE / 2);
    uint32_t at = uro_rng_below(&victim->rng, URO_LOAD_VICTIM_RANGE - length + 1);

    wqe->wr_id = end->posted++;
    wqe->remote_address =
        (uro_load_victim_address(end->peer, URO_LOAD_VICTIM_OPEN) + at) & ~UINT64_C(7);
    wqe->compare_add = wqe->swap = SENT;
    wqe->rkey = uro_key_number(&end->peer->keys[URO_LOAD_VICTIM_OPEN]);
    wqe->imm = 0;
    wqe->length = length;
    wqe->opcode = opcode;
    wqe->flags = 0;
    wqe->psn_count = 0;
    wqe->status = 0;
    wqe->sge_count = 1;
    wqe->sges[0] = piece(end, answered ? URO_LOAD_VICTIM_TAKEN : URO_LOAD_VICTIM_SENT, length);
}

static void post_send(struct uro_load_victim_end *end)
{
    if (end->posted - end->done >= URO_LOAD_VICTIM_SENDS)
        return;
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(end->qp), 0);
    if (wqe == NULL)
        return;
    fill(end, wqe);
    uro_wq_publish(uro_qp_send_queue(end->qp), 1);
    uro_qp_ring(shard_of(end), end->qp);
}

/* In turn, once, and nothing that was not posted; what it says may be forged. */
static void take(struct uro_load_cq *cq, const struct uro_cqe *cqe)
{
    struct uro_load_victim_end *end = cq->owner;
    bool receive = cqe->wr_id & URO_LOAD_RECV_BIT;
    uint64_t number = cqe->wr_id & ~URO_LOAD_RECV_BIT;
    uint64_t *done = receive ? &end->recv_done : &end->done;

    if (end->qp == NULL || cqe->qpn != uro_qp_number(end->qp))
        uro_world_fail(cq->load->world, "completion of a victim's qp 0x%06x, which is no more",
                       cqe->qpn);
    if (number != *done || number >= (receive ? end->recv_posted : end->posted))
        uro_world_fail(cq->load->world, "the victim at %c: a request completed out of turn",
                       end->station->config.name);
    ++*done;
    end->victim->failed |= cqe->status != URO_WC_SUCCESS;
}

/* ---- who is asked when ------------------------------------------------------------------------- */

static void on_event(struct uro_load_owner *owner, enum uro_event_kind kind)
{
    struct uro_load_victim_end *end = URO_CONTAINER_OF(owner, struct uro_load_victim_end, owner);

    if (end->qp == NULL || kind == URO_EVENT_QP_FATAL)
        uro_world_fail(end->station->world, "the victim at %c: event %d out of place",
                       end->station->config.name, (int)kind);
    end->victim->failed |= kind == URO_EVENT_QP_REQ_ERR || kind == URO_EVENT_QP_ACCESS_ERR;
}

static const char *problem(const struct uro_load_owner *owner)
{
    const struct uro_load_victim_end *end =
        URO_CONTAINER_OF(owner, struct uro_load_victim_end, owner);

    return end->qp != NULL ? uro_qp_problem(end->qp) : NULL;
}

static uro_time poster_next(const struct uro_node *node)
{
    const struct uro_load_victim *victim = URO_CONTAINER_OF(node, struct uro_load_victim, poster);

    return victim->over ? URO_TIME_NEVER : victim->load->calm ? 0 : victim->due;
}

static void poster_run(struct uro_node *node)
{
    struct uro_load_victim *victim = URO_CONTAINER_OF(node, struct uro_load_victim, poster);
    uro_time now = victim->load->world->now;
    bool alive = victim->ends[0].qp != NULL;

    victim->over = victim->load->calm || now > URO_SWARM_START + TIME_MAX;
    victim->due = now + uro_rng_below(&victim->rng, POST_MAX);
    if (alive && (victim->over || victim->failed || now >= victim->end_at)) {
        end_life(victim);
        return;
    }
    if (victim->over)
        return;
    if (!alive)
        begin_life(victim);
    for (unsigned i = 0; i < 2; i++) {
        post_receives(&victim->ends[i]);
        post_send(&victim->ends[i]);
    }
}

static uro_time forger_next(const struct uro_node *node)
{
    const struct uro_load_victim *victim = URO_CONTAINER_OF(node, struct uro_load_victim, forger);
    bool alive = victim->ends[0].qp != NULL && !victim->load->calm;

    return alive ? victim->forge_at : URO_TIME_NEVER;
}

static void forger_run(struct uro_node *node)
{
    struct uro_load_victim *victim = URO_CONTAINER_OF(node, struct uro_load_victim, forger);

    uro_load_victim_forge(victim);
    victim->forge_at =
        victim->load->world->now + URO_US(1 + uro_rng_below(&victim->rng, victim->plan->wait_max));
}

bool uro_load_victim_wire(struct uro_load_victim *victim, const struct uro_station *station,
                          const struct uro_frame *frame)
{
    for (unsigned i = 0; victim != NULL && i < 2; i++) {
        struct uro_load_victim_end *end = &victim->ends[i];
        if (end->qp == NULL || end->peer->station != station ||
            uro_qp_number(end->qp) != frame->bth.dest_qpn)
            continue;
        end->heard[frame->op->role] = frame->bth.psn;
        return true;
    }
    return false;
}

struct uro_load_victim *uro_load_victim_make(struct uro_load *load)
{
    const struct uro_swarm_victim *plan = &load->swarm->victim;
    struct uro_load_victim *victim;

    if (plan->wait_max == 0)
        return NULL;
    victim = calloc(1, sizeof *victim);
    URO_ASSERT(victim != NULL);
    victim->load = load;
    victim->plan = plan;
    victim->due = victim->forge_at = load->world->now;
    uro_rng_init_number(&victim->rng, plan->seed);
    victim->poster = (struct uro_node){ NULL, poster_next, poster_run };
    victim->forger = (struct uro_node){ NULL, forger_next, forger_run };
    for (unsigned side = 0; side < 2; side++) {
        struct uro_load_victim_end *end = &victim->ends[side];
        end->victim = victim;
        end->peer = &victim->ends[!side];
        end->station = load->stations[side];
        make_memory(end, side);
        uro_load_own(load, &end->owner, end->station, on_event, problem);
        uro_load_poll_init(&end->cq, load, end->station,
                           URO_LOAD_VICTIM_SENDS + URO_LOAD_VICTIM_RECVS);
        end->cq.take = take;
        end->cq.owner = end;
    }
    uro_world_add(load->world, &victim->poster);
    uro_world_add(load->world, &victim->forger);
    return victim;
}

void uro_load_victim_check(struct uro_load_victim *victim)
{
    for (unsigned i = 0; victim != NULL && i < 2; i++)
        if (memcmp(victim->ends[i].memory, victim->ends[i].after, SIZE) != 0)
            uro_world_fail(victim->load->world,
                           "memory of a victim changed after it was deregistered");
}

void uro_load_victim_free(struct uro_load_victim *victim)
{
    for (unsigned i = 0; victim != NULL && i < 2; i++) {
        struct uro_load_victim_end *end = &victim->ends[i];
        free(end->qp_memory);
        free(end->memory);
        free(end->before);
        free(end->after);
        uro_load_poll_fini(&end->cq);
    }
    free(victim);
}
