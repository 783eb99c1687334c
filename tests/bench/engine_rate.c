/* SPDX-License-Identifier: BSD-3-Clause */
/* engine_rate.c - what one message costs both engines together, without any port.
 *
 *   engine_rate [rc|uc|ud|xrc [octets [active [idle [messages]]]]]
 *
 * Two engines in one thread hand their frames to each other, every octet copied and summed as a
 * port would. Prints nanoseconds per message: SENDs with receives, WINDOW outstanding in all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/key.h"
#include "core/srq.h"
#include "engine/engine.h"

#define WINDOW 128u
#define BURST  32u
#define FRAME  8192u
#define LINE   64u
#define SECOND 1000000000

struct side {
    struct uro_engine *engine;
    struct uro_cq *cq;
    struct uro_key key;
    uint8_t *memory;
    struct uro_qp **qps;
    struct uro_srq srq;
    struct uro_ah ah; /* UD: of the peer */
};

struct plan {
    enum uro_qp_type type;
    uint32_t octets;
    uint32_t active;
    uint32_t idle;
    uint32_t messages;
};

static uint8_t frames[BURST][FRAME];

static void *take(size_t size)
{
    void *memory = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
    URO_ASSERT(memory != NULL);
    memset(memory, 0, size);
    return memory;
}

static uro_time now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uro_time)at.tv_sec * SECOND + (uro_time)at.tv_nsec;
}

static struct uro_gid address(unsigned last)
{
    const uint8_t octets[4] = { 10, 0, 0, (uint8_t)last };

    return uro_gid_from_ipv4(octets);
}

static void open_side(struct side *side, unsigned number, const struct plan *plan)
{
    struct uro_engine_config config = { .mac = { { 2, 0, 0, 0, 0, (uint8_t)number } },
                                        .mtu = 4200,
                                        .addresses = { { address(number), 24 } },
                                        .address_count = 1,
                                        .seed = { (uint8_t)number } };
    const struct uro_srq_init srq = { .pd = 1, .capacity = WINDOW * 2, .sge_max = 1, .xrcd = 1 };
    struct uro_srq_init shared = srq;

    int error = uro_engine_init(take(uro_engine_size(&config)), &config, now(), &side->engine);
    URO_ASSERT(error == 0);
    side->cq = uro_cq_init(take(uro_cq_size(WINDOW * 4)), WINDOW * 4, NULL);
    side->memory = take(FRAME * 2);
    side->key = (struct uro_key){ .pd = 1,
                                  .access = URO_ACCESS_LOCAL_WRITE,
                                  .base = (uintptr_t)side->memory,
                                  .length = (uint64_t)FRAME * 2,
                                  .memory = side->memory };
    uro_key_register(uro_engine_shard(side->engine), &side->key);
    shared.cq = side->cq;
    uro_srq_create(uro_engine_shard(side->engine), &side->srq, &shared,
                   take(uro_srq_slots_size(srq.capacity, srq.sge_max)));
    side->qps = take((plan->active + plan->idle) * sizeof(struct uro_qp *));
}

static struct uro_qp *make_qp(struct side *side, enum uro_qp_type type)
{
    bool target = type == URO_QPT_XRC_TGT;
    bool xrc = target || type == URO_QPT_XRC_INI;
    const struct uro_qp_init init = { .type = type,
                                      .pd = 1,
                                      .xrcd = 1,
                                      .send_cq = target ? NULL : side->cq,
                                      .recv_cq = xrc ? NULL : side->cq,
                                      .send_capacity = target ? 0 : WINDOW,
                                      .recv_capacity = xrc ? 0 : WINDOW,
                                      .send_sge_max = 1,
                                      .recv_sge_max = 1,
                                      .signal_all = true };

    return uro_qp_create(uro_engine_shard(side->engine), &init, take(uro_qp_size(&init)));
}

static void move_to(struct side *side, struct uro_qp *qp, enum uro_qp_state state, unsigned last,
                    uint32_t dest)
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
                                      .path_mtu = 4096,
                                      .qkey = 7,
                                      .dest_qpn = dest,
                                      .address = { .dest = address(last) },
                                      .port = 1,
                                      .max_rd_atomic = 1,
                                      .max_dest_rd_atomic = 1,
                                      .timeout = 14,
                                      .retry_count = 7,
                                      .rnr_retry = 7 };
    unsigned mask = masks[uro_qp_type(qp)][state - URO_QPS_INIT] | URO_ATTR_STATE;

    int error = uro_engine_qp_modify(side->engine, qp, &attr, mask, now());
    URO_ASSERT(error == 0);
}

static void connect_qps(struct side sides[2], uint32_t i, const struct plan *plan)
{
    bool xrc = plan->type == URO_QPT_XRC_INI;

    sides[0].qps[i] = make_qp(&sides[0], plan->type);
    sides[1].qps[i] = make_qp(&sides[1], xrc ? URO_QPT_XRC_TGT : plan->type);
    for (enum uro_qp_state state = URO_QPS_INIT; state <= URO_QPS_RTS; state++)
        for (unsigned s = 0; s < 2; s++)
            move_to(&sides[s], sides[s].qps[i], state, 2 - s, uro_qp_number(sides[1 - s].qps[i]));
}

