/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the parser of configuration lines: the resulting device, or the exact error message. */
#include "support/check.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/netdev.h"

static struct uro_config config;

static const struct uro_device_config *read_one(const char *devices)
{
    uro_config_read(&config, devices, NULL);
    assert_int_equal(config.count, 1);
    return &config.entries[0].config;
}

static const struct uro_device_config *read_right(const char *devices)
{
    const struct uro_device_config *device = read_one(devices);
    assert_string_equal(device->problem, "");
    return device;
}

static void check_gid(const struct uro_device_config *device, uint32_t index, const char *gid,
                      unsigned prefix)
{
    char text[URO_GID_TEXT_MAX];

    assert_true(index < device->gid_count);
    assert_string_equal(uro_gid_text(&device->gids[index], text), gid);
    assert_int_equal(device->prefix[index], prefix);
}

static void config__nothing_set__no_devices(void **state)
{
    (void)state;
    uro_config_read(&config, NULL, NULL);
    assert_int_equal(config.count, 0);
    uro_config_read(&config, "", "");
    assert_int_equal(config.count, 0);
    uro_config_read(&config, " \t\n", NULL);
    assert_int_equal(config.count, 0);
}

static void line__name_and_link_only__the_rest_has_defaults(void **state)
{
    (void)state;
    const struct uro_device_config *d =
        read_right("uroce0:net_memif0,role=server,socket=/tmp/x.sock");

    assert_string_equal(d->name, "uroce0");
    assert_string_equal(d->link, "net_memif0,role=server,socket=/tmp/x.sock");
    assert_int_equal(d->gid_count, 1);
    assert_true(uro_gid_is_link_local(&d->gids[0]));
    assert_int_equal(d->prefix[0], 64);
    assert_int_equal(d->mtu, 4500);
    assert_true(uro_gid_is_zero(&d->gateway4));
    assert_true(uro_gid_is_zero(&d->gateway6));
    assert_int_equal(d->window, 0);
    assert_false(d->retry_7_forever);
    assert_int_equal(d->progress, URO_PROGRESS_HYBRID);
    assert_int_equal(d->cpu, -1);
    assert_int_equal(d->engines, 1);
    assert_string_equal(d->pcap, "");
    assert_string_equal(d->impair, "");
    assert_string_equal(d->trace, "");
    assert_true(d->seed == 0);
    assert_int_equal(d->memory_mib, 0);
    assert_false(d->verbose);
    assert_int_equal(d->log, URO_LOG_ERRORS);
    assert_int_equal(d->most[URO_QUOTA_QP], 1048560);
    assert_int_equal(d->most[URO_QUOTA_AH], 1048576);
    assert_true(d->most[URO_QUOTA_MEMORY] == UINT64_MAX);
}

static void line__every_key__is_read(void **state)
{
    (void)state;
    const struct uro_device_config *d = read_right(
        "a_b-1:net_null0;ip=10.0.0.1/24,fd00::1/48;ip=192.168.7.1/30;gateway=10.0.0.254;"
        "gateway6=fe80::9;mac=02:01:02:03:04:05;mtu=9000;vendor_part_id=0x1017;window=64;"
        "retry_7=forever;progress=thread;cpu=3;pcap=/tmp/a.pcap;seed=18446744073709551615;"
        "impair=loss:1%,delay:5us+-1us;trace=/tmp/t;"
        "memory=32;verbose=yes;max_qp=1;max_cq=2;max_srq=3;max_mr=4;max_mw=5;max_pd=6;max_ah=7;"
        "max_conn=8;max_registered=8");

    assert_string_equal(d->name, "a_b-1");
    assert_int_equal(d->gid_count, 4);
    check_gid(d, 0, "fe80::1:2ff:fe03:405", 64);
    check_gid(d, 1, "10.0.0.1", 24);
    check_gid(d, 2, "fd00::1", 48);
    check_gid(d, 3, "192.168.7.1", 30);
    char text[URO_GID_TEXT_MAX];
    assert_string_equal(uro_gid_text(&d->gateway4, text), "10.0.0.254");
    assert_string_equal(uro_gid_text(&d->gateway6, text), "fe80::9");
    assert_memory_equal(d->mac.octets, "\x02\x01\x02\x03\x04\x05", 6);
    assert_int_equal(d->mtu, 9000);
    assert_int_equal(d->vendor_part_id, 0x1017);
    assert_int_equal(d->window, 64);
    assert_true(d->retry_7_forever);
    assert_int_equal(d->progress, URO_PROGRESS_THREAD);
    assert_int_equal(d->cpu, 3);
    assert_string_equal(d->pcap, "/tmp/a.pcap");
    assert_string_equal(d->impair, "loss:1%,delay:5us+-1us");
    assert_string_equal(d->trace, "/tmp/t");
    assert_true(d->seed == UINT64_MAX);
    assert_int_equal(d->memory_mib, 32);
    assert_true(d->verbose);
    for (unsigned i = 0; i < URO_QUOTA_MEMORY; i++)
        assert_int_equal(d->most[i], i + 1);
    assert_int_equal(d->most[URO_QUOTA_MEMORY], 8 * 1048576);
}

