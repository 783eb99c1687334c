/* SPDX-License-Identifier: BSD-3-Clause */
/* failure_text.c - see failure_text.h. */
#include "stats/failure_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/cq.h"
#include "core/key.h"
#include "core/shard.h"
#include "wire/ext.h"
#include "wire/opcode.h"

/* ---- the explanation of each vendor_err --------------------------------------------- */

static const struct uro_failure_reason reasons[URO_FAIL_REASON_COUNT] = {
#define X(id, sentence) [URO_FAIL_##id] = { .text = sentence },
    URO_FAIL_REASONS(X)
#undef X
};

/* The usual causes of each reason, and what to do. */
static const struct {
    const char *causes, *mend;
} explanations[URO_FAIL_REASON_COUNT] = {
    [URO_FAIL_NONE] = { "the completion is a success, or another provider made it", "" },
    [URO_FAIL_FLUSHED] = { "another request of the queue pair failed before",
                           "look at the first completion that failed" },
    [URO_FAIL_MODIFIED] = { "the program moved the queue pair to ERR, or disconnected", "" },
    [URO_FAIL_LOCAL_KEY] = { "wrong lkey or range; memory that was deregistered",
                             "use the lkey of a region of the queue pair's PD that covers the "
                             "buffer; READs and receives need IBV_ACCESS_LOCAL_WRITE" },
    [URO_FAIL_NO_DEPTH] = { "max_rd_atomic is 0", "set max_rd_atomic at RTS, and "
                                                  "max_dest_rd_atomic at the peer's RTR" },
    [URO_FAIL_UNSUPPORTED] = { "the type of the queue pair has no such operation",
                               "use another operation or another type" },
    [URO_FAIL_NO_ANSWER] = { "wrong GID or QP number; the peer's queue pair is not in RTR or was "
                             "destroyed; the peer's program ended; a firewall; a path MTU too "
                             "large",
                             "check the peer's program, its QP number and GID, and UDP port 4791 "
                             "in firewalls" },
    [URO_FAIL_NO_RECEIVE] = { "the receiver posts receives too late or not at all",
                              "post receives before the peer sends; rnr_retry 7 waits for ever" },
    [URO_FAIL_NAK_INVALID] = { "the peer's receive is too small, its path_mtu differs, or its "
                               "queue pair lacks an access flag",
                               "run `uroce why` on the peer's host: it shows the reason" },
    [URO_FAIL_NAK_ACCESS] = { "wrong rkey or address; the memory lacks remote rights",
                              "run `uroce why` on the peer's host: it shows the reason" },
    [URO_FAIL_NAK_OPERATIONAL] = { "the peer's receive buffer is not registered",
                                   "run `uroce why` on the peer's host: it shows the reason" },
    [URO_FAIL_BAD_SYNDROME] = { "the peer does not follow the protocol",
                                "capture the packets with pcap=" },
    [URO_FAIL_BAD_RESPONSE] = { "the sides have different path_mtu, or the peer does not follow "
                                "the protocol",
                                "compare path_mtu; capture the packets with pcap=" },
    [URO_FAIL_PEER_SEQUENCE] = { "the peer does not follow the protocol",
                                 "capture the packets with pcap=" },
    [URO_FAIL_PEER_LENGTH] = { "the sides have different path_mtu; a misaligned atomic",
                               "use the same path_mtu on both sides; atomics need an address that "
                               "is a multiple of 8" },
    [URO_FAIL_PEER_TOO_LONG] = { "a receive buffer is too small",
                                 "post receives as large as the largest message" },
    [URO_FAIL_PEER_ACCESS] = { "the peer has a wrong rkey or address, or the memory lacks rights",
                               "register the memory with the rights, and send the peer its "
                               "current rkey and address" },
    [URO_FAIL_PEER_RIGHTS] = { "qp_access_flags lacks the right",
                               "set qp_access_flags in ibv_modify_qp to INIT" },
    [URO_FAIL_PEER_DEPTH] = { "max_rd_atomic of the peer is more than max_dest_rd_atomic here",
                              "raise max_dest_rd_atomic, or lower the peer's max_rd_atomic" },
    [URO_FAIL_PEER_SRQ] = { "the peer has a wrong SRQ number, or the SRQ is of another domain",
                            "send the peer the number from ibv_get_srq_num" },
    [URO_FAIL_BIND] = { "the region lacks IBV_ACCESS_MW_BIND, or the range is outside",
                        "register the region with IBV_ACCESS_MW_BIND" },
    [URO_FAIL_NOT_INVALIDATABLE] = { "the key is of a region, or of another queue pair",
                                     "invalidate only type 2 windows of this queue pair" },
    [URO_FAIL_NO_HANDLE] = { "the address handle was destroyed before the completion",
                             "destroy it after the completion" },
    [URO_FAIL_DATAGRAM_LENGTH] = { "a datagram is one packet",
                                   "split the message, or raise the MTU of the link" },
    [URO_FAIL_CQ_OVERRUN] = { "the program polls too seldom",
                              "create a larger CQ, or poll more often" },
    [URO_FAIL_PEER_PSN] = { "rq_psn here is not the peer's sq_psn: uroce takes new requests for "
                            "duplicates, so their data is lost",
                            "set rq_psn to the sq_psn that the peer uses" },
};

