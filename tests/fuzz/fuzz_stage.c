/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_stage.c - creates an engine with its objects (the stage), runs the engine, and checks that
 * the engine wrote no memory beside the registered range. */
#include "fuzz_stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "support/attr_mask.h"
#include "wire/arp.h"
#include "wire/bytes.h"
#include "wire/cm_msg.h"
#include "wire/ether.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define CANARY 256u
#define SRQ    16u
#define BURST  8u

const struct uro_mac stage_mac = { { 2, 0, 0, 0, 0, 1 } };
const struct uro_mac stage_peer_mac = { { 2, 0, 0, 0, 0, 2 } };
struct uro_gid stage_gid;
struct uro_gid stage_peer_gid;
struct uro_gid stage_group;

static const enum uroce_qp_type types[STAGE_QPS] = { [STAGE_RC] = UROCE_RC,
                                                     [STAGE_UC] = UROCE_UC,
                                                     [STAGE_UD] = UROCE_UD,
                                                     [STAGE_TGT] = UROCE_XRC_TGT,
                                                     [STAGE_INI] = UROCE_XRC_INI };

void stage_check(bool good)
{
    if (!good)
        abort();
}

void stage_input(struct stage *stage, const uint8_t *octets, uint32_t length)
{
    /* A buffer of exactly this size, so that a sanitizer detects reads after its end. */
    uint8_t *exact = malloc(length > 0 ? length : 1);

    stage_check(exact != NULL);
    memcpy(exact, octets, length);
    /* The last byte decides whether the frame is in shared memory. */
    const struct uroce_packet packet = { exact, length, length > 0 ? exact[length - 1] & 1u : 0 };
    stage_check(uroce_engine_input(stage->engine, &packet, 1, stage->now) == 0);
    free(exact);
}

void stage_packet(struct stage *stage, const uint8_t *body, uint32_t length,
                  const struct uro_gid *to)
{
    uint8_t frame[STAGE_FRAME];
    const uint32_t udp_length = URO_UDP_LEN + length + URO_ICRC_LEN;
    const struct uro_ether ether = { .dest = stage_mac,
                                     .source = stage_peer_mac,
                                     .type = URO_ETHERTYPE_IPV4 };
    const struct uro_ip ip = { .dont_fragment = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = (uint16_t)udp_length,
                               .source = stage_peer_gid,
                               .dest = *to };
    const struct uro_udp udp = { 0xc000, URO_ROCE_PORT, (uint16_t)udp_length, 0 };
    uint8_t *network = frame + uro_ether_put(frame, &ether);
    uint8_t *at = network + uro_ip_put(network, &ip);

    uro_udp_encode(at, &udp);
    at += URO_UDP_LEN;
    memcpy(at, body, length);
    at += length;
    uro_put_le32(at, uro_icrc(network, false, (size_t)(at - network)));
    stage_input(stage, frame, (uint32_t)(at + URO_ICRC_LEN - frame));
}

/* Records the communication IDs if the frame has a message of the connection manager. */
static void note(struct stage *stage, const uint8_t *octets, uint32_t length)
{
    struct uro_frame frame;
    struct uro_cm_msg msg;

    if (uro_frame_network(octets, length, &frame) != URO_FRAME_OK ||
        frame.ether.type == URO_ETHERTYPE_ARP || frame.ip.protocol != URO_IPPROTO_UDP ||
        frame.udp.dest_port != URO_ROCE_PORT)
        return;
    stage_check(uro_frame_roce(&frame) == URO_FRAME_OK);
    if (frame.bth.dest_qpn != URO_CM_MAD_QPN || frame.payload_length != URO_MAD_LEN ||
        uro_cm_decode(frame.payload, &msg) != URO_CM_OK)
        return;
    stage->ids[stage->id_count++ % STAGE_IDS] =
        (struct stage_ids){ (uint32_t)msg.value[URO_CM_LOCAL_ID],
                            (uint32_t)msg.value[URO_CM_REMOTE_ID] };
}

