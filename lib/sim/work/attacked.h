/* SPDX-License-Identifier: BSD-3-Clause */
/* attacked.h - two queue pairs under attack by an attacker that reads all frames. The attacker knows the addresses, the
 * QPNs, the keys, and PSNs near the expected PSNs.
 *
 *   attacked.c        memory, and the schedule of the attack
 *   attacked_qp.c     the lives of the two queue pairs, their requests and completions
 *   attacked_forge.c  the frames of the attacker
 *
 * No protocol without secrets stops such an attacker. Arriving messages may be forged, and queue pairs of RC and XRC may
 * fail; those of UC and UD never do. Invariants: memory without a key is neither changed nor sent. No completion comes twice
 * or reports more bytes than its receive has room for. All work ends. Other queue pairs are not affected. When faults have
 * stopped, UC and UD send each other one more message, which must arrive.
 */
#pragma once

#include "core/ah.h"
#include "sim/work/endpoint.h"
#include "sim/work/workload.h"

#define SIM_ATTACKED_SENDS  8u
#define SIM_ATTACKED_RECVS  8u
#define SIM_ATTACKED_FRAMES 8u    /* that the attacker keeps */
#define SIM_ATTACKED_FRAME  4600u /* bytes */
#define SIM_ATTACKED_RANGE  4096u /* bytes of a range */
#define SIM_ATTACKED_GUARD  256u  /* and between two */
#define SIM_ATTACKED_QKEY   0x11223344u

/* Ranges of memory, each with its own key. */
enum sim_attacked_range {
    SIM_ATTACKED_SENT,    /* no remote rights: sends only */
    SIM_ATTACKED_TAKEN,   /* LOCAL_WRITE: receives and responses */
    SIM_ATTACKED_OPEN,    /* all remote rights */
    SIM_ATTACKED_SHOWN,   /* REMOTE_READ */
    SIM_ATTACKED_FILLED,  /* REMOTE_WRITE: never sent */
    SIM_ATTACKED_FOREIGN, /* all rights, in another protection domain */
    SIM_ATTACKED_GONE,    /* was registered once */
    SIM_ATTACKED_RANGES
};

/* The rights of a peer on OPEN memory. */
#define SIM_ATTACKED_ACCESS                                                                        \
    (URO_ACCESS_REMOTE_WRITE | URO_ACCESS_REMOTE_READ | URO_ACCESS_REMOTE_ATOMIC |                 \
     URO_ACCESS_FLUSH_GLOBAL | URO_ACCESS_FLUSH_PERSISTENT)

struct sim_attacked;

struct sim_attacked_end {
    struct sim_endpoint endpoint; /* alive as long as there is a queue pair */
    struct sim_attacked *attacked;
    struct sim_attacked_end *peer;
    struct uro_srq srq; /* XRC target: where its receives are */
    void *srq_slots;    /* owned; NULL: none */
    struct uro_ah ah;   /* UD: handle of the other end */
    uint8_t *memory;    /* owned, as the two below */
    uint8_t *before;    /* its content at the beginning */
    uint8_t *after;     /* its content when it was last deregistered */
    uint64_t base;      /* address of memory[0] */
    struct uro_key keys[SIM_ATTACKED_RANGES];
    uint32_t rooms[SIM_ATTACKED_RECVS];  /* bytes of its receives */
    uint64_t places[SIM_ATTACKED_RECVS]; /* and where they are */
    bool awaits;                         /* the last message, of so many bytes */
    uint32_t awaited;
    uint32_t heard[2]; /* last PSN sent to this end, by role */
};

/* A frame to one of the two ends. */
struct sim_attacked_frame {
    uint8_t octets[SIM_ATTACKED_FRAME];
    uint32_t length; /* 0: none yet */
    const struct sim_attacked_end *to;
};

struct sim_attacked {
    struct sim_node poster;
    struct sim_node forger;
    struct sim_workload *load;
    const struct sim_plan_attacked *plan;
    struct uro_rng rng;
    struct sim_attacked_end ends[2];
    bool failed; /* of this life: a completion said so */
    bool over;
    bool asked; /* for the last messages */
    uro_time asked_at;
    uro_time due;
    uro_time end_at; /* of this life */
    uro_time forge_at;
    struct sim_attacked_frame frames[SIM_ATTACKED_FRAMES];
    uint32_t frame_count; /* ever */
};

/* Creates the queue pairs. Returns NULL when the plan has no attack. */
struct sim_attacked *sim_attacked_make(struct sim_workload *load);
/* The last two take NULL, too. */
void sim_attacked_free(struct sim_attacked *attacked);
/* Returns true when the frame is from one of these queue pairs to the other. */
bool sim_attacked_wire(struct sim_attacked *attacked, const struct sim_host *host,
                       const struct uro_frame *frame);
/* Checks the memory after all work has ended. */
void sim_attacked_check(struct sim_attacked *attacked);

/* attacked_qp.c */
void sim_attacked_make_qp(struct sim_attacked_end *end);
/* Connects the ends, after both queue pairs exist. */
void sim_attacked_connect(struct sim_attacked_end *end);
void sim_attacked_destroy(struct sim_attacked_end *end);
/* Returns whether no peer and no attacker can make the queue pair fail: UC and UD. */
bool sim_attacked_loose(const struct sim_attacked_end *end);

void sim_attacked_post(struct sim_attacked_end *end);
/* UC and UD: posts the last message to the other end. */
void sim_attacked_ask(struct sim_attacked_end *end);
void sim_attacked_judge(struct sim_endpoint *endpoint, const struct uro_cqe *cqe);

/* attacked_forge.c */
void sim_attacked_forge(struct sim_attacked *attacked);
/* Records a frame for the attacker. */
void sim_attacked_remember(struct sim_attacked *attacked, const struct sim_attacked_end *to,
                           const struct uro_frame *frame);

/* Returns the offset of a range. */
static inline uint32_t sim_attacked_offset(enum sim_attacked_range range)
{
    return SIM_ATTACKED_GUARD + range * (SIM_ATTACKED_RANGE + SIM_ATTACKED_GUARD);
}

static inline uint64_t sim_attacked_address(const struct sim_attacked_end *end,
                                            enum sim_attacked_range range)
{
    return end->base + sim_attacked_offset(range);
}