const struct uro_failure_reason *uro_failure_reason(uint32_t vendor_err)
{
    static _Thread_local struct uro_failure_reason reason;

    if (vendor_err >= URO_FAIL_REASON_COUNT)
        return NULL;
    reason = reasons[vendor_err];
    reason.causes = explanations[vendor_err].causes;
    reason.mend = explanations[vendor_err].mend;
    return &reason;
}

/* ---- pieces of text ---------------------------------------------------------------- */

struct text {
    char *out;
    size_t used;
};

URO_PRINTF(2) static void add(struct text *text, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    const int length =
        vsnprintf(text->out + text->used, URO_FAILURE_TEXT_MAX - text->used, format, arguments);
    va_end(arguments);
    if (length > 0)
        text->used += (size_t)length;
    if (text->used >= URO_FAILURE_TEXT_MAX)
        text->used = URO_FAILURE_TEXT_MAX - 1;
}

char *uro_failure_duration(uint64_t ns, char text[static URO_DURATION_TEXT_MAX])
{
    static const struct {
        uint64_t unit;
        const char *name;
    } units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "us" }, { 1, "ns" } };
    size_t i = 0;

    while (i + 1 < URO_ARRAY_LEN(units) && ns < units[i].unit)
        i++;
    const uint64_t whole = ns / units[i].unit, tenth = ns % units[i].unit * 10 / units[i].unit;
    if (whole < 10 && tenth > 0)
        (void)snprintf(text, URO_DURATION_TEXT_MAX, "%llu.%llu %s", (unsigned long long)whole,
                       (unsigned long long)tenth, units[i].name);
    else
        (void)snprintf(text, URO_DURATION_TEXT_MAX, "%llu %s", (unsigned long long)whole,
                       units[i].name);
    return text;
}

static void add_duration(struct text *text, uint64_t ns)
{
    char duration[URO_DURATION_TEXT_MAX];

    add(text, "%s", uro_failure_duration(ns, duration));
}

static void add_peer(struct text *text, const struct uro_failure *failure)
{
    char peer[URO_GID_TEXT_MAX];

    if (uro_gid_is_zero(&failure->peer))
        add(text, "QP 0x%x", failure->peer_qpn);
    else
        add(text, "%s (QP 0x%x)", uro_gid_text(&failure->peer, peer), failure->peer_qpn);
}

static void add_rights(struct text *text, uint32_t rights)
{
    static const char *const names[] = { "LOCAL_WRITE",     "REMOTE_WRITE", "REMOTE_READ",
                                         "REMOTE_ATOMIC",   "MW_BIND",      "ZERO_BASED",
                                         "ON_DEMAND",       "HUGETLB",      "FLUSH_GLOBAL",
                                         "FLUSH_PERSISTENT" };
    const char *separator = "";

    for (unsigned i = 0; i < URO_ARRAY_LEN(names); i++)
        if (rights >> i & 1u) {
            add(text, "%s%s", separator, names[i]);
            separator = "+";
        }
    if (separator[0] == '\0')
        add(text, "no right");
}

