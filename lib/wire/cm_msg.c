/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_msg.c - the position of each field of each message. To review this file, compare its tables
 * with those of IBTA Vol. 1. */
#include "wire/cm_msg.h"

#include <string.h>

#include "base/mark.h"
#include "wire/bytes.h"

#define BASE_VERSION       1u
#define CLASS_CM           7u
#define CLASS_VERSION      2u
#define METHOD_GET         0x01u
#define METHOD_SEND        0x03u
#define METHOD_RESPONSE    0x81u
#define STATUS_UNSUPPORTED 0x000cu
#define CLASS_PORT_INFO    0x0001u

#define AT_STATUS    4u
#define AT_TID       8u
#define AT_ATTRIBUTE 16u
#define AT_BODY      24u

/* A run of bits of a field. A field with several runs has several rows, the low bits of the value
 * last. */
struct bit_run {
    uint8_t field;
    uint16_t bit; /* offset of the first bit in the body */
    uint8_t width;
    uint8_t shift; /* bits of the value below this run */
};

struct layout {
    const char *name;
    uint16_t attribute;
    uint8_t data_offset; /* offset of the private data in the body */
    uint8_t data_max;
    uint8_t gids_offset; /* offset of the local GID, which the remote GID follows; 0: none */
    uint8_t info_offset; /* 0: none */
    const struct bit_run *runs;
    uint32_t run_count;
};

#define F(name, octet, bit, width)                                                                 \
    {                                                                                              \
        URO_CM_##name, (octet)*8 + (bit), (width), 0                                               \
    }
#define PART(name, octet, width, shift)                                                            \
    {                                                                                              \
        URO_CM_##name, (octet)*8, (width), (shift)                                                 \
    }
#define IDS F(LOCAL_ID, 0, 0, 32), F(REMOTE_ID, 4, 0, 32)

/* rule CM.LAYOUT */
/* clang-format off */
static const struct bit_run req[] = {
    F(LOCAL_ID, 0, 0, 32), F(VENDOR, 5, 0, 24), F(SERVICE_ID, 8, 0, 64), F(CA_GUID, 16, 0, 64),
    F(LOCAL_QKEY, 28, 0, 32), F(LOCAL_QPN, 32, 0, 24), F(RESPONDER_RESOURCES, 35, 0, 8),
    F(LOCAL_EECN, 36, 0, 24), F(INITIATOR_DEPTH, 39, 0, 8), F(REMOTE_RESPONSE_TIMEOUT, 43, 0, 5),
    F(TRANSPORT, 43, 5, 2), F(FLOW_CONTROL, 43, 7, 1), F(STARTING_PSN, 44, 0, 24),
    F(LOCAL_RESPONSE_TIMEOUT, 47, 0, 5), F(RETRY_COUNT, 47, 5, 3), F(PKEY, 48, 0, 16),
    F(PATH_MTU, 50, 0, 4), F(RNR_RETRY_COUNT, 50, 5, 3), F(MAX_RETRIES, 51, 0, 4),
    F(SRQ, 51, 4, 1), F(EXTENDED_TRANSPORT, 51, 5, 3), F(LOCAL_LID, 52, 0, 16),
    F(REMOTE_LID, 54, 0, 16), F(FLOW_LABEL, 88, 0, 20), F(PACKET_RATE, 91, 2, 6),
    F(TRAFFIC_CLASS, 92, 0, 8), F(HOP_LIMIT, 93, 0, 8), F(SL, 94, 0, 4), F(SUBNET_LOCAL, 94, 4, 1),
    F(LOCAL_ACK_TIMEOUT, 95, 0, 5),
};
static const struct bit_run mra[] = {
    IDS, F(MESSAGE, 8, 0, 2), F(SERVICE_TIMEOUT, 9, 0, 5),
};
static const struct bit_run rej[] = {
    IDS, F(MESSAGE, 8, 0, 2), F(INFO_LENGTH, 9, 0, 7), F(REASON, 10, 0, 16),
};
static const struct bit_run rep[] = {
    IDS, F(LOCAL_QKEY, 8, 0, 32), F(LOCAL_QPN, 12, 0, 24), PART(VENDOR, 15, 8, 16),
    F(LOCAL_EECN, 16, 0, 24), PART(VENDOR, 19, 8, 8), F(STARTING_PSN, 20, 0, 24),
    PART(VENDOR, 23, 8, 0), F(RESPONDER_RESOURCES, 24, 0, 8), F(INITIATOR_DEPTH, 25, 0, 8),
    F(TARGET_ACK_DELAY, 26, 0, 5), F(FAILOVER, 26, 5, 2), F(FLOW_CONTROL, 26, 7, 1),
    F(RNR_RETRY_COUNT, 27, 0, 3), F(SRQ, 27, 3, 1), F(CA_GUID, 28, 0, 64),
};
static const struct bit_run ids[] = { IDS };
static const struct bit_run dreq[] = { IDS, F(REMOTE_QPN, 8, 0, 24) };
static const struct bit_run sidr_req[] = {
    F(REQUEST_ID, 0, 0, 32), F(PKEY, 4, 0, 16), F(SERVICE_ID, 8, 0, 64),
};
static const struct bit_run sidr_rep[] = {
    F(REQUEST_ID, 0, 0, 32), F(STATUS, 4, 0, 8), F(INFO_LENGTH, 5, 0, 8), PART(VENDOR, 6, 16, 8),
    F(LOCAL_QPN, 8, 0, 24), PART(VENDOR, 11, 8, 0), F(SERVICE_ID, 12, 0, 64),
    F(LOCAL_QKEY, 20, 0, 32),
};
static const struct bit_run lap[] = {
    IDS, F(REMOTE_QPN, 12, 0, 24), F(REMOTE_RESPONSE_TIMEOUT, 15, 0, 5), F(LOCAL_LID, 20, 0, 16),
    F(REMOTE_LID, 22, 0, 16), F(FLOW_LABEL, 56, 0, 20), F(TRAFFIC_CLASS, 59, 0, 8),
    F(HOP_LIMIT, 60, 0, 8), F(PACKET_RATE, 61, 2, 6), F(SL, 62, 0, 4), F(SUBNET_LOCAL, 62, 4, 1),
    F(LOCAL_ACK_TIMEOUT, 63, 0, 5),
};
static const struct bit_run apr[] = { IDS, F(INFO_LENGTH, 8, 0, 8), F(STATUS, 9, 0, 8) };

