/* SPDX-License-Identifier: BSD-3-Clause */
/* test_port_af_packet.c - tests af_packet ports on a pair of kernel interfaces between two network
 * namespaces. */
#define _GNU_SOURCE
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "system/port_kit.h"
#include "wire/ip.h"

#define LINK "net_af_packet0,iface=va"
#define PEER "net_af_packet0,iface=vb"

static int other; /* the other namespace */

static void af_packet__frames_of_every_length__come_back(void **state)
{
    (void)state;
    pid_t peer = kit_echo(PEER, 0, false, other);
    struct uro_port *port = kit_open(LINK, 0);
    uint32_t sequence;

    assert_int_equal(port->mtu, 9000);
    kit_meet(port);
    for (uint32_t length = KIT_FRAME_MIN; length <= 9014; length += 23) {
        kit_send(port, length, length);
        assert_int_equal(kit_receive(port, &sequence, 20), length);
        assert_int_equal(sequence, length);
    }
    uro_port_close(port);
    kit_kill(peer);
}

static void af_packet__without_gso__port_reports_single_packets(void **state)
{
    (void)state;
    struct uro_port *port = kit_open(LINK ",gso=no", 0);

    assert_true(uro_port_has(port, URO_PORT_CALL_PER_SEND));
    uro_port_close(port);
}

static void af_packet__many_frames_at_once__none_is_lost(void **state)
{
    (void)state;
    pid_t peer = kit_echo(PEER, 0, false, other);
    struct uro_port *port = kit_open(LINK, 0);
    uint32_t sequence;

    kit_meet(port);
    for (uint32_t round = 0; round < 50; round++) {
        for (uint32_t n = 0; n < 200; n++)
            kit_send(port, n, 4200);
        for (uint32_t n = 0; n < 200; n++) {
            assert_int_equal(kit_receive(port, &sequence, 20), 4200);
            assert_int_equal(sequence, n);
        }
    }
    uro_port_close(port);
    kit_kill(peer);
}

static void af_packet__both_sleep__every_frame_wakes(void **state)
{
    (void)state;
    pid_t peer = kit_echo_asleep(PEER, 0, false, other);
    struct uro_port *port = kit_open(LINK, 1500);
    uint32_t sequence;
    uint32_t slept = 0;

    assert_int_equal(port->mtu, 1500);
    assert_true(kit_can_wait(port));
    kit_meet(port);
    for (uint32_t n = 1; n < 3000; n++) {
        kit_send(port, n, 60 + n % 1000);
        assert_int_equal(kit_sleep_receive(port, &sequence, 10, &slept), 60 + n % 1000);
        assert_int_equal(sequence, n);
    }
    assert_true(slept > 100);
    uro_port_close(port);
    kit_kill(peer);
}

static void af_packet__link_down_and_up__traffic_continues(void **state)
{
    (void)state;
    pid_t peer = kit_echo(PEER, 0, false, other);
    struct uro_port *port = kit_open(LINK, 0);
    uint32_t sequence;

    kit_meet(port);
    for (unsigned i = 0; i < 3; i++) {
        kit_run(i == 1 ? -1 : other, "ip link set %s down", i == 1 ? "va" : "vb");
        assert_true(kit_wait_link(port, false, 20));
        for (uint32_t n = 0; n < 3000; n++)
            kit_send(port, n, 4200); /* more than any ring holds */
        kit_run(i == 1 ? -1 : other, "ip link set %s up", i == 1 ? "va" : "vb");
        assert_true(kit_wait_link(port, true, 20));
        kit_meet(port);
        for (uint32_t n = 1; n < 100; n++) {
            kit_send(port, n, 4200);
            assert_int_equal(kit_receive(port, &sequence, 20), 4200);
            assert_int_equal(sequence, n);
        }
    }
    uro_port_close(port);
    kit_kill(peer);
}

