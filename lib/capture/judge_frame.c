/* SPDX-License-Identifier: BSD-3-Clause */
/* judge_frame.c - the rules that a single packet can break, and the pace of CNPs. */
#include <inttypes.h>

#include "base/time.h"
#include "capture/judge_inside.h"

/* Minimum interval of CNPs, and slack. A capture of batched packets shows shorter intervals than
 * those between the transmissions. */
#define CNP_EVERY URO_US(50)
#define CNP_SLACK URO_MS(1)

/* Reports the flaws for which a receiver drops the packet. */
static void judge_bad(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];
    const uint32_t flaws = packet->flaws;

    if (flaws & URO_FLAW_ICRC_ORDER)
        uro_judge_report(judge, URO_JUDGE_ICRC_ORDER, position, URO_CAPTURE_NONE,
                         "the ICRC is stored most significant byte first");
    else if (flaws & URO_FLAW_ICRC_PAD)
        uro_judge_report(judge, URO_JUDGE_ICRC_PAD, position, URO_CAPTURE_NONE,
                         "the ICRC is correct only for the packet without its pad");
    else if (flaws & URO_FLAW_ICRC)
        uro_judge_report(judge, URO_JUDGE_ICRC, position, URO_CAPTURE_NONE,
                         "the ICRC of PSN %" PRIu32 " is wrong: the sender's error, or damage on "
                         "the way",
                         packet->psn);
    if (flaws & URO_FLAW_OPCODE)
        uro_judge_report(judge, URO_JUDGE_OPCODE, position, URO_CAPTURE_NONE, "opcode 0x%02x",
                         packet->opcode);
    if (flaws & URO_FLAW_LENGTH)
        uro_judge_report(judge, URO_JUDGE_LENGTH, position, URO_CAPTURE_NONE,
                         "the UDP length does not fit the headers and the pad");
    if (flaws & URO_FLAW_VERSION)
        uro_judge_report(judge, URO_JUDGE_VERSION, position, URO_CAPTURE_NONE,
                         "the transport version is not 0");
    if (flaws & URO_FLAW_UDP_CHECKSUM)
        uro_judge_report(judge, URO_JUDGE_UDP_CHECKSUM, position, URO_CAPTURE_NONE,
                         "the UDP checksum is wrong");
}

/* Reports flaws with which a receiver accepts the packet. */
static void judge_small(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];
    const enum uro_service service = uro_capture_op(packet)->service;
    const uint32_t flaws = packet->flaws;

    if (flaws & URO_FLAW_RESERVED)
        uro_judge_report(judge, URO_JUDGE_RESERVED, position, URO_CAPTURE_NONE,
                         "a reserved bit is 1");
    if (flaws & URO_FLAW_BECN)
        uro_judge_report(judge, URO_JUDGE_BECN, position, URO_CAPTURE_NONE,
                         "a CNP whose BECN is 0");
    if (flaws & URO_FLAW_PAD)
        uro_judge_report(judge, URO_JUDGE_PAD, position, URO_CAPTURE_NONE,
                         "%" PRIu32 " bytes of payload with a pad that does not fill the last word",
                         packet->payload);
    if (flaws & URO_FLAW_GSI)
        uro_judge_report(judge, URO_JUDGE_GSI, position, URO_CAPTURE_NONE,
                         "a datagram of %" PRIu32 " bytes to QP 1, or another Q_Key",
                         packet->payload);
    if (flaws & URO_FLAW_GROUP)
        uro_judge_report(judge, URO_JUDGE_GROUP, position, URO_CAPTURE_NONE,
                         "QPN 0x%06" PRIx32 " with the address of a group", packet->dest_qpn);
    if (!packet->migrated && (service == URO_RC || service == URO_UC || service == URO_XRC))
        uro_judge_report(judge, URO_JUDGE_MIGREQ, position, URO_CAPTURE_NONE, "MigReq is 0");
}

/* Fills a leaky bucket by one interval for each CNP. It overflows when CNPs came faster than the
 * rule allows for longer than the slack. */
static void judge_cnp(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];
    struct uro_judge_cnp *cnp = &judge->cnps[packet->flow];
    const uint64_t since = packet->time > cnp->time ? packet->time - cnp->time : 0;

    cnp->level = (cnp->level > since ? cnp->level - since : 0) + CNP_EVERY;
    cnp->time = packet->time;
    if (cnp->level > CNP_EVERY + CNP_SLACK)
        uro_judge_report(judge, URO_JUDGE_CNP, position, URO_CAPTURE_NONE,
                         "more than %u CNPs too early; this one comes %" PRIu64
                         " us after the one before",
                         (unsigned)(CNP_SLACK / CNP_EVERY), since / URO_US(1));
}

void uro_judge_frame(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];

    if (packet->kind == URO_CAPTURE_BAD) {
        judge_bad(judge, position);
        return;
    }
    judge_small(judge, position);
    if (uro_capture_op(packet)->operation == URO_NOTIFY)
        judge_cnp(judge, position);
}