/* Frames of one engine into the other. */
static void carry(struct side *from, struct side *to)
{
    static struct uro_tx tx[BURST];
    struct uro_pkt pkts[BURST];
    uro_time at = now();
    uint32_t count = uro_engine_output(from->engine, tx, BURST, at);

    for (uint32_t i = 0; i < count; i++) {
        uro_tx_write(&tx[i], frames[i]);
        pkts[i] = (struct uro_pkt){ .octets = frames[i], .length = uro_tx_length(&tx[i]) };
    }
    if (count > 0)
        uro_engine_input(to->engine, pkts, count, at);
}

static void post_receive(struct side *side, struct uro_qp *qp, const struct plan *plan)
{
    bool xrc = plan->type == URO_QPT_XRC_INI;
    struct uro_wq *wq = xrc ? &side->srq.wq : uro_qp_recv_queue(qp);
    struct uro_rqe *rqe = uro_wq_reserve(wq, 0);

    URO_ASSERT(rqe != NULL);
    rqe->length = FRAME;
    rqe->sge_count = 1;
    rqe->sges[0] = (struct uro_sge){ (uintptr_t)side->memory, FRAME, uro_key_number(&side->key) };
    uro_wq_publish(wq, 1);
}

static void post_send(struct side *side, struct uro_qp *qp, uint32_t dest, const struct plan *plan,
                      uint32_t srqn)
{
    struct uro_wq *wq = uro_qp_send_queue(qp);
    struct uro_wqe *wqe = uro_wq_reserve(wq, 0);

    URO_ASSERT(wqe != NULL);
    *wqe = (struct uro_wqe){ .opcode = URO_WR_SEND,
                             .flags = URO_SEND_SIGNALED,
                             .length = plan->octets,
                             .sge_count = 1,
                             .xrc_srqn = srqn };
    if (plan->type == URO_QPT_UD) {
        wqe->to.ah = uro_ah_number(&side->ah);
        wqe->to.qpn = dest;
        wqe->qkey = 7;
    }
    wqe->sges[0] =
        (struct uro_sge){ (uintptr_t)side->memory, plan->octets, uro_key_number(&side->key) };
    uro_wq_publish(wq, 1);
    uro_qp_ring(uro_engine_shard(side->engine), qp);
}

static uint32_t poll(struct side *side)
{
    struct uro_cqe cqes[BURST];
    uint32_t count = uro_cq_poll(side->cq, cqes, BURST);

    for (uint32_t i = 0; i < count; i++)
        URO_ASSERT(cqes[i].status == URO_WC_SUCCESS);
    return count;
}

/* Round and round until @messages were sent and received; returns nanoseconds. */
static uro_time run(struct side sides[2], const struct plan *plan, uint32_t messages)
{
    uint32_t posted = 0, sent = 0, received = 0, receives = 0;
    uro_time start = now();

    while (received < messages || sent < messages) {
        for (; receives < messages && receives - received < WINDOW; receives++)
            post_receive(&sides[1], sides[1].qps[receives % plan->active], plan);
        for (; posted < receives && posted - sent < WINDOW; posted++) {
            uint32_t i = posted % plan->active;
            post_send(&sides[0], sides[0].qps[i], uro_qp_number(sides[1].qps[i]), plan,
                      uro_srq_number(&sides[1].srq));
        }
        carry(&sides[0], &sides[1]);
        carry(&sides[1], &sides[0]);
        sent += poll(&sides[0]);
        received += poll(&sides[1]);
    }
    return now() - start;
}

static enum uro_qp_type type_of(const char *name)
{
    static const char *const names[] = { "rc", "uc", "ud", "xrc" };

    for (unsigned i = 0; i < URO_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum uro_qp_type)i;
    (void)fprintf(stderr, "engine_rate: %s is none of rc, uc, ud, xrc\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    const struct plan plan = {
        .type = type_of(argc > 1 ? argv[1] : "rc"),
        .octets = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 64,
        .active = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 0) : 1,
        .idle = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 0) : 0,
        .messages = argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 0) : 500000,
    };
    static struct side sides[2];

    if (plan.active == 0 || plan.octets > FRAME - URO_TX_HEAD_MAX || plan.messages == 0) {
        (void)fprintf(stderr,
                      "engine_rate: at least one queue pair and message, at most %u octets\n",
                      FRAME - URO_TX_HEAD_MAX);
        return 2;
    }
    open_side(&sides[0], 1, &plan);
    open_side(&sides[1], 2, &plan);
    for (uint32_t i = 0; i < plan.active + plan.idle; i++)
        connect_qps(sides, i, &plan);
    const struct uro_address peer = { .dest = address(2) };
    int error = uro_engine_ah_create(sides[0].engine, &sides[0].ah, 1, &peer, now());
    URO_ASSERT(error == 0);

    (void)run(sides, &plan, plan.messages / 10 + 1); /* neighbours asked, memory touched */
    uro_time took = run(sides, &plan, plan.messages);
    printf("%.1f ns per message\n", (double)took / plan.messages);
    return 0;
}
