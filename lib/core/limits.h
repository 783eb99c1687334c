/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.h - limits of the core: numbers, sizes and times. */
#pragma once

#include "base/defs.h"
#include "base/time.h"

#define URO_WR_MAX          1048576u /* work requests of a queue; rings are indexed with a mask */
#define URO_SGE_MAX         32u      /* elements of a request; uro_tx has a span for each */
#define URO_INLINE_MAX      1024u    /* bytes of an inline send */
#define URO_CQ_CAPACITY_MAX 4194303u /* completions a CQ can hold */
#define URO_RD_ATOMIC_MAX   128u /* READs and atomics outstanding, either direction (rxe: 128) */
#define URO_MESSAGE_MAX     0x80000000u /* bytes of a message: IBTA's 2^31 */
#define URO_PATH_MTU_MIN    256u
#define URO_PATH_MTU_MAX    4096u
/* Bytes around a full payload, from the IP header to the ICRC. The largest case is an XRC WRITE
 * ONLY with immediate over IPv6. */
#define URO_ROCE_OVERHEAD 88u

/* Maximum multicast groups of a device, and maximum queue pairs in a group. Both are as in rxe. */
#define URO_MCAST_GROUPS_MAX  8192u
#define URO_MCAST_MEMBERS_MAX 56u

/* Default window: packets that a requester sends beyond the oldest unacknowledged packet. It is
 * enough for 64 KiB at MTU 256, or for a bandwidth-delay product of 1 MiB at MTU 4096. It is small
 * enough for the default receive rings of memif and most DPDK links (1024 descriptors). */
#define URO_WINDOW_DEFAULT 256u
#define URO_WINDOW_MAX     65536u
/* Inside a long message, every 32nd packet requests an ACK, so that the window moves. */
#define URO_ACK_EVERY 32u
static_assert(URO_ACK_EVERY * 2 <= URO_WINDOW_DEFAULT, "the window must not close between ACKs");
static_assert(URO_WINDOW_MAX < 1u << 23, "the order of PSNs must stay unambiguous");

/* Distance from the expected PSN beyond which a request is counted as far. A peer seldom has so
 * many packets in flight. The PSNs that outstanding READs may use increase the distance. */
#define URO_PSN_FAR URO_WINDOW_MAX

/* Minimum interval of a queue pair between CNPs sent, and between reactions to CNPs. LEAST:
 * smallest window, in packets, after CNPs, ACK timeouts or lost READ responses. */
#define URO_CNP_EVERY    URO_US(50)
#define URO_WINDOW_LEAST 4u

/* Answered requests after which the READ window doubles (core/req_reads.c). A window that is too
 * large by one step loses some packets, so it doubles rarely. */
#define URO_READ_ANSWERS 8u

/* Packets of the reorder buffer, which all queue pairs of an engine share; also the largest
 * distance of a kept packet from the expected PSN. WAIT: time for a gap to close before it is
 * reported to the peer. Frames overtake each other inside a switch or a host, which takes
 * microseconds. KEPT: time from this report until the packets are dropped. The peer's answer to a
 * NAK takes a round trip. */
#define URO_REORDER_DEFAULT URO_WINDOW_DEFAULT
#define URO_REORDER_MAX     4096u
#define URO_REORDER_WAIT    URO_US(32)
#define URO_REORDER_KEPT    URO_MS(20)

/* Shortest time that the ACK for Linux rxe is deferred; the longest is twice as long. It is longer
 * than a host takes to send the packets of a go-back-N (an emulated host takes 4 ms between two
 * packets). It is shorter than the ACK timeout of that host (67 ms by default). */
#define URO_ACK_DEFER URO_MS(16)

/* Shortest ACK timeout of a process, as ibv_qp_attr.timeout: 16.8 ms. A peer answers when its
 * thread has a processor, and a scheduler may take some time slices of 3 to 4 ms to provide a
 * processor. Eight tries last as long as local_ca_ack_delay allows for an ACK. Probes detect a lost
 * packet before this timeout. */
#define URO_TIMEOUT_LEAST 12u

/* Maximum number of packets that a queue pair sends in one turn. */
#define URO_SCHEDULE_BUDGET 16u

/* Time without a receive at the peer, after which a requester that retries for ever is recorded. */
#define URO_RNR_LONG URO_MS(5000)
