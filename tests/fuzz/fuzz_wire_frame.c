/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_wire_frame.c - parses any bytes as a frame. The parser must read nothing outside of the
 * frame, and an accepted frame must have the same bytes when it is encoded again.
 *
 * A fuzzer cannot guess checksums, so each input is also parsed with a corrected IPv4 checksum and
 * ICRC.
 */
#include <stdlib.h>

#include "support/make_frame.h"
#include "wire/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t length);

#define INPUT_MAX 4300u /* make_frame() has room for a payload of 4096 bytes */

/* Aborts unless @condition. Unlike assert(), it works in every build. */
static void demand(bool condition)
{
    if (!condition)
        abort();
}

static bool within(const uint8_t *at, size_t count, const uint8_t *octets, size_t length)
{
    return at >= octets && at <= octets + length && count <= (size_t)(octets + length - at);
}

/* Clears the fields that encoders send as zero and decoders ignore. */
static void clear_reserved(uint8_t *bth, const struct uro_frame *frame)
{
    uint8_t *at = bth + URO_BTH_LEN;
    const unsigned ext = frame->op->ext;

    bth[4] &= 0xc0;
    bth[8] &= 0x80;
    if (ext & URO_EXT_XRCETH) {
        at[0] = 0;
        at += URO_XRCETH_LEN;
    }
    if (ext & URO_EXT_DETH) {
        at[4] = 0;
        at += URO_DETH_LEN;
    }
    if (ext & URO_EXT_FETH) {
        at[0] = at[1] = at[2] = 0;
        at[3] &= 0x3f;
    }
    if (ext & URO_EXT_AETH)
        at[0] &= 0x7f;
    if (ext & URO_EXT_CNP)
        memset(at, 0, URO_CNP_LEN);
    memset((uint8_t *)bth + (frame->payload - frame->body) + frame->payload_length, 0,
           frame->bth.pad_count);
}

static void check_accepted(const struct uro_frame *frame)
{
    static uint8_t made[MADE_FRAME_MAX];
    static uint8_t expected[INPUT_MAX];
    const uint32_t covered = frame->body_length - URO_ICRC_LEN;
    struct uro_frame again;

    memcpy(expected, frame->body, covered);
    clear_reserved(expected, frame);
    const uint32_t length = make_frame(frame, made);
    demand(uro_frame_network(made, length, &again) == URO_FRAME_OK);
    demand(uro_frame_roce(&again) == URO_FRAME_OK);
    demand(again.body_length == frame->body_length);
    demand(memcmp(again.body, expected, covered) == 0);
    demand(again.ip.hop_limit == frame->ip.hop_limit);
    demand(again.ip.traffic_class == frame->ip.traffic_class);
    demand(again.ip.flow_label == frame->ip.flow_label);
    demand(uro_gid_equal(&again.ip.source, &frame->ip.source));
    demand(uro_gid_equal(&again.ip.dest, &frame->ip.dest));
}

/* Parses a frame in both steps. When only the ICRC is wrong, corrects it and tries again. */
static void read_frame(uint8_t *octets, uint32_t length)
{
    struct uro_frame frame;

    if (uro_frame_network(octets, length, &frame) != URO_FRAME_OK)
        return;
    demand(within(frame.network, 0, octets, length));
    demand(within(frame.body, frame.body_length, octets, length));
    if (frame.ether.type == URO_ETHERTYPE_ARP || frame.ip.protocol != URO_IPPROTO_UDP)
        return;

    enum uro_frame_result result = uro_frame_roce(&frame);
    if (result == URO_FRAME_ICRC) {
        uint8_t *icrc = octets + (frame.body - octets) + frame.body_length - URO_ICRC_LEN;
        uro_put_le32(icrc, uro_icrc(frame.network, frame.ip.v6, (size_t)(icrc - frame.network)));
        if (uro_frame_network(octets, length, &frame) != URO_FRAME_OK)
            return; /* the frame has a UDP checksum, which is wrong now */
        result = uro_frame_roce(&frame);
        demand(result != URO_FRAME_ICRC);
    }
    if (result != URO_FRAME_OK)
        return;
    demand(within(frame.payload, frame.payload_length, octets, length));
    demand(frame.payload_length == 0 || frame.op->payload);
    check_accepted(&frame);
}

static void repair_ipv4(uint8_t *octets, uint32_t length)
{
    const uint32_t at = length > 17 && uro_get_be16(octets + 12) == URO_ETHERTYPE_VLAN ? 18 : 14;

    if (length < at + URO_IPV4_LEN || octets[at] >> 4 != 4)
        return;
    const uint32_t header = (octets[at] & 15u) * 4;
    if (header < URO_IPV4_LEN || length < at + header)
        return;
    uro_put_be16(octets + at + 10, 0);
    uro_put_be16(octets + at + 10, uro_ip_sum_finish(uro_ip_sum(0, octets + at, header)));
}

int LLVMFuzzerTestOneInput(const uint8_t *octets, size_t length)
{
    char line[URO_TEXT_LINE_MAX];

    if (length == 0 || length > INPUT_MAX)
        return 0;
    uint8_t *exact = malloc(length); /* exact size, so that reads beyond it are detected */
    demand(exact != NULL);
    memcpy(exact, octets, length);

    uro_text_line(exact, (uint32_t)length, line);
    read_frame(exact, (uint32_t)length);
    repair_ipv4(exact, (uint32_t)length);
    read_frame(exact, (uint32_t)length);
    uro_text_line(exact, (uint32_t)length, line);
    demand(memchr(line, '\0', sizeof line) != NULL);
    free(exact);
    return 0;
}
