/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h - what an engine records about itself: counters, the last packets, the last failures of
 * queue pairs, and reports of closed ports. Other processes may read the memory.
 *
 * The driver lends the memory (uro_engine_config.record), or the engine uses its own. The engine
 * writes it, except the fields of a failure that the host adds. A reader in another process never
 * sees a part of a 64-bit value, but two values may be of different moments. A failure has its
 * number at both ends, so that a reader recognizes a torn copy. When the host has added its fields,
 * both numbers have another bit: a copy that began before differs at its end.
 */
#pragma once

#include <string.h>

#include "base/counters.h"
#include "base/time.h"
#include "wire/bth.h"
#include "wire/gid.h"

/* ---- packets ------------------------------------------------------------------- */

#define URO_RECORD_PACKETS 2048u
#define URO_RECORD_BTH     16u /* bytes of a packet that are kept: BTH, then AETH if there is one */

/* A received packet, or packets that a queue pair sent in one turn. */
struct uro_record_packet {
    uint64_t time;               /* engine's clock */
    uint8_t bth[URO_RECORD_BTH]; /* BTH of the first packet */
    /* bits 0-15: bytes of the first IP packet; bits 16-31: packets sent after it; bits 32-63: QPN
     * of our queue pair that sent it, or 0: the BTH has the QPN of a received packet */
    uint64_t info;
};

/* ---- failures ------------------------------------------------------------------ */

#define URO_RECORD_FAILURES 32u
#define URO_FAILURE_PACKETS 64u

/* At most URO_RECORD_PERIOD_MAX failures are recorded in a period. When thousands of queue pairs
 * fail at once, the others are only counted, and the records of the first failures stay. */
#define URO_RECORD_PERIOD     URO_MS(1000)
#define URO_RECORD_PERIOD_MAX URO_RECORD_FAILURES

/* Why a key does not allow an access. */
enum uro_key_fault {
    URO_KEY_FAULT_NONE,
    URO_KEY_FAULT_UNKNOWN, /* no region or window has the key */
    URO_KEY_FAULT_PD,      /* the key is of another protection domain */
    URO_KEY_FAULT_RIGHT,   /* the key lacks a right */
    URO_KEY_FAULT_RANGE,   /* the range is not inside the key */
    URO_KEY_FAULT_UNBOUND, /* a window that is not bound */
    URO_KEY_FAULT_QP,      /* a type 2 window of another queue pair */
    URO_KEY_FAULT_WINDOW,  /* a window used as a local key */
    URO_KEY_FAULT_MISSING, /* on-demand memory that is not mapped */
    URO_KEY_FAULT_COUNT
};

/* An access that a key does not allow, and the key. */
struct uro_record_access {
    uint32_t fault; /* enum uro_key_fault */
    uint32_t key;
    uint64_t address; /* address of the access */
    uint64_t length;
    uint32_t rights;     /* set of URO_ACCESS_* that the access requires */
    uint32_t key_rights; /* rights of the key */
    uint64_t key_address;
    uint64_t key_length;
};

/* Bits of uro_failure.known: which groups of fields have values. */
#define URO_KNOWN_REQUEST  (1u << 0) /* wr_id, length; of a send also wr_opcode, remote_* */
#define URO_KNOWN_PACKET   (1u << 1) /* packet_*: of the packet that caused the failure */
#define URO_KNOWN_ACCESS   (1u << 2) /* access */
#define URO_KNOWN_RESPONSE (1u << 3) /* last_response */
#define URO_KNOWN_LENGTHS  (1u << 4) /* length_seen, length_max */

/* Bit of both numbers in the ring: the host has added its fields. */
#define URO_RECORD_COMPLETED (UINT64_C(1) << 63)

/* Why a queue pair failed, or another problem of the queue pair. */
struct uro_failure {
    /* from 1, in the ring also URO_RECORD_COMPLETED; 0: the entry is empty or is being written */
    uint64_t number;
    uint64_t time;  /* of the engine */
    uint32_t known; /* set of URO_KNOWN_* */
    bool waits;     /* it did not fail: it waits for a long time, or its peer's PSN is far */
    uint8_t type;   /* enum uro_qp_type */
    uint8_t reason; /* enum uro_fail_reason */
    uint8_t status; /* enum uro_wc_status of the completion */
    uint32_t qpn;
    uint32_t peer_qpn;
    struct uro_gid address; /* address of the queue pair */
    struct uro_gid peer;
    uint32_t path_mtu; /* bytes */
    uint32_t rights;   /* set of URO_ACCESS_* of the queue pair */

    /* The requester. */
    uint32_t oldest_psn; /* oldest unacknowledged PSN */
    uint32_t next_psn;
    uint8_t timeout; /* exponent; 0: for ever */
    uint8_t retry_count;
    uint8_t rnr_retry;
    uint8_t max_rd_atomic;
    uint64_t wr_id;
    uint64_t remote_address;
    uint32_t remote_key;
    uint32_t length;        /* bytes of the send request, or of the receive */
    uint64_t last_response; /* time; the engine's clock */
    uint64_t rnr_since;     /* time of the first RNR NAK without progress since; 0: none */

