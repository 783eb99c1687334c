/* SPDX-License-Identifier: BSD-3-Clause */
/* scene_open.c - builds the stage: engine, memory, queue pairs, shared queue, handles, groups. */
#include <stdlib.h>
#include <string.h>

#include "scene.h"
#include "scene_wire.h"
#include "wire/frame.h"

static void *allocate(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    assert_non_null(memory);
    memset(memory, 0xee, size);
    return memory;
}

static struct uro_cq *make_cq(uint32_t capacity)
{
    return uro_cq_init(allocate(uro_cq_size(capacity)), capacity, NULL);
}

static void open_engine(struct scene *scene, const struct scene_options *options)
{
    struct uro_engine_config config = { .mac = scene_mac,
                                        .mtu = options->link_mtu != 0 ? options->link_mtu : 4500,
                                        .vlan = options->vlan,
                                        .address_count = 2,
                                        .window = options->window,
                                        .reorder_buffer = options->reorder_buffer,
                                        .retry_7_forever = options->retry_7_forever,
                                        .timeout_least = options->timeout_least,
                                        .table_bits = 4,
                                        .seed = { 1 } };
    config.addresses[0] = (struct uro_engine_address){ uro_gid_link_local(&scene_mac), 64 };
    config.addresses[1].prefix = 24;
    assert_true(uro_gid_parse("10.0.0.1", &config.addresses[1].gid));

    scene->engine_memory = allocate(uro_engine_size(&config));
    assert_int_equal(uro_engine_init(scene->engine_memory, &config, scene->now, &scene->engine), 0);
}

static void open_memory(struct scene *scene)
{
    struct uro_shard *shard = uro_engine_shard(scene->engine);

    scene->local = allocate(SCENE_MEMORY);
    scene->remote = allocate(SCENE_MEMORY);
    scene->local_key = (struct uro_key){ .pd = 1,
                                         .access = URO_ACCESS_LOCAL_WRITE,
                                         .base = (uintptr_t)scene->local,
                                         .length = SCENE_MEMORY,
                                         .memory = scene->local };
    scene->remote_key = (struct uro_key){ .pd = 1,
                                          .access = 0xf,
                                          .base = (uintptr_t)scene->remote,
                                          .length = SCENE_MEMORY,
                                          .memory = scene->remote };
    uro_key_register(shard, &scene->local_key);
    uro_key_register(shard, &scene->remote_key);
}

/* Returns the attribute mask of a transition to @to, without attributes that no scene sets. */
static unsigned mask_of(enum uro_qp_type type, enum uro_qp_state to)
{
    const unsigned path = URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN;
    const unsigned serve = URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR;
    const unsigned ask = URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY | URO_ATTR_RD_ATOMIC;
    const bool serves = type == URO_QPT_RC || type == URO_QPT_XRC_TGT;
    const bool asks = type == URO_QPT_RC || type == URO_QPT_XRC_INI;

    if (to == URO_QPS_INIT)
        return URO_ATTR_PKEY_INDEX | URO_ATTR_PORT |
               (type == URO_QPT_UD ? URO_ATTR_QKEY : URO_ATTR_ACCESS);
    if (to == URO_QPS_RTR)
        return type == URO_QPT_UD ? 0 : path | (serves ? serve : 0);
    return URO_ATTR_SQ_PSN | (serves || asks ? URO_ATTR_TIMEOUT : 0) | (asks ? ask : 0);
}

static void modify(struct scene *scene, struct uro_qp_attr *attr, enum uro_qp_state to)
{
    unsigned mask = mask_of(uro_qp_type(scene->qp), to) | URO_ATTR_STATE;

    attr->state = to;
    assert_int_equal(uro_engine_qp_modify(scene->engine, scene->qp, attr, mask, scene->now), 0);
}

void scene_to_state(struct scene *scene, enum uro_qp_state to)
{
    const struct uro_qp_attr attr = { .state = to, .sqd_notify = true };
    unsigned mask = to == URO_QPS_SQD ? URO_ATTR_STATE | URO_ATTR_SQD_NOTIFY : URO_ATTR_STATE;

    assert_int_equal(uro_engine_qp_modify(scene->engine, scene->qp, &attr, mask, scene->now), 0);
}