/* The kernel's link watch may set IFF_RUNNING a second later. The port must not wait for that. */
static void af_packet__interface_set_up__link_is_up_at_once(void **state)
{
    (void)state;
    struct uro_port *port = kit_open(LINK, 0);

    for (unsigned i = 0; i < 4; i++) {
        const char *const name = i % 2 == 0 ? "va" : "vb";

        kit_run(i % 2 == 0 ? -1 : other, "ip link set %s down", name);
        assert_true(kit_wait_link(port, false, 20));
        kit_run(i % 2 == 0 ? -1 : other, "ip link set %s up", name);
        assert_true(uro_port_link_up(port));
    }
    uro_port_close(port);
}

/* A frame that has become too long for the interface is lost. Later frames are not lost. */
static void af_packet__interface_mtu_lowered_for_a_while__port_mtu_follows(void **state)
{
    (void)state;
    pid_t peer = kit_echo(PEER, 0, false, other);
    struct uro_port *port = kit_open(LINK, 0);
    const uint32_t most = port->mtu;
    uint32_t sequence;

    kit_meet(port);
    assert_true(uro_port_link_up(port));
    assert_int_equal(port->mtu, most);
    kit_run(-1, "ip link set va mtu 1500");
    assert_true(uro_port_link_up(port));
    assert_int_equal(port->mtu, 1500);
    for (uint32_t n = 0; n < 3000; n++)
        kit_send(port, n, 4200); /* more than any ring holds */
    kit_meet(port);
    kit_run(-1, "ip link set va mtu %u", most + 300);
    assert_true(uro_port_link_up(port));
    assert_int_equal(port->mtu, most);
    kit_meet(port);
    kit_send(port, 5, 4200);
    assert_int_equal(kit_receive(port, &sequence, 20), 4200);
    assert_int_equal(sequence, 5);
    kit_run(-1, "ip link set va mtu %u", most);
    uro_port_close(port);
    kit_kill(peer);
}

static void af_packet__interface_renamed_then_removed__traffic_continues_then_link_is_gone(
    void **state)
{
    (void)state;
    pid_t peer = kit_echo(PEER, 0, false, other);
    struct uro_port *port = kit_open(LINK, 0);
    uint32_t sequence;

    kit_meet(port);
    kit_run(-1, "ip link set va down && ip link set va name vc && ip link set vc up");
    assert_true(kit_wait_link(port, true, 20));
    kit_meet(port);
    kit_send(port, 5, 4200);
    assert_int_equal(kit_receive(port, &sequence, 20), 4200);
    assert_int_equal(sequence, 5);
    kit_run(-1, "ip link set vc down");
    assert_false(uro_port_link_up(port));
    assert_false(uro_port_gone(port));
    kit_run(-1, "ip link del vc");
    assert_false(uro_port_link_up(port));
    assert_true(uro_port_gone(port));
    uro_port_close(port);
    kit_kill(peer);
}

/* Opens a tap, through which the test injects frames with a virtio header. */
static int open_tap(void)
{
    const int header = sizeof(struct virtio_net_hdr);
    struct ifreq want = { .ifr_name = "tp", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
    int tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

    assert_true(tap >= 0);
    assert_int_equal(ioctl(tap, TUNSETIFF, &want), 0);
    assert_int_equal(ioctl(tap, TUNSETVNETHDRSZ, &header), 0);
    kit_run(-1, "ip link set tp up");
    return tap;
}

static void come_in(int tap, struct virtio_net_hdr said, const uint8_t *frame, size_t length)
{
    uint8_t octets[4096];

    memcpy(octets, &said, sizeof said);
    memcpy(octets + sizeof said, frame, length);
    assert_int_equal(write(tap, octets, sizeof said + length), sizeof said + length);
}

static bool goes_on(struct uro_port *port, int tap)
{
    static const uint8_t frame[60] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 8, 6 };
    struct uro_pkt pkt;

    for (unsigned i = 0; i < 3000; i++) {
        come_in(tap, (struct virtio_net_hdr){ 0 }, frame, sizeof frame);
        while (uro_port_receive(port, &pkt, 1) == 1) {
            bool found = pkt.length == sizeof frame && pkt.octets[11] == 7;
            uro_port_release(port, &pkt, 1);
            if (found)
                return true;
        }
        (void)uro_port_link_up(port);
    }
    return false;
}

/* A virtio header cannot describe a datagram that must be fragmented. At such a frame, the kernel
 * stops filling the receive ring. */
