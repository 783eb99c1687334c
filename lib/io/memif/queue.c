/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.c - the rings, and the memory of the rings: see memif.h. */
#define _GNU_SOURCE /* memfd_create, F_ADD_SEALS */

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "io/memif/memif.h"
#include "wire/frame.h"

/* Number of receive() calls without a frame between two checks of the control connection: while the
 * link is down, and while it is up. Each check takes system calls. */
#define DOWN_CALLS 16u
#define IDLE_CALLS 4096u
#define HEAD_USUAL (URO_ETHER_LEN + URO_IPV4_LEN + URO_UDP_LEN + URO_BTH_LEN)
#define MUCH       512u /* bytes of the smallest payload that is placed at a cache line */
#define LINE       64u  /* bytes of a cache line */
#define SHORTEST   60u  /* shortest Ethernet frame without FCS */

/* ---- making and joining ------------------------------------------------- */

static size_t ring_bytes(uint32_t slots)
{
    return sizeof(struct uro_memif_ring) + slots * sizeof(struct uro_memif_desc);
}

/* Returns the distance between two buffers, in bytes. Reading and writing a large payload takes a
 * third less time when the payload begins at a cache line. So a buffer has one extra line, and the
 * headers of a large frame end with a line. */
static uint32_t stride(const struct uro_memif *memif)
{
    return memif->options.buffer + LINE;
}

static uint32_t before_head(uint32_t head_length, uint32_t payload_length)
{
    return payload_length < MUCH ? 0 : (LINE - head_length % LINE) % LINE;
}

static bool make_queue(struct uro_memif *memif, struct uro_memif_queue *queue, size_t offset,
                       size_t buffers_at)
{
    const uint32_t slots = 1u << memif->options.slots_log2;

    *queue = (struct uro_memif_queue){ .ring = (void *)(memif->regions[0].base + offset),
                                       .slots = slots,
                                       .doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
                                       .buffers = malloc(slots * sizeof(uint32_t)),
                                       .spare = malloc(slots * sizeof(uint32_t)) };
    if (queue->buffers == NULL || queue->spare == NULL || queue->doorbell < 0)
        return false;
    queue->ring->cookie = URO_MEMIF_COOKIE;
    atomic_init(&queue->ring->flags, URO_MEMIF_NO_INTERRUPT);
    for (uint32_t i = 0; i < slots; i++)
        queue->spare[i] = queue->buffers[i] =
            (uint32_t)(buffers_at + (size_t)(slots - 1 - i) * stride(memif));
    queue->spare_count = slots;
    return true;
}

/* Offers the empty buffer of a slot to the server, which fills the client's buffers. */
static void offer(const struct uro_memif *memif, uint32_t slot)
{
    const struct uro_memif_queue *in = &memif->in;

    uro_memif_slot_put(
        &in->ring->slots[slot],
        (struct uro_memif_desc){ .length = memif->options.buffer, .offset = in->buffers[slot] });
}

bool uro_memif_queue_make(struct uro_memif *memif)
{
    const uint32_t slots = 1u << memif->options.slots_log2;
    const size_t ring = (ring_bytes(slots) + LINE - 1) / LINE * LINE;
    const size_t buffers = (size_t)slots * stride(memif);

    return 2 * (ring + buffers) <= UINT32_MAX &&
           uro_memif_region_make(&memif->regions[0], 2 * (ring + buffers)) &&
           make_queue(memif, &memif->out, 0, 2 * ring) &&
           make_queue(memif, &memif->in, ring, 2 * ring + buffers + before_head(HEAD_USUAL, MUCH));
}

/* Starts the rings when both sides are connected. The client offers its buffers only now, because a
 * server may reset the indices to 0 once it has received all messages. */
void uro_memif_queue_start(struct uro_memif *memif)
{
    struct uro_memif_queue *in = &memif->in;

    /* Populates only the first region, because a peer could add many regions. */
    uro_memif_region_populate(&memif->regions[0]);
    if (memif->options.server)
        return;
    for (uint32_t i = 0; i < in->slots; i++)
        offer(memif, i);
    atomic_store(&in->ring->head, (uint16_t)in->slots);
}

