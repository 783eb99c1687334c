/* SPDX-License-Identifier: BSD-3-Clause */
/* attacked_qp.c - lives of the queue pairs that are attacked; see attacked.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/work/attacked.h"

#define PORT       1u
#define ALIGNMENT  64u
#define TIMEOUT    8u
#define RETRIES    3u
#define RNR_TIMER  1u
#define RD_ATOMIC  4u
#define CANARY     0xa5  /* of memory that nothing may be sent from */
#define XRC_DOMAIN 5000u /* and those after it: a load has one */

struct uro_shard *sim_attacked_shard(const struct sim_attacked_end *end)
{
    return uro_engine_shard(end->endpoint.host->engine);
}

bool sim_attacked_loose(const struct sim_attacked_end *end)
{
    return end->endpoint.type == URO_QPT_UC || end->endpoint.type == URO_QPT_UD;
}

static void modify(struct sim_attacked_end *end, const struct uro_qp_attr *attr, unsigned mask)
{
    sim_endpoint_modify(&end->endpoint, attr, mask);
}

static void *allocate(size_t size)
{
    void *memory = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);

    URO_ASSERT(memory != NULL);
    memset(memory, CANARY, size);
    return memory;
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

    end->srq_slots = allocate(uro_srq_slots_size(init.capacity, init.sge_max));
    uro_srq_create(sim_attacked_shard(end), &end->srq, &init, end->srq_slots);
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
    end->posted = end->done = end->recv_posted = end->recv_done = 0;
}

static void connect_datagrams(struct sim_attacked_end *end)
{
    struct sim_world *world = end->endpoint.host->world;
    const struct uro_address address =
        sim_endpoint_address(&end->peer->endpoint, end->attacked->plan->v6);
    struct uro_qp_attr attr = { .state = URO_QPS_INIT, .port = PORT, .qkey = SIM_ATTACKED_QKEY };

    modify(end, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_QKEY);
    attr.state = URO_QPS_RTR;
    modify(end, &attr, 0);
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTS };
    modify(end, &attr, URO_ATTR_SQ_PSN);
    if (uro_engine_ah_create(end->endpoint.host->engine, &end->ah, end->keys[0].pd, &address,
                             world->now) != 0)
        sim_world_fail(world, "an address handle of a victim could not be made");
}

void sim_attacked_connect(struct sim_attacked_end *end)
{
    const struct sim_plan_attacked *plan = end->attacked->plan;
    bool loose = end->endpoint.type == URO_QPT_UC;
    struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                .port = PORT,
                                .access = SIM_ATTACKED_ACCESS };

    if (end->endpoint.type == URO_QPT_UD) {
        connect_datagrams(end);
        return;
    }
    modify(end, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTR,
                                 .path_mtu = plan->path_mtu,
                                 .rq_psn = end->heard[URO_REQUEST],
                                 .dest_qpn = uro_qp_number(end->peer->endpoint.qp),
                                 .max_dest_rd_atomic = RD_ATOMIC,
                                 .min_rnr_timer = RNR_TIMER,
                                 .address = sim_endpoint_address(&end->peer->endpoint,
                                                                 end->attacked->plan->v6) };
    modify(end, &attr,
           URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
               (loose || end->endpoint.type == URO_QPT_XRC_INI
                    ? 0
                    : URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR));
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTS,
                                 .timeout = TIMEOUT,
                                 .retry_count = RETRIES,
                                 .rnr_retry = RETRIES,
                                 .sq_psn = end->peer->heard[URO_REQUEST],
                                 .max_rd_atomic = RD_ATOMIC };
    modify(end, &attr,
           URO_ATTR_SQ_PSN | (loose ? 0 : URO_ATTR_TIMEOUT) |
               (loose || end->endpoint.type == URO_QPT_XRC_TGT
                    ? 0
                    : URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC));
}

void sim_attacked_destroy(struct sim_attacked_end *end)
{
    /* What completed on a shared queue of XRC does not go with the queue pair. */
    if (end->srq_slots != NULL)
        sim_cq_poll(&end->endpoint.cq);
    sim_endpoint_destroy(&end->endpoint);
    end->endpoint.alive = false;
    sim_host_events(end->endpoint.host); /* others' bells were heard meanwhile */
    if (end->endpoint.type == URO_QPT_UD)
        uro_engine_ah_destroy(end->endpoint.host->engine, &end->ah);
    if (end->srq_slots == NULL)
        return;
    uro_srq_destroy(sim_attacked_shard(end), &end->srq);
    free(end->srq_slots);
    end->srq_slots = NULL;
}
