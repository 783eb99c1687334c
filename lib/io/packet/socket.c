/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.c - see socket.h. */
#define _GNU_SOURCE /* Linux's socket options */
#include "io/packet/socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>

#include "wire/ether.h"
#include "wire/gso.h"
#include "wire/ip.h"

#define SEND_BUFFER   (4 << 20) /* limit of data in the kernel's queues */
#define JOINS_VERSION 6u
#define JOINS_LEVEL   2u

int uro_packet_socket(void)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

    return fd < 0 ? -errno : fd;
}

bool uro_packet_socket_can_join(void)
{
    struct utsname name;
    unsigned version, level;

    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &version, &level) == 2 &&
           (version > JOINS_VERSION || (version == JOINS_VERSION && level >= JOINS_LEVEL));
}

/* Attaches a filter that drops all IPv4 and IPv6 packets except RoCE, ICMP, IGMP and MLD, so that
 * the kernel does not copy other IP traffic of the interface. Offsets are those of a frame without
 * a VLAN tag, because the kernel removes the tag. */
static void filter(int fd)
{
    /* clang-format off */
    struct sock_filter code[] = {
        /*  0 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        /*  1 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 2, 0),
        /*  2 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 10, 0),
        /*  3 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX), /* ARP, and all other protocols but IP */

        /*  4 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23), /* protocol */
        /*  5 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMP, 15, 0),
        /*  6 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_IGMP, 14, 0),
        /*  7 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 14),
        /*  8 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20), /* no later fragments */
        /*  9 */ BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 12, 0),
        /* 10 */ BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
        /* 11 */ BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16), /* destination port */
        /* 12 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, URO_ROCE_PORT, 8, 9),

        /* 13 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20), /* next header */
        /* 14 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 6, 0),
        /* 15 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 3, 0),
        /* 16 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_HOPOPTS, 0, 5),
        /* 17 */ BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 54), /* the header after the options */
        /* 18 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ICMPV6, 2, 3),
        /* 19 */ BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56), /* destination port */
        /* 20 */ BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, URO_ROCE_PORT, 0, 1),
        /* 21 */ BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
        /* 22 */ BPF_STMT(BPF_RET | BPF_K, 0),
    };
    /* clang-format on */
    struct sock_fprog program = { .len = URO_ARRAY_LEN(code), .filter = code };

    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

void uro_packet_socket_teach(int fd, int interface, bool alien, bool qdisc_bypass)
{
    const int one = 1, bypass = qdisc_bypass;
    const int size = SEND_BUFFER;
    /* Receives multicast, and with @alien packets to any address, until the socket is closed. */
    const struct packet_mreq want = { .mr_ifindex = interface,
                                      .mr_type = alien ? PACKET_MR_PROMISC : PACKET_MR_ALLMULTI };

    /* Ignores packets that other sockets send over the interface. */
    (void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    (void)setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &bypass, sizeof bypass);
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size) != 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    (void)setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &want, sizeof want);
    filter(fd);
}

int uro_packet_socket_bind(int fd, int interface)
{
    const uint8_t octets[2] = { ETH_P_ALL >> 8, ETH_P_ALL & 0xff };
    struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_ifindex = interface };

    __builtin_memcpy(&at.sll_protocol, octets, sizeof octets);
    return bind(fd, (struct sockaddr *)&at, sizeof at) != 0 ? -errno : 0;
}

uint32_t uro_packet_socket_drops(int fd)
{
    struct tpacket_stats reported = { 0 };
    socklen_t length = sizeof reported;

    return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &reported, &length) == 0
               ? reported.tp_drops
               : 0;
}

void uro_packet_socket_forget_error(int fd)
{
    int error;
    socklen_t length = sizeof error;

    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
}

/* ---- the receive ring -------------------------------------------------- */

#define BLOCK_USUAL (1u << 20)
#define SLOT_GRAIN  TPACKET_ALIGNMENT

static uint8_t *slot_at(const struct uro_packet_ring *ring, uint32_t index)
{
    const uint32_t in_block = ring->block / ring->slot;

    return ring->memory + (size_t)(index / in_block) * ring->block +
           (size_t)(index % in_block) * ring->slot;
}

static uint32_t round_up(uint32_t value, uint32_t to)
{
    return (value + to - 1) / to * to;
}