static const char *operation_of_wr(uint8_t opcode)
{
    static const char *const names[] = {
        [URO_WR_RDMA_WRITE] = "an RDMA WRITE",
        [URO_WR_RDMA_WRITE_WITH_IMM] = "an RDMA WRITE with immediate",
        [URO_WR_SEND] = "a SEND",
        [URO_WR_SEND_WITH_IMM] = "a SEND with immediate",
        [URO_WR_RDMA_READ] = "an RDMA READ",
        [URO_WR_ATOMIC_CMP_AND_SWP] = "a compare-and-swap",
        [URO_WR_ATOMIC_FETCH_AND_ADD] = "a fetch-and-add",
        [URO_WR_LOCAL_INV] = "a LOCAL_INV",
        [URO_WR_BIND_MW] = "a BIND_MW",
        [URO_WR_SEND_WITH_INV] = "a SEND with invalidate",
        [URO_WR_FLUSH] = "a FLUSH",
        [URO_WR_ATOMIC_WRITE] = "an atomic write",
    };

    return opcode < URO_ARRAY_LEN(names) && names[opcode] != NULL ? names[opcode] : "a request";
}

static bool uses_remote_memory(uint8_t opcode)
{
    return opcode != URO_WR_SEND && opcode != URO_WR_SEND_WITH_IMM &&
           opcode != URO_WR_SEND_WITH_INV && opcode != URO_WR_LOCAL_INV && opcode != URO_WR_BIND_MW;
}

/* Adds the work request that failed. */
static void add_request(struct text *text, const struct uro_failure *failure)
{
    if ((failure->known & URO_KNOWN_REQUEST) == 0) {
        add(text, "a request");
        return;
    }
    add(text, "%s of %u bytes", operation_of_wr(failure->wr_opcode), failure->length);
    if (uses_remote_memory(failure->wr_opcode))
        add(text, " at 0x%llx with rkey 0x%x", (unsigned long long)failure->remote_address,
            failure->remote_key);
}

static void add_packet_name(struct text *text, const struct uro_failure *failure)
{
    const char *name = uro_opcodes[failure->packet_opcode].name;

    if (failure->known & URO_KNOWN_PACKET)
        add(text, "%s with PSN %u", name != NULL ? name : "a packet", failure->packet_psn);
    else
        add(text, "a packet");
}

/* Adds why a key does not allow an access. */
static void add_access(struct text *text, const struct uro_failure *failure, const char *key)
{
    const struct uro_record_access *access = &failure->access;

    add(text, "%llu bytes at 0x%llx with %s 0x%x: ", (unsigned long long)access->length,
        (unsigned long long)access->address, key, access->key);
    switch ((enum uro_key_fault)access->fault) {
    case URO_KEY_FAULT_UNKNOWN:
        add(text, "no memory is registered with this key, or it was deregistered");
        return;
    case URO_KEY_FAULT_PD:
        add(text, "the memory is of another protection domain");
        return;
    case URO_KEY_FAULT_RIGHT:
        add(text, "the memory lacks ");
        add_rights(text, access->rights & ~access->key_rights);
        add(text, "; it has ");
        add_rights(text, access->key_rights);
        return;
    case URO_KEY_FAULT_RANGE:
        add(text, "outside of the memory, which has %llu bytes at 0x%llx",
            (unsigned long long)access->key_length, (unsigned long long)access->key_address);
        return;
    case URO_KEY_FAULT_UNBOUND:
        add(text, "the memory window is not bound");
        return;
    case URO_KEY_FAULT_QP:
        add(text, "the memory window is bound to another queue pair");
        return;
    case URO_KEY_FAULT_WINDOW:
        add(text, "the key is of a memory window, which is not a local key");
        return;
    case URO_KEY_FAULT_MISSING:
        add(text, "the on-demand memory is not mapped, or is protected");
        return;
    case URO_KEY_FAULT_NONE:
    case URO_KEY_FAULT_COUNT:
        break;
    }
    add(text, "the key does not allow it");
}

/* ---- the reasons -------------------------------------------------------------------- */

static void no_answer(struct text *text, const struct uro_failure *failure)
{
    if (failure->link_down_ms != 0) {
        add(text, "the link of this device has been down for ");
        add_duration(text, URO_MS((uint64_t)failure->link_down_ms));
        add(text, failure->hub_ended ? ", because the hub of its address ended; " : "; ");
    }
    add(text, "no answer from ");
    add_peer(text, failure);
    add(text, " in %u retries", failure->retry_count);
    if (failure->timeout != 0 && failure->timeout <= 31) {
        add(text, " of ");
        add_duration(text, UINT64_C(4096) << failure->timeout);
    }
    if ((failure->known & URO_KNOWN_RESPONSE) && failure->last_response <= failure->time) {
        add(text, "; last response ");
        add_duration(text, failure->time - failure->last_response);
        add(text, " before");
    } else {
        add(text, "; no response is recorded");
    }
    if (failure->unreachable)
        add(text, "; ICMP says that port 4791 is closed there");
    if (failure->route_mtu != 0 && failure->path_mtu + URO_ROCE_OVERHEAD > failure->route_mtu)
        add(text, "; path MTU %u does not pass the route, which carries %u bytes",
            failure->path_mtu, failure->route_mtu);
}