/* Checks a frame that no queue pair sent: its VLAN tag has priority 0. */
static void check_control(const struct scene *scene, const struct uro_tx *tx)
{
    uint8_t octets[SCENE_FRAME_MAX];
    struct uro_frame frame;

    assert_false(tx->icrc);
    uro_tx_write(tx, octets);
    assert_int_equal(uro_frame_network(octets, uro_tx_length(tx), &frame), URO_FRAME_OK);
    assert_int_equal(frame.ether.tagged, scene->vlan != 0);
    assert_int_equal(frame.ether.tag, scene->vlan);
}

void scene_meet(struct scene *scene, const char *who)
{
    struct uro_tx tx;
    uint8_t frame[SCENE_FRAME_MAX];

    assert_int_equal(uro_engine_output(scene->engine, &tx, 1, scene->now), 1);
    check_control(scene, &tx);
    scene_input(scene, scene->now, frame, scene_arp_reply(&scene_mac, &scene_peer_mac, who, frame));
}

void scene_connect(struct scene *scene, const struct scene_options *options)
{
    struct uro_qp_attr attr = {
        .port = 1,
        .qkey = options->qkey,
        .access = options->access,
        .path_mtu = options->mtu,
        .dest_qpn = SCENE_QPN_PEER,
        .rq_psn = options->rq_psn,
        .sq_psn = options->sq_psn,
        .max_dest_rd_atomic = options->dest_depth,
        .max_rd_atomic = options->depth,
        .min_rnr_timer = options->min_rnr_timer,
        .timeout = options->timeout,
        .retry_count = options->retry_count,
        .rnr_retry = options->rnr_retry,
        .address = { .sgid_index = 1, .hop_limit = 64, .service_level = options->sl }
    };
    assert_true(uro_gid_parse("10.0.0.2", &attr.address.dest));

    if (options->stop_at == URO_QPS_RESET)
        return;
    modify(scene, &attr, URO_QPS_INIT);
    if (options->stop_at == URO_QPS_INIT)
        return;
    modify(scene, &attr, URO_QPS_RTR);
    if (options->type != URO_QPT_UD && scene->qp_count == 1)
        scene_meet(scene, "10.0.0.2");
    if (options->stop_at == URO_QPS_RTR)
        return;
    modify(scene, &attr, URO_QPS_RTS);
}

/* Adds a queue pair. An XRC initiator has no receives, and an XRC target has neither sends nor
 * receives of its own. */
struct uro_qp *scene_add_qp(struct scene *scene, const struct scene_options *options)
{
    const bool ini = options->type == URO_QPT_XRC_INI;
    const bool tgt = options->type == URO_QPT_XRC_TGT;
    const struct uro_qp_init init = { .type = options->type,
                                      .pd = tgt ? 0 : 1,
                                      .xrcd = tgt ? SCENE_XRCD : 0,
                                      .send_cq = tgt ? NULL : scene->send_cq,
                                      .recv_cq = tgt || ini ? NULL : scene->recv_cq,
                                      .srq = options->srq != 0 && !tgt ? &scene->srq : NULL,
                                      .send_capacity = tgt ? 0 : 64,
                                      .recv_capacity = tgt || ini ? 0 : 64,
                                      .send_sge_max = 4,
                                      .recv_sge_max = 4,
                                      .inline_max = 512,
                                      .block_self_multicast = options->block_self_multicast,
                                      .user = scene };
    struct uro_qp *before = scene->qp;
    struct uro_qp *qp;

    assert_true(scene->qp_count < SCENE_QPS_MAX);
    void *memory = allocate(uro_qp_size(&init));
    qp = uro_qp_create(uro_engine_shard(scene->engine), &init, memory);
    scene->qps[scene->qp_count].memory = memory;
    scene->qps[scene->qp_count++].qp = qp;
    scene->qp = qp;
    scene_connect(scene, options);
    scene->qp = before;
    return qp;
}

static void open_srq(struct scene *scene, const struct scene_options *options)
{
    const bool xrc = options->type == URO_QPT_XRC_TGT;
    const struct uro_srq_init init = { .pd = 1,
                                       .capacity = options->srq,
                                       .sge_max = 4,
                                       .xrcd = xrc ? SCENE_XRCD : 0,
                                       .cq = xrc ? scene->recv_cq : NULL,
                                       .user = &scene->srq };

    scene->srq_slots = allocate(uro_srq_slots_size(init.capacity, init.sge_max));
    uro_srq_create(uro_engine_shard(scene->engine), &scene->srq, &init, scene->srq_slots);
}

