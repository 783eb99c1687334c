/* SPDX-License-Identifier: BSD-3-Clause */
/* recovery.c - the state machine of what an RC requester sends again.
 *
 * The state is a mode and gap_open. Each cell says the next mode, then what happens to the cursor:
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
 *   back: to una, and nothing counts as in flight. rewind: to una, and READs and atomics stay in flight.
 *   resume: to the saved cursor. The cursor is saved on the way from NONE, and by (1).
 *   (1) the peer has a reorder buffer, and the conditions of one_closes_gap() hold
 *   (2) READs or atomics are in flight, and a request behind the last one probed so was answered
 *   (3) unless everything before the saved cursor is acknowledged
 *   (4) if more than the probed packet was acknowledged, the packets behind it were not lost
 *
 * That a peer has a reorder buffer is learned from its ACKs: with a gap open, it acknowledges more than was sent again. That
 * it has none is learned when the packet right behind a single-packet retransmit is missing, too.
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

/* Returns whether one packet is enough to close the gap at una: the peer has what is behind it, or that is on its way.
 * READs and atomics are requested again in any case. Without a timeout nobody would notice that the peer kept nothing. */
static bool one_closes_gap(struct uro_recovery *recovery, const struct uro_recovery_view *view)
{
    if (!recovery->peer_buffers || view->rd_atomic_used > 0 || !view->ack_timeout ||
        uro_psn_diff(view->place.next, view->una) < 2)
        return false;
    if (uro_psn_diff(view->una, recovery->single) == 1) {
        URO_MARK("REQ.GAP.PATCH.NOT"); /* the peer kept nothing: the next packet is missing, too */
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

/* Returns whether no request behind the one that was probed last is answered: more than one packet was lost. */
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
        /* Waiting for this answer first would mean to request all other READs again. */
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
    /* Otherwise all of it is acknowledged, and perhaps a local request at that place is complete. */
    return uro_psn_diff(recovery->saved.next, una) > 0 ? URO_RECOVERY_RESUME : URO_RECOVERY_STAY;
}

/* Returns whether only the answer was late: more than the probed packet is acknowledged. */
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
        URO_MARK("REQ.GAP.KEPT"); /* more than was sent again */
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
