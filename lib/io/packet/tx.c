/* SPDX-License-Identifier: BSD-3-Clause */
/* tx.c - see tx.h. */
#define _GNU_SOURCE /* sendmmsg */
#include "io/packet/tx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/packet/socket.h"
#include "wire/gso.h"

#define SHORTEST                                                                                   \
    60u /* shortest Ethernet frame without FCS; a NIC may pad a shorter frame with old data */
#define DESCRIPTION sizeof(struct virtio_net_hdr)
#define BEFORE      16u /* bytes for the virtio header, so that frames stay aligned */
#define AT_CHECKSUM 6u  /* offset in the UDP header */
#define EACH_MORE   (BEFORE + SHORTEST)

static_assert(DESCRIPTION <= BEFORE, "it stands in front of a frame");
static_assert(URO_PORT_BURST <= URO_GSO_PACKETS_MAX, "a burst may be one frame");

/* A frame to send. It has one packet, or several packets that the kernel segments. */
struct uro_packet_tx_frame {
    uint8_t *ether; /* the Ethernet header, after the virtio header */
    uint32_t length;
    uint32_t head;    /* bytes before the UDP payload; 0: no packet can be appended */
    uint32_t segment; /* UDP payload of the first packet, bytes; valid if `head` is not 0 */
    uint32_t packets;
    struct iovec octets;
};

bool uro_packet_tx_open(struct uro_packet_tx *tx, int fd, uint32_t frame_max, bool described,
                        bool joins)
{
    *tx = (struct uro_packet_tx){
        .fd = fd, .described = described, .joins = described && joins, .frame_max = frame_max
    };
    tx->memory = malloc((size_t)URO_PORT_BURST * (frame_max + EACH_MORE));
    tx->messages = calloc(URO_PORT_BURST, sizeof tx->messages[0]);
    tx->frames = calloc(URO_PORT_BURST, sizeof tx->frames[0]);
    return tx->memory != NULL && tx->messages != NULL && tx->frames != NULL;
}

void uro_packet_tx_close(struct uro_packet_tx *tx)
{
    free(tx->memory);
    free(tx->messages);
    free(tx->frames);
    *tx = (struct uro_packet_tx){ .fd = -1 };
}

/* ---- frames ---------------------------------------------------------------- */

/* Returns whether @frame, with @payload bytes of UDP payload, can be appended to the last
 * frame. */
static bool follows(const struct uro_packet_tx *tx, const struct uro_tx *frame, uint32_t payload)
{
    if (!tx->joins || tx->count == 0 || !frame->icrc)
        return false;
    const struct uro_packet_tx_frame *last = &tx->frames[tx->count - 1];

    return last->head != 0 && payload <= last->segment &&
           last->length == last->head + last->packets * last->segment &&
           last->length + payload <= URO_GSO_OCTETS_MAX &&
           uro_gso_same_flow(last->ether, frame->head, last->head);
}

static uint32_t head_of(const struct uro_tx *frame)
{
    return frame->icrc ? uro_gso_head(frame->head, frame->head_length) : 0;
}

static void begin(struct uro_packet_tx *tx, const struct uro_tx *frame, uint8_t *ether,
                  uint32_t length)
{
    const uint32_t head = head_of(frame);

    uro_tx_write(frame, ether);
    tx->frames[tx->count++] = (struct uro_packet_tx_frame){
        .ether = ether, .length = length, .head = head, .segment = length - head, .packets = 1
    };
}

/* Appends a packet. The ICRC covers the IPv4 identification. The engine writes 0 as the
 * identification of each packet, but the kernel changes it to 0, 1, 2 and so on in the packets of a
 * frame. So the ICRC is computed with the identification that the kernel will write. */
static void append(struct uro_packet_tx_frame *to, const struct uro_tx *frame, uint32_t payload)
{
    const bool v6 = to->head == URO_GSO_HEAD_MAX;

    uro_tx_write_from(frame, to->head, v6 ? 0 : (uint16_t)to->packets, to->ether + to->length);
    to->length += payload;
    to->packets++;
}

/* Writes the virtio header in front of the frame. */
static void describe(const struct uro_packet_tx_frame *frame)
{
    struct virtio_net_hdr header = { .hdr_len = (uint16_t)frame->head };

    if (frame->packets > 1)
        header = (struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                          .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
                                          .hdr_len = (uint16_t)frame->head,
                                          .gso_size = (uint16_t)frame->segment,
                                          .csum_start = (uint16_t)(frame->head - URO_UDP_LEN),
                                          .csum_offset = AT_CHECKSUM };
    memcpy(frame->ether - DESCRIPTION, &header, DESCRIPTION);
}

