/* SPDX-License-Identifier: BSD-3-Clause */
/* witness.c - see witness.h. */
#define _GNU_SOURCE /* recvmmsg, SO_RCVBUFFORCE */
#include "io/udp/witness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/filter.h>

#include "io/udp/share.h"
#include "wire/ip.h"

#define IPV4_MOST     60u /* octets of a header with options */
#define KEPT          (IPV4_MOST + URO_UDP_LEN + URO_BTH_LEN)
#define AT_IDENT      4u
#define AT_FLAGS      6u
#define AT_SOURCE     12u
#define AT_DEST_PORT  2u /* in the UDP header */
#define FLAG_DF       0x4000u
#define BATCH         32u
#define SEEN          65536u     /* one for each identification */
#define REST_AFTER    256u       /* packets like ours, and none that is not */
#define NOWHERE       0xe0000000 /* 224.0.0.0, which no packet is for */
#define BUFFER_OCTETS (8 * 1024 * 1024)

struct uro_witness {
    int fd;
    struct uro_gid address;
    bool rests;
    bool never_rests;
    bool proven;    /* since it woke, it saw a packet that was asked for: it sees all that follow */
    uint32_t plain; /* packets since it woke, while it saw none */
    uint32_t *seen; /* SEEN hashes of headers, the last of each identification; 0: none */
    struct mmsghdr messages[BATCH];
    struct iovec octets[BATCH];
    uint8_t packets[BATCH][KEPT];
};

/* ---- the socket --------------------------------------------------------- */

/* Only the headers are kept, of packets to the RoCE port that are not like ours: with another
 * identification than those of a batch, or without DF. On a shared address those of @share, and of
 * share 0, which the broker passes on. */
static bool attach_filter(int fd, const struct uro_share *share)
{
    const uint32_t own = share != NULL ? share->number : 0;
    const uint32_t mask = share != NULL ? URO_SHARES - 1 : 0;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0), /* x: where the UDP header is */
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, AT_DEST_PORT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, URO_ROCE_PORT, 0, 9),
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, URO_UDP_LEN + URO_HUB_AT_QPN),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 8 - URO_SHARE_BITS),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, own, 0, 4),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_FLAGS),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FLAG_DF, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, AT_IDENT),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, URO_IDENT_BATCH, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, KEPT),
    };
    const struct sock_fprog program = { .len = URO_ARRAY_LEN(code), .filter = code };

    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

/* A raw socket may be bound again. */
static bool listen_at(const struct uro_witness *witness, bool nowhere)
{
    uint8_t address[4];

    uro_put_be32(address, NOWHERE);
    const struct uro_gid gid = nowhere ? uro_gid_from_ipv4(address) : witness->address;
    const union uro_sock_address name = uro_sock_address_of(&gid, 0);
    return bind(witness->fd, &name.any, uro_sock_address_length(&name)) == 0;
}

/* A raw socket hears everything from the moment it is made. What came before it had a filter and an
 * address is harmless: nobody asks for it. */
static bool start(struct uro_witness *witness, const struct uro_share *share)
{
    const int octets = BUFFER_OCTETS;

    witness->fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_UDP);
    if (witness->fd < 0 || !attach_filter(witness->fd, share) || !listen_at(witness, false))
        return false;
    if (setsockopt(witness->fd, SOL_SOCKET, SO_RCVBUFFORCE, &octets, sizeof octets) != 0)
        (void)setsockopt(witness->fd, SOL_SOCKET, SO_RCVBUF, &octets, sizeof octets);
    return true;
}

bool uro_witness_open(struct uro_sock *sock, enum uro_ident_rule rule)
{
    if (sock->v6 || rule == URO_IDENT_PLAIN)
        return true;
    struct uro_witness *witness = calloc(1, sizeof *witness);
    if (witness == NULL)
        return false;
    witness->address = sock->address;
    witness->never_rests = rule == URO_IDENT_FULL;
    for (uint32_t i = 0; i < BATCH; i++) {
        witness->octets[i] = (struct iovec){ witness->packets[i], KEPT };
        witness->messages[i].msg_hdr =
            (struct msghdr){ .msg_iov = &witness->octets[i], .msg_iovlen = 1 };
    }
    if (start(witness, sock->share)) {
        sock->witness = witness;
        return true;
    }
    int why = errno;
    uro_witness_close(witness);
    errno = why;
    return false;
}

