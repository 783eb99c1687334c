/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.c - see tx.h. */
#define _GNU_SOURCE /* sendmmsg */
#include "io/udp/tx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/udp/hub.h"
#include "io/udp/ip_id.h"
#include "io/udp/network_error.h"
#include "wire/ether.h"
#include "wire/ip.h"

#define UDP_OPTION_SEGMENT 103
#define SEGMENTS_MAX       URO_IP_ID_BATCH
#define DATAGRAM_MAX       65507u /* longest payload of a datagram over IPv4 */
#define AT_IPV4_IDENT      4u
#define ICRC_LEN           4u

bool uro_udp_tx_open(struct uro_udp_tx *tx, struct uro_sock *socks, uint32_t sock_count,
                     uint32_t mtu)
{
    memset(tx, 0, sizeof *tx);
    tx->socks = socks;
    tx->sock_count = sock_count;
    tx->memory = malloc((size_t)URO_PORT_BURST * mtu);
    return tx->memory != NULL;
}

void uro_udp_tx_close(struct uro_udp_tx *tx)
{
    free(tx->memory);
    tx->memory = NULL;
}

/* ---- the route of a frame ------------------------------------------------- */

struct way {
    struct uro_sock *by;
    struct uro_gid dest;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t prefix;
    uint32_t head; /* bytes before the BTH */
};

static struct uro_sock *sock_of(const struct uro_udp_tx *tx, const struct uro_gid *source)
{
    for (uint32_t i = 0; i < tx->sock_count; i++)
        if (uro_gid_equal(&tx->socks[i].address, source))
            return &tx->socks[i];
    return NULL;
}

/* Reads the addresses of a frame. The headers need no check, because the engine made them. Returns
 * false when no socket can send the frame. */
static bool read_way(const struct uro_udp_tx *tx, const struct uro_tx *frame, struct way *way)
{
    const uint8_t *network = frame->head + URO_ETHER_LEN;
    struct uro_gid source;

    if (!frame->icrc)
        return false;
    if (network[0] >> 4 == 4) {
        source = uro_gid_from_ipv4(network + 12);
        way->dest = uro_gid_from_ipv4(network + 16);
        way->traffic_class = network[1];
        way->hop_limit = network[8];
        way->head = URO_ETHER_LEN + URO_IPV4_LEN + URO_UDP_LEN;
    } else {
        memcpy(source.octets, network + 8, sizeof source.octets);
        memcpy(way->dest.octets, network + 24, sizeof way->dest.octets);
        way->traffic_class = (uint8_t)(network[0] << 4 | network[1] >> 4);
        way->hop_limit = network[7];
        way->head = URO_ETHER_LEN + URO_IPV6_LEN + URO_UDP_LEN;
    }
    way->by = sock_of(tx, &source);
    way->prefix = (uint8_t)uro_hub_prefix_of(frame->head + way->head);
    return way->by != NULL && way->by->fd >= 0;
}

/* ---- datagrams ---------------------------------------------------------- */

/* Returns whether a packet of @length bytes can be appended to the last datagram. */
static bool joins(const struct uro_udp_tx *tx, const struct way *way, uint32_t length)
{
    if (tx->count == 0)
        return false;
    uint32_t last = tx->count - 1;
    const union uro_sock_address to = uro_sock_address_of(&way->dest, URO_ROCE_PORT);
    size_t held = tx->octets[last].iov_len;

    return tx->by[last] == way->by && way->by->segments && tx->packets[last] < SEGMENTS_MAX &&
           tx->traffic_class[last] == way->traffic_class && tx->hop_limit[last] == way->hop_limit &&
           tx->prefix[last] == way->prefix && length <= tx->segment[last] &&
           held == (size_t)tx->segment[last] * tx->packets[last] && held + length <= DATAGRAM_MAX &&
           memcmp(&tx->to[last], &to, uro_sock_address_length(&to)) == 0;
}

static void begin(struct uro_udp_tx *tx, const struct way *way, uint8_t *packet, uint32_t length)
{
    uint32_t i = tx->count++;

    if (way->by->share != NULL)
        uro_recent_peers_note(&tx->recent_peers, &way->dest);
    tx->to[i] = uro_sock_address_of(&way->dest, URO_ROCE_PORT);
    tx->by[i] = way->by;
    tx->packets[i] = 0;
    tx->segment[i] = length;
    tx->traffic_class[i] = way->traffic_class;
    tx->hop_limit[i] = way->hop_limit;
    tx->prefix[i] = way->prefix;
    tx->octets[i] = (struct iovec){ packet, 0 };
    tx->messages[i].msg_hdr = (struct msghdr){ .msg_name = &tx->to[i],
                                               .msg_namelen = uro_sock_address_length(&tx->to[i]),
                                               .msg_iov = &tx->octets[i],
                                               .msg_iovlen = 1 };
}

