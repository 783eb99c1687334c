/* SPDX-License-Identifier: BSD-3-Clause */
/* scene.h - one engine, a queue pair, a virtual clock, and peers whose packets are struct literals.
 *
 * A test is a sequence of steps: it posts requests, delivers packets, and expects sent packets and
 * completions. Fields that a literal leaves out have default values. scene_close() fails if the
 * engine sent or completed anything that the test did not expect.
 *
 * Most functions use scene->qp. A test with several queue pairs creates the others with
 * scene_add_qp(), and assigns scene->qp to choose a queue pair.
 */
#pragma once

#include <string.h>

#include <uroce/objects.h>
#include <uroce/uroce.h>

#include "base/mark.h"
#include "base/time.h"
#include "support/check.h"

#define SCENE_QPN_PEER  0x000abcu
#define SCENE_MEMORY    (256u * 1024)
#define SCENE_QKEY      0x11111111u
#define SCENE_QPS_MAX   4u
#define SCENE_BURST_MAX 64u

struct scene {
    struct uroce_engine *engine;
    uro_time now;
    uro_time zero; /* engine time that the test calls 0 */
    struct uroce_pd *pd;
    struct uroce_cq *send_cq;
    struct uroce_cq *recv_cq;
    struct uroce_qp *qp; /* queue pair that the functions below use */
    struct {
        struct uroce_qp *qp; /* NULL: destroyed */
        enum uroce_qp_type type;
    } qps[SCENE_QPS_MAX];
    uint32_t qp_count;
    struct uroce_srq *srq;   /* SRQ if options.srq is set; NULL: destroyed */
    struct uroce_xrcd *xrcd; /* XRC_TGT: the XRC domain */
    struct uroce_ah *ah;     /* UD: address handle for 10.0.0.2 */
    uint8_t *local;          /* memory for sends, receives and READ responses */
    uint8_t *remote;         /* memory for READs and WRITEs of the peer */
    struct uroce_mr *local_mr;
    struct uroce_mr *remote_mr;
    uint32_t recv_used; /* bytes of `local` that were given to receives, counted from its middle */
    uint32_t mtu;
    uint16_t vlan; /* VLAN ID of all frames; 0: none. The literals do not have the tag */
    uint8_t sl;    /* priority in the VLAN tag */
};

/* The comments name the defaults of scene_rc(). */
struct scene_options {
    enum uroce_qp_type type; /* RC */
    uint32_t mtu;            /* 1024 */
    uint32_t link_mtu;       /* 0: 4500 */
    uint16_t vlan;           /* 0: none */
    uint8_t sl;              /* service level of the path */
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint8_t timeout;       /* 14: 67 ms */
    uint8_t retry_count;   /* 7 */
    uint8_t rnr_retry;     /* 7: for ever */
    uint8_t min_rnr_timer; /* 12 */
    uint8_t depth;         /* max_rd_atomic, 4 */
    uint8_t dest_depth;    /* max_dest_rd_atomic, 4 */
    uint32_t access;       /* remote WRITE, READ and atomics */
    uint32_t window;
    uint32_t reorder_buffer; /* packets of the reorder buffer; 0: no buffer */
    uint32_t cq_capacity;    /* 256 */
    uint32_t srq;            /* receives that a shared queue holds; 0: there is none */
    uint32_t qkey;           /* SCENE_QKEY */
    bool block_self_multicast;
    bool retry_7_forever;
    uint8_t timeout_least;       /* minimum ACK timeout; 0: none */
    enum uroce_qp_state stop_at; /* RTS */
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
                                              .qkey = SCENE_QKEY,                                  \
                                              .stop_at = UROCE_RTS,                                \
                                              __VA_ARGS__ })
#define scene_uc(...) scene_rc(.type = UROCE_UC, __VA_ARGS__)
#define scene_ud(...) scene_rc(.type = UROCE_UD, __VA_ARGS__)
/* Opens the target side of XRC, with an SRQ for 16 receives in the domain scene->xrcd. */
#define scene_xrc_tgt(...) scene_rc(.type = UROCE_XRC_TGT, .srq = 16, __VA_ARGS__)
#define scene_xrc_ini(...) scene_rc(.type = UROCE_XRC_INI, __VA_ARGS__)

