/* SPDX-License-Identifier: BSD-3-Clause */
/* raw_tap.c - see raw_tap.h. */
#define _GNU_SOURCE /* recvmmsg, SO_RCVBUFFORCE */
#include "io/udp/raw_tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/filter.h>

#include "io/udp/share.h"
#include "wire/ip.h"

#define IPV4_MOST    60u /* bytes of an IPv4 header with options */
#define KEPT         (IPV4_MOST + URO_UDP_LEN + URO_BTH_LEN)
#define AT_IDENT     4u
#define AT_FLAGS     6u
#define AT_SOURCE    12u
#define AT_DEST_PORT 2u /* offset in the UDP header */
#define FLAG_DF      0x4000u
#define BATCH        32u
#define SEEN         65536u     /* entries of the table, one for each identification */
#define REST_AFTER   256u       /* packets with uroce's IP IDs after which the tap rests */
#define NOWHERE      0xe0000000 /* 224.0.0.0, the destination of no packet */
#define BUFFER_BYTES (8 * 1024 * 1024)

struct uro_raw_tap {
    int fd;
    struct uro_gid address;
    bool rests;
    bool never_rests;
    bool proven;    /* the tap has found a requested packet; from then on it does not rest */
    uint32_t plain; /* packets with uroce's IP IDs since the tap woke; see REST_AFTER */
    uint32_t *seen; /* SEEN slots, each with the hash of the last header; 0: none */
    struct mmsghdr messages[BATCH];
    struct iovec octets[BATCH];
    uint8_t packets[BATCH][KEPT];
};

/* ---- the socket --------------------------------------------------------- */

/* Attaches a filter that keeps only the headers of RoCE packets with IP IDs that uroce does not
 * use: the identification is too high, or DF is clear. On a shared address it keeps only packets to
 * the QPN prefix of @share, and to prefix 0, which the broker passes on. */
static bool attach_filter(int fd, const struct uro_share *share)
{
    const uint32_t own = share != NULL ? share->number : 0;
    const uint32_t mask = share != NULL ? URO_QPN_PREFIXES - 1 : 0;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), /* x: offset of the UDP header */
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, AT_DEST_PORT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, URO_ROCE_PORT, 0, 9),
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, URO_UDP_LEN + URO_HUB_AT_QPN),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 8 - URO_QPN_PREFIX_BITS),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own, 0, 4),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_FLAGS),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FLAG_DF, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_IDENT),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, URO_IP_ID_BATCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, KEPT),
    };
    const struct sock_fprog program = { .len = URO_ARRAY_LEN(code), .filter = code };

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/* Binds the raw socket to the address of the port. If @nowhere, binds it to NOWHERE, so that it
 * receives nothing. A raw socket may be bound again. */
static bool listen_at(const struct uro_raw_tap *raw_tap, bool nowhere)
{
    uint8_t address[4];

    uro_put_be32(address, NOWHERE);
    const struct uro_gid gid = nowhere ? uro_gid_from_ipv4(address) : raw_tap->address;
    const union uro_sock_address name = uro_sock_address_of(&gid, 0);
    return bind(raw_tap->fd, &name.any, uro_sock_address_length(&name)) == 0;
}

/* Opens the raw socket. It receives all UDP packets until its filter and address are set. These
 * early packets are harmless, because nothing searches for their headers. */
static bool start(struct uro_raw_tap *raw_tap, const struct uro_share *share)
{
    const int octets = BUFFER_BYTES;

    raw_tap->fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
    if (raw_tap->fd < 0 || !attach_filter(raw_tap->fd, share) || !listen_at(raw_tap, false))
        return false;
    if (setsockopt(raw_tap->fd, SOL_SOCKET, SO_RCVBUFFORCE, &octets, sizeof octets) != 0)
        (void)setsockopt(raw_tap->fd, SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets);
    return true;
}

bool uro_raw_tap_open(struct uro_sock *sock, enum uro_ip_id_rule rule)
{
    if (sock->v6 || rule == URO_IP_ID_PLAIN)
        return true;
    struct uro_raw_tap *raw_tap = calloc(1, sizeof *raw_tap);
    if (raw_tap == NULL)
        return false;
    raw_tap->address = sock->address;
    raw_tap->never_rests = rule == URO_IP_ID_FULL;
    for (uint32_t i = 0; i < BATCH; i++) {
        raw_tap->octets[i] = (struct iovec){ raw_tap->packets[i], KEPT };
        raw_tap->messages[i].msg_hdr =
            (struct msghdr){ .msg_iov = &raw_tap->octets[i], .msg_iovlen = 1 };
    }
    if (start(raw_tap, sock->share)) {
        sock->raw_tap = raw_tap;
        return true;
    }
    int reason = errno;
    uro_raw_tap_close(raw_tap);
    errno = reason;
    return false;
}