static void af_packet__frame_unknown_to_virtio__later_frames_arrive(void **state)
{
    (void)state;
    uint8_t frame[3042] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 7 };
    const struct uro_ip ip = { .hop_limit = 64,
                               .protocol = URO_IPPROTO_UDP,
                               .payload_length = 3008,
                               .source = { { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 9 } },
                               .dest = { { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 } } };
    const struct uro_udp udp = { .source_port = 5, .dest_port = URO_ROCE_PORT, .length = 3008 };
    int tap = open_tap();
    struct uro_port *port = kit_open("net_af_packet0,iface=tp", 0);

    frame[12] = 8;
    (void)uro_ip_put(frame + 14, &ip);
    uro_udp_encode(frame + 34, &udp);
    assert_true(uro_port_link_up(port));
    assert_true(goes_on(port, tap));
    for (unsigned i = 0; i < 3; i++) {
        come_in(tap,
                (struct virtio_net_hdr){ .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                         .gso_type = VIRTIO_NET_HDR_GSO_UDP,
                                         .hdr_len = 42,
                                         .gso_size = 1000,
                                         .csum_start = 34,
                                         .csum_offset = 6 },
                frame, sizeof frame);
        assert_true(goes_on(port, tap));
    }
    uro_port_close(port);
    close(tap);
}

/* When the interface goes down, the kernel stores an error in the socket. The error would end every
 * sleep at once. */
static void af_packet__interface_was_down_for_a_moment__does_not_wake(void **state)
{
    (void)state;
    struct uro_pkt pkt;

    kit_run(-1, "sysctl -qw net.ipv6.conf.va.disable_ipv6=1"); /* the socket must receive nothing */
    kit_run(other, "sysctl -qw net.ipv6.conf.vb.disable_ipv6=1");
    struct uro_port *port = kit_open(LINK, 0);
    assert_true(uro_port_link_up(port));
    kit_run(-1, "ip link set va down && ip link set va up");
    while (!uro_port_arm(port))
        if (uro_port_receive(port, &pkt, 1) == 1)
            uro_port_release(port, &pkt, 1);
    assert_false(kit_wait(port, 0));
    uro_port_close(port);
    kit_run(-1, "sysctl -qw net.ipv6.conf.va.disable_ipv6=0");
    kit_run(other, "sysctl -qw net.ipv6.conf.vb.disable_ipv6=0");
}

/* A packet socket also gets the frames that other sockets send on its interface. It gets them
 * during the call that sends. */
static void af_packet__another_socket_sends__frames_are_not_received(void **state)
{
    (void)state;
    static const uint8_t frame[60] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 9, 8, 6 };
    const struct sockaddr_ll by = { .sll_family = AF_PACKET,
                                    .sll_ifindex = (int)if_nametoindex("va") };
    struct uro_port *port = kit_open(LINK, 0);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    struct uro_pkt pkt;

    assert_true(fd >= 0);
    assert_int_equal(sendto(fd, frame, sizeof frame, 0, (const struct sockaddr *)&by, sizeof by),
                     sizeof frame);
    while (uro_port_receive(port, &pkt, 1) == 1) {
        assert_int_not_equal(pkt.octets[11], 9);
        uro_port_release(port, &pkt, 1);
    }
    (void)close(fd);
    uro_port_close(port);
}

static void af_packet__wrong_ring_size__is_refused(void **state)
{
    static const struct {
        const char *words, *names;
    } wrong[] = {
        { LINK ",framesz=4096", "framesz=4096 does not hold a frame of va, whose MTU is 9000" },
        { LINK ",framecnt=65536", "framecnt=65536 slots of" },
        { "net_af_packet0,iface=nothere", "no network interface nothere" },
    };
    char error[URO_PORT_ERROR_MAX];

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        const struct uro_port_config config = { .device = "kit", .link = wrong[i].words };
        assert_null(kit_try_open(&config, error));
        assert_non_null(strstr(error, wrong[i].names));
    }
}

/* Sends to port 4791 of @address from a UDP socket in the other namespace. Returns the error from
 * an ICMP message, or 0. A second socket sends to a closed port: its error shows that the kernel
 * has processed both packets. */
