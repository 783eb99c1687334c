/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c - see ring.h. */
#define _GNU_SOURCE /* MAP_POPULATE */
#include "io/packet/ring.h"

#include <errno.h>
#include <string.h>

#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "io/packet/virtio.h"
#include "wire/ether.h"
#include "wire/gso.h"

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
    struct virtio_net_hdr said;

    memcpy(&said, slot->frame - sizeof said, sizeof said);
    slot->unsummed |=
        (said.flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0;
    if (said.gso_type == VIRTIO_NET_HDR_GSO_NONE)
        return;
    slot->segment = said.gso_size;
    slot->odd |= said.gso_type != VIRTIO_NET_HDR_GSO_UDP_L4 || said.gso_size == 0;
}

/* Inserts the VLAN tag into the frame again. The virtio header in front of the frame left room for
 * it. */
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