static void engines__number_or_auto__as_many_as_the_link_can_have(void **state)
{
    (void)state;
    const struct uro_device_config *d = read_right("a:udp,ip=127.0.0.1;engines=16");

    assert_int_equal(d->engines, 16);
    assert_false(d->engines_auto);
    d = read_right("a:udp,ip=127.0.0.1;engines=auto");
    assert_in_range(d->engines, 1, URO_ENGINES_MAX);
    assert_true(d->engines_auto);
    assert_int_equal(read_right("a:net_null0;engines=auto")->engines, 1);
    assert_int_equal(read_right("a:udp,ip=127.0.0.1,hub=no;engines=auto")->engines, 1);
    assert_int_equal(read_right("a:net_null0;engines=1")->engines, 1);
    assert_int_equal(read_right("a:net_null0;engines=2")->engines, 2);
}

static void line__keys_with_a_choice_of_words__each_word_is_read(void **state)
{
    (void)state;
    assert_int_equal(read_right("a:net_null0;progress=hybrid")->progress, URO_PROGRESS_HYBRID);
    assert_int_equal(read_right("a:net_null0;progress=caller")->progress, URO_PROGRESS_CALLER);
    assert_false(read_right("a:net_null0;retry_7=seven")->retry_7_forever);
    assert_false(read_right("a:net_null0;verbose=no")->verbose);
    assert_true(read_right("a:net_null0;verbose=1")->verbose);
    assert_false(read_right("a:net_null0")->telemetry);
    assert_true(read_right("a:net_null0;telemetry=yes")->telemetry);
    assert_int_equal(read_right("a:net_null0;hugepages=no")->hugepages, URO_HUGEPAGES_NO);
    assert_string_equal(read_right("a:dpdk:net_null0;eal=--vdev=net_tap0;eal=-l;eal=2")->eal,
                        "--vdev=net_tap0 -l 2");
    assert_string_equal(read_right("a:dpdk:net_bonding0,mode=1")->link, "dpdk:net_bonding0,mode=1");
    assert_int_equal(read_right("a:net_null0;log=none")->log, URO_LOG_NONE);
    assert_int_equal(read_right("a:net_null0;log=all")->log, URO_LOG_ALL);
}

static void line__address_without_length__subnet_of_24_or_64(void **state)
{
    (void)state;
    const struct uro_device_config *d = read_right("a:net_null0;ip=10.1.2.3,fd00::5");

    check_gid(d, 1, "10.1.2.3", 24);
    check_gid(d, 2, "fd00::5", 64);
}

static void line__rate__is_the_speed_of_the_port(void **state)
{
    (void)state;
    assert_int_equal(uro_netdev_speed(read_right("a:net_null0;ip=10.1.2.3")), 100000);
    assert_int_equal(uro_netdev_speed(read_right("a:net_null0;rate=2.5")), 2500);
    assert_int_equal(uro_netdev_speed(read_right("a:udp,ip=127.0.0.1")), 100000);
    assert_int_equal(uro_netdev_speed(read_right("a:udp,ip=127.0.0.9")), 100000);
    assert_int_equal(uro_netdev_speed(read_right("a:udp,ip=127.0.0.1;rate=400")), 400000);
}

#define NO_SUCH_LINK                                                                               \
    "there is no such kind of link; uroce knows udp, net_memif0, net_af_packet0, PCI address, "    \
    "net_af_xdp0, net_pcap0, net_ring0, net_null0, net_tap0, net_vhost0, net_virtio_user0, dpdk:"

