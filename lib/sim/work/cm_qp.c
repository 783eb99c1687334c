/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_qp.c - the queue pairs of connections: made, connected, ended; see cm.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/work/cm.h"

#define ADDRESS_SPACE UINT64_C(0x200000000000)
#define ADDRESS_STEP  UINT64_C(0x10000000000)
#define LIFE_STEP     UINT64_C(0x10000000)
#define PD_FIRST      4000u
#define PORT          1u
#define QP_ALIGNMENT  64u
#define LINE          64u

static uint32_t pd_of(const struct sim_cm_user *user)
{
    return user->cm->load->pds + PD_FIRST + user->number;
}

static void make_memory(struct sim_cm_user *user)
{
    const struct sim_plan_cm *plan = user->cm->plan;
    struct uro_shard *shard = uro_engine_shard(user->host->engine);
    uint32_t room = (plan->message_max + 2 * SIM_CM_BESIDE + 7) / 8 * 8;
    const struct sim_memory_section_size sizes[SIM_MEMORY_SECTIONS] = {
        [SIM_MEMORY_SENDS] = { SIM_CM_MESSAGES_MAX, room },
        [SIM_MEMORY_RECVS] = { SIM_CM_MESSAGES_MAX, room },
        [SIM_MEMORY_WINDOWS] = { 1, room },
    };

    sim_memory_init(&user->memory, sizes,
                    ADDRESS_SPACE + user->number * ADDRESS_STEP + user->life++ * LIFE_STEP,
                    &user->rng);
    sim_memory_register(&user->memory, shard, SIM_MEMORY_SENDS, pd_of(user),
                        URO_ACCESS_LOCAL_WRITE);
    sim_memory_register(&user->memory, shard, SIM_MEMORY_RECVS, pd_of(user),
                        URO_ACCESS_LOCAL_WRITE);
    sim_memory_register(&user->memory, shard, SIM_MEMORY_WINDOWS, pd_of(user),
                        URO_ACCESS_REMOTE_READ);
    sim_memory_message(sim_memory_slot(&user->memory, SIM_MEMORY_WINDOWS, 0), 0, plan->message_max,
                       user->attempt->seed);
}

static void modify(struct sim_cm_user *user, const struct uro_qp_attr *attr, unsigned mask)
{
    struct sim_world *world = user->cm->load->world;
    int result =
        uro_engine_qp_modify(user->host->engine, user->qp, attr, mask | URO_ATTR_STATE, world->now);

    sim_journal_note(world->journal, world->now, "CM qp 0x%06x to state %d", user->qpn,
                     (int)attr->state);
    if (result != 0)
        sim_world_fail(world, "CM qp 0x%06x: modify to state %d returned %d", user->qpn,
                       (int)attr->state, result);
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
                                      .user = &user->owner };
    const struct uro_qp_attr attr = { .state = URO_QPS_INIT,
                                      .port = PORT,
                                      .access = URO_ACCESS_REMOTE_READ };
    size_t size = (uro_qp_size(&init) + QP_ALIGNMENT - 1) / QP_ALIGNMENT * QP_ALIGNMENT;

    make_memory(user);
    user->qp_memory = aligned_alloc(LINE, size);
    URO_ASSERT(user->qp_memory != NULL);
    memset(user->qp_memory, 0xa5, size);
    user->qp = uro_qp_create(uro_engine_shard(user->host->engine), &init, user->qp_memory);
    user->qpn = uro_qp_number(user->qp);
    user->alive = true;
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

    if (user->alive)
        modify(user, &attr, 0);
}

void sim_cm_qp_destroy(struct sim_cm_user *user)
{
    struct sim_workload *load = user->cm->load;
    struct uro_shard *shard = uro_engine_shard(user->host->engine);
    size_t at;

    if (!user->alive)
        return;
    user->alive = false;
    uro_engine_qp_destroy(user->host->engine, user->qp);
    free(user->qp_memory);
    user->qp = NULL;
    user->qp_memory = NULL;
    sim_host_events(user->host);
    for (unsigned i = 0; i < SIM_MEMORY_SECTIONS; i++)
        sim_memory_deregister(&user->memory, shard, i);
    if (!sim_memory_check_guards(&user->memory, &at))
        sim_cm_fail(user, "has memory that changed outside every range");
    sim_workload_bury_arena(load, &user->memory);
    load->lives++;
}

static void on_event(struct sim_qp_owner *owner, enum uro_event_kind kind)
{
    struct sim_cm_user *user = URO_CONTAINER_OF(owner, struct sim_cm_user, owner);

    if (!user->alive || kind != URO_EVENT_COMM_EST)
        sim_world_fail(user->cm->load->world, "CM qp 0x%06x: event %d out of place", user->qpn,
                       (int)kind);
}

static const char *problem(const struct sim_qp_owner *owner)
{
    const struct sim_cm_user *user = URO_CONTAINER_OF(owner, struct sim_cm_user, owner);

    return user->alive ? uro_qp_problem(user->qp) : NULL;
}

void sim_cm_qp_own(struct sim_cm_user *user)
{
    sim_workload_own(user->cm->load, &user->owner, user->host, on_event, problem);
}