#define RUNS(rows) rows, URO_ARRAY_LEN(rows)
static const struct layout layouts[URO_CM_KIND_COUNT] = {
    /*                    name       attribute data      gids info */
    [URO_CM_REQ]      = { "REQ",      0x0010, 140,  92,  56,   0, RUNS(req) },
    [URO_CM_MRA]      = { "MRA",      0x0011,  10, 222,   0,   0, RUNS(mra) },
    [URO_CM_REJ]      = { "REJ",      0x0012,  84, 148,   0,  12, RUNS(rej) },
    [URO_CM_REP]      = { "REP",      0x0013,  36, 196,   0,   0, RUNS(rep) },
    [URO_CM_RTU]      = { "RTU",      0x0014,   8, 224,   0,   0, RUNS(ids) },
    [URO_CM_DREQ]     = { "DREQ",     0x0015,  12, 220,   0,   0, RUNS(dreq) },
    [URO_CM_DREP]     = { "DREP",     0x0016,   8, 224,   0,   0, RUNS(ids) },
    [URO_CM_SIDR_REQ] = { "SIDR_REQ", 0x0017,  16, 216,   0,   0, RUNS(sidr_req) },
    [URO_CM_SIDR_REP] = { "SIDR_REP", 0x0018,  96, 136,   0,  24, RUNS(sidr_rep) },
    [URO_CM_LAP]      = { "LAP",      0x0019,  64, 168,  24,   0, RUNS(lap) },
    [URO_CM_APR]      = { "APR",      0x001a,  84, 148,   0,  12, RUNS(apr) },
};
/* clang-format on */

static uint64_t get_bits(const uint8_t *body, const struct bit_run *run)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < run->width; i++) {
        uint32_t bit = run->bit + i;
        value = value << 1 | ((uint32_t)body[bit / 8] >> (7 - bit % 8) & 1u);
    }
    return value << run->shift;
}

static void put_bits(uint8_t *body, const struct bit_run *run, uint64_t value)
{
    value >>= run->shift;
    for (uint32_t i = run->width; i-- > 0; value >>= 1) {
        uint32_t bit = run->bit + i;
        body[bit / 8] = (uint8_t)(body[bit / 8] | (value & 1) << (7 - bit % 8));
    }
}

