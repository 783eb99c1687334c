/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_stage.c - builds the stage, runs its engine, and checks for damage. */
#include "fuzz_stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/work.h"
#include "support/in_two.h"
#include "wire/arp.h"
#include "wire/ether.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define CANARY 256u
#define XRCD   3u
#define SRQ    16u

const struct uro_mac stage_mac = { { 2, 0, 0, 0, 0, 1 } };
const struct uro_mac stage_peer_mac = { { 2, 0, 0, 0, 0, 2 } };
struct uro_gid stage_gid;
struct uro_gid stage_peer_gid;
struct uro_gid stage_group;

static const enum uro_qp_type types[STAGE_QPS] = { [STAGE_RC] = URO_QPT_RC,
                                                   [STAGE_UC] = URO_QPT_UC,
                                                   [STAGE_UD] = URO_QPT_UD,
                                                   [STAGE_TGT] = URO_QPT_XRC_TGT,
                                                   [STAGE_INI] = URO_QPT_XRC_INI };

void stage_check(bool good)
{
    if (!good)
        abort();
}

static void *take(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);

    stage_check(memory != NULL);
    memset(memory, 0, size);
    return memory;
}

void stage_input(struct stage *stage, const uint8_t *octets, uint32_t length)
{
    /* A buffer of exactly this size, so that reading beyond it is seen. */
    uint8_t *exact = malloc(length > 0 ? length : 1);

    stage_check(exact != NULL);
    memcpy(exact, octets, length);
    const struct uro_pkt pkt = take_in_two(exact, length);
    uro_engine_input(stage->engine, &pkt, 1, stage->now);
    drop_in_two(&pkt);
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

void stage_output(struct stage *stage)
{
    static uint8_t frame[16384];
    static struct uro_tx tx[8];
    uint32_t kept = 0;

    for (int round = 0; round < 64; round++) {
        uint32_t count = uro_engine_output(stage->engine, tx, 8, stage->now);
        for (uint32_t i = 0; i < count; i++) {
            stage_check(uro_tx_length(&tx[i]) <= sizeof frame);
            uro_tx_write(&tx[i], frame);
        }
        (void)uro_engine_looped(stage->engine, &kept);
        if (count == 0 && kept == 0)
            break;
    }
    for (int i = 0; i < STAGE_QPS; i++)
        stage_check(uro_qp_problem(stage->qps[i]) == NULL);
}

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
    if (to == URO_QPS_RTS)
        return URO_ATTR_SQ_PSN | (serves || asks ? URO_ATTR_TIMEOUT : 0) | (asks ? ask : 0);
    return 0;
}

void stage_modify(struct stage *stage, enum stage_qp which, enum uro_qp_state to)
{
    struct uro_qp *qp = stage->qps[which];
    const struct uro_qp_attr attr = { .state = to,
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
                                      .retry_count = 3,
                                      .rnr_retry = 3,
                                      .address = { .dest = stage_peer_gid } };
    const unsigned mask = mask_of(types[which], to) | URO_ATTR_STATE;
    int error = uro_engine_qp_modify(stage->engine, qp, &attr, mask, stage->now);

    if (error != 0) /* RTS from SQD takes no attributes; whatever else is refused is refused */
        error = uro_engine_qp_modify(stage->engine, qp, &attr, URO_ATTR_STATE, stage->now);
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
    struct uro_engine_config config = { .mac = stage_mac,
                                        .mtu = 1500,
                                        .address_count = 1,
                                        .table_bits = 4,
                                        .window = 16,
                                        .reorder_buffer = 4 };

    stage_check(uro_gid_parse("10.0.0.1", &stage_gid));
    stage_check(uro_gid_parse("10.0.0.2", &stage_peer_gid));
    stage_check(uro_gid_parse("239.1.2.3", &stage_group));
    config.addresses[0] = (struct uro_engine_address){ stage_gid, 24 };
    /* The next script uses the memory again: fresh pages are most of the cost of a script. */
    static void *memory;
    if (memory == NULL)
        memory = take(uro_engine_size(&config));
    stage_check(uro_engine_init(memory, &config, 0, &stage->engine) == 0);
    stage->cq = uro_cq_init(take(uro_cq_size(256)), 256, NULL);
}

/* Binds a window to the middle of the memory. */
static void bind(struct stage *stage, struct uro_key *window)
{
    const struct uro_key_bind request = { .pd = 1,
                                          .qpn = uro_qp_number(stage->qps[STAGE_RC]),
                                          .old_rkey = uro_key_number(window),
                                          .new_rkey = uro_key_number(window),
                                          .lkey = uro_key_number(&stage->key),
                                          .access = 0xe,
                                          .address = STAGE_BASE + 64,
                                          .length = STAGE_MEMORY / 2 };

    stage_check(uro_key_bind(uro_engine_shard(stage->engine), &request));
}