/* Each line has one device with one error. The message names the place, the key and the value. */
static const struct {
    const char *line, *problem;
} wrong[] = {
    { "a", "must be NAME:LINK[;key=value]...; the colon behind the name is missing" },
    { "a;mtu=1500", "must be NAME:LINK[;key=value]...; the colon behind the name is missing" },
    { "a:", "link=: must not be empty" },
    { "a:,role=server", "link=,role=server: must begin with a driver, such as "
                        "net_memif0,role=server,socket=/run/a.sock" },
    { "a:net_null0;mtu", "\"mtu\" must be key=value" },
    { "a:net_null0;mtu=", "mtu=: must be a number from 576 to 9600" },
    { "a:net_null0;rate=1",
      "rate=1: must be a number of Gb/s: 2.5, 5, 10, 20, 25, 40, 50, 56, 100, 200, 400 or 800" },
    { "a:net_null0;vlan=0", "vlan=0: must be a number from 1 to 4094" },
    { "a:net_null0;vlan=10",
      "vlan=10: needs ip=, because the interface's own addresses are not in the VLAN" },
    { "a:net_null0;vlan=4095", "vlan=4095: must be a number from 1 to 4094" },
    { "a:upd", "link=upd: " NO_SUCH_LINK },
    { "a:udpx,ip=10.0.0.1", "link=udpx,ip=10.0.0.1: " NO_SUCH_LINK },
    { "a:net_rign0", "link=net_rign0: " NO_SUCH_LINK },
    { "a:net_ring0x", "link=net_ring0x: " NO_SUCH_LINK },
    { "a:0000:00:05", "link=0000:00:05: " NO_SUCH_LINK },
    { "a:udp,gsa=no",
      "link udp: unknown option \"gsa\"; udp knows ip=, iface=, gso=, gro=, ident=, "
      "hub=, busy-poll=" },
    { "a:udp,gso=maybe", "link udp: gso=maybe: must be yes or no" },
    { "a:udp,iface=eth0,iface=nope", "link udp: iface= is given twice" },
    { "a:udp,hub=no,hub=auto", "link udp: hub= is given twice" },
    { "a:net_memif0,role=server,role=client", "link net_memif0: role= is given twice" },
    { "a:net_null0,no-rx=1,no-rx=1", "link net_null0: no-rx= is given twice" },
    { "a:net_ring0,nope=3", "link net_ring0: unknown option \"nope\"; net_ring knows nodeaction=" },
    { "a:net_memif3,rsize=2", "link net_memif3: rsize=2: must be a number from 5 to 14" },
    { "a:net_af_packet0", "link=net_af_packet0: the interface is missing; add iface=NAME" },
    { "a:net_af_xdp0,queue_count=1",
      "link=net_af_xdp0,queue_count=1: the interface is missing; add iface=NAME" },
    { "a:udp,ip=127.0.0.1;gateway=127.0.0.2", "gateway=127.0.0.2: not for a link over UDP, which "
                                              "uses the kernel's routes; see `ip route`" },
    { "a:udp,ip=::1;gateway6=fe80::1",
      "gateway6=fe80::1: not for a link over UDP, which uses the kernel's routes; see `ip route`" },
    { "a:udp,ip=127.0.0.1;vlan=10",
      "vlan=10: not for a link over UDP; use an address of the kernel's interface for that VLAN" },
    { "a:net_null0;mtu=575", "mtu=575: must be a number from 576 to 9600" },
    { "a:net_null0;mtu=9601", "mtu=9601: must be a number from 576 to 9600" },
    { "a:net_null0;mtu=-1500", "mtu=-1500: must be a number from 576 to 9600" },
    { "a:net_null0;mtu=1500x", "mtu=1500x: must be a number from 576 to 9600" },
    { "a:net_null0;mtu=1500;mtu=1500", "mtu= is given twice" },
    { "a:net_null0;link=net_ring0", "link= is given twice" },
    { "a:net_null0;MTU=1500",
      "unknown key \"MTU\"; known: link ip gateway gateway6 mac mtu rate "
      "vlan vendor_part_id window engines retry_7 progress cpu pcap impair trace fail like seed "
      "memory verbose telemetry eal hugepages log max_qp max_cq max_srq max_mr max_mw max_pd "
      "max_ah "
      "max_conn max_registered" },
    { "a:net_null0;max_qp=1048561", "max_qp=1048561: must be a number from 0 to 1048560" },
    { "a:net_null0;max_mr=-1", "max_mr=-1: must be a number from 0 to 1048576" },
    { "a:net_null0;max_registered=1g", "max_registered=1g: must be a number of mebibytes" },
    { "a:net_null0;ip=10.0.0.300/24",
      "ip=10.0.0.300/24: must be an address such as 10.0.0.1/24 or fd00::1/64" },
    { "a:net_null0;ip=", "ip=: must be an address such as 10.0.0.1/24 or fd00::1/64" },
    { "a:net_null0;ip=10.0.0.1/24,",
      "ip=10.0.0.1/24,: must be an address such as 10.0.0.1/24 or fd00::1/64" },
    { "a:net_null0;ip=0.0.0.0/8",
      "ip=0.0.0.0/8: must be an address such as 10.0.0.1/24 or fd00::1/64" },
    { "a:net_null0;ip=224.0.0.1/8",
      "ip=224.0.0.1/8: must be an address such as 10.0.0.1/24 or fd00::1/64" },
    { "a:net_null0;ip=255.255.255.255/8",
      "ip=255.255.255.255/8: must be an address such as 10.0.0.1/24 or fd00::1/64" },
    { "a:net_null0;ip=::/64", "ip=::/64: must be an address such as 10.0.0.1/24 or fd00::1/64" },
    { "a:net_null0;ip=ff02::1/64",
      "ip=ff02::1/64: must be an address such as 10.0.0.1/24 or fd00::1/64" },
    { "a:net_null0;ip=10.0.0.1/33", "ip=10.0.0.1/33: the prefix length must be from 1 to 32" },
    { "a:net_null0;ip=10.0.0.1/0", "ip=10.0.0.1/0: the prefix length must be from 1 to 32" },
    { "a:net_null0;ip=10.0.0.1/", "ip=10.0.0.1/: the prefix length must be from 1 to 32" },
    { "a:net_null0;ip=fd00::1/129", "ip=fd00::1/129: the prefix length must be from 1 to 128" },
    { "a:net_null0;ip=10.0.0.1/24,10.0.0.1/24",
      "ip=10.0.0.1/24,10.0.0.1/24: the same address is given twice" },
    { "a:net_null0;gateway=fd00::1", "gateway=fd00::1: must be an IPv4 address such as "
                                     "10.0.0.254" },
    { "a:net_null0;gateway6=10.0.0.1",
      "gateway6=10.0.0.1: must be an IPv6 address such as 2001:db8::1" },
    { "a:net_null0;ip=10.0.0.1/24;gateway=10.0.1.1",
      "gateway=10.0.1.1: must be in the subnet of an ip=" },
    { "a:net_null0;ip=fd00::1/64;gateway6=fd01::1",
      "gateway6=fd01::1: must be in the subnet of an ip=" },
    { "a:net_null0;mac=01:00:00:00:00:01",
      "mac=01:00:00:00:00:01: must be a unicast address such as 02:00:00:00:00:01" },
    { "a:net_null0;mac=00:00:00:00:00:00",
      "mac=00:00:00:00:00:00: must be a unicast address such as 02:00:00:00:00:01" },
    { "a:net_null0;mac=02:00:00:00:00",
      "mac=02:00:00:00:00: must be a unicast address such as 02:00:00:00:00:01" },
    { "a:net_null0;vendor_part_id=4294967296",
      "vendor_part_id=4294967296: must be a number of at most 32 bits, such as 4119" },
    { "a:net_null0;window=0", "window=0: must be a number of packets from 1 to 65536" },
    { "a:net_null0;window=65537", "window=65537: must be a number of packets from 1 to 65536" },
    { "a:udp,ip=127.0.0.1;engines=0", "engines=0: must be auto or a number from 1 to 16" },
    { "a:udp,ip=127.0.0.1;engines=17", "engines=17: must be auto or a number from 1 to 16" },
    { "a:udp,ip=127.0.0.1,hub=no;engines=2",
      "engines=2: several engines share the address, which hub=no forbids; use engines=1" },
    { "a:udp,ip=127.0.0.1;progress=caller;engines=2",
      "engines=2: each engine needs its service thread, which progress=caller forbids; use "
      "engines=1" },
    { "a:udp,ip=127.0.0.1;engines=2;pcap=/tmp/a.pcap",
      "engines=2: pcap= captures only one engine; use engines=1" },
    { "a:udp,ip=127.0.0.1;engines=2;fail=rnr:3",
      "engines=2: fail=rnr counts the messages of only one engine; use engines=1" },
    { "a:udp,ip=127.0.0.1;engines=16;impair=off",
      "engines=16: impair= works with only one engine; use engines=1" },
    { "a:net_null0;retry_7=7", "retry_7=7: must be forever or seven" },
    { "a:net_null0;progress=spin", "progress=spin: must be hybrid, thread or caller" },
    { "a:net_null0;cpu=1024", "cpu=1024: must be the number of a CPU, from 0 to 1023" },
    { "a:net_null0;cpu=-1", "cpu=-1: must be the number of a CPU, from 0 to 1023" },
    { "a:net_null0;pcap=", "pcap=: must not be empty" },
    { "a:net_null0;impair=", "impair=: must not be empty; write off for a link without faults" },
    { "a:net_null0;impair=loss:150%",
      "impair=loss:150%: \"loss:150%\": must be a probability from 0% to 100%, such as 0.5%" },
    { "a:net_null0;impair=loss:1%,delay:3h",
      "impair=loss:1%,delay:3h: \"delay:3h\": must be a time with its unit, ns, us, ms or s, such "
      "as 50us" },
    { "a:net_null0;impair=@", "impair=@: names no file; write @FILE" },
    { "a:net_null0;impair=replay:", "impair=replay:: names no trace; write replay:FILE" },
    { "a:net_null0;trace=/tmp/t",
      "trace=/tmp/t: needs impair=, whose fates it records; add impair=off to record a link "
      "without faults" },
    { "a:net_null0;seed=0", "seed=0: must be a number of at most 64 bits, not 0" },
    { "a:net_null0;seed=18446744073709551616",
      "seed=18446744073709551616: must be a number of at most 64 bits, not 0" },
    { "a:net_null0;seed=0x", "seed=0x: must be a number of at most 64 bits, not 0" },
    { "a:net_null0;memory=0", "memory=0: must be a number of mebibytes from 1 to 1048576" },
    { "a:net_null0;verbose=maybe", "verbose=maybe: must be yes or no" },
    { "a:net_null0;telemetry=on", "telemetry=on: must be yes or no" },
    { "a:net_null0;eal=", "eal=: must not be empty" },
    { "a:net_null0;hugepages=maybe", "hugepages=maybe: must be auto, yes or no" },
    { "a:udp,ip=127.0.0.1;eal=--no-hpet", "eal=: only for DPDK links, and udp is not one" },
    { "a:udp,ip=127.0.0.1;hugepages=no", "hugepages=: only for DPDK links, and udp is not one" },
    { "a:udp,ip=127.0.0.1;telemetry=yes", "telemetry=: only for DPDK links, and udp is not one" },
    { "a:dpdk:", "link=dpdk:: " NO_SUCH_LINK },
    { "a:dpdk:,x=1", "link=dpdk:,x=1: " NO_SUCH_LINK },
    { "a:net_null0;log=some", "log=some: must be none, errors or all" },
    { "a:net_null0;pcap=%{NOT_SET_ANYWHERE}",
      "pcap=%{NOT_SET_ANYWHERE}: names an environment variable that is not set" },
    { "a:net_null0;pcap=%{HOME", "pcap=%{HOME: %{ without a } that closes it" },
    { "a:net_af_packet0,iface=no-such-if",
      "there is no interface \"no-such-if\" in this network namespace; see `ip link`" },
};

