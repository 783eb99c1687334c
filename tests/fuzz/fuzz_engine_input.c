/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_engine_input.c - any sequence of frames, posts and time steps against live queue pairs.
 *
 * The input is a script. Each step is one octet of kind, one of argument, and what it takes:
 *
 *   0 raw      argument * 8 octets are a frame as they are
 *   1 packet   argument octets from the BTH on; addresses, lengths, QPN and ICRC are made right
 *   2 time     argument^2 microseconds pass
 *   3 recv     a receive of argument * 16 octets is posted
 *   4 send     opcode argument & 7, length argument * 24
 *   5 output   everything that is due is sent
 *   6 modify   to state argument % 7
 *
 * Nothing outside the registered ranges may change, and the engine must stay live: a call that
 * never returns is a failure too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/key.h"
#include "engine/engine.h"
#include "wire/arp.h"
#include "wire/frame.h"
#include "wire/icrc.h"

#define MEMORY   8192u
#define CANARY   256u
#define FRAME    2100u
#define PEER_QPN 0xabcu

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct stage {
    struct uro_engine *engine;
    struct uro_cq *cq;
    struct uro_qp *qp;
    struct uro_key key;
    uint8_t *memory; /* canary, MEMORY octets registered, canary */
    uro_time now;
};

static const struct uro_mac ours = { { 2, 0, 0, 0, 0, 1 } };
static const struct uro_mac peer = { { 2, 0, 0, 0, 0, 2 } };
static struct uro_gid our_gid;
static struct uro_gid peer_gid;

static void *take(size_t size)
{
    void *memory = aligned_alloc(64, (size + 63) & ~(size_t)63);
    if (memory == NULL)
        abort();
    memset(memory, 0, size);
    return memory;
}

static void check(bool good)
{
    if (!good)
        abort();
}

static void input(struct stage *stage, const uint8_t *octets, uint32_t length)
{
    /* A buffer of exactly this size, so that reading beyond it is seen. */
    uint8_t *exact = malloc(length > 0 ? length : 1);
    check(exact != NULL);
    memcpy(exact, octets, length);
    const struct uro_pkt pkt = { .octets = exact, .length = length };
    uro_engine_input(stage->engine, &pkt, 1, stage->now);
    free(exact);
}

static void output(struct stage *stage)
{
    static uint8_t frame[16384];
    static struct uro_tx tx[8];

    for (int round = 0; round < 64; round++) {
        uint32_t count = uro_engine_output(stage->engine, tx, 8, stage->now);
        for (uint32_t i = 0; i < count; i++) {
            check(uro_tx_length(&tx[i]) <= sizeof frame);
            uro_tx_write(&tx[i], frame);
        }
        if (count == 0)
            return;
    }
}

static void modify(struct stage *stage, enum uro_qp_state to)
{
    struct uro_qp_attr attr = { .state = to,
                                .port = 1,
                                .access = 0xe,
                                .path_mtu = 256,
                                .dest_qpn = PEER_QPN,
                                .rq_psn = 0xfffff0,
                                .sq_psn = 0xfffff0,
                                .max_dest_rd_atomic = 2,
                                .max_rd_atomic = 2,
                                .min_rnr_timer = 1,
                                .timeout = 1,
                                .retry_count = 3,
                                .rnr_retry = 3,
                                .address = { .dest = peer_gid } };
    static const unsigned masks[URO_QPS_COUNT] = {
        [URO_QPS_INIT] = URO_ATTR_PKEY_INDEX | URO_ATTR_PORT | URO_ATTR_ACCESS,
        [URO_QPS_RTR] = URO_ATTR_AV | URO_ATTR_PATH_MTU | URO_ATTR_DEST_QPN | URO_ATTR_RQ_PSN |
                        URO_ATTR_DEST_RD | URO_ATTR_MIN_RNR,
        [URO_QPS_RTS] = URO_ATTR_TIMEOUT | URO_ATTR_RETRY_CNT | URO_ATTR_RNR_RETRY |
                        URO_ATTR_SQ_PSN | URO_ATTR_RD_ATOMIC,
    };
    const unsigned mask = masks[to] | URO_ATTR_STATE;
    int error = uro_engine_qp_modify(stage->engine, stage->qp, &attr, mask, stage->now);

    if (error != 0) /* RTS from SQD takes no attributes; whatever else is refused is refused */
        error = uro_engine_qp_modify(stage->engine, stage->qp, &attr, URO_ATTR_STATE, stage->now);
    check(error == 0 || error == -EINVAL);
}

