/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_stage.h - one engine with a queue pair of each kind, for fuzz_engine_input.c and others. */
#pragma once

#include <uroce/connection.h>

#include "base/time.h"
#include "wire/ether.h"
#include "wire/gid.h"

#define STAGE_FRAME  2100u /* bytes of the longest packet with its headers */
#define STAGE_MEMORY 8192u
#define STAGE_BASE   0x1000u /* the address of the memory, as keys name it */
#define STAGE_PEER   0xabcu  /* QPN of the peer of RC, UC and XRC */
#define STAGE_QKEY   0x11111111u

enum stage_qp { STAGE_RC, STAGE_UC, STAGE_UD, STAGE_TGT, STAGE_INI, STAGE_QPS };
enum stage_ah { STAGE_AH_PEER, STAGE_AH_SELF, STAGE_AH_GROUP, STAGE_AHS };

/* The communication IDs in a message that the engine sent to QP 1 of a peer. */
struct stage_ids {
    uint32_t local, remote;
};

#define STAGE_IDS 8u

struct stage {
    struct uroce_engine *engine;
    uro_time now;
    struct uroce_pd *pd;
    struct uroce_cq *cq; /* CQ of all queue pairs */
    struct uroce_qp *qps[STAGE_QPS];
    enum stage_qp chosen;  /* queue pair that the input chose */
    struct uroce_srq *srq; /* SRQ of the UD queue pair */
    struct uroce_xrcd *xrcd;
    struct uroce_srq *xrc_srq;
    struct uroce_ah *ahs[STAGE_AHS];
    struct uroce_mr *mr;
    struct uroce_mw *windows[2];     /* type 1 and type 2, both bound at first */
    uint8_t *memory;                 /* canary, STAGE_MEMORY bytes registered, canary */
    struct stage_ids ids[STAGE_IDS]; /* communication IDs of the last messages, as a ring */
    uint32_t id_count;
};

extern const struct uro_mac stage_mac;
extern const struct uro_mac stage_peer_mac;
extern struct uro_gid stage_gid;
extern struct uro_gid stage_peer_gid;
extern struct uro_gid stage_group;

void stage_check(bool good);

/* Opens a stage with all queue pairs in RTS. The peer's MAC address is resolved. */
void stage_open(struct stage *stage);
/* Fails when something outside the registered memory has changed. */
void stage_close(struct stage *stage);

void stage_modify(struct stage *stage, enum stage_qp which, enum uroce_qp_state to);
void stage_input(struct stage *stage, const uint8_t *octets, uint32_t length);
/* Delivers a packet of the peer. @body follows the UDP header. All other bytes are valid. */
void stage_packet(struct stage *stage, const uint8_t *body, uint32_t length,
                  const struct uro_gid *to);
/* Sends everything that is due, and then checks the invariants of the queue pairs. */
void stage_output(struct stage *stage);
