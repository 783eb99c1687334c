/* SPDX-License-Identifier: BSD-3-Clause */
/* load_victim.h - a pair of queue pairs that is attacked by somebody who reads along: he has the addresses,
 * the numbers of both, their keys, and PSNs near those that are expected.
 *
 *   load_victim.c        memory, and who is asked when
 *   load_victim_qp.c     lives of the two queue pairs, of any type
 *   load_victim_post.c   what they ask for, and what they are told
 *   load_victim_forge.c  what he writes
 *
 * No protocol without secrets stops him: what arrives may be his, and queue pairs of RC and XRC may fail; those
 * of UC and UD never do. What must hold all the same: memory that no key gives the right to is neither changed
 * nor sent, no completion comes twice or says more than its receive has room for, all goes on and ends, and
 * whoever is not attacked notices nothing. When faults have stopped, UC and UD send each other one more message,
 * which must arrive.
 */
#pragma once

#include "core/ah.h"
#include "io/sim/load.h"

#define URO_LOAD_VICTIM_SENDS  8u
#define URO_LOAD_VICTIM_RECVS  8u
#define URO_LOAD_VICTIM_FRAMES 8u    /* that he remembers */
#define URO_LOAD_VICTIM_FRAME  4600u /* octets */
#define URO_LOAD_VICTIM_QKEY   0x11223344u

/* What its memory is for: a key each. */
enum uro_load_victim_range {
    URO_LOAD_VICTIM_SENT,    /* no rights: only we send from it */
    URO_LOAD_VICTIM_TAKEN,   /* LOCAL_WRITE: receives, answers */
    URO_LOAD_VICTIM_OPEN,    /* to all that a peer may do */
    URO_LOAD_VICTIM_SHOWN,   /* REMOTE_READ */
    URO_LOAD_VICTIM_FILLED,  /* REMOTE_WRITE: never sent */
    URO_LOAD_VICTIM_FOREIGN, /* all rights, in another protection domain */
    URO_LOAD_VICTIM_GONE,    /* was registered once */
    URO_LOAD_VICTIM_RANGES
};

/* What a peer may do to open memory. */
#define URO_LOAD_VICTIM_ACCESS                                                                     \
    (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC |                 \
     URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT)

struct uro_load_victim;

struct uro_load_victim_end {
    struct uro_load_owner owner;
    struct uro_load_victim *victim;
    struct uro_load_victim_end *peer;
    struct uro_station *station;
    struct uro_load_cq cq;
    enum uro_qp_type type;
    struct uro_qp *qp;  /* NULL: between two lives */
    void *qp_memory;    /* owned */
    struct uro_srq srq; /* XRC target: where its receives are */
    void *srq_slots;    /* owned; NULL: none */
    struct uro_ah ah;   /* UD: to the other one */
    uint8_t *memory;    /* owned, as the two below */
    uint8_t *before;    /* what it was */
    uint8_t *after;     /* and when all was deregistered for the last time */
    uint64_t base;      /* address of memory[0] */
    struct uro_key keys[URO_LOAD_VICTIM_RANGES];
    uint64_t posted;
    uint64_t done;
    uint64_t recv_posted;
    uint64_t recv_done;
    uint32_t rooms[URO_LOAD_VICTIM_RECVS];  /* octets of its receives */
    uint64_t places[URO_LOAD_VICTIM_RECVS]; /* and where they are */
    bool awaits;                            /* the last message, of so many octets */
    uint32_t awaited;
    uint32_t heard[2]; /* by role: the last PSN that was sent to it */
};

/* A frame to one of the two. */
struct uro_load_victim_frame {
    uint8_t octets[URO_LOAD_VICTIM_FRAME];
    uint32_t length; /* 0: none yet */
    const struct uro_load_victim_end *to;
};

struct uro_load_victim {
    struct uro_node poster;
    struct uro_node forger;
    struct uro_load *load;
    const struct uro_swarm_victim *plan;
    struct uro_rng rng;
    struct uro_load_victim_end ends[2];
    bool failed; /* of this life: a completion said so */
    bool over;
    bool asked; /* for the last messages */
    uro_time asked_at;
    uro_time due;
    uro_time end_at; /* of this life */
    uro_time forge_at;
    struct uro_load_victim_frame frames[URO_LOAD_VICTIM_FRAMES];
    uint32_t frame_count; /* ever */
};

/* NULL when nobody is attacked. */
struct uro_load_victim *uro_load_victim_make(struct uro_load *load);
/* The last two take NULL, too. */
void uro_load_victim_free(struct uro_load_victim *victim);
/* True when the frame is from one of its queue pairs to the other one. */
bool uro_load_victim_wire(struct uro_load_victim *victim, const struct uro_station *station,
                          const struct uro_frame *frame);
/* When all has ended: memory. */
void uro_load_victim_check(struct uro_load_victim *victim);

/* load_victim_qp.c */
void uro_load_victim_make_qp(struct uro_load_victim_end *end);
/* Both are made. */
void uro_load_victim_connect(struct uro_load_victim_end *end);
void uro_load_victim_destroy(struct uro_load_victim_end *end);
/* UC and UD: its peer cannot make it fail, nor can anybody in its name. */
bool uro_load_victim_loose(const struct uro_load_victim_end *end);
struct uro_shard *uro_load_victim_shard(const struct uro_load_victim_end *end);

/* load_victim_post.c */
void uro_load_victim_post(struct uro_load_victim_end *end);
/* UC and UD: the last message, to the other one. */
void uro_load_victim_ask(struct uro_load_victim_end *end);
void uro_load_victim_take(struct uro_load_cq *cq, const struct uro_cqe *cqe);

/* load_victim_forge.c */
void uro_load_victim_forge(struct uro_load_victim *victim);
/* He reads along. */
void uro_load_victim_remember(struct uro_load_victim *victim, const struct uro_load_victim_end *to,
                              const struct uro_frame *frame);

/* Octets of a range. */
#define URO_LOAD_VICTIM_RANGE 4096u
/* Where it begins. */
uint64_t uro_load_victim_address(const struct uro_load_victim_end *end,
                                 enum uro_load_victim_range range);