    /* The responder. */
    uint32_t expected_psn;
    uint32_t packet_psn;
    uint8_t packet_opcode; /* opcode in the BTH */
    uint8_t wr_opcode;     /* enum uro_wr_opcode */
    uint8_t max_dest_rd_atomic;
    bool unreachable; /* ICMP: no process has the peer's UDP port */
    uint32_t length_seen;
    uint32_t length_max;
    struct uro_record_access access;

    /* largest IP packet of the route to the peer; 0: unknown; set by the host */
    uint32_t route_mtu;
    /* time in ms for which the own link has been down; 0: it is up; set by the host */
    uint32_t link_down_ms;
    bool hub_ended; /* the link is down because the hub of the address ended */
    uint32_t packet_count;
    /* Last packets of the queue pair, oldest first. */
    struct uro_record_packet packets[URO_FAILURE_PACKETS];
    uint64_t number_again; /* as `number` */
};

/* ---- ICMP ---------------------------------------------------------------------- */

#define URO_RECORD_CLOSED 8u

/* A host that reported by ICMP that no process has its UDP port 4791. Reports may be forged. */
struct uro_record_closed {
    uint64_t time;
    struct uro_gid peer;
};

struct uro_record {
    struct uro_counters counters;
    uint16_t packet_at; /* offset in packets[] of the next entry, which is the oldest entry */
    uint32_t closed_at; /* count of reports; index of the next report, modulo the ring size */
    struct uro_record_closed closed[URO_RECORD_CLOSED];
    uint64_t failure_count; /* problems reported so far, recorded or only counted */
    uint64_t recorded;      /* number of the newest failure in the ring */
    uint64_t period;        /* begin of the current period */
    uint32_t period_count;  /* failures recorded in the current period */
    _Alignas(64) struct uro_record_packet packets[URO_RECORD_PACKETS];
    struct uro_failure failures[URO_RECORD_FAILURES]; /* number % URO_RECORD_FAILURES */
};

static_assert(sizeof(struct uro_record_packet) * URO_RECORD_PACKETS == UINT16_MAX + 1u,
              "packet_at wraps at the end of the ring");

/* Returns the record that @counters are part of. */
static inline struct uro_record *uro_record_of(struct uro_counters *counters)
{
    return URO_CONTAINER_OF(counters, struct uro_record, counters);
}

/* Adds an entry to the ring. @bth: URO_RECORD_BTH bytes from the BTH of the first packet on. A call
 * costs about ten instructions. */
static inline void uro_record_packet_add(struct uro_record *record, uro_time now,
                                         const uint8_t *bth, uint64_t info)
{
    struct uro_record_packet *packet =
        (struct uro_record_packet *)(void *)((uint8_t *)record->packets + record->packet_at);

    record->packet_at = (uint16_t)(record->packet_at + sizeof *packet);
    packet->time = now;
    memcpy(packet->bth, bth, sizeof packet->bth);
    packet->info = info;
}

/* Returns the QPN of our queue pair that sent the packet, or 0 for a received packet. */
static inline uint32_t uro_record_packet_sender(const struct uro_record_packet *packet)
{
    return (uint32_t)(packet->info >> 32);
}

/* Returns the number of packets that were sent right after the first packet. */
static inline uint32_t uro_record_packet_more(const struct uro_record_packet *packet)
{
    return (uint32_t)(packet->info >> 16) & 0xffff;
}

/* Returns the length of the first IP packet in bytes; 0: the entry is empty. */
static inline uint32_t uro_record_packet_length(const struct uro_record_packet *packet)
{
    return (uint32_t)packet->info & 0xffff;
}

/* Returns the QPN of our queue pair that sent or received the packet. */
static inline uint32_t uro_record_packet_qpn(const struct uro_record_packet *packet)
{
    const uint32_t sender = uro_record_packet_sender(packet);

    return sender != 0
               ? sender
               : (uint32_t)packet->bth[5] << 16 | (uint32_t)packet->bth[6] << 8 | packet->bth[7];
}

struct uro_frame;
struct uro_qp;

/* Cause of the failure of a queue pair. The code that fails the queue pair fills in the fields that
 * it knows. */
struct uro_record_cause {
    unsigned reason;               /* enum uro_fail_reason */
    unsigned status;               /* enum uro_wc_status */
    uint32_t failed_wqe;           /* index of the send request, or URO_QP_NO_WQE */
    const struct uro_frame *frame; /* request of the peer that caused it, or NULL */
    bool waits;                    /* the queue pair does not fail */
};

/* Records the failure of a queue pair, unless it has failed before. With @cause->waits, records a
 * problem of a queue pair that does not fail. Call before the queue pair changes. Takes bounded
 * time. After URO_RECORD_PERIOD_MAX failures in a period, it only counts further failures.
 * record.c */
void uro_record_failure(struct uro_qp *qp, const struct uro_record_cause *cause);

/* Records a report that no process has the UDP port at @peer. record.c */
void uro_record_closed_port(struct uro_record *record, const struct uro_gid *peer, uro_time now);

/* Writes the fields that the host has set in @failure, which is from uro_record_get(), to the ring.
 * Call while the ring still has the failure. record.c */
void uro_record_complete(struct uro_record *record, const struct uro_failure *failure);

/* Copies the failure @number to @out. Ignores URO_RECORD_COMPLETED in @number; @out does not have
 * it. Returns false if the failure is not in the ring any more, or is being written. For the driver,
 * and for readers of a copy. record.c */
bool uro_record_get(const struct uro_record *record, uint64_t number, struct uro_failure *out);
