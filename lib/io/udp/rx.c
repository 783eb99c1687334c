/* SPDX-License-Identifier: BSD-3-Clause */
/* rx.c - see rx.h. */
#define _GNU_SOURCE /* recvmmsg */
#include "io/udp/rx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/udp/group.h"
#include "io/udp/network_error.h"
#include "io/udp/raw_tap.h"
#include "io/udp/share.h"
#include "wire/bth.h"
#include "wire/ether.h"
#include "wire/ext.h"
#include "wire/icmp.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/opcode.h"

#define UDP_OPTION_GRO 104
#define DATAGRAM_MAX   65536u
#define HEADROOM       64u /* bytes before each slot, for Ethernet, IPv6 and UDP headers */
#define REGION         (DATAGRAM_MAX + URO_RX_SEGMENTS * HEADROOM)
#define SLOT_WHOLE     DATAGRAM_MAX /* one slot for a message; fewer slots cost the kernel less */
#define UNJOINED_MANY  256u         /* calls without coalesced packets before SLOT_WHOLE is used */
#define FITTED_MOST    (128u << 10) /* bytes that may be moved before the slots change their size */
#define SLOT_LEAST     1024u        /* bytes; URO_RX_SEGMENTS slots then hold a datagram */
#define AT_IPV4_IDENT  4u
#define AT_IPV4_SOURCE 12u
#define AT_IPV4_BTH    (URO_IPV4_LEN + URO_UDP_LEN)

static const struct uro_mac link_mac = { { 2, 0, 0, 0, 0, 0 } };

static uint8_t *slot_at(const struct uro_rx *rx, uint32_t message, uint32_t segment)
{
    return rx->memory + (size_t)message * REGION + (size_t)segment * (rx->slot + HEADROOM) +
           HEADROOM;
}

static void lay_out(struct uro_rx *rx, uint32_t slot)
{
    rx->slot = slot < SLOT_LEAST ? SLOT_LEAST : slot;
    rx->unjoined = 0;
    rx->fitted = 0;
    uint32_t segments = (DATAGRAM_MAX + rx->slot - 1) / rx->slot;
    while ((size_t)segments * (rx->slot + HEADROOM) > REGION)
        segments--;
    for (uint32_t i = 0; i < URO_RX_MESSAGES; i++) {
        for (uint32_t k = 0; k < segments; k++)
            rx->slots[i][k] = (struct iovec){ slot_at(rx, i, k), rx->slot };
        rx->messages[i].msg_hdr = (struct msghdr){ .msg_name = &rx->from[i],
                                                   .msg_iov = rx->slots[i],
                                                   .msg_iovlen = segments,
                                                   .msg_control = rx->control[i] };
    }
}

bool uro_rx_open(struct uro_rx *rx, const struct uro_mac *mac, const struct uro_sock *own,
                 uint32_t own_count, enum uro_ip_id_rule idents)
{
    memset(rx, 0, sizeof *rx);
    rx->own = own;
    rx->own_count = own_count;
    rx->mac = *mac;
    rx->idents = idents;
    rx->memory = aligned_alloc(64, (size_t)URO_RX_MESSAGES * REGION);
    rx->spare = malloc(DATAGRAM_MAX);
    if (rx->memory == NULL || rx->spare == NULL) {
        uro_rx_close(rx);
        return false;
    }
    lay_out(rx, SLOT_WHOLE);
    return true;
}

void uro_rx_close(struct uro_rx *rx)
{
    free(rx->memory);
    free(rx->spare);
    rx->memory = rx->spare = NULL;
}

/* ---- control messages of the kernel -------------------------------------- */

struct note {
    const union uro_sock_address *from;
    uint32_t segment; /* length of each packet but the last, bytes; 0: one packet */
    uint8_t traffic_class;
    uint8_t hop_limit;
    struct uro_raw_tap *raw_tap; /* raw tap that sees the first packet of the message, or NULL */
    bool first_known; /* the first packet passed the full ICRC check, with this header: */
    bool first_fragmentable;
    uint16_t first_ident;
};

