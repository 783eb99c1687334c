/* SPDX-License-Identifier: BSD-3-Clause */
/* recovery.h - what an RC requester sends again, and where it goes on afterwards. Events in, decisions out.
 *
 * req_retry.h decides when something is sent again. This file decides how much: everything in flight (go-back-N) or one
 * packet. It moves nothing itself: req_back.c carries out the decision.
 */
#pragma once

#include "core/psn.h"

enum uro_recovery_mode {
    URO_RECOVERY_NONE, /* the cursor goes forward; after go-back-N it does so over what was sent before */
    URO_RECOVERY_SINGLE, /* the packet at una is sent once more, then the cursor returns to where it was */
    URO_RECOVERY_PROBE, /* the packet at una is sent once more, then nothing until it is acknowledged */
};

/* What the caller does with its cursor. */
enum uro_recovery_step {
    URO_RECOVERY_STAY,    /* nothing */
    URO_RECOVERY_GO_BACK, /* to una; nothing counts as in flight any more */
    URO_RECOVERY_REWIND,  /* to una; READs and atomics stay in flight */
    URO_RECOVERY_RESUME,  /* to uro_recovery.saved */
};

/* What the report of a gap is. */
enum uro_recovery_report {
    URO_RECOVERY_NEW, /* the first one since progress: ask for a retry, then uro_recovery_on_resend() */
    URO_RECOVERY_KNOWN, /* nothing to do */
    URO_RECOVERY_AHEAD, /* a known gap, but the peer answers higher PSNs than before: it is alive */
};

/* A place in the send queue. */
struct uro_recovery_place {
    uro_psn next;           /* PSN to send next */
    uint32_t cursor;        /* index of its request */
    uint32_t since_ack_req; /* packets sent since the last one that asked for an ACK */
};

/* The requester, as the decisions see it. */
struct uro_recovery_view {
    struct uro_recovery_place place; /* of the cursor */
    uro_psn una;                     /* oldest PSN not acknowledged */
    uint32_t head;                   /* index of the oldest request */
    uint32_t rd_atomic_used;         /* READs and atomics in flight */
    bool ack_timeout;                /* ACKs are waited for with a timeout */
};

/* All zero: nothing was lost yet. */
struct uro_recovery {
    uint8_t mode;            /* enum uro_recovery_mode */
    bool gap_open;           /* a gap was reported, and nothing was acknowledged since */
    bool peer_buffers;       /* the peer keeps packets behind a gap in a reorder buffer */
    bool saved_idle;         /* no READ or atomic was in flight at `saved` */
    bool read_probed;        /* a single-packet retransmit was done with READs in flight, ... */
    uint32_t read_probed_at; /* ... of the request with this index */
    uro_psn high;            /* highest PSN that the peer answered while gap_open */
    uro_psn single;          /* PSN of the last single-packet retransmit for a gap */
    struct uro_recovery_place saved; /* saved cursor; valid in SINGLE and PROBE */
};

/* A response says that something before @psn is missing. @paused: an RNR wait runs. */
enum uro_recovery_report uro_recovery_on_gap(struct uro_recovery *recovery, uro_psn psn,
                                             bool paused);

/* The retry for a new gap was granted. Returns GO_BACK, of one packet if the mode is then SINGLE. */
enum uro_recovery_step uro_recovery_on_resend(struct uro_recovery *recovery,
                                              const struct uro_recovery_view *view);

/* An answer is late: one packet asks the peer for it. Returns GO_BACK or REWIND. */
enum uro_recovery_step uro_recovery_on_probe(struct uro_recovery *recovery,
                                             const struct uro_recovery_view *view);

/* The ACK timeout passed, or an RNR wait ended. */
void uro_recovery_on_expiry(struct uro_recovery *recovery);

/* Everything in flight is sent again, for whatever reason. */
void uro_recovery_on_go_back(struct uro_recovery *recovery);

/* The packet of a single-packet retransmit was sent, or is acknowledged. Returns RESUME or STAY. */
enum uro_recovery_step uro_recovery_on_single_done(struct uro_recovery *recovery, uro_psn una);

/* una moved on from @before to @view->una. Returns RESUME or STAY. */
enum uro_recovery_step uro_recovery_on_progress(struct uro_recovery *recovery,
                                                const struct uro_recovery_view *view,
                                                uro_psn before);

/* Whether uro_recovery_on_progress() could do anything. */
static inline bool uro_recovery_active(const struct uro_recovery *recovery)
{
    return recovery->mode != URO_RECOVERY_NONE || recovery->gap_open;
}