static void no_receive(struct text *text, const struct uro_failure *failure)
{
    const bool timed = failure->rnr_since != 0 && failure->rnr_since <= failure->time;

    if (failure->waits) {
        add(text, "RNR for ");
        add_duration(text, timed ? failure->time - failure->rnr_since : 0);
        add(text, ": the receiver ");
        add_peer(text, failure);
        add(text, " posts no receives, and rnr_retry %u retries for ever", failure->rnr_retry);
        return;
    }
    add(text, "the receiver ");
    add_peer(text, failure);
    add(text, " had no receive posted in %u RNR retries", failure->rnr_retry);
    if (timed) {
        add(text, " for ");
        add_duration(text, failure->time - failure->rnr_since);
    }
}

static void refused(struct text *text, const struct uro_failure *failure)
{
    add_peer(text, failure);
    add(text, " refused ");
    add_request(text, failure);
    if (failure->reason == URO_FAIL_NAK_ACCESS)
        add(text, ": wrong key, range or right");
    else if (failure->reason == URO_FAIL_NAK_INVALID)
        add(text,
            " as invalid: its receive is too small, its path MTU is not %u, or its queue pair "
            "lacks an access flag",
            failure->path_mtu);
    else
        add(text, ": it could not carry it out");
}

static void peer_length(struct text *text, const struct uro_failure *failure)
{
    const struct uro_opcode *op = &uro_opcodes[failure->packet_opcode];
    const bool lengths = failure->known & URO_KNOWN_LENGTHS;

    if (lengths && op->name != NULL && (op->ext & URO_EXT_ATOMIC)) {
        add_peer(text, failure);
        add(text, " sent an atomic at 0x%llx, which is not a multiple of 8",
            (unsigned long long)failure->access.address);
        return;
    }
    add_peer(text, failure);
    add(text, " sent ");
    add_packet_name(text, failure);
    add(text, " with %u bytes", failure->length_seen);
    const bool full = op->name != NULL && (op->position == URO_FIRST || op->position == URO_MIDDLE);
    if (failure->length_seen > failure->length_max || full)
        add(text, ", but the path MTU here is %u: the sides have different path_mtu",
            failure->length_max);
    else
        add(text, ", which do not fit the length of the message");
}

static void too_long(struct text *text, const struct uro_failure *failure)
{
    add(text, "a message of ");
    add_peer(text, failure);
    add(text, " has at least %u bytes, but the receive has %u", failure->length_seen,
        failure->length_max);
}

static void peer_rights(struct text *text, const struct uro_failure *failure)
{
    add(text, "the queue pair does not allow ");
    add_packet_name(text, failure);
    add(text, " of ");
    add_peer(text, failure);
    add(text, ": qp_access_flags lacks ");
    add_rights(text, failure->access.rights & ~failure->rights);
    add(text, "; it has ");
    add_rights(text, failure->rights & ~1u);
}

static void peer_depth(struct text *text, const struct uro_failure *failure)
{
    add_peer(text, failure);
    add(text, " has more READs and atomics outstanding than max_dest_rd_atomic, which is %u here",
        failure->max_dest_rd_atomic);
}

static void peer_psn(struct text *text, const struct uro_failure *failure)
{
    add_peer(text, failure);
    add(text, " sent ");
    add_packet_name(text, failure);
    add(text, ", but %u is expected: rq_psn is not the peer's sq_psn", failure->expected_psn);
}

static void with_access(struct text *text, const struct uro_failure *failure)
{
    const bool local = failure->reason != URO_FAIL_PEER_ACCESS;

    if (local) {
        add(text, "a local buffer cannot be used: ");
    } else {
        add_peer(text, failure);
        add(text, " sent ");
        add_packet_name(text, failure);
        add(text, " for ");
    }
    add_access(text, failure, local ? "lkey" : "rkey");
}