/* Adds a queue pair with the same CQs, and the SRQ if options->srq is set. Keeps scene->qp. */
struct uroce_qp *scene_add_qp(struct scene *scene, const struct scene_options *options);
#define scene_add(scene, ...)                                                                      \
    scene_add_qp(scene, &(const struct scene_options){ .mtu = 1024,                                \
                                                       .timeout = 14,                              \
                                                       .retry_count = 7,                           \
                                                       .rnr_retry = 7,                             \
                                                       .min_rnr_timer = 12,                        \
                                                       .depth = 4,                                 \
                                                       .dest_depth = 4,                            \
                                                       .access = 0xe,                              \
                                                       .qkey = SCENE_QKEY,                         \
                                                       .stop_at = UROCE_RTS,                       \
                                                       __VA_ARGS__ })

/* A packet as a test writes it. */
struct scene_packet {
    const char *op; /* name in wire/opcode.c */
    uint32_t psn;
    bool ack_req;
    bool rxe; /* MigReq is 0 */
    bool solicited;
    bool ce;          /* ECN codepoint is CE: the network marked congestion */
    uint8_t ect;      /* other ECN codepoint: 1 or 2 */
    uint8_t syndrome; /* AETH; 0: 0x1f */
    uint32_t msn;     /* AETH */
    uint64_t va;      /* RETH or AtomicETH; 0: start of scene->remote */
    bool no_va;       /* va is 0 */
    uint32_t rkey;    /* 0: key of scene->remote */
    uint32_t dma;     /* RETH length */
    uint64_t swap_add, compare;
    uint64_t original;
    uint32_t imm;        /* immediate data, or the key to invalidate, as four bytes */
    uint32_t srqn;       /* XRC; arriving: the scene's shared queue when left 0 */
    uint32_t qkey;       /* UD; SCENE_QKEY when left 0 */
    uint32_t source_qpn; /* UD; the sender when left 0 */
    uint8_t placement;   /* FLUSH */
    uint8_t selectivity;
    bool rxe_icrc;         /* FLUSH: the ICRC is that of Linux rxe */
    const char *text;      /* the payload; NULL: see octets */
    const uint8_t *octets; /* payload of `length` bytes; NULL: see length */
    uint32_t length;       /* length of the payload, whose byte i is scene_byte(fill + i) */
    uint32_t fill;
    uint16_t pkey;    /* 0xffff when left 0 */
    uint32_t qpn;     /* destination: the scene's queue pair or the peer's when left 0 */
    const char *from; /* arriving: source address, 10.0.0.2 when left out */
    const char *to;   /* destination address, 10.0.0.1 or 10.0.0.2 when left out */
    uint8_t version;
    int pad; /* wrong padding for the payload when not 0 */
};
#define PACKET(...) (&(const struct scene_packet){ __VA_ARGS__ })

/* A send request as a test writes it. */
struct scene_send {
    uint64_t id;
    enum uroce_opcode op;
    uint32_t flags; /* SIGNALED is added unless `quiet` */
    bool quiet;
    const char *text;
    uint32_t length; /* bytes from scene->local + at */
    uint32_t at;
    uint64_t remote_address;
    uint32_t rkey;
    uint32_t imm;
    uint64_t compare_add, swap;
    uint8_t placement; /* FLUSH, of `length` bytes */
    uint8_t selectivity;
    uint32_t lkey;       /* left 0: key of scene->local */
    uint32_t srqn;       /* XRC */
    struct uroce_ah *ah; /* UD; left NULL: scene->ah */
    uint32_t qpn;        /* UD; left 0: SCENE_QPN_PEER */
    uint32_t qkey;       /* UD; left 0: SCENE_QKEY */
};
#define SEND(...) (&(const struct scene_send){ .op = UROCE_SEND, __VA_ARGS__ })

/* Returns the byte of the test pattern at a position. */
static inline uint8_t scene_byte(uint32_t position)
{
    return (uint8_t)(position * 31 + position / 256);
}
void scene_fill(uint8_t *at, uint32_t fill, uint32_t length);
void scene_assert_filled(const uint8_t *at, uint32_t fill, uint32_t length);