static void meet(struct stage *stage)
{
    uint8_t frame[URO_ETHER_LEN_MAX + URO_ARP_LEN];
    const struct uro_ether ether = { .dest = ours, .source = peer, .type = URO_ETHERTYPE_ARP };
    const struct uro_arp arp = {
        .sender_mac = peer, .sender = peer_gid, .target_mac = ours, .target = our_gid
    };
    size_t at = uro_ether_put(frame, &ether);

    uro_arp_encode(frame + at, &arp);
    input(stage, frame, (uint32_t)at + URO_ARP_LEN);
}

static void open_stage(struct stage *stage)
{
    struct uro_engine_config config = {
        .mac = ours, .mtu = 1500, .address_count = 1, .table_bits = 4, .window = 16
    };
    check(uro_gid_parse("10.0.0.1", &our_gid) && uro_gid_parse("10.0.0.2", &peer_gid));
    config.addresses[0] = (struct uro_engine_address){ our_gid, 24 };
    check(uro_engine_init(take(uro_engine_size(&config)), &config, 0, &stage->engine) == 0);
    stage->cq = uro_cq_init(take(uro_cq_size(64)), 64, NULL);
    stage->memory = take(MEMORY + 2 * CANARY);
    stage->key = (struct uro_key){
        .pd = 1, .access = 0xf, .base = 0x1000, .length = MEMORY, .memory = stage->memory + CANARY
    };
    uro_key_register(uro_engine_shard(stage->engine), &stage->key);
    const struct uro_qp_init init = { .type = URO_QPT_RC,
                                      .pd = 1,
                                      .send_cq = stage->cq,
                                      .recv_cq = stage->cq,
                                      .send_capacity = 16,
                                      .recv_capacity = 16,
                                      .send_sge_max = 2,
                                      .recv_sge_max = 2,
                                      .inline_max = 64 };
    stage->qp = uro_qp_create(uro_engine_shard(stage->engine), &init, take(uro_qp_size(&init)));
    modify(stage, URO_QPS_INIT);
    modify(stage, URO_QPS_RTR);
    modify(stage, URO_QPS_RTS);
    output(stage);
    meet(stage);
}

static void close_stage(struct stage *stage)
{
    for (uint32_t i = 0; i < CANARY; i++)
        check(stage->memory[i] == 0 && stage->memory[CANARY + MEMORY + i] == 0);
    uro_engine_qp_destroy(stage->engine, stage->qp);
    uro_key_deregister(uro_engine_shard(stage->engine), &stage->key);
    uro_cq_fini(stage->cq);
    free(stage->qp);
    free(stage->cq);
    free(stage->memory);
    free(stage->engine);
}

/* Keys and addresses a fuzzer cannot guess: the marker 0xfe in the first octet of an R_Key means
 * the real one. */
static void mend(const struct stage *stage, uint8_t *bth, uint32_t length)
{
    const struct uro_opcode *op = &uro_opcodes[bth[0]];

    uro_put_be24(bth + 5, uro_qp_number(stage->qp));
    if (op->name != NULL && (op->ext & (URO_EXT_RETH | URO_EXT_ATOMIC)) &&
        length >= URO_BTH_LEN + URO_RETH_LEN && bth[20] == 0xfe) {
        uro_put_be32(bth + 20, uro_key_number(&stage->key));
        uro_put_be32(bth + 12, 0);
        bth[16] = bth[17] = 0;
    }
}