static void other(struct text *text, const struct uro_failure *failure)
{
    const struct uro_failure_reason *reason = uro_failure_reason(failure->reason);

    add(text, "%s", reason != NULL ? reason->text : "an unknown reason");
    if (failure->known & URO_KNOWN_LENGTHS)
        add(text, ": %u bytes, at most %u", failure->length_seen, failure->length_max);
    else if (failure->known & URO_KNOWN_REQUEST)
        add(text, ", for work request 0x%llx", (unsigned long long)failure->wr_id);
    if (failure->known & URO_KNOWN_PACKET) {
        add(text, ": ");
        add_packet_name(text, failure);
    }
}

char *uro_failure_text(const struct uro_failure *failure, char out[static URO_FAILURE_TEXT_MAX])
{
    static void (*const writers[URO_FAIL_REASON_COUNT])(struct text *,
                                                        const struct uro_failure *) = {
        [URO_FAIL_NO_ANSWER] = no_answer,     [URO_FAIL_NO_RECEIVE] = no_receive,
        [URO_FAIL_NAK_INVALID] = refused,     [URO_FAIL_NAK_ACCESS] = refused,
        [URO_FAIL_NAK_OPERATIONAL] = refused, [URO_FAIL_PEER_LENGTH] = peer_length,
        [URO_FAIL_PEER_TOO_LONG] = too_long,  [URO_FAIL_PEER_RIGHTS] = peer_rights,
        [URO_FAIL_PEER_DEPTH] = peer_depth,   [URO_FAIL_PEER_PSN] = peer_psn,
    };
    struct text text = { .out = out };

    out[0] = '\0';
    if (failure->reason < URO_FAIL_REASON_COUNT && writers[failure->reason] != NULL)
        writers[failure->reason](&text, failure);
    else if ((failure->known & URO_KNOWN_ACCESS) &&
             (failure->reason == URO_FAIL_PEER_ACCESS || failure->reason == URO_FAIL_LOCAL_KEY ||
              failure->reason == URO_FAIL_BIND))
        with_access(&text, failure);
    else
        other(&text, failure);
    return out;
}

const char *uro_failure_mend(const struct uro_failure *failure)
{
    const struct uro_failure_reason *reason = uro_failure_reason(failure->reason);

    if (reason == NULL)
        return "";
    if (failure->reason == URO_FAIL_NO_ANSWER && failure->hub_ended)
        return "start the programs again under `uroce run`, which starts a hub, or start `uroce "
               "hub`";
    if (failure->reason == URO_FAIL_NO_ANSWER && failure->link_down_ms != 0)
        return "check the interface and the address of this device with `ip address`, or the other "
               "end of its link";
    if (failure->reason == URO_FAIL_NO_ANSWER && failure->unreachable)
        return "start the peer's program under uroce, or check its address";
    if (failure->reason == URO_FAIL_NO_ANSWER && failure->route_mtu != 0 &&
        failure->path_mtu + URO_ROCE_OVERHEAD > failure->route_mtu)
        return "choose a smaller path_mtu in the program";
    return reason->mend;
}

/* ---- packets ------------------------------------------------------------------------ */

static void add_aeth(struct text *text, const uint8_t octets[static URO_AETH_LEN])
{
    static const char *const naks[] = { "PSN sequence error", "invalid request",
                                        "remote access error", "remote operational error" };
    struct uro_aeth aeth;

    uro_aeth_decode(octets, &aeth);
    if (aeth.kind == URO_AETH_RNR)
        add(text, " RNR NAK");
    else if (aeth.kind == URO_AETH_NAK)
        add(text, " NAK: %s", aeth.value < URO_ARRAY_LEN(naks) ? naks[aeth.value] : "unknown code");
    else if (aeth.kind == URO_AETH_RESERVED)
        add(text, " reserved syndrome");
    add(text, " msn %u", aeth.msn);
}

char *uro_failure_packet_text(const struct uro_record_packet *packet,
                              char out[static URO_FAILURE_TEXT_MAX])
{
    struct text text = { .out = out };
    struct uro_bth bth;

    out[0] = '\0';
    uro_bth_decode(packet->bth, &bth);
    const struct uro_opcode *op = &uro_opcodes[bth.opcode];
    add(&text, "%-22s psn %-8u %5u bytes", op->name != NULL ? op->name : "unknown opcode", bth.psn,
        uro_record_packet_length(packet));
    if (op->name != NULL && (op->ext & URO_EXT_AETH))
        add_aeth(&text, packet->bth + URO_BTH_LEN);
    if (bth.ack_req)
        add(&text, " ack");
    if (uro_record_packet_more(packet) > 0)
        add(&text, ", and %u more", uro_record_packet_more(packet));
    return out;
}