void stage_output(struct stage *stage)
{
    static uint8_t frames[BURST][STAGE_FRAME];
    struct uroce_buffer buffers[BURST];
    struct uroce_packet looped;

    for (uint32_t i = 0; i < BURST; i++)
        buffers[i] = (struct uroce_buffer){ frames[i], STAGE_FRAME, 0 };
    for (int round = 0; round < 64; round++) {
        const int count = uroce_engine_output(stage->engine, buffers, BURST, stage->now);
        stage_check(count >= 0);
        for (int i = 0; i < count; i++)
            note(stage, buffers[i].bytes, buffers[i].length);
        if (count == 0 && uroce_engine_looped(stage->engine, &looped, 1) == 0)
            break;
    }
    for (int i = 0; i < STAGE_QPS; i++)
        stage_check(uroce_qp_problem(stage->qps[i]) == NULL);
}

static struct uroce_address address_of(const struct uro_gid *gid)
{
    struct uroce_address address = { .sgid_index = 1 };

    memcpy(address.gid, gid->octets, sizeof address.gid);
    return address;
}

void stage_modify(struct stage *stage, enum stage_qp which, enum uroce_qp_state to)
{
    struct uroce_qp *qp = stage->qps[which];
    const struct uroce_qp_attr attr = { .state = to,
                                        .port = 1,
                                        .qkey = STAGE_QKEY,
                                        .access = 0x10e,
                                        .path_mtu = 256,
                                        .dest_qpn = STAGE_PEER,
                                        .rq_psn = 0xfffff0,
                                        .sq_psn = 0xfffff0,
                                        .max_dest_rd_atomic = 2,
                                        .max_rd_atomic = 2,
                                        .min_rnr_timer = 1,
                                        .timeout = 1,
                                        .retry_cnt = 3,
                                        .rnr_retry = 3,
                                        .address = address_of(&stage_peer_gid) };
    const unsigned mask = attr_mask(types[which], to) | UROCE_ATTR_STATE;
    int error = uroce_qp_modify(qp, &attr, mask, stage->now);

    if (error != 0) /* a change from RTS, SQD or SQE to RTS accepts the state alone */
        error = uroce_qp_modify(qp, &attr, UROCE_ATTR_STATE, stage->now);
    stage_check(error == 0 || error == -EINVAL);
}

static void meet(struct stage *stage)
{
    uint8_t frame[URO_ETHER_LEN_MAX + URO_ARP_LEN];
    const struct uro_ether ether = { .dest = stage_mac,
                                     .source = stage_peer_mac,
                                     .type = URO_ETHERTYPE_ARP };
    const struct uro_arp arp = { .sender_mac = stage_peer_mac,
                                 .sender = stage_peer_gid,
                                 .target_mac = stage_mac,
                                 .target = stage_gid };
    size_t at = uro_ether_put(frame, &ether);

    uro_arp_encode(frame + at, &arp);
    stage_input(stage, frame, (uint32_t)at + URO_ARP_LEN);
}

static void open_engine(struct stage *stage)
{
    struct uroce_engine_config config = { .size = sizeof config,
                                          .mtu = 1500,
                                          .address_count = 1,
                                          .window = 16,
                                          .connections = 64,
                                          .reorder_buffer = 4 };

    stage_check(uro_gid_parse("10.0.0.1", &stage_gid));
    stage_check(uro_gid_parse("10.0.0.2", &stage_peer_gid));
    stage_check(uro_gid_parse("239.1.2.3", &stage_group));
    memcpy(config.mac, stage_mac.octets, sizeof config.mac);
    memcpy(config.addresses[0].gid, stage_gid.octets, UROCE_GID_SIZE);
    config.addresses[0].prefix = 24;
    stage_check(uroce_engine_create(&config, 0, &stage->engine) == 0);
    stage_check(uroce_pd_create(stage->engine, &stage->pd) == 0);
    stage_check(uroce_cq_create(stage->engine, 256, NULL, &stage->cq) == 0);
}

/* Binds a window to half of the memory, from byte 64 on. */
static void bind(struct stage *stage, struct uroce_mw *window)
{
    const struct uroce_send request = { .opcode = UROCE_BIND_MW,
                                        .mw = window,
                                        .mr = stage->mr,
                                        .rkey = uroce_mw_key(window),
                                        .remote_address = STAGE_BASE + 64,
                                        .bind_length = STAGE_MEMORY / 2,
                                        .bind_access = 0xe };

    stage_check(uroce_qp_send(stage->qps[STAGE_RC], &request) == 0);
    stage_output(stage);
    stage_check(uroce_mw_is_bound(window) == 1);
}