const char *uro_memif_queue_join(struct uro_memif *memif, struct uro_memif_queue *queue,
                                 uint32_t region, uint32_t offset, uint32_t slots_log2)
{
    if (slots_log2 > URO_MEMIF_SLOTS_LOG2)
        return "a ring is too long";
    uint32_t slots = 1u << slots_log2;
    uint8_t *memory =
        uro_memif_region_find(memif->regions, region, offset, (uint32_t)ring_bytes(slots));
    if (memory == NULL || (uintptr_t)memory % sizeof(uint64_t) != 0)
        return "a ring outside its region or misaligned";
    struct uro_memif_ring *ring = (void *)memory;
    if (ring->cookie != URO_MEMIF_COOKIE)
        return "a ring with a wrong cookie";
    uint16_t tail = atomic_load(&ring->tail);
    *queue = (struct uro_memif_queue){
        .ring = ring, .slots = slots, .next = tail, .done = tail, .doorbell = -1
    };
    return NULL;
}

void uro_memif_queue_close(struct uro_memif_queue *queue)
{
    if (queue->doorbell >= 0)
        (void)close(queue->doorbell);
    free(queue->buffers);
    free(queue->spare);
    *queue = (struct uro_memif_queue){ .doorbell = -1 };
}

/* ---- frames in ---------------------------------------------------------- */

struct piece {
    const uint8_t *data;
    uint32_t length;
    bool more;
};

static struct piece piece_of(struct uro_memif *memif, uint16_t slot)
{
    const struct uro_memif_queue *in = &memif->in;
    const uint32_t index = slot & (in->slots - 1);
    const struct uro_memif_desc desc = uro_memif_slot_get(&in->ring->slots[index]);
    struct piece piece = { .length = desc.length, .more = (desc.flags & URO_MEMIF_NEXT) != 0 };

    if (in->buffers == NULL)
        piece.data = uro_memif_region_find(memif->regions, desc.region, desc.offset, desc.length);
    else if (desc.length <= memif->options.buffer)
        piece.data = memif->regions[0].base + in->buffers[index];
    if (piece.data != NULL)
        return piece;
    memif->complaint = "a descriptor points outside the regions";
    return (struct piece){ .data = memif->longest };
}

static uint16_t filled(const struct uro_memif *memif)
{
    struct uro_memif_ring *ring = memif->in.ring;

    return memif->options.server ? atomic_load_explicit(&ring->head, memory_order_acquire)
                                 : atomic_load_explicit(&ring->tail, memory_order_acquire);
}

/* Returns the number of slots with frames; also 0 when the index of the other side is wrong. */
static uint32_t waiting(struct uro_memif *memif)
{
    uint16_t count = (uint16_t)(filled(memif) - memif->in.next);

    if (count <= memif->in.slots)
        return count;
    memif->complaint = "a ring's index is wrong";
    return 0;
}

/* Copies a frame from several buffers into memif->longest. Returns the number of the frame's slots,
 * or 0 when the last slot has not arrived yet. */
static uint32_t join_pieces(struct uro_memif *memif, uint32_t slots, struct uro_pkt *pkt)
{
    uint32_t length = 0;

    for (uint32_t i = 0; i < slots; i++) {
        struct piece piece = piece_of(memif, (uint16_t)(memif->in.next + i));
        if (piece.length <= URO_MEMIF_LONGEST - length)
            memcpy(memif->longest + length, piece.data, piece.length);
        length +=
            piece.length <= URO_MEMIF_LONGEST - length ? piece.length : URO_MEMIF_LONGEST - length;
        if (piece.more)
            continue;
        *pkt = (struct uro_pkt){ .octets = memif->longest, .length = length };
        return i + 1;
    }
    return 0;
}

/* Returns the frame of one buffer. Copies a short frame, or the headers of a data packet, to @head.
 * Copies other frames to memif->longest. */
static struct uro_pkt lend(const struct uro_memif *memif, const struct piece *piece, uint8_t *head)
{
    struct uro_pkt pkt = { .octets = head, .length = piece->length };

    if (piece->length <= URO_MEMIF_WHOLE) {
        memcpy(head, piece->data, piece->length);
        return pkt;
    }
    memcpy(head, piece->data, URO_FRAME_HEAD);
    if (piece->length <= URO_MEMIF_LONGEST && uro_frame_is_data(head, piece->length)) {
        pkt.indirect = piece->data;
        return pkt;
    }
    pkt.octets = memif->longest;
    pkt.length = piece->length <= URO_MEMIF_LONGEST ? piece->length : URO_MEMIF_LONGEST;
    memcpy(memif->longest, piece->data, pkt.length);
    return pkt;
}

