/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests ICMP errors at a shared address. An error at any socket may be about a packet of any
 * process. A process handles errors of its own packets. It sends all errors from the network to the
 * broker, `uroce hub`. It also handles errors that the broker forwards, but does not send them
 * back. */
#define _GNU_SOURCE /* struct mmsghdr, unshare */
#include "support/check.h"

#include <errno.h>
#include <stdlib.h>

#include "io/udp/network_error.h"
#include "io/udp/share.h"
#include "support/own_net.h"
#include "support/stderr_text.h"

#define NUMBER  7u   /* QPN prefix of the process */
#define NARROW  1400 /* bytes that the path carries */
#define REFUSED "uroce: 127.0.0.9: Connection refused\n"

struct record {
    struct uro_hub_header header;
    struct uro_hub_report body;
};

static struct uro_sock sock;
static struct uro_share share;
static struct uro_recent_peers recent_peers;
static struct uro_gid own, peer, stranger;
static struct stderr_capture capture;
static int broker;

static int start(void **state)
{
    const struct uro_sock_options options = { 0 };
    char error[URO_PORT_ERROR_MAX];
    int ends[2];

    (void)state;
    assert_true(uro_gid_parse("127.0.0.5", &own) && uro_gid_parse("127.0.0.9", &peer) &&
                uro_gid_parse("127.0.0.8", &stranger));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    broker = ends[1];
    share = (struct uro_share){
        .fd = ends[0], .number = NUMBER, .address = own, .record = malloc(URO_HUB_RECORD)
    };
    assert_non_null(share.record);
    memset(&recent_peers, 0, sizeof recent_peers);
    uro_recent_peers_note(&recent_peers, &peer);
    sock = (struct uro_sock){
        .fd = -1, .share = &share, .recent_peers = &recent_peers, .verbose = true
    };
    int fd = uro_sock_bind(&own, false, error);
    assert_true(fd >= 0);
    uro_sock_start(&sock, fd, &own, &options);
    capture = capture_stderr_begin();
    return 0;
}

static int stop(void **state)
{
    (void)state;
    capture_stderr_end(capture);
    uro_sock_close(&sock);
    uro_share_leave(&share);
    (void)close(broker);
    return 0;
}

/* Returns a record as a broker sends it. */
static struct record record_of(const struct uro_gid *to, uint32_t error, uint32_t info)
{
    return (struct record){ .header = { .version = URO_HUB_VERSION,
                                        .kind = URO_HUB_REPORT,
                                        .from = uro_sock_address_of(to, URO_ROCE_PORT) },
                            .body = { .error = error, .info = info } };
}

/* Delivers the first @length bytes of @record to the process. */
static void read_record(const struct record *record, size_t length)
{
    struct uro_hub_header header;
    uint32_t octets;

    assert_int_equal(send(broker, record, length, 0), length);
    assert_true(uro_share_take(&share, &header, &octets));
    if (octets > 0)
        uro_network_error_receive(&sock, &header, octets);
}

static void network_error__for_a_sent_packet__is_reported_and_forwarded(void **state)
{
    struct record got;

    (void)state;
    assert_true(own_net_report(&own, &peer, OWN_NET_NO_PORT, 0));
    assert_int_equal(uro_network_error_take(&sock, NULL), 1);
    assert_string_equal(capture_stderr_text(capture), REFUSED);
    assert_int_equal(recv(broker, &got, sizeof got, MSG_DONTWAIT | MSG_TRUNC), sizeof got);
    assert_int_equal(got.header.version, URO_HUB_VERSION);
    assert_int_equal(got.header.kind, URO_HUB_REPORT);
    const struct uro_gid to = uro_sock_gid_of(&got.header.from);
    assert_true(uro_gid_equal(&to, &peer));
    assert_int_equal(got.body.error, ECONNREFUSED);
}

/* The errors come from the network, so they count, although another process sent the packets. */
static void network_error__for_a_packet_of_another_process__is_counted_and_forwarded(void **state)
{
    struct record got;

    (void)state;
    assert_true(own_net_report(&own, &stranger, OWN_NET_NARROW, NARROW));
    assert_true(own_net_report(&own, &stranger, OWN_NET_NO_PORT, 0));
    assert_int_equal(uro_network_error_take(&sock, NULL), 2);
    assert_string_equal(capture_stderr_text(capture), "");
    assert_int_equal(recv(broker, &got, sizeof got, MSG_DONTWAIT), sizeof got);
    assert_int_equal(got.body.error, EMSGSIZE);
    assert_int_equal(got.body.info, NARROW);
    assert_int_equal(recv(broker, &got, sizeof got, MSG_DONTWAIT), sizeof got);
    assert_int_equal(got.body.error, ECONNREFUSED);
}

/* The error comes from the kernel, not from the network, and concerns no other process. */
static void network_error__of_the_local_kernel__is_not_forwarded(void **state)
{
    static const uint8_t packet[2000];
    const union uro_sock_address to = uro_sock_address_of(&stranger, URO_ROCE_PORT);
    struct record got;

    (void)state;
    assert_int_equal(
        sendto(sock.fd, packet, sizeof packet, 0, &to.any, uro_sock_address_length(&to)), -1);
    assert_int_equal(uro_network_error_take(&sock, &to), 0);
    assert_non_null(strstr(capture_stderr_text(capture), "the path to 127.0.0.8 carries"));
    assert_int_equal(recv(broker, &got, sizeof got, MSG_DONTWAIT), -1);
}