static struct cmsghdr *add_control(struct msghdr *header, uint8_t *control, int level, int type,
                                   const void *value, size_t size)
{
    struct cmsghdr *cmsg = (struct cmsghdr *)(void *)(control + header->msg_controllen);

    header->msg_control = control;
    cmsg->cmsg_level = level;
    cmsg->cmsg_type = type;
    cmsg->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(cmsg), value, size);
    header->msg_controllen += CMSG_SPACE(size);
    return cmsg;
}

/* Adds the traffic class and the hop limit of a datagram, if they differ from those of its
 * socket. */
static void add_marks(struct uro_udp_tx *tx, uint32_t i, struct msghdr *header)
{
    const struct uro_sock *by = tx->by[i];

    if (tx->traffic_class[i] != by->traffic_class) {
        int value = tx->traffic_class[i];
        (void)add_control(header, tx->control[i], by->v6 ? IPPROTO_IPV6 : IPPROTO_IP,
                          by->v6 ? IPV6_TCLASS : IP_TOS, &value, sizeof value);
    }
    if (tx->hop_limit[i] != URO_SOCK_HOP_LIMIT) {
        int value = tx->hop_limit[i];
        (void)add_control(header, tx->control[i], by->v6 ? IPPROTO_IPV6 : IPPROTO_IP,
                          by->v6 ? IPV6_HOPLIMIT : IP_TTL, &value, sizeof value);
    }
}

static void finish(struct uro_udp_tx *tx, uint32_t i)
{
    struct msghdr *header = &tx->messages[i].msg_hdr;

    if (tx->packets[i] > 1) {
        uint16_t segment = (uint16_t)tx->segment[i];
        (void)add_control(header, tx->control[i], IPPROTO_UDP, UDP_OPTION_SEGMENT, &segment,
                          sizeof segment);
    }
    add_marks(tx, i, header);
}

void uro_udp_tx_send(struct uro_udp_tx *tx, const struct uro_tx *frames, uint32_t count)
{
    uint8_t *packet = tx->memory;

    URO_ASSERT(tx->first == tx->count && count <= URO_PORT_BURST);
    tx->first = tx->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct way way;
        if (!read_way(tx, &frames[i], &way))
            continue;
        uint32_t length = uro_tx_length(&frames[i]) - way.head;
        if (!joins(tx, &way, length))
            begin(tx, &way, packet, length);
        uint32_t last = tx->count - 1;
        /* The kernel increments the identification for each packet of a datagram. */
        uint16_t ip_id = way.by->v6 ? 0 : (uint16_t)tx->packets[last];
        uro_tx_write_from(&frames[i], way.head, ip_id, packet);
        tx->octets[last].iov_len += length;
        tx->packets[last]++;
        packet += length;
    }
    for (uint32_t i = 0; i < tx->count; i++)
        finish(tx, i);
    (void)uro_udp_tx_flush(tx);
}

/* ---- the kernel --------------------------------------------------------- */

static void drop_first(struct uro_udp_tx *tx)
{
    tx->dropped += tx->packets[tx->first];
    tx->first++;
}

/* Retries since the last datagram left (`again`), or in the whole flush (`reports`). */
struct trials {
    uint32_t reports; /* retries after error reports of the network */
    bool again;       /* the first datagram was retried without a report */
};

/* Sends one packet alone. Returns false if the kernel refuses it. */
static bool send_part(struct uro_udp_tx *tx, const struct msghdr *header, struct trials *trials)
{
    struct uro_sock *by = tx->by[tx->first];

    while (sendmsg(by->fd, header, MSG_DONTWAIT) < 0)
        if (uro_network_error_take(by, header->msg_name) == 0 ||
            trials->reports++ >= URO_PORT_BURST)
            return false;
    return true;
}

/* Sends the packets of a datagram one by one, because the kernel does not segment it. Each packet
 * then has the identification 0, so its ICRC is adjusted. Handles the error of each packet. Returns
 * true if all packets were sent. */
