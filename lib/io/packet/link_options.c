/* SPDX-License-Identifier: BSD-3-Clause */
/* link_options.c - the driver of links over a packet socket, with the table of their options. These
 * are the options of DPDK's af_packet driver, and gso=. */
#include "io/common/link_options.h"

#include <stddef.h>
#include <stdio.h>

#include "io/packet/packet.h"

#define SLOT_MAX    (1u << 20)
#define BLOCK_MAX   (4u << 20)
#define SLOT_GRAIN  16u /* TPACKET_ALIGNMENT of the kernel */
#define BLOCK_GRAIN 4096u

enum { IFACE, GSO, BYPASS, SLOT, SLOTS, BLOCK, PAIRS };

static const struct uro_link_option options[] = {
    [IFACE] = { "iface", "network interface; see `ip link`", URO_OPTION_TEXT, .min = 1,
                .max = URO_IFACE_NAME_MAX - 1,
                .member = offsetof(struct uro_packet_options, iface) },
    [GSO] = { "gso", "send packets of one message as one frame", URO_OPTION_YES_NO,
              .member = offsetof(struct uro_packet_options, gso) },
    [BYPASS] = { "qdisc_bypass", "bypass the queueing discipline of the interface",
                 URO_OPTION_CHOICE, .choices = { "0", "1" },
                 .member = offsetof(struct uro_packet_options, qdisc_bypass) },
    [SLOT] = { "framesz", "size of a slot of the receive ring", URO_OPTION_NUMBER, .min = 256,
               .max = SLOT_MAX, .grain = SLOT_GRAIN, .unit = "bytes",
               .member = offsetof(struct uro_packet_options, slot) },
    [SLOTS] = { "framecnt", "slots of the receive ring", URO_OPTION_NUMBER, .min = 1, .max = 65536,
                .unit = "frames", .member = offsetof(struct uro_packet_options, slots) },
    [BLOCK] = { "blocksz", "size of a block of slots", URO_OPTION_NUMBER, .min = BLOCK_GRAIN,
                .max = BLOCK_MAX, .grain = BLOCK_GRAIN, .unit = "bytes",
                .member = offsetof(struct uro_packet_options, block) },
    [PAIRS] = { "qpairs", "queues; a device has one", URO_OPTION_CHOICE, .choices = { "1" },
                .member = URO_OPTION_NOT_KEPT },
};

static const struct uro_port_driver driver = {
    .prefix = "net_af_packet",
    .text = "a packet socket on a network interface",
    .interface = "iface",
    .flags = URO_DRIVER_NUMBERED | URO_DRIVER_NEEDS_INTERFACE,
    .default_mtu = URO_PORT_MTU_DEFAULT,
    .option_count = URO_ARRAY_LEN(options),
    .options = options,
    .open = uro_packet_open,
};

const struct uro_port_plugin uro_port_plugin = { URO_PORT_PLUGIN_VERSION, 1, &driver };

static int check_together(const struct uro_packet_options *with,
                          char error[static URO_PORT_ERROR_MAX])
{
    if (with->iface[0] == '\0') {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link net_af_packet: the interface is missing; write "
                       "net_af_packet0,iface=NAME");
        return -1;
    }
    if (with->block != 0 && with->slot > with->block) {
        (void)snprintf(error, URO_PORT_ERROR_MAX,
                       "link net_af_packet: framesz=%u does not fit into blocksz=%u; make blocksz= "
                       "a multiple of framesz=",
                       with->slot, with->block);
        return -1;
    }
    return 0;
}

int uro_packet_options_read(const char *link, struct uro_packet_options *into,
                            char error[static URO_PORT_ERROR_MAX])
{
    uint32_t given = 0;

    *into = (struct uro_packet_options){ .gso = true };
    if (uro_link_options_read(&driver, link, into, &given, error) != 0)
        return -1;
    into->qdisc_given = (given >> BYPASS & 1) != 0;
    return check_together(into, error);
}
