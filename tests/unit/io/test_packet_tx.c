/* SPDX-License-Identifier: BSD-3-Clause */
/* test_packet_tx.c - tests the system calls by which a port sends on a packet socket, and its
 * reaction to their errors. */
#define _GNU_SOURCE /* struct mmsghdr */
#include "support/check.h"

#include <errno.h>
#include <string.h>

#include <linux/virtio_net.h>

#include "io/packet/tx.h"
#include "support/make_frame.h"
#include "wire/gso.h"

#define FD           17
#define FRAME_MAX    4300u
#define WRITE_MIDDLE 0x07
#define UDP_L4       5
#define SENT_MAX     64u

/* Frames that the kernel got. */
static struct sent {
    uint8_t octets[70000];
    uint32_t length;
} sent[SENT_MAX];
static uint32_t sent_count;
static uint32_t takes;    /* number of calls that succeed before a call fails */
static int refusal;       /* errno of the failing call; 0: no call fails */
static bool refuses_many; /* several packets in one frame are EINVAL */

static struct uro_packet_tx tx;
static uint8_t data[4096 + URO_PORT_BURST];
static struct uro_tx frames[URO_PORT_BURST];

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags);

static bool is_many(const struct msghdr *message)
{
    const struct virtio_net_hdr *said = message->msg_iov[0].iov_base;

    return tx.described && said->gso_type != 0;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    assert_int_equal(fd, FD);
    assert_int_equal(flags, MSG_DONTWAIT);
    if (refuses_many && is_many(message)) {
        errno = EINVAL;
        return -1;
    }
    if (refusal != 0 && takes-- == 0) {
        errno = refusal;
        refusal = 0;
        return -1;
    }
    assert_true(sent_count < SENT_MAX);
    struct sent *to = &sent[sent_count++];
    to->length = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        memcpy(to->octets + to->length, message->msg_iov[i].iov_base, message->msg_iov[i].iov_len);
        to->length += (uint32_t)message->msg_iov[i].iov_len;
    }
    return (ssize_t)to->length;
}

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    unsigned i = 0;

    while (i < count && __wrap_sendmsg(fd, &messages[i].msg_hdr, flags) >= 0)
        i++;
    if (i == 0)
        return -1;
    if (i < count && !refuses_many) { /* the next call fails at its first message */
        refusal = errno;
        takes = 0;
    }
    return (int)i;
}

static int start_with(bool described, bool joins)
{
    sent_count = 0;
    refusal = 0;
    refuses_many = false;
    for (uint32_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 5 + (i >> 8));
    return uro_packet_tx_open(&tx, FD, FRAME_MAX, described, joins) ? 0 : -1;
}

static int start(void **state)
{
    (void)state;
    return start_with(true, true);
}

static int stop(void **state)
{
    (void)state;
    uro_packet_tx_close(&tx);
    return 0;
}

/* Describes frame @i: a packet with @payload bytes. Another @port makes another flow. */
static void describe_frame(uint32_t i, bool v6, uint32_t payload, uint16_t port)
{
    uint8_t octets[MADE_FRAME_MAX];
    struct uro_frame frame = plain_frame(v6, WRITE_MIDDLE, data + i, payload);

    frame.bth.psn = 100 + i;
    frame.udp.source_port = port;
    const uint32_t length = make_frame(&frame, octets);
    frames[i] = (struct uro_tx){
        .icrc = true,
        .icrc_v6 = v6,
        .network_at = URO_ETHER_LEN,
        .pad_count = frame.bth.pad_count,
        .payload_length = payload,
        .span_count = 1,
        .spans = { { data + i, payload } },
        .head_length = (uint16_t)(length - payload - frame.bth.pad_count - URO_ICRC_LEN),
    };
    memcpy(frames[i].head, octets, frames[i].head_length);
}