static void line__with_a_mistake__message_has_the_wrong_word(void **state)
{
    char expected[512];

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        (void)snprintf(expected, sizeof expected, "UROCE_DEVICES, device 1 (a): %s",
                       wrong[i].problem);
        assert_string_equal(read_one(wrong[i].line)->problem, expected);
    }
}

static void line__bad_name__is_refused(void **state)
{
    static const char *const names[] = { "",    "0a", "a.b",
                                         "a/b", "-a", "a23456789012345678901234567890123" };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(names); i++) {
        char line[128];
        (void)snprintf(line, sizeof line, "%s:net_null0", names[i]);
        assert_non_null(strstr(read_one(line)->problem, "must be 1 to 31 letters"));
    }
}

static void line__link_without_a_name__message_shows_a_whole_description(void **state)
{
    static const char *const lines[] = { "udp,ip=10.0.0.1,hub=no", "udp,ip=fd00::1" };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(lines); i++)
        assert_non_null(strstr(read_one(lines[i])->problem,
                               "write NAME:LINK[;key=value]..., for example uroce0:udp"));
}

static void line__two_mistakes__the_first_is_reported(void **state)
{
    (void)state;
    assert_string_equal(read_one("a:net_null0;mtu=1;cpu=x")->problem,
                        "UROCE_DEVICES, device 1 (a): mtu=1: must be a number from 576 to 9600");
}

