/* SPDX-License-Identifier: BSD-3-Clause */
/* recovery.c - the state machine that decides what an RC requester retransmits.
 *
 * The state is a mode and gap_open. Each cell has the next mode, then the step of the cursor:
 *
 *   event                    NONE              SINGLE            PROBE
 *   -----------------------  ----------------  ----------------  ----------------
 *   gap, not gap_open        SINGLE, back (1)  SINGLE, back (1)  SINGLE, back (1)   opens the gap
 *                            NONE, back        NONE, back        NONE, back
 *   gap, gap_open            -                 -                 -
 *   probe timer              SINGLE, rewind(2) PROBE, back       PROBE, back
 *                            PROBE, back
 *   packet at una sent       -                 NONE, resume (3)  -
 *   progress                 -                 NONE, resume (3)  NONE, resume (4)   closes the gap
 *   ACK timeout, end of RNR  NONE, back        NONE, back        NONE, back         closes the gap
 *   RNR NAK                  NONE, back        NONE, back        NONE, back
 *
 *   back: the cursor moves to una, and nothing is in flight. rewind: to una, but READs and atomics stay in flight.
 *   resume: to the saved cursor. A transition from NONE saves the cursor, and so does (1).
 *   (1) the peer has a reorder buffer, and the conditions of one_closes_gap() hold
 *   (2) READs or atomics are in flight, and a request behind the last request probed by SINGLE was answered
 *   (3) unless everything before the saved cursor is acknowledged
 *   (4) if more than the probed packet was acknowledged, the packets behind it were not lost
 *
 * The requester learns from ACKs whether the peer has a reorder buffer. A peer has a reorder buffer
 * if, with a gap open, it acknowledges more packets than were retransmitted. A peer has none if the
 * packet behind a single-packet retransmit is also missing.
 */
#include "core/recovery.h"

#include "base/mark.h"

static void save(struct uro_recovery *recovery, const struct uro_recovery_view *view)
{
    recovery->saved = view->place;
    recovery->saved_idle = view->rd_atomic_used == 0;
}

enum uro_recovery_report uro_recovery_on_gap(struct uro_recovery *recovery, uro_psn psn,
                                             bool paused)
{
    if (!recovery->gap_open && !paused) {
        URO_MARK("REQ.GAP.BACK");
        recovery->gap_open = true;
        recovery->high = psn;
        return URO_RECOVERY_NEW;
    }
    URO_MARK("REQ.GAP.ONCE");
    if (uro_psn_diff(psn, recovery->high) <= 0)
        return URO_RECOVERY_KNOWN;
    recovery->high = psn;
    return URO_RECOVERY_AHEAD;
}

/* Returns whether one packet is enough to close the gap at una, because the peer keeps the packets
 * behind the gap. Outstanding READs and atomics need a full go-back-N. An ACK timeout is required:
 * it detects a peer that kept no packet. */
static bool one_closes_gap(struct uro_recovery *recovery, const struct uro_recovery_view *view)
{
    if (!recovery->peer_buffers || view->rd_atomic_used > 0 || !view->ack_timeout ||
        uro_psn_diff(view->place.next, view->una) < 2)
        return false;
    if (uro_psn_diff(view->una, recovery->single) == 1) {
        URO_MARK("REQ.GAP.PATCH.NOT"); /* the peer kept nothing: the next packet is also missing */
        recovery->peer_buffers = false;
        return false;
    }
    return true;
}

enum uro_recovery_step uro_recovery_on_resend(struct uro_recovery *recovery,
                                              const struct uro_recovery_view *view)
{
    recovery->mode = URO_RECOVERY_NONE;
    if (one_closes_gap(recovery, view)) {
        URO_MARK("REQ.GAP.PATCH");
        save(recovery, view);
        recovery->mode = URO_RECOVERY_SINGLE;
        recovery->single = view->una;
    }
    return URO_RECOVERY_GO_BACK;
}

/* Returns whether the last probe did not help: no request behind the probed request was answered,
 * so more than one packet was lost. */
static bool probed_in_vain(const struct uro_recovery *recovery, uint32_t head)
{
    return recovery->read_probed && head - recovery->read_probed_at <= 1;
}

enum uro_recovery_step uro_recovery_on_probe(struct uro_recovery *recovery,
                                             const struct uro_recovery_view *view)
{
    const bool first = recovery->mode == URO_RECOVERY_NONE;

    if (first)
        save(recovery, view);
    if (first && view->rd_atomic_used > 0 && !probed_in_vain(recovery, view->head)) {
        /* Send one packet and go on. Waiting for its answer would mean requesting all other READs
         * again. */
        URO_MARK("REQ.PROBE.READ");
        recovery->mode = URO_RECOVERY_SINGLE;
        recovery->read_probed = true;
        recovery->read_probed_at = view->head;
        return URO_RECOVERY_REWIND;
    }
    recovery->mode = URO_RECOVERY_PROBE;
    return URO_RECOVERY_GO_BACK;
}

void uro_recovery_on_expiry(struct uro_recovery *recovery)
{
    recovery->gap_open = false;
}

void uro_recovery_on_go_back(struct uro_recovery *recovery)
{
    recovery->mode = URO_RECOVERY_NONE;
}

enum uro_recovery_step uro_recovery_on_single_done(struct uro_recovery *recovery, uro_psn una)
{
    recovery->mode = URO_RECOVERY_NONE;
    /* If everything up to the saved cursor is acknowledged, a local request at that cursor may be
     * complete: stay. */
    return uro_psn_diff(recovery->saved.next, una) > 0 ? URO_RECOVERY_RESUME : URO_RECOVERY_STAY;
}

/* Returns whether no packet was lost and only the answer was late: the peer acknowledged more than
 * the probed packet. */
static bool answer_was_late(const struct uro_recovery *recovery, uro_psn una, uro_psn probed)
{
    return recovery->saved_idle && uro_psn_diff(una, probed) >= 2 &&
           uro_psn_diff(recovery->saved.next, una) > 0;
}

enum uro_recovery_step uro_recovery_on_progress(struct uro_recovery *recovery,
                                                const struct uro_recovery_view *view,
                                                uro_psn before)
{
    const enum uro_recovery_mode mode = (enum uro_recovery_mode)recovery->mode;

    if (recovery->gap_open && uro_psn_diff(view->una, view->place.next) > 1) {
        URO_MARK("REQ.GAP.KEPT"); /* the peer acknowledged more than was sent again */
        recovery->peer_buffers = true;
    }
    recovery->gap_open = false;
    if (mode == URO_RECOVERY_SINGLE)
        return uro_recovery_on_single_done(recovery, view->una);
    recovery->mode = URO_RECOVERY_NONE;
    if (mode != URO_RECOVERY_PROBE || !answer_was_late(recovery, view->una, before))
        return URO_RECOVERY_STAY;
    URO_MARK("REQ.PROBE.LATE");
    return URO_RECOVERY_RESUME;
}
