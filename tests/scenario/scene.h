/* SPDX-License-Identifier: BSD-3-Clause */
/* scene.h - one engine, one RC queue pair, a virtual clock, and a peer made of literals.
 *
 * A test is a conversation: what is posted, what arrives, what must leave, what must complete.
 * Fields left out of a literal mean "the usual". scene_close() fails when anything was sent or
 * completed that the test did not expect.
 */
#pragma once

#include "base/mark.h"
#include "base/time.h"
#include "core/key.h"
#include "core/qp.h"
#include "engine/engine.h"
#include "support/check.h"

#define SCENE_QPN_PEER 0x000abcu
#define SCENE_MEMORY   (256u * 1024)

struct scene {
    void *engine_memory;
    struct uro_engine *engine;
    uro_time now;
    struct uro_cq *send_cq;
    struct uro_cq *recv_cq;
    void *qp_memory;
    struct uro_qp *qp;
    uint8_t *local;  /* for sends, receives and READ sinks */
    uint8_t *remote; /* what the peer reads and writes */
    struct uro_key local_key;
    struct uro_key remote_key;
    uint32_t recv_used; /* octets of local, from its middle, given to receives */
    uint32_t mtu;
};

struct scene_options {
    uint32_t mtu;      /* 1024 */
    uint32_t link_mtu; /* 4500 when left 0 */
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint8_t timeout;       /* 14: 67 ms */
    uint8_t retry_count;   /* 7 */
    uint8_t rnr_retry;     /* 7: for ever */
    uint8_t min_rnr_timer; /* 12 */
    uint8_t depth;         /* max_rd_atomic, 4 */
    uint8_t dest_depth;    /* max_dest_rd_atomic, 4 */
    uint32_t access;       /* all remote rights */
    uint32_t window;
    uint32_t cq_capacity; /* 256 */
    bool retry_7_forever;
    enum uro_qp_state stop_at; /* RTS */
};
struct scene *scene_open(const struct scene_options *options);
#define scene_rc(...)                                                                              \
    scene_open(&(const struct scene_options){ .mtu = 1024,                                         \
                                              .timeout = 14,                                       \
                                              .retry_count = 7,                                    \
                                              .rnr_retry = 7,                                      \
                                              .min_rnr_timer = 12,                                 \
                                              .depth = 4,                                          \
                                              .dest_depth = 4,                                     \
                                              .access = 0xe,                                       \
                                              .cq_capacity = 256,                                  \
                                              .stop_at = URO_QPS_RTS,                              \
                                              __VA_ARGS__ })

/* A packet as a test writes it. */
struct scene_packet {
    const char *op; /* name in wire/opcode.c */
    uint32_t psn;
    bool ack_req;
    bool solicited;
    uint8_t syndrome; /* AETH, 0x1f when left 0 */
    uint32_t msn;     /* AETH */
    uint64_t va;      /* RETH or AtomicETH; left 0: start of scene->remote */
    uint32_t rkey;    /* left 0: key of scene->remote */
    uint32_t dma;     /* RETH length */
    uint64_t swap_add, compare;
    uint64_t original;
    uint32_t imm;  /* or the key to invalidate, as its four octets */
    uint32_t srqn; /* XRC */
    uint32_t qkey; /* UD */
    uint32_t source_qpn;
    uint8_t placement; /* FLUSH */
    uint8_t selectivity;
    bool rxe_icrc;    /* FLUSH: summed as Linux rxe does */
    const char *text; /* payload, or else: */
    uint32_t length;  /* octets of payload, scene_octet(fill + i) each */
    uint32_t fill;
    uint16_t pkey;    /* 0xffff when left 0 */
    uint32_t qpn;     /* arriving: the scene's queue pair when left 0 */
    const char *from; /* source address, 10.0.0.2 when left out */
    uint8_t version;
    int pad; /* wrong padding for the payload when not 0 */
};
#define PACKET(...) (&(const struct scene_packet){ __VA_ARGS__ })

/* A send request as a test writes it. */
struct scene_send {
    uint64_t id;
    enum uro_wr_opcode op;
    uint32_t flags; /* SIGNALED is added unless `quiet` */
    bool quiet;
    const char *text;
    uint32_t length; /* octets from scene->local + at */
    uint32_t at;
    uint64_t remote_address;
    uint32_t rkey;
    uint32_t imm;
    uint64_t compare_add, swap;
    uint8_t placement; /* FLUSH, of `length` octets */
    uint8_t selectivity;
    uint32_t lkey; /* left 0: key of scene->local */
};
#define SEND(...) (&(const struct scene_send){ .op = URO_WR_SEND, __VA_ARGS__ })

/* The octet of the test pattern at a position. */
static inline uint8_t scene_octet(uint32_t position)
{
    return (uint8_t)(position * 31 + position / 256);
}
void scene_fill(uint8_t *at, uint32_t fill, uint32_t length);
void scene_assert_filled(const uint8_t *at, uint32_t fill, uint32_t length);

void scene_post_recv(struct scene *scene, uint64_t id, uint32_t length);
/* The memory of the receive that was posted as number @number (0 first) with @length each. */
const uint8_t *scene_recv_memory(const struct scene *scene, uint32_t offset);
void scene_post_send(struct scene *scene, const struct scene_send *send);

void scene_rx(struct scene *scene, uro_time at, const struct scene_packet *packet);
void scene_expect_tx(struct scene *scene, uro_time at, const struct scene_packet *packet);
void scene_expect_silence(struct scene *scene, uro_time at);
void scene_expect_sent(struct scene *scene, uint64_t id, enum uro_wc_status status);
void scene_expect_recv(struct scene *scene, uint64_t id, enum uro_wc_status status,
                       uint32_t length);
/* The last receive completion. */
const struct uro_cqe *scene_last(void);
void scene_expect_mark(struct scene *scene, const char *rule);
void scene_expect_state(struct scene *scene, enum uro_qp_state state);
void scene_expect_event(struct scene *scene, enum uro_event_kind kind);
uint64_t scene_counter(const struct scene *scene, enum uro_counter counter);
/* For a queue pair that went to RESET. */
void scene_connect(struct scene *scene, const struct scene_options *options);
/* Otherwise scene_close() does it. */
void scene_destroy_qp(struct scene *scene);
void scene_close(struct scene *scene);

/* Builds the frame of @packet into @out; returns its octets. For arriving packets. */
uint32_t scene_frame(const struct scene *scene, const struct scene_packet *packet, uint8_t *out);
/* Gives any octets to the engine. */
void scene_input(struct scene *scene, uro_time at, const uint8_t *octets, uint32_t length);