static void finish(struct uro_packet_tx *tx, uint32_t i)
{
    struct uro_packet_tx_frame *frame = &tx->frames[i];
    const size_t before = tx->described ? DESCRIPTION : 0;

    if (frame->length < SHORTEST) {
        memset(frame->ether + frame->length, 0, SHORTEST - frame->length);
        frame->length = SHORTEST;
    }
    if (frame->packets > 1)
        uro_gso_join(frame->ether, frame->head, frame->length - frame->head);
    if (tx->described)
        describe(frame);
    frame->octets = (struct iovec){ frame->ether - before, frame->length + before };
    tx->messages[i].msg_hdr = (struct msghdr){ .msg_iov = &frame->octets, .msg_iovlen = 1 };
}

void uro_packet_tx_send(struct uro_packet_tx *tx, const struct uro_tx *frames, uint32_t count,
                        uint32_t longest)
{
    uint8_t *ether = tx->memory + BEFORE;

    URO_ASSERT(tx->first == tx->count && count <= URO_PORT_BURST);
    tx->first = tx->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t length = uro_tx_length(&frames[i]);
        if (length > tx->frame_max || length > longest) {
            tx->dropped++;
            continue;
        }
        if (tx->count > 0 && follows(tx, &frames[i], length - tx->frames[tx->count - 1].head)) {
            struct uro_packet_tx_frame *last = &tx->frames[tx->count - 1];
            append(last, &frames[i], length - last->head);
            ether = last->ether + last->length + EACH_MORE;
            continue;
        }
        begin(tx, &frames[i], ether, length);
        ether += length + EACH_MORE;
    }
    for (uint32_t i = 0; i < tx->count; i++)
        finish(tx, i);
    (void)uro_packet_tx_flush(tx);
}

/* ---- the kernel ------------------------------------------------------------ */

static bool send_one(const struct uro_packet_tx *tx, struct msghdr *header)
{
    return sendmsg(tx->fd, header, MSG_DONTWAIT) >= 0;
}

/* Sends the packets of a frame one by one, because the kernel or the interface does not segment
 * it. */
static void send_apart(struct uro_packet_tx *tx)
{
    const struct uro_packet_tx_frame *frame = &tx->frames[tx->first];
    uint8_t head[BEFORE + URO_GSO_HEAD_MAX] = { 0 }, fill[SHORTEST] = { 0 };
    struct iovec parts[3] = { { head + BEFORE - DESCRIPTION, DESCRIPTION + frame->head },
                              { NULL, 0 },
                              { fill, 0 } };
    struct msghdr header = { .msg_iov = parts, .msg_iovlen = 3 };

    for (uint32_t k = 0; k < frame->packets; k++) {
        const uint32_t from = frame->head + k * frame->segment;
        const uint32_t left = frame->length - from;
        parts[1].iov_base = frame->ether + from;
        parts[1].iov_len = left < frame->segment ? left : frame->segment;
        const size_t length = frame->head + parts[1].iov_len;
        parts[2].iov_len = length < SHORTEST ? SHORTEST - length : 0;
        uro_gso_cut(frame->ether, frame->head, k, (uint32_t)parts[1].iov_len, head + BEFORE);
        tx->dropped += !send_one(tx, &header);
    }
    tx->joins = false;
    tx->first++;
}

static void drop_first(struct uro_packet_tx *tx)
{
    tx->dropped += tx->frames[tx->first].packets;
    tx->first++;
}

/* Handles error @reason of the first frame. Returns true when the next frame, or the same frame
 * again, may be sent. */
static bool recover(struct uro_packet_tx *tx, int reason)
{
    switch (reason) {
    case EAGAIN:
    case ENOMEM:
        return false;
    case EINTR:
        return true;
    case EINVAL:
        if (tx->frames[tx->first].packets > 1) {
            send_apart(tx);
            return true;
        }
        drop_first(tx);
        return true;
    default: /* ENETDOWN, ENXIO: no link; EMSGSIZE: too long; ENOBUFS: queue full */
        drop_first(tx);
        return true;
    }
}

/* Sends frames. sendmmsg() costs more than sendmsg(). */
static int hand_over(struct uro_packet_tx *tx)
{
    struct mmsghdr *first = &tx->messages[tx->first];

    if (tx->count - tx->first > 1)
        return sendmmsg(tx->fd, first, tx->count - tx->first, MSG_DONTWAIT);
    return send_one(tx, &first->msg_hdr) ? 1 : -1;
}

bool uro_packet_tx_flush(struct uro_packet_tx *tx)
{
    while (tx->first < tx->count) {
        const int sent = hand_over(tx);
        if (sent > 0)
            tx->first += (uint32_t)sent;
        else if (!recover(tx, errno))
            return false;
    }
    return true;
}

void uro_packet_tx_drop(struct uro_packet_tx *tx)
{
    while (tx->first < tx->count)
        drop_first(tx);
}
