/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.h - how many, how big, how long: every bound of the core on one page. */
#pragma once

#include "base/defs.h"
#include "base/time.h"

#define URO_WR_MAX          1048576u /* work requests of a queue; rings are indexed with a mask */
#define URO_SGE_MAX         32u      /* elements of a request; uro_tx has a span for each */
#define URO_INLINE_MAX      1024u    /* octets of an inline send */
#define URO_CQ_CAPACITY_MAX 4194303u /* completions a CQ can hold */
#define URO_RD_ATOMIC_MAX   128u /* READs and atomics outstanding, either direction (rxe: 128) */
#define URO_MESSAGE_MAX     0x80000000u /* octets of a message: IBTA's 2^31 */
#define URO_PATH_MTU_MIN    256u
#define URO_PATH_MTU_MAX    4096u
/* Octets around a full payload, IP header to ICRC: WRITE ONLY with immediate of XRC over IPv6 has
 * the most. */
#define URO_ROCE_OVERHEAD 88u

/* Multicast groups of a device, queue pairs in one group (as rxe). */
#define URO_MCAST_GROUPS_MAX  8192u
#define URO_MCAST_MEMBERS_MAX 56u

/* Packets a requester sends beyond the oldest unacknowledged one when the device configuration
 * does not say otherwise. Enough for 64 KiB at MTU 256 or a bandwidth-delay product of 1 MiB at
 * 4096; small enough for the default receive ring of the ports (512 descriptors). */
#define URO_WINDOW_DEFAULT 256u
#define URO_WINDOW_MAX     65536u
/* Inside long messages one packet in this many asks for an ACK, so that the window moves. */
#define URO_ACK_EVERY 32u
static_assert(URO_ACK_EVERY * 2 <= URO_WINDOW_DEFAULT, "the window must not close between ACKs");
static_assert(URO_WINDOW_MAX < 1u << 23, "PSN comparison must stay unambiguous");

/* A request whose PSN is further than this from the expected one is counted: a peer has seldom so
 * much in flight. What its READs may take is added. */
#define URO_PSN_FAR URO_WINDOW_MAX

/* A queue pair tells its peer of congestion no more often, and obeys no more often; the window that remains to a
 * requester who is told again and again. */
#define URO_CNP_EVERY    URO_US(50)
#define URO_WINDOW_LEAST 4u

/* Answered requests after which the READ window doubles (core/req_reads.c): rare enough that most packets of a queue pair
 * whose window is too large by one step are not lost. */
#define URO_READ_ANSWERS 8u

/* Requests that came before their turn, kept by an engine for all its queue pairs together; also how far ahead of its
 * turn one may be. How long a gap may take to close before the peer is told: frames overtake each other inside a
 * switch or a host, which is microseconds. When they are forgotten: the peer's answer to a NAK takes a round trip. */
#define URO_EARLY_DEFAULT URO_WINDOW_DEFAULT
#define URO_EARLY_MAX     4096u
#define URO_EARLY_WAIT    URO_US(32)
#define URO_EARLY_KEPT    URO_MS(20)

/* An ACK that Linux rxe may not need waits so long at least, and twice as long at most: longer than a host takes to send
 * again what it goes back to (an emulated one 4 ms between two packets), shorter than it waits before it does (67 ms by
 * default). */
#define URO_LATE_WAIT URO_MS(16)

/* The least ACK timeout of a process, as ibv_qp_attr.timeout: 16.8 ms. A peer answers when its thread has a processor, and
 * a scheduler does not promise one in less than some time slices of 3 to 4 ms. Eight tries then last as long as
 * local_ca_ack_delay says that an ACK may take. A lost packet is not sent again later for it: probes find that out. */
#define URO_TIMEOUT_LEAST 12u

/* Packets one queue pair may send before the next one has its turn. */
#define URO_SCHEDULE_BUDGET 16u