struct scene *scene_open(const struct scene_options *options)
{
    struct scene *scene = aligned_alloc(_Alignof(struct scene), sizeof *scene);

    assert_non_null(scene);
    memset(scene, 0, sizeof *scene);
    uro_mark_clear();
    scene->now = scene->zero = URO_MS(1);
    scene->mtu = options->mtu;
    scene->vlan = options->vlan;
    scene->sl = options->sl;
    open_engine(scene, options);
    open_memory(scene);
    scene->send_cq = make_cq(options->cq_capacity);
    scene->recv_cq = make_cq(options->cq_capacity);
    if (options->srq != 0)
        open_srq(scene, options);
    scene->qp = scene_add_qp(scene, options);
    if (options->type == URO_QPT_UD) {
        scene_make_ah(scene, &scene->ah, "10.0.0.2");
        scene_meet(scene, "10.0.0.2");
        scene->has_ah = true;
    }
    return scene;
}

void scene_make_ah(struct scene *scene, struct uro_ah *ah, const char *dest)
{
    struct uro_address address = { 0 };

    assert_true(uro_gid_parse(dest, &address.dest));
    address.sgid_index = uro_gid_is_ipv4(&address.dest);
    assert_int_equal(uro_engine_ah_create(scene->engine, ah, 1, &address, scene->now), 0);
}

/* Consumes the membership reports: the first at once, the second within a second. */
static void report(struct scene *scene)
{
    struct uro_tx tx;

    for (int i = 0; i < 2; i++) {
        while (uro_engine_output(scene->engine, &tx, 1, scene->now) > 0)
            check_control(scene, &tx);
        scene->now += URO_MS(1000);
        scene->zero += URO_MS(1000);
    }
}

void scene_attach(struct scene *scene, struct uro_mcast *member, const char *group)
{
    struct uro_shard *shard = uro_engine_shard(scene->engine);
    struct uro_gid gid;

    assert_true(uro_gid_parse(group, &gid));
    if (!uro_mcast_attach(shard, member, scene->qp, &gid))
        return;
    assert_int_equal(uro_engine_join(scene->engine, &gid, scene->now), 0);
    report(scene);
}

void scene_detach(struct scene *scene, struct uro_mcast *member)
{
    if (!uro_mcast_detach(uro_engine_shard(scene->engine), member))
        return;
    uro_engine_leave(scene->engine, &member->group, scene->now);
    report(scene);
}

void scene_destroy_qp(struct scene *scene)
{
    uro_engine_qp_destroy(scene->engine, scene->qp);
    for (uint32_t i = 0; i < scene->qp_count; i++) {
        if (scene->qps[i].qp != scene->qp)
            continue;
        free(scene->qps[i].memory); /* a sanitizer then reports any later access */
        scene->qps[i].qp = NULL;
    }
    scene->qp = NULL;
}

void scene_close(struct scene *scene)
{
    struct uro_cqe extra;

    scene_expect_silence(scene, scene->now - scene->zero);
    uro_engine_deliver(scene->engine);
    if (uro_cq_poll(scene->send_cq, &extra, 1) == 1)
        fail_msg("unexpected send completion, id %lu status %u", (unsigned long)extra.wr_id,
                 extra.status);
    if (uro_cq_poll(scene->recv_cq, &extra, 1) == 1)
        fail_msg("unexpected receive completion, id %lu status %u", (unsigned long)extra.wr_id,
                 extra.status);
    for (uint32_t i = 0; i < scene->qp_count; i++) {
        scene->qp = scene->qps[i].qp;
        if (scene->qp == NULL)
            continue;
        if (uro_qp_problem(scene->qp) != NULL)
            fail_msg("inside queue pair %u: %s", i, uro_qp_problem(scene->qp));
        scene_destroy_qp(scene);
    }
    if (scene->has_ah)
        uro_engine_ah_destroy(scene->engine, &scene->ah);
    if (scene->srq_slots != NULL)
        uro_srq_destroy(uro_engine_shard(scene->engine), &scene->srq);
    free(scene->srq_slots);
    uro_key_deregister(uro_engine_shard(scene->engine), &scene->local_key);
    uro_key_deregister(uro_engine_shard(scene->engine), &scene->remote_key);
    uro_cq_fini(scene->send_cq);
    uro_cq_fini(scene->recv_cq);
    free(scene->send_cq);
    free(scene->recv_cq);
    free(scene->local);
    free(scene->remote);
    free(scene->engine_memory);
    free(scene);
}
