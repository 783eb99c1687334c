/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests librdmacm over a device that imitates a card with RoCE v1 and v2. Its GID table has each
 * address twice. A datagram socket of rsockets first makes an address handle with GID index 0,
 * which is for RoCE v1. */
#include "api/api.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rsocket.h>

static char own[API_ADDRESS];

static int bound_socket(struct sockaddr_in *address)
{
    socklen_t size = sizeof *address;
    const int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

    assert_true(fd >= 0);
    *address = (struct sockaddr_in){ .sin_family = AF_INET };
    assert_int_equal(inet_pton(AF_INET, own, &address->sin_addr), 1);
    assert_int_equal(rbind(fd, (struct sockaddr *)address, sizeof *address), 0);
    assert_int_equal(rgetsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

static void rsocket__datagram_to_the_own_device__arrives(void **state)
{
    struct sockaddr_in to, from;
    char text[16] = "";

    (void)state;
    const int receiver = bound_socket(&to);
    const int sender = bound_socket(&from);
    assert_int_equal(rsendto(sender, "hello", 6, 0, (struct sockaddr *)&to, sizeof to), 6);
    assert_int_equal(rrecv(receiver, text, sizeof text, 0), 6);
    assert_string_equal(text, "hello");
    assert_int_equal(rclose(sender), 0);
    assert_int_equal(rclose(receiver), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rsocket__datagram_to_the_own_device__arrives),
    };

    char devices[80];

    /* A datagram socket of rsockets also binds a socket of the kernel to the address. */
    (void)snprintf(devices, sizeof devices, "uroce0:udp,ip=%s,hub=no;like=connectx5",
                   api_own_address(0, own));
    if (setenv("UROCE_DEVICES", devices, 1) != 0)
        return 1;
    return API_RUN(tests);
}