static void line__one_wrong_of_three__other_devices_remain(void **state)
{
    (void)state;
    uro_config_read(&config, " a:net_null0  b:net_null1;mtu=x\n\tc:net_null2;mtu=2000 ", NULL);

    assert_int_equal(config.count, 3);
    assert_string_equal(config.entries[0].config.problem, "");
    assert_string_equal(config.entries[1].config.problem, "UROCE_DEVICES, device 2 (b): mtu=x: "
                                                          "must be a number from 576 to 9600");
    assert_string_equal(config.entries[2].config.problem, "");
    assert_int_equal(config.entries[2].config.mtu, 2000);
}

static void line__name_taken__first_device_keeps_the_name(void **state)
{
    (void)state;
    uro_config_read(&config, "a:net_null0 a:net_null1", NULL);

    assert_int_equal(config.count, 2);
    assert_string_equal(config.entries[0].config.problem, "");
    assert_string_equal(
        config.entries[1].config.problem,
        "UROCE_DEVICES, device 2 (a): another device has this name; choose a different one");
}

static void line__star__sets_limits_of_all_devices_and_is_no_device(void **state)
{
    (void)state;
    read_right("a:net_null0;max_qp=7 *;max_qp=5;max_registered=3");
    assert_int_equal(config.entries[0].config.most[URO_QUOTA_QP], 7);
    assert_int_equal(config.process.config.most[URO_QUOTA_QP], 5);
    assert_true(config.process.config.most[URO_QUOTA_MEMORY] == 3 * 1048576);
    assert_true(config.process.config.most[URO_QUOTA_MR] == UINT64_MAX);
    read_right("a:net_null0");
    assert_true(config.process.config.most[URO_QUOTA_QP] == UINT64_MAX);
}

