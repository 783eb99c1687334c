/* SPDX-License-Identifier: BSD-3-Clause */
/* test_packet_link_options.c - tests the options of a link over a packet socket. */
#include "support/check.h"

#include <string.h>

#include "io/packet/packet.h"

static struct uro_packet_options options;
static char error[URO_PORT_ERROR_MAX];

static int read(const char *link)
{
    error[0] = '\0';
    return uro_packet_options_read(link, &options, error);
}

static void packet_link_options__only_iface__others_have_defaults(void **state)
{
    (void)state;
    assert_int_equal(read("net_af_packet0,iface=veth0"), 0);
    assert_string_equal(options.iface, "veth0");
    assert_true(options.gso);
    assert_false(options.qdisc_given);
    assert_int_equal(options.slot, 0);
    assert_int_equal(options.slots, 0);
    assert_int_equal(options.block, 0);
}

static void packet_link_options__options_of_dpdks_driver__are_accepted(void **state)
{
    (void)state;
    assert_int_equal(read("net_af_packet12,iface=eth1,blocksz=65536,framesz=8192,framecnt=512,"
                          "qpairs=1,qdisc_bypass=0,gso=no"),
                     0);
    assert_string_equal(options.iface, "eth1");
    assert_int_equal(options.block, 65536);
    assert_int_equal(options.slot, 8192);
    assert_int_equal(options.slots, 512);
    assert_true(options.qdisc_given);
    assert_int_equal(options.qdisc_bypass, 0);
    assert_false(options.gso);
    assert_int_equal(read("net_af_packet0,iface=eth1,qdisc_bypass=1,gso=yes"), 0);
    assert_true(options.qdisc_given && options.qdisc_bypass == 1 && options.gso);
}

static void packet_link_options__wrong_option__error_has_its_name(void **state)
{
    static const struct {
        const char *link;
        const char *names;
    } wrong[] = {
        { "net_af_packet0", "write net_af_packet0,iface=NAME" },
        { "net_af_packet0,gso=no", "write net_af_packet0,iface=NAME" },
        { "net_af_packet0,iface=", "iface=: must be a text of 1 to 31 characters" },
        { "net_af_packet0,iface=0123456789012345678901234567890123", "iface=0123" },
        { "net_af_packet0,iface=a,gso=1", "gso=1: must be yes or no" },
        { "net_af_packet0,iface=a,qdisc_bypass=yes", "qdisc_bypass=yes: must be 0 or 1" },
        { "net_af_packet0,iface=a,qpairs=2", "qpairs=2: must be 1" },
        { "net_af_packet0,iface=a,framesz=100",
          "framesz=100: must be a number of bytes from 256 to 1048576, a multiple of 16" },
        { "net_af_packet0,iface=a,framesz=2049", "framesz=2049: must be" },
        { "net_af_packet0,iface=a,framecnt=0",
          "framecnt=0: must be a number of frames from 1 to 65536" },
        { "net_af_packet0,iface=a,framecnt=-1", "framecnt=-1: must be a number of frames" },
        { "net_af_packet0,iface=a,framecnt=12x", "framecnt=12x: must be a number of frames" },
        { "net_af_packet0,iface=a,blocksz=5000",
          "blocksz=5000: must be a number of bytes from 4096 to" },
        { "net_af_packet0,iface=a,blocksz=4096,framesz=8192", "framesz=8192 does not fit" },
        { "net_af_packet0,iface=a,fanout=1",
          "unknown option \"fanout\"; net_af_packet knows iface=, gso=, qdisc_bypass=" },
        { "net_af_packet0,iface=a,gso", "gso=: must be yes or no" },
    };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(wrong); i++) {
        assert_int_equal(read(wrong[i].link), -1);
        assert_non_null(strstr(error, wrong[i].names));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packet_link_options__only_iface__others_have_defaults),
        cmocka_unit_test(packet_link_options__options_of_dpdks_driver__are_accepted),
        cmocka_unit_test(packet_link_options__wrong_option__error_has_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