static struct note read_control(struct msghdr *message)
{
    struct note note = { .from = message->msg_name, .hop_limit = URO_SOCK_HOP_LIMIT };

    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg != NULL;
         cmsg = CMSG_NXTHDR(message, cmsg)) {
        int value = 0;
        if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS) {
            note.traffic_class = *CMSG_DATA(cmsg);
        } else if (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_TCLASS) {
            memcpy(&value, CMSG_DATA(cmsg), sizeof value);
            note.traffic_class = (uint8_t)value;
        } else if ((cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TTL) ||
                   (cmsg->cmsg_level == IPPROTO_IPV6 && cmsg->cmsg_type == IPV6_HOPLIMIT)) {
            memcpy(&value, CMSG_DATA(cmsg), sizeof value);
            note.hop_limit = (uint8_t)value;
        } else if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_OPTION_GRO) {
            memcpy(&value, CMSG_DATA(cmsg), sizeof value);
            note.segment = value > 0 ? (uint32_t)value : 0;
        }
    }
    return note;
}

/* ---- the identification ------------------------------------------------- */

static struct uro_rx_source *source_of(struct uro_rx *rx, const struct uro_gid *address)
{
    uint64_t hash = uro_gid_hash(address);
    struct uro_rx_source *source = &rx->sources[(hash ^ hash >> 32 ^ hash >> 56) % URO_RX_SOURCES];

    if (!uro_gid_equal(&source->address, address))
        *source = (struct uro_rx_source){ .address = *address };
    return source;
}

/* How well a packet is protected, if its ICRC is right for some identification. */
enum verdict { REFUSED, WEAK, FULL };

/* Returns whether the identification of packet @index fits that of the first packet. The kernel
 * coalesces packets whose identifications are equal or increase by 1. Older kernels coalesce
 * packets with any identifications. */
static bool follows(const struct note *note, const struct uro_raw_tap_header *header,
                    uint32_t index)
{
    return note->first_known && header->fragmentable == note->first_fragmentable &&
           (header->identification == (uint16_t)(note->first_ident + index) ||
            header->identification == note->first_ident);
}

/* Rates the identification of packet @index of a message. @like: the identification has uroce's
 * pattern. */
static enum verdict judge(struct uro_rx *rx, const struct note *note, uint32_t index, bool like,
                          const struct uro_raw_tap_header *header)
{
    const struct uro_gid from = uro_sock_gid_of(note->from);
    struct uro_ip_id_history *habit = &source_of(rx, &from)->habit;
    enum uro_raw_tap_answer word = URO_RAW_TAP_UNKNOWN;

    if (like) {
        uro_raw_tap_count_plain(note->raw_tap);
        return uro_ip_id_accept(habit, true) ? FULL : REFUSED;
    }
    if (rx->idents == URO_IP_ID_PLAIN)
        return REFUSED;
    if (index == 0)
        word = uro_raw_tap_ask(note->raw_tap, header);
    if (word == URO_RAW_TAP_SAW || (index > 0 && follows(note, header, index))) {
        *habit = (struct uro_ip_id_history){ 0 };
        return FULL;
    }
    if (word == URO_RAW_TAP_DID_NOT_SEE || rx->idents == URO_IP_ID_FULL ||
        !uro_ip_id_accept(habit, false))
        return REFUSED;
    uro_raw_tap_wake(note->raw_tap);
    return WEAK;
}

/* Finds the identification for which the ICRC of the packet at @network is right, and writes it to
 * @header. @doubled: the ICRC is that of rxe for FLUSH, which covers the bytes after the UDP header
 * twice. Returns false if there is no such identification. */
static bool explain(const uint8_t *network, uint32_t covered, bool doubled,
                    struct uro_raw_tap_header *header)
{
    uint32_t behind = covered - AT_IPV4_IDENT - 2, icrc;
    uint16_t change = 0;
    bool fragmentable = false;

    if (doubled) {
        icrc = uro_icrc_rxe_flush(network, false, covered);
        behind += covered - AT_IPV4_BTH;
    } else {
        icrc = uro_icrc(network, false, covered);
    }
    uint32_t difference = icrc ^ uro_get_le32(network + covered);
    if (difference != 0 && !uro_ip_id_solve(difference, behind, &change, &fragmentable))
        return false;
    header->identification ^= change;
    header->fragmentable = fragmentable;
    return true;
}

/* Finds the identification for which the ICRC of @pkt is right. If there is one, and the sender is
 * likely to have used it, writes it to the IPv4 header at @network. */