/* If the limits of "*" have an error, there is no device, because no device may run without these
 * limits. */
static void line__star_with_a_mistake__no_device_is_made(void **state)
{
    static const struct {
        const char *line, *problem;
    } stars[] = {
        { "a:net_null0 *;max_qp=x b:net_null1",
          "UROCE_DEVICES, device 2 (*): max_qp=x: must be a number from 0 to 1048560" },
        { "a:net_null0 *;mtu=1500", "UROCE_DEVICES, device 2 (*): unknown key \"mtu\"; known: "
                                    "max_qp max_cq max_srq max_mr max_mw "
                                    "max_pd max_ah max_conn max_registered" },
        { "*:net_null0;max_qp=5", "UROCE_DEVICES, device 1 (*): unknown key \"link\"; known: "
                                  "max_qp max_cq max_srq max_mr max_mw "
                                  "max_pd max_ah max_conn max_registered" },
        { "*;max_qp=5 a:net_null0 *;max_mr=5", "UROCE_DEVICES, device 3 (*): is given twice" },
        { "*;max_qp=5;max_qp=6", "UROCE_DEVICES, device 1 (*): max_qp= is given twice" },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(stars); i++)
        assert_string_equal(read_one(stars[i].line)->problem, stars[i].problem);
}

static void line__more_than_64_devices__one_message(void **state)
{
    char line[70 * 20] = "";

    (void)state;
    for (unsigned i = 0; i < 70; i++) {
        size_t used = strlen(line);
        (void)snprintf(line + used, sizeof line - used, "d%u:net_null%u ", i, i);
    }
    uro_config_read(&config, line, NULL);
    assert_int_equal(config.count, 65);
    assert_string_equal(config.entries[63].config.problem, "");
    assert_string_equal(config.entries[64].config.problem,
                        "UROCE_DEVICES, device 65: more than 64 devices; the rest is left out");
}

static void line__address_table_full__prints_message(void **state)
{
    char line[1024] = "a:net_null0";

    (void)state;
    for (unsigned i = 1; i <= 15; i++) {
        size_t used = strlen(line);
        (void)snprintf(line + used, sizeof line - used, ";ip=10.0.%u.1/24", i);
    }
    assert_int_equal(read_right(line)->gid_count, URO_ENGINE_ADDRESSES_MAX);
    (void)snprintf(line + strlen(line), sizeof line - strlen(line), ";ip=10.0.99.1/24");
    assert_string_equal(
        read_one(line)->problem,
        "UROCE_DEVICES, device 1 (a): ip=10.0.99.1/24: a device has at most 15 addresses");
}

