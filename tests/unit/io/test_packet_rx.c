/* SPDX-License-Identifier: BSD-3-Clause */
/* test_packet_rx.c - tests the receive ring of a packet socket. The test fills it like the kernel
 * (packet(7), TPACKET_V2). */
#include "support/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/if_packet.h>
#include <linux/virtio_net.h>

#include "io/packet/rx.h"
#include "support/make_frame.h"
#include "wire/gso.h"

#define SLOT         8192u
#define SLOTS        4u
#define AT           76u /* offset of the frame in its slot */
#define WRITE_MIDDLE 0x07
#define SEND_ONLY    0x04
#define UDP_L4       5
#define TCP_V4       1

static uint8_t *memory;
static struct uro_packet_ring ring;
static struct uro_packet_rx rx;
static uint32_t next; /* slot that the kernel fills next */
static struct uro_pkt pkts[URO_PORT_BURST];
static uint8_t data[4096];
static uint8_t made[MADE_FRAME_MAX];
static uint8_t joined[70000];

static int start(void **state)
{
    (void)state;
    memory = aligned_alloc(64, SLOT * SLOTS);
    ring = (struct uro_packet_ring){
        .memory = memory, .slot = SLOT, .slots = SLOTS, .block = 2 * SLOT, .described = true
    };
    memset(ring.memory, 0, SLOT * SLOTS);
    next = 0;
    return uro_packet_rx_open(&rx, &ring) ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    uro_packet_rx_close(&rx);
    free(memory);
    return 0;
}

static struct tpacket2_hdr *header_of(uint32_t slot)
{
    return (struct tpacket2_hdr *)(void *)(ring.memory + (size_t)slot * SLOT);
}

/* Writes a frame to the next slot as the kernel does, as much of it as fits. */
static struct tpacket2_hdr *arrive(const uint8_t *frame, uint32_t length,
                                   struct virtio_net_hdr said)
{
    struct tpacket2_hdr *header = header_of(next);
    uint8_t *const at = (uint8_t *)header + AT;

    assert_int_equal(header->tp_status, TP_STATUS_KERNEL);
    header->tp_mac = AT;
    header->tp_len = length;
    header->tp_snaplen = length < SLOT - AT ? length : SLOT - AT;
    memcpy(at, frame, header->tp_snaplen);
    memcpy(at - sizeof said, &said, sizeof said);
    header->tp_status = TP_STATUS_USER;
    next = (next + 1) % SLOTS;
    return header;
}

/* Delivers @count packets of @payload bytes each in one frame; the last packet is @less bytes
 * shorter. */
static struct tpacket2_hdr *arrive_joined(bool v6, uint8_t opcode, uint32_t count, uint32_t payload,
                                          uint32_t less)
{
    uint32_t length = 0, head = 0, segment = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct uro_frame frame =
            plain_frame(v6, opcode, data + i, payload - (i + 1 == count ? less : 0));
        frame.bth.psn = 100 + i;
        frame.deth.qkey = 1;
        frame.ip.identification = v6 ? 0 : (uint16_t)i;
        const uint32_t whole = make_frame(&frame, made);
        head = uro_gso_head(made, whole);
        if (i == 0) {
            memcpy(joined, made, head);
            length = head;
            segment = whole - head;
        }
        memcpy(joined + length, made + head, whole - head);
        length += whole - head;
    }
    uro_gso_join(joined, head, length - head);
    return arrive(joined, length,
                  (struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                           .gso_type = UDP_L4,
                                           .gso_size = (uint16_t)segment });
}

/* Checks that @pkt is packet @i of arrive_joined(). Returns its payload length in bytes. */
static uint32_t is_packet(const struct uro_pkt *pkt, uint32_t i)
{
    struct uro_frame frame;
    uint8_t whole[MADE_FRAME_MAX];

    uro_pkt_copy(pkt, whole, pkt->length);
    assert_int_equal(uro_frame_network(whole, pkt->length, &frame), URO_FRAME_OK);
    assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
    assert_int_equal(frame.bth.psn, 100 + i);
    assert_memory_equal(frame.payload, data + i, frame.payload_length);
    return frame.payload_length;
}

