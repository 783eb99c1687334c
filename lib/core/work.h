/* SPDX-License-Identifier: BSD-3-Clause */
/* work.h - work requests and their rings.
 *
 * A ring has one producer (the posting thread, under its queue's lock in lib/verbs) and one
 * consumer (the engine). Indices run freely; index & mask is the slot. The producer owns a slot
 * from reserve to publish, the engine from publish until it moves `head` past it.
 */
#pragma once

#include <stdatomic.h>

#include "base/defs.h"

/* Values equal enum ibv_wr_opcode; lib/verbs/abi_asserts.c asserts it. */
enum uro_wr_opcode {
    URO_WR_RDMA_WRITE = 0,
    URO_WR_RDMA_WRITE_WITH_IMM = 1,
    URO_WR_SEND = 2,
    URO_WR_SEND_WITH_IMM = 3,
    URO_WR_RDMA_READ = 4,
    URO_WR_ATOMIC_CMP_AND_SWP = 5,
    URO_WR_ATOMIC_FETCH_AND_ADD = 6,
    URO_WR_LOCAL_INV = 7,
    URO_WR_BIND_MW = 8,
    URO_WR_SEND_WITH_INV = 9,
    URO_WR_FLUSH = 14,
    URO_WR_ATOMIC_WRITE = 15,
};

/* Values equal enum ibv_send_flags. */
#define URO_SEND_FENCE     (1u << 0)
#define URO_SEND_SIGNALED  (1u << 1)
#define URO_SEND_SOLICITED (1u << 2)
#define URO_SEND_INLINE    (1u << 3)

/* Same layout as struct ibv_sge. */
struct uro_sge {
    uint64_t address;
    uint32_t length;
    uint32_t lkey;
};

/* A send work request in its slot. The poster fills the fields up to xrc_srqn and the elements. The
 * engine owns the others. */
struct uro_wqe {
    uint64_t wr_id;
    uint64_t remote_address; /* BIND_MW: start address of the window */
    union {
        uint64_t compare_add;
        uint64_t window_length; /* BIND_MW: bytes; 0 unbinds a type 1 window */
        struct {
            uint32_t ah; /* uro_ah_number() */
            uint32_t qpn;
        } to; /* UD */
        struct uro_flush_kind {
            uint8_t placement;   /* field of struct uro_feth */
            uint8_t selectivity; /* field of struct uro_feth */
        } flush;
    };
    union {
        uint64_t swap;
        uint32_t qkey; /* UD */
        struct {
            uint32_t lkey;   /* lkey of the region */
            uint32_t access; /* URO_ACCESS_*; ZERO_BASED too */
        } bind;              /* BIND_MW */
    };
    uint32_t rkey; /* BIND_MW: new rkey of the window */
    /* four bytes as the application gave them; SEND_WITH_INV and LOCAL_INV: the rkey; BIND_MW: old
     * rkey of the window */
    uint32_t imm;
    uint32_t length;    /* bytes of the elements, or of the inline data; FLUSH: bytes to flush */
    uint8_t opcode;     /* enum uro_wr_opcode */
    uint8_t flags;      /* set of URO_SEND_* */
    uint16_t sge_count; /* number of elements; 0 with URO_SEND_INLINE */
    uint32_t xrc_srqn;  /* XRC: number of the peer's shared receive queue */

    uint32_t first_psn; /* valid from the first transmission on */
    uint32_t psn_count; /* PSNs the message uses; 0: not started, a local operation, or UD */
    /* enum uro_wc_status; not success if the request failed locally, and completes in its turn */
    uint16_t status;
    uint16_t fail_reason;  /* enum uro_fail_reason of `status` */
    uint32_t awaited;      /* READ: requested responses that have not arrived yet */
    struct uro_sge sges[]; /* elements, or the inline data */
};

static_assert(sizeof(struct uro_wqe) % 8 == 0, "elements have the alignment of their addresses");

/* A receive work request in its slot. */
struct uro_rqe {
    uint64_t wr_id;
    uint32_t length; /* sum of the elements */
    uint32_t sge_count;
    struct uro_sge sges[];
};

struct uro_wq_slots {
    uint8_t *base;
    uint32_t stride; /* bytes of a slot */
    uint32_t mask;   /* slots - 1 */
};