uint32_t uro_cm_data_max(enum uro_cm_kind kind)
{
    return layouts[kind].data_max;
}

const char *uro_cm_kind_name(enum uro_cm_kind kind)
{
    return layouts[kind].name;
}

static void put_header(uint8_t out[static URO_MAD_LEN], uint8_t method, uint16_t attribute)
{
    memset(out, 0, URO_MAD_LEN);
    out[0] = BASE_VERSION;
    out[1] = CLASS_CM;
    out[2] = CLASS_VERSION;
    out[3] = method;
    uro_put_be16(out + AT_ATTRIBUTE, attribute);
}

void uro_cm_encode(uint8_t out[static URO_MAD_LEN], const struct uro_cm_msg *msg)
{
    const struct layout *layout = &layouts[msg->kind];
    uint8_t *body = out + AT_BODY;

    URO_ASSERT(msg->data_length <= layout->data_max);
    put_header(out, METHOD_SEND, layout->attribute);
    uro_put_be64(out + AT_TID, msg->tid);
    for (uint32_t i = 0; i < layout->run_count; i++)
        put_bits(body, &layout->runs[i], msg->value[layout->runs[i].field]);
    if (layout->gids_offset != 0) {
        memcpy(body + layout->gids_offset, &msg->local_gid, sizeof msg->local_gid);
        memcpy(body + layout->gids_offset + sizeof msg->local_gid, &msg->remote_gid,
               sizeof msg->remote_gid);
    }
    if (layout->info_offset != 0)
        memcpy(body + layout->info_offset, msg->info, sizeof msg->info);
    memcpy(body + layout->data_offset, msg->data, msg->data_length);
}

static const struct layout *layout_of(uint16_t attribute)
{
    for (unsigned kind = 0; kind < URO_CM_KIND_COUNT; kind++)
        if (layouts[kind].attribute == attribute)
            return &layouts[kind];
    return NULL;
}

static_assert(URO_CM_OWN_ID_END == AT_BODY + 4, "both messages begin with this ID");

uint32_t uro_cm_own_id(const uint8_t in[static URO_CM_OWN_ID_END])
{
    return uro_get_be32(in + AT_BODY);
}

enum uro_cm_result uro_cm_decode(const uint8_t in[static URO_MAD_LEN], struct uro_cm_msg *msg)
{
    uint16_t attribute = uro_get_be16(in + AT_ATTRIBUTE);
    const struct layout *layout = layout_of(attribute);
    const uint8_t *body = in + AT_BODY;

    if (in[0] != BASE_VERSION || in[1] != CLASS_CM || in[2] != CLASS_VERSION)
        return URO_CM_NOT_CM;
    if (in[3] == METHOD_GET && attribute == CLASS_PORT_INFO)
        return URO_CM_CLASS_INFO;
    if (in[3] != METHOD_SEND)
        return URO_CM_NOT_CM;
    if (layout == NULL)
        return URO_CM_UNKNOWN;

    memset(msg, 0, sizeof *msg);
    msg->kind = (enum uro_cm_kind)(layout - layouts);
    msg->tid = uro_get_be64(in + AT_TID);
    for (uint32_t i = 0; i < layout->run_count; i++)
        msg->value[layout->runs[i].field] |= get_bits(body, &layout->runs[i]);
    if (layout->gids_offset != 0) {
        memcpy(&msg->local_gid, body + layout->gids_offset, sizeof msg->local_gid);
        memcpy(&msg->remote_gid, body + layout->gids_offset + sizeof msg->local_gid,
               sizeof msg->remote_gid);
    }
    if (layout->info_offset != 0)
        memcpy(msg->info, body + layout->info_offset, sizeof msg->info);
    URO_MARK("CM.DATA.WHOLE");
    msg->data_length = layout->data_max;
    memcpy(msg->data, body + layout->data_offset, msg->data_length);
    return URO_CM_OK;
}

void uro_cm_refuse_class_info(const uint8_t in[static URO_MAD_LEN], uint8_t out[static URO_MAD_LEN])
{
    put_header(out, METHOD_RESPONSE, CLASS_PORT_INFO);
    memcpy(out + AT_TID, in + AT_TID, sizeof(uint64_t));
    uro_put_be16(out + AT_STATUS, STATUS_UNSUPPORTED);
}