static void fill_data(void)
{
    for (uint32_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8));
}

static const struct virtio_net_hdr plain;

/* ---- frames ---------------------------------------------------------------- */

static void packet_rx__frames__are_lent_from_their_slots_and_released_in_order(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < SLOTS; i++) {
            memset(made, (int)i, 100);
            (void)arrive(made, 100, plain);
        }
        assert_true(uro_packet_rx_waits(&rx));
        assert_int_equal(uro_packet_rx_lend(&rx, pkts, URO_PORT_BURST), SLOTS);
        assert_false(uro_packet_rx_waits(&rx)); /* all slots belong to the port */
        for (uint32_t i = 0; i < SLOTS; i++) {
            assert_ptr_equal(pkts[i].octets, (uint8_t *)header_of(i) + AT);
            assert_int_equal(pkts[i].octets[99], i);
            assert_int_equal(header_of(i)->tp_status, TP_STATUS_USER);
        }
        uro_packet_rx_release(&rx, 1);
        assert_int_equal(header_of(0)->tp_status, TP_STATUS_USER);
        uro_packet_rx_release(&rx, 3);
        for (uint32_t i = 0; i < SLOTS; i++)
            assert_int_equal(header_of(i)->tp_status, TP_STATUS_KERNEL);
    }
}

static void packet_rx__truncated_frame__is_dropped_and_the_slot_released(void **state)
{
    (void)state;
    (void)arrive(joined, SLOT, plain);
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, 4), 0);
    assert_int_equal(rx.dropped, 1);
    assert_int_equal(header_of(0)->tp_status, TP_STATUS_KERNEL);
    (void)arrive(joined, SLOT, plain);
    (void)arrive(made, 100, plain);
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, 4), 1);
    assert_int_equal(pkts[0].length, 100);
}

static void packet_rx__checksum_absent_or_verified__is_cleared(void **state)
{
    const struct virtio_net_hdr said[] = { { .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM },
                                           { .flags = VIRTIO_NET_HDR_F_DATA_VALID } };
    struct uro_frame frame = plain_frame(false, WRITE_MIDDLE, data, 64);

    (void)state;
    const uint32_t length = make_frame(&frame, made);
    uro_put_be16(made + 40, 0x1234);
    for (unsigned i = 0; i < 4; i++) {
        struct tpacket2_hdr *header = arrive(made, length, i < 2 ? said[i] : plain);
        if (i >= 2)
            header->tp_status |= i == 2 ? TP_STATUS_CSUMNOTREADY : TP_STATUS_CSUM_VALID;
        assert_int_equal(uro_packet_rx_lend(&rx, pkts, 1), 1);
        assert_int_equal(uro_get_be16(pkts[0].octets + 40), 0);
        uro_packet_rx_release(&rx, 1);
    }
    (void)arrive(made, length, plain);
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, 1), 1);
    assert_int_equal(uro_get_be16(pkts[0].octets + 40), 0x1234);
}

static void packet_rx__vlan_tag_was_removed__is_inserted(void **state)
{
    struct uro_frame frame = plain_frame(false, WRITE_MIDDLE, data, 64), read;

    (void)state;
    const uint32_t length = make_frame(&frame, made);
    struct tpacket2_hdr *header = arrive(made, length, plain);
    header->tp_status |= TP_STATUS_VLAN_VALID;
    header->tp_vlan_tci = 0x6005;
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, 1), 1);
    assert_int_equal(pkts[0].length, length + 4);
    assert_int_equal(uro_frame_network(pkts[0].octets, pkts[0].length, &read), URO_FRAME_OK);
    assert_true(read.ether.tagged);
    assert_int_equal(read.ether.tag, 0x6005);
    assert_int_equal(uro_frame_roce(&read), URO_FRAME_OK);
    uro_packet_rx_release(&rx, 1);
    header = arrive(made, length, plain); /* an 802.1ad tag is another kind of VLAN */
    header->tp_status |= TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;
    header->tp_vlan_tpid = 0x88a8;
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, 1), 0);
    assert_int_equal(rx.dropped, 1);
}

/* ---- several packets in one frame ------------------------------------------ */

