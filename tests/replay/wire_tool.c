/* SPDX-License-Identifier: BSD-3-Clause */
/* wire_tool.c - lib/wire at the other end of a pipe, for scapy_frames.py. A line in, a line out:
 *
 *   decode HEX                    -> RESULT NAME PSN QPN ACK EXT PAYLOAD
 *   encode OPCODE PSN QPN LENGTH  -> HEX of a whole frame, its headers and payload a pattern
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/frame.h"
#include "wire/icrc.h"

#define FRAME_MAX 8192u

static uint32_t from_hex(const char *text, uint8_t *out)
{
    uint32_t length = 0;
    unsigned octet;

    while (length < FRAME_MAX && sscanf(text + 2 * length, "%2x", &octet) == 1)
        out[length++] = (uint8_t)octet;
    return length;
}

static void decode(const char *hex)
{
    static uint8_t octets[FRAME_MAX];
    struct uro_frame frame;
    uint32_t length = from_hex(hex, octets);
    enum uro_frame_result result = uro_frame_network(octets, length, &frame);

    if (result == URO_FRAME_OK)
        result = uro_frame_roce(&frame);
    if (result != URO_FRAME_OK) {
        (void)printf("%d\n", (int)result);
        return;
    }
    (void)printf("0 %s %u %u %d %u %u\n", frame.op->name, frame.bth.psn, frame.bth.dest_qpn,
                 frame.bth.ack_req, uro_ext_length(frame.op->ext), frame.payload_length);
}

static uint8_t *pattern(uint8_t *at, uint32_t length, uint32_t seed)
{
    for (uint32_t i = 0; i < length; i++)
        *at++ = (uint8_t)(seed + i * 7);
    return at;
}

static void encode(uint32_t opcode, uint32_t psn, uint32_t qpn, uint32_t length)
{
    static uint8_t frame[FRAME_MAX];
    uint8_t pad = (uint8_t)(-length & 3u);
    uint32_t ext = uro_ext_length(uro_opcodes[opcode & 0xff].ext);
    uint32_t udp_length = URO_UDP_LEN + URO_BTH_LEN + ext + length + pad + URO_ICRC_LEN;
    const struct uro_ether ether = { .dest = { { 2, 0, 0, 0, 0, 1 } },
                                     .source = { { 2, 0, 0, 0, 0, 2 } },
                                     .type = URO_ETHERTYPE_IPV4 };
    struct uro_ip ip = { .dont_fragment = true,
                         .hop_limit = 64,
                         .traffic_class = (uint8_t)psn,
                         .identification = (uint16_t)psn,
                         .protocol = URO_IPPROTO_UDP,
                         .payload_length = (uint16_t)udp_length };
    const struct uro_udp udp = { 0xc000, URO_ROCE_PORT, (uint16_t)udp_length, 0 };
    const struct uro_bth bth = { .opcode = (uint8_t)opcode,
                                 .pad_count = pad,
                                 .pkey = URO_PKEY_DEFAULT,
                                 .dest_qpn = qpn,
                                 .psn = psn,
                                 .ack_req = psn & 1,
                                 .becn = psn & 2,
                                 .fecn = psn & 4,
                                 .solicited = psn & 8,
                                 .migrated = psn & 16 };

    if (!uro_gid_parse("10.0.0.1", &ip.dest) || !uro_gid_parse("10.0.0.2", &ip.source))
        abort();
    uint8_t *network = frame + uro_ether_put(frame, &ether);
    uint8_t *at = network + uro_ip_put(network, &ip);
    uro_udp_encode(at, &udp);
    at += URO_UDP_LEN;
    uro_bth_encode(at, &bth);
    at = pattern(at + URO_BTH_LEN, ext + length, psn);
    memset(at, 0, pad);
    at += pad;
    uro_put_le32(at, uro_icrc(network, false, (size_t)(at - network)));
    at += URO_ICRC_LEN;
    for (const uint8_t *octet = frame; octet < at; octet++)
        (void)printf("%02x", *octet);
    (void)printf("\n");
}

int main(void)
{
    static char line[2 * FRAME_MAX + 64];
    uint32_t opcode, psn, qpn, length;

    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strncmp(line, "decode ", 7) == 0)
            decode(line + 7);
        else if (sscanf(line, "encode %u %u %u %u", &opcode, &psn, &qpn, &length) == 4)
            encode(opcode, psn, qpn, length);
        else
            return 2;
        if (fflush(stdout) != 0)
            return 1;
    }
    return 0;
}
