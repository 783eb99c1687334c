/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_stage.h - one engine with a queue pair of each kind, for fuzz_engine_input.c and others. */
#pragma once

#include "core/datagram.h"
#include "core/key.h"
#include "core/rq.h"
#include "engine/engine.h"

#define STAGE_FRAME  2100u /* octets of the longest packet with its headers */
#define STAGE_MEMORY 8192u
#define STAGE_BASE   0x1000u /* the address of the memory, as keys name it */
#define STAGE_PEER   0xabcu  /* QPN of the peer of RC, UC and XRC */
#define STAGE_QKEY   0x11111111u

enum stage_qp { STAGE_RC, STAGE_UC, STAGE_UD, STAGE_TGT, STAGE_INI, STAGE_QPS };
enum stage_ah { STAGE_AH_PEER, STAGE_AH_SELF, STAGE_AH_GROUP, STAGE_AHS };

struct stage {
    struct uro_engine *engine;
    uro_time now;
    struct uro_cq *cq; /* of all of them */
    struct uro_qp *qps[STAGE_QPS];
    enum stage_qp chosen; /* by the script */
    struct uro_srq srq;   /* of UD */
    struct uro_srq xrc_srq;
    void *srq_slots[2];
    struct uro_ah ahs[STAGE_AHS];
    struct uro_mcast member; /* UD */
    struct uro_key key;
    struct uro_key windows[2]; /* type 1 and type 2, both bound at first */
    uint8_t *memory;           /* canary, STAGE_MEMORY octets registered, canary */
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

void stage_modify(struct stage *stage, enum stage_qp which, enum uro_qp_state to);
void stage_input(struct stage *stage, const uint8_t *octets, uint32_t length);
/* Delivers a packet of the peer. @body follows the UDP header; all else is made valid. */
void stage_packet(struct stage *stage, const uint8_t *body, uint32_t length,
                  const struct uro_gid *to);
/* Sends everything that is due, and then checks the invariants of the engine. */
void stage_output(struct stage *stage);