void uro_witness_close(struct uro_witness *witness)
{
    if (witness == NULL)
        return;
    if (witness->fd >= 0)
        (void)close(witness->fd);
    free(witness->seen);
    free(witness);
}

/* ---- what it saw -------------------------------------------------------- */

/* Packets of one sender have an entry each until its counter comes round. */
static uint32_t *entry_of(const struct uro_witness *witness,
                          const struct uro_witness_header *header)
{
    return &witness->seen[(header->source * 2654435761u >> 16 ^ header->identification) % SEEN];
}

/* Never 0. */
static uint32_t hash_of(const struct uro_witness_header *header)
{
    uint64_t hash = (uint64_t)header->source << 32 | (uint32_t)header->source_port << 16 |
                    header->identification;

    hash ^= (uint64_t)header->fragmentable << 63;
    for (uint32_t at = 0; at < URO_BTH_LEN; at += 4) {
        hash = (hash ^ uro_get_be32(header->bth + at)) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    uint32_t half = (uint32_t)(hash >> 32);
    return half != 0 ? half : 1;
}

static void note(struct uro_witness *witness, const uint8_t *packet, uint32_t length)
{
    uint32_t network = (packet[0] & 0x0fu) * 4;

    if (length < network + URO_UDP_LEN + URO_BTH_LEN)
        return;
    const struct uro_witness_header header = {
        .source = uro_get_be32(packet + AT_SOURCE),
        .source_port = uro_get_be16(packet + network),
        .identification = uro_get_be16(packet + AT_IDENT),
        .fragmentable = (uro_get_be16(packet + AT_FLAGS) & FLAG_DF) == 0,
        .bth = packet + network + URO_UDP_LEN,
    };
    *entry_of(witness, &header) = hash_of(&header);
}

/* Notes what waits; no more than the table holds, should it come as fast. */
static void look(struct uro_witness *witness)
{
    int got = BATCH;

    if (witness->seen == NULL)
        witness->seen = calloc(SEEN, sizeof *witness->seen);
    if (witness->seen == NULL)
        return;
    for (uint32_t all = 0; got == BATCH && all < SEEN; all += BATCH) {
        got = recvmmsg(witness->fd, witness->messages, BATCH, MSG_DONTWAIT, NULL);
        for (int i = 0; i < got; i++)
            note(witness, witness->packets[i], witness->messages[i].msg_len);
    }
}

static bool saw(const struct uro_witness *witness, const struct uro_witness_header *header)
{
    return witness->seen != NULL && *entry_of(witness, header) == hash_of(header);
}

enum uro_witness_word uro_witness_ask(struct uro_witness *witness,
                                      const struct uro_witness_header *header)
{
    if (witness == NULL || witness->rests)
        return URO_WITNESS_CANNOT_SAY;
    if (!saw(witness, header)) {
        look(witness);
        if (!saw(witness, header))
            return witness->proven ? URO_WITNESS_DID_NOT_SEE : URO_WITNESS_CANNOT_SAY;
    }
    witness->proven = true;
    return URO_WITNESS_SAW;
}

/* ---- rest --------------------------------------------------------------- */

void uro_witness_count_plain(struct uro_witness *witness)
{
    if (witness == NULL || witness->proven || witness->rests || witness->never_rests ||
        ++witness->plain < REST_AFTER)
        return;
    witness->rests = listen_at(witness, true);
}

void uro_witness_wake(struct uro_witness *witness)
{
    if (witness == NULL || !witness->rests)
        return;
    witness->plain = 0;
    witness->rests = !listen_at(witness, false);
}
