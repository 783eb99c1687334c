/* SPDX-License-Identifier: BSD-3-Clause */
/* counters.h - the counters of an engine, with their names and meanings.
 *
 * To add a counter, add a line to its group below. `uroce` and the tests then use its name.
 */
#pragma once

#include "base/defs.h"

/* X(enumerator, "name", "meaning for the user") */
#define URO_COUNTERS(X)                                                                            \
    X(RX_FRAMES, "rx_frames", "frames that arrived on the link")                                   \
    X(RX_ROCE, "rx_roce",                                                                          \
      "RoCE packets that passed every check and reached a queue pair, also from this device")      \
    X(TX_FRAMES, "tx_frames", "frames given to the link")                                          \
    X(TX_ROCE, "tx_roce",                                                                          \
      "RoCE packets sent, also retransmitted packets and packets to this device")                  \
    X(RX_BYTES, "rx_roce_bytes", "bytes of the packets in rx_roce, from IP header to ICRC")        \
    X(TX_BYTES, "tx_roce_bytes", "bytes of the packets in tx_roce, from IP header to ICRC")        \
    X(LINK_DOWNED, "link_downed", "times the link went down")                                      \
    X(LOOP_FRAMES, "loop_frames", "frames from this device to itself, which do not use the link")  \
    X(RX_WEAK_ICRC, "rx_weak_icrc",                                                                \
      "packets over IPv4 whose ICRC was checked without the IP identification")                    \
    X(DROP_SHORT, "drop_short", "frame shorter than its headers say")                              \
    X(DROP_ETHER_TYPE, "drop_ether_type", "neither IPv4, IPv6 nor ARP")                            \
    X(DROP_ETHER_DEST, "drop_ether_dest", "unicast frame for another MAC address")                 \
    X(DROP_VLAN, "drop_vlan", "frame of another VLAN than the device's")                           \
    X(DROP_IP_HEADER, "drop_ip_header", "malformed IP header")                                     \
    X(DROP_IP_CHECKSUM, "drop_ip_checksum", "wrong IPv4 header checksum")                          \
    X(DROP_IP_OPTIONS, "drop_ip_options", "IPv4 options or IPv6 extension headers")                \
    X(DROP_IP_FRAGMENT, "drop_ip_fragment", "IP fragment")                                         \
    X(DROP_IP_DEST, "drop_ip_dest", "destination is not an IP address of the device")              \
    X(DROP_IP_PROTOCOL, "drop_ip_protocol", "neither UDP, ICMP nor IGMP")                          \
    X(DROP_UDP_PORT, "drop_udp_port", "UDP port other than 4791")                                  \
    X(DROP_UDP_LENGTH, "drop_udp_length", "UDP length disagrees with the IP length")               \
    X(DROP_UDP_CHECKSUM, "drop_udp_checksum", "UDP checksum present and wrong")                    \
    X(DROP_ICRC, "drop_icrc", "invariant CRC wrong: corrupted or altered on the way")              \
    X(DROP_OPCODE, "drop_opcode", "unknown or unsupported BTH opcode")                             \
    X(DROP_LENGTH, "drop_length", "packet length does not fit its opcode")                         \
    X(DROP_VERSION, "drop_version", "BTH transport version not 0")                                 \
    X(DROP_QPN, "drop_qpn", "no such queue pair")                                                  \
    X(DROP_SERVICE, "drop_service", "opcode of another service than the queue pair's")             \
    X(DROP_STATE, "drop_state", "queue pair in a state that does not accept the packet")           \
    X(DROP_ADDRESS, "drop_address", "not from the queue pair's peer address")                      \
    X(DROP_PKEY, "drop_pkey", "partition key does not match")                                      \
    X(DROP_QKEY, "drop_qkey", "Q_Key does not match")                                              \
    X(DROP_UC_SEQUENCE, "drop_uc_sequence",                                                        \
      "UC packets behind a lost packet, up to the next message")                                   \
    X(DROP_UC_REFUSED, "drop_uc_refused",                                                          \
      "UC messages without a receive, or for the wrong memory")                                    \
    X(DROP_UD_RECEIVE, "drop_ud_receive", "datagrams that found no receive posted")                \
    X(DROP_UD_LENGTH, "drop_ud_length", "datagrams longer than the next posted receive")           \
    X(RX_MARKED, "np_ecn_marked_roce_packets", "packets with a congestion mark (ECN CE)")          \
    X(CNP_SENT, "np_cnp_sent", "congestion notifications sent")                                    \
    X(CNP_RECEIVED, "rp_cnp_handled", "congestion notifications received")                         \
    X(DROP_GHOST_ACK, "drop_ghost_ack", "response to a packet that was never sent")                \
    X(DROP_STALE_RESPONSE, "drop_stale_response",                                                  \
      "response to a request that was answered already")                                           \
    X(DROP_BAD_RESPONSE, "drop_bad_response", "response that does not fit its request")            \
    X(DROP_AFTER_NAK, "drop_after_nak", "request behind a gap that was already reported")          \
    X(DROP_REPLAY, "drop_replay", "repeated READ or atomic whose response is no longer kept")      \
    X(DROP_MALFORMED_ARP, "drop_arp", "malformed ARP, ND or ICMP message")                         \
    X(DROP_MEMBERSHIP, "drop_membership", "malformed IGMP or MLD message")                         \
    X(TX_NO_NEIGHBOR, "tx_no_neighbor", "frames dropped because the next hop did not answer")      \
    X(TX_STUCK, "tx_stuck", "frames dropped because the link accepted none for 100 ms")            \
    X(ARP_RX, "arp_rx", "ARP and ND messages received")                                            \
    X(ARP_TX, "arp_tx", "ARP and ND messages sent")                                                \
    X(ARP_DOUBTED, "arp_doubted",                                                                  \
      "ARP and ND messages with another MAC address for a next hop in use")                        \
    X(MEMBERSHIP_RX, "membership_rx", "IGMP and MLD queries received")                             \
    X(MEMBERSHIP_TX, "membership_tx", "IGMP and MLD reports sent")                                 \
    X(ICMP_ECHO, "icmp_echo", "echo requests answered")                                            \
    X(RX_WRITES, "rx_write_requests", "RDMA WRITEs of peers executed")                             \
    X(RX_READS, "rx_read_requests", "RDMA READs of peers answered, repetitions not counted")       \
    X(RX_ATOMICS, "rx_atomic_requests", "atomics, ATOMIC_WRITEs and FLUSHes of peers executed")    \
    X(RX_DUPLICATE, "duplicate_request", "requests received again")                                \
    X(RX_FAR, "far_request", "requests whose PSN is far from the expected PSN: late or forged")    \
    X(RX_EARLY, "early_request", "requests kept because an earlier request was missing")           \
    X(RX_OUT_OF_SEQ, "out_of_seq_request", "gaps in the request sequence reported by NAK")         \
    X(RNR_SENT, "send_rnr_err", "RNR NAKs sent: no receive was posted")                            \
    X(RNR_RECEIVED, "rcvd_rnr_err", "RNR NAKs received")                                           \
    X(SEQ_NAK_RECEIVED, "rcvd_seq_err", "NAK sequence errors received")                            \
    X(TIMEOUTS, "ack_timeouts", "local ACK timeouts")                                              \
    X(PROBES, "probes", "packets sent again before the ACK timeout, because a response was late")  \
    X(RETRY_ROUNDS, "retry_rounds", "times a requester retransmitted from an earlier PSN")         \
    X(RETRY_EXCEEDED, "retry_exceeded_err", "queue pairs that failed with RETRY_EXC_ERR")          \
    X(RNR_EXCEEDED, "retry_rnr_exceeded_err", "queue pairs that failed with RNR_RETRY_EXC_ERR")    \
    X(ACCESS_REFUSED, "access_refused", "requests of peers refused for key, range or rights")      \
    X(UNMAPPED, "unmapped_pages", "empty pages mapped where registered memory had been unmapped")  \
    X(CM_RX, "cm_rx", "connection management messages received")                                   \
    X(CM_TX, "cm_tx", "connection management messages sent, repetitions included")                 \
    X(CM_RETRIES, "cm_retries", "connection management messages sent again")                       \
    X(CM_RX_DUPLICATE, "cm_duplicates", "connection requests received again")                      \
    X(CM_REFUSED, "cm_refused", "connection requests that uroce itself rejected")                  \
    X(CM_DROP_MALFORMED, "cm_drop_malformed",                                                      \
      "management datagrams that are not connection messages")                                     \
    X(CM_DROP_UNEXPECTED, "cm_drop_unexpected",                                                    \
      "connection messages without a connection, or not allowed in its state")                     \
    X(CM_DROP_BUSY, "cm_drop_busy", "connection messages dropped because too many others wait")    \
    X(CM_REUSED, "cm_reused",                                                                      \
      "connections whose time-wait was cut short to make room for new ones")                       \
    X(QP_FAILED, "qp_failed", "queue pairs moved to ERR by the transport")                         \
    X(COMPLETIONS, "completions", "completions given to the program")                              \
    X(CQ_OVERRUN, "cq_overrun", "completion queues that overflowed")                               \
    X(CQ_LOST, "cq_lost", "completions lost in a full queue that ignores overruns")

enum uro_counter {
#define X(id, name, text) URO_COUNT_##id,
    URO_COUNTERS(X)
#undef X
        URO_COUNTER_COUNT
};

struct uro_counters {
    uint64_t value[URO_COUNTER_COUNT];
};

static inline void uro_count(struct uro_counters *counters, enum uro_counter counter)
{
    counters->value[counter]++;
}

const char *uro_counter_name(enum uro_counter counter);
const char *uro_counter_text(enum uro_counter counter);