/* A work queue. The poster and the engine each have a cache line. The poster reads the engine's
 * line only when the queue seems full. The engine reads only `tail` of the poster's line. A struct
 * with a uro_wq aligns it to a cache line. More fields of the engine may follow on the engine's
 * line. */
struct uro_wq {
    struct uro_wq_slots to_fill;
    uint32_t capacity; /* maximum number of requests in the queue; at most the number of slots */
    uint32_t sge_max;
    uint32_t inline_max;
    atomic_uint tail;   /* index of the next free slot; moved by the poster */
    uint32_t head_seen; /* value of `head` that the poster read last */
    uint32_t apart[7];

    struct uro_wq_slots slots; /* copy of to_fill, on the engine's line */
    atomic_uint head;          /* index of the oldest unfinished request; moved by the engine */
};

static_assert(offsetof(struct uro_wq, slots) == 64, "the engine's line");

static inline void *uro_wq_slot_of(const struct uro_wq_slots *slots, uint32_t index)
{
    return slots->base + (size_t)(index & slots->mask) * slots->stride;
}

/* Returns the slot at @index. Called by the engine. */
static inline void *uro_wq_slot(const struct uro_wq *wq, uint32_t index)
{
    return uro_wq_slot_of(&wq->slots, index);
}

/* Returns whether the slot at index tail + @ahead is free, as far as head_seen shows. */
static inline bool uro_wq_has_room(const struct uro_wq *wq, uint32_t ahead)
{
    return atomic_load_explicit(&wq->tail, memory_order_relaxed) + ahead - wq->head_seen <
           wq->capacity;
}

/* Returns the slot at index tail + @ahead, to be filled, or NULL when the queue is full. */
static inline void *uro_wq_reserve(struct uro_wq *wq, uint32_t ahead)
{
    if (!uro_wq_has_room(wq, ahead)) {
        wq->head_seen = atomic_load_explicit(&wq->head, memory_order_acquire);
        if (!uro_wq_has_room(wq, ahead))
            return NULL;
    }
    return uro_wq_slot_of(&wq->to_fill,
                          atomic_load_explicit(&wq->tail, memory_order_relaxed) + ahead);
}

/* Publishes the next @count reserved slots, so that the engine may take them. The caller has filled
 * them. */
static inline void uro_wq_publish(struct uro_wq *wq, uint32_t count)
{
    uint32_t tail = atomic_load_explicit(&wq->tail, memory_order_relaxed);
    atomic_store_explicit(&wq->tail, tail + count, memory_order_release);
}

/* Returns the index behind the newest published request. Called by the engine. */
static inline uint32_t uro_wq_tail(const struct uro_wq *wq)
{
    return atomic_load_explicit(&wq->tail, memory_order_acquire);
}

/* Returns the index of the oldest unfinished request. Called by the engine. */
static inline uint32_t uro_wq_head(const struct uro_wq *wq)
{
    return atomic_load_explicit(&wq->head, memory_order_relaxed);
}

static inline void uro_wq_finish(struct uro_wq *wq, uint32_t head)
{
    atomic_store_explicit(&wq->head, head, memory_order_release);
}

/* Returns the number of slots of a queue for @wanted requests, at most URO_WR_MAX: a power of two,
 * or 0 for 0. */
static inline uint32_t uro_wq_slot_count(uint32_t wanted)
{
    return wanted == 0 ? 0 : uro_pow2_at_least(wanted);
}

/* Return the number of bytes of slot memory for a queue, and initialise @wq except for the address
 * of the slots. Limits: core/limits.h. */
size_t uro_wq_layout_send(struct uro_wq *wq, uint32_t capacity, uint32_t sge_max,
                          uint32_t inline_max);
size_t uro_wq_layout_recv(struct uro_wq *wq, uint32_t capacity, uint32_t sge_max);

/* Gives the queue its slot memory, aligned to 64. No poster is active. */
void uro_wq_lend(struct uro_wq *wq, void *memory);

/* Replaces the slots by those of @by, whose first @waiting slots hold the waiting requests. No
 * poster is active. */
void uro_wq_replace(struct uro_wq *wq, const struct uro_wq *by, uint32_t waiting);
