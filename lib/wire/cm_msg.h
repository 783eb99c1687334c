/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_msg.h - encodes and decodes the messages of connection managers: management datagrams of class
 * 7 on QP1 (IBTA Vol. 1, "Communication Management").
 */
#pragma once

#include "wire/gid.h"

#define URO_MAD_LEN    256u
#define URO_CM_MAD_QPN 1u
#define URO_CM_QKEY    0x80010000u

enum uro_cm_kind {
    URO_CM_REQ,
    URO_CM_MRA,
    URO_CM_REJ,
    URO_CM_REP,
    URO_CM_RTU,
    URO_CM_DREQ,
    URO_CM_DREP,
    URO_CM_SIDR_REQ,
    URO_CM_SIDR_REP,
    URO_CM_LAP,
    URO_CM_APR,
    URO_CM_KIND_COUNT
};

/* Numeric fields. Each message has some of them; the others are 0. */
enum uro_cm_field {
    URO_CM_LOCAL_ID,
    URO_CM_REMOTE_ID,
    URO_CM_REQUEST_ID, /* SIDR */
    URO_CM_VENDOR,     /* 24 bits, for options that uroce does not support */
    URO_CM_SERVICE_ID,
    URO_CM_CA_GUID,
    URO_CM_LOCAL_QKEY,
    URO_CM_LOCAL_QPN,
    URO_CM_REMOTE_QPN, /* QPN of the receiver of the message */
    URO_CM_LOCAL_EECN, /* REP: the QPN of an XRC target */
    URO_CM_RESPONDER_RESOURCES,
    URO_CM_INITIATOR_DEPTH,
    URO_CM_REMOTE_RESPONSE_TIMEOUT, /* 4.096 us * 2^n */
    URO_CM_LOCAL_RESPONSE_TIMEOUT,
    URO_CM_TRANSPORT,          /* 0 RC, 1 UC, 3 see EXTENDED_TRANSPORT */
    URO_CM_EXTENDED_TRANSPORT, /* 1: XRC */
    URO_CM_FLOW_CONTROL,
    URO_CM_STARTING_PSN, /* first PSN that the receiver of the message sends */
    URO_CM_RETRY_COUNT,
    URO_CM_RNR_RETRY_COUNT,
    URO_CM_PKEY,
    URO_CM_PATH_MTU, /* 1 = 256 .. 5 = 4096 octets */
    URO_CM_MAX_RETRIES,
    URO_CM_SRQ,
    URO_CM_LOCAL_LID,
    URO_CM_REMOTE_LID,
    URO_CM_FLOW_LABEL,
    URO_CM_PACKET_RATE,
    URO_CM_TRAFFIC_CLASS,
    URO_CM_HOP_LIMIT,
    URO_CM_SL,
    URO_CM_SUBNET_LOCAL,
    URO_CM_LOCAL_ACK_TIMEOUT,
    URO_CM_TARGET_ACK_DELAY,
    URO_CM_FAILOVER,
    URO_CM_MESSAGE, /* MRA, REJ: kind of the message that it refers to: 0 REQ, 1 REP, 2 another */
    URO_CM_SERVICE_TIMEOUT,
    URO_CM_INFO_LENGTH, /* REJ, SIDR_REP, APR: valid octets of `info` */
    URO_CM_REASON,      /* REJ */
    URO_CM_STATUS,      /* SIDR_REP, APR */
    URO_CM_FIELD_COUNT
};

#define URO_CM_INFO_MAX 72u
#define URO_CM_DATA_MAX 224u

struct uro_cm_msg {
    enum uro_cm_kind kind;
    uint64_t tid;
    uint64_t value[URO_CM_FIELD_COUNT];
    struct uro_gid local_gid; /* REQ, LAP: GID of the sender */
    struct uro_gid remote_gid;
    uint8_t info[URO_CM_INFO_MAX];
    /* encoding: at most uro_cm_data_max(); decoding: exactly uro_cm_data_max() */
    uint32_t data_length;
    uint8_t data[URO_CM_DATA_MAX];
};

/* Returns the size of the private data in a message of this kind, in octets. */
uint32_t uro_cm_data_max(enum uro_cm_kind kind);

/* Encodes a message. The caller has checked the values: larger values are truncated. */
void uro_cm_encode(uint8_t out[static URO_MAD_LEN], const struct uro_cm_msg *msg);

/* Returns the communication ID of the sender of a REQ or SIDR_REQ, which may be truncated after the
 * ID. */
#define URO_CM_OWN_ID_END 28u
uint32_t uro_cm_own_id(const uint8_t in[static URO_CM_OWN_ID_END]);

enum uro_cm_result {
    URO_CM_OK,
    URO_CM_NOT_CM,     /* other class, version or method */
    URO_CM_CLASS_INFO, /* a Get of ClassPortInfo, to be answered with "unsupported" */
    URO_CM_UNKNOWN,    /* unknown message */
};

URO_NODISCARD enum uro_cm_result uro_cm_decode(const uint8_t in[static URO_MAD_LEN],
                                               struct uro_cm_msg *msg);

/* Writes the response to URO_CM_CLASS_INFO. */
void uro_cm_refuse_class_info(const uint8_t in[static URO_MAD_LEN],
                              uint8_t out[static URO_MAD_LEN]);

const char *uro_cm_kind_name(enum uro_cm_kind kind);