static void find_ident(struct uro_rx *rx, struct note *note, uint8_t *network, uint32_t length,
                       struct uro_ip *ip, struct uro_pkt *pkt)
{
    uint32_t index = ip->identification, covered = length - URO_ICRC_LEN;
    struct uro_raw_tap_header header = { .source = uro_get_be32(network + AT_IPV4_SOURCE),
                                         .source_port = uro_sock_port_of(note->from),
                                         .identification = ip->identification,
                                         .bth = network + AT_IPV4_BTH };
    bool flush = uro_opcodes[header.bth[0]].operation == URO_FLUSH;

    if (!explain(network, covered, false, &header) &&
        !(flush && explain(network, covered, true, &header)))
        return;
    bool like = header.identification < URO_IP_ID_BATCH && !header.fragmentable;
    enum verdict verdict = judge(rx, note, index, like, &header);
    if (verdict == REFUSED)
        return;
    if (index == 0 && verdict == FULL) {
        note->first_known = true;
        note->first_fragmentable = header.fragmentable;
        note->first_ident = header.identification;
    }
    if (header.identification != index || header.fragmentable) {
        ip->identification = header.identification;
        ip->dont_fragment = !header.fragmentable;
        (void)uro_ip_put(network, ip);
    }
    pkt->summed = true;
    pkt->weak = verdict == WEAK;
}

/* ---- frames ------------------------------------------------------------- */

/* Writes the headers before @payload, and adds the frame. @index: the position of the packet in its
 * message. */