void uro_raw_tap_close(struct uro_raw_tap *raw_tap)
{
    if (raw_tap == NULL)
        return;
    if (raw_tap->fd >= 0)
        (void)close(raw_tap->fd);
    free(raw_tap->seen);
    free(raw_tap);
}

/* ---- packets seen --------------------------------------------------------- */

/* Returns the slot of a header. Packets of one sender use different slots until its counter
 * wraps. */
static uint32_t *entry_of(const struct uro_raw_tap *raw_tap,
                          const struct uro_raw_tap_header *header)
{
    return &raw_tap->seen[(header->source * 2654435761u >> 16 ^ header->identification) % SEEN];
}

/* Returns a hash of the header that is never 0. */
static uint32_t hash_of(const struct uro_raw_tap_header *header)
{
    uint64_t hash = (uint64_t)header->source << 32 | (uint32_t)header->source_port << 16 |
                    header->identification;

    hash ^= (uint64_t)header->fragmentable << 63;
    for (uint32_t offset = 0; offset < URO_BTH_LEN; offset += 4) {
        hash = (hash ^ uro_get_be32(header->bth + offset)) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    uint32_t half = (uint32_t)(hash >> 32);
    return half != 0 ? half : 1;
}

static void note(struct uro_raw_tap *raw_tap, const uint8_t *packet, uint32_t length)
{
    uint32_t network = (packet[0] & 0x0fu) * 4;

    if (length < network + URO_UDP_LEN + URO_BTH_LEN)
        return;
    const struct uro_raw_tap_header header = {
        .source = uro_get_be32(packet + AT_SOURCE),
        .source_port = uro_get_be16(packet + network),
        .identification = uro_get_be16(packet + AT_IDENT),
        .fragmentable = (uro_get_be16(packet + AT_FLAGS) & FLAG_DF) == 0,
        .bth = packet + network + URO_UDP_LEN,
    };
    *entry_of(raw_tap, &header) = hash_of(&header);
}

/* Reads waiting packets and records their headers, at most as many as the table has entries. */
static void look(struct uro_raw_tap *raw_tap)
{
    int received = BATCH;

    if (raw_tap->seen == NULL)
        raw_tap->seen = calloc(SEEN, sizeof *raw_tap->seen);
    if (raw_tap->seen == NULL)
        return;
    for (uint32_t all = 0; received == BATCH && all < SEEN; all += BATCH) {
        received = recvmmsg(raw_tap->fd, raw_tap->messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < received; i++)
            note(raw_tap, raw_tap->packets[i], raw_tap->messages[i].msg_len);
    }
}

static bool saw(const struct uro_raw_tap *raw_tap, const struct uro_raw_tap_header *header)
{
    return raw_tap->seen != NULL && *entry_of(raw_tap, header) == hash_of(header);
}

enum uro_raw_tap_answer uro_raw_tap_ask(struct uro_raw_tap *raw_tap,
                                        const struct uro_raw_tap_header *header)
{
    if (raw_tap == NULL || raw_tap->rests)
        return URO_RAW_TAP_UNKNOWN;
    if (!saw(raw_tap, header)) {
        look(raw_tap);
        if (!saw(raw_tap, header))
            return raw_tap->proven ? URO_RAW_TAP_DID_NOT_SEE : URO_RAW_TAP_UNKNOWN;
    }
    raw_tap->proven = true;
    return URO_RAW_TAP_SAW;
}

/* ---- rest --------------------------------------------------------------- */

void uro_raw_tap_count_plain(struct uro_raw_tap *raw_tap)
{
    if (raw_tap == NULL || raw_tap->proven || raw_tap->rests || raw_tap->never_rests ||
        ++raw_tap->plain < REST_AFTER)
        return;
    raw_tap->rests = listen_at(raw_tap, true);
}

void uro_raw_tap_wake(struct uro_raw_tap *raw_tap)
{
    if (raw_tap == NULL || !raw_tap->rests)
        return;
    raw_tap->plain = 0;
    raw_tap->rests = !listen_at(raw_tap, false);
}