/* Checks that packet @k of send number @i is frame @frame. */
static void is_frame(uint32_t i, uint32_t k, uint32_t frame)
{
    const uint8_t *octets = sent[i].octets;
    uint32_t length = sent[i].length;
    uint8_t cut[MADE_FRAME_MAX];
    struct virtio_net_hdr said = { 0 };
    struct uro_frame read;

    if (tx.described) {
        memcpy(&said, octets, sizeof said);
        octets += sizeof said;
        length -= (uint32_t)sizeof said;
    }
    if (said.gso_type != 0) {
        const uint32_t head = uro_gso_head(octets, length), at = head + k * said.gso_size;
        const uint32_t payload = length - at < said.gso_size ? length - at : said.gso_size;
        assert_int_equal(said.gso_type, UDP_L4);
        assert_int_equal(said.flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
        assert_int_equal(said.hdr_len, head);
        assert_int_equal(said.csum_start, head - URO_UDP_LEN);
        assert_int_equal(said.csum_offset, 6);
        uro_gso_cut(octets, head, k, payload, cut);
        memcpy(cut + head, octets + at, payload);
        octets = cut;
        length = head + payload;
    } else {
        assert_int_equal(k, 0);
        assert_int_equal(said.flags, 0);
        assert_true(said.hdr_len <= length);
    }
    assert_true(length >= 60);
    assert_int_equal(uro_frame_network(octets, length, &read), URO_FRAME_OK);
    assert_int_equal(uro_frame_roce(&read), URO_FRAME_OK);
    assert_int_equal(read.bth.psn, 100 + frame);
    assert_int_equal(read.payload_length, frames[frame].payload_length);
    assert_memory_equal(read.payload, data + frame, read.payload_length);
}

static void send_frames(uint32_t count)
{
    uro_packet_tx_send(&tx, frames, count, FRAME_MAX);
}

/* ---- packets that are sent in one frame ------------------------------------- */

static void leave_together(bool v6)
{
    for (uint32_t i = 0; i < 5; i++)
        describe_frame(i, v6, i < 4 ? 1000 : 600, 5000);
    send_frames(5);
    assert_int_equal(sent_count, 1);
    for (uint32_t i = 0; i < 5; i++)
        is_frame(0, i, i);
}

static void packet_tx__packets_of_a_flow__are_sent_as_one_gso_frame(void **state)
{
    (void)state;
    leave_together(false);
    sent_count = 0;
    leave_together(true);
    assert_int_equal(tx.dropped, 0);
}

static void packet_tx__another_flow_or_a_longer_packet__starts_a_new_gso_frame(void **state)
{
    (void)state;
    describe_frame(0, false, 64, 5000);
    describe_frame(1, false, 64, 5001);
    describe_frame(2, false, 60, 5001); /* shorter: the last packet */
    describe_frame(3, false, 60, 5001);
    describe_frame(4, false, 64, 5001);
    describe_frame(5, true, 64, 5001);
    describe_frame(6, true, 64, 5001);
    send_frames(7);
    assert_int_equal(sent_count, 5);
    is_frame(0, 0, 0);
    is_frame(1, 0, 1);
    is_frame(1, 1, 2);
    is_frame(2, 0, 3);
    is_frame(3, 0, 4);
    is_frame(4, 0, 5);
    is_frame(4, 1, 6);
}

/* A joined frame holds as many packets as the IP length field allows. */
static void packet_tx__more_than_fits_a_gso_frame__starts_a_new_gso_frame(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < URO_PORT_BURST; i++)
        describe_frame(i, false, 4096, 5000);
    send_frames(URO_PORT_BURST);
    const uint32_t each = (URO_GSO_OCTETS_MAX - 42) / (URO_BTH_LEN + 4096 + URO_ICRC_LEN);
    assert_int_equal(sent_count, 3);
    for (uint32_t i = 0; i < URO_PORT_BURST; i++)
        is_frame(i / each, i % each, i);
}

static void packet_tx__frames_other_than_roce__are_sent_alone_and_padded(void **state)
{
    struct uro_tx other = { .head_length = 42 };

    (void)state;
    memset(other.head, 0xff, 42);
    describe_frame(0, false, 64, 5000);
    frames[1] = other;
    frames[2] = other;
    describe_frame(3, false, 64, 5000);
    send_frames(4);
    assert_int_equal(sent_count, 4);
    for (uint32_t i = 1; i < 3; i++) {
        assert_int_equal(sent[i].length, sizeof(struct virtio_net_hdr) + 60);
        assert_int_equal(sent[i].octets[sizeof(struct virtio_net_hdr) + 41], 0xff);
        for (uint32_t k = 42; k < 60; k++)
            assert_int_equal(sent[i].octets[sizeof(struct virtio_net_hdr) + k], 0);
    }
}

static void packet_tx__kernel_without_gso__packets_are_sent_one_by_one(void **state)
{
    (void)state;
    for (unsigned described = 0; described < 2; described++) {
        uro_packet_tx_close(&tx);
        assert_int_equal(start_with(described, false), 0);
        for (uint32_t i = 0; i < 3; i++)
            describe_frame(i, false, 64, 5000);
        send_frames(3);
        assert_int_equal(sent_count, 3);
        for (uint32_t i = 0; i < 3; i++)
            is_frame(i, 0, i);
    }
}