static void network_error__address_not_shared__all_errors_are_reported(void **state)
{
    (void)state;
    sock.share = NULL;
    assert_true(own_net_report(&own, &stranger, OWN_NET_NO_PORT, 0));
    assert_int_equal(uro_network_error_take(&sock, NULL), 1);
    assert_string_equal(capture_stderr_text(capture), "uroce: 127.0.0.8: Connection refused\n");
}

static void network_error__forwarded__is_reported_by_the_sending_process(void **state)
{
    const struct record other = record_of(&stranger, ECONNREFUSED, 0);
    const struct record ours = record_of(&peer, ECONNREFUSED, 0);

    (void)state;
    read_record(&other, sizeof other);
    assert_string_equal(capture_stderr_text(capture), "");
    read_record(&ours, sizeof ours);
    assert_string_equal(capture_stderr_text(capture), REFUSED);
}

static void forwarded__not_verbose__prints_nothing(void **state)
{
    const struct record ours = record_of(&peer, ECONNREFUSED, 0);

    (void)state;
    sock.verbose = false;
    read_record(&ours, sizeof ours);
    assert_string_equal(capture_stderr_text(capture), "");
}

static void forwarded__low_path_mtu__one_message(void **state)
{
    const struct record other = record_of(&stranger, EMSGSIZE, NARROW);
    const struct record ours = record_of(&peer, EMSGSIZE, NARROW);

    (void)state;
    sock.verbose = false;
    read_record(&other, sizeof other);
    assert_string_equal(capture_stderr_text(capture), "");
    read_record(&ours, sizeof ours);
    read_record(&ours, sizeof ours);
    assert_string_equal(capture_stderr_text(capture),
                        "uroce: a router reports that the path to 127.0.0.9 carries IP packets of "
                        "at most 1400 bytes; if long messages are lost, set mtu=1400, or choose a "
                        "smaller path MTU in the program\n");
}

static void forwarded__malformed__is_ignored(void **state)
{
    struct record record = record_of(&peer, ECONNREFUSED, 0);

    (void)state;
    for (size_t length = 1; length < sizeof record; length++)
        read_record(&record, length);
    record.header.kind = URO_HUB_REPORT + 1;
    read_record(&record, sizeof record);
    record = record_of(&peer, ECONNREFUSED, 0);
    record.header.version++;
    read_record(&record, sizeof record);
    record = record_of(&peer, ECONNREFUSED, 0);
    record.header.from.any.sa_family = AF_UNSPEC;
    read_record(&record, sizeof record);
    record.header.from.any.sa_family = AF_INET6;
    read_record(&record, sizeof record);
    assert_string_equal(capture_stderr_text(capture), "");
}

static void forwarded__too_long__is_ignored(void **state)
{
    struct {
        struct record record;
        uint8_t more[URO_HUB_RECORD];
    } longer = { .record = record_of(&peer, ECONNREFUSED, 0) };

    (void)state;
    read_record(&longer.record, sizeof longer.record + 1);
    read_record(&longer.record, sizeof longer);
    assert_string_equal(capture_stderr_text(capture), "");
}

/* Notes many peers as recent. Some peers share a slot, and only the later of them is found. */
static void recent_peers__many__most_are_found(void **state)
{
    struct uro_gid to = peer;
    uint32_t known = 0;

    (void)state;
    for (uint8_t last = 10; last < 10 + URO_RECENT_PEERS_MAX / 2; last++) {
        to.octets[15] = last;
        uro_recent_peers_note(&recent_peers, &to);
        assert_true(uro_recent_peers_has(&recent_peers, &to));
    }
    for (uint8_t last = 10; last < 10 + URO_RECENT_PEERS_MAX / 2; last++) {
        to.octets[15] = last;
        known += uro_recent_peers_has(&recent_peers, &to);
    }
    assert_in_range(known, URO_RECENT_PEERS_MAX / 4, URO_RECENT_PEERS_MAX / 2);
    assert_false(uro_recent_peers_has(&recent_peers, &stranger));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(network_error__for_a_sent_packet__is_reported_and_forwarded,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            network_error__for_a_packet_of_another_process__is_counted_and_forwarded, start, stop),
        cmocka_unit_test_setup_teardown(network_error__of_the_local_kernel__is_not_forwarded, start,
                                        stop),
        cmocka_unit_test_setup_teardown(network_error__address_not_shared__all_errors_are_reported,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            network_error__forwarded__is_reported_by_the_sending_process, start, stop),
        cmocka_unit_test_setup_teardown(forwarded__not_verbose__prints_nothing, start, stop),
        cmocka_unit_test_setup_teardown(forwarded__low_path_mtu__one_message, start, stop),
        cmocka_unit_test_setup_teardown(forwarded__malformed__is_ignored, start, stop),
        cmocka_unit_test_setup_teardown(forwarded__too_long__is_ignored, start, stop),
        cmocka_unit_test_setup_teardown(recent_peers__many__most_are_found, start, stop),
    };

    if (!own_net_enter())
        return 0;
    return cmocka_run_group_tests_name("io/report", tests, NULL, NULL);
}
