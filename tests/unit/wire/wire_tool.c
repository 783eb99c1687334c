/* SPDX-License-Identifier: BSD-3-Clause */
/* wire_tool.c - gives programs in other languages access to uroce's decoder and encoders.
 *
 *   wire_tool read            reads frames from stdin, each after its length in four octets (little
 *                             endian), and prints a line for each frame: RESULT OPCODE PSN
 *                             PAYLOAD_LENGTH
 *   wire_tool make V SIZE...  writes frames to stdout in the same form, over IPv4 or IPv6 (V is 4
 *                             or 6): each opcode with each payload size, or once without payload
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/make_frame.h"
#include "wire/text.h"

#define FRAME_MAX 65535u

static bool read_one(void)
{
    static uint8_t octets[FRAME_MAX];
    uint8_t prefix[4];
    struct uro_frame frame = { .op = NULL };

    if (fread(prefix, sizeof prefix, 1, stdin) != 1)
        return false;
    const uint32_t length = uro_get_le32(prefix);
    if (length > sizeof octets || fread(octets, 1, length, stdin) != length) {
        fprintf(stderr, "wire_tool: a frame of %" PRIu32 " octets is not there\n", length);
        exit(2);
    }
    enum uro_frame_result result = uro_frame_network(octets, length, &frame);
    if (result == URO_FRAME_OK)
        result = uro_frame_roce(&frame);
    printf("%s %02x %" PRIu32 " %" PRIu32 "\n",
           result == URO_FRAME_OK     ? "ok"
           : result == URO_FRAME_ICRC ? "icrc"
                                      : uro_frame_result_text(result),
           frame.bth.opcode, frame.bth.psn, frame.payload_length);
    return true;
}

static void make_one(uint8_t opcode, bool v6, uint32_t size)
{
    static uint8_t out[MADE_FRAME_MAX], payload[4096];
    struct uro_frame frame = {
        .ether = { .dest = { { 2, 0, 0, 0, 0, 1 } },
                   .source = { { 2, 0, 0, 0, 0, 2 } },
                   .type = v6 ? URO_ETHERTYPE_IPV6 : URO_ETHERTYPE_IPV4 },
        .ip = { .v6 = v6,
                .dont_fragment = true,
                .traffic_class = 0x1a,
                .hop_limit = 63,
                .identification = 0x4321,
                .flow_label = v6 ? 0x54321 : 0 },
        .udp = { .source_port = 0xd872, .dest_port = URO_ROCE_PORT },
        .op = &uro_opcodes[opcode],
        .bth = { .opcode = opcode,
                 .solicited = true,
                 .pad_count = (uint8_t)(-size & 3),
                 .pkey = URO_PKEY_DEFAULT,
                 .dest_qpn = 0x123456,
                 .psn = size << 8 | opcode },
        .reth = { UINT64_C(0x0102030405060708), 0x11223344, 0x55667788 },
        .aeth = { URO_AETH_NAK, URO_NAK_ACCESS, 0x765432 },
        .payload = payload,
        .payload_length = size,
    };
    uint8_t prefix[4];

    for (uint32_t i = 0; i < size; i++)
        payload[i] = (uint8_t)(i * 7 + size);
    frame.ip.source.octets[15] = 1;
    frame.ip.dest.octets[15] = 2;
    if (!v6) {
        frame.ip.source = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 1 });
        frame.ip.dest = uro_gid_from_ipv4((const uint8_t[]){ 10, 0, 0, 2 });
    }
    const uint32_t length = make_frame(&frame, out);
    uro_put_le32(prefix, length);
    fwrite(prefix, sizeof prefix, 1, stdout);
    fwrite(out, length, 1, stdout);
}

static int make_all(bool v6, char **sizes, int count)
{
    for (int i = 0; i < count; i++) {
        const unsigned long size = strtoul(sizes[i], NULL, 10);
        if (size > 4096)
            return 2;
        for (unsigned opcode = 0; opcode < 256; opcode++) {
            const struct uro_opcode *op = &uro_opcodes[opcode];
            if (op->name != NULL && (op->payload || i == 0))
                make_one((uint8_t)opcode, v6, op->payload ? (uint32_t)size : 0);
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "read") == 0) {
        while (read_one())
            continue;
        return 0;
    }
    if (argc > 3 && strcmp(argv[1], "make") == 0)
        return make_all(argv[2][0] == '6', argv + 3, argc - 3);
    fprintf(stderr, "usage: wire_tool read | make 4|6 SIZE...\n");
    return 2;
}
