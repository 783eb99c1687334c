/* SPDX-License-Identifier: BSD-3-Clause */
/* scene_open.c - creates the objects of a scene: engine, memory, queue pairs, SRQ, address handles,
 * groups. */
#include <stdlib.h>
#include <string.h>

#include "scene.h"
#include "scene_wire.h"
#include "support/attr_mask.h"
#include "wire/frame.h"

static void *allocate(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    assert_non_null(memory);
    memset(memory, 0xee, size);
    return memory;
}

static struct uroce_cq *make_cq(struct scene *scene, uint32_t capacity)
{
    struct uroce_cq *cq;

    assert_int_equal(uroce_cq_create(scene->engine, capacity, NULL, &cq), 0);
    return cq;
}

static void open_engine(struct scene *scene, const struct scene_options *options)
{
    struct uroce_engine_config config = { .size = sizeof config,
                                          .mtu = options->link_mtu != 0 ? options->link_mtu : 4500,
                                          .vlan = options->vlan,
                                          .address_count = 1,
                                          .connections = 16,
                                          .window = options->window,
                                          .reorder_buffer = options->reorder_buffer,
                                          .retry_7_forever = options->retry_7_forever,
                                          .timeout_min = options->timeout_least,
                                          .seed = { 1 } };

    memcpy(config.mac, scene_mac.octets, sizeof config.mac);
    config.addresses[0].prefix = 24;
    assert_int_equal(uroce_gid_parse("10.0.0.1", config.addresses[0].gid), 0);
    assert_int_equal(uroce_engine_create(&config, scene->now, &scene->engine), 0);
    assert_int_equal(uroce_pd_create(scene->engine, &scene->pd), 0);
}

static void open_memory(struct scene *scene)
{
    scene->local = allocate(SCENE_MEMORY);
    scene->remote = allocate(SCENE_MEMORY);
    assert_int_equal(uroce_mr_create(scene->pd, scene->local, SCENE_MEMORY,
                                     UROCE_ACCESS_LOCAL_WRITE, &scene->local_mr),
                     0);
    assert_int_equal(uroce_mr_create(scene->pd, scene->remote, SCENE_MEMORY,
                                     0xf | UROCE_ACCESS_MW_BIND, &scene->remote_mr),
                     0);
}

void scene_register_local(struct scene *scene, unsigned access)
{
    assert_int_equal(uroce_mr_destroy(scene->local_mr), 0);
    assert_int_equal(
        uroce_mr_create(scene->pd, scene->local, SCENE_MEMORY, access, &scene->local_mr), 0);
}

void scene_register(struct scene *scene, unsigned access)
{
    assert_int_equal(uroce_mr_destroy(scene->remote_mr), 0);
    assert_int_equal(
        uroce_mr_create(scene->pd, scene->remote, SCENE_MEMORY, access, &scene->remote_mr), 0);
}

static void modify(struct scene *scene, struct uroce_qp_attr *attr, enum uroce_qp_type type,
                   enum uroce_qp_state to)
{
    attr->state = to;
    assert_int_equal(
        uroce_qp_modify(scene->qp, attr, attr_mask(type, to) | UROCE_ATTR_STATE, scene->now), 0);
}

void scene_to_state(struct scene *scene, enum uroce_qp_state to)
{
    const struct uroce_qp_attr attr = { .state = to, .sqd_notify = true };
    unsigned mask = to == UROCE_SQD ? UROCE_ATTR_STATE | UROCE_ATTR_SQD_NOTIFY : UROCE_ATTR_STATE;

    assert_int_equal(uroce_qp_modify(scene->qp, &attr, mask, scene->now), 0);
}

/* Takes the next frame, which must be ARP, ND or a membership report. Checks its VLAN tag: priority
 * 0. Returns false when there is no frame. */
static bool take_control(struct scene *scene)
{
    uint8_t octets[SCENE_FRAME_MAX];
    struct uroce_buffer buffer = { octets, sizeof octets, 0 };
    struct uro_frame frame;

    if (uroce_engine_output(scene->engine, &buffer, 1, scene->now) != 1)
        return false;
    assert_int_equal(uro_frame_network(octets, buffer.length, &frame), URO_FRAME_OK);
    assert_true(frame.ether.type == URO_ETHERTYPE_ARP || frame.ip.protocol != URO_IPPROTO_UDP);
    assert_int_equal(frame.ether.tagged, scene->vlan != 0);
    assert_int_equal(frame.ether.tag, scene->vlan);
    return true;
}