/* Takes the next frame from the @slots filled slots. Returns the number of the frame's slots, or 0
 * when the frame is not complete. */
static uint32_t take(struct uro_memif *memif, uint32_t slots, uint8_t *head, struct uro_pkt *pkt)
{
    struct piece piece = piece_of(memif, memif->in.next);

    if (piece.more)
        return join_pieces(memif, slots, pkt);
    *pkt = lend(memif, &piece, head);
    return 1;
}

static void warm(struct uro_memif *memif, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct piece piece = piece_of(memif, (uint16_t)(memif->in.next + i));
        __builtin_prefetch(piece.data);
        __builtin_prefetch(piece.data + LINE);
    }
}

/* Takes up to @max frames. A burst ends after a frame in memif->longest, because there is only one
 * such buffer. */
static uint32_t take_burst(struct uro_memif *memif, struct uro_pkt *pkts, uint32_t max)
{
    uint32_t slots = waiting(memif), count = 0;

    memif->partial = 0;
    warm(memif, slots < max ? slots : max);
    while (count < max && slots > 0) {
        struct uro_pkt *pkt = &pkts[count];
        uint32_t used = take(memif, slots, memif->heads + (size_t)count * URO_MEMIF_WHOLE, pkt);
        if (used == 0) {
            memif->partial = slots;
            if (slots == memif->in.slots)
                memif->complaint = "a frame is longer than its ring";
            break;
        }
        pkt->owner = (void *)(uintptr_t)used;
        memif->in.next = (uint16_t)(memif->in.next + used);
        slots -= used;
        count++;
        if (pkt->octets == memif->longest)
            break;
    }
    return count;
}

uint32_t uro_memif_receive(struct uro_port *port, struct uro_pkt *pkts, uint32_t max)
{
    struct uro_memif *memif = uro_memif_of(port);

    uint32_t calls = DOWN_CALLS, count = 0;

    if (uro_memif_is_up(memif) && memif->complaint == NULL) {
        calls = IDLE_CALLS;
        count = take_burst(memif, pkts, max < URO_PORT_BURST ? max : URO_PORT_BURST);
    }
    memif->lent += count;
    if (count == 0 && ++memif->idle % calls == 0)
        uro_memif_tend(memif);
    return count;
}

void uro_memif_release(struct uro_port *port, struct uro_pkt *pkts, uint32_t count)
{
    struct uro_memif *memif = uro_memif_of(port);
    struct uro_memif_queue *in = &memif->in;
    uint32_t slots = 0;

    memif->lent -= count;
    for (uint32_t i = 0; i < count; i++)
        slots += (uint32_t)(uintptr_t)pkts[i].owner;
    if (memif->options.server) {
        in->done = (uint16_t)(in->done + slots);
        atomic_store_explicit(&in->ring->tail, in->done, memory_order_release);
        return;
    }
    for (uint32_t i = 0; i < slots; i++)
        offer(memif, in->done++ & (in->slots - 1));
    atomic_store_explicit(&in->ring->head, (uint16_t)(in->done + in->slots), memory_order_release);
}

bool uro_memif_peek(const struct uro_memif *memif)
{
    return uro_memif_is_up(memif) && (uint16_t)(filled(memif) - memif->in.next) != memif->partial;
}

/* ---- frames out --------------------------------------------------------- */

/* In a client, takes back the buffers that the server has emptied. */
static void take_back(struct uro_memif *memif)
{
    struct uro_memif_queue *out = &memif->out;
    uint16_t tail = atomic_load_explicit(&out->ring->tail, memory_order_acquire);

    if ((uint16_t)(tail - out->done) > (uint16_t)(out->next - out->done)) {
        memif->complaint = "a ring's index is wrong";
        return;
    }
    while (out->done != tail)
        out->spare[out->spare_count++] = out->buffers[out->done++ & (out->slots - 1)];
}

static uint32_t free_slots(struct uro_memif *memif)
{
    struct uro_memif_queue *out = &memif->out;

    if (!memif->options.server) {
        take_back(memif);
        return out->spare_count;
    }
    uint16_t head = atomic_load_explicit(&out->ring->head, memory_order_acquire);
    uint16_t count = (uint16_t)(head - out->next);
    if (count <= out->slots)
        return count;
    memif->complaint = "a ring's index is wrong";
    return 0;
}

