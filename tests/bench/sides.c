/* SPDX-License-Identifier: BSD-3-Clause */
/* sides.c - two engines with connected queue pairs, for benchmark programs. */
#include "sides.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/shard.h"

#define LINE   64u
#define SECOND 1000000000

void *sides_take(size_t size)
{
    void *memory = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    URO_ASSERT(memory != NULL);
    memset(memory, 0, size);
    return memory;
}

uro_time sides_now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uro_time)at.tv_sec * SECOND + (uro_time)at.tv_nsec;
}

void sides_kind(struct plan *plan, const char *name)
{
    static const struct {
        const char *name;
        enum uro_qp_type type;
        enum uro_wr_opcode opcode;
    } kinds[] = { { "rc", URO_QPT_RC, URO_WR_SEND },
                  { "uc", URO_QPT_UC, URO_WR_SEND },
                  { "ud", URO_QPT_UD, URO_WR_SEND },
                  { "xrc", URO_QPT_XRC_INI, URO_WR_SEND },
                  { "write", URO_QPT_RC, URO_WR_RDMA_WRITE } };

    for (unsigned i = 0; i < URO_ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0) {
            plan->type = kinds[i].type;
            plan->opcode = kinds[i].opcode;
            return;
        }
    (void)fprintf(stderr, "%s is none of rc, uc, ud, xrc, write\n", name);
    exit(2);
}

static struct uro_gid address(unsigned last)
{
    const uint8_t octets[4] = { 10, 0, 0, (uint8_t)last };

    return uro_gid_from_ipv4(octets);
}

struct uro_engine_config sides_config(unsigned number)
{
    return (struct uro_engine_config){ .mac = { { 2, 0, 0, 0, 0, (uint8_t)number } },
                                       .mtu = SIDES_MTU + 104,
                                       .addresses = { { address(number), 24 } },
                                       .address_count = 1,
                                       .reorder_buffer = URO_REORDER_DEFAULT,
                                       .seed = { (uint8_t)number } };
}

/* Returns the offset of the second half of the memory, which is the source. The first half is the
 * target. */
static uint32_t half(const struct plan *plan)
{
    return plan->octets > SIDES_FRAME ? plan->octets : SIDES_FRAME;
}

static uro_time now_of(const struct plan *plan)
{
    return plan->engines[0] != NULL ? plan->now : sides_now();
}

static struct uro_engine *make_engine(unsigned number)
{
    const struct uro_engine_config config = sides_config(number);
    struct uro_engine *engine;

    int error =
        uro_engine_init(sides_take(uro_engine_size(&config)), &config, sides_now(), &engine);
    URO_ASSERT(error == 0);
    return engine;
}

static void open_side(struct side *side, unsigned number, const struct plan *plan)
{
    const uint32_t completions = SIDES_WINDOW * 8 + plan->each * plan->active;
    struct uro_srq_init shared = { .pd = 1, .capacity = SIDES_WINDOW * 4, .sge_max = 1, .xrcd = 1 };

    side->engine = plan->engines[number - 1];
    if (side->engine == NULL)
        side->engine = make_engine(number);
    side->cq = uro_cq_init(sides_take(uro_cq_size(completions)), completions, NULL);
    side->memory = sides_take((size_t)half(plan) * 2);
    side->key = (struct uro_key){ .pd = 1,
                                  .access = URO_ACCESS_LOCAL_WRITE | URO_ACCESS_REMOTE_WRITE,
                                  .base = (uintptr_t)side->memory,
                                  .length = (uint64_t)half(plan) * 2,
                                  .memory = side->memory };
    uro_key_register(uro_engine_shard(side->engine), &side->key);
    shared.cq = side->cq;
    uro_srq_create(uro_engine_shard(side->engine), &side->srq, &shared,
                   sides_take(uro_srq_slots_size(shared.capacity, shared.sge_max)));
    side->qps = sides_take((plan->active + plan->idle) * sizeof(struct uro_qp *));
}

static struct uro_qp *make_qp(struct side *side, enum uro_qp_type type, uint32_t receives)
{
    bool target = type == URO_QPT_XRC_TGT;
    bool xrc = target || type == URO_QPT_XRC_INI;
    const struct uro_qp_init init = { .type = type,
                                      .pd = 1,
                                      .xrcd = 1,
                                      .send_cq = target ? NULL : side->cq,
                                      .recv_cq = xrc ? NULL : side->cq,
                                      .send_capacity = target ? 0 : SIDES_WINDOW,
                                      .recv_capacity = xrc ? 0 : receives,
                                      .send_sge_max = 1,
                                      .recv_sge_max = 1,
                                      .signal_all = true };

    return uro_qp_create(uro_engine_shard(side->engine), &init, sides_take(uro_qp_size(&init)));
}

/* Returns the GID index of the IPv4 address, which is the last address. */
static uint8_t sgid_index(const struct side *side)
{
    return (uint8_t)(uro_engine_shard(side->engine)->config.gid_count - 1);
}