static void line__longest_link__fits_and_one_more_does_not(void **state)
{
    char line[600];

    (void)state;
    (void)snprintf(line, sizeof line, "a:net_null0,");
    memset(line + strlen(line), 'x', 256);
    line[2 + 255] = '\0';
    assert_int_equal(strlen(read_right(line)->link), 255);
    line[2 + 255] = 'x';
    line[2 + 256] = '\0';
    assert_non_null(strstr(read_one(line)->problem, "must be at most 255 characters"));
}

static void expand__variables__are_replaced_in_values(void **state)
{
    (void)state;
    assert_int_equal(setenv("URO_TEST_RANK", "7", 1), 0);
    const struct uro_device_config *d =
        read_right("a:net_memif%{URO_TEST_RANK},id=%{URO_TEST_RANK};ip=10.0.0.%{URO_TEST_RANK}/24");

    assert_string_equal(d->link, "net_memif7,id=7");
    check_gid(d, 1, "10.0.0.7", 24);
    assert_string_equal(read_right("a:net_null0,100%")->link, "net_null0,100%");
}

/* A value from the environment cannot add a key or a device. */
static void expand__separators_in_a_variable__are_part_of_the_value(void **state)
{
    (void)state;
    assert_int_equal(setenv("URO_TEST_RANK", "x;mtu=9000 b:net_null1", 1), 0);
    const struct uro_device_config *d = read_right("a:net_pcap0,%{URO_TEST_RANK}");

    assert_string_equal(d->link, "net_pcap0,x;mtu=9000 b:net_null1");
    assert_int_equal(d->mtu, 1500);
}

static void expand__too_long__is_refused(void **state)
{
    char value[2000];

    (void)state;
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    assert_int_equal(setenv("URO_TEST_RANK", value, 1), 0);
    assert_string_equal(read_one("a:%{URO_TEST_RANK}")->problem,
                        "UROCE_DEVICES, device 1 (a): link=%{URO_TEST_RANK}: is too long");
}

static void expand__exactly_full__fits_and_one_more_does_not(void **state)
{
    char out[5] = { 0, 0, 0, 0, 'c' };

    (void)state;
    assert_null(uro_entry_expand("abc", out, 4));
    assert_string_equal(out, "abc");
    assert_string_equal(uro_entry_expand("abcd", out, 4), "is too long");
    assert_int_equal(out[4], 'c');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config__nothing_set__no_devices),
        cmocka_unit_test(line__name_and_link_only__the_rest_has_defaults),
        cmocka_unit_test(line__every_key__is_read),
        cmocka_unit_test(engines__number_or_auto__as_many_as_the_link_can_have),
        cmocka_unit_test(line__keys_with_a_choice_of_words__each_word_is_read),
        cmocka_unit_test(line__address_without_length__subnet_of_24_or_64),
        cmocka_unit_test(line__rate__is_the_speed_of_the_port),
        cmocka_unit_test(line__with_a_mistake__message_has_the_wrong_word),
        cmocka_unit_test(line__bad_name__is_refused),
        cmocka_unit_test(line__link_without_a_name__message_shows_a_whole_description),
        cmocka_unit_test(line__two_mistakes__the_first_is_reported),
        cmocka_unit_test(line__one_wrong_of_three__other_devices_remain),
        cmocka_unit_test(line__name_taken__first_device_keeps_the_name),
        cmocka_unit_test(line__star__sets_limits_of_all_devices_and_is_no_device),
        cmocka_unit_test(line__star_with_a_mistake__no_device_is_made),
        cmocka_unit_test(line__more_than_64_devices__one_message),
        cmocka_unit_test(line__address_table_full__prints_message),
        cmocka_unit_test(line__longest_link__fits_and_one_more_does_not),
        cmocka_unit_test(expand__variables__are_replaced_in_values),
        cmocka_unit_test(expand__separators_in_a_variable__are_part_of_the_value),
        cmocka_unit_test(expand__too_long__is_refused),
        cmocka_unit_test(expand__exactly_full__fits_and_one_more_does_not),
    };
    return cmocka_run_group_tests_name("config/config", tests, NULL, NULL);
}