/* Returns the address for the frame in the next slot's empty buffer, and the descriptor in @desc.
 * In a client, the frame begins @before bytes after the start of the buffer. A server ignores
 * @before, because the client has chosen the address. Returns NULL if the buffer is not in a
 * region. */
static uint8_t *buffer_for(struct uro_memif *memif, uint32_t before, struct uro_memif_desc *desc)
{
    struct uro_memif_queue *out = &memif->out;
    const uint32_t index = out->next & (out->slots - 1);

    if (memif->options.server) {
        *desc = uro_memif_slot_get(&out->ring->slots[index]);
        return uro_memif_region_find(memif->regions, desc->region, desc->offset, desc->length);
    }
    out->buffers[index] = out->spare[--out->spare_count];
    *desc = (struct uro_memif_desc){ .length = memif->options.buffer,
                                     .offset = out->buffers[index] + before };
    return memif->regions[0].base + desc->offset;
}

static void fill_slot(struct uro_memif *memif, struct uro_memif_desc desc, uint32_t length,
                      bool more)
{
    struct uro_memif_queue *out = &memif->out;

    desc.length = length;
    desc.flags = more ? URO_MEMIF_NEXT : 0;
    uro_memif_slot_put(&out->ring->slots[out->next++ & (out->slots - 1)], desc);
}

static uint32_t write_frame(const struct uro_tx *frame, uint32_t length, uint8_t *memory)
{
    uro_tx_write(frame, memory);
    if (length >= SHORTEST)
        return length;
    memset(memory + length, 0, SHORTEST - length);
    return SHORTEST;
}

static uint32_t slots_for(uint32_t length, uint32_t buffer)
{
    return length <= buffer ? 1 : (length + buffer - 1) / buffer;
}

/* Splits the @length bytes of memif->longest_out over the buffer @memory and the buffers of the
 * next slots. Returns false when these buffers are too small for the frame, or outside the
 * regions. */
static bool cut_up(struct uro_memif *memif, uint8_t *memory, struct uro_memif_desc desc,
                   uint32_t length, uint32_t slots)
{
    const uint8_t *from = memif->longest_out;

    while (length > desc.length) {
        const uint32_t part = desc.length;
        if (part == 0 || --slots == 0)
            return false;
        memcpy(memory, from, part);
        from += part;
        length -= part;
        fill_slot(memif, desc, part, true);
        memory = buffer_for(memif, 0, &desc);
        if (memory == NULL)
            return false;
    }
    memcpy(memory, from, length);
    fill_slot(memif, desc, length, false);
    return true;
}

/* Writes a frame to the ring. Returns false when the frame is too long or when no slot is free.
 * Returns false and sets memif->complaint when the buffers are unusable. */
static bool send(struct uro_memif *memif, const struct uro_tx *frame, uint32_t slots)
{
    struct uro_memif_queue *out = &memif->out;
    uint32_t length = uro_tx_length(frame);
    const uint16_t before = out->next;
    struct uro_memif_desc desc;

    if (length > memif->frame_max || slots == 0 ||
        (!memif->options.server && slots_for(length, memif->options.buffer) > slots))
        return false;
    uint8_t *memory =
        buffer_for(memif, before_head(frame->head_length, frame->payload_length), &desc);
    if (memory != NULL && length <= desc.length && SHORTEST <= desc.length) {
        fill_slot(memif, desc, write_frame(frame, length, memory), false);
        return true;
    }
    length = write_frame(frame, length, memif->longest_out);
    if (memory != NULL && cut_up(memif, memory, desc, length, slots))
        return true;
    URO_ASSERT(memif->options.server);
    out->next = before;
    memif->complaint = "the buffers that the other side offers are too small for a frame";
    return false;
}

uint32_t uro_memif_tx_free_count(struct uro_port *port)
{
    struct uro_memif *memif = uro_memif_of(port);
    struct uro_memif_desc desc = { .length = memif->options.buffer };

    if (!uro_memif_is_up(memif) || memif->complaint != NULL)
        return URO_PORT_BURST; /* accepts frames, which transmit() drops */
    uint32_t slots = free_slots(memif);
    if (memif->options.server && slots > 0)
        desc =
            uro_memif_slot_get(&memif->out.ring->slots[memif->out.next & (memif->out.slots - 1)]);
    const uint32_t offered = slots;
    if (desc.length > 0)
        slots /= slots_for(memif->frame_max, desc.length);
    if (slots == 0 && offered == memif->out.slots)
        memif->complaint = "the buffers that the other side offers are too small for a frame";
    return slots < URO_PORT_BURST ? slots : URO_PORT_BURST;
}

