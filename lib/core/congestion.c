/* SPDX-License-Identifier: BSD-3-Clause */
/* congestion.c - see congestion.h. */
#include "core/congestion.h"

#include <string.h>

#include "base/mark.h"
#include "base/probe.h"
#include "core/limits.h"
#include "core/qp_private.h"
#include "core/ready.h"
#include "core/shard.h"

#define WHOLE      1024u      /* value of `alpha` for the whole window */
#define GAIN       16u        /* each step moves `alpha` by 1 / GAIN of the distance to its limit */
#define DECAY      URO_US(55) /* time without a CNP after which `alpha` shrinks by one step */
#define DECAY_MOST 64u
/* rounds before the target grows by one packet in each round; a round acknowledges one window */
#define ROUNDS_QUICK 5u

void uro_congestion_marked(struct uro_qp *qp)
{
    struct uro_congestion *congestion = &qp->congestion;

    uro_count(qp->shard->counters, URO_COUNT_RX_MARKED);
    if (qp->service == URO_UD || qp->shard->now < congestion->notify_from)
        return;
    congestion->notify_from = qp->shard->now + URO_CNP_EVERY;
    congestion->notify_due = true;
    uro_ready_response(qp);
}

void uro_congestion_notify(struct uro_qp *qp, struct uro_tx *tx)
{
    int opcode = uro_opcode_find(URO_CNP, URO_REQUEST, URO_NOTIFY, URO_ONLY, 0);
    struct uro_bth bth = { .opcode = (uint8_t)opcode,
                           .migrated = true,
                           .becn = true,
                           .pkey = URO_PKEY_DEFAULT,
                           .dest_qpn = qp->attr.dest_qpn };

    URO_MARK("CNP.SEND");
    qp->congestion.notify_due = false;
    tx->payload_length = 0;
    tx->span_count = 0;
    memset(uro_path_ext(tx, &qp->path), 0, URO_CNP_LEN);
    uro_path_seal(tx, &qp->path, &bth, URO_CNP_LEN);
    URO_PROBE1(cnp_sent, uro_qp_qpn(qp));
    uro_count(qp->shard->counters, URO_COUNT_CNP_SENT);
}

static void decay(struct uro_congestion *congestion, uro_time now)
{
    uro_time steps = (now - congestion->cut_at) / DECAY;

    for (uro_time i = 0; i < steps && i < DECAY_MOST; i++)
        congestion->alpha -= congestion->alpha / GAIN;
}

static uint32_t window_of(const struct uro_qp *qp)
{
    return qp->congestion.window != 0 ? qp->congestion.window : qp->shard->config.window;
}

/* Reduces the window by @less packets. Later acknowledgements grow the window back towards its
 * present size. */
static void cut(struct uro_qp *qp, uint32_t less)
{
    struct uro_congestion *congestion = &qp->congestion;
    uint32_t most = qp->shard->config.window;
    uint32_t least = most < URO_WINDOW_LEAST ? most : URO_WINDOW_LEAST;
    uint32_t window = window_of(qp);

    congestion->target = window;
    congestion->window = window - less > least ? window - less : least;
    congestion->rounds = 0;
    congestion->acked = uro_psn_diff(qp->req.una, qp->req.next) + (int32_t)qp->req.read_psns;
}

void uro_congestion_timed_out(struct uro_qp *qp)
{
    URO_MARK("REQ.TIMEOUT.WINDOW");
    cut(qp, window_of(qp) / 2);
}

void uro_congestion_cnp_received(struct uro_qp *qp)
{
    struct uro_congestion *congestion = &qp->congestion;
    uro_time now = qp->shard->now;

    URO_PROBE2(cnp_received, uro_qp_qpn(qp), congestion->window);
    uro_count(qp->shard->counters, URO_COUNT_CNP_RECEIVED);
    if (congestion->alpha != 0 && now - congestion->cut_at < URO_CNP_EVERY)
        return;
    URO_MARK("CNP.OBEY");
    if (congestion->alpha == 0)
        congestion->alpha = WHOLE;
    else
        decay(congestion, now);
    cut(qp, (uint32_t)((uint64_t)window_of(qp) * congestion->alpha / (2 * WHOLE)));
    congestion->alpha = (uint16_t)(congestion->alpha + (WHOLE - congestion->alpha) / GAIN);
    congestion->cut_at = now;
}

void uro_congestion_acked(struct uro_qp *qp, uint32_t count)
{
    struct uro_congestion *congestion = &qp->congestion;
    uint32_t most = qp->shard->config.window;

    if (congestion->window == 0)
        return;
    congestion->acked += (int32_t)count;
    while (congestion->acked >= (int32_t)congestion->window) {
        congestion->acked -= (int32_t)congestion->window;
        if (congestion->rounds < ROUNDS_QUICK)
            congestion->rounds++;
        else
            congestion->target++;
        congestion->window = (congestion->window + congestion->target + 1) / 2;
        if (congestion->window >= most) {
            URO_MARK("CNP.RECOVER");
            congestion->window = 0;
            return;
        }
    }
}
