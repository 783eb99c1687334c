/* SPDX-License-Identifier: BSD-3-Clause */
/* link_options.c - the driver of links over UDP sockets, with the table of their options. */
#define _GNU_SOURCE /* struct mmsghdr */
#include "io/common/link_options.h"

#include <stddef.h>

#include "io/udp/udp.h"

#define BUSY_POLL_MAX 10000u

static const struct uro_link_option options[] = {
    { "ip", "addresses of the device: auto, an address or a net", URO_OPTION_TEXT, .max = 200,
      .member = URO_OPTION_NOT_KEPT }, /* lib/config reads it */
    { "iface", "network interface whose addresses the device uses", URO_OPTION_TEXT, .max = 31,
      .member = URO_OPTION_NOT_KEPT }, /* lib/config reads it */
    { "gso", "send packets of one message in one call", URO_OPTION_YES_NO,
      .member = offsetof(struct uro_udp_options, sock.segments) },
    { "gro", "receive packets of one message in one call", URO_OPTION_YES_NO,
      .member = offsetof(struct uro_udp_options, sock.coalesces) },
    { "ident", "IPv4 identifications that peers may send", URO_OPTION_CHOICE,
      .choices = { [URO_IP_ID_ANY] = "any",
                   [URO_IP_ID_PLAIN] = "plain",
                   [URO_IP_ID_FULL] = "full" },
      .member = offsetof(struct uro_udp_options, ip_id_rule) },
    { "hub", "share the address with other processes of the user", URO_OPTION_CHOICE,
      .choices = { "auto", "no" }, .member = offsetof(struct uro_udp_options, alone) },
    { "busy-poll", "time for which the kernel polls the network card", URO_OPTION_NUMBER,
      .max = BUSY_POLL_MAX, .unit = "microseconds",
      .member = offsetof(struct uro_udp_options, sock.busy_poll) },
};

static const struct uro_port_driver driver = {
    .prefix = "udp",
    .text = "UDP sockets of the kernel; no rights needed",
    .interface = "iface",
    .flags = URO_DRIVER_KERNEL_ADDRESSES | URO_DRIVER_ENGINES,
    .option_count = URO_ARRAY_LEN(options),
    .options = options,
    .open = uro_udp_open,
};

const struct uro_port_plugin uro_port_plugin = { URO_PORT_PLUGIN_VERSION, 1, &driver };

int uro_udp_options_read(const char *link, struct uro_udp_options *into,
                         char error[static URO_PORT_ERROR_MAX])
{
    *into = (struct uro_udp_options){ .sock = { .segments = true, .coalesces = true } };
    if (uro_link_options_read(&driver, link, into, NULL, error) != 0)
        return -1;
    into->sock.idents = (enum uro_ip_id_rule)into->ip_id_rule;
    return 0;
}