static void open_memory(struct stage *stage)
{
    struct uro_shard *shard = uro_engine_shard(stage->engine);

    stage->memory = take(STAGE_MEMORY + 2 * CANARY);
    stage->key = (struct uro_key){ .pd = 1,
                                   .access = 0x11f,
                                   .base = STAGE_BASE,
                                   .length = STAGE_MEMORY,
                                   .memory = stage->memory + CANARY };
    stage->windows[0] = (struct uro_key){ .kind = URO_KEY_WINDOW_1, .pd = 1 };
    stage->windows[1] = (struct uro_key){ .kind = URO_KEY_WINDOW_2, .pd = 1 };
    uro_key_register(shard, &stage->key);
    uro_key_register(shard, &stage->windows[0]);
    uro_key_register(shard, &stage->windows[1]);
}

static void open_queue_pairs(struct stage *stage)
{
    struct uro_shard *shard = uro_engine_shard(stage->engine);
    struct uro_srq_init srq = { .pd = 1, .capacity = SRQ, .sge_max = 2 };

    stage->srq_slots[0] = take(uro_srq_slots_size(SRQ, 2));
    stage->srq_slots[1] = take(uro_srq_slots_size(SRQ, 2));
    uro_srq_create(shard, &stage->srq, &srq, stage->srq_slots[0]);
    srq.xrcd = XRCD;
    srq.cq = stage->cq;
    uro_srq_create(shard, &stage->xrc_srq, &srq, stage->srq_slots[1]);
    for (int i = 0; i < STAGE_QPS; i++) {
        const bool tgt = i == STAGE_TGT, ini = i == STAGE_INI;
        const struct uro_qp_init init = { .type = types[i],
                                          .pd = tgt ? 0 : 1,
                                          .xrcd = tgt ? XRCD : 0,
                                          .send_cq = tgt ? NULL : stage->cq,
                                          .recv_cq = tgt || ini ? NULL : stage->cq,
                                          .srq = i == STAGE_UD ? &stage->srq : NULL,
                                          .send_capacity = tgt ? 0 : 16,
                                          .recv_capacity = tgt || ini ? 0 : 16,
                                          .send_sge_max = 2,
                                          .recv_sge_max = 2,
                                          .inline_max = 64 };
        stage->qps[i] = uro_qp_create(shard, &init, take(uro_qp_size(&init)));
    }
}

static void open_datagrams(struct stage *stage)
{
    const struct uro_gid dests[STAGE_AHS] = { stage_peer_gid, stage_gid, stage_group };

    for (int i = 0; i < STAGE_AHS; i++) {
        const struct uro_address address = { .dest = dests[i] };
        stage_check(uro_engine_ah_create(stage->engine, &stage->ahs[i], 1, &address, 0) == 0);
    }
    stage_check(uro_mcast_attach(uro_engine_shard(stage->engine), &stage->member,
                                 stage->qps[STAGE_UD], &stage_group));
    stage_check(uro_engine_join(stage->engine, &stage_group, 0) == 0);
}

void stage_open(struct stage *stage)
{
    open_engine(stage);
    open_memory(stage);
    open_queue_pairs(stage);
    bind(stage, &stage->windows[0]);
    bind(stage, &stage->windows[1]);
    open_datagrams(stage);
    for (int i = 0; i < STAGE_QPS; i++) {
        stage_modify(stage, (enum stage_qp)i, URO_QPS_INIT);
        stage_modify(stage, (enum stage_qp)i, URO_QPS_RTR);
        stage_modify(stage, (enum stage_qp)i, URO_QPS_RTS);
    }
    stage_output(stage);
    meet(stage);
}

void stage_close(struct stage *stage)
{
    struct uro_shard *shard = uro_engine_shard(stage->engine);

    for (uint32_t i = 0; i < CANARY; i++)
        stage_check(stage->memory[i] == 0 && stage->memory[CANARY + STAGE_MEMORY + i] == 0);
    (void)uro_mcast_detach(shard, &stage->member);
    for (int i = 0; i < STAGE_QPS; i++) {
        uro_engine_qp_destroy(stage->engine, stage->qps[i]);
        free(stage->qps[i]);
    }
    for (int i = 0; i < STAGE_AHS; i++)
        uro_engine_ah_destroy(stage->engine, &stage->ahs[i]);
    uro_srq_destroy(shard, &stage->srq);
    uro_srq_destroy(shard, &stage->xrc_srq);
    for (int i = 0; i < 2; i++) {
        stage_check(uro_key_deregister(shard, &stage->windows[i]) == 0);
        free(stage->srq_slots[i]);
    }
    stage_check(uro_key_deregister(shard, &stage->key) == 0);
    uro_cq_fini(stage->cq);
    free(stage->cq);
    free(stage->memory);
}
