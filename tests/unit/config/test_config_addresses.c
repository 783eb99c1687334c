/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests an interface with more addresses than a device can have, and a machine with more addresses
 * than uroce reads. The test replaces the addresses of the machine with addresses of lo. */
#include "support/check.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "config/config.h"
#include "config/defaults.h"

#define ADDRESSES 200u

static uint32_t lo_addresses; /* number of addresses of lo; 0: the real addresses of the machine */
static struct sockaddr_in numbered[ADDRESSES], mask;
static struct ifaddrs made[ADDRESSES];
static char lo_name[] = "lo";

int __real_getifaddrs(struct ifaddrs **list);
void __real_freeifaddrs(struct ifaddrs *list);
int __wrap_getifaddrs(struct ifaddrs **list);
void __wrap_freeifaddrs(struct ifaddrs *list);

int __wrap_getifaddrs(struct ifaddrs **list)
{
    if (lo_addresses == 0)
        return __real_getifaddrs(list);
    mask = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xff000000) };
    for (uint32_t i = 0; i < lo_addresses; i++) {
        numbered[i] =
            (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001 + i) };
        made[i] = (struct ifaddrs){ .ifa_next = i + 1 < lo_addresses ? &made[i + 1] : NULL,
                                    .ifa_name = lo_name,
                                    .ifa_flags = IFF_UP | IFF_RUNNING,
                                    .ifa_addr = (struct sockaddr *)&numbered[i],
                                    .ifa_netmask = (struct sockaddr *)&mask };
    }
    *list = made;
    return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list)
{
    if (list != made)
        __real_freeifaddrs(list);
}

static const struct uro_device_config *read_with(uint32_t addresses, const char *devices)
{
    static struct uro_config config;

    lo_addresses = addresses;
    uro_config_read(&config, devices, NULL);
    lo_addresses = 0;
    assert_int_equal(config.count, 1);
    assert_string_equal(config.entries[0].config.problem, "");
    return &config.entries[0].config;
}

static void interface__too_many_addresses__message_that_some_are_left_out(void **state)
{
    static const char *const lines[] = { "a:net_af_packet0,iface=lo", "a:udp,iface=lo" };

    (void)state;
    for (size_t i = 0; i < URO_ARRAY_LEN(lines); i++) {
        const struct uro_device_config *d = read_with(URO_ENGINE_ADDRESSES_MAX - 1, lines[i]);
        assert_int_equal(d->gid_count, URO_ENGINE_ADDRESSES_MAX);
        assert_false(d->left_out);
        d = read_with(URO_ENGINE_ADDRESSES_MAX, lines[i]);
        assert_int_equal(d->gid_count, URO_ENGINE_ADDRESSES_MAX);
        assert_true(d->left_out);
    }
}

static void machine__too_many_addresses__message_that_some_are_left_out(void **state)
{
    char text[URO_DEFAULTS_LEFT_OUT_MAX];

    (void)state;
    assert_false(read_with(128, "a:udp,ip=127.0.0.1/32")->left_out);
    const struct uro_device_config *d = read_with(129, "a:udp,ip=127.0.0.0/31");
    assert_true(d->left_out);
    assert_string_equal(uro_defaults_left_out_text(d, text),
                        "WARNING: a does not have all addresses of the machine or the interface: a "
                        "device has at most 15, and uroce reads the first 128 of the machine; name "
                        "the addresses that the device needs with ip=ADDRESS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interface__too_many_addresses__message_that_some_are_left_out),
        cmocka_unit_test(machine__too_many_addresses__message_that_some_are_left_out),
    };
    return cmocka_run_group_tests_name("config/config_addresses", tests, NULL, NULL);
}
