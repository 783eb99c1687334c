/* SPDX-License-Identifier: BSD-3-Clause */
/* judge.h - finds the packets of a capture that break a rule of docs/PROTOCOL.md.
 *
 * A finding is a packet that only a broken rule can explain. A packet that a loss, reordering of
 * single packets or a late start of the capture could explain is not reported.
 */
#pragma once

#include "capture/track.h"

/* X(check, "rule", "what the rule requires", maximum findings that are kept of one sender, whether
 * the check needs a capture without missing packets) */
#define URO_JUDGE_CHECKS(X)                                                                        \
    X(ICRC, "ICRC.CHECK", "the CRC of everything from the IP header to the pad", 10, false)        \
    X(ICRC_ORDER, "ICRC.ORDER", "least significant byte first", 1, false)                          \
    X(ICRC_PAD, "ICRC.PAD", "an ICRC that covers the pad", 1, false)                               \
    X(ICRC_FLUSH, "ICRC.FLUSH", "an ICRC that covers the headers of FLUSH once", 1, true)          \
    X(OPCODE, "WIRE.OPCODES", "an opcode of RC, UC, UD, XRC or CNP", 10, false)                    \
    X(LENGTH, "WIRE.LENGTH", "headers, payload, pad and ICRC that fill the UDP length", 10, false) \
    X(VERSION, "WIRE.TVER", "transport version 0", 1, false)                                       \
    X(UDP_CHECKSUM, "IP.UDP.CHECKSUM", "a UDP checksum of 0 or the correct one", 10, false)        \
    X(RESERVED, "WIRE.RESERVED", "reserved bits, FECN and BECN sent as 0", 1, false)               \
    X(BECN, "WIRE.RESERVED", "BECN set in a CNP", 1, false)                                        \
    X(PAD, "WIRE.LENGTH", "payload and pad of a multiple of four bytes", 10, false)                \
    X(MIGREQ, "TX.MIGREQ", "MigReq sent as 1", 1, false)                                           \
    X(GSI, "CM.GSI", "256 bytes with Q_Key 0x80010000 to QP 1", 10, false)                         \
    X(GROUP, "MCAST.QPN", "QPN 0xffffff in a datagram to a group", 1, false)                       \
    X(SEGMENT, "REQ.SEGMENT", "FIRST and MIDDLE of one path MTU, LAST of 1 to path MTU bytes", 10, \
      false)                                                                                       \
    X(REPEAT, "REQ.SEGMENT", "a retransmission with the same opcode, address and length", 10,      \
      false)                                                                                       \
    X(SEQUENCE, "RSP.SEQUENCE", "MIDDLE or LAST only after FIRST or MIDDLE of the operation", 10,  \
      false)                                                                                       \
    X(WRITE_LENGTH, "RSP.LENGTH", "as many bytes as the RETH says", 10, false)                     \
    X(READ_PSN, "REQ.READ.PSN", "one PSN for each response of a READ", 10, false)                  \
    X(READ_RESUME, "REQ.READ.RESUME", "the address and R_Key of the missing responses", 10, false) \
    X(RNR_WAIT, "REQ.RNR.WAIT", "no request before the delay of an RNR NAK ends", 10, false)       \
    X(DEPTH, "REQ.DEPTH", "as many READs and atomics outstanding as were agreed", 10, true)        \
    X(START, "CM.REQ", "the first PSN that the peer asked for", 1, false)                          \
    X(GHOST, "REQ.ACK.GHOST", "responses to PSNs that were sent", 10, true)                        \
    X(BARE_ACK, "REQ.ACK.READ", "data as the response to a READ or an atomic", 10, true)           \
    X(RESPONSE, "REQ.RESP.BAD", "a response of the kind that the request has", 10, true)           \
    X(READ_FORM, "RSP.READ.FORM", "READ responses whose place and length follow from the request", \
      10, true)                                                                                    \
    X(DUP_READ, "RSP.DUP.READ", "FIRST or ONLY as the first response to a READ", 10, true)         \
    X(MSN, "RSP.MSN", "an MSN that counts the finished messages", 10, true)                        \
    X(NAK_PSN, "RSP.GAP.NAK", "the expected PSN in a NAK, which is not acknowledged yet", 10,      \
      false)                                                                                       \
    X(NAK_AGAIN, "RSP.GAP.NAK", "one NAK for a gap", 1, false)                                     \
    X(RNR_NAK, "RSP.RNR", "no other NAK until the request comes again", 10, false)                 \
    X(SYNDROME, "REQ.SYNDROME", "a syndrome that is not reserved", 10, false)                      \
    X(CNP, "CNP.SEND", "at most one CNP in 50 us to a queue pair", 1, false)

enum uro_judge_check {
#define X(name, ...) URO_JUDGE_##name,
    URO_JUDGE_CHECKS(X)
#undef X
        URO_JUDGE_CHECK_COUNT
};

struct uro_judge_rule {
    const char *id;    /* rule ID of docs/PROTOCOL.md */
    const char *wants; /* continues "wanted: " */
    uint32_t most;
    bool needs_all;
};

extern const struct uro_judge_rule uro_judge_rules[URO_JUDGE_CHECK_COUNT];

#define URO_JUDGE_TEXT_MAX 160u

struct uro_judge_finding {
    enum uro_judge_check check;
    uint32_t packet; /* position of the packet whose sender broke the rule */
    uint32_t other;  /* position of another packet that shows the error; NONE: none */
    uint32_t more;   /* further findings of this sender and check that are not kept */
    char seen[URO_JUDGE_TEXT_MAX];
};

/* The findings of one check about one sender. */
struct uro_judge_count {
    uint32_t number;
    uint32_t last; /* position of the newest kept finding */
};

struct uro_judge {
    const struct uro_capture *capture;
    struct uro_track *track;            /* state of the connections after the last packet */
    struct uro_judge_finding *findings; /* in the order of their packets */
    uint32_t count;
    uint32_t room;
    bool complete;        /* the capture seems to have all packets */
    uint32_t withheld;    /* findings that a missing packet could explain, and that were dropped */
    uint32_t unsent;      /* responses to PSNs for which the capture has no request */
    uint32_t unsent_seen; /* those of them whose request came just afterwards */
    /* Position of the first response to an unsent PSN; valid if there is such a response. */
    uint32_t unsent_packet;
    struct uro_judge_flow *flows;                            /* judge_inside.h; one for each flow */
    struct uro_judge_cnp *cnps;                              /* one for each flow */
    struct uro_judge_count (*counts)[URO_JUDGE_CHECK_COUNT]; /* for each flow, then each address */
    bool failed;                                             /* out of memory */
};

/* Judges a capture, which must stay valid until uro_judge_free(). Returns NULL when out of
 * memory. */
struct uro_judge *uro_judge_run(const struct uro_capture *capture);

/* Frees @judge, which may be NULL. */
void uro_judge_free(struct uro_judge *judge);
