/* SPDX-License-Identifier: BSD-3-Clause */
/* suspect.c - see suspect.h for the contract. */
#include "host/suspect.h"

#include <inttypes.h>
#include <stdio.h>

static const struct {
    enum uro_counter counter;
    const char *what;
    const char *remedy;
} kinds[] = {
    { URO_COUNT_DROP_ADDRESS, "packets for queue pairs from addresses that are not their peers'",
      "somebody forges packets or sends to the wrong queue pair" },
    { URO_COUNT_DROP_QPN, "packets for queue pairs that do not exist",
      "somebody tries numbers, or peers go on after the queue pair has ended" },
    { URO_COUNT_DROP_GHOST_ACK, "answers to what was never asked", "somebody forges answers" },
    { URO_COUNT_RX_FAR, "requests with PSNs far from the expected ones", "somebody tries PSNs" },
    { URO_COUNT_ACCESS_REFUSED, "requests with wrong keys, addresses or rights",
      "a peer tries keys, or is wrong about them" },
    { URO_COUNT_DROP_PKEY, "packets of other partitions", "somebody is misconfigured or tries" },
    { URO_COUNT_DROP_QKEY, "datagrams with wrong Q_Keys", "somebody tries Q_Keys" },
    { URO_COUNT_CM_DROP_UNEXPECTED, "connection messages that fit no connection",
      "somebody forges them" },
    { URO_COUNT_CM_REFUSED, "connection requests that were refused",
      "somebody asks for more than this program takes" },
    { URO_COUNT_CM_DROP_BUSY, "connection messages that nobody has taken in time",
      "more clients at once than this program takes, or a flood" },
};
static_assert(URO_ARRAY_LEN(kinds) == URO_SUSPECT_KINDS, "each kind has its counts");

static bool quiet(const struct uro_suspect *suspect, unsigned kind, uro_time now)
{
    return suspect->told[kind] != 0 && now - suspect->told[kind] < URO_SUSPECT_QUIET;
}

bool uro_suspect_look(struct uro_suspect *suspect, const struct uro_counters *counters,
                      uro_time now, char text[static URO_SUSPECT_TEXT_MAX])
{
    for (unsigned i = 0; i < URO_SUSPECT_KINDS; i++) {
        uint64_t count = counters->value[kinds[i].counter];
        if (count - suspect->before[i] < URO_SUSPECT_MOST || quiet(suspect, i, now))
            continue;
        suspect->told[i] = now;
        snprintf(text, URO_SUSPECT_TEXT_MAX,
                 "WARNING: %" PRIu64 " %s (%s): %s; see docs/SECURITY.md", count, kinds[i].what,
                 uro_counter_name(kinds[i].counter), kinds[i].remedy);
        return true;
    }
    if (suspect->since == 0 || now - suspect->since >= URO_SUSPECT_INTERVAL) {
        suspect->since = now;
        for (unsigned i = 0; i < URO_SUSPECT_KINDS; i++)
            suspect->before[i] = counters->value[kinds[i].counter];
    }
    return false;
}