static void move_to(struct side *side, struct uro_qp *qp, enum uro_qp_state state, unsigned last,
                    uint32_t dest, uro_time now)
{
    static const unsigned masks[URO_QPT_COUNT][3] = {
#define INIT (URO_ATTR_PKEY_INDEX | URO_ATTR_PORT)
#define RTR  (URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN)
#define RTS                                                                                        \
    (URO_ATTR_SQ_PSN | URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY |                \
     URO_ATTR_RD_ATOMIC)
        [URO_QPT_RC] = { INIT | URO_ATTR_ACCESS, RTR | URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR, RTS },
        [URO_QPT_UC] = { INIT | URO_ATTR_ACCESS, RTR, URO_ATTR_SQ_PSN },
        [URO_QPT_UD] = { INIT | URO_ATTR_QKEY, 0, URO_ATTR_SQ_PSN },
        [URO_QPT_XRC_INI] = { INIT | URO_ATTR_ACCESS, RTR, RTS },
        [URO_QPT_XRC_TGT] = { INIT | URO_ATTR_ACCESS, RTR | URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR,
                              URO_ATTR_SQ_PSN | URO_ATTR_TIMEOUT },
    };
    const struct uro_qp_attr attr = { .state = state,
                                      .path_mtu = SIDES_MTU,
                                      .qkey = 7,
                                      .dest_qpn = dest,
                                      .access = URO_ACCESS_REMOTE_WRITE,
                                      .address = { .dest = address(last),
                                                   .sgid_index = sgid_index(side) },
                                      .port = 1,
                                      .max_rd_atomic = 1,
                                      .max_dest_rd_atomic = 1,
                                      .timeout = 14,
                                      .retry_count = 7,
                                      .rnr_retry = 7 };
    unsigned mask = masks[uro_qp_type(qp)][state - URO_QPS_INIT] | URO_ATTR_STATE;

    int error = uro_engine_qp_modify(side->engine, qp, &attr, mask, now);
    URO_ASSERT(error == 0);
}

static void connect_qps(struct side sides[static 2], uint32_t i, const struct plan *plan)
{
    bool xrc = plan->type == URO_QPT_XRC_INI;

    sides[0].qps[i] = make_qp(&sides[0], plan->type, plan->receives);
    sides[1].qps[i] = make_qp(&sides[1], xrc ? URO_QPT_XRC_TGT : plan->type, plan->receives);
    for (enum uro_qp_state state = URO_QPS_INIT; state <= URO_QPS_RTS; state++)
        for (unsigned s = 0; s < 2; s++)
            move_to(&sides[s], sides[s].qps[i], state, 2 - s, uro_qp_number(sides[1 - s].qps[i]),
                    now_of(plan));
}

void sides_connect(struct side sides[static 2], const struct plan *plan)
{
    open_side(&sides[0], 1, plan);
    open_side(&sides[1], 2, plan);
    for (uint32_t i = 0; i < plan->active + plan->idle; i++)
        connect_qps(sides, i, plan);
    const struct uro_address peer = { .dest = address(2), .sgid_index = sgid_index(&sides[0]) };
    int error = uro_engine_ah_create(sides[0].engine, &sides[0].ah, 1, &peer, now_of(plan));
    URO_ASSERT(error == 0);
}

void sides_post_receive(struct side *side, uint32_t qp, const struct plan *plan)
{
    bool xrc = plan->type == URO_QPT_XRC_INI;
    struct uro_wq *wq = xrc ? &side->srq.wq : uro_qp_recv_queue(side->qps[qp]);
    struct uro_rqe *rqe = uro_wq_reserve(wq, 0);

    URO_ASSERT(rqe != NULL);
    rqe->wr_id = qp;
    rqe->length = half(plan);
    rqe->sge_count = 1;
    rqe->sges[0] =
        (struct uro_sge){ (uintptr_t)side->memory, half(plan), uro_key_number(&side->key) };
    uro_wq_publish(wq, 1);
}

void sides_post(struct side sides[static 2], unsigned from, uint32_t qp, const struct plan *plan)
{
    struct side *side = &sides[from];
    const struct side *peer = &sides[1 - from];
    struct uro_wq *wq = uro_qp_send_queue(side->qps[qp]);
    struct uro_wqe *wqe = uro_wq_reserve(wq, 0);

    URO_ASSERT(wqe != NULL);
    *wqe = (struct uro_wqe){ .wr_id = qp,
                             .opcode = (uint8_t)plan->opcode,
                             .flags = URO_SEND_SIGNALED,
                             .length = plan->octets,
                             .sge_count = 1,
                             .remote_address = (uintptr_t)peer->memory,
                             .rkey = uro_key_number(&peer->key),
                             .xrc_srqn = uro_srq_number(&peer->srq) };
    if (plan->type == URO_QPT_UD) {
        wqe->to.ah = uro_ah_number(&side->ah);
        wqe->to.qpn = uro_qp_number(peer->qps[qp]);
        wqe->qkey = 7;
    }
    /* The source is the second half, because a WRITE of the peer changes the first half. */
    wqe->sges[0] = (struct uro_sge){ (uintptr_t)side->memory + half(plan), plan->octets,
                                     uro_key_number(&side->key) };
    uro_wq_publish(wq, 1);
    uro_qp_ring(uro_engine_shard(side->engine), side->qps[qp]);
}

uint32_t sides_completed(struct side *side, struct uro_cqe cqes[static SIDES_BURST])
{
    uro_engine_deliver(side->engine);
    uint32_t count = uro_cq_poll(side->cq, cqes, SIDES_BURST);

    for (uint32_t i = 0; i < count; i++)
        URO_ASSERT(cqes[i].status == URO_WC_SUCCESS);
    return count;
}

uint32_t sides_poll(struct side *side, uint32_t *received)
{
    struct uro_cqe cqes[SIDES_BURST];
    uint32_t count = sides_completed(side, cqes);
    uint32_t sent = 0;

    for (uint32_t i = 0; i < count; i++)
        sent += cqes[i].opcode != URO_WC_RECV;
    *received += count - sent;
    return sent;
}
