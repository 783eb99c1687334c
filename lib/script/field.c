/* SPDX-License-Identifier: BSD-3-Clause */
/* field.c - see field.h. */
#include "script/field.h"

#include <string.h>

#define PACKET(NAME, name, bits, ext)                                                              \
    [URO_FIELD_##NAME] = {                                                                         \
        name,                                                                                      \
        bits,                                                                                      \
        false,                                                                                     \
        ext,                                                                                       \
    }
#define TEXT(NAME, name)                                                                           \
    [URO_FIELD_##NAME] = {                                                                         \
        name,                                                                                      \
        0,                                                                                         \
        true,                                                                                      \
        0,                                                                                         \
    }
#define CM(NAME, name, bits)                                                                       \
    [URO_FIELD_CM + URO_CM_##NAME] = {                                                             \
        name,                                                                                      \
        bits,                                                                                      \
        false,                                                                                     \
        0,                                                                                         \
    }

/* clang-format off */
const struct uro_field_row uro_field_rows[URO_FIELD_COUNT] = {
    PACKET(OPCODE, "opcode", 8, 0),
    PACKET(SE, "se", 1, 0),
    PACKET(MIGREQ, "migreq", 1, 0),
    PACKET(PAD, "pad", 2, 0),
    PACKET(TVER, "tver", 4, 0),
    PACKET(PKEY, "pkey", 16, 0),
    PACKET(FECN, "fecn", 1, 0),
    PACKET(BECN, "becn", 1, 0),
    PACKET(RESV6, "resv6", 6, 0),
    PACKET(QPN, "qpn", 24, 0),
    PACKET(ACKREQ, "ackreq", 1, 0),
    PACKET(RESV7, "resv7", 7, 0),
    PACKET(PSN, "psn", 24, 0),
    PACKET(SRQN, "srqn", 24, URO_EXT_XRCETH),
    PACKET(QKEY, "qkey", 32, URO_EXT_DETH),
    PACKET(SQPN, "sqpn", 24, URO_EXT_DETH),
    PACKET(PLACEMENT, "placement", 4, URO_EXT_FETH),
    PACKET(SELECTIVITY, "selectivity", 2, URO_EXT_FETH),
    PACKET(VA, "va", 64, URO_EXT_RETH | URO_EXT_ATOMIC),
    PACKET(RKEY, "rkey", 32, URO_EXT_RETH | URO_EXT_ATOMIC),
    PACKET(DMALEN, "dmalen", 32, URO_EXT_RETH),
    PACKET(SWAP, "swap", 64, URO_EXT_ATOMIC),
    PACKET(COMPARE, "compare", 64, URO_EXT_ATOMIC),
    PACKET(SYNDROME, "syndrome", 8, URO_EXT_AETH),
    PACKET(MSN, "msn", 24, URO_EXT_AETH),
    PACKET(ORIGINAL, "original", 64, URO_EXT_ATOMIC_ACK),
    PACKET(IMM, "imm", 32, URO_EXT_IMM),
    PACKET(INV, "inv", 32, URO_EXT_INV),
    PACKET(LENGTH, "length", 13, 0),
    PACKET(FILL, "fill", 32, 0),
    TEXT(PAYLOAD, "payload"),
    TEXT(BYTES, "octets"),
    TEXT(FROM, "from"),
    TEXT(TO, "to"),
    PACKET(TTL, "ttl", 8, 0),
    PACKET(TOS, "tos", 8, 0),
    PACKET(FLOW, "flow", 20, 0),
    PACKET(SPORT, "sport", 16, 0),
    PACKET(UDPLENGTH, "udplength", 16, 0),
    PACKET(UDPSUM, "udpsum", 16, 0),
    PACKET(CUT, "cut", 12, 0),
    PACKET(ICRC, "icrc", 8, 0),

    CM(LOCAL_ID, "local_id", 32),
    CM(REMOTE_ID, "remote_id", 32),
    CM(REQUEST_ID, "request_id", 32),
    CM(VENDOR, "vendor", 24),
    CM(SERVICE_ID, "service_id", 64),
    CM(CA_GUID, "ca_guid", 64),
    CM(LOCAL_QKEY, "local_qkey", 32),
    CM(LOCAL_QPN, "local_qpn", 24),
    CM(REMOTE_QPN, "remote_qpn", 24),
    CM(LOCAL_EECN, "local_eecn", 24),
    CM(RESPONDER_RESOURCES, "responder_resources", 8),
    CM(INITIATOR_DEPTH, "initiator_depth", 8),
    CM(REMOTE_RESPONSE_TIMEOUT, "remote_response_timeout", 5),
    CM(LOCAL_RESPONSE_TIMEOUT, "local_response_timeout", 5),
    CM(TRANSPORT, "transport", 2),
    CM(EXTENDED_TRANSPORT, "extended_transport", 3),
    CM(FLOW_CONTROL, "flow_control", 1),
    CM(STARTING_PSN, "starting_psn", 24),
    CM(RETRY_COUNT, "retry_count", 3),
    CM(RNR_RETRY_COUNT, "rnr_retry_count", 3),
    CM(PKEY, "pkey", 16),
    CM(PATH_MTU, "path_mtu", 4),
    CM(MAX_RETRIES, "max_retries", 4),
    CM(SRQ, "srq", 1),
    CM(LOCAL_LID, "local_lid", 16),
    CM(REMOTE_LID, "remote_lid", 16),
    CM(FLOW_LABEL, "flow_label", 20),
    CM(PACKET_RATE, "packet_rate", 6),
    CM(TRAFFIC_CLASS, "traffic_class", 8),
    CM(HOP_LIMIT, "hop_limit", 8),
    CM(SL, "sl", 4),
    CM(SUBNET_LOCAL, "subnet_local", 1),
    CM(LOCAL_ACK_TIMEOUT, "local_ack_timeout", 5),
    CM(TARGET_ACK_DELAY, "target_ack_delay", 5),
    CM(FAILOVER, "failover", 2),
    CM(MESSAGE, "message", 2),
    CM(SERVICE_TIMEOUT, "service_timeout", 5),
    CM(INFO_LENGTH, "info_length", 8),
    CM(REASON, "reason", 16),
    CM(STATUS, "status", 8),
    [URO_FIELD_TID] = { "tid", 64, false, 0 },
    [URO_FIELD_PORT] = { "port", 16, false, 0 },
    TEXT(PRIVATE, "private"),
    TEXT(LOCAL_GID, "local_gid"),
    TEXT(REMOTE_GID, "remote_gid"),
};

