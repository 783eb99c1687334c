/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_qp.c - the queue pairs of connections: made, connected, ended; see cm.h. */
#include <string.h>

#include "sim/work/cm.h"

#define ADDRESS_SPACE UINT64_C(0x200000000000)
#define ADDRESS_STEP  UINT64_C(0x10000000000)
#define LIFE_STEP     UINT64_C(0x10000000)
#define PD_FIRST      4000u
#define PORT          1u

static uint32_t pd_of(const struct sim_cm_user *user)
{
    return user->cm->load->pds + PD_FIRST + user->number;
}

static void make_memory(struct sim_cm_user *user)
{
    const struct sim_plan_cm *plan = user->cm->plan;
    struct uro_shard *shard = uro_engine_shard(user->endpoint.host->engine);
    uint32_t room = (plan->message_max + 2 * SIM_CM_BESIDE + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { SIM_CM_MESSAGES_MAX, room },
        [SIM_MEMORY_RECVS] = { SIM_CM_MESSAGES_MAX, room },
        [SIM_MEMORY_WINDOWS] = { 1, room },
    };

    sim_memory_init(&user->endpoint.memory, sizes,
                    ADDRESS_SPACE + user->number * ADDRESS_STEP + user->life++ * LIFE_STEP,
                    &user->rng);
    sim_memory_register(&user->endpoint.memory, shard, SIM_MEMORY_SENDS, pd_of(user),
                        URO_ACCESS_LOCAL_WRITE);
    sim_memory_register(&user->endpoint.memory, shard, SIM_MEMORY_RECVS, pd_of(user),
                        URO_ACCESS_LOCAL_WRITE);
    sim_memory_register(&user->endpoint.memory, shard, SIM_MEMORY_WINDOWS, pd_of(user),
                        URO_ACCESS_REMOTE_READ);
    sim_memory_message(sim_memory_slot(&user->endpoint.memory, SIM_MEMORY_WINDOWS, 0), 0,
                       plan->message_max, user->attempt->seed);
}

static void modify(struct sim_cm_user *user, const struct uro_qp_attr *attr, unsigned mask)
{
    sim_endpoint_modify(&user->endpoint, attr, mask);
}

void sim_cm_qp_make(struct sim_cm_user *user)
{
    struct uro_cq *cq = user->cm->cqs[user->side].cq;
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = pd_of(user),
                                      .send_cq = cq,
                                      .recv_cq = cq,
                                      .send_capacity = SIM_CM_MESSAGES_MAX,
                                      .recv_capacity = SIM_CM_MESSAGES_MAX,
                                      .send_sge_max = 1,
                                      .recv_sge_max = 1,
                                      .signal_all = true,
                                      .user = &user->endpoint };
    const struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                      .port = PORT,
                                      .access = URO_ACCESS_REMOTE_READ };

    make_memory(user);
    sim_endpoint_create(&user->endpoint, &init);
    user->endpoint.alive = true;
    user->broken = false;
    user->posted = user->confirmed = user->taken = 0;
    user->peer_qpn = 0;
    modify(user, &attr, URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS);
    sim_cm_data_receives(user);
}

/* What the connection says, with the server's own choice of depths, as librdmacm does it. */
void sim_cm_qp_connect(struct sim_cm_user *user, const struct sim_cm_answer *own_answer)
{
    const uint8_t *data = user->conn->peer.data;
    struct uro_qp_attr attr = { .state = URO_QPS_RTR };
    unsigned mask = 0;

    memcpy(&user->window_key, data + SIM_CM_DATA_KEY, sizeof user->window_key);
    memcpy(&user->window_address, data + SIM_CM_DATA_ADDRESS, sizeof user->window_address);
    if (uro_conn_qp_attr(user->conn, &attr, &mask) != 0)
        sim_cm_fail(user, "finds no attributes for RTR");
    if (own_answer != NULL)
        attr.max_dest_rd_atomic = own_answer->responder_resources;
    user->peer_qpn = attr.dest_qpn;
    modify(user, &attr, mask);
    attr = (struct uro_qp_attr){ .state = URO_QPS_RTS };
    if (uro_conn_qp_attr(user->conn, &attr, &mask) != 0)
        sim_cm_fail(user, "finds no attributes for RTS");
    if (own_answer != NULL)
        attr.max_rd_atomic = own_answer->initiator_depth;
    user->first_psn = attr.sq_psn;
    user->reads_max = attr.max_rd_atomic;
    modify(user, &attr, mask);
}

void sim_cm_qp_to_error(struct sim_cm_user *user)
{
    const struct uro_qp_attr attr = { .state = URO_QPS_ERR };

    if (user->endpoint.alive)
        modify(user, &attr, 0);
}

void sim_cm_qp_destroy(struct sim_cm_user *user)
{
    struct sim_endpoint *endpoint = &user->endpoint;

    if (!endpoint->alive)
        return;
    endpoint->alive = false;
    sim_endpoint_destroy(endpoint);
    sim_host_events(endpoint->host);
    sim_endpoint_bury(endpoint);
    endpoint->load->lives++;
}

static void on_event(struct sim_endpoint *endpoint, enum uro_event_kind kind)
{
    if (!endpoint->alive || kind != URO_EVENT_COMM_EST)
        sim_world_fail(endpoint->load->world, "CM qp 0x%06x: event %d out of place", endpoint->qpn,
                       (int)kind);
}

void sim_cm_qp_init(struct sim_cm_user *user)
{
    static const struct sim_endpoint_ops ops = { .family = "CM",
                                                 .judge = sim_cm_data_judge,
                                                 .on_event = on_event };
    struct sim_endpoint *endpoint = &user->endpoint;

    endpoint->ops = &ops;
    endpoint->load = user->cm->load;
    endpoint->type = URO_QPT_RC;
    endpoint->side = user->side;
    endpoint->host = endpoint->load->hosts[user->side];
    endpoint->number = user->number;
    sim_endpoint_init(endpoint);
}