static int answer_of_kernel(int family, const struct sockaddr *address, socklen_t length)
{
    struct sockaddr_storage closed;
    char octet = 0;
    int status = 0;
    socklen_t size = sizeof status;

    memcpy(&closed, address, length);
    ((struct sockaddr_in *)&closed)->sin_port =
        htons(4792); /* the port is at the same offset in IPv6 */
    int asks = socket(family, SOCK_DGRAM, 0);
    int kernel_socket = socket(family, SOCK_DGRAM, 0);
    assert_int_equal(connect(asks, address, length), 0);
    assert_int_equal(connect(kernel_socket, (struct sockaddr *)&closed, length), 0);
    assert_int_equal(send(asks, "RoCE", 4, 0), 4);
    assert_int_equal(send(kernel_socket, "none", 4, 0), 4);
    assert_int_equal(recv(kernel_socket, &octet, 1, 0), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(getsockopt(asks, SOL_SOCKET, SO_ERROR, &status, &size), 0);
    close(asks);
    close(kernel_socket);
    return status;
}

static void ask_kernel(int family, const struct sockaddr *address, socklen_t length,
                       const struct uro_gid *gid)
{
    char error[URO_PORT_ERROR_MAX];
    struct uro_port_config config = {
        .device = "kit", .link = LINK, .addresses = gid, .address_count = 1
    };
    int here = open("/proc/self/ns/net", O_RDONLY);

    assert_int_equal(setns(other, CLONE_NEWNET), 0);
    assert_int_equal(answer_of_kernel(family, address, length), ECONNREFUSED);
    assert_int_equal(setns(here, CLONE_NEWNET), 0);
    struct uro_port *port = kit_try_open(&config, error);
    assert_non_null(port);
    assert_int_equal(setns(other, CLONE_NEWNET), 0);
    assert_int_equal(answer_of_kernel(family, address, length), 0);
    assert_int_equal(setns(here, CLONE_NEWNET), 0);
    uro_port_close(port);
    close(here);
}

static void af_packet__address_shared_with_the_kernel__kernel_sends_no_replies(void **state)
{
    (void)state;
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(4791) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(4791) };
    struct uro_gid gid4 = { { [10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [15] = 1 } };
    struct uro_gid gid6 = { { [0] = 0xfd, [15] = 1 } };

    kit_run(-1, "ip addr add 10.77.0.1/24 dev va; ip addr add fd00::1/64 dev va nodad");
    kit_run(other, "ip addr add 10.77.0.2/24 dev vb; ip addr add fd00::2/64 dev vb nodad");
    inet_pton(AF_INET, "10.77.0.1", &four.sin_addr);
    memcpy(&six.sin6_addr, gid6.octets, sizeof gid6.octets);
    ask_kernel(AF_INET, (struct sockaddr *)&four, sizeof four, &gid4);
    ask_kernel(AF_INET6, (struct sockaddr *)&six, sizeof six, &gid6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(af_packet__frames_of_every_length__come_back),
        cmocka_unit_test(af_packet__without_gso__port_reports_single_packets),
        cmocka_unit_test(af_packet__many_frames_at_once__none_is_lost),
        cmocka_unit_test(af_packet__both_sleep__every_frame_wakes),
        cmocka_unit_test(af_packet__link_down_and_up__traffic_continues),
        cmocka_unit_test(af_packet__interface_set_up__link_is_up_at_once),
        cmocka_unit_test(af_packet__interface_mtu_lowered_for_a_while__port_mtu_follows),
        cmocka_unit_test(af_packet__frame_unknown_to_virtio__later_frames_arrive),
        cmocka_unit_test(af_packet__interface_was_down_for_a_moment__does_not_wake),
        cmocka_unit_test(af_packet__another_socket_sends__frames_are_not_received),
        cmocka_unit_test(af_packet__wrong_ring_size__is_refused),
        cmocka_unit_test(af_packet__address_shared_with_the_kernel__kernel_sends_no_replies),
        cmocka_unit_test(
            af_packet__interface_renamed_then_removed__traffic_continues_then_link_is_gone),
    };

    other = kit_veth(9000);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