static void each_is_lent(bool v6, uint32_t count, uint32_t payload, uint32_t less, bool apart)
{
    uint32_t seen = 0, lent;

    fill_data();
    (void)arrive_joined(v6, WRITE_MIDDLE, count, payload, less);
    while ((lent = uro_packet_rx_lend(&rx, pkts, URO_PORT_BURST)) > 0) {
        for (uint32_t k = 0; k < lent; k++, seen++) {
            assert_int_equal(pkts[k].indirect != NULL, apart);
            assert_int_equal(is_packet(&pkts[k], seen), payload - (seen + 1 == count ? less : 0));
        }
        assert_int_not_equal(header_of((next + SLOTS - 1) % SLOTS)->tp_status, TP_STATUS_KERNEL);
        uro_packet_rx_release(&rx, lent);
    }
    assert_int_equal(seen, count);
    for (uint32_t i = 0; i < SLOTS; i++)
        assert_int_equal(header_of(i)->tp_status, TP_STATUS_KERNEL);
}

static void packet_rx__short_packets_in_a_gro_frame__are_split(void **state)
{
    (void)state;
    each_is_lent(false, 2, 64, 0, false);
    each_is_lent(true, 40, 64, 32, false); /* more than a burst */
    each_is_lent(false, URO_PORT_BURST, 100, 100, false);
}

static void packet_rx__long_packets_in_a_gro_frame__are_not_copied(void **state)
{
    (void)state;
    each_is_lent(false, 7, 1024, 512, true);
    each_is_lent(true, 3, 2048, 4, true);
}

/* Each datagram has to be copied, so it ends the burst. */
static void packet_rx__long_datagrams_to_qp1_in_a_gro_frame__are_split(void **state)
{
    (void)state;
    fill_data();
    (void)arrive_joined(false, WRITE_MIDDLE, 3, 1024, 0);
    uint8_t *const at = (uint8_t *)header_of(0) + AT + 42;
    struct uro_frame frame;
    for (uint32_t i = 0; i < 3; i++) {
        at[i * (1024 + 16) + 7] = 1; /* destination queue pair */
        uro_gso_cut((uint8_t *)header_of(0) + AT, 42, i, 1040, made);
        memcpy(made + 42, at + i * 1040, 1040);
        uro_put_le32(at + i * 1040 + 1036, uro_icrc(made + 14, false, 28 + 1036));
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(uro_packet_rx_lend(&rx, pkts, URO_PORT_BURST), 1);
        assert_null(pkts[0].indirect);
        assert_int_equal(uro_frame_network(pkts[0].octets, pkts[0].length, &frame), URO_FRAME_OK);
        assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
        assert_int_equal(frame.bth.psn, 100 + i);
        uro_packet_rx_release(&rx, 1);
    }
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, 1), 0);
}

static void packet_rx__vlan_tag_removed_from_a_gro_frame__each_packet_has_the_tag(void **state)
{
    struct uro_frame frame;
    uint32_t seen = 0;

    (void)state;
    fill_data();
    for (uint32_t payload = 64; payload <= 1024; payload *= 16) {
        struct tpacket2_hdr *header = arrive_joined(false, WRITE_MIDDLE, 3, payload, 0);
        header->tp_status |= TP_STATUS_VLAN_VALID;
        header->tp_vlan_tci = 0x6005;
        for (seen = 0; seen < 3; seen++) {
            assert_int_equal(uro_packet_rx_lend(&rx, pkts, 1), 1);
            assert_null(pkts[0].indirect);
            assert_int_equal(uro_frame_network(pkts[0].octets, pkts[0].length, &frame),
                             URO_FRAME_OK);
            assert_true(frame.ether.tagged);
            assert_int_equal(frame.ether.tag, 0x6005);
            assert_int_equal(uro_frame_roce(&frame), URO_FRAME_OK);
            assert_int_equal(frame.bth.psn, 100 + seen);
            assert_memory_equal(frame.payload, data + seen, payload);
            uro_packet_rx_release(&rx, 1);
        }
    }
}