void scene_meet(struct scene *scene, const char *who)
{
    uint8_t frame[SCENE_FRAME_MAX];

    assert_true(take_control(scene));
    scene_input(scene, scene->now, frame, scene_arp_reply(&scene_mac, &scene_peer_mac, who, frame));
}

void scene_connect(struct scene *scene, const struct scene_options *options)
{
    struct uroce_qp_attr attr = {
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
        .retry_cnt = options->retry_count,
        .rnr_retry = options->rnr_retry,
        .address = { .sgid_index = 1, .hop_limit = 64, .service_level = options->sl }
    };
    assert_int_equal(uroce_gid_parse("10.0.0.2", attr.address.gid), 0);

    if (options->stop_at == UROCE_RESET)
        return;
    modify(scene, &attr, options->type, UROCE_INIT);
    if (options->stop_at == UROCE_INIT)
        return;
    modify(scene, &attr, options->type, UROCE_RTR);
    if (options->type != UROCE_UD && scene->qp_count == 1)
        scene_meet(scene, "10.0.0.2");
    if (options->stop_at == UROCE_RTR)
        return;
    modify(scene, &attr, options->type, UROCE_RTS);
}

/* Adds a queue pair. An XRC initiator has no receives, and an XRC target has neither sends nor
 * receives of its own. */
struct uroce_qp *scene_add_qp(struct scene *scene, const struct scene_options *options)
{
    const bool ini = options->type == UROCE_XRC_INI;
    const bool tgt = options->type == UROCE_XRC_TGT;
    const struct uroce_qp_config config = { .size = sizeof config,
                                            .type = options->type,
                                            .xrcd = tgt ? scene->xrcd : NULL,
                                            .send_cq = tgt ? NULL : scene->send_cq,
                                            .recv_cq = tgt || ini ? NULL : scene->recv_cq,
                                            .srq = options->srq != 0 && !tgt ? scene->srq : NULL,
                                            .send_capacity = tgt ? 0 : 64,
                                            .recv_capacity = tgt || ini ? 0 : 64,
                                            .send_sge_max = 4,
                                            .recv_sge_max = 4,
                                            .inline_max = 512,
                                            .block_self_multicast = options->block_self_multicast,
                                            .user = scene };
    struct uroce_qp *before = scene->qp;
    struct uroce_qp *qp;

    assert_true(scene->qp_count < SCENE_QPS_MAX);
    assert_int_equal(uroce_qp_create(scene->pd, &config, &qp), 0);
    scene->qps[scene->qp_count].type = options->type;
    scene->qps[scene->qp_count++].qp = qp;
    scene->qp = qp;
    scene_connect(scene, options);
    scene->qp = before;
    return qp;
}

static void open_srq(struct scene *scene, const struct scene_options *options)
{
    const bool xrc = options->type == UROCE_XRC_TGT;

    if (xrc)
        assert_int_equal(uroce_xrcd_create(scene->engine, &scene->xrcd), 0);
    const struct uroce_srq_config config = { .size = sizeof config,
                                             .capacity = options->srq,
                                             .sge_max = 4,
                                             .xrcd = scene->xrcd,
                                             .cq = xrc ? scene->recv_cq : NULL,
                                             .user = &scene->srq };
    assert_int_equal(uroce_srq_create(scene->pd, &config, &scene->srq), 0);
}

struct scene *scene_open(const struct scene_options *options)
{
    struct scene *scene = calloc(1, sizeof *scene);