int uro_packet_ring_open(struct uro_packet_ring *ring, int fd, uint32_t slot, uint32_t slots,
                         uint32_t block, bool described)
{
    const int version = TPACKET_V2;

    *ring = (struct uro_packet_ring){ .slot = round_up(slot, SLOT_GRAIN), .described = described };
    ring->block = block != 0 ? block : BLOCK_USUAL;
    if (ring->block < ring->slot)
        ring->block = round_up(ring->slot, 4096);
    const uint32_t in_block = ring->block / ring->slot;
    const uint32_t blocks = (slots + in_block - 1) / in_block;
    ring->slots = blocks * in_block;
    struct tpacket_req want = { .tp_block_size = ring->block,
                                .tp_block_nr = blocks,
                                .tp_frame_size = ring->slot,
                                .tp_frame_nr = ring->slots };
    if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &want, sizeof want) != 0)
        return -errno;
    ring->size = (size_t)blocks * ring->block;
    void *memory = mmap(NULL, ring->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    ring->memory = memory;
    return 0;
}

void uro_packet_ring_close(struct uro_packet_ring *ring)
{
    if (ring->memory != NULL)
        (void)munmap(ring->memory, ring->size);
    *ring = (struct uro_packet_ring){ 0 };
}

int uro_packet_ring_renew(struct uro_packet_ring *ring, int fd)
{
    const struct uro_packet_ring like = *ring;
    struct tpacket_req none = { 0 };
    int status;

    URO_ASSERT(ring->held == 0);
    uro_packet_ring_close(ring);
    if (setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &none, sizeof none) != 0)
        status = -errno;
    else
        status = uro_packet_ring_open(ring, fd, like.slot, like.slots, like.block, like.described);
    if (status != 0) /* keeps the sizes, to try again later */
        *ring = (struct uro_packet_ring){
            .slot = like.slot, .slots = like.slots, .block = like.block, .described = like.described
        };
    return status;
}

static struct tpacket2_hdr *header_at(const struct uro_packet_ring *ring, uint32_t index)
{
    return (struct tpacket2_hdr *)(void *)slot_at(ring, index);
}

static bool is_ours(const struct tpacket2_hdr *header)
{
    return (__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0;
}

bool uro_packet_ring_waits(const struct uro_packet_ring *ring)
{
    return ring->memory != NULL && ring->held < ring->slots && is_ours(header_at(ring, ring->next));
}

/* Reads the virtio header in front of the frame. */
static void read_description(struct uro_packet_slot *slot)
{
    struct virtio_net_hdr reported;

    memcpy(&reported, slot->frame - sizeof reported, sizeof reported);
    slot->unsummed |=
        (reported.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0;
    if (reported.gso_type == VIRTIO_NET_HDR_GSO_NONE)
        return;
    slot->segment = reported.gso_size;
    slot->odd |= reported.gso_type != VIRTIO_NET_HDR_GSO_UDP_L4 || reported.gso_size == 0;
}

/* Inserts the VLAN tag into the frame again. The tag moves the MAC addresses into the space of the
 * virtio header. */
static void put_tag_back(struct uro_packet_slot *slot)
{
    slot->frame = uro_ether_insert_tag(slot->frame, slot->tag);
    slot->length += URO_VLAN_LEN;
    slot->here += URO_VLAN_LEN;
}

bool uro_packet_ring_take(struct uro_packet_ring *ring, struct uro_packet_slot *slot)
{
    const struct tpacket2_hdr *const header = header_at(ring, ring->next);

    if (!uro_packet_ring_waits(ring))
        return false;
    *slot = (struct uro_packet_slot){ .frame = slot_at(ring, ring->next) + header->tp_mac,
                                      .length = header->tp_len,
                                      .here = header->tp_snaplen,
                                      .tag = header->tp_vlan_tci };
    slot->unsummed = (header->tp_status & (TP_STATUS_CSUMNOTREADY | TP_STATUS_CSUM_VALID)) != 0;
    slot->tagged = (header->tp_status & TP_STATUS_VLAN_VALID) != 0;
    slot->odd = slot->tagged && (header->tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 &&
                header->tp_vlan_tpid != URO_ETHERTYPE_VLAN;
    if (ring->described)
        read_description(slot);
    if (slot->unsummed && slot->segment == 0)
        uro_gso_forget_checksum(slot->frame, slot->here);
    if (slot->tagged && slot->segment == 0)
        put_tag_back(slot);
    ring->next = ring->next + 1 == ring->slots ? 0 : ring->next + 1;
    ring->held++;
    ring->moved = true;
    return true;
}

void uro_packet_ring_give(struct uro_packet_ring *ring, uint32_t count)
{
    URO_ASSERT(count <= ring->held);
    ring->held -= count;
    for (uint32_t i = 0; i < count; i++) {
        struct tpacket2_hdr *const header = header_at(ring, ring->done);
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        ring->done = ring->done + 1 == ring->slots ? 0 : ring->done + 1;
    }
}
