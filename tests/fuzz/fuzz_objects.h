/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_objects.h - the objects of fuzz_verbs.c: two opened devices, objects of every kind, and
 * memory, part of which is registered.
 *
 *   fuzz_objects.c  makes and destroys
 *   fuzz_memory.c   changes regions, copies device memory, makes parent domains
 *   fuzz_work.c     posts, polls, modifies
 *   fuzz_verbs.c    reads from the input which of these actions to run
 */
#pragma once

#include <infiniband/verbs.h>

#include "fuzz_host.h"

enum kind {
    PD,
    MR,
    MW,
    DM,
    AH,
    CHANNEL,
    CQ,
    CQ_EX,
    XRCD,
    SRQ,
    QP,
    KIND_COUNT,
};

/* Returns the next byte of the input; 0 at its end. */
uint8_t fuzz_next(void);
bool fuzz_more(void);
void fuzz_feed(const uint8_t *data, size_t size);

struct object {
    enum kind kind;
    uint8_t side; /* device of the context in which the object was made */
    union {
        void *any;
        struct ibv_pd *pd;
        struct ibv_mr *mr;
        struct ibv_mw *mw;
        struct ibv_dm *dm;
        struct ibv_ah *ah;
        struct ibv_comp_channel *channel;
        struct ibv_cq *cq;
        struct ibv_cq_ex *cq_ex;
        struct ibv_xrcd *xrcd;
        struct ibv_srq *srq;
        struct ibv_qp *qp;
    };
};

void fuzz_objects_open(void);
/* Destroys all objects. If @contexts_first, closes the contexts first. Fails if an object remains,
 * or if memory that was never registered has changed. */
void fuzz_objects_close(bool contexts_first);

struct ibv_context *fuzz_context(uint8_t side);

/* Returns an object of this kind, or NULL; the next byte of the input selects it. */
struct object *fuzz_pick(enum kind kind);
/* Returns a CQ of either kind, or NULL. */
struct ibv_cq *fuzz_pick_cq(void);

/* Adds the object to the list. Returns false when there are too many. */
bool fuzz_keep(struct object object);

/* Returns a range that the input selects. It is not secret from now on. */
uint8_t *fuzz_choose_range(uint32_t *length);

/* Creates the object that the input selects. */
void fuzz_make(void);
void fuzz_destroy(void);
void fuzz_reopen(void);

void fuzz_change_mr(void);
void fuzz_change_nothing(struct ibv_mr *mr);
void fuzz_copy_dm(void);
void fuzz_make_domain(void);
/* Checks the counters after all objects were destroyed. */
void fuzz_check_unused(void);

#define FUZZ_DM 1024u /* bytes of device memory */

/* Memory to send inline from, which is not secret. */
#define FUZZ_INLINE 1100u
extern uint8_t fuzz_inline[FUZZ_INLINE];

/* Functions of fuzz_work.c. The input selects the details. */
void fuzz_connect(void);
void fuzz_modify(void);
void fuzz_post_send(void);
void fuzz_post_recv(void);
void fuzz_post_ex(void);
void fuzz_bind(void);
void fuzz_poll(void);
void fuzz_poll_ex(void);
void fuzz_events(void);
void fuzz_query(void);
void fuzz_group(void);
void fuzz_leave_groups(struct ibv_qp *qp);
void fuzz_resize(void);