static const struct uro_field_word words[] = {
    { "ack",             URO_FIELD_SYNDROME, 0x1f, 0x00, 0x1f },
    { "rnr",             URO_FIELD_SYNDROME, 0x20, 0x20, 0x3f },
    { "nak_psn",         URO_FIELD_SYNDROME, 0x60, 0x60, 0x60 },
    { "nak_invalid",     URO_FIELD_SYNDROME, 0x61, 0x61, 0x61 },
    { "nak_access",      URO_FIELD_SYNDROME, 0x62, 0x62, 0x62 },
    { "nak_operational", URO_FIELD_SYNDROME, 0x63, 0x63, 0x63 },
    { "good",            URO_FIELD_ICRC,     0,    0,    0 },
    { "bad",             URO_FIELD_ICRC,     1,    1,    1 },
    { "none",            URO_FIELD_ICRC,     2,    2,    2 },
};
/* clang-format on */

uint64_t uro_field_max(enum uro_field field)
{
    uint8_t bits = uro_field_rows[field].bits;

    return bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

bool uro_field_wraps(enum uro_field field)
{
    static const enum uro_field fields[] = { URO_FIELD_PSN,
                                             URO_FIELD_MSN,
                                             URO_FIELD_QPN,
                                             URO_FIELD_SQPN,
                                             URO_FIELD_SRQN,
                                             URO_FIELD_RKEY,
                                             URO_FIELD_INV,
                                             URO_FIELD_CM + URO_CM_STARTING_PSN,
                                             URO_FIELD_CM + URO_CM_LOCAL_QPN,
                                             URO_FIELD_CM + URO_CM_REMOTE_QPN,
                                             URO_FIELD_CM + URO_CM_LOCAL_ID,
                                             URO_FIELD_CM + URO_CM_REMOTE_ID,
                                             URO_FIELD_CM + URO_CM_REQUEST_ID };

    for (size_t i = 0; i < URO_ARRAY_LEN(fields); i++)
        if (fields[i] == field)
            return true;
    return false;
}

static bool same(const char *name, const char *text, size_t length)
{
    return name != NULL && strlen(name) == length && memcmp(name, text, length) == 0;
}

int uro_field_find(const char *name, size_t length, bool cm)
{
    const unsigned first = cm ? URO_FIELD_CM : 0;
    const unsigned end = cm ? URO_FIELD_COUNT : URO_FIELD_PACKET_END;

    for (unsigned field = first; field < end; field++)
        if (same(uro_field_rows[field].name, name, length))
            return (int)field;
    return -1;
}

const struct uro_field_word *uro_field_word(enum uro_field field, const char *name, size_t length)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(words); i++)
        if (words[i].field == field && same(words[i].name, name, length))
            return &words[i];
    return NULL;
}

const char *uro_field_word_of(enum uro_field field, uint64_t number)
{
    for (size_t i = 0; i < URO_ARRAY_LEN(words); i++)
        if (words[i].field == field && words[i].low <= number && number <= words[i].high)
            return words[i].name;
    return NULL;
}

/* Returns whether @name is the row's name. IBTA writes RDMA WRITE and ACKNOWLEDGE for shorter names
 * of the table. */
static bool called(const char *row, const char *name, size_t length, bool any_end)
{
    if (strncmp(row, "RC_", 3) == 0 && strncmp(name, "RC_", length < 3 ? length : 3) != 0)
        row += 3;
    if (length >= 5 && strncmp(name, "RDMA_", 5) == 0) {
        name += 5;
        length -= 5;
    }
    if (same("ACKNOWLEDGE", name, length)) {
        name = "ACK";
        length = 3;
    }
    if (same("ATOMIC_ACKNOWLEDGE", name, length)) {
        name = "ATOMIC_ACK";
        length = 10;
    }
    return any_end ? strncmp(row, name, length) == 0 : same(row, name, length);
}

bool uro_field_opcodes(const char *name, size_t length, uint64_t set[static URO_OPCODE_WORDS])
{
    const bool any = same("ANY", name, length);
    const bool any_end = length > 0 && name[length - 1] == '*';
    bool found = false;

    memset(set, 0, URO_OPCODE_WORDS * sizeof set[0]);
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const char *row = uro_opcodes[opcode].name;
        if (row == NULL || !(any || called(row, name, length - any_end, any_end)))
            continue;
        set[opcode / 64] |= UINT64_C(1) << opcode % 64;
        found = true;
    }
    return found;
}

int uro_field_message(const char *name, size_t length)
{
    for (unsigned kind = 0; kind < URO_CM_KIND_COUNT; kind++)
        if (same(uro_cm_kind_name((enum uro_cm_kind)kind), name, length))
            return (int)kind;
    return -1;
}
