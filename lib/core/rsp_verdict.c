/* SPDX-License-Identifier: BSD-3-Clause */
/* rsp_verdict.c - the responder error table of IBTA Vol. 1 ("Responder error behaviour") for RC.
 *
 * Where Linux rxe differs (NAK 0x63 and LOC_QP_OP_ERR for a message too long, no events) the
 * architecture is followed; tests/interop/rxe-rules.txt lists the differences.
 */
#include "core/rsp_verdict.h"

#include "base/mark.h"

#define NAK(code) .answers = true, .kind = URO_AETH_NAK, .nak = (code)
#define FATAL(e)  .fails = true, .event = (e)

static const struct uro_rsp_consequence consequences[URO_RSP_VERDICT_COUNT] = {
    [URO_RSP_PSN_GAP] = { NAK(URO_NAK_PSN_SEQUENCE), .event = -1 },
    [URO_RSP_BAD_SEQUENCE] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                               .completes = true, .status = URO_WC_REM_INV_REQ_ERR,
                               .why = URO_WHY_PEER_SEQUENCE },
    [URO_RSP_UNSUPPORTED] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                              .why = URO_WHY_UNSUPPORTED },
    [URO_RSP_NO_SRQ] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                         .why = URO_WHY_PEER_SRQ },
    [URO_RSP_NO_RIGHT] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                           .why = URO_WHY_PEER_RIGHTS },
    [URO_RSP_TOO_DEEP] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                           .why = URO_WHY_PEER_DEPTH },
    [URO_RSP_BAD_LENGTH] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                             .completes = true, .status = URO_WC_LOC_LEN_ERR,
                             .why = URO_WHY_PEER_LENGTH },
    [URO_RSP_MISALIGNED] = { NAK(URO_NAK_INVALID_REQ), FATAL(URO_EVENT_QP_REQ_ERR),
                             .why = URO_WHY_PEER_LENGTH },
    [URO_RSP_NO_RECEIVE] = { .answers = true, .kind = URO_AETH_RNR, .event = -1 },
    [URO_RSP_TOO_LONG] = { NAK(URO_NAK_INVALID_REQ), FATAL(-1), .completes = true,
                           .status = URO_WC_LOC_LEN_ERR, .why = URO_WHY_PEER_TOO_LONG },
    [URO_RSP_BAD_ACCESS] = { NAK(URO_NAK_ACCESS), FATAL(URO_EVENT_QP_ACCESS_ERR),
                             .why = URO_WHY_PEER_ACCESS },
    [URO_RSP_BAD_LOCAL] = { NAK(URO_NAK_OPERATIONAL), FATAL(-1), .completes = true,
                            .status = URO_WC_LOC_PROT_ERR, .why = URO_WHY_LOCAL_KEY },
};

void uro_rsp_verdict_mark(enum uro_rsp_verdict verdict)
{
    switch (verdict) {
    case URO_RSP_ACCEPT:
    case URO_RSP_OVERRUN:
    case URO_RSP_DUPLICATE:
    case URO_RSP_VERDICT_COUNT:
        break;
    case URO_RSP_PSN_GAP:
        URO_MARK("RSP.GAP.NAK");
        break;
    case URO_RSP_BAD_SEQUENCE:
        URO_MARK("RSP.SEQUENCE");
        break;
    case URO_RSP_UNSUPPORTED:
        URO_MARK("RSP.UNSUPPORTED");
        break;
    case URO_RSP_NO_SRQ:
        URO_MARK("XRC.NO.SRQ");
        break;
    case URO_RSP_NO_RIGHT:
        URO_MARK("RSP.RIGHTS");
        break;
    case URO_RSP_TOO_DEEP:
        URO_MARK("RSP.DEPTH");
        break;
    case URO_RSP_BAD_LENGTH:
        URO_MARK("RSP.LENGTH");
        break;
    case URO_RSP_MISALIGNED:
        URO_MARK("RSP.ATOMIC.ALIGN");
        break;
    case URO_RSP_NO_RECEIVE:
        URO_MARK("RSP.RNR");
        break;
    case URO_RSP_TOO_LONG:
        URO_MARK("RSP.TOO.LONG");
        break;
    case URO_RSP_BAD_ACCESS:
        URO_MARK("RSP.ACCESS.NAK");
        break;
    case URO_RSP_BAD_LOCAL:
        URO_MARK("RSP.LOCAL");
        break;
    }
}

const struct uro_rsp_consequence *uro_rsp_consequence(enum uro_rsp_verdict verdict)
{
    URO_ASSERT(verdict > URO_RSP_DUPLICATE && verdict < URO_RSP_VERDICT_COUNT);
    return &consequences[verdict];
}

bool uro_rsp_verdict_fails(enum uro_rsp_verdict verdict)
{
    return verdict == URO_RSP_OVERRUN || consequences[verdict].fails;
}
