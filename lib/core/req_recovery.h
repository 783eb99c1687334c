/* SPDX-License-Identifier: BSD-3-Clause */
/* req_recovery.h - decides what an RC requester retransmits, and where its cursor continues
 * afterwards.
 *
 * req_retry.h decides when to retransmit. This file decides how much: everything in flight
 * (go-back-N) or one packet. The functions report events and return decisions, which req_recovery.c
 * carries out.
 */
#pragma once

#include "core/psn.h"

enum uro_recovery_mode {
    URO_RECOVERY_NONE,   /* the cursor moves forward, also during go-back-N */
    URO_RECOVERY_SINGLE, /* the packet at una is sent again, then the cursor goes to `saved` */
    /* The packet at una is sent again; no other packet is sent until una is acknowledged. */
    URO_RECOVERY_PROBE,
};

/* The step of the cursor that the caller carries out. */
enum uro_recovery_step {
    URO_RECOVERY_STAY,    /* the cursor stays */
    URO_RECOVERY_GO_BACK, /* the cursor moves to una; no packet is in flight any more */
    URO_RECOVERY_REWIND,  /* the cursor moves to una; READs and atomics stay in flight */
    URO_RECOVERY_RESUME,  /* the cursor moves to uro_recovery.saved */
};

/* The meaning of a gap that the peer reports. */
enum uro_recovery_report {
    /* First report since progress: call uro_req_retry_on_gap(). If it returns RESEND, call
     * uro_recovery_on_resend(). */
    URO_RECOVERY_NEW,
    URO_RECOVERY_KNOWN, /* known gap, or an RNR wait is running; nothing to do */
    URO_RECOVERY_AHEAD, /* known gap, but the peer answered a higher PSN than before: it is alive */
};

/* A position in the send queue. */
struct uro_recovery_position {
    uro_psn next;           /* PSN to send next */
    uint32_t cursor;        /* index of its request */
    uint32_t since_ack_req; /* packets sent since the last packet with AckReq */
};

/* The state of the requester on which the decisions depend. */
struct uro_recovery_view {
    struct uro_recovery_position position; /* current cursor */
    uro_psn una;                           /* oldest PSN not acknowledged */
    uint32_t head;                         /* index of the oldest request */
    uint32_t rd_atomic_used;               /* READs and atomics in flight */
    bool ack_timeout;                      /* the ACK timeout is not infinite */
};

/* State of the recovery; zeroed at the beginning. */
struct uro_recovery {
    uint8_t mode;            /* enum uro_recovery_mode */
    bool gap_open;           /* a gap was reported; no ACK and no expiry came since */
    bool peer_buffers;       /* the peer keeps packets behind a gap in a reorder buffer */
    bool saved_idle;         /* no READ or atomic was in flight at `saved` */
    bool read_probed;        /* a single packet was retransmitted with READs in flight */
    uint32_t read_probed_at; /* index of the request of that packet */
    uro_psn high;            /* highest PSN that the peer answered while gap_open */
    uro_psn single;          /* PSN of the last single-packet retransmit for a gap */
    struct uro_recovery_position saved; /* saved cursor; valid in SINGLE and PROBE */
};

/* Reports a gap: a request packet or a response at or before @psn is missing. @paused: an RNR wait
 * is running. */
enum uro_recovery_report uro_recovery_on_gap(struct uro_recovery *recovery, uro_psn psn,
                                             bool paused);

/* Begins the retransmission for a new gap. Returns GO_BACK. In mode SINGLE only one packet is
 * sent. */
enum uro_recovery_step uro_recovery_on_resend(struct uro_recovery *recovery,
                                              const struct uro_recovery_view *view);

/* Begins a probe: one packet asks the peer for a late answer. Returns GO_BACK or REWIND. */
enum uro_recovery_step uro_recovery_on_probe(struct uro_recovery *recovery,
                                             const struct uro_recovery_view *view);

/* Reports that the ACK timeout passed or an RNR wait ended. */
void uro_recovery_on_expiry(struct uro_recovery *recovery);

/* Reports that everything in flight is sent again. */
void uro_recovery_on_go_back(struct uro_recovery *recovery);

/* Ends a single-packet retransmit: its packet was sent or acknowledged. Returns RESUME or STAY. */
enum uro_recovery_step uro_recovery_on_single_done(struct uro_recovery *recovery, uro_psn una);

/* Reports that una moved from @before to @view->una. Returns RESUME or STAY. */
enum uro_recovery_step uro_recovery_on_progress(struct uro_recovery *recovery,
                                                const struct uro_recovery_view *view,
                                                uro_psn before);

/* Returns whether uro_recovery_on_progress() has an effect. */
static inline bool uro_recovery_active(const struct uro_recovery *recovery)
{
    return recovery->mode != URO_RECOVERY_NONE || recovery->gap_open;
}