static void packet_tx__too_long__only_that_packet_is_dropped(void **state)
{
    (void)state;
    describe_frame(0, false, 64, 5000);
    describe_frame(1, false, 1100, 5000);
    describe_frame(2, false, 64, 5000);
    uro_packet_tx_send(&tx, frames, 3, 1000);
    assert_int_equal(sent_count, 1);
    is_frame(0, 0, 0);
    is_frame(0, 1, 2);
    assert_int_equal(tx.dropped, 1);
    tx.frame_max = 1000; /* the buffer limits the frame, not the interface */
    uro_packet_tx_send(&tx, frames, 3, 2000);
    assert_int_equal(sent_count, 2);
    assert_int_equal(tx.dropped, 2);
    tx.frame_max = FRAME_MAX;
}

/* ---- errors of the kernel ---------------------------------------------------- */

static void three_flows(void)
{
    for (uint32_t i = 0; i < 3; i++)
        describe_frame(i, false, 64, (uint16_t)(5000 + i));
}

static void packet_tx__queue_full__tried_again(void **state)
{
    static const int whys[] = { EAGAIN, ENOMEM };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(whys); i++) {
        sent_count = 0;
        three_flows();
        takes = 1;
        refusal = whys[i];
        send_frames(3);
        assert_int_equal(tx.count - tx.first, 2);
        refusal = whys[i];
        takes = 0;
        assert_false(uro_packet_tx_flush(&tx));
        assert_true(uro_packet_tx_flush(&tx));
        assert_int_equal(sent_count, 3);
        for (uint32_t k = 0; k < 3; k++)
            is_frame(k, 0, k);
    }
    assert_int_equal(tx.dropped, 0);
}

static void packet_tx__kernel_refuses_a_frame__frame_is_dropped_and_the_rest_sent(void **state)
{
    static const int whys[] = { ENOBUFS, ENETDOWN, EMSGSIZE, EINVAL };

    (void)state;
    for (unsigned i = 0; i < URO_ARRAY_LEN(whys); i++) {
        sent_count = 0;
        three_flows();
        takes = 1;
        refusal = whys[i];
        send_frames(3);
        assert_int_equal(tx.first, tx.count);
        assert_int_equal(sent_count, 2);
        is_frame(0, 0, 0);
        is_frame(1, 0, 2);
        assert_int_equal(tx.dropped, i + 1);
    }
    assert_true(tx.joins);
}

static void packet_tx__interrupted__tried_again(void **state)
{
    (void)state;
    three_flows();
    takes = 0;
    refusal = EINTR;
    send_frames(3);
    assert_int_equal(sent_count, 3);
    assert_int_equal(tx.dropped, 0);
}

static void packet_tx__kernel_refuses_a_gso_frame__later_packets_are_sent_singly(void **state)
{
    (void)state;
    refuses_many = true;
    for (unsigned v6 = 0; v6 < 2; v6++) {
        sent_count = 0;
        tx.joins = true;
        for (uint32_t i = 0; i < 4; i++) /* over IPv4, the last is shorter than a minimum frame */
            describe_frame(i, v6, i < 3 ? 1000 : 0, 5000);
        send_frames(4);
        assert_int_equal(sent_count, 4);
        for (uint32_t i = 0; i < 4; i++)
            is_frame(i, 0, i);
        assert_false(tx.joins);
        send_frames(4);
        assert_int_equal(sent_count, 8);
    }
    assert_int_equal(tx.dropped, 0);
    tx.joins = true; /* a frame of several packets is refused, too */
    sent_count = 0;
    takes = 1;
    refusal = ENOBUFS;
    send_frames(4);
    assert_int_equal(sent_count, 3);
    assert_int_equal(tx.dropped, 1);
}

static void packet_tx__link_is_down__remaining_frames_are_dropped(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++)
        describe_frame(i, false, 64, i < 3 ? 5000 : 5001);
    takes = 0;
    refusal = EAGAIN;
    send_frames(5);
    uro_packet_tx_drop(&tx);
    assert_int_equal(tx.dropped, 5);
    assert_true(uro_packet_tx_flush(&tx));
    assert_int_equal(sent_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
        TEST(packet_tx__packets_of_a_flow__are_sent_as_one_gso_frame),
        TEST(packet_tx__another_flow_or_a_longer_packet__starts_a_new_gso_frame),
        TEST(packet_tx__more_than_fits_a_gso_frame__starts_a_new_gso_frame),
        TEST(packet_tx__frames_other_than_roce__are_sent_alone_and_padded),
        TEST(packet_tx__kernel_without_gso__packets_are_sent_one_by_one),
        TEST(packet_tx__too_long__only_that_packet_is_dropped),
        TEST(packet_tx__queue_full__tried_again),
        TEST(packet_tx__kernel_refuses_a_frame__frame_is_dropped_and_the_rest_sent),
        TEST(packet_tx__interrupted__tried_again),
        TEST(packet_tx__kernel_refuses_a_gso_frame__later_packets_are_sent_singly),
        TEST(packet_tx__link_is_down__remaining_frames_are_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