static void open_memory(struct stage *stage)
{
    stage->memory = calloc(1, STAGE_MEMORY + 2 * CANARY);
    stage_check(stage->memory != NULL);
    stage_check(uroce_mr_create_at(stage->pd, stage->memory + CANARY, STAGE_MEMORY, STAGE_BASE,
                                   0x11f, &stage->mr) == 0);
    stage_check(uroce_mw_create(stage->pd, UROCE_MW_TYPE_1, &stage->windows[0]) == 0);
    stage_check(uroce_mw_create(stage->pd, UROCE_MW_TYPE_2, &stage->windows[1]) == 0);
}

static void open_queue_pairs(struct stage *stage)
{
    struct uroce_srq_config srq = { .size = sizeof srq, .capacity = SRQ, .sge_max = 2 };

    stage_check(uroce_srq_create(stage->pd, &srq, &stage->srq) == 0);
    stage_check(uroce_xrcd_create(stage->engine, &stage->xrcd) == 0);
    srq.xrcd = stage->xrcd;
    srq.cq = stage->cq;
    stage_check(uroce_srq_create(stage->pd, &srq, &stage->xrc_srq) == 0);
    for (int i = 0; i < STAGE_QPS; i++) {
        const bool tgt = i == STAGE_TGT, ini = i == STAGE_INI;
        const struct uroce_qp_config config = { .size = sizeof config,
                                                .type = types[i],
                                                .xrcd = tgt ? stage->xrcd : NULL,
                                                .send_cq = tgt ? NULL : stage->cq,
                                                .recv_cq = tgt || ini ? NULL : stage->cq,
                                                .srq = i == STAGE_UD ? stage->srq : NULL,
                                                .send_capacity = tgt ? 0 : 16,
                                                .recv_capacity = tgt || ini ? 0 : 16,
                                                .send_sge_max = 2,
                                                .recv_sge_max = 2,
                                                .inline_max = 64 };
        stage_check(uroce_qp_create(stage->pd, &config, &stage->qps[i]) == 0);
    }
}

static void open_datagrams(struct stage *stage)
{
    const struct uro_gid dests[STAGE_AHS] = { stage_peer_gid, stage_gid, stage_group };

    for (int i = 0; i < STAGE_AHS; i++) {
        const struct uroce_address address = address_of(&dests[i]);
        stage_check(uroce_ah_create(stage->pd, &address, 0, &stage->ahs[i]) == 0);
    }
    stage_check(uroce_qp_attach(stage->qps[STAGE_UD], stage_group.octets, 0) == 0);
}

void stage_open(struct stage *stage)
{
    open_engine(stage);
    open_memory(stage);
    open_queue_pairs(stage);
    open_datagrams(stage);
    for (int i = 0; i < STAGE_QPS; i++) {
        stage_modify(stage, (enum stage_qp)i, UROCE_INIT);
        stage_modify(stage, (enum stage_qp)i, UROCE_RTR);
        stage_modify(stage, (enum stage_qp)i, UROCE_RTS);
    }
    stage_output(stage);
    meet(stage);
    bind(stage, stage->windows[0]);
    bind(stage, stage->windows[1]);
}

void stage_close(struct stage *stage)
{
    for (uint32_t i = 0; i < CANARY; i++)
        stage_check(stage->memory[i] == 0 && stage->memory[CANARY + STAGE_MEMORY + i] == 0);
    for (int i = 0; i < STAGE_QPS; i++)
        stage_check(uroce_qp_destroy(stage->qps[i]) == 0);
    for (int i = 0; i < STAGE_AHS; i++)
        stage_check(uroce_ah_destroy(stage->ahs[i]) == 0);
    stage_check(uroce_srq_destroy(stage->srq) == 0);
    stage_check(uroce_srq_destroy(stage->xrc_srq) == 0);
    stage_check(uroce_xrcd_destroy(stage->xrcd) == 0);
    for (int i = 0; i < 2; i++)
        stage_check(uroce_mw_destroy(stage->windows[i]) == 0);
    stage_check(uroce_mr_destroy(stage->mr) == 0);
    stage_check(uroce_cq_destroy(stage->cq) == 0);
    stage_check(uroce_pd_destroy(stage->pd) == 0);
    stage_check(uroce_engine_destroy(stage->engine) == 0);
    free(stage->memory);
}