static void add_frame(struct uro_rx *rx, const struct uro_sock *sock, struct note *note,
                      uint8_t *payload, uint32_t length, uint32_t index)
{
    const struct uro_ether ether = { .dest =
                                         sock->group ? uro_mac_multicast(&sock->address) : rx->mac,
                                     .source = link_mac,
                                     .type = sock->v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    struct uro_ip ip = { .v6 = sock->v6,
                         .dont_fragment = !sock->v6,
                         .traffic_class = note->traffic_class,
                         .hop_limit = note->hop_limit,
                         .protocol = URO_IPPROTO_UDP,
                         .identification = (uint16_t)index,
                         .payload_length = (uint16_t)(URO_UDP_LEN + length),
                         .source = uro_sock_gid_of(note->from),
                         .dest = sock->address };
    const struct uro_udp udp = { .source_port = uro_sock_port_of(note->from),
                                 .dest_port = URO_ROCE_PORT,
                                 .length = (uint16_t)(URO_UDP_LEN + length) };
    uint32_t network_length = sock->v6 ? URO_IPV6_LEN : URO_IPV4_LEN;
    uint8_t *network = payload - URO_UDP_LEN - network_length;
    struct uro_pkt pkt = { .octets = network - URO_ETHER_LEN,
                           .length = URO_ETHER_LEN + network_length + URO_UDP_LEN + length };

    if (length > DATAGRAM_MAX - HEADROOM) /* not RoCE, and too long for the length field */
        return;
    if (sock->group && uro_group_is_echo(rx->own, rx->own_count, &ip.source, payload, length))
        return;
    (void)uro_ether_put(network - URO_ETHER_LEN, &ether);
    (void)uro_ip_put(network, &ip);
    uro_udp_encode(payload - URO_UDP_LEN, &udp);
    if (!sock->v6 && length >= URO_BTH_LEN + URO_ICRC_LEN)
        find_ident(rx, note, network, network_length + URO_UDP_LEN + length, &ip, &pkt);
    rx->frames[rx->count++] = pkt;
}

/* Joins the bytes of a packet that is longer than a slot. */
static void close_gaps(struct uro_rx *rx, uint32_t which, uint32_t total)
{
    uint8_t *payload = slot_at(rx, which, 0);

    for (uint32_t k = 1; k * rx->slot < total; k++) {
        uint32_t left = total - k * rx->slot;
        uint32_t part = left < rx->slot ? left : rx->slot;
        memmove(payload + (size_t)k * rx->slot, slot_at(rx, which, k), part);
        rx->moved += part;
    }
}

/* Moves the packets of message @which, which do not begin at slots, so that there is space for
 * headers before each packet. */
static void move_packets(struct uro_rx *rx, uint32_t which, uint32_t total, uint32_t segment,
                         uint32_t *stride)
{
    uint8_t *region = rx->memory + (size_t)which * REGION;
    uint32_t left = total, offset = 0;

    for (uint32_t k = 0; left > 0; k++) {
        uint32_t part = left < rx->slot ? left : rx->slot;
        memcpy(rx->spare + offset, slot_at(rx, which, k), part);
        offset += part;
        left -= part;
    }
    rx->moved += total;
    *stride = segment + HEADROOM;
    for (uint32_t k = 0; k * segment < total; k++) {
        uint32_t part = total - k * segment < segment ? total - k * segment : segment;
        memcpy(region + (size_t)k * *stride + HEADROOM, rx->spare + (size_t)k * segment, part);
    }
}

/* Returns whether this process has the packet's QPN prefix. The kernel's filter examines only the
 * first of the packets that it coalesced. */
static bool is_ours(const struct uro_sock *sock, const uint8_t *payload, uint32_t length)
{
    return sock->share == NULL || length < URO_BTH_LEN ||
           uro_hub_prefix_of(payload) == sock->share->number;
}

/* Returns whether slots of the size of this message's packets would be better than the present
 * slots. The packets of this message, which has @total bytes, do not fit the slots. The present
 * slots are better if packets with more bytes in total did fit. Most of the traffic is middle
 * packets of RDMA messages. */
static bool is_better(struct uro_rx *rx, uint32_t total)
{
    bool better = rx->fitted < total && total > 4 * SLOT_LEAST;

    rx->fitted -= total < rx->fitted ? total : rx->fitted;
    return better;
}

/* Converts message @which to frames. Returns the slot size that would have been better, or 0. */
static uint32_t cut(struct uro_rx *rx, const struct uro_sock *sock, uint32_t which)
{
    struct mmsghdr *message = &rx->messages[which];
    struct note note = read_control(&message->msg_hdr);
    uint32_t total = message->msg_len, stride = rx->slot + HEADROOM, better = 0;
    uint8_t *region = rx->memory + (size_t)which * REGION;

    note.raw_tap = sock->raw_tap;
    if (note.segment == 0 || note.segment >= total)
        note.segment = total;
    if ((message->msg_hdr.msg_flags & MSG_TRUNC) != 0 || total == 0 ||
        total > note.segment * URO_RX_SEGMENTS)
        return 0;
    if (note.segment < total)
        rx->unjoined = 0;
    if (note.segment == total) {
        close_gaps(rx, which, total);
    } else if (note.segment == rx->slot) {
        rx->fitted = rx->fitted + total < FITTED_MOST ? rx->fitted + total : FITTED_MOST;
    } else {
        move_packets(rx, which, total, note.segment, &stride);
        better = is_better(rx, total) ? note.segment : 0;
    }
    for (uint32_t k = 0; k * note.segment < total; k++) {
        uint32_t left = total - k * note.segment;
        uint8_t *payload = region + (size_t)k * stride + HEADROOM;
        uint32_t length = left < note.segment ? left : note.segment;
        if (is_ours(sock, payload, length))
            add_frame(rx, sock, &note, payload, length, k);
        else
            uro_share_pass(sock->share, note.from, note.traffic_class, payload, length);
    }
    return better;
}

/* Receives messages. recvmmsg() takes 50 ns longer than recvmsg(), or 25 ns longer if there is no
 * message. */
static int take_from(int fd, struct mmsghdr *messages, uint32_t count)
{
    if (count > 1)
        return recvmmsg(fd, messages, count, MSG_DONTWAIT, NULL);
    ssize_t length = recvmsg(fd, &messages->msg_hdr, MSG_DONTWAIT);
    messages->msg_len = length > 0 ? (unsigned)length : 0;
    return length < 0 ? -1 : 1;
}

bool uro_rx_take(struct uro_rx *rx, const struct uro_sock *sock)
{
    uint32_t better = 0;

    if (rx->first < rx->count)
        return true;
    rx->first = rx->count = 0;
    /* If packets come one at a time, only one message is requested. The kernel then does not look
     * for a second message, which would not be there. */
    uint32_t limit = rx->many ? URO_RX_MESSAGES : 1;
    for (uint32_t i = 0; i < limit; i++) {
        rx->messages[i].msg_hdr.msg_namelen = sizeof rx->from[i];
        rx->messages[i].msg_hdr.msg_controllen = sizeof rx->control[i];
    }
    int received = take_from(sock->fd, rx->messages, limit);
    const bool fine = received >= 0 || errno == EAGAIN || errno == EINTR || errno == EBADF;
    rx->many = received == (int)limit;
    for (int i = 0; i < received; i++) {
        uint32_t wanted = cut(rx, sock, (uint32_t)i);
        if (wanted != 0)
            better = wanted;
    }
    if (received > 0 && rx->slot != SLOT_WHOLE && ++rx->unjoined == UNJOINED_MANY)
        better = SLOT_WHOLE;
    /* The received packets are not moved. Only the next messages go to the new slots. */
    if (better != 0)
        lay_out(rx, better);
    return fine;
}

bool uro_rx_take_passed(struct uro_rx *rx, struct uro_sock *sock)
{
    if (rx->first < rx->count)
        return true;
    rx->first = rx->count = 0;
    for (uint32_t i = 0; i < URO_RX_MESSAGES; i++) {
        struct uro_hub_header header;
        uint8_t *payload = rx->memory + (size_t)i * REGION + HEADROOM;
        uint32_t length;
        if (!uro_share_take(sock->share, &header, &length))
            return false;
        if (length == 0)
            break;
        if (header.kind == URO_HUB_REPORT) {
            uro_network_error_receive(sock, &header, length);
            continue;
        }
        struct note note = { .from = &header.from,
                             .hop_limit = URO_SOCK_HOP_LIMIT,
                             .traffic_class = (uint8_t)header.traffic_class };
        if (length <= DATAGRAM_MAX) {
            memcpy(payload, sock->share->record, length);
            /* The tap sees the headers of packets to prefix 0. A packet that another process passed
             * on was not the first of its coalesced message, so its header is not known. */
            if (length >= URO_BTH_LEN && uro_hub_prefix_of(payload) == 0)
                note.raw_tap = sock->raw_tap;
            add_frame(rx, sock, &note, payload, length, 0);
        }
    }
    return true;
}

/* Adds an ICMP frame like the one that the peer's host has sent. */
static void add_undelivered(struct uro_rx *rx, const struct uro_sock *sock,
                            const struct uro_sock_report *report, uint8_t *octets)
{
    const struct uro_ether ether = { .dest = rx->mac,
                                     .source = link_mac,
                                     .type = sock->v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 };
    const struct uro_icmp icmp = { .kind = URO_ICMP_NO_PORT,
                                   .source = sock->address,
                                   .dest = uro_sock_gid_of(&report->to),
                                   .quoted = report->quoted,
                                   .quoted_length = report->quoted_length };
    const uint32_t headers =
        URO_ICMP_ECHO_HEADER + URO_UDP_LEN + (sock->v6 ? URO_IPV6_LEN : URO_IPV4_LEN);
    const struct uro_ip ip = { .v6 = sock->v6,
                               .hop_limit = URO_SOCK_HOP_LIMIT,
                               .protocol = sock->v6 ? URO_IPPROTO_ICMPV6 : URO_IPPROTO_ICMP,
                               .payload_length = (uint16_t)(headers + report->quoted_length),
                               .source = icmp.dest,
                               .dest = sock->address };
    uint32_t length = (uint32_t)uro_ether_put(octets, &ether);

    length += (uint32_t)uro_ip_put(octets + length, &ip);
    length += uro_icmp_encode_no_port(octets + length, &ip, &icmp);
    rx->frames[rx->count++] = (struct uro_pkt){ .octets = octets, .length = length };
}

static_assert(URO_UNDELIVERED_MAX <= URO_RX_MESSAGES, "each has the place of a message");

void uro_rx_take_undelivered(struct uro_rx *rx, struct uro_undelivered *undelivered)
{
    if (rx->first < rx->count)
        return;
    rx->first = rx->count = 0;
    for (uint32_t i = 0; i < undelivered->count; i++)
        add_undelivered(rx, undelivered->by[i], &undelivered->reports[i],
                        rx->memory + (size_t)i * REGION);
    undelivered->count = 0;
}

uint32_t uro_rx_lend(struct uro_rx *rx, struct uro_pkt *pkts, uint32_t max)
{
    uint32_t count = rx->count - rx->first < max ? rx->count - rx->first : max;

    memcpy(pkts, &rx->frames[rx->first], count * sizeof *pkts);
    rx->first += count;
    return count;
}