static void packet_rx__truncated_gro_frame__complete_packets_are_lent(void **state)
{
    (void)state;
    fill_data();
    (void)arrive_joined(false, WRITE_MIDDLE, 4, 2048, 0); /* three fit into a slot */
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, URO_PORT_BURST), 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(is_packet(&pkts[i], i), 2048);
    uro_packet_rx_release(&rx, 3);
    assert_int_equal(rx.dropped, 1);
    assert_int_equal(header_of(0)->tp_status, TP_STATUS_KERNEL);
}

static void packet_rx__gro_frame_without_udp__dropped(void **state)
{
    const struct virtio_net_hdr tcp = { .gso_type = TCP_V4, .gso_size = 100 };
    const struct virtio_net_hdr endless = { .gso_type = UDP_L4, .gso_size = 0 };
    const struct virtio_net_hdr udp = { .gso_type = UDP_L4, .gso_size = 100 };
    struct uro_frame frame = plain_frame(false, WRITE_MIDDLE, data, 64);

    (void)state;
    const uint32_t length = make_frame(&frame, made);
    (void)arrive(made, length, tcp);
    (void)arrive(made, length, endless);
    (void)arrive(made, 41, udp);
    made[23] = 6; /* protocol TCP */
    (void)arrive(made, length, udp);
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, URO_PORT_BURST), 0);
    assert_int_equal(rx.dropped, 4);
    made[23] = 17;
    (void)arrive(made, 42, udp); /* ends after its headers */
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, URO_PORT_BURST), 0);
    assert_false(uro_packet_rx_waits(&rx));
    assert_int_equal(header_of(0)->tp_status, TP_STATUS_KERNEL);
}

static void packet_rx__gro_frames_and_frames__keep_their_order(void **state)
{
    (void)state;
    fill_data();
    (void)arrive_joined(false, WRITE_MIDDLE, 3, 64, 0);
    memset(made, 9, 100);
    (void)arrive(made, 100, plain);
    (void)arrive_joined(true, SEND_ONLY, 3, 64, 0);
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, 2), 2);
    uro_packet_rx_release(&rx, 2);
    assert_int_equal(header_of(0)->tp_status, TP_STATUS_USER); /* its last packet still waits */
    assert_true(uro_packet_rx_waits(&rx));
    assert_int_equal(uro_packet_rx_lend(&rx, pkts, 3), 3);
    assert_int_equal(is_packet(&pkts[0], 2), 64);
    assert_int_equal(pkts[1].octets[0], 9);
    assert_int_equal(is_packet(&pkts[2], 0), 64);
    uro_packet_rx_release(&rx, 3);
    assert_int_equal(header_of(0)->tp_status, TP_STATUS_KERNEL);
    assert_int_equal(header_of(1)->tp_status, TP_STATUS_KERNEL);
    assert_int_equal(header_of(2)->tp_status, TP_STATUS_USER);
}

/* The kernel may lack memory for a new ring. */
static void packet_rx__ring_cannot_be_reopened__tried_again(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(uro_packet_ring_renew(&ring, -1), -EBADF);
        assert_false(uro_packet_rx_waits(&rx));
        assert_int_equal(uro_packet_rx_lend(&rx, pkts, 1), 0);
        assert_int_equal(ring.slot, SLOT);
        assert_int_equal(ring.slots, SLOTS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)
        TEST(packet_rx__frames__are_lent_from_their_slots_and_released_in_order),
        TEST(packet_rx__truncated_frame__is_dropped_and_the_slot_released),
        TEST(packet_rx__checksum_absent_or_verified__is_cleared),
        TEST(packet_rx__vlan_tag_was_removed__is_inserted),
        TEST(packet_rx__short_packets_in_a_gro_frame__are_split),
        TEST(packet_rx__long_packets_in_a_gro_frame__are_not_copied),
        TEST(packet_rx__long_datagrams_to_qp1_in_a_gro_frame__are_split),
        TEST(packet_rx__vlan_tag_removed_from_a_gro_frame__each_packet_has_the_tag),
        TEST(packet_rx__truncated_gro_frame__complete_packets_are_lent),
        TEST(packet_rx__gro_frame_without_udp__dropped),
        TEST(packet_rx__gro_frames_and_frames__keep_their_order),
        TEST(packet_rx__ring_cannot_be_reopened__tried_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