/* Publishes the written frames, and wakes the receiver if it sleeps. The fence orders the store of
 * the index before the load of the flag URO_MEMIF_NO_INTERRUPT. A receiver clears this flag before
 * it checks the ring for the last time and sleeps. */
static void publish(struct uro_memif *memif)
{
    struct uro_memif_queue *out = &memif->out;

    atomic_store_explicit(memif->options.server ? &out->ring->tail : &out->ring->head, out->next,
                          memory_order_release);
    atomic_thread_fence(memory_order_seq_cst);
    if ((atomic_load_explicit(&out->ring->flags, memory_order_relaxed) & URO_MEMIF_NO_INTERRUPT) ==
            0 &&
        out->doorbell >= 0)
        uro_memif_peer_fd_ring(&memif->peer_fd, out->doorbell);
}

void uro_memif_transmit(struct uro_port *port, const struct uro_tx *frames, uint32_t count)
{
    struct uro_memif *memif = uro_memif_of(port);

    if (!uro_memif_is_up(memif) || memif->complaint != NULL) {
        memif->tx_dropped += count;
        return;
    }
    uint32_t slots = free_slots(memif);
    for (uint32_t i = 0; i < count; i++) {
        const uint16_t before = memif->out.next;
        if (!send(memif, &frames[i], slots))
            memif->tx_dropped++;
        slots -= (uint16_t)(memif->out.next - before);
    }
    publish(memif);
}

void uro_memif_arm(struct uro_memif *memif, bool wanted)
{
    if (memif->in.ring == NULL)
        return;
    atomic_store(&memif->in.ring->flags, (uint16_t)(wanted ? 0 : URO_MEMIF_NO_INTERRUPT));
    atomic_thread_fence(memory_order_seq_cst); /* pairs with the fence in publish() */
}

/* ---- shared memory ----------------------------------------------------- */

/* Offsets have 32 bits, so a larger region would only waste address space. */
#define REGION_MAX ((uint64_t)1 << 32)

/* The client can free huge pages of the file at any time. If the pool of huge pages is then empty,
 * an access ends the process with SIGBUS, even after populating the mapping. */
#define HUGE_PAGES 0x958458f6ul /* HUGETLBFS_MAGIC */

static bool map(struct uro_memif_region *region, int fd, size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (memory == MAP_FAILED)
        return false;
    region->base = memory;
    region->size = size;
    return true;
}

bool uro_memif_region_make(struct uro_memif_region *region, size_t size)
{
    *region = (struct uro_memif_region){ .fd = memfd_create("uroce-memif",
                                                            MFD_CLOEXEC | MFD_ALLOW_SEALING) };
    if (region->fd >= 0 && ftruncate(region->fd, (off_t)size) == 0 &&
        fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0 &&
        map(region, region->fd, size))
        return true;
    uro_memif_region_drop(region);
    return false;
}

const char *uro_memif_region_map(struct uro_memif_region *region, int fd, uint64_t size)
{
    struct statfs system;
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);

    *region = (struct uro_memif_region){ .fd = -1 };
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return "memory must be a memfd that is sealed against shrinking";
    if (fstatfs(fd, &system) != 0 || (unsigned long)system.f_type == HUGE_PAGES)
        return "memory must not be of huge pages";
    if (size > REGION_MAX)
        return "a region is too large for descriptors";
    if (size == 0 || fstat(fd, &status) != 0 || status.st_size < 0 ||
        (uint64_t)status.st_size < size)
        return "a region is longer than its file";
    return map(region, fd, (size_t)size) ? NULL : "a region could not be mapped";
}

/* Larger regions are not populated. A link with default rings needs much less memory. */
#define POPULATED_MAX ((size_t)32 << 20)

void uro_memif_region_populate(const struct uro_memif_region *region)
{
    /* The advice exists since Linux 5.14. If it fails, only the first frames are slower. */
    if (region->size <= POPULATED_MAX)
        (void)madvise(region->base, region->size, MADV_POPULATE_WRITE);
}

void uro_memif_region_drop(struct uro_memif_region *region)
{
    if (region->base != NULL)
        (void)munmap(region->base, region->size);
    if (region->fd >= 0)
        (void)close(region->fd);
    *region = (struct uro_memif_region){ .fd = -1 };
}