static void packet(struct stage *stage, const uint8_t *from, uint32_t length)
{
    uint8_t frame[FRAME];
    uint32_t udp_length = URO_UDP_LEN + length + URO_ICRC_LEN;
    const struct uro_ether ether = { .dest = ours, .source = peer, .type = URO_ETHERTYPE_IPV4 };
    const struct uro_ip ip = { .dont_fragment = true,
                               .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = (uint16_t)udp_length,
                               .source = peer_gid,
                               .dest = our_gid };
    const struct uro_udp udp = { 0xc000, URO_ROCE_PORT, (uint16_t)udp_length, 0 };

    if (length < URO_BTH_LEN)
        return;
    uint8_t *network = frame + uro_ether_put(frame, &ether);
    uint8_t *at = network + uro_ip_put(network, &ip);
    uro_udp_encode(at, &udp);
    at += URO_UDP_LEN;
    memcpy(at, from, length);
    mend(stage, at, length);
    at += length;
    uro_put_le32(at, uro_icrc(network, false, (size_t)(at - network)));
    input(stage, frame, (uint32_t)(at + URO_ICRC_LEN - frame));
}

static void post_recv(struct stage *stage, uint8_t argument)
{
    struct uro_rqe *rqe = uro_wq_reserve(uro_qp_recv_queue(stage->qp), 0);

    if (rqe == NULL || uro_qp_state_now(stage->qp) == URO_QPS_RESET)
        return;
    *rqe = (struct uro_rqe){ .wr_id = argument, .length = argument * 16u, .sge_count = 1 };
    rqe->sges[0] = (struct uro_sge){ 0x1000, argument * 16u, uro_key_number(&stage->key) };
    uro_wq_publish(uro_qp_recv_queue(stage->qp), 1);
    uro_qp_ring(uro_engine_shard(stage->engine), stage->qp);
}

static void post_send(struct stage *stage, uint8_t argument)
{
    struct uro_wqe *wqe = uro_wq_reserve(uro_qp_send_queue(stage->qp), 0);
    enum uro_qp_state state = uro_qp_state_now(stage->qp);
    uint8_t opcode = argument & 7;
    bool atomic = opcode == URO_WR_ATOMIC_CMP_AND_SWP || opcode == URO_WR_ATOMIC_FETCH_AND_ADD;
    uint32_t length = atomic ? 8 : argument * 24u;

    if (wqe == NULL || (state != URO_QPS_RTS && state != URO_QPS_ERR && state != URO_QPS_SQD))
        return;
    *wqe = (struct uro_wqe){ .wr_id = argument,
                             .opcode = opcode,
                             .flags = URO_SEND_SIGNALED,
                             .length = length,
                             .sge_count = 1,
                             .remote_address = 0x9000 };
    wqe->sges[0] = (struct uro_sge){ 0x1000, length, uro_key_number(&stage->key) };
    uro_wq_publish(uro_qp_send_queue(stage->qp), 1);
    uro_qp_ring(uro_engine_shard(stage->engine), stage->qp);
}

/* Carries out one step; returns the octets it took. */
static size_t step(struct stage *stage, uint8_t kind, uint8_t argument, const uint8_t *rest,
                   size_t left)
{
    size_t length = kind % 7 == 0 ? argument * (size_t)8 : argument;
    struct uro_cqe cqe[16];

    switch (kind % 7) {
    case 0:
    case 1:
        if (length > left)
            length = left;
        if (kind % 7 == 0)
            input(stage, rest, (uint32_t)length);
        else
            packet(stage, rest, (uint32_t)length);
        return length;
    case 2:
        stage->now += (uro_time)argument * argument * 1000;
        output(stage);
        break;
    case 3:
        post_recv(stage, argument);
        break;
    case 4:
        post_send(stage, argument);
        break;
    case 5:
        output(stage);
        (void)uro_cq_poll(stage->cq, cqe, 16);
        break;
    default:
        modify(stage, (enum uro_qp_state)(argument % 7));
        break;
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stage stage = { .now = 0 };
    size_t at = 0;

    open_stage(&stage);
    while (at + 2 <= size) {
        uint8_t kind = data[at];
        uint8_t argument = data[at + 1];
        at += 2;
        at += step(&stage, kind, argument, data + at, size - at);
    }
    output(&stage);
    close_stage(&stage);
    return 0;
}
