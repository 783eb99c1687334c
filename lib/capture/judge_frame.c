/* SPDX-License-Identifier: BSD-3-Clause */
/* judge_frame.c - the rules that a single packet can break, and the pace of CNPs. */
#include <inttypes.h>

#include "base/time.h"
#include "capture/judge_inside.h"

/* Minimum interval of CNPs, and slack. A capture of batched packets shows shorter intervals than
 * those between the transmissions. */
#define CNP_EVERY URO_US(50)
#define CNP_SLACK URO_MS(1)

/* A flaw, the check that reports it, and the text of the report. Only the first ICRC flaw of a
 * packet is reported. */
static const struct {
    uint32_t flaw;
    enum uro_judge_check check;
    const char *seen;
} flaws[] = {
    { URO_FLAW_ICRC_ORDER, URO_JUDGE_ICRC_ORDER, "the ICRC is stored most significant byte first" },
    { URO_FLAW_ICRC_PAD, URO_JUDGE_ICRC_PAD,
      "the ICRC is correct only for the packet without its pad" },
    { URO_FLAW_ICRC, URO_JUDGE_ICRC,
      "the ICRC is wrong: the sender's error, or damage on the way" },
    { URO_FLAW_OPCODE, URO_JUDGE_OPCODE, "the opcode is unknown" },
    { URO_FLAW_LENGTH, URO_JUDGE_LENGTH, "the UDP length does not fit the headers and the pad" },
    { URO_FLAW_VERSION, URO_JUDGE_VERSION, "the transport version is not 0" },
    { URO_FLAW_UDP_CHECKSUM, URO_JUDGE_UDP_CHECKSUM, "the UDP checksum is wrong" },
    { URO_FLAW_RESERVED, URO_JUDGE_RESERVED, "a reserved bit is 1" },
    { URO_FLAW_BECN, URO_JUDGE_BECN, "the BECN of a CNP is 0" },
    { URO_FLAW_PAD, URO_JUDGE_PAD, "the pad does not fill the last word of the payload" },
    { URO_FLAW_GSI, URO_JUDGE_GSI, "a datagram to QP 1 has a wrong length or Q_Key" },
    { URO_FLAW_GROUP, URO_JUDGE_GROUP,
      "the address is a multicast group, but the QPN is not 0xffffff" },
};

#define FLAWS_OF_ICRC (URO_FLAW_ICRC_ORDER | URO_FLAW_ICRC_PAD | URO_FLAW_ICRC)

static void judge_flaws(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];
    uint32_t left = packet->flaws;

    for (size_t i = 0; i < URO_ARRAY_LEN(flaws); i++) {
        if ((left & flaws[i].flaw) == 0)
            continue;
        if (flaws[i].flaw & FLAWS_OF_ICRC)
            left &= ~FLAWS_OF_ICRC;
        uro_judge_report(judge, flaws[i].check, position, URO_CAPTURE_NONE,
                         "%s (opcode 0x%02x, PSN %" PRIu32 ")", flaws[i].seen, packet->opcode,
                         packet->psn);
    }
}

static void judge_migreq(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];
    const enum uro_service service = uro_capture_op(packet)->service;

    if (!packet->migrated && (service == URO_RC || service == URO_UC || service == URO_XRC))
        uro_judge_report(judge, URO_JUDGE_MIGREQ, position, URO_CAPTURE_NONE, "MigReq is 0");
}

/* Adds one interval to a leaky bucket for each CNP. The bucket overflows when more CNPs came too
 * early than the slack allows. */
static void judge_cnp(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];
    struct uro_judge_cnp *cnp = &judge->cnps[packet->flow];
    const uint64_t since = packet->time > cnp->time ? packet->time - cnp->time : 0;

    cnp->level = (cnp->level > since ? cnp->level - since : 0) + CNP_EVERY;
    cnp->time = packet->time;
    if (cnp->level > CNP_EVERY + CNP_SLACK)
        uro_judge_report(judge, URO_JUDGE_CNP, position, URO_CAPTURE_NONE,
                         "more than %u CNPs came too early; this CNP comes %" PRIu64
                         " us after the previous CNP",
                         (unsigned)(CNP_SLACK / CNP_EVERY), since / URO_US(1));
}

void uro_judge_frame(struct uro_judge *judge, uint32_t position)
{
    const struct uro_capture_packet *packet = &judge->capture->packets[position];

    judge_flaws(judge, position);
    if (packet->kind == URO_CAPTURE_BAD)
        return;
    judge_migreq(judge, position);
    if (uro_capture_op(packet)->operation == URO_NOTIFY)
        judge_cnp(judge, position);
}