/* Posts a receive, to the SRQ if the scene has an SRQ. */
void scene_post_recv(struct scene *scene, uint64_t id, uint32_t length);
/* Posts a receive of @length bytes with the key @lkey. */
void scene_post_recv_key(struct scene *scene, uint64_t id, uint32_t length, uint32_t lkey);
/* Returns the memory for receives at @offset bytes. The first receive has offset 0, and the next
 * receive follows it. */
const uint8_t *scene_recv_memory(const struct scene *scene, uint32_t offset);
void scene_post_send(struct scene *scene, const struct scene_send *send);

void scene_rx(struct scene *scene, uro_time at, const struct scene_packet *packet);
void scene_expect_tx(struct scene *scene, uro_time at, const struct scene_packet *packet);
/* Writes the next frame, at most 9000 bytes. Returns its length, or 0 when there is no frame. */
uint32_t scene_output(struct scene *scene, uro_time at, uint8_t *octets);
/* Takes at most @room frames, and at most 64, in one call at the present time. Returns their
 * number. */
uint32_t scene_burst(struct scene *scene, uint32_t room);
/* Return frame @index of the last scene_burst(), with its VLAN tag, and its length. */
const uint8_t *scene_burst_frame(uint32_t index);
uint32_t scene_burst_length(uint32_t index);
void scene_expect_silence(struct scene *scene, uro_time at);
void scene_expect_sent(struct scene *scene, uint64_t id, enum uroce_status status);
void scene_expect_recv(struct scene *scene, uint64_t id, enum uroce_status status, uint32_t length);
/* Checks that neither CQ has a completion. */
void scene_expect_no_completion(const struct scene *scene);
/* Returns the last completion that a check took. */
const struct uroce_completion *scene_last(void);
/* Checks that uroce_failure_text() of @reason is @text. */
void scene_expect_reason(uint32_t reason, const char *text);
/* Reregister scene->local or scene->remote with other access flags. The key changes. */
void scene_register_local(struct scene *scene, unsigned access);
void scene_register(struct scene *scene, unsigned access);
/* Takes the next frame without checking it. Fails if there is none. */
void scene_skip(struct scene *scene);
void scene_expect_mark(struct scene *scene, const char *rule);
void scene_expect_state(struct scene *scene, enum uroce_qp_state state);
void scene_expect_event(struct scene *scene, enum uroce_event_kind kind);
uint64_t scene_counter(const struct scene *scene, const char *counter);
/* Modifies the queue pair to @to without attributes. Fails the test if that fails. */
void scene_to_state(struct scene *scene, enum uroce_qp_state to);
/* Makes an address handle for @dest, whose MAC address is not resolved yet. */
struct uroce_ah *scene_make_ah(struct scene *scene, const char *dest);
/* Answers the neighbour request of the engine for @who. */
void scene_meet(struct scene *scene, const char *who);
/* Attaches scene->qp to a group and consumes the membership reports to routers. */
void scene_attach(struct scene *scene, const char *group);
void scene_detach(struct scene *scene, const char *group);
/* Connects a queue pair again after a transition to RESET. */
void scene_connect(struct scene *scene, const struct scene_options *options);
/* Destroys scene->qp now; otherwise scene_close() destroys it. */
void scene_destroy_qp(struct scene *scene);
void scene_close(struct scene *scene);

/* Builds the frame of the arriving packet @packet in @out. Returns its length in bytes. */
uint32_t scene_frame(const struct scene *scene, const struct scene_packet *packet, uint8_t *out);
/* Passes any bytes to the engine as a received frame. */
void scene_input(struct scene *scene, uro_time at, const uint8_t *octets, uint32_t length);
/* Does the same without adding the VLAN tag of scene->vlan. */
void scene_input_raw(struct scene *scene, const uint8_t *octets, uint32_t length);

/* Posts four sends, the third with a bad key, and checks their completions. For QP types whose
 * sends complete at transmission. */
void scene_play_bad_one_in_a_burst(struct scene *s);