static bool send_apart(struct uro_udp_tx *tx, struct trials *trials)
{
    uint32_t i = tx->first, lost = 0;
    struct msghdr header = tx->messages[i].msg_hdr;
    uint8_t *packet = tx->octets[i].iov_base;
    size_t left = tx->octets[i].iov_len;
    struct iovec part;

    header.msg_iov = &part;
    header.msg_control = NULL; /* without the segment size; add_marks() adds the rest again */
    header.msg_controllen = 0;
    add_marks(tx, i, &header);
    for (uint32_t k = 0; left > 0; k++) {
        uint32_t length = left < tx->segment[i] ? (uint32_t)left : tx->segment[i];
        uint8_t *icrc = packet + length - ICRC_LEN;
        if (!tx->by[i]->v6 && k > 0)
            uro_put_le32(icrc,
                         uro_get_le32(icrc) ^
                             uro_ip_id_change((uint16_t)k, URO_IPV4_LEN - AT_IPV4_IDENT - 2 +
                                                               URO_UDP_LEN + length - ICRC_LEN));
        part = (struct iovec){ packet, length };
        lost += !send_part(tx, &header, trials);
        packet += length;
        left -= length;
    }
    tx->dropped += lost;
    tx->first++;
    return lost == 0;
}

/* Prints the reason of a failed send with verbose=yes. Prints it only if it differs from the last
 * reason, because each packet may fail. */
static void print_reason(const struct uro_udp_tx *tx, int reason)
{
    struct uro_sock *by = tx->by[tx->first];
    const struct uro_gid gid = uro_sock_gid_of(&tx->to[tx->first]);
    char text[URO_GID_TEXT_MAX];

    if (by->verbose && reason != EMSGSIZE && reason != by->printed_error)
        fprintf(stderr, "uroce: %s: %s\n", uro_gid_text(&gid, text), strerror(reason));
    by->printed_error = reason;
}

/* Handles an error that is about the first datagram itself: sends its packets one by one, or drops
 * it. */
static void handle_own_error(struct uro_udp_tx *tx, int reason, struct trials *trials)
{
    struct uro_sock *by = tx->by[tx->first];

    if (tx->packets[tx->first] == 1 || (reason != EIO && reason != EINVAL && reason != EMSGSIZE)) {
        print_reason(tx, reason);
        drop_first(tx);
        return;
    }
    /* EMSGSIZE means that the MTU of the path is too small; each packet gets its own error. EIO and
     * EINVAL mean that the kernel cannot segment, for example because the link has no checksum
     * offload. Kernels before 6.14 also return EINVAL for a small path MTU. They then also refuse
     * the single packets. */
    if (send_apart(tx, trials) && reason != EMSGSIZE)
        by->segments = false;
}

/* Handles error @reason of the first datagram. Returns true when the next datagram, or the same
 * datagram again, may be sent.
 *
 * A report about an earlier packet becomes the error of the next send, whatever its destination.
 * ICMP is easy to forge. So if there are reports, the same datagram is sent again. If there are no
 * reports, it is sent again once, because a report that does not fit into the buffer is lost. Only
 * an error that stays is about this datagram. */
static bool recover(struct uro_udp_tx *tx, int reason, struct trials *trials)
{
    switch (reason) {
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
        return false;
    case EINTR:
        return true;
    case EBADF: /* the broker of the socket has ended */
        drop_first(tx);
        return true;
    default:
        break;
    }
    if (uro_network_error_take(tx->by[tx->first], &tx->to[tx->first]) > 0) {
        if (trials->reports++ >= URO_PORT_BURST)
            drop_first(tx);
    } else if (!trials->again) {
        trials->again = true;
        return true;
    } else {
        handle_own_error(tx, reason, trials);
    }
    trials->again = false;
    return true;
}

/* Sends datagrams. sendmmsg() costs 50 ns more than sendmsg(). */
static int hand_over(int fd, struct mmsghdr *messages, uint32_t count)
{
    if (count > 1)
        return sendmmsg(fd, messages, count, MSG_DONTWAIT);
    return sendmsg(fd, &messages->msg_hdr, MSG_DONTWAIT) < 0 ? -1 : 1;
}

bool uro_udp_tx_flush(struct uro_udp_tx *tx)
{
    struct trials trials = { 0 };

    while (tx->first < tx->count) {
        struct uro_sock *by = tx->by[tx->first];
        uint32_t run = 1;
        while (tx->first + run < tx->count && tx->by[tx->first + run] == by)
            run++;
        int sent = hand_over(by->fd, &tx->messages[tx->first], run);
        if (sent <= 0 && !recover(tx, errno, &trials))
            return false;
        if (sent > 0) {
            tx->first += (uint32_t)sent;
            trials.again = false;
        }
    }
    return true;
}