    assert_non_null(scene);
    uro_mark_clear();
    scene->now = scene->zero = URO_MS(1);
    scene->mtu = options->mtu;
    scene->vlan = options->vlan;
    scene->sl = options->sl;
    open_engine(scene, options);
    open_memory(scene);
    scene->send_cq = make_cq(scene, options->cq_capacity);
    scene->recv_cq = make_cq(scene, options->cq_capacity);
    if (options->srq != 0)
        open_srq(scene, options);
    scene->qp = scene_add_qp(scene, options);
    if (options->type == UROCE_UD) {
        scene->ah = scene_make_ah(scene, "10.0.0.2");
        scene_meet(scene, "10.0.0.2");
    }
    return scene;
}

struct uroce_ah *scene_make_ah(struct scene *scene, const char *dest)
{
    struct uroce_address address = { .hop_limit = 0 };
    struct uroce_ah *ah;

    assert_int_equal(uroce_gid_parse(dest, address.gid), 0);
    address.sgid_index = strchr(dest, ':') == NULL;
    assert_int_equal(uroce_ah_create(scene->pd, &address, scene->now, &ah), 0);
    return ah;
}

/* Consumes the membership reports: the first at once, the second within a second. */
static void report(struct scene *scene)
{
    for (int i = 0; i < 2; i++) {
        while (take_control(scene))
            ;
        scene->now += URO_MS(1000);
        scene->zero += URO_MS(1000);
    }
}

/* Returns whether the engine has frames to send at this moment. */
static bool has_frames(const struct scene *scene)
{
    return uroce_engine_next(scene->engine) <= scene->now;
}

void scene_attach(struct scene *scene, const char *group)
{
    uint8_t gid[UROCE_GID_SIZE];

    assert_int_equal(uroce_gid_parse(group, gid), 0);
    assert_int_equal(uroce_qp_attach(scene->qp, gid, scene->now), 0);
    if (has_frames(scene))
        report(scene);
}

void scene_detach(struct scene *scene, const char *group)
{
    uint8_t gid[UROCE_GID_SIZE];

    assert_int_equal(uroce_gid_parse(group, gid), 0);
    assert_int_equal(uroce_qp_detach(scene->qp, gid, scene->now), 0);
    if (has_frames(scene))
        report(scene);
}

void scene_destroy_qp(struct scene *scene)
{
    for (uint32_t i = 0; i < scene->qp_count; i++)
        if (scene->qps[i].qp == scene->qp)
            scene->qps[i].qp = NULL;
    assert_int_equal(uroce_qp_destroy(scene->qp), 0);
    scene->qp = NULL;
}

void scene_close(struct scene *scene)
{
    struct uroce_completion extra;

    scene_expect_silence(scene, scene->now - scene->zero);
    uroce_engine_deliver(scene->engine);
    if (uroce_cq_poll(scene->send_cq, &extra, 1) == 1)
        fail_msg("unexpected send completion, id %lu status %u", (unsigned long)extra.wr_id,
                 extra.status);
    if (uroce_cq_poll(scene->recv_cq, &extra, 1) == 1)
        fail_msg("unexpected receive completion, id %lu status %u", (unsigned long)extra.wr_id,
                 extra.status);
    for (uint32_t i = 0; i < scene->qp_count; i++) {
        scene->qp = scene->qps[i].qp;
        if (scene->qp == NULL)
            continue;
        if (uroce_qp_problem(scene->qp) != NULL)
            fail_msg("inside queue pair %u: %s", i, uroce_qp_problem(scene->qp));
        scene_destroy_qp(scene);
    }
    if (scene->ah != NULL)
        assert_int_equal(uroce_ah_destroy(scene->ah), 0);
    if (scene->srq != NULL)
        assert_int_equal(uroce_srq_destroy(scene->srq), 0);
    if (scene->xrcd != NULL)
        assert_int_equal(uroce_xrcd_destroy(scene->xrcd), 0);
    assert_int_equal(uroce_mr_destroy(scene->local_mr), 0);
    assert_int_equal(uroce_mr_destroy(scene->remote_mr), 0);
    assert_int_equal(uroce_cq_destroy(scene->send_cq), 0);
    assert_int_equal(uroce_cq_destroy(scene->recv_cq), 0);
    assert_int_equal(uroce_pd_destroy(scene->pd), 0);
    assert_int_equal(uroce_engine_destroy(scene->engine), 0);
    free(scene->local);
    free(scene->remote);
    free(scene);
}
